"""Text in UTF-16 or UTF-32, told by its byte-order mark, as a stream of UTF-8.

Characters there take two or four bytes, or more, and a newline is one of them: ranges of bytes begin at multiples of
that, and a byte 10 inside another character ends no line.
"""

from __future__ import annotations

import codecs
import io
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from bsp.arrays.files.lines.streams import PIECE, converted

_MARKS = (  # that of UTF-32 begins with that of UTF-16
    (codecs.BOM_UTF32_LE, "utf-32-le", "<u4"), (codecs.BOM_UTF32_BE, "utf-32-be", ">u4"),
    (codecs.BOM_UTF16_LE, "utf-16-le", "<u2"), (codecs.BOM_UTF16_BE, "utf-16-be", ">u2"),
)  # fmt: skip


class Encoding(NamedTuple):
    """An encoding whose characters are units of several bytes."""

    name: str
    unit: np.dtype[Any]

    def newlines(self, part: bytes) -> np.ndarray:
        """Return where the newlines of some whole units end, in bytes."""
        size = self.unit.itemsize
        found = np.frombuffer(part, self.unit, len(part) // size)
        return (np.flatnonzero(found == 10) + 1) * size

    def skip_line(self, file: BinaryIO) -> None:
        """Move a file to the end of the line that it is in."""
        while part := file.read(PIECE):
            ends = self.newlines(part)
            if ends.size:
                file.seek(int(ends[0]) - len(part), io.SEEK_CUR)
                return

    def utf8(self, text: bytes) -> bytes:
        """Return text as UTF-8.  Raises ValueError for what is no text."""
        try:
            return text.decode(self.name).encode()
        except UnicodeError:
            raise self._wrong() from None

    def size_of(self, text: bytes) -> int:
        """Return how many bytes some UTF-8 takes in this encoding."""
        return len(text.decode().encode(self.name))

    def stream(self, inner: BinaryIO) -> BinaryIO:
        """Return a stream of UTF-8 from one in this encoding."""
        decoder = codecs.getincrementaldecoder(self.name)()

        def recoded(part: bytes) -> bytes:
            try:
                return decoder.decode(part, final=not part).encode()
            except UnicodeError:
                raise self._wrong() from None

        return converted(inner, recoded)

    def _wrong(self) -> ValueError:
        return ValueError(f"it is not {self.name.upper()}, as its first bytes say")


def encoding_of(beginning: bytes) -> Encoding | None:
    """Return the encoding of a text by its first four bytes; None for UTF-8."""
    for mark, name, unit in _MARKS:
        if beginning.startswith(mark):
            return Encoding(name, np.dtype(unit))
    return None
