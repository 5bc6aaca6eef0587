"""A pickle is a program. None of these may run."""

import builtins
import copyreg
import io
import os
import pickle
import pickletools
import time

import pytest

from pagedkv.snapshot.errors import SnapshotError
from pagedkv.snapshot.pickled import load_plain
from tests.snapshot.files import entry, frames, free, block, segment, snapshot


class Calls:
    """Pickles to a call of `function(*arguments)`."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


@pytest.fixture
def nothing_runs(monkeypatch):
    """Whatever a pickle might call is watched."""
    ran = []
    monkeypatch.setattr(os, "system", lambda command: ran.append(command))
    monkeypatch.setattr(builtins, "eval", lambda *a: ran.append(a))
    monkeypatch.setattr(builtins, "exec", lambda *a: ran.append(a))
    monkeypatch.setattr(builtins, "__import__", lambda name, *a, _real=builtins.__import__: (
        ran.append(name) if name == "antigravity" else _real(name, *a)))
    yield
    assert not ran


PLAIN = snapshot([segment(1 << 40, block(1024, requested=700), free((1 << 21) - 1024))],
                 [entry("alloc", 1 << 40, 700, frames=frames(("größe.py", 3, "f")), time_us=5, user_metadata=None)],
                 settings={"x": 1.5, "y": True, "z": False, "long": "ab" * 400, "huge": 1 << 70, "below": -5,
                           "bytes": b"ab",
                           "big": b"x" * 300, "minus": -(1 << 40), "more": 1 << 20, "none": [], "empty": ()})


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_plain_data_come_back(protocol):
    plain = PLAIN
    if protocol == 2:  # there bytes are made by a call
        plain = {**plain, "settings": {key: value for key,
                                       value in plain["settings"].items() if type(value) is not bytes}}
    assert load_plain(pickle.dumps(plain, protocol)) == plain


def test_a_memo_with_more_than_256_and_65536_entries():
    many = [f"name{number}" for number in range(70_000)]
    for protocol in (2, 4):
        assert load_plain(pickle.dumps({"segments": many, "again": many}, protocol))["again"] == many


HARM = [
    (Calls(os.system, "echo harm"), r"(posix|nt)\.system"),
    (Calls(builtins.eval, "1"), r"builtin.*\.eval"),
    (Calls(builtins.getattr, "a", "b"), r"builtin.*\.getattr"),
    (Calls(__import__, "antigravity"), r"builtin.*\.__import__"),
    (io.BytesIO, "_?io.BytesIO"),
    (Calls(copyreg._reconstructor, object, object, None), r"copy_?reg\._reconstructor"),
    ({1, 2}, "set|EMPTY_SET"),
    (frozenset([1]), "frozenset|FROZENSET"),
    (bytearray(b"a"), "bytearray|BYTEARRAY8"),
    (1j, "complex"),
]
# pickled now: while the test watches, the functions are not those that pickle knows by name
HARMFUL = [(pickle.dumps(hidden, protocol), named) for harm, named in HARM for protocol in (2, 3, 4, 5)
           for hidden in (harm, {"segments": [], "device_traces": [[harm]]}, {"segments": [{"address": harm}]})]


@pytest.mark.parametrize("data, named", HARMFUL)
def test_what_wants_a_name_is_refused_by_that_name(nothing_runs, data, named):
    with pytest.raises(SnapshotError, match=rf"refused.*({named})"):
        load_plain(data)


def test_numpy_numbers_are_refused_with_advice():
    numpy = pytest.importorskip("numpy")
    with pytest.raises(SnapshotError, match=r"refused: the pickle wants numpy.*turn numpy's numbers into ints"):
        load_plain(pickle.dumps({"segments": [numpy.int64(3)]}))


def test_an_instance_of_the_old_kind_is_refused(nothing_runs):
    with pytest.raises(SnapshotError, match=r"refused.*os\.system"):
        load_plain(b"\x80\x02(ios\nsystem\n.")


def test_a_name_that_is_made_of_pieces_is_refused(nothing_runs):
    """STACK_GLOBAL takes its name from the stack: no text of the file has to spell `os.system`."""
    with pytest.raises(SnapshotError, match=r"refused: the pickle wants os\.system"):
        load_plain(b"\x80\x04\x8c\x02os\x94\x8c\x06system\x94h\x00h\x01\x93\x8c\x04harm\x85R.")


@pytest.mark.parametrize("data, what", [
    (b"\x80\x02X\x01\x00\x00\x00aQ.", "persistent id"),
    (b"\x80\x02Pabc\n.", "persistent id"),
    (b"\x80\x02\x82\x01.", "copyreg"),
    (b"\x80\x02\x83\x01\x00.", "copyreg"),
    (b"\x80\x02\x84\x01\x00\x00\x00.", "copyreg"),
    (b"\x80\x05\x97.", "NEXT_BUFFER"),
    (b"\x80\x02}}b.", "BUILD"),
    (b"\x80\x02}2.", "DUP"),
    (b"\x80\x02K\x01)R.", "REDUCE"),
    (b"\x80\x02K\x01)\x81.", "NEWOBJ"),
    (b"\x80\x02(K\x01o.", "OBJ"),
    (b"\x80\x02I12\n.", "INT"),
    (b"\x80\x02\xff.", "0xff"),
])
def test_other_opcodes_are_refused(data, what):
    with pytest.raises(SnapshotError, match=what):
        load_plain(data)


def test_an_extension_is_refused_even_if_it_is_registered_and_known(nothing_runs):
    """Once it has been looked up, the unpickler keeps it and never asks again."""
    copyreg.add_extension("os", "system", 77)
    try:
        copyreg._extension_cache[77] = os.system
        with pytest.raises(SnapshotError, match="copyreg"):
            load_plain(b"\x80\x02\x82\x4dX\x01\x00\x00\x00a\x85R.")
    finally:
        copyreg.remove_extension("os", "system", 77)
        copyreg._extension_cache.pop(77, None)


def test_a_far_memo_index_takes_no_memory():
    started = time.perf_counter()
    with pytest.raises(SnapshotError, match="beyond the file's own size"):
        load_plain(b"\x80\x02]r\xff\xff\xff\x7f.")
    with pytest.raises(SnapshotError, match="beyond the file's own size"):
        load_plain(b"\x80\x02]r\x00\x00\x01\x00" + b"N" * 100 + b".")
    assert time.perf_counter() - started < 1


@pytest.mark.parametrize("claim", [b"X\xff\xff\xff\x7f", b"\x8d" + b"\xff" * 7 + b"\x7f", b"B\xff\xff\xff\xff",
                                   b"\x8e" + b"\xff" * 8,
                                   b"\x8b\xff\xff\xff\x7f", b"\x8c\x50"])
def test_a_string_longer_than_the_file_takes_no_memory(claim):
    with pytest.raises(SnapshotError, match="cut off"):
        load_plain(b"\x80\x04" + claim + b"abc.")


def test_nested_tuples_are_refused():
    """Hashing tuples that are nested a million deep ends the process."""
    for data in (b"\x80\x02" + b")" + b"\x85" * 2_000_000 + b"}" + b"N.", b"\x80\x02K\x01\x85.",
                 b"\x80\x02(K\x01K\x01K\x01t."):
        with pytest.raises(SnapshotError, match="TUPLE"):
            load_plain(data)


def test_deep_lists_and_recursive_ones_do_no_harm():
    deep = b"\x80\x02" + b"]" * 500_000 + b"a" * 499_999 + b"."
    assert isinstance(load_plain(deep), list)
    assert load_plain(b"\x80\x02]q\x00h\x00a.")[0]  # holds itself


@pytest.mark.parametrize("data, what", [
    (b"\x80\x02.", "damaged"), (b"\x80\x02a.", "damaged"), (b"\x80\x02h\x05.", "damaged"),
    (b"\x80\x02K\x01K\x02a.", "damaged"),
    (b"\x80\x02}]Ns.", "damaged"), (b"\x80\x7f].", "damaged"), (b"\x80\x02X\x02\x00\x00\x00\xff\xfe.", "damaged"),
])
def test_a_program_that_makes_no_sense_is_damaged(data, what):
    with pytest.raises(SnapshotError, match=what):
        load_plain(data)


def test_a_cut_off_file_is_told_at_every_place():
    data = pickle.dumps(PLAIN, 4)
    for end in range(2, len(data)):
        with pytest.raises(SnapshotError, match=f"ends at byte {end:,}"):
            load_plain(data[:end])


def test_every_opcode_is_decided():
    """Those that are let through are those that plain data need, and no others."""
    let_through = set()
    for code in range(256):
        with pytest.raises(SnapshotError) as raised:  # if not at this opcode, then at the zeros behind it
            load_plain(b"\x80\x02" + bytes([code]) + b"\x00" * 20)
        if "at byte 2 " not in str(raised.value):
            let_through.add(pickletools.code2op[chr(code)].name)
    by_name = {"GLOBAL", "STACK_GLOBAL", "INST"}  # those above are refused by what they want, not by their place
    assert by_name <= let_through
    let_through -= by_name
    assert let_through == {
        "PROTO", "FRAME", "STOP", "MARK", "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "LONG1",
        "LONG4", "BINFLOAT",
        "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8", "SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "EMPTY_LIST",
        "APPEND", "APPENDS",
        "EMPTY_DICT", "SETITEM", "SETITEMS", "EMPTY_TUPLE", "MEMOIZE", "BINPUT", "LONG_BINPUT", "BINGET", "LONG_BINGET"}
