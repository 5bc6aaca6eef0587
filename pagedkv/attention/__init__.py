"""Paged attention, and a model of transformers that runs on it.

Importing this needs PyTorch at most; transformers is imported when `PagedModel` or `PagedCache` is first asked for.
"""

from importlib import import_module

_WHERE = {
    "BACKENDS": "backends", "choose_backend": "backends",
    "PagedBatch": "batch",
    "PagedStep": "step",
    "Generation": "generation", "Text": "generation",
    "PagedModel": "paged_model",
    "PagedCache": "transformers_cache",
}

__all__ = sorted(_WHERE)


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return __all__
