"""`%%java` in a real kernel, cell by cell, as a learner types them."""

import pytest

from pagedkv.java.jdk import find_jdk
from tests.kernel import kernel

CAN_STOP_THREADS = find_jdk().version < 20  # Thread.stop() is gone from JDK 20 on
needs_thread_stop = pytest.mark.skipif(not CAN_STOP_THREADS, reason="this JDK has no Thread.stop(): see the README")

# What is to be interrupted says that it has begun: how long the compiler takes depends on what else runs here.
BEGUN = 'System.out.println("begun");'
ONCE_BEGUN = {"begun": "begun", "interrupt_after": 0.5, "timeout": 50}


@pytest.fixture(scope="module")
def shared():
    with kernel() as running:
        assert not running.run("%load_ext pagedkv.lab").error
        assert not running.run("%%java\nint warm = 1;").error  # so that an interrupt does not hit the start of the JVM
        yield running


@pytest.fixture
def cell(shared):
    """Run one cell; it must not fail."""
    def run(code):
        output = shared.run(code)
        assert not output.error, output.traceback
        return output.text
    return run


def test_statements_run_at_once(cell):
    assert cell('%%java\nvar words = List.of("a", "b");\nSystem.out.println(words + " 漢 ü");') == "[a, b] 漢 ü\n"


def test_lines_of_both_languages_stand_in_order(cell):
    assert cell("""
from pagedkv.java import jclass
out, err = jclass("java.lang.System").out, jclass("java.lang.System").err
print("python 1")
out.print_("java, ")
print("python 2")
err.println("java's stderr")
print("python 3")""") == "python 1\njava, python 2\njava's stderr\npython 3\n"


def test_a_typed_class_is_a_name_in_python(cell):
    assert cell("%%java\npublic class Tally {\n    public int n;\n    public void add() { n++; }\n}") == ""
    assert cell("tally = Tally(); tally.add(); tally.add(); tally.n") == "2\n"


def test_redefining_a_class_takes_its_dependents_along(cell):
    cell("%%java\npublic class Step { public static int size() { return 1; } }")
    cell("%%java\npublic class Walk { public static int two() { return Step.size() + Step.size(); } }")
    assert cell("Walk.two()") == "2\n"
    cell("%%java\npublic class Step { public static int size() { return 10; } }")
    assert cell("Walk.two()") == "20\n"
    assert cell("%%java\nSystem.out.println(Walk.two());") == "20\n"


def test_a_compile_error_points_at_the_cells_line(shared):
    output = shared.run("%%java\nint ok = 1;\nint wrong = 5\nSystem.out.println(ok);")
    assert output.error == "JavaCompileError"
    assert output.traceback.splitlines() == ["error in line 3: ';' expected", "    int wrong = 5", "                 ^"]


def test_a_failed_cell_leaves_the_old_class(shared, cell):
    cell("%%java\npublic class Kept { public static int f() { return 7; } }")
    assert shared.run("%%java\npublic class Kept { public static int f() { return x; } }").error == "JavaCompileError"
    assert cell("Kept.f()") == "7\n"


@pytest.mark.parametrize("code", ["System.exit(3);", "Runtime.getRuntime().halt(1);",
                                  "import static java.lang.System.exit;\nexit(0);",
                                  "public class Leave { void now() { System.exit(0); } }"])
def test_leaving_the_jvm_is_refused(shared, cell, code):
    output = shared.run(f"%%java\n{code}")
    assert output.error == "JavaCompileError" and "would end the notebook's kernel" in output.traceback
    assert cell("1 + 1") == "2\n"


def test_an_exception_is_short_and_names_the_cells_line(shared):
    output = shared.run("%%java\nint[] two = new int[2];\n\ntwo[5] = 3;")
    assert output.traceback.splitlines() == [
        "ArrayIndexOutOfBoundsException: Index 5 out of bounds for length 2", "    at line 4 of the cell"]


def test_an_exception_of_java_called_from_python_names_the_python_line(shared, cell):
    cell("%%java\npublic class Fragile {\n    public static void f() {\n        throw new IllegalStateException(\"no\");\n"
         "    }\n}")
    output = shared.run("print('before')\nFragile.f()")
    assert output.traceback.splitlines() == ["IllegalStateException: no", "    at line 4 of the cell, in Fragile.f",
                                             "called from line 2: Fragile.f()"]


def test_a_cause_is_shown(shared):
    output = shared.run('%%java\nthrow new RuntimeException("outer", new IllegalStateException("inner"));')
    assert "RuntimeException: outer" in output.traceback and "caused by IllegalStateException: inner" in output.traceback


def test_a_refusal_of_a_pool_shows_the_learners_line_only(shared):
    output = shared.run("from pagedkv import BlockPool\nBlockPool(4).release([2])")
    assert output.error == "DoubleFree" and "BlockPool(4).release([2])" in output.traceback
    assert "block 2 is already free" in output.traceback and "pool.py" not in output.traceback


def test_members_that_python_cannot_see_are_pointed_out(cell):
    assert "so Python cannot see n, f" in cell("%%java\npublic class Shy {\n    int n;\n    void f() { n++; }\n}")


def test_arguments_of_the_magic_are_refused(shared):
    assert "takes no arguments" in shared.run("%%java --fast\nint x = 1;").traceback


def test_a_flood_is_cut_with_a_note_and_the_next_cell_prints_again(cell):
    text = cell('%%java\nfor (int i = 0; i < 300_000; i++) System.out.println("line " + i);')
    assert 200_000 <= len(text) < 201_000
    assert text.endswith("more characters in this cell; only the first 200,000 are shown\n")
    assert cell('%%java\nSystem.out.println("quiet again");') == "quiet again\n"


def test_lines_of_other_threads_are_whole(cell):
    text = cell("""%%java
var threads = new ArrayList<Thread>();
for (int t = 0; t < 4; t++) {
    int number = t;
    threads.add(new Thread(() -> {
        for (int i = 0; i < 100; i++) System.out.println("thread " + number + " line " + i);
    }));
}
threads.forEach(Thread::start);
for (Thread thread : threads) thread.join();""")
    assert sorted(text.splitlines()) == sorted(f"thread {t} line {i}" for t in range(4) for i in range(100))


def test_a_waiting_cell_can_be_interrupted(shared, cell):
    output = shared.run(f"%%java\nint x = 1; {BEGUN}\nThread.sleep(600_000);", **ONCE_BEGUN)
    assert output.error == "JavaInterrupted"
    assert output.traceback.startswith("interrupted, at line 3 of the cell, inside sleep")
    assert cell("1 + 1") == "2\n"


@needs_thread_stop
def test_an_endless_loop_can_be_interrupted(shared, cell):
    output = shared.run(f"%%java\nlong i = 0; {BEGUN}\nwhile (true)\n    i++;", **ONCE_BEGUN)
    assert output.error == "JavaInterrupted" and output.traceback == "interrupted, at line 4 of the cell"
    assert cell('%%java\nSystem.out.println("alive");') == "alive\n"


@pytest.mark.skipif(CAN_STOP_THREADS, reason="this JDK has Thread.stop(): the loop ends, as the test above shows")
def test_an_endless_loop_that_cannot_be_stopped_leaves_the_kernel_usable():
    with kernel() as running:
        running.run("%load_ext pagedkv.lab")
        running.run("%%java\nint warm = 1;")
        output = running.run(f"%%java\nlong i = 0; {BEGUN}\nwhile (true)\n    i++;", **ONCE_BEGUN)
        assert "the loop goes on until the kernel is restarted" in output.traceback
        assert running.run('%%java\nSystem.out.println("alive");').text == "alive\n"


@needs_thread_stop
@pytest.mark.parametrize("body", ["long i = 0; while (true) i++;", "Thread.sleep(600_000);",
                                  "while (true) { try { Thread.sleep(1000); } catch (InterruptedException e) { } }"])
def test_an_endless_method_called_from_python_can_be_interrupted(shared, cell, body):
    cell("%%java\npublic class Endless {\n    public static void run() throws Exception {\n        "
         f"{BEGUN} {body}\n    }}\n}}")
    output = shared.run("Endless.run()", **ONCE_BEGUN)
    assert output.error in ("KeyboardInterrupt", "java.lang.ThreadDeath")
    assert "interrupted in Java, at line 4 of the cell, in Endless.run" in output.text
    assert cell("1 + 1") == "2\n"
    assert cell('%%java\nThread.sleep(10);\nSystem.out.println("alive");') == "alive\n"


def test_python_can_be_interrupted_as_before(shared, cell):
    assert shared.run("import time; time.sleep(600)", interrupt_after=0.5, timeout=20).error == "KeyboardInterrupt"
    assert cell('%%java\nSystem.out.println("alive");') == "alive\n"


def test_after_a_restart_of_the_kernel_all_works_again():
    with kernel() as running:
        for restarted in (False, True):
            if restarted:
                running.restart()
            assert not running.run("%load_ext pagedkv.lab").error
            assert running.run("%%java\nSystem.out.println(1 + 1);").text == "2\n"
