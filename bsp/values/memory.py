"""Memory for values that travel, and for coarrays: large arrays begin at a page.

Between processes of a host MPI has the kernel copy, by an instruction that on some processors takes five times as long
where the place of a byte lies 1 to 31 bytes behind its source, pages left aside.  The C library makes that likely: it
puts a header of 16 bytes before each array, so that arrays of the same size, made one after the other, begin 16 bytes
further within a page each.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from bsp.errors import CastError

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


def local_array(shape: int | tuple[int, ...], dtype: DTypeLike, fill: Any) -> np.ndarray:
    """Return a new local array for a coarray.

    Raises CastError for a dtype of objects or of text without a length, and for a `fill` that integers cannot hold,
    such as NaN.
    """
    zero = type(fill) is int and fill == 0
    like = np.empty(shape, dtype)  # NumPy reads both, and no page is touched
    if like.dtype.hasobject:
        raise CastError("a coarray holds numbers, not Python objects: send objects with proc.send")
    wanted = np.dtype(dtype)
    if wanted.itemsize == 0 and wanted.names is None:  # NumPy takes a length of 1, to which every put would be cut
        raise CastError(f"dtype={like.dtype.type.__name__} has no length: a coarray of text takes one, as dtype='U20'")
    given = like if zero else np.asarray(fill)
    if given.dtype.kind in "fc" and like.dtype.kind in "biu":
        with np.errstate(invalid="ignore"):
            if not (given.real.astype(like.dtype) == given).all():
                raise CastError(f"fill={fill!r} is no {like.dtype}: give a coarray of floats dtype=float")
    if like.nbytes < LARGE:
        return np.zeros(shape, dtype) if zero else np.full(shape, fill, dtype)
    sizes, kind, size = like.shape, like.dtype, like.nbytes
    del like, given
    held = at_page(size, zero)
    array = held.view(kind).reshape(sizes)
    if zero:  # the system maps zeroed pages when they are first touched: touch them now, not in the first put
        held[::PAGE] = 0
    else:
        np.copyto(array, fill, casting="unsafe")
    return array
