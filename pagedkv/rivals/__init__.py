"""Other ways to manage the same memory: allocators in bytes, behind the contract of `pagedkv.core.memory`."""
