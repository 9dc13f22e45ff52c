"""Division of a text file's lines among the processes.

Plain text is cut into ranges of bytes, one for each process, which reads the lines that begin in its range.
Compressed text cannot be read from the middle.  Process 0 decompresses it once and distributes it; all processes share
the parsing, which takes longer.  Process 0 then has the whole text in memory.

Text in UTF-16 or UTF-32, with its byte-order mark, is cut in the same way and read as UTF-8: see `encoding`.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import zlib
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np

from bsp.arrays.execution.world import world
from bsp.arrays.files.agreement import CHANGED, PathLike
from bsp.arrays.files.comments import uncommented, without
from bsp.arrays.files.encoding import Encoding, encoding_of
from bsp.arrays.files.fields import Fields, fields_of, is_blank, is_missing, is_number
from bsp.values.payload import cuts_of

Chosen = int | str | Sequence[int | str] | None
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}  # by lower case
BOM = b"\xef\xbb\xbf"
_HEAD = 1 << 22  # bytes of a text that is not UTF-8 in which its data must begin, and end if not all are read


class Opening(NamedTuple):
    """The beginning of a text file: its fields, the number of bytes and lines before its data, and what they are.

    head : the bytes before the data, of formats whose data are described there; else empty.
    named : whether the line before the data has names of columns.
    comments : how comments among the data are marked.
    end : the number of bytes before what follows the data; None: nothing does.
    """

    fields: Fields
    start: int
    lines: int
    head: bytes = b""
    named: bool = False
    comments: tuple[str, ...] = ()
    end: int | None = None


class TextLines(NamedTuple):
    """The lines of a file that one process reads.

    stream : opens the lines, to be read in pieces.   before : counts the lines of the file that come before them; it
        may read the file, so only error messages call it.   size : the bytes of a plain file, which must be the same on
        all processes: it determines which lines each of them reads.
    """

    opening: Opening
    stream: Callable[[], BinaryIO]
    before: Callable[[], int]
    size: int = 0

    def text(self) -> bytes:
        """Return all lines."""
        with self.stream() as stream:
            return b"".join(iter(lambda: stream.read(-1), b""))


Open = Callable[[BinaryIO], Opening]


def opening_of(
    file: BinaryIO, delimiter: str | None, header: bool | str, dtype: Any, usecols: Chosen, skiprows: int,
    comments: tuple[str, ...] = (),
) -> Opening:  # fmt: skip
    """Read the first lines; return the number of fields, their names, and where the data begin."""
    start = lines = 0
    while True:
        line = file.readline()
        if not line:
            raise ValueError("it has no data: " + (f"{lines} lines" if lines else "it is empty"))
        text = line.removeprefix(BOM) if not lines else line
        bare = without(text, comments)
        if lines >= skiprows and not is_blank(bare, delimiter):
            break
        start, lines = start + len(line), lines + 1
    start += len(line) - len(text)
    try:
        first = fields_of(bare.rstrip(b"\r\n"), delimiter)
    except ValueError as wrong:
        raise ValueError(f"line {lines + 1}: {wrong}") from None
    if b"\0" in text:
        raise ValueError(
            f"line {lines + 1} has NUL characters: if it is UTF-16 without a byte-order mark, convert it, as with iconv"
        )
    wanted: Sequence[int | str] | None = [usecols] if isinstance(usecols, (int, np.integer, str)) else usecols
    by_name = wanted is not None and any(isinstance(each, str) for each in wanted)
    if header == "auto" and not by_name:
        used = [first[each] for each in _places(wanted, len(first), ())]
        header = not any(map(is_number, used)) and any(not is_missing(each) for each in used)
    if by_name and header is False:
        raise ValueError(f"usecols={usecols!r} names columns, but header=False: the file has no names")
    names = tuple(each.strip().decode("utf-8", "replace") for each in first) if header else ()
    columns = _places(wanted, len(first), names)
    if header:
        start, lines = start + len(text), lines + 1
    fields = Fields(delimiter, len(first), columns, names or tuple(f"c{k}" for k in range(len(first))), dtype)
    return Opening(fields, start, lines, named=bool(names), comments=comments)


def shortened(file: BinaryIO, opening: Opening, rows: int) -> Opening:
    """Return the opening of a file of which only the first rows are read."""
    file.seek(opening.start)
    while rows > 0 and (line := file.readline()):
        rows -= not is_blank(without(line, opening.comments), opening.fields.delimiter)
    return opening._replace(end=file.tell())


def _places(wanted: Sequence[int | str] | None, width: int, names: tuple[str, ...]) -> tuple[int, ...]:
    """Return the numbers of the wanted columns."""
    found = []
    for each in range(width) if wanted is None else wanted:
        if isinstance(each, str):
            if each not in names:
                raise ValueError(f"usecols: there is no column {each!r}; there are {', '.join(names)}")
            places = [place for place, name in enumerate(names) if name == each]
            if len(places) > 1:
                numbered = ", ".join(map(str, places))
                raise ValueError(f"usecols: {len(places)} columns are named {each!r}: choose by number, {numbered}")
            found += places
        elif -width <= each < width:
            found.append(int(each) % width)
        else:
            raise ValueError(f"usecols: there is no column {each}; there are {width}")
    return tuple(found)


def lines_of(path: PathLike, opening: Open) -> Callable[[], TextLines]:
    """Return a function that returns this process's lines of a file, or raises the error of reading them.  Collective.

    opening : reads the beginning of the file, as `opening_of` does; it may raise ValueError.
    Cost: none for plain text, which the returned function opens.  One superstep for compressed text of s bytes, which
    process 0 reads and distributes: h = s/8 · (p - 1)/p words.
    """
    opener = OPENERS.get(os.path.splitext(os.fspath(path))[1].lower())
    if opener is None:
        return lambda: _own_lines(path, opening)
    wrong, dealt = _dealt_out(path, opener, opening)

    def found() -> TextLines:
        if dealt is None:
            raise wrong or ValueError("process 0 could not read it")
        return dealt

    return found


class _Span(io.RawIOBase):
    """A range of bytes of a file, to be read in pieces."""

    def __init__(self, path: PathLike, first: int, end: int) -> None:
        self.file, self.left = open(path, "rb", buffering=0), end - first  # noqa: SIM115 - close() closes it
        self.file.seek(first)

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        wanted = self.left if size < 0 else min(size, self.left)
        found = self.file.read(wanted)
        if wanted and not found:
            raise ValueError(CHANGED)
        self.left -= len(found)
        return found

    def close(self) -> None:
        self.file.close()
        super().close()


def _own_lines(path: PathLike, opening: Open) -> TextLines:
    """Return the lines that begin in this process's range of bytes."""
    here = world()
    with open(path, "rb") as file:
        coded = encoding_of(file.read(4))
        file.seek(0)
        opened = opening(file) if coded is None else _opened(file, coded, opening)
        unit = 1 if coded is None else coded.unit.itemsize
        size = os.fstat(file.fileno()).st_size
        last = size if opened.end is None else opened.end
        cuts = cuts_of((last - opened.start) // unit, here.nprocs)
        ends: list[int] = []
        for cut in cuts[here.pid : here.pid + 2]:
            file.seek(opened.start + max(cut - 1, 0) * unit)
            if cut and coded is None:
                file.readline()  # a line that begins before the range belongs to the process before
            elif cut and coded is not None:
                coded.skip_line(file)
            ends.append(min(file.tell(), last))
    if here.pid == here.nprocs - 1:
        ends[1] = last  # with the bytes of a unit that is cut off, which are an error
    span = partial(_Span, path, *ends)
    stream = span if coded is None else lambda: coded.stream(cast(BinaryIO, span()))
    stream = cast(Callable[[], BinaryIO], stream)
    return TextLines(opened, uncommented(stream, opened.comments), partial(_lines_before, path, ends[0], coded), size)


def _opened(file: BinaryIO, coded: Encoding, opening: Open) -> Opening:
    """Read the beginning of a text that is not UTF-8; `start` counts its own bytes, not those of UTF-8."""
    head = file.read(_HEAD)
    if len(head) == _HEAD:
        head = head[: int(coded.newlines(head)[-1:].sum())]
    text = coded.utf8(head)
    opened = opening(io.BytesIO(text))
    if opened.end == len(text) and file.read(1):
        raise ValueError(
            f"it is {coded.name.upper()}, of which the first {_HEAD >> 20} MiB do not have all rows wanted"
        )
    end = None if opened.end is None else coded.size_of(text[: opened.end])
    return opened._replace(start=coded.size_of(text[: opened.start]), end=end)


def _lines_before(path: PathLike, place: int, coded: Encoding | None = None) -> int:
    """Count the lines before a byte of a file."""
    found = 0
    with open(path, "rb") as file:
        while place > 0 and (part := file.read(min(place, 1 << 24))):
            found += part.count(b"\n") if coded is None else len(coded.newlines(part))
            place -= len(part)
    return found


def _dealt_out(path: PathLike, opener: Callable[..., Any], opening: Open) -> tuple[Exception | None, TextLines | None]:
    """Return (error, lines): this process's lines of compressed text that process 0 reads, or process 0's error."""
    here = world()
    wrong: Exception | None = None
    pieces: list[tuple[Opening, bytes, int] | None] = [None] * here.nprocs
    if here.pid == 0:
        try:
            with opener(path, "rb") as file:
                text = file.read()
            coded = encoding_of(text[:4])
            text = text if coded is None else coded.utf8(text)
            opened = opening(io.BytesIO(text))
            text = text[: opened.end]
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
        except Exception as error:  # noqa: BLE001 - any error must reach all processes
            # an OSError without a number comes from decompressing the text, not from the file system
            damaged = isinstance(error, (EOFError, zlib.error, lzma.LZMAError)) or (
                isinstance(error, OSError) and error.errno is None
            )
            wrong = ValueError(f"its compressed text is damaged or ends early: {error}") if damaged else error
            pieces = [None] * here.nprocs
    mine = here.private.scatter(pieces if here.pid == 0 else None)
    if mine is None:
        return wrong, None
    fields, *others = mine[0]
    opened = Opening(Fields(*fields), *others)
    _, text, before = mine
    return None, TextLines(opened, uncommented(partial(io.BytesIO, text), opened.comments), lambda: before)
