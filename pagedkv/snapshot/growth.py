"""The pattern of a cache that grows by `torch.cat`: each tensor a little larger than the one it replaces.

A KV cache without a pool is a contiguous tensor per layer. For every token a new one is allocated, one token longer,
the old one is copied into it and freed. The old one's place is just too small for the next, so the allocator's free
blocks fill up with sizes that nobody asks for again.

In a trace this is a *chain*: a block of size s is freed after one of size s + d was allocated, that one after s + 2d,
and so on with the same d. Chains of other origin have some links at most, since the step has to stay the same to the
byte.
"""

from bisect import bisect_right, insort
from collections import deque
from dataclasses import dataclass

from pagedkv.snapshot.contents import Entry, Stack

LEAST_LINKS = 8  # steps of one and the same size; fewer happen by chance, in networks whose layers grow evenly
LEAST_BYTES = 4096  # smaller tensors are no cache
MOST_GROWTH = 1.5  # a larger jump is another tensor
RECENT_ENTRIES = 4096  # how long before the free the larger one may have been allocated: some hundred layers


@dataclass
class Chain:
    """num_links steps of step_bytes each, from first_bytes to last_bytes; begun and ended at these trace entries."""

    first_bytes: int
    last_bytes: int
    step_bytes: int
    num_links: int
    begin: int
    end: int
    site: str

    @property
    def copied_bytes(self) -> int:
        """What was moved in all, if each new tensor took over the old one's contents."""
        return self.num_links * (self.first_bytes + self.last_bytes - self.step_bytes) // 2


def growing_chains(trace: tuple[Entry, ...]) -> list[Chain]:
    """All chains of at least LEAST_LINKS links, the longest first."""
    # (stream, size) → (entry, address) of the tensors that replace nobody yet
    waiting: dict[tuple[int, int], deque[tuple[int, int]]] = {}
    sizes: dict[int, list[int]] = {}  # stream → the sizes that wait, in order
    live: dict[int, tuple[int, int, Stack]] = {}  # address → (entry, size, stack)
    chains: dict[int, Chain] = {}  # address → the chain that its tensor ends
    ended: list[Chain] = []
    for index, (action, address, size, stream, _, stack, _) in enumerate(trace):
        if action == "alloc" and size >= LEAST_BYTES:
            live[address] = index, size, stack
            queue = waiting.get((stream, size))
            if queue is None:
                queue = waiting[stream, size] = deque()
            if not queue:
                insort(sizes.setdefault(stream, []), size)
            queue.append((index, address))
        elif action == "free_requested" or (action == "free_completed" and address in live):
            old = live.pop(address, None)
            if old is None:
                continue
            chain = chains.pop(address, None)
            size = old[1]
            wanted = size + chain.step_bytes if chain else None
            found = _take(waiting, sizes, stream, size, wanted, index, live)
            if found is None:
                if chain:
                    ended.append(chain)
                continue
            new_size, new_address = found
            if chain is None:
                site = old[2].site
                chain = Chain(size, size, new_size - size, 0, old[0], index, site)
            chain.last_bytes, chain.num_links, chain.end = new_size, chain.num_links + 1, index
            chains[new_address] = chain
    ended += chains.values()
    return sorted((chain for chain in ended if chain.num_links >= LEAST_LINKS), key=lambda chain: -chain.num_links)


def _take(waiting, sizes, stream: int, size: int, wanted: int | None, index: int, live) -> tuple[int, int] | None:
    """(size, address) of a recent tensor that is a little larger, or exactly `wanted`; it waits no longer."""
    ordered = sizes.get(stream, [])
    at = bisect_right(ordered, size)
    if wanted is not None:
        candidates = [wanted] if (stream, wanted) in waiting else []
    else:
        candidates = [ordered[at]] if at < len(ordered) and ordered[at] <= size * MOST_GROWTH else []
    for each in candidates:
        queue = waiting[stream, each]
        found = None
        while queue and found is None:
            since, address = queue.popleft()
            if index - since <= RECENT_ENTRIES and live.get(address, (None,))[0] == since:
                found = each, address
        if not queue:
            del waiting[stream, each]
            where = bisect_right(ordered, each) - 1
            if where >= 0 and ordered[where] == each:
                del ordered[where]
        if found:
            return found
    return None
