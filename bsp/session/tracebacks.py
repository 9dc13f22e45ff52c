"""Exceptions of processes, told to another interpreter, and raised there with the frames of the user's program.

A traceback cannot be pickled.  An exception is told as its pickle and a list of places (file, line, function), and the
caller makes a traceback of frames that stand at these places.  The caller finds the source of a notebook's cells, which
the processes do not have, so the traceback shows the lines.
"""

from __future__ import annotations

import linecache
import pickle
import sys
import traceback
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import NamedTuple

from bsp.engine.reports import pickled
from bsp.errors import ProcessFailed
from bsp.source import file_of, is_hidden


class FramePlace(NamedTuple):
    """A frame of a traceback: the function, the line at which it begins, and its line if the process has the file."""

    file: str
    line: int
    function: str
    first: int
    source: str


@dataclass(frozen=True)
class Told:
    """An exception that a process has raised, as it travels.

    name, text : its type and message.  stack : all its frames, outermost first.  pickled : no bytes if it cannot be
    pickled and read back.  cause : the exception that it was raised from.  context : that it was raised in handling.
    """

    name: str
    text: str
    stack: tuple[FramePlace, ...]
    pickled: bytes
    cause: Told | None
    context: Told | None

    def places(self) -> list[FramePlace]:
        """Return the frames of the user's program."""
        return [place for place in self.stack if not is_hidden(place.file)]

    def alike(self, other: Told) -> bool:
        """Return whether two processes have raised the same exception at the same point of the program.

        Repeated places count once: a RecursionError is raised at another depth on every element.
        """
        mine, its = (list(dict.fromkeys(place[:3] for place in each.places())) for each in (self, other))
        return self.name == other.name and mine == its


def told(error: BaseException) -> Told:
    """Return an exception in the form in which it travels."""
    stack = tuple(
        FramePlace(file_of(frame), line, code.co_name, code.co_firstlineno, linecache.getline(code.co_filename, line))
        for frame, line in traceback.walk_tb(error.__traceback__)
        for code in [frame.f_code]
    )
    hidden = error.__cause__ is not None or error.__suppress_context__ or error.__context__ is None
    return Told(
        type(error).__name__, str(error), stack, pickled(error),
        None if error.__cause__ is None else told(error.__cause__),
        None if hidden or error.__context__ is None else told(error.__context__),
    )  # fmt: skip


def rebuilt(found: Told) -> BaseException:
    """Return the exception that was told, with a traceback of the user's frames.

    It is a ProcessFailed with the same text if the exception itself could not travel.
    """
    error: BaseException
    try:
        error = pickle.loads(found.pickled)
    except Exception:  # noqa: BLE001 - its class cannot be imported here
        error = ProcessFailed(f"{found.name}: {found.text}" if found.text else found.name)
    error.__traceback__ = _traceback(found.places())
    error.__cause__ = None if found.cause is None else rebuilt(found.cause)
    if found.context is not None:
        error.__context__ = rebuilt(found.context)
    error.__suppress_context__ = found.context is None
    return error


def _traceback(places: list[FramePlace]) -> TracebackType | None:
    """Return a traceback whose frames stand at these places."""
    found: TracebackType | None = None
    for place in reversed(places):
        if place.source and not linecache.getline(place.file, place.line):
            linecache.cache[place.file] = _source_of(place)
        try:
            exec(_code_at(place), {"__name__": "__main__", "__file__": place.file})
        except ZeroDivisionError:
            made = sys.exc_info()[2]
            assert made is not None and made.tb_next is not None
            found = TracebackType(found, made.tb_next.tb_frame, made.tb_next.tb_lasti, place.line)
    return found


def _source_of(place: FramePlace) -> tuple[int, None, list[str], str]:
    """Return an entry of linecache that holds one line of a file which only the process has."""
    return len(place.source), None, ["\n"] * (place.line - 1) + [place.source], place.file


_NO_COLUMNS = 0x80 | 13 << 3  # an entry of CPython's table of locations: a line, and no columns (locations.md)


def _code_at(place: FramePlace) -> CodeType:
    """Return code that raises an exception at a place; it has no columns, which would underline parts of the line."""
    code = compile("0/0", place.file, "exec")
    units = len(code.co_code) // 2
    steps = [_signed(place.line - place.first), *[_signed(0)] * (units // 8)]  # from the line of the entry before
    lengths = [min(8, units - at) for at in range(0, units, 8)]
    table = b"".join(
        bytes([_NO_COLUMNS | length - 1]) + step for length, step in zip(lengths, steps[: len(lengths)], strict=True)
    )
    return code.replace(
        co_name=place.function, co_qualname=place.function, co_firstlineno=place.first, co_linetable=table
    )


def _signed(number: int) -> bytes:
    """Return a number as CPython's table of locations holds it: the sign in the lowest bit, six bits a byte."""
    rest, found = abs(number) << 1 | (number < 0), bytearray()
    while rest >= 64:
        found.append(64 | rest & 63)
        rest >>= 6
    return bytes([*found, rest])
