"""Aggregates by group: each process combines its own elements first, then partial results go to their owners.

The groups are the cells of an array: along some of its axes a cell is named by arrays of integers (keys), along the
others by an axis of the values.  Source: Khan and Fegaras, section 3: a group-by whose key is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays import build
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions import layout as layouts
from bsp.arrays.expressions.graph import Access, Node
from bsp.arrays.expressions.layout import Layout, Shape, automatic, replicated
from bsp.arrays.kernels import aggregates as ag
from bsp.arrays.kernels.aggregates import Aggregate, Mean, Moments
from bsp.arrays.planning.reshaping import contiguous
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import computed, layout_at, made_of
from bsp.arrays.sorting.extremes import extremes
from bsp.errors import ValueNeeded

AGGREGATES: dict[str, Aggregate] = {
    "sum": ag.SUM, "prod": ag.PROD, "min": ag.MIN, "max": ag.MAX, "any": ag.ANY, "all": ag.ALL, "mean": ag.MEAN,
    "var": ag.moments(0, False), "std": ag.moments(0, True),
}  # fmt: skip
_DENSE = 2  # a process with fewer elements than 1/2 of the groups holds only the groups that it has


class BadGroup(IndexError):
    """An element whose group is none of the result's."""

    def __init__(self, key: int, value: int) -> None:
        super().__init__(f"group {value} of key {key}")
        self.key = key
        self.value = value


class Cells(NamedTuple):
    """Partial results of this process, in C order of the cells."""

    at: np.ndarray | None  # which cells these are, ascending; None: all
    parts: np.ndarray


@procedure
def by_group(
    how: str, values: Array, keys: Sequence[Array], axes: Sequence[tuple[int, ...]], whole: Shape,
    spans: Sequence[range | None], plain: Sequence[int],
) -> Array:  # fmt: skip
    """Aggregate values by group; the result has an axis for each key, then those of `plain`.

    axes : of the values and of each key, ascending: which of the axes `whole` theirs are; along the others they are
        repeated.
    whole : the lengths of all axes.
    spans : the groups of each key; None: from 0 to its greatest.
    A group of no elements has what the aggregate has of none: 0, 1, inf, -inf, False, True, nan; of integers the
    greatest and the least.

    Cost: two supersteps: the least and greatest key, h = 2k(p - 1) for k keys, told once for each key; and the groups
    that each process has, h at most 2g for g groups, of mean 2g, of var and std 3g more where no process has all.
    Raises BadGroup on every process for a key outside its span.
    """
    here, aggregate = world(), AGGREGATES[how]
    nodes = list(computed(*[build.strong(each._node) for each in (values, *keys)]))
    if here.abstract and None in spans:
        raise ValueNeeded("how many groups there are follows from values; give their range: ... for b[i] in 0:n")
    found = extremes(here, nodes[1:])
    runs = []
    for number, (span, (least, greatest)) in enumerate(zip(spans, found, strict=True)):
        run = range(greatest + 1) if span is None else span
        for end in (least, greatest) if least <= greatest and not here.abstract else ():
            if end not in run:
                raise BadGroup(number, end)
        runs.append(run)
    shape = (*[len(run) for run in runs], *[whole[axis] for axis in plain])
    layout = _layout_for(nodes, axes, whole)
    nodes = [_beside(node, own, layout) for node, own in zip(nodes, axes, strict=True)]
    dtype = nodes[0].kind.dtype
    result = aggregate.result(dtype)
    if here.abstract:
        return _abstract(here, shape, layout, aggregate, dtype)
    codes, own = [], []
    for at in layout.mine(here.pid):
        box = layout.box(at)
        lengths = tuple(stop - start for start, stop in box)
        code: Any = np.zeros((1,) * len(box), np.int64)
        for node, along, run in zip(nodes[1:], axes[1:], runs, strict=True):
            code = code * len(run) + (_part(node, along, layout, at) - run.start)
        for axis in plain:
            position = np.arange(*box[axis]).reshape([-1 if each == axis else 1 for each in range(len(box))])
            code = code * whole[axis] + position
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
    """The layout in which elements are folded: that of the first dealt array that has all axes.

    Replicated if every process has everything: each then folds all of it.  Nothing moves if all lie alike.
    """
    every = tuple(range(len(whole)))
    for node, own in zip(nodes, axes, strict=True):
        if own == every and not layout_at(node).replicated:
            return layout_at(node)
    if all(layout_at(node).replicated for node in nodes):
        return replicated(whole)
    return automatic(whole, world().nprocs, False)


def _beside(node: Node, axes: tuple[int, ...], layout: Layout) -> Node:
    """The node where every process has what goes with its blocks: itself, if it is so; else repeated and moved."""
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
    """What of a node goes with a block: an array that broadcasts to the block."""
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
    """The dtype of a partial result: with the number of elements where the aggregate needs it."""
    partial = how.partial(dtype)
    return np.dtype([("part", partial), ("count", np.int64)]) if isinstance(how, (Mean, Moments)) else partial


def _of_none(how: Aggregate, size: int, dtype: Any) -> np.ndarray:
    """The partial results of no elements."""
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
    """The partial results of this process's elements, which lie in cells `codes`."""
    at = None
    if not all_cells and size > _DENSE * len(codes):
        at, codes = np.unique(codes, return_inverse=True)
        size = len(at)
    found = _of_none(how, size, dtype)
    if found.dtype.names is None:
        how.ufunc.at(found, codes, values.astype(found.dtype, copy=False))
        return Cells(at, found)
    counts = np.bincount(codes, minlength=size)
    found["count"] = counts
    if isinstance(how, Mean):
        total = np.zeros(size, found.dtype["part"])
        np.add.at(total, codes, values.astype(total.dtype, copy=False))
        found["part"] = total
        return Cells(at, found)
    held = found.dtype["part"]
    mean, squares = np.zeros(size, held["mean"]), np.zeros(size, held["squares"])
    np.add.at(mean, codes, values.astype(mean.dtype, copy=False))
    mean /= np.maximum(counts, 1)
    deviation = values - mean[codes]
    np.add.at(squares, codes, (deviation * deviation.conj()).real.astype(squares.dtype, copy=False))
    found["part"]["mean"], found["part"]["squares"] = mean, squares
    return Cells(at, found)


def _into(how: Aggregate, total: np.ndarray, at: Any, parts: np.ndarray) -> None:
    """Merge partial results of some cells, each once, into those of all."""
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
    """Where the result goes: to all if all partial results together are small, else in ranges of C order."""
    return replicated(shape) if prod(shape) * nprocs <= layouts.REPLICATED_SIZE else contiguous(shape, nprocs)


_TEXT = "groups to their owners"


def merged(
    here: World, how: Aggregate, cells: Cells, shape: Shape, dtype: Any, result: Any, text: str = _TEXT
) -> Array:
    """Send partial results to the owners of their cells, and merge them there in the order of the processes."""
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
        if 2 * len(own) > stop - start:  # most cells of this owner: without their positions these are fewer words
            every = _of_none(how, stop - start, dtype)
            every[own] = parts
            out.append((dest, every))
        elif len(own):  # positions have two axes, partial results one
            out += [(dest, own[None]), (dest, parts)]
    arrived = here.exchange(text, out)
    blocks = {}
    for at in target.mine(here.pid):
        start, stop = spans[here.pid]
        if here.abstract:
            blocks[at] = here.empty(target.block_shape(at), result)
            continue
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


def _abstract(here: World, shape: Shape, layout: Layout, how: Aggregate, dtype: Any) -> Array:
    """What it moves at most: of every process every cell that it can have elements of."""
    held = _held(how, dtype)
    own = sum(prod(layout.block_shape(at)) for at in layout.mine(here.pid))
    here.passes(2 * own, np.dtype(np.int64))
    result = how.result(dtype)
    if layout.replicated:
        return wrap(build.from_whole(here.empty(shape, result), automatic(shape, here.nprocs)))
    here.at_most()
    target = _target(shape, here.nprocs)
    sizes = [prod(shape)] * here.nprocs if target.replicated else target.sizes.reshape(-1).tolist()
    out: list[tuple[int, Any]] = []
    for dest, size in enumerate(sizes):
        if prod(shape) > _DENSE * own:
            some = min(size, own)
            out += [(dest, here.empty((1, some), np.dtype(np.int64))), (dest, here.empty((some,), held))]
        else:
            out.append((dest, here.empty((size,), held)))
    here.exchange(_TEXT, out)
    blocks = {at: here.empty(target.block_shape(at), result) for at in target.mine(here.pid)}
    return made_of(shape, result, target, blocks)
