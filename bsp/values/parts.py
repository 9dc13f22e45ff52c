"""Rectangular parts of an array, which basic indices select, as bytes: what a small put writes, or a small get reads.

A part is a number of runs of bytes.  The first begins where the record says; the others follow along some axes, each
with a length and a stride in bytes, which may be negative.  In a record the description stands before the items, which
are in C order: two integers of 8 bytes, the number of axes and the bytes of a run, then all lengths, then all strides.
A get has the description alone.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from bsp.values.region import Region

_HEAD = struct.Struct("<qq")


class Part(NamedTuple):
    """A part that has been read: the bytes of a run, lengths and strides of the axes, and the items."""

    run: int
    lengths: tuple[int, ...]
    strides: tuple[int, ...]
    items: bytes

    def extent(self, start: int) -> tuple[int, int]:
        """Return the first byte that a part from `start` on covers, and the one after its last."""
        spans = [(length - 1) * stride for length, stride in zip(self.lengths, self.strides, strict=True)]
        return start + sum(min(0, each) for each in spans), start + sum(max(0, each) for each in spans) + self.run

    @property
    def size(self) -> int:
        """The bytes of the part."""
        return self.run * prod(self.lengths)

    def view(self, memory: np.ndarray, start: int) -> np.ndarray:
        """Return the bytes of the part that begins at byte `start` of some memory, as a view.  Raises IndexError."""
        return self.region(start, 1).view(memory, np.dtype(np.uint8))

    def region(self, start: int, itemsize: int) -> Region:
        """Return the part that begins at byte `start` as a region of an array whose items have `itemsize` bytes."""
        first, count = start // itemsize, self.run // itemsize
        if not self.lengths:
            return Region((count,), first, first + count)
        strides = (*(stride // itemsize for stride in self.strides), 1)
        return Region((*self.lengths, count), first, strides=strides)


@lru_cache(maxsize=1024)
def description(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> bytes:
    """Return the description of a part of this shape, not empty, whose strides are given in items."""
    run = itemsize
    axes: list[tuple[int, int]] = []
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        if not axes and stride * itemsize == run:
            run *= length
        elif length > 1:
            axes.append((length, stride * itemsize))
    numbers = [length for length, _ in reversed(axes)] + [stride for _, stride in reversed(axes)]
    return _HEAD.pack(len(axes), run) + struct.pack(f"<{len(numbers)}q", *numbers)


def read_part(data: bytes, filled: bool = True) -> Part:
    """Return the part in the data of a record, with its items or without; raises ValueError if they are damaged."""
    end = _HEAD.size + 16 * int.from_bytes(data[:8], "little", signed=True)
    found = _read(data[:end]) if _HEAD.size <= end <= len(data) else None
    if found is None or len(data) - end != (found.size if filled else 0):
        raise ValueError("a record has the description of another part than its items fill")
    return Part(found.run, found.lengths, found.strides, data[end:])


@lru_cache(maxsize=1024)
def _read(described: bytes) -> Part | None:
    """Return the part of a description, without items; None if it has a length that is not positive."""
    axes, run = _HEAD.unpack_from(described)
    numbers = struct.unpack_from(f"<{2 * axes}q", described, _HEAD.size)
    found = Part(run, numbers[:axes], numbers[axes:], b"")
    return found if min((run, *found.lengths)) > 0 else None
