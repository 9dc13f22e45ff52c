"""Scripts for NumPy against Python itself: `bsprun -p 2 --numpy script.py`, `python script.py`."""

from __future__ import annotations

import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
BSPRUN = Path(sys.executable).with_name("bsprun")
ROUNDS = 7

# what, at most times Python's seconds
LOOPS = {
    "kalman": ("a Kalman filter of 2 states, 2,000 steps", 3.0),
    "runge_kutta": ("Runge-Kutta for 3 unknowns, 2,000 steps", 3.0),
    "bodies": ("20 bodies, 300 steps", 3.0),
    "cells": ("a table of 100 × 100, element by element", 3.0),
}


def rows() -> Iterator[tuple[str, str, str, str, bool]]:
    """Yield the rows of loops over small arrays."""
    for name, (what, most) in LOOPS.items():
        script = [str(HERE / "small_loops.py"), name]
        contenders = {
            "theirs": [sys.executable, *script],
            "ours": [str(BSPRUN), "-p", "2", "-n", "2", "--numpy", *script],
        }
        seconds: dict[str, list[float]] = {"theirs": [], "ours": []}
        answers = set()
        for _ in range(ROUNDS):
            for who, command in contenders.items():
                done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
                taken, answer = done.stdout.split()
                seconds[who].append(float(taken))
                answers.add(answer)
        assert len(answers) == 1, answers
        ours, theirs = (statistics.median(seconds[who]) for who in ("ours", "theirs"))
        ratio = ours / theirs
        yield (what, "Python", f"{most:g}×",
               f"{ratio:.2f}× ({ours * 1e3:.3g} ms, {theirs * 1e3:.3g} ms)", ratio <= most)  # fmt: skip


if __name__ == "__main__":
    for row in rows():
        print("| " + " | ".join(row[:4]) + (" |" if row[4] else " **missed** |"), flush=True)
