"""Build the Java half of the lab, when it is missing or stale.

The *class path* is `java/target/pagedkv.jar` and the jars in `java/target/lib/`. It is *stale* when `java/pom.xml`
or a file under `java/src/main` is not what it was built from; that is decided by content, not by time, since a
checkout or a copy gives files new times. The *stamp*, a small file written after a build has succeeded, holds what
it was built from. It is removed before a build starts, so a build that was interrupted is never taken for fresh.

Only the standard library: `tools/bootstrap.py` imports this before anything is installed.
"""

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path

from pagedkv.java.jdk import Jdk, find_jdk, find_maven

STAMP = "pagedkv-built.json"
LOG = "pagedkv-build.log"
LOCK = "pagedkv-build.lock"
# How Maven ends every failure; the reason stands above.
BOILERPLATE = ("[Help", "Re-run Maven", "To see the full stack trace", "For more information", "-> [Help")


class JavaBuildFailed(Exception):
    """The Java half could not be built; the message has the lines that say why."""


def checkout() -> Path:
    """The folder of the checkout: where PAGEDKV_HOME points, else the one this package lies in."""
    named = os.environ.get("PAGEDKV_HOME")
    root = Path(named) if named else Path(__file__).resolve().parents[2]
    if (root / "java" / "pom.xml").is_file():
        return root
    if named:
        raise JavaBuildFailed(f"PAGEDKV_HOME is {named}, but there is no java/pom.xml in that folder.")
    raise JavaBuildFailed(
        f"The Java sources (a folder java/ with a pom.xml) are not beside the package in {root}. Clone the "
        f"repository and install from it with `pip install -e .`, or let PAGEDKV_HOME point to a checkout."
    )


def ensure_built(jdk: Jdk | None = None, out=print) -> list[Path]:
    """The class path, built first if it is missing or stale.

    `out` receives one line when something is built, and nothing otherwise. Several processes may call this at once:
    one builds, the others wait for it. Raises `JavaBuildFailed`, `JdkNotFound` or `MavenNotFound`.
    """
    java = checkout() / "java"
    jars = _fresh_jars(java)
    if jars is None:
        with _lock(java / "target", out):
            jars = _fresh_jars(java) or _build(java, jdk or find_jdk(), out)
    return jars


def utf8_locale(path: Path, environ=os.environ) -> dict[str, str]:
    """What to add to the environment so that a JVM finds files under `path`.

    Under the locale "C" a JVM takes file names for ASCII and cannot open a folder with an ü in its name.
    """
    locale = environ.get("LC_ALL") or environ.get("LC_CTYPE") or environ.get("LANG") or "C"
    if os.name != "posix" or str(path).isascii() or "utf" in locale.lower():
        return {}
    return {"LC_ALL": "C.UTF-8"}


def _fresh_jars(java: Path) -> list[Path] | None:
    """The jars of the last build if it was made from the sources as they are now, else None."""
    stamp = _read_stamp(java)
    if stamp.get("pom") != _pom_hash(java) or stamp.get("sources") != _sources_hash(java):
        return None
    jars = [java / "target" / name for name in stamp["jars"]]
    return jars if all(jar.is_file() for jar in jars) else None


def _build(java: Path, jdk: Jdk, out) -> list[Path]:
    maven = find_maven()
    target = java / "target"
    stamp = {"pom": _pom_hash(java), "sources": _sources_hash(java)}
    first = not (target / "lib").is_dir()
    remark = " (the first time takes about a minute)" if first else ""
    out(f"Building the Java part with JDK {jdk.version}{remark} …")
    started = time.monotonic()
    _clear_leftovers(java, stamp)
    _run_maven(maven, java, jdk)
    jars = [target / "pagedkv.jar", *sorted((target / "lib").glob("*.jar"))]
    if not jars[0].is_file():
        raise JavaBuildFailed(f"Maven reported success but made no {jars[0]}.")
    stamp["jars"] = [jar.relative_to(target).as_posix() for jar in jars]
    _write_stamp(java, stamp)
    out(f"Built the Java part in {time.monotonic() - started:.0f} s.")
    return jars


def _clear_leftovers(java: Path, stamp: dict) -> None:
    """Take away what Maven would keep although it must not.

    The jar, which Maven does not renew if an interrupted build left half of one; and after an interrupted build or a
    change of versions the libraries, of which Maven would keep the old ones beside the new. In all other cases they
    stay: a notebook's JVM may be about to open them.
    """
    target = java / "target"
    if _read_stamp(java).get("pom") != stamp["pom"]:
        shutil.rmtree(target / "lib", ignore_errors=True)
    (target / STAMP).unlink(missing_ok=True)
    # Where the jar is in use and cannot be removed (Windows), Maven's own message says so.
    with contextlib.suppress(OSError):
        (target / "pagedkv.jar").unlink(missing_ok=True)


def _run_maven(maven: Path, java: Path, jdk: Jdk) -> None:
    """`mvn package`; it needs no network once Maven's own repository has what the pom names."""
    environ = {**os.environ, "JAVA_HOME": str(jdk.home), **utf8_locale(java)}
    command = [str(maven), "-q", "-B", "-Dstyle.color=never", "-DskipTests", "package"]
    run = subprocess.run(command, cwd=java, env=environ, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = run.stdout.decode("utf-8", errors="replace")
    log = java / "target" / LOG
    log.write_text(output, encoding="utf-8")
    if run.returncode != 0:
        raise JavaBuildFailed(f"The Java build failed:\n{_useful_lines(output)}\nAll of Maven's output: {log}")


def _useful_lines(output: str, limit: int = 20) -> str:
    errors = [line.removeprefix("[ERROR]").rstrip() for line in output.splitlines() if line.startswith("[ERROR]")]
    errors = [line.split(" -> [Help")[0] for line in errors]
    useful = [line for line in errors if line.strip() and not any(word in line for word in BOILERPLATE)]
    # Not every failure is reported by Maven itself: a broken JAVA_HOME is by its start script.
    lines = list(dict.fromkeys(useful)) or [line for line in output.splitlines() if line.strip()][-limit:]
    return "\n".join(f"  {line.strip()}" for line in lines[:limit])


def _pom_hash(java: Path) -> str:
    return hashlib.sha256((java / "pom.xml").read_bytes()).hexdigest()


def _sources_hash(java: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(path for path in (java / "src" / "main").rglob("*") if path.is_file()):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(java).as_posix()}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()


def _read_stamp(java: Path) -> dict:
    try:
        return json.loads((java / "target" / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}


def _write_stamp(java: Path, stamp: dict) -> None:
    half = java / "target" / (STAMP + ".new")
    half.write_text(json.dumps(stamp, indent=1), encoding="utf-8")
    os.replace(half, java / "target" / STAMP)


@contextlib.contextmanager
def _lock(target: Path, out):
    """Held by the one process that builds; the kernel lets go of it when that process dies."""
    try:
        target.mkdir(exist_ok=True)
        file = open(target / LOCK, "a")
    except OSError as error:
        raise JavaBuildFailed(
            f"The Java part has to be built, but {target} cannot be written: {error.strerror}.") from None
    with file:
        if not _try_lock(file):
            out("Another process is building the Java part; waiting for it …")
            while not _try_lock(file):
                time.sleep(0.2)
        yield


def _try_lock(file) -> bool:
    try:
        if os.name == "nt":
            import msvcrt
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
