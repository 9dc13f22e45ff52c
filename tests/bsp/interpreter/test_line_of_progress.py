"""The live line of `--progress` and `progress=True`: what it counts, and where it is shown."""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bsp
from bsp import runner
from bsp.cost.model import Machine
from bsp.cost.record import progress
from bsp.cost.record.progress import PlainLine, TerminalLine, live_line

pytestmark = pytest.mark.solo


class Recorded:
    """A line that keeps all it has shown."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.ends: list[str] = []

    def show(self, text: str) -> None:
        self.shown.append(text)

    def clear(self) -> None:
        self.shown.append("clear")

    def end(self, text: str) -> None:
        self.ends.append(text)


@pytest.fixture
def line(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    """A line that is written at every superstep."""
    recorded = Recorded()
    monkeypatch.setattr(runner, "live_line", lambda: recorded)
    monkeypatch.setattr(progress, "_EVERY", 0.0)
    return recorded


def puts(proc: bsp.Process, x: bsp.Coarray) -> None:
    x.put((proc.pid + 1) % proc.nprocs, np.ones(20), at=slice(0, 20))


def gets(proc: bsp.Process, x: bsp.Coarray) -> None:
    x.get((proc.pid + 1) % proc.nprocs, at=slice(0, 30))


def puts_each(proc: bsp.Process, x: bsp.Coarray) -> None:
    x.put_each(np.full(7, (proc.pid + 1) % proc.nprocs), np.arange(7), np.ones(7))


def gathers(proc: bsp.Process, x: bsp.Coarray) -> None:
    proc.send(0, np.ones(10))  # process 0 receives from all others; what it sends to itself does not count


def nothing(proc: bsp.Process, x: bsp.Coarray) -> None:
    return None


@pytest.mark.parametrize(
    ("issue", "words"),
    [(puts, 20), (gets, 30), (puts_each, 14), (gathers, 20), (nothing, 0)],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_h_is_the_most_words_of_a_process(line: Recorded, issue: Callable[..., Any], words: int) -> None:
    """The counting rules are those of the recorder."""

    def main(proc: bsp.Process) -> None:
        x = proc.coarray(40)
        proc.sync()
        issue(proc, x)
        proc.sync()
        proc.sync()

    bsp.run(main, nprocs=3, progress=True)
    assert [re.findall(r"superstep (\d+), .*, h (\S+) words", text)[0] for text in line.shown] == [
        ("1", "0"), ("2", str(words)), ("3", "0"),
    ]  # fmt: skip
    assert [text.split(",")[0] for text in line.ends] == ["3 supersteps"]


def test_the_predicted_time_is_that_of_the_machine(line: Recorded) -> None:
    """(g·h + L) / r for each superstep, beside which the time computed is nothing here."""

    def main(proc: bsp.Process) -> None:
        proc.send(1 - proc.pid, np.zeros(1000))
        proc.sync()

    bsp.run(main, nprocs=2, progress=True, machine=Machine(p=1, r=1.0, g=2.0, L=3e6))
    assert line.ends[0].endswith(f"{3_002_000 / 3600:.3g} h predicted")


def test_a_loop_tells_its_rounds_and_text_has_room(line: Recorded) -> None:
    def main(proc: bsp.Process) -> None:
        for k in proc.rounds(4):
            if proc.pid == 1 and k == 2:
                print("text")
            proc.sync()

    bsp.run(main, nprocs=2, progress=True)
    shown = [text for text in line.shown if text != "clear"]
    assert [re.findall(r"round \d of 4", text) for text in shown] == [[f"round {k} of 4"] for k in (1, 2, 3, 4)]
    assert "clear" in line.shown


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminals_line_is_replaced_and_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    shown = live_line()
    assert isinstance(shown, TerminalLine)
    shown.show("one")
    shown.show("two")
    shown.end("all")
    assert terminal.getvalue() == "\r\x1b[Kone\r\x1b[Ktwo\r\x1b[K"


def test_on_a_terminal_the_line_stays_away_while_a_line_of_text_is_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or it would erase what `print(".", end="")` has shown."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    monkeypatch.setattr(progress, "_EVERY", 0.0)

    def main(proc: bsp.Process) -> None:
        for k in range(6):
            if proc.pid == 1:
                print(f"{k} ", end="\n" if k == 3 else "")
            proc.sync()

    bsp.run(main, nprocs=2, progress=True)
    # each superstep's text is printed before its line; text 3 ends the first line of text, 4 begins another
    assert re.findall(r"superstep (\d)", terminal.getvalue()) == ["4"]


@pytest.mark.parametrize("kind", [io.StringIO, Terminal])
def test_a_file_and_a_dumb_terminal_get_the_last_line_only(
    kind: type[io.StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setattr(sys, "stderr", file := kind())
    shown = live_line()
    assert isinstance(shown, PlainLine)
    shown.show("one")
    shown.clear()
    shown.end("all")
    assert file.getvalue() == "all\n"
