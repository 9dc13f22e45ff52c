"""Inputs of a fit: this process's rows of X and of vectors, from all that may be passed.

Arrays of NumPy, lists, scipy's sparse matrices and data frames are whole and the same on every process, which takes
its rows of them: `agreed` compares what was noted of them.  Arrays of `bsp.arrays`, dense and sparse, are used where
their rows lie; of a file each process reads its own.
Messages are worded as scikit-learn's where its users know them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from bsp.algorithms.glm.conventions import column_vector
from bsp.algorithms.glm.data.table import Table, frame_table, is_frame, read_table
from bsp.algorithms.glm.errors import DataError
from bsp.arrays.files import Choose, load, table_of
from bsp.arrays.procedures import (
    Array,
    Layout,
    bounds_of,
    computed,
    in_layout,
    known,
    layout_at,
    line_layout,
    node_of,
    relaid,
    slabs,
    world,
)
from bsp.arrays.typing import ArrayLike
from bsp.values.payload import as_array, cuts_of


class SparseMatrix(Protocol):
    """A matrix of scipy.sparse, or of bsp.arrays.sparse."""

    def tocsr(self) -> Any:
        """Return the matrix in compressed rows."""


Rows: TypeAlias = ArrayLike | Table | SparseMatrix | str | os.PathLike[str]  # rows of data, or the path of a file
Column: TypeAlias = ArrayLike | str | Sequence[str]  # one value for each row, or the name of a column


class Matrix(NamedTuple):
    """The rows of X that one process has, unchecked: of any dtype, or sparse."""

    values: Any
    bounds: np.ndarray  # where the rows of each process begin, p + 1 positions
    shape: tuple[int, int]  # of the whole


def is_path(value: Any) -> bool:
    """Return whether a value names a file."""
    return isinstance(value, (str, os.PathLike))


def opened(X: Any, columns: Choose | None = None) -> Any:
    """Open a file or data frame as a table or an array; return anything else as it is.  Collective.

    columns : chooses those that are read of a file that is a table; None: all.
    A file is a table if its format has named columns: .csv, .txt, .tsv (or one of these and .gz, .bz2, .xz), .parquet
    and what `bsp.arrays.files.register` has added; else what `bsp.arrays.load` reads: .npy, HDF5, Zarr.
    """
    if is_frame(X):
        return frame_table(X)
    if not is_path(X):
        return X
    return load(X) if table_of(X) is None else read_table(X, columns=columns)


def matrix_of(X: Any) -> Matrix:
    """Return this process's rows of a matrix.  Collective.

    Cost: nothing; one total exchange of an array of `bsp.arrays` that is not laid out in blocks of rows, or of a
    transposed sparse one.
    Raises DataError, or TypeError, if it has other than two dimensions, no rows or no columns.
    """
    here = world()
    if is_dealt_sparse(X):
        _check_shape(X.shape)
        if X.dtype.kind == "c":
            raise DataError("Complex data not supported")
        rows = X.tocsr()
        return Matrix(rows.local(), np.array(rows.row_bounds), rows.shape)
    if isinstance(X, Array):
        _check_shape(X.shape)
        values, bounds = _row_blocks(X)
        return Matrix(values, bounds, (X.shape[0], X.shape[1]))
    whole = whole_matrix(X)
    here.note_given([whole.indices, whole.data] if is_sparse(whole) else [whole])
    bounds = np.array(cuts_of(whole.shape[0], here.nprocs))
    return Matrix(whole[bounds[here.pid] : bounds[here.pid + 1]], bounds, whole.shape)


def whole_matrix(X: Any) -> Any:
    """Return a whole matrix as an array or CSR matrix.  Raises DataError if it is empty or not 2D."""
    if is_sparse(X):
        found = X.tocsr()
        if found.dtype.kind == "c":
            raise DataError("Complex data not supported")
    else:
        found = unmasked(X, "X")
        if found.dtype.kind == "c":
            raise DataError("Complex data not supported")
    _check_shape(found.shape)
    return found


def unmasked(value: Any, what: str) -> Any:
    """Return a value as an array.  Raises DataError for masked elements, which an array has no place for."""
    if np.ma.is_masked(value):
        raise DataError(f"{what} has masked elements: leave such rows out, or replace them by numbers, .filled(...)")
    return as_array(value)


def _check_shape(shape: tuple[int, ...]) -> None:
    if len(shape) != 2:
        raise DataError(
            f"Expected 2D array, got {len(shape)}D array instead. Reshape your data either using array.reshape(-1, 1) "
            "if your data has a single feature or array.reshape(1, -1) if it contains a single sample."
        )
    for length, what in zip(shape, ("sample", "feature"), strict=True):
        if not length:
            raise DataError(f"Found array with 0 {what}(s) (shape={tuple(shape)}) while a minimum of 1 is required.")


def _row_blocks(X: Array) -> tuple[Any, np.ndarray]:
    """Return this process's rows of an array, brought into pid order, and where the rows of all processes begin."""
    here = world()
    (node,) = computed(node_of(X))
    values = known(node)
    if values is not None:
        bounds = np.array(cuts_of(node.kind.shape[0], here.nprocs))
        return values[bounds[here.pid] : bounds[here.pid + 1]], bounds
    if not _in_rows(layout_at(node)):
        node = in_layout(node, slabs(node.kind.shape, here.nprocs))
    block = node.value.get((here.pid,) + (0,) * (len(node.kind.shape) - 1))
    if block is None:
        block = here.empty((0, *node.kind.shape[1:]), node.kind.dtype)
    return block, bounds_of(layout_at(node), here.nprocs)


def _in_rows(layout: Layout) -> bool:
    first, *others = layout.axes
    in_turn = first.parts == first.deal and (first.deal == 1 or first.stride == 1)
    return layout.table is None and in_turn and all(axis.parts == 1 for axis in others)


def numbers(values: Any, what: str, finite: bool = False) -> Any:
    """Return values as float64 whose rows are in C order, or CSR of them; the same memory if they are that already.

    Raises DataError if they are complex, texts or times, or with `finite` missing or infinite; TypeError or ValueError
    if they are no numbers.
    """
    if is_sparse(values):
        return values.astype(np.float64)
    if values.dtype.kind in "SU":
        raise DataError(f"{what} has texts; it needs numbers (texts are coded in columns of files and data frames)")
    check_no_times(values, what)
    found = as_array(values)
    if found.dtype != np.float64 or found.ndim != 2 or found.strides[1] != found.itemsize:
        found = found.astype(np.float64, order="C", copy=False)
    if finite:
        check_finite(found, what)
    return found


def check_no_times(values: Any, what: str) -> None:
    """Raise DataError for dates and durations, which NumPy would take for numbers of their units."""
    kind = values.dtype
    if kind.kind == "O":
        times = (each.dtype for each in np.ravel(values) if isinstance(each, (np.datetime64, np.timedelta64)))
        kind = next(times, kind)
    if kind.kind in "mM":
        raise DataError(
            f"{what} has {kind}, neither numbers nor texts: divide a duration by a unit, as "
            "np.timedelta64(1, 'D'), and take a date as one since another"
        )


def check_finite(values: np.ndarray, what: str) -> None:
    """Raise DataError if a number is missing or infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(values)) or np.isfinite(values).all():
            return
    kind = "NaN." if np.isnan(values).any() else "infinity or a value too large for dtype('float64')."
    raise DataError(f"Input {what} contains {kind}")


def vector_of(value: Any, bounds: np.ndarray, what: str) -> Any:
    """Return this process's part of a vector with an element for each row, of any dtype.  Collective.

    Cost: nothing; one total exchange of an array of `bsp.arrays` whose elements lie elsewhere than the rows.
    """
    here = world()
    n, own = int(bounds[-1]), slice(bounds[here.pid], bounds[here.pid + 1])
    if is_path(value):
        value = load(value)
    if isinstance(value, Array):
        check_length(value.shape, n, what)
        (node,) = computed(node_of(value))
        whole = known(node)
        if whole is not None:
            return whole[own]
        (node,) = computed(relaid(node, line_layout(bounds.tolist())))
        block = node.value.get((here.pid,))
        return here.empty((0,), node.kind.dtype) if block is None else block
    found = unmasked(value, what)
    if found.ndim == 2 and found.shape[1] == 1 and what == "y":
        found = column_vector(found)
    here.note_given([found])
    check_length(found.shape, n, what)
    return found[own]


def check_length(shape: tuple[int, ...], n: int, what: str) -> None:
    """Raise DataError if an array of this shape is no vector with an element for each of n rows."""
    if len(shape) != 1:
        raise DataError(f"{what} should be a 1d array, got an array of shape {tuple(shape)} instead.")
    if shape[0] != n:
        raise DataError(f"Found input variables with inconsistent numbers of samples: {[n, shape[0]]} (X, {what})")


def check_index(X: Any, vectors: Sequence[Any]) -> None:
    """Raise DataError if a vector of pandas has another index than a data frame X: rows go together by position."""
    if not is_frame(X) or not hasattr(X, "index"):
        return
    for vector in vectors:
        if hasattr(vector, "iloc") and len(vector) == len(X) and not X.index.equals(vector.index):
            name = "" if getattr(vector, "name", None) is None else f" {str(vector.name)!r}"
            raise DataError(
                f"X and the {type(vector).__name__}{name} have different indices, and rows go together by position: "
                "take .loc[X.index] of it, or .to_numpy() if its rows are in X's order"
            )


def part_of(table: Table, name: str, kept: Any = slice(None)) -> np.ndarray:
    """Return the kept values of a column; texts as texts, not as codes, and truth values as these."""
    found: np.ndarray = table.vector(name)[kept]
    levels = table.levels[table.column(name)]
    if levels is not None:
        found = np.array(levels)[found]
    elif name in table.truths and not np.isnan(found).any():
        found = found.astype(bool)
    return found


def is_sparse(value: Any) -> bool:
    """Return whether a value is a sparse matrix of scipy, without importing scipy.sparse: before that there is none."""
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and scipy_sparse.issparse(value)


def is_dealt_sparse(value: Any) -> bool:
    """Return whether a value is a sparse array of `bsp.arrays.sparse`, without importing that."""
    ours = sys.modules.get("bsp.arrays.sparse")
    return ours is not None and isinstance(value, ours.SparseArray)
