"""Which device, and what happens when it is full. Nothing here needs a GPU."""

import pytest
import torch

from pagedkv.storage import device as module
from pagedkv.storage.device import OutOfDeviceMemory, choose_device, free_device_bytes, room_for
from pagedkv.storage.kv_storage import KVStorage

CPU = torch.device("cpu")


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_the_gpu_is_taken_where_there_is_one(two_gpus):
    assert choose_device() == choose_device("cuda") == torch.device("cuda", 1), "the current one"
    assert choose_device("cuda:0") == torch.device("cuda", 0)
    assert choose_device("cpu") == CPU
    with pytest.raises(ValueError, match="no cuda:2: the GPUs of this machine are 0 to 1"):
        choose_device("cuda:2")


def test_without_a_gpu_it_is_the_cpu(no_gpu):
    assert choose_device() == choose_device("cpu:0") == CPU
    with pytest.raises(ValueError, match="sees no GPU"):
        choose_device("cuda")
    with pytest.raises(ValueError, match="no device 'tpu:9x'"):
        choose_device("tpu:9x")


def test_free_memory_of_a_gpu_counts_what_pytorch_holds_unused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (1000, 4000))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 700)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 400)
    assert free_device_bytes(torch.device("cuda", 0)) == 1300


def test_free_memory_of_this_machine():
    free = free_device_bytes(CPU)
    assert free is None or 2**20 < free < 2**50


def test_a_pool_that_does_not_fit_says_what_would(monkeypatch):
    monkeypatch.setattr(module, "free_device_bytes", lambda device: 10 * 2**20)
    sizes = {"num_layers": 4, "num_kv_heads": 2, "head_dim": 64, "dtype": torch.float32, "device": "cpu"}
    with pytest.raises(OutOfDeviceMemory, match="1,000 blocks of 64 KiB are 62.5 MiB, and cpu has 10 MiB free: 160 blocks would fit"):
        KVStorage(num_blocks=1000, **sizes)
    assert KVStorage(num_blocks=160, **sizes).num_bytes == 10 * 2**20
    monkeypatch.setattr(module, "free_device_bytes", lambda device: 1000)
    with pytest.raises(OutOfDeviceMemory, match="not even one block fits"):
        KVStorage(num_blocks=1, **sizes)


def test_more_than_any_machine_has():
    with pytest.raises(OutOfDeviceMemory):
        KVStorage(80, 8, 128, num_blocks=10**9, device="cpu")


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("CUDA out of memory"), MemoryError(),
                                   RuntimeError("[enforce fail] DefaultCPUAllocator: not enough memory: you tried to allocate 9")])
def test_a_refusal_of_the_device_reads_the_same(error):
    with pytest.raises(OutOfDeviceMemory, match="3 blocks of 4 B are 12 B") as caught, room_for(3, 4, CPU):
        raise error
    assert caught.value.__cause__ is error


def test_another_error_stays_what_it_is():
    with pytest.raises(RuntimeError, match="something else"), room_for(3, 4, CPU):
        raise RuntimeError("something else")
