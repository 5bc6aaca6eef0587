"""A file, whatever form it has, as a `Snapshot`.

    read_snapshot("oom.pickle")

The form is told by the content, never by the name: the pickle that torch writes, the same structure as JSON, either of
them compressed with gzip.
"""

import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path

from pagedkv.snapshot.contents import Snapshot, from_plain
from pagedkv.snapshot.errors import HOW_TO_RECORD, SnapshotError
from pagedkv.snapshot.pickled import load_plain

MOST_FILE_BYTES = 4 << 30  # a million entries with deep stacks have about 1 GiB; a laptop has perhaps 16
MOST_INFLATION = 400  # × the compressed size; snapshots with stacks come to about 50
SMALL_ENOUGH_BYTES = 64 << 20  # and up to here, any

_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"


def read_snapshot(path: str | os.PathLike, on_progress: Callable[[int, int], None] | None = None) -> Snapshot:
    """Raises SnapshotError for what is no snapshot, OSError for a file that cannot be opened."""
    path = Path(path)
    if path.is_dir():
        raise SnapshotError(f"{path} is a folder; a snapshot is one file")
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > MOST_FILE_BYTES:
            raise SnapshotError(f"{path} has {size:,} bytes, more than {MOST_FILE_BYTES:,} are not read. Record fewer "
                                "entries: torch.cuda.memory._record_memory_history(max_entries=100_000)")
        data = file.read(MOST_FILE_BYTES + 1)  # a pipe has no size before it is read
    try:
        return parse_snapshot(data, on_progress)
    except SnapshotError as error:
        raise SnapshotError(f"{path}: {error}") from None


def parse_snapshot(data: bytes, on_progress: Callable[[int, int], None] | None = None) -> Snapshot:
    """The same for bytes. Raises SnapshotError."""
    if not data:
        raise SnapshotError("the file is empty. Was the program still writing, or did it end "
                            "first?\n\n" + HOW_TO_RECORD)
    if data.startswith(_GZIP):
        data = _gunzip(data)
        if not data:
            raise SnapshotError("the file is empty inside its gzip form")
    plain = _load(data)
    _tell_other_files(plain)
    return from_plain(plain, most_records=len(data), on_progress=on_progress)


def _load(data: bytes) -> object:
    start = data[:256].lstrip(b"\xef\xbb\xbf \t\r\n")
    if data[0] == 0x80:  # PROTO, with which every binary pickle begins
        return load_plain(data)
    if data.startswith(_ZIP):
        raise SnapshotError("this is a zip archive, as torch.save writes them: a checkpoint with tensors, not a "
                            "memory snapshot. "
                            "Snapshots come from torch.cuda.memory._dump_snapshot\n\n" + HOW_TO_RECORD)
    if start[:1] in (b"{", b"["):
        return _load_json(data)
    if start[:1] == b"<":
        raise SnapshotError("this is an HTML page, such as torch's memory_viz or an earlier report; open the .pickle "
                            "that it was made from")
    if not any(data[:4096]):
        raise SnapshotError("the file begins with thousands of zero bytes: it was not written to its end")
    raise SnapshotError(f"this is neither a pickle nor JSON (it begins with {bytes(data[:12])!r})\n\n" + HOW_TO_RECORD)


def _load_json(data: bytes) -> object:
    try:
        return json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        rest = error.doc[error.pos:].rstrip()
        in_a_word = any(word.startswith(rest) for word in ("true", "false", "null"))  # each begins with ""
        if in_a_word or error.msg.startswith("Unterminated string"):
            raise SnapshotError(f"the file ends at byte {len(data):,}, before the JSON in it does: it was cut "
                                "off") from None
        raise SnapshotError(f"this is no JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except UnicodeDecodeError as error:
        raise SnapshotError(f"this is no JSON: byte {error.start:,} is not UTF-8") from None
    except RecursionError:
        raise SnapshotError("this is nested thousands of levels deep; a memory snapshot has seven") from None
    except ValueError:  # a number of more digits than Python reads
        raise SnapshotError("this holds a number of thousands of digits; a memory snapshot has none") from None


def _gunzip(data: bytes) -> bytes:
    most = min(MOST_FILE_BYTES, max(SMALL_ENOUGH_BYTES, MOST_INFLATION * len(data)))
    stream = zlib.decompressobj(wbits=31)
    try:
        inflated = stream.decompress(data, most)
    except zlib.error as error:
        raise SnapshotError(f"the gzip file is damaged: {error}") from None
    if stream.unconsumed_tail:
        raise SnapshotError(f"the gzip file of {len(data):,} bytes holds more than {most:,}; no snapshot compresses "
                            "that well")
    if not stream.eof:
        raise SnapshotError(f"the gzip file ends at byte {len(data):,}, before its content does: it was cut off")
    return inflated


def _tell_other_files(plain: object) -> None:
    """Raise for the files of torch that are taken for snapshots."""
    if isinstance(plain, dict) and "traceEvents" in plain:
        raise SnapshotError("this is a trace of the PyTorch profiler (export_chrome_trace), not a memory snapshot; it "
                            "tells when "
                            "memory was used, not where\n\n" + HOW_TO_RECORD)
    if isinstance(plain, list) and plain and isinstance(plain[0], list):
        raise SnapshotError("this is a memory timeline of the PyTorch profiler (export_memory_timeline), not a memory "
                            "snapshot; it "
                            "has sizes and no addresses, so nothing about fragmentation can be told from "
                            "it\n\n" + HOW_TO_RECORD)
