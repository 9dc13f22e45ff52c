"""Residuals of a fitted model by row: what a plot of them needs to show whether family and link fit.

Source: McCullagh & Nelder, 2nd edition, section 2.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.glm.families import Family

KINDS = ("response", "pearson", "deviance", "working")


def residuals(family: Family, kind: str, eta: Any, y: Any, weights: Any) -> Any:
    """Return residuals (n,) of responses y at linear predictors eta, as statsmodels defines them.

    response : y - mu.   working : that in units of eta.   pearson : over the standard deviation, for dispersion 1.
    deviance : with its sign, the root of the unit deviance; squares of both sum to chi² and the deviance.
    """
    with np.errstate(all="ignore"):
        away = y - family.mean(eta)
        if kind == "response":
            return away
        if kind == "working":
            return away / family.link.slope(eta)
        squares = family.chi2(eta, y) if kind == "pearson" else 2 * family.excess(eta, y)
        return np.sign(away) * np.sqrt(weights * squares)
