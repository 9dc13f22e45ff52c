"""The tiles of random arrays: fixed parts of a shape, each with its own stream of random numbers.

The tiles are a function of the shape alone, and a tile's stream of (seed, number of the draw, tile).  So the numbers
are the same for every p, grid and process grid, and a process makes only the tiles that its blocks meet.  The
streams are Philox's (Salmon et al., SC 2011): a draw has a key, and the tile is the top word of the counter, so that
no two tiles overlap within 2^192 numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from math import prod
from typing import Any

import numpy as np

from bsp.arrays.expressions.graph import DType
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.kernels.kernels import StageTask
from bsp.arrays.kernels.shared_errors import current

TILE = 1 << 15  # most numbers in a tile; setting up a tile's stream costs as much as a few hundred numbers

Span = tuple[int, int]
Box = tuple[Span, ...]
Draw = Callable[[np.random.Generator, Box], Any]  # the numbers of a tile, from its stream and its box


class Streams:
    """The streams of one draw; the seed is hashed when the first of them is used."""

    def __init__(self, entropy: int | Sequence[int], key: tuple[int, ...]) -> None:
        self._seed = entropy, key
        self._state: Any = None

    def __repr__(self) -> str:
        return f"streams of seed {self._seed}"

    def __call__(self, tile: int) -> np.random.Generator:
        """Return the generator of a tile, at its first number; it is valid until the next call."""
        if self._state is None:
            entropy, key = self._seed
            self._bits = np.random.Philox(np.random.SeedSequence(entropy, spawn_key=key))
            self._generator = np.random.Generator(self._bits)
            self._state = self._bits.state
        self._state["state"]["counter"][:] = (0, 0, 0, tile)
        self._bits.state = self._state
        return self._generator


def tile_shape(shape: Shape, core: int = 0) -> Shape:
    """Return the lengths of tiles: the longest axis (the first of equals) is halved until a tile fits into TILE.

    core : this many last axes stay whole.  Narrow arrays get tiles of whole rows, square ones square tiles, and
    cuts of a grid of powers of two fall on edges of tiles as nearly as possible.
    """
    found = list(shape)
    free = len(shape) - core
    while prod(found) > TILE and any(length > 1 for length in found[:free]):
        axis = max(range(free), key=lambda axis: (found[axis], -axis))
        found[axis] = -(-found[axis] // 2)
    return tuple(found)


class Tiles:
    """The tiles of a shape, named by their coordinates in a grid of tiles."""

    def __init__(self, shape: Shape, core: int = 0) -> None:
        self.shape = shape
        self.lengths = tile_shape(shape, core)

    def met(self, layout: Layout, pid: int) -> dict[Shape, list[Box]]:
        """Return the tiles that a process's blocks meet, each with the boxes of these blocks."""
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
        """Return the index ranges of a tile."""
        return tuple(
            (k * step, min((k + 1) * step, length))
            for k, step, length in zip(where, self.lengths, self.shape, strict=True)
        )

    def number(self, where: Shape) -> int:
        """Return the number of a tile's stream: its place in C order of the grid of tiles."""
        found = 0
        for k, step, length in zip(where, self.lengths, self.shape, strict=True):
            found = found * -(-length // step) + k
        return found


def filled(tiles: Tiles, dtype: DType, layout: Layout, pid: int, streams: Streams, draw: Draw) -> dict[Box, np.ndarray]:
    """Draw a process's blocks, and return them by box; each tile that they meet is drawn once.

    Cost: all numbers of the tiles that the blocks meet.  No words.
    """
    blocks = {layout.box(at): np.empty(layout.block_shape(at), dtype) for at in layout.mine(pid)}
    for where, wanting in tiles.met(layout, pid).items():
        spans = tiles.box(where)
        current.task, current.piece = StageTask(where, spans, []), None
        values = draw(streams(tiles.number(where)), spans)
        for box in wanting:
            into, part = [], []
            for (low, high), (first, end) in zip(box, spans, strict=True):
                start, stop = max(low, first), min(high, end)
                into.append(slice(start - low, stop - low))
                part.append(slice(start - first, stop - first))
            blocks[box][tuple(into)] = values[tuple(part)]
    return blocks
