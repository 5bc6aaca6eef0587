"""The Java worker of the crash test, as a command."""

import os
import shlex
import subprocess
from pathlib import Path

from pagedkv.java.build import checkout, ensure_built
from pagedkv.java.jdk import find_jdk

SOURCES = ("CrashWorker.java", "SteppedAtomics.java")
# It is killed before a second compiler or a concurrent collector would be of use.
FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx64m", "-Xshare:auto")


def command(folder: Path) -> str:
    """The command of a Java worker, for `tests.shared.crash`. Its test classes are compiled into this folder.

    Raises JdkNotFound, JavaBuildFailed."""
    jdk = find_jdk()
    class_path = [str(jar) for jar in ensure_built(jdk, out=lambda line: None)]
    sources = checkout() / "java" / "src" / "test" / "java" / "pagedkv" / "shared"
    subprocess.run([jdk.home / "bin" / "javac", "-proc:none", "-d", folder, "-cp", os.pathsep.join(class_path),
                    *(sources / name for name in SOURCES)], check=True)
    return shlex.join([str(jdk.home / "bin" / "java"), *FLAGS, "-cp", os.pathsep.join([str(folder), class_path[0]]),
                       "pagedkv.shared.CrashWorker"])
