"""PageRank: the ranks of pages for a reader who follows links, and now and then jumps (Brin and Page, 1998)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import bsp
from bsp.algorithms.graphs.errors import GraphError
from bsp.algorithms.graphs.graph import Graph, must_be_graph
from bsp.arrays import Array
from bsp.arrays.procedures import world
from bsp.arrays.typing import ArrayLike


def pagerank(
    graph: Graph, damping: float = 0.85, *, personal: ArrayLike | None = None, weighted: bool = False,
    tol: float = 1e-10, rounds: int = 100,
) -> Array:  # fmt: skip
    """Return the rank of each vertex; ranks sum to 1.  Collective.

    damping : the probability that the reader follows a link, from 0 to 1.
    personal : how likely each vertex is to be jumped to (a vector that every process has, of any finite sum); by
        default all alike.  What vertices without links hold jumps too.
    weighted : links are followed in proportion to the edges' values, which must be finite and not negative; else all
        alike.
    tol : the ranks are good when their changes in a round sum to less.
    rounds : at most; the ranks after them are returned.
    Cost of a round: W = the edges; H = a word for each vertex elsewhere that a process reaches, 4 to each process;
        S = 1.
    """
    must_be_graph(graph, "pagerank")
    if not 0 <= damping <= 1:
        raise GraphError(f"pagerank(damping={damping}): a probability, from 0 to 1")
    if not tol >= 0:
        raise GraphError(f"pagerank(tol={tol}): a number from 0; of 0 all rounds are made")
    jump = graph.values(1.0 / max(graph.size, 1)) if personal is None else _normal(graph, personal)
    if weighted:
        _must_be_shares(graph)
    leaving = graph.out_weight if weighted else graph.out_degree
    part, idle = np.divide(1.0, leaving, out=graph.values(0.0), where=leaving > 0), np.flatnonzero(leaving == 0)
    edge, what = np.multiply if weighted else None, f"pagerank of damping {damping}, tol {tol}"
    state = bsp.State(rank=jump, change=np.inf)
    for _ in graph.rounds(rounds, state):
        totals = [state.rank[idle].sum(), state.change]
        heard = graph.exchange(graph.carry(state.rank * part, edge=edge), totals=totals, what=what)
        jumping, change = heard.totals
        if change < tol:
            break
        rank = (1 - damping) * jump + damping * (heard.values + jumping * jump)
        state.change, state.rank = abs(rank - state.rank).sum(), rank
    return graph.array(state.rank)


def _must_be_shares(graph: Graph) -> None:
    """Raise GraphError if values of edges are negative, or are or sum to what no number can be divided by."""
    graph.must_be_real("pagerank")
    values, least = graph.weights, 1 / np.finfo(float).max
    with np.errstate(over="ignore", invalid="ignore"):
        sums = graph.out_weight
    wrong, odd = ~(np.isfinite(values) & (values >= 0)), (sums != 0) & ~((sums > least) & np.isfinite(sums))
    found = world().private.allreduce(np.array([np.count_nonzero(wrong), np.count_nonzero(odd)]))
    if found[0]:
        raise GraphError(f"pagerank: {found[0]} of {graph.edges} values of edges are negative or not finite")
    if found[1]:
        raise GraphError(
            f"pagerank: the values of the edges that leave {found[1]} vertices have sums too large or small"
        )


def _normal(graph: Graph, personal: ArrayLike) -> np.ndarray:
    """Return the probabilities of a jump to the own vertices."""
    if isinstance(personal, Mapping):
        raise GraphError(
            "pagerank: personal is a vector, a number for each vertex; of a dict d by the names of the vertices, "
            "[d.get(name, 0) for name in names]"
        )
    given = graph.values(personal, float)
    lowest, total = world().private.allreduce(np.array([given.min(initial=0.0) < 0, given.sum()], float))
    if lowest or not 0 < total < np.inf:
        raise GraphError("pagerank: personal has a negative number, none above 0, or a sum that is not finite")
    return np.asarray(given / total)
