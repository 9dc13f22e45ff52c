"""A partitioner of graphs without dependencies: halves that are grown in breadth, and mended at their border.

A half is the first nodes of a breadth-first order from a node at the rim of the graph.  Nodes with more neighbours
across the border than on their side then change sides in turn, as far as balance permits, while that shortens the cut
(Kernighan and Lin, 1970; Fiduccia and Mattheyses, 1982).  Halves are halved again, in proportion to the shares that
they have to give.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components

_PASSES = 8  # of mending, at most
_MOVES = 4  # a pass moves at most one of so many nodes of the border


def bisected(matrix: Any, weights: np.ndarray, nprocs: int, imbalance: float = 0.03) -> np.ndarray:
    """Return the process of each node of a square matrix's graph.

    weights : of the nodes; each process has about the same weight.
    """
    graph = scipy.sparse.csr_array(abs(matrix) + abs(matrix).T)
    graph.setdiag(0)
    graph.eliminate_zeros()
    graph.data[:] = 1
    owner = np.zeros(graph.shape[0], np.int64)
    waiting = [(np.arange(graph.shape[0]), 0, nprocs)]
    while waiting:
        nodes, first, count = waiting.pop()
        if count == 1 or len(nodes) <= count:
            owner[nodes] = first + (np.arange(len(nodes)) if count > 1 else 0)
            continue
        left = count // 2
        side = _halved(graph[nodes][:, nodes], weights[nodes], left / count, imbalance / max(np.log2(nprocs), 1))
        waiting += [(nodes[side == 0], first, left), (nodes[side == 1], first + left, count - left)]
    return owner


def _halved(graph: Any, weights: np.ndarray, share: float, imbalance: float) -> np.ndarray:
    """Return the side, 0 or 1, of each node; side 0 gets a share of the weight."""
    order = _in_breadth(graph)
    ends = np.cumsum(weights[order])
    total = ends[-1]
    side = np.ones(len(order), np.int64)
    side[order[: int(np.searchsorted(ends, share * total, side="right"))]] = 0
    slack = max(imbalance * total * min(share, 1 - share), float(weights.max()))
    return _mended(graph, weights, side, share * total, slack)


def _in_breadth(graph: Any) -> np.ndarray:
    """Return all nodes in breadth-first order from a node at the rim, one connected component after the other."""
    _, component = connected_components(graph, directed=False)
    found = []
    for first in np.unique(component, return_index=True)[1]:
        node = int(first)
        for _ in range(3):  # the last node of a breadth-first order is far from the first one
            order = breadth_first_order(graph, node, directed=False, return_predecessors=False)
            node = int(order[-1])
        found.append(order)
    return np.concatenate(found)


def _mended(graph: Any, weights: np.ndarray, side: np.ndarray, wanted: float, slack: float) -> np.ndarray:
    """Return the sides after moves across the border that shorten it and keep side 0 within `slack` of its weight."""
    best, shortest = side, _cut(graph, side)
    for _ in range(_PASSES):
        side = best.copy()
        across = graph @ side
        degree = np.diff(graph.indptr)
        gain = np.where(side == 0, across - (degree - across), (degree - across) - across)
        movable = np.flatnonzero(gain > 0)
        movable = movable[np.argsort(-gain[movable], kind="stable")]
        balance = float(weights[side == 0].sum())
        blocked: set[int] = set()  # neighbours of nodes that have moved: their gains are out of date
        moved = 0
        for node in movable[: max(1, len(movable) // _MOVES) + 64].tolist():
            if node in blocked:
                continue
            change = -float(weights[node]) if side[node] == 0 else float(weights[node])
            if abs(balance + change - wanted) > max(slack, abs(balance - wanted)):
                continue
            side[node] = 1 - side[node]
            balance += change
            moved += 1
            blocked.update(graph.indices[graph.indptr[node] : graph.indptr[node + 1]].tolist())
        cut = _cut(graph, side)
        if not moved or cut >= shortest:
            break
        best, shortest = side, cut
    return best


def _cut(graph: Any, side: np.ndarray) -> int:
    """Return the number of edges between the sides, counted once in each direction."""
    rows = np.repeat(side, np.diff(graph.indptr))
    return int((rows != side[graph.indices]).sum())
