"""`--progress`: who hosts what, how far everyone is, what happened last; on a terminal, while the job runs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bsp.faults.arbiter import Arbiter
from bsp.faults.messages import Role

_EVERY = 0.25  # seconds between two pictures
_STYLE = {Role.LIVE: "green", Role.JOINING: "yellow", Role.PASSIVE: "cyan"}
_SILENT = ("view", "started", "pulled", "tail", "once")  # events that say nothing to somebody who watches


def table(arbiter: Arbiter, seconds: float, last: str) -> Group:
    """The picture: a row for each bundle, a cell for each of its clones."""
    said = {(e, p.bundle): p for e, report in arbiter.reports.items() for p in report.clones}
    furthest = max((p.superstep for p in said.values()), default=0)
    picture = Table(title=f"superstep {furthest}, {seconds:.0f} s", title_justify="left", box=None, pad_edge=False)
    picture.add_column("bundle")
    picture.add_column("clones: element, superstep, tails")
    for bundle, hosts in enumerate(arbiter.view.hosts):
        cells = Text()
        for host in hosts:
            progress = said.get((host.element, bundle))
            where = f"{progress.superstep}" if progress is not None else "-"
            tails = f" {progress.tails}t" if progress is not None and progress.tails else ""
            role = "" if host.role is Role.LIVE else f" {host.role}"
            cells.append(f"e{host.element} {where}{tails}{role}   ", _STYLE[host.role])
        picture.add_row(str(bundle), cells)
    standbys = ", ".join(f"e{e}" for e in arbiter.view.standbys) or "none"
    dead = ", ".join(f"e{e}" for e in sorted(arbiter.dead)) or "none"
    return Group(picture, Text(f"standing by: {standbys}   dead: {dead}   {last}", "dim"))


class LiveView:
    """The picture on standard error, drawn anew; gone when the job ends."""

    def __init__(self) -> None:
        self._live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
        self._due = 0.0
        self._last = ""
        self._live.start()

    def event(self, event: dict[str, Any]) -> None:
        """For the event log."""
        if event["kind"] not in _SILENT:
            fields = " ".join(f"{k}={v}" for k, v in event.items() if k not in ("kind", "time"))
            self._last = f"{event['time']:.1f} s {event['kind']} {fields}"

    def due(self) -> bool:
        """Whether it is time for a new picture."""
        return time.monotonic() >= self._due

    def picture(self, arbiter: Arbiter, seconds: float) -> Group:
        """How things are now."""
        self._due = time.monotonic() + _EVERY
        return table(arbiter, seconds, self._last)

    def draw(self, picture: Group) -> None:
        """On the terminal, which may take its time."""
        self._live.update(picture, refresh=True)

    @contextlib.contextmanager
    def aside(self) -> Iterator[None]:
        """Out of the way of what is printed."""
        self._live.stop()
        try:
            yield
        finally:
            self._live.start()

    def close(self) -> None:
        """No picture any more."""
        self._live.stop()
