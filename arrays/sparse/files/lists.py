"""Lists of edges and of coordinates, one a line of text or one a row of a Parquet file."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from bsp.arrays.errors import FormatError
from bsp.arrays.files.agreement import agreed, unchanged
from bsp.arrays.files.lines.division import lines_of
from bsp.arrays.files.lines.fields import Fields
from bsp.arrays.files.lines.opening import BOM, Opening, opening_of
from bsp.arrays.sparse.array import SparseArray
from bsp.arrays.sparse.coo import CooArray
from bsp.arrays.sparse.creation import from_coo
from bsp.arrays.sparse.files.tables import EXACT, Place, check_fits, indices_of, table_of, table_of_parquet, without
from bsp.arrays.typing import DTypeLike, PathLike

_NAMES = "; where vertices have names, bsp.graphs.read_named_edges numbers them"


def read_edges(
    path: PathLike, *, delimiter: str | None = None, columns: tuple[int | str, int | str] = (0, 1),
    weights: int | str | None = None, base: int = 0, shape: tuple[int, int] | None = None, symmetric: bool = False,
    comments: str | None = "#", header: bool | str = "auto", dtype: DTypeLike = float,
    bounds: Sequence[int] | None = None,
) -> SparseArray:  # fmt: skip
    """Read a list of edges, one a line of text or one a row of a Parquet file, as a matrix.  Collective.

    path : text, also compressed (.gz, .bz2, .xz); or a Parquet file, or a folder of them, if it ends in .parquet.
    delimiter : one character; None: a comma if the name ends in .csv, else any run of blanks.
    columns, weights : the columns of the rows, of the columns and of the values, by number or name; without weights
        each edge is a one.  Duplicates are summed.
    base : the number of the first row and column: 0 or 1.
    shape : None: square, with as many rows as the largest index needs; then text must have an edge or names.
    symmetric : add each edge that is not a loop in the other direction too; values are equal both ways.
    comments : what is between this text and the end of a line is not read; None: there are no comments.
    header : whether the first line has names; "auto": it does if none of its fields is a number.
    dtype : of the values.  With float values, and from Parquet, indices are below 2^53, and weights exact up to it.
    bounds : of the processes' rows, as in `from_coo`.
    Cost: one superstep to read and to agree on it, and those of `from_coo`; see `lines_of` for compressed text.
    Raises NoSuchFile, FileError, or FormatError with the line or row; PlanTooLarge if the rows do not fit in memory.
    """
    call = f"read_edges({os.fspath(path)!r})"
    read = _ListReader(call, path, columns, weights, base, np.dtype(dtype), delimiter, comments, header)
    try:
        (rows, others), values, most = read.result(shape, ("row", "column"))
    except FormatError as wrong:
        if str(wrong).endswith(("is no integer", "is no number", "no numbers")):
            raise FormatError(f"{wrong}{_NAMES}") from None
        raise
    return from_coo(rows, others, values, shape or (max(most), max(most)), bounds=bounds, symmetric=symmetric)


def read_coordinates(
    path: PathLike, columns: Sequence[int | str], values: int | str | None = None, *, base: int = 0,
    shape: Sequence[int] | None = None, delimiter: str | None = None, comments: str | None = "#",
    header: bool | str = "auto", dtype: DTypeLike = float,
) -> CooArray:  # fmt: skip
    """Read a list of entries, one a line of text or one a row of a Parquet file, as an array.  Collective.

    columns, values : those of the coordinates, one for each axis, and that of the values, by number or name; without
        values each entry is a one.  Duplicates are summed.
    shape : None: the least that has all coordinates.
    The other arguments are those of `read_edges`, and so are the errors.  FROSTT's files (.tns) of three axes:
        read_coordinates(path, (0, 1, 2), 3, base=1)
    Cost: one superstep to read and to agree on it, and those of `from_coo`; see `lines_of` for compressed text.
    """
    call = f"read_coordinates({os.fspath(path)!r})"
    if not columns or (shape is not None and len(shape) != len(columns)):
        raise ValueError(f"{call}: {len(columns)} columns of coordinates for shape={shape}: one for each axis")
    read = _ListReader(call, path, columns, values, base, np.dtype(dtype), delimiter, comments, header)
    coordinates, entries, most = read.result(shape, [f"coordinate {axis}" for axis in range(len(columns))])
    return from_coo(coordinates, entries, shape=most if shape is None else shape)


class _ListReader(NamedTuple):
    """Arguments of a reader of lists."""

    call: str
    path: PathLike
    columns: Sequence[int | str]
    values: int | str | None
    base: int
    dtype: np.dtype[Any]
    delimiter: str | None
    comments: str | None
    header: bool | str

    def result(
        self, shape: Sequence[int] | None, names: Sequence[str]
    ) -> tuple[list[np.ndarray], np.ndarray, tuple[int, ...]]:
        """Return this process's indices, by axis, and values, and the lengths that all processes' indices need.

        names : of the axes, for messages.
        """
        if self.base not in (0, 1):
            raise ValueError(f"{self.call}: base={self.base}: 0 or 1")
        found: list[Any] = []

        def work() -> tuple[tuple[int, ...], int]:
            table, place, size = self._table(shape is not None)
            limits = shape or [EXACT] * len(names)
            found.extend(indices_of(table, k, self.base, length, place, names[k]) for k, length in enumerate(limits))
            lengths = [int(each.max(initial=-1)) + 1 for each in found]
            count = len(table)
            found.append(np.ones(count, self.dtype) if self.values is None else self._cast(table[:, -1], place))
            return (*lengths, count), size

        answers = agreed(self.call, work)
        unchanged(self.call, [size for _, size in answers])
        told = [each for each, _ in answers]
        *most, _ = (max(each) for each in zip(*told, strict=True))
        rows = shape[0] if shape else max(most) if len(names) == 2 else 0  # by coordinates, no word for each row
        check_fits(self.call, rows, sum(each[-1] for each in told), self.dtype)
        return found[:-1], found[-1], tuple(most)

    def _cast(self, given: np.ndarray, place: Place) -> np.ndarray:
        """Return values in the element type; ValueError if one, such as a null, is none of its integers."""
        with np.errstate(invalid="ignore"):
            found = given.astype(self.dtype)
        if self.dtype.kind in "iu" and (wrong := np.flatnonzero(found != given)).size:
            at = int(wrong[0])
            raise ValueError(f"{place(at)}: the value {given[at]:.15g} is none of {self.dtype}")
        return found

    def _table(self, may_be_empty: bool) -> tuple[np.ndarray, Place, int]:
        """Return the numbers of this process's lines or rows, a function that names the place of one, and the size.

        may_be_empty : whether text without any line of data is a list of no entries, not a mistake.
        """
        chosen = [*self.columns, *([] if self.values is None else [self.values])]
        if os.fspath(self.path).lower().endswith(".parquet"):
            return (*table_of_parquet(self.path, chosen), 0)
        exact = np.dtype(np.int64 if self.values is None or self.dtype.kind in "iub" else float)
        delimiter = self.delimiter
        name, ending = os.path.splitext(os.fspath(self.path).lower())
        if delimiter is None and ".csv" in (ending, os.path.splitext(name)[1]):
            delimiter = ","

        def opening(file: BinaryIO) -> Opening:
            before = 0
            while (line := file.readline().removeprefix(BOM)) and not without(line, self.comments).strip():
                before += 1
            if not line and may_be_empty:
                width = len(chosen)
                return Opening(Fields(delimiter, width, tuple(range(width)), ("",) * width, exact), file.tell(), before)
            first = io.BytesIO(b"\n" * before + without(line, self.comments))
            opened = opening_of(first, delimiter, self.header, exact, chosen, before)
            return opened._replace(start=file.tell() - len(line) * (opened.lines == before))

        own = lines_of(self.path, opening)()
        return (*table_of(own, self.comments), own.size)
