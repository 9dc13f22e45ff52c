"""Graphs from lists of edges, from networkx, and at random by the Graph500 benchmark's recursive model."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.graphs.errors import GraphError
from bsp.algorithms.graphs.graph import Graph, must_fit
from bsp.arrays import sparse
from bsp.arrays.procedures import world
from bsp.arrays.typing import ArrayLike
from bsp.errors import ValueNeeded
from bsp.source import here as line

_QUADRANTS = (0.57, 0.19, 0.19, 0.05)  # Graph500's
_NUMBERED = "from_named_edges numbers names, and integers of any size"
_UNKNOWN = "what a graph costs follows from its edges, which a run without values does not have; leave --abstract out"
_MOST = 1 << 48  # vertices: more have no place in any memory
_CHUNK = 1 << 16  # edges that share a generator of random numbers
_EDGE, _VERTEX = 72, 16  # bytes that rmat needs for each edge of a process, and for each vertex of all: measured


def from_edges(
    source: ArrayLike, target: ArrayLike, weight: ArrayLike = 1.0, size: int | None = None, *, directed: bool = True
) -> Graph:
    """Return the graph of the edges of all processes; values of equal edges are summed.  Collective.

    source, target, weight : this process's edges, as vectors; weight may be one number for all.
    size : the number of vertices; by default one more than the largest number that an edge has.
    directed : if not, each edge goes both ways, with equal values.
    Raises GraphError if vertices are no integers, vectors differ in length, values are no real numbers, or there are
        more than 2^48 vertices.  `from_named_edges` takes names, and identifiers of 64 bits.
    Cost: that of `sparse.from_coo`, symmetric if not directed; a word for each vertex elsewhere that a process reaches,
        S = 2; and S = 1 without `size`.
    """
    try:
        u, v, values = _numbers(source), _numbers(target), np.asarray(weight)
    except ValueNeeded:
        raise ValueNeeded(f"from_edges at {line()}: {_UNKNOWN}") from None
    if values.dtype.kind not in "biuf":
        raise GraphError(f"from_edges: values of edges are real numbers, not {values.dtype}")
    if len(u) != len(v) or values.size not in (1, len(u)):
        raise GraphError(f"from_edges: {len(u)} sources, {len(v)} targets and {values.size} values of edges")
    if size is not None and not (isinstance(size, (int, np.integer)) and size >= 0):
        raise GraphError(f"from_edges(size={size!r}): an integer, the number of vertices")
    if size is None:
        size = max(world().private.allgather(max(int(each.max()) + 1 if each.size else 0 for each in (u, v))))
    if size > _MOST:
        raise GraphError(f"from_edges: {size} vertices, of at most {_MOST}; {_NUMBERED}")
    w = np.broadcast_to(values.astype(float).reshape(-1), u.shape)
    return Graph(sparse.from_coo(u, v, w, (size, size), symmetric=not directed), both_ways=not directed)


def _numbers(given: ArrayLike) -> np.ndarray:
    """Return numbers of vertices as a vector."""
    found = np.asarray(given).reshape(-1)
    if found.size and found.dtype.kind not in "iu":
        raise GraphError(f"from_edges: vertices are integers from 0, not {found.dtype}; {_NUMBERED}")
    return found


def from_networkx(graph: Any, weight: str = "weight") -> tuple[Graph, list[Any]]:
    """Return a networkx graph that every process has, and its nodes in the order of the vertices.  Collective.

    weight : the attribute that holds the value of an edge, 1 where there is none.  Values of parallel edges of a
        multigraph are summed; where the least one counts, as for shortest paths, keep that edge alone.
    Raises GraphError for other objects, and for values of edges that are no real numbers.
    """
    if not all(hasattr(graph, name) for name in ("edges", "is_directed")):
        raise GraphError(f"from_networkx: {type(graph).__name__} is no networkx graph; from_edges takes lists of edges")
    nodes = list(graph)
    number = {node: k for k, node in enumerate(nodes)}
    here = world()
    edges = [(number[u], number[v], _value(u, v, data, weight)) for u, v, data in graph.edges(data=True)]
    mine = np.array(edges[here.pid :: here.nprocs], float).reshape(-1, 3)
    return from_edges(
        mine[:, 0].astype(int), mine[:, 1].astype(int), mine[:, 2], len(nodes), directed=graph.is_directed()
    ), nodes


def _value(u: Any, v: Any, data: Any, weight: str) -> float:
    """Return the value of an edge of networkx.  Raises GraphError, on every process, if it is no real number."""
    found = data.get(weight, 1.0)
    try:
        return float(found)
    except (TypeError, ValueError, OverflowError):
        what = f"{weight}={found!r:.60} of the edge ({u!r}, {v!r})"
        raise GraphError(f"from_networkx: {what} is no real number") from None


def rmat(scale: int, edge_factor: int = 16, *, seed: int = 0, directed: bool = True) -> Graph:
    """Return a random graph of 2^scale vertices whose degrees follow a power law, by Graph500's model.  Collective.

    edge_factor : edges for each vertex; equal edges become one, of value 1, and loops are left out.
    An edge's ends are found bit by bit: a quadrant of the matrix, a quadrant of that, ...  (Chakrabarti et al., 2004).
    Vertices are renumbered at random.  The graph depends on the seed only, not on p.
    Raises PlanTooLarge, before any edge is drawn, if they need more than the memory limit.
    Cost: W = `scale` random numbers for each edge of a process, and 2^scale on every process; then that of
        `from_edges`, and S = 1.
    """
    whole = all(isinstance(each, (int, np.integer)) for each in (scale, edge_factor, seed))
    if not (whole and 0 <= scale <= 40 and edge_factor >= 0 and 0 <= seed < 1 << 64):
        raise GraphError(
            f"rmat(scale={scale!r}, edge_factor={edge_factor!r}, seed={seed!r}): scale is an integer from 0 to 40, "
            "edge_factor one from 0, and seed one from 0 to 2^64 - 1"
        )
    here, n = world(), 1 << scale
    if here.abstract:
        raise ValueNeeded(f"rmat at {line()}: {_UNKNOWN}")
    ways = 1 if directed else 2
    must_fit(f"rmat({scale}, {edge_factor})", (_EDGE * ways * edge_factor / here.nprocs + _VERTEX) * n)
    order = np.random.default_rng([seed, scale]).permutation(n)  # first: it fails at once where memory is far too small
    chunks = -(-n * edge_factor // _CHUNK)
    ends = [np.zeros((2, 0), np.int64)]
    for chunk in range(chunks * here.pid // here.nprocs, chunks * (here.pid + 1) // here.nprocs):
        count = min(_CHUNK, n * edge_factor - chunk * _CHUNK)
        ends.append(_edges(np.random.Generator(np.random.Philox(key=np.array([seed, chunk], np.uint64))), scale, count))
    u, v = np.concatenate(ends, axis=1)
    u, v = order[u], order[v]
    kept = u != v
    u, v = u[kept], v[kept]
    if not directed:
        u, v = np.concatenate([u, v]), np.concatenate([v, u])
    found = sparse.from_coo(u, v, 1.0, (n, n))
    return Graph(found.with_entries((found.entries > 0).astype(float)).persist(), both_ways=not directed)


def _edges(rng: np.random.Generator, scale: int, count: int) -> np.ndarray:
    """Return the ends of random edges, (2, count)."""
    a, b, c, _ = _QUADRANTS
    ends = np.zeros((2, count), np.int64)
    for _ in range(scale):
        drawn = rng.random(count)
        ends <<= 1
        ends[0] |= drawn >= a + b
        ends[1] |= ((drawn >= a) & (drawn < a + b)) | (drawn >= a + b + c)
    return ends
