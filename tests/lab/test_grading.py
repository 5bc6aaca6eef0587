"""Verdicts, progress and the commands of a notebook, whatever an answer does."""

import csv
import json
import time

import pytest

from pagedkv.java import jclass, start
from pagedkv.lab import commands, grading, progress
from pagedkv.lab.exercises import all_exercises, exercises_of, find_exercise
from pagedkv.lab.grading import CORRECT, NOT_YET, WRONG, Exercise, NotYet, Wrong, grade
from pagedkv.lab.placeholders import placeholders_in


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    monkeypatch.setenv("PAGEDKV_PROGRESS", str(tmp_path / "p" / "progress.json"))
    monkeypatch.setattr(commands, "_hints_given", {})
    monkeypatch.setattr(grading, "SECONDS", 0.5)


def exercise(grader):
    return Exercise("99.1", "a test", 1, ("a", "b"), grader)


def _raise(error):
    raise error


def empty(): ...
def empty_with_docstring():
    """Only words."""
def empty_pass(self, n): pass
def gives_nothing(): return None


class Half:
    size = 3
    def written(self): return 1
    def missing(self): ...
    def also_missing(self, n): pass


@pytest.mark.parametrize("answer, what", [
    (..., ["the answer"]), (empty, ["empty()"]), (empty_with_docstring, ["empty_with_docstring()"]),
    (empty_pass, ["empty_pass()"]), (gives_nothing, ["gives_nothing()"]), (Half, ["missing()", "also_missing()"])])
def test_placeholders(answer, what):
    assert placeholders_in(answer) == what


@pytest.mark.parametrize("answer", [None, 0, [], "", lambda: 0, print, int, Half().written, lambda x: x, len,
                                    lambda: print(), type("Written", (), {"f": lambda self: 1})])
def test_what_is_no_placeholder(answer):
    assert placeholders_in(answer) == []


@pytest.mark.parametrize("grader, outcome, message", [
    (lambda a: "3 cases", CORRECT, "3 cases"),
    (lambda a: _raise(Wrong("no")), WRONG, "no"),
    (lambda a: _raise(NotYet("half")), NOT_YET, "half"),
    (lambda a: 1 / 0, WRONG, "your code raised ZeroDivisionError: division by zero"),
    (lambda a: _raise(SystemExit(1)), WRONG, "your code left the interpreter (SystemExit)"),
    (lambda a: _raise(GeneratorExit()), WRONG, "your code raised GeneratorExit"),
    (lambda a: time.sleep(30), WRONG, "had not returned after 0.5 s"),
    (lambda a: _raise(RecursionError("deep")), WRONG, "your code raised RecursionError: deep")])
def test_verdicts(grader, outcome, message):
    verdict = grade(exercise(grader), 1)
    assert verdict.outcome == outcome and message in verdict.message


def test_what_an_answer_prints_is_shown_cut():
    verdict = grade(exercise(lambda a: print("x" * 5000) or "fine"), 1)
    assert verdict.printed == "" and verdict.outcome == CORRECT  # a right answer may print
    verdict = grade(exercise(lambda a: print("x" * 5000) or 1 / 0), 1)
    assert verdict.printed == "x" * 1000 + "\n… and 4,001 characters more"
    assert str(verdict).endswith("characters more")


def test_a_thread_that_has_graded_java_leaves_the_jvms_list_of_threads():
    start()
    java_thread, ids = jclass("java.lang.Thread"), []

    def known():
        return {int(thread.getId()) for thread in java_thread.getAllStackTraces().keySet()}

    def calls_java(answer):
        ids.append(int(java_thread.currentThread().getId()))
        assert ids[-1] in known()
        return str(jclass("java.lang.Integer").valueOf("7" if answer == 1 else "seven"))

    assert grade(exercise(calls_java), 1).message == "7"
    assert "NumberFormatException" in grade(exercise(calls_java), 2).message
    assert len(set(ids)) == 2 and not set(ids) & known()


def test_placeholders_are_named_in_a_sentence():
    assert str(grade(exercise(lambda a: "fine"), Half)) == ('not yet – missing() and also_missing() still have their '
                                                            'placeholders. hint("99.1") gives a first nudge.')


def test_no_answer_is_not_yet():
    assert str(grade(exercise(lambda: "fine"))) == 'not yet – your answer is missing here: check("99.1", your_answer)'


def test_solved_stays_solved_and_attempts_are_counted():
    for outcome in (NOT_YET, WRONG, CORRECT, WRONG):
        progress.note_attempt("01.1", outcome)
    assert progress.read_progress() == {"01.1": {"outcome": CORRECT, "attempts": 3}}
    assert progress.progress_line("01", ["01.1", "01.2", "01.3"]) == "01: ■□□ 1 of 3 exercises solved"


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"01.1": 3}', '{"01.1": {"outcome": "correct"}}'])
def test_a_damaged_progress_file_is_put_aside(text):
    path = progress.progress_file()
    path.parent.mkdir()
    path.write_text(text)
    assert progress.read_progress() == {}
    assert path.with_name("progress.json.damaged").read_text() == text
    progress.note_attempt("01.1", CORRECT)
    assert json.loads(path.read_text())["01.1"]["attempts"] == 1


def test_where_progress_is_kept(monkeypatch, tmp_path):
    (tmp_path / "java").mkdir()
    (tmp_path / "java" / "pom.xml").write_text("")
    monkeypatch.delenv("PAGEDKV_PROGRESS")
    monkeypatch.setenv("PAGEDKV_HOME", str(tmp_path))
    assert progress.progress_file() == tmp_path / "work" / ".pagedkv" / "progress.json"


def test_progress_can_be_exported(tmp_path, capsys):
    progress.note_attempt("01.5", CORRECT)
    commands.export_progress(tmp_path / "p.csv")
    rows = list(csv.reader(open(tmp_path / "p.csv", encoding="utf-8")))
    assert rows[0] == ["exercise", "title", "outcome", "attempts"] and len(rows) == 1 + len(all_exercises())
    assert ["01.5", "Fool a release that looks first", "correct", "1"] in rows
    commands.export_progress(tmp_path / "no" / "such" / "folder.csv")
    assert "export_progress: " in capsys.readouterr().out


def test_check_prints_the_verdict_and_after_success_the_progress(capsys):
    commands.check("01.5", ...)
    commands.check("01.5", [1, 2])
    commands.check("01.5", [1, 1])
    said = capsys.readouterr().out.splitlines()
    assert said[0] == 'not yet – the answer still has its placeholder. hint("01.5") gives a first nudge.'
    assert said[1].startswith("wrong – release([1, 2]) goes through and is right")
    assert said[2].startswith("correct – after release([1, 1])")
    assert said[3] == "01: □□□□■□ 1 of 6 exercises solved"


@pytest.mark.parametrize("call, said", [
    (lambda: commands.check("01.77", 1), "there is no exercise '01.77'; there are 01.1, 01.2"),
    (lambda: commands.check(77, 1), "there is no exercise 77; there are 01.1"),
    (lambda: commands.check(), "check: missing a required argument: 'exercise'"),
    (lambda: commands.hint("x"), "hint: there is no exercise 'x'"),
    (lambda: commands.solution(None), "solution: there is no exercise None"),
    (lambda: commands.progress(1), "01: □□□□□□ 0 of 6"),
    (lambda: commands.progress("x"), "progress: there are no exercises in notebook 'x'; there are some in 01"),
    (lambda: commands.hint("01.1", 3), "hint: too many positional arguments")])
def test_a_slip_gets_a_sentence(capsys, call, said):
    call()
    assert said in capsys.readouterr().out


def test_hints_come_in_levels_and_end_with_a_pointer(capsys):
    found = find_exercise("01.3")
    for level in (1, 2, 3, 3):
        commands.hint("01.3")
        out = capsys.readouterr().out
        assert out.startswith(f"hint {level} of 3: {found.hints[level - 1]}")
        assert ('solution("01.3") shows' in out) == (level == 3)


def test_the_solution_is_the_solved_cell(capsys):
    commands.solution("01.3")
    out = capsys.readouterr().out
    assert "public class SafePool" in out and "times.merge" in out and "SOLUTION" not in out


def test_no_check_tells_its_own_source_or_the_answer(capsys):
    for each in all_exercises():
        commands.check(each.id, ...)
        commands.check(each.id, 12345)
        out = capsys.readouterr().out
        assert "Traceback" not in out and "def " not in out and "assert" not in out


def test_exercises_are_well_formed():
    for each in all_exercises():
        assert each.id.startswith(each.notebook + ".") and 1 <= each.minutes <= 30 and len(each.hints) >= 2
    assert exercises_of("00") == [] and len(exercises_of("01")) == 6
