"""Fetch the model, or see whether it is whole: afterwards nothing needs a network.

    python -m pagedkv.model

Reads every byte of what is there, and makes it anew if it is missing or damaged. Exit status: 0; 1 if there is no
model; 130 after an interruption.
"""

import argparse
import os
import sys

from pagedkv.model import cache
from pagedkv.model.errors import ModelNotAvailable
from pagedkv.model.loading import load_model
from pagedkv.model.making import COMMAND, ensure_model


def main(argv: list[str] | None = None) -> int:
    _parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character is no reason to fail
    try:
        own = os.environ.get("PAGEDKV_MODEL")
        if own:
            load_model(progress=False)
            print(f"PAGEDKV_MODEL is set: the model in {own} is used. It can be loaded; nothing was fetched.")
            return 0
        folder = ensure_model(_say, every_byte=True)
        print(f"{cache.MODEL} is in {folder} ({cache.num_bytes(folder) / 1e6:.0f} MB), "
              f"from {cache.read_marker(folder)['source']}. It needs no network.")
        return 0
    except ModelNotAvailable as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nInterrupted. The same command begins anew.", file=sys.stderr)
        return 130


def _say(line: str) -> None:
    print(line, flush=True)  # a pipe gets each line before the step that takes long


def _parser() -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        prog=COMMAND, formatter_class=argparse.RawDescriptionHelpFormatter,
        description=f"Fetch {cache.MODEL} and convert it, or see whether what is there is whole.",
        epilog="PAGEDKV_MODEL_CACHE  the folder to keep it in, instead of the user's cache folder\n"
               "PAGEDKV_MODEL        a folder of your own to use instead, as save_pretrained() wrote it\n"
               "PAGEDKV_NO_MODEL=1   never fetch it")


if __name__ == "__main__":
    sys.exit(main())
