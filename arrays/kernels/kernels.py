"""Kernels: how the tasks of a stage compute blocks from the regions that were brought to them.

A kernel takes a process's tasks and returns the blocks of the stage's value.  Each task has its coordinates, the
index range of every label, and one region for each reference, with axes in label order.  No kernel changes a region,
so a block may be a region itself; only a block of `Room.spare`, which nothing else refers to, is written over.
Assignments, too, write into a block only if nothing else refers to it (`writing`).

Each kernel also declares its blocks and their cost, for runs without values: `declared` returns blocks of the same
shapes and counts the same operations, without calling `compute`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np

from bsp.abstract.work import CACHED, counter
from bsp.arrays.expressions.graph import Blocks, DType
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.kernels.programs import Program


class StageTask(NamedTuple):
    """One task of a stage: its coordinates, its index ranges, and the regions that it reads."""

    at: Shape
    box: tuple[tuple[int, int], ...]  # index range of each label
    regions: list[Any]

    @property
    def shape(self) -> Shape:
        """Extent of each label in this task."""
        return extents(self.box)


@lru_cache(maxsize=4096)
def extents(box: tuple[tuple[int, int], ...]) -> Shape:
    """Return the number of positions along each axis of an index range."""
    return tuple(stop - start for start, stop in box)


def charge(kernel: str, flops: float, arrays: Iterable[Any]) -> None:
    """Count the flops of a kernel, and as memory traffic the bytes of those arrays that are too large for the cache."""
    counter.flops(kernel, flops)
    counter.moved(sum(array.nbytes for array in arrays if array.size > CACHED))


def charge_program(program: Program, points: int, arrays: Iterable[Any]) -> None:
    """Count the operations of a program for so many points, functions in their own class; memory as `charge`."""
    if program.functions:
        charge("functions", points * program.functions, [])
    charge("elementwise", points * (program.operations - program.functions), arrays)


def filling(array: Any, shape: Shape) -> Any:
    """Return the array itself if it has the shape, else a view broadcast to it."""
    return array if array.shape == shape else np.broadcast_to(array, shape)


class SlotsInterface(Protocol):
    """Interface of `planning.slots.Slots` for kernels: the blocks to which partial results go."""

    labels: list[int]
    layout: Layout

    def place(self, at: Shape) -> Shape:
        """Return the coordinates of the block to which a task adds."""

    def mine(self, pid: int) -> list[Shape]:
        """Return the coordinates of all blocks of a process."""


class Room(Protocol):
    """Environment of a kernel: allocates memory and holds parameters."""

    pid: int
    params: Sequence[Any]
    spare: dict[Shape, Any]  # by task, a block of an operand that its result may be written over

    def empty(self, shape: Shape, dtype: DType) -> Any:
        """Return a new array; in a run without values, an array without data."""

    def once(self, name: str, make: Callable[[], Any], of: Sequence[Any]) -> Any:
        """Return what `make()` makes of some arrays; the processes of an element that have the same share it."""


class Kernel(Protocol):
    """Computation of a stage's tasks."""

    calculates: bool  # whether it does arithmetic, so that floating-point errors can come up
    fallible: bool  # whether it can raise for some values even with all floating-point errors ignored

    def flops(self, points: np.ndarray) -> np.ndarray:
        """Return the operations for so many points."""

    def temporary(self, points: int, tasks: Layout) -> int:
        """Return an upper bound on the bytes used besides regions and results."""

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return the blocks that a process's tasks compute, by block coordinates."""

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return the same blocks without values, and count the work."""


def unfilled(pid: int, slots: SlotsInterface, blocks: Blocks, empty: Callable[[Shape], Any]) -> Blocks:
    """Return the blocks, with an empty one for each slot of this process that no task filled.

    Slots can stay unfilled only where tasks are placed one by one.
    """
    if slots.labels and slots.layout.table is not None:
        for at in slots.mine(pid):
            if at not in blocks:
                blocks[at] = empty(slots.layout.block_shape(at))
    return blocks
