"""SharedKVStorage: the same as KVStorage, but another process sees it too."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pagedkv.shared import SharedPool, segment
from pagedkv.storage.kv_storage import KVStorage
from pagedkv.storage.shared_storage import SharedKVStorage

try:
    segment.check_system()
except NotImplementedError as error:
    pytest.skip(str(error), allow_module_level=True)

SIZES = 3, 2, 8  # layers, KV heads, head_dim


@pytest.fixture
def name():
    name = f"test-storage-{os.getpid()}"
    yield name
    for path in Path("/dev/shm").glob(f"pagedkv*{name}*"):
        path.unlink()


@pytest.fixture(params=[torch.float32, torch.float16], ids=str)
def both(request, name):
    """A storage in shared memory, and one that is not, with the same contents."""
    shared = SharedKVStorage.create(name, *SIZES, num_blocks=10, block_size=4, dtype=request.param)
    plain = KVStorage(*SIZES, num_blocks=10, block_size=4, dtype=request.param, device="cpu")
    torch.manual_seed(0)
    plain.data.normal_()
    shared.data.copy_(plain.data)
    yield shared, plain
    shared.pool.close()


def test_writing_and_gathering(both):
    shared, plain = both
    slots = torch.tensor([3, 17, 4, 39])
    for layer in range(3):
        keys, values = torch.randn(2, 4, 2, 8).to(plain.dtype)
        for storage in both:
            storage.write(layer, slots, keys, values)
    assert torch.equal(shared.data, plain.data)
    for layer in range(3):
        for ours, theirs in zip(shared.gather(layer, [9, 0, 4], 11), plain.gather(layer, [9, 0, 4], 11)):
            assert torch.equal(ours, theirs)
        assert torch.equal(shared.keys(layer), plain.keys(layer))
        assert torch.equal(shared.values(layer), plain.values(layer))


def test_whole_blocks(both):
    for storage in both:
        storage.copy_blocks([(1, 2), (2, 5), (9, 1)])
        storage.zero_blocks([7, 9])
    assert torch.equal(both[0].data, both[1].data)
    assert not both[0].data[:, :, 9].any()


def test_a_block_is_one_piece_of_memory(both):
    shared, plain = both
    [block] = shared.pool.allocate(1)
    bytes_of_it = bytes(shared.pool.buffer(block))
    assert len(bytes_of_it) == plain.block_bytes
    assert bytes_of_it == plain.data[:, :, block].contiguous().numpy().tobytes()


def test_another_process_reads_and_writes(both, name):
    shared, _ = both
    code = f"""
import torch
from pagedkv.shared import SharedPool
from pagedkv.storage.shared_storage import SharedKVStorage
storage = SharedKVStorage(SharedPool.join({name!r}), 3, 2, 8, {shared.dtype})
storage.keys(1)[6, 1, 3] += 1
storage.pool.close()
"""
    before = shared.data.clone()
    subprocess.run([sys.executable, "-c", code], check=True)
    before[0, 1, 6, 1, 3] += 1
    assert torch.equal(shared.data, before)


@pytest.mark.parametrize("sizes, dtype", [((2, 2, 8), torch.float16), ((3, 2, 8), torch.float32)])
def test_a_pool_for_another_model(name, sizes, dtype):
    SharedKVStorage.create(name, *SIZES, num_blocks=4).pool.close()
    with SharedPool.join(name) as pool:
        with pytest.raises(ValueError, match="was made for another one"):
            SharedKVStorage(pool, *sizes, dtype)


def test_a_pool_that_knows_no_tokens(name):
    with SharedPool.create(name, 4, 1024) as pool:
        with pytest.raises(ValueError, match="tokens_per_block"):
            SharedKVStorage(pool, *SIZES)


def test_what_cannot_be_made_leaves_nothing(name):
    # 2 * 1 * 1 * 24 * 1 * 2 = 96 bytes, so from one block to the next it is 128, which is no multiple of 48
    with pytest.raises(ValueError, match="no multiple of the 48 of one key"):
        SharedKVStorage.create(name, 1, 1, 24, num_blocks=4, block_size=1)
    assert not list(Path("/dev/shm").glob(f"pagedkv*{name}*"))


def test_what_is_no_pool():
    with pytest.raises(TypeError, match="SharedPool"):
        SharedKVStorage("kv", *SIZES)
