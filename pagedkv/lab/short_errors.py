"""A refusal of a pool, shown with the learner's lines only.

What a notebook shows of an exception is every frame down to the `raise`. For a `PoolError` the lines inside this
package are of no use: the message says what was wrong, and the learner's own line is where it has to be put right.
"""

from pathlib import Path
from types import TracebackType

from pagedkv.core.errors import PoolError

_PACKAGE = str(Path(__file__).parents[1])


def install(shell) -> None:
    """Shorten what `shell` shows of every PoolError."""
    shell.set_custom_exc((PoolError,), _show)


def _show(shell, kind, error, trace, tb_offset=None) -> None:
    shell.showtraceback((kind, error, _without_ours(trace)), tb_offset=tb_offset)


def _without_ours(trace: TracebackType) -> TracebackType:
    """The trace up to the last frame outside this package."""
    last, frame = trace, trace
    while frame is not None:
        if not frame.tb_frame.f_code.co_filename.startswith(_PACKAGE):
            last = frame
        frame = frame.tb_next
    last.tb_next = None
    return trace
