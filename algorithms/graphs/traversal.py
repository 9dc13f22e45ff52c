"""Breadth-first search, and shortest paths: values that spread from a vertex, each sent where it is news.

A process keeps, for each vertex that its edges reach, the least value that it has sent there (`known` of `Graph.send`).
What is no less is not sent again, so that a vertex elsewhere costs a word for each improvement, not for each edge.
Paths that stay on a process are followed to their ends in one round, by scipy.
"""

from __future__ import annotations

import operator
from numbers import Real

import numpy as np
import scipy.sparse
from scipy.sparse import csgraph

import bsp
from bsp.algorithms.graphs.errors import GraphError, NegativeCycle
from bsp.algorithms.graphs.graph import Graph, must_be_graph
from bsp.arrays import Array
from bsp.arrays.procedures import world

_UNREACHED = np.iinfo(np.int64).max
_FEW, _PART = (
    1 << 10,
    64,
)  # the window doubles after rounds in which fewer vertices, or a smaller part of all, have sent


def bfs(graph: Graph, source: int) -> tuple[Array, Array]:
    """Return for each vertex the edges on a shortest path from `source`, and its parent on such a path.  Collective.

    Vertices that are not reached have -1 for both; the source is its own parent.  Of several parents that would do, the
    one of the least number is returned, so the tree does not depend on p.

    Cost: W = each edge once at most, and a pass over the own vertices a round; H = each vertex that a process reaches
    elsewhere at most once in all, a word and a half; S = one for each distance, and one more.
    Source: Pregel's rounds (Malewicz et al., 2010), and Beamer, Asanović and Patterson (2012) for where the newest
    vertices have many edges (see `Graph.send`); the result is that of Graph500's kernel 2.
    """
    must_be_graph(graph, "bfs")
    source, here = _from(graph, source, "bfs")
    n = max(graph.size, 1)
    # A value is distance · n + parent: the least one is of the least distance, then of the least parent.
    first = graph.values(_UNREACHED, np.int64)
    first[here] = source
    state = bsp.State(first=first, known=graph.reach(_UNREACHED, np.int64), active=here)
    state.known[: graph.count] = first
    for level in graph.rounds(graph.size + 1, state):
        values = (level + 1) * n + graph.own
        brought = graph.carry(values, np.minimum, active=state.active, known=state.known, ascending=True)
        heard = graph.exchange(brought, what=f"bfs from {source}")
        if not heard.sent:
            break
        state.active = heard.values < state.first
        state.first = np.minimum(state.first, heard.values)
        state.known[: graph.count] = state.first
    found = state.first < _UNREACHED
    return graph.array(np.where(found, state.first // n, -1)), graph.array(np.where(found, state.first % n, -1))


def sssp(graph: Graph, source: int, delta: float | str = "auto") -> Array:
    """Return the length of a shortest path from `source` to each vertex; inf where there is none.  Collective.

    delta : paths are followed in a round as far as this above the least distance that has not been sent yet.  More is
        fewer rounds and more values that are improved later.  "auto" begins with the mean length of an edge by the
        mean number that leave a vertex, and doubles that after each round in which few vertices have sent.
    Raises GraphError if a length is NaN or -inf, and NegativeCycle, with the vertices, if edges of a cycle that can be
    reached sum to less than 0.  If any length is negative, Bellman's and Ford's rounds are used instead.

    Cost of a round: W = Dijkstra's method on the own vertices of the window, the edges that leave those of which the
    distances change, and a pass over the own vertices; H = a word and a half for each vertex elsewhere of which a
    distance is improved, 3 words to each process; S = 1 (of Bellman's and Ford's 3, and n words in rounds 1, 2, 4, 8,
    ..., to look for cycles).  A path within a window takes as many rounds as it goes from process to process.
    Source: Meyer and Sanders (2003), with the window of Dong, Gu, Sun and Zhang (2021) instead of buckets.
    """
    must_be_graph(graph, "sssp")
    source, here = _from(graph, source, "sssp")
    grows = isinstance(delta, str) and delta == "auto"
    if not grows and not (isinstance(delta, Real) and delta >= 0):
        raise GraphError(f"sssp(delta={delta!r}): 'auto', or a number that is not negative")
    what = f"sssp from {source}, delta {delta}"
    graph.must_be_real("sssp")
    weights = graph.weights.astype(float, copy=False)
    wrong = np.isnan(weights) | (weights == -np.inf)
    with np.errstate(over="ignore"):
        total = abs(weights).sum()
    facts = world().private.allreduce(np.array([wrong.sum(), (weights < 0).sum(), total], float))
    if facts[0]:
        raise GraphError(f"sssp: {facts[0]:.0f} of {graph.edges} lengths are NaN or -inf")
    # Python's number grows to infinity silently.
    width = float(facts[2] * graph.size / max(graph.edges, 1) ** 2 if grows else delta)
    if facts[1]:
        return graph.array(_with_negative_lengths(graph, here, what))
    inside = _OwnPaths(graph, weights)
    best = np.where(here, 0.0, np.inf)
    state = bsp.State(best=best, known=graph.reach(np.inf), waiting=here, low=0.0, width=width)
    state.known[: graph.count] = best
    # The waiting vertex of the least distance is settled in a round whose window reaches it.  A window may end before
    # it, for `low` counts values that are no news where they arrive; then nothing is sent, and the next `low` is exact.
    for _ in graph.rounds(2 * graph.size, state):
        limit = np.inf if world().nprocs == 1 else state.low + state.width
        (begin,) = np.nonzero(state.waiting & (state.best <= limit))
        best = np.minimum(state.best, inside.lengths(begin, state.best[begin], limit))
        active = best < state.best
        active[begin] = True
        state.known[: graph.count] = best
        brought = graph.carry(best, np.minimum, edge=_longer, active=active, known=state.known)
        waiting = state.waiting & ~active
        low = min(brought.values.min(initial=np.inf), best[waiting].min(initial=np.inf))
        heard = graph.exchange(brought, least=[low], what=what)
        state.low = float(heard.least[0])  # no waiting vertex is nearer
        state.waiting = waiting | (heard.values < best)
        state.best = np.minimum(best, heard.values)
        if state.low == np.inf:
            break
        state.known[: graph.count] = state.best
        if grows and heard.sent < max(_FEW, graph.size // _PART):
            state.width *= 2
    return graph.array(state.best)


def _longer(distance: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Return distances with an edge more; inf, without a warning, where no number is as large: a path that is none."""
    with np.errstate(over="ignore"):
        return np.asarray(distance + length)


class _OwnPaths:
    """The shortest paths over edges between own vertices, from some of which the distances are known."""

    def __init__(self, graph: Graph, weights: np.ndarray) -> None:
        pattern, self.count = graph.adjacency.pattern, graph.count
        own = pattern.compact < self.count
        ends = np.concatenate([[0], np.cumsum(own)])[pattern.indptr]
        self.edges = int(ends[-1])
        # One vertex more, from which an edge as long as the distance leads to each vertex where paths begin.
        room = np.zeros(self.count)
        self.weights = np.concatenate([weights[own], room])
        self.targets = np.concatenate([pattern.compact[own], room.astype(pattern.compact.dtype)])
        self.indptr = np.append(ends, 0).astype(self.targets.dtype)

    def lengths(self, begin: np.ndarray, distance: np.ndarray, limit: float) -> np.ndarray:
        """Return the least distances of own vertices by paths from those of `begin`; inf above `limit`."""
        if not len(begin):
            return np.full(self.count, np.inf)
        end = self.edges + len(begin)
        self.weights[self.edges : end], self.targets[self.edges : end], self.indptr[-1] = distance, begin, end
        parts, size = (self.weights[:end], self.targets[:end], self.indptr), self.count + 1
        square = scipy.sparse.csr_array(parts, shape=(size, size))
        return np.asarray(csgraph.dijkstra(square, indices=self.count, limit=limit)[:-1])


def _from(graph: Graph, source: int, what: str) -> tuple[int, np.ndarray]:
    """Return the source as Python's integer, and the mask of the own vertices with the source alone."""
    try:
        source = operator.index(source)
    except TypeError:
        raise TypeError(f"{what}: a source is the integer of a vertex, not {source!r:.60}") from None
    if not 0 <= source < graph.size:
        raise GraphError(f"{what}: vertex {source} of a graph of {graph.size} vertices")
    return source, np.asarray(graph.own == source)


def _with_negative_lengths(graph: Graph, here: np.ndarray, what: str) -> np.ndarray:
    """Return the own vertices' distances from a vertex by Bellman's and Ford's rounds; NegativeCycle if there are none.

    Parents are kept: as long as they form a tree there is no round n in which a distance still changes, so that a cycle
    of parents is found by then; its edges sum to less than 0.
    """
    rows, targets = graph.adjacency.pattern.row_of, graph.adjacency.pattern.indices
    state = bsp.State(best=np.where(here, 0.0, np.inf), parent=graph.values(-1, np.int64), active=here)
    for k in graph.rounds(graph.size + 1, state):
        sent = graph.carry(state.best, np.minimum, edge=_longer, active=state.active)
        heard = graph.exchange(sent, what=what)
        if not heard.sent:
            break
        better = heard.values < state.best
        brought = graph.at_targets(np.where(better, heard.values, np.nan))
        by = state.active[rows] & (_longer(state.best[rows], graph.weights) == brought)
        parents, _ = graph.deliver(targets[by].astype(np.int64), graph.own[rows[by]], np.minimum)
        state.parent = np.where(better, parents, state.parent)
        state.best, state.active = np.minimum(state.best, heard.values), better
        if not (k + 1) & k or k == graph.size:
            cycle = _cycle(np.concatenate(world().private.allgather(state.parent)))
            if cycle:
                raise NegativeCycle(cycle)
    return np.asarray(state.best)


def _cycle(parent: np.ndarray) -> tuple[int, ...]:
    """Return a cycle of parents from each vertex to its child, or () if there is none; roots have parent -1."""
    ahead = np.append(parent, -1)  # the last one is the parent of all roots
    for _ in range(len(parent).bit_length()):
        ahead = ahead[ahead]
    inside = ahead[ahead >= 0]
    if not len(inside):
        return ()
    found = [int(inside.min())]
    while (following := int(parent[found[-1]])) != found[0]:
        found.append(following)
    return (found[0], *reversed(found[1:]))
