"""Kills that are aimed: a member is killed before each single write of each operation.

    python -m tests.shared.aimed compiled

This process is a member that survives. For each operation, and n = 0, 1, 2 … until the operation comes to its end, it
forks a child, which joins the pool for itself, and is killed before the n-th write. Then, before anything is reaped,
the survivor goes on working; every free block can be had, also those whose hints were lost; and after reaping, all is
as if the child had never been. Forking is quick, and does no harm here since this process has one thread.
"""

import argparse
import os
import signal
import sys
from pathlib import Path
from types import SimpleNamespace

from pagedkv.core.errors import OutOfBlocks, UseAfterFree
from pagedkv.shared import NoSuchPool, NotReady, PoolExists, SharedPool, segment
from tests.shared.state import CONTENT, State, numbers
from tests.shared.steps import die_at_line, stepped

NUM_BLOCKS = 80  # two numbers of hints, the second not whole
MOST_STEPS = 2000
TOKENS_PER_BLOCK, TOKENS = 2, list(range(10, 20))  # of the operations on the prefix index


def data_of(block):
    return bytes((7 * block + i) % 256 for i in range(64))


def data_of_place(place):
    """What the block with these of the TOKENS contains."""
    return bytes(TOKENS[2 * place:2 * place + 2]) * 32


class Sweep:
    def __init__(self, kind, source=None):
        self.countdown, self.make = stepped(kind, source)
        self.name = f"aimed-{os.getpid()}"
        self.num_kills = 0
        self.kills_by_operation = {}

    def run(self, only=None):
        for name in OPERATIONS:
            if only in (None, name):
                self.sweep(name)
        if only is not None:
            return
        for name, functions in (("create, by line", (segment.make,)), ("remove, by line", (segment.remove,)),
                                ("join, by line", (SharedPool._enter, SharedPool._take_slot)),
                                ("close, by line", (SharedPool.close,)), ("reap, by line", (SharedPool.reap,))):
            self.sweep_lines(name, functions)

    # ── by writes ──

    def sweep(self, name):
        for steps in range(MOST_STEPS):
            pool = self.new_pool(OPERATIONS[name].tokens_per_block)
            before = OPERATIONS[name].survivor(self, pool)
            held = self.hold(pool, before)
            died = self.in_child(lambda: self.act(OPERATIONS[name], steps))
            if died:
                self.check(pool, held, f"{name}, killed before write {steps}", by_join=steps % 2 == 1)
            pool.unlink()
            pool.close()
            if not died:
                assert steps > 0, f"{name} wrote nothing"
                self.kills_by_operation[name] = steps
                return
        raise AssertionError(f"{name} has no end")

    def new_pool(self, tokens_per_block=0):
        self.data = {}  # by block, of what the survivor holds
        return SharedPool.create(self.name, NUM_BLOCKS, 64, operations=self.make, replace=True,
                                 tokens_per_block=tokens_per_block)

    def hold(self, pool, blocks):
        for block in blocks:
            if block not in self.data:
                self.data[block] = pool.buffer(block)[:] = data_of(block)
        return blocks

    def act(self, operation, steps):
        if operation.arm_before_join:
            self.countdown.arm(steps)
        pool = SharedPool.join(self.name, operations=self.make, cache_blocks=operation.cache_blocks)
        with numbers(self.name) as words:
            prepared = operation.prepare(self, pool, words)
        self.countdown.arm(steps)
        operation.act(self, pool, prepared)
        self.countdown.disarm()

    # ── by lines of Python ──

    def sweep_lines(self, name, functions):
        for line in range(MOST_STEPS):
            pool = self.new_pool()
            held = self.hold(pool, pool.allocate(3))
            died = self.in_child(lambda: self.act_by_line(name, line, functions))
            if died and name.startswith("create"):
                self.check_creation(f"{name} {line}")
            elif died and name.startswith("remove"):
                SharedPool.remove(self.name + ".other")
                assert not segment.pool_path(self.name + ".other").exists()
                assert len(locks := list(segment.FOLDER.glob(f"pagedkv-lock.{self.name}.other.*"))) <= 1
                for path in locks:  # of the window between the two: an empty file, nobody's
                    path.unlink()
            elif died:
                self.check(pool, held, f"{name} {line}", by_join=line % 2 == 1)
            pool.unlink()
            pool.close()
            if not died:
                assert line > 0, f"{name} executed nothing"
                self.kills_by_operation[name] = line
                return
        raise AssertionError(f"{name} has no end")

    def act_by_line(self, name, line, functions):
        if name.startswith("create"):
            die_at_line(line, *functions)
            SharedPool.create(self.name + ".other", 8, 64, operations=self.make)
            sys.settrace(None)
            SharedPool.remove(self.name + ".other")
        elif name.startswith("remove"):
            SharedPool.create(self.name + ".other", 8, 64, operations=self.make)
            die_at_line(line, *functions)
            assert SharedPool.remove(self.name + ".other")
            sys.settrace(None)
        else:
            self.leave_a_dead_member()
            if name.startswith("join"):
                die_at_line(line, *functions)
            pool = SharedPool.join(self.name, operations=self.make)
            pool.allocate(2)
            if not name.startswith("join"):
                self.leave_a_dead_member()
            die_at_line(line, *functions)
            pool.close() if name.startswith("close") else pool.reap()
            sys.settrace(None)

    def check_creation(self, when):
        other = self.name + ".other"
        try:
            SharedPool.join(other, operations=self.make, wait_seconds=0).close()
            state = "ready"
        except NotReady:
            state = "not ready"
        except NoSuchPool:
            state = "not there"
        if state != "not there":
            try:
                SharedPool.create(other, 8, 64, operations=self.make)
                raise AssertionError(f"{when}: created over one that is {state}")
            except PoolExists:
                pass
        with SharedPool.create(other, 8, 64, operations=self.make, replace=True) as pool:
            assert len(pool.allocate(8)) == 8
            pool.unlink()
            pool.release(range(8))
        left = list(segment.FOLDER.glob(f"pagedkv*{other}*"))
        assert not left, f"{when}: {left}"

    # ── children ──

    def in_child(self, run):
        """Whether it was killed. Anything else than that, or success, is a failure of the test."""
        child = os.fork()
        if child == 0:
            status = 1
            try:
                run()
                status = 0
            except BaseException:
                import traceback
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, status = os.waitpid(child, 0)
        if os.WIFSIGNALED(status):
            assert os.WTERMSIG(status) == signal.SIGKILL, status
            self.num_kills += 1
            return True
        assert status == 0, f"a child failed, see above ({status})"
        return False

    def leave_a_dead_member(self):
        """One that holds blocks of its own, and is a holder of others'."""
        def run():
            pool = SharedPool.join(self.name, operations=self.make, cache_blocks=2)
            held = [block for block in range(NUM_BLOCKS) if pool.refcount(block)]
            pool.release(pool.allocate(3))
            pool.retain(held[:2] * 2)
            pool.retain(pool.allocate(4)[:2])
            os.kill(os.getpid(), signal.SIGKILL)
        assert self.in_child(run)
        self.num_kills -= 1  # this one was not aimed

    # ── what has to hold ──

    def check(self, pool, held, when, by_join):
        # the survivor goes on, with the dead one still in the table
        if pool.tokens_per_block:
            self.check_index(pool, when)
        blocks = pool.allocate(min(2, pool.num_free_blocks))
        assert not set(blocks) & set(held), when
        pool.release(blocks)
        if by_join:
            # whoever joins gets a dead one's slot, reaped; no hint is healed, but every block can be had
            with SharedPool.join(self.name, operations=self.make) as other, \
                    SharedPool.join(self.name, operations=self.make) as another:
                assert (other.slot, another.slot) == (1, 2), when
                assert other.refcounts() == pool.refcounts() == self.expected(held), when
                rest = other.allocate(other.num_free_blocks)
                assert sorted(rest + held) == list(range(NUM_BLOCKS)), when
                other.release(rest)
        report = pool.reap()
        assert not by_join or not report.dead, when
        faults = list(State(self.name).faults([pool.slot]))
        assert not faults, f"{when}: {faults[:3]}"
        assert pool.refcounts() == self.expected(held), when
        assert pool.num_free_blocks == NUM_BLOCKS - len(held), when
        rest = pool.allocate(NUM_BLOCKS - len(held))
        assert sorted(rest + held) == list(range(NUM_BLOCKS)), when
        for block in held:
            assert pool.buffer(block) == self.data[block], f"{when}: data of block {block}"
        pool.release(rest)
        if pool.tokens_per_block:
            self.check_index(pool, when)
        pool.release(held)
        assert pool.num_free_blocks == NUM_BLOCKS, when

    def check_index(self, pool, when):
        """What is found is complete, and what is missing can be published."""
        found = pool.reuse(TOKENS)
        for place, block in enumerate(found):
            assert pool.buffer(block) == data_of_place(place), f"{when}: block {block} is found at place {place}"
        new = pool.allocate(min(len(TOKENS) // TOKENS_PER_BLOCK - len(found), pool.num_free_blocks))
        for place, block in enumerate(new, len(found)):
            pool.buffer(block)[:] = data_of_place(place)
        assert pool.publish(TOKENS, found + new) == len(found + new), when
        assert pool.find(TOKENS) == found + new, when
        pool.release(found + new)

    def expected(self, held):
        return [held.count(block) for block in range(NUM_BLOCKS)]


# ── the operations ───────────────────────────────────────────────────────────────────────────────────────────────────

def hold_some(sweep, pool):
    return pool.allocate(5)


def hold_most(sweep, pool):
    return pool.allocate(NUM_BLOCKS - 8)


def hold_to_the_end_of_a_hint(sweep, pool):
    return pool.allocate(61)


def leave_content(sweep, pool):
    """All that is free has content, but two."""
    blocks = pool.allocate(NUM_BLOCKS)
    with numbers(sweep.name) as words:
        at = State(sweep.name).offsets[3] // 8
        for block in blocks[5:-2]:
            words[at + block] |= CONTENT
    pool.release(blocks[5:])
    return blocks[:5]


def lose_hints(sweep, pool):
    blocks = pool.allocate(NUM_BLOCKS - 9)
    with numbers(sweep.name) as words:
        for at in State(sweep.name).offsets[1:3]:
            for i in range(2):
                words[at // 8 + i] = 0
    return blocks


def leave_dead(sweep, pool):
    blocks = pool.allocate(5)
    sweep.leave_a_dead_member()
    return blocks


def publish_all(sweep, pool, blocks=None):
    """Five blocks with the TOKENS, still held."""
    blocks = pool.allocate(len(TOKENS) // TOKENS_PER_BLOCK)
    for place, block in enumerate(blocks):
        sweep.data[block] = pool.buffer(block)[:] = data_of_place(place)
    assert pool.publish(TOKENS, blocks) == len(blocks)
    return blocks


def leave_published(sweep, pool):
    """Two of five are held, the others free."""
    blocks = publish_all(sweep, pool)
    pool.release(blocks[2:])
    return blocks[:2]


def leave_little_else(sweep, pool):
    """All is held but three empty blocks and five that can be found."""
    blocks = publish_all(sweep, pool)
    others = pool.allocate(NUM_BLOCKS - 8)
    pool.release(blocks)
    return others


def written(sweep, pool, words):
    blocks = pool.allocate(len(TOKENS) // TOKENS_PER_BLOCK)
    for place, block in enumerate(blocks):
        pool.buffer(block)[:] = data_of_place(place)
    return blocks


def refused(error, call):
    try:
        call()
    except error:
        return
    raise AssertionError(f"no {error.__name__}")


def operation(act, prepare=lambda sweep, pool, words: None, survivor=hold_some, cache_blocks=0, arm_before_join=False,
              tokens_per_block=0):
    return SimpleNamespace(act=act, prepare=prepare, survivor=survivor, cache_blocks=cache_blocks,
                           arm_before_join=arm_before_join, tokens_per_block=tokens_per_block)


def on_index(act, prepare=lambda sweep, pool, words: None, survivor=hold_some):
    return operation(act, prepare, survivor, tokens_per_block=TOKENS_PER_BLOCK)


def own(n):
    return lambda sweep, pool, words: pool.allocate(n)


def both(sweep, pool, words):
    """Two of its own, and two of the survivor's, of which it has three references."""
    theirs = [block for block in range(NUM_BLOCKS) if pool.refcount(block)][:2]
    pool.retain(theirs + theirs[:1])
    return pool.allocate(2) + theirs + theirs[:1]


def theirs(sweep, pool, words):
    return [block for block in range(NUM_BLOCKS) if pool.refcount(block)]


OPERATIONS = {
    "allocate": operation(lambda sweep, pool, _: pool.allocate(3)),
    "allocate, from two hints": operation(lambda sweep, pool, _: pool.allocate(6), survivor=hold_to_the_end_of_a_hint),
    "allocate, some with content": operation(lambda sweep, pool, _: pool.allocate(5), survivor=leave_content),
    "allocate, hints lost": operation(lambda sweep, pool, _: pool.allocate(3), survivor=lose_hints),
    "allocate, refused": operation(lambda sweep, pool, _: refused(OutOfBlocks, lambda: pool.allocate(9)),
                                   survivor=hold_most),
    "allocate, from the cache": operation(lambda sweep, pool, _: pool.allocate(4), cache_blocks=3,
                                          prepare=lambda sweep, pool, words: pool.release(pool.allocate(3))),
    "retain": operation(lambda sweep, pool, blocks: pool.retain(blocks + blocks[:2]), theirs),
    "retain, refused": operation(lambda sweep, pool, blocks: refused(UseAfterFree, lambda: pool.retain(
        [*blocks[:2], blocks[0], *set(range(NUM_BLOCKS)) - set(blocks)])), theirs),
    "release": operation(lambda sweep, pool, blocks: pool.release(blocks), own(3)),
    "release, of shared blocks": operation(lambda sweep, pool, blocks: pool.release(blocks), both),
    "release, into the cache": operation(lambda sweep, pool, blocks: pool.release(blocks), own(4), cache_blocks=3),
    "close": operation(lambda sweep, pool, _: pool.close(), both, cache_blocks=2),
    "join after a death": operation(lambda sweep, pool, _: None, survivor=leave_dead, arm_before_join=True),
    "reap": operation(lambda sweep, pool, _: pool.reap(), lambda sweep, pool, words: sweep.leave_a_dead_member()),
    "heal": operation(lambda sweep, pool, _: pool.reap(), survivor=lose_hints),
    "publish": on_index(lambda sweep, pool, blocks: pool.publish(TOKENS, blocks), written),
    "publish, what is known": on_index(lambda sweep, pool, blocks: pool.publish(TOKENS + [1, 2], blocks),
                                       lambda sweep, pool, words: pool.reuse(TOKENS) + pool.allocate(1),
                                       leave_published),
    "reuse": on_index(lambda sweep, pool, _: pool.reuse(TOKENS), survivor=leave_published),
    "reuse, once more": on_index(lambda sweep, pool, _: pool.reuse(TOKENS),
                                 lambda sweep, pool, words: pool.reuse(TOKENS), leave_published),
    "release, of published blocks": on_index(lambda sweep, pool, blocks: pool.release(blocks),
                                             lambda sweep, pool, words: pool.reuse(TOKENS), leave_published),
    "unpublish": on_index(lambda sweep, pool, blocks: pool.unpublish(blocks),
                          lambda sweep, pool, words: publish_all(sweep, pool)),
    "allocate, of published blocks": on_index(lambda sweep, pool, _: pool.allocate(6), survivor=leave_little_else),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("kind", choices=["compiled", "portable"])
    parser.add_argument("--only", choices=OPERATIONS, help="one operation")
    parser.add_argument("--source", type=Path, help="another pool.c")
    arguments = parser.parse_args()
    sweep = Sweep(arguments.kind, arguments.source)
    try:
        sweep.run(arguments.only)
    finally:
        SharedPool.remove(sweep.name)
    for name, kills in sweep.kills_by_operation.items():
        print(f"{kills:5} {name}")
    print(f"{sweep.num_kills:5} kills")


if __name__ == "__main__":
    main()
