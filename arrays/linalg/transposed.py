"""Cholesky factors and inverses of one matrix by LAPACK, called where NumPy would reorder the matrix first.

LAPACK stores columns; of a matrix in C order it sees the transpose.  NumPy reorders on the way in and out.  Both
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

    getrf, getri = get_lapack_funcs(("getrf", "getri"), (a,))
    factors, pivots, info = getrf(a.T)
    if info:
        raise LinAlgError("Singular matrix")
    return getri(factors, pivots, lwork=_PANEL * a.shape[0], overwrite_lu=True)[0].T
