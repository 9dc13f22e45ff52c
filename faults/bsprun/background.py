"""A background thread for calls that may block: a slow disk, or standard output that nobody reads.

Were bsprun to make these calls itself it would fall silent, and elements that do not hear it end themselves.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable


class Aside:
    """A background thread that makes calls in the order in which they were queued."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._given = self._done = 0  # numbers of calls queued and made
        self._changed = threading.Condition()
        threading.Thread(target=self._run, daemon=True).start()

    def do(self, call: Callable[[], None]) -> None:
        """Queue `call` to run after all earlier calls.  It must not raise."""
        self._given += 1
        self._calls.put(call)

    def clear(self) -> None:
        """Forget the calls that have not begun."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._calls.get_nowait()
                with self._changed:
                    self._done += 1

    @property
    def idle(self) -> bool:
        """True if all queued calls have been made."""
        return self._done == self._given

    def finish(self, seconds: float | None = None) -> bool:
        """Wait until all queued calls have been made; return whether they have.

        seconds : the longest time to wait; None: without limit.
        The wait is divided into slices, so that signal handlers run meanwhile.
        """
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
