"""`CheckedManager`: a KVCacheManager that is compared with the model of `manager_model` at every call.

Each method makes one call and counts it in `num_operations`; then tables, counts, refcounts, events and copies must be
what the model says, and a call that was refused must have left everything as it was. `check()` looks at the rest: the
contents of every block, what can be found, and the order of eviction, seen by draining a copy of the manager. `story()`
tells the calls.
"""

import copy
from collections.abc import Hashable, Sequence

from pagedkv import DoubleFree, KVCacheManager, OutOfBlocks, UseAfterFree
from pagedkv.core.events import Event, Recording
from pagedkv.core.replay import PoolState, Replay
from tests.core.manager_model import KVCacheModel, ModelSequence, Piece, Storage


class Checked:
    """One sequence: the manager's, the model's, and what the storage was told of it."""

    def __init__(self, name: str, handle, model: ModelSequence, values: list[int], num_written: int):
        self.name = name
        self.handle = handle
        self.model = model
        self.values = values  # what its slots must hold, by position
        self.num_written = num_written

    @property
    def is_live(self) -> bool:
        return self.model.is_live

    @property
    def tokens(self) -> list[int]:
        return self.model.tokens


class CheckedManager:
    def __init__(self, num_blocks: int, block_size: int, observed: bool = False, drain_refused: bool = True,
                 make=KVCacheManager):
        self.num_blocks, self.block_size = num_blocks, block_size
        self.manager = make(num_blocks=num_blocks, block_size=block_size)
        self.model = KVCacheModel(num_blocks, block_size)
        self.storage = Storage(num_blocks, block_size)
        self.sequences: list[Checked] = []  # the live ones
        self.freed: list[Checked] = []
        self.raw: list[int] = []  # references that somebody holds without a sequence
        self.drain_refused = drain_refused  # compare the order of eviction too when a call is refused: slow
        self.num_operations = 0
        self._story: list[str] = []
        self._names = 0
        self.recording = Recording(num_blocks) if observed else None
        self._replayed = PoolState(num_blocks)
        if observed:
            self.manager.observer = self.recording.events.append

    def story(self) -> str:
        """The calls so far, as Python."""
        return "\n".join([f"manager = KVCacheManager(num_blocks={self.num_blocks}, block_size={self.block_size})",
                          *self._story])

    # ── calls that go through, or lack blocks ────────────────────────────────────────────────────────────────────────

    def add(self, tokens: Sequence[int], salt: Hashable = None, owner: str | None = None, kind=list) -> Checked | None:
        """None: it was refused for lack of blocks, as it had to be. `kind` makes of a list what the manager gets."""
        name = self._name()
        self._tell(f"{name} = manager.add_sequence({list(tokens)}, salt={salt!r})")
        handle = self._call(None, lambda: self.manager.add_sequence(kind(tokens), salt=salt, owner=owner),
                            self.model.need_add(tokens, salt))
        if handle is None:
            return None
        table = list(handle.block_table)
        sequence, evicted, registered = self.model.add(tokens, salt, table)
        checked = Checked(name, handle, sequence, self.storage.values(salt, tokens), sequence.num_cached_tokens)
        self.sequences.append(checked)
        num_hits = sequence.num_cached_tokens // self.block_size
        assert owner is None or handle.owner == owner, f"owner {handle.owner!r} instead of {owner!r}"
        self._expect_events([
            ("retain", handle.owner, table[:num_hits], {}) if num_hits else None,
            ("evict", None, evicted, {}) if evicted else None,
            ("allocate", handle.owner, table[num_hits:], {"num_tokens": len(tokens),
                                                          "tokens": tuple(tokens[sequence.num_cached_tokens:])})],
            [(checked, piece) for piece in registered])
        self._check_cheaply(checked)
        return checked

    def append(self, checked: Checked, token: int) -> bool:
        self._tell(f"manager.append_token({checked.name}, {token})")
        need = self.model.need_append([checked.model])
        self._call(None, lambda: self.manager.append_token(checked.handle, token), need)
        if need[1]:
            self._commit_appends([checked], [token])
        return need[1]

    def append_many(self, many: Sequence[Checked], tokens: Sequence[int]) -> bool:
        self._tell(f"manager.append_tokens([{', '.join(one.name for one in many)}], {list(tokens)})")
        need = self.model.need_append([one.model for one in many])
        self._call(None, lambda: self.manager.append_tokens([one.handle for one in many], list(tokens)), need)
        if need[1]:
            self._commit_appends(many, tokens)
        return need[1]

    def fork(self, checked: Checked, owner: str | None = None) -> Checked:
        if checked.num_written < len(checked.tokens):
            self._sync()  # a fork before its parent's tokens are written is not for storage
        name = self._name()
        self._tell(f"{name} = manager.fork({checked.name})")
        handle = self._call(None, lambda: self.manager.fork(checked.handle, owner=owner))
        assert handle is not checked.handle and handle.block_table is not checked.handle.block_table
        child = Checked(name, handle, self.model.fork(checked.model), checked.values.copy(), checked.num_written)
        self.sequences.append(child)
        self._expect_events([("retain", handle.owner, child.model.table, {"num_tokens": len(child.tokens),
                                                                          "forked_from": checked.handle.owner})])
        self._check_cheaply(child)
        return child

    def free(self, checked: Checked, by: str = "free_sequence") -> None:
        """by: also "reclaim"."""
        if checked.num_written // self.block_size < len(checked.tokens) // self.block_size:
            self._sync()  # its full blocks are found from now on: storage must have written them
        self._tell(f"manager.{by}({checked.name}{', None' if by == 'reclaim' else ''})")
        call = (lambda: self.manager.reclaim(checked.handle, "the test")) if by == "reclaim" else \
            (lambda: self.manager.free_sequence(checked.handle))
        answer = self._call(None, call)
        if by == "reclaim":
            assert answer == len(checked.model.table), f"{answer} references given back of {checked.model.table}"
        blocks = self.model.free(checked.model)
        self.sequences.remove(checked)
        self.freed.append(checked)
        self._expect_events([("release", checked.handle.owner, blocks, {})])
        self._check_cheaply()
        assert not checked.handle.is_live

    def find(self, tokens: Sequence[int], salt: Hashable = None) -> None:
        self._tell(f"manager.find({list(tokens)}, salt={salt!r})")
        self.num_operations += 1
        self._look(tokens, salt)
        self._check_cheaply()

    def sync(self) -> None:
        """Storage carries out what is due, then every live sequence can be read."""
        self.num_operations += 1
        self._sync()

    def _sync(self) -> None:
        self._tell("manager.take_block_copies()")
        copies = [tuple(one) for one in self.manager.take_block_copies()]
        assert copies == self.model.copies, f"copies {self.model.copies} are due, got {copies}"
        self.model.take_copies()
        for source, target in copies:
            self.storage.copy(source, target)
        for checked in self.sequences:
            self.storage.write(checked.handle.block_table, checked.num_written, checked.values[checked.num_written:])
            checked.num_written = len(checked.values)
        self._check_contents()

    # ── calls of the pool, past the manager ──────────────────────────────────────────────────────────────────────────

    def raw_allocate(self, n: int) -> None:
        self._tell(f"manager.pool.allocate({n}, owner='raw')")
        blocks = self._call(None, lambda: self.manager.pool.allocate(n, owner="raw"),
                            (n, n <= self.model.num_available))
        if blocks is not None:
            assert len(blocks) == n
            evicted = self.model.allocate(list(blocks))
            self.raw += blocks
            self._expect_events([("evict", None, evicted, {}) if evicted else None, ("allocate", "raw", blocks, {})])
            self._check_cheaply()

    def raw_retain(self, blocks: Sequence[int]) -> None:
        self._tell(f"manager.pool.retain({list(blocks)}, owner='raw')")
        self._call(None, lambda: self.manager.pool.retain(list(blocks), owner="raw"))
        self.model.retain(blocks)
        self.raw += blocks
        self._check_cheaply()

    def raw_release(self, n: int) -> None:
        """The `n` newest references."""
        blocks = self.raw[:-n - 1:-1]
        if any(block in checked.model.table[:len(checked.tokens) // self.block_size]
               for checked in self.sequences if checked.num_written < len(checked.tokens) for block in blocks):
            self._sync()
        self._tell(f"manager.pool.release({blocks}, owner='raw')")
        self._call(None, lambda: self.manager.pool.release(blocks, owner="raw"))
        del self.raw[-n:]
        self.model.release(blocks)
        self._check_cheaply()

    # ── calls that must be refused ───────────────────────────────────────────────────────────────────────────────────

    def refused(self, error, what: str, call) -> None:
        """`call(manager)` raises `error`, and nothing changes."""
        self._tell(f"# refused: {what}")
        self._call(error, lambda: call(self.manager))

    def free_again(self, checked: Checked) -> None:
        self.refused(DoubleFree, f"manager.free_sequence({checked.name})",
                     lambda manager: manager.free_sequence(checked.handle))

    def append_after_free(self, checked: Checked) -> None:
        self.refused(UseAfterFree, f"manager.append_token({checked.name}, 0)",
                     lambda manager: manager.append_token(checked.handle, 0))

    def append_many_after_free(self, checked: Checked) -> None:
        handles = [*(one.handle for one in self.sequences), checked.handle]
        self.refused(UseAfterFree, f"manager.append_tokens([all live, {checked.name}])",
                     lambda manager: manager.append_tokens(handles, [0] * len(handles)))

    def fork_after_free(self, checked: Checked) -> None:
        self.refused(UseAfterFree, f"manager.fork({checked.name})", lambda manager: manager.fork(checked.handle))

    def reclaim_again(self, checked: Checked) -> None:
        """No error: whoever reclaims may come too late."""
        self._tell(f"manager.reclaim({checked.name}, None)")
        before = self.fingerprint(drain=self.drain_refused)
        self.num_operations += 1
        assert self.manager.reclaim(checked.handle, "late") == 0
        assert self.fingerprint(drain=self.drain_refused) == before

    # ── checks ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def check(self) -> None:
        """Everything that can be seen from outside. Slow."""
        self._sync()
        self.model.check(self.raw)
        self._check_cheaply(*self.sequences)
        assert {id(one) for one in self.manager.live_sequences} == {id(one.handle) for one in self.sequences}
        for one in self.sequences:
            assert len(set(one.model.table)) == len(one.model.table), f"{one.name} has a block twice: {one.model.table}"
            for position in (0, len(one.tokens) - 1):
                block, offset = one.model.table[position // self.block_size], position % self.block_size
                assert self.manager.slot(one.handle, position) == block * self.block_size + offset
        for piece in self.model.piece_of.values():  # doomed ones too: what they hold is not found
            self._look([*piece.tokens, 0], piece.key[0][1])
            self._look(piece.tokens, piece.key[0][1])
        for piece in self.model.index.values():
            self._look([*piece.tokens, 0], piece.key[0][1])
        if self.model.num_available:
            copies, drained = self.drain()
            num_empty = len(self.model.empty)
            assert copies == [] and set(drained[:num_empty]) == self.model.empty, \
                f"first the empty blocks {self.model.empty}, got {drained}"
            expected = [piece.block for piece in self.model.unused]
            assert drained[num_empty:] == expected, f"order of eviction: {expected}, got {drained[num_empty:]}"
        if self.recording is not None:
            at_the_end = Replay(self.recording).end()
            assert at_the_end.refcounts() == self.model.refcounts and at_the_end.faults == []
            assert at_the_end.cached == self._replayed.cached

    def drain(self) -> tuple[list, list[int]]:
        """The copies that are due, and the blocks in the order in which a copy of the manager would give them out."""
        observer, self.manager.observer = self.manager.observer, None
        try:
            twin = copy.deepcopy(self.manager)
        finally:
            self.manager.observer = observer
        copies = list(twin.take_block_copies())
        return copies, [twin.pool.allocate(1)[0] for _ in range(twin.num_free_blocks)]

    def fingerprint(self, drain: bool) -> tuple:
        manager = self.manager
        sequences = [(one.handle.owner, one.handle.is_live, list(one.handle.block_table), one.handle.num_tokens,
                      one.handle.num_cached_tokens) for one in self.sequences + self.freed[-2:]]
        return (sequences, [id(one) for one in manager.live_sequences], manager.pool.refcounts(), self._counts(),
                self.drain() if drain else None)

    def _counts(self) -> tuple[int, int, int, int]:
        manager = self.manager
        return (manager.num_empty_blocks, manager.num_cached_blocks, manager.num_used_blocks, manager.num_free_blocks)

    def _check_cheaply(self, *changed: Checked) -> None:
        model = self.model
        num_empty, num_cached = len(model.empty), len(model.unused)
        expected = num_empty, num_cached, self.num_blocks - num_empty - num_cached, num_empty + num_cached
        assert self._counts() == expected, f"(empty, cached, used, free): expected {expected}, got {self._counts()}"
        refcounts = list(self.manager.pool.refcounts())
        assert refcounts == model.refcounts, f"refcounts: expected {model.refcounts}, got {refcounts}"
        for one in changed:
            handle, sequence = one.handle, one.model
            seen = list(handle.block_table), handle.num_tokens, handle.num_cached_tokens, handle.is_live, handle.salt
            expected = sequence.table, len(sequence.tokens), sequence.num_cached_tokens, True, sequence.salt
            assert seen == expected, f"{one.name} (table, tokens, cached, live, salt): expected {expected}, got {seen}"
        if self.recording is not None:
            self._replay()

    def _replay(self) -> None:
        state, model = self._replayed, self.model
        for event in self.recording.events[state.num_events:]:
            assert event.step == state.num_events, "steps count the events"
            state.apply(event)
        assert state.faults == []
        assert state.refcounts() == model.refcounts, f"by replay {state.refcounts()}, expected {model.refcounts}"
        findable = {piece.block for piece in model.index.values()}
        doomed = {piece.block for piece in model.piece_of.values()} - findable
        assert findable <= state.cached <= findable | doomed, \
            f"cached by replay {state.cached}; can be found {findable}, lost their parent {doomed}"

    def _check_contents(self) -> None:
        for one in self.sequences:
            seen = self.storage.read(one.handle.block_table, len(one.tokens))
            assert seen == one.values, f"{one.name} reads {seen} instead of {one.values}"
        for piece in self.model.index.values():
            expected = self.storage.values(piece.key[0][1], piece.tokens)[-self.block_size:]
            seen = self.storage.blocks[piece.block]
            assert seen == expected, f"block {piece.block} is found by {piece.tokens}, but holds {seen}"

    def _look(self, tokens: Sequence[int], salt: Hashable) -> None:
        expected = [piece.block for piece in self.model.find(tokens, salt)]
        found = list(self.manager.find(list(tokens), salt=salt))
        assert found == expected, f"find({list(tokens)}, {salt!r}): expected {expected}, got {found}"

    # ── parts of calls ───────────────────────────────────────────────────────────────────────────────────────────────

    def _name(self) -> str:
        self._names += 1
        return f"s{self._names}"

    def _tell(self, line: str) -> None:
        self._story.append(line)

    def _call(self, error, call, need: tuple[int, bool] = (0, True)):
        """The answer of `call`, or None where it was refused, as it had to be: with `error`, or because it needs so
        many blocks and they are not there."""
        self.num_operations += 1
        num_needed, are_there = need
        if not are_there:
            error = OutOfBlocks
        if error is None:
            return call()
        self.model.seen["refused for lack of blocks" if not are_there else "refused for another reason"] += 1
        before = self.fingerprint(self.drain_refused)
        try:
            call()
        except error:
            pass
        else:
            raise AssertionError(f"expected {error}, but the call went through")
        after = self.fingerprint(self.drain_refused)
        assert after == before, f"refused, but not all is as before: {before}, now {after}"
        if self.recording is not None:
            new = self.recording.events[self._replayed.num_events:]
            assert all(event.refused for event in new), f"a refused call reported {new}"
            if not are_there:
                assert [(event.op, event.detail["error"], event.detail["requested_blocks"]) for event in new] == \
                    [("allocate", "OutOfBlocks", num_needed)], f"{num_needed} blocks are not there, but {new}"
            self._replay()
        return None

    def _commit_appends(self, many: Sequence[Checked], tokens: Sequence[int]) -> None:
        """Compare what the manager has appended, and the events: for each sequence its own in order."""
        olds = [one.model.table for one in many]
        tables = [list(one.handle.block_table) for one in many]
        evicted, new = self.model.append([one.model for one in many], tokens, tables)
        registered = [(many[i], piece) for i, piece in new]
        wanted = [("evict", None, evicted, {})] if evicted else []
        for one, token, old, table in zip(many, tokens, olds, tables):
            one.values.append(self.storage.after(one.values[-1], token))
            owner, num_tokens = one.handle.owner, len(one.tokens)
            detail = {"num_tokens": num_tokens, "tokens": (token,)}
            if len(table) > len(old):
                wanted.append(("allocate", owner, table[-1:], detail))
            elif table[-1] != old[-1]:
                wanted += [("allocate", owner, table[-1:], {"num_tokens": num_tokens - 1, "copied_from": old[-1]}),
                           ("release", owner, old[-1:], {"replaced_by": table[-1]}),
                           ("write", owner, table[-1:], detail)]
            else:
                wanted.append(("write", owner, table[-1:], detail))
        self._expect_events(wanted, registered, in_order=len(many) == 1)
        self._check_cheaply(*many)

    def _expect_events(self, wanted: list, registered: Sequence[tuple[Checked, Piece]] = (),
                       in_order: bool = True) -> None:
        """The events of this call: the wanted ones (None: not wanted after all), then "cache" for what was registered.

        What was doomed from the start may be reported as cached or not, and so may its end."""
        if self.recording is None:
            return
        events = self.recording.events[self._replayed.num_events:]
        wanted = [one for one in wanted if one is not None]
        doomed = {piece.block for piece in self.model.piece_of.values() if not piece.alive} | \
            {block for block in self._replayed.cached if block in self.model.empty}
        cached, others = [], []
        for event in events:
            assert not event.refused, event
            if event.op == "cache":
                cached += list(zip(event.blocks, event.detail["parents"], event.detail["tokens"], strict=True))
                salted = event.detail["parents"][0] == -1 and in_order and registered[0][0].handle.salt is not None
                assert not salted or isinstance(event.detail["salt"], str), event
                assert in_order or len(event.blocks) == 1, event
                assert not in_order or event is events[-1], f"cache comes last: {events}"
            elif event.op == "evict" and wanted and wanted[0][0] == "release" and set(event.blocks) <= doomed:
                assert not others, f"evict comes before release: {events}"
            elif event.op == "evict" and others and others[-1].op == "evict" and in_order:
                others[-1] = Event(event.step, "evict", None, others[-1].blocks + event.blocks, {})
            else:
                others.append(event)
        expected = [(one, piece) for one, piece in registered if piece.alive or piece.block not in doomed]
        self._expect_cached(cached, expected, doomed)
        if in_order:
            assert [event.op for event in others] == [op for op, *_ in wanted], f"expected {wanted}, got {events}"
        else:
            others = _sorted_like(others, wanted)
        for event, (op, owner, blocks, detail) in zip(others, wanted, strict=True):
            assert (event.op, event.blocks) == (op, tuple(blocks)), f"expected {op} {blocks}, got {event}"
            assert owner is None or event.owner == owner, f"owner {owner!r} expected, got {event!r}"
            for key, value in detail.items():
                assert event.detail.get(key) == value, f"detail {key!r}: expected {value!r}, got {event!r}"

    def _expect_cached(self, cached: list, registered: Sequence[tuple[Checked, Piece]], doomed: set[int]) -> None:
        cached = [one for one in cached if one[0] not in doomed]
        assert len(cached) == len(registered), f"registered {[piece.block for _, piece in registered]}, got {cached}"
        for (block, parent, tokens), (one, piece) in zip(cached, registered):
            depth = len(piece.tokens) // self.block_size
            before = {-1} if piece.parent is None else {piece.parent.block, one.model.table[depth - 2]}
            contents = piece.tokens[-self.block_size:]
            assert block == piece.block and tuple(tokens) == contents and parent in before, \
                f"block {piece.block} with {contents} after {before}, got {(block, parent, tokens)}"


def _sorted_like(events: list, wanted: list) -> list:
    """The events of a batch in the order of `wanted`, where all evictions come first."""
    evicted = tuple(block for event in events if event.op == "evict" for block in event.blocks)
    rest = [event for event in events if event.op != "evict"]
    answer = [Event(-1, "evict", None, evicted, {})] if evicted else []
    for op, owner, blocks, _ in wanted:
        if op != "evict":
            found = next((event for event in rest
                          if (event.op, event.owner, event.blocks) == (op, owner, tuple(blocks))), None)
            assert found is not None, f"expected {op} {blocks} of {owner!r}, got {events}"
            rest.remove(found)
            answer.append(found)
    assert not rest, f"not expected: {rest}"
    return answer
