"""Numbers written as text: each process formats its own rows, and writes them at their place in the one file."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
from collections.abc import Callable, Sequence
from io import StringIO
from typing import Any

import numpy as np

from bsp.arrays.api.creation import asarray
from bsp.arrays.array import Array
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import Node
from bsp.arrays.files.agreement import evaluated, path_of, written_in_parts
from bsp.arrays.files.format import register
from bsp.arrays.files.npy import save_raw
from bsp.arrays.procedures.operands import in_layout, slabs
from bsp.arrays.typing import ArrayLike, PathLike
from bsp.declared import declares

# streams of these follow each other in one file, so each process compresses what it has
COMPRESSORS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda text: gzip.compress(text, mtime=0), ".bz2": bz2.compress, ".xz": lzma.compress,
}  # fmt: skip


def compressed(path: str, text: bytes) -> bytes:
    """Return this process's text as a file of this name has it: compressed if it ends in .gz, .bz2 or .xz.

    Process 0 compresses no text, too: a file of no bytes is no compressed text.
    """
    compress = COMPRESSORS.get(os.path.splitext(path)[1].lower())
    return compress(text) if compress and (text or world().pid == 0) else text


def _own_rows(node: Node) -> tuple[Any, int]:
    """Return this process's rows, and the number of rows before them."""
    here = world()
    layout = slabs(node.kind.shape, here.nprocs)
    laid = in_layout(node, layout)
    mine = layout.mine(here.pid)
    if not mine:
        return here.empty((0, *node.kind.shape[1:]), node.kind.dtype), node.kind.shape[0]
    (at,) = mine
    return laid.value[at], layout.box(at)[0][0] if layout.axes else 0


@declares(lambda costs, *args: "")
def _items(values: np.ndarray, format: str, sep: str, more: bool) -> str:
    """Return all elements in C order as text, after a separator if `more` are before them; no text without values."""
    return sep * bool(more and values.size) + sep.join(format % item for item in values.reshape(-1).tolist())


@declares(lambda costs, *args, **kwargs: "")
def _formatted(rows: np.ndarray, fmt: Any, **options: Any) -> str:
    """Format rows as numpy.savetxt writes them; no text in a run with shapes only."""
    out = StringIO()
    np.savetxt(out, rows, fmt, **options)
    return out.getvalue()


def _encoded(text: str, encoding: str, more: bool) -> bytes:
    """Encode text, with the encoding's byte-order mark unless `more` is before it in the file."""
    mark = len("".encode(encoding)) if more or not text else 0
    return text.encode(encoding)[mark:]


def savetxt(
    fname: PathLike, X: ArrayLike, fmt: str | Sequence[str] = "%.18e", delimiter: str = " ", newline: str = "\n",
    header: str = "", footer: str = "", comments: str = "# ", encoding: str | None = None,
) -> None:  # fmt: skip
    """Write an array as text, one row a line, as numpy.savetxt does; compressed if the name ends in .gz, .bz2 or .xz.

    Cost: 4 supersteps; if rows are cut they are first brought together, one total exchange.  A process holds the text
    of all its rows in memory until it is written.
    Raises FileError on every process if one could not write; nothing is left behind.
    """
    path = path_of(fname, "savetxt")
    here = world()
    node = evaluated(asarray(X))
    shape = node.kind.shape
    if len(shape) not in (1, 2):
        raise ValueError(f"Expected 1D or 2D array, got {len(shape)}D array instead")
    options: dict[str, Any] = {"delimiter": delimiter, "newline": newline, "comments": comments}
    code = encoding or "utf-8"
    trial = StringIO()  # NumPy's refusals, everywhere
    np.savetxt(trial, np.zeros((1, *shape[1:]), node.kind.dtype), fmt, header=header, footer=footer, **options)
    trial.getvalue().encode(code)
    rows, before = _own_rows(node)
    first, last = here.pid == 0, here.pid == here.nprocs - 1
    options.update(header=header if first else "", footer=footer if last else "")
    more = before > 0 or bool(header and not first)

    def make() -> bytes:
        return compressed(path, _encoded(_formatted(rows, fmt, **options), code, more))

    written_in_parts(f"savetxt({path!r})", path, make)


def tofile(x: Array, fid: PathLike, sep: str = "", format: str = "%s") -> None:
    """Write all elements in C order, as ndarray.tofile does: as raw memory, or as text between separators.

    Cost: that of `save_npy` for raw memory, of `savetxt` for text.
    """
    path = path_of(fid, "tofile")
    if not sep:
        save_raw(f"tofile({path!r})", path, x, b"")
        return
    node = evaluated(asarray(x))
    own, before = _own_rows(node)
    written_in_parts(f"tofile({path!r})", path, lambda: _items(own, format, sep, before > 0).encode())


register(functions=(savetxt,), of_numpy={np.savetxt: savetxt})
