"""Schedules of a product A·B: a process grid, a number of rounds, and the axis or pieces of a round.

A product of an m × k by a k × n matrix is a box of m·k·n elementary products.  A schedule cuts it for a grid of
rows × columns × layers processes: process (i, j, l) computes the l-th part of the sum of block (i, j) of C.  The box of
a process has a face in each matrix, its *brick* of that matrix.  Bricks are shared: the processes of a row of the grid
have the same brick of A, those of a column the same brick of B, those of all layers the same brick of C.  Who shares a
brick holds a part of it: of A and B before the product, of C after it.  So bricks of A and B are gathered, and
those of C added up.

With memory for whole bricks that is done once.  Otherwise it is done in `rounds`, `along` one of the three sides: in
each round a piece of that side is gathered, multiplied and added up, and the brick that does not have this side stays:
along k it is C's that grows, along n A's is gathered once, along m B's.  The words are the same whatever the number of
rounds; memory falls to the brick that stays.  The methods of McColl 1.6.2 are choices of these numbers.

Pieces are *spread* (piece t of r has positions t, t + r, t + 2r, ... of the brick's side, so that every process holds
as much of every piece, and the longest pieces of all bricks are in the same rounds), or *shifted*: they are intervals,
and in round t process (i, j, l) takes the one whose number is t plus its *turn*, which differs along rows and columns
of the grid (Cannon's skew, for any grid).  Spread, a process sends to all who share the brick in every round; shifted,
to one or a few, but what it holds itself saves it no words.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from bsp.arrays.procedures import Axis, Layout, Shape, dealt, replicated, table_layout

SHIFTED, SPREAD, AT_ONCE, TWO_PHASE = "shifted", "spread", "broadcast", "two-phase broadcast"
SIDES = {"A": "mk", "B": "kn", "C": "mn"}  # that each matrix has

Brick = tuple[int, int]  # its number along both axes of its matrix


@lru_cache(maxsize=4096)
def cuts(length: int, parts: int) -> np.ndarray:
    """Return the parts + 1 positions that cut a length most evenly, as a layout's axis does."""
    return Axis(length, parts).bounds


def span(length: int, parts: int, number: int) -> tuple[int, int]:
    """Return where one of `parts` even parts begins and ends."""
    return length * number // parts, length * (number + 1) // parts


class GridPlace(NamedTuple):
    """The place of a process in the grid."""

    i: int
    j: int
    layer: int


class Dealing(NamedTuple):
    """The distribution of a matrix: it is cut into bricks, and each brick into parts for the processes that share it.

    shape : of the matrix.  bricks : along each of its axes.  split : parts of a brick along each axis, in row-major
    order those of the 1st, 2nd, ... process that shares it.
    """

    shape: Shape
    bricks: tuple[int, int]
    split: tuple[int, int]

    @property
    def members(self) -> int:
        """The number of processes that share a brick."""
        return self.split[0] * self.split[1]

    def bounds(self, axis: int) -> np.ndarray:
        """Return the positions at which the parts begin and end along an axis of the matrix."""
        return cuts(self.shape[axis], self.bricks[axis] * self.split[axis])

    def parts(self, axis: int, number: int) -> list[int]:
        """Return the positions at which the parts of a brick begin and end along an axis."""
        first = number * self.split[axis]
        found: list[int] = self.bounds(axis)[first : first + self.split[axis] + 1].tolist()
        return found


class Schedule(NamedTuple):
    """A schedule of a product: a process grid, rounds, and how blocks travel.

    m, k, n : of A (m, k) and B (k, n).  rows, columns, layers : the grid.  rounds : bricks of each process.
    way : how blocks travel: "spread" or "shifted" (each process fetches what it needs), or panels "broadcast", in one
        superstep or in two.
    along : the side that the rounds are pieces of: "m", "k" or "n"; shifted pieces and panels are of k.
    across : into how many parts a brick of A is cut along m, one of B and one of C along n; the rest of the cuts that
        a brick needs, to have a part for each of its processes, are along its other side.
    phased : whether a brick that is cut along both sides is gathered along one and then along the other, and added up
        likewise: a process then exchanges with fewer others, in one superstep more.
    sums : in how many pieces, of m, the bricks of C are added up where rounds are along k.
    """

    m: int
    k: int
    n: int
    rows: int
    columns: int
    layers: int = 1
    rounds: int = 1
    way: str = SHIFTED
    along: str = "k"
    across: tuple[int, int, int] = (1, 1, 1)
    phased: bool = False
    sums: int = 1

    @property
    def processes(self) -> int:
        """The number of processes that have work."""
        return self.rows * self.columns * self.layers

    def pid(self, i: int, j: int, layer: int) -> int:
        """Return the process at a place."""
        return (i * self.layers + layer) * self.columns + j

    def place(self, pid: int) -> GridPlace | None:
        """Return the place of a process; None: it has no work."""
        if pid >= self.processes:
            return None
        rest, j = divmod(pid, self.columns)
        i, layer = divmod(rest, self.layers)
        return GridPlace(i, j, layer)

    def dealing(self, matrix: str) -> Dealing:
        """Return the distribution of A, B or C."""
        a, b, c = self.across
        if matrix == "A":
            return Dealing((self.m, self.k), (self.rows, self.layers), (a, self.columns // a))
        if matrix == "B":
            return Dealing((self.k, self.n), (self.layers, self.columns), (self.rows // b, b))
        return Dealing((self.m, self.n), (self.rows, self.columns), (self.layers // c, c))

    def brick(self, matrix: str, place: GridPlace) -> tuple[Brick, int]:
        """Return the brick of a matrix that a process shares, and its number among the processes that share it."""
        i, j, layer = place
        found = {"A": ((i, layer), j), "B": ((layer, j), i), "C": ((i, j), layer)}
        return found[matrix]

    def sharing(self, matrix: str, place: GridPlace) -> list[GridPlace]:
        """Return the places of all processes that share a brick of a matrix with this one, itself included."""
        i, j, layer = place
        if matrix == "A":
            return [GridPlace(i, x, layer) for x in range(self.columns)]
        if matrix == "B":
            return [GridPlace(x, j, layer) for x in range(self.rows)]
        return [GridPlace(i, j, x) for x in range(self.layers)]

    @property
    def adding(self) -> Schedule:
        """The schedule by whose rounds bricks of C are added up: itself, unless its rounds are along k."""
        return self._replace(rounds=self.sums, way=SPREAD, along="m") if self.along == "k" else self

    def varies(self, matrix: str) -> bool:
        """Return whether every round has another piece of a matrix's bricks."""
        return self.rounds > 1 and self.along in SIDES[matrix]

    def in_phases(self, matrix: str) -> bool:
        """Return whether a matrix's bricks travel along one axis first, and then along the other."""
        return self.phased and min(self.dealing(matrix).split) > 1

    def strips(self, leaf: str) -> int:
        """Return the number of strips of rows in which a product is added to the sum of those before it.

        So many that no second brick of C is held: a strip takes as much as a round's part of it.  Strassen's recursion
        wants large bricks.
        """
        return -(-self.rounds // self.sums) if leaf == "blas" else 1

    def turn(self, i: int, j: int) -> int:
        """Return the piece that process (i, j, l) begins with, where pieces are shifted."""
        return (i * self.rounds // self.rows + j * self.rounds // self.columns) % self.rounds

    def wanted(self, matrix: str, place: GridPlace, t: int) -> tuple[range, range]:
        """Return the rows and columns of a matrix that a process multiplies, or has sums of (C), in round t."""
        dealing = self.dealing(matrix)
        brick, _ = self.brick(matrix, place)
        first, second = (span(dealing.shape[axis], dealing.bricks[axis], brick[axis]) for axis in (0, 1))
        sides = SIDES[matrix]
        return self._piece(sides[0], first, place, t), self._piece(sides[1], second, place, t)

    def _piece(self, side: str, whole: tuple[int, int], place: GridPlace, t: int) -> range:
        if side != self.along or self.rounds == 1:
            return range(*whole)
        if self.way == SPREAD:
            return range(whole[0] + t, whole[1], self.rounds)
        number = place.layer * self.rounds + (self.turn(place.i, place.j) + t) % self.rounds
        return range(*span(self.k, self.layers * self.rounds, number))

    def home_a(self, layer: int, j: int) -> tuple[int, int]:
        """Return the columns of A that processes (·, j, l) hold, where its bricks are cut along k alone."""
        return span(self.k, self.layers * self.columns, layer * self.columns + j)

    def home_b(self, layer: int, i: int) -> tuple[int, int]:
        """Return the rows of B that processes (i, ·, l) hold, where its bricks are cut along k alone."""
        return span(self.k, self.layers * self.rows, layer * self.rows + i)

    @property
    def panels(self) -> list[tuple[int, int]]:
        """The panels of a broadcast: ranges of k that one column of the grid has of A, and one row of B."""
        edges = np.union1d(cuts(self.k, self.columns), cuts(self.k, self.rows)).tolist()
        return list(pairwise(edges))

    def layouts(self, nprocs: int) -> tuple[Layout, Layout, Layout]:
        """Return the layouts of A, B and C: one block on each process of the grid.

        Where `across` is (1, 1, 1) they are those of `grid=`: A's is (rows, layers · columns), C's (rows · layers,
        columns), B's (rows, columns) if there is one layer; else no grid gives B's owners.
        """
        return _layouts(self, nprocs)


@lru_cache(maxsize=4096)
def _layouts(s: Schedule, nprocs: int) -> tuple[Layout, Layout, Layout]:
    pids = np.arange(s.processes).reshape(s.rows, s.layers, s.columns)
    a = _layout(s.dealing("A"), pids, nprocs)
    b = _layout(s.dealing("B"), pids.transpose(1, 2, 0), nprocs)
    c = _layout(s.dealing("C"), pids.transpose(0, 2, 1), nprocs)
    return a, b, c


def _layout(dealing: Dealing, pids: np.ndarray, nprocs: int) -> Layout:
    """Return the layout of a distribution; pids : by brick along both axes, and number among those that share it."""
    if nprocs == 1:
        return replicated(dealing.shape)
    grid = (dealing.bricks[0] * dealing.split[0], dealing.bricks[1] * dealing.split[1])
    owner = pids.reshape(*dealing.bricks, *dealing.split).transpose(0, 2, 1, 3).reshape(grid)
    if (owner.reshape(-1) == np.arange(owner.size)).all():
        return dealt(dealing.shape, grid, grid)
    return table_layout((Axis(dealing.shape[0], grid[0]), Axis(dealing.shape[1], grid[1])), owner)
