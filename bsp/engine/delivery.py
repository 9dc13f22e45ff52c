"""Delivery on one element (D1): read the memory that gets address, then write puts in order.

Large blocks are received straight into the memory of their coarray, and borrowed ones are sent straight
from the memory of their owner.  Both are allowed only where the result is the same as in D1's order:
where the memory range of a block meets a range that another put of this superstep writes, the block is
staged (or the source copied), and the puts are applied one by one in D1's order.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from bsp.values.effects import Get, Put, PutEach
from bsp.values.operations import KNOWN
from bsp.values.payload import as_array, is_abstract

if TYPE_CHECKING:
    from bsp.coarray import Coarray

Range = tuple[int, int]  # addresses, the second exclusive


def address_range(array: np.ndarray) -> Range:
    """Return the range of addresses of a contiguous array; an array without values has none: (0, 0)."""
    if is_abstract(array):
        return 0, 0
    assert array.flags.c_contiguous
    start = array.__array_interface__["data"][0]
    return start, start + array.nbytes


def written_range(effect: Put | PutEach, coarray: Coarray) -> Range:
    """Return the memory that a put may write: exactly its range if that is contiguous, else the whole array."""
    start, stop = address_range(coarray.local)
    if start < stop and isinstance(effect, Put) and effect.region.is_range:
        size = coarray.local.itemsize
        return start + effect.region.start * size, start + effect.region.stop * size
    return start, stop


class Ranges:
    """A union of address ranges that can be tested for intersection with another range."""

    def __init__(self, ranges: Iterable[Range]) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []
        for start, stop in sorted(ranges):
            if self._stops and start <= self._stops[-1]:
                self._stops[-1] = max(self._stops[-1], stop)
            elif start < stop:
                self._starts.append(start)
                self._stops.append(stop)

    def meet(self, other: Range) -> bool:
        """Return whether some address lies in both."""
        # the united ranges are disjoint and sorted: only the last that starts at or before `other`, and the next
        k = bisect_right(self._starts, other[0])
        if k and self._stops[k - 1] > other[0]:
            return True
        return k < len(self._starts) and self._starts[k] < other[1]


def read(get: Get, coarray: Coarray) -> tuple[np.ndarray, bool]:
    """Return the values that a get addresses, flat and contiguous, and whether they are the coarray's own memory.

    A contiguous region is returned as a view, for the caller to copy where it must.  Anything else is a copy:
    its memory is no single range of addresses, and only a range can be sent or compared with what puts write.
    """
    if get.positions is not None:
        return as_array(coarray._flat[get.positions]), False
    assert get.region is not None
    if get.region.is_range:
        return as_array(coarray._flat[get.region.start : get.region.stop]), True
    if get.region.index is None:
        return get.region.view(coarray.raw, coarray.dtype).flatten(), False
    selected = as_array(coarray.local[get.region.index])
    return selected.copy().reshape(-1), False


def write(effect: Put | PutEach, coarray: Coarray) -> None:
    """Apply one put or accumulate to the owner's memory."""
    if is_abstract(coarray.local):
        return  # a shape does not change
    values = effect.values
    if values.dtype != coarray.local.dtype:  # a structured dtype travels as its bytes
        values = values.view(coarray.local.dtype)
    flat = coarray._flat
    if isinstance(effect, PutEach):
        if effect.op is None:
            flat[effect.positions] = values
        else:
            KNOWN[effect.op].accumulate_at(flat, effect.positions, values, repeats=True)
        return
    region = effect.region
    if region.is_range:
        if effect.op is None:
            flat[region.start : region.stop] = values.reshape(-1)
        else:
            KNOWN[effect.op].accumulate_at(flat, slice(region.start, region.stop), values.reshape(-1), repeats=False)
    elif region.index is None:
        part = region.view(coarray.raw, coarray.dtype)
        if effect.op is None:
            part[...] = values.reshape(region.shape)
        else:
            KNOWN[effect.op].accumulate_at(part, ..., values.reshape(region.shape), repeats=False)
    elif effect.op is None:
        coarray.local[region.index] = values.reshape(region.shape)
    else:
        repeats = any(isinstance(part, np.ndarray) for part in region.index)
        KNOWN[effect.op].accumulate_at(coarray.local, region.index, values.reshape(region.shape), repeats)


def asked_items(get: Get) -> int:
    """Return how many items a get reads; the process that asks and the owner of the memory compute the same."""
    if get.positions is not None:
        return int(get.positions.size)
    assert get.region is not None
    return prod(get.region.shape)
