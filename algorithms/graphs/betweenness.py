"""Betweenness: how many shortest paths lead through a vertex."""

from __future__ import annotations

import numpy as np

import bsp
from bsp.algorithms.graphs.errors import GraphError
from bsp.algorithms.graphs.graph import Graph, must_be_graph
from bsp.arrays import Array


def betweenness(graph: Graph, samples: int | None = None, *, seed: int = 0) -> Array:
    """Return the share of shortest paths that lead through each vertex, over all pairs of other vertices.  Collective.

    samples : paths from so many random vertices are counted, and stand for all; by default those from all vertices.
    The values of edges do not count.  The samples follow from the seed and not from p.  As networkx normalises.

    Cost for each vertex that paths start from: W = each edge twice; H = twice a word and a half for each vertex
    reached elsewhere; S = 2 d, where d is the largest distance, and at least 1.
    Source: Brandes (2001); sampled as by Brandes and Pich (2007).
    """
    must_be_graph(graph, "betweenness")
    n = graph.size
    if samples is not None and not 0 < samples <= n:
        raise GraphError(f"betweenness(samples={samples}) of a graph of {n} vertices: from 1 to all of them")
    back = graph if graph.undirected() else graph.reversed()
    starts = np.arange(n) if samples is None else np.random.default_rng(seed).choice(n, samples, replace=False)
    state = bsp.State(score=graph.values(0.0))
    for k in graph.rounds(len(starts), state):
        state.score = state.score + _through(graph, back, int(starts[k]))
    scale = n / max(len(starts), 1) / max((n - 1) * (n - 2), 1)
    return graph.array(state.score * scale)


def _through(graph: Graph, back: Graph, source: int) -> np.ndarray:
    """Return, for each own vertex, the paths from `source` through it: a sum over ends of the share of paths.

    paths : the number of shortest paths that lead to a vertex.
    """
    front = graph.own == source
    distance, paths = np.where(front, 0, -1), front.astype(float)
    levels = 0
    while True:
        heard = graph.send(paths, active=front)
        if not heard.sent:
            break
        levels += 1
        front = (distance < 0) & heard.reached
        distance[front], paths[front] = levels, heard.values[front]
    through = graph.values(0.0)
    for level in range(levels - 1, 1, -1):
        at = distance == level
        share = np.divide(1 + through, paths, out=graph.values(0.0), where=at)
        heard = back.send(share, active=at)
        before = distance == level - 1
        through[before] = paths[before] * heard.values[before]
    return np.where(graph.own == source, 0.0, through)
