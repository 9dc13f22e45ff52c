"""Memory for values that travel: large arrays begin at a page.

Between processes of a host MPI has the kernel copy, by an instruction that on some processors takes five times as long
where the place of a byte lies 1 to 31 bytes behind its source, pages left aside.  The C library makes that likely: it
puts a header of 16 bytes before each array, so that arrays of the same size, made one after the other, begin 16 bytes
further within a page each.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

PAGE = 4096  # bytes
LARGE = 1 << 15  # bytes; smaller arrays are left to NumPy


def at_page(size: int, zero: bool = False) -> np.ndarray:
    """Return `size` bytes that begin at a page, zero or with arbitrary values."""
    whole = (np.zeros if zero else np.empty)(size + PAGE, np.uint8)
    start = -whole.__array_interface__["data"][0] % PAGE
    return whole[start : start + size]


def empty(shape: int | tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return a C-ordered array with arbitrary values, for values that arrive."""
    size = dtype.itemsize * (shape if isinstance(shape, int) else prod(shape))
    return np.empty(shape, dtype) if size < LARGE else at_page(size).view(dtype).reshape(shape)
