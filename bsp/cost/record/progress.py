"""A live line on a terminal: which superstep, how fast, how long still.

Time left is known where a `proc.rounds` loop says how many passes it takes: what is left of it, at the
pace of what has passed.
"""

from __future__ import annotations

import sys
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bsp.engine.task import Task

_EVERY = 0.2  # seconds between lines


class Progress:
    """The line of element 0; the others have none."""

    def __init__(self) -> None:
        self._began = self._next = perf_counter()
        self._shown = False
        self._loop: tuple[int, float, int] | None = None  # passes, when first seen, the pass it was at

    def ended(self, task: Task, superstep: int) -> None:
        """A superstep has ended; `task` is process 0."""
        now = perf_counter()
        if now < self._next:
            return
        self._next = now + _EVERY
        parts = [f"superstep {superstep}", f"{superstep / (now - self._began):.3g}/s"]
        if task.round is not None:
            done, times = task.round
            if self._loop is None or self._loop[0] != times or done < self._loop[2]:
                self._loop = times, now, done
            _, since, first = self._loop
            parts.append(f"round {done + 1} of {times}")
            if done > first:
                left = (now - since) / (done - first) * (times - done)
                parts.append(f"about {left:.0f} s left" if left < 6000 else f"about {left / 3600:.1f} h left")
        sys.stderr.write("\r\x1b[K" + ", ".join(parts))
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        """Make room for the program's own text."""
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._shown = False
