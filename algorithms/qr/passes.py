"""Passes over rows in pieces that stay in the cache: Gram matrices, division by a triangle, and both at once.

What a pass makes of one piece is used while it is there, so that memory is read once for each pass.  A pass moves no
words; sums over processes are made by the caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bsp.arrays.linalg.row_blocks import BLOCK, RowBlocks
from bsp.arrays.procedures import Axis, Blocks, DType, layout_of, world


def _all_pieces(rows: RowBlocks) -> Iterator[tuple[Any, slice]]:
    """Yield this process's blocks, in order, each with every slice of about BLOCK of its rows."""
    for at in sorted(rows.blocks):
        for piece in _pieces(rows.blocks[at]):
            yield rows.blocks[at], piece


def _pieces(block: Any) -> Iterator[slice]:
    """Yield slices of about BLOCK rows."""
    rows = block.shape[0]
    parts = max(1, rows // BLOCK)
    return (slice(rows * k // parts, rows * (k + 1) // parts) for k in range(parts))


def total(rows: RowBlocks, dtype: DType) -> Any:
    """Return the sums of the columns over this process's rows: (n,).  (m/p)n flops; the rows are read once."""
    found = np.zeros(rows.layout.shape[1], dtype)
    ones = np.ones(2 * BLOCK, dtype)
    for block, piece in _all_pieces(rows):
        found += ones[: piece.stop - piece.start] @ block[piece]
    return found


def gram(rows: RowBlocks, dtype: DType, shift: Any = None) -> Any:
    """Return Σ (x - shift)ᴴ·(x - shift) over this process's rows x: (n, n).  (m/p)n² flops; the rows are read once."""
    columns = rows.layout.shape[1]
    found = np.zeros_like(world().empty((columns, columns), dtype))
    for block, piece in _all_pieces(rows):
        found += _squared(block[piece] if shift is None else block[piece] - shift)
    return found


def projected(rows: RowBlocks, shift: Any, small: Any, dtype: DType) -> RowBlocks:
    """Return (rows - shift) @ small.  2(m/p)nk flops for k columns; the rows are read once."""
    layout = layout_of((rows.layout.axes[0], Axis(small.shape[1])), rows.layout.replicated)
    made = {at: world().empty((block.shape[0], small.shape[1]), dtype) for at, block in rows.blocks.items()}
    for at, block in rows.blocks.items():
        for piece in _pieces(block):
            np.matmul(block[piece] - shift, small, out=made[at][piece])
    return RowBlocks(layout, made)


def divided(rows: RowBlocks, r: Any, dtype: DType, in_place: bool = False, near: bool = False) -> RowBlocks:
    """Return rows @ r⁻¹ for an upper triangular r, by substitution: each row is as exact as its own solution can be.

    in_place : the rows are overwritten; only for rows that nothing else refers to.
    near : whether r is well conditioned.  Then a product with its inverse is as exact, and three times as fast.
    (m/p)n² flops; the rows are read and written once.
    """
    return _over(rows, r, dtype, in_place, near, None)


def divided_and_gram(rows: RowBlocks, r: Any, dtype: DType) -> tuple[RowBlocks, Any]:
    """Return Q = rows @ r⁻¹, and Σ qᴴ·q over this process's rows q.  2(m/p)n² flops in one pass."""
    columns = rows.layout.shape[1]
    summed = np.zeros_like(world().empty((columns, columns), dtype))
    return _over(rows, r, dtype, False, False, summed), summed


def _over(rows: RowBlocks, r: Any, dtype: DType, in_place: bool, near: bool, summed: Any) -> RowBlocks:
    triangle = np.asfortranarray(r)
    if near and r.size:
        from scipy.linalg.lapack import get_lapack_funcs

        (trtri,) = get_lapack_funcs(("trtri",), (triangle,))
        triangle = trtri(triangle)[0]
    made: Blocks = {}
    for at in sorted(rows.blocks):
        block = rows.blocks[at]
        out = block if in_place else world().empty(block.shape, dtype)
        # pieces stay in the cache until they are squared; else one call has the BLAS's threads meet once
        for piece in [slice(None)] if summed is None else _pieces(block):
            if not in_place:
                out[piece] = block[piece]
            _divide(out[piece], triangle, near)
            if summed is not None:
                summed += _squared(out[piece])
        made[at] = out
    return RowBlocks(layout_of((rows.layout.axes[0], Axis(r.shape[1])), rows.layout.replicated), made)


def _divide(x: Any, r: Any, inverse: bool) -> None:
    """Replace x by x @ r⁻¹, or x @ r if r is the inverse.  Transposed, x in C order is stored as BLAS wants it."""
    if x.size:
        from scipy.linalg.blas import get_blas_funcs

        (over,) = get_blas_funcs(("trmm" if inverse else "trsm",), (r, x))
        over(1.0, r, x.T, trans_a=1, overwrite_b=1)


def _squared(x: Any) -> Any:
    """Return xᴴ·x; overflow shows in the result, so it is no warning."""
    with np.errstate(over="ignore", invalid="ignore"):
        return (np.conj(x) if x.dtype.kind == "c" else x).T @ x
