"""Slots: who is a member, and whether it still lives.

A member owns a slot for as long as it has one byte of the lock file locked. The kernel drops the lock when the process
ends, in whichever way, so "nobody has this byte locked" is exactly "whoever was here is gone". A process id would not
do: ids are used again, and differ between containers. A stopped process keeps its lock, and so is never taken for dead.

Python's locks belong to the *open file description* (F_OFD_SETLK), not to the process as POSIX locks do. That has three
consequences, which `LockFile` takes care of:

- Closing some other descriptor of the file does not drop them. But it would drop the POSIX locks that Java, in the same
  process, may have on the same file. So this side never closes the file before the process ends: one descriptor for
  each pool that it ever joined. (Code that closes descriptors which it has not opened, as some daemon libraries do, ends
  the membership without anybody noticing.)
- They do not exclude the very description that has them: locking one's own byte again succeeds. So there is one
  description for each file and process, which remembers what is locked. Without that, two members in one process could
  reap each other, and two threads could reap one slot at once, where the first to finish unlocks it under the second.
- A forked child inherits the description, and would keep its dead parent's locks. So the child closes it, which leaves
  the parent's locks alone. (A child made by C code behind Python's back does not; until it ends or executes another
  program, the parent counts as alive. That is late, never wrong.)
"""

import os
import struct
import threading
from typing import NamedTuple

from pagedkv.shared import layout
from pagedkv.shared.errors import NoSuchPool

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None

_FLOCK = struct.Struct("hhqqi0q")  # struct flock, on a 64-bit Linux: type, whence, start, length, pid
_IN_USE = 24


class LockFile:
    """The lock file of one pool; one object for each file and process, see `lock_file`."""

    def __init__(self, path: str, create: bool):
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        self._descriptor = os.open(path, flags, 0o600)
        self._held: set[int] = set()
        self._lock = threading.Lock()

    def try_lock(self, slot: int) -> bool:
        """Lock the slot's byte, without waiting. False: somebody has it, here or elsewhere."""
        with self._lock:
            if slot in self._held or not self._set(fcntl.F_WRLCK, slot):
                return False
            self._held.add(slot)
            return True

    def unlock(self, slot: int) -> None:
        with self._lock:
            self._set(fcntl.F_UNLCK, slot)
            self._held.discard(slot)

    def is_locked(self, slot: int) -> bool:
        """Whether somebody has the byte locked; asking locks nothing, not even for a moment."""
        with self._lock:
            if slot in self._held:
                return True
            answer = fcntl.fcntl(self._descriptor, fcntl.F_OFD_GETLK, _range(fcntl.F_WRLCK, slot))
            return _FLOCK.unpack(answer)[0] != fcntl.F_UNLCK

    def _set(self, kind: int, slot: int) -> bool:
        try:
            fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, _range(kind, slot))
        except (BlockingIOError, PermissionError):  # EAGAIN or EACCES: somebody has it
            return False
        return True


def lock_file(path: str, create: bool = False) -> LockFile:
    """The process's only `LockFile` for this path. Raises NoSuchPool if it is not there; `create` makes it."""
    with _registry_lock:
        if path not in _registry:
            try:
                _registry[path] = LockFile(path, create)
            except FileNotFoundError:
                raise NoSuchPool(f"the lock file {path} is not there: the pool has just been removed") from None
        return _registry[path]


def _range(kind: int, slot: int) -> bytes:
    return _FLOCK.pack(kind, os.SEEK_SET, slot, 1, 0)


# The path contains the pool's random id, so it never comes to mean another file.
_registry: dict[str, LockFile] = {}
_registry_lock = threading.Lock()


def forget_after_fork() -> None:
    """In a forked child: let go of the parent's lock files, without unlocking anything."""
    global _registry_lock
    _registry_lock = threading.Lock()  # another thread of the parent may have had it
    for file in _registry.values():
        os.close(file._descriptor)
    _registry.clear()


class Member(NamedTuple):
    """What the slot table says about a slot that is in use, and whether its owner lives."""

    slot: int
    pid: int
    language: str
    alive: bool

    def __str__(self) -> str:
        return f"slot {self.slot}: process {self.pid} ({self.language}{'' if self.alive else ', dead'})"


class SlotTable:
    """The entries of a mapped pool. `numbers` is the whole mapping as a memoryview of u64."""

    def __init__(self, numbers: memoryview, slots_at: int):
        self._numbers = numbers
        self._slots_at = slots_at

    def in_use(self, slot: int) -> bool:
        return self._numbers[self._at(slot, _IN_USE)] != 0

    def enter(self, slot: int) -> None:
        """Only with the slot's lock. From here on a reaper looks at the slot if its owner is gone."""
        self._numbers[self._at(slot, _IN_USE)] = 1
        self._numbers[self._at(slot, 0)] = os.getpid()
        self._numbers[self._at(slot, 8)] = layout.PYTHON
        self._numbers[self._at(slot, 16)] += 1

    def clear(self, slot: int) -> None:
        """Only with the slot's lock, and after everything was taken back."""
        self._numbers[self._at(slot, _IN_USE)] = 0

    def member(self, slot: int, locks: LockFile) -> Member:
        language = self._numbers[self._at(slot, 8)]
        return Member(slot, self._numbers[self._at(slot, 0)],
                      {layout.PYTHON: "Python", layout.JAVA: "Java"}.get(language, f"language {language}"),
                      locks.is_locked(slot))

    def members(self, locks: LockFile) -> list[Member]:
        return [self.member(slot, locks) for slot in range(layout.NUM_SLOTS) if self.in_use(slot)]

    def _at(self, slot: int, offset: int) -> int:
        return (self._slots_at + slot * layout.SLOT_BYTES + offset) // 8
