"""Shapes and dtypes of results, computed by NumPy itself on stand-ins that have a shape and a dtype but no data.

A *probe* is a real array of any shape in which every stride is 0, so it holds one element.  A function that only
rearranges (indexing, reshaping, transposing) returns the true shape for it, or raises NumPy's own error, at the
price of a view.  An *outcome* is the dtype that NumPy returns for operands of one element each: promotion rules,
integers out of bounds and unsupported dtypes are NumPy's own decisions.  Both are cached.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

Shape = tuple[int, ...]
DType = np.dtype[Any]

_ndarray, _ones, _zeros = np.ndarray, np.ones, np.zeros  # the real ones, before `creation` replaces them


_BYTE = np.dtype(np.int8)


class IntegerOf(NamedTuple):
    """A class of Python integers that fit the same dtypes: all of one sign and number of bits."""

    negative: bool
    bits: int


# What promotion depends on: a dtype, or the type of a Python number.  An integer outside 0..127 does not fit every
# integer dtype, so its sign and size count.
Key = DType | type | IntegerOf


def key_of_integer(value: int) -> Key:
    """Return the key of a Python integer for promotion."""
    if 0 <= value < 128:
        return int
    return IntegerOf(True, (~value).bit_length()) if value < 0 else IntegerOf(False, value.bit_length())


def representative(operand: Any) -> Any:
    """Return the smallest operand of a kind: a Python number, or ones of this dtype (and, in a pair, dimension)."""
    if isinstance(operand, np.dtype):
        return _of_one(operand, 1)
    if isinstance(operand, IntegerOf):
        return -(1 << operand.bits) if operand.negative else (1 << operand.bits) - 1
    if isinstance(operand, type):
        return operand(1)
    if isinstance(operand, tuple):
        key, ndim = operand
        return _of_one(key, ndim) if isinstance(key, np.dtype) else representative(key)
    return operand


def _of_one(dtype: DType, ndim: int) -> np.ndarray:
    """Return an array of one element."""
    return (_ones if dtype.kind in "biufc" else _zeros)((1,) * ndim, dtype)


@lru_cache(maxsize=1 << 14)
def outcome(function: Callable[..., Any], *operands: Any, **options: Any) -> Any:
    """Return the dtype, or the tuple of dtypes, that `function` returns for such operands; raises as NumPy does.

    operands : keys, (key, ndim) pairs, or None; options are passed on as they are.
    """
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(*map(representative, operands), **options)
    return tuple(part.dtype for part in result) if isinstance(result, (tuple, list)) else result.dtype


@lru_cache(maxsize=1 << 14)
def probe(shape: Shape, dtype: DType) -> np.ndarray:
    """Return a read-only array of this shape and dtype in one element of memory."""
    one = _zeros(1, dtype)
    one.flags.writeable = False
    return _ndarray(shape, dtype, one, 0, (0,) * len(shape))


def checked_shape(shape: Any) -> Shape:
    """Return a shape given as NumPy's creating functions take it: an integer, or a sequence of them."""
    try:
        lengths: Shape = (operator.index(shape),)
    except TypeError:
        lengths = tuple(operator.index(length) for length in shape)
    if lengths and min(lengths) < 0:
        raise ValueError("negative dimensions are not allowed")
    return probe(lengths, _BYTE).shape


@lru_cache(maxsize=1 << 14)
def broadcast(*shapes: Shape) -> Shape:
    """Return the shape that operands of these shapes broadcast to; raises NumPy's own ValueError if they do not."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        together = "".join(f"{shape_text(shape)} " for shape in shapes)
        raise ValueError(f"operands could not be broadcast together with shapes {together}") from None


def shape_text(shape: Shape) -> str:
    """Return a shape as NumPy writes it in its errors: (3,4)."""
    return "(" + ",".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


@lru_cache(maxsize=1 << 12)
def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return the axes an `axis=` argument names, counted from 0; raises AxisError or ValueError as NumPy does."""
    if axis is None:
        return tuple(range(ndim))
    named = axis if isinstance(axis, tuple) else (operator.index(axis),)
    if ndim == 0 and len(named) == 1 and named[0] in (0, -1):
        return ()
    found = tuple(axis_of(each, ndim) for each in named)
    if len(set(found)) != len(found):
        raise ValueError("duplicate value in 'axis'")
    return found


def axis_of(axis: Any, ndim: int) -> int:
    """Return one axis, counted from 0; raises AxisError as NumPy does."""
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise np.exceptions.AxisError(number, ndim)
    return number % ndim


@lru_cache(maxsize=1 << 12)
def reduced(shape: Shape, axis: Any, keepdims: bool) -> Shape:
    """Return the shape left when `axis` is reduced."""
    gone = axes_of(axis, len(shape))
    if keepdims:
        return tuple(1 if k in gone else length for k, length in enumerate(shape))
    return tuple(length for k, length in enumerate(shape) if k not in gone)
