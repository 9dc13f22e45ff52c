"""Constructors of nodes: operands, elementwise operations, views, reductions, contractions, and checked axes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from math import prod
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_index, normalize_axis_tuple

from bsp.arrays.execution.world import world
from bsp.arrays.expressions.element_types import KINDS, element_type, given_values
from bsp.arrays.expressions.graph import (
    LEAF,
    WEAK,
    Access,
    Assemble,
    Blocks,
    Contract,
    DType,
    Kind,
    Node,
    Operation,
    Placement,
    Reduce,
    Relayout,
    Reshape,
    ViewOperation,
    interned,
    kind_of,
    leaf,
    parameter,
)
from bsp.arrays.expressions.layout import Layout, Shape, automatic, replicated
from bsp.arrays.expressions.merging import cut
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.kernels.aggregates import SUM, Aggregate
from bsp.errors import ShapeError
from bsp.values.payload import is_abstract

_COMPARISONS = frozenset({"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"})


def dealt_blocks(values: Any, layout: Layout, pid: int) -> Blocks:
    """Return copies of a process's blocks of an array that every process holds whole."""
    merged = layout.merged
    parts = {at: values[tuple(slice(*span) for span in merged.box(at))] for at in merged.mine(pid)}
    if not is_abstract(values):
        parts = {at: np.array(part, values.dtype, order="C") for at, part in parts.items()}
    return cut(layout, parts)  # type: ignore[no-any-return]


def from_whole(values: Any, layout: Layout | None = None) -> Node:
    """Return a leaf with the values of an array that is the same on every process; each keeps its blocks.  No words."""
    here = world()
    if layout is None:
        layout = automatic(values.shape, here.nprocs)
    return leaf(values.shape, values.dtype, layout, dealt_blocks(values, layout, here.pid))


def given(values: Any, layout: Layout | None = None) -> Node:
    """Return `from_whole` of an array that the program gives: all processes must give the same."""
    node = from_whole(values, layout)
    world().give(node, values)
    return node


def from_own(values: Any) -> Node:
    """Return `from_whole` of an array that nothing else refers to: it becomes the block where it is one, uncopied."""
    layout = automatic(values.shape, world().nprocs)
    if layout.blocks == 1 and layout.replicated and isinstance(values, np.ndarray) and values.flags.c_contiguous:
        return leaf(values.shape, values.dtype, layout, {(0,) * values.ndim: values})
    return from_whole(values, layout)


def operand(value: Any) -> Node:
    """Return the node of an operand of arithmetic: an array, a Python number, or a NumPy array-like of numbers."""
    from bsp.arrays.array import Array  # imported here: that module imports this one

    if type(value) is Array:
        return value._node
    if type(value) in WEAK:
        return parameter(value)
    if is_abstract(value):
        return from_whole(value)
    found = given_values(value)
    if found.dtype.kind not in KINDS:
        element_type(found.dtype, f"{value!r:.60}")  # raises TypeError; the text of a large array takes milliseconds
    return given(found)


def apply(op: ew.Elementwise, *nodes: Node) -> Node:
    """Return the node of an elementwise operation on nodes; OverflowError for an integer that its dtype cannot hold."""
    kinds = [node.kind for node in nodes]
    if op.loop is not None and op.called not in _COMPARISONS:
        for k, number in enumerate(nodes):
            if number.kind.weak is int and any(kind.weak is None for kind in kinds):
                ew.fits(number.value, op.loop(*kinds)[k], op.called)
    return Node(op, nodes, ew.infer(op, *kinds))


def cast(node: Node, dtype: DType) -> Node:
    """Return a node cast to a dtype; the node itself if it has this dtype and is no parameter."""
    if node.kind.dtype == dtype and node.kind.weak is None:
        return node
    op = ew.cast_to(dtype)
    return Node(op, (node,), kind_of(node.kind.shape, dtype))


def strong(node: Node) -> Node:
    """Return a parameter as an array of no dimensions and of its default dtype; any other node as it is."""
    return node if node.kind.weak is None else cast(node, node.kind.dtype)


def truth(node: Node) -> Node:
    """Return a node as booleans, True where it is not 0; the node itself if it has booleans."""
    if node.kind.dtype.kind == "M":  # dates are not compared with a number
        return cast(node, np.dtype(bool))
    return node if node.kind.dtype.kind == "b" else apply(ew.of_ufunc(np.not_equal), node, operand(0))


def viewed(node: Node, shape: Shape, access: Sequence[Access]) -> Node:
    """Return a view of a node; the node itself where the view leaves every element in its place."""
    op = interned(ViewOperation, tuple(access))
    if shape == node.kind.shape and op is identity(len(shape)):
        return node
    return Node(op, (node,), kind_of(shape, node.kind.dtype))


@lru_cache(maxsize=64)
def _in_place(ndim: int) -> tuple[Access, ...]:
    return tuple(Access(axis) for axis in range(ndim))


def identity(ndim: int) -> ViewOperation:
    """Return the view that leaves all axes as they are."""
    return interned(ViewOperation, _in_place(ndim))


def composed(outer: Sequence[Access], inner: Sequence[Access]) -> tuple[Access, ...]:
    """Return the access that is `outer` followed by `inner`, so that a view of a view is planned as one view."""
    found = []
    for label, start, step in outer:
        if label < 0:
            found.append(Access(-1, start, step))
        else:
            further = inner[label]
            found.append(Access(further.label, start + step * further.start, step * further.step))
    return tuple(found)


def placed(access: Sequence[Access], value: Node) -> tuple[Node, Shape, Shape]:
    """Return values of a view's shape with their axes in the order of the base, and their starts and steps there.

    This is the inverse of the view.  No two axes of `access` have the same label.  An axis of the view that is no axis
    of the base has length 1 or 0.
    """
    shape = value.kind.shape
    back = [Access(-1, 0, 0)] * len(shape)
    starts, steps, counts = [], [], []
    for axis, (label, start, step) in enumerate(access):
        count = 1 if label < 0 else shape[label]
        backwards = step < 0 and count > 1
        if label >= 0:
            back[label] = Access(axis, count - 1, -1) if backwards else Access(axis)
        starts.append((start + step * (count - 1) if backwards else start) if count else 0)
        steps.append(abs(step) if count > 1 else 1)
        counts.append(count)
    return viewed(value, tuple(counts), back), tuple(starts), tuple(steps)


def written(node: Node, access: Sequence[Access], value: Node) -> Node:
    """Return a node with the elements that a view shows replaced by a value of the same dtype."""
    ndim = len(node.kind.shape)
    return assembled(node.kind.shape, node.kind.dtype, [
        (node, (0,) * ndim, (1,) * ndim), placed(access, value)
    ])  # fmt: skip


def permuted(node: Node, axes: Sequence[int]) -> Node:
    """Return a node with its axes permuted: axis k of the result is axis axes[k] of the node."""
    if list(axes) == list(range(len(axes))):
        return node
    place = {axis: k for k, axis in enumerate(axes)}
    shape = node.kind.shape
    return viewed(node, tuple(shape[axis] for axis in axes), [Access(place[axis]) for axis in range(len(shape))])


def broadcasts(own: Shape, shape: Shape) -> bool:
    """Return whether an array of shape `own` broadcasts to `shape`."""
    return len(own) <= len(shape) and all(a in (1, b) for a, b in zip(own[::-1], shape[::-1], strict=False))


def broadcast(node: Node, shape: Shape) -> Node:
    """Return a node broadcast to a shape, as NumPy broadcasts; ShapeError if it does not."""
    own = node.kind.shape
    if own == shape:
        return node
    if not broadcasts(own, shape):
        raise ShapeError(f"shape {own} does not broadcast to {shape}")
    node = strong(node)
    first = len(shape) - len(own)
    return viewed(node, shape, [
        Access(first + axis) if length == shape[first + axis] else Access(-1, 0, 0) for axis, length in enumerate(own)
    ])  # fmt: skip


def expanded(node: Node, axes: Sequence[int]) -> Node:
    """Return a node with new axes of length 1; `axes` are their places in the result, ascending."""
    shape = list(node.kind.shape)
    for axis in axes:
        shape.insert(axis, 1)
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    return viewed(strong(node), tuple(shape), [Access(axis) for axis in kept])


def squeezed(node: Node, axes: Sequence[int]) -> Node:
    """Return a node without the given axes, which have length 1."""
    shape = node.kind.shape
    kept = [axis for axis in range(len(shape)) if axis not in axes]
    place = {axis: k for k, axis in enumerate(kept)}
    return viewed(node, tuple(shape[axis] for axis in kept), [
        Access(place[axis]) if axis in place else Access(-1, 0, 0) for axis in range(len(shape))
    ])  # fmt: skip


def reduced(node: Node, how: Aggregate, axes: tuple[int, ...], keepdims: bool) -> Node:
    """Return the aggregate of a node over axes, which are ascending and distinct.  ValueError without an identity."""
    node = strong(node)
    shape = node.kind.shape
    if how.identity is None and any(shape[axis] == 0 for axis in axes) and how.ufunc is not np.add:
        raise ValueError(f"{how.name}: zero-size array of shape {shape} to a reduction which has no identity")
    kept = tuple(length for axis, length in enumerate(shape) if axis not in axes)
    found = Node(interned(Reduce, how, axes), (node,), kind_of(kept, how.result(node.kind.dtype)))
    return expanded(found, axes) if keepdims else found


def contracted(left: Node, right: Node, left_labels: Shape, right_labels: Shape, out: Shape) -> Node:
    """Return the sum, over all labels that are not in `out`, of the product of two nodes."""
    left, right = strong(left), strong(right)
    found = _contraction(left.kind, right.kind, tuple(left_labels), tuple(right_labels), tuple(out))
    if found is None:
        return contracted_all([left, right], [left_labels, right_labels], out)
    op, kind = found
    return Node(op, (left, right), kind)


@lru_cache(maxsize=1 << 10)
def _contraction(
    left: Kind, right: Kind, left_labels: Shape, right_labels: Shape, out: Shape
) -> tuple[Operation, Kind] | None:
    """Return the operation that contracts two nodes of these kinds, and its kind; None if more than one is needed."""
    leaves = Node(LEAF, (), left), Node(LEAF, (), right)
    found = contracted_all(leaves, [left_labels, right_labels], out)
    return (found.op, found.kind) if found.args == leaves else None


def contracted_all(nodes: Sequence[Node], labels: Sequence[Shape], out: Shape) -> Node:
    """Return the sum, over all labels that are not in `out`, of the product of nodes, whose axes have these labels."""
    nodes, labels = [strong(node) for node in nodes], [tuple(each) for each in labels]
    extents: dict[int, int] = {}
    for own, node in zip(labels, nodes, strict=True):
        extents.update(zip(own, node.kind.shape, strict=True))
    dtype = np.result_type(*[node.kind.dtype for node in nodes])
    if len(nodes) > 2:  # products of some would be in fewer bits
        nodes = [cast(node, dtype) for node in nodes]
    for k, own in enumerate(labels):  # labels that only one factor has are summed before the product
        others = {label for j, other in enumerate(labels) if j != k for label in other} | set(out)
        alone = tuple(axis for axis, label in enumerate(own) if label not in others)
        if alone:
            nodes[k] = cast(reduced(cast(nodes[k], dtype), SUM, alone, False), dtype)
            labels[k] = tuple(label for axis, label in enumerate(own) if axis not in alone)
    if all(label in out for own in labels for label in own):  # nothing is summed: element by element
        terms = [_with_axes(cast(node, dtype), own, out) for node, own in zip(nodes, labels, strict=True)]
        return reduce(lambda x, y: apply(ew.of_ufunc(np.multiply), x, y), terms)
    number = {label: k for k, label in enumerate(dict.fromkeys(label for own in labels for label in own))}
    op = interned(
        Contract, tuple(tuple(number[label] for label in own) for own in labels), tuple(number[label] for label in out)
    )
    return Node(op, tuple(nodes), kind_of(tuple(extents[label] for label in out), dtype))


def _with_axes(node: Node, labels: Shape, out: Shape) -> Node:
    """Return a node with an axis for each label of `out`, in their order; of length 1 for those it does not have."""
    order = [labels.index(label) for label in out if label in labels]
    return expanded(permuted(node, order), [k for k, label in enumerate(out) if label not in labels])


def assembled(shape: Shape, dtype: DType, parts: Sequence[tuple[Node, Sequence[int], Sequence[int]]]) -> Node:
    """Return an array assembled from parts (node, starts, steps), of which later ones overwrite earlier ones."""
    nodes = tuple(strong(cast(node, dtype)) for node, _, _ in parts)
    placements = tuple(Placement(tuple(starts), tuple(steps)) for _, starts, steps in parts)
    return Node(interned(Assemble, placements), nodes, kind_of(shape, dtype))


def reshaped(node: Node, shape: Shape) -> Node:
    """Return a node with the same elements, in C order, in another shape.  Axes of length 1 cost nothing."""
    node = strong(node)
    own = node.kind.shape
    if own == shape:
        return node
    if prod(own) != prod(shape):
        raise ShapeError(f"cannot reshape array of size {prod(own)} into shape {shape}")
    if [length for length in own if length != 1] == [length for length in shape if length != 1]:
        core = squeezed(node, [axis for axis, length in enumerate(own) if length == 1])
        return expanded(core, [axis for axis, length in enumerate(shape) if length == 1])
    return Node(interned(Reshape, shape), (node,), kind_of(shape, node.kind.dtype))


def relaid(node: Node, layout: Layout) -> Node:
    """Return a node with the same values in the given layout."""
    return Node(interned(Relayout, layout), (strong(node),), node.kind)


def everywhere(node: Node) -> Node:
    """Return a node with the same values, replicated on every process."""
    return relaid(node, replicated(node.kind.shape))


def normal_axis(axis: Any, ndim: int) -> int:
    """Return an axis counted from the start; raises NumPy's AxisError if it is out of range."""
    return normalize_axis_index(axis, ndim)


def lined(node: Node) -> Node:
    """Return a node; one without axes gets an axis of length 1, as in the functions that NumPy writes in C."""
    return node if node.kind.shape else reshaped(node, (1,))


def whole_axis(axis: Any, ndim: int) -> int:
    """Return `normal_axis` of an integer; TypeError for a boolean, as in the functions that NumPy writes in C."""
    if isinstance(axis, (bool, np.bool_)):
        raise TypeError("an integer is required for the axis")
    return normal_axis(axis, ndim)


def reduced_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes of a reduction, ascending, from None, an integer that is no boolean, or a tuple, as in NumPy.

    A number has no axes, but as in NumPy's ufuncs its axis 0, or -1, is no mistake.
    """
    if axis is None or (ndim == 0 and type(axis) is int and axis in (0, -1)):
        return tuple(range(ndim))
    given = axis if isinstance(axis, tuple) else (axis,)
    for each in given:
        whole_axis(each, ndim)
    return normal_axes(given, ndim)


def normal_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes counted from the start, ascending; None: all."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(sorted(normalize_axis_tuple(axis, ndim)))
