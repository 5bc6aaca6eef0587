"""`check_machine`: what this machine has, and what that changes in the course.

A *finding* is one line: what was looked for, what was found, what it means for the reader. Its status is OK; a note,
where the course goes on in another way; or a problem, where something has to be done first. A check that fails is a
finding too: `check_machine` never raises.
"""

import importlib
import importlib.metadata
import importlib.util
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from textwrap import fill

from pagedkv.java.build import JavaBuildFailed, checkout
from pagedkv.java.jdk import JdkNotFound, find_jdk

OK, NOTE, PROBLEM = "OK", "note", "problem"
_MARKS = {OK: "✓", NOTE: "ⓘ", PROBLEM: "✗"}

LAST_JAVA_THAT_STOPS_THREADS = 19  # JDK 20 took Thread.stop() away
_LITTLE_MEMORY_BYTES = 4 * 1024**3
_LITTLE_DISK_BYTES = 2 * 1024**3
_FEW_PROCESSORS = 4


@dataclass(frozen=True)
class Finding:
    """what was looked for, status (OK, NOTE or PROBLEM), what was found, and what that means or what to do."""

    what: str
    status: str
    found: str
    means: str = ""


@dataclass(frozen=True)
class Machine:
    """All findings, to be shown as a cell's last value."""

    findings: tuple[Finding, ...]

    @property
    def ready(self) -> bool:
        """Whether the course can begin: nothing is a problem."""
        return not self.of_status(PROBLEM)

    def of_status(self, status: str) -> list[Finding]:
        return [finding for finding in self.findings if finding.status == status]

    @property
    def verdict(self) -> str:
        problems = ", ".join(finding.what for finding in self.of_status(PROBLEM))
        return f"To be put right first: {problems}." if problems else "This machine will do."

    def __repr__(self) -> str:
        width = max(len(finding.what) for finding in self.findings)
        lines = []
        for finding in self.findings:
            lines.append(f"{finding.status:8} {finding.what:{width}}  {finding.found}")
            if finding.means:
                indent = " " * (8 + 1 + width + 2)
                lines += [fill(line, 110, initial_indent=indent, subsequent_indent=indent)
                          for line in finding.means.splitlines()]
        return "\n".join([*lines, "", self.verdict])

    def _repr_html_(self) -> str:
        rows = "".join(f"<tr>{_cell(_MARKS[finding.status] + ' ' + finding.status, 'white-space: nowrap')}"
                       f"{_cell(finding.what, 'white-space: nowrap')}{_cell(finding.found)}{_cell(finding.means)}</tr>"
                       for finding in self.findings)
        head = "".join(f'<th style="text-align: left">{title}</th>' for title in ("", "looked&nbsp;for", "found", "what that changes"))
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table><p><b>{escape(self.verdict)}</b></p>"


def check_machine() -> Machine:
    """Look at Python, Java, Netty, PyTorch, the GPU, and at what else the course needs. Takes a few seconds, since
    PyTorch is loaded to ask for the GPU."""
    checks = (_python, _jdk, _bridge, _netty, _torch, _gpu, _processors, _memory, _disk)
    return Machine(tuple(finding for check in checks for finding in _careful(check)))


def _python() -> Iterator[Finding]:
    yield Finding("Python", OK, platform.python_version())


def _jdk() -> Iterator[Finding]:
    try:
        jdk = find_jdk()
    except JdkNotFound as error:
        yield Finding("JDK", PROBLEM, "none", str(error))
        return
    found = f"{jdk.version} ({jdk.source})"
    if jdk.version > LAST_JAVA_THAT_STOPS_THREADS:
        yield Finding("JDK", NOTE, found, "All of the course runs. But a Java loop that never ends cannot be stopped: "
                                          "restart the kernel then. On JDK 17 the interrupt button stops it.")
    else:
        yield Finding("JDK", OK, found, "The interrupt button also stops a Java loop that never ends.")
    for remark in jdk.remarks:
        yield Finding("JAVA_HOME", NOTE, "passed over", remark)


def _bridge() -> Iterator[Finding]:
    if importlib.util.find_spec("jpype") is None:
        yield Finding("JPype", PROBLEM, "not installed", "It runs Java inside this process. Install it with: "
                                                         "pip install jpype1")
    else:
        yield Finding("JPype", OK, _version("jpype1"))


def _netty() -> Iterator[Finding]:
    try:
        jars = sorted((checkout() / "java" / "target" / "lib").glob("netty-buffer-*.jar"))
    except JavaBuildFailed as error:
        yield Finding("Netty", PROBLEM, "no Java part", str(error))
        return
    if jars:
        yield Finding("Netty", OK, jars[-1].stem.removeprefix("netty-buffer-"))
    else:
        yield Finding("Netty", NOTE, "not built yet", "start() builds the Java part first; that takes about a minute, "
                                                      "once.")


def _torch() -> Iterator[Finding]:
    torch = _import_torch()
    if torch is None:
        yield Finding("PyTorch", NOTE, "not installed", "Pools, tables and caches need none. For the notebooks with "
                                                        "real tensors install it with: pip install torch")
    elif isinstance(torch, Exception):
        yield Finding("PyTorch", PROBLEM, "does not load", f"{type(torch).__name__}: {torch}\n"
                                                           "Install it again: pip install --force-reinstall torch")
    else:
        yield Finding("PyTorch", OK, torch.__version__)


def _gpu() -> Iterator[Finding]:
    torch = _import_torch()
    if torch is None or isinstance(torch, Exception):
        yield Finding("CUDA GPU", NOTE, "not looked for", "PyTorch is what asks for it.")
    elif torch.cuda.is_available():
        device = torch.cuda.get_device_properties(0)
        others = f", and {torch.cuda.device_count() - 1} more" if torch.cuda.device_count() > 1 else ""
        yield Finding("CUDA GPU", OK, f"{device.name}, {_gib(device.total_memory)}{others}",
                      "Tensors lie on the GPU, and what is measured on a GPU is measured on yours.")
    else:
        yield Finding("CUDA GPU", NOTE, "none", "Nothing fails for it: tensors lie on the CPU, by the same code, and what "
                                                "only a GPU can show is replayed from a recording." + _unused_driver())


def _unused_driver() -> str:
    if shutil.which("nvidia-smi") is None:
        return ""
    return "\nThere is an NVIDIA driver, but this PyTorch cannot use it: it may be a build for CPUs, or for a newer driver."


def _processors() -> Iterator[Finding]:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count < _FEW_PROCESSORS:
        yield Finding("processors", NOTE, str(count), "Experiments with many threads show less of the fight for a lock.")
    else:
        yield Finding("processors", OK, str(count))


def _memory() -> Iterator[Finding]:
    import psutil  # comes with every Jupyter kernel
    available = min(psutil.virtual_memory().available, _container_limit())
    if available < _LITTLE_MEMORY_BYTES:
        yield Finding("free memory", NOTE, _gib(available), "Little for the notebooks that run a real model: close "
                                                            "other programs and other notebooks' kernels first.")
    else:
        yield Finding("free memory", OK, _gib(available))


def _container_limit() -> float:
    """What a container may still take; infinite where there is no limit."""
    group = Path("/sys/fs/cgroup")
    try:
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
    except (OSError, ValueError):  # no such file; or "max"
        return float("inf")
    return limit - used


def _disk() -> Iterator[Finding]:
    free = shutil.disk_usage(Path.cwd()).free
    if free < _LITTLE_DISK_BYTES:
        yield Finding("free disk", NOTE, _gib(free), "Heap dumps and recordings need some: make room before the "
                                                     "notebooks that write them.")
    else:
        yield Finding("free disk", OK, _gib(free))


def _careful(check: Callable[[], Iterator[Finding]]) -> list[Finding]:
    try:
        return list(check())
    except Exception as error:
        return [Finding(check.__name__.strip("_"), NOTE, "cannot be told", f"{type(error).__name__}: {error}")]


def _import_torch():
    """The module, None where it is not installed, or the error with which it does not load."""
    try:
        return importlib.import_module("torch")
    except ModuleNotFoundError as error:
        return None if error.name == "torch" else error
    except Exception as error:
        return error


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "of unknown version"


def _gib(size_bytes: float) -> str:
    return f"{size_bytes / 1024**3:.1f} GiB"


def _cell(text: str, style: str = "") -> str:
    return f'<td style="text-align: left; vertical-align: top; {style}">{escape(text).replace(chr(10), "<br>")}</td>'
