"""A path of models from strong to weak regularisation, each started where the one before ended."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bsp.algorithms.glm.cost import PATH_LENGTH, of_path
from bsp.algorithms.glm.fitting import fitted, start_of
from bsp.algorithms.glm.problem import Model, Rows, Solution
from bsp.algorithms.glm.solvers.objective import Objective
from bsp.algorithms.glm.solvers.survey import Survey, survey
from bsp.declared import declares

RANGE = 1e-3  # of the smallest alpha in the largest
LEAST_LASSO = 1e-3  # the share that ridge regression, which makes no coefficient 0, borrows to find the largest


@declares(of_path)
def path(rows: Rows, model: Model, alphas: Sequence[float] | None = None) -> list[Solution]:
    """Return a solution for each alpha, the largest first.  Collective.

    alphas : None: 50 in equal ratios, from the smallest that makes all coefficients 0 to a thousandth of it.
    Cost: that of `solve` for each, with fewer iterations; one more point for the largest.
    Source: Friedman, Hastie & Tibshirani, J. Stat. Softw. 33 (2010), section 2.5.
    Raises ValueError for alphas that are not a sequence, and for one below 0.
    """
    of = survey(rows, model)
    if alphas is None:
        wanted = largest_alpha(of) * np.logspace(0, np.log10(RANGE), PATH_LENGTH)
    else:
        wanted = np.asarray(alphas, float)
        if wanted.ndim != 1:
            raise ValueError(f"alphas={alphas!r:.60}: a sequence of numbers, or None")
        wanted = np.sort(wanted)[::-1]
    solutions: list[Solution] = []
    for alpha in wanted.tolist():
        start = None
        if solutions:
            last = solutions[-1]
            start = np.append(last.intercept, last.coef) if model.fit_intercept else last.coef
        here = replace(of, model=replace(model, alpha=alpha))
        solutions.append(fitted(here, start))
    return solutions


def largest_alpha(of: Survey) -> float:
    """Return the smallest alpha at which all coefficients are 0.  Collective: one superstep of 1 + 2d summed words."""
    free = Objective(replace(of, model=replace(of.model, alpha=0.0)))
    point = free.at(start_of(of), "diagonal")
    free.units(point)  # which are found only where all is finite
    steepest = np.abs(point.gradient[of.model.fit_intercept :]).max(initial=0.0)
    return float(steepest) / max(of.model.l1_ratio, LEAST_LASSO)
