"""Functions that procedures share: operands as computed blocks or in one line, layouts, and exchanges.

A procedure is a collective on computed arrays, whose values it uses.  Every choice that it makes must follow from
shapes, layouts and values that all processes have, so that all run the same supersteps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import LEAF, Access, DType, Node, leaf
from bsp.arrays.expressions.layout import Axis, Layout, Shape, automatic, dealt, layout_of
from bsp.arrays.planning.moves import flow_of, stays
from bsp.arrays.typing import ArrayLike
from bsp.declared import Reported


def array_of(given: ArrayLike) -> Array:
    """Return an array of anything that `bsp.arrays.asarray` takes; its dtype no longer yields to those of others."""
    return wrap(build.strong(asarray(given)._node))


def node_of(array: Array) -> Node:
    """Return the expression of an array."""
    return array._node


def computed(*nodes: Node) -> tuple[Node, ...]:
    """Return the nodes as leaves; compute those that are not, in one plan.  Cost: that plan's; none for leaves."""
    found = tuple(build.strong(node) for node in nodes)
    waiting = [node for node in dict.fromkeys(found) if node.op is not LEAF]
    if waiting:
        world().evaluate(waiting, False)
    return found


def layout_at(node: Node) -> Layout:
    """Return the layout of a leaf: which process has which block."""
    assert node.layout is not None
    return node.layout


def known(node: Node) -> Any:
    """Return all values of a leaf if every process has them, else None."""
    layout = layout_at(node)
    if not layout.replicated:
        return None
    return next(iter(node.value.values()))


def made_of(shape: Shape, dtype: DType, layout: Layout, blocks: Mapping[Shape, Any]) -> Array:
    """Return an array of the blocks that this procedure has made."""
    return wrap(leaf(shape, np.dtype(dtype), layout, blocks))


def declared_of(costs: Reported, shape: Shape, dtype: DType, layout: Layout | None = None) -> Array:
    """Return an array that a procedure declares to make: this process's blocks of a layout, as shapes."""
    layout = automatic(shape, costs.p) if layout is None else layout
    blocks = {at: costs.memory(layout.block_shape(at), dtype) for at in layout.mine(world().pid)}
    return made_of(shape, dtype, layout, blocks)


def line_layout(bounds: Sequence[int]) -> Layout:
    """Return the layout of a vector in one piece a process: process k has positions bounds[k] to bounds[k + 1]."""
    cuts = tuple(int(cut) for cut in bounds)
    parts = len(cuts) - 1
    even = Axis(cuts[-1], parts)
    same = np.array_equal(even.bounds, cuts)
    return layout_of((Axis(cuts[-1], parts, parts, 1 if parts > 1 else 0, None if same else cuts),))


def even_line(length: int, nprocs: int) -> Layout:
    """Return the automatic layout of a vector; it is dealt even if it is short."""
    return automatic((length,), nprocs, False)


def bounds_of(layout: Layout, nprocs: int) -> np.ndarray:
    """Return the bounds of a vector's pieces, one piece a process; processes without one have empty pieces."""
    found = np.full(nprocs + 1, layout.shape[0], np.int64)
    bounds = layout.axes[0].bounds
    found[: len(bounds)] = bounds
    return found


def slabs(shape: Shape, nprocs: int) -> Layout:
    """Return the layout of whole rows, dealt evenly."""
    if not shape:
        return dealt((), (), ())
    grid = (nprocs, *[1] * (len(shape) - 1))
    return dealt(shape, grid, grid)


def in_layout(node: Node, layout: Layout) -> Node:
    """Return a leaf in a layout; the same leaf if it has that layout already.  Cost: at most one total exchange."""
    if node.layout is layout:
        return node
    return wrap(build.relaid(node, layout)).persist()._node


def traffic(source: Layout, target: Layout, nprocs: int, itemsize: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the bytes that each process sends and receives to bring an array from one layout to another."""
    access = tuple(Access(axis) for axis in range(len(source.axes)))
    if source is target or stays(source, access, target):
        return np.zeros(nprocs, np.int64), np.zeros(nprocs, np.int64)
    out, into, _ = flow_of(source, access, target, nprocs).sums(nprocs)
    return out * itemsize, into * itemsize


def in_line(node: Node) -> tuple[np.ndarray, Any]:
    """Return a vector in one piece a process, in the order of pids: the bounds of all pieces, and this process's.

    Cost: none if it is dealt so already; else one total exchange.  A replicated vector is cut, which costs nothing.
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
    """Return the expression of all elements in C order."""
    return build.reshaped(node, (node.kind.size,))


def mine(node: Node) -> list[Any]:
    """Return this process's share of a leaf: blocks, or a piece in C order if it is replicated; shares are disjoint."""
    here = world()
    layout = layout_at(node)
    if not layout.replicated:
        return [node.value[at] for at in layout.mine(here.pid)]
    (whole,) = node.value.values()
    size, p = node.kind.size, here.nprocs
    flat = whole.reshape(-1)
    return [flat[size * here.pid // p : size * (here.pid + 1) // p]]


def one_vector(here: World, pieces: Sequence[Any], dtype: DType) -> Any:
    """Return blocks as one vector; a single block is not copied."""
    flat = [piece.reshape(-1) for piece in pieces]
    if len(flat) == 1:
        return flat[0]
    return np.concatenate(flat) if flat else here.empty((0,), dtype)


def told(here: World, text: str, message: Any, to: Sequence[int] | None = None) -> list[Any]:
    """Send an array to all processes, or to those of `to`; return what arrived, by pid.  Collective: one superstep."""
    arrived = here.exchange(text, [(range(here.nprocs) if to is None else to, message)])
    return [array for _, array in arrived]


def block_map(node: Node, dtype: DType, call: Callable[[Any], Any]) -> Array:
    """Apply `call`, which keeps shapes, to each block of a leaf.  No superstep."""
    layout = layout_at(node)
    blocks = {at: call(block) for at, block in node.value.items()}
    return made_of(node.kind.shape, dtype, layout, blocks)


def evened(array: Array, axis: int = 0) -> Array:
    """Deal an array evenly along an axis if its fullest part has more than twice the mean; else return it unchanged.

    Cost: one total exchange if it is dealt again.
    """
    layout = layout_at(array._node)
    at = layout.axes[axis]
    lengths = np.diff(at.bounds)
    if layout.replicated or at.deal == 1 or lengths.max(initial=0) * at.parts <= 2 * at.length:
        return array
    axes = list(layout.axes)
    axes[axis] = Axis(at.length, at.deal, at.deal, at.stride)
    return wrap(build.relaid(array._node, layout_of(tuple(axes)))).persist()
