"""Contenders that are all there at once and take turns, round by round (see `turns`).

Two cores have work in each turn, every BLAS thread is counted.  Figures are medians over the rounds of times, the
ratio that of medians.  Peers take part where they are installed: in this environment, or in the one that
BSP_BENCH_PEERS names (its python).
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bsp.command.launch import Launch
from bsp.host import find_mpiexec

BSPRUN = Path(sys.executable).with_name("bsprun")
ROUNDS = 7
PAUSE = 0.1  # seconds before a turn: the threads of OpenBLAS that have nothing to do spin for half of it
PEERS = os.environ.get("BSP_BENCH_PEERS", sys.executable)
Row = tuple[str, str, str, str, bool]  # what, against, at most, measured, met


def has(python: str, module: str) -> bool:
    """Whether an interpreter can import a module."""
    done = subprocess.run([python, "-c", f"import {module}"], capture_output=True)
    return done.returncode == 0


def on_two_ranks(python: str, script: str) -> list[str]:
    """How a script is started under our launcher."""
    mpiexec = find_mpiexec()
    assert mpiexec is not None
    return [mpiexec, "-n", "2", python, script]


def ours(script: str) -> list[str]:
    """How a script is started as two processes on two elements."""
    return [str(BSPRUN), "-p", "2", "-n", "2", script]


class Match:
    """All contenders, started together and ended together."""

    def __init__(self, commands: Mapping[str, Sequence[str]]) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._number = 0
        root = {key: value for key, value in Launch(2, 2, []).environment().items() if "ROOT" in key}
        self.running = {}
        for name, command in commands.items():
            log = open(os.path.join(self._folder.name, f"{name}.log"), "w")  # noqa: SIM115 - lives as long as the match
            self.running[name] = subprocess.Popen(
                [*command, self._folder.name, name], env=os.environ | root, stdout=log, stderr=log
            )

    def turn(self, who: str, work: str) -> dict[str, Any]:
        """One work by one contender."""
        time.sleep(PAUSE)
        self._number += 1
        path = os.path.join(self._folder.name, str(self._number))
        with open(path + ".part", "w") as file:
            json.dump({"who": who, "work": work}, file)
        os.replace(path + ".part", path)
        if work == "quit":
            return {}
        while not os.path.exists(f"{path}.{who}"):
            if self.running[who].poll() is not None:
                log = Path(self._folder.name, f"{who}.log").read_text()
                raise SystemExit(f"{who} has ended in {work}:\n{log[-3000:]}")
            time.sleep(0.005)
        with open(f"{path}.{who}") as file:
            found: dict[str, Any] = json.load(file)
        return found

    def end(self) -> None:
        """Everybody goes."""
        self.turn("all", "quit")
        for process in self.running.values():
            process.wait(60)
        self._folder.cleanup()


def measured(match: Match, work: str) -> tuple[dict[str, float], dict[str, Any]]:
    """The median time of each contender that does a work, and its answer."""
    times: dict[str, list[float]] = {}
    answers = {}
    for number in range(ROUNDS + 1):
        for who in match.running:
            found = match.turn(who, work)
            if found["seconds"] is not None and number:  # the first round warms up
                times.setdefault(who, []).append(found["seconds"])
                answers[who] = found["answer"]
    return {who: statistics.median(each) for who, each in times.items()}, answers


def compared_works(
    match: Match, works: Sequence[tuple[str, str, dict[str, float]]], names: Mapping[str, str], only: set[str] | None,
    apart: Callable[[str], float],
) -> Iterator[Row]:  # fmt: skip
    """Rows of works (name, what, at most how many times whose time); ends if answers differ.

    apart : by contender, how far its answer may be from ours, as a part of it.
    """
    for work, what, limits in works:
        if only is not None and work not in only:
            continue
        medians, answers = measured(match, work)
        for who, answer in answers.items():
            if answer == answer and abs(answer - answers["ours"]) > apart(who) * abs(answers["ours"]):
                raise SystemExit(f"{work}: {who} says {answer}, ours {answers['ours']}")
        for who, most in limits.items():
            if who in medians:
                yield compared(what, names[who], most, medians["ours"], medians[who])


def compared(what: str, name: str, most: float, our_seconds: float, their_seconds: float, more: str = "") -> Row:
    """A row: our time over theirs."""
    ratio = our_seconds / their_seconds
    told = f"{ratio:.2f}× ({our_seconds * 1e3:.0f} ms, {their_seconds * 1e3:.0f} ms{more})"
    return what, name, f"{most:.2f}×", told, ratio <= most
