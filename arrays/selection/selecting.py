"""Indices with masks and integer arrays, as NumPy reads them, and the functions that take positions.

An index is first put in order: ints beside arrays are arrays of no dimensions, masks among arrays are the positions
where they hold, slices run forwards and are turned round at the end.  A single mask without arrays is a matter of
`masks`; everything else of `lookups`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.ufuncs import stored
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import Along, Node, interned, kind_of
from bsp.arrays.expressions.layout import Shape, automatic
from bsp.arrays.indexing import basic, scalar_of
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import computed, flattened, known
from bsp.arrays.selection import masks
from bsp.arrays.selection.lookups import (
    Lookup,
    Slice,
    Store,
    assign,
    at_dealt,
    at_known,
    bad_positions,
    dealt_positions,
    put_dealt,
    put_known,
    refused,
    wrapped,
)
from bsp.arrays.views import store
from bsp.errors import ShapeError
from bsp.values.payload import is_abstract


class Item(NamedTuple):
    """One part of an index: "new", "slice", "int", "mask", "flag" (a mask of no dimensions) or "positions".

    A "gap" is an Ellipsis of no axes: it is none of the result's, but parts what is on its two sides.
    """

    kind: str
    value: Any
    axes: int  # of the array that it uses


def _item(part: Any) -> Item:
    if part is None:
        return Item("new", None, 0)
    if isinstance(part, slice):
        return Item("slice", part, 1)
    if isinstance(part, (bool, np.bool_)):
        return Item("flag", bool(part), 0)
    if isinstance(part, (list, tuple)):
        part = np.asarray(part)
        if not part.size and part.dtype.kind == "f":
            part = part.astype(np.intp)
    if isinstance(part, Array) or is_abstract(part) or isinstance(part, np.ndarray):
        if part.dtype.kind == "b":
            return Item("mask", part, part.ndim) if part.ndim else Item("flag", bool(part), 0)
        if part.dtype.kind not in "iu":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        return Item("positions", part, 1)
    return Item("int", part, 1)


def _items(shape: Shape, parts: tuple[Any, ...]) -> list[Item]:
    """The parts of an index, `...` and what is left out as slices; NumPy's IndexErrors."""
    found = [part if part is Ellipsis else _item(part) for part in parts]
    used = sum(each.axes for each in found if each is not Ellipsis)
    if sum(each is Ellipsis for each in found) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if used > len(shape):
        raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {used} were indexed")
    if not any(each is Ellipsis for each in found):
        found.append(Ellipsis)
    items: list[Item] = []
    for each in found:
        if each is not Ellipsis:
            items.append(each)
        elif len(shape) > used:
            items += [Item("slice", slice(None), 1)] * (len(shape) - used)
        else:
            items.append(Item("gap", None, 0))
    return items


def _axes_kept(items: Sequence[Item]) -> int:
    """Of the result, by a basic index of these."""
    return sum(item.kind not in ("int", "gap") for item in items)


_ADVANCED = ("int", "mask", "flag", "positions")


def _place(items: list[Item]) -> int:
    """Where the axes of what arrays select stand in the result: where they are if side by side, else first."""
    advanced = [k for k, item in enumerate(items) if item.kind in _ADVANCED]
    if advanced[-1] - advanced[0] + 1 != len(advanced):
        return 0
    return advanced[0]


def _only_mask(items: list[Item]) -> int | None:
    """The place of the mask if there is one and no positions besides."""
    found = [k for k, item in enumerate(items) if item.kind in ("mask", "flag", "positions")]
    return found[0] if len(found) == 1 and items[found[0]].kind == "mask" else None


def _all_whole(items: Sequence[Item]) -> bool:
    return all(item.kind == "gap" or (item.kind == "slice" and item.value == slice(None)) for item in items)


class _Masked(NamedTuple):
    """An index with one mask: a basic index that leaves the mask's axes whole, and where they then stand."""

    key: tuple[Any, ...]
    mask: Node
    first: int  # of the mask's axes, after the basic index
    place: int  # of the selected axis in the result


def _masked(shape: Shape, items: list[Item], k: int) -> _Masked:
    mask = masks.mask_node(items[k].value)
    axis = sum(item.axes for item in items[:k])
    if any(a != b for a, b in zip(shape[axis:], mask.kind.shape, strict=False)):
        bad = next(i for i, (a, b) in enumerate(zip(shape[axis:], mask.kind.shape, strict=False)) if a != b)
        raise IndexError(
            f"boolean index did not match indexed array along axis {axis + bad}; size of axis is {shape[axis + bad]} "
            f"but size of corresponding boolean axis is {mask.kind.shape[bad]}"
        )
    whole = [slice(None)] * items[k].axes
    before, after = ([item.value for item in part if item.kind != "gap"] for part in (items[:k], items[k + 1 :]))
    return _Masked((*before, *whole, *after), mask, _axes_kept(items[:k]), _axes_kept(items[: _place(items)]))


class _General(NamedTuple):
    """An index with positions."""

    node: Node  # the array, with an axis for each flag
    what: Lookup
    positions: list[Any]  # NumPy arrays, or nodes where not every process knows them
    order: list[Any]  # of the result's axes: "outer", or ("slice", number), or "new"
    flipped: tuple[int, ...]  # which of the slices run backwards


def _general(node: Node, items: list[Item]) -> _General:
    shape = node.kind.shape
    axis = 0
    flags: list[int] = []
    for item in items:
        if item.kind == "flag":
            flags.append(axis + len(flags))
        axis += item.axes
    if flags:
        node = build.expanded(node, flags)
        shape = node.kind.shape
    places: list[int] = []
    arrays: list[Any] = []
    slices: list[tuple[int, Slice]] = []
    order: list[Any] = []
    flipped = []
    at = _place(items)
    axis = 0
    for k, item in enumerate(items):
        if k == at:
            order.append("outer")
        if item.kind == "gap":
            continue
        if item.kind == "new":
            order.append("new")
        elif item.kind == "slice":
            start, stop, step = item.value.indices(shape[axis])
            count = len(range(start, stop, step))
            if step < 0:
                start, step = start + step * max(count - 1, 0), -step
                flipped.append(len(slices))
            order.append(("slice", len(slices)))
            slices.append((axis, Slice(start if count else 0, step if count > 1 else 1, count)))
        elif item.kind == "int":
            position = basic(shape[axis : axis + 1], (item.value,)).access[0].start
            arrays.append(np.asarray(position))
            places.append(axis)
        elif item.kind == "flag":
            arrays.append(np.zeros(int(item.value), np.int64))
            places.append(axis)
        elif item.kind == "mask":
            masks.checked_mask(shape[axis : axis + item.axes], item.value.shape)
            whole = _known(item.value)
            arrays += list(np.nonzero(whole)) if whole is not None else list(masks.nonzero(asarray(item.value)))
            places += range(axis, axis + item.axes)
        else:
            whole = _known(item.value)
            arrays.append(item.value if whole is None else whole)
            places.append(axis)
        axis += max(item.axes, item.kind == "flag")
    try:
        outer = np.broadcast_shapes(*[array.shape for array in arrays])
    except ValueError:
        shapes = " ".join(f"({','.join(map(str, a.shape))}{',' if a.ndim == 1 else ''})" for a in arrays)
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {shapes} "
        ) from None
    what = Lookup(tuple(places), tuple(slices), outer)
    if all(isinstance(array, np.ndarray) for array in arrays):
        lengths = [shape[place] for place in places]
        refused(list(bad_positions(arrays, lengths))[:1], what, lengths)
        arrays = [np.broadcast_to(wrapped(array, length), outer) for array, length in zip(arrays, lengths, strict=True)]
    else:
        arrays = [build.strong(build.operand(array)) for array in arrays]
    return _General(node, what, arrays, order, tuple(flipped))


def _known(value: Any) -> Any:
    """The values of an index array if every process has them."""
    if isinstance(value, np.ndarray):
        return value
    if is_abstract(value):
        return None
    (node,) = computed(value._node)
    whole = known(node)
    return whole if isinstance(whole, np.ndarray) else None


def known_position(part: Any) -> Any:
    """The integer in an array without axes; anything else as it is.  Cost: computing it, if it is not there yet."""
    if not isinstance(part, Array) or part.ndim or part.dtype.kind not in "iu" or world().abstract:
        return part
    whole = _known(part)
    return int(part.compute() if whole is None else whole)


def _is_known(index: _General) -> bool:
    return all(isinstance(each, np.ndarray) for each in index.positions)


@procedure
def get(array: Array, parts: tuple[Any, ...]) -> Array:
    """array[parts], with masks or integer arrays among the parts.

    Cost: of a mask one superstep for counts, elements stay where they are; of positions that every process knows
    (NumPy's, lists, small arrays) one superstep; of dealt positions two.
    """
    items = _items(array.shape, parts)
    k = _only_mask(items)
    if k is not None:
        masked = _masked(array.shape, items, k)
        ndim = items[k].axes
        base = array
        if not _all_whole(items[:k] + items[k + 1 :]):
            base = array[masked.key]
        order = [*range(masked.first, masked.first + ndim)]
        rest = [axis for axis in range(base.ndim) if axis not in order]
        node = build.permuted(build.strong(base._node), (*order, *rest))
        found = masks.compress_node(node, masked.mask)
        back = [*range(1, 1 + len(rest))]
        back.insert(masked.place, 0)
        return wrap(build.permuted(found._node, back))
    index = _general(build.strong(array._node), items)
    taken = _looked_up(index)
    return wrap(_in_order(taken._node, index))


def _looked_up(index: _General) -> Array:
    if _is_known(index):
        return at_known(index.node, index.what, index.positions)
    nodes = [build.from_whole(each) if isinstance(each, np.ndarray) else each for each in index.positions]
    if world().abstract and not any(_dealt(node) for node in nodes):
        nodes = [_spread(node) for node in nodes]
    return at_dealt(index.node, index.what, nodes)


def _dealt(node: Node) -> bool:
    (node,) = computed(node)
    return node.layout is not None and not node.layout.replicated


def _spread(node: Node) -> Node:
    """Positions without values, small enough to be replicated: dealt, as if nobody knew them."""
    return computed(build.relaid(node, automatic(node.kind.shape, world().nprocs, False)))[0]


def _in_order(node: Node, index: _General) -> Node:
    """The axes of the result where NumPy has them."""
    outer = len(index.what.outer)
    if index.flipped:
        key = [slice(None)] * len(node.kind.shape)
        for number in index.flipped:
            key[outer + number] = slice(None, None, -1)
        found = basic(node.kind.shape, tuple(key))
        node = build.viewed(node, found.shape, found.access)
    axes: list[int] = []
    new: list[int] = []
    for each in index.order:
        if each == "outer":
            axes += range(outer)
        elif each == "new":
            new.append(len(axes) + len(new))
        else:
            axes.append(outer + each[1])
    node = build.permuted(node, axes)
    return build.expanded(node, new) if new else node


@procedure
def put(array: Array, parts: tuple[Any, ...], value: Any, how: Store | None = None) -> None:
    """array[parts] = value: of positions named twice the last in C order counts, as NumPy has it.

    how : what is done with the values at the positions, instead (ufunc.at).

    Cost: nothing if every process knows positions and values; one superstep if positions or values are dealt, and
    what brings them into C order; a scalar where a mask holds is arithmetic, done when it is needed.
    """
    items = _items(array.shape, parts)
    given = build.operand(value)
    k = _only_mask(items)
    if how is None and k is not None and _all_whole(items[:k] + items[k + 1 :]):
        ndim = items[k].axes
        masked = _masked(array.shape, items, k)
        first = masked.first
        if not first:
            store(array, masks.assigned(build.strong(array._node), masked.mask, given))
            return
        if len(given.kind.shape) <= array.ndim - ndim - first:
            masks.checked_mask(array.shape[first:], masked.mask.kind.shape)
            after = range(ndim, array.ndim - first)
            mask = build.expanded(masked.mask, after) if after else masked.mask
            store(array, build.apply(ew.WHERE, mask, _valued(given, array), build.strong(array._node)))
            return
    index = _general(build.strong(array._node), items)
    shape = _result_shape(index)
    node = _valued(given, array) if how is None else build.strong(given)
    while len(node.kind.shape) > len(shape) and node.kind.shape[0] == 1:
        node = build.squeezed(node, [0])
    own = node.kind.shape
    if len(own) > len(shape) or any(a not in (1, b) for a, b in zip(own[::-1], shape[::-1], strict=False)):
        raise ValueError(masks._mismatch(given.kind.shape, shape))
    if node.kind.size != 1 or not _is_known(index):
        node = _as_found(node, shape, index)
    if _is_known(index):
        found = put_known(index.node, index.what, index.positions, node, how or assign)
    else:
        nodes = [build.from_whole(each) if isinstance(each, np.ndarray) else each for each in index.positions]
        found = put_dealt(index.node, index.what, nodes, node, how or assign)
    if found.kind.shape != array.shape:
        found = build.reshaped(found, array.shape)
    store(array, found)


def _valued(given: Node, array: Array) -> Node:
    if given.kind.weak is not None and not world().abstract:
        return build.from_whole(scalar_of(given, array.dtype))
    return build.strong(build.cast(given, array.dtype))


def _result_shape(index: _General) -> Shape:
    shape: list[int] = []
    for each in index.order:
        shape += list(index.what.outer) if each == "outer" else [1] if each == "new" else [index.what.rest[each[1]]]
    return tuple(shape)


def _as_found(value: Node, shape: Shape, index: _General) -> Node:
    """A value of the result's shape with the positions' axes first and the slices after: `_in_order` undone."""
    outer = len(index.what.outer)
    if value.kind.size == 1:
        return build.reshaped(value, (1,) * (outer + len(index.what.rest)))
    value = build.broadcast(value, shape)
    new, axes = [], {}
    position = 0
    kept = 0
    for each in index.order:
        if each == "new":
            new.append(position)
            position += 1
        elif each == "outer":
            for k in range(outer):
                axes[k] = kept + k
            position += outer
            kept += outer
        else:
            axes[outer + each[1]] = kept
            position += 1
            kept += 1
    if new:
        value = build.squeezed(value, new)
    value = build.permuted(value, [axes[k] for k in range(len(axes))])
    if index.flipped:
        key = [slice(None)] * len(value.kind.shape)
        for number in index.flipped:
            key[outer + number] = slice(None, None, -1)
        found = basic(value.kind.shape, tuple(key))
        value = build.viewed(value, found.shape, found.access)
    return value


# ----------------------------------------------------------------------------- functions


@procedure
def take(x: Any, indices: Any, /, *, axis: int | None = None, out: Any = None, mode: str = "raise") -> Array:
    """The slices of an axis at positions; None: elements of x in C order.  Cost: as x[indices]."""
    _checked_mode(mode)
    array = asarray(x)
    if axis is None:
        array, axis = wrap(flattened(build.strong(array._node))), 0
    place = build.whole_axis(axis, array.ndim)
    given: Any = indices if isinstance(indices, (Array, np.ndarray)) or is_abstract(indices) else np.asarray(indices)
    if not isinstance(given, Array) and not given.size and given.dtype.kind == "f":
        given = given.astype(np.intp)
    if given.dtype.kind not in "iu":
        raise TypeError(f"Cannot cast array data from {given.dtype!r} to dtype('int64') according to the rule 'safe'")
    return stored(get(array, (*[slice(None)] * place, _inside(given, array.shape[place], mode))), out)


def _inside(positions: Any, length: int, mode: str) -> Any:
    """Positions out of range, as `mode` has it: "wrap" counts round, "clip" takes the nearest."""
    if mode == "wrap":
        return positions % length
    return clipped(positions, length) if mode == "clip" else positions


def _checked_mode(mode: str | None) -> None:
    if mode not in ("raise", "wrap", "clip", None):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")


def clipped(positions: Any, length: int) -> Any:
    """Positions no less than 0 and no more than the last."""
    if isinstance(positions, Array):
        return positions.clip(0, max(length - 1, 0))
    return np.clip(positions, 0, max(length - 1, 0))


class _TakeAlong:
    """take_along_axis of whole lines."""

    name = "take along axis"
    work = 1.0
    fallible = False

    def call(self, values: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Lines are the last axis of both."""
        return np.take_along_axis(values, positions.astype(np.int64, copy=False), axis=-1)


class _PutAlong:
    """put_along_axis of whole lines."""

    name = "put along axis"
    work = 1.0
    fallible = False

    def call(self, lines: np.ndarray, positions: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Lines are the last axis of all three."""
        found = np.array(lines)
        np.put_along_axis(found, positions.astype(np.int64, copy=False), values, axis=-1)
        return found


@lru_cache(maxsize=8)
def _along(kind: type) -> Any:
    return kind()


def _positions_along(array: Array, indices: Any, place: int) -> Array:
    """Positions for lines of an axis, checked: one superstep if they are dealt."""
    given = asarray(indices)
    if given.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if given.ndim != array.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    length = array.shape[place]
    what = Lookup((place,), (), given.shape)
    whole = _known(indices if not isinstance(indices, (list, tuple)) else np.asarray(indices))
    if whole is not None:
        refused(list(bad_positions([whole], [length])), what, [length])
    elif not world().abstract:
        asked = dealt_positions([given._node], what, [length])
        told = world().private.allgather(asked.bad)
        refused([each for each in told if each is not None], what, [length])
    return given


@procedure
def take_along_axis(x: Any, indices: Any, /, axis: int | None = -1) -> Array:
    """The element of each line of an axis at its own positions.

    Cost: whole lines are brought together; of a vector as x[indices].
    """
    array = asarray(x)
    if axis is None:
        if np.ndim(indices) != 1:
            raise ValueError("when axis=None, `indices` must have a single dimension.")
        array, axis = wrap(flattened(build.strong(array._node))), 0
    place = build.normal_axis(axis, array.ndim)
    given = _positions_along(array, indices, place)
    if array.ndim == 1:
        return get(array, (given,))
    first, second = _lines(array, place), _lines(given, place)
    outer = np.broadcast_shapes(first.kind.shape[:-1], second.kind.shape[:-1])
    first = build.broadcast(first, (*outer, first.kind.shape[-1]))
    second = build.broadcast(second, (*outer, second.kind.shape[-1]))
    op = interned(Along, _along(_TakeAlong), (1, 1), second.kind.shape[-1:])
    found = Node(op, (first, second), kind_of((*outer, second.kind.shape[-1]), array.dtype))
    return wrap(_back(found, place))


@procedure
def put_along_axis(x: Any, indices: Any, values: Any, axis: int | None) -> None:
    """x with the elements of each line at its own positions replaced.  Cost: as take_along_axis."""
    if not isinstance(x, Array):
        raise TypeError("put_along_axis changes an array of bsp.arrays")
    if axis is None or x.ndim == 1:
        flat = wrap(flattened(build.strong(x._node)))
        flat[asarray(indices)] = values
        store(x, build.reshaped(flat._node, x.shape))
        return
    place = build.normal_axis(axis, x.ndim)
    given = _positions_along(x, indices, place)
    value = _valued(build.operand(values), x)
    first, second = _lines(x, place), _lines(given, place)
    outer = first.kind.shape[:-1]
    count = second.kind.shape[-1]
    shape = tuple(count if k == place else length for k, length in enumerate(x.shape))
    third = _lines(wrap(build.broadcast(value, shape)), place)
    second = build.broadcast(second, (*outer, count))
    op = interned(Along, _along(_PutAlong), (1, 1, 1), first.kind.shape[-1:])
    store(x, _back(Node(op, (first, second, third), first.kind), place))


def _lines(array: Array, axis: int) -> Node:
    """With an axis last."""
    order = [k for k in range(array.ndim) if k != axis]
    return build.permuted(build.strong(array._node), (*order, axis))


def _back(node: Node, axis: int) -> Node:
    """The last axis where it was."""
    order = [*range(len(node.kind.shape) - 1)]
    order.insert(axis, len(order))
    return build.permuted(node, order)


@procedure
def put_flat(x: Any, indices: Any, values: Any, mode: str = "raise") -> None:
    """numpy.put: x.ravel()[indices] = values, values repeated as often as need be."""
    if not isinstance(x, Array):
        raise TypeError("put changes an array of bsp.arrays")
    _checked_mode(mode)
    flat = wrap(flattened(build.strong(x._node)))
    given = indices if isinstance(indices, (Array, np.ndarray)) else np.asarray(indices)
    given = _inside(given, flat.size, mode)
    count = prod(given.shape)
    own = np.size(values) if not isinstance(values, Array) else values.size
    if own != 1 and own != count:
        if isinstance(values, Array):
            raise ShapeError(f"put: {own} values for {count} positions")
        values = np.resize(np.asarray(values), count)
    flat[given if given.ndim == 1 else given.reshape((count,))] = values
    store(x, build.reshaped(flat._node, x.shape))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **masks.FUNCTIONS,
    **{each.__name__: each for each in (take, take_along_axis, put_along_axis)},
    "put": put_flat,
}
