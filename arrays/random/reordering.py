"""Arrays in a random order: their parts along an axis, or positions alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import made
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import World
from bsp.arrays.expressions.graph import LEAF, Node, leaf
from bsp.arrays.expressions.layout import Layout, Shape, dealt
from bsp.arrays.procedures.operands import declared_of, made_of
from bsp.arrays.random.draws import INT, draw_cost
from bsp.arrays.random.order import Permutation
from bsp.arrays.random.tiles import Span
from bsp.declared import Reported, declares


def reordered(here: World, array: Array, axis: int, order: Permutation) -> Any:
    """Return a leaf with the parts of an array along an axis in random order.  Collective.

    Sender and receiver both compute the order, so no indices are sent: the process that has part i computes where it
    goes, and the process that gets it computes from where it comes.
    """
    node = build.strong(array._node)
    node = node if node.op is LEAF else wrap(node).persist()._node
    shape, dtype = array.shape, array.dtype
    own = node.layout
    assert own is not None
    if own.replicated:
        return leaf(shape, dtype, own, {at: _in_other_order(whole, axis, order) for at, whole in node.value.items()})
    grid = [1] * len(shape)
    grid[axis] = here.nprocs
    slabs = dealt(shape, grid, grid)
    if node.layout is not slabs:
        node = wrap(build.relaid(node, slabs)).persist()._node
    return _exchanged(here, node, slabs, axis, order)._node


@declares(lambda costs, whole, axis, order: whole)
def _in_other_order(whole: Any, axis: int, order: Permutation) -> Any:
    """Return a whole array with its parts along an axis in the given order."""
    return whole.take(order.at(np.arange(whole.shape[axis])), axis)


def _exchanged_cost(costs: Reported, here: World, node: Node, slabs: Layout, axis: int, order: Permutation) -> Array:
    """Declare the cost of `_exchanged`, assuming that all of a slab belongs elsewhere, a share on each process."""
    costs.at_most()
    (block,) = node.value.values()
    shares = np.array_split(block, max(1, here.nprocs - 1), axis)
    out = [((here.pid + 1 + k) % here.nprocs, share) for k, share in enumerate(shares) if share.shape[axis]]
    costs.total_exchange("permutation", out)
    return declared_of(costs, node.kind.shape, node.kind.dtype, slabs)


@declares(_exchanged_cost)
def _exchanged(here: World, node: Node, slabs: Layout, axis: int, order: Permutation) -> Array:
    """Return slabs along an axis with their parts in the given order.  Collective: one superstep."""
    index: Any = (slice(None),) * axis
    bounds = slabs.axes[axis].bounds
    (at,) = slabs.mine(here.pid)
    block = node.value[at]
    low, high = int(bounds[here.pid]), int(bounds[here.pid + 1])
    to = order.where(np.arange(low, high))
    ranked = ascending(to, int(bounds[-1]))
    cuts = np.searchsorted(to[ranked], bounds)
    out = [
        (pid, np.ascontiguousarray(block[(*index, ranked[cuts[pid] : cuts[pid + 1]])]))
        for pid in range(here.nprocs)
        if cuts[pid] < cuts[pid + 1]
    ]
    arrived = here.exchange("permutation", out)
    whence = np.searchsorted(bounds, order.at(np.arange(low, high)), side="right") - 1
    places = np.argsort(whence.astype(np.min_scalar_type(here.nprocs)), kind="stable")  # by source, then ascending
    found, start = np.empty(slabs.block_shape(at), node.kind.dtype), 0
    for _, part in arrived:
        stop = start + part.shape[axis]
        found[(*index, places[start:stop])] = part
        start = stop
    return made_of(node.kind.shape, node.kind.dtype, slabs, {at: found})


def ascending(numbers: np.ndarray, bound: int) -> np.ndarray:
    """Return the order that sorts different numbers from 0 up to a bound.

    Numbers that hold their places too are sorted in less time than an argsort takes, if they fit into 64 bits.
    """
    size = numbers.size
    if bound * size >= 1 << 63:
        return np.argsort(numbers)
    keys = numbers * size + np.arange(size)
    keys.sort()
    return keys - keys // max(size, 1) * size


@declares(lambda costs, order, shape, layout: draw_cost(costs, shape, INT, layout))
def in_order(order: Permutation, shape: Shape, layout: Layout) -> Array:
    """Return an array of a shape with the first positions of a random order, as many as it has elements."""
    return made(shape, INT, layout, lambda size, box: order.at(_numbers(shape, box)), repr(order.streams))


def _numbers(shape: Shape, box: Sequence[Span]) -> np.ndarray:
    """Return the C-order positions, in the whole shape, of the elements of a box."""
    found = np.zeros((), np.int64)
    for length, (low, high) in zip(shape, box, strict=True):
        found = found[..., None] * length + np.arange(low, high)
    return found
