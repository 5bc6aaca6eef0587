"""The files of a pool in /dev/shm: making, opening, mapping and removing them.

A pool is one file of the shared memory file system. Its pages are reserved when it is made (`posix_fallocate`), so that
too little memory is an error then, and not a SIGBUS at some later write. They are also mapped at once (MAP_POPULATE),
so that no later access waits for a page fault.
"""

import errno
import mmap
import os
import re
import secrets
import struct
import sys
from pathlib import Path

from pagedkv.shared import layout
from pagedkv.shared.errors import IncompatiblePool, NoSharedMemory, NoSuchPool, NotReady, PoolExists
from pagedkv.shared.layout import Layout, read_header
from pagedkv.shared.slots import fcntl, lock_file

FOLDER = Path("/dev/shm")
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")


def check_system() -> None:
    """Raises NotImplementedError where shared pools cannot be had, and says what is missing."""
    if sys.platform == "win32":
        why = "Windows has no locks that a forked, killed or stopped process keeps or loses as needed here (no fcntl)"
    elif sys.platform != "linux" or not hasattr(fcntl, "F_OFD_SETLK"):
        why = f"{sys.platform} has no /dev/shm, or no locks of open file descriptions (F_OFD_SETLK)"
    elif sys.byteorder != "little" or struct.calcsize("P") != 8:
        why = "the layout is that of 64-bit, little-endian processors"
    elif not FOLDER.is_dir():
        why = f"there is no {FOLDER}"
    else:
        return
    raise NotImplementedError(f"shared pools work on Linux only: {why}. Everything else in this package does not need "
                              "them")


def pool_path(name: str) -> Path:
    """Raises ValueError for a name that cannot be one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(f"a pool's name is 1 to 64 of A-Z a-z 0-9 . _ - and does not begin with a dot (it becomes the "
                         f"name of a file, so no slash either), got {name!r}")
    return FOLDER / f"pagedkv.{name}"


def lock_path(name: str, pool_id: int) -> Path:
    """Named after the pool's id, so that a pool and its locks can never be mixed up with those of another pool that had
    or gets the same name."""
    return FOLDER / f"pagedkv-lock.{name}.{pool_id:016x}"


def make(name: str, num_blocks: int, block_bytes: int, guard: bool, tokens_per_block: int, fill) -> None:
    """Make the files of a new pool, with all blocks free. `fill(mapping, layout)` writes what else there is to write,
    before anybody can join.

    Raises PoolExists, NoSharedMemory. After an error nothing is left."""
    path = pool_path(name)
    sizes = Layout(num_blocks, block_bytes, guard, tokens_per_block, secrets.randbits(64) or 1)
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise PoolExists(f"there is a pool {name!r} already ({path}): join it; or, if nobody needs it any more, "
                         "create(…, replace=True)") from None
    try:
        try:
            os.posix_fallocate(file, 0, sizes.capacity_bytes)
            mapping = map_file(file, sizes.capacity_bytes)
        except OSError as error:
            raise _too_little(error, sizes) from None
        header = sizes.header()
        mapping[:len(header)] = header
        lock_file(str(lock_path(name, sizes.pool_id)), create=True)
        whole, rest = divmod(num_blocks, 64)
        hints = (b"\xff" * (8 * whole) + ((1 << rest) - 1).to_bytes(8, "little"))[:8 * sizes.num_hints]
        mapping[sizes.empty_at:sizes.empty_at + len(hints)] = hints
        fill(mapping, sizes)
        numbers = memoryview(mapping).cast("Q")
        numbers[layout.STATE_AT // 8] = layout.READY
        numbers.release()
        mapping.close()
    except BaseException:
        _unlink(lock_path(name, sizes.pool_id))
        remove(name, only=os.fstat(file))  # somebody may have put another one in its place
        raise
    finally:
        os.close(file)


def open_pool(name: str) -> tuple[Layout, mmap.mmap, os.stat_result]:
    """The pool's layout, its mapped file, and what tells this file from another one of the same name.

    Raises NoSuchPool, NotReady, IncompatiblePool."""
    path = pool_path(name)
    try:
        file = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        raise NoSuchPool(f"there is no pool {name!r} ({path}): create it first") from None
    try:
        status = os.fstat(file)
        try:
            sizes = read_header(os.pread(file, layout.HEADER_BYTES, 0), status.st_size)
        except IncompatiblePool as error:
            raise IncompatiblePool(f"{path} cannot be joined: {error}") from None
        except NotReady:
            raise NotReady(f"the pool {name!r} is not ready: it is still being created, or its creator died before it "
                           "was done. In that case: create(…, replace=True)") from None
        try:
            return sizes, map_file(file, sizes.capacity_bytes), status
        except OSError as error:
            raise _too_little(error, sizes) from None
    finally:
        os.close(file)


def map_file(file: int, size_bytes: int) -> mmap.mmap:
    return mmap.mmap(file, size_bytes, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE,
                     prot=mmap.PROT_READ | mmap.PROT_WRITE)


def remove(name: str, only: os.stat_result | None = None) -> bool:
    """Unlink a pool's files, in whichever state it is. False if there is none. only: leave it if it is another file."""
    path = pool_path(name)
    try:
        file = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        status = os.fstat(file)
        header = os.pread(file, layout.HEADER_BYTES, 0)
    finally:
        os.close(file)
    if only is not None and (status.st_dev, status.st_ino) != (only.st_dev, only.st_ino):
        return False
    _unlink(path)
    if len(header) == layout.HEADER_BYTES:
        pool_id = struct.unpack_from("<Q", header, layout.ID_AT)[0]
        if pool_id:
            _unlink(lock_path(name, pool_id))
    return True


def _unlink(path: Path) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def _too_little(error: OSError, sizes: Layout) -> Exception:
    if error.errno not in (errno.ENOSPC, errno.ENOMEM, errno.EFBIG, errno.EDQUOT):
        return error
    status = os.statvfs(FOLDER)
    return NoSharedMemory(error.errno, f"a pool of {sizes.num_blocks:,} blocks of {sizes.block_bytes:,} bytes takes "
                          f"{sizes.capacity_bytes:,} bytes of shared memory; {status.f_bavail * status.f_frsize:,} are "
                          f"free in {FOLDER}: take fewer blocks, remove pools that nobody needs, or enlarge it (in "
                          "Docker: --shm-size)")
