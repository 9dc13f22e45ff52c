"""bsp.arrays.sparse, krylov and graphs beside their peers: rows of docs/benchmarks.md (see `match`)."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from match import PEERS, Match, Row, compared_works, has, ours

HERE = Path(__file__).parent
CONTENDER = str(HERE / "sparse_contender.py")
PETSC = Path("/usr/lib/petscdir/petsc3.18/x86_64-linux-gnu-real")  # of Debian's python3-petsc4py
NAMES = {
    "scipy": "scipy, 1 thread", "petsc": "PETSc, 2 ranks", "networkx": "networkx's scipy version", "igraph": "igraph",
}  # fmt: skip
# what, and against whom at most how many times their time
WORKS: list[tuple[str, str, dict[str, float]]] = [
    ("mesh", "sparse `A @ x`, 2-D mesh of 2000²", {"scipy": 1 / 1.7, "petsc": 1.2}),
    ("power law", "sparse `A @ x`, RMAT of scale 20", {"scipy": 1 / 1.7, "petsc": 1.2}),
    ("cg", "CG, 200 iterations, 2-D mesh of 2000²", {"scipy": 0.6, "petsc": 1.2}),
    ("product", "sparse `A @ A`, 1 % of 20,000²", {"scipy": 0.6}),
    ("pagerank", "PageRank, 20 rounds, RMAT of scale 20", {"igraph": 1.0}),
    ("ranks", "PageRank, 20 rounds, RMAT of scale 17", {"networkx": 1 / 10}),
    ("bfs", "breadth-first search, RMAT of scale 20", {"scipy": 1.0}),
]


def commands() -> dict[str, list[str]]:
    """Who takes part, and how each is started."""
    found = {"ours": ours(CONTENDER), "scipy": [sys.executable, CONTENDER]}
    for name in ("networkx", "igraph"):
        if has(PEERS, name):
            found[name] = [PEERS, CONTENDER]
    mpirun = shutil.which("mpirun", path="/usr/bin")
    if mpirun and PETSC.exists():
        os.environ["PETSC_DIR"] = str(PETSC)
        found["petsc"] = [mpirun, "--oversubscribe", "-n", "2", "/usr/bin/python3", CONTENDER]
    return found


def rows(only: set[str] | None = None) -> Iterator[Row]:
    """(what, against, at most, measured, met)."""
    match = Match(commands())
    try:
        yield from compared_works(match, WORKS, NAMES, only, lambda who: 1e-6)
    finally:
        match.end()
