"""Reuse of the memory for copies that buffered puts make, from superstep to superstep.

A fresh block of a megabyte costs more in page faults than the copy into it.  At most KEPT_BYTES of free
blocks are kept; everything else is left to NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.transport.compiled import copy
from bsp.values.memory import at_page
from bsp.values.payload import is_abstract

KEPT_BYTES = 32 << 20
_SMALLEST = 1 << 17  # bytes; the allocator itself keeps and reuses smaller blocks


class Staging:
    """Free blocks of memory by size in bytes; the one used last is reused first."""

    def __init__(self) -> None:
        self._free: dict[int, list[np.ndarray]] = {}
        self._kept = 0

    def copy(self, array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
        """Return a C-ordered copy of `array` as `dtype`, in a block of this object if it is large."""
        if is_abstract(array):
            return array.astype(dtype)
        size = array.size * dtype.itemsize
        if array.dtype != dtype:  # a number too large for a float32 becomes inf, as in an assignment
            with np.errstate(all="ignore"):
                array = array.astype(dtype)
        if size < _SMALLEST:
            return np.array(array, order="C", copy=True)
        blocks = self._free.get(size)
        if blocks:
            block = blocks.pop()
            self._kept -= size
        else:
            block = at_page(size)
        held = block.view(dtype).reshape(array.shape)
        if array.flags.c_contiguous:
            copy(block, array.reshape(-1).view(np.uint8))
        else:
            held[...] = array
        return held

    def give_back(self, held: np.ndarray) -> None:
        """Take the memory of a copy back for reuse.  Arrays that are not of `copy`, or small, are ignored."""
        if is_abstract(held):
            return
        base = held.base  # a copy is a view of bytes, as an array that NumPy has allocated is not
        if held.nbytes < _SMALLEST or not isinstance(base, np.ndarray) or base.dtype != np.uint8:
            return
        if self._kept + held.nbytes <= KEPT_BYTES:
            self._free.setdefault(held.nbytes, []).append(held.reshape(-1).view(np.uint8))
            self._kept += held.nbytes
