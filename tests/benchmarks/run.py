"""`make bench`: every speed and memory claim, measured side by side, as the table of docs/benchmarks.md.

Ratios are medians over rounds in which both sides take turns in one job; in brackets the quartiles.
Nothing else should run on the machine meanwhile.  `--write` puts it there; `--only nonstop cost` measures these parts
and leaves the others as they are.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import cost
import kernels
import nonstop
import nonstop_hosts
import scripts
import several_hosts
import sparse_arrays

import algorithms
import arrays
from bsp.command.launch import Launch
from bsp.host import find_mpiexec

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "benchmarks.md"
BSPRUN = Path(sys.executable).with_name("bsprun")
BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"

Row = tuple[str, str, str, str, bool]  # what, against what, target, measured, met

SPEED = [
    ("empty", "empty superstep", "mpi4py `Alltoall` of counts + empty `Alltoallv`", 1.5),
    ("word", "8 B `put` each way", "mpi4py `Isend`/`Irecv` of the word each way", 5),
    ("added", '`put` of 100 float64 with `op="add"`, each way', "mpi4py `Isend`/`Irecv` of copies, and an addition", 5),
    ("column", "a column of 100 float64 put into a border, each way", "mpi4py `Isend`/`Irecv` of copies", 3),
    ("number", "`allreduce(1.0)`", "mpi4py's `allreduce(1.0)`", 1.5),
    ("scalar", "`allreduce(x.sum())`, a NumPy scalar", "mpi4py's `allreduce(x.sum())`", 1.5),
    ("few", "`allreduce` of 3 float64", "mpi4py `Allreduce` into an array that is there", 5),
    ("message", "a tuple sent each way", "mpi4py's `isend` and `recv`", 1.5),
    ("get", "`get` of a word each way", "mpi4py `Isend`/`Irecv` of a request and a reply", 5),
    ("vector", "`allreduce` of 1,000,000 float64", "mpi4py `Allreduce` into an array that is there", 1.5),
    ("both 1 MiB", "1 MiB `put` each way, unbuffered", "mpi4py `Isend`/`Irecv` of the blocks", 1.2),
    ("both 4 MiB", "4 MiB `put` each way, unbuffered", "the same", 1.2),
    ("both buffered 1 MiB", "1 MiB `put` each way, buffered", "the same", 2.3),
    ("both buffered 4 MiB", "4 MiB `put` each way, buffered", "the same", 2.3),
    ("put 1 MiB", "1 MiB `put`, unbuffered", "mpi4py `Isend`/`Irecv` of the block", 1.2),
    ("put 16 MiB", "16 MiB `put`, unbuffered", "mpi4py `Isend`/`Irecv` of the block", 1.2),
    ("buffered 1 MiB", "1 MiB `put`, buffered", "the same", 2.3),
    ("buffered 16 MiB", "16 MiB `put`, buffered", "the same", 2.3),
    ("put_each", "`put_each` of 1,000,000 float64 to random places", "NumPy masks, int32 positions, `Alltoallv`", 1.1),
    ("scalar puts", "10,000 scalar puts in a loop", "10,000 interleaved `isend`/`recv` of a float", 0.6),
]

# p, rounds, work, what, at most in milliseconds
WIDE = [
    (64, 101, "put", "8 B `put` to the neighbour", 0.25),
    (64, 101, "allreduce", "`allreduce(1.0)`", 0.35),
    (512, 15, "exscan", "`exscan(1)`", 10.0),
    (512, 5, "alltoall", "`alltoall` of a number for each", 150.0),
    (2048, 7, "exscan", "`exscan(1)`", 50.0),
]


def ask(script: str, nprocs: int, elements: int, *arguments: str) -> Any:
    """What a measuring program prints, as JSON."""
    command = [str(BSPRUN), "-p", str(nprocs), "-n", str(elements), str(HERE / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    return json.loads(done.stdout)


def quartiles(values: list[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile."""
    low, middle, high = statistics.quantiles(values, n=4)
    return low, middle, high


def ratios(repeats: int) -> dict[str, list[float]]:
    """Ours over theirs for each work, from all rounds of several jobs."""
    found: dict[str, list[float]] = {name: [] for name, *_ in SPEED}
    for _ in range(repeats):
        for name, times in ask("contenders.py", 2, 2, *found).items():
            found[name] += [ours / theirs for ours, theirs in zip(times["ours"], times["theirs"], strict=True)]
    return found


def start_up(rounds: int) -> list[float]:
    """`bsprun -p 64` of an empty script over `mpiexec -n 2` of a Python that imports mpi4py and NumPy."""
    empty = HERE / "empty.py"
    mpiexec = find_mpiexec()
    assert mpiexec is not None
    raw = [mpiexec, "-n", "2", sys.executable, "-c", "from mpi4py import MPI; import numpy"]
    root = {key: value for key, value in Launch(2, 2, []).environment().items() if "ROOT" in key}
    found = []
    for k in range(rounds + 1):
        times = {}
        for name, command in (("ours", [str(BSPRUN), "-p", "64", str(empty)]), ("theirs", raw)):
            began = time.perf_counter()
            subprocess.run(command, check=True, env=os.environ | root, timeout=100)
            times[name] = time.perf_counter() - began
        if k:  # the first round warms the file cache
            found.append(times["ours"] / times["theirs"])
    return found


def speed(repeats: int) -> Iterator[Row]:
    """Yield the rows of `SPEED`."""
    found = ratios(repeats)
    for name, what, against, most in SPEED:
        low, middle, high = quartiles(found[name])
        yield what, against, f"{most}×", f"{middle:.2f}× ({low:.2f} to {high:.2f})", middle <= most


def quick() -> Iterator[Row]:
    """Yield the main ratios."""
    yield from speed(1)
    yield from arrays.rows({"hypotenuse", "gram", "outer", "rows", "by mask", "argmax", "running", "scalars", "small"})


def runtime(repeats: int) -> Iterator[Row]:
    """Yield the rows of the runtime."""
    yield from speed(repeats)
    two = [t for _ in range(repeats) for t in ask("contenders.py", 2, 2, "many")["many"]["ours"]]
    many = [t for _ in range(repeats) for t in ask("contenders.py", 64, 2, "many")["many"]["ours"]]
    more = (statistics.median(many) - statistics.median(two)) * 1e3
    yield ("64 processes on 2 elements, empty superstep", "2 processes", "0.1 ms more", f"{more:.3f} ms more",
           more <= 0.1)  # fmt: skip
    for p, rounds, work, what, at_most in WIDE:
        taken = ask("wide.py", p, 2, str(rounds), work)[work]
        yield f"{p} processes on 2 elements: {what}", "", f"{at_most:g} ms", f"{taken:.3g} ms", taken <= at_most
    low, middle, high = quartiles(start_up(7))
    yield ("start-up of `bsprun -p 64`", "`mpiexec -n 2` of Python, mpi4py, NumPy", "1.5×",
           f"{middle:.2f}× ({low:.2f} to {high:.2f})", middle <= 1.5)  # fmt: skip
    imported = min(_import_time() for _ in range(5))
    yield "`import bsp; bsp.process()`", "", "0.3 s", f"{imported:.2f} s", imported <= 0.3

    idle = ask("memory.py", 65, 1, "idle") - ask("memory.py", 1, 1, "idle")
    yield "64 idle processes more in an element", "", "5 MiB", f"{idle:.1f} MiB", idle <= 5
    for way, most in (("buffered", 1), ("unbuffered", 0)):
        extra = ask("memory.py", 2, 2, "put", "256", way)
        yield (f"256 MiB `put`, {way}: memory beyond the program's own", "", f"{most} copies",
               f"{extra / 256:.2f} copies", extra <= 256 * most + 16)  # fmt: skip
    for elements in (2, 4):
        for way in ("put", "send"):
            extra = ask("memory.py", elements, elements, "exchange", "192", way)
            yield (f"192 MiB out and in by `{way}` on {elements} elements: memory beyond the program's own", "",
                   "2 × 192 + 64 MiB", f"{extra:.0f} MiB", extra <= 2 * 192 + 64)  # fmt: skip


# by name in `--only`: heading, rows
PARTS: dict[str, tuple[str, Callable[[int], Iterable[Row]]]] = {
    "runtime": ("The runtime", runtime),
    "cost": ("Predictions and choices", lambda repeats: cost.rows()),
    "nonstop": ("Nonstop jobs", lambda repeats: chain(nonstop.rows(), nonstop_hosts.rows())),
    "arrays": ("Arrays", lambda repeats: arrays.rows()),
    "kernels": ("Loops over elements", lambda repeats: kernels.rows()),
    "scripts": ("Scripts for NumPy", lambda repeats: scripts.rows()),
    "algorithms": ("Algorithms", lambda repeats: algorithms.rows()),
    "sparse": ("Sparse arrays and graphs", lambda repeats: sparse_arrays.rows()),
    "hosts": ("Several hosts", lambda repeats: several_hosts.rows()),
}


def table(heading: str, rows: Iterable[Row]) -> str:
    """Measure and print rows; return their table with a heading."""
    lines = [f"## {heading}", "", "| what | against | at most | measured |", "| --- | --- | --- | --- |"]
    for what, against, most, measured, met in rows:
        lines.append(f"| {what} | {against} | {most} | {measured}{'' if met else ' **missed**'} |")
        print(lines[-1], flush=True)
    return "\n".join(lines)


def versions() -> str:
    """The versions of what we are compared with."""
    names = ("mpi4py", "numpy", "scipy", "pandas", "scikit-learn", "statsmodels", "dask", "glum", "networkx", "igraph")
    return ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in names
        if importlib.util.find_spec(name.replace("scikit-learn", "sklearn"))
    )


def _import_time() -> float:
    code = "import time; t = time.perf_counter(); import bsp; bsp.process(); print(time.perf_counter() - t)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Measure, print, and with --write put the table into docs/benchmarks.md."""
    parser = argparse.ArgumentParser(description="Measure every claim of the table in docs/benchmarks.md.")
    parser.add_argument("--repeats", type=int, default=3, help="jobs of 15 rounds each (default 3)")
    parser.add_argument("--write", action="store_true", help="replace the table in docs/benchmarks.md")
    parser.add_argument("--only", nargs="+", choices=tuple(PARTS), default=tuple(PARTS), help="parts to measure")
    parser.add_argument("--quick", action="store_true", help="the main ratios, in three minutes; nothing is written")
    options = parser.parse_args()
    print(f"contenders: {versions()}", flush=True)
    if options.quick:
        table("Main ratios", quick())
        return
    measured = {PARTS[name][0]: table(PARTS[name][0], PARTS[name][1](options.repeats)) for name in options.only}
    if options.write:
        before, rest = PAGE.read_text().split(BEGIN)
        there, after = rest.split(END)
        known = {
            part.partition("\n")[0].removeprefix("## "): part.strip()
            for part in re.split(r"^(?=## )", there, flags=re.M)
        }
        parts = [(known | measured).get(heading, "") for heading, _ in PARTS.values()]
        PAGE.write_text(f"{before}{BEGIN}\n" + "\n\n".join(filter(None, parts)) + f"\n{END}{after}")


if __name__ == "__main__":
    main()
