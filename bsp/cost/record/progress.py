"""A live line while a program runs: which superstep, its h, the time predicted and elapsed, how long still.

The line is that of element 0: h is the most words that one of its processes has sent or received in a superstep since
the last line; a get counts a word for each item.  The predicted time is what the machine profile says: the time
that element 0 has computed, and g·h + L for each superstep; beside it stands the time that has elapsed.

Time left is known where a `proc.rounds` loop says how many passes it takes: what is left of it, at the pace of what has
passed.
"""

from __future__ import annotations

import io
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol, TextIO

from bsp.cost.model import DEFAULT, WORD, Cost, Machine
from bsp.cost.units import counted, in_seconds, in_words
from bsp.host import is_screen
from bsp.notebook import display_line, replace_line
from bsp.values.effects import Effect, Get, Put, PutEach, Row
from bsp.values.payload import size_of

if TYPE_CHECKING:
    from bsp.engine.task import Task

_EVERY = 0.2  # seconds between lines


class DisplayLine(Protocol):
    """A place where one line of text is shown, and replaced by the next one."""

    def show(self, text: str) -> None:
        """Replace the line."""

    def clear(self) -> None:
        """Make room for text of the program."""

    def end(self, text: str) -> None:
        """Show the line for the last time."""


class TerminalLine:
    """The last line of the terminal that standard error is; nothing is left of it at the end."""

    def __init__(self) -> None:
        self._terminal = sys.stderr  # as it is now: the program's may be one that clears the line
        self._shown = False

    def show(self, text: str) -> None:
        """Replace the line; what is wider than the terminal is cut off, because only one row can be replaced."""
        try:
            columns = os.get_terminal_size(self._terminal.fileno()).columns
        except OSError:
            columns = 0
        self._terminal.write("\r\x1b[K" + text[: (columns or 80) - 1])
        self._terminal.flush()
        self._shown = True

    def clear(self) -> None:
        """Make room for text of the program."""
        if self._shown:
            self._terminal.write("\r\x1b[K")
            self._terminal.flush()
            self._shown = False

    def end(self, text: str) -> None:
        """Remove the line."""
        self.clear()


class PlainLine:
    """Standard error that is no terminal: only the last line is written, because none can be replaced."""

    def show(self, text: str) -> None:
        """Do nothing."""

    def clear(self) -> None:
        """Do nothing."""

    def end(self, text: str) -> None:
        """Write the line."""
        print(text, file=sys.stderr, flush=True)


class NotebookLine:
    """An output of a notebook's cell, which is replaced; the last line stays."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def show(self, text: str) -> None:
        """Replace the line."""
        replace_line(self._handle, text)

    def clear(self) -> None:
        """Do nothing: the program's text appears beside it."""

    end = show


def live_line() -> DisplayLine:
    """Return the place for a live line in this interpreter: a notebook's output, a terminal, or standard error."""
    handle = display_line()
    if handle is not None:
        return NotebookLine(handle)
    return TerminalLine() if is_screen(sys.stderr) else PlainLine()


class _Before(io.FileIO):
    """A file descriptor that calls `first` with the bytes before each write."""

    def __init__(self, descriptor: int, first: Callable[[bytes], None]) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._first = first

    def write(self, data: Any, /) -> int:
        self._first(bytes(data))
        return super().write(data)


def after_clearing(stream: TextIO, line: RunProgress) -> TextIO:
    """Return a stream to the same terminal that clears `line` before it writes; `stream` itself if it is no terminal.

    Otherwise text that process 0 prints, which appears at once, would begin behind the line.
    """
    if not is_screen(stream):
        return stream
    stream.flush()
    raw = io.BufferedWriter(_Before(stream.fileno(), line.clear))
    return io.TextIOWrapper(raw, stream.encoding, stream.errors, line_buffering=True)


class RunProgress:
    """The progress of a run, as element 0 shows it."""

    def __init__(self, machine: Machine = DEFAULT, line: DisplayLine | None = None) -> None:
        """Begin a count.

        machine : the machine whose prices are shown.  line : None: the terminal that standard error is.
        """
        self._machine = machine
        self._line = TerminalLine() if line is None else line
        self._open = False  # whether the program's last line is incomplete
        self.begin(0)

    def begin(self, superstep: int) -> None:
        """Begin with a run, whose first superstep this is."""
        self._began = self._mark = perf_counter()
        self._next = self._began if superstep == 0 else self._began + _EVERY
        self._first = superstep
        self._predicted = 0.0
        self._h = self._most = 0.0  # words: of the superstep under way, of those since the last line
        self._loop: tuple[int, float, int] | None = None  # passes, when first seen, the pass it was at

    def met(self) -> None:
        """Note that the processes of this element have computed until now."""
        self._predicted += perf_counter() - self._mark

    def moved(self, sent: Sequence[Effect], received: Sequence[Effect]) -> None:
        """Note the traffic of the superstep: what processes here have issued, and what arrives for them."""
        out: Counter[int] = Counter()  # bytes by pid
        into: Counter[int] = Counter()
        for effect in sent:
            mine = into if isinstance(effect, Get) else out
            mine[effect.source] += sum(size for dest, size in _ends(effect) if dest != effect.source)
        for effect in received:
            theirs = out if isinstance(effect, Get) else into
            for dest, size in _ends(effect):
                theirs[dest] += size if dest != effect.source else 0
        self._h = max([*out.values(), *into.values()], default=0) / WORD

    def ended(self, task: Task, superstep: int) -> None:
        """Note the end of a superstep; `task` is process 0."""
        now = self._mark = perf_counter()
        self._predicted += self._machine.price(Cost(0.0, self._h, 1)) / self._machine.r
        self._most, self._h = max(self._most, self._h), 0.0
        if now >= self._next and not self._open:
            self._next = now + _EVERY
            self._line.show(", ".join([f"superstep {superstep}", *self._left(task, now), *self._parts(superstep, now)]))
            self._most = 0.0

    def _parts(self, superstep: int, now: float) -> list[str]:
        """Return the pace, the most words of a process, and the times."""
        elapsed = now - self._began
        return [
            f"{(superstep - self._first) / elapsed:.3g}/s",
            f"h {in_words(self._most)} words",
            f"{in_seconds(elapsed)} elapsed",
            f"{in_seconds(self._predicted)} predicted",
        ]

    def _left(self, task: Task, now: float) -> list[str]:
        """Return the round of a loop, and the time that is left of the loop."""
        if task.round is None:
            return []
        done, times = task.round
        if self._loop is None or self._loop[0] != times or done < self._loop[2]:
            self._loop = times, now, done
        _, since, first = self._loop
        parts = [f"round {done + 1} of {times}"]
        if done > first:
            left = (now - since) / (done - first) * (times - done)
            parts.append(f"about {left:.0f} s left" if left < 6000 else f"about {left / 3600:.1f} h left")
        return parts

    def clear(self, text: bytes = b"\n") -> None:
        """Make room for a text of the program; a terminal shows no line then until some text ends the last one."""
        self._line.clear()
        self._open = isinstance(self._line, TerminalLine) and not text.endswith(b"\n")

    def end(self, superstep: int) -> None:
        """Show the line for the last time: the run has ended."""
        elapsed = perf_counter() - self._began
        self._line.end(
            f"{counted(superstep - self._first, 'superstep')}, {in_seconds(elapsed)} elapsed, "
            f"{in_seconds(self._predicted)} predicted"
        )


def _ends(effect: Effect) -> list[tuple[int, int]]:
    """Return the owners or receivers that an effect addresses, with bytes (the counting rules of the recorder)."""
    if isinstance(effect, Put):
        return [(effect.dest, effect.values.nbytes)]
    if isinstance(effect, PutEach):
        return [(effect.dest, effect.values.nbytes if effect.scalars else 2 * WORD * effect.values.size)]
    if isinstance(effect, Get):
        items = prod(effect.region.shape) if effect.positions is None else effect.positions.size  # type: ignore[union-attr]
        return [(effect.dest, WORD * items)]
    if isinstance(effect, Row):
        return [(effect.first + k, size) for k, size in enumerate(effect.sizes())]
    size = size_of(effect.pickled) if effect.array is None else effect.array.nbytes  # type: ignore[arg-type]
    return [(dest, size) for dest in effect.dests]
