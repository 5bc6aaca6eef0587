"""The fragmentation lab as the kernel sees it; tests/browser has what the browser makes of it."""

import hashlib
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest

from pagedkv.core.memory import Layout, Segment
from pagedkv.rivals.base import Rival, Setting, out_of_memory
from pagedkv.rivals.fits import FirstFit
from pagedkv.rivals.setup import Setup
from pagedkv.rivals.static import StaticReservation
from pagedkv.rivals.workload import Request, Workload
from pagedkv.viz.fragmentation_lab import MOST_SETUPS, FragmentationLab
from pagedkv.viz.modules import FRONT, joined

M = 1 << 20
TWO_HOLES = Workload.parse("a A 20M\na B 30M\na C 20M\na D 30M\nf A\nf C\na E 25M", "two holes")


class Shelf(Rival):
    """Fixed places of slot_bytes each, the lowest free one first. `wait` is called once for each request."""

    SETTINGS = (Setting("slot_bytes", "slot", 32 * M, span=(M, 64 * M, M), unit="B"),
                Setting("order", "order", "up", choices=("up", "down")))
    source = "shelf"
    wait = staticmethod(lambda: None)

    def __init__(self, capacity_bytes, slot_bytes=32 * M, order="up"):
        super().__init__(capacity_bytes)
        if slot_bytes > capacity_bytes:
            raise ValueError(f"no slot of {slot_bytes} bytes fits into {capacity_bytes}")
        self.slot_bytes, self.order = slot_bytes, order
        self.slots = {}  # address → (owner, size)

    def layout(self):
        return Layout((Segment(0, self.capacity_bytes),))

    def _place(self, owner, size_bytes):
        self.wait()
        places = range(0, self.capacity_bytes - self.slot_bytes + 1, self.slot_bytes)
        for address in places if self.order == "up" else reversed(places):
            if address not in self.slots and size_bytes <= self.slot_bytes:
                self._look("slot", address, self.slot_bytes, "chosen")
                self.slots[address] = owner, size_bytes
                self._changed("take", address, self.slot_bytes, size_bytes)
                return address
        raise out_of_memory(size_bytes, self.capacity_bytes - len(self.slots) * self.slot_bytes, self.slot_bytes)

    def _about(self, handle):
        return self.slots[handle]

    def _release(self, handle):
        del self.slots[handle]
        self._changed("give", handle, self.slot_bytes)


@pytest.fixture
def lab():
    return FragmentationLab(TWO_HOLES, Setup(FirstFit), Setup(Shelf), capacity_bytes=110 * M)


@pytest.fixture
def answers(monkeypatch):
    """What labs send to their page."""
    sent = []
    monkeypatch.setattr(FragmentationLab, "send", lambda self, content, buffers=None: sent.append(content))
    return sent


def ask(lab, what, **rest):
    message = {"kind": "lab", "ticket": "page:1", "do": what, "version": lab.lab_requests["version"], **rest}
    lab._handle_custom_msg(message, [])


def texts(lab):
    return lab.workload.text().split("\n")[:-1]


def all_of(lab):
    return (lab.workload, lab.setups, lab.capacity_bytes, lab.recordings, str(lab.summary()), lab.frame,
            {**lab.lab_requests, "version": 0}, lab.lab_forms, lab.lab_results, lab.lab_progress,
            [len(tape) for tape in lab.tapes])


def test_what_it_shows(lab):
    assert [recording.source for recording in lab.recordings] == ["first fit", "shelf"]
    assert [len(recording) for recording in lab.recordings] == [7, 7]
    assert lab.recordings[0].events[6].refused and not lab.recordings[0].events[3].refused
    assert lab.recordings[1].events[3].refused, "three slots"
    assert list(lab.lab_results["refused"]) == [0, 0, 0, 2, 0, 0, 1]
    assert lab.summary().as_dicts()["shelf"]["peak_used_bytes"] == 96 * M
    assert [form["title"] for form in lab.lab_forms["forms"]] == ["first fit", "shelf"]
    assert lab.frame == 4, "the first refusal"


def test_a_cell_stores_the_picture_and_the_table(lab):
    data, metadata = lab._repr_mimebundle_()
    assert {"text/plain", "image/png", "application/vnd.jupyter.widget-view+json"} <= set(data)
    assert data["text/plain"] == f"{lab!r}\n\n{lab.summary()}"
    assert "refused requests" in data["text/plain"] and "\n" not in repr(lab)
    assert lab.frame == 4 and "event 4 of 7" in repr(lab)


def hash_of_a_stored_output():
    lab = FragmentationLab(TWO_HOLES, Setup(FirstFit), Setup(Shelf), capacity_bytes=110 * M)
    lab.set(1, order="down")
    data, _ = lab._repr_mimebundle_()
    return hashlib.sha256((data["text/plain"] + data["image/png"]).encode()).hexdigest()


def test_the_stored_output_is_the_same_in_another_process():
    code = "from tests.viz.test_fragmentation_lab import hash_of_a_stored_output; print(hash_of_a_stored_output())"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == hash_of_a_stored_output()


def test_set_the_workload(lab):
    lab.frame = 3
    shorter = Workload.parse("a X 1M\na Y 2M", "shorter")
    lab.workload = shorter
    assert lab.workload == shorter and [len(recording) for recording in lab.recordings] == [2, 2]
    assert lab.frame == 2, "the frame it had is gone"
    lab.frame = 1
    lab.workload = TWO_HOLES
    assert lab.frame == 1 and len(lab.tapes[0]) == 7, "the frame it had is still there"
    lab.undo()
    assert lab.workload == shorter
    lab.reset()
    assert lab.workload == TWO_HOLES, "what was set last is what it was given"


def test_undo_and_redo(lab, answers):
    for again in (lab.undo, lab.redo):
        with pytest.raises(ValueError, match="nothing to"):
            again()
    ask(lab, "delete", number=0)
    ask(lab, "resize", number=0, size_bytes=5 * M)
    assert texts(lab)[0] == f"a B {5 * M}" and len(texts(lab)) == 5
    assert (lab.lab_requests["undos"], lab.lab_requests["redos"], lab.lab_requests["as_given"]) == (2, 0, False)
    lab.undo()
    lab.undo()
    assert lab.workload == TWO_HOLES and lab.lab_requests["as_given"]
    lab.redo()
    assert texts(lab)[0] == f"a B {30 * M}"
    ask(lab, "add", after=-1, op="allocate", owner="N", size_bytes=1)
    with pytest.raises(ValueError, match="nothing to redo"):
        lab.redo()
    lab.reset()
    assert lab.workload == TWO_HOLES and len(lab.recordings[0]) == 7
    lab.undo()
    assert texts(lab)[0] == "a N 1", "a reset can be undone"


def test_set_capacity_and_settings(lab):
    lab.capacity_bytes = 1 << 28
    assert [recording.capacity_bytes for recording in lab.recordings] == [1 << 28] * 2
    assert not any(event.refused for recording in lab.recordings for event in recording.events)
    lab.set("shelf", slot_bytes=20 * M)
    assert lab.summary().as_dicts()["shelf"]["refused_requests"] == 3
    lab.set(1, slot_bytes=32 * M, order="down")
    assert lab.setups[1].settings == {"slot_bytes": 32 * M, "order": "down"}
    assert lab.lab_forms["forms"][1]["fields"][1]["value"] == 1
    assert lab.lab_forms["capacity_bytes"] == 1 << 28 and lab.lab_forms["given_capacity_bytes"] == 110 * M


@pytest.mark.parametrize("change, error, reason", [
    (lambda lab: setattr(lab, "workload", "a A 64M"), TypeError, "a workload is a Workload, such as .*, not a str"),
    (lambda lab: setattr(lab, "capacity_bytes", 0), ValueError, "at least 1"),
    (lambda lab: setattr(lab, "capacity_bytes", 1.5), TypeError, "capacity_bytes is an integer"),
    (lambda lab: setattr(lab, "capacity_bytes", M), ValueError, "no slot of .* fits"),
    (lambda lab: lab.set("shelf", slot_bytes=1 << 40), ValueError, "no slot of .* fits"),
    (lambda lab: lab.set("shelf", colour="red"), ValueError, "Shelf has no setting 'colour'; it has order, slot_bytes"),
    (lambda lab: lab.set("first fit", order="up"), ValueError, "no setting 'order'; it has none"),
    (lambda lab: lab.set("slab", order="up"), KeyError, "no setup is called 'slab': there are first fit, shelf"),
    (lambda lab: lab.set(2, order="up"), IndexError, "there is no setup 2: they go from 0 to 1"),
    (lambda lab: lab.set(True, order="up"), TypeError, "a setup's number is an integer"),
])
def test_what_cannot_be_is_said_and_nothing_changes(lab, change, error, reason):
    before = all_of(lab)
    with pytest.raises(error, match=reason):
        change(lab)
    assert all_of(lab) == before


@pytest.mark.parametrize("arguments, capacity_bytes, error, reason", [
    (["a A 1"], M, TypeError, "a workload is a Workload"),
    ([TWO_HOLES], M, TypeError, "there is nothing to show: give at least one Setup"),
    ([TWO_HOLES, FirstFit], M, TypeError, r"is a Setup, such as Setup\(FirstFit\), not <class"),
    ([TWO_HOLES, *[Setup(FirstFit)] * (MOST_SETUPS + 1)], M, ValueError, "at most 8 setups"),
    ([TWO_HOLES, Setup(FirstFit)], 0, ValueError, "at least 1"),
    ([TWO_HOLES, Setup(FirstFit)], "64M", TypeError, "capacity_bytes is an integer"),
    ([TWO_HOLES, Setup(Shelf, {"slot_bytes": 8 * M})], M, ValueError, "no slot"),
])
def test_arguments_that_cannot_be(arguments, capacity_bytes, error, reason):
    with pytest.raises(error, match=reason):
        FragmentationLab(*arguments, capacity_bytes=capacity_bytes)


def test_setups_of_one_name_are_told_apart():
    lab = FragmentationLab(TWO_HOLES, Setup(Shelf), Setup(Shelf, {"order": "down"}), Setup(FirstFit, title="shelf"),
                           capacity_bytes=110 * M)
    assert lab.summary().titles == ("shelf", "shelf (2)", "shelf (3)")
    lab.set("shelf (2)", order="up")
    assert lab.setups[1].settings["order"] == "up"


def test_the_page_asks_and_is_told_what_was_repaired(lab, answers):
    ask(lab, "delete", number=0)
    assert answers == [{"kind": "lab", "ticket": "page:1", "ok": True, "where": "workload", "number": 0,
                        "text": "with it goes what hangs on it: free A in request 4"}]
    assert texts(lab) == [f"a B {30 * M}", f"a C {20 * M}", f"a D {30 * M}", "f C", f"a E {25 * M}"]
    assert [len(recording) for recording in lab.recordings] == [5, 5]
    ask(lab, "move", number=1, by=-1)
    assert answers[-1]["number"] == 0 and texts(lab)[0] == f"a C {20 * M}"
    ask(lab, "add", after=1, op="grow", owner="C", size_bytes=22 * M)
    assert answers[-1]["number"] == 2 and texts(lab)[2] == f"g C {22 * M}"
    ask(lab, "undo")
    assert answers[-1]["number"] == 2 and texts(lab)[2] == f"a D {30 * M}"
    ask(lab, "capacity", capacity_bytes=64 * M)
    ask(lab, "settings", setup=1, values={"slot_bytes": 16 * M, "order": 1})
    assert lab.capacity_bytes == 64 * M and lab.setups[1].settings == {"slot_bytes": 16 * M, "order": "down"}
    assert [answer["ok"] for answer in answers] == [True] * len(answers)


@pytest.mark.parametrize("what, rest, where, reason", [
    ("delete", {"number": 9}, "workload", "there is no request 9: they go from 0 to 6"),
    ("resize", {"number": 4, "size_bytes": 5}, "workload", "request 4 is a free: it has no size"),
    ("move", {"number": 4, "by": -4}, "workload",
     "request 4 (free A) cannot pass request 0 (allocate A): only this order works"),
    ("add", {"after": 0, "op": "allocate", "owner": "A", "size_bytes": 5}, "workload",
     "A has 20 MiB at this point, since request 0: free it first, or choose another owner"),
    ("add", {"after": 0, "op": "allocate", "owner": "  ", "size_bytes": 5}, "workload", "an owner needs a name"),
    ("add", {"after": 0, "op": "allocate", "owner": "#1", "size_bytes": 5}, "workload",
     "an owner's name is one word, without #"),
    ("add", {"after": 0, "op": "allocate", "owner": "two words", "size_bytes": 5}, "workload",
     "an owner's name is one word, without #"),
    ("undo", {}, "workload", "there is nothing to undo"),
    ("redo", {}, "workload", "there is nothing to redo"),
    ("delete", {"number": 0, "version": 77}, "workload", "the list has changed meanwhile: look again"),
    ("sing", {}, "workload", "the lab does not know how to 'sing'"),
    ("capacity", {"capacity_bytes": 0}, "capacity", "capacity_bytes is at least 1"),
    ("capacity", {"capacity_bytes": M}, "capacity", f"shelf: no slot of {32 * M} bytes fits into {M}"),
    ("settings", {"setup": 1, "values": {"slot_bytes": 1 << 40}}, "settings 1",
     f"no slot of {1 << 40} bytes fits into {110 * M}"),
    ("settings", {"setup": 1, "values": {"order": 5}}, "settings 1", "order: there is no choice 5"),
    ("settings", {"setup": 5, "values": {}}, "settings 5", "there is no setup 5"),
])
def test_what_the_page_cannot_have_is_refused_and_nothing_changes(lab, answers, what, rest, where, reason):
    before = all_of(lab)
    ask(lab, what, **rest)
    assert answers == [{"kind": "lab", "ticket": "page:1", "ok": False, "where": where, "text": reason, "number": None}]
    assert all_of(lab) == before


def test_owners_may_be_anything_and_are_found_by_their_names(answers):
    mixed = Workload("mixed", tuple(Request("allocate", owner, M) for owner in (7, "7", None)))
    lab = FragmentationLab(mixed, Setup(FirstFit), capacity_bytes=110 * M)
    assert lab.lab_requests["owners"] == ["7", "'7'", "(no name)"]
    for name in ("7", "'7'", "(no name)"):
        ask(lab, "add", after=len(lab.workload) - 1, op="free", owner=name)
    assert [request.owner for request in lab.workload.requests[3:]] == [7, "7", None]


def test_messages_of_others_are_left_alone(lab, answers):
    lab._handle_custom_msg({"kind": "again"}, [])
    assert answers == []


def test_an_allocator_that_breaks_while_it_is_replayed_leaves_all_as_it_was(lab, answers, monkeypatch):
    before = all_of(lab)

    def broken():
        raise RuntimeError("a bug of its own")

    monkeypatch.setattr(Shelf, "wait", staticmethod(broken))
    ask(lab, "delete", number=6)
    assert all_of(lab) == before
    assert [(answer["ok"], answer["ticket"], answer["text"]) for answer in answers] == [
        (True, "page:1", ""), (False, None, "RuntimeError: a bug of its own")]
    with pytest.raises(RuntimeError, match="a bug of its own"):
        lab.capacity_bytes = 1 << 30
    assert all_of(lab) == before
    monkeypatch.undo()
    lab.capacity_bytes = 1 << 30
    assert lab.recordings[0].capacity_bytes == 1 << 30


def wait_until(is_so, seconds=10):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.fixture
def gate(monkeypatch):
    """Allocations of a shelf wait for it; it counts them."""
    class Gate:
        open, calls = threading.Event(), 0

        def pass_(self):
            self.calls += 1
            assert self.open.wait(10)

    made = Gate()
    made.open.set()
    monkeypatch.setattr(Shelf, "wait", staticmethod(made.pass_))
    yield made
    made.open.set()


def test_an_edit_is_answered_at_once_and_the_newest_wins(lab, answers, gate):
    gate.open.clear()
    old = lab.tapes
    gate.calls = 0
    for size in (1, 2, 3, 4):
        ask(lab, "resize", number=0, size_bytes=size * M)
    assert [answer["ok"] for answer in answers] == [True] * 4, "while nothing has been replayed yet"
    assert lab.tapes is old and lab.lab_requests["undos"] == 4
    gate.open.set()
    assert lab.workload.requests[0].size_bytes == 4 * M
    assert lab.recordings[1].events[0].size_bytes == 4 * M
    assert gate.calls <= 2 * 5, "the first, and the last from the beginning"


def test_python_waits_for_what_the_page_has_asked_for(lab, answers, gate):
    gate.open.clear()
    ask(lab, "resize", number=0, size_bytes=M)
    threading.Timer(0.1, gate.open.set).start()
    lab.set("shelf", order="down")
    assert lab.workload.requests[0].size_bytes == M and lab.setups[1].settings["order"] == "down"
    assert lab.recordings[1].events[0].changes[0].address == 64 * M


def test_an_interrupt_takes_the_change_back(lab, answers, gate, monkeypatch):
    before = all_of(lab)
    gate.open.clear()

    def interrupted():
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(lab._replays, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            lab.capacity_bytes = 1 << 30
    gate.open.set()
    assert all_of(lab) == before


def test_a_long_replay_says_how_far_it_is(lab, answers, monkeypatch):
    said = []
    lab.observe(lambda change: said.append(change["new"]), "lab_progress")
    long = Workload.parse("".join(f"a {i} 1\nf {i}\n" for i in range(2600)), "long")
    lab.workload = long
    quick = list(said)
    monkeypatch.setattr(Shelf, "wait", staticmethod(lambda: time.sleep(0.0005)))
    lab.set("shelf", order="down")
    assert quick == [] or quick[-1] == ""
    assert said[-1] == "" and any("replaying on shelf: request 1,024 of 5,200" == text for text in said), said


def test_nothing_is_left_running(lab):
    lab.capacity_bytes = 1 << 28
    assert not [each for each in threading.enumerate() if each.name == "fragmentation lab"]


def test_a_lab_shows_nothing_but_what_its_workload_makes(lab):
    before = all_of(lab)
    with pytest.raises(TypeError, match="a lab shows what its workload makes"):
        lab.show_recordings(lab.recordings)
    with pytest.raises(AttributeError):
        lab.recordings = []
    assert all_of(lab) == before


def test_titles_tell_the_settings_that_hold():
    lab = FragmentationLab(TWO_HOLES, Setup(StaticReservation), Setup(FirstFit, title="mine"), capacity_bytes=110 * M)
    assert lab.summary().titles == ("static reservation, max", "mine")
    lab.set("static reservation, max", policy="pow2")
    assert lab.summary().titles == ("static reservation, pow2", "mine")
    titles = ["static reservation, pow2", "mine"]
    assert [tape.title for tape in lab.tapes] == lab.lab_results["titles"] == titles
    assert [form["title"] for form in lab.lab_forms["forms"]] == titles


def test_no_name_means_two_things_in_the_labs_front_end():
    text = joined("lab_widget.js")
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", text, flags=re.MULTILINE)
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)
    assert all(f"── {path.name}" in text for path in FRONT.glob("lab_*.js")), "every module is reached"


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not on PATH")
def test_the_labs_front_end_loads(tmp_path):
    (tmp_path / "all.mjs").write_text(joined("lab_widget.js"), encoding="utf-8")
    code = f"import('{(tmp_path / 'all.mjs').as_uri()}').then(m => console.log(Object.keys(m.default())))"
    assert subprocess.run(["node", "-e", code], capture_output=True, text=True).stdout == "[ 'initialize', 'render' ]\n"
