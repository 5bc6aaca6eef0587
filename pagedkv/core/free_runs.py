"""Free runs: the stretches of free memory, in order of their addresses.

A *run* is free memory without a gap. Runs of different segments never grow together, even where their addresses touch:
memory that came from the device in two parts is not one.

Whoever wants the longest run gets it without a search: the lengths are kept in order as well. Both orders are plain
sorted lists; to insert into one moves its tail, which for the some thousand runs of a real allocator takes less time than
any tree in Python.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator


class FreeRuns:
    """total_bytes  the length of all runs together."""

    def __init__(self):
        self._starts: list[int] = []
        self._ends: dict[int, int] = {}  # start → end
        self._lengths: list[int] = []
        self.total_bytes = 0

    def __len__(self) -> int:
        return len(self._starts)

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """(start, size_bytes) of each run."""
        ends = self._ends
        return ((start, ends[start] - start) for start in self._starts)

    @property
    def largest_bytes(self) -> int:
        return self._lengths[-1] if self._lengths else 0

    def around(self, address: int) -> tuple[int, int] | None:
        """(start, end) of the run that holds this address, or None."""
        at = bisect_right(self._starts, address) - 1
        if at < 0:
            return None
        start = self._starts[at]
        return (start, self._ends[start]) if address < self._ends[start] else None

    def add(self, start: int, size_bytes: int, low: int, high: int) -> None:
        """This memory, of the segment from `low` to `high`, is free from now on. It must not be already."""
        if not size_bytes:
            return
        end = start + size_bytes
        at = bisect_left(self._starts, start)
        if at < len(self._starts) and self._starts[at] == end and end < high:
            end = self._remove(at)
        if at and self._ends[self._starts[at - 1]] == start and start > low:
            start = self._starts[at - 1]
            self._remove(at - 1)
        self._insert(start, end)

    def take(self, start: int, size_bytes: int) -> None:
        """This memory is no longer free. Raises ValueError if not all of it lies in one run."""
        if not size_bytes:
            return
        end, run = start + size_bytes, self.around(start)
        if run is None or end > run[1]:
            raise ValueError(f"{start:#x} … {end:#x} is not free")
        self._remove(bisect_left(self._starts, run[0]))
        if run[0] < start:
            self._insert(run[0], start)
        if end < run[1]:
            self._insert(end, run[1])

    def _insert(self, start: int, end: int) -> None:
        insort(self._starts, start)
        self._ends[start] = end
        insort(self._lengths, end - start)
        self.total_bytes += end - start

    def _remove(self, at: int) -> int:
        """Take out the run at this place of the list; its end."""
        start = self._starts.pop(at)
        end = self._ends.pop(start)
        del self._lengths[bisect_left(self._lengths, end - start)]
        self.total_bytes -= end - start
        return end
