"""Regions: an index `at` resolved against the shape of another process's array, without touching its memory.

Rule B4: negatives, `...`, slices and integer arrays mean what they mean to NumPy, except that an
explicit slice bound outside the array is an error: one-sided memory is never clipped silently.

NumPy itself does the index arithmetic, on arrays of the right shape that own one byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from types import EllipsisType
from typing import Any, TypeAlias

import numpy as np
from numpy.lib.stride_tricks import as_strided

Shape = tuple[int, ...]
Part: TypeAlias = int | np.integer[Any] | slice | EllipsisType | Sequence[int] | np.ndarray
At: TypeAlias = Part | tuple[Part, ...]  # what `resolve` takes
_LARGEST = np.iinfo(np.intp).max


@dataclass(slots=True)
class Region:
    """The elements that an index selects: a flat C range if `index` is None, else an index for NumPy.

    strides : of a rectangular part that is no range, in elements; it begins at element `start`.  Of one that came in a
        record (`bsp.values.parts`) they are known, and no index: `view` finds it.
    """

    shape: Shape
    start: int = 0
    stop: int = 0
    index: tuple[Any, ...] | None = None
    strides: Shape | None = None

    @property
    def is_range(self) -> bool:
        """True of a flat C range."""
        return self.index is None and self.strides is None

    def view(self, memory: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
        """Return a range, or a part with strides, of an array whose bytes are `memory`.

        Raises IndexError if it runs past them: NumPy's own check may overflow.
        """
        low, high, item = self.start, self.stop, dtype.itemsize
        if self.strides:
            spans = [(length - 1) * stride for length, stride in zip(self.shape, self.strides, strict=True)]
            low = self.start + sum(min(0, span) for span in spans)
            high = self.start + sum(max(0, span) for span in spans) + 1
        if low < 0 or high * item > memory.nbytes:
            raise IndexError("a put or a get runs past its coarray")
        if not self.strides:
            return np.ndarray((high - low,), dtype, memory.data, low * item)
        strides = [stride * item for stride in self.strides]
        return np.ndarray(self.shape, dtype, memory.data, self.start * item, strides)

    @property
    def is_rectangular(self) -> bool:
        """True of a range, and of a part with strides."""
        return self.index is None or self.strides is not None

    def positions(self, whole: Shape) -> np.ndarray:
        """Return the selected flat C positions, in order, in an array of shape `whole`."""
        if self.index is None:
            return np.arange(self.start, self.stop)
        return np.asarray(np.arange(prod(whole)).reshape(whole)[self.index]).ravel()


class OutOfRange(IndexError):
    """An index that runs past an array; the text is by how much, and the caller adds which array and call."""


def resolve(at: Any, shape: Shape) -> Region:
    """Return the region that `at` selects in an array of this shape.  Raises OutOfRange or TypeError."""
    if at is Ellipsis:
        return Region(shape, 0, prod(shape))
    if len(shape) == 1:
        length = shape[0]
        if type(at) is slice and (at.step is None or at.step == 1):
            start, stop = _bounds(at, length)
            return Region((stop - start,), start, stop)
        if type(at) is int:
            position = _position(at, length)
            return Region((), position, position + 1)
    numbers = _numbers(at)
    if numbers is not None:
        return _basic(numbers, shape)
    parts = plain(at)
    _check(parts, shape)
    if any(isinstance(part, np.ndarray) for part in parts):
        try:  # index a broadcast byte instead of an array: memory for the selection only
            picked = np.broadcast_to(np.uint8(0), shape)[parts]
        except IndexError as wrong:
            raise OutOfRange(str(wrong)) from None
        return Region(picked.shape, index=parts)
    return _rectangle(parts, shape)


def _numbers(at: Any) -> tuple[Any, ...] | None:
    """Return an index of integers, slices and `...` as what can be looked up: triples for slices; else None."""
    found: list[Any] = []
    for part in at if type(at) is tuple else (at,):
        if type(part) is int or part is Ellipsis:
            found.append(part)
        elif type(part) is slice:
            bounds = part.start, part.stop, part.step
            if any(each is not None and type(each) is not int for each in bounds):
                return None
            found.append(bounds)
        else:
            return None
    return tuple(found)


@lru_cache(maxsize=1024)
def _basic(numbers: tuple[Any, ...], shape: Shape) -> Region:
    """Return the region of an index of integers, slices and `...`: programs use the same ones in each superstep."""
    parts = plain(tuple(slice(*each) if type(each) is tuple else each for each in numbers))
    _check(parts, shape)
    return _rectangle(parts, shape)


def _rectangle(parts: tuple[Any, ...], shape: Shape) -> Region:
    """Return the region of an index without arrays that has been checked."""
    probe, base = _probe(shape)
    # with `...` in it even an index of integers alone gives a view, and reads nothing
    view = probe[parts if any(part is Ellipsis for part in parts) else (*parts, ...)]
    start = view.__array_interface__["data"][0] - base if view.size else 0
    if view.flags.c_contiguous:
        return Region(view.shape, start, start + view.size)
    return Region(view.shape, start, index=parts, strides=view.strides)


def plain(at: Any) -> tuple[Any, ...]:
    """Return an index as integers, slices, `...` and arrays of its own (copies); TypeError for anything else."""
    parts = tuple(_plain(part) for part in (at if isinstance(at, tuple) else (at,)))
    if sum(part is Ellipsis for part in parts) > 1:
        raise TypeError("at= takes a single '...'")
    return parts


def _bounds(at: slice, length: int) -> tuple[int, int]:
    """Return start and stop of a slice; raise OutOfRange for an explicit bound outside the array."""
    for bound in (at.start, at.stop):
        if bound is not None and not -length <= bound <= length:
            past = bound - length if bound > 0 else -length - bound
            raise OutOfRange(f"runs {past} past the {'end' if bound > 0 else 'start'}")
    start, stop, _ = at.indices(length)
    return start, max(start, stop)


def _position(at: int, length: int) -> int:
    """Return an integer index counted from 0; raise OutOfRange if it is outside the array."""
    if not -length <= at < length:
        past = at - length + 1 if at >= 0 else -length - at
        raise OutOfRange(f"runs {past} past the {'end' if at >= 0 else 'start'}")
    return at + length if at < 0 else at


def _plain(part: Any) -> Any:
    """Return one part of an index as an int, a slice, `...`, or an array of positions (a copy)."""
    if isinstance(part, slice) and part.step == 0:
        raise TypeError("at= takes no slice with step 0")
    if part is Ellipsis or (isinstance(part, (slice, int)) and not isinstance(part, bool)):
        return part
    if part is None:
        raise TypeError("at= takes no newaxis: it addresses the memory as it is")
    array = np.array(part)
    if array.size == 0 and array.dtype.kind == "f":
        array = array.astype(np.intp)
    if array.dtype.kind not in "iub":
        raise TypeError(f"at= takes integers, slices, '...' and integer arrays, not {array.dtype}")
    if array.dtype.kind == "b":
        return array
    if array.ndim == 0:
        return int(array)
    if array.size and int(array.max()) > _LARGEST:  # an unsigned position that NumPy would wrap around
        raise OutOfRange(f"has position {int(array.max())}, past the end")
    return array.astype(np.intp, copy=False)


def _check(parts: tuple[Any, ...], shape: Shape) -> None:
    """Check the number of dimensions, explicit slice bounds, integers and masks; NumPy checks integer arrays."""
    used = sum(part.ndim if _is_mask(part) else part is not Ellipsis for part in parts)
    if used > len(shape):
        raise OutOfRange(f"has {used} indices for {len(shape)} dimensions")
    axis = 0
    for part in parts:
        if part is Ellipsis:
            axis += len(shape) - used
        elif _is_mask(part):
            if part.shape != shape[axis : axis + part.ndim]:
                raise OutOfRange(f"has a mask of shape {part.shape} for {shape[axis : axis + part.ndim]}")
            axis += part.ndim
        else:
            if isinstance(part, slice):
                _bounds(part, shape[axis])
            elif isinstance(part, int):
                _position(part, shape[axis])
            axis += 1


def _is_mask(part: Any) -> bool:
    """Return whether a part of an index is a boolean array."""
    return isinstance(part, np.ndarray) and part.dtype == bool


@lru_cache(maxsize=256)
def _probe(shape: Shape) -> tuple[np.ndarray, int]:
    """Return an array of this shape that owns one byte, and its address; the offset of a view is that of its region.

    Basic indexing only does arithmetic on shape and strides, and never reads the memory.  The strides are those of
    C-ordered bytes, except that an axis of length 0 counts as 1.
    """
    byte = np.zeros(1, np.uint8)
    strides = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * max(shape[axis + 1], 1)
    probe = as_strided(byte, shape, strides, writeable=False)
    return probe, byte.__array_interface__["data"][0]
