"""Norms of vectors and matrices, and condition numbers.  How they run: see `ways`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from bsp.arrays import build
from bsp.arrays.api import reductions, ufuncs
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import expand_dims, moveaxis
from bsp.arrays.array import Array, wrap
from bsp.arrays.linalg.orthogonal import svdvals
from bsp.arrays.linalg.square import inv
from bsp.arrays.linalg.ways import (
    everywhere,
    given,
    is_whole,
    matrices,
    matrix_of,
    real_of,
    stacks,
)
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.typing import ArrayLike, Axes, Ord

largest: Callable[..., Array] = reductions.max
least: Callable[..., Array] = reductions.min
total: Callable[..., Array] = reductions.sum
_UFUNCS: dict[str, Callable[..., Array]] = ufuncs.FUNCTIONS
absolute = _UFUNCS["absolute"]


def vector_norm(x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False, ord: float = 2) -> Array:
    """Return (Σ|x|^ord)^(1/ord) over axes; ±inf: extremes; 0: the count of nonzeros.  Lazy.  Cost: a reduction."""
    array = wrap(build.strong(asarray(x)._node))
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    axis = None if axis is None else _norm_axes(axis)
    ord = 2 if ord is None else ord
    if ord == np.inf:
        return largest(absolute(array), axis=axis, keepdims=keepdims, initial=0)  # that of no elements
    if ord == -np.inf:
        return least(absolute(array), axis=axis, keepdims=keepdims)
    if ord == 0:
        return total((array != 0).astype(real_of(array.dtype)), axis=axis, keepdims=keepdims)
    if ord == 1:
        return total(absolute(array), axis=axis, keepdims=keepdims)
    if ord == 2:
        squares = array.real**2 + array.imag**2 if array.dtype.kind == "c" else array * array
        return ufuncs.sqrt(total(squares, axis=axis, keepdims=keepdims))
    if not isinstance(ord, (int, float, np.number)):
        raise ValueError(f"Invalid norm order {ord!r} for vectors")
    found: Array = total(absolute(array) ** ord, axis=axis, keepdims=keepdims) ** (1 / ord)
    return found


def _norm_axes(axis: Any) -> tuple[Any, ...]:
    """Return the axes of a norm as a tuple; raise NumPy's TypeError for anything but a tuple or an integer."""
    if isinstance(axis, tuple):
        return axis
    try:
        return (int(axis),)
    except (TypeError, ValueError):
        raise TypeError("'axis' must be None, an integer or a tuple of integers") from None


def matrix_norm(x: ArrayLike, /, *, keepdims: bool = False, ord: Ord = "fro") -> Array:
    """Return norms of the last two axes: "fro"; "nuc", ±2: by singular values; ±1: of column sums; ±inf: of row sums.

    Lazy, except those by singular values (see `svdvals`).  Cost: a reduction.
    """
    array = matrices(x, "matrix_norm")
    if array.dtype.kind in "iub":
        array = array.astype(np.float64)
    if ord is None or ord == "fro":
        return vector_norm(array, axis=(-2, -1), keepdims=keepdims)
    if ord == "nuc" or ord in (2, -2):
        s = svdvals(array)
        found = total(s, axis=-1) if ord == "nuc" else largest(s, axis=-1, initial=0) if ord == 2 else least(s, axis=-1)
    elif ord in (1, -1, np.inf, -np.inf):
        sums = total(absolute(array), axis=-2 if abs(ord) == 1 else -1)
        found = largest(sums, axis=-1, initial=0) if ord > 0 else least(sums, axis=-1)
    else:
        raise ValueError(f"Invalid norm order {ord!r} for matrices.")
    return found[..., None, None] if keepdims else found


def norm(x: ArrayLike, ord: Ord = None, axis: int | tuple[int, ...] | None = None, keepdims: bool = False) -> Array:
    """Return NumPy's norm: of all elements as one vector, of vectors along an axis, or of matrices over two axes.

    Cost: that of `vector_norm` or `matrix_norm`.
    """
    array = wrap(build.strong(asarray(x)._node))
    if axis is None:
        if ord is None:
            return vector_norm(array, keepdims=keepdims)
        if array.ndim not in (1, 2):
            raise ValueError("Improper number of dimensions to norm.")
        axis = tuple(range(array.ndim))
    axes = _norm_axes(axis)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise ValueError(f"Invalid norm order '{ord}' for vectors")
        return vector_norm(array, axis=axes[0], keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) != 2:
        raise ValueError("Improper number of dimensions to norm.")
    first, second = (build.normal_axis(each, array.ndim) for each in axes)
    if first == second:
        raise ValueError("Duplicate axes given.")
    found = matrix_norm(moveaxis(array, (first, second), (-2, -1)), ord="fro" if ord is None else ord)
    return expand_dims(found, axis=(first, second)) if keepdims else found


@procedure
def cond(x: ArrayLike, /, p: Ord = None) -> Array:
    """Return condition numbers: by singular values (p None, ±2), else norm(x, p)·norm(inv(x), p); inf if singular.

    Cost: that of `svdvals`, or of `inv` and two of `matrix_norm`; then h = 1, S = 1 where the result is computed.
    """
    a = matrix_of(x, "cond")
    if not a.shape[-1] * a.shape[-2]:
        raise LinAlgError("cond is not defined on empty arrays")
    if a.ndim > 2 or is_whole(a):

        def function(each: Any) -> Any:
            return np.linalg.cond(each, p)

        return everywhere(f"cond {p}", function, a)[0] if is_whole(a) else stacks(function, [a], [2])[0]
    if p in (None, 2, -2):
        s = svdvals(a)
        ends: tuple[Array, Array] = (s[..., 0], s[..., -1])
        found = ends[1] / ends[0] if p == -2 else ends[0] / ends[1]
    elif a.shape[-1] != a.shape[-2]:
        raise LinAlgError("Last 2 dimensions of the array must be square")
    else:
        try:
            other = inv(a)
        except LinAlgError:
            return given(np.asarray(np.inf, real_of(a.dtype)))
        found = matrix_norm(a, ord=p) * matrix_norm(other, ord=p)
    isnan = _UFUNCS["isnan"]  # 0/0, of a matrix of zeros, counts as infinite; NaN in x stays NaN
    return ufuncs.where(isnan(found) & ~reductions.any(isnan(a), axis=(-2, -1)), np.inf, found).astype(found.dtype)
