"""Assignments that are carried out at once, in the blocks of a computed array, without a plan.

Each process writes the positions that its blocks hold of values that every process has, so nothing moves and no
superstep ends.

1. Nodes do not change.  An assignment makes a new leaf over the blocks of the old one (`renewed`), gives it to the
   array, and then writes into the blocks (`write`).
2. A block is written to where it is if nothing else refers to its memory.  Otherwise another array, an expression that
   is not computed yet, or the program (a result of `compute`) may still read it: it is copied once, and the copy
   belongs to the new leaf alone.
3. Whether an assignment is carried out at once follows from the node of the array and from the values: it is the same
   on every process, as all that decides about plans must be.  Whether a block is copied follows from the reference
   counts of this process, which may differ between processes, and changes no values, plans or supersteps.
4. All processes must assign the same.  The next boundary of arrays compares a digest of their assignments
   (`World.note`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xxhash import xxh3_64_digest

from bsp.arrays import build
from bsp.arrays.execution.world import World
from bsp.arrays.expressions.element_types import given_values
from bsp.arrays.expressions.graph import LEAF, OVERWRITE, PARAM, Access, DType, Kind, Node, ViewOperation
from bsp.arrays.expressions.layout import REPLICATED_SIZE, Shape
from bsp.arrays.expressions.merging import CutBlocks, cut
from bsp.arrays.kernels.fingerprints import meaning
from bsp.arrays.kernels.overwriting import Assignment, Assignments
from bsp.values.payload import is_abstract

ASSIGNMENTS = Kind((), np.dtype(bool), Assignments)  # of the parameter of an array that is overwritten

_SMALL = 64  # bytes of values that are noted as they are, not as a digest


def source(node: Node) -> Node | None:
    """Return the leaf that a node shows, itself or through views that show no element twice; else None."""
    while type(node.op) is ViewOperation and _once(node.op.access, node.kind.shape):
        (node,) = node.args
    return node if node.op is LEAF else None


def _once(access: tuple[Access, ...], shape: Shape) -> bool:
    """Return whether a view of this shape shows no element twice."""
    labels = [each.label for each in access if each.label >= 0]
    return (
        len(set(labels)) == len(labels)
        and all(each.step for each in access if each.label >= 0)
        and all(length == 1 for label, length in enumerate(shape) if label not in labels)
    )


def below(node: Node, access: tuple[Access, ...]) -> tuple[Access, ...]:
    """Return an access to a node that has a `source` as the access to that leaf."""
    while node.op is not LEAF:
        assert isinstance(node.op, ViewOperation)
        access = build.composed(node.op.access, access)
        (node,) = node.args
    return access


def over(node: Node, found: Node) -> Node:
    """Return the views of a node that has a `source` over another leaf."""
    return found if node.op is LEAF else Node(node.op, (over(node.args[0], found),), node.kind)


def renewed(node: Node, merged: bool = False) -> Node:
    """Return a new leaf over the blocks of a leaf, which may be changed.

    merged : leave blocks together that lie side by side in one, for `write`.
    """
    layout, blocks = node.layout, node.value
    assert layout is not None
    new = Node(LEAF, (), node.kind)
    whole = merged and type(blocks) is CutBlocks
    new.become(layout, cut(layout, dict(blocks.merged)) if whole else dict(blocks))
    new.given = node.given
    return new


def note(here: World, access: tuple[Access, ...], shape: Shape, values: Any) -> None:
    """Note an assignment, which all processes must carry out alike."""
    if here.nprocs > 1 and (type(values) is np.ndarray or not is_abstract(values)):
        data = meaning(values)
        data = data if len(data) <= _SMALL else xxh3_64_digest(data)
        here.note([*map(tuple, access)], shape, values.shape, data)


def write(here: World, node: Node, access: tuple[Access, ...], shape: Shape, values: Any) -> None:
    """Write values into this process's blocks of a renewed leaf, at the positions of an access.  Local.

    shape : of the accessed part, to which the values broadcast.
    """
    layout, blocks = node.layout, node.value
    assert layout is not None
    if type(blocks) is CutBlocks:
        layout, blocks = layout.merged, blocks.merged
    assignment = Assignment(access, shape, values)
    for at in layout.mine(here.pid):
        part = assignment.part(layout.box(at))
        if part is not None:
            part.write(here.own(blocks, at, not part.whole))


def overwritten(node: Node, access: tuple[Access, ...], shape: Shape, values: Any) -> Node:
    """Return a node with values assigned at the positions of an access, once it is computed.

    Successive assignments are one operation, whatever their positions: a plan is made once for a number of them.
    """
    if node.op is OVERWRITE:
        node, before = node.args
        waiting = before.value
    else:
        waiting = Assignments()
    found = Node(PARAM, (), ASSIGNMENTS)
    found.value = waiting.then(Assignment(access, shape, values.copy()))
    return Node(OVERWRITE, (node, found), node.kind)


# ---------------------------------------------------------------------------------- values


def at_hand(value: Any) -> Any:
    """Return the values of an assignment as an array if every process has all of them; else None.

    value : what the program assigns: numbers, NumPy's arrays and lists; an array whose values all processes have.
    A small result refers to no block, so that x[k] = x[j] writes in place.
    """
    node = getattr(value, "_node", None)
    if node is None:
        return given_values(value)
    assert isinstance(node, Node)
    found = source(node)
    if found is None or found.layout is None or not found.layout.replicated or found.layout.blocks != 1:
        return None
    (block,) = found.value.values()
    values = shown(node, block)
    return values.copy() if values.size <= REPLICATED_SIZE else values


def shown(node: Node, block: Any) -> Any:
    """Return the view that a node shows of the values of its `source`."""
    if node.op is LEAF:
        return block
    assert isinstance(node.op, ViewOperation)
    base, shape, access = shown(node.args[0], block), node.kind.shape, node.op.access
    part = Assignment(access, shape, np.empty(())).part([(0, length) for length in base.shape])
    if part is None:
        return np.empty(shape, node.kind.dtype)
    labels = [each.label for each in access if each.label >= 0]
    return base[part.inside].transpose(np.argsort(labels)).reshape(shape)


def cast(values: Any, dtype: DType) -> Any:
    """Return values cast to a dtype as in an assignment; None if that could warn, or raise for some values."""
    if values.dtype == dtype:
        return values
    if is_abstract(values) or np.can_cast(values.dtype, dtype, "safe"):
        return values.astype(dtype)
    if values.dtype.kind not in "biuf" or dtype.kind not in "biufc":
        return None
    try:
        with np.errstate(all="raise"):
            return values.astype(dtype)
    except FloatingPointError:
        return None
