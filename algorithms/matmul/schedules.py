"""Who multiplies which bricks of A·B when: four numbers, from which layouts and every exchange follow.

A product of an m × k by a k × n matrix is a box of m·k·n elementary products.  A schedule cuts it for a grid of
rows × columns × layers processes: process (i, j, l) computes the l-th part of the sum of block (i, j) of C, in
`rounds` bricks one after the other.  It holds the (l·columns + j)-th part of A's columns in rows i, and the
(l·rows + i)-th part of B's rows in columns j.  The methods of McColl 1.6.2 are choices of these four numbers.

In round t process (i, j, l) multiplies the piece of k whose number is t plus its *turn*, which differs along rows and
columns of the grid, so that every block is read by few processes at a time (Cannon's skew, for any grid).
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bsp.arrays.planning.layout import Axis, Layout, Shape, dealt, replicated, table_layout

__concrete__ = True  # it counts: its arrays are numbers of words, in a run without values too

SHIFTED, AT_ONCE, TWO_PHASE = "shifted", "broadcast", "two-phase broadcast"


@lru_cache(maxsize=4096)
def cuts(length: int, parts: int) -> np.ndarray:
    """parts + 1 positions, as even as can be: those of a layout's axis."""
    return Axis(length, parts).bounds


class Place(NamedTuple):
    """Of a process in the grid."""

    i: int
    j: int
    layer: int


class Schedule(NamedTuple):
    """m, k, n: of A (m, k) and B (k, n).  rows, columns, layers: the grid.  rounds: bricks of each process.

    way : how blocks travel: "shifted" (each process fetches what its turn asks for), or panels "broadcast", in one
        superstep or in two.
    """

    m: int
    k: int
    n: int
    rows: int
    columns: int
    layers: int = 1
    rounds: int = 1
    way: str = SHIFTED

    @property
    def processes(self) -> int:
        """That have work."""
        return self.rows * self.columns * self.layers

    def pid(self, i: int, j: int, layer: int) -> int:
        """The process at a place."""
        return (i * self.layers + layer) * self.columns + j

    def place(self, pid: int) -> Place | None:
        """Of a process; None: it has no work."""
        if pid >= self.processes:
            return None
        rest, j = divmod(pid, self.columns)
        i, layer = divmod(rest, self.layers)
        return Place(i, j, layer)

    def turn(self, i: int, j: int) -> int:
        """The piece that process (i, j, l) begins with."""
        return (i * self.rounds // self.rows + j * self.rounds // self.columns) % self.rounds

    def piece(self, place: Place, t: int) -> tuple[int, int]:
        """The range of k that a process multiplies in round t."""
        number = place.layer * self.rounds + (self.turn(place.i, place.j) + t) % self.rounds
        return span(self.k, self.layers * self.rounds, number)

    def home_a(self, layer: int, j: int) -> tuple[int, int]:
        """The columns of A that processes (·, j, l) hold."""
        return span(self.k, self.layers * self.columns, layer * self.columns + j)

    def home_b(self, layer: int, i: int) -> tuple[int, int]:
        """The rows of B that processes (i, ·, l) hold."""
        return span(self.k, self.layers * self.rows, layer * self.rows + i)

    @property
    def panels(self) -> list[tuple[int, int]]:
        """Of broadcasts: ranges of k that one column of the grid has of A, and one row of B."""
        edges = np.union1d(cuts(self.k, self.columns), cuts(self.k, self.rows)).tolist()
        return list(pairwise(edges))

    def layouts(self, nprocs: int) -> tuple[Layout, Layout, Layout]:
        """Of A, B and C: one block on each process of the grid.

        Those of `grid=`: A's is (rows, layers · columns), C's (rows · layers, columns), B's (rows, columns) where there
        is one layer; else no grid gives B's owners.
        """
        rows, columns, layers = self.rows, self.columns, self.layers
        a = _grid((self.m, self.k), (rows, layers * columns), nprocs)
        c = _grid((self.m, self.n), (rows * layers, columns), nprocs)
        if rows == 1 or layers == 1:
            return a, _grid((self.k, self.n), (layers * rows, columns), nprocs), c
        layer, i, j = np.ix_(range(layers), range(rows), range(columns))
        owner = (i * layers + layer) * columns + j
        return a, table_layout((Axis(self.k, layers * rows), Axis(self.n, columns)), owner), c


def _grid(shape: Shape, grid: Shape, nprocs: int) -> Layout:
    return replicated(shape) if nprocs == 1 else dealt(shape, grid, grid)


def span(length: int, parts: int, number: int) -> tuple[int, int]:
    """The range of one part."""
    return length * number // parts, length * (number + 1) // parts
