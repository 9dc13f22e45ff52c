"""The errors of abstract arrays, with the line of the program that made the call."""

from __future__ import annotations

import sys

from bsp.errors import BspError, ValueNeeded
from bsp.source import SourceLine, frames_of, program_line, user_frame

ROUNDS = (
    "choose by np.where or np.maximum, give a loop a number of rounds (proc.rounds), or say how long it is assumed to "
    "run (bsp.expect(condition, times=k))"
)
KEEP = "drop the conversion: arithmetic, comparisons, formatting and NumPy's functions take the array as it is"
DEALT = (
    "call .compute() on every process first, and use what it returns without a conversion: " + KEEP.partition(": ")[2]
)
REAL = (
    "make the array that is written to with np.zeros or np.empty, index a real one by np.take, and make a list of "
    "abstract numbers an array by np.array"
)
DATA = "make the array that is written to with np.zeros or np.empty, or write a = a + b instead of a += b"


class NotCounted(BspError, NotImplementedError):
    """A NumPy function that the table of shapes and flops does not have (--abstract)."""


def program_here() -> SourceLine:
    """Return the program's line that made the current call, also where a library such as SciPy has called NumPy."""
    return program_line(frames_of(user_frame(sys._getframe(1))))


def value_needed(asked: str, of: object, advice: str = KEEP) -> ValueNeeded:
    """Return the error for a missing value: the call, the array, the line, and what to do instead."""
    return ValueNeeded(
        f"{asked} needs the values of {of!r} at {program_here()}: --abstract carries shapes, not values; "
        f"{advice}, or run without --abstract"
    )
