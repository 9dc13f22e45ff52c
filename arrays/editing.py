"""Arrays with elements left out, put in between, cut off at the ends, or repeated to a size."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api import reductions
from bsp.arrays.api.creation import arange, asarray, checked_shape, ones, zeros_like
from bsp.arrays.api.manipulation import concat, moveaxis, ravel, reshape
from bsp.arrays.api.ufuncs import FUNCTIONS as UFUNCS
from bsp.arrays.api.ufuncs import astype, where
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import world
from bsp.arrays.gathering import brought
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.selection.masks import compress
from bsp.arrays.selection.selecting import take
from bsp.arrays.sorting.searching import searchsorted

FEW = 32  # positions up to which what lies between is cut out and put together, lazily


def cycled(values: Array, count: int) -> Array:
    """Values in C order, repeated, or cut, to so many; one value alone broadcasts."""
    if values.size == 1:
        return reshape(values, ())
    flat = wrap(ravel(values)._node)
    if values.size >= count:
        return flat[:count]
    return take(flat, arange(count) % values.size)


def resize(a: Any, new_shape: Any) -> Array:
    """Another shape: elements in C order are dropped at the end, or come again from the first."""
    array = asarray(a)
    given = [new_shape] if np.ndim(new_shape) == 0 else new_shape
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


def _part(array: Array, axis: int, low: int, high: int) -> Array:
    return array[(slice(None),) * axis + (slice(low, high),)]


def _checked(obj: Any, length: int, axis: int, most: int) -> np.ndarray:
    """Positions as every process knows them, counted from 0; an Array is brought to all."""
    given = brought("delete: positions", obj) if isinstance(obj, Array) else np.asarray(obj)
    if not given.size and not isinstance(obj, (np.ndarray, Array)):
        given = given.astype(np.intp)
    if given.dtype.kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    wrong = given[(given < -length) | (given >= most)]
    if wrong.size:
        raise IndexError(f"index {wrong[0]} is out of bounds for axis {axis} with size {length}")
    return np.where(given < 0, given + length, given).astype(np.intp)


@procedure
def delete(arr: Any, obj: Any, axis: int | None = None) -> Array:
    """Without the slices of an axis at positions, in a slice, or where a mask holds; None: of all elements in C order.

    Cost: what stays is put together, as `concatenate`, where few positions are left out; of many, as x[mask].
    """
    array, place = _along(arr, axis)
    length = array.shape[place]
    if isinstance(obj, slice):
        chosen = range(*obj.indices(length))
        if not chosen:
            return array.copy()
        chosen = chosen if chosen.step > 0 else chosen[::-1]
        if chosen.step == 1:
            return concat([_part(array, place, 0, chosen[0]), _part(array, place, chosen[-1] + 1, length)], axis=place)
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
        parts = [_part(array, place, low + 1, high) for low, high in pairwise(edges) if high > low + 1]
        return concat(parts or [_part(array, place, 0, 0)], axis=place)
    keep = ones(length, dtype=bool)
    keep[given.reshape(-1)] = False
    return compress(keep, array, axis=place)


def _places(obj: Any, length: int, axis: int) -> np.ndarray:
    """Before which positions `insert` puts something; every process knows them."""
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
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Array:
    """With values before the slices of an axis at positions; None: of all elements in C order.

    Cost: as `concatenate` where they go to few places; to many, two words for each element of the result.
    """
    array, place = _along(arr, axis)
    at = _places(obj, array.shape[place], place)
    new = astype(asarray(values), array.dtype)
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
    """The pieces between the positions, and the new slices between them."""
    if not np.array_equal(order, np.arange(order.size)):
        new = take(new, order, axis=place)
    ordered, parts, done = at[order], [], 0
    for position in np.unique(ordered).tolist():
        first, last = np.searchsorted(ordered, [position, position + 1]).tolist()
        parts += [_part(array, place, done, position), _part(new, place, first, last)]
        done = position
    return concat([*parts, _part(array, place, done, array.shape[place])], axis=place)


def _merged(array: Array, new: Array, at: np.ndarray, place: int) -> Array:
    """Each element of the result looked up in the old ones followed by the new ones."""
    length, count = array.shape[place], at.size
    order = np.argsort(at, kind="stable")
    goes = at[order] + np.arange(count)  # where new ones stand in the result, ascending
    line = arange(length + count)
    before = searchsorted(goes, line)
    nearest = before.clip(0, count - 1)
    is_new = take(asarray(goes), nearest) == line
    source = where(is_new, length + take(asarray(order), nearest), line - before)
    return take(concat([array, new], axis=place), source, axis=place)


@procedure
def trim_zeros(filt: Any, trim: str = "fb", axis: Any = None) -> Array:
    """Without the zeros at the front ("f"), at the back ("b"), or both, of axes; None: of all.

    Collective: the bounds of what is not zero become known to all, some words; then a view.
    """
    array = asarray(filt)
    how = trim.lower()
    if how not in ("fb", "bf", "f", "b"):
        raise ValueError(f"unexpected character(s) in `trim`: {how!r}")
    axes = build.normal_axes(axis, array.ndim)
    if not axes or world().abstract:
        return array
    held = array != 0
    key: list[slice] = [slice(None)] * array.ndim
    for k in axes:
        if not array.size:
            key[k] = slice(0, 0)
            continue
        line = reductions.any(held, axis=tuple(other for other in range(array.ndim) if other != k))
        some, first, last = (
            int(each) for each in (reductions.any(line), reductions.argmax(line), reductions.argmax(line[::-1]))
        )
        if not some:
            key[k] = slice(0, 0)
        else:
            key[k] = slice(first if "f" in how else None, array.shape[k] - last if "b" in how else None)
    return array[tuple(key)]


FUNCTIONS: dict[str, Callable[..., Any]] = {each.__name__: each for each in (delete, insert, trim_zeros, resize)}
