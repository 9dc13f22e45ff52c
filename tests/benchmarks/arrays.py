"""bsp.arrays beside NumPy, mpi4py by hand, Dask and Heat: rows of the README's table.

Contenders are processes that are all there at once and take turns, round by round (see `arrays_contender`);
two cores have work in each turn, every BLAS thread is counted.  Figures are medians over the rounds of times, the
ratio that of medians.  Dask and Heat take part where they are installed: in this environment, or in the one that
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bsp.launch import Launch, find_mpiexec

HERE = Path(__file__).parent
CONTENDER = str(HERE / "arrays_contender.py")
BSPRUN = Path(sys.executable).with_name("bsprun")
ROUNDS = 7
PEERS = os.environ.get("BSP_BENCH_PEERS", sys.executable)

# work, what it is, {contender: at most so many times its time}
WORKS: list[tuple[str, str, dict[str, float]]] = [
    ("matmul", "4096² `A @ B`", {"numpy": 1 / 0.95, "hand": 1.0, "dask": 1.0, "heat": 1.0}),
    ("hypotenuse", "`sqrt(a**2 + b**2).sum()`, 2^24", {"numpy": 0.5, "hand": 0.5, "dask": 0.5, "heat": 0.5}),
    ("chained", "six elementwise operations, 32 M", {"numpy": 0.5, "hand": 0.5, "dask": 0.5, "heat": 0.5}),
    ("gram", "`X.T @ X`, 2 M × 64", {"hand": 1.0}),
    ("redistribute", "rows to columns, 4096²", {"hand": 1.0}),
    ("moments", "mean and std by column, 2^18 × 64", {"dask": 0.5, "heat": 0.5}),
    ("masked", "`x[x > t].mean()`, 2^24", {"dask": 0.5, "heat": 0.5}),
    ("sort", "`sort`, 32 M", {"numpy": 1 / 1.1}),
    ("percentiles", "three exact percentiles, 2^24", {"numpy": 0.5}),
]
SMALL = [  # work, what it is, at most so many seconds, calls in it
    ("expression", "an expression over 100 elements, second pass, p = 2", 0.5e-3, 100),
    ("building", "building 100 lazy operations", 0.3e-3, 100),
    ("overhead", "planning and exchange of the slowest of eight small expressions, p = 2", 2e-3, 0),
]
NAMES = {"numpy": "NumPy, 2 threads", "hand": "mpi4py by hand", "dask": "Dask, 2 threads", "heat": "Heat, 2 ranks"}
Row = tuple[str, str, str, str, bool]


def has(python: str, module: str) -> bool:
    """Whether an interpreter can import a module."""
    done = subprocess.run([python, "-c", f"import {module}"], capture_output=True)
    return done.returncode == 0


def commands() -> dict[str, list[str]]:
    """Who takes part, and how each is started."""
    mpiexec = find_mpiexec()
    assert mpiexec is not None
    found = {
        "ours": [str(BSPRUN), "-p", "2", "-n", "2", CONTENDER],
        "numpy": [sys.executable, CONTENDER],
        "hand": [mpiexec, "-n", "2", sys.executable, CONTENDER],
    }
    if has(PEERS, "dask.array"):
        found["dask"] = [PEERS, CONTENDER]
    if has(PEERS, "heat"):
        found["heat"] = [mpiexec, "-n", "2", PEERS, CONTENDER]
    return found


class Match:
    """All contenders, started together and ended together."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._number = 0
        root = {key: value for key, value in Launch(2, 2, []).environment().items() if "ROOT" in key}
        self.running = {}
        for name, command in commands().items():
            log = open(os.path.join(self._folder.name, f"{name}.log"), "w")  # noqa: SIM115 - lives as long as the match
            self.running[name] = subprocess.Popen(
                [*command, self._folder.name, name], env=os.environ | root, stdout=log, stderr=log
            )

    def turn(self, who: str, work: str) -> dict[str, Any]:
        """One work by one contender."""
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
            time.sleep(0.002)
        with open(f"{path}.{who}") as file:
            found: dict[str, Any] = json.load(file)
        return found

    def end(self) -> None:
        """Everybody goes."""
        self.turn("all", "quit")
        for process in self.running.values():
            process.wait(60)
        self._folder.cleanup()


def measured(match: Match, work: str) -> dict[str, float]:
    """The median time of each contender that does a work; all give the same answer."""
    times: dict[str, list[float]] = {}
    answers = {}
    for number in range(ROUNDS + 1):
        for who in match.running:
            found = match.turn(who, work)
            if found["seconds"] is not None and number:  # the first round warms up
                times.setdefault(who, []).append(found["seconds"])
                if found["answer"] == found["answer"]:
                    answers[who] = found["answer"]
    for who, answer in answers.items():
        if abs(answer - answers["ours"]) > (1e-6 if who == "heat" else 1e-9) * abs(answers["ours"]):
            raise SystemExit(f"{work}: {who} says {answer}, ours {answers['ours']}")
    return {who: statistics.median(each) for who, each in times.items()}


def rows(only: set[str] | None = None) -> Iterator[Row]:
    """(what, against, at most, measured, met)."""
    match = Match()
    try:
        for work, what, limits in WORKS:
            if only is not None and work not in only:
                continue
            medians = measured(match, work)
            for who, most in limits.items():
                if who in medians:
                    ratio = medians["ours"] / medians[who]
                    yield (
                        what, NAMES[who], f"{most:.2f}×",
                        f"{ratio:.2f}× ({medians['ours'] * 1e3:.0f} ms, {medians[who] * 1e3:.0f} ms)", ratio <= most,
                    )  # fmt: skip
        for work, what, most, calls in SMALL:
            if only is not None and work not in only:
                continue
            found = [match.turn("ours", work) for _ in range(ROUNDS)]
            took = statistics.median(
                each["seconds"] / calls if calls else each["answer"] for each in found
            )  # fmt: skip
            yield what, "", f"{most * 1e3:.1f} ms", f"{took * 1e3:.3f} ms", took <= most
    finally:
        match.end()


if __name__ == "__main__":
    for row in rows(set(sys.argv[1:]) or None):
        print("| " + " | ".join(row[:4]) + (" |" if row[4] else " **missed** |"), flush=True)
