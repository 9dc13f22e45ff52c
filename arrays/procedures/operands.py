"""What procedures share: arrays that are there, as blocks or as one line; words that all processes agree on.

A procedure is a collective on arrays that have been computed: it looks at their values.  Every choice it makes
follows from shapes, layouts and what all processes have been told, so all take the same supersteps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import LEAF, DType, Node, leaf
from bsp.arrays.expressions.layout import Axis, Layout, Shape, automatic, layout_of


def computed(*nodes: Node) -> tuple[Node, ...]:
    """The nodes as leaves, computed together if any is not one.  Cost: their plan's; nothing for leaves."""
    found = tuple(build.strong(node) for node in nodes)
    waiting = [node for node in dict.fromkeys(found) if node.op is not LEAF]
    if waiting:
        world().evaluate(waiting, False)
    return found


def layout_at(node: Node) -> Layout:
    """Where the blocks of a leaf are."""
    assert node.layout is not None
    return node.layout


def known(node: Node) -> Any:
    """All the values of a leaf if every process has them, else None."""
    layout = layout_at(node)
    if not layout.replicated:
        return None
    return next(iter(node.value.values()))


def made_of(shape: Shape, dtype: DType, layout: Layout, blocks: Mapping[Shape, Any]) -> Array:
    """An array of blocks that this procedure has made."""
    return wrap(leaf(shape, np.dtype(dtype), layout, blocks))


def line_layout(bounds: Sequence[int]) -> Layout:
    """A vector of one piece a process: process k has positions bounds[k] to bounds[k + 1]."""
    cuts = tuple(int(cut) for cut in bounds)
    parts = len(cuts) - 1
    even = Axis(cuts[-1], parts)
    same = np.array_equal(even.bounds, cuts)
    return layout_of((Axis(cuts[-1], parts, parts, 1 if parts > 1 else 0, None if same else cuts),))


def even_line(length: int, nprocs: int) -> Layout:
    """A vector in its automatic layout, however short."""
    return automatic((length,), nprocs, False)


def bounds_of(layout: Layout, nprocs: int) -> np.ndarray:
    """Where the pieces of a vector of one piece a process begin and end; processes without one have none."""
    found = np.full(nprocs + 1, layout.shape[0], np.int64)
    bounds = layout.axes[0].bounds
    found[: len(bounds)] = bounds
    return found


def in_line(node: Node) -> tuple[np.ndarray, Any]:
    """A vector with one piece on each process, in the order of pids: the bounds of all, and this process's piece.

    Cost: nothing if it lies so; else one total exchange.  A replicated vector is cut, which costs nothing.
    """
    here = world()
    (node,) = computed(node)
    layout = layout_at(node)
    (axis,) = layout.axes
    in_turn = layout.table is None and axis.parts == axis.deal and (axis.deal == 1 or axis.stride == 1)
    if layout.replicated or not in_turn:
        (node,) = computed(build.relaid(node, even_line(axis.length, here.nprocs)))
        layout = layout_at(node)
    block = node.value.get((here.pid,))
    if block is None:
        block = here.empty((0,), node.kind.dtype)
    return bounds_of(layout, here.nprocs), block


def flattened(node: Node) -> Node:
    """All elements in C order."""
    return build.reshaped(node, (node.kind.size,))


def mine(node: Node) -> list[Any]:
    """This process's share of a leaf: its blocks; of what all have, a piece of C order, so that shares are disjoint."""
    here = world()
    layout = layout_at(node)
    if not layout.replicated:
        return [node.value[at] for at in layout.mine(here.pid)]
    (whole,) = node.value.values()
    size, p = node.kind.size, here.nprocs
    flat = whole.reshape(-1)
    return [flat[size * here.pid // p : size * (here.pid + 1) // p]]


def one_vector(here: World, pieces: Sequence[Any], dtype: DType) -> Any:
    """Blocks as one vector; the block itself where there is just one."""
    flat = [piece.reshape(-1) for piece in pieces]
    if len(flat) == 1:
        return flat[0]
    return np.concatenate(flat) if flat else here.empty((0,), dtype)


def told(here: World, text: str, message: Any, to: Sequence[int] | None = None) -> list[Any]:
    """One superstep in which each process tells all an array; by pid what they tell."""
    arrived = here.exchange(text, [(dest, message) for dest in (range(here.nprocs) if to is None else to)])
    return [array for _, array in arrived]


def block_map(node: Node, dtype: DType, call: Callable[[Any], Any]) -> Array:
    """`call` of each block of a leaf, which keeps the shape.  No superstep."""
    layout = layout_at(node)
    blocks = {at: call(block) for at, block in node.value.items()}
    return made_of(node.kind.shape, dtype, layout, blocks)


def evened(array: Array, axis: int = 0) -> Array:
    """Slabs along an axis, cut evenly if the fullest has more than twice the mean.  Cost: one total exchange then."""
    layout = layout_at(array._node)
    at = layout.axes[axis]
    lengths = np.diff(at.bounds)
    if layout.replicated or at.deal == 1 or lengths.max(initial=0) * at.parts <= 2 * at.length:
        return array
    axes = list(layout.axes)
    axes[axis] = Axis(at.length, at.deal, at.deal, at.stride)
    return wrap(build.relaid(array._node, layout_of(tuple(axes)))).persist()
