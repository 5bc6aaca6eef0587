"""The crash test, in short; see `crash` for random kills, `aimed` for those before every single write.

    python -m tests.shared.crash --kills 2000 --seed 1

is the long one."""

import re
import subprocess
import sys

import pytest

from pagedkv.core import native
from pagedkv.shared import compiled_operations
from tests.shared.crash import ROOT, PYTHON_WORKER, CrashTest

if not native.compilers(native.C):
    pytest.skip("the crash test needs a C compiler", allow_module_level=True)


def sweep(kind, *more):
    return subprocess.run([sys.executable, "-m", "tests.shared.aimed", kind, *more], cwd=ROOT, capture_output=True,
                          text=True)


def test_kills_before_every_write(kind):
    run = sweep(kind)
    assert run.returncode == 0, run.stderr[-3000:]
    kills = {name: int(number) for number, name in re.findall(r"(\d+) (.+)", run.stdout)}
    assert kills["kills"] >= 200 and kills["allocate"] >= 7
    # Both forms take the same steps. One block: hints, count, word. Three: 1 + 3 × 2.
    assert kills["allocate"] == 7 and kills["release"] == 9 and kills["allocate, from the cache"] == 9
    # Five blocks: last node, node 0, parent, 4 × salt, 2 × tokens, node, word, bucket; and count and word.
    assert kills["publish"] == 60 and kills["reuse"] == 10 and kills["reuse, once more"] == 5


def test_random_kills():
    test = CrashTest(kills=40, seed=1, commands=(PYTHON_WORKER, f"{PYTHON_WORKER} portable"))
    test.run()
    assert test.num_kills >= 40 and test.num_checks >= 5 and test.num_references > 0 and test.num_operations > 1000
    assert test.num_published > 100


@pytest.mark.parametrize("only, old, new", [
    ("heal", "block < me->num_blocks && got < n", "0 && got < n"),  # never looks at the words themselves
    ("reap", "if (row[block])", "if (0)"),  # leaves the counts of the dead
    ("release, into the cache", "~(dead | CACHED)", "~dead"),  # leaves blocks in the cache of nobody
    ("release", "if (!(word & HOLDERS))\n            healed", "if (0)\n            healed"),  # leaves hints lost
    # says that the content is there before it is
    ("publish", "    write_record(me, block, &key, node);\n", "    __atomic_fetch_or(me->words + block, CONTENT, 5);\n"
     "    write_record(me, block, &key, node);\n    insert(me, hash_of(me, &key), block);\n    return node;\n"),
    ("retain, refused", "if (!(seen & HOLDERS) || seen & CACHED ||", "if ("),  # retains what is free
    # takes survivors out, too
    ("release, of shared blocks", "&seen, left));\n        if (!(left & HOLDERS)) {",
     "&seen, 0));\n        if (!(left & HOLDERS)) {")])
def test_the_sweep_finds_what_is_wrong(tmp_path, only, old, new):
    source = compiled_operations.PIECE.source.read_text()
    assert source.count(old) == 1
    (tmp_path / "pool.c").write_text(source.replace(old, new))
    run = sweep("compiled", "--only", only, "--source", tmp_path / "pool.c")
    assert run.returncode == 1 and ("AssertionError" in run.stderr or "OutOfBlocks" in run.stderr)
