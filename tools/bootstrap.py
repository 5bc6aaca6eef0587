"""Set up the checkout, then open the lab or run the tests: what the targets of the Makefile call.

Run with any Python 3 of the system, before anything is installed. Every step is skipped when it was already done, so
a second run takes seconds and needs no network. Until the version of Python is checked this file has to be readable
by an old one: nothing newer than Python 3.6 in its syntax, and only the standard library.
"""

import argparse
import codecs
import glob
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

OLDEST_PYTHON = (3, 11)
OLDEST_NODE = 18
OTHER_PYTHONS = ("python3.13", "python3.12", "python3.11")
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
VENV = os.path.join(ROOT, ".venv")
WINDOWS = os.name == "nt"
VENV_PYTHON = os.path.join(VENV, "Scripts", "python.exe") if WINDOWS else os.path.join(VENV, "bin", "python")
CHROMIUM_COMMANDS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CXX_COMMANDS = ("c++", "g++", "clang++")
CHROMIUM_APPS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
# They would send pip or Python to another place than the virtual environment.
MISLEADING = (
    "PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "__PYVENV_LAUNCHER__", "PIP_USER", "PIP_TARGET", "PIP_PREFIX",
)


class Stop(Exception):
    """Set-up cannot go on; the message says what to do about it."""


def main():
    args = parse_arguments()
    try:
        use_new_python()
        # From here on the checkout's own modules can be imported: they need Python 3.11.
        sys.path.insert(0, ROOT)
        parts = choose_parts(args.parts) if args.command == "test" else []
        if args.command == "java":
            build_java(find_tools()["jdk"])
            return 0
        # the tests' packages include the lab's
        also = sorted({tool for name in parts for tool in PART_NEEDS.get(name, ())})
        tools = set_up("test" if args.command == "test" else "lab", *also)
        if any(name in WITH_MODEL for name in parts):
            fetch_model()
        if args.command == "lab":
            open_lab()
        if args.command == "test":
            return run_parts(parts, tools)
        say("ready")
        return 0
    except Stop as error:
        sys.stderr.write("\n%s\n" % error)
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted. Run the same command again: it goes on where it stopped.\n")
        return 130


def parse_arguments():
    parser = argparse.ArgumentParser(description="Set up the checkout, then open the lab or run the tests.")
    parser.add_argument("command", choices=["lab", "test", "setup", "java"])
    parser.add_argument("parts", nargs="*", help="for test: which parts, of java, python, frontend, notebooks, browser")
    return parser.parse_args()


def say(text):
    print("pagedkv: " + text, flush=True)


# --- Python -----------------------------------------------------------------------------------------------------------

def use_new_python():
    """Go on with this Python if it is new enough, else with a newer one from PATH."""
    if sys.version_info[:2] >= OLDEST_PYTHON:
        return
    for name in OTHER_PYTHONS:
        newer = shutil.which(name)
        if newer and runs(newer):
            say("python3 is %d.%d, going on with %s" % (sys.version_info[:2] + (newer,)))
            sys.stdout.flush()
            replace_process([newer, "-I", os.path.abspath(__file__)] + sys.argv[1:], os.environ)
    raise Stop("Python %d.%d or newer is needed, this is %d.%d (%s)." % (
        OLDEST_PYTHON + sys.version_info[:2] + (sys.executable,)))


def runs(python):
    """Whether this Python starts and is new enough; a version manager's command may be there without its Python."""
    code = "import sys; sys.exit(sys.version_info[:2] < (%d, %d))" % OLDEST_PYTHON
    try:
        return subprocess.call([python, "-I", "-c", code], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0
    except OSError:
        return False


def replace_process(command, environ):
    if WINDOWS:
        # There, exec starts a second process and gives the terminal back at once.
        sys.exit(subprocess.call(command, env=environ))
    os.execve(command[0], command, environ)


# --- the steps of set-up ----------------------------------------------------------------------------------------------

def set_up(extra, *also):
    """All of it; returns the JDK, Maven and what `also` names."""
    check_writable()
    tools = find_tools(*also)
    make_venv()
    install_packages(extra)
    build_java(tools["jdk"])
    copy_notebooks()
    return tools


def check_writable():
    try:
        tempfile.TemporaryFile(dir=ROOT).close()
    except OSError as error:
        raise Stop("Cannot write in the checkout %s (%s). Set-up puts .venv, work and java/target there: "
                   "use a copy in a folder of your own." % (ROOT, error.strerror))


def find_tools(*also):
    """JDK, Maven and what `also` names (chromium, node, compiler); what is missing is installed where that is allowed."""
    found, missing = look_for_tools(also)
    if missing:
        install_system_packages(missing)
        found, missing = look_for_tools(also)
        if missing:
            raise Stop("Still missing after the installation:\n\n" + "\n\n".join(missing.values()))
    jdk = found["jdk"]
    for remark in jdk.remarks:
        say(remark)
    say("JDK %d (%s): %s" % (jdk.version, jdk.source, jdk.home))
    say("Maven: %s" % found["maven"])
    for name in also:
        say("%s: %s" % (name, found[name]))
    return found


def look_for_tools(also):
    """(what was found, why the rest was not), both by name: jdk, maven, chromium, node, compiler."""
    from pagedkv.java.jdk import ToolNotFound, find_jdk, find_maven
    searches = {"jdk": find_jdk, "maven": find_maven}
    optional = {"chromium": find_chromium, "node": find_node, "compiler": find_compiler}
    searches.update((name, optional[name]) for name in also)
    found, missing = {}, {}
    for name, search in searches.items():
        try:
            found[name] = search()
        except ToolNotFound as error:
            missing[name] = str(error)
    return found, missing


def find_chromium():
    from pagedkv.java.jdk import ToolNotFound, install_line
    named = os.environ.get("PAGEDKV_CHROMIUM")
    if named:
        if shutil.which(named):
            return shutil.which(named)
        raise ToolNotFound("PAGEDKV_CHROMIUM is %s, which is not a program." % named)
    for command in CHROMIUM_COMMANDS + CHROMIUM_APPS:
        if shutil.which(command):
            return shutil.which(command)
    raise ToolNotFound("Chromium was not found. Install it with:\n    %s\nor let PAGEDKV_CHROMIUM name the program." %
                       install_line("chromium"))


def find_node():
    """Node.js, which runs the tests of the front end; its own test runner came with version 18."""
    from pagedkv.java.jdk import ToolNotFound, install_line
    node = shutil.which("node") or shutil.which("nodejs")
    if not node:
        raise ToolNotFound("Node.js was not found. Install it with:\n    %s" % install_line("node"))
    version = subprocess.check_output([node, "--version"], stdin=subprocess.DEVNULL).decode().strip().lstrip("v")
    if int(version.split(".")[0]) < OLDEST_NODE:
        raise ToolNotFound("Node.js %s is too old for the tests of the front end: %d or newer is needed." %
                           (version, OLDEST_NODE))
    return node


def find_compiler():
    """A C++ compiler. The course goes on without one, more slowly; the tests look at both ways."""
    from pagedkv.java.jdk import ToolNotFound, install_line
    for command in [os.environ.get("CXX", "").split(" ")[0]] + list(CXX_COMMANDS):
        if command and shutil.which(command):
            return shutil.which(command)
    raise ToolNotFound("A C++ compiler was not found. Install it with:\n    %s" % install_line("compiler"))


def install_system_packages(missing):
    """Debian or Ubuntu as root: install what is missing. Elsewhere: stop, with the line to type."""
    from pagedkv.java.jdk import apt_packages, install_line
    reasons = list(missing.values())
    if len(missing) > 1:
        reasons.append("All of it in one line:\n    %s" % install_line(*missing))
    if not shutil.which("apt-get") or os.geteuid() != 0:
        raise Stop("\n\n".join(reasons))
    if os.environ.get("PAGEDKV_NO_APT"):
        raise Stop("\n\n".join(["PAGEDKV_NO_APT is set, so nothing is installed."] + reasons))
    say("missing: %s" % ", ".join(sorted(missing)))
    apt_get("update")
    apt_install(*apt_packages(*missing))


def apt_install(*packages):
    say("installing Debian packages: %s (PAGEDKV_NO_APT=1 would forbid it)" % " ".join(packages))
    apt_get("install", "-y", "--no-install-recommends", *packages)


def apt_get(*arguments):
    environ = dict(os.environ, DEBIAN_FRONTEND="noninteractive")
    if subprocess.call(("apt-get", "-q") + arguments, env=environ, stdin=subprocess.DEVNULL) != 0:
        raise Stop("apt-get %s failed; its message is above." % " ".join(arguments))


def make_venv():
    if runs(VENV_PYTHON) and subprocess.call(
            [VENV_PYTHON, "-I", "-c", "import pip"], stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL) == 0:
        say("virtual environment: .venv is there")
        return
    need_ensurepip()
    say("virtual environment: making .venv with Python %d.%d" % sys.version_info[:2])
    # --clear: one whose Python is gone, or whose making was interrupted, cannot be mended
    run_or_stop([sys.executable, "-I", "-m", "venv", "--clear", VENV], "The virtual environment could not be made.")


def need_ensurepip():
    """Debian splits what makes virtual environments off into a package of its own."""
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
        return
    except ImportError:
        package = "python%d.%d-venv" % sys.version_info[:2]
    if not shutil.which("apt-get"):
        raise Stop("This Python (%s) lacks its modules venv and ensurepip; use another one." % sys.executable)
    if os.geteuid() != 0 or os.environ.get("PAGEDKV_NO_APT"):
        raise Stop("This Python lacks its modules venv and ensurepip. Install them with:\n"
                   "    sudo apt-get install %s" % package)
    apt_get("update")
    apt_install(package)


def install_packages(extra):
    """Install the checkout with this extra, unless a stamp says that the very same was installed here."""
    key = installation_key()
    stamps = {name: os.path.join(VENV, "pagedkv-%s.stamp" % name) for name in ("lab", "test")}
    # whoever has the tests' packages has the lab's
    if any(read(stamps[name]) == key for name in ("test", extra)):
        say("Python packages: installed")
        return
    say("Python packages: installing (the first time takes some minutes: PyTorch alone is large)")
    # Both go, since a pip that is interrupted leaves the packages of either in an unknown state.
    for stamp in stamps.values():
        if os.path.exists(stamp):
            os.remove(stamp)
    # "-e .[extra]" and not the full path: pip takes some characters of a path for its own
    pip_install = [VENV_PYTHON, "-m", "pip", "install", "--no-input", "--disable-pip-version-check"]
    run_or_stop(pip_install + ["-e", ".[%s]" % extra],
                "pip could not install the Python packages; its message is above. Without a network the first "
                "set-up cannot work. Running the same command again goes on where this one stopped.")
    with open(stamps[extra], "w") as file:
        file.write(key)


def installation_key():
    """Changes whenever the packages have to be looked at again: other wishes, other Python, other place."""
    version = subprocess.check_output([VENV_PYTHON, "-I", "-c", "import sys; print(sys.version)"],
                                      stdin=subprocess.DEVNULL)
    with open(os.path.join(ROOT, "pyproject.toml"), "rb") as file:
        return hashlib.sha256(b"\0".join([file.read(), version, os.fsencode(ROOT)])).hexdigest()


def read(path):
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return None


def build_java(jdk):
    from pagedkv.java.build import JavaBuildFailed, ensure_built
    try:
        ensure_built(jdk, out=say)
    except JavaBuildFailed as error:
        raise Stop(str(error))
    say("Java part: in java/target")


def copy_notebooks():
    from pathlib import Path

    from pagedkv.lab.copies import refresh_copies
    for action in refresh_copies(Path(ROOT, "notebooks"), Path(ROOT, "work")):
        say(action.message)
    say("your copies of the notebooks: in work/")


def fetch_model():
    """The small model, for the tests that run it. In the lab it is fetched by the first cell that loads it."""
    if os.environ.get("PAGEDKV_NO_MODEL"):
        say("model: not fetched, since PAGEDKV_NO_MODEL is set; where it is not there, tests that need it are skipped")
        return
    run_or_stop([VENV_PYTHON, "-m", "pagedkv.model"],
                "The model that the tests run is not there; the reason is above. With PAGEDKV_NO_MODEL=1 the tests run "
                "without it, and those that need it are skipped.")


def clean_environment():
    """The environment for whatever runs in the virtual environment."""
    from pathlib import Path

    from pagedkv.java.build import utf8_locale
    environ = {name: value for name, value in os.environ.items() if name not in MISLEADING}
    environ.update(utf8_locale(Path(ROOT), environ))
    return environ


def run_or_stop(command, message):
    if subprocess.call(command, cwd=ROOT, env=clean_environment(), stdin=subprocess.DEVNULL) != 0:
        raise Stop(message)


def open_lab():
    os.chdir(ROOT)
    sys.stdout.flush()
    replace_process([VENV_PYTHON, "-m", "pagedkv", "lab"], clean_environment())


# --- the parts of the tests -------------------------------------------------------------------------------------------

class Job:
    """One command of a part. What it prints goes to a file, and from there to the screen when it is shown."""

    def __init__(self, command, environ, folder=ROOT, worth_showing=None):
        """worth_showing: which of the lines that it prints are shown; None for all of them, also while a line grows."""
        self.command, self.environ, self.folder, self.worth_showing = command, environ, folder, worth_showing
        self.process = None

    def start(self, output):
        """output: the file, which does not exist yet."""
        with open(output, "wb") as file:
            # In a group of its own: a Ctrl-C is heard by this process alone, which then stops the jobs in order.
            self.process = subprocess.Popen(self.command, cwd=self.folder, env=self.environ, stdin=subprocess.DEVNULL,
                                            stdout=file, stderr=subprocess.STDOUT, start_new_session=not WINDOWS)
        self._output = open(output, "rb")
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished = ""

    def show(self):
        """Print what it has printed since the last time."""
        ended = self.process.poll() is not None  # asked first: what it writes after the reading is for the next time
        text = self._unfinished + self._decoder.decode(self._output.read(), final=ended)
        if self.worth_showing:
            end = len(text) if ended else text.rfind("\n") + 1
            text, self._unfinished = text[:end], text[end:]
            text = "".join(line for line in text.splitlines(True) if self.worth_showing(line))
        sys.stdout.write(text)
        sys.stdout.flush()


def java_part(environ, tools):
    """Maven's own tests."""
    command = [str(tools["maven"]), "-B", "-ntp", "-Dstyle.color=never", "verify"]
    return [Job(command, dict(environ, JAVA_HOME=str(tools["jdk"].home)), os.path.join(ROOT, "java"), news_of_maven)]


def news_of_maven(line):
    """Whether a line of Maven's says something new."""
    # Maven ends with "colours off" also where it was told to use none
    line = line.replace("\033[0m", "")
    return bool(line) and (not line.startswith("[INFO]") or "Tests run:" in line or "BUILD" in line)


def python_part(environ, tools):
    """In two jobs of about the same length, so that both processors have work until the end. Most of those that import
    PyTorch are together, since each process takes seconds for that."""
    rest = ["--ignore=" + folder for folder in OTHER_PARTS_TESTS + PYTORCH_TESTS]
    return [pytest(environ, "python", "tests", *rest), pytest(environ, "pytorch", *PYTORCH_TESTS)]


def frontend_part(environ, tools):
    """The front end's own tests, in Node.js."""
    tests = sorted(glob.glob(os.path.join(glob.escape(ROOT), "tests", "viz", "js", "*.test.mjs")))
    if not tests:
        return nothing("tests/viz/js")
    return [Job([str(tools["node"]), "--test"] + [os.path.relpath(path, ROOT) for path in tests], environ)]


def notebooks_part(environ, tools):
    """Every notebook's stored outputs are compared with those of a run now; beside it, the tests about notebooks."""
    # a person's own IPython start-up files must not change what a notebook prints
    environ = dict(environ, IPYTHONDIR=os.path.join(VENV, "ipython"))
    notebooks = sorted(glob.glob(os.path.join(glob.escape(ROOT), "notebooks", "*.ipynb")))
    if not notebooks:
        return nothing("notebooks/*.ipynb") + pytest_if_any(environ, "tests/notebooks")
    stored = pytest(environ, "nbval", "--nbval", "--nbval-current-env", "--nbval-cell-timeout=240",
                    "--nbval-kernel-startup-timeout=120", "--nbval-sanitize-with", "tests/notebooks/nbval_sanitize.cfg",
                    *[os.path.relpath(path, ROOT) for path in notebooks])
    return pytest_if_any(environ, "tests/notebooks") + [stored]


def browser_part(environ, tools):
    return pytest_if_any(dict(environ, PAGEDKV_CHROMIUM=str(tools["chromium"])), "tests/browser")


PARTS = (("java", java_part), ("python", python_part), ("frontend", frontend_part), ("notebooks", notebooks_part),
         ("browser", browser_part))
PART_NEEDS = {"python": ("compiler",), "frontend": ("node",), "notebooks": ("compiler",), "browser": ("chromium", "compiler")}
# whose tests run the small model
WITH_MODEL = ("python", "notebooks", "browser")
OTHER_PARTS_TESTS = ("tests/notebooks", "tests/browser")
PYTORCH_TESTS = ("tests/attention", "tests/storage", "tests/model", "tests/viz", "tests/tooling")
# Maven may renew the jars that the JVMs of other parts have open.
ALONE = ("java",)
# Longest first, so that the two come to an end at about the same time.
IN_THIS_ORDER = ("browser", "python", "notebooks", "frontend")
JOBS_AT_A_TIME = min(2, os.cpu_count() or 1)
SIGN_OF_LIFE_SECONDS = 30
STOPPING_SECONDS = 20


def pytest_if_any(environ, folder):
    tests = glob.glob(os.path.join(glob.escape(ROOT), folder, "**", "test_*.py"), recursive=True)
    return [pytest(environ, os.path.basename(folder), folder)] if tests else nothing(folder)


def pytest(environ, name, *arguments):
    """name: of its cache, since two that run at a time must not write the same one."""
    # pytest sees a file, and would leave the colours away
    colours = {"PY_COLORS": "1"} if sys.stdout.isatty() and "NO_COLOR" not in environ else {}
    return Job((VENV_PYTHON, "-m", "pytest", "-q", "-o", "cache_dir=.pytest_cache/" + name) + arguments,
               dict(colours, **environ))


def nothing(what):
    say("nothing to run in %s" % what)
    return []


def choose_parts(names):
    known = [name for name, _ in PARTS]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Stop("There is no part %s; the parts are %s." % (", ".join(unknown), ", ".join(known)))
    return [name for name in known if name in names or not names]


class Part:
    def __init__(self, name, jobs):
        self.name, self.jobs = name, jobs
        self.seconds = 0.0

    def ended(self):
        return all(job.process is not None and job.process.poll() is not None for job in self.jobs)

    def outcome(self):
        return "passed" if all(job.process.returncode == 0 for job in self.jobs) else "FAILED"


def run_parts(chosen, tools):
    """All chosen parts, also after one has failed; then a table. Returns the exit status.

    The parts in ALONE come first, one by one; then two jobs run at a time. A job that runs by itself is shown as it
    goes; else a part is shown as a whole when it has ended, and a line now and then says what is running.
    """
    environ = clean_environment()
    # PyTorch's threads wait for each other in a busy loop: two jobs with a thread for each core slow each other down
    environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // JOBS_AT_A_TIME)))
    parts = [Part(name, make(dict(environ), tools)) for name, make in PARTS if name in chosen]
    beside = sorted((part for part in parts if part.name not in ALONE), key=lambda part: IN_THIS_ORDER.index(part.name))
    started = time.time()
    handlers = {number: signal.signal(number, interrupt) for number in ends_by_signal()}
    try:
        with tempfile.TemporaryDirectory(prefix="pagedkv-", ignore_cleanup_errors=True) as folder:
            for group in [[part] for part in parts if part.name in ALONE] + [beside]:
                run_side_by_side(group, folder)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    print("\npart        result   seconds")
    for part in parts:
        print("%-10s  %-6s  %8.0f" % (part.name, part.outcome(), part.seconds))
    if len(beside) > 1 and JOBS_AT_A_TIME > 1:
        print("all together, some of it side by side: %.0f seconds" % (time.time() - started))
    return 0 if all(part.outcome() == "passed" for part in parts) else 1


def run_side_by_side(parts, folder):
    """folder: for what the jobs print."""
    waiting = [(part, job) for part in parts for job in part.jobs]
    running = []
    in_sight = JOBS_AT_A_TIME == 1 or len(waiting) == 1
    began, spoke = {}, time.time()
    for part in parts:
        if not part.jobs:
            print_result(part)
    try:
        while waiting or running:
            while waiting and len(running) < JOBS_AT_A_TIME:
                part, job = waiting.pop(0)
                if part.name not in began:
                    began[part.name] = time.time()
                    if in_sight:
                        print_title(part)
                job.start(os.path.join(folder, "%s-%d" % (part.name, part.jobs.index(job))))
                running.append((part, job))
            time.sleep(0.1)
            for part, job in running[:]:
                ended = job.process.poll() is not None
                if in_sight:
                    job.show()
                if ended:
                    running.remove((part, job))
                    if part.ended():
                        part.seconds = time.time() - began[part.name]
                        if not in_sight:
                            show(part)
                        print_result(part)
            if not in_sight and running and time.time() - spoke > SIGN_OF_LIFE_SECONDS:
                spoke = time.time()
                say("running: %s" % ", ".join(sorted("%s (%.0f s)" % (name, spoke - began[name])
                                                     for name in {part.name for part, _ in running})))
    except BaseException:
        stop([job for _, job in running])
        if not in_sight:
            for part in parts:
                if part.name in began and not part.seconds:
                    show(part)
        raise


def print_title(part):
    print("\n===== %s =====" % part.name, flush=True)


def print_result(part):
    print("===== %s: %s in %.0f s =====" % (part.name, part.outcome(), part.seconds), flush=True)


def show(part):
    """All that the part has printed."""
    print_title(part)
    for job in part.jobs:
        if job.process is not None:
            job.show()


def ends_by_signal():
    """What is handled like Ctrl-C: the jobs, in groups of their own, would not get it."""
    return [getattr(signal, name) for name in ("SIGTERM", "SIGHUP")
            if hasattr(signal, name) and signal.getsignal(getattr(signal, name)) == signal.SIG_DFL]


def interrupt(number, frame):
    raise KeyboardInterrupt


def stop(jobs):
    """End the jobs: each is asked to first, since it has servers, browsers and kernels of its own to end."""
    say("stopping; a second Ctrl-C does not wait")
    try:
        for job in jobs:
            if WINDOWS:
                job.process.terminate()
            else:
                job.process.send_signal(signal.SIGINT)
        until = time.time() + STOPPING_SECONDS
        for job in jobs:
            job.process.wait(max(0, until - time.time()))
    except (KeyboardInterrupt, subprocess.TimeoutExpired):
        pass
    for job in jobs:
        try:
            job.process.kill() if WINDOWS else os.killpg(job.process.pid, signal.SIGKILL)
        except OSError:
            pass  # nobody is left in the group
        job.process.wait()


if __name__ == "__main__":
    sys.exit(main())
