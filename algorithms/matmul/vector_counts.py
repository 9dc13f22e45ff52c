"""Cost of a matrix-vector product on a process grid, counted exactly."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from bsp.algorithms.matmul.counts import Counted, exchange, overlaps
from bsp.algorithms.matmul.schedules import Schedule, cuts
from bsp.arrays.procedures import Shape
from bsp.cost.model import DEFAULT, WORD, Cost, Machine


def matvec_cost(
    m: int, n: int, p: int, machine: Machine | None = None, *, grid: Shape | None = None, itemsize: int = WORD
) -> Counted:  # fmt: skip
    """Return the cost of `matvec` of an (m, n) matrix and a dealt vector on p processes.

    grid : the process grid of A; None: the cheapest one on the machine.
    """
    chosen = grid or cheapest(m, n, p, machine or DEFAULT, itemsize)
    return counted(m, n, p, (chosen[0], chosen[1]), itemsize)


@lru_cache(maxsize=1024)
def cheapest(m: int, n: int, p: int, machine: Machine, itemsize: int) -> Shape:
    """Return the cheapest grid: all are estimated, the best few counted."""
    grids = [(q1, min(p // q1, max(n, 1))) for q1 in range(min(p, max(m, 1)), 0, -1)]

    def estimate(grid: Shape) -> float:
        q1, q2 = grid
        high, wide = -(-m // q1), -(-n // q2)
        words = wide * (q1 > 1) + high * (1 - 1 / q2)
        return Cost(2.0 * high * wide, words, 1 + (q2 > 1), messages=q1 + q2).price(machine)

    best = sorted(grids, key=estimate)[:6]
    return min(best, key=lambda grid: counted(m, n, p, grid, itemsize).price(machine))


@lru_cache(maxsize=1024)
def counted(m: int, n: int, p: int, grid: Shape, itemsize: int) -> Counted:
    """Return the exchanges, flops and memory of a product with a vector on this grid."""
    q1, q2 = grid
    heights, widths = np.diff(cuts(m, q1)), np.diff(cuts(n, q2))
    parts = max(1, min(p, n))
    shared = overlaps(cuts(n, parts), cuts(n, q2))  # of the pieces of x with the columns of A's blocks
    own = np.zeros((p, q2), np.int64)
    own[:parts] = shared
    place = np.arange(q1 * q2)
    mine = np.zeros(p, np.int64)
    mine[place] = own[place, place % q2]
    wanted = np.zeros(p, np.int64)
    wanted[place] = widths[place % q2]
    messages = q1 * (own > 0).sum(1) - (mine > 0)
    exchanges = [exchange("matvec: pieces of x", q1 * own.sum(1) - mine, wanted - mine, messages, itemsize)]
    pieces = np.diff(cuts(m, q1 * q2)).reshape(q1, q2)
    flops = 2 * int(heights.max()) * int(widths.max())
    memory = heights[:, None] * (widths + 1) + own.sum(1)[place].reshape(q1, q2) + 2 * widths
    if q2 > 1:
        sends = (pieces > 0).sum(1, keepdims=True) - (pieces > 0)
        sums = exchange("matvec: partial sums", heights[:, None] - pieces, (q2 - 1) * pieces, sends, itemsize)
        exchanges.append(sums)
        flops += (q2 - 1) * int(pieces.max())
        memory = memory + q2 * pieces
    words = -(-int(memory.max()) * itemsize // WORD)
    return Counted("matvec", Schedule(m, n, 1, q1, 1, q2), tuple(exchanges), float(flops), words)
