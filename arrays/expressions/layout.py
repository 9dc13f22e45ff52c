"""Layouts: the cuts of an array along each axis, and the processes that own the blocks.

An axis of `length` is cut into `parts`, as evenly as possible unless `cuts` lists the positions.  Part k belongs to
digit k mod `deal` of the process grid, and the owner of a block is the sum of digit · `stride` over the axes
(block-cyclic in mixed radix; NumS, section 3.4).  A transpose permutes the axes, so it moves no data.  Small arrays
are *replicated*: every process holds them whole.

Equal layouts are one object.  Everything here is a pure function of shapes, p and options, never of the number of
elements (D5).  Consecutive pids share an element, so the processes of an element differ in the last digits of the
grid.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property, lru_cache
from math import prod
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from bsp.arrays.errors import LayoutError

Shape = tuple[int, ...]

# Arrays of at most so many elements are replicated unless the program gives a grid: to compute them on every process
# costs less than one superstep's L on the machines that were measured.
REPLICATED_SIZE = int(os.environ.get("BSP_ARRAYS_REPLICATED_SIZE", "16384"))


class Axis(NamedTuple):
    """Cuts of one axis, and its digit of the process grid."""

    length: int
    parts: int = 1
    deal: int = 1
    stride: int = 0
    cuts: tuple[int, ...] | None = None  # parts + 1 positions; None: as even as possible

    @property
    def bounds(self) -> np.ndarray:
        """Positions at which the parts begin and end: parts + 1 of them."""
        return _bounds(self.length, self.parts, self.cuts)

    def digits(self) -> np.ndarray:
        """Return the contribution of each part to its owner's pid."""
        return np.arange(self.parts) % self.deal * self.stride

    def part_of(self, position: int) -> int:
        """Return the part that contains a position."""
        return int(np.searchsorted(self.bounds, position, side="right")) - 1


@lru_cache(maxsize=4096)
def _bounds(length: int, parts: int, cuts: tuple[int, ...] | None) -> np.ndarray:
    found = np.array(cuts, np.int64) if cuts is not None else np.arange(parts + 1, dtype=np.int64) * length // parts
    found.flags.writeable = False
    return found


class Layout:
    """Cuts and owners of an array's blocks.  Create layouts by `layout_of`, so that equal ones are identical."""

    def __init__(self, axes: tuple[Axis, ...], replicated: bool, table: tuple[int, ...] | None) -> None:
        self.axes = axes
        self.replicated = replicated
        self.table = table  # owners in C order of the grid; None: given by the process grid
        self.shape: Shape = tuple(axis.length for axis in axes)
        self.grid: Shape = tuple(axis.parts for axis in axes)
        self.blocks = prod(self.grid)
        self._own: dict[int, list[Shape]] = {}
        self._boxes: dict[Shape, tuple[tuple[int, int], ...]] = {}

    @property
    def process_grid(self) -> Shape:
        """Number of processes along each axis."""
        return tuple(axis.deal for axis in self.axes)

    @cached_property
    def regular(self) -> bool:
        """True if a process grid gives the owners, so that the digits of a pid determine its blocks."""
        if self.table is not None or self.replicated:
            return False
        least = 1
        for axis in sorted((axis for axis in self.axes if axis.deal > 1), key=lambda axis: axis.stride):
            if axis.stride < least:
                return False
            least = axis.stride * axis.deal
        return True

    def split(self, axis: int) -> int:
        """Return the number of shares of an axis: its process grid digits, or its parts if placed one by one."""
        return self.axes[axis].deal if self.table is None else self.axes[axis].parts

    @cached_property
    def merged(self) -> Layout:
        """The layout with one block along each axis that is not dealt: a process holds those blocks side by side.

        Blocks that are placed one by one stay apart.
        """
        if self.table is not None or all(axis.parts == 1 or axis.deal > 1 for axis in self.axes):
            return self
        return layout_of(tuple(axis if axis.deal > 1 else Axis(axis.length) for axis in self.axes), self.replicated)

    @cached_property
    def owner(self) -> np.ndarray:
        """Pid of each block's owner, in the shape of the grid; 0 for a replicated array."""
        if self.table is not None:
            return np.array(self.table).reshape(self.grid)
        found = np.zeros((), np.int64)
        for axis in self.axes:
            found = found[..., None] + axis.digits()
        return found

    def mine(self, pid: int) -> list[Shape]:
        """Return the coordinates of a process's blocks, in C order."""
        found = self._own.get(pid)
        if found is None:
            if self.replicated:
                found = [tuple(map(int, at)) for at in np.ndindex(*self.grid)]
            elif self.table is not None:
                found = [tuple(map(int, at)) for at in np.argwhere(self.owner == pid)]
            else:
                found = self._dealt(pid)
            self._own[pid] = found
        return found

    def owner_of(self, at: Shape) -> int:
        """Return the pid of the owner of one block; -1 for a replicated array."""
        if self.replicated:
            return -1
        if self.table is not None:
            return int(self.owner[at])
        return sum(part % axis.deal * axis.stride for axis, part in zip(self.axes, at, strict=True) if axis.deal > 1)

    def digits_of(self, pid: int) -> tuple[int, ...] | None:
        """Return the digit of a pid along each axis of a process grid; None for a pid outside the grid."""
        rest, digits = pid, [0] * len(self.axes)
        for k in self._widest_first:
            axis = self.axes[k]
            digits[k] = min(rest // axis.stride, axis.deal - 1)
            rest -= digits[k] * axis.stride
        return None if rest else tuple(digits)

    @cached_property
    def _widest_first(self) -> list[int]:
        """The axes that are dealt, in descending order of their strides."""
        return sorted((k for k, axis in enumerate(self.axes) if axis.deal > 1), key=lambda k: -self.axes[k].stride)

    def _dealt(self, pid: int) -> list[Shape]:
        """Return a process's blocks on a process grid, without looking at all owners: every deal-th part of an axis."""
        digits = self.digits_of(pid)
        if digits is None:
            return []
        choices = [range(digit, axis.parts, axis.deal) for digit, axis in zip(digits, self.axes, strict=True)]
        return [
            tuple(int(axis[k]) for axis, k in zip(choices, at, strict=True)) for at in np.ndindex(*map(len, choices))
        ]

    def box(self, at: Shape) -> tuple[tuple[int, int], ...]:
        """Return the index range (start, stop) of a block along each axis."""
        found = self._boxes.get(at)
        if found is None:
            ranges = [axis.bounds[k : k + 2].tolist() for axis, k in zip(self.axes, at, strict=True)]
            found = self._boxes[at] = tuple((start, stop) for start, stop in ranges)
        return found

    def block_shape(self, at: Shape) -> Shape:
        """Return the shape of a block."""
        return tuple(stop - start for start, stop in self.box(at))

    @cached_property
    def sizes(self) -> np.ndarray:
        """Number of elements of each block, in the shape of the grid."""
        found = np.ones((), np.int64)
        for axis in self.axes:
            found = found[..., None] * np.diff(axis.bounds)
        return found

    def held(self, nprocs: int) -> np.ndarray:
        """Return the number of elements on each process."""
        if self.replicated:
            return np.full(nprocs, prod(self.shape), np.int64)
        return np.bincount(self.owner.reshape(-1), self.sizes.reshape(-1), nprocs).astype(np.int64)

    @property
    def processes(self) -> str:
        """Number of processes as text, such as "2x3" for a process grid."""
        if self.replicated:
            return "all"
        if self.table is not None:
            return str(len(set(self.table)))
        return "x".join(map(str, self.process_grid)) or "1"

    @property
    def where(self) -> str:
        """Description of blocks and processes as text."""
        if self.replicated:
            return "on every process"
        grid = "x".join(map(str, self.grid)) or "1"
        if self.table is not None:
            return f"{grid} blocks, placed one by one"
        return f"{grid} blocks on {self.processes} processes"

    def __repr__(self) -> str:
        cuts = "".join(f", cut at {axis.cuts}" for axis in self.axes if axis.cuts is not None)
        table = "" if self.table is None else f" {self.table}"
        return f"{self.shape} {self.where}{cuts}{table}"

    def __reduce__(self) -> Any:
        return layout_of, (self.axes, self.replicated, self.table)


_layouts: WeakValueDictionary[Any, Layout] = WeakValueDictionary()  # all layouts in use


def layout_of(axes: tuple[Axis, ...], replicated: bool = False, table: tuple[int, ...] | None = None) -> Layout:
    """Return the interned layout of these axes.

    table : the owners of the blocks, in C order, if no process grid gives them.
    """
    key = (axes, replicated, table)
    found = _layouts.get(key)
    if found is None:
        found = _layouts[key] = Layout(axes, replicated, table)
    return found


@lru_cache(maxsize=8192)
def replicated(shape: Shape) -> Layout:
    """Return the layout of an array that every process holds whole."""
    return layout_of(tuple(Axis(length) for length in shape), True)


def factors(number: int) -> list[int]:
    """Return the prime factors of a number, largest first."""
    found, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return sorted([*found, number] if number > 1 else found, reverse=True)


def dealt(shape: Shape, parts: Sequence[int], grid: Sequence[int], cuts: Sequence[Any] | None = None) -> Layout:
    """Return the layout with `parts` blocks along each axis, dealt to a process grid in row-major order.

    cuts : for each axis the positions of its cuts, or None for even ones.
    """
    strides = [prod(grid[axis + 1 :]) for axis in range(len(grid))]
    return layout_of(
        tuple(
            Axis(length, count, min(deal, count), stride if min(deal, count) > 1 else 0, cut)
            for length, count, deal, stride, cut in zip(
                shape, parts, grid, strides, cuts or [None] * len(shape), strict=True
            )
        )
    )


@lru_cache(maxsize=8192)
def automatic(shape: Shape, nprocs: int, small: bool = True) -> Layout:
    """Return the layout with one block for each process, the longest axes cut most.

    The prime factors of p, largest first, each go to the axis with the longest blocks (the first of equals), so that
    blocks have little surface.  A factor is left out if no axis can be cut any more.

    small : replicate arrays of at most REPLICATED_SIZE elements.
    """
    if small and prod(shape) <= REPLICATED_SIZE:
        return replicated(shape)
    grid = [1] * len(shape)
    for factor in factors(nprocs):
        if shape:
            axis = max(range(len(shape)), key=lambda axis: (shape[axis] / grid[axis], -axis))
            if shape[axis] > grid[axis] or not prod(shape):
                grid[axis] *= factor
    return replicated(shape) if nprocs == 1 else dealt(shape, grid, grid)


@lru_cache(maxsize=8192)
def asked(shape: Shape, nprocs: int, grid: Shape | None, process_grid: Shape | None) -> Layout:
    """Return the layout for the options `grid=` and `process_grid=`; either alone determines the other.

    Raises LayoutError if they do not fit the shape's dimensions or the number of processes.
    """
    if grid is None and process_grid is None:
        return automatic(shape, nprocs)
    for name, given in (("grid", grid), ("process_grid", process_grid)):
        if given is not None and (len(given) != len(shape) or any(count < 1 for count in given)):
            raise LayoutError(
                f"{name}={given} of an array of shape {shape}: one number, 1 or more, for each of its {len(shape)} axes"
            )
    if process_grid is None:
        assert grid is not None
        process_grid = _fitting(grid, nprocs)
    elif prod(process_grid) > nprocs:
        raise LayoutError(f"process_grid={process_grid} takes {prod(process_grid)} processes; there are {nprocs}")
    if nprocs == 1 and set(grid or process_grid) <= {1}:
        return replicated(shape)
    return dealt(shape, grid or process_grid, process_grid)


def _fitting(grid: Shape, nprocs: int) -> Shape:
    """Return a process grid for so many blocks: as many processes as can have one, on the axes with most blocks."""
    found = [1] * len(grid)
    for factor in factors(nprocs):
        most = [axis for axis in range(len(grid)) if found[axis] * factor <= grid[axis]]
        if most:
            axis = max(most, key=lambda axis: (grid[axis] / found[axis], -axis))
            found[axis] *= factor
    spare = nprocs // prod(found)
    for axis in sorted(range(len(grid)), key=lambda axis: -grid[axis] / found[axis]):  # p has no factor small enough
        more = min(spare, -(-grid[axis] // found[axis]))
        if more > 1:
            found[axis] = min(found[axis] * more, grid[axis])
            spare = nprocs // prod(found)
    return tuple(found)


def ragged(shape: Shape, axis: int, counts: Sequence[int]) -> Layout:
    """Return the layout of slabs along one axis, with `counts[pid]` positions on process pid."""
    cuts: list[Any] = [None] * len(shape)
    cuts[axis] = tuple(int(c) for c in np.concatenate([[0], np.cumsum(counts)]))
    even = tuple(int(c) for c in _bounds(shape[axis], len(counts), None))
    if cuts[axis] == even:
        cuts[axis] = None
    grid = [1] * len(shape)
    grid[axis] = len(counts)
    return dealt(shape, grid, grid, cuts)


def table_layout(axes: tuple[Axis, ...], owner: np.ndarray) -> Layout:
    """Return the layout of blocks whose owners follow no process grid, as LSHS places them."""
    return layout_of(axes, False, tuple(int(pid) for pid in owner.reshape(-1)))
