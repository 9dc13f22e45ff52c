"""The declared costs of factoring: words and supersteps exactly, operations to leading order, memory as a bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.abstract import table
from bsp.arrays.linalg import row_blocks
from bsp.arrays.linalg.row_blocks import Factors, RowBlocks
from bsp.arrays.procedures import DType, world
from bsp.cost.model import Cost, Machine
from bsp.declared import Costs, Totals

METHODS = ("direct", "indirect", "cholesky2")


def cost(m: int, n: int, p: int, method: str, machine: Machine, itemsize: int = 8) -> Cost:
    """Return the cost of qr(A, method), A of shape (m, n), m >= n, by rows on p processes.

    direct: W = 6(m/p)n² + T, H and S those of one tree, M = 2(m/p)n + P: reflections and Q.
    indirect: W = 6(m/p)n² + 2T, H and S those of two trees, M = (m/p)n + P.
    cholesky2: W = 4(m/p)n², H and S those of two sums of n(n+1)/2 words, M = (m/p)n + 8n².
    auto: the most it can take: it looks at both AᴴA's and R before it is certain that reflections are needed.
    A tree of arity a, p = a^k: T = 4akn³, H = (a-1)n² and S = 1 at each of its k levels; where p is no power two
    supersteps more, n² there and n² back (2n² with Q).  A sum takes what `allreduce` does.
    P, of what is factored at once: pieces of b = max(1024, 8n) rows, and their R's: 2bn + 2(m/p)n²/b + 8n² words.
    H is exact where every process has n rows, else an upper bound.  Raises ValueError for another method.
    """
    if method not in (*METHODS, "auto"):
        raise ValueError(f"cost: method={method!r} is none of {', '.join((*METHODS, 'auto'))}")
    totals = Totals(p, machine)
    counts = np.array([m * (k + 1) // p - m * k // p for k in range(p)])[::-1]  # the fullest first
    _Way(totals, np.maximum(counts, n) if p > 1 else counts, n, np.dtype(f"f{itemsize}"), 0).take(method)
    return totals.cost


def of_factored(costs: Costs, rows: RowBlocks, dtype: DType, method: str, name: str) -> tuple[Factors, str, str, float]:
    """Declare the cost of `factoring.factored`; of "auto" the longest way there is."""
    here = world()
    m, n = rows.layout.shape
    way = _Way(costs, row_blocks.rows_held(rows.layout, here.nprocs), n, dtype, here.pid)
    way.take(method)
    k = min(m, n)
    q = RowBlocks(rows.layout, {at: costs.array((block.shape[0], k), dtype) for at, block in rows.blocks.items()})
    taken = "direct" if method == "auto" else method
    return Factors(q, costs.array((k, n), dtype)), taken, f"{taken}: a run without values takes the longest way", np.nan


def gram_first(m: int, n: int, p: int, machine: Machine, itemsize: int = 8) -> bool:
    """Return whether Cholesky, if it is exact enough, is cheaper than reflections, which always are."""
    found = [cost(m, n, p, method, machine, itemsize).price(machine) for method in ("cholesky2", "direct")]
    return found[0] < found[1]


class _Way:
    """The declared steps of each method on one process; `counts` are the rows of each process."""

    def __init__(self, costs: Costs, counts: np.ndarray, n: int, dtype: DType, pid: int) -> None:
        self.costs, self.counts, self.n, self.dtype, self.pid = costs, counts, n, dtype, pid
        self.m = int(counts.sum())
        self.own = int(counts[pid]) if len(counts) > 1 else int(counts[0])
        self.pass_flops = float(self.own) * n * n * table.complexity(dtype)
        self.block = self.own * n * dtype.itemsize // 8
        self.square = 8 * n * n * dtype.itemsize // 8
        self.piece = row_blocks.pieces_words(self.own, n, dtype.itemsize)

    def take(self, method: str) -> None:
        """Declare all steps of a method."""
        if method == "auto" and not gram_first(
            self.m, self.n, len(self.counts), self.costs.machine, self.dtype.itemsize
        ):
            method = "direct"
        if method == "direct":
            with self.costs.holding(2 * self.block + self.piece):
                self.tree(True)
        elif method == "indirect":
            with self.costs.holding(self.block + self.piece):
                self.tree(False)
                self.refine()
        elif method == "cholesky2":
            with self.costs.holding(self.block + self.square):
                self.gram()
                self.again()
        else:
            self.costs.at_most()
            with self.costs.holding(2 * self.block + self.piece):
                self.gram()
                self.again()
                self.tree(False)
                self.refine()
                self.tree(True)

    def tree(self, want_q: bool) -> None:
        """Declare reflections, and R's factored in a tree."""
        row_blocks.declared_tree(self.costs, self.counts, self.n, self.dtype, want_q, pid=self.pid)

    def gram(self) -> None:
        """Declare AᴴA, its sum, and its Cholesky factor."""
        self.costs.squaring(self.pass_flops, self.n, nbytes=8 * self.block)
        if len(self.counts) > 1:
            self.costs.allreduce(self.n * (self.n + 1) // 2, self.dtype)

    def divide(self) -> None:
        """Declare the division of rows by a triangle."""
        self.costs.substituting(self.pass_flops, self.n, nbytes=2 * 8 * self.block)

    def again(self) -> None:
        """Declare the second pass of CholeskyQR2."""
        self.divide()
        self.gram()
        self.divide()

    def refine(self) -> None:
        """Declare A·R⁻¹ and its refinement."""
        self.divide()
        self.tree(False)
        self.divide()


def of_nothing(costs: Costs, *args: Any, **kwargs: Any) -> None:
    """Declare that a check of values costs nothing."""
