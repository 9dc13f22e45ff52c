"""Coding of columns as a matrix: numbers as they are, texts by treatment coding, clear errors for the rest.

A column of m texts becomes m - 1 columns of 0 and 1, named "region[south]".  The others are compared with the level
that is left out: the first in sorted order, or of a data frame's categories, or the one that was asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bsp.algorithms.glm.data.table import FRAME, Table
from bsp.algorithms.glm.errors import DataError, agreed
from bsp.arrays.files import Chunk
from bsp.arrays.procedures import world

Kept = list[np.ndarray] | None  # by chunk which rows are kept; None: all


class Coded(NamedTuple):
    """One column of a table and its coding."""

    name: str
    levels: tuple[str, ...] | None  # that get a column of their own; None: numbers
    reference: str | None = None  # the level that gets none


class Coding(NamedTuple):
    """The coding of columns as a matrix; part of a fitted model."""

    columns: tuple[Coded, ...]

    @property
    def intercept(self) -> bool | None:
        """None: the coding does not say whether the model has an intercept."""
        return None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the matrix's columns."""
        return tuple(
            name
            for column in self.columns
            for name in (
                [column.name] if column.levels is None else [f"{column.name}[{level}]" for level in column.levels]
            )
        )

    def rows(self, table: Table, kept: Kept) -> np.ndarray:
        """Return the kept rows, coded: shape (rows, len(self.names)), float64, to be read only.

        Each value is copied once, into C order; none if the columns are neighbours in a matrix that the table has.
        Raises DataError for a level that the coding does not know.
        """
        places = [table.column(column.name) for column in self.columns]
        numbers = [recoded(table, column) for column in self.columns]
        if table.matrix is not None and kept is None and places == [*range(places[0], places[0] + len(places))]:
            return table.matrix[:, places[0] : places[0] + len(places)]
        counts = [len(chunk[0]) for chunk in table.chunks] if kept is None else [int(rows.sum()) for rows in kept]
        found = np.empty((sum(counts), len(self.names)))
        low = 0
        for i, (chunk, count) in enumerate(zip(table.chunks, counts, strict=True)):
            columns = [chunk[k] if kept is None else chunk[k][kept[i]] for k in places]
            _fill(found[low : low + count], self, columns, numbers)
            low += count
        return found

    def dealt_rows(self, table: Table, kept: Kept) -> np.ndarray:
        """Return the kept rows, as `rows`: levels are the same on all processes, so errors are."""
        return self.rows(table, kept)


class CodingFacts(NamedTuple):
    """One process's part of what the coding of a column needs, over the rows that are kept."""

    missing: int  # values, in the rows that are kept
    row: int  # of the first of them
    low: float  # of numbers
    high: float
    present: tuple[int, ...]  # codes


def complete(table: Table, coding: Coding) -> None:
    """Raise DataError on every process if a value of the coded columns is missing.  Cost: one superstep."""
    used = [table.column(column.name) for column in coding.columns]
    told = agreed(lambda: _facts(table, used, None))
    facts = {k: [each[i] for each in told] for i, k in enumerate(used)}
    _check_missing(table, facts, "a row is predicted from all of its values; correct such rows, or take them out")


def coding_of(table: Table, columns: Sequence[str], others: Sequence[str]) -> tuple[Coding, Kept, tuple[str, ...]]:
    """Return the coding of `columns`, the rows that are kept, and notes for the reader.  Collective.

    others : columns that are used as they are: rows that miss one of their values are left out, too.

    Cost: one superstep, h = (p - 1)·O(columns).
    Raises DataError on every process: missing or infinite values, no level of a reference.
    """
    used = [table.column(name) for name in [*columns, *others]]
    kept = _kept(table, used)

    def look() -> tuple[int, list[CodingFacts]]:
        count = sum(len(chunk[0]) for chunk in table.chunks) if kept is None else sum(int(rows.sum()) for rows in kept)
        return count, _facts(table, used, kept)

    told = agreed(look)
    facts = {k: [each[place] for _, each in told] for place, k in enumerate(used)}
    if table.missing == "error":
        leaves = "dropna()" if table.source == FRAME else "read_table(..., missing='drop'), or --missing drop,"
        _check_missing(table, facts, f"{leaves} leaves such rows out")
    rows, left = sum(table.counts), sum(count for count, _ in told)
    if not left:
        raise DataError(f"{table.source}: every row has a missing value; exclude the columns that have most of them")
    for name in table.reference:
        if name in others:
            raise DataError(
                f"{table.source}: reference={name!r}: only columns that explain take a reference level; of a target "
                "of two texts the first in sorted order counts as 0"
            )
        if table.levels[table.column(name)] is None:
            raise DataError(
                f"{table.source}: column {name!r} has numbers, it has no reference level; categorical= or "
                f"--categorical {name} makes levels of them"
            )
    notes = table.notes
    if left < rows:
        notes += (f"{rows - left} of {rows} rows have missing values and are left out",)
    coding = Coding(tuple(_coded(table, name, facts[table.column(name)]) for name in columns))
    notes += tuple(
        f"column {column.name} is {column.reference!r} in every row: it is left out"
        for column in coding.columns
        if column.levels == ()
    )
    return coding, kept, notes


def _kept(table: Table, columns: Sequence[int]) -> Kept:
    """Return by chunk the rows in which these columns have all values; None if none is to be left out."""
    if table.missing == "error":
        return None
    return [~np.logical_or.reduce([_missing(chunk[k]) for k in columns]) for chunk in table.chunks]


def _missing(values: np.ndarray) -> np.ndarray:
    return np.isnan(values) if values.dtype.kind == "f" else values < 0


def _facts(table: Table, columns: Sequence[int], kept: Kept) -> list[CodingFacts]:
    found = [_LookedAt(table.levels[k]) for k in columns]
    for i, chunk in enumerate(table.chunks):  # columns may lie in one matrix: its rows come into the cache once
        for k, column in zip(columns, found, strict=True):
            column.add(chunk[k] if kept is None else chunk[k][kept[i]])
    return [column.facts() for column in found]


class _LookedAt:
    """Facts of a column, gathered chunk by chunk."""

    def __init__(self, levels: Sequence[str] | None) -> None:
        self._missing, self._first, self._rows = 0, -1, 0
        self._low, self._high = np.inf, -np.inf
        self._present = None if levels is None else np.zeros(len(levels) + 1, bool)

    def add(self, values: np.ndarray) -> None:
        """Take the next rows into account."""
        if self._present is not None:
            self._present[values] = True  # code -1 is the last
            gone = self._present[-1]
        elif values.size:
            least, most = values.min(), values.max()  # NaN if there is one
            gone = least != least
            if not gone:
                self._low, self._high = min(self._low, least), max(self._high, most)
        else:
            gone = False
        if gone:
            lost = _missing(values)
            self._first = self._rows + int(np.argmax(lost)) if self._first < 0 and lost.any() else self._first
            self._missing += int(np.count_nonzero(lost))
        self._rows += len(values)

    def facts(self) -> CodingFacts:
        """Return what was found."""
        present = () if self._present is None else tuple(np.flatnonzero(self._present[:-1]).tolist())
        return CodingFacts(self._missing, self._first, float(self._low), float(self._high), present)


def _check_missing(table: Table, facts: dict[int, list[CodingFacts]], advice: str) -> None:
    """Raise DataError that names each column with missing values, their number, the first of them, and what to do."""
    gone = {k: each for k, each in facts.items() if any(fact.missing for fact in each)}
    if not gone:
        return
    first = {k: next(pid for pid, fact in enumerate(each) if fact.missing) for k, each in gone.items()}

    def places() -> dict[int, str]:
        pid = world().pid
        return {k: table.place(each[pid].row) for k, each in gone.items() if first[k] == pid}

    said = agreed(places)
    parts = [
        f"{table.names[k]!r} {sum(fact.missing for fact in each)} (first: {said[first[k]][k]})"
        for k, each in gone.items()
    ]
    raise DataError(f"{table.source}: values are missing: {', '.join(parts)}; {advice}")


def _coded(table: Table, name: str, facts: Sequence[CodingFacts]) -> Coded:
    levels = table.levels[table.column(name)]
    some = world().sampled  # the rows of a few processes show what values there are, not what values there are not
    if levels is None:
        low, high = min(fact.low for fact in facts), max(fact.high for fact in facts)
        if not np.isfinite([low, high]).all():
            raise DataError(f"{table.source}: column {name!r} has an infinite value")
        return Coded(name, None)
    codes = range(len(levels)) if some else sorted(set().union(*(fact.present for fact in facts)))
    present = [levels[code] for code in codes]
    reference = table.reference.get(name, present[0])
    if reference not in present:
        raise DataError(f"{table.source}: column {name!r} has no {reference!r}; it has {', '.join(present)}")
    return Coded(name, tuple(level for level in present if level != reference), reference)


def recoded(table: Table, column: Coded) -> np.ndarray | None:
    """Return for each code of the table the number of its coded column, -1 for the reference; None for numbers.

    Raises DataError for a level that the coding does not know.
    """
    levels = table.levels[table.column(column.name)]
    if column.levels is None and levels is not None:
        raise DataError(f"{table.source}: column {column.name!r} has texts; the model was fitted to numbers")
    if column.levels is None:
        return None
    if levels is None and all(np.isnan(chunk[table.column(column.name)]).all() for chunk in table.chunks):
        raise DataError(f"{table.source}: values are missing: column {column.name!r} has none")
    number = {level: k for k, level in enumerate(column.levels)} | {column.reference: -1}
    for level in levels or ():
        if level not in number:
            raise DataError(f"{table.source}: column {column.name!r} has {level!r}, which the model was not fitted to")
    if levels is None:
        raise DataError(f"{table.source}: column {column.name!r} has numbers; the model was fitted to texts")
    return np.array([number[level] for level in levels], np.int32)


def _fill(into: np.ndarray, coding: Coding, chunk: Chunk, recoded: Sequence[np.ndarray | None]) -> None:
    at = 0
    for column, values, numbers in zip(coding.columns, chunk, recoded, strict=True):
        if numbers is None or column.levels is None:
            into[:, at] = values
            at += 1
        else:
            into[:, at : at + len(column.levels)] = numbers[values][:, None] == np.arange(len(column.levels))
            at += len(column.levels)
