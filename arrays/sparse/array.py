"""The class `SparseArray`: a distributed sparse matrix with scipy.sparse's operators and methods.

A sparse array is a pattern and a vector of its entries, which is an array like any other.  So what keeps the pattern
(A * 2, abs(A), A.T) and what gives dense results (A @ x, A.sum(axis=0), A * x) is lazy, and planned together with dense
arithmetic.  What makes a new pattern (A + B, A @ B, A[rows]) is computed at once, in supersteps of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import scipy.sparse

from bsp.arrays.api.creation import asarray
from bsp.arrays.array import Array, wrap
from bsp.arrays.build import relaid
from bsp.arrays.errors import ArrayError
from bsp.arrays.execution import memory
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import Node
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.procedures import made_of
from bsp.arrays.sparse import operations as do
from bsp.arrays.sparse.base import ScipyMatrix, SparseBase
from bsp.arrays.sparse.pattern import Pattern, made
from bsp.arrays.sparse.semirings import Semiring

if TYPE_CHECKING:
    from bsp.arrays.sparse.coo import CooArray
    from bsp.arrays.typing import ArrayLike, Index, Scalar


class SparseArray(SparseBase):
    """A distributed sparse matrix.  `from_coo`, `eye`, `diags` and other functions of this package make them.

    shape, dtype, nnz, T: as in scipy.sparse.  `entries`: the vector of stored values, by rows of the stored matrix.
    Sums and extremes along the rows that are stored move nothing, along the others a word for each far column.
    """

    __slots__ = ("_flipped", "_pattern")

    def __init__(self, pattern: Pattern, entries: Node, flipped: bool = False) -> None:
        super().__init__(entries)
        self._pattern = pattern
        self._flipped = flipped  # whether the array is the transpose of what is stored

    def __reduce__(self) -> Any:
        return SparseArray, (self._pattern, self._entries, self._flipped)

    # --------------------------------------------------------------------------- attributes

    @property
    def shape(self) -> Shape:
        """The numbers of rows and columns."""
        shape = self._pattern.outline.shape
        return shape[::-1] if self._flipped else shape

    @property
    def format(self) -> str:
        """The order of the entries: "csr" if by rows, "csc" if by columns."""
        return "csc" if self._flipped else "csr"

    @property
    def T(self) -> SparseArray:
        """The transpose.  Moves nothing."""
        return SparseArray(self._pattern, self._entries, not self._flipped)

    def transpose(self) -> SparseArray:
        """Return the transpose.  Moves nothing."""
        return self.T

    @property
    def row_bounds(self) -> tuple[int, ...]:
        """Where each process's rows begin, and the end; of a transposed array, its columns are dealt so."""
        return self._pattern.outline.rows

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<{rows}x{columns} sparse array of {self.dtype}, {self.nnz} entries, {self.format}>"

    # --------------------------------------------------------------------------- evaluation

    def local(self) -> scipy.sparse.csr_array:
        """Return this process's rows as scipy's CSR array; of a transposed array, its columns as a CSC array.

        The rows are those from `row_bounds[pid]` to `row_bounds[pid + 1]`.  Collective if the entries are lazy.
        """
        pattern = self.pattern
        shape = (pattern.rows, pattern.outline.shape[1])
        found = scipy.sparse.csr_array((self._own(), pattern.indices, pattern.indptr), shape=shape, copy=False)
        return found.T if self._flipped else found

    @property
    def pattern(self) -> Pattern:
        """The places of this process's entries, and the exchange of the products; of a transposed array, as stored."""
        self._pattern.has_places()
        return self._pattern

    def _holding(self, node: Node) -> Self:
        return type(self)(self._pattern, node, self._flipped)

    def _own(self) -> Any:
        self._pattern.has_places()
        return super()._own()

    @property
    def _dealt(self) -> Layout:
        return self._pattern.outline.lines["entries"]

    def _coordinates(self) -> tuple[np.ndarray, ...]:
        return self.triples()[:2]

    def _chosen(self, which: np.ndarray) -> Self:
        pattern, outline = self.pattern, self._pattern.outline
        ends = np.concatenate([[0], np.cumsum(which)])[pattern.indptr]
        shape = (pattern.rows, outline.shape[1])
        own = scipy.sparse.csr_array((self._own()[which], pattern.indices[which], ends), shape=shape)
        found = of_rows(own, outline.rows, outline.columns)
        return found.T if self._flipped else found  # type: ignore[return-value]

    def compute(self) -> scipy.sparse.csr_array:
        """Return the whole matrix as scipy's CSR array on every process.  Collective.  Cost: h = 2 nnz + n words."""
        pattern = self.pattern
        pieces = world().private.allgather((np.diff(pattern.indptr), pattern.indices, self._own()))
        indptr = np.concatenate([[0], np.cumsum(np.concatenate([each[0] for each in pieces]))])
        indices = np.concatenate([each[1] for each in pieces])
        data = np.concatenate([each[2] for each in pieces])
        found = scipy.sparse.csr_array((data, indices, indptr), shape=pattern.outline.shape)
        return found.T.tocsr() if self._flipped else found

    def todense(self) -> Array:
        """Return the matrix as a dense array, dealt by rows (of a transposed array, by columns).  Lazy."""
        pattern = self._pattern
        found = wrap(do.applied(do.DENSE, pattern, [self._entries], self.dtype, pattern.outline.shape[1]))
        return found.T if self._flipped else found

    toarray = todense

    def tocsr(self) -> SparseArray:
        """Return the matrix stored by rows; a transposed one is dealt anew.  Cost: at most 3 nnz/p words."""
        if not self._flipped:
            return self
        from bsp.arrays.sparse.creation import of_triples

        rows, columns, values = self.triples()
        outline = self._pattern.outline
        return of_triples(world(), rows, columns, values, outline.columns, outline.rows)

    def tocsc(self) -> SparseArray:
        """Return the matrix stored by columns."""
        return self.T.tocsr().T

    def tocoo(self) -> CooArray:
        """Return the array by coordinates, which may have any shape.  Collective: see `as_coo`."""
        from bsp.arrays.sparse.coo import as_coo

        return as_coo(self)

    def triples(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return this process's entries as rows, columns and values.  Collective if the entries are lazy."""
        pattern = self.pattern
        rows = pattern.row_of.astype(np.int64) + pattern.outline.rows[pattern.pid]
        columns = pattern.indices.astype(np.int64)
        return (columns, rows, self._own()) if self._flipped else (rows, columns, self._own())

    def vector(self, x: ArrayLike) -> Array:
        """Return a vector dealt as those that the array multiplies, so that no product has to move it first.

        Collective.  Cost: at most n/p words, S = 1.
        """
        array = asarray(x)
        outline = self._pattern.outline
        if array.shape != self.shape[1:]:
            raise ArrayError(f"vector: shape {array.shape} for an array of shape {self.shape}")
        return wrap(relaid(array._node, outline.lines["rows" if self._flipped else "columns"])).persist()

    # --------------------------------------------------------------------------- arithmetic

    def __matmul__(self, other: Any) -> Any:
        """Return self @ other: with a dense vector or matrix lazy, with a sparse array computed at once."""
        if not isinstance(other, SparseBase) and not scipy.sparse.issparse(other):
            return self._times_dense(other, "@")
        from bsp.arrays.sparse.creation import as_sparse
        from bsp.arrays.sparse.multiply import multiplied

        return multiplied(self, as_sparse(other))

    def dot(
        self, other: SparseBase | ScipyMatrix | ArrayLike, *, add: np.ufunc = np.add,
        multiply: Callable[..., Any] = np.multiply, zero: Scalar | None = None,
    ) -> Any:  # fmt: skip
        """Return self @ other, in any semiring: see `bsp.arrays.sparse.matmul`."""
        semiring = Semiring(add, multiply, zero).checked()
        if semiring.plain:
            return self @ other
        if isinstance(other, SparseBase) or scipy.sparse.issparse(other):
            from bsp.arrays.sparse.creation import as_sparse
            from bsp.arrays.sparse.multiply import multiplied

            return multiplied(self, as_sparse(other), semiring)
        x = self._operand(other, "dot")  # type: ignore[arg-type]
        factors = self._gathered(x, False)
        products = asarray(multiply(self.entries[:, None] if x.ndim == 2 else self.entries, factors))
        dtype = semiring.dtype(products.dtype)
        return self._over((1,), add, semiring.zero_of(dtype), products.astype(dtype))

    def __rmatmul__(self, other: Any) -> Any:
        if scipy.sparse.issparse(other):
            from bsp.arrays.sparse.creation import as_sparse

            return as_sparse(other) @ self
        x = asarray(other)
        found = self.T._times_dense(x.T, "@")
        return found.T

    def _operand(self, other: ArrayLike, sign: str) -> Array:
        """Return the dense second operand of a product."""
        x = asarray(other)
        if x.ndim not in (1, 2) or x.shape[0] != self.shape[1]:
            raise ArrayError(f"{sign}: shapes {self.shape} and {x.shape} do not fit")
        return x

    def _times_dense(self, other: ArrayLike, sign: str) -> Array:
        x = self._operand(other, sign)
        dtype = np.result_type(self.dtype, x.dtype)
        work = do.TRANSPOSED if self._flipped else do.PRODUCT
        return wrap(
            do.applied(work, self._pattern, [self._entries, x._node], dtype, x.shape[1] if x.ndim == 2 else None)
        )

    def _with_sparse(self, other: SparseBase | ScipyMatrix, call: Callable[[Any, Any], Any], sign: str) -> SparseArray:
        from bsp.arrays.sparse.creation import as_sparse
        from bsp.arrays.sparse.elementwise import combined

        return combined(self, as_sparse(other), call, sign)

    def _at_entries(self, x: Array) -> Array:
        """Return the elements of a dense array, which broadcasts to this shape, at the places of the entries.  Lazy."""
        rows, columns = self.shape
        self._check_fit(x)
        if x.ndim == 1 or x.shape[0] == 1:
            vector, by_row = x.reshape(-1), False
        elif x.shape[1] == 1:
            vector, by_row = x.reshape(-1), True
        else:
            stored = x.T if self._flipped else x
            wide = stored.shape[1]
            return wrap(do.applied(do.AT_ENTRIES, self._pattern, [stored._node], x.dtype, wide, flat=True))
        if vector.shape[0] == 1 and (rows if by_row else columns) != 1:
            return vector
        return self._gathered(vector, by_row)

    def _gathered(self, x: Array, by_row: bool) -> Array:
        """Return the elements of a vector, or the rows of a matrix, at the rows or columns of the entries.  Lazy."""
        work = do.AT_ROWS if by_row != self._flipped else do.AT_COLUMNS
        return wrap(do.applied(work, self._pattern, [x._node], x.dtype, x.shape[1] if x.ndim == 2 else None))

    def _along(self, axes: tuple[int, ...], x: Array) -> Array:
        if len(axes) == 1:
            return self._gathered(x, axes == (0,))
        return self._at_entries(x if axes == (0, 1) else x.T)

    def _has_places_of(self, other: SparseBase) -> bool:
        return (
            isinstance(other, SparseArray) and self._flipped == other._flipped
            and self.pattern.outline is other.pattern.outline
        )  # fmt: skip

    # --------------------------------------------------------------------------- reductions

    def _over(self, axes: tuple[int, ...], ufunc: np.ufunc, empty: Any, entries: Array) -> Array:
        """Return the entries of each column (axis 0) or row combined by a ufunc; `empty` where there are none.

        Cost: over what the rows are dealt by none; over the other axis one word for each far column.
        """
        along_rows = (axes == (1,)) != self._flipped  # rows of what is stored
        work = do.combining(ufunc, empty, "rows" if along_rows else "columns")
        wide = entries.shape[1] if entries.ndim == 2 else None
        return wrap(do.applied(work, self._pattern, [entries._node], entries.dtype, wide))

    def diagonal(self, k: int = 0) -> Array:
        """Return the elements of a diagonal, as a dense vector.  Lazy.

        k : which: 0 is the main one, those above it have positive numbers, those below negative ones.
        """
        above = -k if self._flipped else k
        rows, columns = self._pattern.outline.shape
        found = wrap(do.applied(do.diagonal(above), self._pattern, [self._entries], self.dtype))
        first = min(max(-above, 0), rows)
        return found[first : max(min(rows, columns - above), first)]

    def trace(self, offset: int = 0) -> Array:
        """Return the sum of a diagonal.  Lazy."""
        return self.diagonal(offset).sum()

    def argmax(self, axis: int | None = None, out: None = None) -> Array:
        """Return the position of the largest element, zeros included, of all in C order, or along an axis.  Collective.

        Of several it is the first; NaN is larger than all.  Computed at once; the result along an axis is dense.
        Raises ValueError if there are no elements.
        Cost: that of `tocsr` to have on one process what is compared; of all elements 2p words, S = 1.
        """
        from bsp.arrays.sparse.extremes import position

        return position(self, self._reduced(axis, out), np.maximum)

    def argmin(self, axis: int | None = None, out: None = None) -> Array:
        """Return the position of the smallest element, zeros included: see `argmax`.  Collective."""
        from bsp.arrays.sparse.extremes import position

        return position(self, self._reduced(axis, out), np.minimum)

    def reshape(self, *shape: int | Sequence[int]) -> SparseArray | CooArray:
        """Return the entries in another shape, in C order; one length may be -1.  Collective.

        Two lengths give a matrix stored by rows, others a `CooArray`.  Cost: as `as_coo`, and `CooArray.tocsr`.
        """
        found = self.tocoo().reshape(*shape)
        return found.tocsr() if found.ndim == 2 else found

    # ------------------------------------------------------------------------------ indexing

    def __getitem__(self, key: Index) -> Any:
        """Return a part of the matrix.  Computed at once; collective.

        Rows and columns are slices, masks, or positions that every process has.  Two integers give a number; an integer
        beside anything else keeps its axis, of length 1.  As in scipy.sparse, two vectors of positions are pairs: they
        give the elements at these, here as a dense vector.  a[np.ix_(rows, columns)] gives the block of all of them.
        Raises IndexError if a position is out of bounds, SyncMismatch if processes give different ones.
        """
        from bsp.arrays.sparse.selection import selected

        return selected(self, key)


def of_rows(rows: Any, bounds: tuple[int, ...], columns: tuple[int, ...]) -> SparseArray:
    """Return the sparse array of which this process's rows are those of scipy's CSR array.  Collective.

    bounds, columns : of all processes' rows, and of the vectors that the array multiplies.
    """
    here = world()
    rows.sum_duplicates()
    small = np.int32 if max(columns[-1], rows.nnz) < 2**31 else np.int64
    indptr, indices = rows.indptr.astype(small, copy=False), rows.indices.astype(small, copy=False)
    pattern, dtype = made(here, bounds, columns, indptr, indices, rows.dtype)
    layout = pattern.outline.lines["entries"]
    at = (here.pid if here.nprocs > 1 else 0,)
    entries = made_of((pattern.outline.entries[-1],), dtype, layout, {at: rows.data.astype(dtype, copy=False)})
    memory.returned(rows.data.nbytes)
    return SparseArray(pattern, entries._node)
