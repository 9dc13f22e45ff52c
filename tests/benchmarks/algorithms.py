"""bsp.algorithms beside their peers: rows of docs/benchmarks.md (see `match`).

Fits say the objective and the gradient norm that each contender has reached, so that nobody wins by stopping early.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from match import BSPRUN, PEERS, Match, Row, compared, has, measured, on_two_ranks, ours

HERE = Path(__file__).parent
CONTENDER = str(HERE / "algorithms_contender.py")
NAMES = {
    "numpy": "NumPy, 2 threads", "hand": "mpi4py by hand", "dask": "Dask, 2 threads", "heat": "Heat, 2 ranks",
    "lbfgs": "scikit-learn lbfgs, 2 threads", "cholesky": "scikit-learn newton-cholesky, 2 threads",
    "glum": "glum, 2 threads", "dask_glm": "dask-glm lbfgs, 2 threads", "pdgemm": "ScaLAPACK pdgemm, 2 ranks",
}  # fmt: skip
WORKS: list[tuple[str, str, dict[str, float]]] = [
    ("newton", "logistic Newton, 6 iterations, 2^20 × 32", {"hand": 0.6}),
    ("qr", "QR, 2^20 × 32, well conditioned", {"heat": 1 / 3, "dask": 1 / 3, "numpy": 1 / 3}),
    ("ill", "QR, 2^20 × 32, condition 1e12", {"heat": 1.0, "dask": 1.0, "numpy": 1.0}),
    ("product", "`matmul`, 4096²", {"pdgemm": 1.0, "heat": 1.0, "dask": 1.0, "numpy": 1 / 0.95}),
]
FIT = "logistic to ‖g‖ ≤ 1e-6, 2^20 × 32"
FITS = {"lbfgs": 1.0, "cholesky": 1.0, "glum": 1.0, "dask_glm": 0.5, "heat": 0.5}
CSV_BYTES = int(os.environ.get("BSP_BENCH_CSV", str(1 << 30)))


def commands() -> dict[str, list[str]]:
    """Who takes part, and how each is started."""
    found = {
        "ours": ours(CONTENDER),
        "numpy": [sys.executable, CONTENDER],
        "hand": on_two_ranks(sys.executable, CONTENDER),
    }
    for name, module in (("sklearn", "sklearn"), ("glum", "glum"), ("dask", "dask.array"), ("dask_glm", "dask_glm")):
        if has(PEERS, module):
            found[name] = [PEERS, CONTENDER]
    if has(PEERS, "heat"):
        found["heat"] = on_two_ranks(PEERS, CONTENDER)
    with_mpi = shutil.which("mpirun", path="/usr/bin")
    if with_mpi and _loads("libscalapack-openmpi.so.2.2"):
        found["pdgemm"] = [
            with_mpi, "-n", "2", "--oversubscribe", sys.executable, str(HERE / "scalapack_contender.py"),
        ]  # fmt: skip
    return found


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def rows(only: set[str] | None = None) -> Iterator[Row]:
    """(what, against, at most, measured, met)."""
    match = Match(commands())
    try:
        for work, what, limits in WORKS:
            if only is None or work in only:
                yield from _work(match, work, what, limits)
        if only is None or "fit" in only:
            yield from _fits(match)
    finally:
        match.end()
    if only is None or "csv" in only:
        yield from _csv()


def _work(match: Match, work: str, what: str, limits: dict[str, float]) -> Iterator[Row]:
    medians, answers = measured(match, work)
    first = {who: answer[0] if isinstance(answer, list) else answer for who, answer in answers.items()}
    for who, answer in first.items():
        if answer == answer and abs(answer - first["ours"]) > 1e-8 * abs(first["ours"]):
            raise SystemExit(f"{work}: {who} says {answer}, ours {first['ours']}")
    for who, most in limits.items():
        if who in medians:
            yield compared(what, NAMES[who], most, medians["ours"], medians[who])
    if work == "ill":
        off = answers["ours"][1]
        yield "the same: ‖QᵀQ − I‖", "", "1e-14", f"{off:.1e}", off <= 1e-14


def _fits(match: Match) -> Iterator[Row]:
    """To a gradient of 1e-6: scikit-learn's two solvers are works of their own."""
    medians, answers = measured(match, "fit")
    for solver in ("lbfgs", "cholesky"):
        if "sklearn" in match.running:
            times, told = measured(match, solver)
            medians[solver], answers[solver] = times["sklearn"], told["sklearn"]
    best = min(objective for objective, _ in answers.values())
    for who, most in FITS.items():
        if who in medians:
            (_, mine), (objective, theirs) = answers["ours"], answers[who]
            more = f"; ‖g‖ {mine:.0e}, {theirs:.0e}; objective {objective - best:+.0e}"
            yield compared(FIT, NAMES[who], most, medians["ours"], medians[who], more)


# ------------------------------------------------------------------------------------- a file


def _csv() -> Iterator[Row]:
    """From a file of a gigabyte to a fitted model, the process's start included."""
    if not has(PEERS, "pandas") or not has(PEERS, "sklearn"):
        return
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data.csv")
        _written(path)
        told = os.path.join(folder, "fit.json")
        command = [str(BSPRUN), "-p", "2", "-n", "2", "-m", "bsp.algorithms.glm", path]
        contenders = {
            "ours": [*command, "--family", "binomial", "--target", "y", "--tol", "1e-6", "--json", told],
            "pandas": [PEERS, str(HERE / "csv_contender.py"), path, "c"],
            "pyarrow": [PEERS, str(HERE / "csv_contender.py"), path, "pyarrow"],
        }
        times: dict[str, list[float]] = {}
        for k in range(4):
            for who, each in contenders.items():
                began = time.perf_counter()
                subprocess.run(each, check=True, stdout=subprocess.DEVNULL, timeout=600)
                if k:  # the first brings the file into memory
                    times.setdefault(who, []).append(time.perf_counter() - began)
        medians = {who: statistics.median(each) for who, each in times.items()}
        with open(told) as file:
            assert json.load(file)["converged"]
        size = os.path.getsize(path) / 1e9
        what = f"CSV of {size:.2g} GB to a fitted logistic model, start included"
        yield compared(what, "pandas + scikit-learn", 0.5, medians["ours"], medians["pandas"])
        yield compared(what, "pandas with pyarrow + scikit-learn", 0.5, medians["ours"], medians["pyarrow"])


def _written(path: str) -> None:
    """20 columns of six digits and an outcome."""
    import numpy as np
    import pandas as pd

    rng = np.random.default_rng(0)
    line = 20 * 10 + 2
    left = CSV_BYTES // line
    names = [f"x{k}" for k in range(20)]
    truth = np.cos(np.arange(20))
    with open(path, "w") as file:
        first = True
        while left > 0:
            x = rng.normal(size=(min(left, 200_000), 20)).round(6)
            frame = pd.DataFrame(x, columns=names)
            frame["y"] = (rng.random(len(x)) < 1 / (1 + np.exp(-0.3 * x @ truth))).astype(int)
            frame.to_csv(file, index=False, header=first)
            first, left = False, left - len(x)


if __name__ == "__main__":
    for row in rows(set(sys.argv[1:]) or None):
        print("| " + " | ".join(row[:4]) + (" |" if row[4] else " **missed** |"), flush=True)
