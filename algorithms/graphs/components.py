"""Connected components: parts of each process joined by trees that are flattened as they grow."""

from __future__ import annotations

import numpy as np
import scipy.sparse
from scipy.sparse import csgraph

import bsp
from bsp.algorithms.graphs.graph import Graph, must_be_graph
from bsp.arrays import Array
from bsp.arrays.procedures import world


def connected_components(graph: Graph) -> Array:
    """Return for each vertex the least number of a vertex to which edges lead, of whichever direction.  Collective.

    Vertices have equal numbers if and only if they are in one component (weak, where edges have directions).

    Each process first joins its own vertices and those that they reach to parts, by scipy.  Parts are then joined over
    processes: each vertex points to one of a lower number, a tree's root hooks onto the lowest number that any
    neighbour of a member points to, and each round halves the ways to the roots.  So a long path does not take as
    many rounds as it has edges.

    Cost: W = the edges once, then a pass over the own vertices a round; H = a round: 3 words for each vertex that a
    process reaches elsewhere, and 4 for each distinct root of its vertices; S = 6 a round, about log2 n rounds.
    Source: FastSV (Zhang, Azad and Hu, 2020) on the graph of parts.
    """
    must_be_graph(graph, "connected_components")
    pattern, own = graph.adjacency.pattern, graph.own
    indptr = np.append(pattern.indptr, np.full(pattern.width - graph.count, pattern.indptr[-1], pattern.indptr.dtype))
    ones = np.ones(len(pattern.indices), np.int8)
    square = scipy.sparse.csr_array((ones, pattern.compact, indptr), shape=(pattern.width, pattern.width))
    parts, part = csgraph.connected_components(square, directed=False) if pattern.width else (0, np.zeros(0, np.int32))
    lowest = np.full(parts, graph.size)
    np.minimum.at(lowest, part[: graph.count], own)
    above = lowest[part[: graph.count]]
    if world().nprocs == 1:
        return graph.array(above)
    state = bsp.State(above=above, grand=above)
    for _ in graph.rounds(graph.size + 2, state):
        above, grand = state.above, state.grand
        lowest = np.full(parts, graph.size)
        np.minimum.at(lowest, part, graph.at_reached(grand))
        brought, _ = graph.deliver(graph.reached, lowest[part[graph.count :]], np.minimum)
        np.minimum.at(lowest, part[: graph.count], brought)
        low = lowest[part[: graph.count]]  # that any vertex of the part, or a neighbour of it, points to
        hooked, _ = graph.deliver(above, low, np.minimum)
        state.above = np.minimum.reduce([above, low, hooked, grand])
        state.grand = graph.look_up(state.above, state.above)
        changed = not (np.array_equal(above, state.above) and np.array_equal(grand, state.grand))
        if not world().private.allreduce(int(changed)):
            break
    return graph.array(state.above)
