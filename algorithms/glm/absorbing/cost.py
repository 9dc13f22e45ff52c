"""The declared cost of a fit with absorbed effects: supersteps exactly, words as if labels were dealt evenly to owners.

How many labels a process has, how many projections several columns of labels take and how many rows are left out is
decided by values: labels that have none are as many as rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bsp.algorithms.glm.cost import FitCosts, for_predictors
from bsp.algorithms.glm.problem import CLUSTERED, Model, Rows, Solution
from bsp.cost.model import DEFAULT, Cost, Machine
from bsp.declared import Costs, Totals
from bsp.values.payload import is_abstract

PROJECTIONS = 10  # conjugate gradients, which several columns of labels usually take
LABEL = 30.0  # operations on a row's label: to sort it among the others


def cost(
    model: Model, n: int, k: int, labels: Sequence[int], p: int, machine: Machine | None = None,
    iterations: int | None = None, projections: int = PROJECTIONS, clusters: int = 0,
) -> Cost:  # fmt: skip
    """Return the cost of `solve_absorbing` for n rows of k columns on p processes, n/p each.

    labels, clusters : how many of each column, and of clusters, one process has.
    iterations : Newton's; None: as many as are usual.  Of several columns of labels twice in a log-linear model, for
        the effects alone, too.
    projections : iterations of conjugate gradients, each time that several columns are absorbed.
    A projection is two supersteps with a word for each label of a process and column of X and y; W = 4(n/p)(k + 1).
    """
    totals = Totals(p, machine or DEFAULT)
    of = _AbsorbingCosts(totals, model, (-(-n // p), k), labels, clusters)
    of.fit(of.own.usual if iterations is None else iterations, projections)
    return totals.cost


def of_solve_absorbing(
    costs: Costs, rows: Rows, model: Model, names: Sequence[str], progress: Any = None
) -> tuple[Solution, Model, tuple[str, ...]]:
    """Declare the cost of `absorb.solve_absorbing`, as many iterations and projections as are usual."""
    given = [*rows.absorb, *([] if rows.clusters is None else [rows.clusters])]
    unknown = any(is_abstract(each) for each in given)
    counts = [len(each) if is_abstract(each) else len(np.unique(each.astype(str))) for each in given]
    if unknown:
        costs.at_most()
    of = _AbsorbingCosts(costs, model, rows.X.shape, counts[: len(names)], sum(counts[len(names) :]), rows)
    of.fit(of.own.usual, PROJECTIONS)
    said = f"effects of {', '.join(names)} are absorbed"
    return of.own.solution(), of.own.model, (said,)


class _AbsorbingCosts:
    """The declared steps of a fit with absorbed effects on one process.

    own : of the fit to what is left of X.
    """

    def __init__(
        self, costs: Costs, model: Model, shape: tuple[int, int], labels: Sequence[int], clusters: int,
        rows: Rows | None = None,
    ) -> None:  # fmt: skip
        self.costs, self.model, self.labels, self.clusters = costs, model, list(labels), clusters
        self.n, self.k = shape
        clean = None if rows is None else replace(rows, offset=None)
        self.own = FitCosts(costs, replace(model, fit_intercept=False), shape, clean)

    def fit(self, iterations: int, projections: int) -> None:
        """Declare the whole fit."""
        columns = self.n * (self.k + 1)
        with self.costs.holding(6 * columns + self.own.memory + 4 * (self.k + 1) * sum(self.labels)):
            self._told(2)
            for count in self.labels:
                self._levels(count)
            if self.model.family.linear:
                self._parameters()
                self._within(self.k + 1, projections)
                self.own.survey()
                self.own.solver(iterations)
            else:
                self._reweighted(iterations, projections)
            self.own.inference()
            if not self.model.family.linear:
                self.costs.allreduce(4 + self.k)

    def _reweighted(self, iterations: int, projections: int) -> None:
        """Declare what `reweighted` does before its last fit: rows left out, effects alone, and all coefficients."""
        self.own.survey()
        for count in self.labels:
            self._combined(count, 1)
        self.costs.allreduce(1, int)
        self._parameters()
        for count in self.labels:
            self._combined(count, 2)
        self._descent(0, iterations if len(self.labels) > 1 else 0, projections)
        self._descent(self.k, iterations, projections)
        self.own.survey()
        self.costs.allreduce(2)
        self.own.solver(0)

    def _descent(self, k: int, iterations: int, projections: int) -> None:
        """Declare the points with k columns, and one deviance after each step."""
        for point in range(iterations + 1):
            if point:
                self.costs.work(**for_predictors(self.n))
                self.costs.allreduce(1)
            self._within(k + 1, projections)
            self.costs.work(blas2=4.0 * self.n * k, **for_predictors(self.n))
            self.costs.squaring(float(self.n) * k * k, k)
            self.costs.allreduce(6 + k + k * (k + 1) // 2)

    def _levels(self, count: int) -> None:
        """Declare that labels are numbered, and sent to their owners."""
        self.costs.work(elementwise=LABEL * self.n)
        self._dealt("labels", count)
        self._told(1)
        self._dealt("labels' numbers", count)

    def _combined(self, count: int, columns: int) -> None:
        """Declare that values by label are sent to the labels' owners and back."""
        self._dealt("values of labels", count * columns)
        self._dealt("values of labels", count * columns)

    def _parameters(self) -> None:
        """Declare the count of parameters; of several columns of labels with their connected components."""
        clustered = self.model.robust == CLUSTERED
        if clustered:
            self._levels(self.clusters)
        for count in self.labels:
            for _ in range(2):
                self._combined(count, 1)
            self.costs.allreduce(1, int)
        if len(self.labels) > 1:
            self._told(2 * (self.labels[0] + self.labels[1]))
        for count in self.labels * clustered:
            for _ in range(2):
                self._combined(count, 1)
            self.costs.allreduce(1)

    def _within(self, columns: int, projections: int) -> None:
        """Declare that columns are freed of the labels' effects."""
        for count in self.labels:
            self._combined(count, 1)
        self.costs.allreduce(columns + 1)
        self.costs.allreduce(columns)
        if len(self.labels) == 1:
            self._swept(columns)
        else:
            self._swept(columns)
            self.costs.allreduce(columns)
            for _ in range(projections):
                self._swept(columns)
                self.costs.allreduce(columns)
                self.costs.allreduce(columns)
            self._swept(columns)
        self.costs.allreduce(columns)

    def _swept(self, columns: int) -> None:
        """Declare one sweep: a projection for each column of labels, forwards and backwards."""
        for count in (*self.labels, *self.labels[-2::-1]):
            self.costs.work(elementwise=4.0 * self.n * columns, nbytes=24.0 * self.n * columns)
            self._combined(count, columns)

    def _dealt(self, text: str, words: float) -> None:
        """Declare that words by label go to the labels' owners, or come back: evenly."""
        p = self.costs.p
        self.costs.exchange(text, dict.fromkeys(range(p), words / p), words * (p - 1) / p, p - 1)

    def _told(self, words: float) -> None:
        """Declare that each process sends the same words to all."""
        p = self.costs.p
        self.costs.exchange("told to all", dict.fromkeys(range(p), words), words * (p - 1), p - 1)
