"""Where tensors lie: the device, and whether it has room.

The device is "cuda" where there is a GPU and "cpu" where there is none; all else is the same code.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from pagedkv.core.errors import PoolError
from pagedkv.core.memory import as_text


class OutOfDeviceMemory(PoolError):
    """A pool does not fit into the device's memory; nothing was allocated."""


def choose_device(device: torch.device | str | None = None) -> torch.device:
    """The device by that name, with its index; None takes the GPU if there is one.

    Raises ValueError for a GPU that is not there, and for a name that PyTorch does not know."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        device = torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"there is no device {device!r}: {str(error).splitlines()[0]}") from None
    if device.type != "cuda":
        return torch.device(device.type)  # tensors on "cpu:0" say that they are on "cpu"
    if not torch.cuda.is_available():
        raise ValueError(f"PyTorch sees no GPU on this machine, so a pool cannot lie on {str(device)!r}: leave the device out, "
                         "or say 'cpu'")
    index = torch.cuda.current_device() if device.index is None else device.index
    if index >= torch.cuda.device_count():
        raise ValueError(f"there is no {device}: the GPUs of this machine are 0 to {torch.cuda.device_count() - 1}")
    return torch.device("cuda", index)


def free_device_bytes(device: torch.device) -> int | None:
    """How much could be allocated there now: on a GPU what the driver has free, and what PyTorch holds unused; on the CPU
    what the system calls available. None where it cannot be told."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return torch.cuda.mem_get_info(device)[0] + unused
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            kilobytes = {name: value.split()[0] for name, value in (line.split(":", 1) for line in lines)}
        return int(kilobytes["MemAvailable"]) * 1024
    except (OSError, KeyError, ValueError):
        return None


@contextmanager
def room_for(num_blocks: int, block_bytes: int, device: torch.device) -> Iterator[None]:
    """For the allocation of `num_blocks` blocks of `block_bytes`. Raises OutOfDeviceMemory, before it or instead of what it
    raises, which says how much was asked for and is free, and how many blocks would fit."""
    free_bytes = free_device_bytes(device)
    asked = f"{num_blocks:,} blocks of {as_text(block_bytes)} are {as_text(num_blocks * block_bytes)}"
    if free_bytes is None:
        message = f"{asked}, and {device} has no room for them: ask for fewer blocks"
    else:
        fitting = free_bytes // block_bytes
        advice = f"{fitting:,} blocks would fit" if fitting else "not even one block fits"
        message = f"{asked}, and {device} has {as_text(free_bytes)} free: {advice}"
        if num_blocks * block_bytes > free_bytes:
            raise OutOfDeviceMemory(message)
    try:
        yield
    except (torch.OutOfMemoryError, MemoryError) as error:
        raise OutOfDeviceMemory(message) from error
    except RuntimeError as error:
        if "not enough memory" not in str(error):  # the words of PyTorch's allocator for the CPU
            raise
        raise OutOfDeviceMemory(message) from error
