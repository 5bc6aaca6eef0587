"""The rules of PyTorch's CUDA caching allocator: what a request becomes, before any memory is looked at.

    block    a stretch of a segment, in use or free. A request is rounded to a size that blocks can have
    segment  what comes from one cudaMalloc. It is larger than the request that needed it, so that others fit in as well
    pool     requests of up to 1 MiB (small) and above (large) never share a segment

The rules are those of c10/cuda/CUDACachingAllocator.cpp around PyTorch 2.6; which settings are valid is as PyTorch 2.15
has it (c10/core/AllocatorConfig.cpp). Where the two differ, the text says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from pagedkv.core.arguments import as_count

KIB, MIB = 1 << 10, 1 << 20

BLOCK_BYTES = 512  # every block is a multiple of this
SMALL_LIMIT_BYTES = 1 * MIB  # the largest request of the small pool; the least rest that a large block keeps, plus one
SMALL_SEGMENT_BYTES = 2 * MIB
SHARED_SEGMENT_LIMIT_BYTES = 10 * MIB  # requests from here on get a segment of their own size
LARGE_ROUND_BYTES = 2 * MIB
NO_LIMIT_BYTES = 1 << 62

_NUM_INTERVALS, _FIRST_INTERVAL = 16, 20  # 1 MiB … 64 GiB, as powers of two


@dataclass(frozen=True)
class CachingSettings:
    """What PYTORCH_CUDA_ALLOC_CONF can set, checked as PyTorch checks it.

    max_split_size_mb             blocks of at least this size are not split, and kept for requests of that size
    roundup_power2_divisions      sizes are rounded up to the next of so many equal steps between two powers of two; one
                                  number for all sizes, or PyTorch's list: `[256:1,512:2,>:4]` (MiB : divisions)
    expandable_segments           one growing segment for each pool and stream, in place of many fixed ones
    garbage_collection_threshold  a miss frees old cached blocks once this part of the allowed memory is taken
    memory_fraction               the part of the device that may be taken; None: all of it, and no garbage collection
    large_segment_mb              the segment of requests between 1 and 10 MiB, and the page of the large expandable
                                  segments; before PyTorch's pull request 172056 (2026) it was always 20

    Raises ValueError for what PyTorch refuses as well.
    """

    max_split_size_mb: int | None = None
    roundup_power2_divisions: int | str | Mapping[int | str, int] = 0
    expandable_segments: bool = False
    garbage_collection_threshold: float = 0.0
    memory_fraction: float | None = None
    large_segment_mb: int = 20

    def __post_init__(self):
        if as_count(self.large_segment_mb, "large_segment_mb") <= 10:
            raise ValueError(f"large_segment_mb is more than 10, got {self.large_segment_mb}: requests of up to 10 MiB "
                             "have to fit in")
        if self.max_split_size_mb is not None:
            # Releases before large_segment_size_mb wanted more than 20; now the least is the large segment itself.
            if as_count(self.max_split_size_mb, "max_split_size_mb") < self.large_segment_mb:
                raise ValueError(f"max_split_size_mb is at least large_segment_mb, {self.large_segment_mb}; "
                                 f"got {self.max_split_size_mb}")
        if not isinstance(self.expandable_segments, bool):
            raise TypeError(f"expandable_segments is True or False, got {self.expandable_segments!r}")
        if not 0 <= self.garbage_collection_threshold < 1:
            raise ValueError("garbage_collection_threshold lies between 0 and 1, 0 turns it off; "
                             f"got {self.garbage_collection_threshold}")
        if self.memory_fraction is not None and not 0 < self.memory_fraction <= 1:
            raise ValueError(f"memory_fraction is above 0 and at most 1, got {self.memory_fraction}")
        read_divisions(self.roundup_power2_divisions)

    @property
    def max_split_bytes(self) -> int:
        return NO_LIMIT_BYTES if self.max_split_size_mb is None else self.max_split_size_mb * MIB

    @property
    def large_segment_bytes(self) -> int:
        return self.large_segment_mb * MIB

    @property
    def divisions(self) -> tuple[int, ...] | None:
        """For each power of two from 1 MiB to 32 GiB; None if nothing but the multiple of 512 bytes counts."""
        divisions = read_divisions(self.roundup_power2_divisions)
        return divisions if any(number > 1 for number in divisions) else None


def round_size(size_bytes: int, divisions: tuple[int, ...] | None = None) -> int:
    """The block that a request needs: a multiple of 512 bytes, or with divisions the next step between two powers of
    two. With 4 divisions 1200 KiB become 1280: the steps from 1024 to 2048 are 1024, 1280, 1536, 1792."""
    if divisions is not None and size_bytes >= BLOCK_BYTES:
        power = size_bytes.bit_length() - 1
        number = divisions[min(max(power - _FIRST_INTERVAL, 0), _NUM_INTERVALS - 1)]
        if number > 1 and size_bytes > BLOCK_BYTES * number:
            step = (1 << power) // number
            return (size_bytes + step - 1) // step * step
    return (size_bytes + BLOCK_BYTES - 1) & -BLOCK_BYTES


def is_small(rounded_bytes: int) -> bool:
    return rounded_bytes <= SMALL_LIMIT_BYTES


def segment_size(rounded_bytes: int, large_segment_bytes: int = 20 * MIB) -> int:
    """The segment that is taken from the device for a block of this size; PyTorch's out-of-memory message prints it."""
    if rounded_bytes <= SMALL_LIMIT_BYTES:
        return SMALL_SEGMENT_BYTES
    if rounded_bytes < SHARED_SEGMENT_LIMIT_BYTES:
        return large_segment_bytes
    return (rounded_bytes + LARGE_ROUND_BYTES - 1) & -LARGE_ROUND_BYTES


def least_rest(small: bool, expandable: bool) -> int:
    """What has to be left of a block for it to be split: 512 bytes, in the large pool more than 1 MiB. A smaller rest
    stays with the block that is handed out."""
    return BLOCK_BYTES if small or expandable else SMALL_LIMIT_BYTES + BLOCK_BYTES


def read_divisions(value: int | str | Mapping) -> tuple[int, ...]:
    """roundup_power2_divisions as one number for each power of two of MiB, from 1 on.

    In the list form the first entry also counts for all smaller sizes, and `>` for all above the last entry; sizes in
    between that are not named are not rounded. (In older releases `>` replaced the last entry, too.)
    Raises ValueError for numbers that are not powers of two."""
    if isinstance(value, str):
        value = _read_list(value)
    if not isinstance(value, Mapping):
        return (_as_divisions(value),) * _NUM_INTERVALS
    numbers, last = [0] * _NUM_INTERVALS, None
    for size_mib, number in value.items():
        number = _as_divisions(number)
        if size_mib == ">":
            rest = 0 if last is None else last + 1
            numbers[rest:] = [number] * (_NUM_INTERVALS - rest)
            continue
        size_mib = as_count(size_mib, "an interval of roundup_power2_divisions")
        if not size_mib or size_mib & (size_mib - 1):
            raise ValueError(f"the intervals of roundup_power2_divisions are powers of two of MiB, got {size_mib}")
        index = min(size_mib.bit_length() - 1, _NUM_INTERVALS - 1)
        if last is None:
            numbers[:index] = [number] * index
        numbers[index], last = number, index
    return tuple(numbers)


def _read_list(text: str) -> dict[int | str, int]:
    body = text.strip()
    if not (body.startswith("[") and body.endswith("]")):
        body = f"[>:{body}]"
    entries: dict[int | str, int] = {}
    for entry in body[1:-1].split(","):
        size, colon, number = (part.strip() for part in entry.partition(":"))
        if not colon or not number.isdigit() or not (size == ">" or size.isdigit()):
            raise ValueError(f"roundup_power2_divisions is a number or a list such as [256:1,512:2,>:4], got {text!r}")
        entries[size if size == ">" else int(size)] = int(number)
    return entries


def _as_divisions(number: object) -> int:
    number = as_count(number, "roundup_power2_divisions")
    if number & (number - 1):
        raise ValueError(f"roundup_power2_divisions are powers of two, or 0 for none, got {number}")
    return number


def torch_size(size_bytes: int) -> str:
    """A size as PyTorch's messages print it: `20.00 MiB`."""
    for unit, name in ((1 << 30, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        if size_bytes >= unit:
            return f"{size_bytes / unit:.2f} {name}"
    return f"{size_bytes} bytes"


def oom_message(*, tried_bytes: int, capacity_bytes: int, device_free_bytes: int, allowed_bytes: int | None,
                allocated_bytes: int, reserved_bytes: int) -> str:
    """The figures of PyTorch's out-of-memory message, in its order. tried_bytes is the segment that was asked of the
    device: "20.00 MiB" stands for any tensor between 1 and 10 MiB."""
    allowed = "" if allowed_bytes is None else f"{torch_size(allowed_bytes)} allowed; "
    return (f"CUDA out of memory. Tried to allocate {torch_size(tried_bytes)}. The simulated GPU has a total capacity "
            f"of {torch_size(capacity_bytes)} of which {torch_size(device_free_bytes)} is free. {allowed}"
            f"Of the reserved memory {torch_size(allocated_bytes)} is allocated, and "
            f"{torch_size(reserved_bytes - allocated_bytes)} is reserved but unallocated. "
            "If that is a lot, the memory is in pieces: expandable_segments may help.")
