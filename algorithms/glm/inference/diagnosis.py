"""The data of a fit's pictures: the spread of each column, and residuals counted by fitted value.

Rows are many and on many processes, so a picture of residuals shows cells: how many rows have about this linear
predictor and about this residual.  The counts are exact, whatever the number of rows, and so the same on any number of
processes.
Source: McCullagh & Nelder, 2nd edition, section 12.6.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bsp.algorithms.glm.inference.residuals import residuals
from bsp.algorithms.glm.problem import Model, Rows, Solution
from bsp.arrays.procedures import world

ACROSS, UP = 72, 36  # cells
WIDE, FEW = 3, 5  # cells across of which one mean is taken, of no fewer rows


class Diagnosis(NamedTuple):
    """Sums over the rows of all processes that have a weight.

    spreads : (k,) the standard deviation of each column, by weight.
    counts : (UP, ACROSS) rows by Pearson residual and linear predictor, from the lowest of both.
    predictors, residuals : the ends of the ranges that are cut into cells.
    means : (ACROSS / WIDE,) the mean residual by linear predictor; NaN of fewer than FEW rows.
    """

    spreads: np.ndarray
    counts: np.ndarray
    predictors: tuple[float, float]
    residuals: tuple[float, float]
    means: np.ndarray


def diagnosis(rows: Rows, model: Model, solution: Solution) -> Diagnosis:
    """Return what pictures of a fit to dense rows show.  Collective.

    Cost, n rows of k numbers on the fullest process: W = O(nk), 3 supersteps, of 4, k + 1 and
        k + ACROSS·(UP + 1 / WIDE) words.
    """
    proc = world().private
    X, y = rows.X, rows.y
    given = np.ones(len(y)) if rows.weights is None else rows.weights
    if rows.trials is not None:
        given = given * rows.trials
    some = slice(None) if (given > 0).all() else np.flatnonzero(given > 0)
    X, y, weights = X[some], y[some], given[some]
    eta = X @ solution.coef + solution.intercept
    if rows.offset is not None:
        eta = eta + rows.offset[some]
    away = residuals(model.family, "pearson", eta, y, weights)  # of mean 0, as deviance residuals are not
    sound = np.isfinite(eta) & np.isfinite(away)
    eta, away = eta[sound], away[sound]
    ends = [np.inf] * 4 if not len(eta) else [eta.min(), -eta.max(), away.min(), -away.max()]
    low, high, least, most = proc.allreduce(np.array(ends, float), op="min") * [1, -1, 1, -1]
    sums = proc.allreduce(np.append(weights @ X, weights.sum()))
    centre = sums[:-1] / sums[-1]
    squares = np.array([weights @ np.square(X[:, j] - mean) for j, mean in enumerate(centre)])
    across, up = _cells(eta, low, high, ACROSS), _cells(away, least, most, UP)
    counts = np.bincount(up * ACROSS + across, minlength=UP * ACROSS).astype(float)
    summed = np.bincount(across // WIDE, away, ACROSS // WIDE)
    found = proc.allreduce(np.concatenate([squares, counts, summed]))
    squares, counts, summed = np.split(found, np.cumsum([len(squares), UP * ACROSS]))
    counts = counts.reshape(UP, ACROSS)
    count = counts.sum(0).reshape(-1, WIDE).sum(1)
    means = np.where(count >= FEW, summed / np.maximum(count, 1), np.nan)
    return Diagnosis(
        np.sqrt(squares / sums[-1]), counts, (float(low), float(high)),
        (float(least), float(most)), means,
    )  # fmt: skip


def _cells(values: np.ndarray, low: float, high: float, count: int) -> np.ndarray:
    """Return the cell of each value, from 0, of `count` equal ones from low to high."""
    if not high > low:
        return np.full(len(values), count // 2)
    found: np.ndarray = np.minimum((values - low) / (high - low) * count, count - 1).astype(int)
    return found
