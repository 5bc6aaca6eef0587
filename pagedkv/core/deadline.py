"""Running code that may never return, such as a learner's, without giving up the thread that waits for it."""

import ctypes
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any


class DeadlineExceeded(Exception):
    """The code had not returned by its deadline and was stopped."""


class _Stop(BaseException):
    """Raised inside the running code; not an Exception, so that an `except Exception` in a loop does not eat it."""


def run_with_deadline(function: Callable[[], Any], seconds: float,
                      abort_handle: Callable[[], AbstractContextManager[Callable[[], None]]] | None = None) -> Any:
    """The result of `function()`, or what it raises; DeadlineExceeded if it takes longer than `seconds`.

    It runs on a thread of its own. Python code is stopped at its next step; code that is busy outside Python needs
    `abort_handle`: a context in which the running thread calls the function. What it gives is a function that, called
    from another thread, makes the call outside Python return. What cannot be stopped at all is left behind as a daemon
    thread.
    """
    outcome: dict[str, Any] = {}
    abort = None

    def run() -> None:
        nonlocal abort
        try:
            with abort_handle() if abort_handle else nullcontext() as abort:
                outcome["result"] = function()
        except BaseException as error:  # SystemExit and the like are an outcome here, not the end of the process
            outcome["error"] = error

    thread = threading.Thread(target=run, daemon=True, name="with deadline")
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        _stop(thread, abort)
        raise DeadlineExceeded(f"still running after {seconds:g} s")
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


def _stop(thread: threading.Thread, abort: Callable[[], None] | None, patience_seconds: float = 2.0) -> None:
    give_up = time.monotonic() + patience_seconds
    while thread.is_alive() and time.monotonic() < give_up:
        if abort is not None:
            abort()
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(_Stop))
        thread.join(0.1)
