"""Graphs, and programs that think like a vertex, written for all vertices of a process at once.

    from bsp import graphs
    graph = graphs.rmat(16)                            # or from_edges, from_networkx, Graph(sparse array), ...
    ranks = graphs.pagerank(graph)                     # an array of bsp.arrays

`Graph.send` is a round: values go along edges, are combined where they arrive, and totals are summed in the same
superstep.  `pagerank` is the shortest example of such a program.
"""

from bsp.algorithms.graphs.betweenness import betweenness
from bsp.algorithms.graphs.building import from_edges, from_networkx, rmat
from bsp.algorithms.graphs.cohesion import k_core, label_propagation, mis
from bsp.algorithms.graphs.components import connected_components
from bsp.algorithms.graphs.errors import GraphError, NegativeCycle
from bsp.algorithms.graphs.graph import Graph, Heard
from bsp.algorithms.graphs.naming import from_named_edges, read_named_edges
from bsp.algorithms.graphs.pagerank import pagerank
from bsp.algorithms.graphs.traversal import bfs, sssp
from bsp.algorithms.graphs.trees import mst
from bsp.algorithms.graphs.triangles import triangles

__all__ = [
    "Graph", "GraphError", "Heard", "NegativeCycle", "betweenness", "bfs", "connected_components", "from_edges",
    "from_named_edges", "from_networkx", "k_core", "label_propagation", "mis", "mst", "pagerank", "read_named_edges",
    "rmat", "sssp", "triangles",
]  # fmt: skip


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
