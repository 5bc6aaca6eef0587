"""A memory tape: an allocator's recording in the form that a browser plays.

Every piece and every segment that ever was has a row of its own: where it lay, how long it was, whose. What the events
did is one list of *changes*, each a number and an amount:

    uint32   the row of the piece (or segment), times 8, plus the kind: RESERVE … HOLD
    float64  take, fill: how many bytes the owner asks for of the piece from now on

`ends[f]` is how many changes have happened once f events are carried out; those before `ends[0]` are the state in which
the recording began. Every change can be undone as well as done, so no copies of the state are kept, and going back
costs what going forward costs. Addresses and sizes go above 2³²: they are float64, which is exact below 2⁵³.

What an event cannot have done, such as giving away memory twice, is left out and becomes a fault of its event (see
`pagedkv.core.memory_replay`).

    tape = MemoryTape(recording, "first fit")
    tape.moment(7)      # what there is after seven events
    tape.message()      # for the browser: plain values and bytes
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from pagedkv.core.arguments import as_count
from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import FILL, GIVE, HOLD, RESERVE, TAKE, UNRESERVE, Decision, Look, MemoryEvent, MemoryRecording
from pagedkv.core.memory_replay import MemoryState
from pagedkv.core.why import Reason, why_refused
from pagedkv.viz.columns import as_bytes
from pagedkv.viz.names import NO_NAME, Names, cut

KINDS = (RESERVE, UNRESERVE, TAKE, FILL, GIVE, HOLD)  # a change's kind is its place here
PINNED_FREE_SHARE = 0.75  # a segment of which so much is free, or more but not all, is pinned: little keeps it

_RESERVE, _UNRESERVE, _TAKE, _FILL, _GIVE, _HOLD = range(6)
_KIND_NUMBERS = {kind: number for number, kind in enumerate(KINDS)}
_MOST_LOOKS_KEPT = 2_000_000  # of all decisions together; later decisions are left out of a recording that has more
_MOST_FAULTS_NAMED = 4  # of one event
_MOST_REASONS = 20_000  # kept: of a recording with more refusals the later ones tell only their error
_EXACT = 1 << 53
_PROGRESS_EVERY = 4096  # events


class MemoryTape:
    """A recording's changes, in columns of numbers that go to the browser as they are. It is the recording as it was
    when the tape was made.

    owners    the name of every owner, in the order in which they appear; no two alike
    used, requested, reserved, held, largest_free   in bytes, for every frame; see `MemoryState`
    most_pieces   how many pieces there were at once, at the most
    first_trouble   the number of events carried out when the first refused or impossible one is there, or None
    on_progress     is told now and then how many events are done
    row_bytes       how many bytes a row of the picture has; chosen by its size otherwise

    Raises ValueError for an event that replay does not know, or addresses from 2⁵³ on.
    """

    def __init__(self, recording: MemoryRecording, title: str = "", on_progress: Callable[[int], None] | None = None,
                 row_bytes: int | None = None):
        if row_bytes is not None and as_count(row_bytes, "row_bytes") < 1:
            raise ValueError("a row has at least 1 byte")
        self.row_bytes = row_bytes
        self.title, self.source = title or recording.source, recording.source
        self.capacity_bytes, self.in_pieces = recording.capacity_bytes, recording.in_pieces
        self._names = Names()
        self.owners = self._names.texts
        self.operations: list[str] = []
        self.first_trouble: int | None = None
        self.piece_addresses, self.piece_sizes, self.piece_owners = array("d"), array("d"), array("I")
        self.segment_addresses, self.segment_sizes, self.segment_labels = array("d"), array("d"), array("H")
        self.labels: list[str] = []
        self._changes, self._amounts, self._ends = array("I"), array("d"), array("I")
        self._ops, self._who, self._sizes, self._note = array("H"), array("I"), array("d"), array("I")
        self._steps, self._moved = array("q"), array("d")
        self.used, self.requested, self.reserved = array("d"), array("d"), array("d")
        self.held, self.largest_free = array("d"), array("d")
        self._notes: list[dict] = [{}]
        self._note_numbers: dict[tuple, int] = {}
        self._decisions = _Decisions()
        self._last_moment: tuple = (None, None)
        self.most_pieces = self._num_reasons = 0

        state = MemoryState(recording.initial)
        self._pieces: dict[int, int] = {}  # address → row, while it is there
        self._segments: dict[int, int] = {}
        for segment in state.layout().segments:
            self._add_segment(segment.address, segment.size_bytes, segment.label)
        for piece in state.layout().pieces:
            self._add_piece(piece.address, piece.size_bytes, piece.owner, piece.requested_bytes)
            if piece.held:
                self._changes.append(self._pieces[piece.address] << 3 | _HOLD)
                self._amounts.append(0)
        self._end_frame(state)
        self._add(recording.events, state, on_progress)
        del self._pieces, self._segments

    def __len__(self) -> int:
        """How many events it has; its frames are 0 … len."""
        return len(self._ops)

    @property
    def num_changes(self) -> int:
        return len(self._changes)

    def message(self) -> dict:
        """The tape as plain values and bytes, for memory_tape.js."""
        optional = {}
        if any(step != number for number, step in enumerate(self._steps)):
            optional["steps"] = as_bytes(array("d", self._steps))
        if any(self._moved):
            optional["moved"] = as_bytes(self._moved)
        return {"capacity_bytes": self.capacity_bytes, "in_pieces": self.in_pieces, "row_bytes": self.row_bytes, "source": self.source, "title": self.title, "no_name": NO_NAME,
                "operations": self.operations, "owners": self.owners, "labels": self.labels, "notes": self._notes,
                "pinned_free_share": PINNED_FREE_SHARE, "most_pieces": self.most_pieces,
                "piece_addresses": as_bytes(self.piece_addresses), "piece_sizes": as_bytes(self.piece_sizes),
                "piece_owners": as_bytes(self.piece_owners), "segment_addresses": as_bytes(self.segment_addresses),
                "segment_sizes": as_bytes(self.segment_sizes), "segment_labels": as_bytes(self.segment_labels),
                "changes": as_bytes(self._changes), "amounts": as_bytes(self._amounts), "ends": as_bytes(self._ends),
                "ops": as_bytes(self._ops), "who": as_bytes(self._who), "sizes": as_bytes(self._sizes),
                "notes_of": as_bytes(self._note), "largest_free": as_bytes(self.largest_free),
                **self._decisions.message(), **optional}

    def opening_frame(self) -> int:
        """The frame that says most at first sight: the first refused request (or impossible event) if there is one,
        else the last moment at which most was in use."""
        if self.first_trouble is not None:
            return self.first_trouble
        most = max(self.used)
        return next(frame for frame in range(len(self), -1, -1) if self.used[frame] == most)

    def free_at(self, frame: int) -> int:
        """What is reserved and in no piece, in bytes."""
        return int(self.reserved[frame] - self.used[frame] - self.held[frame])

    def largest_fitting(self, frame: int) -> int:
        """The largest request that the free memory could serve, in bytes; see `pagedkv.core.memory_metrics`."""
        return self.free_at(frame) if self.in_pieces else int(self.largest_free[frame])

    def moment(self, frame: int) -> "MemoryMoment":
        """What there is to draw once `frame` events are carried out."""
        if self._last_moment[0] != frame:  # a cell asks several times in a row
            self._last_moment = frame, self._moment(frame)
        return self._last_moment[1]

    def event(self, number: int) -> "TapedEvent":
        """Event `number`, from 0."""
        owner = self.owners[self._who[number]]
        changes = [(KINDS[self._changes[i] & 7], self._changes[i] >> 3, self._amounts[i])
                   for i in range(self._ends[number], self._ends[number + 1])]
        return TapedEvent(self.operations[self._ops[number]], None if owner == NO_NAME else owner,
                          int(self._sizes[number]), self.note(number), int(self._moved[number]), changes)

    def note(self, number: int) -> dict:
        """What event `number`, from 0, told beside its changes and its decision."""
        return self._notes[self._note[number]]

    def decision(self, number: int) -> Decision | None:
        """The decision of event `number`, from 0; None if it told none."""
        return self._decisions.of(number)

    def _moment(self, frame: int) -> "MemoryMoment":
        pieces: dict[int, list] = {}  # row → [requested, held]
        segments: set[int] = set()
        changes, amounts = self._changes, self._amounts
        for i in range(self._ends[frame]):
            row, kind = changes[i] >> 3, changes[i] & 7
            if kind == _TAKE:
                pieces[row] = [amounts[i], False]
            elif kind == _GIVE:
                del pieces[row]
            elif kind == _FILL:
                pieces[row][0] = amounts[i]
            elif kind == _HOLD:
                pieces[row][1] = True
            elif kind == _RESERVE:
                segments.add(row)
            else:
                segments.discard(row)
        there = [(int(self.segment_addresses[row]), int(self.segment_sizes[row]), self.labels[self.segment_labels[row]])
                 for row in segments]
        in_use = [DrawnPiece(int(self.piece_addresses[row]), int(self.piece_sizes[row]), self.piece_owners[row],
                             int(filled), held) for row, (filled, held) in pieces.items()]
        return MemoryMoment(sorted(there), sorted(in_use))

    def _add(self, events: list[MemoryEvent], state: MemoryState, on_progress: Callable[[int], None] | None) -> None:
        operations: dict[str, int] = {}
        number_of, apply, faults = self._names.number, state.apply, state.faults
        pieces, segments, changes, amounts = self._pieces, self._segments, self._changes, self._amounts
        for number, event in enumerate(events):
            if on_progress is not None and number % _PROGRESS_EVERY == 0:
                on_progress(number)
            known_faults, owner = len(faults), number_of(event.owner)
            for kind, address, size_bytes, requested_bytes, label in apply(event):
                if kind == TAKE:
                    self._add_piece(address, size_bytes, event.owner, requested_bytes)
                    continue
                if kind == RESERVE:
                    self._add_segment(address, size_bytes, label)
                    continue
                row = segments.pop(address) if kind == UNRESERVE else \
                    pieces.pop(address) if kind == GIVE else pieces[address]
                changes.append(row << 3 | _KIND_NUMBERS[kind])
                amounts.append(requested_bytes)
            op = operations.get(event.op)
            if op is None:
                op = operations[event.op] = len(self.operations)
                self.operations.append(event.op)
            self._ops.append(op)
            self._who.append(owner)
            self._sizes.append(event.size_bytes)
            self._steps.append(event.step)
            detail = event.detail
            self._moved.append(detail.get("moved_bytes", 0))
            self._decisions.add(detail.get("decision"))
            new_faults = [fault.message for fault in faults[known_faults:]] if len(faults) > known_faults else ()
            reason = self._reason(event, state) if "error" in detail else None
            self._note.append(self._note_number(detail, new_faults, reason))
            if self.first_trouble is None and (new_faults or "error" in detail):
                self.first_trouble = number + 1
            self._end_frame(state)

    def _add_piece(self, address: int, size_bytes: int, owner, requested_bytes: int) -> None:
        row = self._pieces[address] = len(self.piece_addresses)
        self.piece_addresses.append(address)
        self.piece_sizes.append(size_bytes)
        self.piece_owners.append(self._names.number(owner))
        self._changes.append(row << 3 | _TAKE)
        self._amounts.append(requested_bytes)

    def _add_segment(self, address: int, size_bytes: int, label: str) -> None:
        if address < 0 or address + size_bytes > _EXACT:
            raise ValueError(f"a segment at {address:#x}: addresses have to lie between 0 and 2^53 to be drawn exactly")
        row = self._segments[address] = len(self.segment_addresses)
        self.segment_addresses.append(address)
        self.segment_sizes.append(size_bytes)
        if label not in self.labels:
            self.labels.append(label)
        self.segment_labels.append(self.labels.index(label))
        self._changes.append(row << 3 | _RESERVE)
        self._amounts.append(0)

    def _end_frame(self, state: MemoryState) -> None:
        self._ends.append(len(self._changes))
        self.used.append(state.used_bytes)
        self.requested.append(state.requested_bytes)
        self.reserved.append(state.reserved_bytes)
        self.held.append(state.held_bytes)
        self.largest_free.append(state.largest_free_bytes)
        if len(state.pieces) > self.most_pieces:
            self.most_pieces = len(state.pieces)

    def _reason(self, event: MemoryEvent, state: MemoryState) -> Reason | None:
        """Why there was no memory. What counts is the request as the allocator rounded it."""
        decision = event.detail.get("decision")
        size_bytes = max(event.size_bytes, decision.rounded_bytes if decision else 0)
        if event.detail["error"] != OutOfMemory.__name__ or size_bytes < 1 or self._num_reasons == _MOST_REASONS:
            return None
        self._num_reasons += 1
        return why_refused(state, self.capacity_bytes, size_bytes, in_pieces=self.in_pieces)

    def _note_number(self, detail: dict, faults, reason: Reason | None) -> int:
        """What an event's detail says beside its decision. Equal notes are kept once."""
        error, calls, skipped = detail.get("error"), detail.get("device_calls"), detail.get("skipped")
        if not (error or calls or skipped or faults):
            return 0
        message = str(detail.get("message", "")) if error else ""
        key = error, message, bool(skipped), tuple(calls.items()) if calls else (), tuple(faults), reason
        number = self._note_numbers.get(key)
        if number is None:
            number = self._note_numbers[key] = len(self._notes)
            note: dict = {}
            if error:
                note |= {"error": cut(str(error)), "message": cut(message)}
            if reason:
                note["why"] = {**reason._asdict(), "words": str(reason)}
            if skipped:
                note["skipped"] = True
            if calls:
                note["device_calls"] = {str(kind): int(count) for kind, count in calls.items()}
            if faults:
                more = len(faults) - _MOST_FAULTS_NAMED
                rest = [f"and {more} faults more"] if more > 1 else faults[_MOST_FAULTS_NAMED:]
                note["faults"] = [*faults[:_MOST_FAULTS_NAMED], *rest]
            self._notes.append(note)
        return number


@dataclass(frozen=True)
class TapedEvent:
    """changes   (kind, row of the piece or segment, amount), in order
    note      "error", "message", "why" (a Reason's fields, and its "words"), "skipped", "device_calls", "faults", where
              there are any
    """

    op: str
    owner: str | None
    size_bytes: int
    note: dict
    moved_bytes: int
    changes: list[tuple[str, int, float]]


@dataclass(frozen=True, order=True)
class DrawnPiece:
    """owner is an index into the tape's owners; requested_bytes from its beginning are filled."""

    address: int
    size_bytes: int
    owner: int
    requested_bytes: int
    held: bool

    @property
    def end(self) -> int:
        return self.address + self.size_bytes


@dataclass(frozen=True)
class MemoryMoment:
    """segments  (address, size_bytes, label), pieces: both in order of their addresses"""

    segments: list[tuple[int, int, str]]
    pieces: list[DrawnPiece]

    def in_segment(self, address: int, size_bytes: int) -> list[DrawnPiece]:
        starts = [piece.address for piece in self.pieces]
        return self.pieces[bisect_right(starts, address - 1):bisect_right(starts, address + size_bytes - 1)]

    def free_runs(self) -> list[tuple[int, int]]:
        """(address, size_bytes) of every free run, in order. Runs of two segments are two."""
        runs, pieces, at = [], self.pieces, 0
        for address, size_bytes, _ in self.segments:
            begin, end = address, address + size_bytes
            while at < len(pieces) and pieces[at].address < end:
                if pieces[at].address > begin:
                    runs.append((begin, pieces[at].address - begin))
                begin = pieces[at].end
                at += 1
            if begin < end:
                runs.append((begin, end - begin))
        return runs

    def pinned(self) -> list["Pinned"]:
        """The segments that little keeps from going back to the device, the freest first. With one segment there is
        none: an arena never goes back."""
        if len(self.segments) < 2:
            return []
        found, at, pieces = [], 0, self.pieces
        for address, size_bytes, label in self.segments:
            first = at
            while at < len(pieces) and pieces[at].address < address + size_bytes:
                at += 1
            inside = pieces[first:at]
            free = size_bytes - sum(piece.size_bytes for piece in inside)
            if inside and free >= PINNED_FREE_SHARE * size_bytes:
                found.append(Pinned(address, size_bytes, label, free, inside))
        return sorted(found, key=lambda each: (-each.free_bytes, each.address))


@dataclass(frozen=True)
class Pinned:
    """A segment of which at least PINNED_FREE_SHARE is free, and what keeps it."""

    address: int
    size_bytes: int
    label: str
    free_bytes: int
    pieces: list[DrawnPiece]


class _Decisions:
    """Decisions in columns: by event, by decision, by look. Texts are kept once each."""

    def __init__(self):
        self._of_event = array("I")  # 0: none; else the decision's number + 1
        self._asked, self._rounded, self._num_looks = array("d"), array("d"), array("I")
        self._look_ends, self._note_ends = array("I", [0]), array("I", [0])
        self._addresses, self._sizes, self._whats, self._verdicts = array("d"), array("d"), array("I"), array("I")
        self._notes = array("I")
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._left_out = 0

    def add(self, decision: Decision | None) -> None:
        if decision is None or len(self._whats) > _MOST_LOOKS_KEPT:
            self._left_out += decision is not None
            self._of_event.append(0)
            return
        text, numbers = self._text, self._numbers
        for what, address, size_bytes, verdict in decision.looks:
            self._whats.append(numbers[what] if what in numbers else text(what))
            self._addresses.append(address)
            self._sizes.append(size_bytes)
            self._verdicts.append(numbers[verdict] if verdict in numbers else text(verdict))
        for note in decision.notes:
            self._notes.append(text(note))
        self._asked.append(decision.asked_bytes)
        self._rounded.append(decision.rounded_bytes)
        self._num_looks.append(decision.num_looks)
        self._look_ends.append(len(self._whats))
        self._note_ends.append(len(self._notes))
        self._of_event.append(len(self._asked))

    def of(self, event: int) -> Decision | None:
        at = self._of_event[event] - 1
        if at < 0:
            return None
        texts = self._texts
        looks = tuple(Look(texts[self._whats[i]], int(self._addresses[i]), int(self._sizes[i]),
                           texts[self._verdicts[i]]) for i in range(self._look_ends[at], self._look_ends[at + 1]))
        notes = tuple(texts[self._notes[i]] for i in range(self._note_ends[at], self._note_ends[at + 1]))
        return Decision(int(self._asked[at]), int(self._rounded[at]), looks, self._num_looks[at], notes)

    def message(self) -> dict:
        if not self._asked:
            return {}
        columns = {"of_event": self._of_event, "asked": self._asked, "rounded": self._rounded,
                   "num_looks": self._num_looks, "look_ends": self._look_ends, "note_ends": self._note_ends,
                   "look_addresses": self._addresses,
                   "look_sizes": self._sizes, "look_whats": self._whats, "look_verdicts": self._verdicts,
                   "decision_notes": self._notes}
        return {"decision_texts": self._texts, "decisions_left_out": self._left_out,
                **{name: as_bytes(column) for name, column in columns.items()}}

    def _text(self, text: str) -> int:
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = len(self._texts)
            self._texts.append(cut(text))
        return number
