"""Cholesky factors, inverses and solutions of one matrix by LAPACK, called where NumPy would reorder the matrix first.

LAPACK stores columns; of a matrix in C order it sees the transpose.  NumPy reorders on the way in and out.  The
functions here have the transpose factored instead.  `inverse` also takes the routine for inverses, with 2n³ flops
(Golub, Van Loan 2013, 3.4); NumPy solves for the identity with 8n³/3.

Rounding may hide in the LU of the transpose that the LU of the matrix has a pivot 0.  So where a pivot of the transpose
is tiny or not finite, the matrix itself is factored: it is singular where it is for NumPy.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.linalg import LinAlgError

from bsp.abstract import table
from bsp.declared import Costs, declares

_SMALL = 128  # rows up to which NumPy is as fast, and SciPy need not be imported
_PANEL = 64  # columns in a block of LAPACK's inverse


def _is_numpys(a: Any) -> bool:
    return bool(a.ndim > 2 or a.shape[0] <= _SMALL)


def _routine(name: str, a: Any) -> Any:
    from scipy.linalg.lapack import get_lapack_funcs

    return get_lapack_funcs((name,), (a,))[0]


def _regular(a: Any) -> tuple[Any, Any] | None:
    """Return LU of the transpose, and the pivots; None if it may be singular, or is not finite."""
    factors, pivots, failed = _routine("getrf", a)(a.T)
    sizes = np.abs(np.diagonal(factors))
    tiny = a.shape[0] * np.finfo(a.dtype).eps * sizes.max()
    return None if failed or not sizes.min() > tiny else (factors, pivots)


class LUFactors(NamedTuple):
    """LU of a matrix, or of its transpose, with the pivots."""

    lu: Any
    pivots: Any
    transposed: bool


def _of_factors(costs: Costs, a: Any) -> LUFactors:
    """Declare the cost of `factors`."""
    n = a.shape[0]
    costs.work(blas3=table.complexity(a.dtype) * 2 * n**3 / 3)
    return LUFactors(costs.array((n, n), a.dtype), None, True)


@declares(_of_factors)
def factors(a: Any) -> LUFactors:
    """Return what solves systems with a matrix.  Raises LinAlgError where it is singular for NumPy."""
    found = _regular(a)
    if found is not None:
        return LUFactors(*found, True)
    lu, pivots, failed = _routine("getrf", a)(a)
    if failed:
        raise LinAlgError("Singular matrix")
    return LUFactors(lu, pivots, False)


def _of_solved(costs: Costs, by: LUFactors, b: Any) -> Any:
    """Declare the cost of `solved`."""
    costs.work(blas3=table.complexity(b.dtype) * 2 * by.lu.shape[0] ** 2 * b.shape[1])
    return costs.array(b.shape, b.dtype)


@declares(_of_solved)
def solved(by: LUFactors, b: Any) -> Any:
    """Return the solutions for a b of columns, of the matrix's dtype."""
    return np.ascontiguousarray(_routine("getrs", b)(by.lu, by.pivots, b, trans=int(by.transposed))[0])


@declares(lambda costs, a, b: np.linalg.solve(costs.shape_of(a), costs.shape_of(b)))
def solve(a: Any, b: Any) -> Any:
    """Return numpy.linalg.solve(a, b) for a b of columns, of a's dtype."""
    if _is_numpys(a) or b.ndim > 2 or not b.size or (found := _regular(a)) is None:
        return np.linalg.solve(a, b)
    return solved(LUFactors(*found, True), b)


@declares(lambda costs, a: np.linalg.cholesky(costs.shape_of(a)))
def cholesky(a: Any) -> Any:
    """Return numpy.linalg.cholesky(a)."""
    if _is_numpys(a):
        return np.linalg.cholesky(a)
    factor, failed = _routine("potrf", a)(a.T, lower=False, clean=True)
    if failed:
        raise LinAlgError("Matrix is not positive definite")
    return factor.T


@declares(lambda costs, a: np.linalg.inv(costs.shape_of(a)))
def inverse(a: Any) -> Any:
    """Return numpy.linalg.inv(a)."""
    if _is_numpys(a) or (found := _regular(a)) is None:
        return np.linalg.inv(a)
    return _routine("getri", a)(*found, lwork=_PANEL * a.shape[0], overwrite_lu=True)[0].T
