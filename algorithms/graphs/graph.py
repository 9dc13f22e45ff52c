"""Graphs dealt to processes, and programs that think like a vertex: read, update, send along edges, combine.

Pregel's model (Malewicz et al., 2010; McColl, section 1.5.4) on arrays: a line of a program is about all vertices of a
process at once.  In a round each vertex that has something to say sends a value along its edges; the values that reach
a vertex are combined, first at the sender, so that one word moves for each vertex that a process reaches elsewhere.

    distance = graph.values(np.inf)                      # one value for each own vertex
    ...
    heard = graph.send(distance, np.minimum, edge=np.add, active=changed)
    better = heard.values < distance                     # a vertex that hears nothing hears the identity: here infinity

Cost of a round: W = the edges of the active vertices of the fullest process; H = the vertices elsewhere that a process
reaches, and 2 + k words for each process, of k totals; S = 1.  While few are active, only the vertices that these
reach count, for a word and a half each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import scipy.sparse

import bsp
from bsp.algorithms.graphs.combining import Combiner
from bsp.algorithms.graphs.errors import GraphError
from bsp.algorithms.graphs.mixing import mixed
from bsp.algorithms.graphs.ranges import distinct, first_marked, ranges
from bsp.arrays import Array, PlanTooLarge, sparse
from bsp.arrays.procedures import line_layout, made_of, world
from bsp.arrays.sparse import CooArray, SparseArray
from bsp.arrays.typing import ArrayLike
from bsp.cost.units import in_bytes

_ROUND, _TARGETS, _DELIVERED = "values along edges", "values at the ends of edges", "values to vertices"
_ROWS, _ASKED, _REPLIES = "rows at the ends of edges", "vertices that are asked for", "their values"
# What follows the header of a message: nothing, all values, positions and values, marks and values.
_NOTHING, _ALL, _SOME, _MARKED = 0.0, 1.0, 2.0, 3.0
_LOOK = 14  # targets look when senders have more than a 14th of their edges: Beamer, Asanović and Patterson's factor
_MANY = 1000  # and only if senders have a thousandth of all edges: else finding out costs more
_ROUNDS_EDGE = 32  # bytes that rounds keep or need for an edge, besides the sparse array: measured

Edge = Callable[[Any, Any], Any]
Matrix: TypeAlias = SparseArray | CooArray | scipy.sparse.sparray | scipy.sparse.spmatrix | ArrayLike


def must_fit(what: str, needed: float) -> None:
    """Raise PlanTooLarge if something needs more bytes on a process than the limit; every process must ask the same."""
    limit = world().memory
    if limit and needed > limit:
        raise PlanTooLarge(
            f"{what} needs {in_bytes(needed)} on a process, limit {in_bytes(limit)}; take more processes"
        )


def must_be_graph(given: Any, call: str) -> None:
    """Raise TypeError if something else than a Graph has been given, with the call that makes one of it."""
    if not isinstance(given, Graph):
        raise TypeError(f"{call}: a {type(given).__name__} is no Graph of bsp.algorithms.graphs; {_maker(given)}")


def _maker(given: Any) -> str:
    """Return which call makes a Graph of what has been given."""
    if hasattr(given, "edges") and hasattr(given, "nodes"):
        return "from_networkx(graph) returns one, and the names of its vertices"
    return "Graph(matrix) is that of an adjacency matrix, from_edges(source, target) that of edges"


def _kind(count: int, length: int) -> float:
    """Return how a message tells `count` values of `length` vertices: positions take half a word each, marks a bit."""
    if count in (0, length):
        return _ALL if count else _NOTHING
    return _SOME if 32 * count < length else _MARKED


class Heard(NamedTuple):
    """Result of a round: the values that have reached a process's vertices, and totals.

    values : by own vertex, what reached it, combined; the identity where nothing did.
    reached : by own vertex, whether anything did.
    totals, least : the sums, and the minima, over all processes of the numbers that were given as such.
    sent : the number of vertices, over all processes, that have sent.  0: all are silent.
    """

    values: np.ndarray
    reached: np.ndarray
    totals: np.ndarray
    least: np.ndarray
    sent: int


class Brought(NamedTuple):
    """Values that own vertices bring to those that own edges reach: own ones, then the others of `Graph.reached`.

    how : combines values that processes bring to the same vertex.
    values, touched : by such vertex, the value, and whether it is brought any.
    sent : the number of own vertices that send, of which all processes get the sum.
    """

    how: Combiner
    values: np.ndarray
    touched: np.ndarray
    sent: int


class Graph:
    """A directed graph: each process has its own vertices, a range of their numbers, and the edges that leave these.

    adjacency : a square sparse array, or a matrix of scipy or NumPy that every process has; the entry (u, v) is the
        value of the edge from u to v.
    both_ways : whether each edge is known to have an opposite one, which saves looking for these.
    size, edges : the numbers of all vertices and edges.  start, stop : the range of the own vertices.
    weights : the values of the own edges, in the order of own vertices, then targets.
    """

    def __init__(self, adjacency: Matrix, both_ways: bool = False) -> None:
        if hasattr(adjacency, "edges"):
            raise TypeError(f"Graph: a {type(adjacency).__name__} is no matrix; {_maker(adjacency)}")
        if not isinstance(adjacency, (SparseArray, CooArray)):
            adjacency = sparse.from_scipy(adjacency)
        self.adjacency = adjacency.tocsr()
        if self.adjacency.shape[0] != self.adjacency.shape[1]:
            raise GraphError(f"an adjacency matrix of shape {self.adjacency.shape} is not square")
        self.size, self.edges = self.adjacency.shape[0], self.adjacency.nnz
        here, bounds = world(), self.adjacency.row_bounds
        outline = self.adjacency.pattern.outline
        must_fit("rounds on " + repr(outline), _ROUNDS_EDGE * int(outline.counts.max(initial=0)))
        self.bounds, self.both_ways = bounds, both_ways
        self.start, self.stop = bounds[here.pid], bounds[here.pid + 1]
        self.weights: np.ndarray = self.adjacency.local().data
        self._pulls: dict[bool, Any] = {}
        # Found now and not when first needed: a process that joins at the head of a round repeats only what came before
        # the loop, and must end the same supersteps as the others.
        self.far = self.adjacency.pattern.far

    def __reduce__(self) -> Any:  # what is derived from the edges is derived again
        return Graph, (self.adjacency, self.both_ways)

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

    def values(self, of: ArrayLike, dtype: npt.DTypeLike | None = None) -> np.ndarray:
        """Return a value for each own vertex: a number for all, or the own part of a vector that every process has."""
        given = np.asarray(of.compute() if isinstance(of, Array) else of, dtype)
        if given.ndim and given.shape != (self.size,):
            raise GraphError(f"values of shape {given.shape} for {self.size} vertices")
        return given[self.start : self.stop].copy() if given.ndim else np.full(self.count, given)

    def array(self, values: np.ndarray) -> Array:
        """Return the values of all processes' own vertices as one distributed array.  Moves nothing."""
        layout = line_layout(self.bounds) if world().nprocs > 1 else None
        if layout is None:
            from bsp.arrays import asarray

            return asarray(values)
        return made_of((self.size,), values.dtype, layout, {(world().pid,): values})

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
        if not (isinstance(times, (int, np.integer)) and times >= 0):
            raise GraphError(f"rounds={times!r}: how many rounds there are at most, an integer from 0")
        return iter(world().proc.rounds(times, state))

    # -------------------------------------------------------------------------------- a round

    def send(
        self, values: np.ndarray, combine: np.ufunc = np.add, *, edge: Edge | None = None,
        active: np.ndarray | None = None, totals: Sequence[float] = (), least: Sequence[float] = (),
        identity: float | None = None, known: np.ndarray | None = None, ascending: bool = False,
    ) -> Heard:  # fmt: skip
        """Send own vertices' values along their edges; return what has reached the own vertices.  Collective, S = 1.

        values : one for each own vertex.
        combine : an associative and commutative ufunc: add, minimum, maximum, bitwise_or, ...  `bsprun --check` tests
            any other than NumPy's.
        edge : what an edge makes of the value that it carries: edge(values, weights of the edges), by arrays.
        active : which own vertices send; by default all do.
        totals, least : numbers of which all processes get the sum, or the minimum, in the same superstep.
        identity : what the combiner leaves as it is; it is only needed for a ufunc that is not NumPy's.
        known : for minimum: the least value that this process has sent so far to each vertex that it reaches, made
            by `reach` and kept by the program in its state.  Only what is less is sent, and is put down there.
        ascending : the values do not fall from one own vertex to the next, so that of all that reach a vertex from this
            process the first is the least.  Then, where active vertices have many edges and few vertices are left that
            would hear news, these look for their first active neighbour, and no further.  Needs `known`, and no edge.
        """
        return self.exchange(
            self.carry(
                values, combine, edge=edge, active=active, identity=identity, known=known, ascending=ascending
            ),
            totals=totals, least=least,
        )  # fmt: skip

    def carry(
        self, values: np.ndarray, combine: np.ufunc = np.add, *, edge: Edge | None = None,
        active: np.ndarray | None = None, identity: float | None = None, known: np.ndarray | None = None,
        ascending: bool = False,
    ) -> Brought:  # fmt: skip
        """Return what own vertices' values bring along own edges, for `exchange`: the first half of `send`, local.

        The parameters are those of `send`.
        """
        values = np.asarray(values)
        if values.shape != (self.count,):
            raise GraphError(f"send: {values.shape} values for {self.count} own vertices")
        if active is not None and (np.shape(active) != values.shape or np.asarray(active).dtype != bool):
            raise GraphError(f"send: active is a mask of the {self.count} own vertices")
        if known is not None and combine is not np.minimum:
            raise GraphError(f"send: known goes with the combiner minimum, not {combine.__name__}")
        if ascending and (known is None or edge is not None):
            raise GraphError("send: ascending goes with known, and without edge")
        if active is None or (known is None and active.all()):
            rows = None if known is None else np.arange(self.count)
        else:
            rows = np.flatnonzero(active)
        sent = self.count if rows is None else len(rows)
        if ascending and rows is not None and self._should_look(rows, values, known):
            return Brought(*self._looked(values, rows, known), sent)
        return Brought(*self._carried(values, combine, edge, rows, identity, known), sent)

    def exchange(
        self, brought: Brought, *, totals: Sequence[float] = (), least: Sequence[float] = (), what: str = ""
    ) -> Heard:
        """Send what own vertices bring to those of others; return what has reached the own ones.  Collective, S = 1.

        brought : of `carry`, or made by the program, which may have followed more edges than one from each vertex.
        totals, least : as in `send`.
        what : names the step in traces and errors, with numbers that all processes must have given alike.
        """
        here, own = world(), self.count
        how, found, touched, sent = brought
        heard, reached = found[:own], touched[:own].copy()
        if here.nprocs == 1:
            return Heard(heard, reached, np.array(totals, float), np.array(least, float), sent)
        header = np.array([float(sent), *totals, *least], float)
        sums, low = np.zeros(1 + len(totals)), np.full(len(least), np.inf)
        parts = iter(here.exchange(f"{what}: {_ROUND}" if what else _ROUND, self._messages(found, touched, header)))
        for source, told in parts:
            sums += told[1 : 1 + len(sums)]
            np.minimum(low, told[1 + len(sums) :], out=low)
            if told[0] == _NOTHING:
                continue
            at = self._served[source]
            if told[0] == _SOME:
                at = at[next(parts)[1]]
            elif told[0] == _MARKED:
                at = at[np.unpackbits(next(parts)[1], count=len(at)).view(bool)]
            how.merge(heard, at, next(parts)[1])
            reached[at] = True
        return Heard(heard, reached, sums[1:], low, int(sums[0]))

    def _carried(
        self, values: np.ndarray, combine: np.ufunc, edge: Edge | None, rows: np.ndarray | None, identity: Any,
        known: np.ndarray | None,
    ) -> tuple[Combiner, np.ndarray, np.ndarray]:  # fmt: skip
        """Return what edges of own vertices bring to each compact vertex, and which of these they reach.

        rows : the own vertices that send; None: all.
        The own vertices come first, then those of others, in the order of the far columns.
        """
        pattern, checked = self.adjacency.pattern, world().task.element.checking
        if rows is None and combine is np.add and edge in (None, np.multiply) and values.dtype == float:
            found = self._pull(edge is not None) @ values[self._hubs_first]
            return Combiner(combine, values.dtype, None, False), found, self._fed
        if rows is None:
            begins, sources, order = self._by_target
            carried = values[sources]
            if edge is not None:
                carried = np.asarray(edge(carried, self.weights[order]))
            how = Combiner(combine, carried.dtype, identity, checked)
            found = how.empty(pattern.width)
            if len(carried):
                found[self._fed] = how.by_groups(carried, begins[:-1][self._fed])
            return how, found, self._fed
        edges, counts = self.edges_of(rows)
        carried = np.repeat(values[rows], counts)
        if edge is not None:
            carried = np.asarray(edge(carried, self.weights[edges]))
        how = Combiner(combine, carried.dtype, identity, checked)
        columns, touched = pattern.compact[edges], np.zeros(pattern.width, bool)
        if known is None:
            found = how.empty(pattern.width)
            how.into(found, columns, carried)
            touched[columns] = True
            return how, found, touched
        (better,) = np.nonzero(carried < known[columns])
        columns = columns[better]
        how.into(known, columns, carried[better])  # which is less than all before: what is known is what is sent
        touched[columns] = True
        return how, np.where(touched, known, how.identity), touched

    def _should_look(self, rows: np.ndarray, values: np.ndarray, known: np.ndarray | None) -> bool:
        """Return whether vertices that would hear news have few edges beside those of the vertices that send."""
        leaving = int(self.out_degree[rows].sum())
        if not leaving or leaving * _MANY < len(self.weights) or known is None:
            return False
        return leaving * _LOOK > int(np.diff(self._by_target[0])[known > values[rows[0]]].sum())

    def _looked(
        self, values: np.ndarray, rows: np.ndarray, known: np.ndarray | None
    ) -> tuple[Combiner, np.ndarray, np.ndarray]:
        """Return what `_carried` does of ascending values for `known`, found by target."""
        assert known is not None
        begins, sources, _ = self._by_target
        active = np.zeros(self.count, bool)
        active[rows] = True
        (waiting,) = np.nonzero((known > values[rows[0]]) & self._fed)
        found = first_marked(sources, begins[waiting], begins[waiting + 1], active)
        heard = found >= 0
        waiting, carried = waiting[heard], values[sources[found[heard]]]
        news = carried < known[waiting]
        known[waiting[news]] = carried[news]
        how, touched = Combiner(np.minimum, values.dtype, None, False), np.zeros(len(known), bool)
        touched[waiting[news]] = True
        return how, np.where(touched, known, how.identity), touched

    def edges_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the numbers of the edges that leave some own vertices, and how many leave each."""
        indptr = self.adjacency.pattern.indptr
        return ranges(indptr[rows], indptr[rows + 1])

    def _messages(self, found: np.ndarray, touched: np.ndarray, header: np.ndarray) -> list[tuple[int, np.ndarray]]:
        """Return the messages of a round: to each process a header, and what its vertices are sent, if anything."""
        out: list[tuple[int, np.ndarray]] = []
        for dest in range(world().nprocs):
            low, high = self._reaches.get(dest, (0, 0))
            marks = touched[low:high]
            kind = _kind(int(np.count_nonzero(marks)), high - low)
            out.append((dest, np.concatenate([[kind], header])))
            if kind == _ALL:
                out.append((dest, found[low:high]))  # which is never written again
            elif kind != _NOTHING:
                places = np.flatnonzero(marks)
                out.append((dest, places.astype(np.int32) if kind == _SOME else np.packbits(marks)))
                out.append((dest, found[low:high][places]))
        return out

    @property
    def reached(self) -> np.ndarray:
        """The vertices of other processes to which own edges lead, in ascending order."""
        return self.far.needed

    def reach(self, of: float, dtype: npt.DTypeLike | None = None) -> np.ndarray:
        """Return a value for each vertex that this process's edges reach, and each own one, for `known` of `send`."""
        return np.full(self.adjacency.pattern.width, of, dtype)

    # ------------------------------------------------------------------------- other exchanges

    def at_targets(self, values: np.ndarray) -> np.ndarray:
        """Return, for each own edge, the value of the vertex to which it leads.  Collective, S = 1.

        Cost: H = a word for each vertex elsewhere to which own edges lead.
        """
        return np.asarray(self.at_reached(values)[self.adjacency.pattern.compact])

    def at_reached(self, values: np.ndarray) -> np.ndarray:
        """Return the values of the own vertices, then of the others to which own edges lead.  Collective, S = 1.

        The others are `reached`, in their order; the cost is that of `at_targets`.
        """
        here = world()
        if here.nprocs == 1:
            return values
        arrived = dict(here.exchange(_TARGETS, [(dest, values[at]) for dest, at in self._served.items()]))
        return np.concatenate([values, *(arrived[owner] for owner in self._reaches)])

    def rows_at_reached(self, rows: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return the rows of the own vertices, then those of the others to which own edges lead.  Collective, S = 1.

        rows : of the own vertices, of a matrix with any number of columns.
        Cost: H = the entries of those other rows, with their columns, and a word for each row.
        """
        if world().nprocs == 1:
            return rows
        out: list[tuple[int, np.ndarray]] = []
        for dest, at in self._served.items():
            part = rows[at]
            out += [(dest, np.diff(part.indptr)), (dest, part.indices), (dest, part.data)]
        arrived = [each for _, each in world().exchange(_ROWS, out)]
        lengths, indices, data = (
            np.concatenate([own, *arrived[k::3]])
            for k, own in enumerate((np.diff(rows.indptr), rows.indices, rows.data))
        )
        indptr = np.concatenate([[0], np.cumsum(lengths)])
        return scipy.sparse.csr_array((data, indices, indptr), shape=(len(lengths), rows.shape[1]))

    def look_up(self, values: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return the values of vertices of which each process gives the numbers.  Collective, S = 2.

        values : of the own vertices.
        Cost: H = two words for each other process's vertex that is asked for, once for each process.
        """
        here = world()
        if here.nprocs == 1:
            return np.asarray(values[at])
        asked, which = distinct(at, self.size)
        cuts = np.searchsorted(asked, self.bounds)
        wanted = [(owner, asked[a:b]) for owner, (a, b) in enumerate(pairwise(cuts)) if a < b]
        requests = here.exchange(_ASKED, wanted)
        replies = here.exchange(_REPLIES, [(source, values[each - self.start]) for source, each in requests])
        return np.asarray(np.concatenate([values[:0], *(each for _, each in replies)])[which])

    def deliver(self, at: np.ndarray, values: np.ndarray, combine: np.ufunc) -> tuple[np.ndarray, np.ndarray]:
        """Send values to vertices of any numbers; return what has reached the own ones, and which it has reached.

        Collective, S = 1.  Cost: H = two words for each vertex of another process that is sent something.
        """
        here = world()
        how = Combiner(combine, values.dtype, None, False)
        reached, which = distinct(at, self.size)
        parts = how.empty(len(reached))
        how.into(parts, which, values)
        cuts = np.searchsorted(reached, self.bounds)
        out = [(owner, each[a:b]) for owner, (a, b) in enumerate(pairwise(cuts)) if a < b for each in (reached, parts)]
        arrived = [each for _, each in (here.exchange(_DELIVERED, out) if here.nprocs > 1 else out)]
        found, touched = how.empty(self.count), np.zeros(self.count, bool)
        for places, each in zip(arrived[::2], arrived[1::2], strict=True):
            how.merge(found, places - self.start, each)
            touched[places - self.start] = True
        return found, touched

    # -------------------------------------------------------------------------- kept for rounds

    def _pull(self, weighted: bool) -> Any:
        """Return the edges by target as a matrix of weights or of ones: (compact vertices, own ones, hubs first)."""
        if weighted not in self._pulls:
            pattern = self.adjacency.pattern
            data = self.weights if weighted else np.ones(len(pattern.indices))
            shape = (pattern.rows, pattern.width)
            edges = scipy.sparse.csr_array((data, pattern.compact, pattern.indptr), shape=shape)
            self._pulls[weighted] = edges[self._hubs_first].T.tocsr()
        return self._pulls[weighted]

    @cached_property
    def _hubs_first(self) -> np.ndarray:
        """The own vertices by descending number of edges.

        Most edges leave few vertices, whose values stay in the cache if they lie side by side: 8 million edges of RMAT
        20 take 25 ms instead of 30.
        """
        return np.argsort(-self.out_degree, kind="stable")

    @cached_property
    def _by_target(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The own edges by compact target: where each begins and the end; their sources, ascending; their numbers."""
        pattern = self.adjacency.pattern
        parts = np.arange(len(pattern.indices), dtype=pattern.indices.dtype), pattern.compact, pattern.indptr
        found = scipy.sparse.csr_array(parts, shape=(pattern.rows, pattern.width)).tocsc()
        return found.indptr, found.indices, found.data

    @cached_property
    def _fed(self) -> np.ndarray:
        """Which compact vertices have an edge from an own vertex."""
        pattern = self.adjacency.pattern
        found = np.zeros(pattern.width, bool)
        found[pattern.compact] = True
        return found

    @cached_property
    def _served(self) -> dict[int, np.ndarray]:
        """The own vertices that each other process reaches, in the order of its far vertices."""
        far = self.far
        return {int(far.exchange.dest[pair]): far.served[a:b]
                for pair, a, b in zip(far.sends, far.sent, far.sent[1:], strict=False)}  # fmt: skip

    @cached_property
    def _reaches(self) -> dict[int, tuple[int, int]]:
        """The range of compact vertices that are each other process's."""
        far = self.far
        return {int(far.exchange.source[pair]): (self.count + a, self.count + b)
                for pair, a, b in zip(far.receives, far.received, far.received[1:], strict=False)}  # fmt: skip

    # ---------------------------------------------------------------------------- both directions

    @cached_property
    def sources(self) -> np.ndarray:
        """The vertices that the own edges leave."""
        return self.adjacency.pattern.row_of.astype(np.int64) + self.start

    @property
    def targets(self) -> np.ndarray:
        """The vertices to which the own edges lead."""
        return self.adjacency.pattern.indices.astype(np.int64)

    def undirected(self, valued: bool = False) -> bool:
        """Return whether each edge has an opposite one, if `valued` of equal value.  Collective, S = 1 at most.

        Sums of random numbers of the edges, 64 bits, are compared with those of the opposite edges.
        """
        if self.both_ways and not valued:
            return True
        differences = world().private.allreduce(self._one_way)
        return not (differences.any() if valued else differences[0])

    @cached_property
    def _one_way(self) -> np.ndarray:
        """The sums of the random numbers of the own edges less those of their opposites, without and with values."""
        values = mixed((self.weights.real.astype(float) + 0.0).view(np.uint64), 1)
        if self.weights.dtype.kind == "c":
            values ^= mixed((self.weights.imag.astype(float) + 0.0).view(np.uint64), 4)
        one, other = (mixed(mixed(u, 2) + v.astype(np.uint64), 3)
                      for u, v in ((self.sources, self.targets), (self.targets, self.sources)))  # fmt: skip
        differences = np.array([(each(one) - each(other)).sum() for each in (lambda h: h, lambda h: h * values)])
        return differences.view(np.int64)

    def must_be_undirected(self, what: str, valued: bool = False) -> None:
        """Raise GraphError if an edge has no opposite one, or, if values count, one of another value.  Collective."""
        if not self.undirected(valued):
            value = " of equal value" if valued else ""
            raise GraphError(
                f"{what}: not each edge has an opposite one{value}; from_edges(..., directed=False) makes both"
            )

    # -------------------------------------------------------------------------- other graphs

    def must_be_real(self, what: str) -> None:
        """Raise GraphError if the values of edges are complex: they have no order, and are no lengths."""
        if self.weights.dtype.kind == "c":
            raise GraphError(f"{what}: the values of edges are {self.weights.dtype}, not real numbers")

    def reversed(self) -> Graph:
        """Return the graph with all edges turned round, dealt alike.  Collective.  H = 3 words for each edge."""
        found = self.targets, self.sources, self.weights
        return Graph(sparse.from_coo(*found, (self.size, self.size), bounds=self.bounds))

    def kept(self, edges: np.ndarray) -> Graph:
        """Return the graph with some of the edges: those where a mask over the own edges is True.  Collective.

        Vertices stay where they are, so that a program may go on with their values.  Other edges come with a new sparse
        array: Graph(graph.adjacency + added).
        """
        found = self.sources[edges], self.targets[edges], self.weights[edges]
        return Graph(sparse.from_coo(*found, (self.size, self.size), bounds=self.bounds))
