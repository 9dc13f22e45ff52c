"""Lines of text as columns: of numbers, or of texts, which are kept as codes.

What a field means is said by `bsp.arrays.files.fields`.  pyarrow reads, if it is there, what both read alike; Python
reads the rest and says which line is wrong.  Columns come in chunks of some thousand rows, so that whoever puts them
side by side into a matrix does it while they are in the cache.
"""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np

from bsp.arrays.files.fields import (
    MISSING,
    BadLine,
    Fields,
    fields_of,
    is_blank,
    is_missing,
    is_number,
)


class Lines(Protocol):
    """Some lines of a file."""

    def text(self) -> bytes:
        """All of them."""

    def stream(self) -> BinaryIO:
        """The same, to be read in pieces."""


Chunk = list[np.ndarray]  # by column: float64 with NaN, or int32 codes with -1, for what is missing
_SAMPLE = 1 << 15  # bytes that are looked at to tell columns of text
_CHUNK = 1 << 21  # bytes of text whose columns make a chunk


class Columns(NamedTuple):
    """Some columns of a process's rows."""

    chunks: list[Chunk]
    levels: list[list[str] | None]  # by column: the texts that codes stand for; None: numbers

    @property
    def rows(self) -> int:
        """How many."""
        return sum(len(chunk[0]) for chunk in self.chunks) if self.levels else 0


class Codes:
    """Texts by their numbers, in order of appearance."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}

    def of(self, texts: Sequence[str | None]) -> np.ndarray:
        """The codes of some texts; -1 for those that say that a value is missing."""
        numbers = self.numbers
        found = np.empty(len(texts), np.int32)
        for k, text in enumerate(texts):
            short = "" if text is None else text.strip()
            found[k] = -1 if short in MISSING else numbers.setdefault(short, len(numbers))
        return found

    @property
    def levels(self) -> list[str]:
        """The texts."""
        return list(self.numbers)


def columns_of(lines: Lines, fields: Fields, texts: set[int]) -> Columns:
    """The columns of some lines; those at the places `texts` of fields.columns as texts, others if they must be.

    Raises BadLine if a line has other than fields.width fields.
    """
    with lines.stream() as sample:
        guessed = texts | _texts_in(sample.read(_SAMPLE), fields)
    everything = set(range(len(fields.columns)))
    found = (
        _by_pyarrow(lines, fields, guessed)
        or _by_pyarrow(lines, fields, everything)
        or _by_python(lines.text(), fields)
    )
    return _as_numbers(found, everything - texts)


def _texts_in(text: bytes, fields: Fields) -> set[int]:
    """Which columns have text in the first lines."""
    found: set[int] = set()
    for line in text.split(b"\n")[:-1]:
        try:
            row = fields_of(line.removesuffix(b"\r"), fields.delimiter)
        except ValueError:
            break
        if len(row) == fields.width:
            found |= {
                k for k, column in enumerate(fields.columns) if not (is_missing(row[column]) or is_number(row[column]))
            }
    return found


def _as_numbers(found: Columns, places: set[int]) -> Columns:
    """Of these columns those become numbers that were read as texts and have none."""
    for k in places:
        levels = found.levels[k]
        if levels is None or not all(is_number(level.encode()) for level in levels):
            continue
        values = np.array([*map(float, levels), np.nan])
        for chunk in found.chunks:
            chunk[k] = values[chunk[k]]  # code -1 is the last: NaN
        found.levels[k] = None
    return found


def _by_python(text: bytes, fields: Fields) -> Columns:
    """All columns as texts."""
    rows: list[list[bytes]] = []
    for index, line in enumerate(text.split(b"\n")):
        line = line.removesuffix(b"\r")
        if is_blank(line, fields.delimiter):
            continue
        try:
            row = fields_of(line, fields.delimiter)
        except ValueError as wrong:
            raise BadLine(index, str(wrong)) from None
        try:
            line.decode()
        except UnicodeDecodeError:
            raise BadLine(index, "it is not UTF-8: convert the file, as with iconv") from None
        if len(row) != fields.width:
            raise BadLine(index, f"it has {len(row)} field{'s' * (len(row) != 1)}, the first line has {fields.width}")
        rows.append(row)
    codes = [Codes() for _ in fields.columns]
    chunk = [
        each.of([row[column].decode() for row in rows]) for each, column in zip(codes, fields.columns, strict=True)
    ]
    return Columns([chunk], [each.levels for each in codes])


_ODD = re.compile(rb'^[^"\n]*"[^"\n]*(?:"[^"\n]*"[^"\n]*)*$', re.MULTILINE)  # a line whose quotes do not match


class _Checked(io.RawIOBase):
    """A stream that fails where pyarrow and Python would see other lines: at a quote that is open at the end of its
    line, and at a carriage return amid a line.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self.inner = stream
        self.rest = b""  # of a line that is not complete

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        found = self.inner.read(size)
        end = found.rfind(b"\n") + 1
        if not found:
            self._check(self.rest)
        elif not end:
            self.rest += found
        else:
            if any(each in text for text in (self.rest, found) for each in (b'"', b"\r")):
                self._check(self.rest + found[:end])
            self.rest = found[end:]
        return found

    def _check(self, lines: bytes) -> None:
        if (b'"' in lines and _ODD.search(lines)) or (
            b"\r" in lines and lines.count(b"\r") - lines.endswith(b"\r") != lines.count(b"\r\n")
        ):
            raise BadLine(0, "lines that are better read by Python")

    def close(self) -> None:
        self.inner.close()
        super().close()


def _by_pyarrow(lines: Lines, fields: Fields, texts: set[int]) -> Columns | None:
    """The same by pyarrow; None where it is not there, or refuses."""
    if fields.delimiter is None or fields.width < 2:
        return None
    try:
        from pyarrow import ArrowException, PythonFile, csv, float64, string, system_memory_pool
    except ImportError:
        return None
    wanted = [f"f{column}" for column in fields.columns]
    codes = {k: Codes() for k in texts}
    chunks: list[Chunk] = []
    try:
        for batch in csv.open_csv(
            PythonFile(_Checked(lines.stream()), "r"),
            csv.ReadOptions(
                use_threads=False, column_names=[f"f{column}" for column in range(fields.width)], block_size=_CHUNK
            ),
            csv.ParseOptions(delimiter=fields.delimiter),
            csv.ConvertOptions(
                include_columns=wanted,
                null_values=list(MISSING),
                strings_can_be_null=True,
                column_types={name: string() if k in texts else float64() for k, name in enumerate(wanted)},
            ),
            memory_pool=system_memory_pool(),  # what a process reads once: pyarrow's own is slow to grow
        ):
            chunks.append([
                _coded(column, codes[k]) if k in texts else column.to_numpy(zero_copy_only=False)
                for k, column in enumerate(batch.columns)
            ])  # fmt: skip
    except (ArrowException, BadLine):
        return None
    return Columns(chunks, [codes[k].levels if k in texts else None for k in range(len(wanted))])


def _coded(column: Any, codes: Codes) -> np.ndarray:
    """An array of pyarrow's strings as codes."""
    encoded = column.dictionary_encode()
    known = np.append(codes.of(encoded.dictionary.to_pylist()), np.int32(-1))
    found: np.ndarray = known[encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)]
    return found


def line_of(row: int, text: bytes, delimiter: str | None) -> int:
    """The line of a row, both counted from 0; blank lines are no rows."""
    for index, line in enumerate(text.split(b"\n")):
        row -= not is_blank(line.removesuffix(b"\r"), delimiter)
        if row < 0:
            return index
    raise IndexError(row)
