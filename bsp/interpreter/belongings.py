"""The parts of the interpreter that belong to the process whose turn it is.

Processes of one element share an interpreter and run in turn.  So that a program does the same on any number of
elements, each process has its own `__main__`, `sys.argv`, `sys.stdout`, `sys.stdin`, global generators of NumPy and
of `random`, running asyncio loop, and the filters of the `catch_warnings` blocks that it is in.  They are replaced at
each change of turns.  Context variables are a process's own too: each process runs in a `contextvars` context of its
own (`imports` handles those that modules set).  docs/shared-state.md lists what remains shared.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any, TextIO

from bsp.interpreter.generators import GlobalStreams


class Belongings:
    """One process's parts of the interpreter: in place during its turns, kept here between them."""

    __slots__ = ("_asyncio", "argv", "main", "stdin", "stdout", "streams", "warnings")

    def __init__(self, main: ModuleType | None, streams: GlobalStreams, stdout: TextIO, stdin: TextIO | None) -> None:
        self.main = main
        self.streams = streams
        self.stdout: TextIO | None = stdout
        self.stdin = stdin
        self.argv: list[str] | None = list(sys.argv)
        self._asyncio: tuple[Any, Any] | None = None  # the running loop, and its current task
        self.warnings = warning_state()

    def enter(self) -> None:
        """Put all parts in place."""
        if self.main is not None:
            sys.modules["__main__"] = self.main
        sys.stdout = self.stdout
        sys.stdin = self.stdin
        sys.argv = self.argv  # type: ignore[assignment]
        set_warning_state(self.warnings)
        self.streams.enter()
        if self._asyncio is not None:
            _resume(*self._asyncio)
            self._asyncio = None

    def leave(self) -> None:
        """Keep what the process has changed, for its next turn."""
        self.streams.leave()
        self.warnings = warning_state()
        self.stdout = getattr(sys, "stdout", None)  # a program may have deleted it
        self.stdin = getattr(sys, "stdin", None)
        self.argv = getattr(sys, "argv", None)
        asyncio = sys.modules.get("asyncio")
        if asyncio is not None:
            loop = asyncio._get_running_loop()
            if loop is not None:
                self._asyncio = loop, _suspend(loop)


def warning_state() -> tuple[Any, Any, Any]:
    """Return the list of filters and the functions that show warnings; `catch_warnings` replaces them for its block.

    Processes in no such block share one list.
    """
    return warnings.filters, warnings.showwarning, getattr(warnings, "_showwarnmsg_impl", None)


def set_warning_state(kept: tuple[Any, Any, Any]) -> None:
    """Put back what `warning_state` has returned."""
    warnings.filters, warnings.showwarning, shown = kept
    if shown is not None:
        warnings._showwarnmsg_impl = shown  # type: ignore[attr-defined]  # `record=True` replaces this one


@contextlib.contextmanager
def without_loop() -> Iterator[None]:
    """Set aside the caller's running asyncio loop inside the block: the loop of a notebook, whose cells it runs.

    Else the first process would take it for its own, and the caller would miss it.
    """
    asyncio = sys.modules.get("asyncio")
    loop = None if asyncio is None else asyncio._get_running_loop()
    if loop is None:
        yield
        return
    task = _suspend(loop)
    try:
        yield
    finally:
        _resume(loop, task)


def _suspend(loop: Any) -> Any:
    """Mark this thread as running no asyncio loop; return the task that was current in `loop`."""
    import asyncio

    task = asyncio.current_task(loop)
    if task is not None:
        asyncio.tasks._leave_task(loop, task)
    asyncio._set_running_loop(None)
    return task


def _resume(loop: Any, task: Any) -> None:
    """Undo `_suspend`."""
    import asyncio

    asyncio._set_running_loop(loop)
    if task is not None:
        asyncio.tasks._enter_task(loop, task)
