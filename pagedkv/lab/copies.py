"""The learner's copies: `work/` holds what the learner opens and edits, `notebooks/` what the repository ships.

A file is *changed* when its content is not what we last copied there; `work/.pagedkv/originals.json` remembers the
hash of that. Changed files are never overwritten: a newer one from the repository reaches them only by `reset`,
which puts the learner's version aside under a name of its own.

Only the standard library: `tools/bootstrap.py` imports this before anything is installed.
"""

import datetime
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_NOT_FOR_LEARNERS = ("source", "solved")
COPIED, UPDATED, KEPT, RESET = "copied", "updated", "kept", "reset"


class Action(NamedTuple):
    """What happened to one file: `kind` is copied, updated, kept or reset; `name` is its path inside `work/`."""

    kind: str
    name: str
    message: str


def refresh_copies(notebooks_dir: Path, work_dir: Path) -> list[Action]:
    """Bring `work_dir` up to date with `notebooks_dir` and return what was done; nothing done, nothing returned.

    A file that the learner removed comes back. Not copied are the sources that the notebooks are built from, the solved
    notebooks, and whatever lies in a folder with a dot in front.
    """
    originals = _read_originals(work_dir)
    actions = []
    for name in _names(notebooks_dir):
        action = _refresh(notebooks_dir / name, work_dir / name, name, originals)
        if action is not None:
            actions.append(action)
    _write_originals(work_dir, originals)
    return actions


def reset(name: str, notebooks_dir: Path, work_dir: Path, today: datetime.date | None = None) -> Action:
    """A fresh copy of the notebook `name`; one with changes is kept aside, under a name with the day in it."""
    source, target = notebooks_dir / name, work_dir / name
    message = f"{name} is fresh"
    if target.exists() and _hash(target) != _hash(source):
        aside = _keep_aside(target, today or datetime.date.today())
        message = f"{name} is fresh; yours is kept as {aside.name}"
    _copy(source, target)
    originals = _read_originals(work_dir)
    originals[name] = _hash(source)
    _write_originals(work_dir, originals)
    return Action(RESET, name, message)


def first_notebook(notebooks_dir: Path) -> str | None:
    """The name of the notebook that a learner starts with, or None if there is none."""
    return min((path.name for path in notebooks_dir.glob("*.ipynb")), default=None)


def notebook_name(number: str, notebooks_dir: Path) -> str:
    """The name of the notebook with this number ("3", "03"). Raises `ValueError` with the numbers there are."""
    names = sorted(path.name for path in notebooks_dir.glob("*.ipynb"))
    found = [name for name in names if number.isdigit() and name[:2] == number.zfill(2)]
    if len(found) != 1:
        there = ", ".join(name[:2] for name in names if name[:2].isdigit()) or "none"
        raise ValueError(f"There is no notebook with number {number}. Numbers there are: {there}.")
    return found[0]


def _refresh(source: Path, target: Path, name: str, originals: dict[str, str]) -> Action | None:
    newest = _hash(source)
    if not target.exists():
        _copy(source, target)
        originals[name] = newest
        return Action(COPIED, name, f"{name} copied")
    mine = _hash(target)
    if mine == newest:
        originals[name] = newest
        return None
    if mine == originals.get(name):
        _copy(source, target)
        originals[name] = newest
        return Action(UPDATED, name, f"{name} updated")
    if originals.get(name) == newest:
        return None
    return Action(KEPT, name, _kept_message(name))


def _kept_message(name: str) -> str:
    number = name[:2]
    if "/" in name or not (number.isdigit() and name.endswith(".ipynb")):
        return f"{name} has your changes and stays as it is; the repository has a newer one in notebooks/"
    return f"{name} has your changes; `pagedkv reset {number}` brings the new one and keeps yours aside"


def _names(notebooks_dir: Path) -> Iterator[str]:
    for path in sorted(notebooks_dir.rglob("*")):
        relative = path.relative_to(notebooks_dir)
        hidden = any(part.startswith(".") or part == "__pycache__" for part in relative.parts)
        if path.is_file() and not hidden and relative.parts[0] not in _NOT_FOR_LEARNERS:
            yield relative.as_posix()


def _keep_aside(path: Path, today: datetime.date) -> Path:
    """Copy `path` to the first free name of the day; opening with "x" cannot overwrite another one."""
    count = 1
    while True:
        aside = path.with_name(f"{path.stem}.{today.isoformat()}-{count}{path.suffix}")
        try:
            with open(aside, "xb") as kept:
                kept.write(path.read_bytes())
            return aside
        except FileExistsError:
            count += 1


def _copy(source: Path, target: Path) -> None:
    """Put a copy of `source` at `target` in one step: a reader sees the old file or the new one, never half of one."""
    _write(target, source.read_bytes())


def _write(target: Path, content: bytes) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, half = tempfile.mkstemp(dir=target.parent, prefix=".pagedkv-")
    try:
        with open(handle, "wb") as file:
            file.write(content)
        # mkstemp makes the file for its owner alone; a copy is as readable as any other new file
        os.chmod(half, 0o666 & ~_umask())
        os.replace(half, target)
    except BaseException:
        os.unlink(half)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_originals(work_dir: Path) -> dict[str, str]:
    """What was copied, by name; empty if the record is missing or damaged: then every other file counts as changed."""
    try:
        originals = json.loads((work_dir / ".pagedkv" / "originals.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return originals if isinstance(originals, dict) else {}


def _write_originals(work_dir: Path, originals: dict[str, str]) -> None:
    text = json.dumps(originals, indent=1, sort_keys=True, ensure_ascii=False)
    _write(work_dir / ".pagedkv" / "originals.json", text.encode("utf-8"))
