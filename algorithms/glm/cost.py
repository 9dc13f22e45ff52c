"""The declared cost of a fit: its supersteps and words exactly, operations to leading order, memory as a bound.

The same sums as in `fitting`, in the order in which it makes them; each is one allreduce.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.glm.inference.covariance import LEVERED, matrices_wanted
from bsp.algorithms.glm.inference.likelihood import TERMS
from bsp.algorithms.glm.problem import CLUSTERED, Model, Rows, Solution, chosen_solver
from bsp.algorithms.glm.solvers.lbfgs import PAIRS
from bsp.algorithms.glm.solvers.newton import USUAL
from bsp.algorithms.glm.solvers.passes import chunk_length
from bsp.cost.model import DEFAULT, Cost, Machine
from bsp.declared import Costs, Totals

VECTORS = 10  # a chunk's predictor, loss, score, curvature and what they are made from
MATRICES = 7  # (d, d): a point's Hessian and the next one's, whole, packed, summed and factored
PATH_LENGTH = 50  # penalties of a path that names none


def for_predictors(count: int) -> dict[str, float]:
    """Return the work on so many linear predictors: mean, loss, score and curvature.

    An exponential and a logarithm each, and what takes as long as 44 elementwise operations (measured: 9 ns).
    """
    return {"elementwise": 44.0 * count, "functions": 16.0 * count}


def cost(model: Model, n: int, k: int, p: int, machine: Machine | None = None, iterations: int | None = None) -> Cost:
    """Return the cost of `solve` for n dense rows of k columns on p processes, n/p each.

    d = k + 1 with an intercept, else k.  Without an offset and weights.
    iterations : Newton's, or L-BFGS's; None: as many as are usual, Newton's one for least squares, else six, and 18 of
        L-BFGS.  Steps that are halved, and line searches that look twice, take points more.
    machine : decides how sums are made (`allreduce`); None: the default one.
    Newton and proximal Newton, i iterations: sums of 7 + 2k, 3, i + 1 times 1 + d + d(d + 1)/2, and 5 numbers, each a
    superstep or two; W = (i + 1)((n/p)(d² + 4d) + d³/3).  L-BFGS: 1 + 2d numbers at the first point, 1 + d at others;
    W = (i + 1)·4(n/p)d.  Each matrix that covariances are made from and the solver has not: d(d + 1)/2 numbers more
    in the last sum, (n/p)d² flops; robust="HC2" and "HC3" sum one in a pass of its own, as "cluster"
    does after a superstep with d words for each cluster of a process, here as many as rows.  A number more in a sum of
    its own where the likelihood needs it (tweedie).
    Not in the cost, as values decide it: nearly collinear columns take a tree of R's, d² words at each of its levels,
    and a point more; then kl words, and (n/p)d² flops for each point (see `solvers.collinear`).
    M = 3n/p + 2kl + 10l + 7d² + 20d words, l = max(64, 2^16/k, k): vectors as long as the rows; a chunk of l rows
    shifted and scaled, and its vectors; Hessians.  Of matrices that are missing kl more for each but the first, 4d²
    for each.
    """
    totals = Totals(p, machine or DEFAULT)
    of = FitCosts(totals, model, (-(-n // p), k))
    with totals.holding(of.memory):
        of.survey()
        of.solver(of.usual if iterations is None else iterations)
        of.inference()
    return totals.cost


def of_solve(costs: Costs, rows: Rows, model: Model, start: Any = None, progress: Any = None) -> Solution:
    """Declare the cost of `fitting.solve`, as many iterations as are usual."""
    of = FitCosts(costs, model, rows.X.shape, rows)
    with costs.holding(of.memory):
        of.survey(_iterates(rows, model))
        of.solver(of.usual)
        of.inference()
    return of.solution()


def of_path(costs: Costs, rows: Rows, model: Model, alphas: Any = None) -> list[Solution]:
    """Declare the cost of `path.path`, as many iterations for each penalty as are usual for one."""
    of = FitCosts(costs, model, rows.X.shape, rows)
    with costs.holding(of.memory):
        of.survey(_iterates(rows, model))
        if alphas is None:
            of.point("diagonal")
        solutions = []
        for _ in range(PATH_LENGTH if alphas is None else len(np.asarray(alphas))):
            of.solver(of.usual)
            of.inference()
            solutions.append(of.solution())
    return solutions


def _iterates(rows: Rows, model: Model) -> bool:
    """Return whether the model with an intercept only has no closed form, because of an offset."""
    nothing = np.zeros(0)
    return rows.offset is not None and model.family.offset_sum(nothing, nothing, nothing) is None


class FitCosts:
    """The declared steps of a fit on one process; `shape` is (rows, columns) of its own rows.

    predictors : of a row, each with coefficients of its own: one, but of a model of classes.
    """

    def __init__(
        self, costs: Costs, model: Model, shape: tuple[int, int], rows: Rows | None = None, predictors: int = 1
    ) -> None:
        self.costs, self.model = costs, model
        self.weighted = rows is not None and (rows.weights is not None or rows.trials is not None)
        self.n, self.k = n, k = shape
        self.names = (rows and rows.names) or tuple(f"x{j}" for j in range(k))
        if not k + model.fit_intercept:
            raise ValueError("there are no columns and there is no intercept: nothing to fit")
        self.width = k + model.fit_intercept
        self.d = predictors * self.width
        self.square = float(n) * self.d * (self.d + self.width) / 2  # flops of X'X, block by block
        self.half = self.d * (self.d + 1) // 2
        self.method = chosen_solver(model, self.d)
        self.newton = self.method != "lbfgs"
        self.wanted = matrices_wanted(model, model.family, self.d)
        self.missing = len(self.wanted - ({model.family.solved_by} if self.newton else set()))
        self.levered = model.robust in LEVERED and bool(self.wanted)
        self.clustered = model.robust == CLUSTERED and bool(self.wanted)
        newtons = 1 if model.family.linear else USUAL  # the first step minimises a quadratic objective
        self.usual = min(newtons if self.newton else 3 * USUAL, model.max_iter)
        rooms = 1 + max(1, self.missing, 3 * self.levered)  # chunks of X: shifted, and scaled for each matrix
        squares = MATRICES + 4 * self.missing if self.newton or self.missing else 0
        chunk = (rooms * k + VECTORS) * min(n, chunk_length(k))
        self.memory = 3 * n + chunk + squares * self.d**2 + 20 * self.d

    def survey(self, iterates: bool = False) -> None:
        """Declare the survey: responses, some rows, and the model with an intercept only."""
        self.costs.work(**for_predictors(self.n))
        self.costs.allreduce(7 + 2 * self.k)
        if iterates:
            self.costs.allreduce(2)
        self.costs.work(**for_predictors(self.n))
        self.costs.allreduce(3)

    def point(self, curvature: str) -> None:
        """Declare one pass over the rows, and the sum of objective, gradient and curvature."""
        n, d = self.n, self.d
        full, diagonal = curvature == "full", curvature == "diagonal"
        self.costs.work(blas2=4.0 * n * d + 2.0 * n * d * diagonal, nbytes=8.0 * n * self.k, **for_predictors(n))
        if full:
            self.costs.work(elementwise=2.0 * n * d)  # rows times weights: a factor for each row halves the speed
            self.costs.squaring(self.square, self.width)
        self.costs.allreduce(1 + d + (self.half if full else d * diagonal))

    def solver(self, iterations: int) -> None:
        """Declare a point for each iteration and one at the start, and a step after each."""
        self.point("full" if self.newton else "diagonal")
        for _ in range(iterations):
            if self.newton:
                self.costs.work(blas3=self.d**3 / 3)
            else:
                self.costs.work(blas1=4.0 * PAIRS * self.d)
            self.point("full" if self.newton else "none")

    def inference(self) -> None:
        """Declare one more pass, and the sum of deviance, likelihood, and the matrices still missing."""
        n, d = self.n, self.d
        losses_deviances_and_residuals = for_predictors(3 * n)
        self.costs.work(
            blas2=4.0 * n * d, blas3=d**3 / 3 * bool(self.wanted), nbytes=8.0 * n * self.k,
            **losses_deviances_and_residuals,
        )  # fmt: skip
        if self.missing:
            self.costs.squaring(self.missing * self.square, self.width)
        self.costs.allreduce(2 + TERMS + self.missing * self.half)
        if self.levered:
            self.costs.work(blas3=2.0 * n * d * d, nbytes=8.0 * n * self.k, **for_predictors(n))
            self.costs.squaring(float(n) * d * d, d)
            self.costs.allreduce(self.half)
        self.clusters()
        if self.model.family.is_dispersed(self.weighted):
            self.costs.allreduce(1)

    def clusters(self) -> None:
        """Declare the pass, the exchange and the sum of clustered errors, if they are wanted."""
        if self.clustered:
            self.costs.at_most()
            self.costs.work(blas2=2.0 * self.n * self.d, nbytes=8.0 * self.n * self.k, **for_predictors(self.n))
            p, words = self.costs.p, float(self.n) * self.d  # each row a cluster of its own, which are dealt evenly
            self.costs.exchange("clusters", dict.fromkeys(range(p), words / p), words * (p - 1) / p, p - 1)
            self.costs.allreduce(self.half + 1)

    def solution(self) -> Solution:
        """Return the solution of the fit without values."""

        def number() -> Any:
            return self.costs.array(())

        square = (self.d, self.d)
        return Solution(
            coef=self.costs.array((self.k,)), intercept=number() if self.model.fit_intercept else 0.0,
            n_iter=self.usual, converged=True, objective=number(), gradient_norm=number(), deviance=number(),
            null_deviance=number(), dispersion=number(), pearson_chi2=number(),
            log_likelihood=number() if self.model.family.has_likelihood else None,
            covariance=self.costs.array(square) if self.wanted else None,
            robust_covariance=self.costs.array(square) if self.wanted and self.model.robust else None,
            n_rows=self.costs.array((), int), sum_weights=number(), df_resid=number(), solver=self.method,
            alpha=self.model.alpha, names=self.names,
            history=tuple((number(), number()) for _ in range(self.usual + 1)),
        )  # fmt: skip
