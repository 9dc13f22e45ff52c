"""Cholesky factors, inverses and solutions of one matrix by LAPACK, called where NumPy would reorder the matrix first.

LAPACK stores columns; of a matrix in C order it sees the transpose.  NumPy reorders on the way in and out.  The
functions here have the transpose factored instead.  `inverse` also takes the routine for inverses, with 2n³ flops
(Golub, Van Loan 2013, 3.4); NumPy solves for the identity with 8n³/3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from bsp.declared import declares

_SMALL = 128  # rows up to which NumPy is as fast, and SciPy need not be imported
_PANEL = 64  # columns in a block of LAPACK's inverse


def _is_numpys(a: Any) -> bool:
    return bool(a.ndim > 2 or a.shape[0] <= _SMALL)


def _eliminated(a: Any) -> tuple[Any, Any]:
    """Return LU of the transpose, and the pivots; raise NumPy's LinAlgError if it is singular."""
    from scipy.linalg.lapack import get_lapack_funcs

    (getrf,) = get_lapack_funcs(("getrf",), (a,))
    factors, pivots, info = getrf(a.T)
    if info:
        raise LinAlgError("Singular matrix")
    return factors, pivots


@declares(lambda costs, a, b: np.linalg.solve(costs.shape_of(a), costs.shape_of(b)))
def solve(a: Any, b: Any) -> Any:
    """Return numpy.linalg.solve(a, b) for a b of columns, of a's dtype."""
    if _is_numpys(a) or b.ndim > 2 or not b.size:
        return np.linalg.solve(a, b)
    from scipy.linalg.lapack import get_lapack_funcs

    (getrs,) = get_lapack_funcs(("getrs",), (a,))
    return np.ascontiguousarray(getrs(*_eliminated(a), b, trans=1)[0])


@declares(lambda costs, a: np.linalg.cholesky(costs.shape_of(a)))
def cholesky(a: Any) -> Any:
    """Return numpy.linalg.cholesky(a)."""
    if _is_numpys(a):
        return np.linalg.cholesky(a)
    from scipy.linalg.lapack import get_lapack_funcs

    (potrf,) = get_lapack_funcs(("potrf",), (a,))
    factor, info = potrf(a.T, lower=False, clean=True)
    if info:
        raise LinAlgError("Matrix is not positive definite")
    return factor.T


@declares(lambda costs, a: np.linalg.inv(costs.shape_of(a)))
def inverse(a: Any) -> Any:
    """Return numpy.linalg.inv(a)."""
    if _is_numpys(a):
        return np.linalg.inv(a)
    from scipy.linalg.lapack import get_lapack_funcs

    (getri,) = get_lapack_funcs(("getri",), (a,))
    return getri(*_eliminated(a), lwork=_PANEL * a.shape[0], overwrite_lu=True)[0].T
