"""Dense matrix times vector on a process grid: each block of the matrix stays where it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.matmul.blocks import contiguous, own
from bsp.algorithms.matmul.counts import Counted
from bsp.algorithms.matmul.running import idle, summed, together
from bsp.algorithms.matmul.schedules import Place, Schedule, span
from bsp.algorithms.matmul.vector_counts import cheapest, counted
from bsp.arrays import build
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import LEAF, DType
from bsp.arrays.expressions.layout import Layout, Shape, dealt, replicated
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import known, made_of
from bsp.errors import ShapeError
from bsp.values.payload import is_abstract


@procedure
def matvec(A: Any, x: Any) -> Array:
    """A @ x: dense matrix times vector.  A collective.

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
    matrix, vector = (each if isinstance(each, Array) or is_abstract(each) else np.asarray(each) for each in (A, x))
    if matrix.ndim != 2 or vector.ndim != 1 or matrix.shape[1] != vector.shape[0]:
        raise ShapeError(
            f"matvec: A of shape {tuple(matrix.shape)} and x of shape {tuple(vector.shape)}; (m, n) and (n,) are wanted"
        )
    m, n = matrix.shape
    dtype = np.result_type(matrix.dtype, vector.dtype)
    grid = _grid_of(matrix, here.nprocs) or cheapest(m, n, here.nprocs, here.machine, dtype.itemsize)
    layout = Schedule(m, n, 1, grid[0], 1, grid[1]).layouts(here.nprocs)[0]
    if not isinstance(matrix, Array):
        matrix = wrap(build.from_whole(matrix, layout))
    whole = vector if not isinstance(vector, Array) else None
    if isinstance(vector, Array) and vector._node.op is LEAF:
        whole = known(vector._node)
    line = _line(n, here.nprocs)
    nodes = [build.cast(matrix._node, dtype)]
    if whole is None:
        assert isinstance(vector, Array)
        nodes.append(build.cast(vector._node, dtype))
    nodes = [
        node if node.op is LEAF and node.layout is wanted else build.relaid(node, wanted)
        for node, wanted in zip(nodes, (layout, line), strict=False)
    ]
    waiting = [node for node in nodes if node.op is not LEAF]
    if waiting:
        here.evaluate(waiting, False)
    cost = counted(m, n, here.nprocs, grid, dtype.itemsize)
    place = cost.schedule.place(here.pid)
    if whole is None:
        part = _fetched(here, cost, nodes[1].value.get((here.pid,)), dtype)
    else:
        part = None if place is None else whole.astype(dtype, copy=False)[slice(*span(n, grid[1], place.layer))]
    total = None
    if place is not None:
        (block,) = nodes[0].value.values()
        total = np.matmul(own(here, block), own(here, part))
    if grid[1] > 1:
        total = _summed(here, cost, place, total)
    out = _line(m, here.nprocs, grid[0] * grid[1])
    return made_of((m,), dtype, out, {} if place is None else dict.fromkeys(out.mine(here.pid), total))


def _line(length: int, nprocs: int, parts: int | None = None) -> Layout:
    """A vector in even pieces, in the order of the processes."""
    count = max(1, min(nprocs, length)) if parts is None else parts
    return replicated((length,)) if nprocs == 1 else dealt((length,), (count,), (count,))


def _grid_of(matrix: Any, nprocs: int) -> Shape | None:
    """The grid of a matrix that lies in one block on each of its processes, row by row."""
    if not isinstance(matrix, Array):
        return None
    layout = matrix.layout
    grid = layout.process_grid
    return (
        grid
        if layout is Schedule(matrix.shape[0], matrix.shape[1], 1, grid[0], 1, grid[1]).layouts(nprocs)[0]
        else None
    )


def _summed(here: World, cost: Counted, place: Place | None, total: Any) -> Any:
    """The sums over all layers, a part of them on each."""
    steps = cost.exchanges[-1:]
    if place is None:
        idle(here, steps)
        return None
    moves = {"C": summed(here, cost.schedule, place, 0, total.reshape(-1, 1))}
    return together(here, iter(steps), moves)["C"].reshape(-1)


def _fetched(here: World, cost: Counted, piece: Any, dtype: DType) -> Any:
    """What x has for the columns of this process's block."""
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
