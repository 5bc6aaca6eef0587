"""The cases of notebook 03 that its cells and its exercises share."""

from collections import Counter
from collections.abc import Sequence
from functools import cache

from pagedkv.core.memory import Layout, MemoryRecording, as_text
from pagedkv.core.memory_replay import MemoryState, replay_memory
from pagedkv.core.why import Reason, why_refused
from pagedkv.rivals.buddy import BuddyChunkAllocator
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.rivals.fits import BestFit, FirstFit, NextFit
from pagedkv.rivals.kv_schemes import paged
from pagedkv.rivals.kv_simulation import simulate
from pagedkv.rivals.kv_workload import AZURE_CONVERSATION, KVRequest, draw_requests
from pagedkv.rivals.paged import PagedAllocator
from pagedkv.rivals.setup import Setup
from pagedkv.rivals.workload import Workload, run

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# 03.1: as in the articles' demonstrations, 100 blocks; one is 1 MiB here
DEMO_BYTES = 100 * MIB
DEMO_BLOCK_BYTES = MIB

# Section 3: where does first fit put D, E and F? The picture opens behind the frees.
GUESSES = Workload.parse("""
a A 40M
a B 10M
a C 20M
a X 30M
f A
f C
a D 15M
a E 20M
a F 20M
""", "guesses")
FIRST_GUESS = 6

# Section 4. First fit serves all of it, best fit does not. With D 30 it is the other way round.
CONTEST_BYTES = 128 * MIB
CONTEST_LINES = ("a A 9M", "a B 20M", "a C 5M", "a D 15M", "a E 3M", "a F 12M", "a G 25M", "a H 20M", "f D", "f C",
                 "a I 10M", "f H", "a J 9M", "a K 25M")
CONTEST = Workload.parse("\n".join(CONTEST_LINES), "contest")
SIX_ALLOCATORS = (
    Setup(FirstFit, title="first fit"), Setup(BestFit, title="best fit"), Setup(NextFit, title="next fit"),
    Setup(BuddyChunkAllocator, {"page_bytes": MIB, "max_order": 6}, "buddy chunks"),
    Setup(CachingAllocator, title="PyTorch"), Setup(PagedAllocator, {"block_bytes": 2 * MIB}, "paged"))

# Section 9: vLLM's pull request 41268. For each layer 530 MiB are needed for a moment, and 270 stay.
LOADING_BYTES = 3000 * MIB
LOADING = Workload.parse("".join(
    f"a step{layer} 530M\nf step{layer}\na weights{layer} 270M\n" for layer in range(1, 9)), "loading a model")
LOADERS = (
    Setup(CachingAllocator, title="as it is"),
    Setup(CachingAllocator, {"max_split_size_mb": 20}, "max_split_size_mb:20"),
    Setup(CachingAllocator, {"expandable_segments": True}, "expandable_segments:True"),
    Setup(PagedAllocator, {"block_bytes": 2 * MIB}, "paged"))

# Requests of a chat service to a 7B model with 32 layers, 32 heads of 128, fp16: 2 · 32 · 32 · 128 · 2 bytes a token.
TOKEN_BYTES = 512 * KIB
LONGEST_TOKENS = 4096
KV_BYTES = 16 * GIB  # what a card of 32 GB has left beside such a model, about

BLOCK_LIMIT = 0.05  # 03.3

# Section 6 and 03.4: a device with plenty of memory
BY_HAND_BYTES = GIB
BY_HAND_LINES = ("a A 512K", "a B 6M", "a C 12M", "a D 30M", "f D", "a E 41M", "a F 7M")
BY_HAND = Workload.parse("\n".join(BY_HAND_LINES), "seven lines")


def chat_requests(count: int = 400) -> list[KVRequest]:
    """Seeded requests with the lengths of a public trace, the Azure LLM inference trace 2023, conversation."""
    return draw_requests(AZURE_CONVERSATION, count, seed=1, longest_tokens=LONGEST_TOKENS)


@cache
def share_without_tokens(block_tokens: int) -> float:
    """Of the memory that is set aside for the requests that run, the share that holds no token, with blocks of this
    size. Raises ValueError below 1 token, and above LONGEST_TOKENS."""
    if not 1 <= block_tokens <= LONGEST_TOKENS:
        raise ValueError(f"a block has 1 to {LONGEST_TOKENS} tokens, got {block_tokens}")
    result = simulate(chat_requests(), paged(block_tokens), KV_BYTES, TOKEN_BYTES, LONGEST_TOKENS)
    return 1 - result.filled_of_set_aside


def state_before(recording: MemoryRecording, step: int) -> MemoryState:
    """What there was before an event."""
    states = replay_memory(recording)
    for _ in range(step + 1):
        state = next(states)
    return state


def why_the_last_request(workload: Workload, capacity_bytes: int) -> Reason:
    """What speaks against the last request of a workload, put to first fit."""
    recording = run(workload, FirstFit(capacity_bytes))
    return why_refused(state_before(recording, len(recording) - 1), capacity_bytes, recording.events[-1].size_bytes)


def tell_last_request(workload: Workload, capacity_bytes: int) -> str:
    """Two lines: who serves the last request of a workload, and why first fit does or does not."""
    served = ["refuses" if run(workload, allocator).events[-1].refused else "serves" for allocator in (
        FirstFit(capacity_bytes), PagedAllocator(capacity_bytes, DEMO_BLOCK_BYTES))]
    reason = why_the_last_request(workload, capacity_bytes)
    why = str(reason)
    if served[0] == "serves":
        why = f"It fits: {as_text(reason.size_bytes)} wanted, and a free run has {as_text(reason.largest_free_bytes)}."
    return f"{workload.name}, {as_text(capacity_bytes)}: first fit {served[0]}, paging {served[1]}\n    {why}"


def tell_refusals(workload: Workload, setups: Sequence[Setup], capacity_bytes: int) -> str:
    """One line for each allocator: what it refused."""
    width = max(len(setup.title) for setup in setups)
    lines = []
    for setup in setups:
        recording = run(workload, setup.make(capacity_bytes))
        refused = [f"{event.owner} {as_text(event.size_bytes)}" for event in recording.events if event.refused]
        lines.append(f"{setup.title:{width}}  {'refuses ' + ', '.join(refused) if refused else 'serves all'}")
    return "\n".join(lines)


def reserved_after_each(workload: Workload, expandable: bool) -> tuple[MemoryRecording, list[int]]:
    """What PyTorch's allocator makes of a workload, and the bytes that it has reserved after each request."""
    recording = run(workload, CachingAllocator(BY_HAND_BYTES, expandable_segments=expandable))
    states = replay_memory(recording)
    next(states)
    return recording, [state.reserved_bytes for state in states]


def tell_reserved(*lines: str) -> str:
    """A table: what is reserved after each of these lines of a workload, with segments and with expandable ones."""
    workload = Workload.parse("\n".join(lines))
    columns = [reserved_after_each(workload, expandable)[1] for expandable in (False, True)]
    width = max(map(len, lines))
    rows = [f"{line:{width}}  {as_text(segments):>13}  {as_text(expandable):>10}"
            for line, segments, expandable in zip(lines, *columns)]
    return "\n".join([f"{'':{width}}  {'with segments':>13}  {'expandable':>10}", *rows])


def tell_segments(layout: Layout) -> str:
    """Two lines: how many segments of which size are in use, and how many are wholly free."""
    in_use, free = Counter(), Counter()
    for segment in layout.segments:
        end = segment.address + segment.size_bytes
        used = any(segment.address <= piece.address < end for piece in layout.pieces)
        (in_use if used else free)[segment.size_bytes] += 1

    def listed(counts: Counter) -> str:
        return ", ".join(f"{counts[size]} of {as_text(size)}" for size in sorted(counts)) or "none"
    return f"segments in use:      {listed(in_use)}\nsegments wholly free: {listed(free)}"
