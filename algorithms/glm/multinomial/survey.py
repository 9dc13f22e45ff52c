"""Survey of the rows of classes before the first pass: one superstep of checks, class sizes and some rows of X.

Coefficients are stacked class by class, the intercept first; the reference, which has none, is the last class.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bsp.algorithms.glm.errors import DataError
from bsp.algorithms.glm.problem import Model, Rows, product
from bsp.algorithms.glm.solvers.survey import (
    Survey,
    counted_rows,
    less_shift,
    sampled_columns,
    say_wrong,
    shift_of,
    wrong_row,
)
from bsp.arrays.procedures import world


@dataclass(frozen=True)
class ClassSurvey(Survey):
    """One process's rows, checked, and sums over all rows; y has the numbers of classes, the reference's the last.

    constant : (classes - 1,) the predictors of the model with intercepts only.
    others : the names of the classes but the reference.
    """

    others: tuple[str, ...] = ()

    @property
    def width(self) -> int:
        """The number of coefficients of a class, the intercept included."""
        return self.k + self.model.fit_intercept

    @property
    def d(self) -> int:
        """The number of coefficients of all classes."""
        return len(self.others) * self.width

    @property
    def is_exact(self) -> bool:
        """False: rows are of several classes."""
        return False

    def classes(self, rows: slice) -> np.ndarray:
        """Return the numbers of some rows' classes."""
        return self.rows.y[rows].astype(int)

    def by_class(self, beta: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return the intercepts (classes - 1,), or 0, and the other coefficients (classes - 1, k) of the shifted X."""
        each = beta.reshape(len(self.others), self.width)
        return (each[:, 0], each[:, 1:]) if self.model.fit_intercept else (0.0, each)

    def predictors(self, X: Any, beta: np.ndarray) -> np.ndarray:
        """Return the linear predictors (n, classes - 1) of some rows, shifted."""
        first, slopes = self.by_class(beta)
        found: np.ndarray = X @ slopes.T + first
        return found

    def outside(self, beta: np.ndarray) -> tuple[Any, np.ndarray]:
        """Return intercepts and coefficients of the columns as they were given."""
        first, slopes = self.by_class(beta)
        return first - (0.0 if self.shift is None else slopes @ self.shift), slopes

    def covariance_outside(self, covariance: np.ndarray, kept: np.ndarray) -> np.ndarray:
        """Return the covariance of the coefficients as given from that of those here; NaN for all but the kept ones."""
        one = np.eye(self.width)
        if self.shift is not None:
            one[0, 1:] = -self.shift
        back = np.kron(np.eye(len(self.others)), one)
        covariance = back @ covariance @ back.T
        covariance = (covariance + covariance.T) / 2
        left_out = np.setdiff1d(np.arange(self.d), kept)
        covariance[left_out] = np.nan
        covariance[:, left_out] = np.nan
        return covariance


def class_survey(rows: Rows, model: Model, others: tuple[str, ...]) -> ClassSurvey:
    """Check the rows of all processes, and fit the model with intercepts only.  Collective.

    others : the names of all classes but the last.
    Cost: W = O(n_local), one superstep of 4 + classes + 2k summed words.
    Raises DataError, the same on every process, naming the first row in which something is wrong.
    """
    if not rows.X.shape[1] + model.fit_intercept:
        raise ValueError("there are no columns and there is no intercept: nothing to fit")
    proc, count = world().private, len(others) + 1
    wrong = wrong_row(rows, model.family)
    weights = product(rows.weights, rows.frequencies)
    w = np.ones(rows.y.shape) if weights is None else weights
    sums = np.zeros(4 + count + 2 * rows.X.shape[1])
    if wrong is None:
        some, sampled = sampled_columns(rows.X)
        sizes = np.bincount(rows.y.astype(int), w, count)
        sums = np.concatenate([[counted_rows(w, rows), w.sum(), 0.0, some], sizes, sampled])
    else:
        sums[2] = 1.0
    n_rows, total, bad, some, *_ = sums = proc.allreduce(sums)
    if bad:
        say_wrong(proc, len(rows.y), wrong)
    if not np.isfinite(total):
        raise DataError("the weights sum to infinity: scale them down")
    sizes, sampled = sums[4 : 4 + count], sums[4 + count :]
    shift = shift_of(sampled, some) if model.fit_intercept else None
    if shift is not None and not isinstance(rows.X, np.ndarray):
        rows = replace(rows, X=less_shift(rows.X, shift))
    constant = np.log(sizes[:-1] / sizes[-1])
    null_deviance = -2 * (sizes @ np.log(sizes / total))
    return ClassSurvey(
        proc, rows, model, model.family, weights, shift, n_rows, total, constant, 0.0, null_deviance, total,
        others=others,
    )  # fmt: skip
