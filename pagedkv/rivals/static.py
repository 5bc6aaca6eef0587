"""Static reservation: what a request may come to need is set aside for it when it begins.

This is how serving systems held their KV caches before paging, because attention kernels wanted each request's keys and
values in one piece. How much is set aside is the *policy*; the names are those of the PagedAttention paper's baselines
(arXiv 2309.06180, section 6.1), which are Orca with three degrees of knowledge:

    max     the most that any request may have. Every slot is of this size
    pow2    the next power of two of what is asked for, counted in units. Who grows past it moves, to a slot of twice
            the size: for a moment both exist. (The paper's Pow2 does not move: it is told the output's length, rounded
            up to a power of two. That is the policy "oracle" with rounded lengths.)
    oracle  exactly what the request will have in the end. Nobody can know this; no reservation can do better

Slots are placed by first fit in one arena. A growth within a slot costs nothing. What a slot has and its owner has not
filled so far nobody else can use.
"""

from collections.abc import Hashable, Mapping

from pagedkv.core.arguments import as_count
from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import as_text
from pagedkv.rivals.arena import Slot
from pagedkv.rivals.base import Rival, Setting, as_size
from pagedkv.rivals.fits import FirstFit

POLICIES = ("max", "pow2", "oracle")
_MIB = 1 << 20


class StaticReservation(FirstFit):
    """max_request_bytes  no request may come to more, whatever the policy
    policy       "max", "pow2" or "oracle"
    unit_bytes   what "pow2" counts in, such as a token's bytes
    final_bytes  what each owner will have in the end; only "oracle" reads it, and it needs it

    Raises ValueError for a policy it does not know, and, when an owner allocates of whom the oracle was not told.
    """

    SETTINGS = (Setting("policy", "set aside", "max", choices=POLICIES),
                Setting("max_request_bytes", "longest request", 64 * _MIB, span=(_MIB, 256 * _MIB, _MIB), unit="B"))

    def __init__(self, capacity_bytes: int, max_request_bytes: int = 64 * _MIB, policy: str = "max", *,
                 unit_bytes: int = 1, final_bytes: Mapping[Hashable, int] | None = None):
        super().__init__(capacity_bytes)
        if policy not in POLICIES:
            raise ValueError(f"policy is one of {', '.join(POLICIES)}, got {policy!r}")
        if policy == "oracle" and final_bytes is None:
            raise ValueError("the policy 'oracle' needs final_bytes: {owner: what it will have in the end}")
        self.policy = policy
        self.max_request_bytes = as_size(max_request_bytes)
        self.unit_bytes = as_count(unit_bytes, "unit_bytes")
        if not self.unit_bytes:
            raise ValueError("unit_bytes is at least 1")
        self.final_bytes = final_bytes
        self.source = f"static reservation, {policy}"

    def _slot_bytes(self, owner: Hashable, size_bytes: int) -> int:
        slot_bytes = self.max_request_bytes
        if self.policy == "pow2":
            units = -(-size_bytes // self.unit_bytes)
            slot_bytes = min(slot_bytes, (1 << (units - 1).bit_length()) * self.unit_bytes)
        elif self.policy == "oracle":
            if owner not in self.final_bytes:
                raise ValueError(f"final_bytes does not tell what {owner} will have in the end")
            slot_bytes = min(slot_bytes, self.final_bytes[owner])
        if size_bytes > slot_bytes:
            at_most = slot_bytes == self.max_request_bytes
            rule = "no request may have more than" if at_most else "its reservation was to be"
            raise OutOfMemory(f"{as_text(size_bytes)} wanted; {rule} {as_text(slot_bytes)}")
        return slot_bytes

    def _regrow(self, slot: Slot, size_bytes: int) -> Slot:
        if self._slot_bytes(slot.owner, size_bytes) <= slot.size_bytes:
            return super()._regrow(slot, size_bytes)
        self._note("the reservation is full: it moves to a larger one")
        return Rival._regrow(self, slot, size_bytes)
