"""Where values stand in a sorted vector.

The position of a value is how many elements are less (or not greater), a sum over processes: few values go to all
processes and their counts are added.  Many values are dealt, and the shorter of two ways is taken: the sorted vector
to every process, or each value to the process whose piece it falls into, and its position back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import concat, stack
from bsp.arrays.api.ufuncs import astype, where
from bsp.arrays.array import Array, compute, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import Node
from bsp.arrays.gathering import SILENT_BYTES
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import block_map, computed, in_line, known, layout_at, made_of
from bsp.arrays.selection.lookups import _grouped
from bsp.arrays.sorting.sorting import INT64, argsort
from bsp.values.payload import is_abstract


@procedure
def searchsorted(x1: Any, x2: Any, /, side: Any = "left", sorter: Any = None) -> Array:
    """For each element of x2, where it would go into the sorted vector x1.

    Cost: nothing if every process has x1.  Else with n of x1 and m of x2: one superstep, h = 2m, if every process has
    x2; one superstep, h = n, if n is at most 2m/p and 16 MB; else three supersteps, h about 2m/p.
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
    m = b.kind.size
    wanted = known(b)
    if wanted is not None:
        _, block = in_line(a)
        counts = here.private.allreduce(_found(block, wanted, side).reshape(-1), "add")
        return made_of(b.kind.shape, INT64, layout_at(b), {at: counts.reshape(b.kind.shape) for at in b.value})
    if few_beside(a, m):
        (a,) = computed(build.everywhere(a))
        everywhere = known(a)
        return block_map(b, INT64, lambda block: _found(everywhere, block, side))
    return _routed(here, a, b, side)


def few_beside(line: Node, count: int) -> bool:
    """Return whether a vector is brought to every process, where `count` elements are looked up in it.

    It then takes fewer words than these elements on their way; 16 MB at most, for to hold more is a gather.
    """
    small = line.kind.size * line.kind.dtype.itemsize <= SILENT_BYTES
    return small and line.kind.size * world().nprocs <= 2 * count


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
    here.passes(6 * sum(values.size for _, values in blocks), INT64)  # where each goes, and these in order
    arrived = here.exchange("values to pieces", [(here.busiest, values) for _, values in blocks])
    here.exchange("positions", [(pid, here.empty(values.shape, INT64)) for pid, values in arrived])
    return made_of(b.kind.shape, INT64, layout_at(b), {at: here.empty(values.shape, INT64) for at, values in blocks})


@procedure
def digitize(x: Any, bins: Any, right: bool = False) -> Array:
    """The bin of each element: searchsorted in rising bins, or from the end of falling ones.

    Cost: that of `searchsorted`.  Of dealt bins one superstep more, in which all hear whether they rise, and of
    falling ones a total exchange that turns them round.
    """
    if isinstance(bins, Array):
        (node,) = computed(build.strong(bins._node))
        whole = known(node)
        edges: Any = wrap(node) if whole is None else whole
    else:
        edges = np.asarray(bins)
    if edges.ndim != 1:
        raise ValueError(
            "object too deep for desired array" if edges.ndim else "object of too small depth for desired array"
        )
    rise, fall = (edges[1:] >= edges[:-1]).all(), (edges[1:] <= edges[:-1]).all()
    if isinstance(edges, Array):
        rise, fall = compute(rise, fall)
    side = "left" if right else "right"
    if is_abstract(rise) or rise:
        return searchsorted(edges, x, side)
    if not fall:
        raise ValueError("bins must be monotonically increasing or decreasing")
    return wrap((len(edges) - searchsorted(edges[::-1], x, side))._node)


@procedure
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Array:
    """The values at x of the lines between points (xp, fp), xp ascending; `left` and `right` beyond them.

    Cost: nothing but work where every process has the points; few points, as against the elements of x, are brought
    to all (h: their words); of many, each element looks up the two points beside it: `searchsorted`, and five words.
    """
    points, values = asarray(xp), asarray(fp)
    kind = np.dtype(np.complex128 if values.dtype.kind == "c" else np.float64)
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        period, left, right = abs(period), None, None
    if points.ndim != 1 or values.ndim != 1:
        raise ValueError("Data points must be 1-D sequences" if period else "object too deep for desired array")
    if points.shape != values.shape:
        raise ValueError("fp and xp are not of the same length.")
    if not points.size:
        raise ValueError("array of sample points is empty")
    array = astype(asarray(x), np.float64)
    points, values = astype(points, np.float64), astype(values, kind)
    if period is not None:
        array, points = array % period, points % period
        order = argsort(points)
        points, values = points[order], values[order]
        points = concat([points[-1:] - period, points, points[:1] + period])
        values = concat([values[-1:], values, values[:1]])
    here = world()
    a, b, c = computed(build.strong(points._node), build.strong(values._node), build.strong(array._node))
    if known(a) is None and few_beside(a, array.size):
        a, b = computed(build.everywhere(a), build.everywhere(b))
    line, heights = known(a), known(b)
    if line is not None and heights is None and few_beside(b, array.size):
        (b,) = computed(build.everywhere(b))
        heights = known(b)
    if line is not None and heights is not None:
        return block_map(c, kind, lambda block: _interpolated(here, block, line, heights, left, right, kind))
    return _between(wrap(c), wrap(a), wrap(b), left, right, kind)


def _interpolated(here: World, block: Any, line: Any, heights: Any, left: Any, right: Any, kind: Any) -> Any:
    if here.abstract:
        np.searchsorted(np.zeros(line.shape[0]), block)
        return here.empty(block.shape, kind)
    return np.asarray(np.interp(block, line, heights, left, right))


def _between(x: Array, points: Array, values: Array, left: Any, right: Any, kind: Any) -> Array:
    """interp of points that no process has all of: each element looks up the two beside it."""
    last = points.size - 1
    at = (searchsorted(points, x, "right") - 1).clip(0, max(last - 1, 0))
    columns = [points, values] if kind.kind == "f" else [points, values.real, values.imag]
    table = stack([*columns, *[concat([each[1:], each[-1:]]) for each in columns]], axis=1)[at]
    width = len(columns)

    def column(k: int) -> Array:
        return table[(..., k)]

    low, high = column(0), column(width)
    parts = []
    for k in range(1, width):
        y, z = column(k), column(width + k)
        slope = (z - y) / (high - low)
        found = slope * (x - low) + y
        other = slope * (x - high) + z  # as NumPy does where the first is NaN: from the other point
        found = where(found != found, where((other != other) & (y == z), y, other), found)
        parts.append(where(x == low, y, where(x >= high, z, found)))
    whole = parts[0] if width == 2 else parts[0] + 1j * parts[1]
    whole = where(x < points[0], values[0] if left is None else left, whole)
    whole = where(x > points[last], values[last] if right is None else right, whole)
    return astype(where(x != x, np.nan, whole), kind)


FUNCTIONS: dict[str, Callable[..., Any]] = {each.__name__: each for each in (searchsorted, digitize, interp)}
