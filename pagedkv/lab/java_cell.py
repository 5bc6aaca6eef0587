"""`%%java`: Java typed in a notebook cell.

A cell may hold imports, types, methods and bare statements. Types stay: later cells, in Java and in Python, see them,
and typing one again replaces it, together with whatever was built on it. Objects made before keep the old class.
Statements run at once; their variables live in that one cell.

    %%java
    public class Counter {
        public int count;
        public void add() { count++; }
    }

    counter = Counter()          # the next cell, in Python
"""

import re
import sys

from IPython import get_ipython

from pagedkv.java.exceptions import place
from pagedkv.java.interrupts import STILL_RUNNING, left_to_caller
from pagedkv.java.jvm import jclass, start

_FIRST_LINE = 2  # of the Java code: the notebook counts the line with %%java as 1
_POLL_MILLIS = 50
_STOP_MILLIS = 500

_DECLARED = re.compile(r"\b(?:class|record|interface|enum)\s+(\w+)")

_compilers: list = []
_stale: set[str] = set()  # types whose newest cell did not compile, so that an older one is still in use


def is_stale(name: str) -> bool:
    """Whether the last cell that declared this type did not compile: the name still means what an earlier one said."""
    return name in _stale


class JavaCompileError(Exception):
    """The cell does not compile, or is refused; nothing of it was kept."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


class JavaInterrupted(KeyboardInterrupt):
    """The cell was interrupted while its Java ran."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def java(line: str, cell: str) -> None:
    """Compile the cell, put its types into the notebook's names, and run its bare statements."""
    if line.strip():
        raise JavaCompileError(f"%%java takes no arguments, got {line.strip()!r}: the Java code begins on the next line")
    start()
    try:
        with left_to_caller():  # a compiler that is stopped half-way is of no use for the next cell; it ends by itself
            compiled = _compiler().compile(cell, _FIRST_LINE)
    except KeyboardInterrupt:
        raise JavaInterrupted("interrupted while the cell was compiled: it did not run") from None
    problems = [str(problem) for problem in compiled.problems()]
    if not compiled.ok():
        _stale.update(_DECLARED.findall(cell))
        raise JavaCompileError("\n".join([*problems, *map(str, compiled.notes())]))
    _stale.difference_update(map(str, compiled.declared()))
    for text in [*problems, *map(str, compiled.notes())]:
        print(text, file=sys.stderr)
    get_ipython().push({str(name): jclass(java_class) for name, java_class in compiled.types().items()})
    if compiled.body() is not None:
        _run(compiled.body())


def new_compiler():
    """A compiler of cells that has seen none yet; it knows nothing of the types that another one has. Needs a JVM."""
    class_path = jclass("java.lang.System").getProperty("java.class.path")
    loader = jclass("java.lang.ClassLoader").getSystemClassLoader()
    return jclass("pagedkv.notebook.CellCompiler")(class_path, loader)


def _compiler():
    if not _compilers:
        _compilers.append(new_compiler())
    return _compilers[0]


def _run(body) -> None:
    """Run on a Java thread, and look in from time to time: inside Java, Python cannot be interrupted."""
    with left_to_caller():
        run = jclass("pagedkv.notebook.CellRun").start(body)
        try:
            while not run.await_(_POLL_MILLIS):
                pass
        except KeyboardInterrupt:
            raise _interrupted(run) from None
    if run.failure() is not None:
        raise run.failure()


def _interrupted(run) -> JavaInterrupted:
    frames = list(run.where())
    message = f"interrupted, at {place(frames)}" if frames else "interrupted"
    if str(run.stop(_STOP_MILLIS)) == "STILL_RUNNING":
        message += f"\n{STILL_RUNNING}"
    return JavaInterrupted(message)
