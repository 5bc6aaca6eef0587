"""Would the random driver notice? Managers with one fault each, and each is caught within OPERATIONS calls."""

import logging

import pytest

from pagedkv import KVCacheManager
from pagedkv.core import manager as manager_module
from pagedkv.core.prefix_cache import ROOT, PrefixCachePool
from tests.core.manager_long import Differs, run

OPERATIONS = 12_000


class SwallowsDoubleFree(KVCacheManager):
    def free_sequence(self, seq):
        if seq.is_live:
            super().free_sequence(seq)


class CopiesNothing(KVCacheManager):
    def take_block_copies(self):
        super().take_block_copies()
        return []


class CopiesAreToldTwice(KVCacheManager):
    def take_block_copies(self):
        copies = super().take_block_copies()
        self._block_copies = copies[-1:]
        return copies


class ForksWithoutReferences(KVCacheManager):
    def fork(self, seq, owner=None):
        child = super().fork(seq, owner)
        for block in child.block_table:
            self.pool._refcounts[block] -= 1
        return child


class BatchesStopHalfWay(KVCacheManager):
    def append_tokens(self, seqs, tokens):
        seqs, tokens = list(seqs), list(tokens)
        if len(seqs) != len(tokens) or len(set(seqs)) != len(seqs):
            raise ValueError
        for seq, token in zip(seqs, tokens):
            self.append_token(seq, token)


class CountsTheLastTokenAsAHit(KVCacheManager):
    def add_sequence(self, token_ids, salt=None, owner=None):
        seq = super().add_sequence(token_ids, salt, owner)
        if seq.num_cached_tokens and seq.num_cached_tokens == seq.num_tokens - 1:
            seq.num_cached_tokens += 1
        return seq


class HeadsGoBeforeTails(KVCacheManager):
    def free_sequence(self, seq):
        blocks, idle = list(seq.block_table), self.pool._idle
        super().free_sequence(seq)
        for block in blocks:
            if block in idle:
                idle.move_to_end(block)


MANAGERS = [HeadsGoBeforeTails, SwallowsDoubleFree, CopiesNothing, CopiesAreToldTwice, ForksWithoutReferences,
            BatchesStopHalfWay, CountsTheLastTokenAsAHit]


def evicted_stays_in_the_index(forget):
    def mutant(self, blocks):
        blocks = list(blocks)
        entries = [(self._keys[block], block) for block in blocks]
        forget(self, blocks)
        for key, block in entries:
            self._index.setdefault(key, block)
    return mutant


def a_look_is_a_use(find):
    def mutant(self, *args):
        blocks, node = find(self, *args)
        for block in blocks:
            if block in self._idle:
                self._idle.move_to_end(block)
        return blocks, node
    return mutant


def hits_take_no_reference(reuse):
    def mutant(self, hits, *args):
        answer = reuse(self, hits, *args)
        for block in hits:
            self._refcounts[block] -= 1
        return answer
    return mutant


def a_prompt_may_be_nothing_but_hits(find):
    return lambda self, buffer, num_blocks, size, root: find(self, buffer, len(buffer) // size, size, root)


def the_newest_goes_first(evict):
    def mutant(self, *args):
        self._idle = type(self._idle)(reversed(self._idle.items()))
        evict(self, *args)
        self._idle = type(self._idle)(reversed(self._idle.items()))
    return mutant


def lost_tails_stay(settle):
    return lambda self, blocks, owner=None: []


def heads_are_not_refreshed(refresh):
    return lambda self, blocks: None


def nothing_is_told_of_the_cache(report):
    def mutant(self, op, *args):
        if op != "cache":
            report(self, op, *args)
    return mutant


def all_salts_are_one(root):
    return lambda salt: ROOT


PARTS = [(PrefixCachePool, "_remove", evicted_stays_in_the_index),
         (PrefixCachePool, "find", a_look_is_a_use), (PrefixCachePool, "reuse_and_allocate", hits_take_no_reference),
         (PrefixCachePool, "find", a_prompt_may_be_nothing_but_hits),
         (PrefixCachePool, "_evict", the_newest_goes_first),
         (PrefixCachePool, "settle", lost_tails_stay), (PrefixCachePool, "refresh", heads_are_not_refreshed),
         (PrefixCachePool, "report", nothing_is_told_of_the_cache), (manager_module, "_as_root", all_salts_are_one)]


@pytest.fixture(autouse=True)
def quiet():
    logging.getLogger("pagedkv").setLevel(logging.ERROR)
    yield
    logging.getLogger("pagedkv").setLevel(logging.NOTSET)


@pytest.mark.parametrize("make", MANAGERS, ids=lambda make: make.__name__)
def test_a_broken_manager_is_caught(make):
    with pytest.raises(Differs):
        run(OPERATIONS, seed=2, make=make)


@pytest.mark.parametrize("where, name, mutant", PARTS, ids=[mutant.__name__ for *_, mutant in PARTS])
def test_a_broken_part_is_caught(monkeypatch, where, name, mutant):
    monkeypatch.setattr(where, name, mutant(getattr(where, name)))
    with pytest.raises(Differs):
        run(OPERATIONS, seed=2)


def test_a_sound_one_is_not():
    run(2_000, seed=2)
