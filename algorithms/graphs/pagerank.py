"""PageRank: the ranks of pages for a reader who follows links, and now and then jumps (Brin and Page, 1998)."""

from __future__ import annotations

import numpy as np

import bsp
from bsp.algorithms.graphs.errors import GraphError
from bsp.algorithms.graphs.graph import Graph
from bsp.arrays import Array
from bsp.arrays.procedures import world
from bsp.arrays.typing import ArrayLike


def pagerank(
    graph: Graph, damping: float = 0.85, *, personal: ArrayLike | None = None, weighted: bool = False,
    tol: float = 1e-10, rounds: int = 100,
) -> Array:  # fmt: skip
    """Return the rank of each vertex; ranks sum to 1.  Collective; S = 1 a round.

    damping : the probability that the reader follows a link.
    personal : how likely each vertex is to be jumped to (a vector that every process has, of any sum); by default all
        alike.  What vertices without links hold jumps too.
    weighted : links are followed in proportion to the edges' values, which must not be negative; else all alike.
    tol : the ranks are good when their changes in a round sum to less.
    rounds : at most; the ranks after them are returned.
    """
    jump = graph.values(1.0 / max(graph.size, 1)) if personal is None else _normal(graph, personal)
    if weighted and (wrong := world().private.allreduce(int(np.count_nonzero(~(graph.weights >= 0))))):
        raise GraphError(f"pagerank: {wrong} of {graph.edges} values of edges are NaN or negative")
    leaving = graph.out_weight if weighted else graph.out_degree
    part, idle = np.divide(1.0, leaving, out=graph.values(0.0), where=leaving > 0), np.flatnonzero(leaving == 0)
    edge = np.multiply if weighted else None
    state = bsp.State(rank=jump, change=np.inf)
    for _ in graph.rounds(rounds, state):
        heard = graph.send(state.rank * part, edge=edge, totals=[state.rank[idle].sum(), state.change])
        jumping, change = heard.totals
        if change < tol:
            break
        rank = (1 - damping) * jump + damping * (heard.values + jumping * jump)
        state.change, state.rank = abs(rank - state.rank).sum(), rank
    return graph.array(state.rank)


def _normal(graph: Graph, personal: ArrayLike) -> np.ndarray:
    """Return the probabilities of a jump to the own vertices."""
    given = graph.values(personal, float)
    lowest, total = world().private.allreduce(np.array([given.min(initial=0.0) < 0, given.sum()], float))
    if lowest or not total > 0:
        raise GraphError("pagerank: personal has a negative number, or none above 0")
    return np.asarray(given / total)
