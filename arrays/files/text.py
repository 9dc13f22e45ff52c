"""Numbers written as text: each process formats its own rows, and writes them at their place in the one file."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections.abc import Callable
from io import BytesIO
from typing import Any

import numpy as np

from bsp.arrays.api.creation import asarray
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import Node
from bsp.arrays.files.agreement import PathLike, evaluated, in_layout, path_of, slabs, written_in_parts
from bsp.arrays.files.format import register
from bsp.arrays.files.npy import save_raw

# streams of these follow each other in one file, so each process compresses what it has
_COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda text: gzip.compress(text, mtime=0), ".bz2": bz2.compress, ".xz": lzma.compress,
}  # fmt: skip


def _own_rows(node: Node) -> tuple[Any, int]:
    """This process's rows, and how many are before them."""
    here = world()
    layout = slabs(node.kind.shape, here.nprocs)
    laid = in_layout(node, layout)
    mine = layout.mine(here.pid)
    if not mine:
        return here.empty((0, *node.kind.shape[1:]), node.kind.dtype), node.kind.shape[0]
    (at,) = mine
    return laid.value[at], layout.box(at)[0][0] if layout.axes else 0


def savetxt(
    fname: PathLike, X: Any, fmt: Any = "%.18e", delimiter: str = " ", newline: str = "\n", header: str = "",
    footer: str = "", comments: str = "# ", encoding: str | None = None,
) -> None:  # fmt: skip
    """An array as text, one row a line, just as numpy.savetxt writes it; compressed if the name ends in .gz, .bz2, .xz.

    Cost: rows that are cut are brought together, one total exchange; 4 supersteps.  The text of a process's rows is in
    its memory until it is written.
    Raises FileError on every process if one could not write; nothing is left behind.
    """
    path = path_of(fname, "savetxt")
    here = world()
    node = evaluated(asarray(X))
    shape = node.kind.shape
    if len(shape) not in (1, 2):
        raise ValueError(f"Expected 1D or 2D array, got {len(shape)}D array instead")
    options: dict[str, Any] = {"delimiter": delimiter, "newline": newline, "encoding": encoding}
    np.savetxt(BytesIO(), np.zeros((1, *shape[1:]), node.kind.dtype), fmt, **options)  # NumPy's refusals, everywhere
    rows, _ = _own_rows(node)
    out = BytesIO()
    if not here.abstract:
        first, last = here.pid == 0, here.pid == here.nprocs - 1
        np.savetxt(
            out, rows, fmt, **options, comments=comments, header=header if first else "", footer=footer if last else ""
        )
    text = out.getvalue()
    compress = _COMPRESSORS.get(os.path.splitext(path)[1].lower())
    written_in_parts(f"savetxt({path!r})", path, compress(text) if compress and text else text)


def tofile(x: Any, fid: PathLike, sep: str = "", format: str = "%s") -> None:
    """All elements in C order as they are in memory, or as text between separators; as ndarray.tofile, at its price.

    Cost: as `save_npy` of memory; of text as `savetxt`.
    """
    path = path_of(fid, "tofile")
    if not sep:
        save_raw(f"tofile({path!r})", path, x, b"")
        return
    node = evaluated(asarray(x))
    own, before = _own_rows(node)
    text = ""
    if not world().abstract:
        items = [format % item for item in own.reshape(-1).tolist()]
        text = sep * bool(items and before) + sep.join(items)
    written_in_parts(f"tofile({path!r})", path, text.encode())


register(functions=(savetxt,), of_numpy={np.savetxt: savetxt}, methods=(tofile,))
