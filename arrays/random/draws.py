"""Arrays and numbers drawn from the streams of one draw, the same for any number of processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bsp.abstract.table import RANDOM
from bsp.arrays.api.creation import made
from bsp.arrays.array import Array
from bsp.arrays.execution.world import World
from bsp.arrays.expressions.graph import DType
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.procedures.operands import declared_of
from bsp.arrays.random.tiles import Box, Draw, Streams, Tiles, filled
from bsp.declared import Reported, declares

INT, FLOAT = np.dtype(np.int64), np.dtype(float)


def _drawn_array_cost(
    costs: Reported, here: World, dtype: DType, layout: Layout, streams: Streams, draw: Draw, tiles: Tiles,
    agree: bool = False, given: Sequence[Any] = (),
) -> Array:  # fmt: skip
    """Declare the cost of `drawn_array`."""
    if agree:
        costs.total_exchange("a draw", [])
    return draw_cost(costs, tiles.shape, dtype, layout)


@declares(_drawn_array_cost)
def drawn_array(
    here: World, dtype: DType, layout: Layout, streams: Streams, draw: Draw, tiles: Tiles,
    agree: bool = False, given: Sequence[Any] = (),
) -> Array:  # fmt: skip
    """Draw a new array.

    agree : take one superstep, in which an error on one process is raised on all.
    given : parameters, which are the same on every process.
    """

    def work() -> dict[Box, np.ndarray]:
        return filled(tiles, dtype, layout.merged, here.pid, streams, draw)

    blocks = here.together("a draw", work) if agree else work()
    return made(tiles.shape, dtype, layout, lambda size, box: blocks[box], repr(streams), *given)


def draw_cost(costs: Reported, shape: Shape, kind: DType, layout: Layout) -> Array:
    """Declare the work of drawing an array."""
    found = declared_of(costs, shape, kind, layout)
    for block in found._node.value.values():
        costs.work(elementwise=RANDOM * block.size)
    return found


def _drawn_number_cost(costs: Reported, streams: Streams, kind: DType, draw: Callable[..., Any]) -> Any:
    """Declare the work of drawing one number."""
    costs.work(elementwise=RANDOM)
    return costs.array((), kind)


@declares(_drawn_number_cost)
def drawn_number(streams: Streams, kind: DType, draw: Callable[[np.random.Generator], Any]) -> Any:
    """Return one number from `draw`, the same on every process."""
    return draw(streams(0))


def _position_in_cost(costs: Reported, found: Array) -> Any:
    """Declare the cost of `position_in`."""
    found.compute()
    return costs.array((), INT)


@declares(_position_in_cost)
def position_in(found: Array) -> Any:
    """Return the integer in an array of one element.  Collective."""
    return np.int64(found.compute())
