"""Where values stand in a sorted vector.

The position of a value is how many elements are less (or not greater), a sum over processes: few values go to all
processes and their counts are added.  Many values are dealt, and the shorter of two ways is taken: the sorted vector
to every process, or each value to the process whose piece it falls into, and its position back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays.array import Array, wrap
from bsp.arrays.forecast import procedure
from bsp.arrays.functions import build
from bsp.arrays.functions.creation import asarray
from bsp.arrays.planning.graph import Node
from bsp.arrays.selection.lookups import _grouped
from bsp.arrays.selection.procedures import block_map, computed, in_line, known, layout_at, made_of
from bsp.arrays.selection.sorting import INT64
from bsp.arrays.world import World, world
from bsp.payload import is_abstract


@procedure
def searchsorted(x1: Any, x2: Any, /, side: Any = "left", sorter: Any = None) -> Array:
    """For each element of x2, where it would go into the sorted vector x1.

    Cost: nothing if every process has x1.  Else with n of x1 and m of x2: one superstep, h = 2m, if every process has
    x2; one superstep, h = n, if n is at most 2m/p; else three supersteps, h about 2m/p.
    """
    if side not in ("left", "right"):
        raise ValueError(f"search side must be 'left' or 'right' (got {side!r})")
    line, values = asarray(x1), asarray(x2)
    if line.ndim != 1:
        raise ValueError(
            "object too deep for desired array" if line.ndim else "object of too small depth for desired array"
        )
    if sorter is not None:
        line = line[asarray(sorter)]
    kind = np.result_type(line.dtype, values.dtype)
    a, b = computed(build.cast(build.strong(line._node), kind), build.cast(build.strong(values._node), kind))
    here = world()
    whole = known(a)
    if whole is not None:
        return block_map(b, INT64, lambda block: _found(whole, block, side))
    n, m = a.kind.size, b.kind.size
    wanted = known(b)
    if wanted is not None:
        _, block = in_line(a)
        counts = here.private.allreduce(_found(block, wanted, side).reshape(-1), "add")
        return made_of(b.kind.shape, INT64, layout_at(b), {at: counts.reshape(b.kind.shape) for at in b.value})
    if n * here.nprocs <= 2 * m:
        (a,) = computed(build.everywhere(a))
        everywhere = known(a)
        return block_map(b, INT64, lambda block: _found(everywhere, block, side))
    return _routed(here, a, b, side)


def _found(line: Any, values: Any, side: Any) -> Any:
    """NumPy's, as an array of the values' shape."""
    found = np.searchsorted(line, values.reshape(-1), side)
    return found.reshape(values.shape)


def _routed(here: World, a: Node, b: Node, side: Any) -> Array:
    """Values to the processes whose pieces they fall into: edges of pieces, values, positions."""
    bounds, block = in_line(a)
    layout = layout_at(b)
    blocks = [(at, b.value[at]) for at in layout.mine(here.pid)]
    edges = here.exchange("first elements of pieces", [(dest, block[:1]) for dest in range(here.nprocs)])
    if here.abstract:
        return _abstract(here, b, blocks)
    owners = [pid for pid, edge in edges if edge.size]
    first = np.concatenate([edge for _, edge in edges])
    out, asked = [], []
    for number, (_, values) in enumerate(blocks):
        flat = values.reshape(-1)
        to = np.maximum(np.searchsorted(first, flat, side) - 1, 0)
        for code, rows in _grouped(to):
            out.append((owners[code], flat[rows]))
            asked.append((owners[code], number, rows))
    arrived = here.exchange("values to pieces", out)
    replies = [(pid, np.searchsorted(block, values, side) + bounds[here.pid]) for pid, values in arrived]
    arrived = here.exchange("positions", replies)
    results = [np.empty(values.size, np.int64) for _, values in blocks]
    for (_, number, rows), (_, positions) in zip(sorted(asked, key=lambda each: each[0]), arrived, strict=True):
        results[number][rows] = positions
    return made_of(b.kind.shape, INT64, layout, {
        at: result.reshape(values.shape) for (at, values), result in zip(blocks, results, strict=True)
    })  # fmt: skip


def _abstract(here: World, b: Node, blocks: list[Any]) -> Array:
    """All values to one process, all positions back."""
    here.at_most()
    arrived = here.exchange("values to pieces", [(here.busiest, values) for _, values in blocks])
    here.exchange("positions", [(pid, here.empty(values.shape, INT64)) for pid, values in arrived])
    return made_of(b.kind.shape, INT64, layout_at(b), {at: here.empty(values.shape, INT64) for at, values in blocks})


@procedure
def digitize(x: Any, bins: Any, right: bool = False) -> Array:
    """The bin of each element: searchsorted in rising bins, or from the end of falling ones.  `bins` is small."""
    edges = bins.compute() if isinstance(bins, Array) else np.asarray(bins)
    if edges.ndim != 1:
        raise ValueError(
            "object too deep for desired array" if edges.ndim else "object of too small depth for desired array"
        )
    steps = np.diff(edges)
    if is_abstract(steps) or (steps >= 0).all():
        return searchsorted(edges, x, "left" if right else "right")
    if not (steps <= 0).all():
        raise ValueError("bins must be monotonically increasing or decreasing")
    return wrap((len(edges) - searchsorted(edges[::-1], x, "right" if right else "left"))._node)


FUNCTIONS: dict[str, Callable[..., Any]] = {each.__name__: each for each in (searchsorted, digitize)}
