"""Dense matrix times vector on a process grid: each block of the matrix stays where it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.matmul.blocks import contiguous, own
from bsp.algorithms.matmul.counts import Counted
from bsp.algorithms.matmul.product import brought, operand
from bsp.algorithms.matmul.running import idle, summed, together
from bsp.algorithms.matmul.schedules import GridPlace, Schedule, span
from bsp.algorithms.matmul.vector_counts import cheapest, counted
from bsp.arrays.procedures import Array, DType, Layout, Shape, World, dealt, made_of, procedure, replicated, world
from bsp.arrays.typing import ArrayLike
from bsp.errors import ShapeError
from bsp.values.payload import as_array


def _values(given: Any) -> Any:
    """Return an array of values as it is, of this library or without values, and anything else as NumPy's."""
    return given if isinstance(given, Array) else as_array(given)


@procedure
def matvec(A: ArrayLike, x: ArrayLike) -> Array:
    """Return A @ x, dense matrix times vector.  Collective.

    A : shape (m, n);  x : (n,); arrays, or what `bsp.arrays.asarray` takes.
    Returns u of shape (m,), in even pieces in the order of the processes, as x is wanted: so it can be the next x.

    On a grid of q1 × q2 processes, each with a block of A.  Superstep 1: each gets what x has for its columns.
    Superstep 2: it sends the parts of its partial sums to those who have these pieces of u, which add them.
    Cost: W = 2mn/p,  H = n/q2 + (m/q1)(1 - 1/q2),  S = 2,  M = mn/p: for a square grid n²/p + g·n/√p + L, with the
    constants 2 that the model ignores.  Exactly: `matvec_cost`.  The grid is A's, if it has one block on each process
    of a grid; else A is brought to the cheapest, one superstep, mn/p words.  An x that lies otherwise is dealt anew:
    one superstep, n/p words; one that every process has is not sent at all: superstep 1 is left out.
    Source: McColl 1.6.2 (dense matrix-vector multiplication; its third superstep has no words and ends none here).
    Raises ShapeError, TypeError.
    """
    here = world()
    matrix, vector = map(_values, (A, x))
    if matrix.ndim != 2 or vector.ndim != 1 or matrix.shape[1] != vector.shape[0]:
        raise ShapeError(
            f"matvec: A of shape {tuple(matrix.shape)} and x of shape {tuple(vector.shape)}; (m, n) and (n,) are wanted"
        )
    m, n = matrix.shape
    dtype = np.result_type(matrix.dtype, vector.dtype)
    grid = _grid_of(matrix, here.nprocs) or cheapest(m, n, here.nprocs, here.machine, dtype.itemsize)
    layout = Schedule(m, n, 1, grid[0], 1, grid[1]).layouts(here.nprocs)[0]
    given = operand(matrix, dtype), operand(vector, dtype)
    whole = given[1].whole
    found = brought(here, given if whole is None else given[:1], (layout, _line(n, here.nprocs)), False)
    cost = counted(m, n, here.nprocs, grid, dtype.itemsize)
    place = cost.schedule.place(here.pid)
    if whole is None:
        part = _fetched(here, cost, found[1].get((here.pid,)), dtype)
    else:
        part = None if place is None else whole[slice(*span(n, grid[1], place.layer))]
    total = None
    if place is not None:
        (block,) = found[0].values()
        total = np.matmul(own(block), own(part))
    if grid[1] > 1:
        total = _summed(here, cost, place, total)
    out = _line(m, here.nprocs, grid[0] * grid[1])
    return made_of((m,), dtype, out, {} if place is None else dict.fromkeys(out.mine(here.pid), total))


def _line(length: int, nprocs: int, parts: int | None = None) -> Layout:
    """Return the layout of a vector in even pieces, in the order of the processes."""
    count = max(1, min(nprocs, length)) if parts is None else parts
    return replicated((length,)) if nprocs == 1 else dealt((length,), (count,), (count,))


def _grid_of(matrix: Any, nprocs: int) -> Shape | None:
    """Return the grid of a matrix that has one block on each of its processes, row by row; None for any other."""
    if not isinstance(matrix, Array):
        return None
    layout = matrix.layout
    grid = layout.process_grid
    return (
        grid
        if layout is Schedule(matrix.shape[0], matrix.shape[1], 1, grid[0], 1, grid[1]).layouts(nprocs)[0]
        else None
    )


def _summed(here: World, cost: Counted, place: GridPlace | None, total: Any) -> Any:
    """Add up partial sums over all layers; each process gets its part."""
    steps = cost.exchanges[-1:]
    if place is None:
        idle(here, steps)
        return None
    moves = {"C": summed(here, cost.schedule, place, 0, total.reshape(-1, 1))}
    return together(here, iter(steps), moves)["C"].reshape(-1)


def _fetched(here: World, cost: Counted, piece: Any, dtype: DType) -> Any:
    """Return the elements of x for the columns of this process's block.  One superstep."""
    s, place = cost.schedule, cost.schedule.place(here.pid)
    n, q1, q2 = s.k, s.rows, s.layers
    parts = max(1, min(here.nprocs, n))
    out = []
    if piece is not None:
        start, stop = span(n, parts, here.pid)
        for layer in range(q2):
            low, high = (sorted((start, edge, stop))[1] for edge in span(n, q2, layer))
            if low < high:
                out += [(s.pid(i, 0, layer), piece[low - start : high - start]) for i in range(q1)]
    (step, *_) = cost.exchanges
    others = [(dest, values) for dest, values in out if dest != here.pid]
    arrived = here.exchange(step.what, others) if step.h else []
    if place is None:
        return None
    arrived += [(dest, values) for dest, values in out if dest == here.pid]
    found = [values for _, values in sorted(arrived, key=lambda each: each[0])]
    if len(found) == 1:
        return contiguous(found[0])
    return np.concatenate(found) if found else here.empty((0,), dtype)
