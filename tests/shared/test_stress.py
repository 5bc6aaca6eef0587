"""Four processes at once on few blocks: nobody gets a block that another one has, and none is lost. Three with a prefix
index: what is found is what was published for these tokens."""

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
        return at_once([["tests.shared.stress_worker", name, table, str(number), str(rounds), kind, str(cache_blocks),
                         *source] for number in range(1, 5)])
    return stress


def at_once(commands):
    """Run modules, which begin when all are ready: what they said, and how they ended."""
    processes = [subprocess.Popen([sys.executable, "-m", *command], cwd=ROOT, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=120) for process in processes]
    return [(process.returncode, out, err) for process, (out, err) in zip(processes, said)]


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
        pytest.skip("the fault is planted in pool.c, which the portable operations do not use")
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


def test_what_is_found_is_what_was_published(create, kind, name):
    pool = create(num_blocks=40, tokens_per_block=2)
    rounds = 6_000 if kind == "compiled" else 1_000
    ends = at_once([["tests.shared.index_stress_worker", name, str(number), str(rounds), kind] for number in range(3)])
    for status, out, err in ends:
        assert status == 0 and int(out) > rounds / 10, err
    assert pool.num_free_blocks == 40 and pool.num_cached_blocks > 0
    pool.reap()
    assert not list(State(name).faults([0]))


@pytest.mark.parametrize("compares", [True, False])
def test_reuse_has_to_compare_once_more(create, kind, name, tmp_path, compares):
    """A pool.c that takes its time between finding a block and holding it: others evict it meanwhile, and publish other
    content there. One that does not look again gives out the wrong block."""
    if kind != "compiled":
        pytest.skip("the fault is planted in pool.c, which the portable operations do not use")
    source = compiled_operations.PIECE.source.read_text()
    changes = [("    uint32_t *count = own_counts(me) + *block;\n    if (*count)",
                "    for (volatile int i = 0; i < 50000; i++) {}\n    uint32_t *count = own_counts(me) + *block;\n"
                "    if (*count)")]
    if not compares:
        changes.append(("    node = node_with_key(me, *block, key); /* it cannot change any more */\n", ""))
    for old, new in changes:
        assert source.count(old) == 1
        source = source.replace(old, new)
    (tmp_path / "pool.c").write_text(source)
    create(num_blocks=20, tokens_per_block=2)
    for _ in range(1 if compares else 5):  # usually at once
        ends = at_once([["tests.shared.index_stress_worker", name, str(number), "4000", kind, str(tmp_path / "pool.c")]
                        for number in range(3)])
        if any(status for status, *_ in ends):
            break
    assert any("is found for" in err for _, _, err in ends) != compares, ends
