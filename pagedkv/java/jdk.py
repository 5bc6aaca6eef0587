"""Find a JDK and Maven on this machine.

A *JDK* has a compiler (`javac`) and the JVM as a library (*libjvm*), which is what a Python process loads to run
Java inside itself. A *JRE* has no compiler. A *candidate* is a folder that might be a JDK, with a word on where it
came from ("JAVA_HOME", "javac on PATH", …); the first good candidate wins, and for every other one we keep the
reason why it was passed over.

Only the standard library: `tools/bootstrap.py` imports this before anything is installed.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

OLDEST_JAVA = 17
# On this one a learner's endless Java loop can be stopped; newer ones no longer have Thread.stop().
TEACHING_JAVA = 17

USUAL_FOLDERS = (
    "/usr/lib/jvm/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
    "/usr/local/opt/openjdk*/libexec/openjdk.jdk/Contents/Home",
)
LIBJVM = ("lib/server/libjvm.so", "lib/server/libjvm.dylib", "bin/server/jvm.dll")


class ToolNotFound(Exception):
    """A program that has to be installed is missing; the message says what to type."""


class JdkNotFound(ToolNotFound):
    """No JDK that will do; the message lists what was looked at."""


class MavenNotFound(ToolNotFound):
    """No Maven."""


@dataclass(frozen=True)
class Jdk:
    """A JDK that will do: its folder, its feature version (17, 21, …) and where we found it."""

    home: Path
    version: int
    source: str
    # why candidates that the user chose (JAVA_HOME) were passed over
    remarks: tuple[str, ...] = field(default=())

    @property
    def libjvm(self) -> Path:
        """The JVM as a library, as a Python process loads it."""
        return next(path for path in map(self.home.joinpath, LIBJVM) if path.is_file())


def find_jdk(environ=os.environ, usual_folders=USUAL_FOLDERS) -> Jdk:
    """The first JDK ≥ 17 of: JAVA_HOME, PATH, the conda environment, the system's usual folders.

    Raises `JdkNotFound`, whose message gives every candidate's fault and the line that installs a JDK.
    """
    faults = []
    for home, source in _candidates(environ, usual_folders):
        fault = _fault(home)
        if fault is None:
            remarks = tuple(f"{text}; using {home}" for text in faults if text.startswith("JAVA_HOME="))
            return Jdk(home, java_version(home), source, remarks)
        faults.append(f"{source}={home} {fault}" if source == "JAVA_HOME" else f"{home} ({source}) {fault}")
    looked_at = "\n".join(f"  - {text}" for text in faults) or "  - (nothing that looks like Java)"
    raise JdkNotFound(
        f"No JDK {OLDEST_JAVA} or newer was found. Looked at:\n{looked_at}\n"
        f"Install one with:\n    {install_line('jdk')}"
    )


def find_maven(environ=os.environ) -> Path:
    """The `mvn` command: on PATH, under MAVEN_HOME, or in the conda environment. Raises `MavenNotFound`."""
    folders = [environ.get("PATH", "")]
    if environ.get("MAVEN_HOME"):
        folders.append(os.path.join(environ["MAVEN_HOME"], "bin"))
    for prefix in _conda_prefixes(environ):
        folders += [os.path.join(prefix, "bin"), os.path.join(prefix, "Library", "bin")]
    found = shutil.which("mvn", path=os.pathsep.join(folders))
    if found is None:
        raise MavenNotFound(f"Maven (mvn) was not found. Install it with:\n    {install_line('maven')}")
    return Path(found)


def java_version(home: Path) -> int | None:
    """The feature version of the Java in `home` (8 for "1.8.0_392"), or None if it does not say."""
    release = home / "release"
    try:
        text = release.read_text(encoding="utf-8", errors="replace")
        match = re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE)
    except OSError:
        match = re.search(r'version "([^"]+)"', _java_says(home))
    return _feature_version(match.group(1)) if match else None


def install_line(*tools: str, platform: str = sys.platform) -> str:
    """The line to type that installs `tools` ("jdk", "maven", "chromium", "node", "compiler") on this kind of system."""
    if platform == "darwin":
        names = {"jdk": "openjdk@17", "maven": "maven", "chromium": "--cask chromium", "node": "node",
                 "compiler": "gcc"}
        # a cask cannot be named together with ordinary formulas
        return " && ".join(f"brew install {names[tool]}" for tool in tools)
    if shutil.which("apt-get"):
        return f"sudo apt-get install {' '.join(apt_packages(*tools))}"
    if shutil.which("dnf"):
        names = {"jdk": "java-21-openjdk-devel", "maven": "maven", "chromium": "chromium", "node": "nodejs",
                 "compiler": "gcc-c++"}
        return f"sudo dnf install {' '.join(names[tool] for tool in tools)}"
    names = {"jdk": "openjdk=17", "maven": "maven", "chromium": "(Chromium: from your system)",
             "node": "nodejs", "compiler": "cxx-compiler"}
    return f"conda install -c conda-forge {' '.join(names[tool] for tool in tools)}"


def apt_packages(*tools: str) -> list[str]:
    """The Debian or Ubuntu packages that hold `tools`."""
    names = {"maven": "maven", "chromium": "chromium", "node": "nodejs", "compiler": "g++"}
    return [_apt_jdk() if tool == "jdk" else names[tool] for tool in tools]


def _apt_jdk() -> str:
    """The teaching JDK's package, or the release's own JDK where that one is no longer (or not yet) packaged."""
    wanted = f"openjdk-{TEACHING_JAVA}-jdk-headless"
    try:
        policy = subprocess.run(["apt-cache", "policy", wanted], capture_output=True, text=True,
                                stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C"})
    except OSError:
        return wanted
    return wanted if re.search(r"Candidate: (?!\(none\))", policy.stdout) else "default-jdk-headless"


def _candidates(environ, usual_folders):
    """(home, source) of every place worth a look, best first, each folder once."""
    seen = set()
    for home, source in _places(environ, usual_folders):
        real = os.path.realpath(home)
        if real not in seen:
            seen.add(real)
            yield home, source


def _places(environ, usual_folders):
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"]), "JAVA_HOME"
    for command in ("javac", "java"):
        found = shutil.which(command, path=environ.get("PATH", ""))
        if found:
            # /usr/bin/javac is a chain of links that ends in <home>/bin/javac
            yield Path(os.path.realpath(found)).parent.parent, f"{command} on PATH"
    for prefix in _conda_prefixes(environ):
        for below in ("lib/jvm", "Library/lib/jvm", "Library"):
            if Path(prefix, below, "bin").is_dir():
                yield Path(prefix, below), "conda"
    usual = [Path(name) for pattern in usual_folders for name in glob.glob(pattern) if os.path.isdir(name)]
    for home in sorted(usual, key=_preference):
        yield home, "usual folder"


def _preference(home: Path):
    """Among folders nobody chose: the teaching baseline first, then older before newer."""
    version = java_version(home) or 0
    return version != TEACHING_JAVA, version, str(home)


def _conda_prefixes(environ) -> list[str]:
    prefixes = [environ["CONDA_PREFIX"]] if environ.get("CONDA_PREFIX") else []
    # A kernel of a conda environment can be started from a JupyterLab outside it, without CONDA_PREFIX.
    if os.path.isdir(os.path.join(sys.prefix, "conda-meta")):
        prefixes.append(sys.prefix)
    return prefixes


def _fault(home: Path) -> str | None:
    """Why `home` will not do, or None if it will."""
    if not home.is_dir():
        return "does not exist"
    version = java_version(home)
    if version is None:
        return "is not a Java installation"
    if version < OLDEST_JAVA:
        return f"is Java {version}; {OLDEST_JAVA} or newer is needed"
    if not any((home / "bin" / name).exists() for name in ("javac", "javac.exe")):
        return "is a JRE without javac"
    if not any((home / name).exists() for name in LIBJVM):
        return "has no libjvm (the JVM as a library)"
    return None


def _java_says(home: Path) -> str:
    """What `java -version` prints; nothing if there is no such command."""
    try:
        run = subprocess.run([str(home / "bin" / "java"), "-version"], capture_output=True, text=True,
                             stdin=subprocess.DEVNULL, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return run.stderr + run.stdout


def _feature_version(text: str) -> int | None:
    match = re.match(r"(?:1\.)?(\d+)", text)
    return int(match.group(1)) if match else None
