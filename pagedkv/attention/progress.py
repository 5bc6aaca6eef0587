"""Which tokens are computed: for each sequence, from which position on it has to write keys and values itself.

A manager knows tokens and blocks. A block can be found as soon as its tokens are known, which is before it is written:
so a sequence may share blocks that an earlier one is still to write, and then it *waits* for that one. Who computes a
sequence computes those first that it waits for (`plan`).

If the earlier one is freed before it has written them, the blocks have no writer any more. The oldest of those who
share them takes over (`drop`).
"""

from collections.abc import Iterable

from pagedkv.core.manager import Sequence


class Progress:
    """One sequence.

    tokens      all of its tokens
    begin       the first position that it has still to compute: what comes before is written, or is another one's to
                write
    num_prepared_blocks   how many blocks of its table the storage has been told about
    """

    def __init__(self, seq: Sequence, number: int, tokens: list[int], begin: int, num_prepared_blocks: int):
        self.seq, self.number, self.tokens = seq, number, tokens
        self.begin, self.num_prepared_blocks = begin, num_prepared_blocks
        self.waits_for: dict[Progress, int] = {}  # the tokens that each of them is to have written

    @property
    def is_written(self) -> bool:
        return self.begin >= len(self.tokens) and not self.waiting()

    def waiting(self) -> list["Progress"]:
        """Those it waits for, now."""
        if self.waits_for:
            self.waits_for = {other: needed for other, needed in self.waits_for.items() if other.begin < needed}
        return list(self.waits_for)


class ProgressOfAll:
    """Of the sequences of one manager whose blocks have `block_size` tokens."""

    def __init__(self, block_size: int):
        self._size = block_size
        self._of: dict[Sequence, Progress] = {}  # the oldest first
        self._num_added = 0

    def __getitem__(self, seq: Sequence) -> Progress:
        return self._of[seq]

    def __contains__(self, seq: Sequence) -> bool:
        return seq in self._of

    def add(self, seq: Sequence, tokens: list[int]) -> Progress:
        """A sequence that begins now, with what it shares from the cache."""
        num_shared = seq.num_cached_tokens // self._size
        progress = self._new(seq, tokens, seq.num_cached_tokens, num_shared)
        place = {block: logical for logical, block in enumerate(seq.block_table[:num_shared])}
        for other in self._of.values() if place else ():
            if other is not progress and other.begin < len(other.tokens):
                shared = [place[block] for block in other.seq.block_table[other.begin // self._size:] if block in place]
                if shared:
                    progress.waits_for[other] = (max(shared) + 1) * self._size
        return progress

    def fork(self, progress: Progress, child: Sequence) -> Progress:
        """A child of a sequence that is written."""
        return self._new(child, progress.tokens.copy(), progress.begin, progress.num_prepared_blocks)

    def _new(self, seq: Sequence, tokens: list[int], begin: int, num_prepared_blocks: int) -> Progress:
        progress = self._of[seq] = Progress(seq, self._num_added, tokens, begin, num_prepared_blocks)
        self._num_added += 1
        return progress

    def plan(self, wanted: Iterable[Progress]) -> list[Progress]:
        """These and all that they wait for, in the order in which they are to be computed: that in which they began."""
        found: dict[Progress, None] = {}
        to_look_at = list(wanted)
        while to_look_at:
            progress = to_look_at.pop()
            if progress not in found:
                found[progress] = None
                to_look_at += progress.waiting()
        return sorted(found, key=lambda progress: progress.number)

    def drop(self, seq: Sequence) -> None:
        """A sequence is about to be freed. What it has not written is taken over by those who share it."""
        gone = self._of.pop(seq)
        begin = gone.begin // self._size * self._size  # a block half written is written again from its beginning
        heirs: list[tuple[Progress, int]] = []
        for other in self._of.values():
            needed = other.waits_for.pop(gone, 0)
            if needed <= gone.begin:
                continue
            for heir, end in heirs:
                other.waits_for[heir] = max(min(end, needed), other.waits_for.get(heir, 0))
            if needed > begin:
                other.begin = min(other.begin, begin)
                # of these blocks, the storage has been told only about those that the one that goes had got to
                other.num_prepared_blocks = min(other.num_prepared_blocks,
                                                max(gone.num_prepared_blocks, begin // self._size))
                heirs.append((other, needed))
                begin = needed
