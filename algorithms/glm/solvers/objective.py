"""The penalised objective over the rows of all processes, at a point: one superstep of sums, the same bytes everywhere.

    f(b) = sum_i w_i·loss_i / sum_i w_i + ridge/2·|b|² + lasso·|b|_1
    ridge = alpha·(1 - l1_ratio), lasso = alpha·l1_ratio

Cost at a point: a pass (see passes), and one allreduce of 1 + d words, d more for the Hessian's diagonal or
d(d + 1)/2 for the packed half of it.  Every process then has all sums, so nothing has to be sent back.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.glm.errors import DataError
from bsp.algorithms.glm.solvers.passes import Sums, add_up
from bsp.algorithms.glm.solvers.semidefinite import Factored, explained
from bsp.algorithms.glm.solvers.survey import Survey, look_for_nonfinite

EPS = float(np.finfo(float).eps)


class ObjectivePoint(NamedTuple):
    """The objective at beta; gradient and curvature are of the smooth part, without the L1 penalty."""

    beta: np.ndarray
    value: Any
    gradient: np.ndarray
    curvature: np.ndarray | None  # the Hessian (d, d), or its diagonal (d,)


@lru_cache(maxsize=8)
def half(d: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the upper half of a (d, d) matrix."""
    return np.triu_indices(d)


def unpacked(upper: np.ndarray, d: int) -> np.ndarray:
    """Return the symmetric matrix of which this is the upper half."""
    whole = np.zeros((d, d))
    whole[half(d)] = upper
    return whole + np.triu(whole, 1).T


class Objective:
    """Evaluates the objective, and holds the units of its gradient.

    rebased : whether a fit goes on in orthogonal coordinates where columns are nearly collinear.
    """

    rebased = True

    def __init__(self, of: Survey) -> None:
        self.of = of
        self.ridge = of.model.alpha * (1 - of.model.l1_ratio)
        self.lasso = of.model.alpha * of.model.l1_ratio
        self.penalised = np.ones(of.d)
        self.penalised[: of.model.fit_intercept] = 0.0

    def at(self, beta: np.ndarray, curvature: str = "full") -> ObjectivePoint:
        """Return value, gradient, and "full", "diagonal" or no ("none") curvature.  Collective: one superstep."""
        loss, gradient, bend = self.sums(beta, curvature)
        d = len(gradient)
        parts = [np.reshape(loss, 1), gradient]
        if bend is not None:
            parts.append(bend[half(d)] if curvature == "full" else bend)
        with np.errstate(over="ignore", invalid="ignore"):
            sums = self.of.proc.allreduce(np.concatenate(parts)) / self.of.sum_weights
            value = sums[0] + self.penalty(beta)
            gradient = sums[1 : d + 1] + self.ridged(beta)
            if curvature == "full":
                bend = unpacked(sums[d + 1 :], d) + self._ridge_matrix()
            elif curvature == "diagonal":
                bend = sums[d + 1 :] + self._ridge_diagonal()
        return ObjectivePoint(beta, value, gradient, bend)

    def penalty(self, beta: np.ndarray) -> Any:
        """Return the penalty at beta."""
        return 0.5 * self.ridged(beta) @ beta + self.lasso * (self.penalised @ np.abs(beta))

    def sums(self, beta: np.ndarray, curvature: str) -> Sums:
        """Return the sums over this process's rows."""
        return add_up(self.of, beta, curvature)

    def ridged(self, beta: np.ndarray) -> np.ndarray:
        """Return the gradient of the ridge."""
        found: np.ndarray = self._ridge_diagonal() * beta
        return found

    def _ridge_diagonal(self) -> np.ndarray:
        return self.ridge * self.penalised

    def _ridge_matrix(self) -> np.ndarray:
        return np.diag(self._ridge_diagonal())

    def explained(self, curvature: np.ndarray, by: Factored, among: np.ndarray | None = None) -> tuple[str, ...]:
        """Return a sentence on each column, of those `among` (None: all), that was left out: what it is made of."""
        nothing = "explained by the absorbed effects" if self.of.rows.absorbed.parameters else "0 everywhere"
        return explained(curvature, by, self.of.kept_names, self.of.model.fit_intercept, among, nothing)

    def units(self, first: ObjectivePoint) -> np.ndarray:
        """Return the units (d,) of the gradient's components, from the first point: see `Solution.gradient_norm`.

        Raises DataError if there is no finite number: then X holds others, or the start is too far away.
        """
        assert first.curvature is not None
        spread = self._spread()
        sound = np.isfinite(first.value) & np.isfinite(first.gradient).all() & np.isfinite(first.curvature).all()
        sound = sound & np.isfinite(spread)
        if not sound:
            look_for_nonfinite(self.of)
            family = self.of.family
            low, high = family.means
            if not self.of.model.fit_intercept and not low < family.mean(np.zeros(1))[0] < high:
                raise DataError(
                    f"a {family} model has means from {low:g} to {high:g}, and coefficients of 0, where a fit begins, "
                    "give others: fit an intercept, or take another link"
                )
            raise DataError(
                "the objective at the start is beyond the range of numbers: scale y or the columns of X down"
            )
        bend = first.curvature if first.curvature.ndim == 1 else np.diagonal(first.curvature)
        units = np.sqrt(np.maximum(bend - self._ridge_diagonal(), 0.0)) * np.sqrt(spread)  # their product may overflow
        found: np.ndarray = np.where(units > 0, units, 1.0)
        return found

    def _spread(self) -> Any:
        """Return the mean square of the null model's Pearson residual, at least what the rounding of y may leave."""
        mean = self.of.mean
        with np.errstate(all="ignore"):
            rounding = EPS * mean * (mean / self.of.family.variance(mean))  # in the same units
        return np.maximum(self.of.null_chi2 / self.of.sum_weights, rounding)

    def slope(self, point: ObjectivePoint) -> np.ndarray:
        """Return the minimum-norm subgradient (d,)."""
        lasso = self.lasso * self.penalised
        at_zero = np.sign(point.gradient) * np.maximum(np.abs(point.gradient) - lasso, 0.0)
        found: np.ndarray = np.where(point.beta != 0, point.gradient + lasso * np.sign(point.beta), at_zero)
        return found

    def norm(self, point: ObjectivePoint, units: np.ndarray, kept: Any = slice(None)) -> Any:
        """Return `Solution.gradient_norm`, over the columns that are not left out; there may be none.

        0 where the null model leaves nothing but rounding, for then a gradient is rounding too.
        """
        if self.of.is_exact:
            return np.zeros(())
        return np.max((np.abs(self.slope(point)) / units)[kept], initial=0.0)
