"""A tape: a recording in the form that a browser plays.

A recording says what a pool was *called* with. To draw the pool after any event, forwards and backwards, one has to
know what each call *did*. A tape holds just that, one *change* for each block that an event named, eight bytes each:

    uint32  the block
    uint24  whose reference was taken or given up, as an index into `owners`
    uint8   what happened: ADDED or REMOVED a reference, is CACHED or UNCACHED from now on, is a FAULT

`ends[f]` is how many changes have happened once f events are carried out; the changes before `ends[0]` are the blocks
that were held when the recording began. A change can be undone as well as done, so no copies of the state (keyframes)
are needed, and going back costs what going forward costs. Refcounts are not stored: they are the number of references.

What Replay takes on trust is checked here, as a browser cannot draw it: a block outside the pool is left out, and
becomes a fault of its event.

An event's `detail` may say more than a refusal. Shown where an event has them:
    num_tokens    how many tokens the owner's sequence has once the event is carried out
    copied_from   the block whose contents went into the event's (first) block
    forked_from   whose blocks these are shared with
    replaced_by   the block that stands in the owner's table instead
    tokens        of allocate and write: those that lie in the named blocks because of it; of cache: for each block, its
    parents       for each cached block the block that holds the part before it, -1 for the first of a prompt
    salt          the root these blocks stand under
    died, reaped  of a watched shared pool: what a dead member holds goes over to its name "… (dead)"; is taken back
    device_allocated_bytes, device_reserved_bytes   what the device's allocator had then: in use; taken from the device
(A recording may begin with cached blocks; the salts of these come with the tape's beginning, as there is no event to
have them.)

What a block contains is told in *tellings*, one for each change that says something about it: the change, its tokens,
and what they are. BEGINS: all of its tokens; GOES_ON: more of them; CACHED_ALONE: it is cached, and its parent is gone
or not told. Any other number is the parent of a cached block, -1 for none. A cached block without tokens has those that
were told before.
"""

import json
import threading
from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import index

from pagedkv.core.events import Event, Recording
from pagedkv.core.replay import PoolState, Reference
from pagedkv.viz.columns import as_bytes
from pagedkv.viz.names import NO_NAME, Names, cut
from pagedkv.viz.tokens import Pieces, TokenText, as_token_text

ADDED, REMOVED, CACHED, UNCACHED, FAULT = 1, 2, 4, 8, 16

OPERATIONS = ["allocate", "retain", "release", "cache", "evict", "write"]

BEGINS, GOES_ON, CACHED_ALONE = -2, -3, -4

_DEVICE = ("device_allocated_bytes", "device_reserved_bytes")

_NOTED = ("error", "message", "copied_from", "forked_from", "replaced_by", "salt", "died", "reaped")

_MOST_FAULTS_NAMED = 4  # of one event
_MOST_BLOCKS_NAMED = 8
_NO_TOKENS = -1


class Tape:
    """A recording's changes, in columns of numbers that go to the browser as they are.

    It is the recording as it was when the tape was made; `add` is the only way to make it longer.

    owners   the name of every owner, in the order in which they appear; no two alike
    used, shared, cached   for every frame: how many blocks are held, held more than once, cached and free to take
    references    for every frame: how many references there are to all blocks
    first_fault   the number of events carried out when the first fault is there, or None
    block_size_tokens   as given, or as long as the first block that was cached
    token_text    how each token reads, see `pagedkv.viz.tokens`; None for its number
    texts         whether the text of each sequence is to be shown
    device_allocated_bytes, device_reserved_bytes   for every frame, as the last event told; -1 before
    """

    def __init__(self, recording: Recording, title: str = "", block_size_tokens: int | None = None,
                 token_text: TokenText = None, texts: bool = False):
        self.num_blocks, self.source = recording.num_blocks, recording.source
        self.owners_are = recording.owners_are
        self.title = title
        sizes = map(_cached_tokens, chain(recording.initial_cache, recording.events))
        self.block_size_tokens = block_size_tokens or next(filter(None, sizes), None)
        self.token_text = as_token_text(token_text)
        self.texts = texts
        self._names = Names()
        self.owners = self._names.texts
        self.first_fault: int | None = None
        self._notes: list[dict] = [{}]
        self._note_index: dict[str, int] = {"{}": 0}
        self._changes, self._ends = array("I"), array("I")
        self._ops, self._who, self._note = array("B"), array("I"), array("I")
        self._steps, self._tokens = array("i"), array("i")
        self.used, self.shared, self.cached = array("I"), array("I"), array("I")
        self.references = array("Q")
        self.device_allocated_bytes, self.device_reserved_bytes = array("d", [-1]), array("d", [-1])
        self._told, self._told_what, self._told_ends = array("I"), array("i"), array("I")  # tellings
        self._said = array("i")  # their tokens, one after the other
        self._contents: dict[int, list[int]] = {}  # block → its tokens at the end of the tape
        self._num_shared = self._num_cached = self._num_references = 0
        self._state = PoolState(self.num_blocks)
        self._last_moment: tuple = (None, 0, None)
        self._lock = threading.Lock()  # a page may ask for the tape while a live pool makes it longer
        for block, count in recording.initial_refcounts.items():
            for op in ["allocate"] * (count > 0) + ["retain"] * (count - 1):
                self._carry_out(Event(-1, op, None, (block,), {}))
        self._initial_salts: list[tuple[int, str]] = []  # of changes before the first event
        for event in recording.initial_cache:
            first_change = len(self._changes) // 2
            self._carry_out(event)
            self._tell(event, first_change)
            if "salt" in event.detail:
                self._initial_salts += [(change, str(event.detail["salt"])) for change in
                                        range(first_change, len(self._changes) // 2)]
        self._end_frame()
        self.add(recording.events)

    def __len__(self) -> int:
        """How many events it has; its frames are 0 … len."""
        return len(self._ops)

    def add(self, events: Iterable[Event]) -> None:
        """Append events. Raises ValueError for an operation that replay does not know."""
        with self._lock:
            self._add(events)

    def _add(self, events: Iterable[Event]) -> None:
        if not self.block_size_tokens:  # known before the first block is filled: else nobody could say what is in which
            events = list(events)
            self.block_size_tokens = next(filter(None, map(_cached_tokens, events)), None)
        for event in events:
            note = {key: event.detail[key] for key in _NOTED if key in event.detail}
            if "forked_from" in note:
                note["forked_from"] = self.owners[self._names.number(note["forked_from"])]
            note = {key: cut(value) if isinstance(value, str) else value for key, value in note.items()}
            if event.refused:
                self._state.apply(event)  # for its checks: a refused call changes nothing
                note["asked"] = str(event.detail.get("requested_blocks", "?")) if event.op == "allocate" else \
                    _short(event.blocks)
            else:
                first_change = len(self._changes) // 2
                faults = self._carry_out(event)
                self._tell(event, first_change)
                if faults:
                    note["faults"] = faults
                    if self.first_fault is None:
                        self.first_fault = len(self) + 1
            self._ops.append(OPERATIONS.index(event.op))
            self._who.append(self._names.number(event.owner))
            self._note.append(self._note_number(note))
            self._steps.append(event.step)
            tokens = event.detail.get("num_tokens", _NO_TOKENS)
            self._tokens.append(tokens if type(tokens) is int and 0 <= tokens < 2**31 else _NO_TOKENS)
            self._note_device(event.detail)
            self._end_frame()

    def _note_device(self, detail: dict) -> None:
        for column, key in zip((self.device_allocated_bytes, self.device_reserved_bytes), _DEVICE):
            value = detail.get(key)
            column.append(value if type(value) is int and 0 <= value < 2**53 else column[-1])

    def _tell(self, event: Event, first_change: int) -> None:
        """Note what the event says about the contents of the blocks it changed."""
        op, detail = event.op, event.detail
        blocks = self._changes[2 * first_change::2]
        if op not in ("allocate", "write", "cache") or not (detail or self._contents or self._told):
            return
        if op == "cache":
            self.block_size_tokens = self.block_size_tokens or _cached_tokens(event)
            parents, tokens = detail.get("parents", ()), detail.get("tokens", ())
            told = len(parents) == len(event.blocks) == len(blocks)
            for place, block in enumerate(blocks):
                said = _as_tokens(tokens[place]) if told and place < len(tokens) else None
                if told or self._told:
                    parent = parents[place] if told else None
                    is_block = type(parent) is int and -1 <= parent < self.num_blocks
                    self._add_telling(first_change + place, parent if is_block else CACHED_ALONE,
                                      said if said and said != self._contents.get(block) else [])
                    if said:
                        self._contents[block] = said
            return
        said, size = _as_tokens(detail.get("tokens")) or [], self.block_size_tokens or 0
        if op == "allocate" and "copied_from" in detail:
            said = self._contents.get(detail["copied_from"], []) + said
        if len(blocks) != len(event.blocks) or (len(blocks) > 1 and not size):
            said = []  # nobody can say which token is in which block
        begin = 0
        for place, block in enumerate(blocks):
            known = self._contents.get(block, [])
            if op == "write":
                count = len(said) if len(blocks) == 1 else min(len(said) - begin, max(0, size - len(known)))
                fresh = said[begin:begin + count]
                if fresh:
                    self._add_telling(first_change + place, GOES_ON, fresh)
                    self._contents[block] = known + fresh
            else:
                count = len(said) if len(blocks) == 1 else size
                fresh = said[begin:begin + count]
                if fresh or known:
                    self._add_telling(first_change + place, BEGINS, fresh)
                    self._contents[block] = fresh
            begin += count

    def _add_telling(self, change: int, what: int, tokens: list[int]) -> None:
        self._told.append(change)
        self._told_what.append(what)
        self._said.extend(tokens)
        self._told_ends.append(len(self._said))

    @property
    def tells_device(self) -> bool:
        """Whether events tell what the device's allocator had."""
        return max(self.device_reserved_bytes) >= 0 and max(self.device_allocated_bytes) >= 0

    def telling(self, number: int) -> tuple[int, int, list[int]]:
        """Telling `number`: its change, what it is, its tokens; change -1 if there are not so many."""
        if number >= len(self._told):
            return -1, 0, []
        return (self._told[number], self._told_what[number],
                list(self._said[self._told_ends[number - 1] if number else 0:self._told_ends[number]]))

    @property
    def tells_contents(self) -> bool:
        """Whether events tell what blocks contain. If so, they read as what happened to sequences, not as calls."""
        return bool(self._told)

    def message(self, since: int | None = None, owners_since: int = 0, notes_since: int = 0) -> dict:
        """The tape, or what it has got after its first `since` events, as plain values and bytes."""
        with self._lock:
            return self._message(since, owners_since, notes_since)

    def _message(self, since: int | None, owners_since: int, notes_since: int) -> dict:
        whole, since = since is None, since or 0
        first_change = 0 if whole else self._ends[since]
        optional = {}
        if any(step != number for number, step in enumerate(self._steps[since:], since)):
            optional["steps"] = as_bytes(self._steps[since:])
        if any(tokens != _NO_TOKENS for tokens in self._tokens[since:]):
            optional["tokens"] = as_bytes(self._tokens[since:])
        if whole and self._initial_salts:
            optional["initial_salts"] = self._initial_salts
        first = bisect_left(self._told, first_change)
        if first < len(self._told):
            said = self._said[self._told_ends[first - 1] if first else 0:]
            optional |= {"told": as_bytes(self._told[first:]), "told_what": as_bytes(self._told_what[first:]),
                         "told_ends": as_bytes(self._told_ends[first:]), "said": as_bytes(said)}
            if self.token_text:
                optional |= self._texts_of(sorted(set(said)))
        if self.texts:
            optional["texts"] = True
        if max(self.device_reserved_bytes[since:]) >= 0:
            optional |= {"device_allocated": as_bytes(self.device_allocated_bytes[0 if whole else since + 1:]),
                         "device_reserved": as_bytes(self.device_reserved_bytes[0 if whole else since + 1:])}
        return {"since": -1 if whole else since, "num_blocks": self.num_blocks, "source": self.source, "title": self.title,
                "block_size_tokens": self.block_size_tokens or 0, "operations": OPERATIONS, "no_name": NO_NAME,
                "owners_are": self.owners_are, "owners": self.owners[owners_since:], "notes": self._notes[notes_since:],
                "changes": as_bytes(self._changes[2 * first_change:]),
                "ends": as_bytes(self._ends[0 if whole else since + 1:]),  # frame 0 comes with the beginning
                "ops": as_bytes(self._ops[since:]), "who": as_bytes(self._who[since:]),
                "notes_of": as_bytes(self._note[since:]), **optional}

    def _texts_of(self, tokens: list[int]) -> dict:
        """How these tokens read, for a message."""
        told = {"token_text": {str(token): self.token_text(token) for token in tokens}}
        if isinstance(self.token_text, Pieces):
            told["token_joins"] = True
            told["token_bytes"] = {str(token): list(self.token_text.partial[token]) for token in tokens
                                   if token in self.token_text.partial}
        return told

    @property
    def num_changes(self) -> int:
        return len(self._changes) // 2

    @property
    def num_notes(self) -> int:
        return len(self._notes)

    def opening_frame(self) -> int:
        """The frame that says most at first sight: the first fault if there is one, else the last moment at which
        most blocks were held."""
        if self.first_fault is not None:
            return self.first_fault
        most = max(self.used)
        return next(frame for frame in range(len(self), -1, -1) if self.used[frame] == most)

    def sharing_frame(self) -> int:
        """The frame at which sharing saves most blocks: the first fault if there is one, else the last moment at which
        most references go to blocks that others hold too; where nothing is ever shared, the opening frame."""
        saved = [references - used for references, used in zip(self.references, self.used)]
        if self.first_fault is not None or not any(saved):
            return self.opening_frame()
        return len(saved) - 1 - saved[::-1].index(max(saved))

    def moment(self, frame: int) -> "Moment":
        """What there is to draw once `frame` events are carried out."""
        if self._last_moment[:2] != (frame, len(self)):  # a cell asks several times in a row
            self._last_moment = frame, len(self), self._moment(frame)
        return self._last_moment[2]

    def _moment(self, frame: int) -> "Moment":
        holders: dict[int, list[int]] = {}
        last_holder: dict[int, int] = {}
        cached: set[int] = set()
        at_fault: set[int] = set()
        changes = self._changes
        for i in range(0, 2 * self._ends[frame], 2):
            block, what = changes[i], changes[i + 1]
            owner = what >> 8
            if what & ADDED:
                held = holders.setdefault(block, [])
                held.append(owner)
                if what & FAULT and len(held) > 1:
                    at_fault.add(block)
            elif what & REMOVED:
                held = holders[block]
                del held[len(held) - 1 - held[::-1].index(owner)]  # the newest of this owner's references
                if not held:
                    del holders[block]
                    last_holder[block] = owner
                if len(held) <= 1:
                    at_fault.discard(block)
            if what & CACHED:
                cached.add(block)
            elif what & UNCACHED:
                cached.discard(block)
        return Moment(self.num_blocks, self.owners, holders, cached, last_holder, at_fault)

    def tables(self, frame: int) -> dict[int, list[int]]:
        """Every owner's block table once `frame` events are carried out: the blocks it holds, in the order in which it
        took them; the newest of several references to a block is the one that was given up."""
        taken: dict[int, list[int]] = {}
        for i in range(0, 2 * self._ends[frame], 2):
            block, what = self._changes[i], self._changes[i + 1]
            if what & ADDED:
                taken.setdefault(what >> 8, []).append(block)
            elif what & REMOVED:
                table = taken[what >> 8]
                del table[len(table) - 1 - table[::-1].index(block)]
        return {owner: table for owner, table in taken.items() if table}

    def num_tokens(self, frame: int) -> dict[int, int]:
        """How many tokens each owner's sequence has, as far as events have told."""
        return {self._who[number]: self._tokens[number] for number in range(frame)
                if self._tokens[number] != _NO_TOKENS}

    def owner_of(self, number: int) -> int:
        """Whose event it is, as an index into `owners`."""
        return self._who[number]

    @property
    def joins_pieces(self) -> bool:
        """Whether the pieces of a text bring their own blanks: a tokenizer's do; others, if one of them has any."""
        if isinstance(self.token_text, Pieces):
            return True
        read = self.token_text
        return read is not None and any(text != text.strip() for text in map(read, set(self._said)))

    def copy_under_way(self, frame: int) -> tuple[int, int] | None:
        """(source, target) while a block is copied before somebody writes: from the allocation of the target until
        the source is given up."""
        if not frame:
            return None
        op, _, note, changes = self.event(frame - 1)
        if op == "allocate" and changes and type(note.get("copied_from")) is int:
            return note["copied_from"], changes[0][0]
        if op == "release" and changes and type(note.get("replaced_by")) is int:
            return changes[0][0], note["replaced_by"]
        return None

    def told(self, number: int) -> list[int]:
        """The tokens that event `number` told."""
        first = bisect_left(self._told, self._ends[number])
        last = bisect_left(self._told, self._ends[number + 1])
        return [] if first == last else \
            list(self._said[self._told_ends[first - 1] if first else 0:self._told_ends[last - 1]])

    def event(self, number: int) -> tuple[str, str | None, dict, list[tuple[int, int]]]:
        """Event `number`, from 0: its operation, its owner's name (None without one), its note (what `detail` said,
        and faults), and its changes as (block, owner and what happened)."""
        owner = self.owners[self._who[number]]
        changes = [(self._changes[2 * i], self._changes[2 * i + 1])
                   for i in range(self._ends[number], self._ends[number + 1])]
        return (OPERATIONS[self._ops[number]], None if owner == NO_NAME else owner, self._notes[self._note[number]],
                changes)

    def _carry_out(self, event: Event) -> list[str]:
        """Do what the event reports, and note each change. Returns the faults in words."""
        legal, strange = [], []
        for block in event.blocks:
            if type(block) is int and 0 <= block < self.num_blocks:
                legal.append(block)
                continue
            try:
                inside = 0 <= index(block) < self.num_blocks
            except TypeError:
                inside = False
            if inside:
                legal.append(index(block))
            else:
                strange.append(f"block {block!r:.40} is not in this pool of {self.num_blocks}")
        known_faults = len(self._state.faults)
        # All at once, unless a block stands there twice: then one by one, to see what each did.
        for blocks in [legal] if len(set(legal)) == len(legal) else [[block] for block in legal]:
            self._apply(event._replace(blocks=tuple(blocks)))
        return _at_most(strange + [fault.message for fault in self._state.faults[known_faults:]])

    def _apply(self, event: Event) -> None:
        """Carry out an event that names no block twice."""
        state, blocks = self._state, event.blocks
        references, cached = state.references, state.cached
        # Replay says what holds afterwards, not what an event changed; for releases and the cache that takes a look
        # before. (A long recording has millions of blocks in its events: hence few steps for each.)
        old = [tuple(references.get(block, ())) for block in blocks] if event.op == "release" else ()
        were_cached = [block in cached for block in blocks] if cached else None
        known_faults = len(state.faults)
        state.apply(event)
        if old:
            changes = [self._given_up(before, references.get(block, ())) for block, before in zip(blocks, old)]
            for block, before in zip(blocks, old):
                self._num_shared -= len(before) == 2
                self._num_references -= bool(before)
        elif event.op in ("allocate", "retain"):
            changes = [self._names.number(event.owner) << 8 | ADDED] * len(blocks)
            for block in blocks:
                self._num_shared += len(references[block]) == 2
            self._num_references += len(blocks)
        else:
            changes = [self._names.number(event.owner) << 8] * len(blocks)
        if cached or were_cached:
            for i, block in enumerate(blocks):
                was_cached, held = bool(were_cached) and were_cached[i], len(references.get(block, ()))
                held_before = held - (changes[i] & ADDED) + (changes[i] & REMOVED > 0)
                self._num_cached += (block in cached and not held) - (was_cached and not held_before)
                if was_cached != (block in cached):
                    changes[i] |= UNCACHED if was_cached else CACHED
        if len(state.faults) > known_faults:
            at_fault = {fault.block for fault in state.faults[known_faults:]}
            changes = [what | FAULT if block in at_fault else what for block, what in zip(blocks, changes)]
        self._changes.extend(chain.from_iterable(zip(blocks, changes)))

    def _given_up(self, before: Sequence[Reference], after: Sequence[Reference]) -> int:
        """The change that a release made: whose reference has gone. None has from a block that was free."""
        if len(before) == len(after):
            return 0
        gone = before[0] if not after else next((was for was, now in zip(before, after) if was is not now), before[-1])
        return self._names.number(gone.owner) << 8 | REMOVED

    def _end_frame(self) -> None:
        self._ends.append(len(self._changes) // 2)
        self.used.append(len(self._state.references))
        self.shared.append(self._num_shared)
        self.cached.append(self._num_cached)
        self.references.append(self._num_references)

    def _note_number(self, note: dict) -> int:
        if not note:
            return 0
        key = json.dumps(note, default=repr)
        if key not in self._note_index:
            self._note_index[key] = len(self._notes)
            self._notes.append(json.loads(key))
        return self._note_index[key]


@dataclass
class Moment:
    """A pool at one frame, as it is drawn.

    owners       the owners' names; the other fields hold indices into it
    holders      block → the owner of each reference, oldest first, for the blocks that somebody holds
    cached       the blocks whose contents can be found again
    last_holder  block → who held it last, for blocks that were given back
    at_fault     the blocks that were given out while somebody held them, until only one holder is left
    """

    num_blocks: int
    owners: list[str]
    holders: dict[int, list[int]]
    cached: set[int]
    last_holder: dict[int, int] = field(default_factory=dict)
    at_fault: set[int] = field(default_factory=set)

    @classmethod
    def of_state(cls, state: PoolState) -> "Moment":
        """From a state of which no recording is at hand: owners are numbered as their references come."""
        held = sorted(((reference.step, block, reference.owner)
                       for block, references in state.references.items() for reference in references),
                      key=lambda each: each[:2])
        indices: dict[Hashable, int] = {}
        for _, _, owner in held:
            indices.setdefault(owner, len(indices))
        return cls(state.num_blocks, [NO_NAME if owner is None else str(owner) for owner in indices],
                   {block: [indices[reference.owner] for reference in references]
                    for block, references in state.references.items()}, set(state.cached),
                   at_fault={fault.block for fault in state.faults if state.refcount(fault.block) > 1})

    @property
    def num_used(self) -> int:
        return len(self.holders)

    @property
    def num_shared(self) -> int:
        return sum(len(held) > 1 for held in self.holders.values())

    @property
    def num_cached(self) -> int:
        """Cached blocks that nobody holds: free to take."""
        return sum(block not in self.holders for block in self.cached)


def label(name: str) -> str:
    """At most three characters for the inside of a cell: "request 17" is 17. front/colours.js has the same rule."""
    if len(name) <= 3:
        return name
    digits = name[len(name.rstrip("0123456789")):]
    return digits[-3:] if digits else name[:2]


def _as_tokens(told) -> list[int] | None:
    """A list of tokens, or None if this is none."""
    if not isinstance(told, (tuple, list)) or not all(type(token) is int and -2**31 <= token < 2**31 for token in told):
        return None
    return list(told)


def _cached_tokens(event: Event) -> int | None:
    """How many tokens the first block has that this event caches: only full ones are."""
    tokens = event.detail.get("tokens") if event.op == "cache" else None
    return len(tokens[0]) if tokens and isinstance(tokens[0], (tuple, list)) else None


def _short(blocks: Sequence) -> str:
    text = ", ".join(f"{block!r:.40}" if type(block) is not int else str(block)
                     for block in blocks[:_MOST_BLOCKS_NAMED])
    return f"[{text}]" if len(blocks) <= _MOST_BLOCKS_NAMED else f"[{text}, … {len(blocks)} blocks]"


def _at_most(faults: list[str]) -> list[str]:
    more = len(faults) - _MOST_FAULTS_NAMED
    return faults if more <= 1 else [*faults[:_MOST_FAULTS_NAMED], f"and {more} faults more"]
