"""The simulated device below the caching allocator: so much memory, and addresses.

Two things are handed out, as on a GPU: *physical memory*, which can run out, and *virtual addresses*, of which there
are always enough. A request for memory therefore fails only if too little is left, and never because what is left lies
in pieces: cudaMalloc maps physical pages from anywhere behind one range of addresses. Fragmentation is made above,
inside the segments.

A real GPU also holds the CUDA context, libraries and other processes; `capacity_bytes` is what they leave over.
Addresses are given out first fit, on a grid of 2 MiB, so that the same calls always see the same addresses.
"""

from pagedkv.core.free_runs import FreeRuns

GRID_BYTES = 2 << 20
ADDRESS_BITS = 48  # a GPU's virtual address space
FIRST_ADDRESS, END_ADDRESS = GRID_BYTES, 1 << ADDRESS_BITS


class SimulatedDevice:
    """capacity_bytes, used_bytes  the physical memory, and what is taken of it."""

    def __init__(self, capacity_bytes: int):
        self.capacity_bytes = capacity_bytes
        self.used_bytes = 0
        self._addresses = FreeRuns()
        self._addresses.add(FIRST_ADDRESS, END_ADDRESS - FIRST_ADDRESS, FIRST_ADDRESS, END_ADDRESS)

    @property
    def free_bytes(self) -> int:
        return self.capacity_bytes - self.used_bytes

    def malloc(self, size_bytes: int) -> int | None:
        """cudaMalloc: memory with an address, or None if too little is left."""
        if not self.map(size_bytes):
            return None
        return self.reserve_addresses(size_bytes)

    def free(self, address: int, size_bytes: int) -> None:
        """cudaFree."""
        self.unmap(size_bytes)
        self.release_addresses(address, size_bytes)

    def place(self, address: int, size_bytes: int) -> None:
        """Memory at a given address, for a state that was recorded elsewhere. Raises ValueError, with nothing changed,
        if the addresses are in use or too little memory is left."""
        if size_bytes > self.free_bytes:
            raise ValueError(f"a segment of {size_bytes} bytes does not fit in the {self.free_bytes} that are left")
        self._addresses.take(address, size_bytes)
        self.used_bytes += size_bytes

    def map(self, size_bytes: int) -> bool:
        """Physical memory behind addresses that are reserved already; False if too little is left."""
        if self.used_bytes + size_bytes > self.capacity_bytes:
            return False
        self.used_bytes += size_bytes
        return True

    def unmap(self, size_bytes: int) -> None:
        self.used_bytes -= size_bytes

    def reserve_addresses(self, size_bytes: int) -> int:
        """The lowest address with room behind it."""
        for start, run_bytes in self._addresses:
            address = (start + GRID_BYTES - 1) & -GRID_BYTES
            if address + size_bytes <= start + run_bytes:
                self._addresses.take(address, size_bytes)
                return address
        raise AssertionError("the addresses have run out, which 256 TiB should not")

    def release_addresses(self, address: int, size_bytes: int) -> None:
        self._addresses.add(address, size_bytes, FIRST_ADDRESS, END_ADDRESS)
