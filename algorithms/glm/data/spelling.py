"""Numbers as people write them, and dates: what the texts of a column are, so that none becomes a category in silence.

"1,101" and "1 101" group digits by three, "33%" is a percentage, "True" and "False" are 1 and 0, as they are in a data
frame; a column of one of them is read as numbers.  A date is no number, and a column of them has a category for nearly
every row.  What a column is goes by all of its values, wherever they lie: each process counts its kinds.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import numpy as np

from bsp.arrays.files import Columns, is_number

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]{0,6}\.?"
_DATE = re.compile(
    r"(\d{4}(?P<by>[-/.])(?P<month>\d{1,2})(?P=by)(?P<day>\d{1,2})"
    r"|(?P<a>\d{1,2})(?P<to>[-/.])(?P<b>\d{1,2})(?P=to)\d{4}|(?P<c>\d{1,2})/(?P<d>\d{1,2})/\d{2}"
    rf"|\d{{1,2}}[ -]{_MONTH}[ ,-]{{1,2}}\d{{2,4}}|{_MONTH} \d{{1,2}},? \d{{4}})"
    r"([ T]+\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?( ?[AP]M)?( ?Z| ?[+-]\d{2}:?\d{2})?)?"
    r"|\d{1,2}:\d{2}:\d{2}([.,]\d+)?( ?[AP]M)?",
    re.IGNORECASE,
)
_DIGIT = re.compile(r"\d")
_BLANKS = " \u00a0\u202f'\u2019"  # that group digits, whatever the decimal mark


class Spelling(IntEnum):
    """The kinds of text in a column."""

    NUMBER = 0
    GROUPED = 1  # a number whose digits are grouped
    PERCENT = 2
    OTHER = 3  # a number with the other decimal mark
    DATE = 4
    TRUTH = 5
    TEXT = 6


NOUNS = {  # of one value, of several
    Spelling.NUMBER: ("number", "numbers"), Spelling.GROUPED: ("number", "numbers"),
    Spelling.PERCENT: ("percentage", "percentages"), Spelling.DATE: ("date", "dates"), Spelling.TEXT: ("text", "texts"),
    Spelling.TRUTH: ("truth value", "truth values"),
    Spelling.OTHER: ("number with another decimal mark", "numbers with another decimal mark"),
}  # fmt: skip


class Spelt(NamedTuple):
    """The kinds of one process's values of a column."""

    texts: bool  # whether this process has read them as texts
    counts: tuple[int, ...]  # of values by kind
    first: tuple[tuple[int, str] | None, ...]  # of each kind: its row and its text
    counting: float | None  # the first value, if the values count up by one; NaN if there is none

    def otherwise(self, kinds: Sequence[Spelling]) -> tuple[int, str] | None:
        """Return the row and the text of the first value that is of none of some kinds."""
        found = [
            each for kind, each in zip(Spelling, self.first, strict=True) if kind not in kinds and each is not None
        ]
        return min(found, default=None)


def kind_of(text: str, decimal: str | None) -> Spelling:
    """Return what a text is, by the decimal mark of its file; None: where texts are meant to be texts."""
    if is_number(text.encode(), decimal or "."):
        return Spelling.NUMBER
    if decimal is None:
        return Spelling.TEXT
    if text in _TRUTHS:
        return Spelling.TRUTH
    if _DIGIT.search(text) is None:
        return Spelling.TEXT
    if text.endswith("%") and is_number(text[:-1].strip().encode(), decimal):
        return Spelling.PERCENT
    if _grouped(text, decimal):
        return Spelling.GROUPED
    other = _OTHER[decimal]
    if is_number(text.encode(), other) or _grouped(text, other):
        return Spelling.OTHER
    return Spelling.DATE if is_date(text) else Spelling.TEXT


def number_of(text: str, decimal: str) -> float:
    """Return the number that a text of the kinds NUMBER, GROUPED, PERCENT and TRUTH means: 0.33 of "33%"."""
    if text in _TRUTHS:
        return _TRUTHS[text]
    plain = text.removesuffix("%").strip()
    if _grouped(plain, decimal):
        plain = plain.translate(_UNGROUPED[decimal])
    plain = plain.replace(decimal, ".")
    if not text.endswith("%"):
        return float(plain)
    return float(plain) / 100 if "e" in plain.lower() else float(f"{plain}e-2")  # rounded once


def is_date(text: str) -> bool:
    """Return True for a date, with a time of day or without, and for a time of day."""
    found = _DATE.fullmatch(text)
    if found is None:
        return False
    if found["month"] is not None:
        return 1 <= int(found["month"]) <= 12 and 1 <= int(found["day"]) <= 31
    one, other = sorted(int(each) for each in (found["a"] or found["c"] or 1, found["b"] or found["d"] or 1))
    return 1 <= one <= 12 and other <= 31  # which of them is the month is for people to tell


def _grouped(text: str, decimal: str) -> bool:
    return _GROUPED[decimal].fullmatch(text) is not None


_TRUTHS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}  # those of pandas
_OTHER = {".": ",", ",": "."}
_GROUPED = {
    mark: re.compile(rf"[+-]?[1-9]\d{{0,2}}(?P<by>[{other}{_BLANKS}])\d{{3}}((?P=by)\d{{3}})*([{mark}]\d*)?")
    for mark, other in _OTHER.items()
}
_UNGROUPED = {mark: dict.fromkeys(map(ord, other + _BLANKS)) for mark, other in _OTHER.items()}


def spelt(found: Columns) -> list[Spelt]:
    """Return by column what this process's values are."""
    numbers = {k: _NumberColumn() for k, levels in enumerate(found.levels) if levels is None}
    for chunk in found.chunks:  # columns may lie in one matrix: its rows come into the cache once
        for k, column in numbers.items():
            column.add(chunk[k])
    return [
        _spelt_texts(found, k) if levels is not None else numbers[k].spelt(k in found.truths)
        for k, levels in enumerate(found.levels)
    ]


class _NumberColumn:
    """Facts of a column of numbers, gathered chunk by chunk."""

    def __init__(self) -> None:
        self._rows = self._present = 0
        self._first: tuple[int, str] | None = None
        self._start, self._counts_up = np.nan, True

    def add(self, values: np.ndarray) -> None:
        """Take the next rows into account."""
        if not values.size:
            return
        if not self._rows:
            self._start = values[0]
        here = slice(None) if (least := values.min()) == least else np.flatnonzero(values == values)
        present = values[here]
        if present.size and self._first is None:
            self._first = self._rows + (here[0] if isinstance(here, np.ndarray) else 0), f"{present[0]:g}"
        self._present += present.size
        count = self._rows + values.size
        self._counts_up = self._counts_up and np.array_equal(values, self._start + np.arange(self._rows, count))
        self._rows = count

    def spelt(self, truths: bool) -> Spelt:
        """Return what the values are: truth values by their type, or numbers."""
        kind = Spelling.TRUTH if truths else Spelling.NUMBER
        counts, first = [0] * len(Spelling), [None] * len(Spelling)  # type: list[int], list[tuple[int, str] | None]
        counts[kind], first[kind] = self._present, self._first
        counting = np.nan if not self._present else float(self._start) if self._counts_up else None
        return Spelt(False, tuple(counts), tuple(first), counting)


def _spelt_texts(found: Columns, k: int) -> Spelt:
    levels = found.levels[k]
    assert levels is not None
    counts, first = [0] * len(Spelling), [None] * len(Spelling)  # type: list[int], list[tuple[int, str] | None]
    kinds = np.array([
        *(Spelling.DATE if k in found.dates else kind_of(level, found.decimal) for level in levels), -1
    ])  # fmt: skip
    codes = np.concatenate([np.empty(0, np.int32), *(chunk[k] for chunk in found.chunks)])
    of_rows = kinds[codes]
    for kind in Spelling:
        rows = np.flatnonzero(of_rows == kind)
        counts[kind] = int(rows.size)
        if rows.size:
            first[kind] = int(rows[0]), levels[codes[rows[0]]]
    return Spelt(True, tuple(counts), tuple(first), None)


def as_numbers(found: Columns, k: int) -> None:
    """Turn a column of texts that mean numbers into these."""
    levels = found.levels[k]
    if levels is None:
        return
    values = np.array([*(number_of(level, found.decimal or ".") for level in levels), np.nan])
    for chunk in found.chunks:
        chunk[k] = values[chunk[k]]  # code -1 is the last: NaN
    found.levels[k] = None
