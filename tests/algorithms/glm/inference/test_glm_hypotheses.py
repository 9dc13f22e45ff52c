"""Wald's tests and tests by deviances, held to statsmodels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from glm_families import possible, theirs_of, tight
from numpy.testing import assert_allclose
from scipy import stats

import bsp
from bsp.algorithms import glm
from bsp.algorithms.glm.families import family_of

N = 300
RNG = np.random.default_rng(41)
X = RNG.normal(size=(N, 4))
COUNTS = RNG.poisson(np.exp(0.5 + 0.2 * X[:, 0])).astype(float)
COMBINED = np.array([[0, 1.0, -1, 0, 0], [0, 0, 0, 2, 1]])


def fit(family: str, columns: int = 4, **options: Any) -> Any:
    y = possible(family, COUNTS)
    return bsp.run(lambda proc: glm.GLM(family, tol=1e-12, **options).fit(X[:, :columns], y), nprocs=3)[0]


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial", "gamma", "quasi-poisson"])
def test_walds_test_is_statsmodels(family: str, robust: bool) -> None:
    model = fit(family, robust=robust)
    estimated = family_of(family).free_dispersion
    known = sm.GLM(possible(family, COUNTS), sm.add_constant(X), family=theirs_of(family)).fit(
        **tight(family), cov_type="HC0" if robust else "nonrobust"
    )
    for hypothesis, value, rows in (
        (["x1", "x3"], 0.0, np.eye(5)[[2, 4]]),
        ("x0", 0.1, np.eye(5)[[1]]),
        (COMBINED, [0.1, -0.2], COMBINED),
    ):
        right = known.wald_test((rows, np.broadcast_to(value, len(rows))), use_f=estimated, scalar=True)
        found = model.wald_test(hypothesis, value)
        assert_allclose([found.statistic, found.p_value], [right.statistic, right.pvalue], rtol=1e-6)
        assert (found.df, found.df_resid) == (len(rows), N - 5 if estimated else None)


def test_the_f_test_of_two_linear_fits_is_statsmodels() -> None:
    full, reduced = fit("gaussian"), fit("gaussian", 2)
    right = sm.OLS(COUNTS, sm.add_constant(X)).fit().compare_f_test(sm.OLS(COUNTS, sm.add_constant(X[:, :2])).fit())
    found = full.likelihood_ratio_test(reduced)
    assert_allclose([found.statistic, found.p_value, found.df], right, rtol=1e-10)
    assert found.df_resid == N - 5


@pytest.mark.parametrize("family", ["poisson", "binomial"])
def test_the_likelihood_ratio_of_two_fits_is_twice_the_difference_of_likelihoods(family: str) -> None:
    full, reduced = fit(family), fit(family, 1)
    twice = 2 * (full.solution_.log_likelihood - reduced.solution_.log_likelihood)
    found = full.likelihood_ratio_test(reduced)
    assert_allclose([found.statistic, found.p_value], [twice, stats.chi2.sf(twice, 3)], rtol=1e-8)
    assert (found.df, found.df_resid) == (3, None)


def test_tests_that_cannot_be_are_refused() -> None:
    model = fit("poisson")
    for hypothesis, says in (
        ("age", "no coefficient 'age'; there are intercept, x0"),
        (np.ones((1, 4)), r"shape \(1, 4\)"),
        (np.array([COMBINED[0], COMBINED[0]]), "depend on each other"),
        (np.zeros((0, 5)), "names, or"),
    ):
        with pytest.raises(ValueError, match=says):
            model.wald_test(hypothesis)
    for full, reduced, says in (
        (model, fit("gaussian", 2), "the family of the two fits differs"),
        (fit("poisson", 2), model, "it goes second"),
        (model, fit("poisson", 2, alpha=0.1), "penalised"),
    ):
        with pytest.raises(ValueError, match=says):
            full.likelihood_ratio_test(reduced)
    for value, says in (
        ([1, 2], r"value has shape \(2,\): a number, or one for each of 1 restrictions"),
        ("a", "value is 'a'; it takes numbers"), (np.nan, "value is nan: it must be finite"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=says):
            model.wald_test("x0", value=value)
    with pytest.raises(TypeError, match="reduced=3: it is a model that was fitted"):
        model.likelihood_ratio_test(3)
    with pytest.raises(ValueError, match="no covariance"):
        fit("poisson", alpha=0.1).wald_test("x0")
    repeated = bsp.run(lambda proc: glm.GLM("poisson").fit(X[:, [0, 1, 0]], COUNTS), nprocs=2)[0]
    with pytest.raises(ValueError, match="left out as collinear"):
        repeated.wald_test("x2")
    assert repeated.wald_test("x0").statistic > 0
