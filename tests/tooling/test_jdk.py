"""Which JDK is taken, and what is said about those that are not: with folders made up to look like JDKs."""

import os
from pathlib import Path

import pytest

from pagedkv.java import jdk as jdk_module
from pagedkv.java.jdk import JdkNotFound, MavenNotFound, find_jdk, find_maven, install_line


def make_program(path: Path, text="#!/bin/sh\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def make_jdk(home: Path, version="17.0.15", javac=True, libjvm=True, release=True) -> Path:
    make_program(home / "bin" / "java", f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    if release:
        (home / "release").write_text(f'IMPLEMENTOR="Nobody"\nJAVA_VERSION="{version}"\n')
    if javac:
        make_program(home / "bin" / "javac")
    if libjvm:
        make_program(home / "lib" / "server" / "libjvm.so")
    return home


def find(environ, *usual):
    return find_jdk(environ, usual_folders=usual)


def refusal(environ, *usual) -> str:
    with pytest.raises(JdkNotFound) as caught:
        find(environ, *usual)
    return str(caught.value)


def test_java_home_comes_first(tmp_path):
    first, second = make_jdk(tmp_path / "a"), make_jdk(tmp_path / "b", "21.0.1")
    found = find({"JAVA_HOME": str(first), "PATH": str(second / "bin")})
    assert (found.home, found.version, found.source, found.remarks) == (first, 17, "JAVA_HOME", ())


def test_on_path_the_links_are_followed(tmp_path):
    home = make_jdk(tmp_path / "jdk", "25")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "javac").symlink_to(home / "bin" / "javac")
    found = find({"PATH": str(tmp_path / "bin")})
    assert (found.home, found.version, found.source) == (home, 25, "javac on PATH")


def test_conda_environment(tmp_path):
    home = make_jdk(tmp_path / "env" / "lib" / "jvm")
    found = find({"CONDA_PREFIX": str(tmp_path / "env")})
    assert (found.home, found.source) == (home, "conda")


def test_among_the_usual_folders_17_comes_first_then_the_older(tmp_path):
    for version in ("25", "21.0.2", "17.0.9"):
        make_jdk(tmp_path / "jvm" / f"java-{version}", version)
    usual = str(tmp_path / "jvm" / "*")
    assert find({}, usual).version == 17
    (tmp_path / "jvm" / "java-17.0.9" / "bin" / "javac").unlink()
    assert find({}, usual).version == 21


def test_a_bad_java_home_is_passed_over_with_a_remark(tmp_path):
    old, good = make_jdk(tmp_path / "jdk8", "1.8.0_392"), make_jdk(tmp_path / "jdk17")
    found = find({"JAVA_HOME": str(old), "PATH": str(good / "bin")})
    assert found.home == good
    assert found.remarks == (f"JAVA_HOME={old} is Java 8; 17 or newer is needed; using {good}",)


@pytest.mark.parametrize("options, fault", [
    ({"version": "1.8.0_392"}, "is Java 8; 17 or newer is needed"),
    ({"version": "11.0.2"}, "is Java 11; 17 or newer is needed"),
    ({"javac": False}, "is a JRE without javac"),
    ({"libjvm": False}, "has no libjvm"),
])
def test_why_a_java_home_is_refused(tmp_path, options, fault):
    home = make_jdk(tmp_path / "java", **options)
    assert f"JAVA_HOME={home} {fault}" in refusal({"JAVA_HOME": str(home)})


def test_java_home_that_does_not_exist_or_is_no_java(tmp_path):
    assert f"JAVA_HOME={tmp_path / 'gone'} does not exist" in refusal({"JAVA_HOME": str(tmp_path / "gone")})
    assert f"JAVA_HOME={tmp_path} is not a Java installation" in refusal({"JAVA_HOME": str(tmp_path)})


def test_the_refusal_lists_every_candidate_and_the_line_to_type(tmp_path):
    old, jre = make_jdk(tmp_path / "jdk8", "1.8.0"), make_jdk(tmp_path / "jre", javac=False)
    message = refusal({"JAVA_HOME": str(old), "PATH": str(jre / "bin")})
    assert str(old) in message and f"{jre} (java on PATH) is a JRE without javac" in message
    assert install_line("jdk") in message


def test_no_java_at_all():
    assert "nothing that looks like Java" in refusal({})


def test_without_a_release_file_java_is_asked(tmp_path):
    assert find({"JAVA_HOME": str(make_jdk(tmp_path / "jdk", "21.0.1", release=False))}).version == 21


def test_spaces_and_other_letters_in_the_path(tmp_path):
    home = make_jdk(tmp_path / "Prüfung eins" / "jdk 17")
    assert find({"PATH": str(home / "bin")}).home == home


def test_maven_on_path_under_maven_home_and_in_conda(tmp_path):
    path = make_program(tmp_path / "path" / "mvn")
    home = make_program(tmp_path / "home" / "bin" / "mvn")
    conda = make_program(tmp_path / "conda" / "bin" / "mvn")
    environ = {"PATH": str(path.parent), "MAVEN_HOME": str(tmp_path / "home"), "CONDA_PREFIX": str(tmp_path / "conda")}
    assert find_maven(environ) == path
    environ["PATH"] = ""
    assert find_maven(environ) == home
    del environ["MAVEN_HOME"]
    assert find_maven(environ) == conda
    with pytest.raises(MavenNotFound, match="install"):
        find_maven({"PATH": ""})


@pytest.mark.parametrize("candidate, package", [
    ("17.0.15-1", "openjdk-17-jdk-headless"),
    ("(none)", "default-jdk-headless"),
])
def test_the_releases_own_jdk_where_17_is_not_packaged(tmp_path, monkeypatch, candidate, package):
    make_program(tmp_path / "apt-cache", f"#!/bin/sh\necho '  Candidate: {candidate}'\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert jdk_module.apt_packages("jdk", "maven") == [package, "maven"]


def test_install_line_of_other_systems(tmp_path, monkeypatch):
    assert install_line("jdk", "maven", platform="darwin") == "brew install openjdk@17 && brew install maven"
    monkeypatch.setenv("PATH", str(tmp_path))
    assert install_line("jdk", platform="linux").startswith("conda install")
    make_program(tmp_path / "dnf")
    assert install_line("jdk", "maven", platform="linux") == "sudo dnf install java-21-openjdk-devel maven"
