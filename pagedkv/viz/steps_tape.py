"""A story told step by step, checked, and in the form that the browser plays.

A *trace* says where every block is after each of a few steps: two threads that pop blocks off one stack, say, or
threads with a cache each in front of it. It is a dict, the same in JSON:

    version   1
    title     a text, may be empty
    source    optional: where it comes from, such as "Java CachedLockFreePool"
    actors    names of those who act, such as threads
    places    from left to right, {"name": …, "kind": …, "actor": optional}. Kinds: "stack", whose blocks are listed
              from the top downwards; "set"; "lost", for what nobody can get at any more. A place with an actor is that
              actor's: a set is what it holds, a stack its cache
    steps     in order, the first one being the start:
                actor    who did it, or None
                call     the call it is in, such as "pop()", or None between calls; a step that ends a call has None
                text     what it did, a clause without a name and without a full stop
                blocks   place → list of blocks after the step, for every place
                notes    actor → what it is in and has read since its call began, or "", for every actor
                head     optional: the block that the head of the stack names, None for none
                mark     a short text where it goes wrong, or None
    result    what is wrong at the end, or ""

A block is in one place after a step, unless it was handed out twice: that is the bug such a trace shows.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pagedkv.core.arguments import as_ints

VERSION = 1
KINDS = ("stack", "set", "lost")


@dataclass(frozen=True)
class Place:
    name: str
    kind: str
    actor: int | None  # its place among the actors


@dataclass(frozen=True)
class Step:
    """blocks: one list for each place; notes: one text for each actor; head: the block it names, -1 for none, None if
    the trace has no head."""

    actor: int | None
    call: str | None
    text: str
    blocks: list[list[int]]
    notes: list[str]
    head: int | None
    mark: str


class StepsTape:
    """A trace as a widget plays it: frame i is the state after step i, frame 0 the start.

    title, source, result, actors, places, steps   as in the trace
    owners   nobody can be followed: always empty

    Raises TypeError for what is no dict, ValueError for a trace that is not of this form; the message names the step.
    """

    def __init__(self, trace: Mapping, title: str | None = None):
        if not isinstance(trace, Mapping):
            raise TypeError(f"a trace is a dict with places, actors and steps, not a {type(trace).__name__}")
        if trace.get("version") != VERSION:
            raise ValueError(f"the trace has version {trace.get('version')!r}, this view reads version {VERSION}")
        self.title = str(trace.get("title") or "Step by step") if title is None else title
        self.source = str(trace.get("source") or "")
        self.result = str(trace.get("result") or "")
        self.owners: list[str] = []
        self.actors = _names(_listed(trace, "actors"), "actor")
        self.places = [self._place(place) for place in _listed(trace, "places")]
        _names([place.name for place in self.places], "place")
        steps = _listed(trace, "steps")
        if not steps or not self.places:
            raise ValueError("a trace has at least one place and one step, the start")
        self.steps = [self._step(step, number) for number, step in enumerate(steps)]

    def __len__(self) -> int:
        """How many steps follow the start."""
        return len(self.steps) - 1

    @property
    def has_head(self) -> bool:
        return any(step.head is not None for step in self.steps)

    @property
    def first_mark(self) -> int | None:
        """The frame at which it first goes wrong."""
        return next((frame for frame, step in enumerate(self.steps) if step.mark), None)

    def telling_frame(self) -> int:
        """Where it goes wrong, or else the end."""
        return len(self) if self.first_mark is None else self.first_mark

    def most_blocks(self) -> list[int]:
        """How many blocks each place has at most, over all steps."""
        return [max(len(step.blocks[place]) for step in self.steps) for place in range(len(self.places))]

    def num_blocks(self) -> int:
        return len({block for step in self.steps for blocks in step.blocks for block in blocks})

    def moved(self, frame: int) -> set[int]:
        """The blocks that are not where they were before this frame's step."""
        if frame == 0:
            return set()
        now, before = self._whereabouts(frame), self._whereabouts(frame - 1)
        return {block for block in now.keys() | before.keys() if now.get(block) != before.get(block)}

    def doubled(self, frame: int) -> set[int]:
        """The blocks that are in two places at once."""
        return {block for block, places in self._whereabouts(frame).items() if len(places) > 1}

    def result_at(self, frame: int) -> str:
        """The result, once it has shown: where it goes wrong, or at the end."""
        return self.result if frame >= self.telling_frame() else ""

    def sentence(self, frame: int) -> str:
        """What the step did, with who did it."""
        step = self.steps[frame]
        said = step.text if step.actor is None else f"{self.actors[step.actor]}: {step.text}"
        return f"{said} – {step.mark}" if step.mark else said

    def where(self, frame: int) -> str:
        """Which blocks are in which place."""
        return "; ".join(f"{place.name}: {', '.join(map(str, blocks)) or 'none'}"
                         for place, blocks in zip(self.places, self.steps[frame].blocks))

    def message(self) -> dict:
        """For the browser; front/steps_tape.js reads it."""
        return {
            "title": self.title, "source": self.source, "result": self.result, "actors": self.actors,
            "places": [{"name": place.name, "kind": place.kind, "actor": -1 if place.actor is None else place.actor}
                       for place in self.places],
            "steps": [{"actor": -1 if step.actor is None else step.actor, "call": step.call or "", "text": step.text,
                       "blocks": step.blocks, "notes": step.notes, "head": step.head, "mark": step.mark}
                      for step in self.steps],
            "hasHead": self.has_head, "tellingFrame": self.telling_frame(),
        }

    def _whereabouts(self, frame: int) -> dict[int, list[int]]:
        """Block → the places it is in."""
        found: dict[int, list[int]] = {}
        for place, blocks in enumerate(self.steps[frame].blocks):
            for block in blocks:
                found.setdefault(block, []).append(place)
        return found

    def _place(self, place: Mapping) -> Place:
        name, kind, actor = place.get("name"), place.get("kind"), place.get("actor")
        if kind not in KINDS:
            raise ValueError(f"place {name!r} has the kind {kind!r}: there are {', '.join(KINDS)}")
        return Place(name, kind, None if actor is None else self._actor(actor, f"place {name!r}"))

    def _step(self, step: Mapping, number: int) -> Step:
        where = f"step {number}"
        blocks, notes = step.get("blocks") or {}, step.get("notes") or {}
        _same_names(blocks, [place.name for place in self.places], f"{where}, blocks")
        _same_names(notes, self.actors, f"{where}, notes")
        if not step.get("text"):
            raise ValueError(f"{where} has no text: say what it did")
        actor, head = step.get("actor"), step.get("head")
        lists = [as_ints(blocks[place.name]) for place in self.places]
        for place, listed in zip(self.places, lists):
            if min(listed, default=0) < 0 or len(set(listed)) < len(listed):
                raise ValueError(f"{where}, {place.name!r}: {listed} are not different blocks from 0 on")
        return Step(None if actor is None else self._actor(actor, where), step.get("call") or None, str(step["text"]),
                    lists, [str(notes[name] or "") for name in self.actors],
                    None if "head" not in step else -1 if head is None else as_ints([head])[0],
                    str(step.get("mark") or ""))

    def _actor(self, name: object, where: str) -> int:
        if name not in self.actors:
            raise ValueError(f"{where} speaks of the actor {name!r}: there are {', '.join(self.actors) or 'none'}")
        return self.actors.index(name)


def _listed(trace: Mapping, key: str) -> list:
    value = trace.get(key)
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError(f"the trace's {key!r} is a list, not {value!r}")
    return list(value)


def _names(names: list, what: str) -> list[str]:
    for name in names:
        if not isinstance(name, str) or not name or names.count(name) > 1:
            raise ValueError(f"each {what} has a name of its own, which is a text: {name!r} is none, or is there twice")
    return names


def _same_names(given: Mapping, wanted: list[str], where: str) -> None:
    if set(given) != set(wanted):
        missing, extra = set(wanted) - set(given), set(given) - set(wanted)
        raise ValueError(where + (f": nothing for {sorted(missing)}" if missing else "")
                         + (f": {sorted(extra)} is not known" if extra else ""))
