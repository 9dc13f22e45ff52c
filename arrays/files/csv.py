"""Numbers and tables in text files: each process reads and parses its own lines, see `lines`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, count
from operator import index
from typing import Any, BinaryIO, Literal, overload

import numpy as np

from bsp.arrays.api.creation import Grid, layout_for
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import filled, world
from bsp.arrays.expressions.element_types import ElementTypeError, element_type
from bsp.arrays.expressions.graph import DType, Node, leaf
from bsp.arrays.expressions.layout import ragged
from bsp.arrays.files.agreement import agreed, evaluated, path_of, same_everywhere, unchanged
from bsp.arrays.files.columns import Columns, columns_of, line_of, numbers_of
from bsp.arrays.files.format import Choose, register
from bsp.arrays.files.lines.dialect import SAMPLE, Dialect, completed
from bsp.arrays.files.lines.division import Open, TextLines, lines_of
from bsp.arrays.files.lines.fields import NOT_A_NUMBER, BadLine, Converters, Fields, converted, is_number
from bsp.arrays.files.lines.opening import Chosen, Opening, opening_of, shortened
from bsp.arrays.procedures.operands import in_layout
from bsp.arrays.typing import DTypeLike, PathLike

_OF_TEXT = "; usecols= leaves columns of text out, bsp.algorithms.glm.read_table reads them, too"
_NAMED = {"\t": "tabs", " ": "blanks"}  # delimiters in notes


@overload
def read_csv(
    path: PathLike, *, delimiter: str | None = ",", header: bool | str = "auto", dtype: DTypeLike = float,
    usecols: Chosen = None, skiprows: int = 0, names: Literal[False] = False, grid: Grid = None,
    process_grid: Grid = None,
) -> Array: ...  # fmt: skip
@overload
def read_csv(
    path: PathLike, *, delimiter: str | None = ",", header: bool | str = "auto", dtype: DTypeLike = float,
    usecols: Chosen = None, skiprows: int = 0, names: Literal[True], grid: Grid = None, process_grid: Grid = None,
) -> tuple[Array, list[str]]: ...  # fmt: skip
def read_csv(
    path: PathLike, *, delimiter: str | None = ",", header: bool | str = "auto", dtype: DTypeLike = float,
    usecols: Chosen = None, skiprows: int = 0, names: bool = False, grid: Grid = None, process_grid: Grid = None,
) -> Any:  # fmt: skip
    """Read the numbers of a text file, one row a line: shape (lines, columns), or (lines,) if usecols is one column.

    path : a plain file, or a compressed one if it ends in .gz, .bz2 or .xz.
    delimiter : one character; None: any run of blanks.
    header : whether the first line has the names of the columns; "auto": it does if none of its fields is a number.
    dtype : an integer or float dtype.  A missing float (an empty field, NA, NULL, nan) becomes NaN.
    usecols : the columns to read, by number or name; the others may hold text.
    skiprows : the number of lines to skip first, blank ones among them.  Blank lines after these are no rows.
    names : return (array, list of the names of its columns); they are c0, c1, ... where the file has none.
    A quoted field ends on its line.  The result depends neither on the number of processes nor on whether there was a C
    compiler at installation, or pyarrow is installed, which make reading faster.
    Cost, n numbers: one superstep in which all processes agree that they could read, then one exchange of about n/p
    words to the array's layout.  Compressed text of s bytes is first sent out by process 0, h = s/8 · (p - 1)/p words.
    Raises NoSuchFile, FileError, or FormatError with the line and the column, the same on every process.
    """
    path = path_of(path, "read_csv")
    call = f"read_csv({path!r})"
    kind = _dtype_of_numbers(call, dtype)
    _check_delimiter(call, delimiter)
    if header not in (True, False, "auto"):
        raise ValueError(f"{call}: header={header!r} is none of True, False, 'auto'")

    def opening(file: BinaryIO) -> Opening:
        return opening_of(file, delimiter, header, kind, usecols, skiprows)

    def parsed(lines: TextLines) -> np.ndarray:
        opened = lines.opening
        try:
            return numbers_of(lines, opened.fields)
        except BadLine as bad:
            if lines.before() + bad.index == opened.lines and bad.text.endswith("is no number"):
                unnamed = "; header=True if this line has names" if header == "auto" else ""
                raise BadLine(bad.index, bad.text + (_OF_TEXT if opened.named else unnamed)) from None
            raise

    single = isinstance(usecols, (int, np.integer, str))
    node, fields = _rows_of_numbers(call, path, opening, parsed, single)
    array = wrap(in_layout(node, layout_for(node.kind.shape, grid, process_grid)))
    return (array, [fields.names[column] for column in fields.columns]) if names else array


def loadtxt(
    fname: PathLike, dtype: DTypeLike = float, comments: str | Sequence[str] | None = "#", delimiter: str | None = None,
    converters: Converters | None = None, skiprows: int = 0,
    usecols: int | Sequence[int] | None = None, unpack: bool = False, ndmin: int = 0, encoding: str | None = None,
    max_rows: int | None = None, *, quotechar: str | None = None, grid: Grid = None, process_grid: Grid = None,
) -> Array:  # fmt: skip
    """Read the numbers of a text file, one row a line, as numpy.loadtxt does.

    fname : a plain file, or a compressed one if it ends in .gz, .bz2 or .xz.
    dtype : an integer or float dtype.  Every field must be a number; `read_csv` reads files with missing values.
    comments : the mark that begins a comment, or several; None: there are no comments.
    delimiter : one character; None: any run of blanks.
    converters : functions from the text of a field to its number, by column, or one for all columns; each process calls
        them for its own lines.
    skiprows : the number of lines to skip first, comments and blank ones among them.
    usecols : the numbers of the columns to read.  The others may hold text, and may be missing in some lines, unless a
        column is counted from the end; such files take longer.
    unpack : return the transpose, so that `x, y = loadtxt(...)` takes the columns apart.
    ndmin : axes of length 1 are dropped while more axes than this are left.
    encoding : any in which digits are those of ASCII; UTF-16 and UTF-32 are known by their first bytes.
    max_rows : the number of rows to read, comments and blank lines not counted; None: all.
    quotechar : a double quote, or None; fields in double quotes are read in either case.
    Cost, n numbers: as `read_csv`; with max_rows each process also reads through the lines of all these rows.
    Raises NoSuchFile, FileError, or FormatError with the line and the column, the same on every process; also for a
    file without data.
    """
    path = path_of(fname, "loadtxt")
    call = f"loadtxt({path!r})"
    kind = _dtype_of_numbers(call, dtype)
    _check_delimiter(call, delimiter)
    marks = () if comments is None else (comments,) if isinstance(comments, (str, bytes)) else tuple(comments)
    for mark in marks:
        if not isinstance(mark, str):
            raise TypeError(f"{call}: comments={comments!r}: texts mark comments")
        if not mark or "\n" in mark or mark == delimiter:
            raise ValueError(f"{call}: comments={comments!r}: a mark is some characters, not the delimiter; None: none")
    if ndmin not in (0, 1, 2):
        raise ValueError(f"{call}: ndmin={ndmin!r} is none of 0, 1, 2")
    for column in () if usecols is None else np.atleast_1d(np.asarray(usecols, object)):
        if not isinstance(column, (int, np.integer)):
            raise TypeError(f"{call}: usecols={usecols!r}: numbers of columns")
    skiprows, max_rows = index(skiprows), None if max_rows is None else index(max_rows)
    if max_rows is not None and max_rows < 1:
        raise ValueError(f"{call}: max_rows={max_rows}: at least 1, or None for all")
    if quotechar not in (None, '"'):
        raise ValueError(f"{call}: quotechar={quotechar!r} is none of None, '\"'")
    if encoding is not None and "0".encode(encoding) != b"0":
        raise ValueError(f"{call}: encoding={encoding!r}: convert the file to UTF-8, as with iconv")

    def opening(file: BinaryIO) -> Opening:
        found = opening_of(file, delimiter, False, kind, usecols, skiprows, marks)
        ragged = usecols is not None and bool(np.all(np.asarray(usecols) >= 0))
        found = found._replace(fields=found.fields._replace(missing=NOT_A_NUMBER, ragged=ragged))
        return found if max_rows is None else shortened(file, found, max_rows)

    def parsed(lines: TextLines) -> np.ndarray:
        fields = lines.opening.fields
        if converters is None:
            return numbers_of(lines, fields)
        return converted(lines.text(), fields, converters, encoding or "utf-8")

    node, _ = _rows_of_numbers(call, path, opening, parsed)
    array = wrap(node)
    if ndmin < 2:
        shape = tuple(length for length in array.shape if length != 1)
        array = array.reshape(shape or (1,) * ndmin)
    array = array.T if unpack else array
    return wrap(in_layout(evaluated(array), layout_for(array.shape, grid, process_grid)))


def _dtype_of_numbers(call: str, dtype: DTypeLike) -> DType:
    kind = element_type(dtype)
    if kind.kind not in "iuf":
        raise ElementTypeError(f"{call}: dtype={kind} is none of integers or floats")
    return kind


def _check_delimiter(call: str, delimiter: str | None) -> None:
    if delimiter is not None and not isinstance(delimiter, str):
        raise TypeError(f"{call}: delimiter={delimiter!r}: text of one character, or None for any run of blanks")
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise ValueError(f"{call}: delimiter={delimiter!r}: one character, or None for any run of blanks")


def _rows_of_numbers(
    call: str, path: PathLike, opening: Open, parsed: Callable[[TextLines], np.ndarray], single: bool = False
) -> tuple[Node, Fields]:
    """Return the numbers of a file, each row where it was read, and what its lines hold.  Collective.

    parsed : returns the numbers of some lines, shape (rows, columns); raises BadLine.
    single : whether the only column is read as a vector.
    """
    here = world()
    lines = lines_of(path, opening)
    found: list[np.ndarray] = []

    def work() -> Any:
        own = lines()
        try:
            found.append(parsed(own))
        except BadLine as bad:
            raise ValueError(f"line {own.before() + bad.index + 1}: {bad.text}") from None
        return len(found[0]), tuple(own.opening.fields), own.size

    told = agreed(call, work)
    fields = Fields(*same_everywhere(call, [opened for _, opened, _ in told]))
    unchanged(call, [size for _, _, size in told])
    (values,) = found
    counts = [count for count, _, _ in told]
    shape: tuple[int, ...] = (sum(counts), len(fields.columns))
    if single:
        shape, values = shape[:1], values[:, 0]
    fallen = ragged(shape, 0, counts)
    (at,) = fallen.mine(here.pid)
    block = filled(values.shape, fields.dtype, lambda: np.ascontiguousarray(values))
    return leaf(shape, fields.dtype, fallen, {at: block}), fields


def _all_named(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return names, "Unnamed: k" for the k-th where it is empty, as in pandas; "Unnamed: k.1" if that is taken."""
    found: list[str] = []
    for k, name in enumerate(names):
        base = name or f"Unnamed: {k}"
        others = (f"{base}.{number}" for number in count(1))
        found.append(name or next(each for each in chain([base], others) if each not in (*names, *found)))
    return tuple(found)


class TextRows:
    """The rows of a text file that one process reads; unless the dialect differs, its first line names the columns.

    choose : returns the names of the columns to read, given the names of all; one without is "Unnamed: 0" if it is the
        first, as pandas names it.
    dialect : how the file is written; what it leaves open is found from the first lines.
    usual : the delimiter of files of this ending.
    Cost: none for plain text; one superstep for compressed text, see `lines_of`.
    """

    def __init__(self, path: PathLike, choose: Choose, dialect: Dialect | None = None, usual: str = ",") -> None:
        self._choose, self._given, self._usual = choose, dialect or Dialect(), usual
        self._given.check()
        self._lines = lines_of(path, self._opening)
        self.names: tuple[str, ...] = ()

    def _opening(self, file: BinaryIO) -> Opening:
        sample = file.read(SAMPLE)
        file.seek(0)
        dialect = completed(self._given, sample, self._usual)
        opened = opening_of(file, dialect.delimiter, dialect.header, np.dtype(float), None, 0, dialect.comments)
        names = _all_named(opened.fields.names)
        if any("\ufffd" in name for name in names):  # what is read for bytes that are no text
            raise ValueError(f"line {opened.lines}: it is not UTF-8: convert the file, as with iconv")
        if (
            dialect.header
            and len(names) > 1
            and all(is_number(name.encode(), dialect.decimal or ".") for name in names)
        ):
            raise ValueError("the first line has numbers, not the names of the columns")
        places = tuple(names.index(name) for name in self._choose(names))
        fields = opened.fields._replace(
            columns=places, names=names, decimal=dialect.decimal or ".", missing=dialect.missing
        )
        return opened._replace(fields=fields)

    def _notes(self, fields: Fields) -> tuple[str, ...]:
        """Return sentences that tell what was found from the first lines, where it is not what the ending means."""
        found = []
        if self._given.delimiter is None and fields.delimiter != self._usual:
            found.append(f"fields are separated by {_NAMED.get(fields.delimiter or '', repr(fields.delimiter))}")
        if self._given.decimal is None and fields.decimal != ".":
            found.append("the decimal mark is a comma")
        return (" and ".join(found) + ", by the first lines of the file",) if found else ()

    def columns(self, texts: set[int]) -> Columns:
        """Read the columns; those at the places `texts` as texts, others as numbers unless they hold text."""
        own = self._own = self._lines()
        fields = own.opening.fields
        self.names = tuple(fields.names[column] for column in fields.columns)
        try:
            found = columns_of(own, fields, texts)
        except BadLine as bad:
            raise ValueError(f"line {own.before() + bad.index + 1}: {bad.text}") from None
        return found._replace(decimal=fields.decimal, notes=self._notes(fields), size=own.size)

    def place(self, row: int) -> str:
        """Return the line number of one of this process's rows, in words."""
        own: TextLines = self._own
        return f"line {own.before() + line_of(row, own.text(), own.opening.fields.delimiter) + 1}"


def _tab_separated(path: PathLike, choose: Choose, dialect: Dialect) -> TextRows:
    return TextRows(path, choose, dialect, "\t")


register(".csv", read=read_csv, table=TextRows, functions=(read_csv,))
register(functions=(loadtxt,), of_numpy={np.loadtxt: loadtxt})
register(".txt", table=TextRows)
register(".tsv", table=_tab_separated)
