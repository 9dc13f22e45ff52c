"""bsp.arrays beside NumPy, mpi4py by hand, Dask and Heat: rows of docs/benchmarks.md (see `match`)."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from match import PEERS, ROUNDS, Match, Row, compared_works, has, on_two_ranks, ours
from same_code import SAME_CODE

CONTENDER = str(Path(__file__).with_name("arrays_contender.py"))

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
WORKS += [(work, what, {"numpy": most}) for work, what, most in SAME_CODE]
SMALL = [  # work, what it is, at most so many seconds, calls in it
    ("expression", "an expression over 100 elements, second pass, p = 2", 0.5e-3, 100),
    ("building", "building 100 lazy operations", 0.3e-3, 100),
    ("overhead", "planning and exchange of the slowest of eight small expressions, p = 2", 2e-3, 0),
    ("scalars", "`x[k] = 1.0`, 2^24 elements, p = 2", 10e-6, 100),
    ("small", "`(s + 1.).persist()`, 100 elements, p = 2", 15e-6, 100),
    ("graph", "a graph of 3,000 sums", 0.3, 1),
]
RATIOS = [  # work, what it is, against, at most: the ratio is the work's answer
    ("blocked", "`A + B`, 2048² in blocks of 64 × 64", "one block a process", 1.5),
    ("blocked_sums", "`A.sum(axis=0)`, 2048² in blocks of 64 × 64", "one block a process", 1.5),
]
NAMES = {"numpy": "NumPy, 2 threads", "hand": "mpi4py by hand", "dask": "Dask, 2 threads", "heat": "Heat, 2 ranks"}


def commands() -> dict[str, list[str]]:
    """Who takes part, and how each is started."""
    found = {
        "ours": ours(CONTENDER),
        "numpy": [sys.executable, CONTENDER],
        "hand": on_two_ranks(sys.executable, CONTENDER),
    }
    if has(PEERS, "dask.array"):
        found["dask"] = [PEERS, CONTENDER]
    if has(PEERS, "heat"):
        found["heat"] = on_two_ranks(PEERS, CONTENDER)
    return found


def rows(only: set[str] | None = None) -> Iterator[Row]:
    """(what, against, at most, measured, met)."""
    match = Match(commands())
    try:
        yield from compared_works(match, WORKS, NAMES, only, lambda who: 1e-6 if who == "heat" else 1e-9)
        for work, what, most, calls in SMALL:
            if only is not None and work not in only:
                continue
            found = [match.turn("ours", work) for _ in range(ROUNDS)]
            took = statistics.median(
                each["seconds"] / calls if calls else each["answer"] for each in found
            )  # fmt: skip
            yield what, "", f"{most * 1e3:g} ms", f"{took * 1e3:.3f} ms", took <= most
        for work, what, against, most in RATIOS:
            if only is not None and work not in only:
                continue
            ratio = statistics.median(match.turn("ours", work)["answer"] for _ in range(ROUNDS))
            yield what, against, f"{most}×", f"{ratio:.2f}×", ratio <= most
    finally:
        match.end()


if __name__ == "__main__":
    for row in rows(set(sys.argv[1:]) or None):
        print("| " + " | ".join(row[:4]) + (" |" if row[4] else " **missed** |"), flush=True)
