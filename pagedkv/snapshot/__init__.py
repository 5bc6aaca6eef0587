"""Somebody's own CUDA memory snapshot: read it, replay it, say what is wrong in it, try other settings on it.

A *snapshot* is the file that `torch.cuda.memory._dump_snapshot` writes. It holds, for each *device*, the *segments*
that PyTorch's caching allocator had taken with cudaMalloc, each cut into *blocks*, and, where recording was on, the
*trace*: one entry for everything the allocator did. With the trace comes, for each entry and block, the *frames* of the
Python and C++ code that asked for the memory.

    pickled      pickle data without the danger of pickle
    read         a file, whatever form it has, as checked records (`contents`)
    history      the records as a `pagedkv.core.memory.MemoryRecording`, from the state before the first entry on
    analysis     what is wrong, in words and numbers
    what_if      the same requests under other settings
    write        the way back: torch's own structure, from our records

    python -m pagedkv.snapshot oom.pickle --html report.html

needs nothing but this package: no torch, no Jupyter, no JDK.
"""
