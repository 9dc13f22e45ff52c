"""Square matrices whose entries are dealt by two-dimensional blocks.

Processes form a grid.  Of a matrix that is dealt by rows, a process may need elements from all others, and on an
expander or a power-law graph it does: h is up to n - n/p.  Here it has the entries whose row belongs to a process of
its row of the grid and whose column to one of its column.  So it needs elements from its column of the grid only, and
gives sums to its row only: h is at most 2n/√p, with 2(√p - 1) messages.  Any partition of the positions will do
(Boman, Devine and Rajamanickam 2013).

The matrix is kept as two sparse arrays with the same rows, which are those of each process's block, numbered process
by process: `spread` has the entries, `fold` has one 1 in each row, in the column of the row that it is a part of.  The
matrix is fold.T @ spread, its transpose spread.T @ fold, and a product is two products of sparse arrays and vectors.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

from bsp.arrays.array import Array
from bsp.arrays.errors import ArrayError
from bsp.arrays.execution.world import World
from bsp.arrays.expressions.graph import DType
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.sparse.array import SparseArray, of_rows
from bsp.arrays.sparse.creation import sent_to
from bsp.arrays.sparse.pattern import Bounds

if TYPE_CHECKING:
    from bsp.arrays.typing import ArrayLike


class GridMatrix:
    """A square matrix dealt by two-dimensional blocks: see `Partition.grid`.

    shape, dtype, nnz, T: as in scipy.sparse.  Products with vectors and dense matrices are lazy, and take two
    supersteps.  Solvers of `bsp.algorithms.krylov` take it as they take a sparse array.
    """

    def __init__(self, spread: SparseArray, fold: SparseArray) -> None:
        self._spread = spread
        self._fold = fold

    def __repr__(self) -> str:
        rows, columns = self.shape
        return f"<{rows}x{columns} sparse array of {self.dtype}, {self.nnz} entries, dealt by blocks>"

    @property
    def shape(self) -> Shape:
        """The numbers of rows and columns."""
        return self._fold.shape[1], self._spread.shape[1]

    @property
    def dtype(self) -> DType:
        """The element type."""
        return np.result_type(self._spread.dtype, self._fold.dtype)

    @property
    def nnz(self) -> int:
        """The number of stored entries, over all processes."""
        return max(self._spread.nnz, self._fold.nnz)

    @property
    def T(self) -> GridMatrix:
        """The transpose.  Moves nothing."""
        return GridMatrix(self._fold, self._spread)

    def vector(self, x: ArrayLike) -> Array:
        """Return a vector dealt as those that the matrix multiplies.  Collective.  Cost: at most n/p words, S = 1."""
        return self._spread.vector(x)

    def __matmul__(self, other: ArrayLike) -> Array:
        """Return the product with a vector, or the columns of a matrix.  Lazy.  Cost: H = at most 2n/√p, S = 2."""
        found: Array = self._fold.T @ (self._spread @ other)
        return found


def grid_shape(counts: Sequence[int] | None, nprocs: int) -> tuple[int, int]:
    """Return the rows and columns of a grid of processes, checked; None stands for the squarest grid."""
    if counts is None:
        columns = next(each for each in range(isqrt(nprocs), 0, -1) if nprocs % each == 0)
        return nprocs // columns, columns
    found = tuple(int(each) for each in counts)
    if len(found) != 2 or min(found) < 1 or found[0] * found[1] != nprocs:
        raise ArrayError(f"a grid of {' x '.join(map(str, found))} processes; there are {nprocs}")
    return found


def holder_of(row_owner: np.ndarray, column_owner: np.ndarray, columns: int) -> np.ndarray:
    """Return the process of each entry in a grid with so many columns, from the processes of its row and its column."""
    return np.asarray(row_owner // columns * columns + column_owner % columns)


def dealt_by_blocks(here: World, a: SparseArray, bounds: Bounds, counts: tuple[int, int]) -> GridMatrix:
    """Return a matrix, in the order of a partition with these bounds, dealt by blocks.  Collective, S = 6."""
    rows, columns, values = a.triples()
    row_owner, column_owner = (np.searchsorted(bounds, each, side="right") - 1 for each in (rows, columns))
    holder = holder_of(row_owner, column_owner, counts[1])
    rows, columns, values = sent_to(here, holder, rows, columns, values, bounds[-1])
    own, numbered = np.unique(rows, return_inverse=True)
    ends = np.cumsum([0, *here.private.allgather(len(own))])
    parts: Bounds = tuple(int(each) for each in ends)
    shape = (len(own), bounds[-1])
    spread = scipy.sparse.coo_array((values, (numbered, columns)), shape=shape).tocsr()
    ones = np.ones(len(own), values.dtype)
    fold = scipy.sparse.csr_array((ones, own, np.arange(len(own) + 1)), shape=shape)
    return GridMatrix(of_rows(spread, parts, bounds), of_rows(fold, parts, bounds))
