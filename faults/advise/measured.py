"""Reading of measured round times: from a file of numbers, or from a trace of `bsprun --trace`.

The estimate of D needs the time of every element in each round.  A trace contains less: the time of the busiest element
and the mean.  The busiest of P elements exceeds t about P times as often as one does, with the same exponent, so D can
still be estimated.  MinTime is then replaced by the mean of the others, which lies above the least time by more the
more they differ.
"""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np

from bsp.cost.record import reading
from bsp.faults.advise.estimate import Estimate, estimate, same_elements_late

SHORT = 1e-3  # seconds; the times of shorter rounds come from the clock and the scheduler, not the element
_PERSISTENT = 1e-3  # p-value below which the same elements are taken to be slow in all rounds


def estimate_from(path: str) -> Estimate:
    """Return the estimate of the tail from the times in the file at `path`.

    The file is a trace, or holds one JSON line per round, a list of each element's seconds; or one number per line,
    taken as one long round.  Raises ValueError for a bad file, and TraceError for a bad trace.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except UnicodeDecodeError:
        raise ValueError(f"{path}: is no text; give JSON lines of numbers, or what `bsprun --trace` wrote") from None
    if text.lstrip().startswith("{"):
        return _of_trace(path, reading.load(path))
    rows = [_row(path, number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not rows:
        raise ValueError(f"{path}: is empty; give one JSON line a round: [seconds of element 0, of element 1, ...]")
    if all(len(row) == 1 for row in rows):  # one number per line: take them as one long round
        rows = [[time for row in rows for time in row]]
    return _of_rounds(path, rows)


def _row(path: str, number: int, line: str) -> list[float]:
    """Return the times in one line of a file.  Raises ValueError unless it is a positive number, or a list of them."""
    try:
        found: Any = json.loads(line)
    except ValueError:
        found = None
    times = found if isinstance(found, list) else [found]
    if not times or not all(
        isinstance(time, int | float) and not isinstance(time, bool) and math.isfinite(time) and time > 0
        for time in times
    ):
        shown = line if len(line) <= 40 else line[:37] + "..."
        raise ValueError(
            f"{path}: line {number} is {shown}; give a list of times above 0, one an element, or one number a line"
        )
    return [float(time) for time in times]


def _of_rounds(path: str, rows: list[list[float]]) -> Estimate:
    """Estimate from rounds: MinTime of each is its least time, whose element is left out (see `estimate`)."""
    if min(len(row) for row in rows) < 2:
        raise ValueError(f"{path}: a round with one time has no MinTime beside it; give two elements or more a line")
    ratios = [np.sort(row)[1:] / min(row) for row in rows]
    warnings: tuple[str, ...] = ()
    widths = {len(row) for row in rows}
    if len(widths) == 1 and len(rows) >= 10:
        alike = same_elements_late(np.array(rows))
        if alike < _PERSISTENT:
            warnings = (
                f"the same elements are slow in many rounds (p = {alike:.0e} that all are alike): replace them or give"
                " them less; D takes every round for a new draw",
            )
    return estimate(np.concatenate(ratios), warnings=warnings)


def _of_trace(path: str, trace: dict[str, Any]) -> Estimate:
    """Estimate from a trace: each superstep gives the busiest element's time over the mean of the others."""
    elements, processes = trace["elements"], trace["processes"]
    found = []
    for row in trace["per_superstep"]:
        if "compute" in row and "wait" in row:
            busiest, mean, of = row["compute"], row["compute"] - row["wait"], elements
        else:
            busiest, mean, of = row["w"], row["w_mean"], processes
        if of > 1:
            others = (of * mean - busiest) / (of - 1)
            if others >= SHORT:
                found.append((of, max(busiest / others, 1.0)))
    if not found or len({of for of, _ in found}) > 1 or len(found) < 2:
        raise ValueError(
            f"{path}: has {len(found)} supersteps of {SHORT * 1e3:g} ms or more on two elements or more; trace a longer"
            " run on more elements (`bsprun -n 2 --trace`), or give JSON lines of times"
        )
    notes = ["a trace has the busiest element and the mean only; uneven work in the program counts as a tail here"]
    return estimate([ratio for _, ratio in found], of=found[0][0], warnings=tuple(notes))
