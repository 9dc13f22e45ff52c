"""The study of NumS, section 8.1, in counts: what each way to place block operations moves and holds at most.

    python -m tools.arrays_study                    # the table, for 16 nodes of 32 processes
    python -m tools.arrays_study --write docs/arrays-study.md

Nothing is computed: plans are made over block coordinates, for p = 512 processes, and their words and memory added
up.  Beside the three schedules stands a lower bound for the words a process must receive, whatever the schedule:

    X + Y, sum(X)     0, and the q-th part of one word that everybody has to hear of: 1
    X @ y             y is on one process: all others lack its d words
    X.T @ y, X.T @ Y  partial sums of r = d or d² words: (1 - 1/p)·r to add them up, as much again to tell all
    X @ Y.T           an m × n result over d: 2·d·sqrt(m·n/p) words are needed for mn/p results (Loomis and Whitney),
                      less the (m + n)·d/p that a process has
    Newton            as X.T @ Y, for d² + d words together
    MTTKRP            a box of n³/p elements of X has faces of at least (n³/p)^(1/3): 2·F of them in, one of sums out
    double            the result is n × F: (1 - 1/p)·n·F words of sums, 0 for the factors if they are co-located
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from bsp.arrays import build
from bsp.arrays.api import contraction, reductions
from bsp.arrays.array import Array, wrap
from bsp.arrays.expressions.graph import capture, leaf
from bsp.arrays.expressions.layout import Shape, asked
from bsp.arrays.kernels.elementwise import of_ufunc
from bsp.arrays.planning.plan import Plan
from bsp.arrays.planning.planner import planned as planned_graph
from bsp.cost.model import Machine
from bsp.cost.whole_file import write_text

NODES, WORKERS = 16, 32
HEAD = """# What placement is worth: the study of NumS, section 8.1, in counts

Made by `python -m tools.arrays_study --write docs/arrays-study.md`; nothing is computed for it but plans.
*Words in* and *words out* are what the busiest process receives and sends, *memory* what it receives and makes
(NumS's load), *in / bound* the words it receives over what any schedule must bring to some process (derived in
the head of `tools/arrays_study.py`).

"""
SCHEDULES = ("round-robin", "lshs", "patterns")


@dataclass(frozen=True)
class Case:
    """A row of the study: the expression, how it is written, and the words that a process must receive."""

    name: str
    sizes: str
    build: Callable[[int], list[Array]]
    bound: Callable[[int], float]


def dealt(shape: Shape, nprocs: int, grid: Shape) -> Array:
    """Return an array in blocks by `grid`, with coordinates but no values."""
    return wrap(leaf(shape, np.dtype(np.float64), asked(shape, nprocs, grid, None), {}))


ROWS, COLUMNS = 1 << 27, 1 << 10  # 1 TB
FEATURES = 256
SIDE = 1 << 12  # of the tensors: 512 GB
RANK = 100


def _rows(blocks: int = 0, columns: int = COLUMNS) -> Callable[[int], Array]:
    return lambda p: dealt((ROWS, columns), p, (blocks or p, 1))


def _newton(p: int) -> list[Array]:
    """Return the gradient and Hessian of a logistic regression at β, as in section 2.3, for arrays y and β."""
    x, y, beta = dealt((ROWS, FEATURES), p, (p, 1)), dealt((ROWS,), p, (p,)), dealt((FEATURES,), p, (1,))
    mu = 1 / (1 + wrap(build.apply(of_ufunc(np.exp), (-(x @ beta))._node)))
    return [x.T @ (mu - y), x.T @ ((mu * (1 - mu))[:, None] * x)]


def _square_rows(p: int) -> tuple[Array, Array]:
    m = 1 << 18
    return dealt((m, COLUMNS), p, (WORKERS, 1)), dealt((m, COLUMNS), p, (WORKERS, 1))


def _cases() -> list[Case]:
    d = COLUMNS
    return [
        Case("X + Y", "1 TB each, p blocks", lambda p: [_rows()(p) + _rows()(p)], lambda p: 0.0),
        Case("X + Y, p does not divide", "1 TB each, 500 blocks",
             lambda p: [_rows(500)(p) + _rows(500)(p)], lambda p: 0.0),
        Case("sum(X)", "1 TB", lambda p: [reductions.sum(_rows()(p))], lambda p: 1.0),
        Case("X @ y", "1 TB, y of 2^10", lambda p: [_rows()(p) @ dealt((d,), p, (1,))], lambda p: d),
        Case("X.T @ y", "1 TB, y of 2^27", lambda p: [_rows()(p).T @ dealt((ROWS,), p, (p,))],
             lambda p: 2 * d * (1 - 1 / p)),
        Case("X.T @ Y", "1 TB each", lambda p: [_rows()(p).T @ _rows()(p)], lambda p: d * d * (1 - 1 / p)),
        Case("X @ Y.T", "2^18 × 2^10 each, 32 blocks",
             lambda p: [contraction.matmul(_square_rows(p)[0], _square_rows(p)[1].T)],
             lambda p: 2 * d * (1 << 18) / p**0.5 - 2 * (1 << 18) * d / p),
        Case("Newton step", "2^27 × 256", _newton, lambda p: FEATURES * (FEATURES + 1) * (1 - 1 / p)),
        Case("MTTKRP ijk,if,jf->kf", "n = 2^12, F = 100, 8×8×8 blocks",
             lambda p: [_mttkrp(p)], lambda p: 3 * RANK * SIDE / p ** (1 / 3) - 3 * RANK * SIDE / p),
        Case("ijk,jkf->if", "n = 2^12, F = 100, 1×16×32 blocks",
             lambda p: [contraction.einsum("ijk,jkf->if", dealt((SIDE,) * 3, p, (1, NODES, WORKERS)),
                                           dealt((SIDE, SIDE, RANK), p, (NODES, WORKERS, 1)))],
             lambda p: SIDE * RANK * (1 - 1 / p)),
    ]  # fmt: skip


def _mttkrp(p: int) -> Array:
    """Return one term with all three factors, the sum over i and j of X·B·C; B and C in blocks as X's axes are."""
    x = dealt((SIDE,) * 3, p, (8, 8, 8))
    b, c = dealt((SIDE, RANK), p, (8, 1)), dealt((SIDE, RANK), p, (8, 1))
    return contraction.einsum("ijk,if,jf->kf", x, b, c)


@dataclass(frozen=True)
class Counts:
    """The loads of a plan: the most words a process receives, sends, and holds beside leaves (NumS's three loads)."""

    into: int
    out: int
    memory: int
    supersteps: int


def planned(arrays: Sequence[Array], nprocs: int, schedule: str, machine: Machine | None = None) -> Plan:
    """Return the plan of some arrays for p processes; needs no processes."""
    graph = capture([array._node for array in arrays])
    return planned_graph(graph, nprocs, machine or Machine(p=nprocs), 0, schedule)


def counted(plan: Plan) -> Counts:
    """Return the loads of a plan, added up over supersteps."""
    p = plan.nprocs
    into, out = np.zeros(p, np.int64), np.zeros(p, np.int64)
    for step in plan.supersteps:
        into, out = into + step.into, out + step.out
    memory = into.copy()
    for stage in plan.stages:
        memory += -(-stage.out.layout.held(p) * stage.out.dtype.itemsize // 8)
    return Counts(int(into.max()), int(out.max()), int(memory.max()), plan.boundaries)


def table(nodes: int = NODES, workers: int = WORKERS, cases: Sequence[Case] | None = None) -> str:
    """Return the study as a Markdown table."""
    p = nodes * workers
    lines = [
        f"p = {nodes} × {workers} = {p} processes; words of 8 bytes, of the busiest process, over all supersteps.",
        "",
        "| expression | size | schedule | words in | words out | memory | supersteps | in / bound |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for case in cases if cases is not None else _cases():
        bound = case.bound(p)
        for schedule in SCHEDULES:
            found = counted(planned(case.build(p), p, schedule))
            name, sizes = (case.name, case.sizes) if schedule == SCHEDULES[0] else ("", "")
            ratio = f"{found.into / bound:.2f}" if bound else ("-" if found.into else "none moved")
            lines.append(
                f"| {name} | {sizes} | {schedule} | {found.into:,} | {found.out:,} | {found.memory:,} | "
                f"{found.supersteps} | {ratio} |"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.arrays_study", description=__doc__, allow_abbrev=False,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--workers", type=int, default=WORKERS)
    parser.add_argument("--write", metavar="FILE.md", help="the document, made anew")
    asked_for = parser.parse_args(arguments)
    text = table(asked_for.nodes, asked_for.workers)
    if asked_for.write is None:
        print(text)
        return 0
    write_text(HEAD + text + "\n", asked_for.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
