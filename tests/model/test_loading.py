"""Loading: offline, quiet, from the cache or from a folder of the user's own."""

import socket
import subprocess
import sys

import pytest

from pagedkv.model import ModelNotAvailable, cache, ensure_model, is_ready, load_model, sources
from tests.model.tiny import save_tiny, tiny_source


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    return save_tiny(tmp_path_factory.mktemp("own") / "mein Modell")


@pytest.fixture
def cached(models, monkeypatch):
    monkeypatch.setattr(sources, "SOURCES", (("a test", tiny_source),))
    return ensure_model(lambda line: None, progress=False)


@pytest.fixture
def no_network(monkeypatch):
    def refuse(*arguments, **named):
        raise AssertionError("the network was asked")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)


def test_importing_loads_neither_torch_nor_transformers():
    code = ("import sys, pagedkv.model; pagedkv.model.is_ready(); "
            "sys.exit(bool({'torch', 'transformers', 'tqdm', 'huggingface_hub', 'filelock'} & set(sys.modules)))")
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_offline_and_quiet(cached, no_network, capfd, recwarn):
    import torch
    model, tokenizer = load_model(device="cpu")
    assert model.dtype == torch.float32 and not model.training
    assert not any(weights.requires_grad for weights in model.parameters())
    batch = tokenizer(["hello", "a longer text"], padding=True, return_tensors="pt")
    assert batch.attention_mask[0, 0] == 0, "padded on the left"
    tokens = model.generate(**batch, max_new_tokens=4, do_sample=False)
    assert tokens.shape[0] == 2
    assert capfd.readouterr() == ("", "") and not recwarn.list


def test_transformers_talks_as_before(cached):
    from transformers.utils import logging
    logging.set_verbosity_info()
    try:
        load_model(device="cpu")
        assert logging.get_verbosity() == logging.INFO and logging.is_progress_bar_enabled()
    finally:
        logging.set_verbosity_warning()


def test_dtype_and_device(cached):
    import torch
    model, _ = load_model(dtype=torch.bfloat16, device="cpu")
    assert model.dtype == torch.bfloat16 and model.device.type == "cpu"
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert load_model()[0].device.type == expected
    for wrong in (torch.int8, torch.float8_e4m3fn, "float32", float):
        with pytest.raises(ValueError, match="floating-point type"):
            load_model(dtype=wrong)
    for wrong in ("bogus", "cpu:x", 1.5):
        with pytest.raises(ValueError, match=f"there is no device {wrong!r}"):
            load_model(device=wrong)


def test_cuda_where_there_is_none(cached, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(ValueError, match="PyTorch sees no CUDA device"):
        load_model(device="cuda")


def test_more_gpus_than_there_are(cached, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    with pytest.raises(ValueError, match="the GPUs here are 0 to 1"):
        load_model(device="cuda:2")


def test_the_first_load_fetches_it(models, monkeypatch, capsys):
    monkeypatch.setattr(sources, "SOURCES", (("a test", tiny_source),))
    model, _ = load_model(progress=False)
    assert model.config.num_hidden_layers == 2 and is_ready()
    assert capsys.readouterr().out == ""


def test_fetch_can_be_forbidden(models):
    with pytest.raises(ModelNotAvailable, match="it is not there. Fetch it once, .*: python -m pagedkv.model"):
        load_model(fetch=False)
    assert not models.exists()


def test_damage_that_size_does_not_show_is_an_error_with_advice(cached):
    weights = cached / "model.safetensors"
    weights.write_bytes(bytes(weights.stat().st_size))
    marker = cached / cache.MARKER
    small = cache._SMALL_BYTES
    try:
        cache._SMALL_BYTES = 10_000  # as if the weights were large
        with pytest.raises(ModelNotAvailable, match="cannot be loaded: .*\npython -m pagedkv.model reads all of it"):
            load_model()
    finally:
        cache._SMALL_BYTES = small
    assert marker.exists()


@pytest.mark.parametrize("by_variable", [True, False])
def test_a_folder_of_ones_own(models, monkeypatch, saved, no_network, by_variable):
    if by_variable:
        monkeypatch.setenv("PAGEDKV_MODEL", str(saved))
        assert is_ready()
    model, tokenizer = load_model(None if by_variable else saved)
    assert model.config.num_hidden_layers == 2
    assert tokenizer.pad_token == "<|im_end|>", "it had none"
    assert not models.exists()


@pytest.mark.parametrize("name, reason", [("gone", "that is not a folder"), ("empty", "no config.json in that folder"),
                                          ("file", "that is not a folder")])
def test_a_folder_that_is_none(models, monkeypatch, tmp_path, name, reason):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    monkeypatch.setenv("PAGEDKV_MODEL", str(tmp_path / name))
    assert not is_ready()
    with pytest.raises(ModelNotAvailable, match=f"PAGEDKV_MODEL is .*{name}, but .*{reason}"):
        load_model()
    monkeypatch.delenv("PAGEDKV_MODEL")
    with pytest.raises(ModelNotAvailable, match=f"The path is .*{name}, but .*{reason}"):
        load_model(tmp_path / name)


@pytest.mark.parametrize("content", ["{}", "nonsense", '{"model_type": "llama"}',
                                     '{"model_type": "x", "auto_map": {"AutoConfig": "evil.Evil"}}'])
def test_a_folder_with_nonsense_in_it(models, tmp_path, content, no_network):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "config.json").write_text(content)
    (tmp_path / "own" / "evil.py").write_text("raise SystemExit('run')")
    with pytest.raises(ModelNotAvailable, match="cannot be loaded: .*\nName a folder that save_pretrained"):
        load_model(tmp_path / "own")


def test_without_transformers(models, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "transformers" else object())
    assert not is_ready()
    with pytest.raises(ModelNotAvailable, match="package transformers is missing"):
        load_model()
