"""Products of two sparse arrays.

Of A stored by rows, each process multiplies its own rows by the rows of B that these need: those of its own columns
and of its far columns, which come from their owners (Gustavson's algorithm on rows).  Of a transposed A, each process
multiplies its own columns by its own rows of B, and the parts of the result are sent to the owners of its rows and
summed: of a tall matrix A.T @ B moves no more than the small result.

Cost: W = 2 operations for each product of entries; H = the entries of far rows of B, two words each (or of the
parts of the result that are not on their owner); S = 2, and what redealing B takes, where its rows are not dealt as
the columns of A.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from bsp.abstract.work import counter
from bsp.arrays.errors import ArrayError
from bsp.arrays.execution.world import World, world
from bsp.arrays.sparse.array import SparseArray, of_rows
from bsp.arrays.sparse.creation import of_triples, redealt
from bsp.arrays.sparse.pattern import Pattern

_ROWS = "rows of a sparse product"


def multiplied(a: SparseArray, b: SparseArray) -> SparseArray:
    """Return a @ b.  Collective."""
    if a.shape[1] != b.shape[0]:
        raise ArrayError(f"@: shapes {a.shape} and {b.shape} do not fit")
    if b._flipped:
        if a._flipped:
            return multiplied(b.T, a.T).T
        b = b.tocsr()
    here, outline = world(), a._pattern.outline
    shared = outline.rows if a._flipped else outline.columns
    if b._pattern.outline.rows != shared:
        b = redealt(b, shared, b._pattern.outline.columns)
    return _outer(here, a, b) if a._flipped else _by_rows(here, a, b)


def _by_rows(here: World, a: SparseArray, b: SparseArray) -> SparseArray:
    """Return the product of two arrays that are stored by rows; b's rows are dealt as a's columns."""
    pattern = a._pattern
    left = scipy.sparse.csr_array(
        (a._own(), pattern.compact, pattern.indptr), shape=(pattern.rows, pattern.width), copy=False
    )
    found = _product(left, _stacked(here, pattern, b))
    return of_rows(found, pattern.outline.rows, b._pattern.outline.columns)


def _outer(here: World, a: SparseArray, b: SparseArray) -> SparseArray:
    """Return the product of an array that is stored by columns and one that is stored by rows, dealt alike."""
    outline = a._pattern.outline
    part = _product(a.local(), b.local()).tocoo()
    return of_triples(here, part.row, part.col, part.data, outline.columns, b._pattern.outline.columns)


def _product(left: Any, right: Any) -> Any:
    counts = np.diff(right.tocsr().indptr)
    counter.flops("elementwise", 2.0 * float(counts[left.indices].sum()) if left.format == "csr" else 0.0)
    return (left @ right).tocsr()


def _stacked(here: World, pattern: Pattern, b: SparseArray) -> Any:
    """Return the rows of b for this process's compact columns: its own ones, then the far ones.  Collective."""
    own = b.local()
    if here.nprocs == 1:
        return own
    far = pattern.far
    served = own[far.served]
    out: list[tuple[int, np.ndarray]] = []
    for pair, low, high in zip(far.sends, far.sent, far.sent[1:], strict=False):
        dest = int(far.exchange.dest[pair])
        first, last = served.indptr[low], served.indptr[high]
        out += [(dest, np.diff(served.indptr[low : high + 1])), (dest, served.indices[first:last])]
        out.append((dest, served.data[first:last]))
    arrived = [each for _, each in here.exchange(_ROWS, out)]
    lengths = np.concatenate([np.diff(own.indptr), *arrived[::3]])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    indices = np.concatenate([own.indices, *arrived[1::3]])
    data = np.concatenate([own.data, *arrived[2::3]])
    return scipy.sparse.csr_array((data, indices, indptr), shape=(len(lengths), b.shape[1]))
