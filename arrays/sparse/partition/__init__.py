"""Partitions: which process has which rows of a matrix and elements of a vector, and what a product then moves.

A partition is an order of the positions and the bounds of the processes' shares of that order.  A matrix that is dealt
by one is the same matrix with rows and columns in this order; vectors go the same way, and back:

    deal = partition.bricks((100, 100, 100), 64)          # boxes of a mesh
    B, c = deal.matrix(A), deal.vector(b)
    x = deal.undone(krylov.cg(B, c)[0])
    print(deal.product(A))                                # words out and in, h and balance, before anything runs

In a product a process receives one word for each column of another process in which it has entries.  Cutting the graph
of the matrix well makes these few: on a square mesh of n nodes h is 4·(n/p)^(1/2), on a cubic one 6·(n/p)^(2/3), on a
hypercube (n log p)/p, and on an expander about n/p whatever the cut (McColl, section 1.6.2; McColl 1995).  Of a graph
in which some rows have entries nearly everywhere, such as a power-law graph, h is nearly n; `deal.grid(A)` deals the
entries by two-dimensional blocks instead, with h at most 2n/√p.
"""

from bsp.arrays.sparse.partition.deals import Partition, blocks, bricks, halves, of_graph, of_owner
from bsp.arrays.sparse.partition.grid import GridMatrix
from bsp.arrays.sparse.partition.traffic import GridTraffic, ProductTraffic

__all__ = [
    "GridMatrix", "GridTraffic", "Partition", "ProductTraffic", "blocks", "bricks", "halves", "of_graph", "of_owner",
]  # fmt: skip


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
