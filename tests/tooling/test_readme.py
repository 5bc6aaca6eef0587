"""README.md names the commands, and the commands it names exist."""

import re
from pathlib import Path

import pytest

from pagedkv import __main__ as cli

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_two_commands_and_conda():
    for words in ("make lab", "make test", "conda env create -f environment.yml", "JDK 17", "macOS", "Windows"):
        assert words in README


def test_every_make_target_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"\bmake ([a-z-]+)", README)) <= targets


@pytest.mark.parametrize("command", sorted(set(re.findall(r"pagedkv (lab|reset|java)\b", README))))
def test_every_subcommand_named_exists(command):
    with pytest.raises(SystemExit) as end:
        cli.main([command, "--help"])
    assert end.value.code == 0


def test_every_file_named_exists():
    for name in re.findall(r"`((?:tests|tools|pagedkv|java|notebooks)/[\w./-]*)`", README):
        assert list(ROOT.glob(name.replace("NN_name", "01_*").replace("nbNN", "nb01"))), name
