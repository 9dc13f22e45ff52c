"""Semirings: sums and products of other kinds, of which absent entries are the zero.

A semiring has an `add`, which combines the entries of a row and has a zero, and a `multiply`.  Shortest paths are the
products of (minimum, add), reachability those of (logical_or, logical_and), widest paths those of (maximum, minimum).
The zero is the identity of `add`, and the product of a zero and anything is a zero: so absent entries never count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from bsp.abstract.work import counter
from bsp.arrays.compiled import rows_times_rows
from bsp.arrays.errors import ArrayError
from bsp.arrays.expressions.graph import DType

_PRODUCTS = 1 << 20  # products of entries that are in memory at a time, of more than one row


class Semiring(NamedTuple):
    """A way to combine products, and to make them.

    add : an associative and commutative ufunc.
    multiply : takes an entry of the first and one of the second operand: a ufunc, or any function of arrays.
    zero : the identity of `add`; None: as it is known of NumPy's ufuncs.
    """

    add: np.ufunc = np.add
    multiply: Callable[..., Any] = np.multiply
    zero: Any = None

    @property
    def plain(self) -> bool:
        """Whether it is the semiring of numbers."""
        return self.add is np.add and self.multiply is np.multiply

    def checked(self) -> Semiring:
        """Return the semiring; ArrayError if it is none."""
        if not isinstance(self.add, np.ufunc) or (self.add.nin, self.add.nout) != (2, 1):
            raise ArrayError(f"add={self.add!r}: a ufunc of two operands, such as numpy.minimum")
        if not callable(self.multiply):
            raise ArrayError(f"multiply={self.multiply!r}: a function of two operands, such as numpy.add")
        return self

    def turned(self) -> Semiring:
        """Return the semiring whose products take their operands in the other order."""
        if isinstance(self.multiply, np.ufunc) and self.multiply in _COMMUTATIVE:
            return self
        return self._replace(multiply=lambda first, second: self.multiply(second, first))

    def dtype(self, products: DType) -> DType:
        """Return the element type of sums of products of a type."""
        found = self.add.resolve_dtypes((products, products, None))[-1]
        return np.dtype(found)

    def zero_of(self, dtype: DType) -> Any:
        """Return the identity of `add` in an element type."""
        if self.zero is not None:
            return dtype.type(self.zero)
        if self.add in _LARGEST or self.add in _LEAST:
            return extremes(dtype)[self.add in _LARGEST]
        if self.add.identity is None:
            raise ArrayError(f"add=numpy.{self.add.__name__} has no identity that NumPy knows: give zero=")
        return np.array(self.add.identity).astype(dtype)[()]  # that of bitwise_and is -1, also of unsigned integers


PLAIN = Semiring()
_COMMUTATIVE = (np.multiply, np.add, np.minimum, np.maximum, np.logical_and, np.logical_or)
_LARGEST, _LEAST = (np.minimum, np.fmin), (np.maximum, np.fmax)  # by which end of a type is their identity


def extremes(dtype: DType) -> tuple[Any, Any]:
    """Return the least and the largest value of an element type."""
    if dtype.kind == "b":
        return np.False_, np.True_
    if dtype.kind in "iu":
        return dtype.type(np.iinfo(dtype).min), dtype.type(np.iinfo(dtype).max)
    if dtype.kind != "f":
        raise ArrayError(f"{dtype} has no least and largest value: give zero=")
    return dtype.type(-np.inf), dtype.type(np.inf)


def combined_triples(
    rows: np.ndarray, columns: np.ndarray, values: np.ndarray, shape: tuple[int, int], add: np.ufunc
) -> scipy.sparse.csr_array:
    """Return triples as scipy's CSR array; duplicates are combined by `add`, in the order in which they are given."""
    order = np.lexsort((columns, rows))  # stable
    rows, columns = rows[order], columns[order]
    new = np.ones(len(order), bool)
    new[1:] = (rows[1:] != rows[:-1]) | (columns[1:] != columns[:-1])
    begins = np.flatnonzero(new)
    data = add.reduceat(values[order], begins, dtype=values.dtype) if len(begins) else values[order]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows[begins], minlength=shape[0]))])
    return scipy.sparse.csr_array((data, columns[begins], indptr), shape=shape)


def product_of(left: Any, right: Any, semiring: Semiring) -> scipy.sparse.csr_array:
    """Return left @ right, of scipy's CSR arrays, in a semiring.

    The products of some rows' entries are made at a time, ordered by their places, and combined.
    """
    if semiring.plain:
        counter.flops("elementwise", 2.0 * float(np.diff(right.indptr)[left.indices].sum()))
        return _plain(left, right)
    parts = [_rows_of(left, right, low, high, semiring) for low, high in _pieces(left, right)]
    return scipy.sparse.vstack(parts, format="csr") if len(parts) > 1 else parts[0]


def csr(values: np.ndarray, places: np.ndarray, begins: np.ndarray, shape: tuple[int, int]) -> scipy.sparse.csr_array:
    """Return entries as scipy's CSR array.  Its places keep their type if all begins of rows fit into it."""
    if begins[-1] <= np.iinfo(places.dtype).max:
        begins = begins.astype(places.dtype, copy=False)  # else scipy takes the larger type for both
    return scipy.sparse.csr_array((values, places, begins), shape=shape, copy=False)


def _plain(left: Any, right: Any) -> scipy.sparse.csr_array:
    """Return left @ right; the entries of each row are in the order of their columns."""
    shape, value = (left.shape[0], right.shape[1]), np.result_type(left.dtype, right.dtype)
    place = np.result_type(left.indices.dtype, right.indices.dtype)
    first, second = _typed(left, place, value), _typed(right, place, value)
    begins = np.empty(shape[0] + 1, np.int64)
    made = rows_times_rows(*first, *second, shape[1], begins)
    if made is None:
        found = (left @ right).tocsr()
        found.sort_indices()
        return found
    found = csr(np.frombuffer(made[1], value), np.frombuffer(made[0], place), begins, shape)
    found.has_sorted_indices = found.has_canonical_format = True
    return found


def _typed(rows: Any, place: DType, value: DType) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where CSR rows begin, as int64, and the columns and values of their entries, in these types."""
    return (
        np.ascontiguousarray(rows.indptr, np.int64),
        np.ascontiguousarray(rows.indices, place),
        np.ascontiguousarray(rows.data, value),
    )


def _pieces(left: Any, right: Any) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with a bounded number of products, or of one row; an empty one if there are no rows."""
    per = np.concatenate([[0], np.cumsum(np.diff(right.indptr)[left.indices], dtype=np.int64)])
    ends, low = per[left.indptr], 0  # the products up to each row
    while low < left.shape[0] or not low:
        high = int(np.searchsorted(ends, ends[low] + _PRODUCTS, side="right")) - 1
        high = min(max(high, low + 1), left.shape[0])
        yield low, high
        if high == left.shape[0]:
            return
        low = high


def _rows_of(left: Any, right: Any, low: int, high: int, semiring: Semiring) -> scipy.sparse.csr_array:
    first, last = left.indptr[low], left.indptr[high]
    at, begins = left.indices[first:last], right.indptr[:-1]
    counts = np.diff(right.indptr)[at]
    total = int(counts.sum())
    counter.flops("elementwise", 2.0 * total)
    place = np.arange(total) + np.repeat(begins[at] - np.concatenate([[0], np.cumsum(counts)[:-1]])[: len(at)], counts)
    products = semiring.multiply(np.repeat(left.data[first:last], counts), right.data[place])
    rows = np.repeat(np.repeat(np.arange(high - low), np.diff(left.indptr[low : high + 1])), counts)
    values = products.astype(semiring.dtype(products.dtype), copy=False)
    return combined_triples(rows, right.indices[place], values, (high - low, right.shape[1]), semiring.add)
