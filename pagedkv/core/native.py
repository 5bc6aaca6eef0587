"""Small pieces in C or C++: compiled once by the system's compiler, kept, and loaded.

A *piece* is one source file that needs no headers but the compiler's own and knows nothing of Python: it gets addresses
and sizes, through ctypes. It is compiled when it is first needed, and the library is kept in the user's cache folder
under a *key*: a hash of all that decides what the compiler makes. So a changed source, another compiler or another
processor never finds a library that was made for something else, and nothing has to be cleaned up or rebuilt by hand.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

MOST_LINES = 12  # of what a compiler says, in an error
_COMPILE_SECONDS = 300


class NoCompiler(RuntimeError):
    """There is no compiler, or it could not compile the piece; the message says what was tried."""


@dataclass(frozen=True)
class Language:
    """variable: the environment variable that names the compiler; commands: what it is called where that is not set;
    debian, conda: the packages that bring one."""

    name: str
    variable: str
    commands: tuple[str, ...]
    debian: str
    conda: str


C = Language("C", "CC", ("cc", "gcc", "clang"), "gcc", "c-compiler")
CPP = Language("C++", "CXX", ("c++", "g++", "clang++"), "g++", "cxx-compiler")


@dataclass(frozen=True)
class Piece:
    """purpose: what needs it, for the error, such as "the compiled attention"; tunings: flags that not every compiler
    takes, in the order in which they are tried."""

    purpose: str
    source: Path
    language: Language
    flags: tuple[str, ...]
    tunings: tuple[tuple[str, ...], ...] = ((),)


def load(piece: Piece, folder: Path | None = None) -> ctypes.CDLL:
    """The piece as a library; compiled before, which takes a second or more, if this machine has not yet done so.

    folder  where it is kept, `cache_folder()` if None. Where that cannot be written, it is compiled for this process
            only.

    Raises NoCompiler."""
    tried = []
    language = piece.language
    for compiler in compilers(language):
        said = version(compiler)
        if said is None:
            tried.append(f"{shlex.join(compiler)} is not there, or does not run")
            continue
        try:
            return _load_kept(piece, compiler, said, folder or cache_folder())
        except _Failed as failed:
            tried.append(f"{shlex.join(compiler)} failed:\n{failed}")
    if not tried:
        tried = [f"no {', '.join(language.commands[:-1])} or {language.commands[-1]} on the PATH"]
    raise NoCompiler(f"{piece.purpose} needs a {language.name} compiler, GCC or Clang (on Debian: apt install "
                     f"{language.debian}; with conda: conda install {language.conda}); the environment variable "
                     f"{language.variable} can name it. Tried: " + "; ".join(tried))


def cache_folder() -> Path:
    """Where compiled pieces are kept: one for each compiler, processor and version of the source."""
    if sys.platform == "win32":
        user = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        user = Path.home() / "Library" / "Caches"
    else:
        named = Path(os.environ.get("XDG_CACHE_HOME", ""))
        # the XDG base directory specification: a relative path is to be ignored
        user = named if named.is_absolute() else Path.home() / ".cache"
    return Path(user) / "pagedkv" / "compiled"


def compilers(language: Language) -> list[list[str]]:
    """The commands to try. The variable, if it is set, is what the user wants; then no other one is guessed."""
    chosen = shlex.split(os.environ.get(language.variable, ""))
    if chosen:
        return [chosen]
    found = {os.path.realpath(path): [path] for path in map(shutil.which, language.commands) if path}
    return list(found.values())


def version(compiler: list[str]) -> str | None:
    """What the compiler says about itself, or None if it does not run."""
    try:
        run = subprocess.run([*compiler, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.decode(errors="replace") if run.returncode == 0 else None


def key(piece: Piece, compiler: list[str], version: str) -> str:
    """All that decides what comes out of the compiler. A home directory may be shared by unlike machines."""
    processor = [platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").split("\n\n")[0].splitlines()
        processor += [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    except OSError:
        pass
    parts = [piece.source.read_text(encoding="utf-8"), piece.flags, piece.tunings, compiler, version,
             platform.platform(), processor]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


class _Failed(Exception):
    """What the compiler, or the loader, had to say."""


def _load_kept(piece: Piece, compiler: list[str], version: str, folder: Path) -> ctypes.CDLL:
    library = folder / f"{piece.source.stem}-{key(piece, compiler, version)}.so"
    if library.is_file():
        try:
            return ctypes.CDLL(str(library))
        except OSError:
            pass  # damaged, or for another machine after all: it is made again
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        making = tempfile.TemporaryDirectory(dir=library.parent, prefix="making-")
    except OSError:
        # A name in the common temporary folder that others could guess, to put a library of theirs there, would not do.
        with tempfile.TemporaryDirectory(prefix="pagedkv-", ignore_cleanup_errors=True) as private:
            return _open(_compile(piece, compiler, Path(private) / library.name))
    with making as private:
        # Made elsewhere and moved there in one piece, so that no process ever loads half a library. If two of them
        # compile at the same time, the later one puts the same thing there again.
        os.replace(_compile(piece, compiler, Path(private) / library.name), library)
    return _open(library)


def _compile(piece: Piece, compiler: list[str], library: Path) -> Path:
    for tuning in piece.tunings:
        command = [*compiler, *piece.flags, *tuning, "-o", str(library), str(piece.source)]
        try:
            run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 timeout=_COMPILE_SECONDS, env={**os.environ, "LC_ALL": "C"})
        except subprocess.TimeoutExpired:
            raise _Failed(f"no end after {_COMPILE_SECONDS} s") from None
        said = run.stdout.decode(errors="replace")
        if run.returncode == 0:
            return library
        if "native" not in said:
            break  # it is not the tuning that it does not like
    lines = said.strip().splitlines()[:MOST_LINES]
    raise _Failed("\n".join(lines) or f"exit status {run.returncode}, without a message")


def _open(library: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise _Failed(f"what it made cannot be loaded: {error}") from None
