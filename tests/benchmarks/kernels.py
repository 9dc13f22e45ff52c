"""bsp.parallel beside NumPy: rows of docs/benchmarks.md for kernels with loops over elements (see `match`).

Both carry out the array statements that the loops have become, NumPy in one process with two threads: about what one
would write by hand for it.  Each call is of copies, whose time counts for both.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from match import Match, Row, compared_works, ours

CONTENDER = str(Path(__file__).with_name("kernels_contender.py"))
NAMES = {"numpy": "NumPy, 2 threads, the same array statements"}

# kernel, what it is: at most NumPy's time
KERNELS: list[tuple[str, str]] = [
    ("gemm", "gemm, 600²"),
    ("atax", "atax, 3000²"),
    ("bicg", "bicg, 3000²"),
    ("gesummv", "gesummv, 2500²"),
    ("mvt", "mvt, 3000²"),
    ("averages", "rows' sums in a scalar, divided, 3000²"),
    ("unit_rows", "rows divided by their norms in place, 3000²"),
    ("softmax_of_rows", "softmax of rows by scalars, 3000 × 1000"),
    ("jacobi_1d", "jacobi-1d, 2^22, 5 steps"),
    ("jacobi_2d", "jacobi-2d, 2048², 5 steps"),
    ("red_black_2d", "red-black sweep, 2048²"),
    ("steps", "every second and third element, 2^22"),
    ("heat_3d", "heat-3d, 160³"),
    ("fdtd_2d", "fdtd-2d, 1500², 5 steps"),
    ("covariance", "covariance, 2000 × 48"),
    ("correlation", "correlation, 3000 × 64"),
    ("doitgen", "doitgen, 32 × 32 × 96"),
    ("conv2d", "conv2d, 1500², 3 × 3"),
    ("mandelbrot", "mandelbrot, 800², 10 steps"),
    ("forces", "nbody, forces on 1500"),
    ("distances", "distances of 20,000 to 16 in 8 dimensions"),
    ("k_means", "k-means, 20,000 in 4 dimensions, 8 centres, 3 rounds"),
    ("mlp", "mlp, 4000 × 512 × 512 × 64"),
    ("channel", "channel flow, 1000², at most 8 steps"),
    ("clipped_energy", "clipped energy, 2^22"),
]


def rows(only: set[str] | None = None) -> Iterator[Row]:
    """(what, against, at most, measured, met)."""
    match = Match({"ours": ours(CONTENDER), "numpy": [sys.executable, CONTENDER]})
    works = [(work, f"`@bsp.parallel`: {what}", {"numpy": 1.0}) for work, what in KERNELS]
    try:
        yield from compared_works(match, works, NAMES, only, lambda who: 1e-9)
    finally:
        match.end()


if __name__ == "__main__":
    for row in rows(set(sys.argv[1:]) or None):
        print("| " + " | ".join(row[:4]) + (" |" if row[4] else " **missed** |"), flush=True)
