"""Views, which are free, and copies into another shape, which cost the bytes they read and write.

A function that only makes views is called on probes: shapes and errors are NumPy's own.  The docstring of a rule
gives the function of NumPy and what it counts.
"""

from __future__ import annotations

import operator
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from bsp.abstract.array import (
    FORTRAN,
    NOT_C,
    AbstractArray,
    copied,
    into,
    owned,
    result,
    viewing,
)
from bsp.abstract.elementwise import described, holds_abstract, operand
from bsp.abstract.errors import value_needed
from bsp.abstract.index import fits
from bsp.abstract.probe import DType, Shape, axis_of, checked_shape, probe, shape_text
from bsp.abstract.table import TABLE, rule
from bsp.abstract.work import counter

# ----------------------------------------------------------------------------------------- views


def _probed(value: Any) -> Any:
    """Return a probe for an abstract array, also inside lists; any other value as it is."""
    if type(value) is AbstractArray:
        return probe(value._shape, value._dtype)
    if isinstance(value, (list, tuple)) and holds_abstract(value):
        return type(value)(_probed(each) for each in value)
    return value


def _views(name: str) -> None:
    """Enter the rule of a function of one array that returns one view of it, or several."""
    try:
        function = operator.attrgetter(name)(np)
    except AttributeError:  # not in this NumPy
        return

    def view(a: Any, *args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            if holds_abstract([value]):  # an abstract argument, such as the places of `split`, has no values
                raise value_needed(f"np.{name}", value, "give it numbers that do not depend on the data")
        made = function(_probed(a), *args, **kwargs)
        if isinstance(made, (list, tuple)):
            return type(made)([_view_of(a, each) for each in made])
        return _view_of(a, made)

    TABLE[function] = view


def _view_of(a: AbstractArray, made: np.ndarray) -> AbstractArray:
    """Return the view of `a` that corresponds to one of its probe; it counts as not contiguous if that is uncertain."""
    if made.shape == a._shape and made.ndim < 2:
        return viewing(a, made.shape, a._dtype, a._traits)
    unit = tuple(n for n in made.shape if n != 1) == tuple(n for n in a._shape if n != 1)
    traits = a._traits if unit else a._traits & ~FORTRAN | NOT_C
    return viewing(a, made.shape, made.dtype, traits)


for _name in (
    "moveaxis", "rollaxis", "swapaxes", "squeeze", "expand_dims", "broadcast_to", "flip", "fliplr", "flipud", "rot90",
    "split", "array_split", "hsplit", "vsplit", "dsplit", "unstack", "matrix_transpose", "linalg.matrix_transpose",
    "lib.stride_tricks.sliding_window_view",
):  # fmt: skip
    _views(_name)


@rule("diagonal", "linalg.diagonal")
def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """numpy.diagonal, numpy.linalg.diagonal: a view."""
    made = np.diagonal(_probed(a), offset, axis1, axis2)
    return _view_of(a, made) if type(a) is AbstractArray else made


@rule("transpose", "permute_dims")
def transpose(a: Any, axes: Any = None) -> Any:
    """numpy.transpose, numpy.permute_dims: a view."""
    if axes is None:
        return a.T
    return _view_of(a, np.transpose(_probed(a), axes))


def _each(name: str) -> None:
    """Enter the rule of a function of several arrays that returns a view of each."""
    function = getattr(np, name)

    def views(*arrays: Any, **kwargs: Any) -> Any:
        arrays = tuple(operand(array) for array in arrays)
        made = function(*map(_probed, arrays), **kwargs)
        if len(arrays) == 1 and isinstance(made, np.ndarray):
            return _view_of(arrays[0], made)
        return type(made)(
            [
                _view_of(array, each) if type(array) is AbstractArray else each
                for array, each in zip(arrays, made, strict=True)
            ]
        )

    rule(name)(views)


for _name in ("atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays"):
    _each(_name)


@rule("reshape")
def reshape(a: Any, /, shape: Any, order: str = "C", *, copy: bool | None = None) -> Any:
    """numpy.reshape: a view of a contiguous array; else a copy."""
    new = probe(a._shape, a._dtype).reshape(shape).shape
    if a._block is None:
        return owned(new, a._dtype)
    contiguous = not a._traits & NOT_C if order != "F" else a.flags.f_contiguous
    same = tuple(n for n in new if n != 1) == tuple(n for n in a._shape if n != 1)
    if copy or not (contiguous or same):
        if copy is False:
            raise ValueError("Unable to avoid creating a copy while reshaping.")
        return copied(a, new)
    return viewing(a, new, a._dtype, a._traits if order != "F" or len(new) < 2 else a._traits | NOT_C | FORTRAN)


@rule("ravel")
def ravel(a: Any, order: str = "C") -> Any:
    """numpy.ravel: a view of a contiguous array; else a copy."""
    return reshape(a, -1, order)


@rule("meshgrid")
def meshgrid(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    """numpy.meshgrid: a copy for each coordinate, unless copy=False."""
    flats = [operand(x).reshape(-1) for x in xi]
    made = np.meshgrid(*map(_probed, flats), copy=False, sparse=sparse, indexing=indexing)  # type: ignore[call-overload]
    grids = [
        _view_of(flat, each) if type(flat) is AbstractArray else each for flat, each in zip(flats, made, strict=True)
    ]
    return tuple(copied(grid, grid.shape) for grid in grids) if copy else tuple(grids)


# -------------------------------------------------------------------------- putting arrays together


@lru_cache(maxsize=1 << 12)
def _joined(*dtypes: DType) -> DType:
    """Return the dtype of arrays of these dtypes put together."""
    return np.concatenate([np.zeros(1, dtype) for dtype in dtypes]).dtype


def _collected(arrays: Any) -> list[Any]:
    """Return the arrays of a sequence, or the rows of an array."""
    if type(arrays) is AbstractArray or isinstance(arrays, np.ndarray):
        return list(arrays)
    if not isinstance(arrays, (list, tuple)):
        raise TypeError('arrays to stack must be passed as a "sequence" type such as list or tuple.')
    return [operand(array) for array in arrays]


def _copy_of_all(arrays: list[Any], shape: Shape, out: Any, dtype: Any, casting: Any) -> Any:
    """Return a copy of several arrays in one of this shape, and count the bytes."""
    found = np.dtype(dtype) if dtype is not None else _joined(*dict.fromkeys(array.dtype for array in arrays))
    if dtype is not None:
        for array in arrays:
            if not np.can_cast(array.dtype, found, casting):
                raise TypeError(
                    f"Cannot cast array data from {array.dtype!r} to {found!r} according to the rule {casting!r}"
                )
    new = into(out, shape, found)
    counter.moved(sum(array.nbytes for array in arrays) + new.nbytes)
    return new


@rule("concatenate", "concat")
def concatenate(
    arrays: Any, /, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind"
) -> Any:
    """numpy.concatenate, numpy.concat: bytes read and written."""
    arrays = _collected(arrays)
    if not arrays:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        return _copy_of_all(arrays, (sum(array.size for array in arrays),), out, dtype, casting)
    first = arrays[0]
    if any(array.ndim == 0 for array in arrays):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    place = axis_of(axis, first.ndim)
    length = 0
    for number, array in enumerate(arrays):
        shape = array.shape
        if len(shape) != first.ndim:
            raise ValueError(
                f"all the input arrays must have same number of dimensions, but the array at index 0 has "
                f"{first.ndim} dimension(s) and the array at index {number} has {len(shape)} dimension(s)"
            )
        if shape[:place] != first.shape[:place] or shape[place + 1 :] != first.shape[place + 1 :]:
            raise ValueError(
                "all the input array dimensions except for the concatenation axis must match exactly, but the arrays "
                f"at index 0 and {number} have shapes {shape_text(first.shape)} and {shape_text(shape)}"
            )
        length += shape[place]
    return _copy_of_all(arrays, (*first.shape[:place], length, *first.shape[place + 1 :]), out, dtype, casting)


@rule("stack")
def stack(arrays: Any, axis: int = 0, out: Any = None, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """numpy.stack: bytes read and written."""
    arrays = _collected(arrays)
    if not arrays:
        raise ValueError("need at least one array to stack")
    shape = arrays[0].shape
    if any(array.shape != shape for array in arrays):
        raise ValueError("all input arrays must have the same shape")
    place = axis_of(axis, len(shape) + 1)
    return _copy_of_all(arrays, (*shape[:place], len(arrays), *shape[place:]), out, dtype, casting)


def _lifted(arrays: Any, lift: Any) -> list[Any]:
    """Return the arrays of a sequence, each after `lift`."""
    return [lift(array) for array in _collected(arrays)]


@rule("vstack")
def vstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """numpy.vstack: bytes read and written."""
    return concatenate(_lifted(tup, np.atleast_2d), 0, dtype=dtype, casting=casting)


@rule("hstack")
def hstack(tup: Any, *, dtype: Any = None, casting: Any = "same_kind") -> Any:
    """numpy.hstack: bytes read and written."""
    arrays = _lifted(tup, np.atleast_1d)
    return concatenate(arrays, 0 if arrays and arrays[0].ndim == 1 else 1, dtype=dtype, casting=casting)


@rule("dstack")
def dstack(tup: Any) -> Any:
    """numpy.dstack: bytes read and written."""
    return concatenate(_lifted(tup, np.atleast_3d), 2)


@rule("column_stack")
def column_stack(tup: Any) -> Any:
    """numpy.column_stack: bytes read and written."""
    return concatenate(_lifted(tup, lambda a: a if a.ndim > 1 else a.reshape(-1, 1)), 1)


@rule("block")
def block(arrays: Any) -> Any:
    """numpy.block: bytes read and written, once for each level of the lists."""

    def depth_of(parts: Any) -> int:
        """Return the depth of nested lists; raise ValueError if it differs between them."""
        if not isinstance(parts, list):
            return 0
        if not parts:
            raise ValueError("List at arrays cannot be empty")
        depths = {depth_of(part) for part in parts}
        if len(depths) > 1:
            raise ValueError("List depths are mismatched.")
        return 1 + depths.pop()

    def widest(parts: Any) -> int:
        """Return the largest number of dimensions in the lists."""
        return max(map(widest, parts)) if isinstance(parts, list) else operand(parts).ndim

    depth = depth_of(arrays)
    ndim = max(depth, widest(arrays))

    def joined(parts: Any, level: int) -> Any:
        """Return the parts of one level, concatenated along its axis."""
        if isinstance(parts, list):
            return concatenate([joined(part, level - 1) for part in parts], -level)
        part = operand(parts)
        return part.reshape((1,) * (ndim - part.ndim) + part.shape)

    return joined(arrays, depth) if depth else copied(operand(arrays), operand(arrays).shape)


@rule("append")
def append(arr: Any, values: Any, axis: int | None = None) -> Any:
    """numpy.append: bytes read and written."""
    if axis is None:
        return concatenate([operand(arr).reshape(-1), operand(values).reshape(-1)])
    return concatenate([operand(arr), operand(values)], axis)


def _flat_axis(arr: Any, axis: int | None) -> tuple[Any, int]:
    """Return the array and an axis of it; for axis None, the array as a vector."""
    return (arr.reshape(-1), 0) if axis is None else (arr, axis_of(axis, arr.ndim))


@rule("delete")
def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """numpy.delete: bytes read and written; needs real positions."""
    if type(obj) is AbstractArray:
        raise value_needed("numpy.delete", obj)
    arr, place = _flat_axis(operand(arr), axis)
    length = np.delete(np.zeros(arr.shape[place], bool), obj).size
    return copied(arr, (*arr.shape[:place], length, *arr.shape[place + 1 :]))


@rule("insert")
def insert(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """numpy.insert: bytes read and written; needs real positions."""
    if type(obj) is AbstractArray:
        raise value_needed("numpy.insert", obj)
    arr, place = _flat_axis(operand(arr), axis)
    values = operand(values)
    given = np.zeros(values.shape[0] if values.ndim == 1 and arr.ndim == 1 else (), bool)
    length = np.insert(np.zeros(arr.shape[place], bool), obj, given).size
    return copied(arr, (*arr.shape[:place], length, *arr.shape[place + 1 :]))


# --------------------------------------------------------------------------- copies of one array


@rule("tile")
def tile(A: Any, reps: Any) -> Any:
    """numpy.tile: bytes read and written."""
    counts = tuple(map(operator.index, reps if isinstance(reps, (tuple, list, np.ndarray)) else (reps,)))
    ndim = max(len(counts), A.ndim)
    shape = (1,) * (ndim - A.ndim) + A.shape
    counts = (1,) * (ndim - len(counts)) + counts
    return copied(A, checked_shape(tuple(n * count for n, count in zip(shape, counts, strict=True))))


@rule("repeat")
def repeat(a: Any, repeats: Any, axis: int | None = None) -> Any:
    """numpy.repeat: bytes read and written; needs real repeats."""
    if type(repeats) is AbstractArray:
        raise value_needed("numpy.repeat", repeats)
    a, place = _flat_axis(operand(a), axis)
    if a.ndim == 0:
        a = a.reshape(1)
    counts = np.asarray(repeats)
    if counts.size and counts.min() < 0:
        raise ValueError("repeats may not contain negative values.")
    length = int(np.broadcast_to(counts, a.shape[place : place + 1]).sum(dtype=np.intp)) if counts.size != 1 else None
    if length is None:
        length = a.shape[place] * int(counts.reshape(-1)[0])
    return copied(a, (*a.shape[:place], length, *a.shape[place + 1 :]))


@rule("pad")
def pad(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    """numpy.pad: bytes read and written."""
    if isinstance(pad_width, dict):
        pad_width = [pad_width.get(k, pad_width.get(k - array.ndim, (0, 0))) for k in range(array.ndim)]
        pad_width = [(width, width) if isinstance(width, int) else width for width in pad_width]
    widths = np.asarray(pad_width)
    if widths.dtype.kind not in "iu":
        raise TypeError("`pad_width` must be of integral type.")
    if widths.size and widths.min() < 0:
        raise ValueError("index can't contain negative values")
    widths = np.broadcast_to(widths, (array.ndim, 2))
    return copied(array, tuple(int(n + a + b) for n, (a, b) in zip(array.shape, widths, strict=True)))


@rule("roll")
def roll(a: Any, shift: Any, axis: Any = None) -> Any:
    """numpy.roll: bytes read and written."""
    a = operand(a)
    for each in axis if isinstance(axis, tuple) else () if axis is None else (axis,):
        axis_of(each, a.ndim)
    return copied(a, a.shape)


@rule("resize")
def resize(a: Any, new_shape: Any) -> Any:
    """numpy.resize: bytes read and written."""
    return copied(a, checked_shape(new_shape))


@rule("triu", "tril")
def triangle(m: Any, k: int = 0) -> Any:
    """numpy.triu, numpy.tril: bytes read and written."""
    if m.ndim == 1:
        return copied(m, m.shape * 2)
    return copied(m, m.shape)


@rule("diag")
def diag(v: Any, k: int = 0) -> Any:
    """numpy.diag: a new matrix from a vector; a view of a matrix."""
    if v.ndim == 1:
        n = v.shape[0] + abs(k)
        return copied(v, (n, n))
    if v.ndim != 2:
        raise ValueError("Input must be 1- or 2-d.")
    return diagonal(v, k)


@rule("diagflat")
def diagflat(v: Any, k: int = 0) -> Any:
    """numpy.diagflat: a new matrix."""
    return diag(operand(v).reshape(-1), k)


@rule("vander")
def vander(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    """numpy.vander: a product an element."""
    if x.ndim != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    shape = (x.shape[0], x.shape[0] if N is None else operator.index(N))
    counter.flops("elementwise", prod(shape))
    return result(shape, np.promote_types(x.dtype, int))


@rule("fill_diagonal")
def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    """numpy.fill_diagonal: bytes written."""
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    if a.ndim > 2 and len(set(a.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    counter.moved(min(a.shape) * a.itemsize)


@rule("triu_indices_from")
def triu_indices_from(arr: Any, k: int = 0) -> Any:
    """numpy.triu_indices_from: real index arrays, because they depend on the shape alone."""
    return np.triu_indices(arr.shape[-2], k, arr.shape[-1])


@rule("tril_indices_from")
def tril_indices_from(arr: Any, k: int = 0) -> Any:
    """numpy.tril_indices_from: real index arrays, because they depend on the shape alone."""
    return np.tril_indices(arr.shape[-2], k, arr.shape[-1])


@rule("diag_indices_from")
def diag_indices_from(arr: Any) -> Any:
    """numpy.diag_indices_from: real index arrays, because they depend on the shape alone."""
    if arr.ndim < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(arr.shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    return np.diag_indices(arr.shape[0], arr.ndim)


# ------------------------------------------------------------------------------------- made alike


def alike(prototype: Any, dtype: Any, shape: Any, written: bool) -> AbstractArray:
    """Return a new array in the shape and dtype of another one, or in those given.

    written : whether its values are written, and so its bytes counted.
    """
    key, of = described(prototype)
    if dtype is None:
        dtype = key if isinstance(key, np.dtype) else np.asarray(prototype).dtype
    new = owned(of if shape is None else checked_shape(shape), np.dtype(dtype))
    if written:
        counter.moved(new.nbytes)
    return new


@rule("empty_like")
def empty_like(
    prototype: Any, /, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    """numpy.empty_like: memory, and no work."""
    return alike(prototype, dtype, shape, False)


@rule("zeros_like", "ones_like")
def zeros_like(
    a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    """numpy.zeros_like, numpy.ones_like: bytes written."""
    return alike(a, dtype, shape, True)


@rule("full_like")
def full_like(
    a: Any,
    fill_value: Any,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    *,
    device: Any = None,
) -> Any:
    """numpy.full_like: bytes written."""
    new = alike(a, dtype, shape, True)
    filling = described(fill_value)[1]
    if not fits(filling, new.shape):
        raise ValueError(
            f"could not broadcast input array from shape {shape_text(filling)} into shape {shape_text(new.shape)}"
        )
    return new


def _output(name: str) -> None:
    """Enter the rule of a function that writes values to a file: raises ValueNeeded."""

    def output(*args: Any, **kwargs: Any) -> Any:
        held = [value for value in (*args, *kwargs.values()) if type(value) is AbstractArray]
        raise value_needed(f"numpy.{name}", held[0], "leave the output out of a prediction")

    rule(name)(output)


for _name in ("save", "savez", "savez_compressed", "savetxt"):
    _output(_name)
