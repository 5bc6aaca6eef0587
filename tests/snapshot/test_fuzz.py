"""A short run of the fuzzer; `python -m tests.snapshot.fuzz` has longer ones."""

import os
import pickle

import pytest

from tests.snapshot import fuzz


def test_damaged_files_are_read_or_refused():
    counts, _ = fuzz.fuzz(runs=150, seed=1)
    answers = {answer for _, answer in counts}
    assert answers == {"read", "refused"}, "both happen"


def test_the_fuzzer_would_notice_code_that_runs():
    fuzz.fuzz(runs=0, seed=0)  # adds the hook
    fuzz.watch.on = True
    try:
        with pytest.raises(fuzz.Ran):
            pickle.loads(pickle.dumps(os.getcwd))  # looks a name up
        with pytest.raises(fuzz.Ran):
            os.system("true")
    finally:
        fuzz.watch.on = False


def test_the_fuzzer_would_notice_a_crash(monkeypatch):
    monkeypatch.setattr(fuzz, "history_of", lambda *a: 1 / 0)
    with pytest.raises(ZeroDivisionError) as raised:
        fuzz.fuzz(runs=50, seed=0)
    assert raised.type is ZeroDivisionError
