"""Search in sorted vectors: `searchsorted`, `digitize`, `interp`.

The position of a value is the number of elements less than it (or not greater), a sum over processes.  For values
that every process has, each process counts in its own piece, and the counts are added.  For dealt values there are
two ways, and the one with fewer words is taken: the sorted vector goes to every process, or each value goes to the
process whose piece it falls into, and its position comes back.
"""

from __future__ import annotations

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
from bsp.arrays.procedures.operands import block_map, computed, declared_of, in_line, known, layout_at, made_of
from bsp.arrays.selection.lookups import grouped
from bsp.arrays.sorting.sorting import INT64, argsort
from bsp.arrays.typing import ArrayLike, Side
from bsp.declared import Reported, declares
from bsp.values.payload import as_array

__all__ = ["digitize", "interp", "searchsorted"]


@procedure
def searchsorted(x1: ArrayLike, x2: ArrayLike, /, side: Side = "left", sorter: ArrayLike | None = None) -> Array:
    """Return the position at which each element of x2 would go into the sorted vector x1.

    Cost: nothing if every process has x1.  Else, for n elements of x1 and m of x2: one superstep, h = 2m, if every
    process has x2; one superstep, h = n, if n is at most 2m/p and 16 MB; else three supersteps, h about 2m/p.
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
    if known(b) is not None:
        return _counted(here, a, b, side)
    if few_beside(a, m):
        (a,) = computed(build.everywhere(a))
        everywhere = known(a)
        return block_map(b, INT64, lambda block: _found(everywhere, block, side))
    return _routed(here, a, b, side)


def few_beside(line: Node, count: int) -> bool:
    """Return whether a dealt vector should be replicated before `count` elements are looked up in it.

    True if that takes fewer words than sending the elements to its pieces, and the vector has at most 16 MB: a larger
    one would be a silent gather.
    """
    small = line.kind.size * line.kind.dtype.itemsize <= SILENT_BYTES
    return small and line.kind.size * world().nprocs <= 2 * count


def _counted_cost(costs: Reported, here: World, a: Node, b: Node, side: Any) -> Array:
    """Declare the cost of `_counted`."""
    _, block = in_line(a)
    np.searchsorted(block, known(b).reshape(-1), side)
    costs.allreduce(b.kind.size, INT64)
    return declared_of(costs, b.kind.shape, INT64, layout_at(b))


@declares(_counted_cost)
def _counted(here: World, a: Node, b: Node, side: Any) -> Array:
    """Look up replicated values: each process counts in its piece, and the counts are added.  Collective."""
    _, block = in_line(a)
    counts = here.private.allreduce(_found(block, known(b), side).reshape(-1), "add")
    return made_of(b.kind.shape, INT64, layout_at(b), {at: counts.reshape(b.kind.shape) for at in b.value})


def _found(line: Any, values: Any, side: Any) -> Any:
    """Return np.searchsorted of values of any shape, in their shape."""
    found = np.searchsorted(line, values.reshape(-1), side)
    return found.reshape(values.shape)


def _routed_cost(costs: Reported, here: World, a: Node, b: Node, side: Any) -> Array:
    """Declare the cost of `_routed`, assuming that all values go to one process."""
    costs.at_most()
    _, block = in_line(a)
    values = [b.value[at] for at in layout_at(b).mine(here.pid)]
    costs.tell("first elements of pieces", block[:1])
    costs.passing(6 * sum(each.size for each in values), INT64)  # the destination of each value, and their order
    arrived = costs.total_exchange("values to pieces", [(costs.busiest, each) for each in values])
    costs.total_exchange("positions", [(pid, costs.memory(each.shape, INT64)) for pid, each in arrived])
    return declared_of(costs, b.kind.shape, INT64, layout_at(b))


@declares(_routed_cost)
def _routed(here: World, a: Node, b: Node, side: Any) -> Array:
    """Look up dealt values: send each to the process whose piece it falls into, and its position back.

    Collective, three supersteps: first elements of the pieces, values, positions.
    """
    bounds, block = in_line(a)
    layout = layout_at(b)
    blocks = [(at, b.value[at]) for at in layout.mine(here.pid)]
    edges = here.exchange("first elements of pieces", [(range(here.nprocs), block[:1])])
    owners = [pid for pid, edge in edges if edge.size]
    first = np.concatenate([edge for _, edge in edges])
    out, asked = [], []
    for number, (_, values) in enumerate(blocks):
        flat = values.reshape(-1)
        to = np.maximum(np.searchsorted(first, flat, side) - 1, 0)
        for code, rows in grouped(to):
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


@procedure
def digitize(x: ArrayLike, bins: ArrayLike, right: bool = False) -> Array:
    """Return the number of the bin that each element falls into; the edges `bins` may rise or fall.

    Cost: that of `searchsorted`.  Dealt bins take one superstep more, which finds whether they rise; if they fall, a
    total exchange reverses them.
    """
    if asarray(x).dtype.kind == "c":
        raise TypeError("x may not be complex")
    if isinstance(bins, Array):
        (node,) = computed(build.strong(bins._node))
        whole = known(node)
        edges: Any = wrap(node) if whole is None else whole
    else:
        edges = as_array(bins)
    if edges.ndim != 1:
        raise ValueError(
            "object too deep for desired array" if edges.ndim else "object of too small depth for desired array"
        )
    side: Side = "left" if right else "right"
    if _rising(edges):
        return searchsorted(edges, x, side)
    return wrap((len(edges) - searchsorted(edges[::-1], x, side))._node)


def _order(edges: Any) -> tuple[Any, Any]:
    """Return whether edges rise and whether they fall; computed by one plan, collective, if they are dealt."""
    rise, fall = (edges[1:] >= edges[:-1]).all(), (edges[1:] <= edges[:-1]).all()
    if isinstance(edges, Array):
        rise, fall = compute(rise, fall)
    return rise, fall


def _rising_cost(costs: Reported, edges: Any) -> bool:
    """Declare the cost of `_rising`, assuming that the edges rise."""
    _order(edges)
    return True


@declares(_rising_cost)
def _rising(edges: Any) -> bool:
    """Return whether edges rise, rather than fall; raise ValueError if they do neither."""
    rise, fall = _order(edges)
    if not (rise or fall):
        raise ValueError("bins must be monotonically increasing or decreasing")
    return bool(rise)


@procedure
def interp(
    x: ArrayLike, xp: ArrayLike, fp: ArrayLike, left: complex | None = None, right: complex | None = None,
    period: float | None = None,
) -> Array:  # fmt: skip
    """Interpolate linearly at x between points (xp, fp), xp ascending; `left` and `right` are the values outside.

    Cost: only work where every process has the points.  Points that are few beside the elements of x are brought to
    all processes (h: their words).  For many points each element looks up the two beside it: `searchsorted`, and five
    words.
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
    array = asarray(x)
    for each, needed in ((array, np.float64), (points, np.float64), (values, kind)):
        if not np.can_cast(each.dtype, needed):
            raise TypeError(f"interp: {each.dtype} is not cast to {np.dtype(needed)} by the rule 'safe'; x.astype() is")
    array, points, values = astype(array, np.float64), astype(points, np.float64), astype(values, kind)
    if period is not None:
        array, points = array % period, points % period
        order = argsort(points)
        points, values = points[order], values[order]
        points = concat([points[-1:] - period, points, points[:1] + period])
        values = concat([values[-1:], values, values[:1]])
    a, b, c = computed(build.strong(points._node), build.strong(values._node), build.strong(array._node))
    if known(a) is None and few_beside(a, array.size):
        a, b = computed(build.everywhere(a), build.everywhere(b))
    line, heights = known(a), known(b)
    if line is not None and heights is None and few_beside(b, array.size):
        (b,) = computed(build.everywhere(b))
        heights = known(b)
    if line is not None and heights is not None:
        return block_map(c, kind, lambda block: _interpolated(block, line, heights, left, right, kind))
    return _between(wrap(c), wrap(a), wrap(b), left, right, kind)


def _interpolated_cost(costs: Reported, block: Any, line: Any, heights: Any, left: Any, right: Any, kind: Any) -> Any:
    """Declare the cost of `_interpolated`: a search for each element."""
    np.searchsorted(line, block)
    return costs.memory(block.shape, kind)


@declares(_interpolated_cost)
def _interpolated(block: Any, line: Any, heights: Any, left: Any, right: Any, kind: Any) -> Any:
    """Return np.interp of a block between points that every process has."""
    return np.asarray(np.interp(block, line, heights, left, right))


def _between(x: Array, points: Array, values: Array, left: Any, right: Any, kind: Any) -> Array:
    """Interpolate between dealt points: each element looks up the two points beside it.  Collective."""
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
        other = slope * (x - high) + z  # NumPy's second formula, from the upper point, where the first gives NaN
        found = where(found != found, where((other != other) & (y == z), y, other), found)
        parts.append(where(x == low, y, where(x >= high, z, found)))
    whole = parts[0] if width == 2 else parts[0] + 1j * parts[1]
    whole = where(x < points[0], values[0] if left is None else left, whole)
    whole = where(x > points[last], values[last] if right is None else right, whole)
    return astype(where(x != x, np.nan, whole), kind)
