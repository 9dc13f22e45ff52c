"""Tables with named columns, from files and data frames: each process has its own rows, all agree on the columns.

A column is one of texts if any process has a text in it; then its texts, sorted, are numbered alike on every process.
A column of numbers with a few texts among them is taken for a mistake, and the error shows the first one's line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from bsp.algorithms.glm.errors import DataError, agreed, no_column
from bsp.arrays.files import CHUNK_ROWS, Chunk, Codes, Columns, PathLike, TableRows, TextRows, is_number, table_of
from bsp.arrays.procedures import world
from bsp.values.payload import cuts_of

MOST_LEVELS = 1000  # different texts in a column that is coded


@dataclass(frozen=True)
class Table:
    """The rows of a table that one process has; those of all processes in pid order are the table.

    names : of the columns.   levels : of each column the texts that codes stand for, sorted; None: numbers.  Both are
        the same on every process.
    chunks : the rows, some thousand at a time, by column: float64 with NaN for what is missing, or codes with -1.
    counts : rows on each process.
    source : its name in messages.  place : returns where a row of this process is, in words: "line 17".
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
        """Return the number of a column.  Raises DataError if there is none of this name."""
        if name not in self.names:
            raise DataError(f"{self.source}: {no_column(name, self.names)}")
        return self.names.index(name)

    def vector(self, name: str) -> np.ndarray:
        """Return this process's values of a column."""
        k = self.column(name)
        kind = float if self.levels[k] is None else np.int32
        return np.concatenate([np.empty(0, kind), *(chunk[k] for chunk in self.chunks)])


def read_table(
    path: PathLike, *, columns: Iterable[str] | None = None, exclude: Iterable[str] = (), missing: str = "error",
    reference: Mapping[str, str] | None = None, delimiter: str | None = None,
) -> Table:  # fmt: skip
    """Read columns of a table: a CSV file (also .gz, .bz2, .xz), a Parquet file or folder.  Collective.

    columns : the columns to read; None: all.  exclude : columns to leave out.
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
    part = (table_of(path) or TextRows)(path, chosen.of, delimiter)
    return replace(_agreed(source, part), missing=missing, reference=dict(reference or {}))


def frame_table(frame: Any) -> Table:
    """Return a pandas data frame, the same on every process, as a table: each process takes its rows.  Collective."""
    names = tuple(map(str, frame.columns))
    _check_names("the data frame", names)
    here = world()
    cuts = cuts_of(len(frame), here.nprocs)
    return _agreed("the data frame", _Frame(frame, names, slice(cuts[here.pid], cuts[here.pid + 1])))


def local_table(frame: Any) -> Table:
    """Return a data frame as a table with all rows on the calling process.  No superstep."""
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
    """Return whether a value is a data frame, without importing pandas."""
    return hasattr(value, "iloc") and hasattr(value, "columns")


# ----------------------------------------------------------------------------- parts of tables


class _Chosen:
    """The choice of columns to read."""

    def __init__(self, source: str, wanted: Sequence[str] | None, excluded: Sequence[str]) -> None:
        self.source, self.wanted, self.excluded = source, wanted, excluded

    def of(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the chosen columns in the order of the table."""
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


class _Frame:
    """Some rows of a data frame, read as those of a file are."""

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
            [[each[low : low + CHUNK_ROWS] for each in whole] for low in range(0, count, CHUNK_ROWS)] if whole else [],
            levels,
        )

    def place(self, row: int) -> str:
        return f"row {self.first + row + 1}"


def _numbers(values: Any) -> np.ndarray | None:
    """Return a column of a data frame as float64; None if it has texts."""
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


def _read(source: str, part: TableRows, texts: set[int]) -> Columns:
    """Read the columns; raise DataError that names the source for what is wrong in it."""
    try:
        return part.columns(texts)
    except DataError:
        raise
    except ValueError as wrong:
        raise DataError(f"{source}: {wrong}") from None


def _agreed(source: str, part: TableRows) -> Table:
    """Read this process's rows and agree on the columns with all processes.  One superstep, two if there are texts."""
    found: list[Columns] = []

    def read() -> Any:
        found.append(_read(source, part, set()))
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
        mine = _read(source, part, texts)
    if not mine.rows:
        mine = Columns([], mine.levels)
    levels = _numbered(source, names, mine, sorted(texts)) if texts else {}
    return Table(names, tuple(levels.get(k) for k in range(len(names))), mine.chunks, counts, source, part.place)


def _mixture(found: Columns, k: int) -> tuple[int, int, int, str] | None:
    """Count the numbers and the other texts of a column of texts, with the first other text and its row."""
    levels = found.levels[k]
    if levels is None:
        return None
    numeric = np.array([*(is_number(level.encode()) for level in levels), False])
    codes = np.concatenate([np.empty(0, np.int32), *(chunk[k] for chunk in found.chunks)])
    rows = np.flatnonzero((codes >= 0) & ~numeric[codes])
    first = (int(rows[0]), levels[codes[rows[0]]]) if rows.size else (0, "")
    return int(numeric[codes].sum()), int(rows.size), *first


def _place_on(part: TableRows, pid: int, row: int) -> str | None:
    return part.place(row) if world().pid == pid else None


def _check_mixtures(source: str, part: TableRows, told: Sequence[Any], texts: Iterable[int]) -> None:
    """Raise DataError for a column with texts of which most values are numbers."""
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
    """Agree on the sorted levels of columns of texts, and recode this process's values.  One superstep."""
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
