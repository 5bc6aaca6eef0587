"""Grading an answer: one of three verdicts, whatever the answer does.

An *exercise* has an id such as "01.3" and a grader, a function that looks at the learner's answer and

    returns               correct; the text that it returns says what was tried
    raises Wrong          wrong; its message is the counter-example, with a picture where that helps
    raises NotYet         not yet: something is still missing

The answer is code from somebody who is learning. It may loop, exit, print a megabyte or raise anything; `grade` turns
all of that into a verdict.
"""

import contextlib
import io
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pagedkv.core.deadline import DeadlineExceeded, run_with_deadline
from pagedkv.lab.placeholders import placeholders_in

SECONDS = 20.0  # a right answer takes a second or two
_MOST_PRINTED = 1_000

CORRECT, WRONG, NOT_YET = "correct", "wrong", "not yet"


class Wrong(Exception):
    """The answer is wrong. picture: PNG bytes and their alternative text, of the counter-example."""

    def __init__(self, message: str, picture: tuple[bytes, str] | None = None):
        super().__init__(message)
        self.picture = picture


class NotYet(Exception):
    """Something of the answer is still missing; the message says what."""


@dataclass(frozen=True)
class Exercise:
    """id, title, minutes: how long it should take; hints: from a nudge to nearly all; grader: see the module."""

    id: str
    title: str
    minutes: int
    hints: tuple[str, ...]
    grader: Callable[..., str]

    @property
    def notebook(self) -> str:
        return self.id.partition(".")[0]


@dataclass(frozen=True)
class Verdict:
    """outcome: CORRECT, WRONG or NOT_YET; printed: what the answer printed while it was graded."""

    outcome: str
    message: str
    picture: tuple[bytes, str] | None = None
    printed: str = ""

    def __str__(self) -> str:
        text = f"{self.outcome} – {self.message}"
        return f"{text}\n   your code printed:\n{self.printed}" if self.printed else text


def grade(exercise: Exercise, *answers: Any) -> Verdict:
    """The verdict on `answers`. Never raises, but for KeyboardInterrupt."""
    if not answers:
        return Verdict(NOT_YET, f'your answer is missing here: check("{exercise.id}", your_answer)')
    missing = list(dict.fromkeys(what for answer in answers for what in placeholders_in(answer)))
    if missing:
        return _not_yet(exercise, missing)
    output = _Limited()
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            said = run_with_deadline(lambda: exercise.grader(*answers), SECONDS, _java_abort_handle())
        return Verdict(CORRECT, said)
    except NotYet as error:
        return Verdict(NOT_YET, str(error), printed=output.text())
    except Wrong as error:
        return Verdict(WRONG, str(error), error.picture, output.text())
    except DeadlineExceeded:
        return Verdict(WRONG, f"your code had not returned after {SECONDS:g} s and was stopped", printed=output.text())
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return _raised(exercise, error, output.text())


def _not_yet(exercise: Exercise, missing: list[str]) -> Verdict:
    what = f"{missing[0]} still has its placeholder" if len(missing) == 1 else \
        f"{', '.join(missing[:-1])} and {missing[-1]} still have their placeholders"
    return Verdict(NOT_YET, f'{what}. hint("{exercise.id}") gives a first nudge.')


def _raised(exercise: Exercise, error: BaseException, printed: str) -> Verdict:
    if is_java(error, "pagedkv.exercise.NotYet"):
        method = error.getStackTrace()[0].getMethodName()
        return _not_yet(exercise, [f"{method}()"])
    if isinstance(error, SystemExit):
        return Verdict(WRONG, "your code left the interpreter (SystemExit): raise an exception instead", printed=printed)
    return Verdict(WRONG, f"your code raised {describe_error(error)}", printed=printed)


def describe_error(error: BaseException) -> str:
    """An exception in one line, with the learner's own line where one can be told."""
    if hasattr(error, "getStackTrace"):
        return " ".join(line.strip() for line in error._render_traceback_()[:2])
    text = str(error).strip().split("\n")[0][:300]
    where = [frame for frame in traceback.extract_tb(error.__traceback__) if "ipykernel_" in frame.filename
             or frame.filename.startswith("<ipython")]
    line = f", at your line {where[-1].lineno}: {where[-1].line}" if where else ""
    return f"{type(error).__name__}{': ' * bool(text)}{text}{line}"


def is_java(error: BaseException, class_name: str) -> bool:
    return hasattr(error, "getStackTrace") and str(error.getClass().getName()) == class_name


def _java_abort_handle():
    """How to stop Java that the answer is in; None while no JVM runs."""
    if "jpype" not in sys.modules or not sys.modules["jpype"].isJVMStarted():
        return None
    from pagedkv.java.interrupts import abort_handle
    return abort_handle


class _Limited(io.TextIOBase):
    """Keeps the beginning of what is written, and counts the rest."""

    def __init__(self):
        self._kept, self._dropped = "", 0

    def write(self, text: str) -> int:
        room = _MOST_PRINTED - len(self._kept)
        self._kept += text[:room]
        self._dropped += len(text[room:])
        return len(text)

    def text(self) -> str:
        return self._kept + (f"\n… and {self._dropped:,} characters more" if self._dropped else "")
