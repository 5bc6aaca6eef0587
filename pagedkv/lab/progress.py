"""Which exercises are solved: kept in a file, so that it survives the kernel.

The file is `work/.pagedkv/progress.json` of the checkout, or where the environment variable PAGEDKV_PROGRESS points.
"""

import csv
import json
import os
import tempfile
from pathlib import Path

from pagedkv.java.build import JavaBuildFailed, checkout
from pagedkv.lab.grading import CORRECT, NOT_YET


def progress_file() -> Path:
    named = os.environ.get("PAGEDKV_PROGRESS")
    if named:
        return Path(named)
    try:
        return checkout() / "work" / ".pagedkv" / "progress.json"
    except JavaBuildFailed:  # installed without its checkout
        return Path.home() / ".pagedkv" / "progress.json"


def read_progress() -> dict[str, dict]:
    """Exercise id → {"outcome", "attempts"}; empty if nothing was tried yet.

    A file that cannot be read is put aside, not overwritten."""
    path = progress_file()
    try:
        entries = json.loads(path.read_text(encoding="utf-8"))
        if all({"outcome", "attempts"} <= set(entry) for entry in entries.values()):
            return entries
    except FileNotFoundError:
        return {}
    except (ValueError, AttributeError, TypeError):
        pass
    path.replace(path.with_name(path.name + ".damaged"))
    return {}


def note_attempt(exercise_id: str, outcome: str) -> None:
    """Remember an attempt. Solved stays solved; an untouched exercise is no attempt."""
    if outcome == NOT_YET:
        return
    entries = read_progress()
    entry = entries.setdefault(exercise_id, {"outcome": outcome, "attempts": 0})
    entry["attempts"] += 1
    if entry["outcome"] != CORRECT:
        entry["outcome"] = outcome
    _write(progress_file(), json.dumps(dict(sorted(entries.items())), indent=1))


def progress_line(notebook: str, ids: list[str]) -> str:
    """One notebook in one line, as `01: ■■□□□ 2 of 5 exercises solved`."""
    entries = read_progress()
    done = [entries.get(exercise_id, {}).get("outcome") == CORRECT for exercise_id in ids]
    return f"{notebook}: {''.join('■' if each else '□' for each in done)} {sum(done)} of {len(done)} exercises solved"


def export(path: str | Path, exercises) -> Path:
    """Write every exercise's outcome and number of attempts to a CSV file, for an instructor or a spreadsheet."""
    entries = read_progress()
    path = Path(path)
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["exercise", "title", "outcome", "attempts"])
        for exercise in exercises:
            entry = entries.get(exercise.id, {"outcome": NOT_YET, "attempts": 0})
            writer.writerow([exercise.id, exercise.title, entry["outcome"], entry["attempts"]])
    return path


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, half = tempfile.mkstemp(dir=path.parent, prefix=".progress-")
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(half, path)
