"""Every test here has a cache of its own, and no source but those that it brings: nothing is downloaded."""

import pytest

from pagedkv.model import sources


def no_source(folder, say, progress):
    raise AssertionError("a test tried to download")


@pytest.fixture
def models(tmp_path, monkeypatch):
    """The models folder, which does not exist yet."""
    for name in ("PAGEDKV_MODEL", "PAGEDKV_NO_MODEL"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "Modelle für alle"
    monkeypatch.setenv("PAGEDKV_MODEL_CACHE", str(folder))
    monkeypatch.setattr(sources, "SOURCES", (("nothing", no_source),))
    return folder


@pytest.fixture
def said():
    """A list that is also what hears the lines for people."""
    return Said()


class Said(list):
    __call__ = list.append

    @property
    def text(self):
        return "\n".join(self)
