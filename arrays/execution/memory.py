"""A pool that reuses the memory of large blocks: the first use of a fresh page costs more than writing its numbers.

The memory of a block returns to the pool when neither the block nor a view of it is referenced any more.  The moment
changes no result, only whether the next block finds its pages mapped.  The pool keeps at most KEPT_BYTES, for all
processes of an interpreter.
"""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

SMALLEST = 1 << 20  # bytes; smaller blocks are left to the allocator, which keeps their memory itself
KEPT_BYTES = 256 << 20

_free: dict[int, list[ctypes.Array[Any]]] = {}
_kept = 0


class _Lent(np.ndarray):
    """A block that returns its memory to the pool.  It is the base of every view of the block, so it goes last."""

    memory: ctypes.Array[Any]

    def __del__(self) -> None:
        global _kept
        memory = getattr(self, "memory", None)
        if memory is not None and _kept + len(memory) <= KEPT_BYTES:
            _kept += len(memory)
            _free.setdefault(len(memory), []).append(memory)

    def __array_finalize__(self, other: Any) -> None:
        """Leave `memory` unset on a view of this array, so that the view returns nothing to the pool."""


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """Return a new C-ordered array with arbitrary values; a large one may reuse memory of the pool."""
    global _kept
    size = prod(shape) * dtype.itemsize
    if size < SMALLEST:
        return np.empty(shape, dtype)
    blocks = _free.get(size)
    if blocks:
        memory = blocks.pop()
        _kept -= size
    else:
        # A ctypes array, no NumPy array: NumPy shortens a chain of bases to the array that owns the memory.  Here the
        # base of all views must be the _Lent array, whose end returns the memory.
        memory = (ctypes.c_ubyte * size).from_buffer(np.empty(size, np.uint8).data)
    lent = np.ndarray.__new__(_Lent, shape, dtype, buffer=memory)  # type: ignore[arg-type]  # it is a buffer
    lent.memory = memory
    return lent.view(np.ndarray)


def copied(block: Any) -> Any:
    """Return a copy of a block in C order; a large one may reuse memory of the pool.  Also of blocks without values."""
    if not isinstance(block, np.ndarray):
        return block.copy()
    found = empty(block.shape, block.dtype)
    found[...] = block
    return found


def release() -> None:
    """Free all memory that the pool keeps."""
    global _kept
    _free.clear()
    _kept = 0
