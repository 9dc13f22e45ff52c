"""Columns of text files: numbers, or texts kept as integer codes.

Lines of plain numbers are parsed in C, three times as fast as by pyarrow; lines with texts by pyarrow, if it
is installed, five times as fast as by Python.  Both are used only for text that they parse as Python does.  Python
parses the rest by the rules of `fields` and finds the line of an error.  So values do not depend on what is installed.
Columns come in chunks of some thousand rows, which are copied into a matrix while they are in the cache.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np

from bsp.arrays.compiled import COMPILED, numbers_of_lines, powers_of_five
from bsp.arrays.files.arrow import numbers_in
from bsp.arrays.files.lines.fields import (
    MISSING,
    BadLine,
    Fields,
    exact,
    fields_of,
    is_blank,
    is_number,
    parsed_as,
    pointed,
    split,
)


class LineSource(Protocol):
    """A source of whole lines of a file."""

    def text(self) -> bytes:
        """Return all the lines."""

    @property
    def stream(self) -> Callable[[], BinaryIO]:
        """A function that opens the lines as a binary stream, to be read in pieces."""


Chunk = list[np.ndarray]  # by column: float64 with NaN, or int32 codes with -1, for what is missing
_SAMPLE = 1 << 15  # bytes that are examined to guess which columns hold text
_CHUNK = 1 << 21  # bytes of text whose columns make a chunk
_LONGEST = 1 << 24  # bytes of a line that is read in C
CHUNK_ROWS = 1 << 12  # rows of a chunk, for readers that can choose its size


class Columns(NamedTuple):
    """The columns of a process's rows.

    chunks : the rows in order; each chunk has one array a column: float64 with NaN, or int32 codes with -1, for missing
        values.
    levels : for each column its texts by code, in order of appearance; None for a column of numbers.
    decimal : the decimal mark of files of text, in which numbers may be written in ways that parsers do not read; None
        where texts are known to be texts.
    notes : sentences on how the file was read.
    matrix : all rows, in C order, where the columns of the chunks are those of this matrix; else None.
    size : the bytes of a plain text file, which must be the same on all processes.
    dates : the places of columns of dates, read as their texts, of files that tell dates from texts.
    truths : those of columns of truth values, read as 0 and 1, of files that tell them from numbers.
    orders : by place, of columns that have dictionaries of their texts, these dictionaries; each of them once.
    """

    chunks: list[Chunk]
    levels: list[list[str] | None]
    decimal: str | None = None
    notes: tuple[str, ...] = ()
    matrix: np.ndarray | None = None
    size: int = 0
    dates: frozenset[int] = frozenset()
    truths: frozenset[int] = frozenset()
    orders: Mapping[int, Sequence[tuple[str, ...]]] = MappingProxyType({})

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(len(chunk[0]) for chunk in self.chunks) if self.levels else 0


class Codes:
    """A numbering of texts by order of appearance; those that mark missing values get no number."""

    def __init__(self, missing: Collection[str] = MISSING) -> None:
        self.numbers: dict[str, int] = {}
        self.missing = frozenset(missing)

    def of(self, texts: Sequence[str | None]) -> np.ndarray:
        """Return the codes of some texts; -1 for None and for texts that mark a missing value."""
        numbers, missing = self.numbers, self.missing
        found = np.empty(len(texts), np.int32)
        for k, text in enumerate(texts):
            short = "" if text is None else text.strip()
            found[k] = -1 if short in missing else numbers.setdefault(short, len(numbers))
        return found

    @property
    def levels(self) -> list[str]:
        """The texts, ordered by code."""
        return list(self.numbers)


def numbers_of(lines: LineSource, fields: Fields) -> np.ndarray:
    """Return the numbers of some lines: shape (lines that are not blank, columns), dtype fields.dtype.

    Raises BadLine with the index of the first line that does not have `width` fields or has a field that is no number.
    """
    once = tuple(dict.fromkeys(fields.columns))  # C and pyarrow read each column once
    chosen, dtype = fields._replace(columns=once), parsed_as(fields.dtype)
    try:
        found = _in_rows(_pieces_in_c(lines, chosen), len(once), dtype)
    except _NotInC:
        columns = _by_pyarrow(lines, chosen, ()) if dtype.itemsize <= 8 else None
        if columns is None:
            found = exact(lines.text(), chosen)
        else:
            found = _in_rows((np.array(chunk).T for chunk in columns.chunks), len(once), dtype)
    if len(once) < len(fields.columns):
        found = found[:, [once.index(column) for column in fields.columns]]
    if fields.dtype.kind == "f":
        for low in range(0, len(found), CHUNK_ROWS):
            part = found[low : low + CHUNK_ROWS]
            part[np.isnan(part)] = np.nan  # one NaN, whatever sign it was written with
    return found.astype(fields.dtype, copy=False)


def _in_rows(pieces: Iterable[np.ndarray], columns: int, dtype: np.dtype[Any]) -> np.ndarray:
    """Return pieces of shape (rows, columns) as one matrix of all rows.

    The matrix grows with each piece, so that no piece is kept: memory that is new takes longer than the copy.
    """
    found = np.empty((0, columns), dtype)
    for piece in pieces:
        low = len(found)
        found.resize((low + len(piece), columns), refcheck=False)
        found[low:] = piece
    return found


def columns_of(lines: LineSource, fields: Fields, texts: set[int]) -> Columns:
    """Parse the columns of some lines; columns at the places `texts` of fields.columns become texts.

    Other columns become texts only where they hold some text that is no number.
    Raises BadLine if a line does not have fields.width fields.
    """
    with lines.stream() as sample:
        guessed = texts | _texts_in(sample.read(_SAMPLE), fields)
    everything = set(range(len(fields.columns)))
    found = (
        (None if guessed else _in_c(lines, fields))
        or _by_pyarrow(lines, fields, guessed)
        or _by_pyarrow(lines, fields, everything)
        or _as_texts(lines.text(), fields)
    )
    return _as_numbers(found, everything - texts, fields.decimal)


def _texts_in(text: bytes, fields: Fields) -> set[int]:
    """Return the places of the columns that have a text in the first lines."""
    found: set[int] = set()
    missing = {each.encode() for each in fields.missing}
    for line in text.split(b"\n")[:-1]:
        try:
            row = fields_of(line.removesuffix(b"\r"), fields.delimiter)
        except ValueError:
            break
        if len(row) == fields.width:
            found |= {
                k
                for k, column in enumerate(fields.columns)
                if row[column].strip() not in missing and not is_number(row[column], fields.decimal)
            }
    return found


def _as_numbers(found: Columns, places: set[int], decimal: str) -> Columns:
    """Turn columns into numbers that were read as texts but hold no text."""
    for k in places:
        levels = found.levels[k]
        if levels is None or not all(is_number(level.encode(), decimal) for level in levels):
            continue
        values = np.array([*(float(pointed(level.encode(), decimal)) for level in levels), np.nan])
        for chunk in found.chunks:
            chunk[k] = values[chunk[k]]  # code -1 is the last: NaN
        found.levels[k] = None
    return found


def _as_texts(text: bytes, fields: Fields) -> Columns:
    """Return all columns as texts, by Python alone."""
    flat, at, wrong = split(text, fields)
    count = len(fields.columns)
    texts = []
    for k, field in enumerate(flat):
        try:
            texts.append(field.decode())
        except UnicodeDecodeError:
            raise BadLine(at[k // count], "it is not UTF-8: convert the file, as with iconv") from None
    if wrong is not None:
        raise wrong
    codes = [Codes(fields.missing) for _ in fields.columns]
    chunk = [each.of(texts[k::count]) for k, each in enumerate(codes)]
    return Columns([chunk], [each.levels for each in codes])


def _unlike(delimiter: str) -> re.Pattern[bytes]:
    """Return a pattern that matches the start of each line in which some quote does not enclose a whole field."""
    end = re.escape(delimiter)
    field = rf'(?:"[^"\n]*(?:""[^"\n]*)*"|[^"{end}\r\n][^{end}\n]*)?'
    return re.compile(rf"^(?!{field}(?:{end}{field})*\r?$)".encode(), re.MULTILINE)


class _Checked(io.RawIOBase):
    """A stream that raises an error where pyarrow would read other values than Python.

    These are: a quote still open at the end of its line, or closed in the middle of a field; a carriage return inside a
    line; nan(...), which is a number for pyarrow alone; and, for integers, 0x....
    """

    def __init__(self, stream: BinaryIO, fields: Fields) -> None:
        assert fields.delimiter is not None
        self.inner = stream
        self.rest = b""  # the beginning of a line that is not complete
        self.marks = (b'"', b"\r", b"(", *((b"x", b"X") if fields.dtype.kind in "iu" else ()))  # single bytes: fast
        self.delimiter = fields.delimiter

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
            if any(mark in text for text in (self.rest, found) for mark in self.marks):
                self._check(self.rest + found[:end])
            self.rest = found[end:]
        return found

    def _check(self, lines: bytes) -> None:
        quotes, returns, brackets, *hexadecimal = (mark in lines for mark in self.marks)
        if (
            any(hexadecimal)
            or (brackets and (b"n(" in lines or b"N(" in lines))
            or (quotes and _unlike(self.delimiter).search(lines))
            or (returns and lines.count(b"\r") - lines.endswith(b"\r") != lines.count(b"\r\n"))
        ):
            raise BadLine(0, "lines that are better read by Python")

    def close(self) -> None:
        self.inner.close()
        super().close()


class _NotInC(Exception):
    """Lines that cannot be read in C."""


def _in_c(lines: LineSource, fields: Fields) -> Columns | None:
    """Return columns of plain numbers as C reads them; None if it cannot."""
    count = len(fields.columns)
    try:
        matrix = _in_rows(_pieces_in_c(lines, fields), count, np.dtype(float))
    except _NotInC:
        return None
    chunks = [list(matrix[low : low + CHUNK_ROWS].T) for low in range(0, len(matrix), CHUNK_ROWS)]
    return Columns(chunks, [None] * count, matrix=matrix)


def _pieces_in_c(lines: LineSource, fields: Fields) -> Iterator[np.ndarray]:
    """Yield the numbers of some lines as C reads them, shape (rows, columns); the next piece overwrites the last one.

    Integers are read as float64, which holds those below 2^53.
    Raises _NotInC if some are texts, or lines cannot be read in C.
    """
    delimiter = fields.delimiter or "\0"  # none: any run of blanks
    whole = fields.dtype.kind != "f"
    low, high = _exact_as_floats(fields.dtype) if whole else (0, 0)
    if not COMPILED or not fields.columns or parsed_as(fields.dtype).itemsize > 8:
        raise _NotInC
    if delimiter in f"0123456789+-eE{fields.decimal}":
        raise _NotInC
    places = np.full(fields.width, -1)
    places[list(fields.columns)] = np.arange(len(fields.columns))
    marks = ord(delimiter), ord(fields.decimal)
    missing = () if whole else tuple(each.encode() for each in fields.missing)
    text, found, least = b"", b"\n", max(fields.width, 2)  # bytes of a row
    out = np.empty((0, len(fields.columns)))
    with lines.stream() as stream:
        while found:
            found = stream.read(_CHUNK)
            text += found or b"\n" * bool(text)  # the last line may lack its line break
            if whole and any(mark in text for mark in (b".", b"e", b"E")):
                raise _NotInC
            if len(text) // least > len(out):
                out = np.empty((len(text) // least, out.shape[1]))
            read = numbers_of_lines(text, *marks, places, missing, powers_of_five(), out, out.shape[1])
            if read is None:
                raise _NotInC
            rows, done = read
            text = text[done:]
            if whole and not ((low <= out[:rows]) & (out[:rows] <= high)).all():
                raise _NotInC
            if rows:
                yield out[:rows]
            if len(text) > _LONGEST:
                raise _NotInC
    if text:  # rows that are too short for `out` to have room for them
        raise _NotInC


def _exact_as_floats(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the least and the greatest integer of a dtype that are read as float64 without a rounding."""
    limits = np.iinfo(dtype)
    return max(int(limits.min), 1 - (1 << 53)), min(int(limits.max), (1 << 53) - 1)


def _by_pyarrow(lines: LineSource, fields: Fields, texts: Collection[int]) -> Columns | None:
    """Return the columns as pyarrow reads them: those at the places `texts` as texts, others as fields.dtype.

    Returns None if pyarrow is not installed, refuses the lines, or might read them differently from Python.
    """
    if fields.delimiter is None or fields.width < 2 or not fields.columns:
        return None
    try:
        from pyarrow import ArrowException, PythonFile, csv, from_numpy_dtype, string, system_memory_pool
    except ImportError:
        return None
    number = from_numpy_dtype(parsed_as(fields.dtype))
    wanted = [f"f{column}" for column in fields.columns]
    codes = {k: Codes(fields.missing) for k in texts}
    chunks: list[Chunk] = []
    try:
        for batch in csv.open_csv(
            PythonFile(_Checked(lines.stream(), fields), "r"),
            csv.ReadOptions(
                use_threads=False, column_names=[f"f{column}" for column in range(fields.width)], block_size=_CHUNK
            ),
            csv.ParseOptions(delimiter=fields.delimiter),
            csv.ConvertOptions(
                include_columns=wanted,
                null_values=list(fields.missing),
                decimal_point=fields.decimal,
                strings_can_be_null=True,
                column_types={name: string() if k in codes else number for k, name in enumerate(wanted)},
            ),
            memory_pool=system_memory_pool(),  # each buffer is used once, and pyarrow's own pool is slow to grow
        ):
            if fields.dtype.kind != "f" and any(column.null_count for column in batch.columns):
                return None
            chunks.append([
                _coded(column, codes[k]) if k in codes else numbers_in(column, parsed_as(fields.dtype), np.nan)
                for k, column in enumerate(batch.columns)
            ])  # fmt: skip
    except (ArrowException, BadLine):
        return None
    return Columns(chunks, [codes[k].levels if k in codes else None for k in range(len(wanted))])


def _coded(column: Any, codes: Codes) -> np.ndarray:
    """Return the codes of an array of pyarrow strings."""
    encoded = column.dictionary_encode()
    known = np.append(codes.of(encoded.dictionary.to_pylist()), np.int32(-1))
    found: np.ndarray = known[numbers_in(encoded.indices, np.int32, -1)]
    return found


def line_of(row: int, text: bytes, delimiter: str | None) -> int:
    """Return the line of a row, both counted from 0; blank lines are not rows."""
    for index, line in enumerate(text.split(b"\n")):
        row -= not is_blank(line.removesuffix(b"\r"), delimiter)
        if row < 0:
            return index
    raise IndexError(row)
