"""The exercises, one module for each notebook: `nb01` has 01.1, 01.2, …"""

from importlib import import_module
from pathlib import Path

from pagedkv.lab.grading import Exercise

NOTEBOOKS = sorted(path.stem[2:] for path in Path(__file__).parent.glob("nb*.py"))


def exercises_of(notebook: str) -> list[Exercise]:
    """The exercises of a notebook ("01"), in order; empty for a notebook without any."""
    return list(import_module(f"{__name__}.nb{notebook}").EXERCISES) if notebook in NOTEBOOKS else []


def all_exercises() -> list[Exercise]:
    return [exercise for notebook in NOTEBOOKS for exercise in exercises_of(notebook)]


def find_exercise(exercise_id: object) -> Exercise:
    """The exercise of this id. Raises LookupError with the ids there are."""
    there = exercises_of(str(exercise_id).partition(".")[0]) or all_exercises()
    for exercise in there:
        if exercise.id == exercise_id:
            return exercise
    raise LookupError(f"there is no exercise {exercise_id!r}; there are {', '.join(each.id for each in there)}")
