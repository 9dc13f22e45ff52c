"""Triangles of undirected graphs: pairs of edges that leave a vertex, and a third one that closes them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import scipy.sparse

from bsp.algorithms.graphs.graph import Graph, must_be_graph
from bsp.algorithms.graphs.ranges import ranges
from bsp.arrays import Array

_PAIRS = 1 << 18  # of edges that are looked at in one piece of work
_ROWS, _ENTRIES = 1 << 10, 1 << 14  # of its table of closing edges, which has a byte for each row and distinct entry


def triangles(graph: Graph) -> Array:
    """Return for each vertex the number of triangles that it is in; their sum is three times the number of triangles.

    The graph must be undirected; values and loops do not count.  Collective.
    Each edge is followed to the end of higher degree only; then no vertex has more than sqrt(2 m) edges, so that hubs
    cost little.  Of each two edges that leave a vertex, a table tells whether an edge closes them to a triangle.

    Cost: W = the pairs of edges followed from each own vertex, and the edges; H = the edges followed from vertices
    elsewhere that a process reaches, half a word each, and two words for each of these vertices; S = 3, and
    1 if it is not known yet whether the graph is undirected.
    Source: Chiba and Nishizeki (1985); pairs as by Schank and Wagner (2005).
    """
    must_be_graph(graph, "triangles")
    graph.must_be_undirected("triangles")
    pattern, count = graph.adjacency.pattern, graph.count
    degree, number = graph.at_reached(graph.out_degree), np.concatenate([graph.own, graph.reached])
    order = np.lexsort((-number, -degree))  # of compact vertices: hubs first
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order))
    end = rank[pattern.compact]
    (up,) = np.nonzero(end < rank[pattern.row_of])
    row = pattern.row_of[up]
    ones = np.ones(len(up), np.int8)
    there = scipy.sparse.csr_array((ones, (row, pattern.indices[up])), shape=(count, graph.size))
    closing = graph.rows_at_reached(there)[order]
    place = np.full(graph.size, -1, np.int32)  # an edge that closes own ones leads to a vertex that these reach, too
    place[number] = rank
    followed = scipy.sparse.csr_array((ones, (row, end[up])), shape=(count, len(order)))
    by_vertex, by_rank = _counted(followed, closing.indptr, place[closing.indices])
    found = by_rank[rank]
    found[:count] += by_vertex
    others, _ = graph.deliver(graph.reached, found[count:], np.add)
    return graph.array(found[:count] + others)


def _counted(followed: scipy.sparse.csr_array, begins: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the triangles of which each own vertex is the first, and of which each rank is one of the others.

    followed : the edges from own vertices to ranks.
    begins, ends : of each rank, where its edges begin, and the ranks to which they lead, -1 where that does not matter.
    """
    followed.sort_indices()
    targets = followed.indices
    by_vertex, by_rank = (np.zeros(length, np.int64) for length in followed.shape)
    followed.data = np.arange(followed.nnz)
    turned = followed.tocsc()
    # Each edge is the second of pairs with those to lower ranks; edges to one rank are closed by its own edges.
    middle = np.repeat(np.arange(len(by_rank)), np.diff(turned.indptr))
    vertex, stop = turned.indices, turned.data
    low = followed.indptr[vertex]
    (useful,) = np.nonzero((stop > low) & (begins[middle + 1] > begins[middle]))
    middle, vertex, low, stop = middle[useful], vertex[useful], low[useful], stop[useful]
    if not len(useful):
        return by_vertex, by_rank
    new = np.diff(middle, prepend=-1) > 0
    sums = (
        (np.cumsum(stop - low), _PAIRS), (np.cumsum(new), _ROWS),
        (np.cumsum(np.where(new, begins[middle + 1] - begins[middle], 0)), _ENTRIES),
    )  # fmt: skip
    cuts = [np.searchsorted(each, np.arange(most, each[-1], most)) for each, most in sums]
    column, table = np.zeros(len(by_rank) + 1, np.int32), np.zeros(0, bool)  # column[-1] is that of no rank
    for a, b in pairwise(np.unique(np.concatenate([[0], *cuts, [len(useful)]]))):
        rows = middle[a:b][np.diff(middle[a:b], prepend=-1) > 0]
        edges, lengths = ranges(begins[rows], begins[rows + 1])
        leads = ends[edges]
        column[leads] = np.arange(len(leads))
        closes = leads[column[leads] == np.arange(len(leads))]  # each once
        column[closes] = np.arange(1, len(closes) + 1)
        column[-1] = 0
        width = len(closes) + 1
        if len(table) < len(rows) * width:
            table = np.zeros(len(rows) * width, bool)
        marks = np.repeat(np.arange(len(rows)) * width, lengths) + column[leads]
        table[marks] = True
        table[: len(rows) * width : width] = False  # of what leads nowhere
        pairs, lengths = ranges(low[a:b], stop[a:b])
        first = targets[pairs]
        at = np.searchsorted(rows, middle[a:b]) * width
        closed = table[np.repeat(at, lengths) + column[first]]
        each = np.add.reduceat(closed, np.cumsum(lengths) - lengths, dtype=np.int64)
        np.add.at(by_vertex, vertex[a:b], each)
        np.add.at(by_rank, middle[a:b], each)
        np.add.at(by_rank, first[closed], 1)
        table[marks] = False
        column[closes] = 0
    return by_vertex, by_rank
