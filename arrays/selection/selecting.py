"""Indexing with masks and integer arrays by NumPy's rules, and the functions that take positions.

An index is first normalised: integers beside arrays become arrays without dimensions, masks among arrays become the
positions where they are true, and slices run forwards, with a reversal at the end.  `masks` implements a single mask
without arrays; `lookups` implements everything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays import build
from bsp.arrays.api import dtypes
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.ufuncs import stored
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import Along, Node, interned, kind_of
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.indexing import basic, scalar_of
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import computed, flattened, known
from bsp.arrays.selection import masks
from bsp.arrays.selection.lookups import Lookup, Slice
from bsp.arrays.selection.positions import checked, dealt_positions, refused
from bsp.arrays.selection.routes import Store, assign, looked_up, routed, write
from bsp.arrays.typing import ArrayLike, Mode
from bsp.arrays.views import store
from bsp.arrays.writing import renewed
from bsp.declared import Reported, declares
from bsp.errors import ShapeError
from bsp.values.payload import as_array, is_abstract

__all__ = ["put_along_axis", "take", "take_along_axis"]


class Item(NamedTuple):
    """One part of an index: "new", "slice", "int", "mask", "flag" (a mask without dimensions) or "positions".

    A "gap" is an Ellipsis that stands for no axes: it adds no axis to the result, but separates arrays on its two
    sides, which decides where NumPy puts their axes.
    """

    kind: str
    value: Any
    axes: int  # how many axes of the array it uses


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
    if isinstance(part, (Array, np.ndarray)) or is_abstract(part):
        if part.dtype.kind == "b":
            return Item("mask", part, part.ndim) if part.ndim else Item("flag", bool(part), 0)
        if part.dtype.kind not in "iu":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        return Item("positions", part, 1)
    return Item("int", part, 1)


def _items(shape: Shape, parts: tuple[Any, ...]) -> list[Item]:
    """Return the parts of an index, with `...` and omitted axes as slices; raise NumPy's IndexErrors."""
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
    """Return how many axes a basic index of these parts leaves in the result."""
    return sum(item.kind not in ("int", "gap") for item in items)


_ADVANCED = ("int", "mask", "flag", "positions")


def _place(items: list[Item]) -> int:
    """Return where the result has the axes of the arrays: in their place if the arrays are adjacent, else first."""
    advanced = [k for k, item in enumerate(items) if item.kind in _ADVANCED]
    if advanced[-1] - advanced[0] + 1 != len(advanced):
        return 0
    return advanced[0]


def _only_mask(items: list[Item]) -> int | None:
    """Return the place of the mask if the index has exactly one mask and no positions, else None."""
    found = [k for k, item in enumerate(items) if item.kind in ("mask", "flag", "positions")]
    return found[0] if len(found) == 1 and items[found[0]].kind == "mask" else None


def _all_whole(items: Sequence[Item]) -> bool:
    return all(item.kind == "gap" or (item.kind == "slice" and item.value == slice(None)) for item in items)


class _Masked(NamedTuple):
    """An index with one mask: a basic index that keeps the mask's axes whole, then the mask."""

    key: tuple[Any, ...]  # the basic index
    mask: Node
    first: int  # the first of the mask's axes, after the basic index
    place: int  # where the result has the axis of selected elements


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
    """An index with positions, as a lookup and the order of the result's axes."""

    node: Node  # the array, with an axis for each flag
    what: Lookup
    positions: list[Any]  # nodes; NumPy arrays if every process has all of them
    known: bool  # whether every process has all of them
    order: list[Any]  # the result's axes in order: "outer", ("slice", number) or "new"
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
            arrays.append(_as_known(item.value))
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
    if any(isinstance(array, Array) for array in arrays):
        arrays = [build.strong(build.operand(array)) for array in arrays]
        return _General(node, what, arrays, False, order, tuple(flipped))
    return _General(node, what, checked(arrays, what, [shape[place] for place in places]), True, order, tuple(flipped))


def _known(value: Any) -> Any:
    """Compute an index array; return its elements if every process has all of them, else None."""
    if isinstance(value, np.ndarray):
        return value
    (node,) = computed(build.strong(build.operand(value)))
    return known(node)


def _as_known(value: Any) -> Any:
    """Compute an index array; return its elements if every process has all of them, else an Array."""
    whole = _known(value)
    return asarray(value) if whole is None else whole


def known_position(part: Any) -> Any:
    """Return the integer in an array without axes; return anything else unchanged.

    Collective for a dealt or lazy array.  Cost: computing it, if that has not been done.
    """
    if not isinstance(part, Array) or part.ndim or part.dtype.kind not in "iu":
        return part
    return _integer(part)


def _integer_cost(costs: Reported, part: Array) -> int:
    """Declare the cost of `_integer`, which is the same for all values."""
    if _known(part) is None:
        part.compute()
    return 0


@declares(_integer_cost)
def _integer(part: Array) -> int:
    """Return the integer in an array without axes.  Collective unless every process has it."""
    whole = _known(part)
    return int(part.compute() if whole is None else whole)


@procedure
def get(array: Array, parts: tuple[Any, ...]) -> Array:
    """Return array[parts], with masks or integer arrays among the parts.  Collective.

    Cost: for a mask one superstep for counts, elements stay where they are; for positions that every process has
    (NumPy arrays, lists, small arrays) one superstep; for dealt positions two.
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
    taken = looked_up(index.node, index.what, index.positions)
    return wrap(_in_order(taken._node, index))


def _in_order(node: Node, index: _General) -> Node:
    """Reverse backward slices, and put the axes of a lookup's result into NumPy's order."""
    outer = len(index.what.outer)
    node = _reversed(node, index)
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
    """Assign array[parts] = value; of repeated positions the last in C order counts, as in NumPy.  Collective.

    how : what to do with the values at the positions instead (ufunc.at).

    Cost: nothing if every process has positions and values; one superstep if positions or values are dealt, and what
    brings them into C order.  A scalar where a mask is true costs nothing: it is written at once if array and mask are
    computed and dealt alike, and else elementwise arithmetic, done lazily.
    """
    items = _items(array.shape, parts)
    given = build.operand(value)
    k = _only_mask(items)
    if how is None and k is not None and _all_whole(items[:k] + items[k + 1 :]):
        ndim = items[k].axes
        masked = _masked(array.shape, items, k)
        first = masked.first
        if not first and masks.assigned_at_once(array, masked.mask, value):
            return
        if not first:
            store(array, build.cast(masks.assigned(build.strong(array._node), masked.mask, given), array.dtype))
            return
        if len(given.kind.shape) <= array.ndim - ndim - first:
            masks.checked_mask(array.shape[first:], masked.mask.kind.shape)
            after = range(ndim, array.ndim - first)
            mask = build.expanded(masked.mask, after) if after else masked.mask
            found = build.apply(ew.WHERE, mask, _valued(given, array), build.strong(array._node))
            store(array, build.cast(found, array.dtype))  # a choice has this machine's byte order
            return
    index = _general(build.strong(array._node), items)
    shape = _result_shape(index)
    node = _valued(given, array) if how is None else build.strong(given)
    while len(node.kind.shape) > len(shape) and node.kind.shape[0] == 1:
        node = build.squeezed(node, [0])
    if not build.broadcasts(node.kind.shape, shape):
        raise ValueError(masks._mismatch(given.kind.shape, shape))
    if node.kind.size != 1 or not index.known:
        node = _as_found(node, shape, index)
    writes = routed(index.node, index.what, index.positions, node, how or assign)
    new = renewed(index.node)
    del index, given  # what refers to the blocks no more lets them be written to in place
    store(array, new if new.kind.shape == array.shape else build.reshaped(new, array.shape))
    write(world(), new, writes)


def _valued(given: Node, array: Array) -> Node:
    if given.kind.weak is not None:
        return build.from_whole(scalar_of(given, array.dtype))
    return build.strong(build.cast(given, array.dtype))


def _result_shape(index: _General) -> Shape:
    shape: list[int] = []
    for each in index.order:
        shape += list(index.what.outer) if each == "outer" else [1] if each == "new" else [index.what.rest[each[1]]]
    return tuple(shape)


def _as_found(value: Node, shape: Shape, index: _General) -> Node:
    """Return a value of the result's shape with the axes of positions first: the inverse of `_in_order`."""
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
    return _reversed(build.permuted(value, [axes[k] for k in range(len(axes))]), index)


def _reversed(node: Node, index: _General) -> Node:
    """Return a view, with the axes of positions first, in which the slices that run backwards are reversed."""
    key = [slice(None)] * len(node.kind.shape)
    for number in index.flipped:
        key[len(index.what.outer) + number] = slice(None, None, -1)
    found = basic(node.kind.shape, tuple(key))
    return build.viewed(node, found.shape, found.access)


# ----------------------------------------------------------------------------- functions


@procedure
def take(
    x: ArrayLike, indices: ArrayLike, /, axis: int | None = None, out: Array | None = None, mode: Mode = "raise"
) -> Array:
    """Return the slices along an axis at positions; axis None: elements in C order.  Cost: as x[indices]."""
    _checked_mode(mode)
    array = asarray(x)
    if axis is None:
        array, axis = wrap(flattened(build.strong(array._node))), 0
    array = wrap(build.lined(array._node))
    place = build.whole_axis(axis, array.ndim)
    given: Any = indices if isinstance(indices, Array) else as_array(indices)
    if not isinstance(given, Array) and not given.size and given.dtype.kind == "f":
        given = given.astype(np.intp)
    if given.dtype.kind not in "iu":
        raise TypeError(f"Cannot cast array data from {given.dtype!r} to dtype('int64') according to the rule 'safe'")
    return stored(get(array, (*[slice(None)] * place, _inside(given, array.shape[place], mode))), out)


def _inside(positions: Any, length: int, mode: str) -> Any:
    """Bring positions into range: "wrap" takes them modulo the length, "clip" the nearest; "raise" leaves them."""
    if mode == "wrap":
        return positions % length
    return clipped(positions, length) if mode == "clip" else positions


def _checked_mode(mode: str | None) -> None:
    if mode not in ("raise", "wrap", "clip", None):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")


def clipped(positions: Any, length: int) -> Any:
    """Return positions clipped to 0, ..., length - 1."""
    if isinstance(positions, Array):
        return positions.clip(0, max(length - 1, 0))
    return np.clip(positions, 0, max(length - 1, 0))


class _TakeAlong:
    """An operation along an axis: take_along_axis of whole lines."""

    name = "take along axis"
    work = 1.0
    fallible = False

    def call(self, values: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """Return the elements of each line at its positions; lines are along the last axis of both."""
        return np.take_along_axis(values, positions.astype(np.int64, copy=False), axis=-1)


class _PutAlong:
    """An operation along an axis: put_along_axis of whole lines."""

    name = "put along axis"
    work = 1.0
    fallible = False

    def call(self, lines: np.ndarray, positions: np.ndarray, values: np.ndarray) -> np.ndarray:
        """Return a copy with values at each line's positions; lines are along the last axis of all three."""
        found = np.array(lines)
        np.put_along_axis(found, positions.astype(np.int64, copy=False), values, axis=-1)
        return found


@lru_cache(maxsize=8)
def _along(kind: type) -> Any:
    return kind()


def _positions_along(array: Array, indices: Any, place: int) -> Array:
    """Check positions along an axis and return them as an Array.  Collective: one superstep if they are dealt."""
    given = asarray(indices)
    if given.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    if given.ndim != array.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    length = array.shape[place]
    what = Lookup((place,), (), given.shape)
    whole = _known(given)
    if whole is not None:
        checked([whole], what, [length])
    else:
        asked = dealt_positions([given._node], what, [length])
        told = world().private.allgather(asked.bad)
        refused([each for each in told if each is not None], what, [length])
    return given


@procedure
def take_along_axis(x: ArrayLike, indices: ArrayLike, /, axis: int | None = -1) -> Array:
    """Return from each line along an axis the elements at that line's own positions.

    Cost: whole lines are brought together; for a vector as x[indices].
    """
    array = asarray(x)
    if axis is None:
        if dtypes.ndim(indices) != 1:
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
def put_along_axis(x: Array, indices: ArrayLike, values: ArrayLike, axis: int | None) -> None:
    """Replace in x the elements of each line along an axis at that line's own positions.  Cost: as take_along_axis."""
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
    """Return an array's node with an axis moved to the end."""
    order = [k for k in range(array.ndim) if k != axis]
    return build.permuted(build.strong(array._node), (*order, axis))


def _back(node: Node, axis: int) -> Node:
    """Return a node with its last axis moved back to `axis`: the inverse of `_lines`."""
    order = [*range(len(node.kind.shape) - 1)]
    order.insert(axis, len(order))
    return build.permuted(node, order)


@procedure
def put_flat(x: Array, indices: ArrayLike, values: ArrayLike, mode: Mode = "raise") -> None:
    """Assign x.ravel()[indices] = values in place, as numpy.put; values are repeated to the number of indices."""
    if not isinstance(x, Array):
        raise TypeError("put changes an array of bsp.arrays")
    _checked_mode(mode)
    flat = wrap(flattened(build.strong(x._node)))
    given = indices if isinstance(indices, Array) else as_array(indices)
    given = _inside(given, flat.size, mode)
    count = prod(given.shape)
    own = dtypes.size(values)
    if own != 1 and own != count:
        if isinstance(values, Array):
            raise ShapeError(f"put: {own} values for {count} positions")
        values = np.resize(np.asarray(values), count)
    flat[given if given.ndim == 1 else given.reshape((count,))] = values
    store(x, build.reshaped(flat._node, x.shape))
