"""Where the blocks of an array are: cuts along each axis, and the processes the pieces are dealt to.

An axis of `length` is cut into `parts`, as even as can be unless `cuts` says where; part k belongs to digit
k mod `deal` of the process grid, and the owner of a block is the sum of digit · `stride` over the axes
(block-cyclic in mixed radix; NumS 3.4).  Transposing permutes the axes, so nothing moves for it.  Small arrays
are *replicated*: every process has all of them.

Equal layouts are one object.  Everything here is a pure function of shapes, p and options, never of the
number of elements (D5): consecutive pids share an element, so the last digits of the grid are its processes.
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

# Arrays of at most so many elements are replicated unless a grid is asked for: to compute them everywhere costs
# less than one superstep's L on the machines we have measured.
REPLICATED_SIZE = int(os.environ.get("BSP_ARRAYS_REPLICATED_SIZE", "16384"))


class Axis(NamedTuple):
    """How one axis is cut and dealt."""

    length: int
    parts: int = 1
    deal: int = 1
    stride: int = 0
    cuts: tuple[int, ...] | None = None  # parts + 1 positions; None: as even as can be

    @property
    def bounds(self) -> np.ndarray:
        """Where the parts begin and end: parts + 1 positions."""
        return _bounds(self.length, self.parts, self.cuts)

    def digits(self) -> np.ndarray:
        """What each part adds to its owner's pid."""
        return np.arange(self.parts) % self.deal * self.stride

    def part_of(self, position: int) -> int:
        """The part that holds a position."""
        return int(np.searchsorted(self.bounds, position, side="right")) - 1


@lru_cache(maxsize=4096)
def _bounds(length: int, parts: int, cuts: tuple[int, ...] | None) -> np.ndarray:
    found = np.array(cuts, np.int64) if cuts is not None else np.arange(parts + 1, dtype=np.int64) * length // parts
    found.flags.writeable = False
    return found


class Layout:
    """The cuts and owners of an array; made by `layout_of`, so that equal ones are identical."""

    def __init__(self, axes: tuple[Axis, ...], replicated: bool, table: tuple[int, ...] | None) -> None:
        self.axes = axes
        self.replicated = replicated
        self.table = table  # owners in C order of the grid, where no process grid gives them
        self.shape: Shape = tuple(axis.length for axis in axes)
        self.grid: Shape = tuple(axis.parts for axis in axes)
        self.blocks = prod(self.grid)
        self._own: dict[int, list[Shape]] = {}

    @property
    def process_grid(self) -> Shape:
        """Processes along each axis."""
        return tuple(axis.deal for axis in self.axes)

    def split(self, axis: int) -> int:
        """Among how many an axis is split: digits of the process grid; blocks, where they are placed one by one."""
        return self.axes[axis].deal if self.table is None else self.axes[axis].parts

    @cached_property
    def owner(self) -> np.ndarray:
        """The pid of each block, in the shape of the grid; of a replicated array 0."""
        if self.table is not None:
            return np.array(self.table).reshape(self.grid)
        found = np.zeros((), np.int64)
        for axis in self.axes:
            found = found[..., None] + axis.digits()
        return found

    def mine(self, pid: int) -> list[Shape]:
        """The coordinates of a process's blocks, in C order."""
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

    def _dealt(self, pid: int) -> list[Shape]:
        rest, digit_of = pid, {}
        for axis in sorted(set(self.axes), key=lambda axis: -axis.stride):
            if axis.deal > 1:
                digit_of[axis.stride] = min(rest // axis.stride, axis.deal - 1)
                rest -= digit_of[axis.stride] * axis.stride
        if rest:
            return []
        choices = [range(digit_of[axis.stride] if axis.deal > 1 else 0, axis.parts, axis.deal) for axis in self.axes]
        return [
            tuple(int(axis[k]) for axis, k in zip(choices, at, strict=True)) for at in np.ndindex(*map(len, choices))
        ]

    def box(self, at: Shape) -> tuple[tuple[int, int], ...]:
        """The index ranges of a block."""
        return tuple((int(axis.bounds[k]), int(axis.bounds[k + 1])) for axis, k in zip(self.axes, at, strict=True))

    def block_shape(self, at: Shape) -> Shape:
        """The lengths of a block."""
        return tuple(stop - start for start, stop in self.box(at))

    @cached_property
    def sizes(self) -> np.ndarray:
        """Elements of each block, in the shape of the grid."""
        found = np.ones((), np.int64)
        for axis in self.axes:
            found = found[..., None] * np.diff(axis.bounds)
        return found

    def held(self, nprocs: int) -> np.ndarray:
        """Elements each process holds."""
        if self.replicated:
            return np.full(nprocs, prod(self.shape), np.int64)
        return np.bincount(self.owner.reshape(-1), self.sizes.reshape(-1), nprocs).astype(np.int64)

    @property
    def processes(self) -> str:
        """How many, in words: along each axis of the process grid if there is one."""
        if self.replicated:
            return "all"
        if self.table is not None:
            return str(len(set(self.table)))
        return "x".join(map(str, self.process_grid)) or "1"

    @property
    def where(self) -> str:
        """Blocks and processes in words."""
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


_layouts: WeakValueDictionary[Any, Layout] = WeakValueDictionary()  # all there are


def layout_of(axes: tuple[Axis, ...], replicated: bool = False, table: tuple[int, ...] | None = None) -> Layout:
    """The one layout of these axes."""
    key = (axes, replicated, table)
    found = _layouts.get(key)
    if found is None:
        found = _layouts[key] = Layout(axes, replicated, table)
    return found


@lru_cache(maxsize=8192)
def replicated(shape: Shape) -> Layout:
    """All of it on every process."""
    return layout_of(tuple(Axis(length) for length in shape), True)


def factors(number: int) -> list[int]:
    """Its prime factors, largest first."""
    found, divisor = [], 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    return sorted([*found, number] if number > 1 else found, reverse=True)


def dealt(shape: Shape, parts: Sequence[int], grid: Sequence[int], cuts: Sequence[Any] | None = None) -> Layout:
    """`parts` blocks along each axis on a process grid in row-major order."""
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
    """One block for each process, the longest axes cut most; small arrays replicated if `small`.

    p's prime factors, largest first, each go to the axis with the longest blocks (the first of equals), so
    that blocks have little surface; a factor that would cut nothing any more is left out.
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
    """The layout of `grid=` and `process_grid=`; either alone decides the other.

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
    """A process grid for so many blocks: as many processes as can have one, along the axes with most blocks."""
    found = [1] * len(grid)
    for factor in factors(nprocs):
        most = [axis for axis in range(len(grid)) if found[axis] * factor <= grid[axis]]
        if most:
            axis = max(most, key=lambda axis: (grid[axis] / found[axis], -axis))
            found[axis] *= factor
    spare = nprocs // prod(found)
    for axis in sorted(range(len(grid)), key=lambda axis: -grid[axis] / found[axis]):  # p has no factor that small
        more = min(spare, -(-grid[axis] // found[axis]))
        if more > 1:
            found[axis] = min(found[axis] * more, grid[axis])
            spare = nprocs // prod(found)
    return tuple(found)


def ragged(shape: Shape, axis: int, counts: Sequence[int]) -> Layout:
    """Slabs along one axis, `counts[pid]` of it on process pid."""
    cuts: list[Any] = [None] * len(shape)
    cuts[axis] = tuple(int(c) for c in np.concatenate([[0], np.cumsum(counts)]))
    even = tuple(int(c) for c in _bounds(shape[axis], len(counts), None))
    if cuts[axis] == even:
        cuts[axis] = None
    grid = [1] * len(shape)
    grid[axis] = len(counts)
    return dealt(shape, grid, grid, cuts)


def table_layout(axes: tuple[Axis, ...], owner: np.ndarray) -> Layout:
    """Blocks whose owners follow no process grid (LSHS)."""
    return layout_of(axes, False, tuple(int(pid) for pid in owner.reshape(-1)))
