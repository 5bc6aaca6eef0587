"""Starting the JVM, each time in a process of its own: it can be started only once."""

import os
import signal
import subprocess
import sys

import pytest

from pagedkv.java.build import checkout


def run(code, cwd=None, **environ):
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120,
                             env={**os.environ, **environ}, cwd=cwd or checkout())
    return process.returncode, process.stdout, process.stderr


PRINTS = "from pagedkv.java import start, jclass; start(); jclass('java.lang.System').out.println('ü 漢')"


def test_a_second_start_does_nothing():
    assert run(f"{PRINTS}; start(); start()") == (0, "ü 漢\n", "")


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_output_is_utf8_in_any_locale(locale):
    status, out, err = run(PRINTS, LC_ALL=locale, LANG=locale, PYTHONIOENCODING="utf-8")
    assert (status, out) == (0, "ü 漢\n"), err


def test_flags_are_passed_and_cannot_be_added_later():
    status, out, err = run("""
from pagedkv.java import start, jclass, JvmError
start("-Xmx333m")
print(jclass("java.lang.Runtime").getRuntime().maxMemory() // 2**20)
start("-Xmx333m")
try:
    start("-Xmx444m")
except JvmError as error:
    print(error)
""")
    assert status == 0, err
    size, message = out.splitlines()
    assert 300 <= int(size) <= 336
    assert "without -Xmx444m" in message and "restart the kernel" in message


def test_a_wrong_flag_is_named():
    status, out, err = run("from pagedkv.java import start; start('-XX:NoSuchFlag=1')")
    assert status != 0 and "-XX:NoSuchFlag=1" in err


def test_a_jvm_of_somebody_else_is_refused():
    status, out, err = run("""
import jpype
from pagedkv.java.jdk import find_jdk
jpype.startJVM(str(find_jdk().libjvm))
from pagedkv.java import start
start()
""")
    assert status == 1
    assert "JvmError: a JVM runs already, without this project's classes: restart the kernel" in err


def test_classes_before_the_start():
    status, out, err = run("from pagedkv.java import jclass; jclass('java.lang.String')")
    assert "JvmError: no JVM runs yet: call pagedkv.java.start() first" in err


def test_no_jdk_is_an_error_that_says_what_to_install(tmp_path):
    status, out, err = run("""
import pagedkv.java.jvm as jvm
from pagedkv.java.jdk import find_jdk
jvm.find_jdk = lambda: find_jdk({"PATH": "/nowhere"}, usual_folders=())
jvm.start()
""")
    assert status == 1 and "JdkNotFound" in err and "17" in err


# Compiled Java finds a null by a segmentation fault that the JVM expects and turns into a NullPointerException. With
# somebody else's handler for the fault in place the process dies.
NULLS = """
import faulthandler, warnings
warnings.simplefilter("always")
enable = faulthandler.enable
{before}
from pagedkv.java import jclass, start
start()
{after}
from pagedkv.lab.java_cell import new_compiler
compiled = new_compiler().compile('''
public class Nulls {{
    public int value = 1;
    public static int run() {{
        Nulls[] some = {{new Nulls(), null}};
        int hits = 0;
        for (int i = 0; i < 200_000; i++) {{
            try {{ hits += some[i > 150_000 ? i % 2 : 0].value; }} catch (NullPointerException e) {{ hits++; }}
        }}
        return hits;
    }}
}}''', 2)
nulls = jclass(compiled.types()["Nulls"])
print({{int(nulls.run()) for _ in range(20)}})
"""


@pytest.mark.parametrize("before, after", [("", ""), ("enable()", ""), ("", "faulthandler.enable()"),
                                           ("enable()", "faulthandler.enable()")])
def test_faulthandler_on_or_off(before, after):
    status, out, err = run(NULLS.format(before=before, after=after))
    assert (status, out) == (0, "{200000}\n"), err
    assert ("faulthandler stays off" in err) == bool(after)


def test_without_the_guard_faulthandler_would_end_the_process(tmp_path):
    """The control: what the guard is there for."""
    status, out, err = run(NULLS.format(before="", after="enable()"), cwd=tmp_path)
    assert status < 0 and "200000" not in out


def test_sigterm_ends_the_process_without_a_crash(tmp_path):
    """It is how Jupyter ends a kernel that takes its time."""
    process = subprocess.Popen([sys.executable, "-c", f"{PRINTS}; import time; time.sleep(60)"], cwd=tmp_path, text=True,
                               env={**os.environ, "PYTHONPATH": str(checkout())}, stdout=subprocess.PIPE)
    process.stdout.readline()
    process.terminate()
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM and not list(tmp_path.iterdir())


def test_child_processes_are_spawned_not_forked():
    status, out, err = run("from pagedkv.java import start; start()\n"
                           "import multiprocessing; print(multiprocessing.get_start_method())")
    assert out == "spawn\n", err


def test_netty_counts_its_direct_memory():
    """With the flags that the start passes; without them the counter is -1."""
    status, out, err = run("""
from pagedkv.java import start, jclass
start()
allocator = jclass("io.netty.buffer.PooledByteBufAllocator")(True)
buffer = allocator.directBuffer(64)
print(jclass("io.netty.util.internal.PlatformDependent").usedDirectMemory() > 0, buffer.refCnt())
""")
    assert out == "True 1\n", err


def test_a_leaking_observer_cannot_be_called_after_it_is_removed():
    status, out, err = run("""
from pagedkv.java import start, JavaPool
start()
pool = JavaPool.of("pagedkv.pool.BlockPool", 4)
pool.observer = print
pool.allocate(1, owner="A")
pool.observer = None
pool.allocate(1)
""")
    assert out.splitlines() == ["allocate(1, 'A') → [0]"], err
