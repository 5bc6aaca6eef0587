"""Edits of a workload: what they repair, what they refuse."""

import random
import re

import pytest

from pagedkv.rivals.workload import Request, Workload
from pagedkv.viz.workload_edits import add, delete, move, resize

M = 1 << 20
#                          0         1         2         3         4     5     6         7
TWO_LIVES = Workload.parse("a A 10M\n a B 20M\n g A 12M\n g A 16M\n f A\n f B\n a A 30M\n f A", "two lives")


def texts(workload):
    return [f"{op[0]} {owner}" + (f" {size // M}" if size else "") for op, owner, size in workload.requests]


def test_to_delete_an_allocate_deletes_what_hangs_on_it():
    edited = delete(TWO_LIVES, 0)
    assert texts(edited.workload) == ["a B 20", "f B", "a A 30", "f A"]
    assert edited.number == 0
    assert edited.repair == ("with it go what hangs on it: grow A in request 2, grow A in request 3 and "
                             "free A in request 4")
    assert delete(TWO_LIVES, 6).repair == "with it goes what hangs on it: free A in request 7"
    assert texts(TWO_LIVES)[0] == "a A 10", "the given workload is as it was"


def test_to_delete_a_grow_or_a_last_free_needs_no_repair():
    assert texts(delete(TWO_LIVES, 2).workload) == ["a A 10", "a B 20", "g A 16", "f A", "f B", "a A 30", "f A"]
    assert texts(delete(TWO_LIVES, 5).workload) == ["a A 10", "a B 20", "g A 12", "g A 16", "f A", "a A 30", "f A"]
    assert delete(TWO_LIVES, 7).repair == ""


def test_a_free_before_the_owner_comes_back_cannot_be_deleted():
    reason = "A allocates again in request 6, and has to free this first: delete that one before"
    with pytest.raises(ValueError, match=f"^{reason}$"):
        delete(TWO_LIVES, 4)


def test_to_enlarge_raises_later_grows_of_the_same_life_only():
    edited = resize(TWO_LIVES, 0, 14 * M)
    assert texts(edited.workload)[:4] == ["a A 14", "a B 20", "g A 14", "g A 16"]
    assert texts(edited.workload)[6] == "a A 30"
    assert edited.repair == "grow A in request 2 was raised to 14 MiB as well"
    edited = resize(TWO_LIVES, 0, 40 * M)
    assert texts(edited.workload)[:4] == ["a A 40", "a B 20", "g A 40", "g A 40"]
    assert edited.repair == "grow A in request 2 and grow A in request 3 were raised to 40 MiB as well"
    assert resize(TWO_LIVES, 0, 5 * M).repair == ""


def test_sizes_that_cannot_be():
    with pytest.raises(ValueError, match="^A has 12 MiB at this point and cannot grow to 11 MiB, which is less$"):
        resize(TWO_LIVES, 3, 11 * M)
    with pytest.raises(ValueError, match="^request 4 is a free: it has no size$"):
        resize(TWO_LIVES, 4, 5)
    with pytest.raises(ValueError, match="at least 1 byte"):
        resize(TWO_LIVES, 0, 0)


def test_add_at_the_beginning_in_between_and_at_the_end():
    for after, at in ((-1, 0), (3, 4), (7, 8)):
        edited = add(TWO_LIVES, after, Request("allocate", "N", M))
        assert edited.number == at and edited.repair == "" and texts(edited.workload)[at] == "a N 1"
        assert len(edited.workload) == 9
    assert texts(add(Workload("empty", ()), -1, Request("allocate", "A", M)).workload) == ["a A 1"]


def test_an_owner_has_one_allocation_at_a_time():
    reason = "A has 12 MiB at this point, since request 0: free it first, or choose another owner"
    with pytest.raises(ValueError, match=f"^{reason}$"):
        add(TWO_LIVES, 2, Request("allocate", "A", M))
    reason = "A allocates in request 6 and would not have freed this one: choose another owner"
    with pytest.raises(ValueError, match=f"^{reason}$"):
        add(TWO_LIVES, 4, Request("allocate", "A", M))


def test_a_free_that_is_added_ends_the_life_there():
    edited = add(TWO_LIVES, 1, Request("free", "A", 99))
    assert texts(edited.workload) == ["a A 10", "a B 20", "f A", "f B", "a A 30", "f A"]
    assert edited.repair == ("A's memory ends here now: grow A in request 2, grow A in request 3 and "
                             "free A in request 4 are gone")
    assert edited.workload.requests[2].size_bytes == 0
    assert add(delete(TWO_LIVES, 5).workload, 1, Request("free", "B")).repair == ""


def test_a_grow_that_is_added():
    edited = add(TWO_LIVES, 0, Request("grow", "A", 13 * M))
    assert texts(edited.workload)[:5] == ["a A 10", "g A 13", "a B 20", "g A 13", "g A 16"]
    assert edited.repair == "grow A in request 2 was raised to 13 MiB as well"
    with pytest.raises(ValueError, match="cannot grow to 1 MiB"):
        add(TWO_LIVES, 0, Request("grow", "A", M))


@pytest.mark.parametrize("op", ["grow", "free"])
def test_nothing_comes_of_nothing(op):
    for owner, after in (("A", -1), ("A", 4), ("Z", 3), ("A", 7)):
        with pytest.raises(ValueError, match=f"^{owner} has nothing to {op} at this point$"):
            add(TWO_LIVES, after, Request(op, owner, M))


def test_move_between_requests_of_others():
    edited = move(TWO_LIVES, 1, 3)
    assert texts(edited.workload)[:5] == ["a A 10", "g A 12", "g A 16", "f A", "a B 20"] and edited.number == 4
    assert move(edited.workload, 4, -3).workload == TWO_LIVES


def test_a_request_cannot_pass_another_of_its_owner():
    reason = r"request 2 \(grow A\) cannot pass request 0 \(allocate A\): only this order works"
    with pytest.raises(ValueError, match=f"^{reason}$"):
        move(TWO_LIVES, 2, -2)
    with pytest.raises(ValueError, match=r"cannot pass request 6 \(allocate A\)"):
        move(TWO_LIVES, 4, 2)


@pytest.mark.parametrize("edit", [
    lambda: delete(TWO_LIVES, 8), lambda: delete(TWO_LIVES, -1), lambda: delete(Workload("empty", ()), 0),
    lambda: resize(TWO_LIVES, 8, M), lambda: move(TWO_LIVES, 0, -1), lambda: move(TWO_LIVES, 7, 1),
    lambda: add(TWO_LIVES, 8, Request("allocate", "N", M)), lambda: add(TWO_LIVES, -2, Request("allocate", "N", M))])
def test_a_request_that_there_is_not(edit):
    with pytest.raises(ValueError, match="there (is|are) no"):
        edit()


def test_another_operation():
    with pytest.raises(ValueError, match="'copy' is not one of allocate, grow, free"):
        add(TWO_LIVES, 0, Request("copy", "A", M))


def test_many_repairs_are_counted():
    workload = Workload("grows", (Request("allocate", "A", 1), *(Request("grow", "A", size) for size in range(2, 9))))
    assert delete(workload, 0).repair == ("with it go what hangs on it: grow A in request 1, grow A in request 2, "
                                          "grow A in request 3 and 4 more")


def test_whatever_is_edited_a_program_can_make_what_comes_out():
    """`Workload` checks every sequence; here edits at random must neither slip past it nor run into it, as the reason
    would be in terms of a workload that nobody sees."""
    draw, workload, done, refused = random.Random(7), TWO_LIVES, 0, 0
    for _ in range(3000):
        n = len(workload)
        number, size, owner = draw.randrange(-1, n + 1), draw.randrange(1, 99), draw.choice("ABC")
        op = draw.choice(["allocate", "grow", "free"])
        edit = draw.choice([lambda: add(workload, number, Request(op, owner, size)), lambda: delete(workload, number),
                            lambda: resize(workload, number, size),
                            lambda: move(workload, number, draw.choice([-3, -1, 1, 2]))])
        try:
            edited = edit()
        except ValueError as error:
            assert not re.match(r"request \d+: ", str(error)), f"{error}: a reason of Workload's own"
            refused += 1
        else:
            Workload("again", edited.workload.requests)
            workload, done = edited.workload, done + 1
            if len(workload) > 40:
                workload = TWO_LIVES
    assert done > 300 and refused > 300
