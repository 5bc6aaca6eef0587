"""Pictures of pools and allocators, from their recordings: widgets that move, and the same in print.

What is named here is loaded when it is first used: the tapes and the pages made from them also work where there is no
Jupyter and no matplotlib.
"""

from importlib import import_module

_HOMES = {
    "BlockGrid": "grid", "side_by_side_grids": "grid", "KVCacheView": "kv_view",
    "MemoryView": "memory_view", "side_by_side_memory": "memory_view",
    "Picture": "picture", "plot_grid": "plot", "plot_timeline": "plot", "plot_memory": "memory_plot",
    "FragmentationLab": "fragmentation_lab", "open_snapshot": "snapshot_view",
    "AddressView": "address_view", "StepsView": "steps_view",
    "plot_block_tables": "table_plot", "plot_block_size": "table_plot", "plot_kv_sizes": "table_plot",
    "plot_sequence_bytes": "table_plot",
    "plot_pool": "real_plot", "plot_online_softmax": "real_plot", "plot_step_times": "real_plot",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str):
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
