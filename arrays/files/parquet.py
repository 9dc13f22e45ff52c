"""Parquet by pyarrow: columns of numbers as arrays, columns of numbers and texts as tables."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload
from urllib.parse import unquote

import numpy as np

from bsp.arrays.api.creation import Grid, asarray, layout_for
from bsp.arrays.array import Array, wrap
from bsp.arrays.errors import LayoutError
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.expressions.graph import DType, leaf
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.files.agreement import (
    Held,
    agreed,
    blocks_read,
    evaluated,
    flushed,
    needed,
    replaced,
    same_everywhere,
    sampled,
    unchanged,
)
from bsp.arrays.files.arrow import numbers_in
from bsp.arrays.files.columns import CHUNK_ROWS, Codes, Columns
from bsp.arrays.files.format import Choose, register
from bsp.arrays.files.lines.dialect import Dialect
from bsp.arrays.files.lines.fields import MISSING, is_number
from bsp.arrays.procedures.operands import in_layout, slabs
from bsp.arrays.typing import ArrayLike, DTypeLike, PathLike
from bsp.values.payload import cuts_of

_FILES = Held("Parquet", "biuf", long=False)
_MARKS = ("_SUCCESS", "_metadata", "_common_metadata")  # files that Spark and pyarrow write beside those of tables
_AXES = b"nonstop-bsp.axes"  # metadata key: the number of axes of the array that was written


@overload
def read_parquet(
    path: PathLike, columns: str | Sequence[str] | None = None, *, dtype: DTypeLike | None = None,
    names: Literal[False] = False, grid: Grid = None, process_grid: Grid = None,
) -> Array: ...  # fmt: skip
@overload
def read_parquet(
    path: PathLike, columns: str | Sequence[str] | None = None, *, dtype: DTypeLike | None = None,
    names: Literal[True], grid: Grid = None, process_grid: Grid = None,
) -> tuple[Array, list[str]]: ...  # fmt: skip
def read_parquet(
    path: PathLike, columns: str | Sequence[str] | None = None, *, dtype: DTypeLike | None = None, names: bool = False,
    grid: Grid = None, process_grid: Grid = None,
) -> Any:  # fmt: skip
    """Read the numbers of a Parquet file, or of all files of a folder, in order of their names.

    Files and folders whose names begin with "." or "_" are not read: they are incomplete, or not part of the table.
    columns : one name gives an array of shape (rows,), a list (rows, len(columns)); None: all, as (rows,) if
        `write_parquet` wrote the files from a vector.
    dtype : None: what the columns promote to; a column with missing values is read as floats, with NaN for them.
    names : return (array, list of the names of its columns).
    Each process reads the row groups that have rows of its blocks.  Values that are only in the names of folders, as in
    "year=2026/", are read where `columns` names them.
    Cost: one superstep, in which all agree that they could read.  A file's metadata count its missing values; where
    they do not, integers are read as floats.
    Raises NoSuchFile, FileError, FormatError if a column has no numbers or one that is none of `dtype`'s integers,
    ImportError without pyarrow.
    """
    call = f"read_parquet({os.fspath(path)!r})"
    found: dict[str, Any] = {}

    def work() -> Any:
        parquet = needed("pyarrow.parquet")
        paths = _files_of(path)
        files = [parquet.ParquetFile(each) for each in paths]
        try:
            every = files[0].schema_arrow.names
            wanted = [columns] if isinstance(columns, str) else list(every if columns is None else columns)
            folders = [_folders_of(each, path, every, MISSING) for each in paths]
            kinds = _kinds(files, [name for name in wanted if name not in folders[0]], folders[0])
            kinds += [_kind_in_names(paths, folders, name) for name in wanted if name in folders[0]]
            kind = element_type(dtype) if dtype is not None else np.result_type(*kinds) if kinds else np.dtype(float)
            rows = sum(file.metadata.num_rows for file in files)
            one = isinstance(columns, str) or (columns is None and _is_vector(files))
            shape: Shape = (rows,) if one else (rows, len(wanted))
            layout = layout_for(shape, grid, process_grid)

            def part(box: tuple[slice, ...]) -> np.ndarray:
                found = _rows(files, folders, wanted if one else wanted[box[1]], kind, box[0].start, box[0].stop)
                return found[:, 0] if one else found

            blocks = blocks_read(layout, kind, part)
        finally:
            for file in files:
                file.close()
        found.update(shape=shape, dtype=kind, layout=layout, blocks=blocks, names=wanted)
        return shape, kind.str, wanted

    told = agreed(call, lambda: sampled(path, work))
    same_everywhere(call, [seen for seen, _ in told])
    unchanged(call, [sample for _, sample in told])
    array = wrap(leaf(found["shape"], found["dtype"], found["layout"], found["blocks"]))
    return (array, found["names"]) if names else array


def write_parquet(path: PathLike, x: ArrayLike, names: Sequence[str] | None = None) -> None:
    """Write an array of shape (rows,) or (rows, columns) to a folder of Parquet files, one for each process.

    names : the names of the columns; c0, c1, ... if None.
    The folder is written beside its target and takes its place when all is written; a folder of other contents stays.
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
    if not width:
        raise LayoutError(
            f"write_parquet of shape {array.shape}: files without columns would not hold the number of rows"
        )
    titles = [f"c{k}" for k in range(width)] if names is None else list(names)
    if not len(titles) == len(set(titles)) == width:
        raise LayoutError(f"write_parquet: {len(set(titles))} different names for {width} columns")
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
    call = f"write_parquet({os.fspath(path)!r})"
    replaced(call, path, lambda part: part.mkdir(), write, writers, is_own=_has_tables_alone)


def _has_tables_alone(folder: Path) -> bool:
    """Return whether a folder has nothing but Parquet files, and what programs that wrote them left beside them."""
    return all(
        _has_tables_alone(each) if each.is_dir() else each.suffix in (".parquet", ".crc") or each.name in _MARKS
        for each in folder.iterdir()
    )


def _files_of(path: PathLike) -> list[Path]:
    target = Path(path)
    if not target.is_dir():
        return [target]
    found = sorted(
        each for each in target.rglob("*.parquet")
        if each.is_file() and not any(name.startswith((".", "_")) for name in each.relative_to(target).parts)
    )  # fmt: skip
    if not found:
        raise ValueError("the folder has no .parquet files")
    return found


def _is_vector(files: Sequence[Any]) -> bool:
    """Return True if the files' metadata record that `write_parquet` wrote them from a vector."""
    return all((file.schema_arrow.metadata or {}).get(_AXES) == b"1" for file in files)


def _kinds(files: Sequence[Any], wanted: Sequence[str], others: Collection[str]) -> list[DType]:
    """Return the dtypes of some columns, from the metadata of the files; others : columns beside theirs."""
    pyarrow = needed("pyarrow")
    found = []
    for file in files:
        types = _types_of(file)
        places = {file.metadata.schema.column(k).path: k for k in range(file.metadata.num_columns)}  # nested: several
        for name in wanted:
            if name not in types:
                raise ValueError(f"there is no column {name!r}; there are {', '.join([*types, *others])}")
            kind = types[name]
            if not (
                pyarrow.types.is_integer(kind) or pyarrow.types.is_floating(kind) or pyarrow.types.is_boolean(kind)
            ):
                raise ValueError(f"column {name!r} has {kind}, no numbers")
            dtype = np.dtype(kind.to_pandas_dtype())
            if dtype.kind != "f" and _may_miss(file.metadata, places[name]):
                dtype = np.dtype(float)
            found.append(dtype)
    return found


def _types_of(file: Any) -> dict[str, Any]:
    """Return the types of a file's columns by name.  To ask the file for each column takes long where it is wide."""
    schema = file.schema_arrow
    return dict(zip(schema.names, schema.types, strict=True))


def _may_miss(metadata: Any, column: int) -> bool:
    """Return True if the column of this number may have missing values."""
    for group in range(metadata.num_row_groups):
        rows = metadata.row_group(group)
        statistics = rows.column(column).statistics
        if not rows.num_rows:
            continue
        if statistics is None or not statistics.has_null_count or statistics.null_count:
            return True
    return False


def _groups(files: Sequence[Any], names: Sequence[str], low: int, high: int) -> Iterator[tuple[int, int, Any]]:
    """Yield the row groups' parts of the rows low to high: the number of the file, of the first row, and the part."""
    begin = 0
    for number, file in enumerate(files):
        for group in range(file.metadata.num_row_groups):
            end = begin + file.metadata.row_group(group).num_rows
            first, last = max(low, begin), min(high, end)
            if first < last:
                yield number, first, file.read_row_group(group, columns=list(names)).slice(first - begin, last - first)
            begin = end


def _rows(
    files: Sequence[Any], folders: Sequence[Mapping[str, str | None]], names: Sequence[str], dtype: DType, low: int,
    high: int,
) -> np.ndarray:  # fmt: skip
    """Return rows low to high of some columns: shape (high - low, len(names)).

    folders : of each file, the columns that are in the names of its folders, and their values.
    """
    found = np.empty((high - low, len(names)), dtype)
    held = [name for name in names if name not in folders[0]] or files[0].schema_arrow.names[:1]  # one counts rows
    for number, first, part in _groups(files, held, low, high):
        for k, name in enumerate(names):
            values = _column(folders[number][name], 1, None) if name in folders[0] else part.column(name)
            found[first - low : first - low + len(part), k] = _cast(values, name, dtype)
    return found


def _cast(column: Any, name: str, dtype: DType) -> np.ndarray:
    """Return the values of a column in a dtype; ValueError if one, such as a null, is none of its integers."""
    given = column if isinstance(column, np.ndarray) else column.to_numpy()
    gone = np.isnan(given).any() if isinstance(column, np.ndarray) else column.null_count
    if gone and dtype.kind in "biu":
        raise ValueError(f"column {name!r}: a value is missing, and {dtype} has none for that; dtype=float gives NaN")
    with np.errstate(invalid="ignore"):
        found: np.ndarray = given.astype(dtype, copy=False)
    if dtype.kind in "iu" and (wrong := np.flatnonzero(found != given)).size:
        raise ValueError(f"column {name!r}: the value {given[wrong[0]]} is none of {dtype}")
    return found


_NUMBERS, _TRUTHS, _TEXTS, _DATES = "numbers", "truth values", "texts", "dates"  # kinds of columns in tables
_MOST_ORDERED = 1000  # texts of a dictionary that is an order of categories
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def _folders_of(file: Path, root: PathLike, held: Collection[str], missing: Collection[str]) -> dict[str, str | None]:
    """Return what is in the names of the folders between a root and a file, "year=2026", of columns no file holds."""
    pairs = [each.partition("=") for each in file.relative_to(root).parts[:-1] if "=" in each]
    found = {unquote(name): unquote(text).strip() for name, _, text in pairs}
    return {name: None if text in (_NO_VALUE, *missing) else text for name, text in found.items() if name not in held}


def _kind_of_folders(file: Path, folders: Mapping[str, str | None], name: str) -> str:
    if name not in folders:
        raise ValueError(f"column {name!r} is in the names of some folders, and {file} is in none of them")
    text = folders[name]
    return _NUMBERS if text is None or is_number(text.encode()) else _TEXTS


def _kind_in_names(files: Sequence[Path], folders: Sequence[Mapping[str, str | None]], name: str) -> DType:
    """Return the dtype of a column that is in the names of folders.  Raises ValueError if it has other than numbers."""
    if any(_kind_of_folders(*each, name) == _TEXTS for each in zip(files, folders, strict=True)):
        raise ValueError(f"column {name!r}, of the names of folders, has texts, no numbers")
    whole = all(re.fullmatch(r"[+-]?\d{1,15}", each[name] or "") for each in folders)
    return np.dtype(np.int64 if whole else np.float64)


def _kind_in(path: Path, held: Mapping[str, Any], name: str) -> str:
    """Return what a file, which holds these columns, has in one.  Raises ValueError if that is none of these kinds."""
    if name not in held:
        raise ValueError(f"there is no column {name!r} in {path.name}, and there is in other files of the folder")
    types = needed("pyarrow").types
    kind = held[name]
    kind = kind.value_type if types.is_dictionary(kind) else kind
    if any(each(kind) for each in (types.is_integer, types.is_floating, types.is_decimal, types.is_null)):
        return _NUMBERS
    if types.is_boolean(kind):
        return _TRUTHS
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return _TEXTS
    if types.is_temporal(kind):
        return _DATES
    raise ValueError(f"column {name!r} has {kind}, neither numbers nor texts: exclude it")


def _column(values: Any, count: int, codes: Codes | None) -> np.ndarray:
    """Return `count` values as numbers, or with `codes` as these of their texts: of an array, or one text for all."""
    if values is None or isinstance(values, str):
        one = np.array([np.nan if values is None else float(values)]) if codes is None else codes.of([values])
        return np.repeat(one, count)
    types = needed("pyarrow").types
    plain = values.cast(values.type.value_type) if types.is_dictionary(values.type) else values
    if codes is None:
        return numbers_in(plain.cast("float64"), float, np.nan)
    encoded = plain.dictionary_encode()  # again, where it was: a dictionary may have texts that no row has
    texts = [None if each is None else str(each) for each in encoded.dictionary.to_pylist()]
    found: np.ndarray = np.append(codes.of(texts), np.int32(-1))[numbers_in(encoded.indices, np.int32, -1)]
    return found


def _note_orders(values: Any, orders: list[tuple[str, ...]]) -> None:
    """Add the dictionaries of a column, if it has any, to the known ones.  Long ones are no order of categories."""
    if needed("pyarrow").types.is_dictionary(values.type):
        for chunk in values.chunks:
            order = tuple(str(each).strip() for each in chunk.dictionary[: _MOST_ORDERED + 1].to_pylist())
            if len(order) <= _MOST_ORDERED and order not in orders:
                orders.append(order)


class ParquetRows:
    """The rows that one process reads of a Parquet file, or of all files of a folder, in columns of numbers and texts.

    Folders inside it that are named "year=2026" make a column `year`, as Hive, Spark and pandas write it: of numbers if
    all its values are.  A column that is one of texts in some files is one of texts in all.
    choose : returns the names of the columns to read, given the names of all.
    """

    def __init__(self, path: PathLike, choose: Choose, dialect: Dialect | None = None) -> None:
        given = dialect or Dialect()
        if given.delimiter is not None or given.decimal is not None or given.comments or not given.header:
            raise ValueError(
                "a Parquet file has no delimiter and no decimal mark, no comments, and its columns have names"
            )
        self._missing = given.missing
        self._path, self._choose, self._first = path, choose, 0
        self.names: tuple[str, ...] = ()

    def columns(self, texts: set[int]) -> Columns:
        """Read the columns; those at the places `texts` as texts, others if they have texts."""
        parquet = needed("pyarrow.parquet")
        here = world()
        paths = _files_of(self._path)
        files = [parquet.ParquetFile(each) for each in paths]
        try:
            types = [_types_of(file) for file in files]
            held = tuple(files[0].schema_arrow.names)
            folders = [_folders_of(each, self._path, held, self._missing) for each in paths]
            self.names = self._choose((*held, *folders[0]))
            kinds = [
                {_kind_in(*each, name) for each in zip(paths, types, strict=True)}
                if name in held
                else {_kind_of_folders(*each, name) for each in zip(paths, folders, strict=True)}
                for name in self.names
            ]
            dates = frozenset(k for k, each in enumerate(kinds) if _DATES in each)
            codes = {
                k: Codes(self._missing) for k, each in enumerate(kinds) if k in texts or each - {_NUMBERS, _TRUTHS}
            }
            stored = [name for name in self.names if name in held] or held[:1]  # of which one is needed to count rows
            cuts = cuts_of(sum(file.metadata.num_rows for file in files), here.nprocs)
            self._first = cuts[here.pid]
            orders: dict[int, list[tuple[str, ...]]] = {}
            chunks = []
            for number, _, part in _groups(files, stored, *cuts[here.pid : here.pid + 2]):
                for k in codes:
                    if self.names[k] in held:
                        _note_orders(part.column(self.names[k]), orders.setdefault(k, []))
                chunks += [
                    [
                        _column(batch.column(name) if name in held else folders[number][name], len(batch), codes.get(k))
                        for k, name in enumerate(self.names)
                    ]
                    for batch in part.to_batches(CHUNK_ROWS)
                ]
        finally:
            for file in files:
                file.close()
        levels = [codes[k].levels if k in codes else None for k in range(len(self.names))]
        truths = frozenset(k for k, each in enumerate(kinds) if each == {_TRUTHS} and k not in codes)
        return Columns(chunks, levels, dates=dates, truths=truths, orders=orders)

    def place(self, row: int) -> str:
        """Return the number of one of this process's rows in the table, in words."""
        return f"row {self._first + row + 1}"


register(".parquet", read=read_parquet, write=write_parquet, table=ParquetRows, functions=(read_parquet, write_parquet))
