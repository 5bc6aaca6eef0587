"""Compiling a small piece once, keeping it, loading it; tests/attention/test_compiled.py has more, on one in C++."""

import ctypes
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from pagedkv.core import native

ROOT = Path(__file__).resolve().parents[2]

if not native.compilers(native.C):
    pytest.skip("needs a C compiler", allow_module_level=True)


@pytest.fixture
def piece(tmp_path):
    source = tmp_path / "answer.c"
    source.write_text("#ifndef ANSWER\n#define ANSWER 41\n#endif\nint answer(void) { return ANSWER; }\n")
    return native.Piece("the answer", source, native.C, ("-O1", "-shared", "-fPIC"))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "kept" / "compiled"


def test_it_is_compiled_once_and_found_afterwards(piece, folder, monkeypatch):
    assert native.load(piece, folder).answer() == 41
    library, = folder.iterdir()
    assert library.name.startswith("answer-") and library.suffix == ".so"
    monkeypatch.setattr(native, "_compile", None)  # would fail if it were called
    assert native.load(piece, folder).answer() == 41 and list(folder.iterdir()) == [library]


def test_what_decides_the_key(piece, folder):
    """Another source, other flags, another compiler: another library, and the first one stays."""
    assert native.load(piece, folder).answer() == 41
    assert native.load(replace(piece, flags=(*piece.flags, "-DANSWER=42")), folder).answer() == 42
    piece.source.write_text("int answer(void) { return 43; }")
    assert native.load(piece, folder).answer() == 43
    keys = {native.key(piece, ["cc"], "1"), native.key(piece, ["cc"], "2"), native.key(piece, ["gcc"], "1"),
            native.key(replace(piece, tunings=(("-O2",),)), ["cc"], "1")}
    assert len(keys) == 4 and len(list(folder.iterdir())) == 3


def test_a_tuning_that_the_compiler_does_not_know_is_left_out(piece, folder):
    tuned = replace(piece, tunings=(("-march=native-nonsense",), ("-DANSWER=44",)))
    assert native.load(tuned, folder).answer() == 44


def test_an_error_in_the_source(piece, folder):
    piece.source.write_text("int answer( { nonsense\n" + "int again( {\n" * 100)
    with pytest.raises(native.NoCompiler, match=r"answer needs a C compiler.*failed:\n.*answer\.c.*error") as raised:
        native.load(piece, folder)
    assert len(str(raised.value).splitlines()) <= 2 + native.MOST_LINES and not list(folder.iterdir())


def test_no_compiler(piece, folder, monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "/no/such/compiler -O1")
    with pytest.raises(native.NoCompiler, match="apt install gcc.*conda install c-compiler.*variable CC can name it. "
                       "Tried: /no/such/compiler -O1 is not there"):
        native.load(piece, folder)
    monkeypatch.delenv("CC")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(native.NoCompiler, match="Tried: no cc, gcc or clang on the PATH"):
        native.load(piece, folder)
    with pytest.raises(native.NoCompiler, match=r"a C\+\+ compiler.*CXX.*Tried: no c\+\+, g\+\+ or clang\+\+ on"):
        native.load(replace(piece, language=native.CPP), folder)


def test_a_damaged_library_is_made_again(piece, folder):
    compiler = native.compilers(native.C)[0]
    folder.mkdir(parents=True)
    library = folder / f"answer-{native.key(piece, compiler, native.version(compiler))}.so"
    library.write_bytes(b"\x7fELF half a library")
    assert native.load(piece, folder).answer() == 41 and library.stat().st_size > 1000


def test_a_folder_that_cannot_be_written(piece, folder, monkeypatch, tmp_path):
    folder.parent.mkdir()
    folder.write_text("a file where the folder would be")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert native.load(piece, folder).answer() == 41
    assert not list(tmp_path.glob("pagedkv-*"))  # made for this process only, and gone


def test_two_at_once_leave_one_library(piece, folder):
    code = f"""
from pathlib import Path
from pagedkv.core import native
piece = native.Piece("the answer", Path({str(piece.source)!r}), native.C, {piece.flags!r})
print(native.load(piece, Path({str(folder)!r})).answer())
"""
    processes = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
                 for _ in range(3)]
    assert [process.communicate(timeout=100)[0] for process in processes] == ["41\n"] * 3
    assert len(list(folder.iterdir())) == 1


def test_where_it_is_kept(monkeypatch, tmp_path):
    if sys.platform != "linux":
        pytest.skip("the folder of this system's own")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert native.cache_folder() == tmp_path / "pagedkv" / "compiled"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")  # to be ignored
    assert native.cache_folder() == Path.home() / ".cache" / "pagedkv" / "compiled"


def test_it_stays_loaded_when_the_file_goes(piece, folder):
    library = native.load(piece, folder)
    for path in folder.iterdir():
        os.unlink(path)
    assert isinstance(library, ctypes.CDLL) and library.answer() == 41
