"""Singular value decomposition of a tall matrix, from that of its R."""

from __future__ import annotations

from typing import NamedTuple

from bsp.algorithms.qr.factoring import factored, matrix, on_all, rows_of
from bsp.arrays import linalg
from bsp.arrays.linalg import row_blocks
from bsp.arrays.linalg.factored import svd_of
from bsp.arrays.procedures import Array, procedure
from bsp.arrays.typing import ArrayLike


class SVD(NamedTuple):
    """The factors of A = U·diag(s)·Vt."""

    U: Array
    s: Array
    Vt: Array


@procedure
def svd(A: ArrayLike) -> SVD:
    """Return A = U·diag(s)·Vt: U (m, n) dealt like A's rows, s (n,) and Vt (n, n) on every process.  Collective.

    A = Q·R by `qr`, R = W·diag(s)·Vt on every process, U = Q·W by rows.  Of each row of Vt the first entry at least
    half as large as the greatest is real and > 0, so the factors do not depend on how A is dealt.
    Cost: `qr`'s, 22n³ + 2(m/p)n² flops, no words.  What is not tall goes to `bsp.arrays.linalg.svd`.
    Raises LinAlgError for NaN or infinity in A.
    """
    a = matrix(A, "svd")
    if not a.shape[1] or not row_blocks.is_tall(a):
        return SVD(*linalg.svd(a, full_matrices=False))
    found, *_ = factored(rows_of(a), a.dtype, "auto", "svd")
    u, s, vt = svd_of(found, a.dtype)
    return SVD(u, on_all(s), on_all(vt))
