"""Products of vectors and matrices besides `matmul`, and diagonals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import index

import numpy as np
from numpy.linalg import LinAlgError

from bsp.arrays.api import contraction, manipulation, reductions, ufuncs
from bsp.arrays.api.contraction import matmul
from bsp.arrays.api.creation import asarray
from bsp.arrays.array import Array
from bsp.arrays.planning.chains import splits
from bsp.arrays.typing import ArrayLike, DTypeLike

total: Callable[..., Array] = reductions.sum


def multi_dot(arrays: Sequence[ArrayLike], *, out: Array | None = None) -> Array:
    """Multiply several matrices in the order that takes the fewest flops; the first and last may be vectors.

    `A @ B @ C` is reordered too where that takes at most half the operations and all are of one dtype.
    Cost: that of the products, which are lazy.
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
    return contraction.cross(x1, x2, axis=index(axis))


def diagonal(x: ArrayLike, /, *, offset: int = 0) -> Array:
    """Return the diagonals of the last two axes.  Lazy."""
    return manipulation.diagonal(x, offset, -2, -1)


def trace(x: ArrayLike, /, *, offset: int = 0, dtype: DTypeLike | None = None) -> Array:
    """Return the sums of the diagonals of the last two axes.  Lazy."""
    return total(diagonal(x, offset=offset), axis=-1, dtype=dtype)
