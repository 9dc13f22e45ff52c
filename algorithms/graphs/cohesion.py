"""How closely vertices hang together: cores, communities, independent sets, of undirected graphs."""

from __future__ import annotations

import numpy as np
import scipy.sparse

import bsp
from bsp.algorithms.graphs.combining import Combiner
from bsp.algorithms.graphs.errors import GraphError
from bsp.algorithms.graphs.graph import Brought, Graph, must_be_graph
from bsp.algorithms.graphs.mixing import mixed
from bsp.arrays import Array
from bsp.arrays.procedures import world


def k_core(graph: Graph) -> Array:
    """Return the core number of each vertex: the largest k for which it is in a part of all degrees at least k.

    The graph must be undirected; values and loops do not count.  Collective.
    Vertices of degree at most k are taken away until there are none, then k grows to the least degree that is left.  A
    process first takes away what it can by itself, then tells others how many edges their vertices have lost.

    Cost: W = each edge once, and a pass over the own vertices a round; H = a word and a half for each vertex elsewhere
    that loses edges in a round, 3 words to each process; S = 1 a round, as many rounds as there are core numbers and
    times that vertices of one process take those of another along.
    Source: Batagelj and Zaveršnik (2003), with all vertices of a degree at once.
    """
    must_be_graph(graph, "k_core")
    graph.must_be_undirected("k_core")
    pattern, adds = graph.adjacency.pattern, Combiner(np.add, np.dtype(np.int64), None, False)
    loops = np.bincount(graph.sources[graph.sources == graph.targets] - graph.start, minlength=graph.count)
    state = bsp.State(degree=graph.out_degree - loops, core=graph.values(-1, np.int64), left=graph.own, k=0)
    for _ in graph.rounds(2 * graph.size + 2, state):
        degree, core, left, k = state.degree.copy(), state.core.copy(), state.left - graph.start, state.k
        lost = graph.reach(0, np.int64)  # edges, by vertices
        taken = left[degree[left] <= k]
        while len(taken):
            core[taken] = k
            ends = pattern.compact[graph.edges_of(taken)[0]]
            own = ends[ends < graph.count]
            np.subtract.at(degree, own, 1)
            np.add.at(lost, ends[ends >= graph.count], 1)
            taken = np.unique(own[(core[own] < 0) & (degree[own] <= k)])
        left = left[core[left] < 0]
        told = lost > 0
        least = int(degree[left].min(initial=graph.size))
        heard = graph.exchange(Brought(adds, lost, told, int(np.count_nonzero(told))), least=[least])
        state.degree, state.core, state.left = degree - heard.values, core, left + graph.start
        if not heard.sent:  # else vertices may have lost more edges than their processes had heard of
            if heard.least[0] == graph.size:
                break
            state.k = int(heard.least[0])
    return graph.array(state.core)


def label_propagation(graph: Graph, *, weighted: bool = False, seed: int = 0, rounds: int = 100) -> Array:
    """Return the community of each vertex: the least number of a vertex in it.  Collective.

    Each vertex joins the community that most of its neighbours are in; it stays in its own if no other has more, and
    takes the lowest number of several.  In a round a random half of the vertices does so, since if all did, vertices
    could exchange communities for ever.  It ends when no vertex would change.
    The graph must be undirected.  The result follows from the seed and does not depend on p.

    weighted : whether neighbours count by the values of their edges, which must be finite.
    rounds : at most; the communities after them are returned.
    Cost of a round: W = the edges, sorted by neighbours' communities; H = a word for each vertex reached elsewhere, and
    one to each process; S = 2.  At the end the least vertices of the communities are found; S = 3.
    Source: Raghavan, Albert and Kumara (2007); halves instead of the colours of Cordasco and Gargano (2010).
    """
    must_be_graph(graph, "label_propagation")
    if weighted:
        graph.must_be_real("label_propagation")
    graph.must_be_undirected("label_propagation", valued=weighted)
    pattern = graph.adjacency.pattern
    weights = graph.weights.astype(float, copy=False) if weighted else np.ones(len(pattern.indices))
    if weighted and (wrong := world().private.allreduce(int(np.count_nonzero(~np.isfinite(weights))))):
        raise GraphError(f"label_propagation: {wrong} of {graph.edges} values of edges are not finite")
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
    must_be_graph(graph, "mis")
    graph.must_be_undirected("mis")
    priority = mixed(graph.own, seed + 1)
    state = bsp.State(left=graph.values(True), chosen=graph.values(False))
    for _ in graph.rounds(graph.size + 1, state):
        heard = graph.exchange(graph.carry(priority, np.minimum, active=state.left), what=f"mis of seed {seed}")
        if not heard.sent:
            break
        joins = state.left & (priority <= heard.values)  # equal: a loop
        covered = graph.send(joins, np.logical_or, active=joins).reached
        state.chosen, state.left = state.chosen | joins, state.left & ~joins & ~covered
    return graph.array(state.chosen)
