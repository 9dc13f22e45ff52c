"""`--progress`: what the picture shows, and that it never touches what the program prints."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bsp.faults.events import live_view as view
from bsp.faults.events.live_view import LiveView, table
from bsp.faults.protocol.arbiter import Arbiter
from bsp.faults.protocol.messages import AgentReport, Limits, Progress

BSPRUN = Path(sys.executable).with_name("bsprun")
ROUNDS = Path(__file__).parents[2] / "benchmarks" / "nonstop_rounds.py"
PAIRS = ((0,), (1,), (0,), (1,))


class Terminal:
    """What a terminal shows of what was written to it; it has as many lines as are needed."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = [[]]
        self.x = self.y = 0

    def write(self, text: str) -> list[str]:
        for piece in re.findall(r"\x1b\[\??[0-9;]*[A-Za-z]|[^\x1b]", text):
            if piece == "\n":
                self.y += 1
                self.x = 0
                self.rows += [[] for _ in range(self.y + 1 - len(self.rows))]
            elif piece == "\r":
                self.x = 0
            elif piece.endswith("A") and len(piece) > 1:
                self.y -= int(piece[2:-1])
                assert self.y >= 0
            elif piece == "\x1b[2K":
                self.rows[self.y] = []
            elif not piece.startswith("\x1b"):
                row = self.rows[self.y]
                row += " " * (self.x + 1 - len(row))
                row[self.x] = piece
                self.x += 1
            else:
                assert piece.endswith("m"), f"{piece!r} is not known here"
        return self.lines()

    def lines(self) -> list[str]:
        return [line for row in self.rows if (line := "".join(row).rstrip())]


def said(arbiter: Arbiter, element: int, now: float, superstep: int, tails: int = 0) -> None:
    """An element's report of its clones."""
    clones = tuple(
        Progress(bundle, host.since, True, True, superstep, superstep, superstep, None, None, None, None, False, 0,
                 None, tails, (), ())
        for bundle, hosts in enumerate(arbiter.view.hosts) for host in hosts if host.element == element
    )  # fmt: skip
    arbiter.report(now, AgentReport(element, arbiter.view.number, clones))


def running(rows: tuple[tuple[int, ...], ...] = PAIRS, standbys: int = 1) -> Arbiter:
    """All are in superstep 5 at second 10."""
    arbiter = Arbiter(rows, standbys, Limits())
    for element in range(len(rows) + standbys):
        arbiter.appeared(10.0, element)
        said(arbiter, element, 10.0, 5)
    return arbiter


def shown(arbiter: Arbiter, seconds: float = 10.2, *last: str) -> list[str]:
    console = Console(file=io.StringIO(), width=100)
    console.print(table(arbiter, seconds, last))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


# ------------------------------------------------------------------------------------ what it shows


def test_each_bundle_has_a_row_with_its_clones_how_far_they_are_and_their_tails() -> None:
    arbiter = running()
    said(arbiter, 2, 10.1, 7)
    said(arbiter, 3, 10.1, 4, tails=2)
    assert shown(arbiter, 10.2, "8.5 s drained element=3", "9.0 s died element=4") == [
        "superstep 7, 10 s",
        "bundle  clones: element, superstep, tails (t), silence",
        "0       e0 5   e2 7",
        "1       e1 5   e3 4 2t",
        "standing by: e4   dead: none",
        "8.5 s drained element=3",
        "9.0 s died element=4",
    ]


def test_a_dead_element_its_successor_and_an_empty_pool_are_shown() -> None:
    arbiter = running()
    arbiter.died(10.1, 2, "was killed")
    assert shown(arbiter)[2:5] == ["0       e0 5   e4 - joining", "1       e1 5   e3 5", "standing by: none   dead: e2"]


def test_a_vertical_clone_is_shown_as_passive() -> None:
    arbiter = running(((0, 1), (1, 0)), standbys=0)
    assert shown(arbiter)[2:4] == ["0       e0 5   e1 5 passive", "1       e0 5 passive   e1 5"]


def test_silence_of_hosts_and_standbys_is_shown() -> None:
    arbiter = running()
    for element in (0, 1, 3):
        said(arbiter, element, 12.9, 30)
    assert shown(arbiter, 13.0)[2:5] == [
        "0       e0 30   e2 5 silent 3 s",
        "1       e1 30   e3 30",
        "standing by: e4 silent 3 s   dead: none",
    ]


# ------------------------------------------------------------------------------- where it stands


def live(monkeypatch: pytest.MonkeyPatch, height: int = 20, width: int = 60) -> tuple[LiveView, io.StringIO]:
    """A view that draws each time, on a terminal of that size."""
    monkeypatch.setattr(view, "_EVERY", 0.0)
    terminal = io.StringIO()
    return LiveView(Console(file=terminal, force_terminal=True, width=width, height=height)), terminal


def test_the_picture_stands_below_the_programs_lines_and_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    picture, terminal = live(monkeypatch)
    arbiter = running()
    for k in range(5):
        picture.update(arbiter, 10.0 + k / 10)
        with picture.aside(b"line\n"):
            terminal.write(f"line {k}\n")
        picture.update(arbiter, 10.0 + k / 10)
        lines = Terminal().write(terminal.getvalue())
        assert lines[: k + 2] == [*(f"line {i}" for i in range(k + 1)), "superstep 5, 10 s"]
        assert len(lines) == k + 1 + 5
    picture.close()
    picture.update(arbiter, 11.0)
    assert Terminal().write(terminal.getvalue()) == [f"line {i}" for i in range(5)]


def test_a_line_that_is_not_complete_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    picture, terminal = live(monkeypatch)
    arbiter = running()
    for piece in (b"one ", b"two ", b"three\n"):
        with picture.aside(piece):
            terminal.write(piece.decode())
        picture.update(arbiter, 10.0)
        lines = Terminal().write(terminal.getvalue())
        assert ("superstep 5, 10 s" in lines) == piece.endswith(b"\n")
    assert lines[:2] == ["one two three", "superstep 5, 10 s"]


def test_a_picture_is_no_larger_than_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has scrolled away could not be taken back."""
    picture, terminal = live(monkeypatch, height=6, width=40)
    rows = tuple((bundle,) for bundle in range(20)) * 3
    picture.event({"time": 1.0, "kind": "note", "text": "long " * 50})
    picture.update(running(rows), 10.0)
    lines = Terminal().write(terminal.getvalue())
    assert len(lines) == 5
    assert max(map(len, lines)) <= 40


def test_of_many_bundles_those_in_trouble_are_shown_and_what_is_below_them_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    picture, terminal = live(monkeypatch, height=10)
    arbiter = running(tuple((bundle,) for bundle in range(20)) * 2)
    arbiter.died(10.1, 33, "was killed")
    for element in set(range(40)) - {17, 33}:
        said(arbiter, element, 12.9, 6 + element)
    picture.event({"time": 10.1, "kind": "died", "element": 33, "reason": "was killed"})
    picture.update(arbiter, 13.0)
    lines = Terminal().write(terminal.getvalue())
    assert lines[0] == "superstep 45, 13 s"
    assert [line.split()[0] for line in lines[2:]] == ["0", "1", "13", "17", "...", "standing", "10.1"]
    assert lines[4] == "13      e13 19   e40 - joining silent 3 s"
    assert lines[5] == "17      e17 5 silent 3 s   e37 43"
    assert lines[6] == "...     16 more, supersteps 8 to 45"
    assert len(lines) == 9


def test_the_last_event_is_shown_unless_it_says_nothing_to_who_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    picture, terminal = live(monkeypatch)
    picture.event({"time": 1.25, "kind": "died", "element": 3, "reason": "was killed"})
    picture.event({"time": 1.5, "kind": "tail", "element": 1})
    picture.update(running(), 10.0)
    assert Terminal().write(terminal.getvalue())[-1] == "1.2 s died element=3 reason=was killed"


class Gone(io.StringIO):
    """A terminal whose window was closed."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def test_a_terminal_that_is_gone_does_not_stop_the_job() -> None:
    picture = LiveView(Console(file=Gone(), force_terminal=True))
    picture.update(running(), 10.0)
    with picture.aside():
        pass
    picture.close()


@pytest.mark.thorough
@pytest.mark.jobs
def test_on_a_real_terminal_a_job_that_is_struck_shows_it_and_leaves_the_programs_text(tmp_path: Path) -> None:
    words = [BSPRUN, "-p", "2", "-n", "2", "--clones", "2", "--standby", "1", "--progress", "--inject",
             "kill:element=2,superstep=20", ROUNDS, "100", "0.03", "sleep"]  # fmt: skip
    plain = subprocess.run([*words[:5], *words[-4:]], capture_output=True, text=True, check=True).stdout
    master, slave = pty.openpty()
    environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"}
    with subprocess.Popen([*map(str, words)], stdin=slave, stdout=slave, stderr=slave, env=environment) as job:
        os.close(slave)
        raw = b""
        while job.poll() is None or select.select([master], [], [], 0.2)[0]:
            if select.select([master], [], [], 0.2)[0]:
                try:
                    raw += os.read(master, 1 << 16)
                except OSError:  # all writers are gone
                    break
    os.close(master)
    assert job.returncode == 0
    text = raw.decode()
    assert Terminal().write(text) == plain.splitlines()
    for piece in ("standing by: e4   dead: none", "standing by: e5   dead: e2", "restored bundle=0 element=4"):
        assert piece in text
