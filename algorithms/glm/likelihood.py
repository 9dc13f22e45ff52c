"""The log-likelihood of a fitted model, constants and all, so that models of different families can be compared.

A weight divides its row's dispersion.  Of the gaussian family it is the largest over the dispersion too (the profile
likelihood); of the gamma family it is that at the estimated dispersion.  These are statsmodels' conventions.
Source: McCullagh & Nelder, 2nd edition, section 2.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.glm.survey import Survey
from bsp.payload import is_abstract

TERMS = 3


def gammaln(x: Any) -> Any:
    """log Γ(x)."""
    from scipy.special import gammaln as found  # it takes as long to import as many a fit

    return found(x)


def terms(of: Survey) -> np.ndarray:
    """(TERMS,) This process's sums that do not depend on the coefficients."""
    y, trials = of.rows.y, of.rows.trials
    if is_abstract(y):
        return np.zeros(TERMS)
    w = np.ones_like(y) if of.weights is None else of.weights
    counts = w > 0
    y, w = y[counts], w[counts]
    if of.family.name == "gaussian":
        return np.array([np.log(w).sum(), 0.0, 0.0])
    if of.family.name == "poisson":
        return np.array([-(w @ gammaln(y + 1)), 0.0, 0.0])
    if of.family.name == "gamma":
        return np.array([w @ np.log(w), w @ np.log(y), np.log(y).sum()])
    if trials is None and ((y == 0) | (y == 1)).all():
        return np.zeros(TERMS)  # there is one way
    m = np.ones_like(y) if trials is None else trials[counts]
    ways = gammaln(m + 1) - gammaln(m * y + 1) - gammaln(m - m * y + 1)  # of the successes among the trials
    return np.array([(w / m) @ ways, 0.0, 0.0])


def log_likelihood(of: Survey, sums: np.ndarray, loss: float, deviance: float, dispersion: float) -> Any:
    """From the sums over all processes of `terms`, the weighted losses and the deviance.

    A collective for gamma models with weights: one superstep of 1 word (predictions without values leave it out).
    """
    if is_abstract(deviance):
        return deviance
    n = of.n_rows
    first, second, third = sums
    with np.errstate(divide="ignore", invalid="ignore"):
        if of.family.name == "gaussian":
            return 0.5 * (first - n * (1 + np.log(2 * np.pi * deviance / n)))
        if of.family.name != "gamma":
            return first - loss
        if of.weights is None:
            constants = n * gammaln(1 / dispersion)
        else:
            constants = of.proc.allreduce(float(gammaln(of.weights[of.weights > 0] / dispersion).sum()))
        return (first + second - loss - of.sum_weights * np.log(dispersion)) / dispersion - constants - third
