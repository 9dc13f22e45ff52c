"""Which random numbers an array is made of: fixed tiles of its shape, each with a stream of its own.

The tiles follow from the shape alone, and a tile's stream from (seed, number of the draw, tile): so the numbers
are the same for every p, grid and process grid, and a process makes just the tiles that its blocks meet.  The
streams are Philox's (Salmon et al., SC 2011): a draw has a key, the tile is the top word of the counter, so no
two tiles overlap within 2^192 numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from bsp.arrays.expressions.graph import DType
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.kernels.kernels import Task
from bsp.arrays.kernels.shared_errors import current

TILE = 1 << 15  # numbers in a tile at most: to place a stream costs as much as a few hundred of them

Span = tuple[int, int]
Box = tuple[Span, ...]
Draw = Callable[[np.random.Generator, Box], Any]  # the numbers of a tile, from its stream and its box


class Streams:
    """The streams of one draw."""

    def __init__(self, entropy: int | Sequence[int], key: tuple[int, ...]) -> None:
        self._bits = np.random.Philox(np.random.SeedSequence(entropy, spawn_key=key))
        self._generator = np.random.Generator(self._bits)
        self._state: Any = self._bits.state

    def __call__(self, tile: int) -> np.random.Generator:
        """The generator of a tile at its first number; valid until the next call."""
        self._state["state"]["counter"][:] = (0, 0, 0, tile)
        self._bits.state = self._state
        return self._generator


def tile_shape(shape: Shape, core: int = 0) -> Shape:
    """Lengths of the tiles: the longest axis (the first of equals) is halved until a tile has TILE numbers or fewer.

    core : this many last axes stay whole.  Narrow arrays get tiles of whole rows, square ones square tiles, and
    cuts of a grid of powers of two fall on tiles' edges as nearly as can be.
    """
    found = list(shape)
    free = len(shape) - core
    while prod(found) > TILE and any(length > 1 for length in found[:free]):
        axis = max(range(free), key=lambda axis: (found[axis], -axis))
        found[axis] = -(-found[axis] // 2)
    return tuple(found)


class Tiles:
    """The tiles of a shape, by their places in a grid of tiles."""

    def __init__(self, shape: Shape, core: int = 0) -> None:
        self.shape = shape
        self.lengths = tile_shape(shape, core)

    def met(self, layout: Layout, pid: int) -> dict[Shape, list[Box]]:
        """The tiles that a process's blocks meet; of each, the boxes of these blocks."""
        found: dict[Shape, list[Box]] = {}
        for at in layout.mine(pid):
            box = layout.box(at)
            if all(low < high for low, high in box):
                ranges = [
                    range(low // step, (high - 1) // step + 1)
                    for (low, high), step in zip(box, self.lengths, strict=True)
                ]
                for where in product(*ranges):
                    found.setdefault(where, []).append(box)
        return found

    def box(self, where: Shape) -> Box:
        """The index ranges of a tile."""
        return tuple(
            (k * step, min((k + 1) * step, length))
            for k, step, length in zip(where, self.lengths, self.shape, strict=True)
        )

    def number(self, where: Shape) -> int:
        """The stream of a tile."""
        found = 0
        for k, step, length in zip(where, self.lengths, self.shape, strict=True):
            found = found * -(-length // step) + k
        return found


def filled(tiles: Tiles, dtype: DType, layout: Layout, pid: int, streams: Streams, draw: Draw) -> dict[Box, np.ndarray]:
    """A process's blocks by their boxes; each tile that they meet is drawn once.

    Cost: as many numbers as the tiles have that the blocks meet.  No words.
    """
    blocks = {layout.box(at): np.empty(layout.block_shape(at), dtype) for at in layout.mine(pid)}
    for where, wanting in tiles.met(layout, pid).items():
        spans = tiles.box(where)
        current.task, current.piece = Task(where, spans, []), None
        values = draw(streams(tiles.number(where)), spans)
        for box in wanting:
            into, part = [], []
            for (low, high), (first, end) in zip(box, spans, strict=True):
                start, stop = max(low, first), min(high, end)
                into.append(slice(start - low, stop - low))
                part.append(slice(start - first, stop - first))
            blocks[box][tuple(into)] = values[tuple(part)]
    return blocks
