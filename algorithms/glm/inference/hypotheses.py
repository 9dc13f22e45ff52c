"""Tests of hypotheses about fitted models: Wald's, of one fit, and by the deviances of two nested ones.

Where the dispersion is 1 the statistic is compared with a chi² distribution; where it is estimated (gaussian, gamma,
quasi families), divided by the number of restrictions, with an F distribution.  All is computed from what every process
has: no communication.
Source: McCullagh & Nelder, 2nd edition, appendix A; Wald, Trans. Amer. Math. Soc. 54 (1943).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bsp.algorithms.glm.inference.summary import Summary
from bsp.declared import Costs, declares


class HypothesisTest(NamedTuple):
    """The result of a test: a small p-value speaks against the hypothesis.

    df : the number of restrictions.   df_resid : of an F statistic; None: the statistic is a chi².
    """

    statistic: float
    df: int
    df_resid: float | None
    p_value: float


def _tested(chi2: Any, df: int, df_resid: float | None) -> HypothesisTest:
    from scipy import special  # it takes as long to import as many a fit

    if df_resid is None:
        return HypothesisTest(float(chi2), df, None, float(special.chdtrc(df, chi2)))
    return HypothesisTest(float(chi2 / df), df, df_resid, float(special.fdtrc(df, df_resid, chi2 / df)))


def _of_test(costs: Costs, *given: Any) -> HypothesisTest:
    """Declare that a test costs nothing; without values its numbers are shapes."""
    number = costs.array(())
    return HypothesisTest(number, number, number, number)


@declares(_of_test)
def wald(summary: Summary, hypothesis: Any, value: Any = 0.0) -> HypothesisTest:
    """Test that combinations of coefficients have these values, by their covariance, a robust one if it was asked for.

    hypothesis : names of coefficients ("intercept" is the intercept's), each of which is `value`; or a matrix (q, d)
        of q combinations of the d coefficients, the intercept first.
    Raises ValueError for unknown names, other shapes, dependent restrictions, and fits without a covariance.
    """
    found, model = summary.solution, summary.model
    covariance = found.robust_covariance if model.robust else found.covariance
    if covariance is None:
        raise ValueError("a penalised fit, or one of too many coefficients, has no covariance to test by")
    estimates = summary.estimates
    d = len(estimates)
    if isinstance(hypothesis, str) or (len(hypothesis) and isinstance(hypothesis[0], str)):
        names = [hypothesis] if isinstance(hypothesis, str) else list(hypothesis)
        if unknown := [name for name in names if name not in summary.names]:
            raise ValueError(f"there is no coefficient {unknown[0]!r}; there are {', '.join(summary.names)}")
        rows = np.eye(d)[[summary.names.index(name) for name in names]]
    else:
        rows = np.atleast_2d(_numbers(hypothesis, "the hypothesis"))
    if rows.ndim != 2 or rows.shape[1] != d or not len(rows):
        raise ValueError(f"the hypothesis has shape {rows.shape}; it is names, or (q, {d}) with a column a coefficient")
    values = _numbers(value, "value")
    if values.shape not in ((), (len(rows),)):
        raise ValueError(f"value has shape {values.shape}: a number, or one for each of {len(rows)} restrictions")
    used = (rows != 0).any(axis=0)
    if not np.isfinite(covariance[np.ix_(used, used)]).all():
        raise ValueError("the hypothesis is about a coefficient that was left out as collinear")
    away = rows[:, used] @ estimates[used] - values
    spread = rows[:, used] @ covariance[np.ix_(used, used)] @ rows[:, used].T
    scale = 1 / np.sqrt(spread.diagonal())
    scaled = spread * scale * scale[:, None]
    if np.linalg.matrix_rank(scaled, hermitian=True) < len(rows):
        raise ValueError("the restrictions depend on each other: leave out those that the others imply")
    chi2 = (away * scale) @ np.linalg.solve(scaled, away * scale)
    return _tested(chi2, len(rows), found.df_resid if summary.statistic == "t" else None)


def _numbers(given: Any, what: str) -> np.ndarray:
    """Return finite numbers.  Raises ValueError, or TypeError, for anything else."""
    try:
        found = np.asarray(given, float)
    except (TypeError, ValueError) as wrong:
        raise type(wrong)(f"{what} is {given!r}; it takes numbers, {wrong}") from None
    if not np.isfinite(found).all():
        raise ValueError(f"{what} is {given!r}: it must be finite")
    return found


@declares(_of_test)
def likelihood_ratio(full: Summary, reduced: Summary) -> HypothesisTest:
    """Test that the reduced model is as good, by the difference of deviances over the full model's dispersion.

    The reduced model has some of the full one's columns, or combinations of them, and the same rows, weights, offset
    and family.
    Raises ValueError where the two cannot be so, and for penalised fits.
    """
    for what, own, other in (
        ("family", str(full.model.family), str(reduced.model.family)),
        ("number of rows", full.solution.n_rows, reduced.solution.n_rows),
        ("sum of weights", full.solution.sum_weights, reduced.solution.sum_weights),
    ):
        if own != other:
            raise ValueError(f"the {what} of the two fits differs: {own} and {other}")
    if full.model.alpha or reduced.model.alpha:
        raise ValueError("deviances of penalised fits are not those of maximal likelihood: fit with alpha=0")
    df = reduced.solution.df_resid - full.solution.df_resid
    if not df > 0:
        raise ValueError("the reduced model has as many coefficients as the full one: it goes second")
    fallen = max(reduced.solution.deviance - full.solution.deviance, 0.0) / full.solution.dispersion
    return _tested(fallen, int(df), full.solution.df_resid if full.statistic == "t" else None)
