"""First fit, best fit, next fit: the three classic rules for choosing a free run (Knuth, The Art of Computer
Programming, volume 1, section 2.5; Wilson et al., "Dynamic Storage Allocation: A Survey and Critical Review", 1995).

    first fit  the run with the lowest address that is long enough
    best fit   the shortest run that is long enough; of equal ones the one with the lowest address
    next fit   as first fit, but the search goes on where the last one ended, and round

The request is placed at the run's beginning, and the rest of the run stays free. A request that grows stays where it is
if the run behind it is long enough, and is copied to another place if not, as C's realloc does it. Nothing is rounded
and nothing is aligned, so no memory is lost inside a slot: whatever these allocators waste is external fragmentation.
"""

from pagedkv.core.memory import as_text
from pagedkv.rivals.arena import ArenaRival


class FirstFit(ArenaRival):
    """The lowest run that is long enough."""

    source = "first fit"

    def _find(self, size_bytes: int) -> int | None:
        for start, run_bytes in self._free:
            if run_bytes >= size_bytes:
                self._look("free run", start, run_bytes, "chosen")
                return start
            self._look("free run", start, run_bytes, "too short")
        return None


class BestFit(ArenaRival):
    """The shortest run that is long enough, and of equal ones the lowest. It looks at all of them."""

    source = "best fit"

    def _find(self, size_bytes: int) -> int | None:
        best: tuple[int, int] | None = None  # (length, start)
        for start, run_bytes in self._free:
            if run_bytes < size_bytes:
                self._look("free run", start, run_bytes, "too short")
            elif best is None or run_bytes < best[0]:
                if best is not None:
                    self._look("free run", best[1], best[0], "long enough, but a later one is shorter")
                best = run_bytes, start
            else:
                self._look("free run", start, run_bytes, "long enough, but not shorter than one before")
        if best is None:
            return None
        self._look("free run", best[1], best[0], "chosen")
        return best[1]


class NextFit(ArenaRival):
    """The first run that is long enough from where the last search ended; the *rover* is that address."""

    source = "next fit"

    def __init__(self, capacity_bytes: int):
        super().__init__(capacity_bytes)
        self.rover = 0

    def _find(self, size_bytes: int) -> int | None:
        # A run that the rover stands in is looked at last, from its beginning: next fit never cuts a run in the middle.
        runs = list(self._free)
        behind = [run for run in runs if run[0] >= self.rover]
        if behind and len(behind) < len(runs):
            self._note(f"the search begins at {self.rover:#x} ({as_text(self.rover)})")
        for start, run_bytes in behind + runs[:len(runs) - len(behind)]:
            if run_bytes >= size_bytes:
                self._look("free run", start, run_bytes, "chosen")
                self.rover = start + size_bytes
                return start
            self._look("free run", start, run_bytes, "too short")
        return None
