"""check, hint and the others in a real kernel: redefined, after a restart, in a second kernel, with Java that hangs."""

import os

import pytest

from tests.kernel import kernel


@pytest.fixture
def environ(tmp_path):
    return {**os.environ, "PAGEDKV_PROGRESS": str(tmp_path / "progress.json")}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """One kernel for the tests that leave nothing behind which another looks at."""
    progress = tmp_path_factory.mktemp("progress") / "progress.json"
    with kernel(env={**os.environ, "PAGEDKV_PROGRESS": str(progress)}) as running:
        running.run("%load_ext pagedkv.lab")
        yield running


def test_progress_survives_a_restart_and_a_second_kernel_sees_it(environ):
    with kernel(env=environ) as one, kernel(env=environ) as other:
        one.run("%load_ext pagedkv.lab")
        assert one.run('check("01.5", [2, 2])').text.startswith("correct")
        one.restart()
        for each in (one, other):
            each.run("%load_ext pagedkv.lab")
            assert "1 of 6" in each.run('progress("01")').text


def test_a_redefined_command_is_put_back_with_a_word(running):
    assert "check() belongs to this lab" in running.run("def check(*args):\n    return 'always right'").text
    assert running.run('check("01.5", [2, 1])').text.startswith("wrong")


def test_a_prediction_reads_well_without_widgets_and_remembers_the_choice(running):
    assert running.run('guess = predict("How many?", 8, 9)\nguess').text == "How many?  8 / 9\n"
    assert running.run("guess.children[1].children[1].click(); guess.choice").text == "'9'\n"
    assert "You say <b>9</b>" in running.run("guess.children[2].value").text


def test_a_check_says_when_the_newest_answer_did_not_compile(running):
    head = "%%java\nimport io.netty.buffer.ByteBuf;\npublic class Handler {\n" \
           "public static void handle(ByteBuf b, Consumer<ByteBuf> work) {\n"
    running.run(head + "work.accept(b); } }")
    assert running.run(head + "work.accept(b) } }").error == "JavaCompileError"
    assert running.run('check("01.1", Handler)').text.startswith(
        "note: the last cell that declares Handler did not compile; this is the Handler from before\nwrong – ")
    running.run(head + "try { work.accept(b); } finally { b.release(); } } }")
    assert running.run('check("01.1", Handler)').text.startswith("correct – ")


def test_a_check_of_an_endless_java_answer_comes_back(running):
    running.run("import pagedkv.lab.grading as g; seconds, g.SECONDS = g.SECONDS, 2")
    running.run("%%java\nimport io.netty.buffer.ByteBuf;\npublic class Handler {\n  public static void handle("
                "ByteBuf b, Consumer<ByteBuf> work) {\n    while (true) { }\n  }\n}")
    assert "had not returned after 2 s" in running.run('check("01.1", Handler)', timeout=30).text
    assert not running.run("g.SECONDS = seconds").error
