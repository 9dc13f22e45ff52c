"""A pool that reuses the memory of large blocks: the first use of a fresh page costs more than writing its numbers.

The memory of a block returns to the pool when neither the block nor a view of it is referenced any more.  The moment
changes no result, only whether the next block finds its pages mapped.  The pool keeps at most KEPT_BYTES, for all
processes of an interpreter.

A block may be written to where it is only if nothing else refers to its memory (`alone`).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from math import prod
from sys import getrefcount
from typing import Any

import numpy as np

from bsp.values.memory import at_page
from bsp.values.payload import is_abstract

SMALLEST = 1 << 20  # bytes; smaller blocks are left to the allocator, which keeps their memory itself
KEPT_BYTES = 256 << 20

_free: dict[int, list[ctypes.Array[Any]]] = {}
_kept = 0
_trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None


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
        memory = (ctypes.c_ubyte * size).from_buffer(at_page(size).data)
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


def returned(size: int) -> None:
    """Give what the allocator keeps of freed memory back to the system, if it may be as much as `size` bytes.

    glibc raises the size from which arrays have pages of their own to that of the largest one freed, up to 32 MiB, and
    keeps what is below: twice the size of a sparse matrix after `diags` made it.  Elsewhere this does nothing.
    """
    if size >= SMALLEST and _trim is not None:
        _trim(0)


def alone(blocks: Mapping[Any, Any], at: Any) -> bool:
    """Return whether a block may be written to where it is: nothing but `blocks` refers to it or to its memory.

    Every view of a block, and every buffer that is exported from it, refers to the block or to the array whose memory
    it uses, so Python's reference counts show them all.  The counts are those of this process: whatever follows from
    the answer must change no values, plans or supersteps.
    """
    of_block, of_owner = _counts(blocks, at)
    if of_block > _ALONE[0]:
        return False
    block = blocks[at]
    if type(block) is not np.ndarray and is_abstract(block):
        return of_owner <= _ALONE[1]
    base = block.base
    if base is not None and (type(base) is not _Lent and (type(base) is not np.ndarray or base.base is not None)):
        return False  # memory of unknown owners, such as a buffer
    flags = block.flags
    return flags.writeable and flags.forc and (base is None or of_owner <= _ALONE[1])


def _counts(blocks: Mapping[Any, Any], at: Any) -> tuple[int, int]:
    """Return the reference counts of a block and of the owner of its memory."""
    block = blocks[at]
    owner = block.base if type(block) is np.ndarray or not is_abstract(block) else block._block
    return getrefcount(block), getrefcount(owner)


_ALONE = _counts({0: np.empty(1)[:]}, 0)  # the counts of a block that only its dictionary refers to
