"""The meaning of a field of a text file: a number, a missing value, or a text.

Python's own float and int decide what a number is; both are correctly rounded.  Lines are split here by Python alone;
`columns` has the faster way by pyarrow, which gives the same values.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.expressions.graph import DType

# texts of missing values; as floats NaN
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NULL", "null", "None", "nan", "NaN", "NAN")
NOT_A_NUMBER = ("nan", "NaN", "NAN")  # those of them that Python reads as floats
Converter = Callable[[str], float]  # from the text of a field to its number
Converters = Converter | Mapping[int, Converter]  # of all columns, or by the number of a column
NO_FUNCTIONS: Mapping[int, Converter] = {}
_MISSING = frozenset(each.encode() for each in MISSING)
_RETURNS = "it has carriage returns inside; if they end its lines, convert the file, as with tr '\\r' '\\n'"


class BadLine(ValueError):
    """An error in line `index` of a piece of text."""

    def __init__(self, index: int, text: str) -> None:
        super().__init__(text)
        self.index = index
        self.text = text


class Fields(NamedTuple):
    """The rules for reading the lines of a file: delimiter, width, columns and dtype."""

    delimiter: str | None  # None: any run of blanks
    width: int  # fields in a line
    columns: tuple[int, ...]  # the numbers of those that are read
    names: tuple[str, ...]  # of all columns
    dtype: DType
    decimal: str = "."  # of floats in tables
    missing: tuple[str, ...] = MISSING
    ragged: bool = False  # whether a line may have another width, as long as it has the columns that are read


def fields_of(line: bytes, delimiter: str | None) -> list[bytes]:
    """Split one line into its fields; a quoted field ends on its line.

    Raises ValueError if quotes do not match, or if a carriage return outside of quotes is not at its end.
    """
    if delimiter is None or b'"' not in line:
        if b"\r" in line:
            raise ValueError(_RETURNS)
        return line.split(None if delimiter is None else delimiter.encode())
    try:
        (found,) = csv.reader([line.decode("latin-1")], delimiter=delimiter, strict=True)
    except csv.Error as wrong:
        if b"\r" in line:
            raise ValueError(_RETURNS) from None
        raise ValueError(f"its quotes do not match ({wrong}); a quoted field ends on its line") from None
    return [each.encode("latin-1") for each in found]


def is_blank(line: bytes, delimiter: str | None) -> bool:
    """Return True for a line without contents, which readers skip."""
    return not line.strip(b" \t\r\n".replace((delimiter or "\0").encode(), b""))


def is_missing(field: bytes) -> bool:
    """Return True for a field that marks a missing value."""
    return field.strip() in _MISSING


def is_number(field: bytes, decimal: str = ".") -> bool:
    """Return True for a field that is a number and not missing."""
    try:
        return not is_missing(field) and _number(pointed(field, decimal), np.dtype(float)) is not None
    except ValueError:
        return False


def pointed(field: bytes, decimal: str) -> bytes:
    """Return a number with a point for its decimal mark.  Raises ValueError if it has a point that is no such mark."""
    if decimal == ".":
        return field
    if b"." in field:
        raise ValueError
    return field.replace(decimal.encode(), b".")


def parsed_as(dtype: DType) -> DType:
    """Return the dtype that numbers are parsed as: double precision for the floats that it holds."""
    return np.dtype(float) if dtype.kind == "f" and dtype.itemsize <= 8 else dtype


def _extended(field: bytes) -> np.longdouble:
    """Return a number in extended precision; Python's float decides whether it is one."""
    float(field)
    return np.longdouble(field.decode().strip())


def _parser(dtype: DType) -> Callable[[bytes], Any]:
    if dtype.kind != "f":
        return int
    return float if parsed_as(dtype).itemsize <= 8 else _extended


def _number(field: bytes, dtype: DType, missing: Collection[bytes] = _MISSING) -> Any:
    """Parse a field as `dtype`; a missing float is NaN.  Raise ValueError or OverflowError for any other field."""
    text = field.strip()
    if dtype.kind == "f":
        if text in missing:
            return float("nan")
        if b"_" in text:
            raise ValueError
        return _parser(dtype)(text)
    if b"_" in text:
        raise ValueError
    found = int(text)
    limits = np.iinfo(dtype)
    if not limits.min <= found <= limits.max:
        raise OverflowError
    return found


def split(text: bytes, fields: Fields) -> tuple[list[bytes], list[int], BadLine | None]:
    """Split the lines that are not blank into the fields that are read.

    Returns the fields, row by row; the index of the line of each row; and the error of the first line whose quotes do
    not match or that does not have `fields.width` fields, or None.  Reading ends before that line.
    """
    width, columns, delimiter = fields.width, fields.columns, fields.delimiter
    everything = columns == tuple(range(width))
    flat: list[bytes] = []
    at: list[int] = []
    lines = text.split(b"\n")
    if not lines[-1]:
        del lines[-1]
    for index, line in enumerate(lines):
        line = line.removesuffix(b"\r")
        if is_blank(line, delimiter):
            continue
        try:
            found = fields_of(line, delimiter)
        except ValueError as error:
            return flat, at, BadLine(index, str(error))
        if len(found) != width and not (fields.ragged and len(found) > max(columns, default=-1)):
            wrong = f"it has {len(found)} field{'s' * (len(found) != 1)}, the first line has {width}"
            return flat, at, BadLine(index, wrong)
        flat.extend(found if everything else [found[column] for column in columns])
        at.append(index)
    return flat, at, None


def exact(text: bytes, fields: Fields) -> np.ndarray:
    """Parse the numbers of some lines by Python alone: shape (lines that are not blank, columns).

    Raises BadLine with the index of the first line that does not have `width` fields or has a field that is no number.
    """
    flat, at, wrong = split(text, fields)
    convert, kind = _parser(fields.dtype), parsed_as(fields.dtype)
    values: Any
    try:
        if b"_" in text:
            raise ValueError
        values = np.array(list(map(convert, flat)), kind)
    except (ValueError, OverflowError):
        values = np.array(_one_by_one(flat, at, fields), kind)  # a field that is wrong comes before the line that is
    if wrong is not None:
        raise wrong
    found: np.ndarray = values.reshape(len(at), len(fields.columns))
    return found


def converted(text: bytes, fields: Fields, converters: Converters, encoding: str = "utf-8") -> np.ndarray:
    """Parse the numbers of some lines, those of some columns by functions: as `exact`.

    Raises BadLine with what a function raised, too.
    """
    width = fields.width
    if isinstance(converters, Mapping):
        if wrong := [column for column in converters if not -width <= column < width]:
            raise ValueError(f"converters: there is no column {wrong[0]}; there are {width}")
        functions = {column % width: function for column, function in converters.items()}
    else:
        functions = dict.fromkeys(fields.columns, converters)
    flat, at, bad = split(text, fields)
    values = np.array(_one_by_one(flat, at, fields, functions, encoding), fields.dtype)
    if bad is not None:
        raise bad
    return values.reshape(len(at), len(fields.columns))


def _one_by_one(
    flat: Sequence[bytes], at: Sequence[int], fields: Fields, functions: Mapping[int, Converter] = NO_FUNCTIONS,
    encoding: str = "utf-8",
) -> list[Any]:  # fmt: skip
    found: list[Any] = []
    missing = frozenset(each.encode() for each in fields.missing)
    for k, field in enumerate(flat):
        row, place = divmod(k, len(fields.columns))
        column = fields.columns[place]
        function = functions.get(column)
        try:
            if function is None:
                found.append(_number(field, fields.dtype, missing))
            else:
                found.append(fields.dtype.type(function(field.decode(encoding))))
        except Exception as error:  # noqa: BLE001 - a function may raise anything
            text = field.strip().decode("utf-8", "replace")
            if function is not None:
                what = f"the converter of {text!r:.60} raised {type(error).__name__}: {error}"
            elif isinstance(error, OverflowError):
                what = f"{text} does not fit {fields.dtype}"
            elif fields.dtype.kind != "f" and field.strip() in missing:
                what = f"a value is missing, and {fields.dtype} has none for that; dtype=float gives NaN"
            else:
                what = f"{text!r:.60} is no {'number' if fields.dtype.kind == 'f' else 'integer'}"
            raise BadLine(at[row], f"column {column + 1} ({fields.names[column]!r}): {what}") from None
    return found
