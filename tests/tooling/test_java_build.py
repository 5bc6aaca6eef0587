"""When the Java part is built and when it is not, with a stand-in for Maven."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pagedkv.java import build
from pagedkv.java.build import JavaBuildFailed, checkout, ensure_built, utf8_locale
from pagedkv.java.jdk import Jdk, MavenNotFound

ROOT = Path(__file__).resolve().parents[2]

# Makes what the pom makes; counts its runs; does what the test asks for through files beside it.
FAKE_MAVEN = """#!/bin/sh
here=$(dirname "$0")
echo "$JAVA_HOME $*" >> "$here/runs"
[ -f "$here/slow" ] && sleep 1
if [ -f "$here/broken" ]; then
  echo "[INFO] noise"
  echo "[ERROR] COMPILATION ERROR :"
  echo "[ERROR] Pool.java:[3,5] ';' expected -> [Help 1]"
  echo "[ERROR] Re-run Maven using the -X switch"
  mkdir -p target; echo half > target/pagedkv.jar
  exit 1
fi
[ -f "$here/makes-nothing" ] && exit 0
mkdir -p target/lib
echo jar > target/pagedkv.jar
echo netty > "target/lib/netty-$(cat pom.xml).jar"
"""


class Place:
    """A checkout with a Java folder, and a stand-in for Maven."""

    def __init__(self, folder: Path):
        self.java = folder / "Prüf ling" / "java"
        self.source = self.java / "src" / "main" / "java" / "Pool.java"
        self.source.parent.mkdir(parents=True)
        self.source.write_text("class Pool {}")
        self.pom = self.java / "pom.xml"
        self.pom.write_text("1")
        self.bin = folder / "bin"
        self.bin.mkdir()
        (self.bin / "mvn").write_text(FAKE_MAVEN)
        (self.bin / "mvn").chmod(0o755)
        self.jdk = Jdk(folder / "jdk", 17, "test")
        self.said = []

    def build(self):
        return ensure_built(self.jdk, out=self.said.append)

    @property
    def runs(self):
        runs = self.bin / "runs"
        return runs.read_text().splitlines() if runs.exists() else []

    def ask(self, behaviour):
        (self.bin / behaviour).touch()

    def stop_asking(self, behaviour):
        (self.bin / behaviour).unlink()


@pytest.fixture
def place(tmp_path, monkeypatch):
    place = Place(tmp_path)
    monkeypatch.setenv("PAGEDKV_HOME", str(place.java.parent))
    monkeypatch.setenv("PATH", str(place.bin), prepend=os.pathsep)
    return place


def test_the_first_build_says_so_and_returns_the_class_path(place):
    jars = place.build()
    assert jars == [place.java / "target" / "pagedkv.jar", place.java / "target" / "lib" / "netty-1.jar"]
    assert "about a minute" in place.said[0]
    assert place.runs == [f"{place.jdk.home} -q -B -Dstyle.color=never -DskipTests package"]


def test_a_second_call_builds_nothing_and_says_nothing(place):
    first = place.build()
    place.said.clear()
    assert place.build() == first
    assert len(place.runs) == 1 and place.said == []


def test_times_do_not_matter_content_does(place):
    place.build()
    os.utime(place.source, (0, 0))
    place.build()
    assert len(place.runs) == 1
    place.source.write_text("class Pool { }")
    place.build()
    assert len(place.runs) == 2


@pytest.mark.parametrize("lost", ["pagedkv.jar", "lib/netty-1.jar", build.STAMP])
def test_what_was_lost_is_built_again(place, lost):
    jars = place.build()
    (place.java / "target" / lost).unlink()
    assert place.build() == jars
    assert len(place.runs) == 2


def test_a_new_file_a_renamed_one_and_a_new_pom_are_seen(place):
    place.build()
    place.source.with_name("Table.java").write_text("class Table {}")
    place.build()
    place.source.rename(place.source.with_name("Pond.java"))
    place.build()
    place.pom.write_text("2")
    assert [jar.name for jar in place.build()] == ["pagedkv.jar", "netty-2.jar"], "the old library is gone"
    assert len(place.runs) == 4


def test_a_failed_build_gives_the_lines_that_matter_and_is_tried_again(place):
    place.build()
    place.source.write_text("class Pool {")
    place.ask("broken")
    with pytest.raises(JavaBuildFailed) as caught:
        place.build()
    message = str(caught.value)
    assert "Pool.java:[3,5] ';' expected\n" in message
    assert "noise" not in message and "Re-run" not in message and build.LOG in message
    place.source.write_text("class Pool {}")
    place.stop_asking("broken")
    place.build()
    assert (place.java / "target" / "pagedkv.jar").read_text() == "jar\n", "not the half one of the failed build"


def test_maven_that_makes_nothing(place):
    place.ask("makes-nothing")
    with pytest.raises(JavaBuildFailed, match="made no"):
        place.build()


def test_without_maven_a_built_jar_still_works(place, monkeypatch):
    jars = place.build()
    monkeypatch.setenv("PATH", "")
    assert place.build() == jars
    place.source.write_text("changed")
    with pytest.raises(MavenNotFound):
        place.build()


def test_two_processes_build_once(place):
    place.ask("slow")
    code = ("from pathlib import Path; from pagedkv.java.build import ensure_built; from pagedkv.java.jdk import Jdk; "
            f"print(ensure_built(Jdk(Path({str(place.jdk.home)!r}), 17, 'test')))")
    both = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert len(place.runs) == 1


def test_a_folder_that_cannot_be_written_is_named(place, monkeypatch):
    def refuse(self, **_):
        raise PermissionError(13, "Permission denied", str(self))
    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(JavaBuildFailed, match="target cannot be written: Permission denied"):
        place.build()


def test_pagedkv_home_that_points_elsewhere(tmp_path, monkeypatch):
    monkeypatch.setenv("PAGEDKV_HOME", str(tmp_path))
    with pytest.raises(JavaBuildFailed, match="PAGEDKV_HOME is .* no java/pom.xml"):
        checkout()


def test_a_package_without_the_sources_beside_it(tmp_path, monkeypatch):
    monkeypatch.delenv("PAGEDKV_HOME", raising=False)
    assert checkout() == ROOT
    monkeypatch.setattr(build, "__file__", str(tmp_path / "site-packages" / "pagedkv" / "java" / "build.py"))
    with pytest.raises(JavaBuildFailed, match="PAGEDKV_HOME"):
        checkout()


@pytest.mark.parametrize("path, environ, added", [
    ("/home/kurs", {}, {}),
    ("/home/übung", {}, {"LC_ALL": "C.UTF-8"}),
    ("/home/übung", {"LANG": "de_DE.UTF-8"}, {}),
    ("/home/übung", {"LANG": "de_DE.UTF-8", "LC_ALL": "C"}, {"LC_ALL": "C.UTF-8"}),
])
@pytest.mark.skipif(os.name != "posix", reason="locales by environment variables are a thing of POSIX systems")
def test_the_locale_that_a_jvm_needs(path, environ, added):
    assert utf8_locale(Path(path), environ) == added
