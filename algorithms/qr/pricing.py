"""The declared costs of factoring: words and supersteps exactly, operations to leading order, memory as a bound."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from bsp.abstract import table
from bsp.abstract.work import Work
from bsp.arrays.linalg import row_blocks
from bsp.arrays.linalg.row_blocks import Factors, RowBlocks
from bsp.arrays.procedures import Axis, DType, layout_of, world
from bsp.cost.model import DEFAULT, Cost, Machine
from bsp.declared import Costs, Totals

METHODS = ("direct", "indirect", "cholesky", "cholesky2")
TRIED = 0.25  # of the price of reflections, up to which AᴴA is looked at, though its second pass may not pay


def cost(
    m: int, n: int, p: int, method: str = "auto", machine: Machine | None = None, itemsize: int = 8
) -> Cost:  # fmt: skip
    """Return the cost of qr(A, method), A of shape (m, n), m >= n, by rows on p processes.

    direct: W = 6(m/p)n² + T, H and S those of one tree, M = 2(m/p)n + P: reflections and Q.
    indirect: W = 6(m/p)n² + 2T, H and S those of two trees, M = (m/p)n + P.
    cholesky: W = 2(m/p)n², H and S those of a sum of n(n+1)/2 words, M = (m/p)n + 8n².
    cholesky2: W = 4(m/p)n², H and S those of two sums of n(n+1)/2 words, M = (m/p)n + 8n².
    auto: the most it can take: it looks at both AᴴA's and R before it is certain that reflections are needed.
    A tree of arity a, p = a^k: T = 4akn³, H = (a-1)n² and S = 1 at each of its k levels; where p is no power two
    supersteps more, n² there and n² back (2n² with Q).  A sum takes what `allreduce` does.
    P, of what is factored at once: pieces of b = max(1024, 8n) rows, and their R's: 2bn + 2(m/p)n²/b + 8n² words.
    H is exact where every process has n rows, else an upper bound.  Raises ValueError for another method.
    machine : decides how sums and trees go; None: the default one.
    """
    if method not in (*METHODS, "auto"):
        raise ValueError(f"cost: method={method!r} is none of {', '.join((*METHODS, 'auto'))}")
    return _declared(Totals(p, machine or DEFAULT), m, n, method, itemsize)


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


class _Timed(Totals):
    """Totals in which work counts as the flop-times that the machine's measured rates say, if it has them."""

    def _work(self, flops: Mapping[str, float], nbytes: float) -> None:
        """Add up the times of flops and bytes."""
        rates, work = self.machine.rates, Work(**dict[str, Any](flops), bytes=nbytes)
        seconds = work.seconds({**rates, "bytes": rates["bandwidth"]}) if rates else work.flops / self.machine.r
        self.cost += Cost(seconds * self.machine.r, 0, 0)


@lru_cache(maxsize=1024)
def tries_gram(m: int, n: int, p: int, machine: Machine, itemsize: int = 8) -> bool:
    """Return whether AᴴA, which one pass gives, is worth a look before reflections, which are always exact.

    With AᴴA there, what cholesky2 has left to do is always cheaper than reflections.
    """

    def price(method: str) -> float:
        return _declared(_Timed(p, machine), m, n, method, itemsize).price(machine)

    gram, twice, direct = price("gram"), price("cholesky2"), price("direct")
    return gram < TRIED * direct or twice < direct


def _declared(totals: Totals, m: int, n: int, method: str, itemsize: int) -> Cost:
    """Return the cost that the steps of a method declare for the process with the most rows."""
    p = totals.p
    counts = np.array([m * (k + 1) // p - m * k // p for k in range(p)])[::-1]  # the fullest first
    _Way(totals, np.maximum(counts, n) if p > 1 else counts, n, np.dtype(f"f{itemsize}"), 0).take(method)
    return totals.cost


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
        p = len(self.counts)
        if method == "auto" and not tries_gram(self.m, self.n, p, self.costs.machine, self.dtype.itemsize):
            method = "direct"
        if method == "gram":
            self.gram()
        elif method == "direct":
            with self.costs.holding(2 * self.block + self.piece):
                self.tree(True)
        elif method == "indirect":
            with self.costs.holding(self.block + self.piece):
                self.tree(False)
                self.refine()
        elif method in ("cholesky", "cholesky2"):
            with self.costs.holding(self.block + self.square):
                self.gram()
                if method == "cholesky":
                    self.divide(near=True)
                else:
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

    def divide(self, near: bool = False) -> None:
        """Declare the division of rows by a triangle; by one that is well conditioned it is a product."""
        if near:
            self.costs.squaring(self.pass_flops, self.n, nbytes=2 * 8 * self.block)
        else:
            self.costs.substituting(self.pass_flops, self.n, nbytes=2 * 8 * self.block)

    def again(self) -> None:
        """Declare the second pass of CholeskyQR2."""
        self.divide()
        self.gram()
        self.divide(near=True)

    def refine(self) -> None:
        """Declare A·R⁻¹ and its refinement."""
        self.divide()
        self.tree(False)
        self.divide(near=True)


def of_centred(costs: Costs, rows: RowBlocks, dtype: DType, limit: float) -> tuple[Any, Any]:
    """Declare the cost of `components.centred`, assuming that it takes reflections in the end."""
    here = world()
    n = rows.layout.shape[1]
    way = _Way(costs, row_blocks.rows_held(rows.layout, here.nprocs), n, dtype, here.pid)
    costs.at_most()
    costs.work(blas2=2.0 * way.own * n)
    if len(way.counts) > 1:
        costs.allreduce(n, dtype)
    way.gram()
    with costs.holding(way.block + way.piece):
        costs.work(elementwise=way.own * n)
        way.tree(False)
    return costs.array((n,), dtype), costs.array((min(rows.layout.shape), n), dtype)


def of_projected(costs: Costs, rows: RowBlocks, shift: Any, small: Any, dtype: DType) -> RowBlocks:
    """Declare the cost of `passes.projected`."""
    n, k = small.shape
    own = sum(block.shape[0] for block in rows.blocks.values())
    costs.work(blas3=2.0 * own * n * k, elementwise=own * n)
    layout = layout_of((rows.layout.axes[0], Axis(k)), rows.layout.replicated)
    return RowBlocks(layout, {at: costs.array((block.shape[0], k), dtype) for at, block in rows.blocks.items()})


def of_nothing(costs: Costs, *args: Any, **kwargs: Any) -> None:
    """Declare that a check of values costs nothing."""
