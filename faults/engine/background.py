"""Calls in their order in a thread of their own: what may block for long must not stop the arbiter.

A reader of standard output that stands still, a disk that takes its time: bsprun would fall silent, and elements that
do not hear it end themselves.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable


class Aside:
    """One such thread."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._given = self._done = 0  # calls
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def do(self, call: Callable[[], None]) -> None:
        """After all others; it must not raise."""
        self._given += 1
        self._calls.put(call)

    @property
    def idle(self) -> bool:
        """Whether all is done."""
        return self._done == self._given

    def finish(self, seconds: float | None = None) -> bool:
        """Wait until all is done, so long at most; whether it is.  In slices: a signal's handler has its turn."""
        until = None if seconds is None else time.monotonic() + seconds
        with self._changed:
            while not self.idle and (until is None or time.monotonic() < until):
                self._changed.wait(0.1)
        return self.idle

    def _run(self) -> None:
        while True:
            self._calls.get()()
            with self._changed:
                self._done += 1
                self._changed.notify_all()
