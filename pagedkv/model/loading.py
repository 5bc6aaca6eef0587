"""Load the model, from the cache or from a folder of the user's own. Once it is there, no network is asked."""

import importlib.util
import os
from pathlib import Path

from pagedkv.model import cache
from pagedkv.model.errors import ModelNotAvailable
from pagedkv.model.making import COMMAND, ensure_model, missing


def is_ready() -> bool:
    """Whether load_model() has all it needs on this machine. Takes milliseconds, and imports neither torch nor
    transformers."""
    if _not_installed():
        return False
    own = _own_folder(None)
    if own is not None:
        return _is_saved_model(own)
    try:
        return cache.what_is_wrong(cache.model_folder()) is None
    except ModelNotAvailable:
        return False


def load_model(path: str | os.PathLike | None = None, *, dtype=None, device=None, fetch: bool = True,
               progress: bool = True):
    """(model, tokenizer), of transformers, ready to generate.

    path      a folder that save_pretrained() wrote, model and tokenizer; else the one that PAGEDKV_MODEL names; else
              SmolLM2-135M-Instruct, which is fetched and converted first if it is not there
    dtype     of the weights: torch.float16, bfloat16, float32 or float64; None is torch.float32
    device    None is CUDA if there is a device, else the CPU
    fetch     False: raise instead of fetching
    progress  show what is happening while the model is fetched; loading is silent in any case

    The weights take no gradients: this model is read, not trained. The tokenizer pads on the left, as a model that
    continues a text needs it. Raises ModelNotAvailable, and ValueError for a dtype or device that cannot be.
    """
    lacking = _not_installed()
    if lacking:
        raise ModelNotAvailable(f"The Python package {lacking} is missing. Install what the lab needs: "
                                "pip install 'pagedkv[lab]'")
    import torch
    dtype = torch.float32 if dtype is None else dtype
    if dtype not in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        raise ValueError(f"dtype is a floating-point type to compute in, such as torch.float32, got {dtype!r}: "
                         "float16, bfloat16, float32 or float64")
    try:
        device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, TypeError) as error:
        raise ValueError(f"there is no device {device!r}: {str(error).splitlines()[0]}") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device is {device}, but PyTorch sees no CUDA device here; leave it out to use the CPU")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device is {device}, but the GPUs here are 0 to {torch.cuda.device_count() - 1}")
    folder, advice = _find(path, fetch, progress)
    return _load(folder, dtype, device, advice)


def _not_installed() -> str | None:
    """The first package that is missing."""
    return next((name for name in ("torch", "transformers") if importlib.util.find_spec(name) is None), None)


def _own_folder(path) -> Path | None:
    named = os.environ.get("PAGEDKV_MODEL") if path is None else path
    return Path(named).expanduser() if named else None


def _is_saved_model(folder: Path) -> bool:
    return (folder / "config.json").is_file()


def _find(path, fetch: bool, progress: bool) -> tuple[Path, str]:
    """The folder to load from, and what to do if it turns out not to be good."""
    own = _own_folder(path)
    if own is not None:
        whose = "PAGEDKV_MODEL is" if path is None else "The path is"
        advice = ("Name a folder that save_pretrained() of transformers wrote, model and tokenizer, or leave it out to "
                  f"use {cache.MODEL}.")
        if not _is_saved_model(own):
            what = "there is no config.json in that folder" if own.is_dir() else "that is not a folder"
            raise ModelNotAvailable(f"{whose} {own}, but {what}. {advice}")
        return own, advice
    folder = cache.model_folder()
    if fetch:
        ensure_model(print if progress else lambda line: None, progress)
    elif cache.what_is_wrong(folder) is not None:
        raise ModelNotAvailable(f"{missing(folder)} Fetch it once, with a network: {COMMAND}")
    return folder, f"{COMMAND} reads all of it, and makes it anew if it is damaged."


def _load(folder: Path, dtype, device, advice: str):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from pagedkv.model.quiet import quiet
    # the folder is all there is: no network is asked, and no code that lies in it is run
    options = {"local_files_only": True, "trust_remote_code": False}
    try:
        with quiet(progress=False):
            tokenizer = AutoTokenizer.from_pretrained(folder, **options)
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **options)
    except Exception as error:  # transformers and safetensors have no type of their own for a file that is not right
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise ModelNotAvailable(f"The model in {folder} cannot be loaded: {lines[0]}\n{advice}") from error
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return model.requires_grad_(False).to(device), tokenizer
