"""Schemes: the ways to hold KV caches that `pagedkv.rivals.kv_simulation` compares.

A *scheme* is an allocator, and what a request asks it for: all that it will have in the end, at once, or what it has by
now, again and again. The PagedAttention paper (arXiv 2309.06180, figure 2) measured four; its shares of the memory that
holds tokens are in PAPER_FILLED. Its workloads, models and limits are not those of any run here, so they are to be set
beside our numbers, and not to be met.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from pagedkv.rivals.buddy import BuddyChunkAllocator
from pagedkv.rivals.fits import FirstFit
from pagedkv.rivals.handles import RivalWithHandles
from pagedkv.rivals.kv_workload import KVRequest
from pagedkv.rivals.paged import PagedAllocator
from pagedkv.rivals.static import StaticReservation

PAPER_FILLED = {"Orca Max": 0.204, "Orca Pow2": 0.268, "Orca Oracle": 0.382, "vLLM": 0.963}
ARTICLE_FILLED = {"before": 0.40, "PagedAttention": 0.95}  # claim N18; in no paper

BLOCK_SIZES_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class KVMemory(NamedTuple):
    """What a scheme's allocator is made for.

    longest_tokens  no request has more in the end
    """

    capacity_bytes: int
    bytes_per_token: int
    longest_tokens: int
    requests: Sequence[KVRequest]


class Scheme(NamedTuple):
    """make     the allocator
    at_once     a request asks for its final length when it begins, and never again
    may_run_out a request may find no room to grow; then the youngest is preempted
    moves       a growing request may be copied to another place
    paper       which bar of the paper's figure it imitates
    """

    title: str
    make: Callable[[KVMemory], RivalWithHandles]
    at_once: bool = False
    may_run_out: bool = False
    moves: bool = False
    paper: str | None = None


def reserve_max() -> Scheme:
    """A slot of the greatest length for every request."""
    return Scheme("static, max", lambda memory: StaticReservation(
        memory.capacity_bytes, memory.longest_tokens * memory.bytes_per_token), paper="Orca Max")


def reserve_pow2_output() -> Scheme:
    """The prompt, and the next power of two of the answer's length, which somebody foretells; placed by first fit."""
    return Scheme("static, output to 2^k", lambda memory: _told(memory, lambda request: min(
        memory.longest_tokens, request.prompt_tokens + _power_of_two(request.output_tokens))), paper="Orca Pow2")


def reserve_exact() -> Scheme:
    """The exact final length, which somebody foretells; placed by first fit."""
    return Scheme("static, oracle", lambda memory: _told(memory, lambda request: request.total_tokens),
                  paper="Orca Oracle")


def buddy_exact() -> Scheme:
    """The exact final length, placed by a buddy allocator, which rounds it up to a power of two. The paper's own
    Orca places its reservations so (section 6.1)."""
    def make(memory: KVMemory) -> BuddyChunkAllocator:
        chunk_bytes = _power_of_two(memory.longest_tokens * memory.bytes_per_token)
        order = min(11, chunk_bytes.bit_length() - 1)
        return BuddyChunkAllocator(memory.capacity_bytes, chunk_bytes >> order, order)
    return Scheme("buddy, oracle", make, at_once=True, paper="Orca Oracle")


def first_fit_exact() -> Scheme:
    """The exact final length, allocated at once by first fit: the same places as `reserve_exact`."""
    return Scheme("first fit, final length", lambda memory: FirstFit(memory.capacity_bytes), at_once=True)


def doubling() -> Scheme:
    """No foresight: a slot of the next power of two of tokens, and a move to one of twice the size when it is full."""
    return Scheme("doubling, moves", lambda memory: StaticReservation(
        memory.capacity_bytes, memory.longest_tokens * memory.bytes_per_token, "pow2",
        unit_bytes=memory.bytes_per_token), may_run_out=True, moves=True)


def paged(block_tokens: int = 16) -> Scheme:
    """A block whenever the last one is full."""
    return Scheme(f"paged, {block_tokens} tokens", lambda memory: PagedAllocator(
        memory.capacity_bytes, block_tokens * memory.bytes_per_token), may_run_out=True, paper="vLLM")


def usual_schemes() -> list[Scheme]:
    """The rows of the paper's figure, and what lies between."""
    return [reserve_max(), reserve_pow2_output(), reserve_exact(), buddy_exact(), first_fit_exact(), doubling(),
            paged(16)]


def _told(memory: KVMemory, final_tokens: Callable[[KVRequest], int]) -> StaticReservation:
    final_bytes = {request.name: final_tokens(request) * memory.bytes_per_token for request in memory.requests}
    return StaticReservation(memory.capacity_bytes, memory.longest_tokens * memory.bytes_per_token, "oracle",
                             final_bytes=final_bytes)


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()
