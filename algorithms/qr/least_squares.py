"""Least squares from the R of A and b side by side: exact where normal equations lose every digit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from bsp.abstract import table
from bsp.algorithms.qr.factoring import check, is_tall, matrix, on_all, rows_of
from bsp.algorithms.qr.methods import r_only
from bsp.arrays import build, linalg
from bsp.arrays.api.creation import asarray
from bsp.arrays.array import Array, wrap
from bsp.arrays.expressions.layout import Axis, layout_of
from bsp.arrays.linalg import tall
from bsp.arrays.linalg.tall import Rows
from bsp.arrays.procedures.forecast import procedure
from bsp.declared import Costs, declares


@procedure
def lstsq(A: Any, b: Any, rcond: float | None = None) -> tuple[Array, Array, Any, Array]:
    """The x that makes ‖b - A·x‖ least, for each column of b: x, residuals, rank, singular values, as NumPy's.

    A : (m, n).  b : (m,) or (m, k).  rcond : singular values up to rcond times the largest count as 0; None:
        max(m, n)·eps; negative: eps.  residuals : squared norms by column, (k,) or (1,); empty if the rank is below n
        or m <= n.
    R of [A b] by reflections holds everything: R₁₁·x = R₁₂ is solved backwards, and R₂₂'s columns are as long as
    the residuals (Golub, Van Loan 2013, 5.3).  Columns of any scale do no harm.  If the rank is below n, R₁₁'s
    singular vectors give the x of least norm.
    Cost: 2(m/p)(n+k)² flops, one tree of (n+k)² words; no Q.  k > n and what is not tall: `bsp.arrays.linalg.lstsq`.
    Raises LinAlgError for shapes that do not fit, and for NaN or infinity in A or b.
    """
    a, right = matrix(A, "lstsq"), wrap(build.strong(asarray(b)._node))
    if right.ndim not in (1, 2) or right.shape[0] != a.shape[0]:
        raise LinAlgError(f"lstsq: A has shape {a.shape} and b {right.shape}: b has shape ({a.shape[0]},) or "
                          f"({a.shape[0]}, k)")  # fmt: skip
    flat = right.ndim == 1
    columns = matrix(right[:, None] if flat else right, "lstsq", "b")
    dtype = np.result_type(a.dtype, columns.dtype)
    a, columns = a.astype(dtype), columns.astype(dtype)
    (m, n), k = a.shape, columns.shape[1]
    if not 0 < n <= m or not is_tall(a) or k > n:
        found: tuple[Array, Array, Any, Array] = linalg.lstsq(a, columns[:, 0] if flat else columns, rcond)
        return found
    rows = rows_of(a)
    beside = Rows(rows.layout, tall.settled(columns, layout_of((rows.layout.axes[0], Axis(k)), rows.layout.replicated)))
    layout = layout_of((rows.layout.axes[0], Axis(n + k)), rows.layout.replicated)
    both = Rows(layout, {at: np.concatenate([rows.blocks[at], beside.blocks[at]], axis=1) for at in rows.blocks})
    whole = r_only(both, dtype)
    check(whole, both, "lstsq", "[A b]")
    x, rest, rank, s = _solved(whole, m, n, rcond)
    return on_all((x[:, 0] if flat else x).copy()), on_all(rest), rank, on_all(s)


def _of_solved(costs: Costs, whole: Any, m: int, n: int, rcond: float | None) -> tuple[Any, Any, Any, Any]:
    """Declare the cost of `_solved`, of full rank."""
    k, dtype = whole.shape[1] - n, whole.dtype
    costs.factoring(22.0 * n**3 * table.complexity(dtype), n)
    costs.work(blas3=2.0 * n * n * k * table.complexity(dtype))
    real = dtype.type(0).real.dtype
    rest = costs.array((k if m > n else 0,), real)
    return costs.array((n, k), dtype), rest, costs.array((), int), costs.array((n,), real)


@declares(_of_solved)
def _solved(whole: Any, m: int, n: int, rcond: float | None) -> tuple[Any, Any, int, Any]:
    """Return x, squared residuals, rank and singular values from the R of [A b], A of shape (m, n)."""
    dtype = whole.dtype
    r, c, under = whole[:n, :n], whole[:n, n:], whole[n:, n:]
    u, s, vt = np.linalg.svd(r)
    cut = max(m, n) * np.finfo(dtype).eps if rcond is None else rcond if rcond >= 0 else np.finfo(dtype).eps
    keep = s > cut * s[0]
    rank = int(np.count_nonzero(keep))
    full = bool(rank == n and np.diagonal(r).all())
    if full:
        x = np.linalg.solve(r, c)  # triangular, so that elimination exchanges nothing and is substitution
    else:
        inverse = np.where(keep, 1 / np.where(keep, s, 1), 0)
        x = np.conj(vt).T @ (inverse[:, None] * (np.conj(u).T @ c))
    rest = np.sum(np.abs(under) ** 2, axis=0) if full and m > n else np.zeros(0, s.dtype)
    return x, rest, rank, s
