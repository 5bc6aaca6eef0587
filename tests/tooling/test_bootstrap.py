"""What the set-up decides, with stand-ins for the system's programs. Nothing is installed."""

import ast
import importlib.util
import os
import signal
import subprocess
import sys
import time
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


def test_any_compiler_will_do_and_cxx_names_one(bootstrap, tmp_path, monkeypatch):
    folder = tmp_path / "compilers"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(Exception, match=r"C\+\+ compiler was not found"):
        bootstrap.find_compiler()
    for name in ("clang++", "mine"):
        make_program(folder / name)
    assert bootstrap.find_compiler() == str(folder / "clang++")
    monkeypatch.setenv("CXX", "mine -m64")
    assert bootstrap.find_compiler() == str(folder / "mine")


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


def test_the_model_is_fetched_unless_it_is_not_wanted(bootstrap, monkeypatch, capsys):
    commands = []
    monkeypatch.setattr(bootstrap, "run_or_stop", lambda command, message: commands.append(command))
    monkeypatch.delenv("PAGEDKV_NO_MODEL", raising=False)
    bootstrap.fetch_model()
    assert commands == [[bootstrap.VENV_PYTHON, "-m", "pagedkv.model"]]
    monkeypatch.setenv("PAGEDKV_NO_MODEL", "1")
    bootstrap.fetch_model()
    assert len(commands) == 1 and "PAGEDKV_NO_MODEL is set" in capsys.readouterr().out


def test_without_the_model_the_tests_do_not_begin(bootstrap, monkeypatch, tmp_path):
    failing = make_program(tmp_path / "python", "#!/bin/sh\nexit 1\n")
    monkeypatch.setattr(bootstrap, "VENV_PYTHON", str(failing))
    monkeypatch.delenv("PAGEDKV_NO_MODEL", raising=False)
    with pytest.raises(bootstrap.Stop, match="PAGEDKV_NO_MODEL=1"):
        bootstrap.fetch_model()


@pytest.mark.parametrize("command, fetched", [
    (["test"], True), (["test", "python"], True), (["test", "browser"], True), (["test", "java", "notebooks"], True),
    (["test", "java"], False), (["test", "java", "frontend"], False), (["setup"], False), (["lab"], False)])
def test_only_the_parts_that_run_the_model_wait_for_it(bootstrap, monkeypatch, command, fetched):
    done = []
    monkeypatch.setattr("sys.argv", ["bootstrap.py", *command])
    monkeypatch.setattr("sys.path", sys.path.copy())
    monkeypatch.setattr(bootstrap, "set_up", lambda extra, *also: done.append("set up"))
    monkeypatch.setattr(bootstrap, "fetch_model", lambda: done.append("model"))
    monkeypatch.setattr(bootstrap, "run_parts", lambda parts, tools: done.append("parts") or 0)
    monkeypatch.setattr(bootstrap, "open_lab", lambda: done.append("lab"))
    assert bootstrap.main() == 0
    assert ("model" in done) is fetched
    if fetched:
        assert done == ["set up", "model", "parts"]


def test_misleading_variables_are_kept_out(bootstrap, monkeypatch):
    for name in bootstrap.MISLEADING:
        monkeypatch.setenv(name, "/nowhere")
    environ = bootstrap.clean_environment()
    assert not set(bootstrap.MISLEADING) & set(environ) and "PATH" in environ


PROGRAM = """
import importlib.util, os, sys
spec = importlib.util.spec_from_file_location("bootstrap", {script!r})
bootstrap = importlib.util.module_from_spec(spec)
spec.loader.exec_module(bootstrap)
bootstrap.JOBS_AT_A_TIME = {jobs}
bootstrap.SIGN_OF_LIFE_SECONDS = 0.3

def part(name, *codes):
    return name, lambda environ, tools: [
        bootstrap.Job([sys.executable, "-c", "import os, sys, time\\n" + code], dict(os.environ), os.getcwd())
        for code in codes]
bootstrap.PARTS = tuple(part(name, *codes) for name, codes in {parts!r}.items())
try:
    sys.exit(bootstrap.run_parts([name for name, _ in bootstrap.PARTS], {{}}))
except KeyboardInterrupt:
    sys.exit(130)
"""
# The one waits for the other: only side by side do they come to an end.
MEET = """
print("{me} begins", flush=True)
open("{me}", "w").close()
end = time.monotonic() + 30
while not os.path.exists("{other}") and time.monotonic() < end:
    time.sleep(0.05)
time.sleep({seconds})
print("{me} ends")
sys.exit(not os.path.exists("{other}"))
"""


def start_parts(tmp_path, jobs, **parts):
    """The script on parts whose jobs are these pieces of Python, run in tmp_path."""
    program = PROGRAM.format(script=str(SCRIPT), jobs=jobs, parts=parts)
    # a shell's nohup would have it ignore a hang-up, as it should
    heed = None if os.name == "nt" else lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)
    return subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, text=True, stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=heed)


@pytest.mark.parametrize("jobs", [1, 2])
def test_all_parts_run_also_after_one_has_failed(tmp_path, jobs):
    process = start_parts(tmp_path, jobs, java=["print('of java')"], python=["sys.exit('too bad')"],
                          notebooks=["print('one')", "print('two'); sys.exit(3)", "print('three')"], browser=[])
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 1
    rows = output.rpartition("part        result   seconds\n")[2].splitlines()[:4]
    assert [row.split()[:2] for row in rows] == [
        ["java", "passed"], ["python", "FAILED"], ["notebooks", "FAILED"], ["browser", "passed"]]
    assert "===== python =====\ntoo bad\n===== python: FAILED in " in output
    assert "===== notebooks =====\none\ntwo\nthree\n===== notebooks: FAILED in " in output


def test_two_jobs_run_side_by_side_and_each_part_is_shown_whole(tmp_path):
    process = start_parts(tmp_path, 2, browser=[MEET.format(me="B", other="P", seconds=0)],
                          python=[MEET.format(me="P", other="B", seconds=2)])
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 0, output
    assert "===== browser =====\nB begins\nB ends\n===== browser: passed in " in output
    assert "===== python =====\nP begins\nP ends\n===== python: passed in " in output
    assert "pagedkv: running: python (" in output, "a sign of life"


def test_the_java_part_has_the_checkout_to_itself(tmp_path):
    process = start_parts(tmp_path, 2, python=["open('began', 'w').close()"],
                          java=["time.sleep(0.5); sys.exit(os.path.exists('began'))"])
    output = process.communicate(timeout=60)[0]
    assert process.returncode == 0, output


def test_what_runs_by_itself_is_shown_as_it_goes(tmp_path):
    process = start_parts(tmp_path, 2, python=["print('hello', flush=True); time.sleep(60)"])
    try:
        for line in process.stdout:
            if line == "hello\n":
                break
        else:
            raise AssertionError("not shown")
    finally:
        process.terminate()
    assert process.wait(30) == 130


ASKED = """
print("begun", flush=True)
open({name!r}, "w").close()
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("tidied up")
    raise SystemExit(1)
"""


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_an_interruption_asks_all_jobs_to_end_and_shows_what_they_printed(tmp_path, name):
    process = start_parts(tmp_path, 2, browser=[ASKED.format(name="b")],
                          python=[ASKED.format(name="p"), "open('later', 'w')"])
    end = time.monotonic() + 30
    while not ((tmp_path / "p").exists() and (tmp_path / "b").exists()) and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.2)
    process.send_signal(getattr(signal, name))
    output = process.communicate(timeout=50)[0]
    assert process.returncode == 130, output
    assert output.count("begun\ntidied up\n") == 2 and not (tmp_path / "later").exists()


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_job_that_does_not_end_is_killed_with_all_that_it_started(tmp_path):
    deaf = """
import signal, subprocess
signal.signal(signal.SIGINT, signal.SIG_IGN)
child = "import time\\nwhile True:\\n    open('child', 'a').write('.')\\n    time.sleep(0.05)"
subprocess.run([sys.executable, "-c", child])
"""
    process = start_parts(tmp_path, 2, python=[deaf])
    end = time.monotonic() + 30
    while not (tmp_path / "child").exists() and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    time.sleep(1)
    process.send_signal(signal.SIGINT)  # the second one does not wait
    assert process.wait(15) == 130
    written = (tmp_path / "child").stat().st_size
    time.sleep(1)
    assert (tmp_path / "child").stat().st_size == written, "it still writes"


def test_of_mavens_lines_only_the_news_are_shown(bootstrap):
    shown = [line for line in ("[INFO] Scanning for projects...\n", "[INFO] Tests run: 4, Failures: 0\n", "\033[0m",
                               "[ERROR] it is bad\n", "[INFO] BUILD FAILURE\n") if bootstrap.news_of_maven(line)]
    assert [line.split()[1] for line in shown] == ["Tests", "it", "BUILD"]


def test_every_test_is_run_by_one_job(bootstrap):
    run = []
    for part in (bootstrap.python_part, bootstrap.notebooks_part, bootstrap.browser_part):
        for job in part({}, {"chromium": "chromium"}):
            if "--nbval" not in job.command:
                arguments = [argument for argument in job.command if "tests" in argument]
                left_out = [argument.removeprefix("--ignore=") for argument in arguments if argument.startswith("--ignore=")]
                chosen = {path for argument in arguments if not argument.startswith("-")
                          for path in (ROOT / argument).rglob("test_*.py")}
                run += [path for path in chosen if not any(path.is_relative_to(ROOT / folder) for folder in left_out)]
    assert sorted(run) == sorted((ROOT / "tests").rglob("test_*.py"))


def test_choosing_parts(bootstrap):
    assert bootstrap.choose_parts([]) == ["java", "python", "frontend", "notebooks", "browser"]
    assert bootstrap.choose_parts(["browser", "java"]) == ["java", "browser"]
    with pytest.raises(bootstrap.Stop, match="no part jvm; the parts are java, python"):
        bootstrap.choose_parts(["jvm"])


def test_from_the_command_line_an_unknown_part_is_refused_before_anything_is_done():
    run = subprocess.run([sys.executable, "-I", str(SCRIPT), "test", "jvm"], capture_output=True, text=True)
    assert run.returncode == 1 and "There is no part jvm" in run.stderr
