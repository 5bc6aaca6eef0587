"""Which backend runs where, and what is said when the best one cannot."""

import logging

import pytest
import torch

from pagedkv.attention import backends, compiled
from pagedkv.attention.backends import BACKENDS, backend, choose_backend
from pagedkv.storage.kv_storage import KVStorage
from tests.attention.cases import case, error


@pytest.fixture
def storage():
    return KVStorage(1, 1, 16, num_blocks=2, dtype=torch.float32, device="cpu")


@pytest.fixture
def compiler():
    try:
        compiled.prepare()
    except compiled.NoCompiler as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("name", [name for name in BACKENDS if name != "triton"])
def test_every_backend_takes_the_same_arguments_and_gives_the_same(name, request):
    if name == "compiled":
        request.getfixturevalue("compiler")
    assert error(backend(name), case([5, 33, 12], [1, 1, 1], head_dim=64, block_size=16)) < 5e-6
    assert error(backend(name), case([5, 33, 12], [2, 1, 12], head_dim=64, block_size=16)) < 5e-6


def test_a_name_that_is_none(storage):
    for call in (lambda: backend("flash"), lambda: choose_backend("flash", storage)):
        with pytest.raises(ValueError, match="one of gather, blockwise, compiled, triton, or auto, got 'flash'"):
            call()


def test_the_cpu_gets_the_compiled_one(storage, compiler):
    assert choose_backend("auto", storage) == "compiled"
    assert choose_backend("blockwise", storage) == "blockwise"


def test_without_it_goes_on_by_gathering_and_says_so(storage, monkeypatch, caplog):
    def broken(name, storage):
        raise RuntimeError("no C++ compiler")

    monkeypatch.setattr(backends, "_check", broken)
    with caplog.at_level(logging.WARNING, "pagedkv"):
        assert choose_backend("auto", storage) == "gather"
    assert "goes on without 'compiled', by gathering" in caplog.text and "no C++ compiler" in caplog.text
    with pytest.raises(RuntimeError, match="no C"):
        choose_backend("compiled", storage)


def test_a_backend_of_the_other_device_is_refused(storage):
    with pytest.raises(ValueError, match="CPU|cpu"):
        choose_backend("triton", storage)
    storage.device = torch.device("cuda", 0)
    with pytest.raises(ValueError, match="for the CPU, the pool is on cuda:0"):
        choose_backend("compiled", storage)
