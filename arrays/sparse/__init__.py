"""Sparse matrices, dealt by rows, and sparse arrays of any number of axes, with scipy.sparse's names.

    import bsp.arrays as ba
    from bsp.arrays import sparse
    A = sparse.diags([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(10**6, 10**6))
    y = A @ ba.ones(10**6)                   # lazy, planned together with dense arithmetic
    print((y @ y).explain())                 # one word for each far column moves, in one superstep

A product moves the elements at a process's far columns only, those of other processes in which it has entries (McColl,
section 1.6.2).  They are found once for a pattern; products that are repeated move no indices.  Rows are dealt so that
processes have about as many entries; arrays of more axes (`CooArray`) by ranges of places, with the same exchanges.
"""

from bsp.arrays.sparse.array import SparseArray
from bsp.arrays.sparse.coo import CooArray, as_coo
from bsp.arrays.sparse.creation import diags, eye, from_coo, from_local, from_scipy, of_function, random
from bsp.arrays.sparse.files import load, read_coordinates, read_edges, read_mtx, read_npz, save_npz, write_mtx
from bsp.arrays.sparse.joining import block_array, block_diag, hstack, kron, kronsum, vstack
from bsp.arrays.sparse.local import LocalOperator
from bsp.arrays.sparse.model import model
from bsp.arrays.sparse.multiply import matmul
from bsp.arrays.sparse.pattern import Pattern
from bsp.arrays.sparse.selection import tril, triu

__all__ = [
    "CooArray", "LocalOperator", "Pattern", "SparseArray", "as_coo", "block_array", "block_diag", "diags", "eye",
    "from_coo", "from_local", "from_scipy", "hstack", "kron", "kronsum", "load", "matmul", "model", "of_function",
    "random", "read_coordinates", "read_edges", "read_mtx", "read_npz", "save_npz", "tril", "triu", "vstack",
    "write_mtx",
]  # fmt: skip


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
