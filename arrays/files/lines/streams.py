"""Streams of bytes: a range of a file, and what a function makes of another stream piece by piece."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import BinaryIO, cast

from bsp.arrays.typing import PathLike

PIECE = 1 << 20  # bytes read at once
CHANGED = "it was written to while it was read; read it when it is complete"


def span(path: PathLike, first: int, end: int) -> BinaryIO:
    """Open a range of bytes of a file.  Reading raises ValueError if the file has become too short."""
    return cast(BinaryIO, _Span(path, first, end))


def converted(inner: BinaryIO, convert: Callable[[bytes], bytes]) -> BinaryIO:
    """Return a stream of what a function makes of the parts of another stream, which it is given in turn.

    convert : may keep what it needs the next part for; b"" is the end.
    """
    return io.BufferedReader(_Converted(inner, convert), PIECE)


class _Span(io.RawIOBase):
    """A range of bytes of a file."""

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


class _Converted(io.RawIOBase):
    """Another stream, converted."""

    def __init__(self, inner: BinaryIO, convert: Callable[[bytes], bytes]) -> None:
        self.inner, self.convert = inner, convert
        self.ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        ended = False
        while not self.ready and not ended:
            part = self.inner.read(max(len(buffer), PIECE))
            ended = not part
            self.ready = memoryview(self.convert(part))
        count = min(len(buffer), len(self.ready))
        buffer[:count], self.ready = self.ready[:count], self.ready[count:]
        return count

    def close(self) -> None:
        self.inner.close()
        super().close()
