"""Where the model is kept, and whether what lies there is whole.

The *models folder* holds the *model folder* SmolLM2-135M-Instruct, as `save_pretrained` of transformers writes it.

The *marker* is a file in the model folder that is written last. It lists the other files with their sizes and SHA-256
hashes. A folder without a marker was never finished, and one whose files are not as listed is damaged; neither is used.
A folder is made elsewhere, beside its place, and renamed into it in one step, so that nobody sees half of one.
"""

import hashlib
import json
import os
import shutil
import sys
from pathlib import Path

from pagedkv.model.errors import ModelNotAvailable

MODEL = "SmolLM2-135M-Instruct"
MARKER = "pagedkv-model.json"
# Counts up when a model has to be converted differently than before: then the old one is made anew.
FORMAT = 1
# Those that are hashed at every look. The weights are half a gigabyte: of them the size is compared, unless it is asked
# for every byte.
_SMALL_BYTES = 16 << 20


def models_folder() -> Path:
    """PAGEDKV_MODEL_CACHE, else pagedkv/models in the user's cache folder of this system."""
    named = os.environ.get("PAGEDKV_MODEL_CACHE")
    try:
        if named:
            return Path(named).expanduser().absolute()
        return _user_cache() / "pagedkv" / "models"
    except RuntimeError as error:  # pathlib's, where nobody knows the user's home
        raise ModelNotAvailable(f"There is no folder to keep the model in: {error} "
                                "Let PAGEDKV_MODEL_CACHE name one.") from None


def _user_cache() -> Path:
    if os.name == "nt":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # the XDG base directory specification: a relative path is to be ignored
    return named if named.is_absolute() else Path.home() / ".cache"


def model_folder() -> Path:
    return models_folder() / MODEL


def what_is_wrong(folder: Path, every_byte: bool = False) -> str | None:
    """Why the model in this folder cannot be used, in a few words; None if it can.

    Takes some milliseconds, and with `every_byte` about a second: then the weights are hashed too.
    """
    if not folder.is_dir():
        return "it is not there"
    marker = read_marker(folder)
    if marker is None:
        return "it was never finished"
    if marker["format"] != FORMAT:
        return "another version of pagedkv made it"
    for name, expected in marker["files"].items():
        try:
            size_bytes = (folder / name).stat().st_size
            if size_bytes != expected["size_bytes"]:
                return f"{name} has {size_bytes:,} bytes instead of {expected['size_bytes']:,}"
            if (every_byte or size_bytes <= _SMALL_BYTES) and sha256_of(folder / name) != expected["sha256"]:
                return f"{name} is not what was written"
        except OSError as error:
            return f"{name} cannot be read: {error.strerror}"
    return None


def read_marker(folder: Path) -> dict | None:
    """{"format", "source": for people, "files": {name: {"size_bytes", "sha256"}}}; None without such a marker."""
    try:
        marker = json.loads((folder / MARKER).read_text(encoding="utf-8"))
        files = [(entry["size_bytes"], entry["sha256"]) for entry in marker["files"].values()]
        return marker if files and "format" in marker and "source" in marker else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def num_bytes(folder: Path) -> int:
    """What the files in a folder take."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def finish(folder: Path, source: str) -> None:
    """Write the marker for the files that are in the folder, once they are on the disk for certain."""
    files = {}
    for path in sorted(folder.iterdir()):
        # safetensors makes its file readable for the owner only; a cache may be shared
        shutil.copymode(folder / "config.json", path)
        _flush(path)
        files[path.name] = {"size_bytes": path.stat().st_size, "sha256": sha256_of(path)}
    marker = {"format": FORMAT, "source": source, "files": files}
    (folder / MARKER).write_text(json.dumps(marker, indent=1), encoding="utf-8")
    _flush(folder / MARKER)


def put_in_place(made: Path, folder: Path) -> None:
    """Rename a finished folder to where it belongs. What lies there, a damaged one, is moved away first and removed."""
    if folder.exists() or folder.is_symlink():
        # not removed where it is: a reader that has its files open keeps them, and a failure halfway leaves either
        aside = made.with_name(made.name + ".replaced")
        os.rename(folder, aside)
        os.rename(made, folder)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        os.rename(made, folder)


def sha256_of(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    # Without it a power cut may leave the new name on the disk, and of the right size, but not the bytes.
    with open(path, "r+b") as file:
        os.fsync(file.fileno())
