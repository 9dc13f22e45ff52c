"""Comments in text files: each begins with a mark, anywhere in a line, and ends with its line.

A carriage return ends a comment, too, so that what follows it is not lost: see `fields_of`.
A line that is only a comment becomes a blank line, so that lines keep their numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import BinaryIO

from bsp.arrays.files.lines.streams import converted


@cache
def _pattern(marks: tuple[str, ...]) -> re.Pattern[bytes]:
    return re.compile(b"(?:" + b"|".join(re.escape(mark.encode()) for mark in marks) + rb")[^\r\n]*")


def without(lines: bytes, marks: tuple[str, ...]) -> bytes:
    """Return whole lines without their comments."""
    return _pattern(marks).sub(b"", lines) if marks else lines


def uncommented(stream: Callable[[], BinaryIO], marks: tuple[str, ...]) -> Callable[[], BinaryIO]:
    """Return a function that opens a stream without its comments, given the function that opens it with them."""

    def opened() -> BinaryIO:
        begun: list[bytes] = []  # the pieces of a line that is not complete

        def convert(part: bytes) -> bytes:
            end = part.rfind(b"\n") + 1
            if part and not end:
                begun.append(part)
                return b""
            lines = without(b"".join([*begun, part[:end]]), marks)
            begun[:] = [part[end:]]
            return lines

        return converted(stream(), convert)

    return opened if marks else stream
