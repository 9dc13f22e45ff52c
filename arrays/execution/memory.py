"""Memory for large blocks, used again: a fresh page costs more than the number written to it.

A block goes back when nothing refers to it any more, views included.  When that is changes no result; only whether
the next block's pages are there already.  At most KEPT_BYTES are kept, for all processes of an interpreter.
"""

from __future__ import annotations

import ctypes
from math import prod
from typing import Any

import numpy as np

SMALLEST = 1 << 20  # bytes: below, the allocator keeps memory itself
KEPT_BYTES = 256 << 20

_free: dict[int, list[ctypes.Array[Any]]] = {}
_kept = 0


class _Lent(np.ndarray):
    """A block's memory while it is lent: the base of every view of it, so the last to go."""

    memory: ctypes.Array[Any]

    def __del__(self) -> None:
        global _kept
        memory = getattr(self, "memory", None)
        if memory is not None and _kept + len(memory) <= KEPT_BYTES:
            _kept += len(memory)
            _free.setdefault(len(memory), []).append(memory)

    def __array_finalize__(self, other: Any) -> None:
        """Views of views lend nothing."""


def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """A new C-ordered array; its values are anything."""
    global _kept
    size = prod(shape) * dtype.itemsize
    if size < SMALLEST:
        return np.empty(shape, dtype)
    blocks = _free.get(size)
    if blocks:
        memory = blocks.pop()
        _kept -= size
    else:
        # no array: NumPy would make an array that owns memory, not what is lent of it, the base of all views
        memory = (ctypes.c_ubyte * size).from_buffer(np.empty(size, np.uint8).data)
    lent = np.ndarray.__new__(_Lent, shape, dtype, buffer=memory)  # type: ignore[arg-type]  # it is a buffer
    lent.memory = memory
    return lent.view(np.ndarray)


def release() -> None:
    """Give back all that is kept."""
    global _kept
    _free.clear()
    _kept = 0
