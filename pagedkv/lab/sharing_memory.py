"""`TokenMemory`: the memory of a manager's blocks, with tokens in it where an engine has their keys and values.

It does what an engine does: carries out the copies, computes what is not cached, and writes it where the block table
says. So what a sequence *reads* can be compared with what it should read.
"""

from collections.abc import Iterable

from pagedkv.core.manager import KVCacheManager, Sequence

EMPTY = None  # where nothing was written yet


class TokenMemory:
    """slots: by slot, the token that lies there."""

    def __init__(self, manager: KVCacheManager):
        self.manager = manager
        self.slots: list[int | None] = [EMPTY] * (manager.num_blocks * manager.block_size)
        self.num_computed = 0

    def add(self, prompt: list[int], salt: str | None = None, owner: str | None = None) -> Sequence:
        """A new sequence. Only what is not cached is computed, and written."""
        seq = self.manager.add_sequence(prompt, salt, owner)
        self._write(seq, range(seq.num_cached_tokens, len(prompt)), prompt[seq.num_cached_tokens:])
        return seq

    def append(self, seq: Sequence, token: int) -> None:
        self.manager.append_token(seq, token)
        self._write(seq, [seq.num_tokens - 1], [token])

    def read(self, seq: Sequence) -> list[int | None]:
        """What attention finds for this sequence, token by token."""
        return [self.slots[self.manager.slot(seq, position)] for position in range(seq.num_tokens)]

    def _write(self, seq: Sequence, positions: Iterable[int], tokens: Iterable[int]) -> None:
        size = self.manager.block_size
        for source, target in self.manager.take_block_copies():
            self.slots[target * size:(target + 1) * size] = self.slots[source * size:(source + 1) * size]
        for position, token in zip(positions, tokens):
            self.slots[self.manager.slot(seq, position)] = token
            self.num_computed += 1
