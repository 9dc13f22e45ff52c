"""What of the interpreter belongs to the process whose turn it is.

Processes of one element share an interpreter and run in turn.  So that a program does the same on any number of
elements, each process has its own `__main__`, `sys.argv`, `sys.stdout`, `sys.stdin`, global generators of NumPy and
of `random`, and running asyncio loop; they change hands with the turn.  Context variables are a process's own too:
each runs in a context of its own (`imports.py` has the part about modules).  docs/shared-state.md lists what
remains shared.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, TextIO

from bsp.generators import GlobalStreams


class Belongings:
    """What one process has of the interpreter: in place during its turns, kept here between them."""

    __slots__ = ("_asyncio", "argv", "main", "stdin", "stdout", "streams")

    def __init__(self, main: ModuleType | None, streams: GlobalStreams, stdout: TextIO, stdin: TextIO | None) -> None:
        self.main = main
        self.streams = streams
        self.stdout: TextIO | None = stdout
        self.stdin = stdin
        self.argv = list(sys.argv)
        self._asyncio: tuple[Any, Any] | None = None  # the running loop, and its current task

    def enter(self) -> None:
        """Put everything in place."""
        if self.main is not None:
            sys.modules["__main__"] = self.main
        sys.stdout = self.stdout
        sys.stdin = self.stdin
        sys.argv = self.argv
        self.streams.enter()
        if self._asyncio is not None:
            _resume(*self._asyncio)
            self._asyncio = None

    def leave(self) -> None:
        """Keep what the process has changed for its next turn."""
        self.streams.leave()
        self.stdout = getattr(sys, "stdout", None)  # a program may have deleted it
        self.stdin = getattr(sys, "stdin", None)
        self.argv = sys.argv
        asyncio = sys.modules.get("asyncio")
        if asyncio is not None:
            loop = asyncio._get_running_loop()
            if loop is not None:
                self._asyncio = loop, _suspend(loop)


def _suspend(loop: Any) -> Any:
    """Let no loop run in this thread; return the task that was current in `loop`."""
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
