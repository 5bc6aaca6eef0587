"""The `pagedkv` command: what it asks of JupyterLab, and a real JupyterLab against a careless configuration."""

import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from pagedkv import __main__ as cli

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout of its own, in a folder with a space and an ü, with two notebooks."""
    root = tmp_path / "Prüf ling"
    (root / "java").mkdir(parents=True)
    (root / "java" / "pom.xml").touch()
    (root / "notebooks").mkdir()
    empty = json.dumps({"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    for name in ("00_start_here.ipynb", "01_reference_counts.ipynb"):
        (root / "notebooks" / name).write_text(empty)
    monkeypatch.setenv("PAGEDKV_HOME", str(root))
    return root


@pytest.fixture
def busy_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        yield taken.getsockname()[1]


def test_help_of_every_command(capsys):
    for arguments in (["--help"], ["lab", "--help"], ["reset", "--help"], ["java", "--help"]):
        with pytest.raises(SystemExit) as end:
            cli.main(arguments)
        assert end.value.code == 0
    assert "--no-browser" in capsys.readouterr().out


@pytest.mark.parametrize("port", ["0", "65536", "eighty", "-1"])
def test_a_port_that_is_none(port, capsys):
    with pytest.raises(SystemExit):
        cli.main(["lab", f"--port={port}"])
    assert "is not a port" in capsys.readouterr().err


def test_a_port_in_use_is_an_error_when_asked_for(checkout, busy_port, capsys):
    assert cli.main(["lab", "--port", str(busy_port)]) == 1
    assert f"Port {busy_port} is in use" in capsys.readouterr().err


def test_without_a_wish_the_next_free_port_is_taken(busy_port, monkeypatch):
    monkeypatch.setattr(cli, "FIRST_PORT", busy_port)
    assert busy_port < cli._free_port(None) < busy_port + cli.PORTS_TO_TRY


def test_the_page_to_open(checkout):
    cli.refresh_copies(checkout / "notebooks", checkout / "work")
    assert cli._page(checkout, None) == "work/00_start_here.ipynb"
    assert cli._page(checkout, "1") == "work/01_reference_counts.ipynb"
    assert cli._page(checkout, "notebooks/01_reference_counts.ipynb") == "work/01_reference_counts.ipynb"
    for unknown in ("7", "mine.ipynb"):
        with pytest.raises(cli.CommandError, match="There is no notebook"):
            cli._page(checkout, unknown)


def test_reset(checkout, capsys):
    cli.refresh_copies(checkout / "notebooks", checkout / "work")
    (checkout / "work" / "01_reference_counts.ipynb").write_text("mine")
    assert cli.main(["reset", "01"]) == 0
    assert "01_reference_counts.ipynb is fresh; yours is kept as" in capsys.readouterr().out
    assert cli.main(["reset", "09"]) == 1
    assert "Numbers there are: 00, 01" in capsys.readouterr().err


def test_outside_a_checkout(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PAGEDKV_HOME", str(tmp_path))
    for command in (["lab"], ["java"], ["reset", "01"]):
        assert cli.main(command) == 1
        assert "no java/pom.xml" in capsys.readouterr().err


CARELESS = {
    "ServerApp": {"ip": "0.0.0.0", "password": "", "allow_remote_access": True, "base_url": "/elsewhere/",
                  "disable_check_xsrf": True},
    "IdentityProvider": {"token": ""},
}


@pytest.fixture
def lab(checkout, tmp_path):
    """A real JupyterLab with a configuration file that would let everybody in; (process, address that it printed)."""
    config = tmp_path / "config"
    config.mkdir()
    (config / "jupyter_server_config.json").write_text(json.dumps(CARELESS))
    environ = {**os.environ, "JUPYTER_CONFIG_DIR": str(config), "JUPYTER_DATA_DIR": str(tmp_path / "data"),
               "JUPYTER_RUNTIME_DIR": str(tmp_path / "run"), "IPYTHONDIR": str(tmp_path / "ipython"),
               "PYTHONPATH": str(ROOT)}
    output = tmp_path / "output"
    with open(output, "wb") as file:
        process = subprocess.Popen([sys.executable, "-m", "pagedkv", "lab", "--no-browser"], cwd=tmp_path, env=environ,
                                   stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT)
    try:
        yield process, wait_for_address(process, output)
    finally:
        process.terminate()
        process.wait(20)


def wait_for_address(process, output):
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        found = re.search(r"http://127\.0\.0\.1:\S+", output.read_text(encoding="utf-8"))
        if found:
            return found.group()
        time.sleep(0.1)
    raise AssertionError(output.read_text(encoding="utf-8"))


def status(url):
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_real_jupyterlab_listens_to_the_token_and_to_nobody_else(lab, checkout):
    process, address = lab
    page, token = address.split("?token=")
    server = re.match(r"http://127\.0\.0\.1:\d+", page).group()
    assert page == f"{server}/lab/tree/work/00_start_here.ipynb"
    assert len(token) >= 32
    assert status(address) == 200
    assert status(f"{server}/api/contents/work/00_start_here.ipynb?token={token}") == 200
    assert status(f"{server}/api/contents/java/pom.xml?token={token}") == 200, "the Java sources can be looked at"
    assert status(f"{server}/api/contents") == 403
    assert status(f"{server}/api/contents?token=") == 403
    assert (checkout / "work" / "01_reference_counts.ipynb").is_file()
    if sys.platform.startswith("linux"):
        assert token.encode() not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
        assert listening_addresses(int(server.rpartition(":")[2])) == {"0100007F"}


def listening_addresses(port):
    """The addresses, as the kernel writes them (0100007F is 127.0.0.1), at which somebody listens on this port."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {row[1].split(":")[0] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}
