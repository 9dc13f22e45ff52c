"""Tables with named columns, from files and data frames: each process has its own rows, all agree on the columns.

A column is one of texts if any process has a text in it; then its texts, sorted, are numbered alike on every process.
A column of numbers with a few texts among them is taken for a mistake, and the error shows the first one's line.
Numbers that people have written for people ("1,101", "33%") are read as numbers, with a note: see `spelling`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Number
from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.glm.data.spelling import NOUNS, Spelling, Spelt, as_numbers, number_of, spelt
from bsp.algorithms.glm.errors import DataError, agreed, no_column
from bsp.arrays.files import (
    CHUNK_ROWS,
    Choose,
    Chunk,
    Codes,
    Columns,
    Dialect,
    PathLike,
    TableRows,
    TextRows,
    is_number,
    table_of,
)
from bsp.arrays.procedures import world
from bsp.cost.units import counted
from bsp.values.payload import cuts_of

FRAME = "the data frame"  # the source of a table that is one
MOST_LEVELS = 1000  # different texts in a column that is coded
_UNNAMED = re.compile(r"Unnamed: \d+(\.\d+)?|__index_level_\d+__")  # by pandas, of columns without a name and indices


@dataclass(frozen=True)
class Table:
    """The rows of a table that one process has; those of all processes in pid order are the table.

    names : of the columns.   levels : of each column the texts that codes stand for, in the order of a data frame's
        categories or of a Parquet file's dictionary, of numbers by their size, else sorted; None: numbers.  Both are
        the same on every process.
    chunks : the rows, some thousand at a time, by column: float64 with NaN for what is missing, or codes with -1.
    counts : rows on each process.
    source : its name in messages.  place : returns where a row of this process is, in words: "line 17".
    missing : "error", or "drop" to leave out rows in which a value is missing.
    reference : of columns of text the level that others are compared with, where it is not the first.
    notes : sentences on how the table was read.
    matrix : the rows in C order, where the columns of all chunks are those of this matrix; else None.
    truths : the names of columns whose 0 and 1 are truth values, which labels of classes stay.
    """

    names: tuple[str, ...]
    levels: tuple[tuple[str, ...] | None, ...]
    chunks: list[Chunk] = field(repr=False)
    counts: tuple[int, ...]
    source: str
    place: Callable[[int], str] = field(repr=False)
    missing: str = "error"
    reference: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    matrix: np.ndarray | None = field(default=None, repr=False)
    truths: frozenset[str] = frozenset()

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
    path: PathLike, *, columns: Iterable[str] | Choose | None = None, exclude: Iterable[str] = (),
    missing: str = "error", reference: Mapping[str, str] | None = None, delimiter: str | None = None,
    decimal: str | None = None, na: Iterable[str] = (), categorical: Iterable[str] = (),
) -> Table:  # fmt: skip
    """Read columns of a table: a CSV file (also .gz, .bz2, .xz), a Parquet file or folder.  Collective.

    columns : the columns to read, or a function that returns them, given the names of all; None: all.
    exclude : columns to leave out.
    missing : "error": a missing value ends the fit with its column and line; "drop": rows that have one are left out.
    reference : {column: level}: texts are compared with this one, not with the first: of texts in sorted order, of
        numbers the least, in Parquet of the order of a dictionary, as of pandas' categories.
    delimiter : one character; None: a comma (a tab if the name ends in .tsv), or what separates the fields of the first
        lines.   decimal : "." or ","; None: what their numbers have.
    na : texts that mark a missing value, besides an empty field, NA, N/A, n/a, #N/A, <NA>, NULL, null, None and nan.
    categorical : columns whose values are categories though they are numbers or dates.
    The columns of a Parquet folder include those in the names of folders inside it, "year=2026".
    Text is UTF-8, or UTF-16 or UTF-32 with a byte-order mark.  Columns of numbers whose digits are grouped ("1,101"),
    of percentages ("33%", which is 0.33) and of True and False are read as numbers; a column without a name that counts
    the rows, as pandas' to_csv writes it, is left out.  The table has notes of it.
    Every process reads the lines that begin in its range of bytes, or its rows of the row groups.
    Cost: 1 superstep in which all agree what the columns are, one more if some have texts, to agree on their numbers;
    compressed text is dealt out by process 0 before.
    Raises FileNotFoundError, OSError, or DataError: no rows, unequal lines, duplicate names, no such column, dates, or
    numbers mixed with texts; the same on every process.
    """
    if missing not in ("error", "drop"):
        raise DataError(f"missing={missing!r}: one of 'error', 'drop'")
    source = os.path.basename(os.fspath(path))
    wanted = columns if columns is None or callable(columns) else list(dict.fromkeys(columns))
    kinds = list(dict.fromkeys(categorical))
    chosen = _Chosen(source, wanted, list(exclude), {*kinds, *(reference or {})})
    try:
        dialect = Dialect(delimiter, decimal, Dialect().missing + tuple(each.strip() for each in na))
        part = (table_of(path) or TextRows)(path, chosen.of, dialect)
    except ValueError as wrong:
        raise DataError(f"{source}: {wrong}") from None
    table = _agreed(source, part, kinds, wanted if isinstance(wanted, list) else ())
    return replace(table, missing=missing, reference=dict(reference or {}))


def frame_table(frame: Any) -> Table:
    """Return a pandas data frame, the same on every process, as a table: each process takes its rows.  Collective.

    Categorical columns are columns of texts, though their categories are numbers; their levels are in that order.
    """
    names = tuple(map(str, frame.columns))
    _check_names(FRAME, names)
    here = world()
    columns = [frame.iloc[:, k] for k in range(len(names))]
    here.note_given([len(frame), *(each.to_numpy() for each in columns if getattr(each.dtype, "kind", "O") in "biuf")])
    cuts = cuts_of(len(frame), here.nprocs)
    part = _Frame(frame, names, slice(cuts[here.pid], cuts[here.pid + 1]))
    return _agreed(
        FRAME, part, [name for name, each in zip(names, columns, strict=True) if categories_of(each) is not None]
    )


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
    truths = frozenset(names[k] for k in found.truths)
    return Table(names, levels, found.chunks, (len(frame),), FRAME, part.place, truths=truths)


def categories_of(values: Any) -> Any:
    """Return the categories of a categorical column of a data frame, in order; None of another column."""
    return getattr(values.dtype, "categories", None)


def plain_columns(frame: Any, names: Collection[str]) -> Any:
    """Return a data frame in which the columns of these names are numbers if they are categories of numbers."""
    for name in names:
        if list(frame.columns).count(name) != 1 or (categories := categories_of(frame[name])) is None:
            continue
        if getattr(categories.dtype, "kind", "O") in "biuf":
            whole = not frame[name].isna().any()
            frame = frame.assign(**{name: frame[name].astype(categories.dtype if whole else object)})
    return frame


def is_frame(value: Any) -> bool:
    """Return whether a value is a data frame, without importing pandas."""
    return hasattr(value, "iloc") and hasattr(value, "columns")


# ----------------------------------------------------------------------------- parts of tables


class _Chosen:
    """The choice of columns to read.

    also : columns that are read too, where a function chooses, because other parameters name them.
    """

    def __init__(
        self, source: str, wanted: Sequence[str] | Choose | None, excluded: Sequence[str], also: Collection[str] = ()
    ) -> None:
        self.source, self.wanted, self.excluded, self.also = source, wanted, excluded, also

    def of(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the chosen columns in the order of the table."""
        _check_names(self.source, names)
        wanted = {*self.wanted(names), *({*names} & {*self.also})} if callable(self.wanted) else self.wanted
        for name in [*(wanted or ()), *self.excluded]:
            if name not in names:
                raise DataError(f"{self.source}: {no_column(name, names)}")
        found = tuple(name for name in names if (wanted is None or name in wanted) and name not in self.excluded)
        if not found:
            raise DataError(f"{self.source}: no columns are left")
        return found


def _check_names(source: str, names: tuple[str, ...]) -> None:
    for k, name in enumerate(names):
        if name in names[:k]:
            raise DataError(f"{source}: columns {names.index(name) + 1} and {k + 1} are both named {name!r}")
        if not name:
            raise DataError(f"{source}: column {k + 1} has no name")  # of a data frame


class _Frame:
    """Some rows of a data frame, read as those of a file are."""

    def __init__(self, frame: Any, names: tuple[str, ...], rows: slice) -> None:
        self.names, self.first, self.rows = names, rows.start, frame.iloc[rows]

    def columns(self, texts: set[int]) -> Columns:
        levels: list[list[str] | None] = []
        whole: Chunk = []
        truths, orders = set(), {}
        for k in range(len(self.names)):
            values = self.rows.iloc[:, k]
            numbers = None if k in texts else _numbers(values)
            if numbers is not None and _has_truths(values):
                truths.add(k)
            if (categories := categories_of(values)) is not None:
                orders[k] = [tuple(str(each).strip() for each in categories)]
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
            truths=frozenset(truths),
            orders=orders,
        )

    def place(self, row: int) -> str:
        return f"row {self.first + row}"  # counted as those of arrays are, and by .iloc


def _has_truths(values: Any) -> bool:
    """Return whether all values of a column of a data frame that are there are truth values."""
    if getattr(values.dtype, "kind", "O") != "O":
        return bool(values.dtype.kind == "b")
    return all(isinstance(each, (bool, np.bool_)) for each in values.dropna())


def _numbers(values: Any) -> np.ndarray | None:
    """Return a column of a data frame as float64; None if it has texts or categories."""
    kind = values.dtype
    if categories_of(values) is not None:
        return None
    if getattr(kind, "kind", "O") == "c":
        raise DataError("Complex data not supported")
    if getattr(kind, "kind", "O") in "biuf":
        found: np.ndarray = values.to_numpy(dtype=np.float64, na_value=np.nan)
        return found
    if getattr(kind, "kind", "O") in "mM":
        as_number = (
            ".dt.month, or the days since the first, (day - day.min()).dt.days" if kind.kind == "M" else ".dt.days"
        )
        raise DataError(
            f"column {values.name!r} has {kind}, neither numbers nor texts: make a column of numbers of it, as "
            f"{as_number}, leave it out, or make it categorical (astype('category'))"
        )
    present = values.dropna()
    for each in present:
        if not isinstance(each, (str, bytes, Number, np.bool_)):
            raise DataError(
                f"column {values.name!r} has {type(each).__name__} objects, neither numbers nor texts: turn it into "
                "one of them (dates by pandas.to_datetime, and .dt.month of that), leave it out, or make it "
                "categorical (astype('category'))"
            )
    if any(isinstance(each, str) for each in present) or str(kind) in ("str", "string"):
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


def _agreed(
    source: str, part: TableRows, categorical: Sequence[str] = (), kept: Collection[str] | None = None
) -> Table:
    """Read this process's rows and agree on the columns with all processes.  One superstep, two if there are texts.

    categorical : columns that are read as texts.   kept : of a file, columns that stay though they have no name.
    """
    found: list[Columns] = []

    def read() -> Any:
        found.append(_read(source, part, set()))
        return part.names, found[0].rows, spelt(found[0]), found[0].size

    told = agreed(read)
    names = told[0][0]
    counts = tuple(count for _, count, _, _ in told)
    if any(other != names for other, _, _, _ in told):
        raise DataError(f"{source}: processes see different columns there")
    if any(size != told[0][3] for _, _, _, size in told):
        raise DataError(
            f"{source}: processes see other contents than process 0: it was written to while it was read, or is not "
            "the same file on all hosts"
        )
    if not sum(counts):
        raise DataError(f"{source} has no rows: Found array with 0 sample(s)")
    for name in categorical:
        if name not in names:
            raise DataError(f"{source}: categorical={name!r}: {no_column(name, names)}")
    columns = [_Column(name, k, [each[k] for _, _, each, _ in told]) for k, name in enumerate(names)]
    texts = {each.place for each in columns if each.name in categorical or any(own.texts for own in each.told)}
    (mine,) = found
    notes = mine.notes
    spelled = [each for each in columns if each.place in texts and each.name not in categorical]
    for column in spelled:
        if _are_numbers(source, part, column):
            as_numbers(mine, column.place)
            texts.remove(column.place)
            notes += (_how(column, mine.decimal),)
    if texts and mine.rows and any(mine.levels[k] is None for k in texts):
        again = _read(source, part, texts)
        for column in spelled:
            if column.place not in texts:
                as_numbers(again, column.place)
        mine = again
    if not mine.rows:
        mine = mine._replace(chunks=[], matrix=None)
    levels = _numbered(source, names, mine, sorted(texts), categorical) if texts else {}
    truths = frozenset(each.name for each in columns if each.place not in texts and each.are_truths)
    table = Table(
        names, tuple(levels.get(k) for k in range(len(names))), mine.chunks, counts, source, part.place, notes=notes,
        matrix=mine.matrix, truths=truths,
    )  # fmt: skip
    return table if kept is None else _without_index(table, columns, {*kept, *categorical})


class _Column(NamedTuple):
    """A column and what all processes have in it."""

    name: str
    place: int
    told: list[Spelt]

    def count(self, *kinds: Spelling) -> int:
        """Return how many values of all processes are of some kinds."""
        return sum(each.counts[kind] for each in self.told for kind in kinds)

    @property
    def are_truths(self) -> bool:
        """Whether there are values, and all are truth values."""
        return 0 < self.count(Spelling.TRUTH) == self.count(*Spelling)


def _place_on(part: TableRows, pid: int, row: int) -> str | None:
    return part.place(row) if world().pid == pid else None


def _are_numbers(source: str, part: TableRows, column: _Column) -> bool:
    """Return whether the texts of a column are numbers that parsers do not read.

    Raises DataError if most of them are numbers or dates, with the first that is not as the others, or cannot be used.
    """
    counts = {kind: column.count(kind) for kind in Spelling}
    if column.are_truths:
        return True
    others = counts[Spelling.TEXT] + counts[Spelling.TRUTH]
    like = sum(counts.values()) - others
    numbers = counts[Spelling.NUMBER] + counts[Spelling.GROUPED]
    if others >= like or counts[Spelling.NUMBER] == like + others:
        return False  # categories; or texts by their type, whatever they look like
    if like + others in (numbers, counts[Spelling.PERCENT]):
        return True
    groups: list[tuple[Spelling, ...]] = [
        (Spelling.NUMBER, Spelling.GROUPED), (Spelling.PERCENT,), (Spelling.OTHER,), (Spelling.DATE,),
    ]  # fmt: skip
    main = max(groups, key=lambda group: column.count(*group))
    usual = column.count(*main)
    alike = usual == like + others
    firsts = [(pid, each.otherwise([] if alike else main)) for pid, each in enumerate(column.told)]
    pid, (row, text) = next((pid, each) for pid, each in firsts if each is not None)
    place = agreed(partial(_place_on, part, pid, row))[pid]
    name, shown = column.name, f"{text!r:.40}"
    if alike and main == (Spelling.DATE,):
        raise DataError(
            f"{source}: column {name!r} has dates, neither numbers nor groups: {place} has {shown}; make a column of "
            "numbers of it before, as the month or the days since a date, exclude it, or make it categorical "
            f"(categorical= or --categorical {name})"
        )
    if alike:
        raise DataError(
            f"{source}: column {name!r} has numbers with another decimal mark: {place} has {shown}; decimal= or "
            "--decimal tells it"
        )
    rest = like + others - usual
    kinds = [kind for kind in Spelling if kind not in main and counts[kind]]
    noun = NOUNS[kinds[0]] if len(kinds) == 1 else ("other value", "other values")
    raise DataError(
        f"{source}: column {name!r} has {counted(usual, *NOUNS[main[0]])} and {counted(rest, *noun)}: {place} has "
        f"{shown}; correct or exclude it, or tell what it is (na= or --na {shown}, categorical= or --categorical "
        f"{name})"
    )


def _how(column: _Column, decimal: str | None) -> str:
    """Return a note on how the texts of a column were read as numbers."""
    what = {
        Spelling.TRUTH: "truth values", Spelling.PERCENT: "percentages",
        Spelling.GROUPED: "numbers with grouped digits",
    }  # fmt: skip
    kind = next(kind for kind in what if column.count(kind))
    _, text = next(first for each in column.told if (first := each.first[kind]) is not None)
    return f"column {column.name} has {what[kind]}: {text!r} is read as {number_of(text, decimal or '.'):.15g}"


def _without_index(table: Table, columns: Sequence[_Column], kept: Collection[str]) -> Table:
    """Leave out columns that pandas has written or named as indices; raise DataError for others without a name."""
    gone = []
    notes = table.notes
    for name, k, told in columns:
        if name in kept or not _UNNAMED.fullmatch(name):
            continue
        why = "has no values" if not any(sum(each.counts) for each in told) else ""
        if name.startswith("__") or _counts_up(told, table.counts):
            why = "is the index that pandas wrote"
        if not why:
            raise DataError(
                f"{table.source}: column {k + 1} has no name: name it, or leave it out (--exclude {name!r})"
            )
        gone.append(k)
        notes += (f"column {k + 1} ({name}) {why}: it is left out",)
    if not gone:
        return table
    stay = [k for k in range(len(table.names)) if k not in gone]
    if not stay:
        raise DataError(f"{table.source}: no columns are left")
    return replace(
        table, names=tuple(table.names[k] for k in stay), levels=tuple(table.levels[k] for k in stay), notes=notes,
        chunks=[[chunk[k] for k in stay] for chunk in table.chunks], matrix=None,
    )  # fmt: skip


def _counts_up(told: Sequence[Spelt], counts: Sequence[int]) -> bool:
    """Return whether a column is 0, 1, 2, ... or 1, 2, 3, ... over the rows of all processes."""
    before = [sum(counts[:pid]) for pid in range(len(counts))]
    starts = {
        None if own.counting is None else own.counting - low
        for own, low, count in zip(told, before, counts, strict=True)
        if count
    }
    return starts in ({0.0}, {1.0})


def _numbered(
    source: str, names: tuple[str, ...], mine: Columns, texts: Sequence[int], categorical: Collection[str]
) -> dict[int, tuple[str, ...]]:
    """Agree on the levels of columns of texts and their order, and recode this process's values.  One superstep."""
    own = [list(mine.levels[k] or ()) for k in texts]
    orders = [[order for order in mine.orders.get(k, ()) if len(order) <= MOST_LEVELS] for k in texts]
    told = world().private.allgather(([levels[: MOST_LEVELS + 1] for levels in own], orders))
    agreed_levels = {}
    for place, k in enumerate(texts):
        every = set().union(*(levels[place] for levels, _ in told))
        given = {order for _, each in told for order in each[place]} | {*mine.orders.get(k, ())}  # all have a frame's
        found = _ordered(every, given, mine.decimal or "." if names[k] in categorical else None)
        if len(found) > MOST_LEVELS:
            raise DataError(f"{source}: column {names[k]!r} has more than {MOST_LEVELS} different texts; exclude it")
        number = {level: code for code, level in enumerate(found)}
        recoded = np.array([*(number[level] for level in own[place]), -1], np.int32)
        for chunk in mine.chunks:
            chunk[k] = recoded[chunk[k]]
        agreed_levels[k] = found
    return agreed_levels


def _ordered(levels: set[str], given: Collection[tuple[str, ...]], decimal: str | None) -> tuple[str, ...]:
    """Return the levels of a column in order: that of the one dictionary that has them, of numbers, or of texts.

    given : the dictionaries.   decimal : the decimal mark of categories, which may be numbers; None: they are texts.
    """
    if len(given) == 1 and levels.issubset(order := next(iter(given))):
        return tuple(each for each in dict.fromkeys(order) if each in levels)
    if decimal is not None and all(is_number(each.encode(), decimal) for each in levels):
        return tuple(sorted(levels, key=lambda each: (number_of(each, decimal), each)))
    return tuple(sorted(levels))
