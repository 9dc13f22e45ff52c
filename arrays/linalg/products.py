"""Products of vectors and matrices besides `matmul`, and diagonals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from bsp.arrays.api import manipulation, reductions, ufuncs
from bsp.arrays.api.contraction import matmul
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import moveaxis, stack
from bsp.arrays.array import Array
from bsp.arrays.planning.chains import splits
from bsp.arrays.typing import ArrayLike, DTypeLike
from bsp.errors import ShapeError

total: Callable[..., Array] = reductions.sum


def multi_dot(arrays: Sequence[ArrayLike], *, out: Array | None = None) -> Array:
    """Multiply several matrices in the order that takes the fewest flops; the first and last may be vectors.

    `A @ B @ C` is reordered too where that takes at most half the operations and all are of one dtype.
    """
    given = [asarray(each) for each in arrays]
    if len(given) < 2:
        raise ValueError("Expecting at least two arrays.")
    first, last = given[0].ndim == 1, given[-1].ndim == 1
    if first:
        given[0] = given[0][None]
    if last:
        given[-1] = given[-1][:, None]
    for each in given:
        if each.ndim != 2:
            raise LinAlgError(f"multi_dot: {each.ndim}-dimensional array given. Array must be two-dimensional")
    best, _ = splits((given[0].shape[0], *[each.shape[1] for each in given]))
    found = _product(given, best, 0, len(given) - 1)
    if first:
        found = found[0]
    return ufuncs.stored(found[..., 0] if last else found, out)


def _product(given: list[Array], best: np.ndarray, i: int, j: int) -> Array:
    if i == j:
        return given[i]
    k = int(best[i, j])
    return matmul(_product(given, best, i, k), _product(given, best, k + 1, j))


def outer(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return all products of two vectors' elements.  Lazy."""
    a, b = asarray(x1), asarray(x2)
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"outer: input arrays must be one-dimensional, not {a.ndim} and {b.ndim}-dimensional")
    found: Array = a[:, None] * b[None, :]
    return found


def cross(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Return cross products of vectors of three elements along an axis; the other axes broadcast.  Lazy."""
    a, b = asarray(x1), asarray(x2)
    a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ShapeError(f"cross: both arrays have 3 elements along the axis, not {a.shape[-1]} and {b.shape[-1]}")
    (a0, a1, a2), (b0, b1, b2) = ([each[..., k] for k in range(3)] for each in (a, b))
    return moveaxis(stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=-1), -1, axis)


def numpys_cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Array:
    """Implement numpy.cross: vectors along `axisa` and `axisb`, products along `axisc`; `axis` sets all three."""
    if axis is not None:
        axisa = axisb = axisc = axis
    found = cross(moveaxis(asarray(a), axisa, -1), moveaxis(asarray(b), axisb, -1))
    return moveaxis(found, -1, axisc)


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Return the diagonals of the last two axes.  Lazy."""
    return manipulation.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Return the sums of the diagonals of the last two axes.  Lazy."""
    return total(diagonal(x, offset=offset), axis=-1, dtype=dtype)
