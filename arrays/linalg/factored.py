"""Singular vectors and least squares from the R of tall rows, which every process has.

R is small beside the rows: each element computes with it once for all of its processes, and no words are sent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.abstract import table
from bsp.arrays.array import Array
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import DType
from bsp.arrays.expressions.layout import Axis, layout_of
from bsp.arrays.linalg.row_blocks import Factors, RowBlocks, settled, times, to_array
from bsp.declared import Costs, declares


def _of_signed_svd(costs: Costs, r: Any) -> tuple[Any, Any, Any]:
    """Declare the cost of `signed_svd`: 14·n·k² + 8·k³ flops for a matrix (k, n)."""
    rows, columns = r.shape
    k = min(rows, columns)
    costs.factoring(table.svd(rows, columns, True, False) * table.complexity(r.dtype), k)
    real = r.dtype.type(0).real.dtype
    return costs.array((rows, k), r.dtype), costs.array((k,), real), costs.array((k, columns), r.dtype)


@declares(_of_signed_svd)
def signed_svd(r: Any) -> tuple[Any, Any, Any]:
    """Return the SVD of a small matrix, with the signs of its singular vectors fixed.

    In each row of Vt the first entry at least half as large as the greatest is real and > 0.  NumPy leaves the signs
    open; fixed, they do not depend on how the rows that R comes from were dealt.
    """
    w, s, vt = np.linalg.svd(r, full_matrices=False)
    if not vt.size:
        return w, s, vt
    size = np.abs(vt)
    first = np.argmax(size >= size.max(axis=1, keepdims=True) / 2, axis=1)
    leading = vt[np.arange(len(vt)), first]
    phase = leading / np.abs(leading)
    return w * phase, s, vt * np.conj(phase)[:, None]


def svd_of(found: Factors, dtype: DType) -> tuple[Array, Any, Any]:
    """Return the SVD of Q·R: U as an array dealt like Q; s and Vt on every process.  2(m/p)n² flops and R's SVD."""
    assert found.q is not None
    w, s, vt = world().once("signed svd", lambda: signed_svd(found.r), [found.r])
    return to_array(times(found.q, w), dtype), s, vt


def cut_of(rcond: float | None, m: int, n: int, dtype: DType) -> float:
    """Return the share of the largest singular value up to which one counts as 0, from rcond as in NumPy's lstsq."""
    eps = float(np.finfo(dtype).eps)
    return max(m, n) * eps if rcond is None else rcond if rcond >= 0 else eps


def beside(rows: RowBlocks, b: Array) -> RowBlocks:
    """Return the rows [A b].  Cost: one total exchange, of b, if its rows are not dealt like A's; else none."""
    first, (n, k) = rows.layout.axes[0], (rows.layout.shape[1], b.shape[1])
    right = settled(b, layout_of((first, Axis(k)), rows.layout.replicated))
    blocks = {at: np.concatenate([block, right[at]], axis=1) for at, block in rows.blocks.items()}
    return RowBlocks(layout_of((first, Axis(n + k)), rows.layout.replicated), blocks)


def _of_solved(costs: Costs, whole: Any, m: int, n: int, cut: float) -> tuple[Any, Any, Any, Any]:
    """Declare the cost of `solved` for a matrix of full rank."""
    k, dtype = whole.shape[1] - n, whole.dtype
    costs.factoring(22.0 * n**3 * table.complexity(dtype), n)
    costs.work(blas3=2.0 * n * n * k * table.complexity(dtype))
    real = dtype.type(0).real.dtype
    rest = costs.array((k if m > n else 0,), real)
    return costs.array((n, k), dtype), rest, costs.array((), np.int32), costs.array((n,), real)


@declares(_of_solved)
def solved(whole: Any, m: int, n: int, cut: float) -> tuple[Any, Any, Any, Any]:
    """Return x (n, k), squared residuals (k,), rank and singular values from the R of [A b], A of shape (m, n).

    R₁₁·x = R₁₂ is solved by back substitution; the norms of R₂₂'s columns are those of the residuals (Golub, Van Loan
    2013, 5.3).  The scale of the columns does not matter.  If the rank is below n the singular vectors of R₁₁ give the
    x of least norm, and there are no residuals.
    """
    r, c, under = whole[:n, :n], whole[:n, n:], whole[n:, n:]
    u, s, vt = np.linalg.svd(r)
    keep = s > cut * s[0]
    rank = np.int32(np.count_nonzero(keep))
    full = bool(rank == n and np.diagonal(r).all())
    if full:
        x = np.linalg.solve(r, c)  # r is triangular: elimination exchanges no rows and becomes substitution
    else:
        inverse = np.where(keep, 1 / np.where(keep, s, 1), 0)
        x = np.conj(vt).T @ (inverse[:, None] * (np.conj(u).T @ c))
    rest = np.sum(np.abs(under) ** 2, axis=0) if full and m > n else np.zeros(0, s.dtype)
    return x, rest, rank, s
