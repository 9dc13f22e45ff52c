"""Comments in text files: each begins with a mark, anywhere in a line, and ends with its line.

A carriage return ends a comment, too, so that what follows it is not lost: see `fields_of`.
A line that is only a comment becomes a blank line, so that lines keep their numbers.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from functools import cache
from typing import BinaryIO


@cache
def _pattern(marks: tuple[str, ...]) -> re.Pattern[bytes]:
    return re.compile(b"(?:" + b"|".join(re.escape(mark.encode()) for mark in marks) + rb")[^\r\n]*")


def without(lines: bytes, marks: tuple[str, ...]) -> bytes:
    """Return whole lines without their comments."""
    return _pattern(marks).sub(b"", lines) if marks else lines


def uncommented(stream: Callable[[], BinaryIO], marks: tuple[str, ...]) -> Callable[[], BinaryIO]:
    """Return a function that opens a stream without its comments, given the function that opens it with them."""
    return (lambda: io.BufferedReader(_Uncommented(stream(), marks))) if marks else stream


class _Uncommented(io.RawIOBase):
    """The text of a stream without comments."""

    def __init__(self, inner: BinaryIO, marks: tuple[str, ...]) -> None:
        self.inner, self.marks = inner, marks
        self.begun: list[bytes] = []  # the pieces of a line that is not complete
        self.ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        ended = False
        while not self.ready and not ended:
            found = self.inner.read(len(buffer))
            end, ended = found.rfind(b"\n") + 1, not found
            if end or ended:
                self.ready = memoryview(without(b"".join([*self.begun, found[:end]]), self.marks))
                self.begun = []
            self.begun.append(found[end:])
        count = min(len(buffer), len(self.ready))
        buffer[:count], self.ready = self.ready[:count], self.ready[count:]
        return count

    def close(self) -> None:
        self.inner.close()
        super().close()
