"""Run a few lines of Java or Python and keep what they print, apart from the notebook's own cells.

A *snippet* sees none of the learner's names and leaves none behind. What it prints comes back as text, and so does the
error that ends it: running one never raises. Java needs a JVM, which is started if none runs.
"""

import io
import threading
from dataclasses import dataclass

_running = threading.Lock()  # a button is answered on another thread than a cell
_compilers: list = []


@dataclass(frozen=True)
class Ran:
    """code, what it printed, and in one line the error that ended it; empty if there was none."""

    code: str
    output: str
    error: str = ""

    def __str__(self) -> str:
        return "\n".join(part for part in (self.output.rstrip("\n"), self.error) if part) or "(nothing printed)"


def run_java(code: str) -> Ran:
    """Compile bare statements, with their imports, and run them on this thread."""
    # Here, since JPype is needed: where it is missing, that is this run's error.
    try:
        from pagedkv.java.jvm import start
        from pagedkv.java.output import captured
        start()
    except Exception as error:
        return Ran(code, "", f"Java does not start: {_in_words(error)}")
    with _running, captured() as text:
        error = _compile_and_run(code)
    return Ran(code, text.getvalue(), error)


def run_python(code: str) -> Ran:
    """Run statements in a module of their own; what they print with `print` is kept."""
    text = io.StringIO()
    names = {"__name__": "snippet", "print": lambda *values, sep=" ", end="\n": print(*values, sep=sep, end=end, file=text)}
    try:
        exec(compile(code, "<snippet>", "exec"), names)
    except Exception as error:
        return Ran(code, text.getvalue(), _in_words(error))
    return Ran(code, text.getvalue())


def _compile_and_run(code: str) -> str:
    from pagedkv.java.exceptions import headline
    from pagedkv.java.jvm import jclass
    from pagedkv.lab.java_cell import new_compiler
    if not _compilers:
        _compilers.append(new_compiler())
    compiled = _compilers[0].compile(code, 1)
    if not compiled.ok():
        return "\n".join(map(str, compiled.problems()))
    try:
        compiled.body().run()
    except jclass("java.lang.Throwable") as thrown:
        return headline(thrown)
    return ""


def _in_words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
