"""Java in this process: start the JVM, hear what it prints, use its pools and allocators.

    from pagedkv.java import start, JavaPool
    start()
    pool = JavaPool.of("pagedkv.pool.BlockPool", 1024)

Importing this package starts nothing and needs no JPype, so that setting up can ask it for the JDK.
"""

_WHERE = {"start": "jvm", "jclass": "jvm", "implement": "jvm", "JvmError": "jvm", "JavaPool": "pool", "pool_maker": "pool",
          "JavaAllocator": "memory", "run_java": "memory"}

__all__ = list(_WHERE)


def __getattr__(name: str):
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module
    return getattr(import_module(f"{__name__}.{_WHERE[name]}"), name)
