"""Parquet by pyarrow: tables whose columns are all numbers, as arrays of rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bsp.arrays.api.creation import Grid, asarray, layout_for
from bsp.arrays.array import wrap
from bsp.arrays.errors import LayoutError
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.expressions.graph import DType, leaf
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.files.agreement import (
    Held,
    PathLike,
    agreed,
    evaluated,
    flushed,
    in_layout,
    needed,
    replaced,
    same_everywhere,
    slabs,
)
from bsp.arrays.files.format import register

_FILES = Held("Parquet", "biuf", long=False)
_AXES = b"nonstop-bsp.axes"  # of the array that a file was written from, in its metadata


def read_parquet(
    path: PathLike, columns: str | Sequence[str] | None = None, *, dtype: Any = None, names: bool = False,
    grid: Grid = None, process_grid: Grid = None,
) -> Any:  # fmt: skip
    """The numbers of a Parquet file, or of all those in a folder, in order of their names.

    columns : one name gives an array of shape (rows,), a list (rows, len(columns)); None: all, (rows,) if it is what
        `write_parquet` has made of a vector.
    dtype : None: what the columns promote to; a column with missing values is a float one, with NaN for them.
    names : return (array, list of the names of its columns).
    Each process reads the row groups that have rows of its blocks.
    Cost: one superstep, in which all agree that they could read.  A file says how many values are missing; where it
    does not, integers are read as floats.
    Raises NoSuchFile, FileError, FormatError if a column has no numbers, ImportError without pyarrow.
    """
    here = world()
    call = f"read_parquet({os.fspath(path)!r})"
    found: dict[str, Any] = {}

    def work() -> Any:
        parquet = needed("pyarrow.parquet")
        files = [parquet.ParquetFile(each) for each in files_of(path)]
        try:
            wanted = [columns] if isinstance(columns, str) else list(columns or files[0].schema_arrow.names)
            kinds = _kinds(files, wanted)
            kind = element_type(dtype) if dtype is not None else np.result_type(*kinds) if kinds else np.dtype(float)
            rows = sum(file.metadata.num_rows for file in files)
            one = isinstance(columns, str) or (columns is None and _is_vector(files))
            shape: Shape = (rows,) if one else (rows, len(wanted))
            layout = layout_for(shape, grid, process_grid)
            blocks: dict[Shape, Any] = {}
            for at in layout.mine(here.pid):
                if here.abstract:
                    blocks[at] = here.empty(layout.block_shape(at), kind)
                    continue
                box = layout.box(at)
                own = wanted if len(box) == 1 else wanted[slice(*box[1])]
                blocks[at] = _rows(files, own, kind, *box[0]).reshape(layout.block_shape(at))
        finally:
            for file in files:
                file.close()
        found.update(shape=shape, dtype=kind, layout=layout, blocks=blocks, names=wanted)
        return shape, kind.str, wanted

    same_everywhere(call, agreed(call, work))
    array = wrap(leaf(found["shape"], found["dtype"], found["layout"], found["blocks"]))
    return (array, found["names"]) if names else array


def write_parquet(path: PathLike, x: Any, names: Sequence[str] | None = None) -> None:
    """An array of shape (rows,) or (rows, columns) as a folder of Parquet files, one of each process.

    names : of the columns; c0, c1, ... if None.
    The folder is written beside its target and takes its place when all is written.
    Cost: 3 supersteps; one exchange before if rows are not whole and in the order of the processes.
    Raises FileError on every process if one could not write, ImportError without pyarrow.
    """
    here = world()
    array = asarray(x)
    if array.ndim not in (1, 2):
        raise LayoutError(
            f"write_parquet of an array of {array.ndim} dimensions: a table has rows, or rows and columns"
        )
    width = 1 if array.ndim == 1 else array.shape[1]
    titles = [f"c{k}" for k in range(width)] if names is None else list(names)
    if len(titles) != width:
        raise LayoutError(f"write_parquet: {len(titles)} names for {width} columns")
    _FILES.writable("write_parquet", array.dtype)
    node = evaluated(array)
    layout = node.layout
    assert layout is not None
    first = layout.axes[0]
    in_order = first.parts == first.deal and all(axis.parts == 1 for axis in layout.axes[1:])
    if not layout.replicated and not (in_order and layout.table is None):
        node = in_layout(node, slabs(node.kind.shape, here.nprocs))
        layout = node.layout
        assert layout is not None

    def write(part: Path) -> None:
        pyarrow, parquet = needed("pyarrow"), needed("pyarrow.parquet")
        for (_, block), at in zip(node.value.items(), layout.mine(here.pid), strict=True):
            if block.size or here.pid == 0:
                rows = block.reshape(len(block), width).astype(block.dtype.newbyteorder("="), copy=False)
                table = pyarrow.table(
                    [np.ascontiguousarray(each) for each in rows.T], titles, metadata={_AXES: str(array.ndim)}
                )
                file = part / f"part-{at[0]:06d}.parquet"
                parquet.write_table(table, file)
                flushed(file)

    writers = [0] if layout.replicated else list(range(here.nprocs))
    replaced(f"write_parquet({os.fspath(path)!r})", path, lambda part: part.mkdir(), write, writers)


def files_of(path: PathLike) -> list[Path]:
    target = Path(path)
    if not target.is_dir():
        return [target]
    found = sorted(each for each in target.rglob("*.parquet") if each.is_file())
    if not found:
        raise ValueError("the folder has no .parquet files")
    return found


def _is_vector(files: Sequence[Any]) -> bool:
    """Whether `write_parquet` has made these files of an array of one axis; they tell."""
    return all((file.schema_arrow.metadata or {}).get(_AXES) == b"1" for file in files)


def _kinds(files: Sequence[Any], wanted: Sequence[str]) -> list[DType]:
    """The dtypes of some columns, from what the files say of themselves."""
    pyarrow = needed("pyarrow")
    found = []
    for file in files:
        schema = file.schema_arrow
        for name in wanted:
            if name not in schema.names:
                raise ValueError(f"there is no column {name!r}; there are {', '.join(schema.names)}")
            kind = schema.field(name).type
            if not (
                pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind)
            ):
                raise ValueError(f"column {name!r} has {kind}, no numbers")
            dtype = np.dtype(kind.to_pandas_dtype())
            if dtype.kind != "f" and _may_miss(file.metadata, schema.names.index(name)):
                dtype = np.dtype(float)
            found.append(dtype)
    return found


def _may_miss(metadata: Any, column: int) -> bool:
    """Whether values of a column may be missing."""
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        statistics = rows.column(column).statistics
        if not rows.num_rows:
            continue
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            return True
    return False


def _rows(files: Sequence[Any], names: Sequence[str], dtype: DType, low: int, high: int) -> np.ndarray:
    """Rows low to high of some columns: shape (high - low, len(names))."""
    found = np.empty((high - low, len(names)), dtype)
    start = 0
    for file in files:
        counts = [file.metadata.row_group(k).num_rows for k in range(file.metadata.num_row_groups)]
        places = start + np.cumsum([0, *counts])
        for group, (begin, end) in enumerate(pairwise(places.tolist())):
            first, last = max(low, begin), min(high, end)
            if first < last:
                table = file.read_row_group(group, columns=list(names)).slice(first - begin, last - first)
                for k, name in enumerate(names):
                    found[first - low : last - low, k] = table.column(name).to_numpy()
        start = int(places[-1])
    return found


register(".parquet", read=read_parquet, write=write_parquet, functions=(read_parquet, write_parquet))
