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

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse

from bsp.arrays.api.creation import asarray
from bsp.arrays.errors import ArrayError
from bsp.arrays.execution.world import World, world
from bsp.arrays.sparse.array import ScipyMatrix, SparseArray, of_rows
from bsp.arrays.sparse.creation import as_sparse, of_triples, redealt
from bsp.arrays.sparse.pattern import Bounds, Pattern
from bsp.arrays.sparse.semirings import PLAIN, Semiring, csr, product_of
from bsp.arrays.typing import ArrayLike, Scalar

_ROWS = "rows of a sparse product"


def matmul(
    a: SparseArray | ScipyMatrix | ArrayLike, b: SparseArray | ScipyMatrix | ArrayLike, *, add: np.ufunc = np.add,
    multiply: Callable[..., Any] = np.multiply, zero: Scalar | None = None,
) -> Any:  # fmt: skip
    """Return a @ b, one of them sparse, in any semiring: entry (i, j) is `add` over k of multiply(a[i, k], b[k, j]).

    add, multiply : shortest paths: numpy.minimum, numpy.add; reachability: numpy.logical_or, numpy.logical_and.  `add`
        is an associative and commutative ufunc; `multiply` may be any function of two arrays.
    zero : the identity of `add`, where NumPy's ufunc does not tell it.
    Absent entries are the semiring's zero.  With a dense operand the result is dense and lazy, and rows without entries
    are the zero; of two sparse arrays it is sparse and computed at once, and what no products reach stays absent.
    Cost: that of a @ b; the products of some rows at a time are sorted.
    """
    semiring = Semiring(add, multiply, zero).checked()
    if isinstance(a, SparseArray) or scipy.sparse.issparse(a):
        return as_sparse(a).dot(b, add=add, multiply=multiply, zero=zero)
    if semiring.plain:
        return a @ as_sparse(b)
    first = asarray(a)  # type: ignore[arg-type]
    turned = as_sparse(b).T.dot(first.T, add=add, multiply=lambda of_b, of_a: multiply(of_a, of_b), zero=zero)
    return turned.T


def multiplied(a: SparseArray, b: SparseArray, semiring: Semiring = PLAIN) -> SparseArray:
    """Return a @ b in a semiring.  Collective."""
    if a.shape[1] != b.shape[0]:
        raise ArrayError(f"@: shapes {a.shape} and {b.shape} do not fit")
    if b._flipped and a._flipped:
        return multiplied(b.T, a.T, semiring.turned()).T
    outline = a._pattern.outline
    b = _by_rows_as(b, outline.rows if a._flipped else outline.columns)
    return _outer(world(), a, b, semiring) if a._flipped else _by_rows(world(), a, b, semiring)


def rows_at(places: SparseArray, b: SparseArray) -> SparseArray:
    """Return the rows of b at the places of the entries of an array with one entry in each row.  Collective.

    They are copied: a product with ones would make NaN of the other part of an infinite complex number.
    """
    pattern = places._pattern
    b = _by_rows_as(b, pattern.outline.columns)
    found = _stacked(world(), pattern, b)[pattern.compact]
    return of_rows(found, pattern.outline.rows, b._pattern.outline.columns)


def _by_rows_as(b: SparseArray, bounds: Bounds) -> SparseArray:
    """Return an array stored by rows, which are dealt by `bounds`."""
    b = b.tocsr() if b._flipped else b
    return b if b._pattern.outline.rows == bounds else redealt(b, bounds, b._pattern.outline.columns)


def _by_rows(here: World, a: SparseArray, b: SparseArray, semiring: Semiring) -> SparseArray:
    """Return the product of two arrays that are stored by rows; b's rows are dealt as a's columns."""
    pattern = a._pattern
    left = scipy.sparse.csr_array(
        (a._own(), pattern.compact, pattern.indptr), shape=(pattern.rows, pattern.width), copy=False
    )
    found = product_of(left, _stacked(here, pattern, b), semiring)
    return of_rows(found, pattern.outline.rows, b._pattern.outline.columns)


def _outer(here: World, a: SparseArray, b: SparseArray, semiring: Semiring) -> SparseArray:
    """Return the product of an array that is stored by columns and one that is stored by rows, dealt alike."""
    outline = a._pattern.outline
    part = product_of(a.local().tocsr(), b.local(), semiring).tocoo()
    return of_triples(here, part.row, part.col, part.data, outline.columns, b._pattern.outline.columns, semiring.add)


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
    return csr(data, indices, indptr, (len(lengths), b.shape[1]))
