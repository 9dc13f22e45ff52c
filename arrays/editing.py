"""Functions that delete, insert, trim or repeat elements: delete, insert, trim_zeros, resize."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api import reductions
from bsp.arrays.api.creation import arange, asarray, checked_shape, ones, zeros_like
from bsp.arrays.api.manipulation import concat, cut_along, moveaxis, ravel, reshape
from bsp.arrays.api.ufuncs import FUNCTIONS as UFUNCS
from bsp.arrays.api.ufuncs import where
from bsp.arrays.array import Array, compute, wrap
from bsp.arrays.gathering import brought
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.selection.masks import compress
from bsp.arrays.selection.selecting import take
from bsp.arrays.sorting.searching import searchsorted
from bsp.arrays.typing import ArrayLike, ShapeLike
from bsp.declared import Costs, declares

__all__ = ["delete", "insert", "resize", "trim_zeros"]

FEW = 32  # up to so many positions the parts between them are sliced and concatenated, lazily


def cycled(values: Array, count: int) -> Array:
    """Return `count` values: those given, in C order, cut or repeated; a single value as an array of no axes.

    Cost: as `concatenate` for up to 32 times; for more, as x[positions].
    """
    if values.size == 1:
        return reshape(values, ())
    flat = wrap(ravel(values)._node)
    times, rest = divmod(count, values.size)
    if not times:
        return flat[:count]
    if times > FEW:
        return take(flat, arange(count) % values.size)
    return concat([flat] * times + [flat[:rest]] * bool(rest))


def resize(a: ArrayLike, new_shape: ShapeLike) -> Array:
    """Return a copy in another shape: elements in C order are dropped at the end, or repeated from the first one.

    Cost: as `concatenate` for up to 32 times; for more, as x[positions].
    """
    array = asarray(a)
    given: Any = new_shape
    given = [given] if np.ndim(given) == 0 else given
    if any(length < 0 for length in given):
        raise ValueError("all elements of `new_shape` must be non-negative")
    shape = checked_shape(given)
    if not array.size:
        return zeros_like(array, shape=shape)
    found = cycled(array, prod(shape))
    return (reshape(found, shape) if found.ndim else wrap(build.broadcast(found._node, shape))).copy()


def _along(arr: Any, axis: int | None) -> tuple[Array, int]:
    array = asarray(arr)
    if axis is None:
        array = array if array.ndim == 1 else ravel(array)
        return array, 0
    return array, build.normal_axis(axis, array.ndim)


def _checked(obj: Any, length: int, axis: int, most: int) -> np.ndarray:
    """Return positions counted from 0, checked, on every process.  Collective for an Array: gathers it everywhere."""
    given = brought("delete: positions", obj) if isinstance(obj, Array) else np.asarray(obj)
    if not given.size and not isinstance(obj, (np.ndarray, Array)):
        given = given.astype(np.intp)
    if given.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    wrong = given[(given < -length) | (given >= most)]
    if wrong.size:
        raise IndexError(f"index {wrong[0]} is out of bounds for axis {axis} with size {length}")
    at = given.astype(np.intp)  # before the sum, which may not fit into the given dtype
    return np.where(at < 0, at + length, at)


@procedure
def delete(arr: ArrayLike, obj: int | slice | ArrayLike, axis: int | None = None) -> Array:
    """Return an array without some slices along an axis; `obj` gives them as positions, a slice, or a mask.

    axis : None deletes elements of the array in C order.
    Cost: as `concatenate` of the remaining parts for a slice of step ±1 or at most 32 positions; else as x[mask].
    """
    array, place = _along(arr, axis)
    length = array.shape[place]
    if isinstance(obj, slice):
        chosen = range(*obj.indices(length))
        if not chosen:
            return array.copy()
        chosen = chosen if chosen.step > 0 else chosen[::-1]
        if chosen.step == 1:
            return concat(
                [cut_along(array, place, 0, chosen[0]), cut_along(array, place, chosen[-1] + 1, length)], axis=place
            )
        keep = ones(length, dtype=bool)
        keep[chosen[0] : chosen[-1] + 1 : chosen.step] = False
        return compress(keep, array, axis=place)
    given = obj if isinstance(obj, (Array, np.ndarray)) else np.asarray(obj)
    if given.dtype.kind == "b":
        if given.shape != (length,):
            raise ValueError(
                f"boolean array argument obj to delete must be one dimensional and match the axis length of {length}"
            )
        return compress(UFUNCS["logical_not"](asarray(given)), array, axis=place)
    if given.size <= FEW:
        at = np.unique(_checked(obj, length, place, length))
        edges = [-1, *at.tolist(), length]
        parts = [cut_along(array, place, low + 1, high) for low, high in pairwise(edges) if high > low + 1]
        return concat(parts or [cut_along(array, place, 0, 0)], axis=place)
    keep = ones(length, dtype=bool)
    keep[given.reshape(-1)] = False
    return compress(keep, array, axis=place)


def _places(obj: Any, length: int, axis: int) -> np.ndarray:
    """Return the positions before which `insert` inserts, on every process.  Collective for an Array: gathers it."""
    if isinstance(obj, slice):
        return np.arange(*obj.indices(length))
    given = brought("insert: positions", obj) if isinstance(obj, Array) else np.asarray(obj)
    if given.dtype.kind == "b":
        if given.ndim != 1:
            raise ValueError("boolean array argument obj to insert must be one dimensional")
        return np.flatnonzero(given)
    if given.ndim > 1:
        raise ValueError("index array argument obj to insert must be one dimensional or scalar")
    return _checked(given if given.size else obj, length, axis, length + 1)


@procedure
def insert(arr: ArrayLike, obj: int | slice | ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Return an array with values inserted before the slices of an axis at some positions.

    axis : None inserts before elements of the array in C order.
    Cost: as `concatenate` for at most 32 different positions; for more, two words for each element of the result.
    """
    array, place = _along(arr, axis)
    at = _places(obj, array.shape[place], place)
    new = asarray(values, array.dtype)
    if new.ndim < array.ndim:
        new = new[(None,) * (array.ndim - new.ndim)]
    if at.size == 1:
        if not at.ndim:
            new = moveaxis(new, 0, place)
        count = new.shape[place]
        at = np.full(count, at.item())
    else:
        count = at.size
    shape = tuple(count if k == place else own for k, own in enumerate(array.shape))
    new = wrap(build.broadcast(new._node, shape))
    if np.unique(at).size <= FEW:
        order = np.argsort(at, kind="stable")
        return _put_between(array, new, at, order, place)
    return _merged(array, new, at, place)


def _put_between(array: Array, new: Array, at: np.ndarray, order: np.ndarray, place: int) -> Array:
    """Concatenate the parts of the array between the positions with the new slices between them."""
    if not np.array_equal(order, np.arange(order.size)):
        new = take(new, order, axis=place)
    ordered, parts, done = at[order], [], 0
    for position in np.unique(ordered).tolist():
        first, last = np.searchsorted(ordered, [position, position + 1]).tolist()
        parts += [cut_along(array, place, done, position), cut_along(new, place, first, last)]
        done = position
    return concat([*parts, cut_along(array, place, done, array.shape[place])], axis=place)


def _merged(array: Array, new: Array, at: np.ndarray, place: int) -> Array:
    """Take each element of the result, by its computed position, from the old ones followed by the new ones."""
    length, count = array.shape[place], at.size
    order = np.argsort(at, kind="stable")
    goes = at[order] + np.arange(count)  # positions of the new ones in the result, ascending
    line = arange(length + count)
    before = searchsorted(goes, line)
    nearest = before.clip(0, count - 1)
    is_new = take(asarray(goes), nearest) == line
    source = where(is_new, length + take(asarray(order), nearest), line - before)
    return take(concat([array, new], axis=place), source, axis=place)


def _found_ends(line: Array) -> Any:
    """Compute in one plan whether some element is true, and the first and the last position of one."""
    return compute(reductions.any(line), reductions.argmax(line), reductions.argmax(line[::-1]))


def _of_ends(costs: Costs, line: Array) -> tuple[int, int, int]:
    """Declare `_ends`; the bound is that nothing is trimmed."""
    _found_ends(line)
    costs.at_most()
    return 1, 0, 0


@declares(_of_ends)
def _ends(line: Array) -> tuple[int, int, int]:
    """Return whether some element of a line is true, and how many are false before the first and after the last."""
    some, before, after = _found_ends(line)
    return int(some), int(before), int(after)


@procedure
def trim_zeros(filt: ArrayLike, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """Return a view without the zeros at the front ("f") or at the back ("b") of some axes; None: of all axes.

    Collective: the bounds of the nonzero elements are computed on all processes, a few words and a superstep for each
    axis.
    """
    array = asarray(filt)
    how = trim.lower()
    if how not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {how!r}")
    axes = build.normal_axes(axis, array.ndim)
    if not axes:
        return array
    held = wrap(build.truth(build.strong(array._node)))
    key: list[slice] = [slice(None)] * array.ndim
    for k in axes:
        if not array.size:
            key[k] = slice(0, 0)
            continue
        line = reductions.any(held, axis=tuple(other for other in range(array.ndim) if other != k))
        some, first, last = _ends(line)
        if not some:
            key[k] = slice(0, 0)
        else:
            key[k] = slice(first if "f" in how else None, array.shape[k] - last if "b" in how else None)
    return array[tuple(key)]
