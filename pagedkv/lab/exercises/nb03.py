"""The exercises of notebook 03, fragmentation."""

import operator
from collections.abc import Sequence
from typing import Any

from pagedkv.core.memory import RESERVE, MemoryEvent, MemoryRecording, as_text
from pagedkv.core.memory_replay import EXPANDABLE
from pagedkv.core.why import EXHAUSTED, TOO_LARGE, why_refused
from pagedkv.lab.fragmentation_cases import (BLOCK_LIMIT, BY_HAND, DEMO_BLOCK_BYTES, DEMO_BYTES, reserved_after_each,
                                             share_without_tokens, state_before)
from pagedkv.lab.fragmentation_snapshot import pinned_by_owner, server_history
from pagedkv.lab.fragmentation_trial import try_cases, try_random_calls
from pagedkv.lab.grading import Exercise, NotYet, Wrong
from pagedkv.rivals.demos import two_holes
from pagedkv.rivals.fits import FirstFit
from pagedkv.rivals.paged import PagedAllocator
from pagedkv.rivals.workload import Workload, run

MIB = 1 << 20

# ── 03.1 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def a_demonstration(answer) -> str:
    """A workload whose last request, and no other, is refused by first fit because the free memory is in pieces; paging
    serves it."""
    workload = _as_workload(answer)
    last = len(workload) - 1
    op, owner, size_bytes = workload.requests[last]
    if op != "allocate":
        raise Wrong(f"the last line has to be the request that fails, `a OWNER SIZE`; yours is a {op} of {owner}")
    in_one_piece, paged = (run(workload, allocator) for allocator in (
        FirstFit(DEMO_BYTES), PagedAllocator(DEMO_BYTES, DEMO_BLOCK_BYTES)))
    for recording, name in ((in_one_piece, "first fit"), (paged, "paging")):
        early = next((event for event in recording.events[:last] if event.refused), None)
        if early is not None:
            raise Wrong(f"{name} refuses a request before the last one already: {_called(early, workload)}.\n"
                        f"   {early.detail['message']}\n   Whatever comes after it says little about the last request.",
                        _picture(recording, early.step, name))
    reason = why_refused(state_before(in_one_piece, last), DEMO_BYTES, size_bytes)
    asked = f"{owner} asks for {as_text(size_bytes)}"
    if not in_one_piece.events[last].refused:
        address = in_one_piece.events[last].changes[0].address
        raise Wrong(f"{asked}, and first fit serves it, at {as_text(address)}: the largest free run has "
                    f"{as_text(reason.largest_free_bytes)}.\n   Make the holes smaller, or the request larger.",
                    _picture(in_one_piece, last, "first fit"))
    if reason.kind in (EXHAUSTED, TOO_LARGE):
        raise Wrong(f"{asked}, and only {as_text(reason.total_free_bytes)} are free in total. That is not "
                    "fragmentation:\n"
                    "   the memory is exhausted, and paging refuses as well. Free more before, or ask for less.",
                    _picture(in_one_piece, last, "first fit"))
    if paged.events[last].refused:
        lost = state_before(paged, last)
        raise Wrong(f"{asked}. First fit refuses although {as_text(reason.free_bytes)} are free, but paging refuses "
                    "too:\n"
                    f"   it has {as_text(lost.free_bytes)} free, since it gives out whole blocks, and "
                    f"{as_text(lost.used_bytes - lost.requested_bytes)} are lost in blocks\n"
                    "   that are not full. Use whole MiB.", _picture(paged, last, "paging"))
    if _without_names(workload) == _without_names(two_holes()):
        raise Wrong("this is the demonstration of section 1. It holds, but please write one of your own: other sizes,\n"
                    "   or other owners that leave")
    return (f"{asked}; {as_text(reason.free_bytes)} are free in {reason.num_free_runs} runs, the largest has "
            f"{as_text(reason.largest_free_bytes)}.\n   First fit refuses, paging takes "
            f"{len(paged.events[last].changes)} blocks")


def _as_workload(answer) -> Workload:
    if isinstance(answer, Workload):
        workload = answer
    elif isinstance(answer, str):
        try:
            workload = Workload.parse(answer)
        except ValueError as error:
            raise Wrong(f"this is no workload: {error}") from None
    else:
        raise Wrong(f"the answer is a text with one request a line, or a Workload; got {answer!r:.80}")
    if not len(workload):
        raise NotYet("the workload has no requests yet")
    return workload


def _called(event: MemoryEvent, workload: Workload) -> str:
    """`request 3 of 5, allocate(C, 25 MiB)`, counted from 1 as the pictures do"""
    call = str(event).partition(" ✗")[0].partition(" →")[0]
    return f"request {event.step + 1} of {len(workload)}, {call}"


def _without_names(workload: Workload) -> list[tuple[str, int, int]]:
    """The requests, with numbers for the owners: equal for workloads that differ in names only."""
    numbers: dict[Any, int] = {}
    return [(op, numbers.setdefault(owner, len(numbers)), size_bytes) for op, owner, size_bytes in workload.requests]


def _picture(recording: MemoryRecording, step: int, name: str) -> tuple[bytes, str]:
    """The memory that a request met. Where it is refused, the picture says why."""
    from pagedkv.viz import plot_memory
    event = recording.events[step]
    if event.refused:
        picture = plot_memory(recording, frame=step + 1, title=f"{name} refuses {event.owner}")
    else:
        picture = plot_memory(recording, frame=step, title=f"{name}, before {event.owner} asks")
    return picture.png(), picture.alt


# ── 03.2 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

FIRST_FIT_CASES = {
    "one after the other": "a=30 b=20 c=10",
    "all of it, then nothing": "a=100 b=1",
    "the piece at 0 is a piece like any other": "a=100 -a b=100 c=1",
    "a refused request takes nothing": "a=60 b=41 c=40",
    "a hole that is exactly long enough": "a=30 b=20 c=50 -b d=20",
    "a hole that is one too short": "a=30 b=20 c=50 -b d=21 e=20",
    "the lowest hole, not the tightest": "a=40 b=10 c=20 d=30 -a -c e=15",
    "back to the beginning, not on from the last place": "a=20 b=20 -a c=10 d=10",
    "a free joins the hole in front of it": "a=40 b=40 c=20 -a -b d=80",
    "a free joins the hole behind it": "a=40 b=40 c=20 -b -a d=80",
    "a free joins the holes on both sides": "a=30 b=30 c=30 d=10 -a -c -b e=90",
    "a free joins the rest at the end": "a=60 b=20 -b c=40",
    "the rest of a hole joins again": "a=50 b=50 -a c=20 d=20 -d -c e=50",
    "neighbours of a piece in use stay apart": "a=20 b=20 c=20 d=40 -a -c e=40 f=20 g=20",
    "holes freed from the top down": "a=10 b=20 c=10 d=30 e=10 f=20 -f -d -b g=20 h=20",
}
_SHORT_RUNS, _LONG_RUN = 40, 1_500


def first_fit_in_python(allocator_class) -> str:
    """A class that places as first fit does."""
    if not isinstance(allocator_class, type):
        raise Wrong(f"check gets your class, such as check(\"03.2\", MyFirstFit); got {allocator_class!r:.80}")
    for name in ("allocate", "free"):
        if not callable(getattr(allocator_class, name, None)):
            raise Wrong(f"your class has no method {name}()")
    try_cases(allocator_class, FIRST_FIT_CASES)
    for seed in range(_SHORT_RUNS):  # the shortest first, so that a counter-example can be read
        try_random_calls(allocator_class, 4 + seed // 2, seed, 20)
    try_random_calls(allocator_class, _LONG_RUN, 1, 1_000)
    return f"{len(FIRST_FIT_CASES)} named cases and {_LONG_RUN:,} random calls agree with the model"


# ── 03.3 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def block_size_chosen(answer) -> str:
    """The largest multiple of 16 tokens with which less than the limit of what is set aside holds no token."""
    block_tokens = _as_number(answer, "a number of tokens, such as 16")
    if block_tokens < 1 or block_tokens % 16:
        raise Wrong(f"{block_tokens} is not a multiple of 16")
    if block_tokens > 1024:
        raise Wrong(f"a block of {block_tokens} tokens is larger than most requests; the check measures up to 1024")
    share, next_share = share_without_tokens(block_tokens), share_without_tokens(block_tokens + 16)
    measured = f"with blocks of {block_tokens} tokens, {share:.2%} of what is set aside hold no token"
    if share >= BLOCK_LIMIT:
        raise Wrong(f"{measured}\n   expected:  less than {BLOCK_LIMIT:.0%}")
    if next_share < BLOCK_LIMIT:
        raise Wrong(f"{measured}, which is below {BLOCK_LIMIT:.0%}. "
                    f"But so it is with {block_tokens + 16}: {next_share:.2%}")
    return f"{measured}; with {block_tokens + 16} it would be {next_share:.2%}"


# ── 03.4 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def reserved_by_hand(with_segments, expandable) -> str:
    """What PyTorch's allocator has reserved after each request, in MiB, without and with expandable segments."""
    _compare_reserved("with segments", _as_numbers(with_segments, "with segments"), False)
    _compare_reserved("with expandable segments", _as_numbers(expandable, "with expandable segments"), True)
    ends = [as_text(reserved_after_each(BY_HAND, setting)[1][-1]) for setting in (False, True)]
    return (f"all {2 * len(BY_HAND)} values. In the end {ends[0]} are reserved with segments, "
            f"{ends[1]} with expandable ones")


def _compare_reserved(name: str, answer: list[Any], expandable: bool) -> None:
    recording, right = reserved_after_each(BY_HAND, expandable)
    if len(answer) != len(right):
        raise Wrong(f"{name}: {len(answer)} values for {len(right)} lines; a free is a line too")
    if max(answer) >= MIB:
        raise Wrong(f"{name}: {max(answer):,.0f} looks like bytes; in MiB, please")
    for number, (mine, event, reserved) in enumerate(zip(answer, recording.events, right), start=1):
        if mine * MIB != reserved:
            raise Wrong(f"{name}, line {number}: {_line(event)}\n   yours:     {mine:g} MiB reserved\n"
                        f"   expected:  {as_text(reserved)}: {_rule(event)}")


def _line(event: MemoryEvent) -> str:
    return f"f {event.owner}" if event.op == "free" else f"a {event.owner} {as_text(event.size_bytes)}"


def _rule(event: MemoryEvent) -> str:
    """Why so much was taken from the device, or nothing."""
    if event.op == "free":
        return "the block is free, and the device gets nothing back"
    new = [change for change in event.changes if change.kind == RESERVE]
    if not new:
        [chosen] = [look for look in event.detail["decision"].looks if look.verdict == "chosen"]
        return f"a free block of {as_text(chosen.size_bytes)} is long enough, so nothing new is reserved"
    taken = new[0].size_bytes
    if new[0].label == EXPANDABLE:
        page = 2 * MIB if event.size_bytes <= MIB else 20 * MIB
        lacking = event.size_bytes - _free_end(event)
        pages = taken // page
        mapped = f"{pages} pages of {as_text(page)} are" if pages > 1 else f"1 page of {as_text(page)} is"
        return f"{as_text(lacking)} are lacking at the segment's end, so {mapped} mapped"
    if event.size_bytes <= MIB:
        return "up to 1 MiB: the small pool, whose segments have 2 MiB"
    if event.size_bytes < 10 * MIB:
        return "no free block is long enough, and less than 10 MiB are asked for: a segment of 20 MiB"
    return f"no free block is long enough: a segment of its own, {as_text(taken)}, the size rounded up to 2 MiB"


def _free_end(event: MemoryEvent) -> int:
    """How much was free at the end of the segment before its pages were mapped: the piece begins there."""
    new = next(change for change in event.changes if change.kind == RESERVE)
    piece = next(change for change in event.changes if change.kind == "take")
    return max(0, new.address - piece.address)


# ── 03.5 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def pinning_owner_found(answer) -> str:
    """The owner who alone keeps the most free memory in its segments: named in full, in part, or by an address of its
    own."""
    layout = server_history().end.layout()
    pinned = pinned_by_owner(layout)
    owner = _owner_meant(answer, layout)
    most = max(pinned, key=pinned.get)
    has = {name: sum(piece.size_bytes for piece in layout.pieces if str(piece.owner) == name) for name in pinned}
    if owner != most:
        listed = ("no free memory is kept by it alone: its segments are full" if not pinned[owner] else
                  f"{as_text(pinned[owner])} of free memory are kept by it alone")
        raise Wrong(f"{owner}\n   yours:     has {as_text(has[owner])}; {listed}\n"
                    f"   expected:  somebody who keeps {as_text(pinned[most])}, all segments together")
    return (f"{most}: the {as_text(has[most])} that it has keep {as_text(pinned[most])} of free memory\n"
            f"   from going back. Next comes somebody with {as_text(sorted(pinned.values())[-2])}")


def _owner_meant(answer, layout) -> str:
    owners = sorted({str(piece.owner) for piece in layout.pieces})
    named = f"the owners are {', '.join(owners)}"
    if isinstance(answer, str):
        wanted = answer.strip().casefold()
        # a name in full may have more of the path than the short form has
        found = [owner for owner in owners
                 if wanted and (wanted in owner.casefold() or wanted.endswith("/" + owner.casefold()))]
        if len(found) != 1:
            raise Wrong(f"{answer!r:.60} names {'nobody' if not found else 'several'}: {named}")
        return found[0]
    try:
        address = operator.index(answer)
    except TypeError:
        raise Wrong(f"the answer is an owner's name, such as {owners[0]!r}; got {answer!r:.60}") from None
    for piece in layout.pieces:
        if piece.address <= address < piece.address + piece.size_bytes:
            return str(piece.owner)
    raise Wrong(f"nothing is in use at {address:#x}; {named}")


# ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _as_numbers(answer, name: str) -> list[float]:
    if isinstance(answer, str) or not isinstance(answer, Sequence) and not hasattr(answer, "tolist"):
        raise Wrong(f"{name}: the answer is a list of numbers, one for each line; got {answer!r:.80}")
    values = list(answer)
    if any(value is Ellipsis for value in values):
        raise NotYet(f'{name}, there is still a ... in your list. hint("03.4") gives a first nudge.')
    for value in values:
        if isinstance(value, bool) or not hasattr(value, "__float__"):
            raise Wrong(f"{name}: {value!r:.40} is not a number of MiB")
    return [float(value) for value in values]


def _as_number(answer, what: str) -> int:
    try:
        if isinstance(answer, bool):
            raise TypeError
        return int(answer) if isinstance(answer, float) and answer.is_integer() else operator.index(answer)
    except TypeError:
        raise Wrong(f"the answer is {what}; got {answer!r:.80}") from None


EXERCISES = (
    Exercise("03.1", "A demonstration that demonstrates", 6, (
        "Two things have to hold at the last line: enough is free in total, and no single run is long enough.",
        "Fill the memory first, so that nothing is left at its end; then free some, but never two neighbours.",
        "Four of 25 fill it. Free the first and the third. What is more than 25 and at most 50?"), a_demonstration),
    Exercise("03.2", "First fit", 10, (
        "Keep a list of holes, as (start, size), in order of their starts, and a dict: start → size of the piece.",
        "allocate: take the first hole whose size is at least what is asked for, and keep what is left of it. Nothing "
        "may change if there is none.",
        "free: put the hole back where its start belongs, then merge it with the next hole if it ends where that "
        "begins, and with the one before it in the same way. Or sort the holes and merge them all in one loop."),
        first_fit_in_python),
    Exercise("03.3", "Choose the block size", 6, (
        "Only a request's last block is not full. How many tokens does it lack on average?",
        "About half a block for each request that runs: twice the block, twice the loss. Measure one size, then guess.",
        "share_without_tokens(n) measures one size. Try 128, then go up in steps of 16."), block_size_chosen),
    Exercise("03.4", "PyTorch's allocator, by hand", 8, (
        "reserved grows only when no free block of the same pool is long enough. A free changes nothing.",
        "With segments: 0.5 MiB takes a segment of 2, 6 MiB one of 20. Note what each segment has free after a line.",
        "Expandable: the large pool is one segment that grows at its end by pages of 20 MiB. What is free there counts "
        "toward the request, and D's free memory joins it."), reserved_by_hand),
    Exercise("03.5", "Who keeps it?", 6, (
        "Who has most is not who keeps most. Which segments are nearly empty, and not wholly?",
        "A segment can go back only when nothing in it is in use. Add up the free memory of all segments that one "
        "owner keeps.",
        "The report names one segment of 120 MiB and several of 40. Which of the two kinds is more in all?"),
        pinning_owner_found),
)
