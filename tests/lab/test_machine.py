"""The check of the machine: what it says where something is missing, and that it never raises."""

import importlib
import importlib.util
import shutil
import types

import pytest

from pagedkv.java.build import JavaBuildFailed
from pagedkv.java.jdk import Jdk, JdkNotFound
from pagedkv.lab import machine
from pagedkv.lab.machine import NOTE, OK, PROBLEM, Finding, Machine, check_machine


def finding(what):
    [found] = [each for each in check_machine().findings if each.what == what]
    return found


def fake_torch(cuda_devices=()):
    device = types.SimpleNamespace
    cuda = types.SimpleNamespace(
        is_available=lambda: bool(cuda_devices), device_count=lambda: len(cuda_devices),
        get_device_properties=lambda i: device(name=cuda_devices[i][0], total_memory=cuda_devices[i][1]))
    return types.SimpleNamespace(__version__="9.9", cuda=cuda)


def importing(monkeypatch, answer):
    """`import torch` gives this module, or raises this error."""
    real = importlib.import_module

    def import_module(name, *rest):
        if name != "torch":
            return real(name, *rest)
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(importlib, "import_module", import_module)


def jdk(tmp_path, version, remarks=()):
    return Jdk(tmp_path, version, "JAVA_HOME", remarks)


def test_this_machine_is_ready():
    report = check_machine()
    assert report.ready, report
    assert {"Python", "JDK", "JPype", "Netty", "PyTorch", "CUDA GPU"} <= {each.what for each in report.findings}


def test_no_jdk(monkeypatch):
    def none():
        raise JdkNotFound("No JDK 17 or newer was found.\nInstall one with:\n    apt-get install it")

    monkeypatch.setattr(machine, "find_jdk", none)
    found = finding("JDK")
    assert (found.status, found.found) == (PROBLEM, "none")
    assert "apt-get install it" in found.means
    report = check_machine()
    assert not report.ready and report.verdict == "To be put right first: JDK."


@pytest.mark.parametrize("version, status, word", [(17, OK, "stops"), (19, OK, "stops"), (21, NOTE, "cannot be stopped"),
                                                   (25, NOTE, "restart the kernel")])
def test_what_the_jdk_changes(monkeypatch, tmp_path, version, status, word):
    monkeypatch.setattr(machine, "find_jdk", lambda: jdk(tmp_path, version))
    found = finding("JDK")
    assert (found.status, found.found) == (status, f"{version} (JAVA_HOME)")
    assert word in found.means


def test_a_java_home_that_was_passed_over(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "find_jdk", lambda: jdk(tmp_path, 17, ("JAVA_HOME=/old is Java 8; using another",)))
    assert finding("JAVA_HOME") == Finding("JAVA_HOME", NOTE, "passed over", "JAVA_HOME=/old is Java 8; using another")


def test_no_jpype(monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "jpype" else real(name))
    found = finding("JPype")
    assert found.status == PROBLEM and "pip install jpype1" in found.means


def test_the_java_part_is_not_built_yet(monkeypatch, tmp_path):
    monkeypatch.setattr(machine, "checkout", lambda: tmp_path)
    assert (finding("Netty").status, finding("Netty").found) == (NOTE, "not built yet")


def test_no_java_part_at_all(monkeypatch):
    def nowhere():
        raise JavaBuildFailed("The Java sources are not beside the package.")

    monkeypatch.setattr(machine, "checkout", nowhere)
    assert finding("Netty").status == PROBLEM


def test_no_torch(monkeypatch):
    importing(monkeypatch, ModuleNotFoundError("No module named 'torch'", name="torch"))
    assert (finding("PyTorch").status, finding("PyTorch").found) == (NOTE, "not installed")
    assert finding("CUDA GPU").found == "not looked for"
    assert check_machine().ready


@pytest.mark.parametrize("error", [OSError("libtorch: cannot open shared object file"),
                                   ModuleNotFoundError("No module named 'sympy'", name="sympy")])
def test_a_torch_that_does_not_load(monkeypatch, error):
    importing(monkeypatch, error)
    found = finding("PyTorch")
    assert found.status == PROBLEM and str(error) in found.means
    assert finding("CUDA GPU").status == NOTE


def test_a_gpu(monkeypatch):
    importing(monkeypatch, fake_torch([("Some GPU", 24 * 1024**3)]))
    found = finding("CUDA GPU")
    assert (found.status, found.found) == (OK, "Some GPU, 24.0 GiB")


def test_two_gpus(monkeypatch):
    importing(monkeypatch, fake_torch([("Some GPU", 24 * 1024**3)] * 2))
    assert finding("CUDA GPU").found == "Some GPU, 24.0 GiB, and 1 more"


@pytest.mark.parametrize("driver", [None, "/bin/nvidia-smi"])
def test_no_gpu(monkeypatch, driver):
    importing(monkeypatch, fake_torch())
    monkeypatch.setattr(shutil, "which", lambda name: driver)
    found = finding("CUDA GPU")
    assert (found.status, found.found) == (NOTE, "none")
    assert ("There is an NVIDIA driver" in found.means) == bool(driver)


def test_little_of_everything(monkeypatch):
    monkeypatch.setattr(machine, "_container_limit", lambda: 1024**3)
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda pid: {0, 1}, raising=False)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=1024**3))
    for what, found in {"free memory": "1.0 GiB", "processors": "2", "free disk": "1.0 GiB"}.items():
        assert (finding(what).status, finding(what).found) == (NOTE, found)


def test_plenty_of_everything(monkeypatch):
    import psutil
    monkeypatch.setattr(machine, "_container_limit", lambda: float("inf"))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: types.SimpleNamespace(available=64 * 1024**3))
    monkeypatch.setattr(machine.os, "sched_getaffinity", lambda pid: set(range(16)), raising=False)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=512 * 1024**3))
    for what, found in {"free memory": "64.0 GiB", "processors": "16", "free disk": "512.0 GiB"}.items():
        assert finding(what) == Finding(what, OK, found)


def test_a_check_that_fails_is_a_note(monkeypatch):
    def broken(path):
        raise PermissionError("not for you")

    monkeypatch.setattr(shutil, "disk_usage", broken)
    assert finding("disk") == Finding("disk", NOTE, "cannot be told", "PermissionError: not for you")


def test_how_it_is_shown():
    report = Machine((Finding("Python", OK, "3.11"), Finding("GPU", NOTE, "<none>", "one\ntwo"),
                      Finding("JDK", PROBLEM, "none", "install it")))
    assert repr(report).splitlines() == [
        "OK       Python  3.11",
        "note     GPU     <none>",
        "                 one",
        "                 two",
        "problem  JDK     none",
        "                 install it",
        "",
        "To be put right first: JDK."]
    html = report._repr_html_()
    assert "&lt;none&gt;" in html and "one<br>two" in html
    assert "✓ OK" in html and "ⓘ note" in html and "✗ problem" in html and "To be put right first: JDK." in html
