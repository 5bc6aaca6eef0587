"""Columns of numbers on their way to the browser."""

import sys
from array import array


def as_bytes(column: array) -> bytes:
    """Little-endian, as every browser's typed arrays are."""
    if sys.byteorder == "big":
        column = column[:]
        column.byteswap()
    return column.tobytes()
