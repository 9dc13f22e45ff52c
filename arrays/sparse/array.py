"""The class `SparseArray`: a distributed sparse matrix with scipy.sparse's operators and methods.

A sparse array is a pattern and a vector of its entries, which is an array like any other.  So what keeps the pattern
(A * 2, abs(A), A.T) and what gives dense results (A @ x, A.sum(axis=0), A * x) is lazy, and planned together with dense
arithmetic.  What makes a new pattern (A + B, A @ B, A[rows]) is computed at once, in supersteps of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import scipy.sparse

from bsp.arrays.api.creation import asarray
from bsp.arrays.array import Array, wrap
from bsp.arrays.build import relaid
from bsp.arrays.errors import ArrayError
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import DType, Node
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.planning.plan import Explanation
from bsp.arrays.procedures import computed, made_of
from bsp.arrays.sparse import operations as do
from bsp.arrays.sparse.pattern import Pattern, made, read_only
from bsp.arrays.sparse.semirings import Semiring

if TYPE_CHECKING:
    from bsp.arrays.typing import ArrayLike, DTypeLike, Index, Scalar

_KEEP_ZERO = frozenset((
    "absolute", "negative", "positive", "sqrt", "cbrt", "square", "sin", "tan", "arcsin", "arctan", "sinh", "tanh",
    "arcsinh", "arctanh", "expm1", "log1p", "sign", "floor", "ceil", "trunc", "rint", "conjugate", "deg2rad", "rad2deg",
    "isnan", "isinf", "fabs",
))  # fmt: skip


class ScipyMatrix(Protocol):
    """A matrix of scipy.sparse, of any format."""

    def tocsr(self) -> Any:
        """Return the matrix in compressed rows."""


_OPERATORS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "matmul": "@"}


class SparseArray:
    """A distributed sparse matrix.  `from_coo`, `eye`, `diags` and other functions of this package make them.

    shape, dtype, nnz, T: as in scipy.sparse.  `entries`: the vector of stored values, by rows of the stored matrix.
    """

    __slots__ = ("__weakref__", "_entries", "_flipped", "_pattern")
    __array_priority__ = 1000.0
    ndim = 2

    def __init__(self, pattern: Pattern, entries: Node, flipped: bool = False) -> None:
        self._pattern = pattern
        self._entries = entries
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
    def dtype(self) -> DType:
        """The element type."""
        return self._entries.kind.dtype

    @property
    def nnz(self) -> int:
        """The number of stored entries, over all processes; stored zeros count."""
        return self._pattern.outline.entries[-1]

    @property
    def size(self) -> int:
        """The number of stored entries, as in scipy.sparse."""
        return self.nnz

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
    def entries(self) -> Array:
        """The stored values, as a vector: process by process, each in the order of its rows, then columns."""
        return wrap(self._entries)

    @property
    def row_bounds(self) -> tuple[int, ...]:
        """Where each process's rows begin, and the end; of a transposed array, its columns are dealt so."""
        return self._pattern.outline.rows

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<{rows}x{columns} sparse array of {self.dtype}, {self.nnz} entries, {self.format}>"

    def __len__(self) -> int:
        raise TypeError("sparse array length is ambiguous; use nnz or shape[0]")

    # --------------------------------------------------------------------------- evaluation

    def persist(self) -> SparseArray:
        """Compute the entries and leave them where they are; return the array itself.  Collective."""
        self.entries.persist()
        return self

    def explain(self) -> Explanation:
        """Return the plan that computes the entries, as text.  Local."""
        return self.entries.explain()

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

    def _own(self) -> Any:
        """Return the values of this process's entries.  Collective if they are lazy."""
        self._pattern.has_places()
        (node,) = computed(self._entries)
        return read_only(node.value[(world().pid if world().nprocs > 1 else 0,)])

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

    def triples(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return this process's entries as rows, columns and values.  Collective if the entries are lazy."""
        pattern = self.pattern
        rows = pattern.row_of.astype(np.int64) + pattern.outline.rows[pattern.pid]
        columns = pattern.indices.astype(np.int64)
        return (columns, rows, self._own()) if self._flipped else (rows, columns, self._own())

    def with_entries(self, entries: Array) -> SparseArray:
        """Return an array with the same places and other values, one for each of `entries`.  Lazy."""
        node = asarray(entries)._node
        if node.kind.shape != self._entries.kind.shape:
            raise ArrayError(f"with_entries: {node.kind.shape} values for {self._entries.kind.shape} places")
        return SparseArray(self._pattern, node, self._flipped)

    def vector(self, x: ArrayLike) -> Array:
        """Return a vector dealt as those that the array multiplies, so that no product has to move it first.

        Collective.  Cost: at most n/p words, S = 1.
        """
        array = asarray(x)
        outline = self._pattern.outline
        if array.shape != self.shape[1:]:
            raise ArrayError(f"vector: shape {array.shape} for an array of shape {self.shape}")
        return wrap(relaid(array._node, outline.lines["rows" if self._flipped else "columns"])).persist()

    def copy(self) -> SparseArray:
        """Return the array, which nothing can change."""
        return self

    def astype(self, dtype: DTypeLike) -> SparseArray:
        """Return the array with another element type.  Lazy."""
        return self.with_entries(self.entries.astype(dtype))

    # --------------------------------------------------------------------------- arithmetic

    def __matmul__(self, other: Any) -> Any:
        """Return self @ other: with a dense vector or matrix lazy, with a sparse array computed at once."""
        if isinstance(other, SparseArray):
            from bsp.arrays.sparse.multiply import multiplied

            return multiplied(self, other)
        if scipy.sparse.issparse(other):
            return self @ self._like(other)
        return self._times_dense(other, "@")

    def dot(
        self, other: SparseArray | ScipyMatrix | ArrayLike, *, add: np.ufunc = np.add,
        multiply: Callable[..., Any] = np.multiply, zero: Scalar | None = None,
    ) -> Any:  # fmt: skip
        """Return self @ other, in any semiring: see `bsp.arrays.sparse.matmul`."""
        semiring = Semiring(add, multiply, zero).checked()
        if semiring.plain:
            return self @ other
        if isinstance(other, SparseArray) or scipy.sparse.issparse(other):
            from bsp.arrays.sparse.multiply import multiplied

            return multiplied(self, other if isinstance(other, SparseArray) else self._like(other), semiring)
        x = self._operand(other, "dot")  # type: ignore[arg-type]
        factors = self._gathered(x, False)
        products = asarray(multiply(self.entries[:, None] if x.ndim == 2 else self.entries, factors))
        dtype = semiring.dtype(products.dtype)
        return self._over(1, add, semiring.zero_of(dtype), products.astype(dtype))

    def __rmatmul__(self, other: Any) -> Any:
        if scipy.sparse.issparse(other):
            return self._like(other) @ self
        x = asarray(other)
        found = self.T._times_dense(x.T, "@")
        return found.T

    def _like(self, other: Any) -> SparseArray:
        from bsp.arrays.sparse.creation import from_scipy

        return from_scipy(other)

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

    def _mapped(self, call: Callable[[Array], Array]) -> SparseArray:
        return self.with_entries(call(self.entries))

    def __neg__(self) -> SparseArray:
        return self._mapped(lambda entries: -entries)

    def __pos__(self) -> SparseArray:
        return self

    def __abs__(self) -> SparseArray:
        return self._mapped(abs)

    def conj(self) -> SparseArray:
        """Return the complex conjugate.  Lazy."""
        if self.dtype.kind != "c":
            return self
        return self._mapped(lambda entries: np.conjugate(entries))  # type: ignore[arg-type,return-value]

    def power(self, n: float) -> SparseArray:
        """Return the array with each entry to a power above 0.  Lazy."""
        if not n > 0:
            raise ArrayError(f"power({n}): zeros to a power that is not positive would fill the array")
        return self._mapped(lambda entries: entries**n)

    def multiply(self, other: SparseArray | ScipyMatrix | ArrayLike) -> Any:
        """Return the product of elements; a dense operand broadcasts.  Lazy with numbers and dense arrays."""
        return self._multiplied(other)

    __mul__ = __rmul__ = multiply

    def _multiplied(self, other: Any) -> Any:
        """Return the product of elements: lazy with numbers and dense arrays, which broadcast; else at once."""
        if isinstance(other, SparseArray) or scipy.sparse.issparse(other):
            from bsp.arrays.sparse.elementwise import combined

            other = other if isinstance(other, SparseArray) else self._like(other)
            return combined(self, other, lambda a, b: a.multiply(b), "*")
        x = asarray(other)
        return self._mapped(lambda entries: entries * (other if not x.ndim else self._at_entries(x)))

    def __truediv__(self, other: Any) -> Any:
        if isinstance(other, SparseArray) or scipy.sparse.issparse(other):
            return NotImplemented
        x = asarray(other)
        return self._mapped(lambda entries: entries / (other if not x.ndim else self._at_entries(x)))

    def _at_entries(self, x: Array) -> Array:
        """Return the elements of a dense array, which broadcasts to this shape, at the places of the entries.  Lazy."""
        rows, columns = self.shape
        try:
            fits = np.broadcast_shapes(x.shape, self.shape) == self.shape
        except ValueError:
            fits = False
        if not fits:
            raise ArrayError(f"shapes {self.shape} and {x.shape} do not fit")
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

    def __add__(self, other: Any) -> Any:
        return self._sum_with(other, lambda a, b: a + b, "+")

    def __radd__(self, other: Any) -> Any:
        return self + other

    def __sub__(self, other: Any) -> Any:
        return self._sum_with(other, lambda a, b: a - b, "-")

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def _sum_with(self, other: Any, call: Callable[[Any, Any], Any], sign: str) -> Any:
        if isinstance(other, SparseArray) or scipy.sparse.issparse(other):
            from bsp.arrays.sparse.elementwise import combined

            return combined(self, other if isinstance(other, SparseArray) else self._like(other), call, sign)
        x = asarray(other)
        if not x.ndim and not isinstance(other, Array) and other == 0:
            return self
        if not x.ndim:
            raise ArrayError(f"sparse {sign} a number other than 0 would fill the array: todense() first")
        return call(self.todense(), x)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs:
            return NotImplemented
        if len(inputs) == 1 and ufunc.__name__ in _KEEP_ZERO:
            return self._mapped(lambda entries: ufunc(entries))
        sign = _OPERATORS.get(ufunc.__name__)
        if sign is None:
            raise ArrayError(f"{ufunc.__name__} of a sparse array would fill it or is not known: todense() first")
        first, second = inputs
        if isinstance(first, SparseArray):
            return {"+": first.__add__, "-": first.__sub__, "*": first.__mul__, "/": first.__truediv__,
                    "@": first.__matmul__}[sign](second)  # fmt: skip
        return {"+": self.__radd__, "-": self.__rsub__, "*": self.__rmul__, "@": self.__rmatmul__,
                "/": lambda _: NotImplemented}[sign](first)  # fmt: skip

    @staticmethod
    def __array_comprehension__(text: str, operands: dict[str, Any]) -> Any:
        """Return what a comprehension with sparse operands describes."""
        from bsp.arrays.sparse.comprehended import comprehended

        return comprehended(text, operands)

    # --------------------------------------------------------------------------- reductions

    def sum(self, axis: int | None = None) -> Array:
        """Return the sum of all elements, of each column (axis 0) or of each row (axis 1).  Lazy.

        Cost: over what the rows are dealt by none; over the other axis one word for each far column.
        """
        if axis is None:
            return self.entries.sum()
        dtype = np.add.reduce(np.zeros(1, self.dtype)).dtype
        return self._over(axis, np.add, dtype.type(0), self.entries.astype(dtype))

    def mean(self, axis: int | None = None) -> Array:
        """Return the mean of all elements, zeros included, or of each column or row.  Lazy."""
        count = self.shape[0] * self.shape[1] if axis is None else self.shape[self._axis(axis)]
        return self.sum(axis) / count

    def count_nonzero(self, axis: int | None = None) -> Array:
        """Return the number of entries that are not zero: of all, or of each column or row.  Lazy."""
        return self.with_entries((self.entries != 0).astype(np.int64)).sum(axis)

    def max(self, axis: int | None = None) -> Array:
        """Return the largest element, zeros included: of all, or of each column or row.  Lazy."""
        return self._extreme(axis, np.maximum)

    def min(self, axis: int | None = None) -> Array:
        """Return the smallest element, zeros included: of all, or of each column or row.  Lazy."""
        return self._extreme(axis, np.minimum)

    @staticmethod
    def _axis(axis: int) -> int:
        if axis not in (-2, -1, 0, 1):
            raise ArrayError(f"axis {axis} of a sparse array: 0 or 1")
        return axis % 2

    def _over(self, axis: int, ufunc: np.ufunc, empty: Any, entries: Array) -> Array:
        """Return the entries of each column (axis 0) or row combined by a ufunc; `empty` where there are none."""
        along_rows = (self._axis(axis) == 1) != self._flipped  # rows of what is stored
        work = do.combining(ufunc, empty, "rows" if along_rows else "columns")
        wide = entries.shape[1] if entries.ndim == 2 else None
        return wrap(do.applied(work, self._pattern, [entries._node], entries.dtype, wide))

    def _extreme(self, axis: int | None, ufunc: np.ufunc) -> Array:
        rows, columns = self.shape
        reduce = "max" if ufunc is np.maximum else "min"
        if not rows * columns:
            raise ValueError("zero-size array to reduction operation which has no identity")
        if axis is None:
            found = getattr(self.entries, reduce)() if self.nnz else asarray(self.dtype.type(0))
            return found if self.nnz == rows * columns else ufunc(found, self.dtype.type(0))
        empty = Semiring(ufunc).zero_of(self.dtype)
        found = self._over(axis, ufunc, empty, self.entries)
        counts = self.with_entries(asarray(np.int64(1)) + 0 * self.entries.astype(np.int64)).sum(axis)
        full = counts == self.shape[self._axis(axis)]
        from bsp.arrays.api.choosing import where

        return where(full, found, ufunc(found, self.dtype.type(0)))

    def diagonal(self) -> Array:
        """Return the elements of the main diagonal, as a dense vector.  Lazy."""
        pattern = self._pattern
        length = min(pattern.outline.shape)
        found = wrap(do.applied(do.DIAGONAL, pattern, [self._entries], self.dtype))
        return found[:length]

    def trace(self) -> Array:
        """Return the sum of the main diagonal.  Lazy."""
        return self.diagonal().sum()

    # ------------------------------------------------------------------------------ indexing

    def __getitem__(self, key: Index) -> Any:
        """Return a part of the matrix, as scipy.sparse does, but for slices of two steps.  Computed at once.

        Two integers give a number.  Rows and columns are slices, masks, or positions that every process has.
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
    return SparseArray(pattern, entries._node)
