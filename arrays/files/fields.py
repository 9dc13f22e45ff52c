"""Lines of text as rows of numbers.

What a field means is said by `_number`, once: Python's own float and int, which are correctly rounded.  Whole pieces
go through pyarrow if it is there (five times as fast, correctly rounded too), but only such as it can take in no
other way; whatever it refuses is read by `exact`, which gives the values or says what is wrong.  So the numbers are
the same with and without it.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.expressions.graph import DType

MISSING = ("", "NA", "N/A", "NULL", "null", "None", "nan", "NaN", "NAN")  # of floats: NaN
_MISSING = frozenset(each.encode() for each in MISSING)


class BadLine(ValueError):
    """Line `index` of a piece cannot be read."""

    def __init__(self, index: int, text: str) -> None:
        super().__init__(text)
        self.index = index
        self.text = text


class Fields(NamedTuple):
    """How the lines of a file are read."""

    delimiter: str | None  # None: any run of blanks
    width: int  # fields in a line
    columns: tuple[int, ...]  # which are read
    names: tuple[str, ...]  # of all of them
    dtype: DType


def fields_of(line: bytes, delimiter: str | None) -> list[bytes]:
    """The fields of one line; a quoted one ends on its line."""
    if delimiter is None:
        return line.split()
    if b'"' not in line:
        return line.split(delimiter.encode())
    try:
        (found,) = csv.reader([line.decode("latin-1")], delimiter=delimiter, strict=True)
    except csv.Error as wrong:
        raise ValueError(f"its quotes do not match ({wrong}); a quoted field ends on its line") from None
    return [each.encode("latin-1") for each in found]


def is_blank(line: bytes, delimiter: str | None) -> bool:
    """Whether a line has nothing in it, and is passed over."""
    return not line.strip(b" \t\r\n".replace((delimiter or "\0").encode(), b""))


def is_missing(field: bytes) -> bool:
    """Whether a field says that there is no value."""
    return field.strip() in _MISSING


def is_number(field: bytes) -> bool:
    """Whether a field is a number that is there."""
    try:
        return not is_missing(field) and _number(field, np.dtype(float)) is not None
    except ValueError:
        return False


def _number(field: bytes, dtype: DType) -> Any:
    """What a field means."""
    text = field.strip()
    if dtype.kind == "f":
        if text in _MISSING:
            return float("nan")
        if b"_" in text:
            raise ValueError
        return float(text)
    if b"_" in text:
        raise ValueError
    found = int(text)
    limits = np.iinfo(dtype)
    if not limits.min <= found <= limits.max:
        raise OverflowError
    return found


def parsed(text: bytes, fields: Fields) -> np.ndarray:
    """The numbers of some lines: shape (lines that are not blank, columns).

    Raises BadLine with the index of the first line that has other than `width` fields or a field that is no number.
    """
    found = _by_pyarrow(text, fields)
    if found is None:
        found = exact(text, fields)
    if fields.dtype.kind == "f":
        found[np.isnan(found)] = np.nan  # one NaN, whatever sign it was written with
    return found.astype(fields.dtype, copy=False)


def exact(text: bytes, fields: Fields) -> np.ndarray:
    """`parsed` by Python alone."""
    width, columns, delimiter = fields.width, fields.columns, fields.delimiter
    everything = columns == tuple(range(width))
    flat: list[bytes] = []
    at: list[int] = []  # the line of each row
    lines = text.split(b"\n")
    if not lines[-1]:
        del lines[-1]
    wrong: BadLine | None = None
    for index, line in enumerate(lines):
        line = line.removesuffix(b"\r")
        if is_blank(line, delimiter):
            continue
        try:
            found = fields_of(line, delimiter)
        except ValueError as error:
            wrong = BadLine(index, str(error))
            break
        if len(found) != width:
            wrong = BadLine(index, f"it has {len(found)} field{'s' * (len(found) != 1)}, the first line has {width}")
            break
        flat.extend(found if everything else [found[column] for column in columns])
        at.append(index)
    convert = float if fields.dtype.kind == "f" else int
    kind = np.dtype(float) if convert is float else fields.dtype
    values: Any
    try:
        if b"_" in text:
            raise ValueError
        values = np.array(list(map(convert, flat)), kind)
    except (ValueError, OverflowError):
        values = np.array(_one_by_one(flat, at, fields), kind)  # a field that is wrong comes before the line that is
    if wrong is not None:
        raise wrong
    found_array: np.ndarray = values.reshape(len(at), len(columns))
    return found_array


def _one_by_one(flat: Sequence[bytes], at: Sequence[int], fields: Fields) -> list[Any]:
    found = []
    for k, field in enumerate(flat):
        try:
            found.append(_number(field, fields.dtype))
        except (ValueError, OverflowError) as error:
            row, column = divmod(k, len(fields.columns))
            column = fields.columns[column]
            text = field.strip().decode("utf-8", "replace")
            if isinstance(error, OverflowError):
                what = f"{text} does not fit {fields.dtype}"
            elif fields.dtype.kind != "f" and field.strip() in _MISSING:
                what = f"a value is missing, and {fields.dtype} has none for that; dtype=float gives NaN"
            else:
                what = f"{text!r:.60} is no {'number' if fields.dtype.kind == 'f' else 'integer'}"
            raise BadLine(at[row], f"column {column + 1} ({fields.names[column]!r}): {what}") from None
    return found


def _by_pyarrow(text: bytes, fields: Fields) -> np.ndarray | None:
    """The same by pyarrow; None where it is not there, or might read something in another way."""
    if fields.delimiter is None or fields.width < 2 or not text or text.count(b"\r") != text.count(b"\r\n"):
        return None
    if any(each in text for each in (b'"', b"(", b"x", b"X", b"\0")):
        return None
    try:
        from pyarrow import ArrowException, BufferReader, csv, from_numpy_dtype
    except ImportError:
        return None
    kind = np.dtype(float) if fields.dtype.kind == "f" else fields.dtype
    wanted = [f"f{column}" for column in dict.fromkeys(fields.columns)]
    try:
        table = csv.read_csv(
            BufferReader(text),
            csv.ReadOptions(use_threads=False, column_names=[f"f{column}" for column in range(fields.width)]),
            csv.ParseOptions(delimiter=fields.delimiter, quote_char=False),
            csv.ConvertOptions(
                include_columns=wanted,
                null_values=list(MISSING),
                column_types=dict.fromkeys(wanted, from_numpy_dtype(kind)),
            ),
        )
    except ArrowException:
        return None
    if table.num_columns != len(wanted):
        return None
    found = np.empty((table.num_rows, len(fields.columns)), kind)
    for k, column in enumerate(fields.columns):
        values = table.column(f"f{column}")
        if values.null_count and kind.kind != "f":
            return None
        found[:, k] = values.to_numpy()
    return found
