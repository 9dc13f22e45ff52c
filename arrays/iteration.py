"""Iteration over an array's first axis: values are read ahead in pieces, so that supersteps are few.

1. Of a vector come NumPy's scalars.  A piece of it is brought to every process before the first of its elements is
   given: at most PIECE_BYTES, and at least one element, in one gather.  A lazy array is computed once before.
2. Of any other array come rows: views, as in NumPy.  What is written through a row shows in the array.  They are lazy:
   a loop that takes no values ends no superstep.  When the values of a row are asked for, those of the rows around it
   come along, in a piece as above, and theirs then cost nothing.  Rows of more than REPLICATED_SIZE elements, which
   would be dealt as arrays of their own, come alone.
3. A change of the array during the iteration is seen from the next element on, as in NumPy: what was read ahead is read
   again.  From then on 1, 2, 4, ... elements or rows are read at once, so that a loop that changes the array in each
   round fetches no more than it uses.
4. Iteration is collective.  Processes that leave a loop early in different pieces no longer take the same supersteps:
   SyncMismatch at the next one.  All leave after the same element, or none leaves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bsp.arrays.expressions.graph import LEAF, Node
from bsp.arrays.expressions.layout import REPLICATED_SIZE, replicated
from bsp.values.payload import is_abstract

if TYPE_CHECKING:
    from bsp.arrays.array import Array

PIECE_BYTES = 1 << 20  # of a piece that is read ahead; 131072 numbers


def iterate(array: Array) -> Iterator[Any]:
    """Return an iterator over the scalars of a vector or the rows of an array.

    Raises TypeError here and now for an array of no axes.  Collective, see the module.
    """
    if not array.ndim:
        raise TypeError("iteration over a 0-d array")
    return _scalars(array) if array.ndim == 1 else _rows(array)


def _scalars(array: Array) -> Iterator[Any]:
    pieces = _Pieces(array)
    k = 0
    while k < array.shape[0]:
        yield pieces.part(k)
        k += 1


def _rows(array: Array) -> Iterator[Array]:
    pieces = _Pieces(array)
    k = 0
    while k < array.shape[0]:
        row = array[k]
        if row.size <= REPLICATED_SIZE:
            row._ahead = Ahead(pieces, k, row._node, array._node)
        yield row
        k += 1


class _Pieces:
    """Parts of an array's first axis on every process, one piece at a time."""

    __slots__ = ("array", "count", "most", "node", "piece", "start", "stop")

    def __init__(self, array: Array) -> None:
        self.array = array
        width = array.nbytes // max(array.shape[0], 1)
        self.most = self.count = max(1, PIECE_BYTES // max(width, 1))
        self.start = self.stop = 0
        self.node: Node | None = None  # what the piece is of
        self.piece: Any = None

    def part(self, k: int) -> Any:
        """Return part k; a collective if it is not in the piece, or the array was changed since."""
        changed = self.node is not None and self.array._node is not self.node
        if changed or not self.start <= k < self.stop:
            self.count = 1 if changed else min(2 * self.count, self.most)
            self.start = k - k % self.count
            self.stop = min(self.start + self.count, self.array.shape[0])
            self._fetch()
        return self.piece[k - self.start]

    def _fetch(self) -> None:
        array, whole = self.array, self.stop - self.start == self.array.shape[0]
        if array._node.op is not LEAF and not whole:
            array.persist()
        node = self.node = array._node
        if node.op is LEAF and node.layout is not None and node.layout.replicated and node.layout.blocks == 1:
            (values,) = node.value.values()  # they are there: no superstep
            self.piece = values[self.start : self.stop]
        else:
            self.piece = (array if whole else array[self.start : self.stop]).compute()


class Ahead:
    """Where the values of a row come from, that an iteration has given: from a piece, with those of its neighbours."""

    __slots__ = ("_base", "_given", "_k", "_pieces")

    def __init__(self, pieces: _Pieces, k: int, node: Node, base: Node) -> None:
        self._pieces: _Pieces | None = pieces
        self._k = k
        self._given = node  # of the row, and of the array, when the row was given
        self._base = base

    def values(self, row: Array) -> Any:
        """Return the values of the row, which become its blocks; None if the row or the array was changed since."""
        node, pieces = self._given, self._pieces
        if row._node is not node:
            return None
        if pieces is not None:
            if node.op is LEAF or pieces.array._node is not self._base:
                return None
            part = pieces.part(self._k)
            block = part if is_abstract(part) else part.copy()
            node.become(replicated(row.shape), {(0,) * row.ndim: block})
            self._pieces = None
        (block,) = node.value.values()
        return block
