"""Asking NumPy itself what it would give: stand-ins that have a shape and a dtype but no data.

A *probe* is a real array of any shape in which every stride is 0, so it holds one element: whatever only
rearranges (indexing, reshaping, transposing) gives the true shape, or NumPy's own error, for the price of a
view.  An *outcome* is the dtype NumPy gives for operands of one element each: promotion rules, integers
out of bounds and unsupported dtypes are NumPy's own decisions.  Both are remembered.
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

_ndarray, _ones, _zeros = np.ndarray, np.ones, np.zeros  # as they are before anything replaces them


_BYTE = np.dtype(np.int8)


class IntegerOf(NamedTuple):
    """The Python integers that fit the same dtypes: by sign, and by bits beside it."""

    negative: bool
    bits: int


# What promotion depends on: a dtype; or, for a Python number, its type (an integer of 7 bits or more: its size)
Key = DType | type | IntegerOf


def key_of_integer(value: int) -> Key:
    """What promotion sees of a Python integer."""
    if 0 <= value < 128:
        return int
    return IntegerOf(True, (~value).bit_length()) if value < 0 else IntegerOf(False, value.bit_length())


def representative(operand: Any) -> Any:
    """The smallest operand of this kind: a Python number, or ones of this dtype (and, in a pair, dimension)."""
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
    return (_ones if dtype.kind in "biufc" else _zeros)((1,) * ndim, dtype)


@lru_cache(maxsize=1 << 14)
def outcome(function: Callable[..., Any], *operands: Any, **options: Any) -> Any:
    """The dtype, or the tuple of dtypes, that `function` gives for such operands; raises as NumPy does.

    operands : keys, (key, ndim) pairs, or None; options are passed on as they are.
    """
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = function(*map(representative, operands), **options)
    return tuple(part.dtype for part in result) if isinstance(result, (tuple, list)) else result.dtype


@lru_cache(maxsize=1 << 14)
def probe(shape: Shape, dtype: DType) -> np.ndarray:
    """A read-only array of this shape and dtype in one element of memory."""
    one = _zeros(1, dtype)
    one.flags.writeable = False
    return _ndarray(shape, dtype, one, 0, (0,) * len(shape))


def checked_shape(shape: Any) -> Shape:
    """A shape as NumPy's creating functions take it: an integer, or a sequence of them."""
    try:
        lengths: Shape = (operator.index(shape),)
    except TypeError:
        lengths = tuple(operator.index(length) for length in shape)
    if lengths and min(lengths) < 0:
        raise ValueError("negative dimensions are not allowed")
    return probe(lengths, _BYTE).shape


@lru_cache(maxsize=1 << 14)
def broadcast(*shapes: Shape) -> Shape:
    """The shape that operands of these shapes broadcast to; NumPy's own ValueError if they do not."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        together = "".join(f"{shape_text(shape)} " for shape in shapes)
        raise ValueError(f"operands could not be broadcast together with shapes {together}") from None


def shape_text(shape: Shape) -> str:
    """A shape as NumPy writes it in its errors: (3,4)."""
    return "(" + ",".join(map(str, shape)) + ("," if len(shape) == 1 else "") + ")"


@lru_cache(maxsize=1 << 12)
def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """The axes an `axis=` argument names, counted from 0; AxisError or ValueError as NumPy's."""
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
    """One axis, counted from 0; AxisError as NumPy's."""
    number = operator.index(axis)
    if not -ndim <= number < ndim:
        raise np.exceptions.AxisError(number, ndim)
    return number % ndim


@lru_cache(maxsize=1 << 12)
def reduced(shape: Shape, axis: Any, keepdims: bool) -> Shape:
    """The shape left when `axis` is reduced."""
    gone = axes_of(axis, len(shape))
    if keepdims:
        return tuple(1 if k in gone else length for k, length in enumerate(shape))
    return tuple(length for k, length in enumerate(shape) if k not in gone)
