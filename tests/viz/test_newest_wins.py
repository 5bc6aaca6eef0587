"""Jobs of which only the newest matters."""

import threading

import pytest

from pagedkv.viz.newest_wins import NewestWins, Overtaken

SECONDS = 10


@pytest.fixture
def jobs():
    made = NewestWins("a test's jobs")
    yield made
    made.wait()


def test_a_job_runs_beside_the_caller_and_the_thread_ends(jobs):
    ran = []
    jobs.submit(lambda check: ran.append(threading.current_thread().name))
    jobs.wait()
    assert ran == ["a test's jobs"]
    assert not [each for each in threading.enumerate() if each.name == "a test's jobs"]
    jobs.submit(lambda check: ran.append("again"))
    jobs.wait()
    assert ran[1] == "again"


def test_a_job_that_is_overtaken_stops_and_those_in_between_never_begin(jobs):
    began, may_go_on, done = threading.Event(), threading.Event(), []

    def slow(check):
        check()
        began.set()
        assert may_go_on.wait(SECONDS)
        check()
        done.append("slow")

    jobs.submit(slow)
    assert began.wait(SECONDS)
    for number in range(3):
        jobs.submit(lambda check, number=number: done.append(number))
    may_go_on.set()
    jobs.wait()
    assert done == [2]


def test_a_job_may_submit_another_and_does_not_wait_for_itself(jobs):
    done = []

    def first(check):
        jobs.submit(lambda check: done.append("second"))
        jobs.wait()
        done.append("first")
        with pytest.raises(Overtaken):
            check()

    jobs.submit(first)
    jobs.wait()
    assert done == ["first", "second"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_job_that_breaks_leaves_nobody_waiting(jobs):
    def broken(check):
        raise RuntimeError("a job's own fault")

    jobs.submit(broken)
    jobs.wait()
    done = []
    jobs.submit(lambda check: done.append(1))
    jobs.wait()
    assert done == [1]
