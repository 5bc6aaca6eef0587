"""A cache manager so simple that one can see it is right, and a storage to look into.

`KVCacheModel` says what must follow from each call of `KVCacheManager`. Slow on purpose: what can be found is a dict
from (salt, *all* tokens from the first on) to the piece that holds the last block of them, and the order of eviction is
a plain list. It never chooses block ids: it is told which ones the manager gave, and says whether they could be given.

`Storage` is the memory behind the blocks, one int per slot. It carries out copies and writes when a storage would, so
reading a sequence through its block table gives back its tokens, or the manager has mixed something up. What a slot
holds stands for a token *and everything before it* (as KV does), so that a block found under the wrong prefix is seen
too.

    piece     a full block that was registered under its tokens; it is *alive* while it can be found from the root
    doomed    a piece that is held, but whose parent was evicted: it can't be found, and is empty once it is released
    private   a full block that holds the same as somebody else's piece: nobody finds it
"""

from collections import Counter
from collections.abc import Hashable, Sequence


class Piece:
    """One full block that can be found (while `alive`) by `key`, the salt and all tokens up to its end."""

    def __init__(self, key: tuple, parent: "Piece | None", block: int, alive: bool):
        self.key = key
        self.parent = parent
        self.block = block
        self.alive = alive

    @property
    def tokens(self) -> tuple[int, ...]:
        return self.key[1]


class ModelSequence:
    """A sequence as a list of tokens. chain[i] is the piece under which its block i is known, its own or another's."""

    def __init__(self, tokens: Sequence[int], salt: Hashable, table: list[int], chain: list[Piece], num_cached: int):
        self.tokens = list(tokens)
        self.salt = salt
        self.table = table
        self.chain = chain
        self.num_cached_tokens = num_cached
        self.is_live = True


class KVCacheModel:
    """What a correct manager's state is. A method is called after the manager's and takes what that one gave; what does
    not follow is an AssertionError. The `need_…` methods are called before."""

    def __init__(self, num_blocks: int, block_size: int):
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.refcounts = [0] * num_blocks
        self.empty = set(range(num_blocks))
        self.index: dict[tuple, Piece] = {}
        self.piece_of: dict[int, Piece] = {}  # block → its own piece, doomed ones too
        self.unused: list[Piece] = []  # alive and held by nobody, the next to be evicted first
        self.sequences: list[ModelSequence] = []  # the live ones
        self.copies: list[tuple[int, int]] = []  # not taken yet
        self.seen: Counter = Counter()  # how often each rule mattered

    @property
    def num_available(self) -> int:
        return len(self.empty) + len(self.unused)

    # ── what a call needs ────────────────────────────────────────────────────────────────────────────────────────────

    def find(self, tokens: Sequence[int], salt: Hashable) -> list[Piece]:
        """The pieces of the longest prefix that is cached, the last token left out."""
        found = []
        for end in range(self.block_size, len(tokens), self.block_size):
            piece = self.index.get(_key(salt, tokens[:end]))
            if piece is None:
                break
            found.append(piece)
        return found

    def need_add(self, tokens: Sequence[int], salt: Hashable) -> tuple[int, bool]:
        """How many new blocks these tokens take, and whether they are there."""
        hits = self.find(tokens, salt)
        need = -(-len(tokens) // self.block_size) - len(hits)
        reused = sum(self.refcounts[piece.block] == 0 for piece in hits)
        return need, need <= self.num_available - reused

    def need_append(self, sequences: Sequence[ModelSequence]) -> tuple[int, bool]:
        """How many new blocks one more token for each takes, in this order, and whether they are there."""
        refcounts = self.refcounts.copy()
        need = 0
        for sequence in sequences:
            if len(sequence.tokens) % self.block_size == 0:
                need += 1
            elif refcounts[sequence.table[-1]] > 1:
                refcounts[sequence.table[-1]] -= 1
                need += 1
        return need, need <= self.num_available

    # ── calls ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, tokens: Sequence[int], salt: Hashable, table: list[int]
            ) -> tuple[ModelSequence, list[int], list[Piece]]:
        """The new sequence, the blocks that were evicted, the pieces that were registered."""
        hits = self.find(tokens, salt)
        num_hits = len(hits)
        found = [piece.block for piece in hits]
        assert table[:num_hits] == found, f"the blocks {found} hold the first tokens, but the table is {table}"
        assert len(table) == -(-len(tokens) // self.block_size), f"{len(tokens)} tokens in the blocks {table}"
        for piece in hits:
            self.seen["hit on an unused block" if self.refcounts[piece.block] == 0 else "hit on a held block"] += 1
            self._retain(piece.block)
        evicted = self._take(table[num_hits:])
        sequence = ModelSequence(tokens, salt, list(table), list(hits), num_hits * self.block_size)
        self.sequences.append(sequence)
        registered = [self._fill(sequence, i) for i in range(num_hits, len(tokens) // self.block_size)]
        return sequence, evicted, [piece for piece in registered if piece is not None]

    def append(self, sequences: Sequence[ModelSequence], tokens: Sequence[int], tables: Sequence[list[int]]
               ) -> tuple[list[int], list[tuple[int, Piece]]]:
        """One token for each. All blocks, new ones and those to copy to, are taken before the first token is added.

        The blocks that were evicted, and the pieces that were registered, each with the number of its sequence here."""
        refcounts = self.refcounts.copy()
        in_need = []
        for sequence, table in zip(sequences, tables):
            last = sequence.table[-1]
            if len(sequence.tokens) % self.block_size == 0:
                in_need.append((sequence, table))
            elif refcounts[last] > 1:
                refcounts[last] -= 1
                in_need.append((sequence, table))
        evicted = self._take([table[-1] for _, table in in_need])
        for sequence, table in in_need:
            self._put_room(sequence, table)
        registered = []
        for i, (sequence, token, table) in enumerate(zip(sequences, tokens, tables)):
            assert table == sequence.table, f"one token more fits {sequence.table}, got {table}"
            sequence.tokens.append(token)
            if len(sequence.tokens) % self.block_size == 0:
                piece = self._fill(sequence, len(table) - 1)
                registered += [(i, piece)] if piece is not None else []
        return evicted, registered

    def _put_room(self, sequence: ModelSequence, table: list[int]) -> None:
        """A new last block, or one of its own instead of the shared one."""
        old = sequence.table
        if len(sequence.tokens) % self.block_size == 0:
            assert table[:-1] == old, f"one block more than {old} is needed, got {table}"
        else:
            assert table[:-1] == old[:-1] and len(table) == len(old), f"a new last block for {old}, got {table}"
            self.refcounts[old[-1]] -= 1
            self.copies.append((old[-1], table[-1]))
            self.seen["copied"] += 1
        sequence.table = list(table)

    def fork(self, parent: ModelSequence) -> ModelSequence:
        for block in parent.table:
            self._retain(block)
        child = ModelSequence(parent.tokens, parent.salt, parent.table.copy(), parent.chain.copy(), len(parent.tokens))
        self.sequences.append(child)
        return child

    def free(self, sequence: ModelSequence) -> list[int]:
        """The blocks in the order of their release."""
        sequence.is_live = False
        self.sequences.remove(sequence)
        blocks = sequence.table[::-1]
        self.release(blocks)
        return blocks

    def take_copies(self) -> list[tuple[int, int]]:
        copies, self.copies = self.copies, []
        return copies

    # ── calls of the pool ────────────────────────────────────────────────────────────────────────────────────────────

    def allocate(self, blocks: list[int]) -> list[int]:
        return self._take(blocks)

    def retain(self, blocks: Sequence[int]) -> None:
        for block in blocks:
            self._retain(block)

    def release(self, blocks: Sequence[int]) -> None:
        """Block by block. One that can be found has been used now, and so have those that lead to it: of all of these
        the ones that nobody holds are the last to be evicted, the tail before its head. (Where another sequence
        computed the same, the block that leads to this one is that other's, and not one of those released.)"""
        for block in blocks:
            self.refcounts[block] -= 1
            piece = self.piece_of.get(block)
            if piece is not None and piece.alive:
                if self.refcounts[block] == 0:
                    self.unused.append(piece)
                self._refresh_above(piece)
            elif self.refcounts[block] == 0:
                self.seen["private or part of a block released" if piece is None else "doomed block released"] += 1
                self.piece_of.pop(block, None)
                self.empty.add(block)

    # ── rules ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _retain(self, block: int) -> None:
        if self.refcounts[block] == 0:
            self.unused.remove(self.piece_of[block])
        self.refcounts[block] += 1

    def _refresh_above(self, piece: Piece) -> None:
        above = piece.parent
        while above is not None:
            if self.refcounts[above.block] == 0:
                self.seen["head refreshed for its tail"] += 1
                self.unused.remove(above)
                self.unused.append(above)
            above = above.parent

    def _take(self, given: list[int]) -> list[int]:
        """The manager took `given`: only empty blocks and, if they are too few, the ones that have waited longest."""
        evicted = []
        for _ in range(len(given) - len(self.empty)):
            piece = self.unused.pop(0)
            self._forget(piece)
            del self.piece_of[piece.block]
            evicted.append(piece.block)
            self.seen["evicted"] += 1
        free = self.empty | set(evicted)
        assert len(set(given)) == len(given), f"a block was given twice: {given}"
        assert set(given) <= free, \
            f"the blocks {given} were given; empty are {sorted(self.empty)}, to be evicted {evicted}"
        self.empty = free - set(given)
        for block in given:
            self.refcounts[block] = 1
        return evicted

    def _forget(self, piece: Piece) -> None:
        """Neither the piece nor anything behind it can be found from now on."""
        salt, tokens = piece.key
        for key in [key for key in self.index if key[0] == salt and key[1][:len(tokens)] == tokens]:
            lost = self.index.pop(key)
            lost.alive = False
            self.seen["lost its parent"] += lost is not piece
            assert lost is piece or self.refcounts[lost.block] > 0, "the model evicts a head before its tail"

    def _fill(self, sequence: ModelSequence, i: int) -> Piece | None:
        """Block i of the sequence is full. Its own new piece, or None if somebody else's holds the same."""
        parent = sequence.chain[i - 1] if i else None
        key = _key(sequence.salt, sequence.tokens[:(i + 1) * self.block_size])
        block = sequence.table[i]
        doomed = parent is not None and not parent.alive
        if not doomed and key in self.index:
            sequence.chain.append(self.index[key])
            self.seen["computed twice"] += 1
            return None
        piece = Piece(key, parent, block, alive=not doomed)
        self.seen["doomed from the start" if doomed else "registered"] += 1
        if not doomed:
            self.index[key] = piece
        self.piece_of[block] = piece
        sequence.chain.append(piece)
        return piece

    def check(self, other_references: Sequence[int] = ()) -> None:
        """The model's own books, counted again from the tables. `other_references`: blocks held by no sequence."""
        references = [block for sequence in self.sequences for block in sequence.table] + list(other_references)
        assert self.refcounts == [references.count(block) for block in range(self.num_blocks)]
        held = {block for block in range(self.num_blocks) if self.refcounts[block]}
        unused = [piece.block for piece in self.unused]
        assert sorted([*held, *unused, *self.empty]) == list(range(self.num_blocks))
        for i, piece in enumerate(self.unused):
            assert piece.alive and self.index[piece.key] is piece
            assert piece.parent is None or piece.parent.alive
            assert piece.parent not in self.unused[:i], "a head would be evicted before its tail"


class Storage:
    """What lies in the blocks: one int per slot, None where nothing was written yet."""

    def __init__(self, num_blocks: int, block_size: int):
        self.block_size = block_size
        self.blocks: list[list[int | None]] = [[None] * block_size for _ in range(num_blocks)]
        self._numbers: dict[tuple, int] = {}

    def values(self, salt: Hashable, tokens: Sequence[int]) -> list[int]:
        """What the slots of these tokens hold: for each token the number of the prefix that ends with it."""
        numbers = self._numbers
        number = numbers.setdefault(("salt", type(salt), salt), len(numbers))
        values = []
        for token in tokens:
            number = self.after(number, token)
            values.append(number)
        return values

    def after(self, value: int, token: int) -> int:
        """What the slot behind one that holds `value` holds."""
        return self._numbers.setdefault((value, token), len(self._numbers))

    def copy(self, source: int, target: int) -> None:
        self.blocks[target] = self.blocks[source].copy()

    def write(self, table: Sequence[int], start: int, values: Sequence[int]) -> None:
        for position, value in enumerate(values, start):
            self.blocks[table[position // self.block_size]][position % self.block_size] = value

    def read(self, table: Sequence[int], num_tokens: int) -> list[int | None]:
        slots = [value for block in table for value in self.blocks[block]]
        return slots[:num_tokens]


def _key(salt: Hashable, tokens: Sequence[int]) -> tuple:
    return (type(salt), salt), tuple(tokens)
