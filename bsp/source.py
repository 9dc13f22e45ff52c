"""Source lines of the user's program: the nearest frame outside this package, looked for only when it is needed.

A healthy superstep calls nothing here: a process that waits keeps its frames, so its source line can
still be read after a mistake was found.
"""

from __future__ import annotations

import contextlib
import importlib
import linecache
import opcode
import os
import re
import site
import sys
import traceback
from collections.abc import Iterable, Iterator
from functools import lru_cache
from types import CodeType, FrameType, ModuleType, TracebackType

_OPERATORS = os.path.join("numpy", "lib", "mixins.py")  # frames of operators on arrays that are not NumPy's own
_IMPORTS = "<frozen importlib", importlib.__file__  # frames of Python's own imports
_here = os.path.dirname(os.path.abspath(__file__)) + os.sep


class SourceLine(tuple[str, int]):
    """A (file, line number) pair; prints as `solver.py:41`.  False if there is no such line."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return self[1] > 0

    def __str__(self) -> str:
        return f"{_shown(self[0])}:{self[1]}" if self[1] else "its end"


NOWHERE = SourceLine(("", 0))

cells: dict[str, str] = {}  # the names of a notebook's cells by file, as the caller of a session has sent them


def _shown(file: str) -> str:
    """Return the name of a file in messages; that of a notebook's cell is `In[3]`."""
    if "IPython" in sys.modules and not cells:
        from bsp.notebook import cell_names

        return cell_names().get(file, os.path.basename(file))
    return cells.get(file) or os.path.basename(file)


def is_ours(filename: str) -> bool:
    """Return whether a code object's file belongs to this package."""
    return filename.startswith(_here) or filename.endswith(_OPERATORS)


def file_of(frame: FrameType) -> str:
    """Return the file of a frame's code; of an `__init__` that a dataclass of this package has, that of the class."""
    file, module = frame.f_code.co_filename, frame.f_globals.get("__file__")
    return module if file == "<string>" and module is not None and is_ours(module) else file


def is_hidden(filename: str) -> bool:
    """Return whether tracebacks leave out a code object's file: it is this package's, or of Python's import system."""
    return is_ours(filename) or filename.startswith(_IMPORTS)


def left_in_order(frame: FrameType) -> bool:
    """Return whether `frame` drops the iterator of its loop by a `break` or `return`, not by an exception.

    Python closes the iterator before the exception can be seen, so nothing but the instruction tells the two
    apart: `break` and `return` drop the iterator by an instruction of its own, POP_TOP, while an exception leaves
    the frame at the instruction that raised.
    """
    code = frame.f_code.co_code
    return 0 <= frame.f_lasti < len(code) and opcode.opname[code[frame.f_lasti]] == "POP_TOP"


_library = tuple(
    os.path.join(folder, "")
    for folder in {os.path.dirname(os.__file__), *map(os.path.realpath, site.getsitepackages())}
)


def is_program(filename: str) -> bool:
    """Return whether a code object's file is the program's: not this package's, Python's, or an installed library's."""
    return not is_ours(filename) and not filename.startswith((*_library, "<frozen "))


def program_line(frames: Iterable[tuple[str, int]]) -> SourceLine:
    """Return the innermost line of the program itself among these, innermost first; if there is none, the first."""
    found = [SourceLine(frame) for frame in frames]
    return next((line for line in found if is_program(line[0])), found[0] if found else NOWHERE)


def frames_of(frame: FrameType | None) -> Iterator[tuple[str, int]]:
    """Yield file and line of a frame and of its callers."""
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


@lru_cache(maxsize=2)
def _not_the_users(numpy: ModuleType | None) -> tuple[str, ...]:
    """Return where lines are not the program's: this package, contextlib, which ends its `with` blocks, and NumPy.

    bsprun starts without NumPy, so it is not imported here.
    """
    ours = (_here, contextlib.__file__)
    return ours if numpy is None else (*ours, os.path.join(os.path.dirname(str(numpy.__file__)), ""))


def user_frame(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame at or above `frame` that is neither this package's nor NumPy's."""
    folders = _not_the_users(sys.modules.get("numpy"))
    while frame is not None and frame.f_code.co_filename.startswith(folders):
        frame = frame.f_back
    return frame


def user_line(frame: FrameType | None) -> SourceLine:
    """Return the innermost line at or above `frame` that is neither this package's nor NumPy's, or NOWHERE."""
    found = user_frame(frame)
    return NOWHERE if found is None else SourceLine((found.f_code.co_filename, found.f_lineno))


def here() -> SourceLine:
    """Return the user's line that made the current call."""
    return user_line(sys._getframe(1))


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an exception without the frames of this package and of imports, which obscure others."""
    told: traceback.TracebackException | None = traceback.TracebackException.from_exception(error)
    text, of = told, error
    while told is not None:
        frames = traceback.walk_tb(of.__traceback__)
        kept = [line for line, (frame, _) in zip(told.stack, frames, strict=False) if not is_hidden(file_of(frame))]
        told.stack = traceback.StackSummary.from_list(kept)
        of = (of.__cause__ if told.__cause__ else of.__context__) or of
        told = told.__cause__ or told.__context__
    return "".join(text.format()) if text is not None else ""


def without_ours(error: BaseException, explained: bool) -> TracebackType | None:
    """Return the traceback of an error without this package's frames.

    explained : its message says what they would, and frames of libraries that this package has called go, too; else
        those behind the program's last line stay: they show a mistake of this package, or which function of it refused
        the arguments.
    """
    frames, found = [], error.__traceback__
    while found is not None:
        frames.append(found)
        found = found.tb_next
    files = [file_of(each.tb_frame) for each in frames]
    of_program = (k for k, file in enumerate(files) if is_program(file) or not (explained or is_ours(file)))
    last = max(of_program, default=-1)
    if last < 0:
        return None if explained else error.__traceback__
    calls_us = (k for k in range(last, len(files)) if is_ours(files[k]))
    end = next(calls_us, len(files)) if explained else len(files)
    kept: TracebackType | None = None
    for k in reversed(range(end)):
        if k > last or not is_ours(files[k]):
            each = frames[k]
            kept = TracebackType(kept, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return kept


_REGISTERS = r"\b(?:coarray|register)\("
_ASSIGNED = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(?::[^=]+)?=\s*[\w.()]*" + _REGISTERS)


def assigned_name(line: SourceLine) -> str | None:
    """Return the variable that a registering source line assigns to: 'rows' for `rows = proc.coarray(9)`.

    None if there is none, or if the line registers several arrays.
    """
    text = linecache.getline(*line)
    found = _ASSIGNED.match(text)
    return found.group(1) if found and len(re.findall(_REGISTERS, text)) == 1 else None


def importing(frame: FrameType | None, root: CodeType) -> str | None:
    """Return the name of a module whose import `frame` runs under, looking no further up than `root`; or None.

    A boundary there would leave the module half made for the other processes of the interpreter.
    """
    while frame is not None and frame.f_code is not root:
        code = frame.f_code
        if code.co_name == "_find_and_load" and code.co_filename == "<frozen importlib._bootstrap>":
            return str(frame.f_locals.get("name", "a module"))
        frame = frame.f_back
    return None
