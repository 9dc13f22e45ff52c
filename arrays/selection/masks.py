"""Selection by masks: the elements where a mask is true, in C order, whatever the blocks are.

Blocks that are ranges of C order are compressed in place, and only counts are sent: the result stays where its
elements were, in ragged pieces, which are evened out if they are badly uneven.  Other blocks consist of fragments of
lines.  From the counts of all fragments each process computes the position of each of its elements in the result, and
sends it there directly.  Where the counts of fragments would outweigh the data, the array is cut into rows first.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays import build
from bsp.arrays.api import dtypes
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import moveaxis
from bsp.arrays.api.ufuncs import stored
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution import memory
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import LEAF, Access, Blocks, DType, Node
from bsp.arrays.expressions.layout import Axis, Layout, Shape, automatic, layout_of, replicated
from bsp.arrays.indexing import assignable, ready
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.planning.reshaping import contiguous
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import (
    computed,
    evened,
    flattened,
    known,
    layout_at,
    made_of,
)
from bsp.arrays.selection.selected import SelectedBlocks
from bsp.arrays.typing import ArrayLike
from bsp.arrays.views import store
from bsp.arrays.writing import note, renewed
from bsp.declared import Reported, declares

__all__ = ["argwhere", "compress", "extract", "flatnonzero", "nonzero"]

_PIECE = 1 << 17  # elements of a vector from which is selected at once
_INT64 = np.dtype(np.int64)

Payload = Callable[[Shape, Any], Any]  # (block coordinates, mask block) -> selected elements, axis 0 in C order


def mask_node(mask: Any) -> Node:
    """Return a mask as a node; a NumPy mask is replicated."""
    return build.strong(build.operand(mask))


def checked_mask(shape: Shape, mask: Shape) -> None:
    """Raise NumPy's IndexError if a mask's shape does not fit the first axes of an array's shape."""
    if len(mask) > len(shape):
        raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {len(mask)} were indexed")
    for axis, (length, other) in enumerate(zip(shape, mask, strict=False)):
        if length != other:
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis}; size of axis is {length} but size of "
                f"corresponding boolean axis is {other}"
            )


class Located(NamedTuple):
    """The blocks of an array, and for each the block of a mask over its first axes."""

    layout: Layout  # of the array
    values: Blocks
    masks: Blocks  # by block coordinates of the array
    known: Any  # the whole mask if it is replicated, else None


def _with_mask(node: Node, mask: Node) -> Located:
    """Compute an array and a mask, and cut the mask like the array.

    Collective: one evaluation, and one superstep if the mask must move.
    """
    ndim = len(mask.kind.shape)
    node, mask = computed(node, mask)
    layout = layout_at(node)
    found = _cut(layout, mask, ndim)
    if found is None:
        if layout.table is not None:
            raise AssertionError("a table of owners is cut into rows before")
        if layout.replicated:
            mask = build.everywhere(mask)
        else:
            target = _beside(layout, ndim)
            if len(layout.axes) > ndim:
                mask = build.viewed(mask, target.shape, [Access(axis) for axis in range(ndim)])
            mask = build.relaid(mask, target)
        (mask,) = computed(mask)
        found = _cut(layout, mask, ndim)
        assert found is not None
    return Located(layout, node.value, found, known(mask))


def _cut(layout: Layout, mask: Node, ndim: int) -> Blocks | None:
    """Return a mask over the first `ndim` axes for each of this process's blocks of an array; None if it must move."""
    here, whole = world(), known(mask)
    if whole is not None:
        if layout.replicated:
            return dict.fromkeys(layout.mine(here.pid), whole)
        return {at: whole[tuple(slice(*span) for span in layout.box(at)[:ndim])] for at in layout.mine(here.pid)}
    if layout.replicated or layout.table is not None or layout_at(mask) is not _beside(layout, ndim):
        return None
    return {at: block.reshape(block.shape[:ndim]) for at, block in mask.value.items()}


def _beside(layout: Layout, ndim: int) -> Layout:
    """Return the layout of a mask over the first axes of an array in which each of its blocks has a part of the mask.

    Along the other axes of the array the mask is repeated, once for each part.
    """
    rest = [Axis(axis.parts, axis.parts, axis.deal, axis.stride) for axis in layout.axes[ndim:]]
    return layout_of((*layout.axes[:ndim], *rest))


def _count_at_most(costs: Reported, mask: Any) -> int:
    """Declare the cost of `_count`; return the size of a mask without values, else the true count."""
    if isinstance(mask, np.ndarray):
        return int(np.count_nonzero(mask))
    costs.at_most()
    return int(mask.size)


@declares(_count_at_most)
def _count(mask: Any) -> int:
    """Return how many elements of a mask are true."""
    return int(np.count_nonzero(mask))


def _picked_cost(costs: Reported, block: Any, mask: Any) -> Any:
    """Declare an upper bound of the cost of `_picked`: a copy, and the positions where the mask is true."""
    count = _count(mask)
    found = costs.memory((count, *block.shape[mask.ndim :]), block.dtype)
    costs.passing(min(count, _PIECE) if block.ndim == 1 else count, _INT64)
    costs.work(nbytes=2 * found.nbytes)
    return found


@declares(_picked_cost)
def _picked(block: Any, mask: Any) -> Any:
    """Return block[mask]; for a large vector in pieces, by the positions where the mask is true: twice as fast."""
    if mask.ndim == block.ndim == 1 and block.size > _PIECE:
        found = memory.empty((int(np.count_nonzero(mask)),), block.dtype)
        start = 0
        for first in range(0, block.size, _PIECE):
            places = np.flatnonzero(mask[first : first + _PIECE])
            # mode="clip" writes into `out` without a buffer; no position is out of range
            np.take(block[first : first + _PIECE], places, out=found[start : start + places.size], mode="clip")
            start += places.size
        return found
    if mask.ndim == block.ndim:
        return np.compress(mask.reshape(-1), block.reshape(-1))
    return block[mask]


@declares(lambda costs, values, masks: {at: _picked(values[at], mask) for at, mask in masks.items()})
def _selected(values: Blocks, masks: Blocks) -> Mapping[Shape, Any]:
    """Return the selected elements of the blocks of a vector as a mapping that picks them on first use."""
    return SelectedBlocks(values, masks, _picked)


def _stays(layout: Layout, ndim: int) -> bool:
    """Return whether elements selected by a mask over `ndim` axes may stay in their blocks (ranges of C order)."""
    if layout.table is not None or not ndim:
        return False
    leading = layout.axes[0]
    return leading.parts == leading.deal and all(axis.parts == 1 for axis in layout.axes[1:ndim])


def compress_node(node: Node, mask: Node) -> Array:
    """Return node[mask].  Collective.

    Cost: one superstep for counts, h = p - 1, and none if every process has the mask; one more if the pieces are
    uneven.  For blocks that are no ranges of C order: counts of line fragments, then each element moves once.
    """
    checked_mask(node.kind.shape, mask.kind.shape)
    node, mask = _fitted(node, mask)
    found = _with_mask(node, mask)

    def payload(at: Shape, chosen: Any) -> Any:
        return _picked(found.values[at], chosen)

    plain = len(node.kind.shape) == 1 and node.kind.dtype == np.float64
    if plain and not found.layout.replicated and _stays(found.layout, 1):
        return _placed(found, (), node.kind.dtype, _selected(found.values, found.masks))
    return _collected(found, len(mask.kind.shape), node.kind.dtype, payload, node.kind.shape)


def _fitted(node: Node, mask: Node) -> tuple[Node, Node]:
    """Compute array and mask; cut the array into rows if counts of fragments would cost more than the array."""
    here = world()
    node, mask = computed(node, mask)
    layout, ndim = layout_at(node), len(mask.kind.shape)
    if layout.replicated or _stays(layout, ndim):
        return node, mask
    fragments = prod(_fragments(layout, ndim))
    if layout.table is not None or fragments > max(4096, node.kind.size // here.nprocs):
        rows = contiguous(node.kind.shape[:ndim], here.nprocs)
        trailing = tuple(Axis(length) for length in node.kind.shape[ndim:])
        node, mask = computed(build.relaid(node, layout_of(rows.axes + trailing)), mask)
        layout = layout_at(node)
        if not _stays(layout, ndim) and prod(_fragments(layout, ndim)) > max(4096, node.kind.size):
            node = computed(build.relaid(node, automatic(node.kind.shape, here.nprocs, False)))[0]
    return node, mask


def _fragments(layout: Layout, ndim: int) -> Shape:
    """Return the shape of the fragments: the lengths before the last cut axis, and the parts of that axis.

    The elements of a fragment follow each other in C order.
    """
    cut = [axis for axis in range(ndim) if layout.axes[axis].parts > 1]
    last = cut[-1] if cut else 0
    return (*layout.shape[:last], layout.axes[last].parts) if ndim else (1,)


def _collected(found: Located, ndim: int, dtype: DType, payload: Payload, shape: Shape) -> Array:
    """Return the selected elements as an array of 1 + trailing axes.  Collective."""
    here = world()
    layout, trailing = found.layout, shape[ndim:]
    if layout.replicated:
        (at,) = found.masks
        chosen = payload(at, found.known)
        return made_of(chosen.shape, dtype, replicated(chosen.shape), {(0,) * chosen.ndim: chosen})
    if _stays(layout, ndim):
        blocks = {(at[0], *at[ndim:]): payload(at, mask) for at, mask in found.masks.items()}
        return _placed(found, layout.axes[ndim:], dtype, blocks)
    return _sent(here, found, ndim, dtype, payload, trailing)


def _placed(found: Located, rest: tuple[Axis, ...], dtype: DType, blocks: Mapping[Shape, Any]) -> Array:
    """Return the selected elements where they were, in ragged pieces; evened out if badly uneven.  Collective."""
    leading = found.layout.axes[0]
    counts = _counts_in_place(world(), found)
    cuts = tuple(int(cut) for cut in np.concatenate([[0], np.cumsum(counts)]))
    total = cuts[-1]
    even = np.array_equal(Axis(total, leading.parts).bounds, cuts)
    first = Axis(total, leading.parts, leading.deal, leading.stride, None if even else cuts)
    shape = (total, *[axis.length for axis in rest])
    return evened(made_of(shape, dtype, layout_of((first, *rest)), blocks))


def _counts_in_place(here: World, found: Located) -> list[int]:
    """Return the number of selected elements in each part of the first axis.

    Collective: one superstep, or none if the mask is replicated.
    """
    axis = found.layout.axes[0]
    bounds = axis.bounds
    if found.known is not None:
        return [_count(found.known[int(low) : int(high)]) for low, high in itertools.pairwise(bounds)]
    own = next((_count(mask) for mask in found.masks.values()), 0)
    told = here.private.allgather(own)
    first = found.layout.owner.reshape(axis.parts, -1)[:, 0]
    return [told[int(pid)] for pid in first]


def _line_counts_at_most(costs: Reported, mask: Any, last: int) -> np.ndarray:
    """Declare the cost of `_line_counts`, assuming that the mask is true everywhere."""
    costs.at_most()
    return np.full(mask.shape[:last], prod(mask.shape[last:]), np.int64)


@declares(_line_counts_at_most)
def _line_counts(mask: np.ndarray, last: int) -> np.ndarray:
    """Return how many elements are true in each line of a block of a mask; lines are over the axes from `last` on."""
    lines = mask.reshape(*mask.shape[:last], -1) if mask.size else np.zeros((*mask.shape[:last], 1), bool)
    return np.asarray(np.count_nonzero(lines, axis=-1))


@declares(lambda costs, block, index, piece: costs.work(nbytes=2 * piece.nbytes))
def _place(block: Any, index: Any, piece: Any) -> None:
    """Write a piece into a block."""
    block[index] = piece


def _sent(here: World, found: Located, ndim: int, dtype: DType, payload: Payload, trailing: Shape) -> Array:
    """Send the counts of all fragments to all, then each element to its place in an even layout.

    Collective: two supersteps.
    """
    layout = found.layout
    shape = _fragments(layout, ndim)
    last = len(shape) - 1
    counts = np.zeros(shape, np.int64)
    own: dict[Shape, np.ndarray] = {}
    for at, mask in found.masks.items():
        own[at] = _line_counts(mask, last)
    messages = here.private.allgather([own[at] for at in layout.mine(here.pid) if not any(at[ndim:])])
    for pid, sent in enumerate(messages):
        for at, block in zip([at for at in layout.mine(pid) if not any(at[ndim:])], sent, strict=True):
            where: Any = tuple(slice(*span) for span in layout.box(at)[:last])
            counts[(*where, at[last])] = block
    ends = np.cumsum(counts.reshape(-1)).reshape(shape)
    starts = ends - counts
    total = int(ends.reshape(-1)[-1]) if ends.size else 0
    result = automatic((total, *trailing), here.nprocs, False)
    result = layout_of((_dealt_to(total, here.nprocs), *[Axis(length) for length in trailing]))
    bounds = result.axes[0].bounds

    def ranks(at: Shape) -> tuple[np.ndarray, np.ndarray]:
        """Return for the fragments of a block the rank of the first selected element, and how many are selected."""
        where: Any = (*[slice(*span) for span in layout.box(at)[:last]], at[last])
        return starts[where].reshape(-1), counts[where].reshape(-1)

    def shares(at: Shape) -> list[tuple[int, int, int]]:
        """Return (process, from, to): the ranges of a block's selected elements and where they go."""
        first, many = ranks(at)
        before = np.concatenate([[0], np.cumsum(many)])
        cuts = []
        for bound in bounds:
            k = int(np.searchsorted(first, bound, side="right")) - 1
            cuts.append(0 if k < 0 else int(before[k] + min(int(bound) - int(first[k]), int(many[k]))))
        cuts[-1] = int(before[-1])
        return [(dest, low, high) for dest, (low, high) in enumerate(itertools.pairwise(cuts)) if high > low]

    out = []
    for at in layout.mine(here.pid):
        chosen = payload(at, found.masks[at])
        out += [(dest, chosen[low:high]) for dest, low, high in shares(at)]
    arrived = here.exchange("selected elements to their places", out)
    blocks: Blocks = {}
    if here.pid < result.axes[0].parts:
        low, high = int(bounds[here.pid]), int(bounds[here.pid + 1])
        block = here.empty((high - low, *trailing), dtype)
        pieces = iter(arrived)
        for pid in range(here.nprocs):
            for at in layout.mine(pid):
                for dest, start, stop in shares(at):
                    if dest != here.pid:
                        continue
                    _, piece = next(pieces)
                    first, many = ranks(at)
                    position = np.repeat(first - np.cumsum(many) + many, many) + np.arange(int(many.sum()))
                    columns = tuple(slice(*span) for span in layout.box(at)[ndim:])
                    _place(block, (position[start:stop] - low, *columns), piece)
        blocks[(here.pid, *[0] * len(trailing))] = block
    return made_of((total, *trailing), dtype, result, blocks)


def _dealt_to(length: int, nprocs: int) -> Axis:
    parts = max(1, min(nprocs, length))
    return Axis(length, parts, parts, 1 if parts > 1 else 0)


# ------------------------------------------------------------------------------- positions


def positions(x: Any) -> Array:
    """Return the C-order positions of the elements that are not zero, ascending.

    Collective.  Cost: as x[mask] of one word an element.
    """
    mask = build.truth(build.strong(asarray(x)._node))
    if not mask.kind.shape:
        mask = build.expanded(mask, [0])
    mask, _ = _fitted(mask, mask)
    layout = layout_at(mask)
    shape = mask.kind.shape
    found = Located(layout, mask.value, dict(mask.value), known(mask))

    def payload(at: Shape, chosen: Any) -> Any:
        return _positions_in(chosen, [low for low, _ in layout.box(at)], shape)

    return _collected(found, len(shape), _INT64, payload, shape)


def _positions_cost(costs: Reported, chosen: Any, *where: Any) -> Any:
    """Declare an upper bound of the cost of `_positions_in`."""
    found = costs.memory((_count(chosen),), _INT64)
    costs.work(elementwise=chosen.size, nbytes=2 * found.nbytes)
    return found


@declares(_positions_cost)
def _positions_in(chosen: Any, corner: Sequence[int], shape: Shape) -> Any:
    """Return the C-order positions, in the whole array, where a block of a mask is true.

    corner : the position of the block's first element.  shape : of the whole array.
    """
    local = np.flatnonzero(chosen)
    start = int(np.ravel_multi_index(corner, shape)) if chosen.size else 0
    if chosen.shape[1:] == shape[1:]:
        return local + start if start else local
    return start + np.ravel_multi_index(np.unravel_index(local, chosen.shape), shape)


@procedure
def nonzero(x: ArrayLike, /) -> tuple[Array, ...]:
    """Return for each axis the positions of the elements that are not zero, in C order.

    The order and the dtype are NumPy's; all arrays have one layout.
    Cost: as `x[mask]` of one word an element.
    """
    array = asarray(x)
    if not array.ndim:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.")
    flat = positions(array)._node
    layout, shape = layout_at(flat), array.shape
    columns: list[Blocks] = [{} for _ in shape]
    for at, block in flat.value.items():
        for column, part in zip(columns, _coordinates(block, shape), strict=True):
            column[at] = part
    return tuple(made_of(flat.kind.shape, flat.kind.dtype, layout, column) for column in columns)


@declares(lambda costs, flat, shape: [costs.memory(flat.shape, _INT64) for _ in shape])
def _coordinates(flat: Any, shape: Shape) -> Sequence[Any]:
    """Return the index along each axis of C-order positions in an array of a shape."""
    return np.unravel_index(flat, shape) if len(shape) > 1 else (flat,) * len(shape)


@procedure
def flatnonzero(x: ArrayLike) -> Array:
    """Return the C-order positions of the elements that are not zero.  Cost: as `nonzero`."""
    return positions(x)


@procedure
def argwhere(x: ArrayLike) -> Array:
    """Return one row for each element that is not zero: its position along each axis.  Cost: as `nonzero`."""
    array = asarray(x)
    flat = positions(array)._node
    layout = layout_at(flat)
    ndim = array.ndim
    shape = (flat.kind.shape[0], ndim)
    blocks: Blocks = {}
    for at, block in flat.value.items():
        rows = world().empty((block.shape[0], ndim), flat.kind.dtype)
        for k, column in enumerate(_coordinates(block, array.shape)):
            rows[:, k] = column
        blocks[(*at, 0)] = rows
    target = replicated(shape) if layout.replicated else layout_of((*layout.axes, Axis(ndim)))
    return made_of(shape, flat.kind.dtype, target, blocks)


@procedure
def extract(condition: ArrayLike, x: ArrayLike) -> Array:
    """Return the elements of x, in C order, where the condition is true.  Cost: as `x[mask]`."""
    mask = build.truth(mask_node(condition))
    array = asarray(x)
    if mask.kind.shape == array.shape and array.ndim:
        return compress_node(build.strong(array._node), mask)
    return compress(wrap(flattened(mask)), flattened_array(array))


def flattened_array(array: Array) -> Array:
    """Return all elements as a vector in C order."""
    return wrap(flattened(build.strong(array._node)))


@procedure
def compress(condition: ArrayLike, x: ArrayLike, axis: int | None = None, out: Array | None = None) -> Array:
    """Return the slices along an axis where the condition is true; axis None: elements in C order.

    Cost: as `x[mask]`.  A condition longer than the axis is checked beyond its end first.
    """
    mask = mask_node(condition)
    if len(mask.kind.shape) != 1:
        raise ValueError("condition must be a 1-d array")
    mask = build.truth(mask)
    array = asarray(x)
    if axis is None:
        array, axis = flattened_array(array), 0
    array = wrap(build.lined(array._node))
    place = build.whole_axis(axis, array.ndim)
    length, given = array.shape[place], mask.kind.shape[0]
    if given > length:
        (mask,) = computed(mask)
        _refuse_beyond(wrap(mask), length, place)
        mask = wrap(mask)[:length]._node
    moved = moveaxis(array, place, 0) if place else array
    if given < length:
        moved = moved[:given]
    found = compress_node(build.strong(moved._node), mask)
    return stored(moveaxis(found, 0, place) if place else found, out)


def _beyond_cost(costs: Reported, mask: Array, length: int, axis: int) -> None:
    """Declare the cost of `_refuse_beyond`."""
    positions(mask[length:])


@declares(_beyond_cost)
def _refuse_beyond(mask: Array, length: int, axis: int) -> None:
    """Raise NumPy's IndexError if a mask is true beyond the end of an axis.  Collective."""
    beyond = positions(mask[length:])
    if beyond.size:
        raise IndexError(f"index {length + int(beyond[0])} is out of bounds for axis {axis} with size {length}")


# ------------------------------------------------------------------------------ assignment


def assigned_at_once(array: Array, mask: Node, value: Any) -> bool:
    """Assign array[mask] = value in the blocks of a computed array, where nothing has to move; else return False.

    So it is where the mask is computed and dealt as the array is, or every process has it, and every process has the
    one value, or the row of values, that each selected place gets.
    """
    node, ndim = array._node, len(mask.kind.shape)
    if node.op is not LEAF or mask.op is not LEAF:
        return False
    checked_mask(node.kind.shape, mask.kind.shape)
    layout, trailing = layout_at(node), node.kind.shape[ndim:]
    values = ready(value, trailing, node.kind.dtype) if trailing or dtypes.ndim(value) <= 1 else None
    found = _cut(layout, mask, ndim)
    if values is None or found is None:
        return False
    new = renewed(node)
    del node  # what refers to the blocks no more lets them be written to in place
    store(array, new)
    here = world()
    note(here, (), mask.kind.shape, values)
    for at, chosen in found.items():
        row = values
        if values.ndim:
            row = np.broadcast_to(values, trailing)[tuple(slice(*span) for span in layout.box(at)[ndim:])]
        here.own(new.value, at)[chosen] = row
    return True


def assigned(node: Node, mask: Node, value: Node) -> Node:
    """Return `node` with `value` where the mask is true.

    Lazy, without cost, if every selected place gets the same value.  Else collective, with one value for each selected
    place: one superstep for counts, and one that brings the values; an array whose blocks are no ranges of C order is
    cut into rows first.
    """
    shape, ndim, dtype = node.kind.shape, len(mask.kind.shape), node.kind.dtype
    checked_mask(shape, mask.kind.shape)
    trailing = shape[ndim:]
    if not trailing and len(value.kind.shape) > 1:
        raise TypeError(
            "NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, input has "
            f"{len(value.kind.shape)} dimensions"
        )
    value = assignable(value, dtype)
    while len(value.kind.shape) > len(trailing) and value.kind.shape[0] == 1:
        value = build.squeezed(value, [0])
    own = value.kind.shape
    if len(own) <= len(trailing):
        if not build.broadcasts(own, trailing):
            raise ValueError(_mismatch(own, ("count", *trailing)))
        if len(mask.kind.shape) < len(shape):
            mask = build.expanded(mask, range(ndim, len(shape)))
        return build.apply(ew.WHERE, mask, value, node)
    here = world()
    node, mask, value = computed(node, mask, value)
    layout = layout_at(node)
    if not layout.replicated and not _stays(layout, ndim):
        rows = contiguous(shape[:ndim], here.nprocs).axes
        if any(axis.parts > 1 for axis in rows[1:]):
            rows = (_dealt_to(shape[0], here.nprocs), *[Axis(each) for each in shape[1:ndim]])
        (node,) = computed(build.relaid(node, layout_of(rows + tuple(Axis(length) for length in trailing))))
        layout = layout_at(node)
    found = _with_mask(node, mask)
    counts = [_count(found.known)] if layout.replicated else _counts_in_place(here, found)
    cuts = _cuts_of(counts, own, trailing, ndim < len(shape))
    if not build.broadcasts(own[1:], trailing):
        raise ValueError(_mismatch(own, (cuts[-1], *trailing)))
    value = build.broadcast(value, (own[0], *trailing))
    if layout.replicated:
        target = replicated(value.kind.shape)
    else:
        leading = layout.axes[0]
        target = layout_of((Axis(own[0], leading.parts, leading.deal, leading.stride, cuts), *layout.axes[ndim:]))
    (value,) = computed(build.relaid(value, target))
    blocks: Blocks = {}
    for at, block in found.values.items():
        new = blocks[at] = memory.copied(block)
        part = value.value[(at[0], *at[ndim:]) if not layout.replicated else (0,) * (1 + len(trailing))]
        _place(new, found.masks[at], part)
    return made_of(shape, dtype, layout, blocks)._node


def _even_cuts(costs: Reported, counts: Sequence[int], own: Shape, trailing: Shape, rows: bool) -> tuple[int, ...]:
    """Declare `_cuts_of`, assuming that the mask is true as often as there are values, evenly spread."""
    return tuple(own[0] * k // len(counts) for k in range(len(counts) + 1))


@declares(_even_cuts)
def _cuts_of(counts: Sequence[int], own: Shape, trailing: Shape, rows: bool) -> tuple[int, ...]:
    """Return where the values of each part of the first axis begin; raise ValueError for a wrong number of values.

    own : the shape of the values.  rows : whether each selected place gets more than one number.
    """
    cuts = tuple(int(cut) for cut in np.concatenate([[0], np.cumsum(counts)]))
    if own[0] != cuts[-1]:
        if rows:
            raise ValueError(_mismatch(own, (cuts[-1], *trailing)))
        raise ValueError(
            f"NumPy boolean array indexing assignment cannot assign {own[0]} input values to the {cuts[-1]} output "
            "values where the mask is true"
        )
    return cuts


def _mismatch(value: tuple[Any, ...], wanted: tuple[Any, ...]) -> str:
    def text(shape: tuple[Any, ...]) -> str:
        return f"({','.join(map(str, shape))}{',' if len(shape) == 1 else ''})"

    return (
        f"shape mismatch: value array of shape {text(value)} could not be broadcast to indexing result of shape "
        f"{text(wanted)}"
    )
