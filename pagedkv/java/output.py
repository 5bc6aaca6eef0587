"""What Java prints, in the cell that made it print.

Left alone, System.out writes to the process's file descriptor 1, which a notebook shows late, out of order or not at
all. Here System.out and System.err become streams that hand their text to Python's sys.stdout at once, so that the
lines of both languages stand in the order in which they were written. Both go to stdout: two streams have no order.
"""

import contextlib
import io
import sys
import threading

import jpype

# Of one cell. A runaway loop fills a browser's memory within seconds.
MOST_CHARACTERS = 200_000

_streams: list = []
_captured = threading.local()


def install() -> None:
    """Redirect System.out and System.err. A second call changes nothing."""
    if _streams:
        return
    shell = running_ipython()
    sink = jpype.JProxy("pagedkv.notebook.CellOutput$Sink", dict={"write": _write})
    most = MOST_CHARACTERS if shell else 2**31 - 1  # outside a notebook nothing ever starts a new cell
    stream = jpype.JClass("pagedkv.notebook.CellOutput")(sink, most)
    _streams.append(stream)
    printer = jpype.JClass("java.io.PrintStream")(stream, True, "UTF-8")
    system = jpype.JClass("java.lang.System")
    system.setOut(printer)
    system.setErr(printer)
    if shell:
        shell.events.register("pre_run_cell", lambda info: stream.newCell())
        shell.events.register("post_run_cell", lambda result: _end_cell(stream))


@contextlib.contextmanager
def captured():
    """What Java prints on this thread goes into the io.StringIO that this gives, and not into the cell."""
    _captured.text = io.StringIO()
    try:
        yield _captured.text
    finally:
        _streams[0].flush()  # a print without a line's end may still be on its way
        _captured.text = None


def _write(text) -> None:
    # Java calls on the thread that printed.
    (getattr(_captured, "text", None) or sys.stdout).write(str(text))


def _end_cell(stream) -> None:
    stream.flush()
    dropped = stream.droppedChars()
    if dropped:
        print(f"\n… Java printed {dropped:,} more characters in this cell; only the first {MOST_CHARACTERS:,} are shown")


def running_ipython():
    """The running IPython, if this process is one. Asked of sys.modules: this layer does not need IPython."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module else None
