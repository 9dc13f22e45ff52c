"""Calls of `proc.once`: what one clone's call gives or raises, in the form in which all clones get it (N9)."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from typing import Any

from bsp.engine.task import IN_ONCE, Task
from bsp.errors import BspError, CannotSend
from bsp.source import here
from bsp.values.canonical import pickled


def made(task: Task, call: Callable[[], Any]) -> bytes:
    """Make a call; return its value or its exception for `outcome`.  Boundaries inside it raise BoundaryInOnce."""
    element = task.element
    thread, element.thread = element.thread, IN_ONCE
    try:
        value = call()
    except BaseException as error:  # noqa: BLE001 - whatever it is, all clones raise it
        return _raised(error)
    finally:
        if element.thread == IN_ONCE:  # it is not in a child made by os.fork
            element.thread = thread
    try:
        return pickled((value, None))
    except Exception as wrong:  # noqa: BLE001 - whatever pickling raises
        what = f"once at {here()}: its value, of type {type(value).__name__}, cannot be pickled for the other clones"
        return pickled((None, CannotSend(f"{what} ({wrong})")))


def _raised(error: BaseException) -> bytes:
    """Return an exception for `outcome`, with a note of where it was raised, as its traceback does not travel."""
    frames = traceback.extract_tb(error.__traceback__)[1:]
    if frames and not isinstance(error, SystemExit):
        error.add_note("raised in the call of once:\n" + "".join(traceback.format_list(frames)).rstrip())
    try:
        data = pickled((None, error))
        pickle.loads(data)  # some exceptions can be pickled, but not be made again
    except Exception:  # noqa: BLE001 - whatever pickling raises
        notes = getattr(error, "__notes__", [])
        instead = BspError(f"{type(error).__name__}: {error}")
        instead.__notes__ = list(notes)
        return pickled((None, instead))
    return data


def outcome(data: bytes) -> Any:
    """Return the value of a call that some clone has made, or raise its exception."""
    value, error = pickle.loads(data)
    if error is not None:
        raise error
    return value
