"""The log-likelihood of a fitted model, constants included, so that models of different families can be compared.

Families define its terms.  A weight divides its row's dispersion: statsmodels' convention.
Source: McCullagh & Nelder, 2nd edition, section 2.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.glm.families import Fitted
from bsp.algorithms.glm.solvers.survey import Survey

TERMS = 3


def terms(of: Survey) -> np.ndarray:
    """Return this process's sums (TERMS,) that do not depend on the coefficients."""
    y, trials = of.rows.y, of.rows.trials
    w = np.ones_like(y) if of.weights is None else of.weights
    counts = w > 0
    trials = None if trials is None else trials[counts]
    y, w = y[counts], w[counts]  # what they were is not kept meanwhile
    return np.array(of.family.constants(y, w, trials))


def log_likelihood(of: Survey, sums: np.ndarray, loss: float, deviance: float, dispersion: float) -> Any:
    """Return the log-likelihood from sums over all processes: of `terms`, the weighted losses and the deviance.

    A collective where a sum depends on the dispersion (gamma with weights, tweedie): one superstep of 1 word.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        y, weights = of.rows.y, of.weights
        if weights is not None:
            y, weights = y[weights > 0], weights[weights > 0]
        dispersed = None
        if of.family.is_dispersed(weights is not None):
            (dispersed,) = of.proc.allreduce(np.array([of.family.dispersed(y, weights, dispersion)]))
        return of.family.log_likelihood(sums, Fitted(of.n_rows, of.sum_weights, loss, deviance, dispersion), dispersed)
