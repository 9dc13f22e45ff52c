"""Positions in an array: which block each is in, and the part of a block that slices of the other axes select.

Some axes of an array are indexed by arrays of positions, which broadcast to one shape; the others by slices.  What
is found has the shape of the positions first, the sliced axes after.  `routes` moves the elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.execution import memory
from bsp.arrays.expressions.layout import Axis, Layout, Shape
from bsp.declared import Reported, declares
from bsp.values.payload import is_abstract


class Slice(NamedTuple):
    """A slice of an axis: the positions start + step·k for 0 <= k < size; step is positive."""

    start: int
    step: int
    size: int

    def part(self, low: int, high: int) -> slice:
        """Return the slice of the axis for k = low, ..., high - 1."""
        if high <= low:
            return slice(0, 0)
        return slice(self.start + self.step * low, self.start + self.step * (high - 1) + 1, self.step)


class Lookup(NamedTuple):
    """A lookup in an array: which axes are indexed by positions, of which shape, and the slices of the others."""

    places: tuple[int, ...]  # axes that positions index
    slices: tuple[tuple[int, Slice], ...]  # the other axes, ascending
    outer: Shape  # the common shape of the positions

    @property
    def rest(self) -> Shape:
        """The lengths of the sliced axes."""
        return tuple(each.size for _, each in self.slices)


_FEW = 8  # parts up to which a comparison with each bound takes less than a search among them


def _part_of(axis: Axis, positions: np.ndarray) -> np.ndarray:
    """Return for each position the number of its part of an axis."""
    if axis.parts > _FEW:
        return np.searchsorted(axis.bounds, positions, side="right") - 1
    found = np.zeros(positions.shape, np.int64)
    for bound in axis.bounds[1:-1]:
        found += positions >= bound
    return found


class Owners:
    """The map from positions along the indexed axes to blocks of a layout, and to places in a block."""

    def __init__(self, layout: Layout, places: Sequence[int]) -> None:
        self.layout = layout
        self.places = places
        self.axes = [layout.axes[axis] for axis in places]
        self.single = all(axis.parts == 1 for axis in self.axes)  # whether all positions are in one part

    def codes(self, positions: Sequence[np.ndarray]) -> np.ndarray:
        """Return for each position the number, in C order, of its part along the indexed axes."""
        found: Any = 0
        for axis, each in zip(self.axes, positions, strict=True):
            found = found * axis.parts + _part_of(axis, each)
        return np.asarray(found)

    def code(self, at: Shape) -> int:
        """Return the number of a block's part along the indexed axes, as `codes` counts them."""
        found = 0
        for axis, place in zip(self.axes, self.places, strict=True):
            found = found * axis.parts + at[place]
        return found

    def inside(self, at: Shape, positions: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Return positions relative to the start of a block."""
        starts = [int(axis.bounds[at[place]]) for axis, place in zip(self.axes, self.places, strict=True)]
        return [each - start if start else each for start, each in zip(starts, positions, strict=True)]


def _codes_at_most(costs: Reported, owners: Owners, positions: Sequence[Any]) -> np.ndarray:
    """Declare the cost of `codes_of`, assuming that positions without values are all in one block."""
    if not any(is_abstract(each) for each in positions):
        return owners.codes(positions)
    costs.at_most()
    return np.zeros(positions[0].shape, np.int64)


@declares(_codes_at_most)
def codes_of(owners: Owners, positions: Sequence[Any]) -> np.ndarray:
    """Return `owners.codes` of replicated positions."""
    return owners.codes(positions)


def _sliced(axis: Axis, part: int, each: Slice) -> tuple[int, int]:
    """Return the range of k for which the slice's positions start + step·k are in a part of the axis."""
    low, high = int(axis.bounds[part]), int(axis.bounds[part + 1])
    first = -((each.start - low) // each.step)
    last = -((each.start - high) // each.step)
    return min(max(first, 0), each.size), min(max(last, 0), each.size)


def _local(axis: Axis, part: int, each: Slice, low: int, high: int) -> slice:
    """Return the positions for k = low, ..., high - 1 of a slice as a slice of a part of the axis."""
    first = each.start + each.step * low - int(axis.bounds[part])
    return slice(first, first + each.step * (high - low - 1) + 1, each.step) if high > low else slice(0, 0)


class Piece(NamedTuple):
    """The intersection of a block and a box of the sliced axes, as slices of the block and of the box."""

    local: tuple[slice, ...]
    into: tuple[slice, ...]
    empty: bool

    @property
    def shape(self) -> Shape:
        """The lengths of the sliced axes in the intersection."""
        return tuple(each.stop - each.start for each in self.into)


def meeting(layout: Layout, at: Shape, what: Lookup, box: Sequence[tuple[int, int]]) -> Piece:
    """Return the intersection of block `at` and a box of the sliced axes; the box is in positions of the slices."""
    local, into, empty = [], [], False
    for (axis, each), (start, stop) in zip(what.slices, box, strict=True):
        low, high = _sliced(layout.axes[axis], at[axis], each)
        low, high = max(low, start), min(high, stop)
        empty = empty or high <= low
        local.append(_local(layout.axes[axis], at[axis], each, low, high))
        into.append(slice(low - start, high - start))
    return Piece(tuple(local), tuple(into), empty)


def front(block: Any, what: Lookup) -> Any:
    """Return a view of a block with the indexed axes first."""
    order = (*what.places, *[axis for axis, _ in what.slices])
    return block if order == tuple(range(len(order))) else block.transpose(order)


def elements(block: Any, what: Lookup, inside: Sequence[Any], local: tuple[slice, ...]) -> Any:
    """Return the elements of a block at positions inside it, and local slices of the other axes; the positions first.

    Along one axis they are taken in the order in which they lie in memory: the result's axes are a permutation of that.
    """
    view = front(block, what)
    if not isinstance(view, np.ndarray) or len(inside) != 1 or not view.size:
        return view[(*inside, *local)]
    view = view[(slice(None), *local)]
    order = sorted(range(view.ndim), key=lambda axis: -abs(view.strides[axis]))
    turned = view.transpose(order)
    if not turned.flags.c_contiguous:  # `take` would copy all of it
        return view[inside[0]]
    (positions,) = inside
    place, new = order.index(0), positions.ndim
    shape = (*turned.shape[:place], *positions.shape, *turned.shape[place + 1 :])
    # mode="clip" writes into `out` without a buffer; no position is out of range
    found = turned.take(positions, axis=place, out=memory.empty(shape, view.dtype), mode="clip")
    back = [axis if axis < place else axis + new - 1 for axis in map(order.index, range(1, view.ndim))]
    return found.transpose(*range(place, place + new), *back)


ALL = slice(None)


def grouped(codes: np.ndarray) -> Iterator[tuple[int, np.ndarray | slice]]:
    """Yield each code that occurs, ascending, with the rows that have it, ascending; `ALL` if all have the same."""
    if not codes.size:
        return
    low, high = int(codes.min()), int(codes.max())
    if low == high:
        yield low, ALL
        return
    narrow = codes.astype(np.uint16) if high < 1 << 16 else codes
    order = np.argsort(narrow, kind="stable")
    cuts = np.searchsorted(narrow[order], np.arange(low, high + 2))
    for code in range(low, high + 1):
        start, stop = int(cuts[code - low]), int(cuts[code - low + 1])
        if stop > start:
            yield code, order[start:stop]
