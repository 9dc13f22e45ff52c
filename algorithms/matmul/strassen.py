"""Strassen's product of two matrices on one process, in Winograd's form: 7 products and 15 additions of quarters.

Above CUTOFF a level saves an eighth of the products and costs 15 passes over quarters, which come from memory.  The
order is that of Douglas, Heroux, Slishman and Smith (1994): two quarters of memory a level besides the result.
Odd last rows and columns are multiplied by themselves.

The error is bounded by the norms of A and B, not by the elements of |A|·|B|: small elements of a product with large
ones beside them lose digits (Higham, Accuracy and Stability of Numerical Algorithms, section 23.2.2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.arrays.procedures import World

CUTOFF = 2048  # the shortest side up to which BLAS is at least as fast


def product(here: World, a: Any, b: Any, leaf: str) -> Any:
    """Return a @ b on one process; leaf : "blas" or "strassen"."""
    out = here.empty((a.shape[0], b.shape[1]), a.dtype)
    if leaf == "blas" or a.dtype.kind == "b":
        np.matmul(a, b, out=out)
    else:
        _into(here, a, b, out)
    return out


def _into(here: World, a: Any, b: Any, out: Any) -> None:
    (m, k), n = a.shape, b.shape[1]
    if min(m, k, n) <= CUTOFF:
        np.matmul(a, b, out=out)
        return
    h, s, w = m // 2, k // 2, n // 2
    a11, a12, a21, a22 = a[:h, :s], a[:h, s : 2 * s], a[h : 2 * h, :s], a[h : 2 * h, s : 2 * s]
    b11, b12, b21, b22 = b[:s, :w], b[:s, w : 2 * w], b[s : 2 * s, :w], b[s : 2 * s, w : 2 * w]
    c11, c12, c21, c22 = out[:h, :w], out[:h, w : 2 * w], out[h : 2 * h, :w], out[h : 2 * h, w : 2 * w]
    memory = here.empty((h * max(s, w),), a.dtype)
    x, p1 = memory[: h * s].reshape(h, s), memory[: h * w].reshape(h, w)
    y = here.empty((s, w), a.dtype)
    np.subtract(a11, a21, out=x)
    np.subtract(b22, b12, out=y)
    _into(here, x, y, c21)  # P7
    np.add(a21, a22, out=x)
    np.subtract(b12, b11, out=y)
    _into(here, x, y, c22)  # P5
    np.subtract(x, a11, out=x)
    np.subtract(b22, y, out=y)
    _into(here, x, y, c12)  # P6
    np.subtract(a12, x, out=x)
    _into(here, x, b22, c11)  # P3
    _into(here, a11, b11, p1)  # P1, over x
    np.add(p1, c12, out=c12)
    np.add(c12, c21, out=c21)
    np.add(c12, c22, out=c12)
    np.add(c21, c22, out=c22)
    np.add(c12, c11, out=c12)
    np.subtract(y, b21, out=y)
    _into(here, a22, y, c11)  # P4
    np.subtract(c21, c11, out=c21)
    _into(here, a12, b21, c11)  # P2
    np.add(p1, c11, out=c11)
    del memory, x, p1, y
    if k > 2 * s:
        out[: 2 * h, : 2 * w] += a[: 2 * h, 2 * s :] @ b[2 * s :, : 2 * w]
    if n > 2 * w:
        out[: 2 * h, 2 * w :] = a[: 2 * h] @ b[:, 2 * w :]
    if m > 2 * h:
        out[2 * h :] = a[2 * h :] @ b


def flops(m: int, k: int, n: int) -> float:
    """Return the operations of a product: 7/8 of twice m·k·n for each level, and the additions."""
    if min(m, k, n) <= CUTOFF:
        return 2.0 * m * k * n
    h, s, w = m // 2, k // 2, n // 2
    odd = 2.0 * (m * k * n - 8 * h * s * w)
    return 7 * flops(h, s, w) + 4.0 * (h * s + s * w) + 7.0 * h * w + odd


def workspace(m: int, k: int, n: int, leaf: str) -> int:
    """Return a bound on the elements of memory that a product takes besides operands and result."""
    if leaf == "blas" or min(m, k, n) <= CUTOFF:
        return 0
    h, s, w = -(-m // 2), -(-k // 2), -(-n // 2)
    return max(h * max(s, w) + s * w + workspace(h, s, w, leaf), m * n)  # m · n: the products of odd ends
