"""Calls of `proc.once`: what one clone's call gives or raises, in the form in which all clones get it (N9).

With it go the text that the call has printed and the states in which it left the process's random generators: without
clones they belong to the process, so each clone must have them.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from bsp.engine.task import IN_ONCE, Task
from bsp.errors import BspError, CannotSend
from bsp.interpreter.generators import put, standing
from bsp.source import here
from bsp.values.canonical import pickled
from bsp.world import handle


def made(task: Task, call: Callable[[], Any], said: Sequence[str]) -> bytes:
    """Make a call; return for `outcome` what it gives and leaves behind.  Boundaries inside it raise BoundaryInOnce.

    said : where its text for standard error is found afterwards.
    """
    text = task.text
    assert text is not None
    start, before = text.tell(), _streams(task)
    found, raised = _found(task, call)
    printed = text.getvalue()[start:]
    text.seek(start)
    text.truncate()
    after = _streams(task)
    return pickle.dumps((found, raised, printed, "".join(said), None if after == before else after), 5)


def _streams(task: Task) -> bytes:
    """Return the states of a process's random generators, whose turn it is, as a pickle."""
    task.streams.leave()
    state = task.streams.state()
    task.streams.enter()
    rng = None if task.handle is None else task.handle.__dict__.get("rng")
    return pickled((state, None if rng is None else standing(rng)))


def has_raised(data: bytes) -> bool:
    """Return whether the call raised whose outcome is in `data`; the exception itself is not unpickled."""
    raised: bool = pickle.loads(data)[1]
    return raised


def _found(task: Task, call: Callable[[], Any]) -> tuple[bytes, bool]:
    """Make a call; return the pickle of its value and its exception, one of which is None, and whether it raised."""
    element = task.element
    thread, element.thread = element.thread, IN_ONCE
    try:
        value = call()
    except BaseException as error:  # noqa: BLE001 - whatever it is, all clones raise it
        return _raised(error), True
    finally:
        if element.thread == IN_ONCE:  # it is not in a child made by os.fork
            element.thread = thread
    try:
        return pickled((value, None)), False
    except Exception as wrong:  # noqa: BLE001 - whatever pickling raises
        what = f"once at {here()}: its value, of type {type(value).__name__}, cannot be pickled for the other clones"
        return pickled((None, CannotSend(f"{what} ({wrong})"))), True


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


def outcome(task: Task, data: bytes) -> Any:
    """Return the value of a call that some clone has made, or raise its exception; take over what it left behind."""
    found, _, printed, said, streams = pickle.loads(data)
    assert task.text is not None
    task.text.write(printed)
    sys.stderr.write(said)
    if streams is not None:
        state, rng = pickle.loads(streams)
        task.streams.leave()
        task.streams.restore(state)
        task.streams.enter()
        if rng is not None:
            put(handle(task).rng, rng)
    value, error = pickle.loads(found)
    if error is not None:
        raise error
    return value
