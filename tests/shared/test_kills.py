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


def test_random_kills():
    test = CrashTest(kills=40, seed=1, commands=(PYTHON_WORKER, f"{PYTHON_WORKER} portable"))
    test.run()
    assert test.num_kills >= 40 and test.num_checks >= 5 and test.num_references > 0 and test.num_operations > 1000


@pytest.mark.parametrize("only, old, new", [
    ("heal", "block < me->num_blocks && got < n", "0 && got < n"),  # never looks at the words themselves
    ("reap", "if (row[block])", "if (0)"),  # leaves the counts of the dead
    ("release, into the cache", "~(dead | CACHED)", "~dead"),  # leaves blocks in the cache of nobody
    ("release", "if (!(word & HOLDERS))\n            healed", "if (0)\n            healed"),  # leaves hints lost
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
