"""Sparse arrays in files: Matrix Market, scipy's .npz, and lists of edges or coordinates as text or Parquet.

Each process reads its own lines, rows or row groups, and writes its own entries at their place in the one file.  Lines
that a process has read go to the owners of their rows; an .npz archive has rows in order, so there nothing moves.  An
error of one process is the same error on all, with the line in which it is.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from bsp.arrays.files.lines.division import OPENERS
from bsp.arrays.sparse.array import SparseArray
from bsp.arrays.sparse.coo import CooArray
from bsp.arrays.sparse.files.archives import read_npz, save_npz
from bsp.arrays.sparse.files.lists import read_coordinates, read_edges
from bsp.arrays.sparse.files.matrix_market import read_mtx, write_mtx
from bsp.arrays.typing import PathLike

__all__ = ["load", "read_coordinates", "read_edges", "read_mtx", "read_npz", "save_npz", "write_mtx"]


def load(path: PathLike, **options: Any) -> SparseArray | CooArray:
    """Read a sparse array from a file: Matrix Market (.mtx), scipy's .npz, else a list of edges.  Collective.

    options : those of `read_mtx`, `read_npz` or `read_edges`.
    """
    name, ending = os.path.splitext(os.fspath(path).lower())
    ending = os.path.splitext(name)[1] if ending in OPENERS else ending
    readers: dict[str, Callable[..., Any]] = {".mtx": read_mtx, ".npz": read_npz}
    reader: Callable[..., SparseArray | CooArray] = readers.get(ending, read_edges)
    return reader(path, **options)
