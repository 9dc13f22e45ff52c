"""Views, which are free, and copies into another shape, which cost the bytes they read and write.

A function that only makes views is called on probes: shapes and errors are NumPy's own.  The docstring of a rule
gives the function of NumPy and what it counts.
"""

from __future__ import annotations

import operator
from functools import lru_cache
from typing import Any

import numpy as np

from bsp.abstract.array import (
    FORTRAN,
    NOT_C,
    AbstractArray,
    copied,
    into,
    owned,
    viewing,
)
from bsp.abstract.elementwise import described, holds_abstract, operand
from bsp.abstract.errors import value_needed
from bsp.abstract.probe import DType, Shape, axis_of, broadcast, checked_shape, probe, shape_text
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


for _name in ("swapaxes", "squeeze", "broadcast_to", "lib.stride_tricks.sliding_window_view"):
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


@rule("broadcast_arrays")
def broadcast_arrays(*arrays: Any, subok: bool = False) -> Any:
    """numpy.broadcast_arrays: views."""
    shape = broadcast(*[described(array)[1] for array in arrays])
    return tuple(np.broadcast_to(operand(array), shape) for array in arrays)


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


def _flat_axis(arr: Any, axis: int | None) -> tuple[Any, int]:
    """Return the array and an axis of it; for axis None, the array as a vector."""
    return (arr.reshape(-1), 0) if axis is None else (arr, axis_of(axis, arr.ndim))


# --------------------------------------------------------------------------- copies of one array


@rule("delete")
def delete(arr: Any, obj: Any, axis: int | None = None) -> Any:
    """numpy.delete: bytes read and written; needs real positions."""
    if type(obj) is AbstractArray:
        raise value_needed("numpy.delete", obj)
    arr, place = _flat_axis(operand(arr), axis)
    length = np.delete(np.zeros(arr.shape[place], bool), obj).size
    return copied(arr, (*arr.shape[:place], length, *arr.shape[place + 1 :]))


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


# ------------------------------------------------------------------------------------- made alike


@rule("empty_like")
def empty_like(
    prototype: Any, /, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, *, device: Any = None
) -> Any:
    """numpy.empty_like: memory, and no work."""
    found = prototype.dtype if dtype is None else np.dtype(dtype)
    new = prototype.shape if shape is None else checked_shape(shape)
    return np.empty(new, found) if found.hasobject else owned(new, found)


def _output(name: str) -> None:
    """Enter the rule of a function that writes values to a file: raises ValueNeeded."""

    def output(*args: Any, **kwargs: Any) -> Any:
        held = [value for value in (*args, *kwargs.values()) if type(value) is AbstractArray]
        raise value_needed(f"numpy.{name}", held[0], "leave the output out of a prediction")

    rule(name)(output)


for _name in ("save", "savez", "savez_compressed", "savetxt"):
    _output(_name)
