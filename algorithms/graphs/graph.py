"""Graphs dealt to processes, and programs that think like a vertex: read, update, send along edges, combine.

Pregel's model (Malewicz et al., 2010; McColl, section 1.5.4) on arrays: a line of a program is about all vertices of a
process at once.  In a round each vertex that has something to say sends a value along its edges; the values that reach
a vertex are combined, first at the sender, so that one word moves for each vertex that a process reaches elsewhere.

    distance = graph.values(np.inf)                      # one value for each own vertex
    ...
    heard = graph.send(distance, np.minimum, edge=np.add, active=changed)
    better = heard.values < distance                     # a vertex that hears nothing hears the identity: here infinity

Cost of a round: W = the edges of the active vertices of the fullest process; H = the vertices elsewhere that a process
reaches (two words each while few are active) and 2 + k words for each process, of k totals; S = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import bsp
from bsp.algorithms.graphs.errors import GraphError
from bsp.arrays import Array, sparse
from bsp.arrays.procedures import line_layout, made_of, world
from bsp.arrays.sparse import SparseArray

_ROUND = "values along edges"
_NOTHING, _ALL, _SOME = 0.0, 1.0, 2.0  # what follows the header of a message: nothing, all values, positions and values

Edge = Callable[[Any, Any], Any]


class Heard(NamedTuple):
    """What a process's vertices have heard in a round.

    values : by own vertex, what reached it, combined; the identity where nothing did.
    reached : by own vertex, whether anything did.
    totals : the sums over all processes of the numbers that were given as totals.
    sent : the number of vertices, over all processes, that have sent.  0: all are silent.
    """

    values: np.ndarray
    reached: np.ndarray
    totals: np.ndarray
    sent: int


class Graph:
    """A directed graph: each process has its own vertices, a range of their numbers, and the edges that leave these.

    adjacency : a square sparse array; the entry (u, v) is the value of the edge from u to v.
    size, edges : the numbers of all vertices and edges.  start, stop : the range of the own vertices.
    """

    def __init__(self, adjacency: SparseArray) -> None:
        if adjacency.shape[0] != adjacency.shape[1]:
            raise GraphError(f"an adjacency matrix of shape {adjacency.shape} is not square")
        self.adjacency = adjacency.tocsr()
        self.size, self.edges = adjacency.shape[0], self.adjacency.nnz
        here, bounds = world(), self.adjacency.row_bounds
        self.bounds = bounds
        self.start, self.stop = bounds[here.pid], bounds[here.pid + 1]

    def __repr__(self) -> str:
        return (
            f"<graph of {self.size} vertices and {self.edges} edges, of which {self.stop - self.start} vertices here>"
        )

    # -------------------------------------------------------------------------- own vertices

    @property
    def count(self) -> int:
        """The number of own vertices."""
        return self.stop - self.start

    @property
    def own(self) -> np.ndarray:
        """The numbers of the own vertices."""
        return np.arange(self.start, self.stop)

    def values(self, of: Any, dtype: Any = None) -> np.ndarray:
        """Return a value for each own vertex: a number for all, or the own part of a vector that every process has."""
        if np.ndim(of):
            given = np.asarray(of.compute() if isinstance(of, Array) else of, dtype)
            if given.shape != (self.size,):
                raise GraphError(f"values of shape {given.shape} for {self.size} vertices")
            return given[self.start : self.stop].copy()
        return np.full(self.count, of, dtype)

    def array(self, values: np.ndarray) -> Array:
        """Return the values of all processes' own vertices as one distributed array.  Moves nothing."""
        layout = line_layout(self.bounds) if world().nprocs > 1 else None
        if layout is None:
            from bsp.arrays import asarray

            return asarray(values)
        return made_of((self.size,), values.dtype, layout, {(world().pid,): values})

    @cached_property
    def weights(self) -> np.ndarray:
        """The values of the own edges, in the order of own vertices, then targets."""
        found: np.ndarray = self.adjacency.local().data
        return found

    @cached_property
    def out_degree(self) -> np.ndarray:
        """The number of edges that leave each own vertex."""
        return np.diff(self.adjacency.pattern.indptr)

    @cached_property
    def out_weight(self) -> np.ndarray:
        """The sum of the values of the edges that leave each own vertex."""
        return np.asarray(self.adjacency.local().sum(axis=1), float)

    def rounds(self, times: int, state: bsp.State | None = None) -> Iterator[int]:
        """Iterate as `proc.rounds`: clones and checkpoints keep the loop running."""
        return iter(world().proc.rounds(times, state))

    # -------------------------------------------------------------------------------- a round

    def send(
        self, values: np.ndarray, combine: np.ufunc = np.add, *, edge: Edge | None = None,
        active: np.ndarray | None = None, totals: Sequence[float] = (),
    ) -> Heard:  # fmt: skip
        """Send own vertices' values along their edges; return what has reached the own vertices.  Collective, S = 1.

        values : one for each own vertex.
        combine : an associative and commutative ufunc with an identity: add, minimum, maximum, bitwise_or, ...
        edge : what an edge makes of the value that it carries: edge(values, weights of the edges), by arrays.
        active : which own vertices send; by default all do.
        totals : numbers to be summed over all processes in the same superstep.
        """
        values = np.asarray(values)
        if values.shape != (self.count,):
            raise GraphError(f"send: {values.shape} values for {self.count} own vertices")
        here, pattern = world(), self.adjacency.pattern
        sent = self.count if active is None else int(np.count_nonzero(active))
        if active is None or sent == self.count:
            found, touched = self._from_all(values, combine, edge), None
        else:
            found, touched = self._from_some(values, combine, edge, np.flatnonzero(active))
        own = pattern.stop - pattern.first
        if here.nprocs == 1:
            reached = self._fed if touched is None else touched[:own]
            return Heard(found[:own], reached, np.array(totals, float), sent)
        out = self._messages(found, touched, own, [float(sent), *map(float, totals)])
        arrived = here.exchange(_ROUND, out)
        heard, reached = found[:own].copy(), (self._fed_here if touched is None else touched[:own]).copy()
        sums = np.zeros(1 + len(totals))
        parts = iter(arrived)
        for source, header in parts:
            sums += header[1:]
            if header[0] == _NOTHING:
                continue
            at = self._served[source]
            if header[0] == _SOME:
                at = at[next(parts)[1]]
            combine.at(heard, at, next(parts)[1])
            reached[at] = True
        return Heard(heard, reached, sums[1:], int(sums[0]))

    def _from_all(self, values: np.ndarray, combine: np.ufunc, edge: Edge | None) -> np.ndarray:
        """Return what the edges of all own vertices bring to each compact vertex: the own ones, then the far ones."""
        pattern = self.adjacency.pattern
        if combine is np.add and edge is None and values.dtype == float:
            found: np.ndarray = self._pull @ values
            return found
        order, begins, columns = pattern.by_column
        carried = values[pattern.row_of[order]]
        if edge is not None:
            carried = edge(carried, self.weights[order])
        found = np.full(pattern.width, identity_of(combine, carried.dtype), carried.dtype)
        if len(begins):
            found[columns] = combine.reduceat(carried, begins)
        return found

    def _from_some(
        self, values: np.ndarray, combine: np.ufunc, edge: Edge | None, rows: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return what the edges of some own vertices bring to compact vertices, and which these are."""
        pattern = self.adjacency.pattern
        begins, counts = pattern.indptr[rows], self.out_degree[rows]
        edges = np.repeat(begins - (np.cumsum(counts) - counts), counts) + np.arange(counts.sum())
        carried = np.repeat(values[rows], counts)
        if edge is not None:
            carried = edge(carried, self.weights[edges])
        columns = pattern.compact[edges]
        found = np.full(pattern.width, identity_of(combine, carried.dtype), carried.dtype)
        combine.at(found, columns, carried)
        touched = np.zeros(pattern.width, bool)
        touched[columns] = True
        return found, touched

    def _messages(
        self, found: np.ndarray, touched: np.ndarray | None, own: int, header: list[float]
    ) -> list[tuple[int, np.ndarray]]:
        """Return the messages of a round: to each process a header, and what its vertices are sent, if anything."""
        here, far = world(), self.adjacency.pattern.far
        parts = {int(far.exchange.source[pair]): (own + a, own + b)
                 for pair, a, b in zip(far.receives, far.received, far.received[1:], strict=False)}  # fmt: skip
        out: list[tuple[int, np.ndarray]] = []
        for dest in range(here.nprocs):
            low, high = parts.get(dest, (0, 0))
            places = None if touched is None else np.flatnonzero(touched[low:high])
            count = high - low if places is None else len(places)
            kind = _NOTHING if not count else _ALL if places is None or 2 * count > high - low else _SOME
            out.append((dest, np.array([kind, *header])))
            if kind == _ALL:
                out.append((dest, found[low:high].copy()))
            elif kind == _SOME:
                assert places is not None
                out += [(dest, places.astype(np.int32)), (dest, found[low:high][places])]
        return out

    @cached_property
    def _pull(self) -> Any:
        """The edges by target: a matrix of ones, (compact vertices, own vertices)."""
        pattern = self.adjacency.pattern
        ones = np.ones(len(pattern.indices))
        shape = (pattern.rows, pattern.width)
        return scipy.sparse.csr_array((ones, pattern.compact, pattern.indptr), shape=shape).T.tocsr()

    @cached_property
    def _fed_here(self) -> np.ndarray:
        """Which own vertices have an edge from an own vertex."""
        pattern = self.adjacency.pattern
        found = np.zeros(pattern.width, bool)
        found[pattern.compact] = True
        return found[: pattern.stop - pattern.first]

    @property
    def _fed(self) -> np.ndarray:
        return self._fed_here

    @cached_property
    def _served(self) -> dict[int, np.ndarray]:
        """The own vertices that each other process reaches, in the order of its far vertices."""
        far = self.adjacency.pattern.far
        return {int(far.exchange.dest[pair]): far.served[a:b]
                for pair, a, b in zip(far.sends, far.sent, far.sent[1:], strict=False)}  # fmt: skip

    # -------------------------------------------------------------------------- other graphs

    def reversed(self) -> Graph:
        """Return the graph with all edges turned round.  Collective.  Cost: three words for each edge that moves."""
        return Graph(self.adjacency.T.tocsr())

    def kept(self, edges: np.ndarray) -> Graph:
        """Return the graph with some of the edges: those where a mask over the own edges is True.  Collective."""
        pattern = self.adjacency.pattern
        rows = pattern.row_of[edges].astype(np.int64) + self.start
        return Graph(sparse.from_coo(rows, pattern.indices[edges], self.weights[edges], (self.size, self.size),
                                     bounds=self.bounds))  # fmt: skip


_IDENTITIES: dict[np.ufunc, Any] = {
    np.add: 0, np.multiply: 1, np.bitwise_or: 0, np.bitwise_xor: 0, np.bitwise_and: -1, np.logical_or: False,
    np.logical_and: True,
}  # fmt: skip


def identity_of(combine: np.ufunc, dtype: np.dtype[Any]) -> Any:
    """Return the value that a combiner leaves as it is; GraphError if it has none."""
    if combine in (np.minimum, np.fmin, np.maximum, np.fmax):
        least = combine in (np.maximum, np.fmax)
        if dtype.kind == "b":
            return not least
        if dtype.kind in "iu":
            return np.iinfo(dtype).min if least else np.iinfo(dtype).max
        return -np.inf if least else np.inf
    if combine not in _IDENTITIES:
        raise GraphError(
            f"send: {combine.__name__} is no combiner; one that does not depend on the order and has an identity: "
            f"{', '.join(each.__name__ for each in _IDENTITIES)}, minimum, maximum"
        )
    return dtype.type(_IDENTITIES[combine])
