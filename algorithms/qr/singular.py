"""The singular values of a tall matrix, from those of its R."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bsp.abstract import table
from bsp.algorithms.qr.factoring import factored, is_tall, matrix, on_all, rows_of
from bsp.arrays import linalg
from bsp.arrays.array import Array
from bsp.arrays.linalg import tall
from bsp.arrays.procedures.forecast import procedure
from bsp.declared import Costs, declares


class SVD(NamedTuple):
    """A = U·diag(s)·Vt."""

    U: Array
    s: Array
    Vt: Array


@procedure
def svd(A: Any) -> SVD:
    """A = U·diag(s)·Vt: U (m, n) dealt like A's rows, s (n,) descending and Vt (n, n) on every process, for m >= n.

    A = Q·R by `qr`, R = W·diag(s)·Vt on every process, U = Q·W by rows.  Of each row of Vt the first entry at least
    half as large as the greatest is real and > 0, so the factors do not depend on how A is dealt.
    Cost: `qr`'s, 22n³ + 2(m/p)n² flops, no words.  What is not tall goes to `bsp.arrays.linalg.svd`.
    Raises LinAlgError for NaN or infinity in A.
    """
    a = matrix(A, "svd")
    if a.shape[0] < a.shape[1] or not a.shape[1] or not is_tall(a):
        return SVD(*linalg.svd(a, full_matrices=False))
    found, *_ = factored(rows_of(a), a.dtype, "auto", "svd")
    assert found.q is not None
    w, s, vt = signed_svd(found.r)
    return SVD(tall.to_array(tall.times(found.q, w), a.dtype), on_all(s), on_all(vt))


def _of_signed_svd(costs: Costs, r: Any) -> tuple[Any, Any, Any]:
    """Declare the cost of `signed_svd`: of a matrix (k, n) 14·n·k² + 8·k³ flops."""
    rows, columns = r.shape
    k = min(rows, columns)
    costs.factoring(table.svd(rows, columns, True, False) * table.complexity(r.dtype), k)
    real = r.dtype.type(0).real.dtype
    return costs.array((rows, k), r.dtype), costs.array((k,), real), costs.array((k, columns), r.dtype)


@declares(_of_signed_svd)
def signed_svd(r: Any) -> tuple[Any, Any, Any]:
    """NumPy's of a small matrix, with signs that are fixed by the rows of Vt."""
    w, s, vt = np.linalg.svd(r, full_matrices=False)
    if not vt.size:
        return w, s, vt
    size = np.abs(vt)
    first = np.argmax(size >= size.max(axis=1, keepdims=True) / 2, axis=1)
    leading = vt[np.arange(len(vt)), first]
    phase = leading / np.abs(leading)
    return w * phase, s, vt * np.conj(phase)[:, None]
