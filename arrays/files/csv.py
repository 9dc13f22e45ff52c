"""Numbers in text files: each process reads and parses the lines that begin in its range of bytes.

Compressed text cannot be entered in the middle.  Process 0 reads it and deals it out, so it is decompressed once,
whatever the number of processes, and parsing, which takes longer, is shared; it then has the whole text in memory.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import zlib
from collections.abc import Callable, Sequence
from io import BytesIO
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from bsp.arrays.api.creation import Grid, layout_for
from bsp.arrays.array import wrap
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.expressions.graph import leaf
from bsp.arrays.expressions.layout import ragged
from bsp.arrays.files.agreement import PathLike, agreed, in_layout, same_everywhere
from bsp.arrays.files.fields import BadLine, Fields, fields_of, is_blank, is_missing, is_number, parsed
from bsp.arrays.files.format import register
from bsp.values.payload import cuts_of

Columns = int | str | Sequence[int | str] | None
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_BOM = b"\xef\xbb\xbf"


class Opening(NamedTuple):
    """How a file begins."""

    fields: Fields
    start: int  # bytes before its data
    lines: int  # lines before them


class Piece(NamedTuple):
    """What a process parses."""

    opening: Opening
    text: bytes
    before: Callable[[], int]  # lines of the file before it


Open = Callable[[BinaryIO], Opening]


def read_csv(
    path: PathLike, *, delimiter: str | None = ",", header: bool | str = "auto", dtype: Any = float,
    usecols: Columns = None, skiprows: int = 0, names: bool = False, grid: Grid = None, process_grid: Grid = None,
) -> Any:  # fmt: skip
    """The numbers of a text file, one row a line: shape (lines, columns), or (lines,) if usecols is one column.

    path : plain, or compressed if it ends in .gz, .bz2 or .xz.
    delimiter : one character; None: any run of blanks.
    header : whether the first line has the names of the columns; "auto": it does if none of its fields is a number.
    dtype : of integers or floats.  A missing float (an empty field, NA, NULL, nan) is NaN.
    usecols : the columns to read, by number or name; the others may have text.
    skiprows : lines to pass over first.  Blank lines never count.
    names : return (array, list of the names of its columns), which are c0, c1, ... where the file has none.
    A quoted field ends on its line.  The result does not depend on how many processes read, nor on whether pyarrow,
    which makes it faster, is there.
    Cost, n numbers: one superstep in which all agree that they could read, then one exchange of about n/p words to
    the array's layout; compressed text of s bytes goes out from process 0 before, h = s/8 · (p - 1)/p words.
    Raises NoSuchFile, FileError, or FormatError with the line and the column, the same on every process.
    """
    here = world()
    call = f"read_csv({os.fspath(path)!r})"
    kind = element_type(dtype)
    if kind.kind not in "iuf":
        raise TypeError(f"{call}: dtype={kind} is none of integers or floats")
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise ValueError(f"{call}: delimiter={delimiter!r}: one character, or None for any run of blanks")
    if header not in (True, False, "auto"):
        raise ValueError(f"{call}: header={header!r} is none of True, False, 'auto'")

    def opening(file: BinaryIO) -> Opening:
        return opening_of(file, delimiter, header, kind, usecols, skiprows)

    packed = os.path.splitext(os.fspath(path))[1] in OPENERS
    wrong, dealt = dealt_out(path, opening) if packed else (None, None)
    found: list[np.ndarray] = []

    def work() -> Any:
        if packed and dealt is None:
            if wrong is not None:
                raise wrong
            return None
        piece = dealt if dealt is not None else _own_piece(path, opening, here.pid, here.nprocs)
        try:
            found.append(parsed(piece.text, piece.opening.fields))
        except BadLine as bad:
            line = piece.before() + bad.index
            hint = "; header=True if this line has names" * (header == "auto" and line == piece.opening.lines)
            raise ValueError(f"line {line + 1}: {bad.text}{hint}") from None
        return len(found[0]), tuple(piece.opening.fields)

    told = agreed(call, work)
    fields = Fields(*same_everywhere(call, [opened for _, opened in told]))
    (values,) = found
    counts = [count for count, _ in told]
    shape: tuple[int, ...] = (sum(counts), len(fields.columns))
    if isinstance(usecols, (int, np.integer, str)):
        shape, values = shape[:1], values[:, 0]
    fallen = ragged(shape, 0, counts)
    (at,) = fallen.mine(here.pid)
    block = here.empty(values.shape, kind) if here.abstract else np.ascontiguousarray(values)
    node = leaf(shape, kind, fallen, {at: block})
    array = wrap(in_layout(node, layout_for(shape, grid, process_grid)))
    return (array, [fields.names[column] for column in fields.columns]) if names else array


def opening_of(
    file: BinaryIO, delimiter: str | None, header: bool | str, dtype: Any, usecols: Columns, skiprows: int
) -> Opening:
    """The first lines: how many fields there are, their names, where the data begin."""
    start = lines = 0
    while True:
        line = file.readline()
        if not line:
            raise ValueError("it has no data: " + (f"{lines} lines" if lines else "it is empty"))
        text = line.removeprefix(_BOM) if not lines else line
        if lines >= skiprows and not is_blank(text, delimiter):
            break
        start, lines = start + len(line), lines + 1
    start += len(line) - len(text)
    try:
        first = fields_of(text.rstrip(b"\r\n"), delimiter)
    except ValueError as wrong:
        raise ValueError(f"line {lines + 1}: {wrong}") from None
    wanted: Sequence[int | str] | None = [usecols] if isinstance(usecols, (int, np.integer, str)) else usecols
    by_name = wanted is not None and any(isinstance(each, str) for each in wanted)
    if header == "auto" and not by_name:
        used = [first[each] for each in _columns(wanted, len(first), ())]
        header = not any(map(is_number, used)) and any(not is_missing(each) for each in used)
    if by_name and header is False:
        raise ValueError(f"usecols={usecols!r} names columns, but header=False: the file has no names")
    names = tuple(each.strip().decode("utf-8", "replace") for each in first) if header else ()
    columns = _columns(wanted, len(first), names)
    if header:
        start, lines = start + len(text), lines + 1
    return Opening(
        Fields(delimiter, len(first), columns, names or tuple(f"c{k}" for k in range(len(first))), dtype), start, lines
    )


def _columns(wanted: Sequence[int | str] | None, width: int, names: tuple[str, ...]) -> tuple[int, ...]:
    """Columns by their numbers."""
    found = []
    for each in range(width) if wanted is None else wanted:
        if isinstance(each, str):
            if each not in names:
                raise ValueError(f"usecols: there is no column {each!r}; there are {', '.join(names)}")
            found.append(names.index(each))
        elif -width <= each < width:
            found.append(int(each) % width)
        else:
            raise ValueError(f"usecols: there is no column {each}; there are {width}")
    return tuple(found)


def _own_piece(path: PathLike, opening: Open, pid: int, nprocs: int) -> Piece:
    """The lines that begin in a process's range of bytes."""
    with open(path, "rb") as file:
        opened = opening(file)
        size = os.fstat(file.fileno()).st_size - opened.start
        cuts = cuts_of(size, nprocs)
        first, end = (opened.start + cuts[pid], opened.start + cuts[pid + 1])
        if pid:  # a line that begins before the range belongs to the process before
            file.seek(first - 1)
            file.readline()
            first = file.tell()
        file.seek(first)
        text = file.read(max(end - first, 0))
        if text and not text.endswith(b"\n"):
            text += file.readline()
    return Piece(opened, text, lambda: lines_before(path, first))


def lines_before(path: PathLike, place: int) -> int:
    """Lines before a byte of a file; only after a mistake."""
    found = 0
    with open(path, "rb") as file:
        while place > 0 and (part := file.read(min(place, 1 << 24))):
            found, place = found + part.count(b"\n"), place - len(part)
    return found


def dealt_out(path: PathLike, opening: Open) -> tuple[Exception | None, Piece | None]:
    """This process's piece of compressed text, which process 0 reads; or process 0's error, and no piece."""
    here = world()
    wrong: Exception | None = None
    pieces: list[tuple[Opening, bytes, int] | None] = [None] * here.nprocs
    if here.pid == 0:
        try:
            with OPENERS[os.path.splitext(os.fspath(path))[1]](path, "rb") as file:
                text = file.read()
            opened = opening(BytesIO(text))
            places = [opened.start]
            for cut in cuts_of(len(text) - opened.start, here.nprocs)[1:]:
                after = text.find(b"\n", max(opened.start + cut - 1, places[-1] - 1, 0)) + 1 or len(text)
                places.append(max(after if cut else opened.start, places[-1]))
            places[-1] = len(text)
            lines = 0
            for pid, (low, high) in enumerate(pairwise([0, *places])):
                lines += text.count(b"\n", low, high)
                if pid < here.nprocs:
                    pieces[pid] = (opened, text[places[pid] : places[pid + 1]], lines)
        except (EOFError, zlib.error, lzma.LZMAError) as error:
            wrong = ValueError(f"its compressed text is damaged or ends early: {error}")
        except Exception as error:  # noqa: BLE001 - whatever it is, all processes must hear of it
            wrong = error
        if wrong is not None:
            pieces = [None] * here.nprocs
    mine = here.private.scatter(pieces if here.pid == 0 else None)
    if mine is None:
        return wrong, None
    opened, text, before = mine
    return None, Piece(Opening(Fields(*opened[0]), *opened[1:]), text, lambda: before)


register(".csv", read=read_csv, functions=(read_csv,))
