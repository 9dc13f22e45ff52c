"""Iteration over an array's first axis: values are read ahead in pieces, so that supersteps are few.

1. Iteration over a vector gives NumPy's scalars.  A piece of the vector is brought to every process, in one gather,
   before its first element is given.  A piece has at most PIECE_BYTES, and at least one element.  A lazy array is
   computed once, at the start.
2. Iteration over any other array gives rows.  They are views, as in NumPy: a write through a row is visible in the
   array.  They are lazy: a loop that uses no values ends no superstep.  The first use of a row's values gathers a piece
   of rows around it, as above, and the values of those rows then cost nothing.  Rows of more than REPLICATED_SIZE
   elements, which as arrays of their own would be distributed, are read one by one.
3. A change of the array during the iteration is visible from the next element on, as in NumPy: values that were read
   ahead are read again.  From then on 1, 2, 4, ... elements or rows are read at once, so that a loop that changes the
   array in each round fetches no more than it uses.
4. Iteration is collective.  All processes must leave the loop after the same element.  Processes that leave it in
   different pieces no longer take the same supersteps, and their next one raises SyncMismatch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from bsp.arrays.expressions.graph import LEAF, Node
from bsp.arrays.expressions.layout import REPLICATED_SIZE, replicated

if TYPE_CHECKING:
    from bsp.arrays.array import Array

PIECE_BYTES = 1 << 20  # bytes at most of a piece that is read ahead: 131072 numbers of 8 bytes


def iterate(array: Array) -> Iterator[Any]:
    """Return an iterator over the scalars of a vector or the rows of an array.

    Raises TypeError at the call for an array of no axes.  Collective, see the module.
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
    """The elements or rows of an array on every process, read one piece at a time."""

    __slots__ = ("array", "count", "most", "node", "piece", "start", "stop")

    def __init__(self, array: Array) -> None:
        self.array = array
        width = array.nbytes // max(array.shape[0], 1)
        self.most = self.count = max(1, PIECE_BYTES // max(width, 1))
        self.start = self.stop = 0
        self.node: Node | None = None  # the array's node when the piece was read
        self.piece: Any = None

    def part(self, k: int) -> Any:
        """Return element or row k.  Collective if the piece lacks it, or the array was changed since: reads a piece."""
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
            (values,) = node.value.values()  # every process has the values: no superstep
            self.piece = values[self.start : self.stop].copy()  # a view would keep assignments from writing in place
        else:
            self.piece = (array if whole else array[self.start : self.stop]).compute()


class Ahead:
    """The source of the values of a row that an iteration has given: a piece that it shares with its neighbours."""

    __slots__ = ("_base", "_given", "_k", "_pieces")

    def __init__(self, pieces: _Pieces, k: int, node: Node, base: Node) -> None:
        self._pieces: _Pieces | None = pieces
        self._k = k
        self._given = node  # the node of the row; `_base`: that of the array, when the row was given
        self._base = base

    def values(self, row: Array) -> Any:
        """Return the row's values and keep them as its block; None if the row or the array was changed since."""
        node, pieces = self._given, self._pieces
        if row._node is not node:
            return None
        if pieces is not None:
            if node.op is LEAF or pieces.array._node is not self._base:
                return None
            node.become(replicated(row.shape), {(0,) * row.ndim: pieces.part(self._k).copy()})
            self._pieces = None
        (block,) = node.value.values()
        return block
