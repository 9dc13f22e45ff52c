"""The live view of `bsprun --progress`: hosts of each bundle, their supersteps, and the last events, on a terminal."""

from __future__ import annotations

import contextlib
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import CaptureError, Console, Group
from rich.table import Table
from rich.text import Text

from bsp.faults.protocol.arbiter import Arbiter
from bsp.faults.protocol.messages import ClonePlace, Role

_EVERY = 0.25  # seconds between two pictures
_SHOWN = 3  # last events that are shown: what matters is often followed at once by what does not
_QUIET = 1.0  # seconds of silence from which on it is shown
_UP = "\x1b[1A\x1b[2K"  # moves the cursor one line up and clears that line
_STYLE = {Role.LIVE: "green", Role.JOINING: "yellow", Role.PASSIVE: "cyan"}
_SILENT = ("view", "started", "pulled", "tail", "once")  # frequent events, or ones that the table shows itself


def table(arbiter: Arbiter, seconds: float, last: Sequence[str], height: int | None = None) -> Group:
    """Return the picture to print: a row for each bundle, a cell for each of its clones.

    seconds : since the job began.  last : the last events, a line each.  height : lines that there is room for.  Where
    they do not suffice, bundles that lack a clone, or have one that is silent or not live, have rows before the others.
    """
    said = {(e, p.bundle): p for e, report in arbiter.reports.items() for p in report.clones}
    furthest = max((p.superstep for p in said.values()), default=0)
    picture = Table(title=f"superstep {furthest}, {seconds:.0f} s", title_justify="left", box=None, pad_edge=False)
    picture.add_column("bundle")
    picture.add_column("clones: element, superstep, tails (t), silence", no_wrap=True)
    shown = list(range(len(arbiter.view.hosts)))
    room = len(shown) if height is None else max(height - 3 - len(last), 1)  # beside title, heads and standbys
    if len(shown) > room:
        most = max(map(len, arbiter.view.hosts))
        whole = [len(hosts) == most and _is_well(arbiter, hosts, seconds) for hosts in arbiter.view.hosts]
        shown = sorted(sorted(shown, key=whole.__getitem__)[: room - 1])
    for bundle in shown:
        cells = Text()
        for host in arbiter.view.hosts[bundle]:
            progress = said.get((host.element, bundle))
            where = f"{progress.superstep}" if progress is not None else "-"
            tails = f" {progress.tails}t" if progress is not None and progress.tails else ""
            role = "" if host.role is Role.LIVE else f" {host.role}"
            silent = _silence(arbiter, host.element, seconds)
            cells.append(f"e{host.element} {where}{tails}{role}{silent}   ", "red" if silent else _STYLE[host.role])
        picture.add_row(str(bundle), cells)
    if len(shown) < len(arbiter.view.hosts):
        others = [p.superstep for (_, bundle), p in said.items() if bundle not in set(shown)]
        where = f"supersteps {min(others, default=0)} to {max(others, default=0)}"
        picture.add_row("...", f"{len(arbiter.view.hosts) - len(shown)} more, {where}")
    standbys = ", ".join(f"e{e}{_silence(arbiter, e, seconds)}" for e in arbiter.view.standbys) or "none"
    dead = ", ".join(f"e{e}" for e in sorted(arbiter.dead)) or "none"
    below = [f"standing by: {standbys}   dead: {dead}", *last]
    return Group(picture, *(Text(line, "dim") for line in below))


def _is_well(arbiter: Arbiter, hosts: Sequence[ClonePlace], seconds: float) -> bool:
    """Return whether all clones of a bundle are live, and were heard within the last second."""
    return all(host.role is Role.LIVE and not _silence(arbiter, host.element, seconds) for host in hosts)


def _silence(arbiter: Arbiter, element: int, seconds: float) -> str:
    """Return how long an element has been silent, in words; "" if it was heard within the last second."""
    quiet = arbiter.quiet(element, seconds)
    return f" silent {quiet:.0f} s" if quiet >= _QUIET else ""


class LiveView:
    """The picture on a terminal, below what the program prints; it disappears when the job ends.

    It never shares a line with the program's text: it is erased before anything is printed, and not drawn while the
    program's last line is incomplete.
    """

    def __init__(self, console: Console | None = None) -> None:
        self._console = console if console is not None else Console(stderr=True)
        self._due = 0.0
        self._last: deque[str] = deque(maxlen=_SHOWN)
        self._lines: list[str] = []  # of the last picture
        self._stands = 0  # lines of the picture that are on the terminal now
        self._open = False  # whether the program's last line is incomplete
        self._over = False

    def event(self, event: Mapping[str, Any]) -> None:
        """Keep an event among the last ones, which are shown.  To be subscribed to the event log."""
        if event["kind"] not in _SILENT:
            fields = " ".join(f"{k}={v}" for k, v in event.items() if k not in ("kind", "time"))
            self._last.append(f"{event['time']:.1f} s {event['kind']} {fields}")

    def update(self, arbiter: Arbiter, seconds: float) -> None:
        """Draw a new picture if the last one is older than a quarter of a second.  May block on the terminal."""
        if self.due():
            self.draw(self.picture(arbiter, seconds))

    def due(self) -> bool:
        """Return whether it is time for a new picture."""
        return time.monotonic() >= self._due and not self._over

    def picture(self, arbiter: Arbiter, seconds: float) -> list[str]:
        """Return the present picture as lines, cut to the height of the terminal.  Does not draw it."""
        self._due = time.monotonic() + _EVERY
        drawn = self._console.capture()
        with contextlib.suppress(OSError), drawn:  # on leaving a capture rich writes to the terminal, which may be gone
            room = self._console.height - 1
            self._console.print(table(arbiter, seconds, list(self._last), room), overflow="ellipsis", no_wrap=True)
        with contextlib.suppress(CaptureError):
            return drawn.get().splitlines()[: self._console.height - 1]
        return self._lines

    def draw(self, picture: list[str]) -> None:
        """Draw the picture on the terminal.  May block if the terminal does not read."""
        self._lines = picture
        self._draw()

    @contextlib.contextmanager
    def aside(self, data: bytes = b"\n") -> Iterator[None]:
        """Erase the picture while the caller prints `data`, as a context manager; draw it again afterwards.

        If `data` does not end a line, the picture stays away until text that does has been printed.
        """
        self._erase()
        try:
            yield
        finally:
            self._open = not data.endswith(b"\n")
            self._draw()

    def close(self) -> None:
        """Erase the picture for good."""
        self._over = True
        self._erase()

    def _draw(self) -> None:
        """Replace the picture on the terminal by the present one, unless the program is in the middle of a line."""
        if self._open or self._over:
            return
        text = _UP * self._stands + "".join(f"{line}\n" for line in self._lines)
        self._stands = len(self._lines)
        self._write(text)

    def _erase(self) -> None:
        """Remove the picture from the terminal, if it is there."""
        if self._stands:
            self._write(_UP * self._stands)
            self._stands = 0

    def _write(self, text: str) -> None:
        """Write to the terminal at once.  A terminal that is gone is ignored."""
        with contextlib.suppress(OSError):  # the terminal may be gone; the job goes on
            self._console.file.write(text)
            self._console.file.flush()
