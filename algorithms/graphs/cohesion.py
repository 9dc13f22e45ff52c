"""How closely vertices hang together: triangles, cores, communities, independent sets, of undirected graphs."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse

import bsp
from bsp.algorithms.graphs.graph import Graph
from bsp.algorithms.graphs.mixing import mixed
from bsp.arrays import Array
from bsp.arrays.procedures import world

_WEDGES = 1 << 22  # pairs of edges that are multiplied at once: what they take is 100 MB at most


def triangles(graph: Graph) -> Array:
    """Return for each vertex the number of triangles that it is in; their sum is three times the number of triangles.

    The graph must be undirected; values and loops do not count.  Collective.
    Of A, and L with the edges that lead to vertices of higher degree, (A @ L) * A counts for each edge of a vertex the
    triangles with it and one edge of L: each triangle once at each of its vertices.  A vertex has at most sqrt(2 m)
    edges in L, so that hubs cost little.

    Cost: W = the sum over edges (u, v) of v's edges in L; H = the entries of L in the rows of vertices
    reached elsewhere; S = 4.
    Source: (A @ L) * A after Azad, Buluç and Gilbert (2015); the order by degree is Chiba's and Nishizeki's (1985).
    """
    graph.must_be_undirected("triangles")
    pattern, width = graph.adjacency.pattern, graph.adjacency.pattern.width
    row, column = pattern.row_of, pattern.compact
    degree = graph.at_reached(graph.out_degree)
    number = np.concatenate([graph.own, graph.reached])
    ahead = (degree[row] < degree[column]) | ((degree[row] == degree[column]) & (number[row] < number[column]))
    square = (graph.count, graph.size)
    ones = np.ones(graph.count if not len(row) else len(row), np.int32)[: len(row)]
    up = scipy.sparse.csr_array((ones[ahead], (row[ahead], graph.targets[ahead])), shape=square)
    further = graph.rows_at_reached(up)
    loops = number[column] != number[row]
    mask = scipy.sparse.csr_array((ones[loops], (row[loops], graph.targets[loops])), shape=square)
    near = scipy.sparse.csr_array((ones[loops], (row[loops], column[loops])), shape=(graph.count, width))
    before = np.concatenate([[0], np.cumsum(near @ np.diff(further.indptr).astype(np.int64))])
    cuts = np.searchsorted(before, np.arange(_WEDGES, before[-1], _WEDGES))
    found = np.zeros(graph.count, np.int64)
    for low, high in pairwise(np.unique([0, *cuts, graph.count])):
        found[low:high] = (near[low:high] @ further).multiply(mask[low:high]).sum(axis=1)
    return graph.array(found)


def k_core(graph: Graph) -> Array:
    """Return the core number of each vertex: the largest k for which it is in a part of all degrees at least k.

    The graph must be undirected; values and loops do not count.  Collective.
    Vertices of degree at most k are taken away until there are none, then k grows to the least degree that is left.

    Cost: W = each edge once, and a pass over the own vertices a round; H = a word and a half for each vertex elsewhere
    that loses an edge; S = one for each time that vertices are taken away, one for each core number, and one.
    Source: Batagelj and Zaveršnik (2003), all vertices of a degree at once.
    """
    graph.must_be_undirected("k_core")
    loops = np.bincount(graph.sources[graph.sources == graph.targets] - graph.start, minlength=graph.count)
    state = bsp.State(degree=graph.out_degree - loops, core=graph.values(-1, np.int64), k=0)
    for _ in graph.rounds(2 * graph.size + 2, state):
        left = state.core < 0
        taken = left & (state.degree <= state.k)
        least = state.degree[left & ~taken].min(initial=2 * graph.size)
        heard = graph.send(graph.values(1), active=taken, least=[least])
        state.core = np.where(taken, state.k, state.core)
        state.degree = state.degree - heard.values
        if not heard.sent:
            if heard.least[0] >= graph.size:
                break
            state.k = int(heard.least[0])
    return graph.array(state.core)


def label_propagation(graph: Graph, *, weighted: bool = False, seed: int = 0, rounds: int = 100) -> Array:
    """Return the community of each vertex: the least number of a vertex in it.  Collective.

    Each vertex joins the community that most of its neighbours are in; it stays in its own if no other has more, and
    takes the lowest number of several.  In a round a random half of the vertices does so, since if all did, vertices
    could exchange communities for ever.  It ends when no vertex would change.
    The graph must be undirected.  The result follows from the seed and does not depend on p.

    weighted : whether neighbours count by the values of their edges.
    rounds : at most; the communities after them are returned.
    Cost of a round: W = the edges, sorted by neighbours' communities; H = a word for each vertex reached elsewhere, and
    one to each process; S = 2.
    Source: Raghavan, Albert and Kumara (2007); halves instead of the colours of Cordasco and Gargano (2010).
    """
    graph.must_be_undirected("label_propagation", valued=weighted)
    pattern = graph.adjacency.pattern
    weights = graph.weights.astype(float, copy=False) if weighted else np.ones(len(pattern.indices))
    filled = graph.out_degree > 0
    state = bsp.State(label=graph.own)
    for turn in graph.rounds(rounds, state):
        there = graph.at_targets(state.label)
        votes = scipy.sparse.csr_array((weights.copy(), there, pattern.indptr.copy()), shape=(graph.count, graph.size))
        votes.sum_duplicates()
        best = _best(votes, state.label, filled)
        change = best != state.label
        if not world().private.allreduce(int(change.sum())):
            break
        mine = mixed(graph.own, mixed(np.array([turn]), seed + 1)[0].item()) >> np.uint64(63) == 0
        state.label = np.where(change & mine, best, state.label)
    lowest, _ = graph.deliver(state.label, graph.own, np.minimum)
    return graph.array(graph.look_up(lowest, state.label))


def _best(votes: scipy.sparse.csr_array, label: np.ndarray, filled: np.ndarray) -> np.ndarray:
    """Return the label with most votes for each vertex; its own if that is among them, else the lowest of several."""
    best = label.copy()
    if not filled.any():
        return best
    counts = np.diff(votes.indptr)[filled]
    begins = votes.indptr[:-1][filled]
    most = votes.data == np.repeat(np.maximum.reduceat(votes.data, begins), counts)
    lowest = np.minimum.reduceat(np.where(most, votes.indices, votes.shape[1]), begins)
    stays = np.logical_or.reduceat(most & (votes.indices == np.repeat(label[filled], counts)), begins)
    best[filled] = np.where(stays, label[filled], lowest)
    return best


def mis(graph: Graph, *, seed: int = 0) -> Array:
    """Return a maximal independent set, as a mask of the vertices: no two have an edge, and no other could join them.

    The graph must be undirected; values and loops do not count.  Collective.
    Each vertex has a random priority.  In a round those join that come before all neighbours that are left; these then
    leave.  The set is what one process would choose that takes vertices by priority, so it does not depend on p.

    Cost: W = each edge about twice, and a pass over the own vertices a round; H = a word and a half for each
    vertex that vertices which are left reach elsewhere; S = 2 a round, O(log² n) rounds.
    Source: Luby (1986), with one draw for all rounds (Blelloch, Fineman and Shun, 2012).
    """
    graph.must_be_undirected("mis")
    priority = mixed(graph.own, seed + 1)
    state = bsp.State(left=graph.values(True), chosen=graph.values(False))
    for _ in graph.rounds(graph.size + 1, state):
        heard = graph.send(priority, np.minimum, active=state.left)
        if not heard.sent:
            break
        joins = state.left & (priority <= heard.values)  # equal: a loop
        covered = graph.send(joins, np.logical_or, active=joins).reached
        state.chosen, state.left = state.chosen | joins, state.left & ~joins & ~covered
    return graph.array(state.chosen)
