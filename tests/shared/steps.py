"""Operations that kill their own process before the n-th write to shared memory, and code that does so at its n-th
line.

    arm(3)        three more writes go through; before the fourth the process is killed
    disarm()
"""

import ctypes
import os
import signal
import sys
from dataclasses import replace
from functools import partial

from pagedkv.shared import compiled_operations
from pagedkv.shared.compiled_operations import CompiledOperations
from pagedkv.shared.portable_operations import LibAtomic, PortableOperations
from pagedkv.shared.slots import LockFile, SlotTable


class Countdown:
    """Counts in C where the operations are compiled, so that both sides share it."""

    def __init__(self, cell, signal_cell):
        self._cell, self._signal = cell, signal_cell

    def stop_instead(self):
        """Do not kill the process, stop it."""
        self._signal.value = signal.SIGSTOP

    def arm(self, steps):
        self._cell.value = steps

    def disarm(self):
        self._cell.value = -1

    def step(self):
        if self._cell.value == 0:
            os.kill(os.getpid(), self._signal.value)
            self._cell.value = -1  # it was only stopped
        if self._cell.value > 0:
            self._cell.value -= 1

    def watch(self, kind, name):
        """Count before this method of a class, too."""
        method = getattr(kind, name)

        def counted(*arguments):
            self.step()
            return method(*arguments)

        setattr(kind, name, counted)


def stepped(kind, source=None):
    """A countdown, and what makes the operations that it counts. The slot table's writes and the unlocking count too.

    source  another pool.c than ours"""
    if kind == "compiled":
        piece = compiled_operations.PIECE
        piece = replace(piece, flags=(*piece.flags, "-DPAGEDKV_STEPS"), source=source or piece.source)
        library = compiled_operations.load(piece)
        countdown = Countdown(ctypes.c_int64.in_dll(library, "pagedkv_steps"),
                              ctypes.c_int32.in_dll(library, "pagedkv_step_signal"))
        make = partial(CompiledOperations, library=library)
    else:
        countdown = Countdown(ctypes.c_int64(-1), ctypes.c_int32(signal.SIGKILL))

        class SteppedAtomics(LibAtomic):
            pass

        class SteppedOperations(PortableOperations):
            pass

        for name in ("compare_and_swap", "set_bits", "add"):
            countdown.watch(SteppedAtomics, name)
        for name in ("_set_count", "_write", "_write_half"):
            countdown.watch(SteppedOperations, name)
        atomics = SteppedAtomics()
        make = partial(SteppedOperations, atomics=atomics)
    for name in ("enter", "clear"):
        countdown.watch(SlotTable, name)
    countdown.watch(LockFile, "unlock")
    return countdown, make


def die_at_line(n, *functions):
    """From now on, kill the process when it is about to execute the n-th line (from 0) of these functions."""
    codes = {function.__code__ for function in functions}
    left = n

    def in_function(frame, event, _):
        nonlocal left
        if event == "line":
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left -= 1
        return in_function

    sys.settrace(lambda frame, event, _: in_function if frame.f_code in codes else None)
