"""Sparse arrays of others: side by side, one below the other, and Kronecker products."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.sparse

from bsp.arrays.errors import ArrayError
from bsp.arrays.sparse.array import ScipyMatrix, SparseArray, of_rows
from bsp.arrays.sparse.creation import as_sparse, columns_like, from_coo, redealt
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
    below = np.concatenate([[0], np.cumsum([each.shape[0] for each in blocks])])
    triples = [each.triples() for each in blocks]
    rows = np.concatenate([each[0] + first for each, first in zip(triples, below, strict=False)])
    columns, values = (np.concatenate([each[k] for each in triples]) for k in (1, 2))
    return from_coo(rows, columns, values, (int(below[-1]), blocks[0].shape[1]))


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
