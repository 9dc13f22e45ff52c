"""Covariances and correlations of variables: products of the deviations from their means.  Lazy, see `cov`."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api import reductions
from bsp.arrays.api.contraction import matmul
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import concat, diag, squeeze
from bsp.arrays.api.ufuncs import astype, clip, divide, imag, real, rint, sqrt, where
from bsp.arrays.array import Array, wrap
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.gathering import decided, warned
from bsp.arrays.typing import ArrayLike, DTypeLike

__all__ = ["corrcoef", "cov"]


def _weights(given: Any, name: str, count: int) -> Array:
    weights = astype(wrap(build.strong(asarray(given)._node)), np.float64)
    if name == "fweights" and not decided(reductions.all(weights == rint(weights)), usual=True):
        raise TypeError("fweights must be integer")
    if weights.ndim > 1:
        raise RuntimeError(f"cannot handle multidimensional {name}")
    if not weights.ndim or weights.shape[0] != count:
        raise RuntimeError(f"incompatible numbers of samples and {name}")
    if not decided(reductions.all(weights >= 0), usual=True):
        raise ValueError(f"{name} cannot be negative")
    return weights


def _variables(x: Any, dtype: Any, rowvar: bool, name: str) -> Array:
    array = asarray(x)
    if array.ndim > 2:
        raise ValueError(f"{name} has more than 2 dimensions")
    array = astype(wrap(build.strong(array._node)), dtype)
    wide = array if array.ndim == 2 else array[(None,) * (2 - array.ndim)]
    return wide.T if not rowvar and (array.ndim != 1 if name == "m" else wide.shape[0] != 1) else wide


def cov(
    m: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None,
    fweights: ArrayLike | None = None, aweights: ArrayLike | None = None, *, dtype: DTypeLike | None = None,
) -> Array:  # fmt: skip
    """Return the covariance matrix of variables.

    m, y : variables in rows (`rowvar`) or columns, observations along the other axis.
    ddof : the divisor is n - ddof; None: 1, or 0 with `bias`.   fweights, aweights : the number of times that each
        observation was made, and its relative weight.
    Cost: means, and one product: 2·v²·n/p flops for v variables and n observations, partial sums of v² words where the
    observations are dealt.  Weights are checked, which takes a superstep for each kind.
    """
    if ddof is not None and ddof != int(ddof):
        raise ValueError("ddof must be integer")
    given = [asarray(each).dtype for each in (m, y) if each is not None]
    kind = np.result_type(*given, np.float64) if dtype is None else element_type(dtype)
    if kind.kind not in "fc":
        raise TypeError(f"cov: dtype={kind} has no fractions, which means have")
    array = _variables(m, kind, rowvar, "m")
    if not array.shape[0]:
        return asarray(np.array([]).reshape(0, 0))
    if y is not None:
        array = concat([array, _variables(y, kind, rowvar, "y")], axis=0)
    freedom = int(bias == 0) if ddof is None else ddof
    count = array.shape[1]
    weights: Array | None = None
    for each, name in ((fweights, "fweights"), (aweights, "aweights")):
        if each is not None:
            one = _weights(each, name, count)
            weights = one if weights is None else weights * one
    factor: Any
    if weights is None:
        mean, factor = reductions.mean(array, axis=1, keepdims=True), count - freedom
    else:
        mean, sums = reductions.average(array, axis=1, weights=weights, returned=True, keepdims=True)
        total = sums[0, 0]
        of_weights = 1 if aweights is None else reductions.sum(weights * asarray(aweights)) / total
        factor = total - freedom * of_weights
    if decided(factor <= 0, usual=False):
        warned("Degrees of freedom <= 0 for slice", RuntimeWarning)
        factor = 0.0
    left = astype(array - mean, kind)
    right = left if weights is None else left * weights
    product = matmul(left, right.T.conj())  # of real numbers no copy: of a matrix and itself half is computed
    return squeeze(astype(product * divide(1.0, asarray(factor)), product.dtype))


def corrcoef(
    x: ArrayLike, y: ArrayLike | None = None, rowvar: bool = True, *, dtype: DTypeLike | None = None
) -> Array:  # fmt: skip
    """Return the correlation matrix of variables.  Arguments and cost: as `cov`."""
    found = cov(x, y, rowvar, dtype=dtype)
    if not found.ndim:
        return found / found
    deviations = sqrt(real(diag(found)))
    found = astype(found / deviations[:, None] / deviations[None, :], found.dtype)
    if found.dtype.kind != "c":
        return clip(found, -1, 1)
    return where(True, clip(real(found), -1, 1) + 1j * clip(imag(found), -1, 1), found)
