"""Sparse arrays of others: side by side, one below the other, as blocks, and Kronecker products and sums."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse

from bsp.arrays.errors import ArrayError
from bsp.arrays.sparse.array import ScipyMatrix, SparseArray, of_rows
from bsp.arrays.sparse.creation import as_sparse, columns_like, eye, from_coo, redealt
from bsp.arrays.typing import ArrayLike


def hstack(arrays: Sequence[SparseArray | ScipyMatrix | ArrayLike]) -> SparseArray:
    """Return sparse arrays, or scipy's, side by side.  Collective.

    Cost: nothing moves of those that are stored by rows and dealt as the first; of others 3 nnz/p words, S = 2 each.
    """
    blocks = [as_sparse(each) for each in arrays]
    _fitting(blocks, 0, "hstack")
    if all(each._flipped for each in blocks):
        return vstack([each.T for each in blocks]).T
    rows = next(each for each in blocks if not each._flipped).row_bounds
    own, width = [], 0
    for each in blocks:
        if each._flipped or each.row_bounds != rows:
            each = redealt(each, rows, columns_like(rows, (rows[-1], each.shape[1])))
        own.append(each.local())
        width += each.shape[1]
    return of_rows(scipy.sparse.hstack(own, format="csr"), rows, columns_like(rows, (rows[-1], width)))


def vstack(arrays: Sequence[SparseArray | ScipyMatrix | ArrayLike]) -> SparseArray:
    """Return sparse arrays, or scipy's, one below the other.  Collective.

    Cost: that of `from_coo`, for the rows are dealt anew; nothing moves if all are stored by columns and dealt alike.
    """
    blocks = [as_sparse(each) for each in arrays]
    _fitting(blocks, 1, "vstack")
    if all(each._flipped for each in blocks):
        return hstack([each.T for each in blocks]).T
    return _placed([[each] for each in blocks])


def block_array(blocks: Sequence[Sequence[SparseArray | ScipyMatrix | ArrayLike | None]]) -> SparseArray:
    """Return the sparse array of blocks, in rows of blocks; None is a block without entries.  Collective.

    Raises ArrayError where blocks do not fit, or a row or column of blocks has only None.
    Cost: that of `from_coo`, for the rows are dealt anew.
    """
    found = [[None if each is None else as_sparse(each) for each in row] for row in blocks]
    if not found or len({len(row) for row in found}) > 1:
        raise ArrayError(f"block_array: rows of {', '.join(str(len(row)) for row in found) or 'no'} blocks")
    return _placed(found)


def block_diag(arrays: Sequence[SparseArray | ScipyMatrix | ArrayLike]) -> SparseArray:
    """Return the sparse array whose diagonal blocks are some arrays, and which is zero elsewhere.  Collective.

    Cost: that of `from_coo`, for the rows are dealt anew.
    """
    blocks = [as_sparse(each) for each in arrays]
    if not blocks:
        raise ArrayError("block_diag of no arrays")
    return _placed([[each if at == k else None for at in range(len(blocks))] for k, each in enumerate(blocks)])


def _placed(blocks: Sequence[Sequence[SparseArray | None]]) -> SparseArray:
    """Return the array of rows of blocks, None where there are no entries."""
    turned = list(zip(*blocks, strict=True))
    ends = []  # of the rows of blocks, then of the columns
    for axis, lines in enumerate((blocks, turned)):
        lengths = [{each.shape[axis] for each in line if each is not None} for line in lines]
        for number, found in enumerate(lengths):
            if len(found) != 1:
                what = f"{'row' if axis == 0 else 'column'} {number} of blocks"
                raise ArrayError(f"{what} has lengths {sorted(found)}" if found else f"{what} has only None")
        ends.append(np.concatenate([[0], np.cumsum([length for (length,) in lengths])]))
    parts = [
        (rows + below, columns + right, values)
        for line, below in zip(blocks, ends[0], strict=False) for each, right in zip(line, ends[1], strict=False)
        if each is not None for rows, columns, values in [each.triples()]
    ]  # fmt: skip
    rows, columns, values = (np.concatenate([each[k] for each in parts]) for k in range(3))
    return from_coo(rows, columns, values, (int(ends[0][-1]), int(ends[1][-1])))


def _fitting(blocks: Sequence[SparseArray], axis: int, call: str) -> None:
    if not blocks:
        raise ArrayError(f"{call} of no arrays")
    if len({each.shape[axis] for each in blocks}) > 1:
        raise ArrayError(f"{call}: shapes {', '.join(str(each.shape) for each in blocks)} do not fit")


def kron(a: SparseArray | ScipyMatrix | ArrayLike, b: SparseArray | ScipyMatrix | ArrayLike) -> SparseArray:
    """Return the Kronecker product of sparse arrays, or scipy's.  Collective.

    The rows are dealt as those of `a`; `b`, which should be the smaller one, is brought to every process.
    Cost: H = 2 nnz + n words of b, S = 2.
    """
    first, second = as_sparse(a), as_sparse(b)
    if first._flipped:
        return kron(first.T, second.T).T
    rows = tuple(bound * second.shape[0] for bound in first.row_bounds)
    own = scipy.sparse.kron(first.local(), second.compute(), format="csr")
    own = own.astype(np.result_type(first.dtype, second.dtype), copy=False)  # scipy's without entries is float64
    return of_rows(own, rows, columns_like(rows, (rows[-1], first.shape[1] * second.shape[1])))


def kronsum(a: SparseArray | ScipyMatrix | ArrayLike, b: SparseArray | ScipyMatrix | ArrayLike) -> SparseArray:
    """Return the Kronecker sum of two square matrices, kron(I, a) + kron(b, I), as scipy.sparse.  Collective.

    Cost: that of `kron` of each with an identity, and of a sum.
    """
    first, second = as_sparse(a), as_sparse(b)
    if first.shape[0] != first.shape[1] or second.shape[0] != second.shape[1]:
        raise ArrayError(f"kronsum: shapes {first.shape} and {second.shape}; both have to be square")
    ones = [eye(each.shape[0], dtype=np.result_type(first.dtype, second.dtype)) for each in (first, second)]
    found: SparseArray = kron(ones[1], first) + kron(second, ones[0])
    return found
