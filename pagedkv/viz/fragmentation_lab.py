"""`FragmentationLab`: one workload on several allocators, to be edited and replayed at once.

    workload = Workload.parse("a A 64M\\na B 64M\\nf A\\na C 96M")
    FragmentationLab(workload, Setup(FirstFit), Setup(PagedAllocator), capacity_bytes=1 << 28)

Above the allocators' memory (see `memory_view`) stand the requests and the allocators' settings, under it a table of
what came out (see `allocator_summary`). Whatever a person changes there is replayed here, in the kernel, on a thread
beside the cells, and what came out replaces what is shown. A change that cannot be is refused with the reason, and
nothing changes.

Front end and kernel talk like this:

    the page asks      {"kind": "lab", "ticket": …, "do": "resize", …}     see `_ACTIONS`
    the kernel says    {"kind": "lab", "ticket": …, "ok": …, "where": …, "text": …, "number": …}
                       ok       whether the change is made; text: why not, or what was repaired
                       where    what it was about: "workload", "capacity", "settings 0"
                       number   of the request to look at now, or None
    a replay that fails later says so with a ticket of None
"""

import threading
import time
from array import array
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import traitlets

from pagedkv.core.arguments import as_count
from pagedkv.core.memory import MemoryRecording
from pagedkv.rivals.base import Rival
from pagedkv.rivals.setup import Setup
from pagedkv.rivals.workload import Request, Workload, run
from pagedkv.viz import workload_edits
from pagedkv.viz.allocator_summary import Outcome, Summary, outcome_of
from pagedkv.viz.columns import as_bytes
from pagedkv.viz.memory_tape import MemoryTape
from pagedkv.viz.memory_view import MemoryWidget, opening_frame
from pagedkv.viz.modules import joined, stylesheet
from pagedkv.viz.names import NO_NAME, Names
from pagedkv.viz.newest_wins import Check, NewestWins, Overtaken
from pagedkv.viz.played import Played
from pagedkv.viz.setting_forms import form_of, settings_from

MOST_SETUPS = 8  # beside each other
_OPERATIONS = ["allocate", "grow", "free"]
_MOST_UNDOS = 100
_QUIET_SECONDS = 0.3  # a replay that takes longer says how far it is
_PROGRESS_SECONDS = 0.2


class _State(NamedTuple):
    """All that a person may change. given: what reset goes back to; undo, redo: the workloads before and after."""

    workload: Workload
    setups: tuple[Setup, ...]
    capacity_bytes: int
    given: Workload
    undo: tuple[Workload, ...] = ()
    redo: tuple[Workload, ...] = ()

    def with_workload(self, workload: Workload) -> "_State":
        return self._replace(workload=workload, undo=(*self.undo, self.workload)[-_MOST_UNDOS:], redo=())


class _Refused(Exception):
    """A change that cannot be. where: as in the messages; cause: the error it comes from."""

    def __init__(self, where: str, cause: Exception, title: str = ""):
        super().__init__(f"{title}: {cause}" if title else str(cause))
        self.where, self.cause = where, cause


class FragmentationLab(MemoryWidget):
    """A workload on every setup, side by side in step; workload, settings and capacity can be changed on the page and
    here.

    workload        settable; "reset" goes back to the one that was set last
    capacity_bytes  settable
    set             change an allocator's settings
    recordings      one for each setup, of the workload as it is
    summary()       what came out, as a table

    What is set here is replayed before the assignment ends. It raises TypeError or ValueError for what cannot be, and
    what an allocator's constructor raises for its settings; then all is as before. The frame stays where it is as long
    as it exists.
    """

    _esm = joined("lab_widget.js")
    _css = stylesheet("grid.css", "memory.css", "lab.css")

    # What the page shows of it. It never comes back: the page asks for changes with messages.
    lab_requests = traitlets.Dict().tag(sync=True, from_json=lambda value, widget: widget.lab_requests)
    lab_forms = traitlets.Dict().tag(sync=True, from_json=lambda value, widget: widget.lab_forms)
    lab_results = traitlets.Dict().tag(sync=True, from_json=lambda value, widget: widget.lab_results)
    lab_progress = traitlets.Unicode(help="how far a replay is, in words").tag(
        sync=True, from_json=lambda value, widget: widget.lab_progress)

    def __init__(self, workload: Workload, *setups: Setup, capacity_bytes: int, title: str = "Fragmentation lab"):
        _checked_workload(workload)
        state = _State(workload, _checked_setups(setups), _checked_capacity(capacity_bytes), given=workload)
        self._lock = threading.RLock()
        self._replays = NewestWins("fragmentation lab")
        self._failed: tuple[_State, Exception] | None = None
        self._version = 0
        self._given_capacity_bytes = state.capacity_bytes
        played = _play(state, lambda: None, lambda text: None)
        # Not MemoryWidget's, which would make the tapes once more.
        Played.__init__(self, played.tapes, title, opening_frame(played.tapes))
        self._wanted = self._shown = state
        self._show_requests()
        self._keep(state, played)
        self.on_msg(self._asked_for)

    @property
    def workload(self) -> Workload:
        return self._settled().workload

    @workload.setter
    def workload(self, workload: Workload) -> None:
        _checked_workload(workload)
        self._change_now(lambda state: state.with_workload(workload)._replace(given=workload))

    @property
    def capacity_bytes(self) -> int:
        return self._settled().capacity_bytes

    @capacity_bytes.setter
    def capacity_bytes(self, capacity_bytes: int) -> None:
        capacity_bytes = _checked_capacity(capacity_bytes)
        self._change_now(lambda state: state._replace(capacity_bytes=capacity_bytes))

    @property
    def setups(self) -> tuple[Setup, ...]:
        return self._settled().setups

    @property
    def recordings(self) -> list[MemoryRecording]:
        self._settled()
        return list(self._recordings)

    def show_recordings(self, recordings, titles=None) -> None:
        """Raises TypeError: a lab shows what its workload makes."""
        raise TypeError("a lab shows what its workload makes: set lab.workload, or use side_by_side_memory")

    def set(self, which: int | str, **settings: Any) -> None:
        """Change settings of the setup with this number (from 0) or title. Raises ValueError for a setting that it does
        not have, IndexError or KeyError for a setup that there is not."""
        number = self._number_of(which)
        self._change_now(lambda state: _with_setup(state, number, state.setups[number].with_settings(**settings)))

    def undo(self) -> None:
        """Take back the last change of the workload. Raises ValueError if there is none."""
        self._change_now(lambda state: _undone(state)[0])

    def redo(self) -> None:
        """Make the change again that was taken back last. Raises ValueError if there is none."""
        self._change_now(lambda state: _redone(state)[0])

    def reset(self) -> None:
        """Back to the given workload. Can be undone."""
        self._change_now(lambda state: _reset(state)[0])

    def summary(self) -> Summary:
        self._settled()
        return self._summary

    def _repr_mimebundle_(self, **kwargs) -> tuple[dict, dict]:
        self._settled()
        data, metadata = super()._repr_mimebundle_(**kwargs)
        return {**data, "text/plain": f"{data['text/plain']}\n\n{self._summary}"}, metadata

    # changes

    def _settled(self) -> _State:
        """The state that is shown, once nothing is being replayed any more."""
        self._replays.wait()
        return self._shown

    def _change_now(self, wish: Callable[[_State], _State]) -> None:
        """Change, replay and wait for it."""
        try:
            with self._lock:
                state = wish(self._wanted)
                self._change(state, "workload")
        except _Refused as refused:
            raise refused.cause from None
        try:
            self._replays.wait()
        except BaseException:  # an interrupt
            self._give_up(state, None)
            raise
        if self._failed is not None and self._failed[0] is state:
            raise self._failed[1]

    def _change(self, state: _State, where: str) -> None:
        """Let this be the state, once it is replayed. Raises _Refused for settings that cannot be."""
        for number, (setup, title) in enumerate(zip(state.setups, self._titles)):
            try:
                setup.make(state.capacity_bytes)
            except Exception as error:
                if where == f"settings {number}":
                    raise _Refused(where, error) from None
                raise _Refused(where, error, title) from None
        with self._lock:
            old, self._wanted = self._wanted, state
            if state.workload is not old.workload:
                self._show_requests()
        self._replays.submit(lambda check: self._replay(state, where, check))

    def _replay(self, state: _State, where: str, check: Check) -> None:
        """On the thread for it."""
        try:
            played = _play(state, check, self._tell_progress)
            with self._lock:
                check()
                self.lab_progress = ""
                self._show_tapes(played.tapes)
                self._keep(state, played)
        except Overtaken:
            raise
        except Exception as error:
            self._give_up(state, error, where)

    def _give_up(self, state: _State, error: Exception | None, where: str = "workload") -> None:
        """Back to what is shown, unless something newer is wanted by now."""
        with self._lock:
            if self._wanted is not state or self._shown is state:
                return
            self._wanted = self._shown
            self.lab_progress = ""
            self._show_requests()
            if error is None:
                self._replays.submit(lambda check: None)  # so that the thread hears of it
                return
            self._failed = state, error
            self.send({"kind": "lab", "ticket": None, "ok": False, "where": where, "number": None,
                       "text": f"{type(error).__name__}: {error}"})

    def _keep(self, state: _State, played: "_Played") -> None:
        """What is shown comes from these."""
        self._shown, self._recordings = state, played.recordings
        self._titles = [tape.title for tape in played.tapes]
        self._summary = summary = Summary(self._titles, played.outcomes)
        self.lab_forms = {"forms": [form_of(setup, title) for setup, title in zip(state.setups, self._titles)],
                          "capacity_bytes": state.capacity_bytes, "given_capacity_bytes": self._given_capacity_bytes}
        self.lab_results = {
            "refused": as_bytes(array("B", _refusals(played.recordings, len(state.workload)))),
            "rows": [{"name": row.name, "explanation": row.explanation, "texts": row.texts, "marks": row.marks}
                     for row in summary.rows],
            "titles": self._titles, "note": summary.note}

    def _show_requests(self) -> None:
        """The requests that are wanted; what came out follows."""
        state, names = self._wanted, Names()
        who = array("I", [names.number(request.owner) for request in state.workload.requests])
        self._version += 1
        self.lab_requests = {
            "version": self._version, "name": state.workload.name, "owners": names.texts, "who": as_bytes(who),
            "ops": as_bytes(array("B", [_OPERATIONS.index(request.op) for request in state.workload.requests])),
            "sizes": as_bytes(array("d", [request.size_bytes for request in state.workload.requests])),
            "undos": len(state.undo), "redos": len(state.redo),
            "as_given": state.workload.requests == state.given.requests}

    def _tell_progress(self, text: str) -> None:
        self.lab_progress = text

    def _number_of(self, which: int | str) -> int:
        if isinstance(which, str):
            if which not in self._titles:
                raise KeyError(f"no setup is called {which!r}: there are {', '.join(self._titles)}")
            return self._titles.index(which)
        number = as_count(which, "a setup's number")
        if number >= len(self._titles):
            raise IndexError(f"there is no setup {number}: they go from 0 to {len(self._titles) - 1}")
        return number

    # what the page asks for

    def _asked_for(self, widget, content: dict, buffers: list) -> None:
        if content.get("kind") != "lab":
            return
        answer = {"kind": "lab", "ticket": content.get("ticket"), "ok": True, "text": "", "number": None}
        try:
            with self._lock:
                where, state, number, text = self._wish(content)
                self._change(state, where)
                answer |= {"where": where, "number": number, "text": text}
        except _Refused as refused:
            answer |= {"ok": False, "where": refused.where, "text": str(refused)}
        self.send(answer)

    def _wish(self, content: dict) -> tuple[str, _State, int | None, str]:
        """What it is about, the state that is asked for, the request to look at, and what was repaired."""
        state, what = self._wanted, content.get("do")
        where = {"capacity": "capacity", "settings": f"settings {content.get('setup')}"}.get(what, "workload")
        try:
            if where == "workload" and content.get("version") != self._version:
                raise ValueError("the list has changed meanwhile: look again")
            if what not in _ACTIONS:
                raise ValueError(f"the lab does not know how to {what!r}")
            changed, number, text = _ACTIONS[what](state, content)
            return where, changed, number, text
        except (KeyError, TypeError, ValueError) as error:
            raise _Refused(where, error) from None


class _Played(NamedTuple):
    """What came out, for each setup."""

    recordings: list[MemoryRecording]
    tapes: list[MemoryTape]
    outcomes: list[Outcome]


def _play(state: _State, check: Check, tell: Callable[[str], None]) -> _Played:
    """Put the workload to every allocator, and count."""
    allocators = [setup.make(state.capacity_bytes) for setup in state.setups]
    begin, told = time.monotonic(), 0.0

    def step(what: str, done: int) -> None:
        nonlocal told
        check()
        now = time.monotonic()
        if now - begin > _QUIET_SECONDS and now - told > _PROGRESS_SECONDS:
            told = now
            tell(f"{what}: request {done:,} of {len(state.workload):,}")

    played = _Played([], [], [])
    for allocator, title in zip(allocators, _titles(state.setups, allocators)):
        recording = run(state.workload, allocator, partial(step, f"replaying on {title}"))
        tape = MemoryTape(recording, title, partial(step, f"drawing {title}"))
        check()
        played.recordings.append(recording)
        played.tapes.append(tape)
        played.outcomes.append(outcome_of(recording, tape))
    return played


def _refusals(recordings: list[MemoryRecording], num_requests: int) -> list[int]:
    """For each request a bit for each allocator that refused it."""
    refused = [0] * num_requests
    for bit, recording in enumerate(recordings):
        for number, event in enumerate(recording.events):
            if event.refused:
                refused[number] |= 1 << bit
    return refused


# what a page may ask for: from state and message to (state, number of the request to look at, what was repaired)

def _edited(state: _State, edit: workload_edits.Edited) -> tuple[_State, int, str]:
    return state.with_workload(edit.workload), edit.number, edit.repair


def _add(state: _State, content: dict) -> tuple[_State, int, str]:
    request = Request(content["op"], _owner_named(state.workload, content["owner"]), content.get("size_bytes") or 0)
    return _edited(state, workload_edits.add(state.workload, content["after"], request))


def _owner_named(workload: Workload, name: str) -> Any:
    """The owner that the list calls this. Owners may be anything; a new one is its name."""
    names = Names()
    for request in workload.requests:
        names.number(request.owner)
    name = name.strip()
    known = next((owner for owner, number in names.numbers.items() if names.texts[number] == name), None)
    if known is not None or name == NO_NAME:
        return known
    if not name or len(name.split()) > 1 or "#" in name:  # the text form of a workload could not hold it
        raise ValueError("an owner's name is one word, without #" if name else "an owner needs a name")
    return name


def _undone(state: _State, content: dict | None = None) -> tuple[_State, int | None, str]:
    if not state.undo:
        raise ValueError("there is nothing to undo")
    return _at_first_difference(state, state._replace(workload=state.undo[-1], undo=state.undo[:-1],
                                                      redo=(*state.redo, state.workload)))


def _redone(state: _State, content: dict | None = None) -> tuple[_State, int | None, str]:
    if not state.redo:
        raise ValueError("there is nothing to redo")
    return _at_first_difference(state, state._replace(workload=state.redo[-1], redo=state.redo[:-1],
                                                      undo=(*state.undo, state.workload)))


def _reset(state: _State, content: dict | None = None) -> tuple[_State, int | None, str]:
    return _at_first_difference(state, state.with_workload(state.given))


def _at_first_difference(old: _State, new: _State) -> tuple[_State, int | None, str]:
    both = zip(old.workload.requests, new.workload.requests)
    shorter = min(len(old.workload), len(new.workload))
    return new, next((number for number, (one, other) in enumerate(both) if one != other), shorter), ""


def _with_capacity(state: _State, content: dict) -> tuple[_State, None, str]:
    return state._replace(capacity_bytes=_checked_capacity(content["capacity_bytes"])), None, ""


def _with_settings(state: _State, content: dict) -> tuple[_State, None, str]:
    number = as_count(content["setup"], "a setup's number")
    if number >= len(state.setups):
        raise ValueError(f"there is no setup {number}")
    setup = state.setups[number]
    return _with_setup(state, number, setup.with_settings(**settings_from(setup, content["values"]))), None, ""


def _with_setup(state: _State, number: int, setup: Setup) -> _State:
    return state._replace(setups=(*state.setups[:number], setup, *state.setups[number + 1:]))


_ACTIONS: dict[Any, Callable[[_State, dict], tuple[_State, int | None, str]]] = {
    "add": _add,
    "delete": lambda state, content: _edited(state, workload_edits.delete(state.workload, content["number"])),
    "resize": lambda state, content: _edited(
        state, workload_edits.resize(state.workload, content["number"], content["size_bytes"])),
    "move": lambda state, content: _edited(
        state, workload_edits.move(state.workload, content["number"], content["by"])),
    "undo": _undone, "redo": _redone, "reset": _reset,
    "capacity": _with_capacity, "settings": _with_settings,
}


# arguments

def _checked_workload(workload: object) -> Workload:
    if not isinstance(workload, Workload):
        raise TypeError(f"a workload is a Workload, such as Workload.parse('a A 64M'), not a {type(workload).__name__}")
    return workload


def _checked_setups(setups: tuple) -> tuple[Setup, ...]:
    for setup in setups:
        if not isinstance(setup, Setup):
            raise TypeError(f"an allocator to compare is a Setup, such as Setup(FirstFit), not {setup!r:.60}")
    if not setups:
        raise TypeError("there is nothing to show: give at least one Setup")
    if len(setups) > MOST_SETUPS:
        raise ValueError(f"at most {MOST_SETUPS} setups fit beside each other, got {len(setups)}")
    return tuple(setups)


def _checked_capacity(capacity_bytes: object) -> int:
    capacity_bytes = as_count(capacity_bytes, "capacity_bytes")
    if not capacity_bytes:
        raise ValueError("capacity_bytes is at least 1")
    return capacity_bytes


def _titles(setups: tuple[Setup, ...], allocators: list[Rival]) -> list[str]:
    """What people call them; no two alike."""
    titles: list[str] = []
    for setup, allocator in zip(setups, allocators):
        title = full = setup.title or allocator.source
        number = 2
        while title in titles:
            title, number = f"{full} ({number})", number + 1
        titles.append(title)
    return titles
