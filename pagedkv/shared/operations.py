"""Which form of the operations a member uses: the compiled one where there is a C compiler, else the portable one."""

import logging
from collections.abc import Callable

from pagedkv.core.native import NoCompiler
from pagedkv.shared import compiled_operations
from pagedkv.shared.compiled_operations import CompiledOperations
from pagedkv.shared.errors import NoAtomics
from pagedkv.shared.portable_operations import LibAtomic, PortableOperations

_log = logging.getLogger("pagedkv")
_said: set[str] = set()


Make = Callable[..., CompiledOperations | PortableOperations]


def choose(kind: str | Make = "auto") -> Make:
    """What makes a member's operations. kind: "compiled", "portable", "auto" for the first of them that can be had, or
    something that makes them, which is given back.

    Raises NoCompiler, NoAtomics (for "auto" too, if neither can be had)."""
    if callable(kind):
        return kind
    if kind == "compiled":
        compiled_operations.load()
        return CompiledOperations
    if kind == "portable":
        LibAtomic()
        return PortableOperations
    if kind != "auto":
        raise ValueError(f'operations are "auto", "compiled" or "portable", got {kind!r}')
    try:
        return choose("compiled")
    except NoCompiler as error:
        try:
            chosen = choose("portable")
        except NoAtomics as also:
            raise NoAtomics(f"a shared pool needs atomic operations. {error}. Without one it could do with {also}"
                            ) from None
        if "slower" not in _said:
            _said.add("slower")
            _log.warning("shared pools will be slower by far, ten microseconds and more for each block: %s", error)
        return chosen
