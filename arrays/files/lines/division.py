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
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, BinaryIO, NamedTuple

from bsp.arrays.execution.world import world
from bsp.arrays.files.lines.comments import uncommented
from bsp.arrays.files.lines.encoding import Encoding, encoding_of
from bsp.arrays.files.lines.fields import Fields
from bsp.arrays.files.lines.opening import Opening
from bsp.arrays.files.lines.streams import span
from bsp.arrays.typing import PathLike
from bsp.values.payload import cuts_of

Open = Callable[[BinaryIO], Opening]
OPENERS: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}  # by lower case
_PACKED = {  # by how they begin; a table may begin with "BZh"
    b"\x1f\x8b": (".gz", "gzip"), b"BZh91AY&": (".bz2", "bzip2"), b"\xfd7zXZ\0": (".xz", "xz"),
    b"(\xb5/\xfd": (".zst", "zstd"), b"PK\3\4": (".zip", "zip"),
}  # fmt: skip
_HEAD = 1 << 22  # bytes of a text that is not UTF-8 in which its data must begin, and end if not all are read


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


def _own_lines(path: PathLike, opening: Open) -> TextLines:
    """Return the lines that begin in this process's range of bytes."""
    here = world()
    with open(path, "rb") as file:
        beginning = file.read(8)
        _check_plain(beginning)
        coded = encoding_of(beginning[:4])
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
    own = partial(span, path, *ends)
    stream = own if coded is None else lambda: coded.stream(own())
    return TextLines(opened, uncommented(stream, opened.comments), partial(_lines_before, path, ends[0], coded), size)


def _check_plain(beginning: bytes) -> None:
    """Raise ValueError for a file that is compressed though its name does not tell."""
    for mark, (ending, name) in _PACKED.items():
        if beginning.startswith(mark):
            what = (
                f"name it so that it ends in {ending}" if ending in OPENERS else "decompress it, or compress it by gzip"
            )
            raise ValueError(f"it is compressed by {name}: {what}")


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
