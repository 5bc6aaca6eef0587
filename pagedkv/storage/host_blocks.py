"""`HostBlocks`: blocks in the host's memory, and the way there and back.

On a GPU the host's side is *pinned*: pages that the system does not move, which the GPU can read by itself; from ordinary
memory the driver copies through a pinned buffer of its own first. It is allocated once, since pinning is slow. On the CPU
it is ordinary memory, and the same code.
"""

from collections.abc import Iterable

import torch

from pagedkv.core.arguments import as_block_ids
from pagedkv.core.kv_size import at_least_1
from pagedkv.storage.device import room_for
from pagedkv.storage.kv_storage import KVStorage


class HostBlocks:
    """Room for `num_blocks` blocks of `storage`, all layers of each.

    Raises OutOfDeviceMemory if the host has no room for them."""

    def __init__(self, storage: KVStorage, num_blocks: int):
        self.storage = storage
        self.num_blocks = at_least_1(num_blocks, "num_blocks")
        pinned = storage.device.type == "cuda"
        with room_for(self.num_blocks, storage.block_bytes, torch.device("cpu")):
            # a block is one piece here, so that a block that goes out or comes in is one run of memory on this side
            self._tensors = [torch.zeros((self.num_blocks, *tensor.shape[:2], *tensor.shape[3:]), dtype=tensor.dtype,
                                         pin_memory=pinned) for tensor in storage.tensors()]

    @property
    def num_bytes(self) -> int:
        return self.num_blocks * self.storage.block_bytes

    def copy_out(self, blocks: Iterable[int], host_blocks: Iterable[int]) -> None:
        """From the device's `blocks` to these host blocks, one for each. Over when it returns. Raises ValueError if there are
        not as many of one as of the other or one is named twice, NotABlock for an id that is none; then nothing is copied."""
        blocks, host_blocks = self._pairs(blocks, host_blocks)
        _check_distinct(host_blocks)
        index = torch.tensor(blocks, dtype=torch.int64, device=self.storage.device)
        for tensor, host in zip(self.storage.tensors(), self._tensors):
            out = tensor.index_select(2, index).movedim(2, 0).contiguous()  # gathered on the device: one copy then crosses
            for part, host_block in zip(out, host_blocks):
                host[host_block].copy_(part, non_blocking=True)
        self._wait()

    def copy_in(self, host_blocks: Iterable[int], blocks: Iterable[int]) -> None:
        """And back."""
        blocks, host_blocks = self._pairs(blocks, host_blocks)
        _check_distinct(blocks)
        index = torch.tensor(blocks, dtype=torch.int64, device=self.storage.device)
        for tensor, host in zip(self.storage.tensors(), self._tensors):
            parts = torch.empty((len(blocks), *host.shape[1:]), dtype=host.dtype, device=tensor.device)
            for part, host_block in zip(parts, host_blocks):
                part.copy_(host[host_block], non_blocking=True)
            tensor.index_copy_(2, index, parts.movedim(0, 2))
        self._wait()

    def _wait(self) -> None:
        if self.storage.device.type == "cuda":
            torch.cuda.current_stream(self.storage.device).synchronize()

    def _pairs(self, blocks: Iterable[int], host_blocks: Iterable[int]) -> tuple[list[int], list[int]]:
        device_ids = as_block_ids(blocks, self.storage.num_blocks)
        host_ids = as_block_ids(host_blocks, self.num_blocks)
        if len(device_ids) != len(host_ids):
            raise ValueError(f"one host block for each block: got {len(device_ids)} blocks and {len(host_ids)} host blocks")
        return device_ids, host_ids


def _check_distinct(targets: list[int]) -> None:
    if len(set(targets)) < len(targets):
        raise ValueError(f"{targets} names a block twice: what is written to it first would be lost")
