"""Small stages: what C needs to compute those whose blocks fit into the cache, where calls are what takes time."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from bsp.arrays.compiled import COMPILED
from bsp.arrays.expressions.graph import DType
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.kernels.kernels import extents
from bsp.arrays.kernels.maps import Map
from bsp.arrays.kernels.programs import PIECE
from bsp.arrays.planning.stages import Stage
from bsp.arrays.planning.tasks import Pieced, TaskOrder


class SmallTask(NamedTuple):
    """One task of a small stage.

    reads : by array its value, its block, an index into the block, and one that makes it broadcast; None: no index.
    """

    at: Shape
    shape: Shape
    reads: tuple[tuple[int, Shape, tuple[Any, ...] | None, tuple[Any, ...] | None], ...]


class SmallStage(NamedTuple):
    """One process's part of a stage that applies a program to small blocks which this process holds.

    code : by instruction the function, the registers of its arguments, and the buffer of its result; -1: of the stage.
    """

    code: tuple[tuple[Any, tuple[int, ...], int], ...]
    buffers: tuple[DType, ...]
    dtype: DType
    params: tuple[int, ...]
    tasks: tuple[SmallTask, ...]


def small_stage(stage: Stage, orders: Sequence[TaskOrder]) -> SmallStage | None:
    """Return a stage prepared for C; None if its kernel has to compute it."""
    kernel = stage.kernel
    if not COMPILED or type(kernel) is not Map or kernel.program.plain or kernel.fallible:
        return None
    tasks = []
    for at, box, reads in orders:
        shape = extents(box)
        if prod(shape) > PIECE:
            return None
        found = []
        for read, expand in zip(reads, kernel.expand, strict=True):
            if isinstance(read, Pieced) or not (read.where is None or read.fetch.in_order):
                return None
            found.append((read.value, read.block, read.where, expand if None in expand else None))
        tasks.append(SmallTask(at, shape, tuple(found)))
    program = kernel.program
    code = tuple((op.call, args, slot) for (op, args, _), slot in zip(program.code, program.slots, strict=True))
    return SmallStage(code, tuple(program.buffers), kernel.dtype, program.params, tuple(tasks))
