"""Kernels that apply a program to every element: `Map`, and `Overwrite`, which writes into a part of a block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bsp.arrays.expressions.graph import Blocks, DType
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.kernels.kernels import Room, StageTask, charge_program, filling
from bsp.arrays.kernels.programs import PIECE, Program, memory_order, run_in_pieces
from bsp.arrays.kernels.shared_errors import current


def _stored(arrays: Sequence[Any], shape: Shape) -> tuple[int, ...] | None:
    """Return the order of axes in which all operands of this shape lie in memory, as transposed ones do; None: C order.

    The result is then stored so too, as NumPy's is: to read columns and write rows costs twice the time.
    """
    full = [array for array in arrays if array.shape == shape]
    order = memory_order(full[0]) if full else None
    return order if order and all(array.transpose(order).flags.c_contiguous for array in full) else None


class Map:
    """A kernel that applies a program to every element."""

    def __init__(self, program: Program, dtype: DType, expand: Sequence[tuple[Any, ...]]) -> None:
        self.program = program
        self.dtype = dtype
        self.expand = expand  # makes each region broadcast over all labels
        self.calculates, self.fallible = not program.plain, program.fallible
        self._expands = any(part is None for index in expand for part in index)

    def flops(self, points: np.ndarray) -> np.ndarray:
        """Return the operations for so many points."""
        return points * self.program.operations

    def temporary(self, points: int, tasks: Layout) -> int:
        """Return an upper bound on the bytes used besides regions and results."""
        return sum(dtype.itemsize for dtype in self.program.buffers) * min(points, PIECE) + 4096

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return one block for each task."""
        params = [room.params[k] for k in self.program.params]
        return {task.at: self._block(room, task, params) for task in tasks}

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values and count the work, as `Kernel.declared` requires."""
        found: Blocks = {}
        for task in tasks:
            if self.program.plain:
                found[task.at] = self._block(room, task, [room.params[k] for k in self.program.params])
            else:
                out = found[task.at] = room.empty(task.shape, self.dtype)
                charge_program(self.program, out.size, [*task.regions, out])
        return found

    def _block(self, room: Room, task: StageTask, params: Sequence[Any]) -> Any:
        """Return a task's block.  A program without instructions copies nothing: its block is a view of a region."""
        program, shape = self.program, task.shape
        arrays = task.regions
        if self._expands:
            arrays = [region[index] for region, index in zip(arrays, self.expand, strict=True)]
        if program.plain:
            only = arrays[program.result] if program.result < len(arrays) else np.asarray(params[0], self.dtype)
            return filling(only, shape)
        out = room.spare.pop(task.at, None)
        over = out is not None
        if not over:
            order = None if program.fallible else _stored(arrays, shape)  # errors are sought in C order
            if order is None:
                out = room.empty(shape, self.dtype)
            else:
                out = room.empty(tuple(shape[k] for k in order), self.dtype).transpose(np.argsort(order))
        current.task, current.piece = task, None
        run_in_pieces(program, arrays, params, out, over)
        return out


class Overwrite(Map):
    """A kernel that applies a program to every element, and then writes assigned values over some of the results."""

    def __init__(self, program: Program, dtype: DType, expand: Sequence[tuple[Any, ...]], assigned: int) -> None:
        super().__init__(program, dtype, expand)
        self.assigned = assigned  # position of the `Assignments` among the graph's parameters

    def compute(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return one block for each task."""
        return self._written(room, tasks, super().compute)

    def declared(self, room: Room, tasks: Iterable[StageTask]) -> Blocks:
        """Return blocks without values and count the work, as `Kernel.declared` requires."""
        return self._written(room, tasks, super().declared)

    def _written(
        self, room: Room, tasks: Iterable[StageTask], blocks: Callable[[Room, Iterable[StageTask]], Blocks]
    ) -> Blocks:
        """Return the blocks of all tasks, by `blocks`, with the assigned values.

        A block of a program without instructions may be somebody else's, and is copied before.
        """
        found: Blocks = {}
        for task in tasks:
            ((at, block),) = blocks(room, [task]).items()
            if self.program.plain:
                block, region = room.empty(task.shape, self.dtype), block
                block[...] = region
            for each in room.params[self.assigned]:
                part = each.part(task.box)
                if part is not None:
                    part.write(block)
            found[at] = block
        return found
