"""Parts of a sparse array: an element, slices, masks, positions of rows or columns, pairs of them, and triangles.

Slices and masks of rows move nothing, and leave each process the rows that it has.  Positions are a product with a
matrix of ones, which brings each row from its owner.  Positions of both axes are pairs, as in NumPy and scipy.sparse;
those that `np.ix_` returns stand for all combinations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from bsp.arrays.array import Array
from bsp.arrays.execution.world import world
from bsp.arrays.sparse.array import SparseArray, of_rows
from bsp.arrays.sparse.base import ScipyMatrix
from bsp.arrays.sparse.creation import as_sparse, columns_like, of_function, of_triples
from bsp.arrays.sparse.indices import positions_of
from bsp.arrays.sparse.multiply import rows_at
from bsp.arrays.sparse.pattern import even
from bsp.arrays.typing import ArrayLike

_ALL = slice(None)


def selected(a: SparseArray, key: Any) -> Any:
    """Return a[key].  Collective."""
    rows: Any
    columns: Any
    rows, columns = key if isinstance(key, tuple) and len(key) == 2 else (key, _ALL)
    if isinstance(key, tuple) and len(key) != 2:
        raise IndexError(f"{len(key)} indices for a matrix")
    if _is_integer(rows) and _is_integer(columns):
        return _element(a, _position(rows, a.shape[0]), _position(columns, a.shape[1]))
    if _is_listed(rows) and _is_listed(columns):
        if np.ndim(rows) != 2 and np.ndim(columns) != 2:
            return _elements(a, rows, columns)
        rows, columns = _open_grid(rows, columns)
    return _rows(_rows(a, rows).T, columns).T


def tril(a: SparseArray | ScipyMatrix | ArrayLike, k: int = 0) -> SparseArray:
    """Return a matrix without the entries above a diagonal.  Computed at once; collective.

    k : the diagonal: 0 is the main one, those above it have positive numbers.
    Cost: nothing moves but counts: at most 6p words, S = 1.
    """
    matrix, above = as_sparse(a), int(k)
    world().note_given([above])
    rows, columns, _ = matrix.triples()
    return matrix._chosen(columns - rows <= above)


def triu(a: SparseArray | ScipyMatrix | ArrayLike, k: int = 0) -> SparseArray:
    """Return a matrix without the entries below a diagonal.  Computed at once; collective.

    k : the diagonal: 0 is the main one, those above it have positive numbers.
    Cost: nothing moves but counts: at most 6p words, S = 1.
    """
    return tril(as_sparse(a).T, -k).T


def _is_integer(key: Any) -> bool:
    return isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_))


def _is_listed(key: Any) -> bool:
    """Return whether a key is a mask or positions."""
    return not (_is_integer(key) or isinstance(key, slice) or key is Ellipsis)


def _open_grid(rows: Any, columns: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the two vectors of an open grid, as `np.ix_` makes it of them."""
    found = [np.asarray(key.compute() if hasattr(key, "compute") else key) for key in (rows, columns)]
    if found[0].ndim != 2 or found[1].ndim != 2 or found[0].shape[1] != 1 or found[1].shape[0] != 1:
        raise IndexError(
            f"positions of shapes {found[0].shape} and {found[1].shape}: two vectors for pairs, or "
            "np.ix_(rows, columns) for a block"
        )
    return found[0][:, 0], found[1][0]


def _position(key: Any, length: int) -> int:
    found = int(key)
    if not -length <= found < length:
        raise IndexError(f"index {found} is out of bounds for length {length}")
    return found % length


def _element(a: SparseArray, row: int, column: int) -> Any:
    """Return one element on every process.  Cost: p words, S = 1."""
    world().note_given([row, column])
    rows, columns, values = a.triples()
    found = values[(rows == row) & (columns == column)]
    given = [each for (each,) in world().told(list(found)) if each]
    return given[0][0] if given else a.dtype.type(0)


def _elements(a: SparseArray, rows: Any, columns: Any) -> Array:
    """Return the elements at pairs of positions, as a dense vector.

    Cost: three words for each element that moves to the process that has its place in the result; S = 2.
    """
    at = [positions_of(key, n, f"{what} of a sparse array")
          for key, n, what in zip((rows, columns), a.shape, ("rows", "columns"), strict=True)]  # fmt: skip
    if len(at[0]) != len(at[1]) and 1 not in (len(at[0]), len(at[1])):
        raise IndexError(
            f"{len(at[0])} rows and {len(at[1])} columns do not pair; "
            "a[np.ix_(rows, columns)] is the block of all of them"
        )
    world().note_given(at)
    by, along = np.broadcast_arrays(*(at[::-1] if a._flipped else at))  # positions of stored rows, and in them
    here, stored = world(), a.T if a._flipped else a
    low, high = (int(each) for each in stored._pattern.outline.rows[here.pid : here.pid + 2])
    own = np.flatnonzero((by >= low) & (by < high))
    local = stored.local()  # collective
    values = local[by[own] - low, along[own]] if len(own) else np.zeros(0, a.dtype)  # scipy's of no pairs is sparse
    bounds = even(len(by), here.nprocs)
    zeros = np.zeros(len(own), np.int64)
    return of_triples(here, own, zeros, values, bounds, columns_like(bounds, (len(by), 1))).todense().reshape(-1)


def _rows(a: SparseArray, key: Any) -> SparseArray:
    """Return the rows of an array at a slice, a mask, positions, or one position."""
    length = a.shape[0]
    if key is Ellipsis:
        return a
    if isinstance(key, slice):
        if key == _ALL:
            return a
        chosen = np.arange(length)[key]
    elif _is_integer(key):
        chosen = np.array([_position(key, length)])
    else:
        chosen = positions_of(key, length, "rows of a sparse array")
    world().note_given([chosen])
    if (np.diff(chosen) > 0).all():
        return _kept_columns(a.T, chosen).T if a._flipped else _kept_rows(a, chosen)
    ones = of_function((len(chosen), length), lambda low, high: _ones(chosen[low:high], length, a.dtype))
    return rows_at(ones, a)


def _ones(at: np.ndarray, length: int, dtype: Any) -> Any:
    return scipy.sparse.csr_array((np.ones(len(at), dtype), at, np.arange(len(at) + 1)), shape=(len(at), length))


def _kept_rows(a: SparseArray, chosen: np.ndarray) -> SparseArray:
    """Return the rows at ascending positions of an array stored by rows, which stay where they are."""
    outline, pid = a._pattern.outline, a._pattern.pid
    cuts = tuple(int(cut) for cut in np.searchsorted(chosen, outline.rows))
    own = a.local()[chosen[cuts[pid] : cuts[pid + 1]] - outline.rows[pid]]
    return of_rows(own, cuts, outline.columns)


def _kept_columns(a: SparseArray, chosen: np.ndarray) -> SparseArray:
    """Return the columns at ascending positions of an array stored by rows, which stay where they are."""
    outline = a._pattern.outline
    cuts = tuple(int(cut) for cut in np.searchsorted(chosen, outline.columns))
    return of_rows(a.local()[:, chosen], outline.rows, cuts)
