"""Pickle data without the danger of pickle.

A pickle is a program. Its instructions, the *opcodes*, may name any function of any installed module and have it called
while the file is read: `os.system` is as good as any other. A memory snapshot needs none of that. It is made of dicts,
lists, pairs of ints, strings, numbers, True, False and None. So the bytes are checked before the first instruction is
carried out:

- every opcode is one of the few that such data needs; of the others none runs, whatever comes before them;
- every length lies within the file (a string that claims 2⁶⁰ bytes gets no memory);
- a *memo* index, the number under which an object is kept for later use, is below the file's length (one index near 2³²
  would make the reader take 64 GiB);
- tuples hold ints only: hashing tuples nested a million deep ends the process.

The check is a regular expression, because it has to look at some million opcodes in a blink; only strings, which carry
their length, are stepped over one by one. What passes is then read by Python's own unpickler, with the two doors to
other code locked once more.

The opcodes are those of Python's `pickletools` and of torch's own C++ pickler (protocols 2 to 5, binary).
"""

import io
import pickle
import re

from pagedkv.snapshot.errors import SnapshotError

_INT = rb"K.|M..|J....|\x8a(?:" + b"|".join(rb"\x%02x.{%d}" % (size, size) for size in range(10)) + rb")"
_PLAIN_CODES = rb"[\](})Naesu\x88\x89\x94]"  # the opcodes without an argument
_FIXED = {"BININT1", "BININT2", "BININT", "BINFLOAT", "BINGET", "LONG_BINGET", "BINPUT", "LONG_BINPUT", "PROTO",
          "FRAME"}
# the code of what carries its length → how many bytes the length has
_COUNTED = {ord("X"): 4, 0x8C: 1, 0x8D: 8, ord("C"): 1, ord("B"): 4, 0x8E: 8, 0x8A: 1, 0x8B: 4}
_STOP = ord(".")
_NAMES = {ord("c"), 0x93, ord("i")}  # GLOBAL, STACK_GLOBAL, INST: they name what they want
_OLD_CHECKPOINT = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."


def load_plain(data: bytes) -> object:
    """The object of this pickle. Raises SnapshotError, before anything was built, for one that is not plain data."""
    if data.startswith(_OLD_CHECKPOINT):
        raise SnapshotError("this is a torch checkpoint (the form before torch 1.6), not a memory snapshot")
    _check(data)
    return _unpickle(data)


def _check(data: bytes) -> None:
    plain = _plain_run(len(data))
    at, size = 0, len(data)
    while True:
        at = plain.match(data, at).end()
        if at >= size:
            raise _cut_off(size)
        code = data[at]
        if code == _STOP:
            return
        width = _COUNTED.get(code)
        if width is None:
            _refuse(data, at)
        length = int.from_bytes(data[at + 1:at + 1 + width], "little")
        if at + 1 + width + length > size:
            raise _cut_off(size, f", in the middle of {length:,} bytes that begin at byte {at:,}")
        at += 1 + width + length


def _cut_off(size: int, where: str = "") -> SnapshotError:
    return SnapshotError(f"the file ends at byte {size:,}{where}, before the pickle in it does: it was cut off. Copy "
                         "it again, and let the program that writes it come to its end")


def _plain_run(size: int) -> re.Pattern:
    """What matches any number of harmless opcodes of fixed length, in a file of this size. Built for the size, because
    a memo index is bounded by it (rounded up to 64 Ki, and from 16 MiB on to 16 Mi)."""
    high, low = (size >> 24) & 0xFF, (size >> 16) & 0xFF
    index = rb".." + (rb"[\x00-\x%02x]\x00" % low if not high else rb".[\x00-\x%02x]" % high)
    return re.compile(rb"(?:" + _PLAIN_CODES +
                      rb"|(?:" + _INT + rb"){2}\x86"  # a pair of ints, such as a segment's pool
                      rb"|" + _INT + rb"|[hq].|j....|r" + index + rb"|G.{8}|\x80.|\x95.{8})*+", re.DOTALL)


def _refuse(data: bytes, at: int) -> None:
    """Raise for the opcode at this place. Everything before it is plain."""
    import pickletools

    if data[at] in _NAMES:
        _unpickle(data)  # comes to this opcode and asks for it by name; _Unpickler raises
    opcode = pickletools.code2op.get(chr(data[at]))
    if opcode is None:
        what = f"0x{data[at]:02x}, which is no opcode" if at else "not the beginning of a pickle"
        raise SnapshotError(f"the file is damaged, or not a snapshot: at byte {at:,} there is {what}")
    if opcode.name in ("PERSID", "BINPERSID"):
        raise SnapshotError(f"refused: at byte {at:,} the pickle wants an object from elsewhere (a persistent id). A "
                            "torch checkpoint has those, a memory snapshot does not")
    if opcode.name in ("EXT1", "EXT2", "EXT4"):
        raise SnapshotError(f"refused: at byte {at:,} the pickle wants an object that is registered with copyreg "
                            f"({opcode.name}). A memory snapshot does not need it")
    if opcode.name in _FIXED and at + 1 + opcode.arg.n > len(data):
        raise _cut_off(len(data))
    if opcode.name == "LONG_BINPUT":
        raise SnapshotError(f"refused: at byte {at:,} the pickle keeps an object under a number beyond the file's own "
                            "size; reading it would take far more memory than the file has")
    raise SnapshotError(f"refused: at byte {at:,} the pickle uses {opcode.name}. A memory snapshot is made of dicts, "
                        "lists, strings and numbers and does not need it")


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> None:
        wanted = repr(f"{module}.{name}"[:200])[1:-1]  # a name may hold anything, escape codes of a terminal too
        raise SnapshotError(f"refused: the pickle wants {wanted}. A memory snapshot is made of plain dicts, lists, "
                            "strings and numbers; nothing was imported and nothing was called" + _advice(module))

    def persistent_load(self, pid: object) -> None:
        raise SnapshotError("refused: the pickle wants an object from elsewhere (a persistent id)")


def _advice(module: str) -> str:
    package = module.partition(".")[0]
    if package == "torch":
        return ". A file with tensors in it is a checkpoint; snapshots come from torch.cuda.memory._dump_snapshot"
    if package == "numpy":
        return ". If the snapshot went through your own code, turn numpy's numbers into ints before you write it"
    return ""


def _unpickle(data: bytes) -> object:
    try:
        return _Unpickler(io.BytesIO(data)).load()
    except SnapshotError:
        raise
    except Exception as error:  # the unpickler answers broken data with a dozen types
        raise SnapshotError(f"the pickle is damaged: {type(error).__name__}: {str(error)[:200]}") from None
