"""Minimum spanning forests."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse
from scipy.sparse import csgraph

import bsp
from bsp.algorithms.graphs.building import from_edges
from bsp.algorithms.graphs.errors import GraphError
from bsp.algorithms.graphs.graph import Graph
from bsp.arrays.procedures import world

_CANDIDATES = "least edges of trees"


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
    the forest does not depend on p.  Raises GraphError if a length is NaN.

    Each process first leaves out the edges that no forest of its own edges has, by scipy.  Then every tree takes its
    least edge to another tree, trees that meet become one, and so on.

    Cost: W = sorting the own edges; H = in a round 2 words for each own or reached vertex, at most; S = about
    11 + 2 log2(height of what grows together) a round, at most log2 n rounds.
    Source: Borůvka (1926).
    """
    graph.must_be_undirected("mst", valued=True)
    here = world()
    wrong = here.private.allreduce(int(np.isnan(graph.weights).sum()))
    if wrong:
        raise GraphError(f"mst: {wrong} of {graph.edges} lengths are NaN")
    edges = _own_forest(graph)
    row, target = graph.adjacency.pattern.row_of[edges], graph.targets[edges]
    source, length = graph.sources[edges], graph.weights[edges].astype(float)
    # An edge and its opposite have equal lengths; the last bit tells which of the two it is, and so who has it.
    ends = 2 * (np.minimum(source, target) * graph.size + np.maximum(source, target)) + (source > target)
    state = bsp.State(root=graph.own, taken=np.zeros(len(edges), bool))
    for _ in graph.rounds(graph.size.bit_length() + 1, state):
        there = graph.look_up(state.root, target)
        root = state.root[row]
        (leaving,) = np.nonzero(root != there)
        one, other = root[leaving], there[leaving]
        twice = np.tile(leaving, 2)  # for the trees of both ends
        both = LeastEdges(np.append(one, other), length[twice], ends[twice], np.append(other, one))
        mine, at = both.least()
        chosen = _chosen(graph, mine)
        if not here.private.allreduce(len(chosen.root)):
            break
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
    total = here.private.allreduce(float(length[state.taken].sum()))
    found = source[state.taken], target[state.taken], length[state.taken]
    return from_edges(*found, graph.size, directed=False), total


def _own_forest(graph: Graph) -> np.ndarray:
    """Return the own edges of a least forest of the own edges alone, which has those of the forest of all edges."""
    pattern = graph.adjacency.pattern
    if not pattern.width:
        return np.zeros(0, np.int64)
    (once,) = np.nonzero((graph.sources < graph.targets) | (pattern.compact >= graph.count))  # without own twins
    source, target = graph.sources[once], graph.targets[once]
    order = np.lexsort((np.minimum(source, target) * graph.size + np.maximum(source, target), graph.weights[once]))
    place = np.empty(len(order))
    place[order] = np.arange(1, len(order) + 1)  # of an edge among all: no zeros, which scipy leaves out
    parts, shape = (place, (pattern.row_of[once], pattern.compact[once])), (pattern.width, pattern.width)
    forest = csgraph.minimum_spanning_tree(scipy.sparse.csr_array(parts, shape=shape))
    return np.sort(once[order[forest.data.astype(np.int64) - 1]])


def _chosen(graph: Graph, mine: LeastEdges) -> LeastEdges:
    """Return the least edges of the trees of which the roots are own vertices.  Collective, S = 1."""
    cuts = np.searchsorted(mine.root, graph.bounds)
    out = [(dest, part[a:b]) for dest, (a, b) in enumerate(pairwise(cuts)) if a < b for part in mine]
    here = world()
    arrived = [each for _, each in (here.exchange(_CANDIDATES, out) if here.nprocs > 1 else out)]
    parts = (np.concatenate([part[:0], *arrived[k::4]]) for k, part in enumerate(mine))
    return LeastEdges(*parts).least()[0]
