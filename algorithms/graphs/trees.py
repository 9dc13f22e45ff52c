"""Minimum spanning forests: each process's own part by scipy, and what joins the parts."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse import csgraph

import bsp
from bsp.algorithms.graphs.building import from_edges
from bsp.algorithms.graphs.errors import GraphError
from bsp.algorithms.graphs.graph import Graph, must_be_graph
from bsp.algorithms.graphs.ranges import distinct
from bsp.arrays.procedures import world

_CANDIDATES, _LEFT = "least edges of trees", "edges between trees"
_SPARSE = 3  # edges for each vertex, from which the shortest come first: sorting takes most of the time
_AT_ONCE = 1 << 12  # edges that every process gets, however few it has itself


class LeastEdges(NamedTuple):
    """Edges that trees may grow by: the root of each one's tree, its length, its ends as one number, the other root."""

    root: np.ndarray
    length: np.ndarray
    ends: np.ndarray
    other: np.ndarray

    def least(self) -> tuple[LeastEdges, np.ndarray]:
        """Return the least edge of each root, by length and then by ends, and its position here."""
        order = np.lexsort((self.ends, self.length, self.root))
        kept = order[np.concatenate([np.ones(min(1, len(order)), bool), np.diff(self.root[order]) != 0])]
        return LeastEdges(*(each[kept] for each in self)), kept


def mst(graph: Graph) -> tuple[Graph, float]:
    """Return a spanning forest of least total length, as an undirected graph, and that length.  Collective.

    The graph must be undirected, with equal lengths both ways; edges of equal length are ordered by their ends, so that
    the forest does not depend on p.  Lengths may be infinite; the sum of a forest that has inf and -inf is NaN, as that
    of the numbers is.  Raises GraphError if a length is NaN.

    Each process first leaves out the edges that no forest of its own edges has, and joins own vertices by those that
    every forest of all edges has.  As soon as the edges that are left between such trees are no more than a process's
    share of all edges, every process gets them and finds the rest of the forest.  Until then every tree takes its least
    edge to another tree, trees that meet become one, and so on.

    Cost: W = sorting the own edges, and those that are left; H = at the end 4 words for each edge that is left, and in
    a round before 3 words for each own or reached vertex, at most; S = 5, and about 11 + 2 log2(height of what grows
    together) a round before, at most log2 n rounds.
    Source: Borůvka (1926); locally Kruskal (1956), by scipy.
    """
    must_be_graph(graph, "mst")
    graph.must_be_real("mst")
    graph.must_be_undirected("mst", valued=True)
    here = world()
    wrong = here.private.allreduce(int(np.isnan(graph.weights).sum()))
    if wrong:
        raise GraphError(f"mst: {wrong} of {graph.edges} lengths are NaN")
    edges = _possible(graph)
    certain, tree = _certain(graph, edges)
    pattern = graph.adjacency.pattern
    row, end, target = pattern.row_of[edges], pattern.compact[edges], graph.targets[edges]
    source, length = graph.sources[edges], graph.weights[edges].astype(float)
    # An edge and its opposite have equal lengths; the last bit tells which of the two it is, and so who has it.
    ends = 2 * (np.minimum(source, target) * graph.size + np.maximum(source, target)) + (source > target)
    state = bsp.State(root=tree + graph.start, taken=certain)
    for _ in graph.rounds(graph.size.bit_length() + 1, state):
        root, there = state.root[row], graph.at_reached(state.root)[end]
        (leaving,) = np.nonzero(root != there)
        (once,) = np.nonzero((root != there) & (source < target))  # of an edge and its opposite
        left = here.private.allreduce(len(once))
        if not left:
            break
        if left <= _few(graph):
            joining = LeastEdges(root[once], length[once], ends[once], there[once])
            state.taken[once[_joined(joining, graph.size)]] = True
            break
        one, other = root[leaving], there[leaving]
        twice = np.tile(leaving, 2)  # for the trees of both ends
        both = LeastEdges(np.append(one, other), length[twice], ends[twice], np.append(other, one))
        mine, at = both.least()
        chosen = _chosen(graph, mine)
        above, joins = graph.own, graph.values(-1, np.int64)
        above[chosen.root - graph.start], joins[chosen.root - graph.start] = chosen.other, chosen.ends
        back = (graph.look_up(above, above) == graph.own) & (graph.own < above)  # of two that choose each other
        above, joins = np.where(back, graph.own, above), np.where(back, -1, joins)
        state.taken[twice[at[graph.look_up(joins, mine.root) == mine.ends]]] = True
        while True:
            higher = graph.look_up(above, above)
            more = here.private.allreduce(int((higher != above).sum()))
            above = higher
            if not more:
                break
        state.root = graph.look_up(above, state.root)
    with np.errstate(invalid="ignore"):
        total = here.private.allreduce(float(length[state.taken].sum()))
    found = source[state.taken], target[state.taken], length[state.taken]
    return from_edges(*found, graph.size, directed=False), total


def _few(graph: Graph) -> int:
    """Return the number of edges that every process may have at once: a process's share of all edges."""
    return max(_AT_ONCE, graph.edges // world().nprocs)


def _in_order(length: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Return the order of edges by length, then by ends."""
    order = np.argsort(length)
    ascending = length[order]
    return np.lexsort((ends, length)) if (ascending[1:] == ascending[:-1]).any() else order


def _forest(one: np.ndarray, other: np.ndarray, vertices: int) -> np.ndarray:
    """Return the positions, ascending, of the edges of a spanning forest that takes each edge rather than later ones.

    one, other : the ends of the edges, among so many vertices.  There may be parallel edges and loops.
    """
    count = len(one)
    if not count:
        return np.zeros(0, np.int64)
    # By one end as scipy orders columns: from coordinates it would sum parallel edges.
    by_end = scipy.sparse.csr_array((np.arange(count), one, np.arange(count + 1)), shape=(count, vertices)).tocsc()
    parts = by_end.data + 1.0, other[by_end.data], by_end.indptr  # no zeros, which scipy leaves out
    forest = csgraph.minimum_spanning_tree(scipy.sparse.csr_array(parts, shape=(vertices, vertices)))
    return np.sort(forest.data.astype(np.int64) - 1)


def _possible(graph: Graph) -> np.ndarray:
    """Return the own edges of a least forest of the own edges alone, which has those of the forest of all edges.

    Edges of least length come first; of those between own vertices each is there in one direction.  If there are many
    edges, the shortest ones come first alone, and of the others only those that join what these leave apart are sorted.
    """
    pattern, weights = graph.adjacency.pattern, graph.weights
    (left,) = np.nonzero((graph.sources < graph.targets) | (pattern.compact >= graph.count))
    found = left[:0]
    if len(left) > _SPARSE * pattern.width:
        short = weights[left] <= np.partition(weights[left], pattern.width)[pattern.width]
        found = _least(graph, left[short], found)
        part = _parts(pattern.row_of[found], pattern.compact[found], pattern.width)
        left = left[~short]
        left = left[part[pattern.row_of[left]] != part[pattern.compact[left]]]
    return _least(graph, left, found)


def _least(graph: Graph, more: np.ndarray, first: np.ndarray) -> np.ndarray:
    """Return the edges of a least forest of own edges, of which those of `first` come first, in their order."""
    pattern = graph.adjacency.pattern
    source, target = graph.sources[more], graph.targets[more]
    ends = np.minimum(source, target) * graph.size + np.maximum(source, target)
    edges = np.concatenate([first, more[_in_order(graph.weights[more], ends)]])
    return np.asarray(edges[_forest(pattern.row_of[edges], pattern.compact[edges], pattern.width)])


def _parts(one: np.ndarray, other: np.ndarray, vertices: int) -> np.ndarray:
    """Return the number of the part in which each vertex is, where edges join so many vertices to parts."""
    square = scipy.sparse.csr_array((np.ones(len(one), np.int8), (one, other)), shape=(vertices, vertices))
    return np.asarray(csgraph.connected_components(square, directed=False)[1])


def _certain(graph: Graph, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which edges between own vertices are in the forest of all edges for certain, and the trees that they make.

    The trees are told by own vertex: the first vertex of its tree, both counted from 0.
    What is the least edge of a set of own vertices is so for all processes, since each has all edges of its vertices.
    So a forest in which all vertices of others are one vertex has only edges of the forest of all edges.
    """
    pattern, count = graph.adjacency.pattern, graph.count
    one, other = pattern.row_of[edges], np.minimum(pattern.compact[edges], count)
    certain = np.zeros(len(edges), bool)
    certain[_forest(one, other, count + 1)] = True
    certain &= other < count
    tree = _parts(one[certain], other[certain], count + 1)[:count]
    first = np.full(count + 1, count)
    np.minimum.at(first, tree, np.arange(count))
    return certain, first[tree]


def _joined(mine: LeastEdges, size: int) -> np.ndarray:
    """Return which of the own edges between trees are in the forest of those of all processes.  Collective, S = 1."""
    here = world()
    arrived = here.exchange(_LEFT, [(range(here.nprocs), part) for part in mine])
    parts = (np.concatenate([part for _, part in arrived[k::4]]) for k in range(4))
    before = sum(len(part) for source, part in arrived[::4] if source < here.pid)
    everyones = LeastEdges(*parts)
    order = _in_order(everyones.length, everyones.ends)
    roots, place = distinct(np.append(everyones.root, everyones.other), size)
    one, other = place[: len(order)], place[len(order) :]
    found = order[_forest(one[order], other[order], len(roots))] - before
    return np.asarray(found[(found >= 0) & (found < len(mine.root))])


def _chosen(graph: Graph, mine: LeastEdges) -> LeastEdges:
    """Return the least edges of the trees of which the roots are own vertices.  Collective, S = 1."""
    cuts = np.searchsorted(mine.root, graph.bounds)
    out = [(dest, part[a:b]) for dest, (a, b) in enumerate(pairwise(cuts)) if a < b for part in mine]
    here = world()
    arrived = [each for _, each in (here.exchange(_CANDIDATES, out) if here.nprocs > 1 else out)]
    parts = (np.concatenate([part[:0], *arrived[k::4]]) for k, part in enumerate(mine))
    return LeastEdges(*parts).least()[0]
