"""A thread for jobs of which only the newest matters, such as replays of a workload that is being edited.

One job runs at a time. A job that has been overtaken by a newer one hears of it where it asks, and stops.
"""

import threading
from collections.abc import Callable

Check = Callable[[], None]


class Overtaken(Exception):
    """Raised in a job that need not go on: there is a newer one."""


class NewestWins:
    """The thread exists only while there is something to do.

    A job takes a function, `check`, that it calls now and then: it raises `Overtaken` if there is a newer job. Any
    other exception is for the job itself to deal with.
    """

    def __init__(self, name: str):
        self._name = name
        self._state = threading.Condition()
        self._waiting: Callable[[Check], None] | None = None
        self._newest = 0
        self._thread: threading.Thread | None = None

    def submit(self, job: Callable[[Check], None]) -> None:
        with self._state:
            self._waiting = job
            self._newest += 1
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                self._thread.start()

    def wait(self) -> None:
        """Until nothing is left to do. In a job, which would wait for itself, it does nothing."""
        if threading.current_thread() is self._thread:
            return
        with self._state:
            while self._thread is not None:
                self._state.wait()

    def _run(self) -> None:
        while True:
            with self._state:
                if self._waiting is None:
                    self._thread = None
                    self._state.notify_all()
                    return
                job, self._waiting, number = self._waiting, None, self._newest

            def check(number=number) -> None:
                if self._newest != number:
                    raise Overtaken

            try:
                job(check)
            except Overtaken:
                pass
            except BaseException:
                with self._state:
                    self._thread = None
                    self._state.notify_all()
                raise
