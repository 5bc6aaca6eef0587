"""Blocks go to the host and come back as they were."""

import pytest
import torch

from pagedkv import NotABlock
from pagedkv.storage.device import OutOfDeviceMemory
from pagedkv.storage.host_blocks import HostBlocks
from pagedkv.storage.int8_storage import Int8KVStorage
from pagedkv.storage.kv_storage import KVStorage


def filled(kind):
    storage = kind(2, 3, 8, num_blocks=6, block_size=4, dtype=torch.float32, device="cpu")
    for layer in (0, 1):
        storage.write(layer, torch.arange(24), *torch.randn(2, 24, 3, 8, generator=torch.Generator().manual_seed(layer)))
    return storage


@pytest.mark.parametrize("kind", [KVStorage, Int8KVStorage])
def test_out_and_in_again_elsewhere(kind):
    storage, other = filled(kind), filled(kind)
    host = HostBlocks(storage, num_blocks=3)
    assert host.num_bytes == 3 * storage.block_bytes
    host.copy_out([5, 2], [2, 0])
    storage.zero_blocks([5, 2])
    host.copy_in([0, 2], [4, 5])
    for now, then in zip(storage.tensors(), other.tensors()):
        assert torch.equal(now[:, :, 4], then[:, :, 2]) and torch.equal(now[:, :, 5], then[:, :, 5])
        assert torch.equal(now[:, :, [0, 1, 3]], then[:, :, [0, 1, 3]])


def test_what_does_not_fit_is_refused_and_moves_nothing():
    storage = filled(KVStorage)
    host, before = HostBlocks(storage, num_blocks=3), storage.data.clone()
    host.copy_out([0], [0])
    for call, error, words in [
        (lambda: host.copy_in([0, 1], [4]), ValueError, "1 blocks and 2 host blocks"),
        (lambda: host.copy_in([0, 1], [4, 4]), ValueError, r"\[4, 4\] names a block twice"),
        (lambda: host.copy_out([1, 2], [1, 1]), ValueError, "names a block twice"),
        (lambda: host.copy_in([3], [4]), NotABlock, "0 to 2"),
        (lambda: host.copy_out([6], [1]), NotABlock, "0 to 5"),
    ]:
        with pytest.raises(error, match=words):
            call()
    assert torch.equal(storage.data, before)
    host.copy_in([0, 1], [0, 5])
    assert torch.equal(storage.data[:, :, 0], before[:, :, 0]) and not storage.data[:, :, 5].any()


def test_a_host_without_room_says_so(monkeypatch):
    storage = filled(KVStorage)
    monkeypatch.setattr("pagedkv.storage.device.free_device_bytes", lambda device: storage.block_bytes * 5)
    with pytest.raises(OutOfDeviceMemory, match="7 blocks of 1.5 KiB are 10.5 KiB, and cpu has 7.5 KiB free: 5 blocks would fit"):
        HostBlocks(storage, num_blocks=7)
