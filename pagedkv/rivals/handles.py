"""Handles: what an owner gets for its memory, and how a rival tells a live one from one that is over."""

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any

from pagedkv.core.errors import DoubleFree
from pagedkv.rivals.base import Rival


class Handle:
    """requested_bytes is what its owner asked for so far."""

    __slots__ = ("owner", "requested_bytes")

    def __init__(self, owner: Hashable, requested_bytes: int):
        self.owner = owner
        self.requested_bytes = requested_bytes

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.owner}, {self.requested_bytes:,} B>"


class RivalWithHandles(Rival):
    """A rival that keeps the set of its live handles.

    used_bytes  the sizes of all pieces together
    """

    def __init__(self, capacity_bytes: int):
        super().__init__(capacity_bytes)
        self.used_bytes = 0
        self._live: dict[Handle, None] = {}  # a set that keeps its order, so that nothing depends on hash values

    @abstractmethod
    def set_aside_bytes(self, handle: Any) -> int:
        """What nobody else can have while this handle lives: the size of its pieces, filled or not."""

    def _about(self, handle: Any) -> tuple[Hashable, int]:
        if not isinstance(handle, Handle) or handle not in self._live:
            raise DoubleFree(f"{handle!r} is not live here: it was freed, or has grown into another handle; use the "
                             "handle that the last call returned, and free it once")
        return handle.owner, handle.requested_bytes
