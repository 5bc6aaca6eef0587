"""Four processes at once on few blocks: nobody gets a block that another one has, and none is lost."""

import subprocess
import sys

import pytest

from pagedkv.shared import compiled_operations
from tests.shared.crash import ROOT
from tests.shared.state import State

NUM_BLOCKS = 90


@pytest.fixture
def stress(name, tmp_path):
    def stress(rounds, kind, cache_blocks, *source):
        """What four processes said, and how they ended."""
        table = tmp_path / "owners"
        table.write_bytes(bytes(8 * NUM_BLOCKS))
        processes = [subprocess.Popen([sys.executable, "-m", "tests.shared.stress_worker", name, table, str(number),
                                       str(rounds), kind, str(cache_blocks), *source], cwd=ROOT, stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                     for number in range(1, 5)]
        for process in processes:
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            process.stdin.write("go\n")
            process.stdin.flush()
        said = [process.communicate(timeout=120) for process in processes]
        return [(process.returncode, out, err) for process, (out, err) in zip(processes, said)]
    return stress


@pytest.mark.parametrize("cache_blocks", [0, 4])
def test_each_block_has_one_owner(create, kind, name, stress, cache_blocks):
    pool = create(num_blocks=NUM_BLOCKS)
    rounds = 20_000 if kind == "compiled" else 1_500
    for status, out, err in stress(rounds, kind, cache_blocks):
        assert (status, out) == (0, f"{rounds}\n"), err
    assert pool.num_free_blocks == NUM_BLOCKS
    state = State(name)
    assert state.free == state.empty == set(range(NUM_BLOCKS)) and not list(state.faults([0]))


def test_the_table_of_owners_finds_a_race(create, kind, stress, tmp_path):
    """The same with a pool.c that claims a word by looking and then writing, in two steps."""
    if kind != "compiled":
        pytest.skip("one of the two is enough")
    source = compiled_operations.PIECE.source.read_text()
    for old, new in (("if (!compare_and_swap(hints + at, &seen, left))\n            continue;", "hints[at] = left;"),
                     ("    return __atomic_compare_exchange_n(at, seen, wanted, 0, __ATOMIC_SEQ_CST, "
                      "__ATOMIC_SEQ_CST);",
                      "    *(volatile uint64_t *)at = wanted;\n    return 1;")):
        assert source.count(old) == 1
        source = source.replace(old, new)
    (tmp_path / "pool.c").write_text(source)
    create(num_blocks=NUM_BLOCKS)
    for _ in range(5):  # usually at once; on a single core it takes longer
        ends = stress(20_000, kind, 0, str(tmp_path / "pool.c"))
        if any(status for status, *_ in ends):
            break
    assert any("was handed out to" in err or "has it" in err or "DoubleFree" in err for _, _, err in ends)
