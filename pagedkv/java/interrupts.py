"""Interrupting Java that Python called.

While the main thread is inside a Java method, Python cannot raise KeyboardInterrupt there: the notebook's stop button
would do nothing until Java returns, and a learner's endless loop never does. So the signal is also written to a
socket (Python does that at once, wherever the main thread is), and a thread that reads it gives Java half a second to
return by itself, then makes it: with `Thread.stop()`, which JDK 17 still has, else with `Thread.interrupt()`, which
ends any waiting but no loop. After that only a new kernel helps.
"""

import contextlib
import signal
import socket
import sys
import threading
import time

import jpype

from pagedkv.java.exceptions import place
from pagedkv.java.output import running_ipython

_GRACE_SECONDS = 0.5
_PATIENCE_MILLIS = 500
STILL_RUNNING = ("This Java cannot stop a thread that ignores an interrupt (JDK 17 can): the loop goes on until the "
                 "kernel is restarted.")

_installed: list = []
_left_alone = 0  # how many callers have said that they see to interrupts themselves


@contextlib.contextmanager
def left_to_caller():
    """Within this block the main thread sees to interrupts itself, also while it is inside Java."""
    global _left_alone
    _left_alone += 1
    try:
        yield
    finally:
        _left_alone -= 1


def install() -> None:
    """Watch for SIGINT on behalf of the main thread. A second call changes nothing, nor does a call from another
    thread, or where something else already listens for signals."""
    if _installed or threading.current_thread() is not threading.main_thread() or sys.platform == "win32":
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    previous = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    if previous != -1:
        signal.set_wakeup_fd(previous)
        return
    _installed.extend((reader, writer))
    main = jpype.JClass("java.lang.Thread").currentThread()
    shell = running_ipython()
    if shell:  # an interrupt that came too late for one cell must not end the first wait of the next
        shell.events.register("pre_run_cell", lambda info: jpype.JClass("java.lang.Thread").interrupted())
    threading.Thread(target=_watch, args=(reader, main), daemon=True, name="java interrupts").start()


@contextlib.contextmanager
def abort_handle():
    """For a thread of its own that calls Java and then ends: gives a function that makes that call return, for
    `pagedkv.core.deadline.run_with_deadline`. At its end the thread leaves the JVM's list of threads. Else it would
    stay there after its end, and be taken for the owner of monitors whose owner has got the same memory for its
    stack."""
    java_thread = jpype.JClass("java.lang.Thread")
    thread = java_thread.currentThread()
    try:
        yield lambda: _stop(thread)
    finally:
        java_thread.detach()


def _watch(reader: socket.socket, main) -> None:
    while True:
        # Outside Java, or where the caller sees to it, the interrupt arrives by itself; a Java call that begins within
        # the grace period has nothing to do with it.
        if signal.SIGINT not in reader.recv(64) or _left_alone or not main.getStackTrace():
            continue
        time.sleep(_GRACE_SECONDS)
        frames = list(main.getStackTrace())
        if frames:
            print(f"interrupted in Java, at {place(frames)}", file=sys.stderr)
            if str(_stop(main)) == "STILL_RUNNING":
                print(STILL_RUNNING, file=sys.stderr)


def _stop(thread):
    return jpype.JClass("pagedkv.notebook.CellRun").stop(thread, _PATIENCE_MILLIS)
