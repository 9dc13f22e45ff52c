"""Parts of a sparse array: an element, slices, masks, and rows or columns at positions.

Slices and masks of rows move nothing, and leave each process the rows that it has.  Positions are a product with a
matrix of ones, which brings each row from its owner.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse

from bsp.arrays.execution.world import world
from bsp.arrays.sparse.array import SparseArray, of_rows
from bsp.arrays.sparse.creation import of_function
from bsp.arrays.sparse.indices import positions_of
from bsp.arrays.sparse.multiply import multiplied

_ALL = slice(None)


def selected(a: SparseArray, key: Any) -> Any:
    """Return a[key].  Collective."""
    rows, columns = key if isinstance(key, tuple) and len(key) == 2 else (key, _ALL)
    if isinstance(key, tuple) and len(key) != 2:
        raise IndexError(f"{len(key)} indices for a matrix")
    if _is_integer(rows) and _is_integer(columns):
        return _element(a, _position(rows, a.shape[0]), _position(columns, a.shape[1]))
    return _rows(_rows(a, rows).T, columns).T


def _is_integer(key: Any) -> bool:
    return isinstance(key, (int, np.integer)) and not isinstance(key, (bool, np.bool_))


def _position(key: Any, length: int) -> int:
    found = int(key)
    if not -length <= found < length:
        raise IndexError(f"index {found} is out of bounds for length {length}")
    return found % length


def _element(a: SparseArray, row: int, column: int) -> Any:
    """Return one element on every process.  Cost: p words, S = 1."""
    rows, columns, values = a.triples()
    found = values[(rows == row) & (columns == column)]
    given = [each for each in world().private.allgather(list(found)) if each]
    return given[0][0] if given else a.dtype.type(0)


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
    if (np.diff(chosen) > 0).all():
        return _kept_columns(a.T, chosen).T if a._flipped else _kept_rows(a, chosen)
    ones = of_function((len(chosen), length), lambda low, high: _ones(chosen[low:high], length, a.dtype))
    return multiplied(ones, a)


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
