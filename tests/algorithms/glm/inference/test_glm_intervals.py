"""Confidence intervals of predicted means, and leverages: statsmodels', wherever the rows lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import statsmodels.api as sm
from numpy.testing import assert_allclose

import bsp
import bsp.arrays as ba
from bsp.algorithms import glm

N = 80
RNG = np.random.default_rng(8)
X = RNG.normal(size=(N, 3)) * [1, 5, 0.1] + [0, 100, 0]
Y = X @ [1, 0.1, 2] + RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(0.4 * X[:, 0])).astype(float)
WON = (RNG.random(N) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
WEIGHTS = RNG.integers(1, 4, N) / 2.0
FAMILIES = {
    "gaussian": (Y, sm.families.Gaussian()),
    "poisson": (COUNTS, sm.families.Poisson()),
    "binomial": (WON, sm.families.Binomial()),
    "gamma": (COUNTS + 1, sm.families.Gamma(sm.families.links.Log())),
}


def known(family: str, weights: Any = None, **kinds: Any) -> Any:
    y, theirs = FAMILIES[family]
    scaled = kinds | {"use_t": theirs.__class__.__name__ in ("Gaussian", "Gamma")}
    return sm.GLM(y, sm.add_constant(X), theirs, var_weights=weights).fit(tol=1e-13, maxiter=200, **scaled)


@pytest.mark.parametrize("level", [0.95, 0.5])
@pytest.mark.parametrize("family", FAMILIES)
def test_intervals_are_statsmodels(family: str, level: float) -> None:
    model = glm.GLM(family, tol=1e-13).fit(X, FAMILIES[family][0])
    table = known(family).get_prediction(sm.add_constant(X)).summary_frame(alpha=1 - level)
    right = table[["mean", "mean_ci_lower", "mean_ci_upper"]].to_numpy()
    assert_allclose(model.predict_interval(X, level), right, rtol=1e-7)


def test_robust_ones_take_the_robust_covariance() -> None:
    model = glm.GLM("poisson", robust=True, tol=1e-13).fit(X, COUNTS)
    table = known("poisson", cov_type="HC0").get_prediction(sm.add_constant(X)).summary_frame()
    assert_allclose(model.predict_interval(X)[:, 1:], table[["mean_ci_lower", "mean_ci_upper"]], rtol=1e-7)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weighted"])
@pytest.mark.parametrize("family", FAMILIES)
def test_leverages_are_statsmodels_and_sum_to_the_coefficients(family: str, weights: Any) -> None:
    model = glm.GLM(family, tol=1e-13).fit(X, FAMILIES[family][0], weights)
    found = model.leverage(X, weights)
    assert_allclose(found, known(family, weights).get_hat_matrix_diag(observed=False), rtol=1e-7)
    assert_allclose(found.sum(), 4, rtol=1e-9)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_dealt_and_sparse_rows_give_the_same(nprocs: int) -> None:
    def main(proc: bsp.Process) -> Any:
        model = glm.GLM("poisson", tol=1e-13).fit(X, COUNTS)
        dealt, sparse = ba.asarray(X), scipy.sparse.csr_matrix(X)
        return (
            [model.predict_interval(X), model.predict_interval(dealt).compute(), model.predict_interval(sparse)],
            [model.leverage(X), model.leverage(dealt).compute(), model.leverage(sparse)],
        )

    for kind in bsp.run(main, nprocs=nprocs)[0]:
        for each in kind[1:]:
            assert_allclose(each, kind[0], rtol=1e-10)


@pytest.mark.parametrize("doubled", [False, True], ids=["", "and nearly collinear"])
@pytest.mark.parametrize("robust", [False, "HC1"])
def test_columns_far_from_0_lose_no_digits(robust: Any, doubled: bool) -> None:
    far = X.copy()
    far[:, 1] += 1e9  # as times are, in seconds; what is left of X is what the numbers hold
    near = far - [0, 1e9, 0]
    if doubled:
        far, near = (np.column_stack([each, each[:, 2] + 1e-7 * RNG.permutation(N)]) for each in (far, near))
        far[:, 3] = near[:, 3]
    model, known = (glm.GLM("gaussian", robust=robust).fit(rows, Y) for rows in (far, near))
    assert_allclose(model.predict_interval(far), known.predict_interval(near), rtol=1e-6)
    assert_allclose(model.leverage(scipy.sparse.csr_matrix(far)), known.leverage(near), rtol=1e-6)
    assert_allclose(model.leverage(far).sum(), far.shape[1] + 1, rtol=1e-6)


def test_without_an_intercept_and_with_a_collinear_column() -> None:
    doubled = np.column_stack([X, 2 * X[:, 0]])
    model, plain = (glm.GLM("gaussian", fit_intercept=False).fit(rows, Y) for rows in (doubled, X))
    assert_allclose(model.predict_interval(doubled), plain.predict_interval(X), rtol=1e-7)
    assert_allclose(model.leverage(doubled), plain.leverage(X), rtol=1e-6)


def test_a_penalised_fit_has_none_and_a_level_is_a_share() -> None:
    model = glm.GLM("gaussian", alpha=0.1).fit(X, Y)
    for call in (model.predict_interval, model.leverage):
        with pytest.raises(ValueError, match="has no covariance"):
            call(X)
    with pytest.raises(ValueError, match="between 0 and 1"):
        glm.GLM("gaussian").fit(X, Y).predict_interval(X, level=95)
