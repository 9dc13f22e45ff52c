"""Tables with named columns, from files and data frames: each process has its own rows, all agree what a column is.

A column is one of texts if it has one anywhere; then its texts, sorted, are numbered alike on every process.  A column
of numbers with a few texts among them is taken for a mistake, and the first of them is shown with its line.
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bsp.algorithms.glm.data.columns import Chunk, Codes, Columns, columns_of, line_of
from bsp.algorithms.glm.errors import DataError, agreed, no_column
from bsp.arrays.execution.world import world
from bsp.arrays.files.agreement import PathLike, needed
from bsp.arrays.files.csv import OPENERS, Opening, dealt_out, lines_before, opening_of
from bsp.arrays.files.fields import BadLine, Fields, is_number
from bsp.arrays.files.parquet import files_of
from bsp.values.payload import cuts_of

MOST_LEVELS = 1000  # different texts in a column that is coded
_STEP = 1 << 12  # rows of a data frame whose columns make a chunk
TABLES = (".csv", ".txt", ".tsv", ".parquet")


@dataclass(frozen=True)
class Table:
    """This process's rows; those of all processes in pid order are the table.

    names, levels : of the columns, the same on every process; the texts that codes stand for, sorted; None: numbers.
    chunks : the rows, some thousand at a time, by column: float64 with NaN for what is missing, or codes with -1.
    counts : rows on each process.
    source : what messages call it.  place : of a row of this process, in words: "line 17".
    missing : "error", or "drop" to leave out rows in which a value is missing.
    reference : of columns of text the level that others are compared with, where it is not the first.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...] | None, ...]
    chunks: list[Chunk] = field(repr=False)
    counts: tuple[int, ...]
    source: str
    place: Callable[[int], str] = field(repr=False)
    missing: str = "error"
    reference: Mapping[str, str] = field(default_factory=dict)

    def column(self, name: str) -> int:
        """Its place.  Raises DataError if there is none of this name."""
        if name not in self.names:
            raise DataError(f"{self.source}: {no_column(name, self.names)}")
        return self.names.index(name)

    def vector(self, name: str) -> np.ndarray:
        """This process's values of a column."""
        k = self.column(name)
        kind = float if self.levels[k] is None else np.int32
        return np.concatenate([np.empty(0, kind), *(chunk[k] for chunk in self.chunks)])


def read_table(
    path: PathLike, *, columns: Iterable[str] | None = None, exclude: Iterable[str] = (), missing: str = "error",
    reference: Mapping[str, str] | None = None, delimiter: str | None = None,
) -> Table:  # fmt: skip
    """The columns of a CSV file (also .gz, .bz2, .xz) or a Parquet file or folder, of which only these are read.

    columns : None: all.  exclude : but these.
    missing : "error": a missing value ends the fit with its column and line; "drop": rows that have one are left out.
    reference : {column: level}: texts are compared with this one, not with the first in sorted order.
    delimiter : one character; None: a comma, or a tab if the name ends in .tsv.
    Every process reads the lines that begin in its range of bytes, or its rows of the row groups.
    Cost: 1 superstep in which all agree what the columns are, one more if some have texts, to agree on their numbers;
    compressed text is dealt out by process 0 before.
    Raises FileNotFoundError, OSError, or DataError: no rows, unequal lines, duplicate names, no such column, numbers
    mixed with texts; the same on every process.
    """
    if missing not in ("error", "drop"):
        raise DataError(f"missing={missing!r}: one of 'error', 'drop'")
    source = os.path.basename(os.fspath(path))
    wanted = None if columns is None else list(dict.fromkeys(columns))
    chosen = _Chosen(source, wanted, list(exclude))
    if os.fspath(path).endswith(".parquet"):
        part: _Part = _Parquet(path, chosen)
    else:
        kinds = [each for each in Path(source).suffixes if each not in OPENERS]
        part = _Text(path, chosen, delimiter or ("\t" if kinds[-1:] == [".tsv"] else ","))
    return replace(_agreed(source, part), missing=missing, reference=dict(reference or {}))


def frame_table(frame: Any) -> Table:
    """A pandas data frame, the same on every process; each takes its rows."""
    names = tuple(map(str, frame.columns))
    _check_names("the data frame", names)
    here = world()
    cuts = cuts_of(len(frame), here.nprocs)
    return _agreed("the data frame", _Frame(frame, names, slice(cuts[here.pid], cuts[here.pid + 1])))


def local_table(frame: Any) -> Table:
    """All rows of a data frame, on the process that calls: no superstep."""
    names = tuple(map(str, frame.columns))
    part = _Frame(frame, names, slice(0, len(frame)))
    found = part.columns(set())
    gone = [
        k for k, levels in enumerate(found.levels) if levels is not None and any((c[k] < 0).any() for c in found.chunks)
    ]
    if gone:
        raise DataError(f"Input X contains NaN: values are missing in column {names[gone[0]]!r}")
    levels = tuple(None if each is None else tuple(each) for each in found.levels)
    return Table(names, levels, found.chunks, (len(frame),), "the data frame", part.place)


def is_frame(value: Any) -> bool:
    """Whether it is a data frame; without pandas there is none."""
    return hasattr(value, "iloc") and hasattr(value, "columns")


# ----------------------------------------------------------------------------- parts of tables


class _Chosen:
    """Which columns of those there are."""

    def __init__(self, source: str, wanted: Sequence[str] | None, excluded: Sequence[str]) -> None:
        self.source, self.wanted, self.excluded = source, wanted, excluded

    def of(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Their names, in the order of the table."""
        _check_names(self.source, names)
        for name in [*(self.wanted or ()), *self.excluded]:
            if name not in names:
                raise DataError(f"{self.source}: {no_column(name, names)}")
        found = tuple(
            name for name in names if (self.wanted is None or name in self.wanted) and name not in self.excluded
        )
        if not found:
            raise DataError(f"{self.source}: no columns are left")
        return found


def _check_names(source: str, names: tuple[str, ...]) -> None:
    for k, name in enumerate(names):
        if name in names[:k]:
            raise DataError(f"{source}: columns {names.index(name) + 1} and {k + 1} are both named {name!r}")
        if not name:
            raise DataError(f"{source}: column {k + 1} has no name")


class _Part:
    """How a process comes to its rows."""

    names: tuple[str, ...]

    def columns(self, texts: set[int]) -> Columns:
        """They; columns at the places `texts` as texts, others if they must be."""
        raise NotImplementedError

    def place(self, row: int) -> str:
        """Where a row is, in words."""
        raise NotImplementedError


class _Span(io.RawIOBase):
    """Some bytes of a file, to be read in pieces."""

    def __init__(self, path: PathLike, first: int, end: int) -> None:
        self.file, self.left = open(path, "rb", buffering=0), end - first  # noqa: SIM115 - close() closes it
        self.file.seek(first)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        found = self.file.read(self.left if size < 0 else min(size, self.left)) or b""
        self.left -= len(found)
        return found

    def close(self) -> None:
        self.file.close()
        super().close()


class _Text(_Part):
    """The lines of a file that begin in this process's range of bytes; of compressed text those it is dealt."""

    def __init__(self, path: PathLike, chosen: _Chosen, delimiter: str) -> None:
        self.path, self.chosen, self.delimiter = path, chosen, delimiter
        self.packed = os.path.splitext(os.fspath(path))[1] in OPENERS
        self.wrong, self.dealt = dealt_out(path, self._open) if self.packed else (None, None)

    def _open(self, file: Any) -> Opening:
        try:
            opened = opening_of(file, self.delimiter, True, np.dtype(float), None, 0)
        except ValueError as wrong:
            raise DataError(f"{self.chosen.source}: {wrong}") from None
        names = opened.fields.names
        if len(names) > 1 and all(is_number(name.encode()) for name in names):
            raise DataError(f"{self.chosen.source}: the first line has numbers, not the names of the columns")
        places = tuple(names.index(name) for name in self.chosen.of(names))
        return opened._replace(fields=opened.fields._replace(columns=places))

    def _find(self) -> None:
        """Where the lines are, and how they are read."""
        if self.dealt is not None:
            self.fields = self.dealt.opening.fields
        elif self.packed:
            if isinstance(self.wrong, DataError) or (
                isinstance(self.wrong, OSError) and self.wrong.filename is not None
            ):
                raise self.wrong
            raise DataError(f"{self.chosen.source} cannot be unpacked: {self.wrong}")
        else:
            self.fields, self.first, self.end = self._range()
        self.names = tuple(self.fields.names[column] for column in self.fields.columns)

    def _range(self) -> tuple[Fields, int, int]:
        """The lines that begin in this process's range of bytes."""
        here = world()
        with open(self.path, "rb") as file:
            opened = self._open(file)
            size = os.fstat(file.fileno()).st_size
            cuts = cuts_of(size - opened.start, here.nprocs)
            ends: list[int] = []
            for cut in (cuts[here.pid], cuts[here.pid + 1]):
                file.seek(opened.start + max(cut - 1, 0))
                if cut:
                    file.readline()  # one that begins before belongs to the process before
                ends.append(min(file.tell(), size))
        return opened.fields, ends[0], ends[1]

    def stream(self) -> Any:
        return io.BytesIO(self.dealt.text) if self.dealt is not None else _Span(self.path, self.first, self.end)

    def text(self) -> bytes:
        with self.stream() as stream:
            pieces = iter(lambda: stream.read(-1), b"")
            return b"".join(pieces)

    def columns(self, texts: set[int]) -> Columns:
        self._find()
        try:
            return columns_of(self, self.fields, texts)
        except BadLine as bad:
            raise DataError(f"{self.chosen.source}: line {self._before() + bad.index + 1}: {bad.text}") from None

    def _before(self) -> int:
        """Lines of the file before this process's."""
        return self.dealt.before() if self.dealt is not None else lines_before(self.path, self.first)

    def place(self, row: int) -> str:
        return f"line {self._before() + line_of(row, self.text(), self.fields.delimiter) + 1}"


class _Parquet(_Part):
    """Rows of row groups."""

    def __init__(self, path: PathLike, chosen: _Chosen) -> None:
        self.path, self.chosen, self.first = path, chosen, 0

    def columns(self, texts: set[int]) -> Columns:
        parquet = needed("pyarrow.parquet")
        here = world()
        files = [parquet.ParquetFile(each) for each in files_of(self.path)]
        self.names = self.chosen.of(tuple(files[0].schema_arrow.names))
        counts = [file.metadata.row_group(k).num_rows for file in files for k in range(file.metadata.num_row_groups)]
        groups = [(file, k) for file in files for k in range(file.metadata.num_row_groups)]
        self.first, last = (cuts_of(sum(counts), here.nprocs)[here.pid + k] for k in (0, 1))
        codes = {k: Codes() for k in texts}
        chunks: list[Chunk] = []
        begin = 0
        for (file, group), count in zip(groups, counts, strict=True):
            low, high = max(self.first, begin) - begin, min(last, begin + count) - begin
            if low < high:
                part = file.read_row_group(group, columns=list(self.names)).slice(low, high - low)
                for batch in part.to_batches(_STEP):
                    chunks.append([self._column(batch.column(name), k, codes) for k, name in enumerate(self.names)])
            begin += count
        return Columns(chunks, [codes[k].levels if k in codes else None for k in range(len(self.names))])

    def _column(self, values: Any, k: int, codes: dict[int, Codes]) -> np.ndarray:
        types = needed("pyarrow").types
        kind = values.type.value_type if types.is_dictionary(values.type) else values.type
        if k not in codes and (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)):
            found: np.ndarray = values.cast("float64").to_numpy(zero_copy_only=False)
            return found
        if not (types.is_string(kind) or types.is_large_string(kind)):
            raise DataError(f"{self.chosen.source}: column {self.names[k]!r} has {kind}, neither numbers nor texts")
        return codes.setdefault(k, Codes()).of(values.to_pylist())

    def place(self, row: int) -> str:
        return f"row {self.first + row + 1}"


class _Frame(_Part):
    """Rows of a data frame."""

    def __init__(self, frame: Any, names: tuple[str, ...], rows: slice) -> None:
        self.names, self.first, self.rows = names, rows.start, frame.iloc[rows]

    def columns(self, texts: set[int]) -> Columns:
        levels: list[list[str] | None] = []
        whole: Chunk = []
        for k in range(len(self.names)):
            values = self.rows.iloc[:, k]
            numbers = None if k in texts else _numbers(values)
            if numbers is None:
                codes = Codes()
                missing = values.isna().to_numpy()
                texts_of = values.astype(object).to_numpy()
                numbers = codes.of([None if gone else str(text) for text, gone in zip(texts_of, missing, strict=True)])
                levels.append(codes.levels)
            else:
                levels.append(None)
            whole.append(numbers)
        count = len(self.rows)
        return Columns(
            [[each[low : low + _STEP] for each in whole] for low in range(0, count, _STEP)] if whole else [], levels
        )

    def place(self, row: int) -> str:
        return f"row {self.first + row + 1}"


def _numbers(values: Any) -> np.ndarray | None:
    """A column of a data frame as float64; None if it has texts."""
    kind = values.dtype
    if getattr(kind, "kind", "O") == "c":
        raise DataError("Complex data not supported")
    if getattr(kind, "kind", "O") in "biuf":
        found: np.ndarray = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return found
    if getattr(kind, "kind", "O") in "mM":
        raise DataError(f"column {values.name!r} has {kind}, neither numbers nor texts")
    texts = [each for each in values.dropna() if isinstance(each, str)]
    if texts or str(kind) in ("str", "string"):
        return None
    try:
        return np.asarray(values.to_numpy(dtype=object, na_value=np.nan), np.float64)
    except (TypeError, ValueError):
        return None


# --------------------------------------------------------------------------------- agreement


def _agreed(source: str, part: _Part) -> Table:
    """The table that all processes have parts of."""
    found: list[Columns] = []

    def read() -> Any:
        found.append(part.columns(set()))
        return part.names, found[0].rows, [_mixture(found[0], k) for k in range(len(part.names))]

    told = agreed(read)
    names = told[0][0]
    counts = tuple(count for _, count, _ in told)
    if any(other != names for other, _, _ in told):
        raise DataError(f"{source}: processes see different columns there")
    if not sum(counts):
        raise DataError(f"{source} has no rows: Found array with 0 sample(s)")
    texts = {k for k in range(len(names)) if any(mixtures[k] is not None for _, _, mixtures in told)}
    _check_mixtures(source, part, told, texts)
    (mine,) = found
    if texts and mine.rows and any(mine.levels[k] is None for k in texts):
        mine = part.columns(texts)
    if not mine.rows:
        mine = Columns([], mine.levels)
    levels = _numbered(source, names, mine, sorted(texts)) if texts else {}
    return Table(names, tuple(levels.get(k) for k in range(len(names))), mine.chunks, counts, source, part.place)


def _mixture(found: Columns, k: int) -> tuple[int, int, int, str] | None:
    """Of a column of texts: how many values are numbers, how many are not, and the first that is not with its row."""
    levels = found.levels[k]
    if levels is None:
        return None
    numeric = np.array([*(is_number(level.encode()) for level in levels), False])
    codes = np.concatenate([np.empty(0, np.int32), *(chunk[k] for chunk in found.chunks)])
    rows = np.flatnonzero((codes >= 0) & ~numeric[codes])
    first = (int(rows[0]), levels[codes[rows[0]]]) if rows.size else (0, "")
    return int(numeric[codes].sum()), int(rows.size), *first


def _place_on(part: _Part, pid: int, row: int) -> str | None:
    return part.place(row) if world().pid == pid else None


def _check_mixtures(source: str, part: _Part, told: Sequence[Any], texts: Iterable[int]) -> None:
    """DataError for a column with texts of which most values are numbers."""
    for k in sorted(texts):
        columns = [(count, mixtures[k]) for _, count, mixtures in told]
        numbers = sum(count if each is None else each[0] for count, each in columns)
        found = {pid: each for pid, (_, each) in enumerate(columns) if each is not None and each[1]}
        others = sum(each[1] for each in found.values())
        if others < numbers:
            pid, (_, _, row, text) = next(iter(found.items()))
            places = agreed(partial(_place_on, part, pid, row))
            raise DataError(
                f"{source}: column {part.names[k]!r} has {numbers} numbers and {others} "
                f"text{'s' * (others != 1)}: {places[pid]} has {text!r:.40}; correct or exclude it"
            )


def _numbered(source: str, names: tuple[str, ...], mine: Columns, texts: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """The sorted levels of columns of texts; recodes this process's."""
    own = [list(mine.levels[k] or ()) for k in texts]
    told = world().private.allgather([levels[: MOST_LEVELS + 1] for levels in own])
    agreed_levels = {}
    for place, k in enumerate(texts):
        found = tuple(sorted(set().union(*(levels[place] for levels in told))))
        if len(found) > MOST_LEVELS:
            raise DataError(f"{source}: column {names[k]!r} has more than {MOST_LEVELS} different texts; exclude it")
        number = {level: code for code, level in enumerate(found)}
        recoded = np.array([*(number[level] for level in own[place]), -1], np.int32)
        for chunk in mine.chunks:
            chunk[k] = recoded[chunk[k]]
        agreed_levels[k] = found
    return agreed_levels
