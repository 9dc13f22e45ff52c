"""What people pass as X: this process's rows of it as numbers, where all processes' rows begin, and its names.

Arrays of NumPy, lists, scipy's sparse matrices and data frames are whole and the same on every process, which takes
its rows of them; arrays of `bsp.arrays` are used where their blocks of rows lie; of a file each process reads its own.
Messages are worded as scikit-learn's where its users know them.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.glm.conventions import column_vector
from bsp.algorithms.glm.data.table import TABLES, Table, frame_table, is_frame, read_table
from bsp.algorithms.glm.errors import DataError
from bsp.arrays import build
from bsp.arrays.array import Array
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.layout import Layout
from bsp.arrays.files.agreement import in_layout, slabs
from bsp.arrays.files.formats import load
from bsp.arrays.procedures.operands import bounds_of, computed, known, layout_at, line_layout
from bsp.values.payload import cuts_of, is_abstract


class Matrix(NamedTuple):
    """This process's rows of X, not yet looked at: of any dtype, or sparse."""

    values: Any
    bounds: np.ndarray  # where the rows of each process begin, p + 1 positions
    shape: tuple[int, int]  # of the whole


def is_path(value: Any) -> bool:
    """Whether it names a file."""
    return isinstance(value, (str, os.PathLike))


def opened(X: Any) -> Any:
    """A file or data frame as a table, or an array; anything else as it is.

    A file is a table if it ends in .csv, .txt, .tsv (or one of these and .gz, .bz2, .xz) or .parquet; else what
    `bsp.arrays.load` reads: .npy, HDF5, Zarr.
    """
    if is_frame(X):
        return frame_table(X)
    if not is_path(X):
        return X
    name = os.fspath(X)
    for ending in (".gz", ".bz2", ".xz"):
        name = name.removesuffix(ending)
    if name.endswith(TABLES):
        return read_table(X)
    return load(X)


def matrix_of(X: Any) -> Matrix:
    """This process's rows of a matrix.

    Cost: nothing; one total exchange of an array of `bsp.arrays` that is not laid out in blocks of rows.
    Raises DataError, or TypeError, if it has other than two dimensions, no rows or no columns.
    """
    here = world()
    if isinstance(X, Array):
        _check_shape(X.shape)
        values, bounds = _row_blocks(X)
        return Matrix(values, bounds, (X.shape[0], X.shape[1]))
    whole = whole_matrix(X)
    bounds = np.array(cuts_of(whole.shape[0], here.nprocs))
    return Matrix(whole[bounds[here.pid] : bounds[here.pid + 1]], bounds, whole.shape)


def whole_matrix(X: Any) -> Any:
    """An array, or a CSR matrix, of what has two dimensions, at least one row and one column."""
    if is_sparse(X):
        found = X.tocsr()
        if found.dtype.kind == "c":
            raise DataError("Complex data not supported")
    elif is_abstract(X):
        found = X
    else:
        found = np.asarray(X)
        if found.dtype.kind == "c":
            raise DataError("Complex data not supported")
    _check_shape(found.shape)
    return found


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
    """This process's rows of an array whose rows lie in pid order, and the bounds of all."""
    here = world()
    (node,) = computed(X._node)
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
    """Float64 in C order, or CSR of them: the same memory if it is that already.

    Raises DataError if they are complex, or with `finite` missing or infinite; TypeError or ValueError if they are no
    numbers.
    """
    if is_abstract(values):
        return values
    if is_sparse(values):
        return values.astype(np.float64)
    if values.dtype.kind in "SU":
        raise DataError(f"{what} has texts; it needs numbers (texts are coded in columns of files and data frames)")
    found = np.ascontiguousarray(values, np.float64)
    if finite:
        check_finite(found, what)
    return found


def check_finite(values: np.ndarray, what: str) -> None:
    """DataError if a number is missing or infinite."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.sum(values)) or np.isfinite(values).all():
            return
    kind = "NaN." if np.isnan(values).any() else "infinity or a value too large for dtype('float64')."
    raise DataError(f"Input {what} contains {kind}")


def vector_of(value: Any, bounds: np.ndarray, what: str) -> Any:
    """This process's part of a vector with an element for each row; of any dtype.

    Cost: nothing; one total exchange of an array of `bsp.arrays` whose elements lie elsewhere than the rows.
    """
    here = world()
    n, own = int(bounds[-1]), slice(bounds[here.pid], bounds[here.pid + 1])
    if is_path(value):
        value = load(value)
    if isinstance(value, Array):
        _check_length(value.shape, n, what)
        (node,) = computed(value._node)
        whole = known(node)
        if whole is not None:
            return whole[own]
        (node,) = computed(build.relaid(node, line_layout(bounds.tolist())))
        block = node.value.get((here.pid,))
        return here.empty((0,), node.kind.dtype) if block is None else block
    found = value if is_abstract(value) else np.asarray(value)
    if found.ndim == 2 and found.shape[1] == 1 and what == "y":
        found = column_vector(found)
    _check_length(found.shape, n, what)
    return found[own]


def _check_length(shape: tuple[int, ...], n: int, what: str) -> None:
    if len(shape) != 1:
        raise DataError(f"{what} should be a 1d array, got an array of shape {tuple(shape)} instead.")
    if shape[0] != n:
        raise DataError(f"Found input variables with inconsistent numbers of samples: {[n, shape[0]]} (X, {what})")


def part_of(table: Table, name: str, kept: Any = slice(None)) -> np.ndarray:
    """The kept values of a column; texts as themselves."""
    values = table.vector(name)[kept]
    levels = table.levels[table.column(name)]
    found: np.ndarray = values if levels is None else np.array(levels)[values]
    return found


def is_sparse(value: Any) -> bool:
    """Whether it is one of scipy's sparse matrices: there is none before scipy.sparse is imported."""
    scipy_sparse = sys.modules.get("scipy.sparse")
    return scipy_sparse is not None and scipy_sparse.issparse(value)
