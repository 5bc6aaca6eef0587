"""`WatchedPool`: all members of a shared pool at once, as events, for whoever only looks.

    watched = WatchedPool(pool)
    pool.allocate(4)
    watched.look()
    Replay(watched.recording).end().owners(0)         the members that hold block 0

A pool's own observer sees the calls of its member. Nobody is told about the others, in other processes and in other
languages. But all that they hold is in the file: a *look* reads the words and counts of all blocks, and tells what is
different since the look before as events, of which the *owners* are the members. So these events are no calls: a block
that was taken and given back between two looks is not in them, and three calls can be one event.

In which order a member did what happened between two looks is not in the file either. It is told in the order in which
a manager does it: first the references to blocks that are there already, then new blocks. Blocks that can be found come
along the prefix that they hold, others by number.

A watcher is no member. It has no slot, locks nothing, and writes nothing; nobody waits for it.

Two things are told beside what `pagedkv.core.events` has. When a member has died, what it held goes over to an owner
"… (dead)", by a retain and a release with detail {"died": True}. And what a reap takes back is a release with
{"reaped": True}. Blocks of a member's local cache count as free: nobody has a reference to them.
"""

import math
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from pagedkv.core.events import Event, Recording
from pagedkv.core.prefix_tree import FIRST
from pagedkv.shared import layout, segment
from pagedkv.shared.layout import CACHED, CONTENT, GENERATION_SHIFT, HOLDERS, NUM_SLOTS, RECORD_HEAD
from pagedkv.shared.slots import Member, SlotTable, lock_file

_JOINED = 16  # in a slot's entry
_TRIES = 20  # to read what does not change meanwhile; after that it is told as it was read
_DIED, _REAPED = {"died": True}, {"reaped": True}

Names = Mapping[int, str] | Callable[[Member], str | None]


class _Block(NamedTuple):
    """What was seen of a block. references: how many each member has, by (slot, joined)."""

    generation: int = 0
    has_content: bool = False
    references: dict[tuple[int, int], int] = {}


class _Seen(NamedTuple):
    """One look. members: (slot, joined) → the member, for the slots that are in use."""

    blocks: list[_Block]
    members: dict[tuple[int, int], Member]
    num_reaps: int


class WatchedPool:
    """The members of a shared pool, watched.

    pool    one of its members, or its name
    names   what the members are called: a dict from a slot to a name, or a function that gets a `Member` and returns a
            name or None. Others are called by their language, "Python" or "Java"; where that is taken, a number comes
            behind it, and no two members get the same one: "Java 2", "Python 3". They are named in the order in which
            they were first seen to hold a block, never after their process, so that the names are the same on every run

    recording has all events since this was made, observer is called with each, from the thread that looks. `refcounts`
    and the like say what the last look saw, and before the first one that every block is free: so the first look tells
    all that is held then.

    Raises what `SharedPool.join` raises for a pool that cannot be opened.
    """

    source = "shared pool"
    owners_are = "members"

    def __init__(self, pool, names: Names | None = None):
        segment.check_system()
        name = pool if isinstance(pool, str) else pool.name
        sizes, self._mapping, status = segment.open_pool(name)
        mine = getattr(pool, "_status", status)
        if (status.st_dev, status.st_ino) != (mine.st_dev, mine.st_ino):
            raise ValueError(f"the pool {name!r} has been made anew since this member joined it: join again")
        self.name, self.num_blocks = name, sizes.num_blocks
        self.observer: Callable[[Event], None] | None = None
        self.recording = Recording(sizes.num_blocks, self.source, owners_are=self.owners_are)
        self._sizes, self._names = sizes, names or {}
        view = memoryview(self._mapping).toreadonly()
        self._view, self._numbers = view, view.cast("Q")
        self._words = self._numbers[sizes.words_at // 8:sizes.words_at // 8 + sizes.num_blocks]
        rows = (sizes.counts_at + slot * sizes.row_bytes for slot in range(NUM_SLOTS))
        self._rows = [view[at:at + 4 * sizes.num_blocks].cast("I") for at in rows]
        self._slots = SlotTable(self._numbers, sizes.slots_at)
        self._locks = lock_file(str(segment.lock_path(name, sizes.pool_id)))
        self._lock = threading.RLock()
        self._step = 0
        self._num_numbered = 0
        self._called: dict[tuple[int, int], str] = {}
        self._dead: set[tuple[int, int]] = set()
        self._seen = _Seen([_Block()] * sizes.num_blocks, {}, self._numbers[layout.REAPS_AT // 8])

    def __repr__(self) -> str:
        return f"<WatchedPool of {self.num_blocks} blocks>"

    # ── what the last look saw ───────────────────────────────────────────────────────────────────────────────────────

    @property
    def num_free_blocks(self) -> int:
        with self._lock:
            return sum(not block.references for block in self._seen.blocks)

    def refcount(self, block: int) -> int:
        with self._lock:
            return sum(self._seen.blocks[block].references.values())

    def refcounts(self) -> list[int]:
        with self._lock:
            return [sum(block.references.values()) for block in self._seen.blocks]

    def cache_contents(self) -> list[Event]:
        with self._lock:
            found = tuple(number for number, block in enumerate(self._seen.blocks) if block.has_content)
        return [Event(-1, "cache", None, found, {})] if found else []

    def owners(self) -> dict[int, str]:
        """The members that are there, by slot, as events call them."""
        with self._lock:
            return {slot: self._owner((slot, joined)) for slot, joined in self._members()}

    # ── looking ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def look(self) -> tuple[Event, ...]:
        """Look at everything, tell what is different now, and return that. Threads may look at once; they take
        turns."""
        with self._lock:
            before, now = self._seen, self._read()
            events = self._changes(before, now)
            self._tell_deaths(events, now)
            self._seen = now
            self._step += len(events)
            self.recording.events += events
            if self.observer is not None:
                for event in events:
                    self.observer(event)
        return tuple(events)

    @contextmanager
    def looking(self, every_seconds: float = 0.1) -> Iterator["WatchedPool"]:
        """Look again and again, on a thread of its own, and once more at the end. Raises what the observer raised."""
        over, errors = threading.Event(), []

        def run() -> None:
            try:
                while not over.wait(every_seconds):
                    self.look()
            except Exception as error:
                errors.append(error)

        self.look()
        thread = threading.Thread(target=run, name="watched pool", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            over.set()
            thread.join()
            if not errors:
                self.look()
        if errors:
            raise errors[0]

    # ── reading ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _read(self) -> _Seen:
        """Everything, as it was at one moment as far as can be had: others go on meanwhile."""
        for _ in range(_TRIES):
            members, num_reaps = self._members(), self._numbers[layout.REAPS_AT // 8]
            words = self._words.tolist()
            joined = {slot: joined for slot, joined in members}
            holders = 0
            for word in words:
                holders |= word
            rows = {slot: self._rows[slot].tolist() for slot in range(NUM_SLOTS) if (holders & HOLDERS) >> slot & 1}
            if self._words.tolist() == words and set(self._members()) == set(members):
                break
            time.sleep(0)
        return _Seen([self._block(word, number, rows, joined) for number, word in enumerate(words)], members, num_reaps)

    def _block(self, word: int, number: int, rows: dict, joined: dict[int, int]) -> _Block:
        references = {}
        left = 0 if word & CACHED else word & HOLDERS
        while left:
            slot = (left & -left).bit_length() - 1
            left &= left - 1
            # at least one: a count of 0 was read while this reference was being given up
            references[slot, joined.get(slot, self._joined(slot))] = max(rows[slot][number], 1)
        return _Block(word >> GENERATION_SHIFT, bool(word & CONTENT), references)

    def _members(self) -> dict[tuple[int, int], Member]:
        return {(member.slot, self._joined(member.slot)): member for member in self._slots.members(self._locks)}

    def _joined(self, slot: int) -> int:
        return self._numbers[(self._sizes.slots_at + slot * layout.SLOT_BYTES + _JOINED) // 8]

    def _record(self, block: int) -> tuple[int, int, bytes, tuple[int, ...]] | None:
        """node, parent, salt and tokens of a block with content; None if it lost that meanwhile."""
        sizes = self._sizes
        at = sizes.records_at + block * sizes.record_bytes
        node, parent, salt = RECORD_HEAD.unpack_from(self._view, at)
        tokens = struct.unpack_from(f"<{sizes.tokens_per_block}i", self._view, at + RECORD_HEAD.size)
        return (node, parent, salt, tokens) if self._words[block] & CONTENT else None

    # ── what is different ────────────────────────────────────────────────────────────────────────────────────────────

    def _changes(self, before: _Seen, now: _Seen) -> list[Event]:
        given_back, taken, retained, released = {}, {}, {}, {}  # who → blocks
        evicted, published = [], []
        changed = [number for number, (old, new) in enumerate(zip(before.blocks, now.blocks)) if old != new]
        for number in sorted(changed, key=lambda number: self._node(number, now)):
            old, new = before.blocks[number], now.blocks[number]
            # without the other half: a generation comes round, but nobody takes up a free block without content
            if old.generation != new.generation or new.references and not old.references and not old.has_content:
                _add(given_back, number, old.references)
                if new.references:  # if it is shared already, whoever is in the first slot is said to have taken it
                    first, *others = sorted(new.references)
                    _add(taken, number, {first: 1})
                    _add(retained, number, {first: new.references[first] - 1,
                                            **{other: new.references[other] for other in others}})
                elif old.has_content:
                    evicted.append(number)
                if new.has_content:
                    published.append(number)
                continue
            _add(retained, number, Counter(new.references) - Counter(old.references))
            _add(released, number, Counter(old.references) - Counter(new.references))
            if old.has_content != new.has_content:
                (published if new.has_content else evicted).append(number)
        events: list[Event] = []
        reaped = self._reaped(before, now)
        self._tell_released(events, given_back, reaped)
        self._tell_taken(events, taken, retained)
        if evicted:  # after retains: a free block with content may have been retained, and unpublished then
            events.append(self._event(events, "evict", None, evicted, {}))
        self._tell_published(events, published, now)
        self._tell_released(events, released, reaped)
        return events

    def _tell_released(self, events: list[Event], released: dict, reaped: set) -> None:
        for who in sorted(released):
            detail = _REAPED if who in reaped else {}
            events.append(self._event(events, "release", self._owner(who), released[who], detail))

    def _tell_taken(self, events: list[Event], taken: dict, retained: dict) -> None:
        """Of each member what it retained, then what it allocated, then its further references to that. A new block
        with several holders was allocated by the first of them, so whoever retains it comes later."""
        for who in sorted({*taken, *retained}):
            allocated, more = taken.get(who, []), retained.get(who, [])
            own = set(allocated)
            for op, blocks in (("retain", [block for block in more if block not in own]), ("allocate", allocated),
                               ("retain", [block for block in more if block in own])):
                if blocks:
                    events.append(self._event(events, op, self._owner(who), blocks, {}))

    def _node(self, block: int, now: _Seen) -> float:
        """What sorts blocks along the prefix that they hold; those without content come last."""
        record = self._record(block) if now.blocks[block].has_content and self._sizes.tokens_per_block else None
        return record[0] if record else math.inf

    def _tell_published(self, events: list[Event], published: list[int], now: _Seen) -> None:
        """With the tokens, and what comes before them: as a `KVCacheManager` tells it."""
        records = {} if not published or not self._sizes.tokens_per_block else \
            {number: self._record(number) for number, block in enumerate(now.blocks) if block.has_content}
        records = {number: record for number, record in records.items() if record is not None}
        block_of = {node: number for number, (node, *_) in records.items()}
        by_salt: dict[bytes, list[int]] = {}
        for number in sorted(published, key=lambda number: records.get(number, (0,))[0]):  # parents come first
            salt = records[number][2] if number in records and records[number][1] == layout.NO_PARENT else None
            by_salt.setdefault(salt or layout.NO_SALT, []).append(number)
        # what goes on under something has no salt of its own, and comes after all beginnings
        for salt in sorted(by_salt, key=lambda salt: salt == layout.NO_SALT):
            blocks, detail = by_salt[salt], {}
            if all(number in records for number in blocks):
                above = [FIRST if records[number][1] == layout.NO_PARENT else block_of.get(records[number][1])
                         for number in blocks]
                detail = {"parents": tuple(above), "tokens": tuple(records[number][3] for number in blocks)}
            if salt != layout.NO_SALT:
                detail["salt"] = salt.hex()[:8]
            events.append(self._event(events, "cache", None, blocks, detail))

    def _tell_deaths(self, events: list[Event], now: _Seen) -> None:
        """What newly dead members hold goes over to "… (dead)"."""
        for who, member in now.members.items():
            if member.alive or who in self._dead:
                continue
            held = [number for number, block in enumerate(now.blocks) for _ in range(block.references.get(who, 0))]
            alive = self._owner(who) if held else None
            self._dead.add(who)
            if held:
                events.append(self._event(events, "retain", self._owner(who), held, _DIED))
                events.append(self._event(events, "release", alive, held, _DIED))

    def _reaped(self, before: _Seen, now: _Seen) -> set[tuple[int, int]]:
        """Who was reaped since the look before. A member that closes gives back what it holds, too."""
        gone = {who for who in before.members if who not in now.members}
        died = gone & self._dead
        # a kill and its reap between two looks: nobody saw it dead, but the pool has counted it
        return gone if now.num_reaps - before.num_reaps >= len(gone) else died

    def _event(self, events: list[Event], op: str, owner: Hashable, blocks: list[int], detail: dict) -> Event:
        return Event(self._step + len(events), op, owner, tuple(blocks), dict(detail))

    def _owner(self, who: tuple[int, int] | None) -> str | None:
        if who is None:
            return None
        if who not in self._called:
            member = self._slots.member(who[0], self._locks)
            self._called[who] = self._given_name(member) or self._new_name(member.language)
        return self._called[who] + " (dead)" * (who in self._dead)

    def _given_name(self, member: Member) -> str | None:
        return self._names(member) if callable(self._names) else self._names.get(member.slot)

    def _new_name(self, language: str) -> str:
        taken = {*self._called.values(), *map(self._given_name, self._slots.members(self._locks))}
        name = language
        while name in taken:
            self._num_numbered += 1
            name = f"{language} {self._num_numbered + 1}"
        return name


def _add(to: dict, number: int, references: Mapping[tuple[int, int], int]) -> None:
    for who, count in references.items():
        if count > 0:
            to.setdefault(who, []).extend([number] * count)
