"""Reports on processes that do not wait at the same boundary: what `verdict.judge` needs to know of each."""

from __future__ import annotations

import pickle
import traceback

from bsp.engine.task import RAISED, Task, status_of
from bsp.engine.verdict import Standing
from bsp.errors import CollectiveMistake
from bsp.source import SourceLine, is_ours, program_line, traceback_of


def report(task: Task, superstep: int) -> Standing:
    """Return a process's state, call, source line and exception, in a superstep."""
    line = task.line()
    if task.fault is not None:
        return Standing(task.pid, RAISED, task.call.text, task.call.digest, line, superstep,
                      f"{type(task.fault).__name__}: {task.fault}", shared=task.fault)  # fmt: skip
    error = task.raised
    if task.state is not RAISED or error is None:
        return Standing(task.pid, task.state, task.call.text, task.call.digest, line, given=task.call.given)
    if isinstance(error, SystemExit):
        text = "" if error.code is None or isinstance(error.code, int) else f"{error.code}\n"
        return Standing(task.pid, RAISED, "sys.exit", b"", _raised_at(error), task.raised_in,
                      traceback=text, status=status_of(error))  # fmt: skip
    shown = traceback.format_exception_only(error)[-1].strip()
    _add_hint(error)
    return Standing(
        task.pid, RAISED, "", b"", _raised_at(error), task.raised_in, shown, traceback_of(error),
        error if isinstance(error, CollectiveMistake) else None, None, pickled(error),
    )  # fmt: skip


def handled_by(task: Task, failure: type[Exception]) -> str:
    """Return the traceback of the exception that a process was handling when the job's failure reached it; "": none.

    An exception that only one process raises leads to other calls there, where they are in a `finally`.
    """
    error: BaseException | None = task.raised
    while isinstance(error, failure):
        error = error.__context__
    return "" if error is None or error is task.raised else traceback_of(error)


def _add_hint(error: BaseException) -> None:
    """Add a note to an AttributeError if the class of its object has `_instead`: what to use for the name.

    It is looked up here, not in a `__getattr__`, which would make each use of an attribute slower.
    """
    if isinstance(error, AttributeError) and isinstance(error.name, str):
        instead = getattr(type(error.obj), "_instead", lambda _: None)(error.name)
        note = f"instead of {error.name}: {instead}"
        if instead is not None and note not in getattr(error, "__notes__", ()):
            error.add_note(note)


def _raised_at(error: BaseException) -> SourceLine:
    """Return the program's line closest to where an exception was raised; of a library's if there is none."""
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return program_line(frame for frame in reversed(frames) if not is_ours(frame[0]))


def pickled(error: BaseException) -> bytes:
    """Return the pickle of an exception, or no bytes if it cannot be pickled and read back."""
    from bsp.values import by_value

    try:
        data: bytes = by_value.dumps(error)
        pickle.loads(data)
    except Exception:  # noqa: BLE001 - the report still holds its type, text and traceback
        return b""
    return data
