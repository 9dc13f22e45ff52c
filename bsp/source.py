"""Where the user's code stands: the nearest frame outside this package, found only when asked for.

Nothing here runs on the way of a healthy superstep: a process that waits keeps its frames, so
its source line can be read after a mistake is known.
"""

from __future__ import annotations

import linecache
import opcode
import os
import re
import sys
from types import CodeType, FrameType

_OPERATORS = os.path.join("numpy", "lib", "mixins.py")  # of arrays that are not NumPy's own
_here: tuple[str, ...] = (os.path.dirname(os.path.abspath(__file__)) + os.sep,)


class Line(tuple[str, int]):
    """A (file, line number) pair; prints as `solver.py:41`.  False if it is nowhere."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self[1] > 0

    def __str__(self) -> str:
        return f"{os.path.basename(self[0])}:{self[1]}" if self[1] else "its end"


NOWHERE = Line(("", 0))


def also_ours(filename: str) -> None:
    """The folder of `filename` is part of this package, wherever it is installed."""
    global _here
    folder = os.path.dirname(os.path.abspath(filename)) + os.sep
    if not folder.startswith(_here):
        _here = (*_here, folder)


def is_ours(filename: str) -> bool:
    """Whether a code object's file belongs to this package."""
    return filename.startswith(_here) or filename.endswith(_OPERATORS)


def left_in_order(frame: FrameType) -> bool:
    """Whether `frame` drops the iterator of its loop by a `break` or `return`, not because an exception leaves it.

    Nothing else tells: Python closes the iterator before the exception can be seen.  The former is an instruction
    of its own, while the latter happens at the one that raised.
    """
    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and opcode.opname[code[frame.f_lasti]] == "POP_TOP"


def user_line(frame: FrameType | None) -> Line:
    """The innermost line at or above `frame` that is not this package's."""
    while frame is not None:
        filename = frame.f_code.co_filename
        if not is_ours(filename):
            return Line((filename, frame.f_lineno))
        frame = frame.f_back
    return NOWHERE


def here() -> Line:
    """The user's line that made the current call."""
    return user_line(sys._getframe(1))


_ASSIGNED = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(?::[^=]+)?=\s*[\w.()]*\b(?:coarray|register)\(")


def assigned_name(line: Line) -> str | None:
    """The variable that a registering source line assigns to: `rows = proc.coarray(9)` gives 'rows'."""
    found = _ASSIGNED.match(linecache.getline(*line))
    return found.group(1) if found else None


def importing(frame: FrameType | None, root: CodeType) -> str | None:
    """The name of a module whose import `frame` runs under, looking no further up than `root`; or None.

    A boundary there would leave the module half made for the other processes of the interpreter.
    """
    while frame is not None and frame.f_code is not root:
        code = frame.f_code
        if code.co_name == "_find_and_load" and code.co_filename == "<frozen importlib._bootstrap>":
            return str(frame.f_locals.get("name", "a module"))
        frame = frame.f_back
    return None
