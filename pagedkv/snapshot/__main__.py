"""Open a CUDA memory snapshot: what is wrong with this memory, and what would help?

    python -m pagedkv.snapshot oom.pickle
    python -m pagedkv.snapshot oom.pickle --html report.html --what-if

Exit status: 0; 1 if the file cannot be read or the report cannot be written; 2 for a wrong command line.
"""

import argparse
import gc
import json
import os
import re
import sys
import tempfile
from pathlib import Path

from pagedkv.snapshot.analysis import Analysis, analyse
from pagedkv.snapshot.errors import HOW_TO_RECORD, SnapshotError
from pagedkv.snapshot.history import history_of
from pagedkv.snapshot.read import read_snapshot
from pagedkv.snapshot.what_if import Row, table, what_if

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)


def main(argv: list[str] | None = None) -> int:
    args = _parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # a terminal that lacks a character is no reason to fail
    try:
        if args.html is not None:
            _check_replaceable(args.html, args.file)
        _run(args)
    except SnapshotError as error:
        return _failed(str(error))
    except BrokenPipeError:  # `| head` has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        return _failed(f"{error.filename or args.file}: {error.strerror or error}")
    except MemoryError:
        return _failed(f"{args.file}: there is not enough memory on this machine to read it. Record fewer entries: "
                       "torch.cuda.memory._record_memory_history(max_entries=100_000)")
    return 0


def _run(args) -> None:
    progress = _Progress()
    snapshot = read_snapshot(args.file, progress.entries("reading"))
    history = history_of(snapshot, args.device, progress.entries("replaying"))
    progress.tell("looking for causes", len(history.trace))
    analysis = analyse(snapshot, history, args.capacity)
    rows: list[Row] = []
    if args.what_if or (args.html is not None and len(history.trace) <= _QUICK_ENTRIES):
        # what PyTorch could have had is known better by a failed request than by the card's size
        capacity = history.recording.capacity_bytes or args.capacity
        rows = what_if(snapshot, history, capacity,
                       lambda title: progress.tell(f"other settings: {title}", len(history.trace)))
    if args.html is not None:
        progress.tell("drawing", len(history.trace))
        from pagedkv.viz.snapshot_report import report

        _write(args.html, report(args.file.name, history, analysis, rows))
    progress.done()
    if args.json:
        print(json.dumps(as_plain(analysis, rows), indent=1))
        return
    numbers = [device.number for device in snapshot.devices]
    others = f" (of {', '.join(map(str, numbers))}; choose with --device)" if len(numbers) > 1 else ""
    print(f"{args.file.name} · {history.recording.source}{others}\n\n{analysis}")
    if rows and args.what_if:
        print(f"\nThe same requests, other settings (reserved memory):\n{table(rows)}")
    if not analysis.findings and history.device.segments:
        print("\nNothing stands out: what is reserved is in use, or too little to matter.")
    if not history.trace:
        print("\n" + HOW_TO_RECORD)
    if args.html is not None:
        print(f"\nThe report is in {args.html}")


_QUICK_ENTRIES = 100_000  # up to here the other settings take a few seconds


def as_plain(analysis: Analysis, rows: list[Row]) -> dict:
    """What was found, for programs."""
    return {"device": analysis.device, "figures": analysis.figures._asdict(),
            "findings": [finding._asdict() for finding in analysis.findings],
            "owners": [owner._asdict() for owner in analysis.owners], "remarks": list(analysis.remarks),
            "what_if": [row._asdict() for row in rows]}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m pagedkv.snapshot", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Say what is wrong with the memory in a CUDA memory snapshot, and what to "
                    "try.", epilog=HOW_TO_RECORD)
    parser.add_argument("file", type=Path, metavar="FILE", help="what torch.cuda.memory._dump_snapshot wrote, or the "
                                                                "same as JSON, also compressed with gzip")
    parser.add_argument("--html", type=Path, metavar="OUT", help="write a report with the picture over time, one HTML "
                                                                 "file")
    parser.add_argument("--device", type=_number, metavar="N", help="look at this device (else the one that holds "
                                                                    "most)")
    parser.add_argument("--capacity", type=_size, metavar="SIZE", help="the card's memory, such as 24GiB; the file "
                                                                       "does not tell it")
    parser.add_argument("--what-if", action="store_true", help="put the same requests to other settings and to a "
                                                               "paged pool")
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    return parser


def _number(text: str) -> int:
    if not text.isdigit() or len(text) > 5:
        raise argparse.ArgumentTypeError(f"{text} is not a device's number")
    return int(text)


def _size(text: str) -> int:
    found = _SIZE.fullmatch(text.strip())
    size = int(float(found[1]) * _UNITS[found[2].lower()]) if found and len(text) < 20 else 0
    if size < 1 << 20:
        raise argparse.ArgumentTypeError(f"{text} is not a card's size; write 24GiB or 80G")
    return size


class _Progress:
    """One line on the terminal that changes; nothing where nobody watches, and nothing for what is done at once."""

    _SHORT = 100_000

    def __init__(self):
        self._shown = False
        self._wanted = sys.stderr.isatty()

    def entries(self, what: str):
        return lambda done, total: self.tell(f"{what}: {done / total:.0%}", total)

    def tell(self, text: str, total: int) -> None:
        if self._wanted and total > self._SHORT:
            print(f"\r\x1b[K{text} …", end="", file=sys.stderr, flush=True)
            self._shown = True

    def done(self) -> None:
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._shown = False


def _check_replaceable(out: Path, source: Path) -> None:
    """Raises SnapshotError if the report would overwrite what is not an earlier report."""
    if not out.exists():
        if not out.parent.is_dir():
            raise SnapshotError(f"there is no folder {out.parent}")
        return
    if not out.is_file():
        raise SnapshotError(f"{out} is not a file, so no report can be written there")
    if source.exists() and out.samefile(source):
        raise SnapshotError(f"{out} is the snapshot itself; give the report another name")
    from pagedkv.viz.snapshot_report import MARK

    with open(out, "rb") as file:
        if MARK.encode() not in file.read(1024):
            raise SnapshotError(f"{out} exists and is not an earlier report; give another name, or delete it first")


def _write(out: Path, text: str) -> None:
    """All of it, or what was there before."""
    target = out.resolve()  # through a link, to the file it stands for
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.", suffix=".part")
    try:
        with open(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(name, 0o666 & ~mask)  # as any file that is made anew; mkstemp makes it private
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _failed(message: str) -> int:
    print(f"pagedkv.snapshot: {message}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    gc.disable()  # millions of records that all stay: collecting takes a third of the time and finds nothing
    sys.exit(main())
