"""Triangular factors and triangular systems of one process's blocks, by LAPACK and BLAS, without copies.

LAPACK stores matrices by columns and NumPy by rows, so LAPACK is given transposes: L·X = B as Xᵀ·Lᵀ = Bᵀ.  The blocks
here are stored by rows; others are copied first.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_LEFT, _RIGHT, _AS_IT_IS, _ADJOINT = 0, 1, 0, 2


def lu(panel: Any) -> tuple[Any, Any]:
    """Return P·L·U of an (m, n) panel, m >= n, as LAPACK's getrf does: L and U in one matrix, and the pivots.

    Row k was exchanged with row pivots[k], one pair after the other.
    """
    from scipy.linalg.lapack import get_lapack_funcs

    (getrf,) = get_lapack_funcs(("getrf",), (panel,))
    factors, pivots, _ = getrf(panel)
    return factors, pivots


def cholesky(panel: Any) -> Any | None:
    """Return the first n columns of the Cholesky factor L of a matrix whose first n columns are the (m, n) panel.

    None if the matrix is not positive definite.  Only the elements on and below the diagonal are read.
    """
    from scipy.linalg.lapack import get_lapack_funcs

    columns = panel.shape[1]
    out = panel.copy()
    (potrf,) = get_lapack_funcs(("potrf",), (out,))
    upper, failed = potrf(out[:columns].T, lower=0, clean=1, overwrite_a=1)
    if failed:
        return None
    out[:columns] = upper.T
    if out.shape[0] > columns:
        below = out[columns:]  # X·Lᴴ = B, which by columns is conj(L)·Xᵀ = Bᵀ
        below[:] = _trsm(upper, below, _LEFT, lower=False, transposed=_ADJOINT).T
    return out


def lower_solve(lower: Any, right: Any) -> Any:
    """Return L⁻¹·B, where L has ones on its diagonal and below it what `lower` has there.  Cost: n²k flops."""
    return _trsm(lower.T, right, _RIGHT, lower=False, unit=True).T


def upper_solve(upper: Any, right: Any) -> Any:
    """Return U⁻¹·B, where U is what `upper` has on and above its diagonal.  Cost: n²k flops.

    A zero on the diagonal gives infinite or NaN elements, as division does.
    """
    return _trsm(upper.T, right, _RIGHT, lower=True).T


def _trsm(
    triangle: Any, right: Any, side: int, lower: bool, transposed: int = _AS_IT_IS, unit: bool = False
) -> np.ndarray:
    """Solve with a triangle stored by columns, for the transpose of a matrix that is stored by rows."""
    from scipy.linalg.blas import get_blas_funcs

    (trsm,) = get_blas_funcs(("trsm",), (triangle, right))
    found: np.ndarray = trsm(1.0, triangle, right.T, side=side, lower=lower, trans_a=transposed, diag=unit)
    return found


def subtract_product(target: Any, left: Any, right: Any) -> None:
    """Subtract left @ right from a target that is stored by rows, in place: no product is stored beside it."""
    if not (target.size and left.size):
        return
    from scipy.linalg.blas import get_blas_funcs

    (gemm,) = get_blas_funcs(("gemm",), (target,))
    turned = right.flags.c_contiguous  # by columns, Cᵀ -= Bᵀ·Aᵀ: gemm takes what is stored by rows as its transpose
    gemm(-1, right.T if turned else right, left.T, 1, target.T, not turned, overwrite_c=1)
