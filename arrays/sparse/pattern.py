"""Patterns: the places of a sparse matrix's entries, dealt to processes by rows, and the exchange of its products.

A sparse array is a pattern and a vector of its entries.  A process has the entries of its own rows, in the order of
rows, then columns.  Vectors that the matrix multiplies are dealt by its columns.  The columns of other processes in
which a process has entries are its *far* columns; the elements there are all that a product moves (McColl, section
1.6.2).  What every process knows of this is an `Outline` and an `FarExchange`, from which plans are made; the indices
themselves stay where they are.

The exchange of a pattern is found once, when a first product needs it.  Each further product moves one word for each
far column and no indices, in one superstep.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
from xxhash import xxh3_64

from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import PARAM, DType, Kind, Node
from bsp.arrays.expressions.layout import Axis, Layout, Shape, layout_of, replicated
from bsp.arrays.procedures import line_layout
from bsp.transport.header import digest

_MOST, _LEAST = 0.5, 4096  # the part of the rows, and their number, from which rows without far columns are apart
_REQUESTS = "far columns of a sparse pattern"

Bounds = tuple[int, ...]  # of consecutive shares: process k has positions bounds[k] to bounds[k + 1]


def read_only(values: Any) -> Any:
    """Return a view of an array that refuses to be written to; an array without values as it is."""
    if not isinstance(values, np.ndarray):
        return values
    found = values.view()
    found.flags.writeable = False
    return found


def even(length: int, nprocs: int) -> Bounds:
    """Return the bounds of shares of equal length, up to one."""
    return tuple(length * k // nprocs for k in range(nprocs + 1))


def line(bounds: Bounds) -> Layout:
    """Return the layout of a vector whose shares have these bounds."""
    return line_layout(bounds) if len(bounds) > 2 else replicated((bounds[-1],))


class Outline:
    """Summary of a pattern that every process has: the shape, and each process's rows, columns and entries."""

    def __init__(self, rows: Bounds, columns: Bounds, entries: Bounds, name: bytes) -> None:
        self.rows = rows
        self.columns = columns
        self.entries = entries
        self.name = name  # of the pattern's places, over all processes
        self.shape: Shape = (rows[-1], columns[-1])

    @cached_property
    def nprocs(self) -> int:
        """The number of processes."""
        return len(self.rows) - 1

    @cached_property
    def lines(self) -> dict[str, Layout]:
        """The layouts of vectors of rows, of columns and of entries."""
        return {"rows": line(self.rows), "columns": line(self.columns), "entries": line(self.entries)}

    @cached_property
    def counts(self) -> np.ndarray:
        """The number of entries on each process."""
        return np.diff(self.entries)

    def __repr__(self) -> str:
        return f"{self.shape[0]}x{self.shape[1]} pattern {self.name.hex()}"

    def __reduce__(self) -> Any:
        return outline_of, (self.rows, self.columns, self.entries, self.name)


class FarExchange:
    """Summary of the words that a product moves, which every process has: how many each sends to each other one.

    source, dest, count : of the pairs that exchange anything, in ascending order of dest, then source.
    """

    def __init__(self, outline: Outline, source: np.ndarray, dest: np.ndarray, count: np.ndarray) -> None:
        self.source, self.dest, self.count = source, dest, count
        self.outline = outline
        self.words = int(count.sum())

    @cached_property
    def packed(self) -> Layout:
        """The layout of all elements that move, where they are sent from: a part for each pair, in their order."""
        cuts = (0, *np.cumsum(self.count).tolist())
        return layout_of((Axis(self.words, len(self.count), cuts=cuts),), False, tuple(self.source.tolist()))

    @cached_property
    def arriving(self) -> Layout:
        """The layout of the same elements where they arrive: by pairs of one receiver, which are in ascending order."""
        per = np.bincount(self.dest, self.count, self.outline.nprocs).astype(int)
        return line((0, *np.cumsum(per).tolist()))

    @cached_property
    def back(self) -> tuple[Layout, Layout, np.ndarray]:
        """The way back, from far columns to their owners, who hold their own contributions beside those of others.

        Returns the layout of the contributions where they are computed, that at the owners, and the number of the
        part of each process's own contribution, followed by the number of each pair's part.
        """
        nprocs = self.outline.nprocs
        owner = np.concatenate([np.arange(nprocs), self.source])  # of the columns
        holder = np.concatenate([np.arange(nprocs), self.dest])
        count = np.concatenate([np.diff(self.outline.columns), self.count])
        order = np.lexsort((holder, np.arange(len(owner)) >= nprocs, owner))
        cuts = (0, *np.cumsum(count[order]).tolist())
        given = layout_of((Axis(cuts[-1], len(order), cuts=cuts),), False, tuple(holder[order].tolist()))
        per = np.bincount(owner, count, nprocs).astype(int)
        part = np.empty(len(order), np.int64)
        part[order] = np.arange(len(order))
        return given, line((0, *np.cumsum(per).tolist())), part

    def traffic(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the words that each process sends and receives in a product with a vector."""
        nprocs = self.outline.nprocs
        return tuple(np.bincount(end, self.count, nprocs).astype(np.int64) for end in (self.source, self.dest))  # type: ignore[return-value]


_outlines: WeakValueDictionary[Any, Outline] = WeakValueDictionary()  # all that are in use, shared by processes
_exchanges: WeakValueDictionary[Any, FarExchange] = WeakValueDictionary()


class Far:
    """Ends that a process has of its pattern's exchange.

    needed : the far columns, ascending.
    served : the positions, in this process's share of the columns, of the elements that it sends, for each pair in
        which it is the source, in the order of the pairs.
    """

    def __init__(self, exchange: FarExchange, needed: np.ndarray, served: np.ndarray, pid: int) -> None:
        self.exchange = exchange
        self.needed = needed
        self.served = served
        self.sends = np.flatnonzero(exchange.source == pid).tolist()  # numbers of the pairs
        self.receives = np.flatnonzero(exchange.dest == pid).tolist()
        self.sent = [0, *np.cumsum(exchange.count[self.sends]).tolist()]
        self.received = [0, *np.cumsum(exchange.count[self.receives]).tolist()]


PATTERN = Kind((), np.dtype(bool), Sequence)  # of the parameter by which a plan's kernels get a process's pattern


class Pattern:
    """The places of this process's entries: the rows and columns in the manner of CSR.

    indptr : where each own row begins among the entries, and the end.
    indices : the column of each entry; ascending in each row, each at most once.
    """

    def __init__(self, outline: Outline, indptr: np.ndarray, indices: np.ndarray, pid: int) -> None:
        self.outline = outline
        self.indptr: np.ndarray = read_only(indptr)
        self.indices: np.ndarray = read_only(indices)
        self.pid = pid
        self.first, self.stop = outline.columns[pid], outline.columns[pid + 1]  # of the own columns
        self._far: Far | None = None
        self.node = Node(PARAM, (), PATTERN)
        self.node.value = self

    def __repr__(self) -> str:
        return repr(self.outline)

    def __reduce__(self) -> Any:
        return _restored, (self.outline, self.indptr, self.indices, self.pid, self._far and _kept(self._far))

    def has_places(self) -> None:
        """Raise ArrayError if the pattern is a model, of which only numbers are known."""

    @property
    def rows(self) -> int:
        """The number of own rows."""
        return len(self.indptr) - 1

    @cached_property
    def row_of(self) -> np.ndarray:
        """The own row of each entry."""
        return np.repeat(np.arange(self.rows, dtype=self.indices.dtype), np.diff(self.indptr))

    @property
    def far(self) -> Far:
        """The ends of the exchange; the first call is a collective.

        Cost: one word for each far column and at most p words for the counts, in two supersteps.
        """
        if self._far is None:
            self._far = _found(self, world())
        return self._far

    @cached_property
    def compact(self) -> np.ndarray:
        """The columns of the entries, numbered on this process: the own ones first, then the far ones."""
        own = (self.indices >= self.first) & (self.indices < self.stop)
        if own.all():
            return self.indices - self.indices.dtype.type(self.first) if self.first else self.indices
        needed, count = self.far.needed, self.stop - self.first
        if self.outline.shape[1] > len(self.indices):
            far = count + np.searchsorted(needed, self.indices)
            return np.where(own, self.indices - self.first, far).astype(self.indices.dtype)
        number = np.empty(self.outline.shape[1], self.indices.dtype)  # a table is smaller than the entries, and faster
        number[self.first : self.stop], number[needed] = np.arange(count), np.arange(count, count + len(needed))
        return np.asarray(number[self.indices])

    @cached_property
    def inner(self) -> tuple[int, int, np.ndarray, np.ndarray] | None:
        """The longest range of rows without far columns, if it is most of the rows: start and end, columns, touched.

        touched : the own columns in which the other rows have entries.
        columns : of each entry of the other rows, its number among `touched`, followed by the far columns.
        """
        own = self.stop - self.first
        (far,) = np.nonzero(self.compact >= own)
        ends = np.concatenate([[-1], np.unique(np.searchsorted(self.indptr, far, side="right") - 1), [self.rows]])
        longest = int(np.diff(ends).argmax())
        low, high = int(ends[longest]) + 1, int(ends[longest + 1])
        if high - low < max(_MOST * self.rows, _LEAST):
            return None
        outside = np.ones(len(self.compact), bool)
        outside[self.indptr[low] : self.indptr[high]] = False
        at = self.compact[outside]
        touched = np.unique(at[at < own])
        columns = np.zeros(len(self.compact), self.compact.dtype)  # memory that is never touched costs nothing
        columns[outside] = np.where(at < own, np.searchsorted(touched, at), len(touched) + at - own)
        return low, high, columns, touched

    @cached_property
    def by_column(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The entries in the order of compact columns: their numbers, where columns begin among them, those columns."""
        order = np.argsort(self.compact, kind="stable")
        at = self.compact[order]
        begins = np.flatnonzero(np.concatenate([np.ones(min(1, len(at)), bool), at[1:] != at[:-1]]))
        return order, begins, at[begins]

    @property
    def width(self) -> int:
        """The number of compact columns."""
        return self.stop - self.first + len(self.far.needed)


def made(
    here: World, rows: Bounds, columns: Bounds, indptr: np.ndarray, indices: np.ndarray, dtype: DType
) -> tuple[Pattern, DType]:
    """Return the pattern of all processes' own rows, and the element type of all their entries.  Collective.

    dtype : of this process's entries; processes without entries have no say in the result.
    Cost: p words, one superstep; with clones, checkpoints and `--check` that of `Pattern.far` besides.
    """
    own = digest(rows, columns), _bytes_of(indptr, indices)
    told = here.told(len(indices), digest(own), dtype.str)
    entries = (0, *np.cumsum([count for count, _, _ in told]).tolist())
    outline = outline_of(rows, columns, entries, digest([each[:2] for each in told]))
    common = np.result_type(*[np.dtype(each) for count, _, each in told if count or not entries[-1]])
    pattern = Pattern(outline, indptr, indices, here.pid)
    if here.task.element.recovery is not None:
        pattern.far  # noqa: B018 - now: a process that is made again at a round has this array, but no earlier products
    return pattern, common


def _bytes_of(*arrays: np.ndarray) -> bytes:
    found = xxh3_64()
    for array in arrays:
        found.update(np.ascontiguousarray(array).data)
    return found.digest()


def outline_of(rows: Bounds, columns: Bounds, entries: Bounds, name: bytes) -> Outline:
    """Return the outline with these bounds: the one that is in use, if there is one."""
    key = (rows, columns, entries, name)
    found = _outlines.get(key)
    if found is None:
        found = _outlines[key] = Outline(rows, columns, entries, name)
    return found


def _exchange(outline: Outline, pairs: np.ndarray) -> FarExchange:
    key = (outline, pairs.tobytes())
    found = _exchanges.get(key)
    if found is None:
        found = _exchanges[key] = FarExchange(outline, *pairs)
    return found


def _found(pattern: Pattern, here: World) -> Far:
    """Return this process's ends of the exchange of a pattern.  Collective."""
    outline, nprocs, pid = pattern.outline, here.nprocs, here.pid
    outside = (pattern.indices < pattern.first) | (pattern.indices >= pattern.stop)
    needed = np.unique(pattern.indices[outside])
    if nprocs == 1:
        return Far(_exchange(outline, np.zeros((3, 0), np.int64)), needed, np.zeros(0, np.int64), pid)
    cuts = np.searchsorted(needed, outline.columns)
    cuts[0], cuts[-1] = 0, len(needed)
    asked = [(owner, needed[a:b]) for owner, (a, b) in enumerate(pairwise(cuts)) if a < b]
    arrived = here.exchange(_REQUESTS, asked)
    served = [positions - pattern.first for _, positions in arrived]
    told = here.private.allgather([(owner, len(positions)) for owner, positions in asked])
    pairs = [(source, dest, count) for dest, each in enumerate(told) for source, count in each]
    exchange = _exchange(outline, np.array(pairs, np.int64).reshape(-1, 3).T.copy())
    return Far(exchange, needed, np.concatenate([np.zeros(0, np.int64), *served]), pid)


def _kept(far: Far) -> Any:
    exchange = far.exchange
    return np.array([exchange.source, exchange.dest, exchange.count]), far.needed, far.served


def _restored(outline: Outline, indptr: np.ndarray, indices: np.ndarray, pid: int, far: Any) -> Pattern:
    """Return an unpickled pattern; its outline and exchange are those that are in use already."""
    found = Pattern(outline, indptr, indices, pid)
    if far is not None:
        found._far = Far(_exchange(outline, far[0]), far[1], far[2], pid)
    return found
