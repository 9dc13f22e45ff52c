"""Aggregates by group: each process combines its own elements first, then partial results go to their owners.

The groups are the cells of the result.  Along some axes arrays of integers (keys) give an element's cell; along the
other axes its position in the values does.  Source: Khan and Fegaras, section 3: a group-by whose key is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays import build
from bsp.arrays.array import Array, wrap
from bsp.arrays.errors import PlanTooLarge
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions import layout as layouts
from bsp.arrays.expressions.graph import Access, Node
from bsp.arrays.expressions.layout import Layout, Shape, automatic, replicated
from bsp.arrays.kernels import aggregates as ag
from bsp.arrays.kernels.aggregates import Aggregate, Mean, Moments
from bsp.arrays.planning.reshaping import contiguous
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import computed, declared_of, layout_at, made_of
from bsp.arrays.sorting.extremes import extremes
from bsp.cost.units import in_bytes
from bsp.declared import Reported, declares
from bsp.errors import BspError, ValueNeeded

AGGREGATES: dict[str, Aggregate] = {
    "sum": ag.SUM, "prod": ag.PROD, "min": ag.MIN, "max": ag.MAX, "any": ag.ANY, "all": ag.ALL, "mean": ag.MEAN,
    "var": ag.moments(0, False), "std": ag.moments(0, True),
}  # fmt: skip
_DENSE = 2  # a process with fewer elements than groups/_DENSE holds only the groups that occur in its elements


class BadGroup(IndexError):
    """A key has a value outside the groups of the result."""

    def __init__(self, key: int, value: int) -> None:
        super().__init__(f"group {value} of key {key}")
        self.key = key
        self.value = value


class Cells(NamedTuple):
    """Partial results of this process, in C order of the cells."""

    at: np.ndarray | None  # the cells that `parts` belong to, ascending; None: all cells
    parts: np.ndarray


@procedure
def by_group(
    how: str, values: Array, keys: Sequence[Array], axes: Sequence[tuple[int, ...]], whole: Shape,
    spans: Sequence[range | None], plain: Sequence[int],
) -> Array:  # fmt: skip
    """Aggregate values by group; the result has an axis for each key, then those of `plain`.  Collective.

    axes : for the values and for each key, the axes of the common shape `whole` that theirs are, ascending; along
        the other axes they are repeated.
    whole : the lengths of all axes.
    spans : the groups of each key; None: from 0 to the greatest key.
    A group without elements gets the aggregate's value for no elements: 0, 1, inf, -inf, False, True or nan; min and
    max of integers give the greatest and the least integer of the dtype.

    Cost: two supersteps.  The first finds the least and greatest key, h = 2k(p - 1) for k keys; each key remembers
    them.  The second sends the groups that each process has: h about g words for g groups, 2g for mean, 3g for var and
    std; p - 1 times that where the result is so small that every process gets all of it.
    Raises, on every process, BadGroup for a key outside its span, and PlanTooLarge if the groups do not fit into the
    memory.
    """
    here, aggregate = world(), AGGREGATES[how]
    nodes = list(computed(*[build.strong(each._node) for each in (values, *keys)]))
    runs = _runs(here, nodes[1:], spans)
    shape = (*[len(run) for run in runs], *[whole[axis] for axis in plain])
    needed = prod(shape) * _held(aggregate, nodes[0].kind.dtype).itemsize / here.nprocs
    text = f"comprehension: {prod(shape)} groups need {in_bytes(needed)} on each process, with elements or without"
    instead = "np.unique(keys, return_inverse=True) numbers those that have elements"
    if here.memory and needed > here.memory:
        raise PlanTooLarge(f"{text}, limit {in_bytes(here.memory)}; {instead}")
    layout = _layout_for(nodes, axes, whole)
    nodes = [_beside(node, own, layout) for node, own in zip(nodes, axes, strict=True)]
    try:
        return _aggregated(here, aggregate, nodes, axes, runs, plain, shape, layout)
    except BspError:
        raise
    except MemoryError as wrong:
        raise PlanTooLarge(f"{text}; {instead}") from wrong


def _runs_cost(costs: Reported, here: World, keys: Sequence[Node], spans: Sequence[range | None]) -> list[range]:
    """Declare the cost of `_runs`; raise ValueNeeded where the number of groups depends on values."""
    if None in spans:
        raise ValueNeeded("how many groups there are follows from values; give their range: ... for b[i] in 0:n")
    extremes(here, keys)
    return [span for span in spans if span is not None]


@declares(_runs_cost)
def _runs(here: World, keys: Sequence[Node], spans: Sequence[range | None]) -> list[range]:
    """Return the range of groups of each key; raise BadGroup on every process for a key outside.  Collective."""
    runs = []
    for number, (span, (least, greatest)) in enumerate(zip(spans, extremes(here, keys), strict=True)):
        run = range(greatest + 1) if span is None else span
        for end in (least, greatest) if least <= greatest else ():
            if end not in run:
                raise BadGroup(number, end)
        runs.append(run)
    return runs


def _aggregated_cost(
    costs: Reported, here: World, how: Aggregate, nodes: Sequence[Node], axes: Sequence[tuple[int, ...]],
    runs: Sequence[range], plain: Sequence[int], shape: Shape, layout: Layout,
) -> Array:  # fmt: skip
    """Declare an upper bound of the cost of `_aggregated`: each process sends all cells that its elements can have."""
    own = sum(prod(layout.block_shape(at)) for at in layout.mine(here.pid))
    costs.passing(2 * own, np.dtype(np.int64))
    dtype = nodes[0].kind.dtype
    if layout.replicated:
        return wrap(build.from_whole(costs.memory(shape, how.result(dtype)), automatic(shape, here.nprocs)))
    return merged_cost(costs, how, own, shape, dtype, how.result(dtype))


@declares(_aggregated_cost)
def _aggregated(
    here: World, aggregate: Aggregate, nodes: Sequence[Node], axes: Sequence[tuple[int, ...]], runs: Sequence[range],
    plain: Sequence[int], shape: Shape, layout: Layout,
) -> Array:  # fmt: skip
    """Aggregate values by keys that are in the same layout, and merge the partial results.  Collective.

    runs : the groups of each key.  shape : of the result.  layout : of the elements where they are aggregated.
    """
    dtype = nodes[0].kind.dtype
    result = aggregate.result(dtype)
    codes, own = [], []
    for at in layout.mine(here.pid):
        box = layout.box(at)
        lengths = tuple(stop - start for start, stop in box)
        code: Any = np.zeros((1,) * len(box), np.int64)
        for node, along, run in zip(nodes[1:], axes[1:], runs, strict=True):
            keys = _part(node, along, layout, at).astype(np.int64, copy=False)  # less a start, int8 would wrap around
            code = code * len(run) + (keys - run.start)
        for axis in plain:
            position = np.arange(*box[axis]).reshape([-1 if each == axis else 1 for each in range(len(box))])
            code = code * layout.shape[axis] + position
        codes.append(np.broadcast_to(code, lengths).reshape(-1))
        own.append(np.broadcast_to(_part(nodes[0], axes[0], layout, at), lengths).reshape(-1))
    cells = _folded(
        aggregate, np.concatenate(codes) if codes else np.zeros(0, np.int64),
        np.concatenate(own) if own else np.zeros(0, dtype), prod(shape), dtype, layout.replicated,
    )  # fmt: skip
    if layout.replicated:
        assert cells.at is None
        target = automatic(shape, here.nprocs)
        return wrap(build.from_whole(_finished(aggregate, cells.parts, result).reshape(shape), target))
    return merged(here, aggregate, cells, shape, dtype, result)


# ---------------------------------------------------------------------------------- operands


def _layout_for(nodes: Sequence[Node], axes: Sequence[tuple[int, ...]], whole: Shape) -> Layout:
    """Return the layout in which elements are aggregated: that of the first dealt array that has all axes.

    Return a replicated layout if every array is replicated; each process then aggregates all elements.  Nothing has
    to move if all arrays have the same layout.
    """
    every = tuple(range(len(whole)))
    for node, own in zip(nodes, axes, strict=True):
        if own == every and not layout_at(node).replicated:
            return layout_at(node)
    if all(layout_at(node).replicated for node in nodes):
        return replicated(whole)
    return automatic(whole, world().nprocs, False)


def _beside(node: Node, axes: tuple[int, ...], layout: Layout) -> Node:
    """Return a node of which each process has the part that belongs to each of its blocks.

    That is the node itself if it holds already; else the node repeated along the other axes, in the given layout.
    Collective: one exchange if the elements must move.
    """
    own = layout_at(node)
    if own.replicated or own is layout:
        return node
    others = [axis for k, axis in enumerate(layout.axes) if k not in axes]
    alike = tuple(layout.axes[axis] for axis in axes) == own.axes and all(axis.deal == 1 for axis in others)
    if alike and own.table is None and layout.table is None:
        return node
    shape = layout.shape
    spread = build.viewed(node, shape, [Access(axis) for axis in axes])
    return computed(build.relaid(spread, layout))[0]


def _part(node: Node, axes: tuple[int, ...], layout: Layout, at: Shape) -> Any:
    """Return the part of a node that belongs to a block, shaped so that it broadcasts to the block."""
    own, box = layout_at(node), layout.box(at)
    if own is layout:
        return node.value[at]
    if own.replicated:
        (values,) = node.value.values()
        part = values[tuple(slice(*box[axis]) for axis in axes)]
    else:
        part = node.value[tuple(at[axis] for axis in axes)]
    lengths = dict(zip(axes, part.shape, strict=True))
    return part.reshape([lengths.get(axis, 1) for axis in range(len(box))])


# ------------------------------------------------------------------------------- combination


def _held(how: Aggregate, dtype: Any) -> np.dtype[Any]:
    """Return the dtype of a partial result; it includes the number of elements where the aggregate needs it."""
    partial = how.partial(dtype)
    return np.dtype([("part", partial), ("count", np.int64)]) if isinstance(how, (Mean, Moments)) else partial


def _of_none(how: Aggregate, size: int, dtype: Any) -> np.ndarray:
    """Return `size` partial results of no elements."""
    held = _held(how, dtype)
    if how.identity is not None and held.names is None:
        return how.start_of((size,), held)
    if how.ufunc not in (np.minimum, np.maximum):
        return np.zeros(size, held)
    low = how.ufunc is np.maximum
    if held.kind == "b":
        return np.full(size, not low, held)
    if held.kind in "iu":
        return np.full(size, np.iinfo(held).min if low else np.iinfo(held).max, held)
    infinite = -np.inf if low else np.inf
    return np.full(size, complex(infinite, infinite) if held.kind == "c" else infinite, held)


def _folded(how: Aggregate, codes: np.ndarray, values: np.ndarray, size: int, dtype: Any, all_cells: bool) -> Cells:
    """Aggregate this process's elements by cell; `codes` has the cell of each element.

    all_cells : whether to return all `size` cells; else cells without elements are left out if they are many.
    """
    at = None
    if not all_cells and size > _DENSE * len(codes):
        at, codes = np.unique(codes, return_inverse=True)
        size = len(at)
    if how.ufunc is np.add and not isinstance(how, (Mean, Moments)):
        return Cells(at, _sums(codes, values, size, how.partial(dtype)))
    found = _of_none(how, size, dtype)
    if found.dtype.names is None:
        how.ufunc.at(found, codes, values.astype(found.dtype, copy=False))
        return Cells(at, found)
    counts = np.bincount(codes, minlength=size)
    found["count"] = counts
    held = found.dtype["part"]
    if isinstance(how, Mean):
        found["part"] = _sums(codes, values, size, held)
        return Cells(at, found)
    mean = _sums(codes, values, size, held["mean"]) / np.maximum(counts, 1).astype(held["squares"])
    deviation = values - mean[codes]
    squares = _sums(codes, (deviation * deviation.conj()).real, size, held["squares"])
    found["part"]["mean"], found["part"]["squares"] = mean, squares
    return Cells(at, found)


def _sums(codes: np.ndarray, values: np.ndarray, size: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return the sum of the values of each cell.

    They are added one after the other, half and single precision in double: a million float32 of 0.1 would be 100958.
    """
    wide = np.result_type(dtype, np.float64) if dtype.kind in "fc" else dtype
    total = np.zeros(size, wide)
    np.add.at(total, codes, values.astype(wide, copy=False))
    return total.astype(dtype, copy=False)


def _into(how: Aggregate, total: np.ndarray, at: Any, parts: np.ndarray) -> None:
    """Merge partial results of the cells `at`, all different, into `total`, in place."""
    if total.dtype.names is None:
        total[at] = how.ufunc(total[at], parts)
        return
    old = total[at]
    if isinstance(how, Mean):
        old["part"] += parts["part"]
    else:
        both, counts = np.stack([old["part"], parts["part"]]), np.stack([old["count"], parts["count"]])
        old["part"] = how.merge(both, (0,), counts)
    old["count"] += parts["count"]
    total[at] = old


def _finished(how: Aggregate, parts: np.ndarray, result: Any) -> np.ndarray:
    if parts.dtype.names is None:
        return parts.astype(result, copy=False)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(how.finish(parts["part"], parts["count"])).astype(result, copy=False)


def _target(shape: Shape, nprocs: int) -> Layout:
    """Return the layout of the result: replicated if all partial results are small, else ranges in C order."""
    return replicated(shape) if prod(shape) * nprocs <= layouts.REPLICATED_SIZE else contiguous(shape, nprocs)


_TEXT = "groups to their owners"


def merged(
    here: World, how: Aggregate, cells: Cells, shape: Shape, dtype: Any, result: Any, text: str = _TEXT
) -> Array:
    """Send partial results to the owners of their cells, and merge them there in the order of the processes.

    Collective: one exchange.
    """
    target = _target(shape, here.nprocs)
    if target.replicated:
        spans = [(0, prod(shape))] * here.nprocs
    else:
        ends = np.cumsum(target.sizes.reshape(-1))
        spans = [*zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True)]
    out: list[tuple[int, Any]] = []
    for dest, (start, stop) in enumerate(spans):
        if cells.at is None:
            out.append((dest, cells.parts[start:stop]))
            continue
        low, high = np.searchsorted(cells.at, (start, stop))
        own, parts = cells.at[low:high] - start, cells.parts[low:high]
        if 2 * len(own) > stop - start:  # all cells of this owner without positions are fewer words
            every = _of_none(how, stop - start, dtype)
            every[own] = parts
            out.append((dest, every))
        elif len(own):  # the receiver tells them apart: positions have two axes, partial results one
            out += [(dest, own[None]), (dest, parts)]
    arrived = here.exchange(text, out)
    blocks = {}
    for at in target.mine(here.pid):
        start, stop = spans[here.pid]
        total = _of_none(how, stop - start, dtype)
        where: Any = slice(None)
        for _, array in arrived:
            if array.ndim == 2:
                where = array[0]
                continue
            _into(how, total, where, array)
            where = slice(None)
        blocks[at] = _finished(how, total, result).reshape(target.block_shape(at))
    return made_of(shape, result, target, blocks)


def merged_cost(
    costs: Reported, how: Aggregate, own: int, shape: Shape, dtype: Any, result: Any, text: str = _TEXT
) -> Array:
    """Declare an upper bound of the cost of `merged`: this process's `own` elements are all in different cells.

    A process with fewer elements than half the cells sends only the cells that it has; `_folded` and `_tallied` do so.
    """
    target, size, held = _target(shape, costs.p), prod(shape), _held(how, dtype)
    out: list[tuple[int, Any]] = []
    for dest, cells in enumerate([size] * costs.p if target.replicated else target.sizes.reshape(-1).tolist()):
        if size > _DENSE * own:
            some = min(cells, own)
            out += [(dest, costs.memory((1, some), np.dtype(np.int64))), (dest, costs.memory((some,), held))]
        else:
            out.append((dest, costs.memory((cells,), held)))
    costs.total_exchange(text, out)
    costs.at_most()
    return declared_of(costs, shape, result, target)
