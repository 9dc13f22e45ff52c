"""Zarr arrays: a folder with a file for each chunk, so every process reads and writes chunks of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from bsp.arrays.api.creation import Grid, asarray, layout_for
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import leaf
from bsp.arrays.expressions.layout import Layout, dealt
from bsp.arrays.files.agreement import (
    Held,
    agreed,
    blocks_read,
    evaluated,
    needed,
    replaced,
    same_everywhere,
    writers_of,
)
from bsp.arrays.files.format import register
from bsp.arrays.procedures.operands import in_layout, slabs
from bsp.arrays.typing import ArrayLike, PathLike

_FILES = Held("Zarr", long=False)


def read_zarr(path: PathLike, *, grid: Grid = None, process_grid: Grid = None) -> Array:
    """Read a Zarr array; each process reads its own blocks, that is the chunks that meet them.

    Cost: one superstep, in which all agree that they could read.
    Raises NoSuchFile, FileError, FormatError if it is no Zarr array of numbers, ImportError without zarr.
    """
    call = f"read_zarr({os.fspath(path)!r})"
    found: dict[str, Any] = {}

    def work() -> Any:
        zarr = needed("zarr")
        if not os.path.exists(path):
            raise FileNotFoundError(2, os.strerror(2))
        try:
            data = zarr.open_array(os.fspath(path), mode="r")
        except Exception as wrong:  # noqa: BLE001 - zarr has an error of its own for each way
            raise ValueError(f"there is no Zarr array: {wrong or type(wrong).__name__}") from None
        kind = _FILES.native(data.dtype)
        layout = layout_for(data.shape, grid, process_grid)
        blocks = blocks_read(layout, kind, lambda box: np.array(data[box], kind, order="C"))
        found.update(shape=tuple(data.shape), dtype=kind, layout=layout, blocks=blocks)
        return tuple(data.shape), data.dtype.str

    same_everywhere(call, agreed(call, work))
    return wrap(leaf(found["shape"], found["dtype"], found["layout"], found["blocks"]))


def write_zarr(path: PathLike, x: ArrayLike) -> None:
    """Write an array to a Zarr array, in chunks of the size of its blocks; each process writes its own chunks.

    Chunks are of equal size, so rows at the edges of blocks may move to another process first; cyclic blocks stay.
    The folder is written beside its target and takes its place when all is written; a folder of other contents, or a
    Zarr group, stays.
    Cost: 3 supersteps, and one exchange where blocks are not of equal size.
    Raises FileError on every process if one could not write, ImportError without zarr.
    """
    here = world()
    array = asarray(x)
    _FILES.writable("write_zarr", array.dtype)
    node = evaluated(array)
    assert node.layout is not None
    node = in_layout(node, _chunked(node.layout, here.nprocs))
    layout = node.layout
    assert layout is not None
    shape, dtype = node.kind.shape, node.kind.dtype
    chunks = tuple(max(int(np.diff(axis.bounds).max(initial=1)), 1) for axis in layout.axes)

    def prepare(part: Path) -> None:
        zarr = needed("zarr")
        options: dict[str, Any] = {}
        if (part.parent / ".zgroup").exists() and not zarr.__version__.startswith("2."):
            options["zarr_format"] = 2  # a group finds arrays of its own version only
        zarr.open_array(os.fspath(part), mode="w", shape=shape, chunks=chunks, dtype=dtype, **options)

    def write(part: Path) -> None:
        data = needed("zarr").open_array(os.fspath(part), mode="r+")
        for at, block in node.value.items():
            if block.size:
                data[tuple(slice(*span) for span in layout.box(at))] = block

    replaced(f"write_zarr({os.fspath(path)!r})", path, prepare, write, writers_of(layout), is_own=_is_array)


def _is_array(folder: Path) -> bool:
    """Return whether a folder is empty or a Zarr array.  A group is neither: it may have many arrays."""
    names = os.listdir(folder)
    if "zarr.json" in names:
        return bool(json.loads((folder / "zarr.json").read_bytes()).get("node_type") == "array")
    return not names or ".zarray" in names


def _chunked(layout: Layout, nprocs: int) -> Layout:
    """Return the layout with its cuts moved to multiples of one length along each axis."""
    if layout.replicated:
        return layout
    if layout.table is not None:
        layout = slabs(layout.shape, nprocs)
    cuts = []
    for axis in layout.axes:
        step = -(-axis.length // axis.parts)
        even = tuple(min(k * step, axis.length) for k in range(axis.parts + 1))
        cuts.append(None if even == tuple(int(each) for each in axis.bounds) and axis.cuts is None else even)
    if all(cut is None or cut == axis.cuts for cut, axis in zip(cuts, layout.axes, strict=True)):
        return layout
    return dealt(layout.shape, layout.grid, layout.process_grid, cuts)


register(".zarr", read=read_zarr, write=write_zarr, functions=(read_zarr, write_zarr))
