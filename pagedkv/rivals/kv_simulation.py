"""How much of the memory holds tokens, while requests always wait for it? (claims N18 and S3)

A *closed loop*: as long as requests wait, the next one is admitted whenever the allocator has memory for it, strictly
in order. One *step* goes like this:

    1. who has all its tokens frees its memory
    2. who waits is admitted, from the head of the queue, until one does not fit; a memory that may run out then keeps
       1 % free (vLLM's watermark)
    3. everybody who runs gets one more token; who has no room for it asks for more. If there is none, the *youngest*
       request is preempted: it frees everything, waits at the head of the queue, and begins again with all the tokens
       it had as its prompt (recomputation, as vLLM does it)
    4. the memory is looked at

The allocators are the real ones, called whenever a request begins, ends or runs out of what is set aside for it.
Between such calls all that happens is that every request fills one more token; that is counted and not called, so a run
costs in proportion to its steps and not to its tokens.

Means are taken over the steps between *warm-up* (as many requests have finished as ran when the memory was full for the
first time) and the step at which nobody waits any more.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory_metrics import Waste
from pagedkv.rivals.handles import RivalWithHandles
from pagedkv.rivals.kv_schemes import BLOCK_SIZES_TOKENS, PAPER_FILLED, KVMemory, Scheme, paged, usual_schemes
from pagedkv.rivals.kv_workload import KVRequest

KEEP_FREE_SHARE = 0.01  # at an admission


@dataclass(frozen=True)
class KVResult:
    """waste             mean parts of the capacity, which add up to 1: see `Waste`
    running              mean number of requests that run: as many tokens are made per step
    lost_tokens          per running request: set aside for it and not filled, on average
    filled_of_set_aside  of the memory that is set aside for requests, the share that holds tokens
    steps                that the means are over
    all_steps            of the whole run
    finished             requests that ended
    preemptions          how often one was thrown out
    recomputed_tokens    had been in memory before, and were computed again
    moved_tokens         were copied to another place
    never_fit            names of the requests that do not fit even into an empty memory
    paper_filled         what the paper measured for the scheme that this one imitates, in its own setting
    """

    title: str
    waste: Waste
    running: float
    lost_tokens: float
    filled_of_set_aside: float
    steps: int
    all_steps: int
    finished: int
    preemptions: int
    recomputed_tokens: int
    moved_tokens: int
    never_fit: tuple[str, ...]
    paper_filled: float | None


def simulate(requests: Sequence[KVRequest], scheme: Scheme, capacity_bytes: int, bytes_per_token: int,
             longest_tokens: int | None = None, on_progress: Callable[[int, int], None] | None = None) -> KVResult:
    """Serve these requests from a memory of this capacity.

    longest_tokens  what the model allows, and "max" sets aside; the longest of the requests if it is not given
    on_progress     is told now and then how many requests have finished, of how many

    Raises ValueError for a request that is longer than that, for two of the same name, and for a run in which the
    memory was not full long enough to be measured."""
    memory = KVMemory(capacity_bytes, bytes_per_token, _longest(requests, longest_tokens), requests)
    run = _Run(scheme, memory)
    told = -1
    while run.step():
        if on_progress is not None and run.finished // 16 != told:
            told = run.finished // 16
            on_progress(run.finished, len(requests))
    if on_progress is not None:
        on_progress(len(requests), len(requests))
    return run.result()


def compare(requests: Sequence[KVRequest], capacity_bytes: int, bytes_per_token: int,
            schemes: Iterable[Scheme] | None = None, longest_tokens: int | None = None,
            on_progress: Callable[[int, int], None] | None = None) -> list[KVResult]:
    """The same requests under several schemes, the usual ones if none are given."""
    schemes = list(usual_schemes() if schemes is None else schemes)
    results = []
    for number, scheme in enumerate(schemes):
        def report(finished: int, total: int, before: int = number) -> None:
            if on_progress is not None:
                on_progress(before * total + finished, len(schemes) * total)
        results.append(simulate(requests, scheme, capacity_bytes, bytes_per_token, longest_tokens, report))
    return results


def sweep_block_sizes(requests: Sequence[KVRequest], capacity_bytes: int, bytes_per_token: int,
                      block_tokens: Iterable[int] = BLOCK_SIZES_TOKENS,
                      on_progress: Callable[[int, int], None] | None = None) -> list[KVResult]:
    """Paging with several block sizes."""
    return compare(requests, capacity_bytes, bytes_per_token, [paged(size) for size in block_tokens],
                   on_progress=on_progress)


def _longest(requests: Sequence[KVRequest], longest_tokens: int | None) -> int:
    if not requests:
        raise ValueError("there are no requests")
    if len({request.name for request in requests}) < len(requests):
        raise ValueError("two requests have the same name")
    longest = max(requests, key=lambda request: request.total_tokens)
    if longest_tokens is not None and longest.total_tokens > longest_tokens:
        raise ValueError(f"{longest.name} comes to {longest.total_tokens} tokens, more than longest_tokens = "
                         f"{longest_tokens}: cut the requests first (pagedkv.rivals.kv_workload.cut)")
    return longest.total_tokens if longest_tokens is None else longest_tokens


class _Running:
    """A request with memory. It had `tokens` before the step `began`, and gets one in every step from then on."""

    __slots__ = ("request", "handle", "began", "tokens", "set_aside_bytes", "number")

    def __init__(self, request: KVRequest, handle: Any, began: int, tokens: int, set_aside_bytes: int, number: int):
        self.request, self.handle, self.began, self.tokens = request, handle, began, tokens
        self.set_aside_bytes = set_aside_bytes
        self.number = number  # in order of admission

    def tokens_before(self, step: int) -> int:
        return self.tokens + step - self.began


class _Run:
    """One simulation. The sums are over everybody who runs:

    _tokens     filled tokens
    _set_aside  bytes
    _promised   bytes of what is set aside that will be filled in the end, or are
    """

    def __init__(self, scheme: Scheme, memory: KVMemory):
        self._scheme, self._memory = scheme, memory
        self._allocator: RivalWithHandles = scheme.make(memory)
        self._waiting = deque((request, request.prompt_tokens) for request in memory.requests)
        self._running: dict[int, _Running] = {}  # by number, so from the oldest to the youngest
        self._due: dict[int, list[_Running]] = {}  # step → who ends or runs out of room then
        self._now = self._admitted = 0
        self._tokens = self._set_aside = self._promised = 0
        self.finished = 0
        self._preemptions = self._recomputed = self._moved = 0
        self._never_fit: list[str] = []
        self._warm_after: int | None = None  # so many have finished
        self._steps = self._sum_running = self._sum_filled = self._sum_set_aside = self._sum_promised = 0
        if scheme.moves:  # only the events tell how much was copied; who never copies is not slowed down by them
            self._allocator.explain = False
            self._allocator.observer = self._count_moves

    def step(self) -> bool:
        """One step. False when everything is over."""
        due = sorted(self._due.pop(self._now, ()), key=lambda one: one.number)
        for one in due:
            if one.number in self._running and one.tokens_before(self._now) == one.request.total_tokens:
                self._finish(one)
        self._admit()
        for one in due + self._due.pop(self._now, []):
            if one.number in self._running:
                self._make_room(one)
        self._tokens += len(self._running)
        self._look()
        self._now += 1
        return bool(self._running or self._waiting)

    def _admit(self) -> None:
        memory, allocator = self._memory, self._allocator
        while self._waiting:
            request, tokens = self._waiting[0]
            # with the token that this very step adds: who cannot even have that would be thrown out at once
            wanted = (request.total_tokens if self._scheme.at_once else tokens + 1) * memory.bytes_per_token
            handle = None
            if not self._running or not self._too_tight(wanted):
                try:
                    handle = allocator.allocate(request.name, wanted)
                except OutOfMemory:
                    pass
            if handle is None:
                if self._running:
                    if self._warm_after is None:
                        self._warm_after = len(self._running)
                    return
                self._never_fit.append(request.name)
                self._waiting.popleft()
                continue
            self._waiting.popleft()
            one = _Running(request, handle, self._now, tokens, allocator.set_aside_bytes(handle), self._admitted)
            self._running[self._admitted] = one
            self._admitted += 1
            self._tokens += tokens
            self._count(one, +1)
            self._plan(one)

    def _too_tight(self, wanted_bytes: int) -> bool:
        free_bytes = self._allocator.capacity_bytes - self._allocator.used_bytes
        return self._scheme.may_run_out and free_bytes - wanted_bytes < KEEP_FREE_SHARE * self._allocator.capacity_bytes

    def _make_room(self, one: _Running) -> None:
        """For the token that this step adds."""
        wanted = (one.tokens_before(self._now) + 1) * self._memory.bytes_per_token
        while one.number in self._running and one.set_aside_bytes < wanted:
            try:
                handle = self._allocator.grow(one.handle, wanted)
            except OutOfMemory:
                self._preempt(next(reversed(self._running.values())))
                continue
            self._count(one, -1)
            one.handle, one.set_aside_bytes = handle, self._allocator.set_aside_bytes(handle)
            self._count(one, +1)
        if one.number in self._running:
            self._plan(one)

    def _plan(self, one: _Running) -> None:
        """Put down when this request has to be looked at next: when it ends, or before that, when its room is full."""
        room = one.set_aside_bytes // self._memory.bytes_per_token
        upto = min(one.request.total_tokens, room)
        step = self._now + upto - one.tokens_before(self._now)
        self._due.setdefault(step, []).append(one)

    def _preempt(self, one: _Running) -> None:
        tokens = one.tokens_before(self._now)
        alone = len(self._running) == 1
        self._leave(one, tokens)
        if alone:
            self._never_fit.append(one.request.name)  # all of the memory was its own, and was not enough
        else:
            self._preemptions += 1
            self._recomputed += tokens
            self._waiting.appendleft((one.request, tokens))

    def _finish(self, one: _Running) -> None:
        self._leave(one, one.request.total_tokens)
        self.finished += 1

    def _leave(self, one: _Running, tokens: int) -> None:
        self._allocator.free(one.handle)
        del self._running[one.number]
        self._tokens -= tokens
        self._count(one, -1)

    def _count(self, one: _Running, sign: int) -> None:
        final_bytes = one.request.total_tokens * self._memory.bytes_per_token
        self._set_aside += sign * one.set_aside_bytes
        self._promised += sign * min(one.set_aside_bytes, final_bytes)

    def _count_moves(self, event: Any) -> None:
        self._moved += event.detail.get("moved_bytes", 0)

    def _look(self) -> None:
        if self._warm_after is not None and self.finished >= self._warm_after and self._waiting:
            self._steps += 1
            self._sum_running += len(self._running)
            self._sum_filled += self._tokens * self._memory.bytes_per_token
            self._sum_set_aside += self._set_aside
            self._sum_promised += self._promised

    def result(self) -> KVResult:
        if not self._steps:
            raise ValueError(f"{self._scheme.title}: the memory was not full long enough to measure anything; take "
                             "more requests, or less memory")
        capacity = self._steps * self._memory.capacity_bytes
        filled, set_aside, promised = self._sum_filled, self._sum_set_aside, self._sum_promised
        waste = Waste(filled, promised - filled, set_aside - promised, capacity - set_aside).shares()
        bytes_per_token = self._memory.bytes_per_token
        return KVResult(self._scheme.title, waste, self._sum_running / self._steps,
                        (set_aside - filled) / bytes_per_token / self._sum_running, filled / set_aside,
                        self._steps, self._now, self.finished, self._preemptions, self._recomputed,
                        self._moved // bytes_per_token, tuple(self._never_fit), PAPER_FILLED.get(self._scheme.paper))
