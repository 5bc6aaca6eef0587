"""Small tensors on one thread.

PyTorch deals its work out to all cores. For tensors of a few hundred numbers the threads only wait for each other: on
two cores that others used too, the checks of exercise 06.4 took seven seconds, and one second on one thread.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
