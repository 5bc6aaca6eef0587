"""What the set-up decides, with stand-ins for the system's programs. Nothing is installed."""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tooling.test_jdk import make_jdk, make_program

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "tools" / "bootstrap.py"


@pytest.fixture
def bootstrap(tmp_path, monkeypatch):
    """The script as a module, on a machine whose PATH is empty and whose usual folders hold no JDK."""
    spec = importlib.util.spec_from_file_location("bootstrap", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for name in ("JAVA_HOME", "CONDA_PREFIX", "MAVEN_HOME", "PAGEDKV_CHROMIUM", "PAGEDKV_NO_APT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr("pagedkv.java.jdk.find_jdk.__defaults__", (os.environ, ()))
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(module, "CHROMIUM_APPS", ())
    (tmp_path / "bin").mkdir()
    return module


def debian(tmp_path, jdk=None):
    """apt-get, which writes down what it is asked, and on `install` puts links to what it would install on PATH."""
    tools = tmp_path / "tools"
    for name in ("mvn", "chromium"):
        make_program(tools / name)
    programs = [tools / "mvn", tools / "chromium"] + ([jdk / "bin" / "javac"] if jdk else [])
    links = " ".join(f"'{path}'" for path in programs)
    make_program(tmp_path / "bin" / "apt-get", f"""#!/bin/sh
echo "$DEBIAN_FRONTEND: $*" >> '{tmp_path}/apt'
if [ "$2" = install ]; then /bin/ln -s {links} '{tmp_path}/bin'; fi
""")
    make_program(tmp_path / "bin" / "apt-cache", "#!/bin/sh\necho '  Candidate: 17.0.15'\n")


def apt_calls(tmp_path):
    calls = tmp_path / "apt"
    return calls.read_text().splitlines() if calls.exists() else []


def stopped(bootstrap, *also) -> str:
    with pytest.raises(bootstrap.Stop) as caught:
        bootstrap.find_tools(*also)
    return str(caught.value)


def test_an_old_python_can_read_the_script():
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 6))


def test_what_is_there_is_used(bootstrap, tmp_path, capsys):
    jdk = make_jdk(tmp_path / "jdk 17")
    os.environ["PATH"] = os.pathsep.join([str(jdk / "bin"), str(tmp_path / "bin")])
    make_program(tmp_path / "bin" / "mvn")
    make_program(tmp_path / "bin" / "google-chrome")
    found = bootstrap.find_tools("chromium")
    assert found["jdk"].home == jdk and found["chromium"].endswith("google-chrome")
    assert "JDK 17 (javac on PATH)" in capsys.readouterr().out


def test_as_root_on_debian_what_is_missing_is_installed_and_said(bootstrap, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    debian(tmp_path, make_jdk(tmp_path / "jdk"))
    assert bootstrap.find_tools("chromium")["jdk"].version == 17
    assert apt_calls(tmp_path) == [
        "noninteractive: -q update",
        "noninteractive: -q install -y --no-install-recommends openjdk-17-jdk-headless maven chromium"]
    assert "installing Debian packages: openjdk-17-jdk-headless maven chromium" in capsys.readouterr().out


def test_only_what_is_missing_is_installed(bootstrap, tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("JAVA_HOME", str(make_jdk(tmp_path / "jdk")))
    debian(tmp_path)
    bootstrap.find_tools()
    assert apt_calls(tmp_path)[1].endswith("--no-install-recommends maven")


def test_an_installation_that_does_not_help_stops(bootstrap, tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    debian(tmp_path)
    assert "Still missing after the installation" in stopped(bootstrap)


def test_pagedkv_no_apt_forbids_it(bootstrap, tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setenv("PAGEDKV_NO_APT", "1")
    debian(tmp_path)
    message = stopped(bootstrap, "chromium")
    assert "PAGEDKV_NO_APT is set" in message
    assert message.endswith("sudo apt-get install openjdk-17-jdk-headless maven chromium")
    assert apt_calls(tmp_path) == []


def test_not_root_stops_with_the_line_to_type(bootstrap, tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    debian(tmp_path)
    assert stopped(bootstrap).endswith("sudo apt-get install openjdk-17-jdk-headless maven")
    assert apt_calls(tmp_path) == []


def test_not_debian_stops_with_its_line(bootstrap, tmp_path, monkeypatch):
    monkeypatch.setattr("os.geteuid", lambda: 0)
    make_program(tmp_path / "bin" / "dnf")
    assert stopped(bootstrap).endswith("sudo dnf install java-21-openjdk-devel maven")


def test_a_bad_jdk_is_named_in_the_message(bootstrap, tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(make_jdk(tmp_path / "jdk8", "1.8.0_392")))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "is Java 8; 17 or newer is needed" in stopped(bootstrap)


@pytest.mark.parametrize("version, found", [("v20.1.0", True), ("v18.0.0", True), ("v16.20.2", False)])
def test_node_has_to_have_a_test_runner(bootstrap, tmp_path, monkeypatch, version, found):
    node = tmp_path / "node"
    node.write_text(f"#!/bin/sh\necho {version}\n")
    node.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    if found:
        assert bootstrap.find_node() == str(node)
    else:
        with pytest.raises(Exception, match="too old"):
            bootstrap.find_node()


def test_pagedkv_chromium_names_the_program(bootstrap, tmp_path, monkeypatch):
    program = make_program(tmp_path / "my browser")
    monkeypatch.setenv("PAGEDKV_CHROMIUM", str(program))
    assert bootstrap.find_chromium() == str(program)
    monkeypatch.setenv("PAGEDKV_CHROMIUM", str(tmp_path / "gone"))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "PAGEDKV_CHROMIUM is" in stopped(bootstrap, "chromium")


def test_a_checkout_that_cannot_be_written(bootstrap, monkeypatch, tmp_path):
    monkeypatch.setattr(bootstrap, "ROOT", str(tmp_path / "gone"))
    with pytest.raises(bootstrap.Stop, match="Cannot write in the checkout"):
        bootstrap.check_writable()


def test_an_old_python_says_so(bootstrap, monkeypatch):
    monkeypatch.setattr("sys.version_info", (3, 8, 18, "final", 0))
    with pytest.raises(bootstrap.Stop, match=r"Python 3\.11 or newer is needed, this is 3\.8"):
        bootstrap.use_new_python()


def test_an_old_python_goes_on_with_a_newer_one_that_works(bootstrap, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.version_info", (3, 8, 18, "final", 0))
    make_program(tmp_path / "bin" / "python3.13", "#!/bin/sh\nexit 127\n")
    newer = make_program(tmp_path / "bin" / "python3.12", "#!/bin/sh\nexit 0\n")
    commands = []
    monkeypatch.setattr(bootstrap, "replace_process", lambda command, environ: commands.append(command))
    with pytest.raises(bootstrap.Stop):
        bootstrap.use_new_python()
    assert commands[0][0] == str(newer)


class Packages:
    """A checkout with a virtual environment, and pip replaced by a list of what it was asked."""

    def __init__(self, bootstrap, monkeypatch, tmp_path):
        self.root = tmp_path / "Prüf ling"
        (self.root / ".venv").mkdir(parents=True)
        (self.root / "pyproject.toml").write_text("one")
        self.calls = []
        self.fails = False
        self.stop = bootstrap.Stop
        monkeypatch.setattr(bootstrap, "ROOT", str(self.root))
        monkeypatch.setattr(bootstrap, "VENV", str(self.root / ".venv"))
        monkeypatch.setattr(bootstrap, "VENV_PYTHON", sys.executable)
        monkeypatch.setattr(bootstrap, "run_or_stop", self.pip)

    def pip(self, command, message):
        self.calls.append(command[-1])
        if self.fails:
            raise self.stop(message)


@pytest.fixture
def packages(bootstrap, monkeypatch, tmp_path):
    return Packages(bootstrap, monkeypatch, tmp_path)


def test_pip_is_not_called_twice_for_the_same(bootstrap, packages):
    for extra in ("lab", "lab", "test", "test", "lab"):
        bootstrap.install_packages(extra)
    assert packages.calls == [".[lab]", ".[test]"], "the tests' packages include the lab's"


def test_pip_is_called_again_when_the_wishes_changed_or_it_was_interrupted(bootstrap, packages):
    bootstrap.install_packages("lab")
    (packages.root / "pyproject.toml").write_text("two")
    packages.fails = True
    with pytest.raises(bootstrap.Stop):
        bootstrap.install_packages("lab")
    packages.fails = False
    bootstrap.install_packages("lab")
    bootstrap.install_packages("lab")
    assert packages.calls == [".[lab]"] * 3


def test_an_interrupted_test_installation_makes_the_lab_look_again(bootstrap, packages):
    bootstrap.install_packages("lab")
    packages.fails = True
    with pytest.raises(bootstrap.Stop):
        bootstrap.install_packages("test")
    packages.fails = False
    bootstrap.install_packages("lab")
    assert packages.calls == [".[lab]", ".[test]", ".[lab]"]


def test_misleading_variables_are_kept_out(bootstrap, monkeypatch):
    for name in bootstrap.MISLEADING:
        monkeypatch.setenv(name, "/nowhere")
    environ = bootstrap.clean_environment()
    assert not set(bootstrap.MISLEADING) & set(environ) and "PATH" in environ


def test_all_parts_run_also_after_one_has_failed(bootstrap, monkeypatch, capsys):
    ran = []

    def part(name, status):
        return name, lambda environ, tools: ran.append(name) or status
    monkeypatch.setattr(bootstrap, "PARTS", (part("java", 0), part("python", 1), part("notebooks", 0)))
    assert bootstrap.run_parts(["java", "python", "notebooks"], {}) == 1
    assert ran == ["java", "python", "notebooks"]
    table = capsys.readouterr().out.rpartition("seconds\n")[2].split()
    assert table[0::3] == ran and table[1::3] == ["passed", "FAILED", "passed"]
    assert bootstrap.run_parts(["java"], {}) == 0


def test_choosing_parts(bootstrap):
    assert bootstrap.choose_parts([]) == ["java", "python", "frontend", "notebooks", "browser"]
    assert bootstrap.choose_parts(["browser", "java"]) == ["java", "browser"]
    with pytest.raises(bootstrap.Stop, match="no part jvm; the parts are java, python"):
        bootstrap.choose_parts(["jvm"])


def test_from_the_command_line_an_unknown_part_is_refused_before_anything_is_done():
    run = subprocess.run([sys.executable, "-I", str(SCRIPT), "test", "jvm"], capture_output=True, text=True)
    assert run.returncode == 1 and "There is no part jvm" in run.stderr
