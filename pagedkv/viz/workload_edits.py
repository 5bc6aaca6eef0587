"""Edits of a workload: add a request, delete one, resize it, move it.

A *life* is what happens to one allocation: its allocate, its grows, its free. An edit may leave a life that no program
can have, such as a free without its allocate. Where there is one obvious way to put that right, the edit takes it and
says so:

    delete an allocate        its grows and its free go with it
    enlarge                   later grows of the same life that would be less are raised to the same size
    add a free                the life ends there: what came later of it goes

Everything else is refused with a ValueError that says why. A workload is never changed, an edit makes a new one.
Requests are called by their numbers, from 0, as in the messages of `Workload` and the steps of a recording.
"""

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from pagedkv.core.memory import as_text
from pagedkv.rivals.workload import Request, Workload


class Edited(NamedTuple):
    """number: where the request that was added, resized or moved stands now; for one that was deleted, where it stood.
    repair: what else was changed, in words; empty if nothing was."""

    workload: Workload
    number: int
    repair: str = ""


def add(workload: Workload, after: int, request: Request) -> Edited:
    """Add a request after number `after`; -1 stands for before all others."""
    requests, at = list(workload.requests), after + 1
    if not 0 <= at <= len(requests):
        raise ValueError(f"there is no request {after} to add one after: they go from 0 to {len(requests) - 1}")
    op, owner, size_bytes = request
    before = _life_at(requests, owner, at)
    repair = ""
    if op == "allocate":
        _check_size(size_bytes)
        if before:
            raise ValueError(f"{owner} has {as_text(requests[before[-1]].size_bytes)} at this point, since request "
                             f"{before[0]}: free it first, or choose another owner")
        again = next((number for number in range(at, len(requests)) if requests[number].owner == owner), None)
        if again is not None:
            raise ValueError(f"{owner} allocates in request {again} and would not have freed this one: "
                             "choose another owner")
    elif op == "grow":
        _check_size(size_bytes)
        _check_growth(requests, before, owner, size_bytes)
        repair = _raise_later(requests, _rest_of_life(requests, owner, at), size_bytes)
    elif op == "free":
        if not before:
            raise ValueError(f"{owner} has nothing to free at this point")
        size_bytes = 0
        later = _rest_of_life(requests, owner, at)
        if later:
            repair = f"{owner}'s memory ends here now: {_named(requests, later)} {_is_or_are(later)} gone"
        for number in reversed(later):
            del requests[number]
    else:
        raise ValueError(f"{op!r} is not one of allocate, grow, free")
    requests.insert(at, Request(op, owner, size_bytes))
    return Edited(_changed(workload, requests), at, repair)


def delete(workload: Workload, number: int) -> Edited:
    requests = list(workload.requests)
    op, owner, _ = _at(requests, number)
    repair = ""
    doomed = [number]
    if op == "allocate":
        later = _rest_of_life(requests, owner, number + 1)
        doomed += later
        if later:
            repair = f"with it {_went(later)} what hangs on it: {_named(requests, later)}"
    elif op == "free":
        again = next((later for later in range(number + 1, len(requests)) if requests[later].owner == owner), None)
        if again is not None:
            raise ValueError(f"{owner} allocates again in request {again}, and has to free this first: "
                             "delete that one before")
    for each in reversed(doomed):
        del requests[each]
    return Edited(_changed(workload, requests), number, repair)


def resize(workload: Workload, number: int, size_bytes: int) -> Edited:
    """Let a request ask for size_bytes."""
    requests = list(workload.requests)
    op, owner, _ = _at(requests, number)
    if op == "free":
        raise ValueError(f"request {number} is a free: it has no size")
    _check_size(size_bytes)
    if op == "grow":
        _check_growth(requests, _life_at(requests, owner, number), owner, size_bytes)
    requests[number] = Request(op, owner, size_bytes)
    repair = _raise_later(requests, _rest_of_life(requests, owner, number + 1), size_bytes)
    return Edited(_changed(workload, requests), number, repair)


def move(workload: Workload, number: int, by: int) -> Edited:
    """Put a request `by` places later, or earlier where that is negative."""
    requests = list(workload.requests)
    request = _at(requests, number)
    to = number + by
    if not 0 <= to < len(requests):
        raise ValueError(f"request {number} cannot move {'up' if by < 0 else 'down'}: there is no place {to}")
    passed = range(number - 1, to - 1, -1) if by < 0 else range(number + 1, to + 1)
    for other in passed:
        if requests[other].owner == request.owner:
            raise ValueError(f"request {number} ({request.op} {request.owner}) cannot pass request {other} "
                             f"({requests[other].op} {request.owner}): only this order works")
    requests.insert(to, requests.pop(number))
    return Edited(_changed(workload, requests), to)


def _changed(workload: Workload, requests: list[Request]) -> Workload:
    return Workload(workload.name, tuple(requests))


def _at(requests: list[Request], number: int) -> Request:
    if not 0 <= number < len(requests):
        raise ValueError(f"there is no request {number}: they go from 0 to {len(requests) - 1}" if requests else
                         "there are no requests")
    return requests[number]


def _life_at(requests: list[Request], owner: Hashable, at: int) -> list[int]:
    """The numbers before `at` of the life that the owner has there, from its allocate on; empty if it has none."""
    numbers: list[int] = []
    for number in range(at - 1, -1, -1):
        if requests[number].owner == owner:
            if requests[number].op == "free":
                break
            numbers.append(number)
            if requests[number].op == "allocate":
                break
    return numbers[::-1]


def _rest_of_life(requests: list[Request], owner: Hashable, at: int) -> list[int]:
    """The numbers from `at` on of the life that the owner has there."""
    return list(_until_its_end(requests, owner, at))


def _until_its_end(requests: list[Request], owner: Hashable, at: int) -> Iterator[int]:
    for number in range(at, len(requests)):
        if requests[number].owner == owner:
            if requests[number].op == "allocate":
                return
            yield number
            if requests[number].op == "free":
                return


def _check_size(size_bytes: int) -> None:
    if size_bytes < 1:
        raise ValueError("a request is for at least 1 byte")


def _check_growth(requests: list[Request], before: list[int], owner: Hashable, size_bytes: int) -> None:
    if not before:
        raise ValueError(f"{owner} has nothing to grow at this point")
    had = requests[before[-1]].size_bytes
    if size_bytes < had:
        raise ValueError(f"{owner} has {as_text(had)} at this point and cannot grow to {as_text(size_bytes)}, "
                         "which is less")


def _raise_later(requests: list[Request], later: list[int], size_bytes: int) -> str:
    """Bring the grows among these numbers up to size_bytes. What was done, in words."""
    raised = [number for number in later if requests[number].op == "grow" and requests[number].size_bytes < size_bytes]
    if not raised:
        return ""
    said = f"{_named(requests, raised)} {'was' if len(raised) == 1 else 'were'} raised to {as_text(size_bytes)} as well"
    for number in raised:
        requests[number] = requests[number]._replace(size_bytes=size_bytes)
    return said


_MOST_NAMED = 4


def _named(requests: list[Request], numbers: list[int]) -> str:
    """`grow A in request 4 and free A in request 9`"""
    names = [f"{requests[number].op} {requests[number].owner} in request {number}" for number in numbers]
    if len(names) > _MOST_NAMED:
        names[_MOST_NAMED - 1:] = [f"{len(names) - _MOST_NAMED + 1} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _is_or_are(numbers: list[int]) -> str:
    return "is" if len(numbers) == 1 else "are"


def _went(numbers: list[int]) -> str:
    return "goes" if len(numbers) == 1 else "go"
