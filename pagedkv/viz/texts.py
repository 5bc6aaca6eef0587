"""The text of each sequence at a frame of a tape. front/texts.js does the same in the browser.

A text is made of *stretches*, one for each block of the sequence's table: the tokens that lie in that block, as far as
events told. So a text is what is really stored for a sequence; a block that somebody else writes into changes it.

    there already   the tokens that were there when the sequence began: found in the cache, or shared by a fork. They
                    come first, and were not computed for it
    missing         how many tokens the sequence has of which no event told, because they came before the recording
    finished        it has given back all its blocks; its text is the one that it had

An owner whose blocks are all given back and who takes others later has begun again. Whoever takes blocks without
telling what for is no sequence.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pagedkv.viz.names import NO_NAME
from pagedkv.viz.tape import ADDED, BEGINS, GOES_ON, OPERATIONS, REMOVED, Tape


@dataclass(frozen=True)
class Stretch:
    """tokens: those that lie in `block`, which is shared if others hold it as well."""

    block: int
    tokens: tuple[int, ...]
    shared: bool


@dataclass(frozen=True)
class SequenceText:
    """owner    as an index into the tape's owners
    begin    the event with which it began
    """

    owner: int
    begin: int
    stretches: tuple[Stretch, ...]
    num_there: int
    num_missing: int
    is_finished: bool

    @property
    def tokens(self) -> list[int]:
        return [token for stretch in self.stretches for token in stretch.tokens]

    @property
    def num_tokens(self) -> int:
        return self.num_missing + sum(len(stretch.tokens) for stretch in self.stretches)


@dataclass
class _Life:
    begin: int
    num_there: int
    ended: tuple[tuple[Stretch, ...], int] | None = None  # its stretches, and how many tokens are missing


def texts_at(tape: Tape, frame: int) -> list[SequenceText]:
    """The text of everybody with a name who holds blocks, or held some, once `frame` events are carried out; in the
    order in which they began. Costs time in proportion to the events before."""
    return _Past(tape, frame).texts()


class _Past:
    """What has happened up to a frame; it reads the tape's own columns."""

    def __init__(self, tape: Tape, frame: int):
        self.tape, self.frame = tape, frame
        self.contents: dict[int, list[int]] = {}
        self.tables: dict[int, list[int]] = {}
        self.refcounts: dict[int, int] = {}
        self.num_tokens: dict[int, int] = {}
        self.lives: dict[int, _Life] = {}
        self.telling = 0
        self._carry_out(0, tape._ends[0])
        for number in range(frame):
            self._event(number)

    def texts(self) -> list[SequenceText]:
        texts = []
        copy = self.tape.copy_under_way(self.frame)
        for owner, life in self.lives.items():
            if life.ended:
                stretches, missing = life.ended
            else:
                table = self.tables[owner]
                if copy is not None and table[-2:] == list(copy):
                    table = table[:-1]  # the copy stands beside its source until that is given up
                stretches, missing = self._stretches(owner, table)
            texts.append(SequenceText(owner, life.begin, stretches, life.num_there, missing, life.ended is not None))
        return sorted(texts, key=lambda text: (text.begin, text.owner))

    def _event(self, number: int) -> None:
        tape, begin, end = self.tape, self.tape._ends[number], self.tape._ends[number + 1]
        who, tokens = tape._who[number], tape._tokens[number]
        given_up: dict[int, int] = {}
        for i in range(begin, end):
            what = tape._changes[2 * i + 1]
            if what & REMOVED:
                given_up[what >> 8] = given_up.get(what >> 8, 0) + 1
        for owner, count in given_up.items():
            life = self.lives.get(owner)
            if life is not None and life.ended is None and count == len(self.tables[owner]):
                life.ended = self._stretches(owner, self.tables[owner], is_over=True)
        taken = [tape._changes[2 * i] for i in range(begin, end) if tape._changes[2 * i + 1] & ADDED]
        if taken and not self.tables.get(who) and tape.owners[who] != NO_NAME and (tokens >= 0 or tape.told(number)):
            there = 0
            if OPERATIONS[tape._ops[number]] == "retain":
                there = tokens if tokens >= 0 else sum(len(self.contents.get(block, ())) for block in taken)
            self.lives[who] = _Life(number, there)
        self._carry_out(begin, end)
        if tokens >= 0:
            self.num_tokens[who] = tokens

    def _carry_out(self, begin: int, end: int) -> None:
        tape = self.tape
        for i in range(begin, end):
            block, what = tape._changes[2 * i], tape._changes[2 * i + 1]
            if what & ADDED:
                self.tables.setdefault(what >> 8, []).append(block)
                self.refcounts[block] = self.refcounts.get(block, 0) + 1
            elif what & REMOVED:
                table = self.tables[what >> 8]
                del table[len(table) - 1 - table[::-1].index(block)]
                self.refcounts[block] -= 1
            change, what_told, said = tape.telling(self.telling)
            if change == i:
                self.telling += 1
                if what_told == GOES_ON:
                    self.contents[block] = self.contents.get(block, []) + said
                elif what_told == BEGINS or said:  # a cached block without tokens has those that were told before
                    self.contents[block] = said

    def _stretches(self, owner: int, table: Sequence[int], is_over: bool = False) -> tuple[tuple[Stretch, ...], int]:
        stretches = tuple(Stretch(block, tuple(self.contents.get(block, ())), not is_over and self.refcounts[block] > 1)
                          for block in table)
        known = sum(len(stretch.tokens) for stretch in stretches)
        return stretches, max(0, self.num_tokens.get(owner, 0) - known)


def most_telling(texts: Iterable[SequenceText], most: int, wanted: Sequence[int] = ()) -> list[SequenceText]:
    """At most so many of them, in the same order: the wanted owners', then those that go on, then the newest."""
    texts = list(texts)
    best = sorted(texts, key=lambda text: (text.owner not in wanted, text.is_finished, -text.begin, -text.owner))[:most]
    return [text for text in texts if text in best]


def cut_in_the_middle(pieces: Sequence[str], room: int) -> tuple[int, int]:
    """How many pieces to show at the beginning and at the end, so that they and a word on what is left out take about
    `room` letters; all of them at the beginning, if they fit. The end gets two thirds: there it goes on."""
    widths = list(map(letters, pieces))
    if sum(widths) <= room:
        return len(pieces), 0
    room = max(0, room - 18)  # "… 1,980 tokens …"
    head, tail, used = 0, 0, 0
    while head < len(pieces) and used + widths[head] <= room // 3:
        used += widths[head]
        head += 1
    while tail < len(pieces) - head and used + widths[-1 - tail] <= room:
        used += widths[-1 - tail]
        tail += 1
    return head, max(tail, min(1, len(pieces) - head))


def letters(text: str) -> int:
    """How wide a text is, in letters of a typewriter: those of East Asia, and pictures, are twice as wide."""
    return sum(2 if "\u1100" <= letter else 1 for letter in text)
