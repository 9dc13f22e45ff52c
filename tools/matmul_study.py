"""Words and memory of every method beside the lower bounds, for p from 4 to 4096; nothing is multiplied."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from math import sqrt

from bsp.algorithms.matmul import Counted, cost
from bsp.algorithms.matmul.bounds import loomis_whitney, memory_dependent, memory_independent
from bsp.algorithms.matmul.schedules import SHIFTED, SPREAD
from bsp.arrays.errors import PlanTooLarge
from bsp.cost.model import WORD, Machine
from bsp.cost.whole_file import write_text

SIDE = 8192
PROCESSES = tuple(2**e for e in range(2, 13))
METHODS: tuple[int | str, ...] = (1, 2, 4, "recursive", "summa")
HEAD = """# Matrix multiplication: words against memory

Made by `python -m tools.matmul_study --write docs/matmul-study.md`; nothing is multiplied for it, all is
counted by `bsp.algorithms.matmul.cost`, whose words the tests find in runs.

*Words* is H, the h-relations of all supersteps added; *memory* what the fullest process holds, its blocks of A, B and
C among it; both in multiples of n²/p, a process's share of one matrix.  Each method is on the grid that the machine
below makes cheapest, so one can be cheaper in words than its formula where p is no square or cube.  *recursive* has
half way (in the logarithm) between the memory that methods 2 and 4 take.

Lower bounds, in the same unit (`algorithms/matmul/bounds.py`): *LW*, by Loomis and Whitney, of all words that a process
must read or add elsewhere (H / LW: what one process sends another receives, so no method is below 1); *ITT*, Irony,
Toledo and Tiskin's without regard to memory; *ITT(M)*, theirs for the memory that the method takes (0 where that is so
large that it says nothing).

"""
LIMITED = """
## Other shapes, and less memory

`matmul(A, B, memory=...)` for an m × k by a k × n matrix.  The *limit* is in multiples of a process's share of A, B and
C together, (mk + kn + mn)/p, and so is the *memory* that is taken.  *Stays* is the matrix whose bricks a process keeps
through all rounds.  The schedules are those of the machine above, with words ten times as dear: so words decide.

*H / bound*: the bound is the larger of *LW* and 2mnk/(p·√M), M being the limit.  From 1.75 shares on, words are within
1.3 of it, whatever the shape; with less, within 1.4 of the same bound for what the blocks of A and B leave of M.  The
tests hold both for shapes other than these, for p from 3 to 512, and on a machine on which nothing but words costs.

"""
PARTS = """
### Where the words go

The square product above, in multiples of n²/p.  *Brick* is q, the number of processes that share a brick of the matrix
that stays; *A* and *B* are words of operands that a process receives, *C* those of partial sums.  *Uneven*: the rest of
H, because pieces of a round do not divide evenly and processes do not all send, or receive, the most in the same
superstep.  Operands made in the layout of the schedule are not moved before; others take one more superstep, at most
2n²/p words.

"""
REASONS = """
Bricks shared by q processes make 2n²/√(pq) + (q - 3)n²/p words, in as many rounds as one likes, if the grid is near a
cube and divides evenly.  A process holds its blocks of A and B, q blocks of C, and the pieces of a round, so q is at
most 3L - 2 for L shares of memory.  q is a whole number, and each piece takes some memory: that is what separates the
schedules from the bound in little memory.

- L = 1.25: q = 1, 43.3 words; the bound is 23.4.  A brick that took all the memory there is, q = 1.75, would make 33.0:
  1.41 times the bound.
- L = 1.5: q = 2, 31.0 words; the bound is 21.3.  q = 2.5 would make 28.1: 1.32 times the bound.

So no schedule that keeps the operands in their places and one brick through all rounds is within 1.3 of the bound in
these two.  One whose bricks of A shrink while the sums of C arrive would need about 1.3 and 1.25 times the bound in
pieces of no size; with two sizes of bricks, 2 and 1 for L = 1.25, 3 and 2 for L = 1.5, and pieces of a tenth of n²/p,
about 1.6 and 1.43.  It is not built.
"""
SHAPES = {
    "square": (4096, 4096, 4096),
    "panel": (256, 262144, 256),
    "tall": (262144, 256, 256),
    "outer product": (65536, 256, 65536),
    "matrix by 8 vectors": (16384, 16384, 8),
}
LIMITS = (1.1, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 5.0, 8.0)
SOME = 512  # processes
STAYS = {"k": "C", "n": "A", "m": "B"}  # by the side that rounds are pieces of


def machine(p: int) -> Machine:
    """Return the machine of the study."""
    return Machine(p=p, r=1e10, g=50.0, L=1e5, o=1e3, name="of the study", kind="imagined")


def table(side: int = SIDE, processes: Sequence[int] = PROCESSES) -> str:
    """Return the study as a Markdown table."""
    one = machine(1)
    lines = [
        f"n = {side}, float64; g = {one.g:g}, L = {one.L:g}, o = {one.o:g} flop-times.",
        "",
        "| p | method | grid | rounds | words | supersteps | memory | LW | H / LW | ITT | ITT(M) |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for p in processes:
        share = side * side / p
        bound, without = loomis_whitney(side, side, side, p), memory_independent(side, side, side, p)
        needed = [cost(side, side, side, p, method, None, machine(p)).memory for method in (2, 4)]
        between = WORD * (needed[0] * needed[1]) ** 0.5
        for method in METHODS:
            limit = max(between, WORD * min(needed)) if method == "recursive" else None
            found = cost(side, side, side, p, method, limit, machine(p))
            s = found.schedule
            dependent = memory_dependent(side, side, side, p, found.memory)
            rounds = len(s.panels) if s.way not in (SHIFTED, SPREAD) else s.rounds
            lines.append(
                f"| {p} | {method} | {s.rows}×{s.columns}×{s.layers} | {rounds} | {found.words / share:.2f} | "
                f"{found.supersteps} | {found.memory / share:.2f} | {bound / share:.2f} | {found.words / bound:.2f} | "
                f"{without / share:.2f} | {dependent / share:.2f} |"
            )
    return "\n".join(lines)


def within(m: int, k: int, n: int, limit: float) -> Counted:
    """Return the cost of a product in so many shares of A, B and C, where words decide."""
    memory = WORD * limit * (m * k + k * n + m * n) / SOME
    return cost(m, k, n, SOME, "auto", memory, replace(machine(SOME), g=10 * machine(SOME).g))


def limited() -> str:
    """Return, as Markdown, the effect of memory limits on products of several shapes."""
    lines = [
        f"p = {SOME}.",
        "",
        "| product | limit | grid | rounds | stays | words | supersteps | memory | H / LW | H / bound |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, (m, k, n) in SHAPES.items():
        share, least = (m * k + k * n + m * n) / SOME, loomis_whitney(m, k, n, SOME)
        for limit in LIMITS:
            label = f"| {name}, {m}×{k} by {k}×{n} | {limit:g} |"
            try:
                found = within(m, k, n, limit)
            except PlanTooLarge:
                lines.append(f"{label} none fits | | | | | | | |")
                continue
            s = found.schedule
            stays = "–" if s.rounds == 1 else STAYS[s.along]
            bound = max(least, 2 * m * n * k / SOME / sqrt(limit * share))
            lines.append(
                f"{label} {s.rows}×{s.columns}×{s.layers} | {s.rounds} | {stays} | {found.words} | "
                f"{found.supersteps} | {found.memory / share:.2f} | {found.words / least:.2f} | "
                f"{found.words / bound:.2f} |"
            )
    return "\n".join(lines)


def parts() -> str:
    """Return, as Markdown, the words of a square product by the matrix that they are of."""
    m, k, n = SHAPES["square"]
    unit = m * n / SOME
    lines = [
        "| limit | grid | brick | A | B | C | uneven | words | bound |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for limit in LIMITS:
        found = within(m, k, n, limit)
        s = found.schedule
        sharing = {"A": s.columns, "B": s.rows, "C": s.layers}
        received = [(q - 1) * m * n / s.processes / unit for q in sharing.values()]
        bound = max(loomis_whitney(m, k, n, SOME), 2 * m * n * k / SOME / sqrt(limit * 3 * unit)) / unit
        words = found.words / unit
        lines.append(
            f"| {limit:g} | {s.rows}×{s.columns}×{s.layers} | {sharing[STAYS[s.along]]} | "
            + " | ".join(f"{each:.2f}" for each in (*received, words - sum(received), words, bound))
            + " |"
        )
    return "\n".join(lines)


def document(side: int = SIDE) -> str:
    """Return the whole study."""
    return HEAD + table(side) + "\n" + LIMITED + limited() + "\n" + PARTS + parts() + "\n" + REASONS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tools.matmul_study", description=__doc__, allow_abbrev=False)
    parser.add_argument("--side", type=int, default=SIDE, metavar="N", help=f"of the matrices (default {SIDE})")
    parser.add_argument("--write", metavar="FILE.md", help="the document, made anew")
    asked = parser.parse_args(arguments)
    if asked.side < 1:
        parser.error(f"--side {asked.side}: 1 or more")
    if asked.write is None:
        print("\n\n".join([table(asked.side), limited(), parts()]))
    else:
        write_text(document(asked.side), asked.write)
    return 0


if __name__ == "__main__":
    sys.exit(main())
