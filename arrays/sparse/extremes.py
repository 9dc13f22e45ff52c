"""Positions of the largest and the smallest elements of sparse matrices, zeros included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.arrays.api.creation import asarray
from bsp.arrays.array import Array
from bsp.arrays.execution.world import world
from bsp.arrays.procedures import made_of

if TYPE_CHECKING:
    from bsp.arrays.sparse.array import SparseArray


def position(a: SparseArray, axes: tuple[int, ...], extreme: np.ufunc) -> Array:
    """Return the positions of extremes along one axis, or that of all elements in C order.  Collective.

    extreme : np.maximum or np.minimum.
    Raises ValueError if there are no elements along the axes.
    """
    if not all(a.shape[axis] for axis in axes):
        raise ValueError(f"the position of an extreme of no elements: an array of shape {a.shape} along {axes}")
    stored = (a.T if axes == (0,) else a).tocsr()
    rows, here = stored.local(), world()
    columns, best = _in_rows(rows, extreme)
    if len(axes) == 1:
        at = (here.pid if here.nprocs > 1 else 0,)
        return made_of(stored.shape[:1], np.dtype(np.int64), stored.pattern.outline.lines["rows"], {at: columns})
    first = np.argmax if extreme is np.maximum else np.argmin
    mine = []
    if len(best):
        k = int(first(best))
        mine.append((best[k], (stored.row_bounds[here.pid] + k) * a.shape[1] + columns[k]))
    told = [each for some in here.private.allgather(mine) for each in some]
    return asarray(told[first([value for value, _ in told])][1])


def _in_rows(rows: Any, extreme: np.ufunc) -> tuple[np.ndarray, np.ndarray]:
    """Return for each row of scipy's CSR array the first column of its extreme, and the extreme; NaN comes first."""
    count, width, data = np.diff(rows.indptr), rows.shape[1], rows.data
    row, filled = np.repeat(np.arange(len(count)), count), count > 0
    best = np.zeros(len(count), data.dtype)
    if len(data):
        best[filled] = extreme.reduceat(data, rows.indptr[:-1][filled])
    best = np.where(count < width, extreme(best, data.dtype.type(0)), best)
    found = np.full(len(count), width, np.int64)
    hit = (data == best[row]) | (data != data)
    np.minimum.at(found, row[hit], rows.indices[hit])
    # The first column without an entry is that where entries, in ascending order, are not one in each column.
    absent, rank = count.astype(np.int64), np.arange(len(data)) - rows.indptr[row]
    gap = rows.indices != rank
    np.minimum.at(absent, row[gap], rank[gap])
    return np.where((count < width) & (best == 0), np.minimum(found, absent), found), best
