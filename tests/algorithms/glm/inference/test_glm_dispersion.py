"""Responses that vary more, or less, than their family has it: noted where it is certain; what quasi families do."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose

import bsp
from bsp.algorithms import glm

N = 400
RNG = np.random.default_rng(21)
X = RNG.normal(size=(N, 2))
MU = np.exp(1.0 + X @ [0.4, -0.3])
MIXED = RNG.poisson(MU * RNG.gamma(0.5, 2.0, N)).astype(float)  # variance mu + 2·mu²
TRIALS = np.full(N, 20.0)
SHARED = RNG.binomial(20, RNG.beta(1.0, 2.0, N)).astype(float)


def fit(family: str, y: np.ndarray, **columns: Any) -> Any:
    options = {"robust": columns.pop("robust")} if "robust" in columns else {}
    return bsp.run(lambda proc: glm.GLM(family, **options).fit(X[: len(y)], y, **columns), nprocs=3)[0]


def notes(model: Any) -> list[str]:
    return [note for note in model.summary().notes if "Pearson chi2" in note]


def test_overdispersed_counts_are_noted_with_the_factor_and_the_family_that_scales_by_it() -> None:
    model = fit("poisson", MIXED)
    ratio = model.solution_.pearson_chi2 / model.solution_.df_resid
    (note,) = notes(model)
    assert f"more than a poisson model has it (Pearson chi2 / df is {ratio:.3g}, not 1)" in note
    assert f"about {ratio**0.5:.2g} times too small; family='quasi-poisson' scales them by it" in note
    assert "robust standard errors allow for it" in notes(fit("poisson", MIXED, robust=True))[0]
    assert "family='quasi-poisson:identity'" in notes(fit("poisson:identity", MIXED))[0]


@pytest.mark.parametrize("family", ["binomial", "binomial:probit"])
def test_overdispersed_trials_are_noted(family: str) -> None:
    (note,) = notes(fit(family, SHARED, trials=TRIALS))
    assert f"more than a {family} model" in note
    assert f"family='quasi-{family}' scales them by it" in note


def test_counts_that_are_too_even_are_noted() -> None:
    (note,) = notes(fit("poisson", np.round(MU + 2)))
    assert "vary less" in note and "too large" in note


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("mean", [0.01, 0.1, 3.0])
@pytest.mark.parametrize("n", [12, N])
def test_counts_of_the_family_are_not_noted_however_rare_they_are(mean: float, n: int, seed: int) -> None:
    y = np.random.default_rng(seed).poisson(mean, n).astype(float)
    y[0] += not y.any()
    assert notes(fit("poisson", y)) == []


def test_single_trials_tell_nothing_of_dispersion() -> None:
    y = (RNG.random(N) < 0.02).astype(float)
    y[np.argmin(X[:, 0])] = 1.0
    assert notes(fit("binomial", y)) == []


def test_families_that_estimate_it_and_penalised_models_note_nothing() -> None:
    assert notes(fit("quasi-poisson", MIXED)) == []
    assert notes(fit("gamma", MIXED + 0.5)) == []
    penalised = bsp.run(lambda proc: glm.GLM("poisson", alpha=0.1).fit(X, MIXED), nprocs=2)[0]
    assert notes(penalised) == []


@pytest.mark.parametrize(("family", "y", "trials"), [("poisson", MIXED, None), ("binomial", SHARED, TRIALS)])
def test_a_quasi_family_has_the_estimates_of_its_family_and_errors_scaled_by_the_dispersion(
    family: str, y: np.ndarray, trials: Any
) -> None:
    plain, quasi = (fit(each, y, trials=trials) for each in (family, f"quasi-{family}"))
    assert_allclose(quasi.coef_, plain.coef_, rtol=1e-12)
    scale = quasi.solution_.dispersion
    assert_allclose(quasi.standard_errors_, plain.standard_errors_ * scale**0.5, rtol=1e-10)
    shares = y if trials is None else y / trials  # of successes and failures side by side theirs divides by the trials
    theirs = {"poisson": sm.families.Poisson, "binomial": sm.families.Binomial}[family]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        known = sm.GLM(shares, sm.add_constant(X), family=theirs, var_weights=trials).fit(
            scale="X2", tol=1e-14, maxiter=100
        )
    assert_allclose(scale, known.scale, rtol=1e-9)
    assert_allclose(quasi.standard_errors_, known.bse, rtol=1e-8)
    summary = quasi.summary()
    assert summary.statistic == "t"
    assert (summary.aic, summary.bic, quasi.solution_.log_likelihood) == (None, None, None)
    assert str(summary).startswith({"poisson": "Quasi-Poisson", "binomial": "Quasi-logistic"}[family])
