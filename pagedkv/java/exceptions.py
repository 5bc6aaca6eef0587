"""Java exceptions in a short form: what happened, where in Java, and which line of Python called.

Uncaught in a notebook, a Java exception would come with the frames of the bridge, of the reflection behind it and of
the kernel; what the reader needs is three to eight lines.
"""

import linecache
import re
import sysconfig
import traceback
from pathlib import Path

import jpype

_MOST_FRAMES = 5
# How a call arrives and how a thread begins: never what the reader is looking for.
_PLUMBING = ("java.lang.reflect.", "jdk.internal.", "org.jpype.", "pagedkv.notebook.", "java.lang.Thread.")

_LIBRARIES = (*(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib")),
              str(Path(__file__).parents[1]))

# The method around bare statements. The learner did not write it, and its number depends on what ran before.
_STATEMENTS = re.compile(r"Cell\d*\.(run|lambda\$run\$\d+)")

_installed: list = []


def install() -> None:
    """Give every java.lang.Throwable the short form that IPython shows. A second call changes nothing."""
    if _installed:
        return

    @jpype.JImplementationFor("java.lang.Throwable")
    class _Readable:
        def _render_traceback_(self):
            return describe(self)

    _installed.append(_Readable)


def describe(error) -> list[str]:
    """The lines of the short form of a Java exception."""
    lines = [headline(error)]
    lines += _frames(error)
    cause = error.getCause()
    seen = 0
    while cause is not None and seen < 3:
        lines.append(f"caused by {headline(cause)}")
        cause, seen = cause.getCause(), seen + 1
    return lines + _caller(error)


def headline(error) -> str:
    """Class and message, as `IllegalReferenceCountException: refCnt: 0, decrement: 1`."""
    name = str(error.getClass().getSimpleName()) or str(error.getClass().getName())
    message = error.getMessage()
    return name if message is None else f"{name}: {message}"


def frame_text(frame) -> str:
    """One Java stack frame; code typed in a notebook cell is named by its line there."""
    method = f"{str(frame.getClassName()).rpartition('.')[2]}.{frame.getMethodName()}"
    if _is_typed(frame):
        line = f"line {frame.getLineNumber()} of the cell"
        return line if _STATEMENTS.fullmatch(method) else f"{line}, in {method}"
    line = frame.getLineNumber()
    return f"{method} ({frame.getFileName()}:{line})" if line > 0 else f"{method} (native)"


def place(frames: list) -> str:
    """Where Java is, from its stack, innermost first: the line of a cell if there is one, else the innermost frame."""
    typed = next((frame for frame in frames if _is_typed(frame)), None)
    if typed is None or typed is frames[0]:
        return frame_text(frames[0])
    return f"{frame_text(typed)}, inside {frames[0].getMethodName()}"


def _is_typed(frame) -> bool:
    return str(frame.getFileName()) == "cell"


def _frames(error) -> list[str]:
    own = str(error.getClass().getName())  # an exception that makes itself is not where anything went wrong
    frames = [frame for frame in error.getStackTrace()
              if not str(frame.getClassName()).startswith(_PLUMBING) and str(frame.getClassName()) != own]
    lines = [f"    at {frame_text(frame)}" for frame in frames[:_MOST_FRAMES]]
    return lines + [f"    … {len(frames) - _MOST_FRAMES} more"] * (len(frames) > _MOST_FRAMES)


def _caller(error) -> list[str]:
    """The Python line that called Java: the last one that is not a library's, nor ours. None if the Java was typed in
    the cell itself."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        code = linecache.getline(frame.filename, frame.lineno).strip()
        if code and not frame.filename.startswith(_LIBRARIES):
            return [] if "run_cell_magic(" in code else [f"called from line {frame.lineno}: {code}"]
    return []
