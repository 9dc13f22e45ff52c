"""The log-likelihood of a fitted model, constants included, so that models of different families can be compared.

Families define its terms, which are summed here as often as the frequency of their row.  A weight divides its row's
dispersion: statsmodels' convention.
Source: McCullagh & Nelder, 2nd edition, section 2.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.glm.families import Fitted
from bsp.algorithms.glm.problem import product
from bsp.algorithms.glm.solvers.survey import Survey

TERMS = 3


def terms(of: Survey) -> np.ndarray:
    """Return this process's sums (TERMS,) that do not depend on the coefficients."""
    y, w, trials, times = _counting(of)
    w = np.ones_like(y) if w is None else w
    return np.array([_summed(each, times, len(y)) for each in of.family.constants(y, w, trials)])


def _counting(of: Survey) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None, np.ndarray | None]:
    """Return y, weights (trials included), trials and frequencies of the rows that count: their weight is above 0."""
    rows = of.rows
    y, *others = rows.y, product(rows.weights, rows.trials), rows.trials, rows.frequencies
    if of.weights is not None:
        counts = of.weights > 0
        y, others = y[counts], [None if each is None else each[counts] for each in others]
    return y, others[0], others[1], others[2]


def _summed(term: Any, times: np.ndarray | None, n: int) -> Any:
    """Return the sum of a term of n rows, each as often as its frequency."""
    return np.broadcast_to(term, n).sum() if times is None else times @ np.broadcast_to(term, n)


def log_likelihood(of: Survey, sums: np.ndarray, loss: float, deviance: float, dispersion: float) -> Any:
    """Return the log-likelihood from sums over all processes: of `terms`, the weighted losses and the deviance.

    A collective where a sum depends on the dispersion (gamma with weights, tweedie): one superstep of 1 word.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        dispersed = None
        y, weights, _, times = _counting(of)
        if of.family.is_dispersed(weights is not None):
            found = of.family.dispersed(y, weights, dispersion)
            (dispersed,) = of.proc.allreduce(np.array([_summed(found, times, len(y))]))
        return of.family.log_likelihood(sums, Fitted(of.n_rows, of.sum_weights, loss, deviance, dispersion), dispersed)
