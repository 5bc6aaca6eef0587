"""Random calls of the cache manager next to its model, as many as wanted.

    python -m tests.core.manager_long --operations 5000000 --seed 1

Many short lives of small managers, so that pools are often full and prompts collide. Every call is compared with the
model (see `manager_checked`), everything that can be seen is compared every few calls. What differs is raised as
`Differs`, which tells the calls of that life as Python, and can be had again with --seed and --life.
"""

import argparse
import logging
import random
import time
from array import array
from collections import Counter

from pagedkv import KVCacheManager
from tests.core.manager_checked import Checked, CheckedManager

OPERATIONS_PER_LIFE = 150
BLOCK_SIZES = (1, 1, 2, 2, 3, 4, 4, 16)
SALTS = (None,) * 8 + ("a", "b", b"a", "")
KINDS = (list, list, tuple, lambda tokens: array("i", tokens), lambda tokens: array("q", tokens))
BAD_TOKENS = ([], ([1, 2**31], 0), [-2**31 - 1], [1.0], [0, "1"], None, [[1, 2]], "12", [None])
CALLS = (*("add",) * 11, *("append",) * 9, *("append_burst",) * 3, *("append_many",) * 6, *("fork",) * 4,
         *("free",) * 14, "reclaim", *("sync",) * 3, "find", "find", "raw_allocate", "raw_retain", "raw_release",
         "raw_release", "bad", "bad")


class Differs(AssertionError):
    """Manager and model differ."""


def run(num_operations: int, seed: int, make=KVCacheManager, check_every: int = 12) -> Counter:
    """Call until `num_operations` calls were made. Returns how often each rule of the model mattered, and how many
    calls there were as "operations"."""
    counts: Counter = Counter()
    life = 0
    while counts["operations"] < num_operations:
        live(seed, life, counts, make, check_every)
        life += 1
    return counts


def live(seed: int, life: int, counts: Counter, make=KVCacheManager, check_every: int = 12) -> None:
    """One manager from its making to the end of all its sequences. The same for the same seed and life."""
    chance = random.Random(f"{seed} {life}")
    num_blocks = max(chance.randint(1, 12), chance.randint(1, 12))
    checked = CheckedManager(num_blocks, chance.choice(BLOCK_SIZES), observed=chance.random() < 0.5, make=make)
    driver = Driver(checked, chance)
    try:
        while checked.num_operations < OPERATIONS_PER_LIFE:
            call = chance.choice(CALLS)
            checked.drain_refused = chance.random() < 0.15
            getattr(driver, call)()
            if chance.randrange(check_every) == 0:
                checked.check()
        driver.end()
    except Exception as error:
        raise Differs(f"{type(error).__name__}: {error}\n--seed {seed} --life {life}, after\n{checked.story()}"
                      ) from error
    counts.update(checked.model.seen)
    counts["operations"] += checked.num_operations


class Driver:
    """Chooses what is asked of one manager. A method makes one call or a few, or none where there is nothing to do."""

    def __init__(self, checked: CheckedManager, chance: random.Random):
        self.checked = checked
        self.chance = chance
        self.num_tokens = chance.choice((1, 2, 2, 3))  # the alphabet: so small that prompts are often the same
        self.prompts: list[list[int]] = [[0]]
        self.most_tokens = checked.num_blocks * checked.block_size + 2

    def prompt(self) -> list[int]:
        """A new one, one from before, or one from before with other tokens at its end."""
        chance, block_size = self.chance, self.checked.block_size
        kind = chance.random()
        base = [] if kind < 0.3 else list(chance.choice(self.prompts))
        if kind > 0.9:
            base = base[:len(base) // block_size * block_size]  # nothing but full blocks
        if base and kind > 0.5:
            return base[:self.most_tokens]
        if base:
            del base[chance.randint(0, len(base)):]
        most = chance.choice((1, block_size, 2 * block_size, 3 * block_size, 4 * block_size, self.most_tokens))
        more = chance.randint(1, max(1, most))
        return (base + [chance.randrange(self.num_tokens) for _ in range(more)])[:self.most_tokens]

    def token(self) -> int:
        return self.chance.randrange(self.num_tokens)

    def any(self) -> Checked | None:
        sequences = self.checked.sequences
        return self.chance.choice(sequences) if sequences else None

    def remember(self, tokens: list[int]) -> None:
        self.prompts = [*self.prompts[-11:], list(tokens)]

    def add(self) -> None:
        tokens = self.prompt()
        self.remember(tokens)
        owner = self.chance.choice((None, None, "A", "B"))
        self.checked.add(tokens, self.chance.choice(SALTS), owner, self.chance.choice(KINDS))

    def append(self) -> None:
        if one := self.any():
            self.checked.append(one, self.token())

    def append_burst(self) -> None:
        """To the end of a block, and then perhaps over it, without a sync in between."""
        if one := self.any():
            block_size = self.checked.block_size
            for _ in range(block_size - len(one.tokens) % block_size + self.chance.randint(0, 1)):
                if not self.checked.append(one, self.token()):
                    break

    def append_many(self) -> None:
        sequences = self.checked.sequences
        many = self.chance.sample(sequences, self.chance.randint(0, len(sequences)))
        self.checked.append_many(many, [self.token() for _ in many])

    def fork(self) -> None:
        if (one := self.any()) and len(self.checked.sequences) < 16:
            self.checked.fork(one)

    def free(self) -> None:
        if one := self.any():
            self.remember(one.tokens)
            self.checked.free(one)

    def reclaim(self) -> None:
        if one := self.any():
            self.checked.free(one, by="reclaim")

    def sync(self) -> None:
        self.checked.sync()

    def find(self) -> None:
        self.checked.find(self.prompt(), self.chance.choice(SALTS))

    def raw_allocate(self) -> None:
        if len(self.checked.raw) < 4:
            self.checked.raw_allocate(self.chance.randint(0, 3))

    def raw_retain(self) -> None:
        if (one := self.any()) and len(self.checked.raw) < 4:
            # Only full blocks that nobody can find: what can be written to or found is shared and given back by the
            # manager alone.
            full = one.model.table[:len(one.tokens) // self.checked.block_size]
            blocks = [block for block in full if block not in self.checked.model.piece_of]
            self.checked.raw_retain(self.chance.choices(blocks, k=self.chance.randint(1, 2)) if blocks else [])

    def raw_release(self) -> None:
        if self.checked.raw:
            self.checked.raw_release(self.chance.randint(1, len(self.checked.raw)))

    def bad(self) -> None:
        """Something that must be refused."""
        checked, chance = self.checked, self.chance
        errors = (ValueError, TypeError)
        freed = chance.choice(checked.freed) if checked.freed else None
        kind = chance.randrange(9)
        if kind == 0:
            tokens = chance.choice(BAD_TOKENS)
            checked.refused(errors, f"add_sequence({tokens})", lambda manager: manager.add_sequence(tokens))
        elif kind == 1:
            checked.refused(TypeError, "salt=7", lambda manager: manager.add_sequence([1], salt=7))
        elif kind == 2 and checked.sequences:
            one = self.any()
            token = chance.choice((2**31, -2**31 - 1, 1.5, "1", None))
            checked.refused(errors, f"append_token({one.name}, {token!r})",
                            lambda manager: manager.append_token(one.handle, token))
        elif kind == 3 and checked.sequences:
            handles = [one.handle for one in checked.sequences]
            zeros = [0] * len(handles)
            many, tokens = chance.choice(((handles + handles[:1], [0, *zeros]), (handles, zeros[1:]),
                                          (handles, [*zeros[1:], 2**31])))
            checked.refused(errors, f"append_tokens({len(many)} sequences, {tokens})",
                            lambda manager: manager.append_tokens(many, tokens))
        elif freed is not None:
            chance.choice((checked.free_again, checked.append_after_free, checked.append_many_after_free,
                           checked.fork_after_free, checked.reclaim_again))(freed)

    def end(self) -> None:
        """Everything is given back, and then everything can be had."""
        checked = self.checked
        while checked.sequences:
            self.free()
        if checked.raw:
            checked.raw_release(len(checked.raw))
        checked.check()
        assert checked.manager.num_used_blocks == 0
        checked.raw_allocate(checked.num_blocks)
        assert sorted(checked.raw) == list(range(checked.num_blocks))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--operations", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--life", type=int, help="only this one")
    options = parser.parse_args()
    logging.getLogger("pagedkv").setLevel(logging.ERROR)  # else a line for each sequence that is reclaimed
    began = time.process_time()
    if options.life is not None:
        counts: Counter = Counter()
        live(options.seed, options.life, counts)
    else:
        counts = run(options.operations, options.seed)
    seconds = time.process_time() - began
    print(f"{counts['operations']:,} operations in {seconds:.0f} s of CPU time, seed {options.seed}: all agrees")
    for what, count in counts.most_common():
        if what != "operations":
            print(f"    {count:>12,}  {what}")


if __name__ == "__main__":
    main()
