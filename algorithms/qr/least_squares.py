"""Least squares from the R of A and b side by side: exact where normal equations lose every digit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from bsp.algorithms.qr.factoring import check, matrix, on_all, rows_of
from bsp.algorithms.qr.methods import r_only
from bsp.arrays import linalg
from bsp.arrays.linalg.factored import beside, cut_of, solved
from bsp.arrays.linalg.row_blocks import is_tall
from bsp.arrays.procedures import Array, array_of, procedure
from bsp.arrays.typing import ArrayLike


@procedure
def lstsq(A: ArrayLike, b: ArrayLike, rcond: float | None = None) -> tuple[Array, Array, Any, Array]:
    """Return the x that makes ‖b - A·x‖ least, for each column of b, residuals, rank and singular values, as NumPy.

    A : (m, n).  b : (m,) or (m, k).  rcond : singular values up to rcond times the largest count as 0; None:
        max(m, n)·eps; negative: eps.  residuals : squared norms by column, (k,) or (1,); empty if the rank is below n
        or m <= n.
    R of [A b] by reflections holds everything, see `bsp.arrays.linalg.factored.solved`; columns of any scale do no
    harm.  If the rank is below n, x is the one of least norm.
    Cost: 2(m/p)(n+k)² flops, one tree of (n+k)² words; no Q.  k > n and what is not tall: `bsp.arrays.linalg.lstsq`.
    Raises LinAlgError for shapes that do not fit, and for NaN or infinity in A or b.
    """
    a, right = matrix(A, "lstsq"), array_of(b)
    if right.ndim not in (1, 2) or right.shape[0] != a.shape[0]:
        raise LinAlgError(f"lstsq: A has shape {a.shape} and b {right.shape}: b has shape ({a.shape[0]},) or "
                          f"({a.shape[0]}, k)")  # fmt: skip
    flat = right.ndim == 1
    columns = matrix(right[:, None] if flat else right, "lstsq", "b")
    dtype = np.result_type(a.dtype, columns.dtype)
    a, columns = a.astype(dtype), columns.astype(dtype)
    (m, n), k = a.shape, columns.shape[1]
    if not n or not is_tall(a) or k > n:
        found: tuple[Array, Array, Any, Array] = linalg.lstsq(a, columns[:, 0] if flat else columns, rcond)
        return found
    both = beside(rows_of(a), columns)
    whole = r_only(both, dtype)
    check(whole, both, "lstsq", "[A b]")
    x, rest, rank, s = solved(whole, m, n, cut_of(rcond, m, n, dtype))
    return on_all((x[:, 0] if flat else x).copy()), on_all(rest), rank, on_all(s)
