"""What goes wrong with a file, and how to make a good one."""

HOW_TO_RECORD = """\
To record a snapshot, in the program that runs out of memory:

    torch.cuda.memory._record_memory_history()               # early, before the memory fills up
    ...
    torch.cuda.memory._dump_snapshot("oom.pickle")           # at the point of interest, or in
                                                             # `except torch.OutOfMemoryError:`
"""


class SnapshotError(Exception):
    """This file cannot be read as a snapshot; the message says why, what it is instead where that can be told, and what
    to do."""
