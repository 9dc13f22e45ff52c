"""The declared cost of a multinomial fit: supersteps and words exactly, operations to leading order, memory as a bound.

The same sums as in `fitting`, in the order in which it makes them; each is one allreduce.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bsp.algorithms.glm.cost import VECTORS, FitCosts, for_predictors
from bsp.algorithms.glm.problem import Model, Rows, Solution
from bsp.algorithms.glm.solvers.newton import USUAL
from bsp.algorithms.glm.solvers.passes import chunk_length
from bsp.cost.model import DEFAULT, Cost, Machine
from bsp.declared import Costs, Totals


def cost(
    model: Model, n: int, k: int, classes: int, p: int, machine: Machine | None = None, iterations: int = USUAL
) -> Cost:
    """Return the cost of `solve_classes` for n dense rows of k columns on p processes, n/p each.

    D = (classes - 1)·d coefficients, d = k + 1 with an intercept, else k.
    iterations : Newton's, or L-BFGS's.   machine : decides how sums are made (`allreduce`); None: the default one.
    Newton, i iterations: sums of 4 + classes + 2k, i + 1 times 1 + D + D(D + 1)/2, and 1 numbers, each a superstep or
    two; W = (i + 1)(4(n/p)D + (n/p)·D(D + d)/2 + D³/3).  L-BFGS: 1 + 2D numbers at the first point, 1 + D at others.
    Robust errors: D(D + 1)/2 numbers more in the last sum; "cluster": as `glm.cost.cost` has it.
    M = 3n/p + chunks of X, as many as pairs of classes, and their vectors; 7D² + 20D.
    """
    totals = Totals(p, machine or DEFAULT)
    of = _ClassCosts(totals, model, (-(-n // p), k), classes)
    with totals.holding(of.memory):
        of.survey()
        of.solver(iterations)
        of.inference()
    return totals.cost


def of_solve_classes(
    costs: Costs, rows: Rows, model: Model, place: int, others: tuple[str, ...], progress: Any = None
) -> Solution:
    """Declare the cost of `fitting.solve_classes`, as many iterations as are usual."""
    of = _ClassCosts(costs, model, rows.X.shape, len(others) + 1, rows)
    with costs.holding(of.memory):
        of.survey()
        of.solver(of.usual)
        of.inference()
    return of.solution()


class _ClassCosts(FitCosts):
    """The declared steps of a multinomial fit on one process."""

    def __init__(
        self, costs: Costs, model: Model, shape: tuple[int, int], classes: int, rows: Rows | None = None
    ) -> None:
        super().__init__(costs, model, shape, rows, classes - 1)
        self.classes, pairs = classes, classes * (classes - 1) // 2
        squared = self.newton or self.missing > 0
        chunk = ((1 + pairs * squared) * self.k + VECTORS * classes) * min(self.n, chunk_length(self.k))
        blocks = 3 * pairs * squared * self.width**2  # of each pair: summed, a chunk's, and with the intercept
        self.memory += chunk + blocks

    def survey(self, iterates: bool = False) -> None:
        """Declare the survey: responses, class sizes and some rows."""
        self.costs.work(**for_predictors(self.n))
        self.costs.allreduce(4 + self.classes + 2 * self.k)

    def inference(self) -> None:
        """Declare one more pass, and the sum of Pearson's chi² and the matrices still missing."""
        n, d = self.n, self.d
        self.costs.work(
            blas2=2.0 * n * d, blas3=d**3 / 3 * bool(self.wanted), **for_predictors(n * self.classes),
            nbytes=8.0 * n * self.k,
        )  # fmt: skip
        if self.missing:
            self.costs.squaring(self.missing * self.square, self.width)
        self.costs.allreduce(1 + self.missing * self.half)
        self.clusters()

    def solution(self) -> Solution:
        """Return the solution of the fit without values."""
        return replace(
            super().solution(), coef=self.costs.array((self.classes - 1, self.k)),
            intercept=self.costs.array((self.classes - 1,)),
        )  # fmt: skip
