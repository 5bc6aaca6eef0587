"""What a learner calls: check, hint, solution, progress, export_progress.

`%load_ext pagedkv.lab` puts them into the notebook. None of them raises: a mistyped id gets a sentence, not a traceback.
"""

import base64
import functools
import html
import inspect

from IPython.display import HTML, display

from pagedkv.java.build import JavaBuildFailed, checkout
from pagedkv.lab.exercises import NOTEBOOKS, all_exercises, exercises_of, find_exercise
from pagedkv.lab.grading import CORRECT, grade
from pagedkv.lab.java_cell import is_stale
from pagedkv.lab.progress import export, note_attempt, progress_line
from pagedkv.lab.source import solution_of

_hints_given: dict[str, int] = {}


def _sentence_for_errors(command):
    signature = inspect.signature(command)

    @functools.wraps(command)
    def careful(*args, **kwargs):
        try:
            signature.bind(*args, **kwargs)
        except TypeError as error:
            print(f"{command.__name__}: {error}")
            return
        try:
            command(*args, **kwargs)
        except (LookupError, OSError, JavaBuildFailed) as error:
            print(f"{command.__name__}: {error.args[0] if isinstance(error, LookupError) else error}")

    return careful


@_sentence_for_errors
def check(exercise: str, *answers) -> None:
    """Grade the answer to an exercise: not yet, wrong with a counter-example, or correct."""
    found = find_exercise(exercise)
    for answer in answers:
        name = getattr(answer, "__name__", "").rpartition(".")[2]
        if is_stale(name):
            print(f"note: the last cell that declares {name} did not compile; this is the {name} from before")
    verdict = grade(found, *answers)
    print(verdict)
    if verdict.picture:
        display(_image(*verdict.picture))
    note_attempt(found.id, verdict.outcome)
    if verdict.outcome == CORRECT:
        progress(found.notebook)


def _image(png: bytes, alt: str) -> HTML:
    # As HTML, since JupyterLab shows an image/png without its alternative text.
    data = base64.b64encode(png).decode("ascii")
    return HTML(f'<img src="data:image/png;base64,{data}" alt="{html.escape(alt)}">')


@_sentence_for_errors
def hint(exercise: str) -> None:
    """The next hint of an exercise: the first is a nudge, the last nearly the solution."""
    found = find_exercise(exercise)
    level = min(_hints_given.get(exercise, 0) + 1, len(found.hints))
    _hints_given[exercise] = level
    print(f"hint {level} of {len(found.hints)}: {found.hints[level - 1]}")
    if level == len(found.hints):
        print(f'That was the last one; solution("{exercise}") shows a solution.')


@_sentence_for_errors
def solution(exercise: str) -> None:
    """A solution of an exercise. There are others; the check accepts them too."""
    found = find_exercise(exercise)
    source = next((checkout() / "notebooks" / "source").glob(f"{found.notebook}_*.md"))
    print(solution_of(exercise, source))


@_sentence_for_errors
def progress(notebook: str | None = None) -> None:
    """How many exercises are solved, in one notebook or in each."""
    if notebook is not None and str(notebook).zfill(2) not in NOTEBOOKS:
        raise LookupError(f"there are no exercises in notebook {notebook!r}; there are some in {', '.join(NOTEBOOKS)}")
    for each in NOTEBOOKS if notebook is None else [str(notebook).zfill(2)]:
        print(progress_line(each, [exercise.id for exercise in exercises_of(each)]))


@_sentence_for_errors
def export_progress(path: str) -> None:
    """Write the progress to a CSV file."""
    print(f"written: {export(path, all_exercises())}")


COMMANDS = {command.__name__: command for command in (check, hint, solution, progress, export_progress)}


def install(shell) -> None:
    """Put the commands into the notebook, and put back one that a cell has redefined."""
    shell.push(COMMANDS)

    def put_back(result) -> None:
        for name, command in COMMANDS.items():
            if shell.user_ns.get(name) is not command:
                shell.user_ns[name] = command
                print(f"{name}() belongs to this lab and is back as it was: please use another name for yours")

    shell.events.register("post_run_cell", put_back)
