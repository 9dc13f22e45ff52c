"""Residuals by row are statsmodels', of whole rows and of dealt ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from glm_families import DEFAULTS, possible, theirs_of, tight
from numpy.testing import assert_allclose

import bsp
import bsp.arrays as ba
from bsp.algorithms import glm

N = 150
RNG = np.random.default_rng(61)
X = RNG.normal(size=(N, 3))
COUNTS = RNG.poisson(np.exp(0.5 + 0.2 * X[:, 0])).astype(float)
WEIGHTS = RNG.random(N) + 0.5


@pytest.mark.parametrize("nprocs", [1, 3, 7])
@pytest.mark.parametrize("kind", ["response", "pearson", "deviance", "working"])
@pytest.mark.parametrize("family", DEFAULTS)
def test_residuals_are_statsmodels(family: str, kind: str, nprocs: int) -> None:
    y = possible(family, COUNTS)
    known = sm.GLM(y, sm.add_constant(X), family=theirs_of(family), var_weights=WEIGHTS).fit(**tight(family))

    def main(proc: bsp.Process) -> tuple[Any, Any]:
        model = glm.GLM(family, tol=1e-13).fit(X, y, WEIGHTS)
        dealt = model.residuals(ba.array(X), ba.array(y), kind, ba.array(WEIGHTS))
        return model.residuals(X, y, kind, WEIGHTS), np.asarray(dealt)

    whole, dealt = bsp.run(main, nprocs=nprocs)[-1]
    assert_allclose(whole, getattr(known, f"resid_{kind}"), rtol=1e-6, atol=1e-8)
    assert_allclose(dealt, whole, rtol=1e-12)


def test_labels_are_0_and_1() -> None:
    won = COUNTS > 1
    model = glm.LogisticRegression().fit(X, won)
    assert_allclose(model.residuals(X, won, "response"), won - model.predict_proba(X)[:, 1])
    assert_allclose((model.residuals(X, won) ** 2).sum(), model.deviance_, rtol=1e-12)
    counted = glm.LogisticRegression().fit(X, 1.0 * won, trials=np.full(N, 2.0))
    assert_allclose((counted.residuals(X, won / 2, sample_weight=np.full(N, 2.0)) ** 2).sum(), counted.deviance_)
    with pytest.raises(ValueError, match="kind='raw': one of response"):
        model.residuals(X, won, "raw")


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_responses_that_the_model_cannot_have_are_refused(nprocs: int) -> None:
    won = np.where(COUNTS > 1, "yes", "no")

    def main(proc: bsp.Process) -> None:
        counts, classes = glm.PoissonRegression().fit(X, COUNTS), glm.LogisticRegression().fit(X, won)
        for rows in (X, ba.array(X)):
            with pytest.raises(glm.DataError, match="y = -1, which of a poisson model must be a count"):
                counts.residuals(rows, COUNTS - 1)
            with pytest.raises(glm.DataError, match=r"y should be a 1d array, got an array of shape \(150, 2\)"):
                counts.residuals(rows, np.column_stack([COUNTS, COUNTS]))
            with pytest.raises(glm.DataError, match="y has label 'NO'; the model was fitted to 'no' and 'yes'"):
                classes.residuals(rows, np.where(won == "no", "NO", won))

    bsp.run(main, nprocs=nprocs)


AFTER_A_FIT = {
    "residuals": lambda fits, rows, y: fits[0].residuals(rows, y + 0.0),
    "score": lambda fits, rows, y: fits[0].score(rows, y * 2.0, sample_weight=y + 1.0),
    "interval": lambda fits, rows, y: fits[0].predict_interval(rows).persist(),
    "leverage": lambda fits, rows, y: fits[0].leverage(rows).persist(),
    "wald": lambda fits, rows, y: fits[0].wald_test(["x0"]),
    "likelihood ratio": lambda fits, rows, y: fits[0].likelihood_ratio_test(fits[1]),
    "accuracy": lambda fits, rows, y: fits[2].score(rows, y == 1),
    "accuracy of classes": lambda fits, rows, y: fits[3].score(rows, y == 1),
}


@pytest.mark.parametrize("p", [1, 2, 3, 5])
@pytest.mark.parametrize("call", AFTER_A_FIT)
def test_what_follows_a_fit_takes_the_same_supersteps_without_values(call: str, p: int) -> None:
    def main(proc: Any) -> None:
        rng = ba.random.default_rng(1)
        rows = rng.normal(size=(60, 3), grid=(proc.nprocs, 1)).persist()
        y = rng.integers(0, 2, size=60, grid=(1,)).persist()  # elsewhere than the rows
        counts = glm.PoissonRegression().fit(rows, y), glm.PoissonRegression().fit(rows[:, :2], y)
        fits = *counts, glm.LogisticRegression().fit(rows, y), glm.MultinomialRegression().fit(rows, y)
        proc.sync("fitted")
        AFTER_A_FIT[call](fits, rows, y)

    def supersteps(abstract: bool) -> list[tuple[str, int, int]]:
        found = bsp.predict(main, nprocs=p, machine=bsp.Machine(p=p), abstract=abstract).per_superstep
        fitted = [row["label"] for row in found].index("fitted")
        return [(row["call"], max(row["h_sent"], row["h_received"]), row["messages"]) for row in found[fitted + 1 :]]

    assert supersteps(abstract=False) == supersteps(abstract=True)


@pytest.mark.parametrize("p", [2, 5])
def test_a_score_brings_and_checks_the_responses_once(p: int) -> None:
    def main(proc: Any) -> None:
        rng = ba.random.default_rng(1)
        rows = rng.normal(size=(60, 3), grid=(proc.nprocs, 1)).persist()
        y = rng.integers(0, 2, size=60, grid=(1,)).persist()
        model = glm.PoissonRegression().fit(rows, y)
        proc.sync("fitted")
        model.score(rows, y)

    found = [row["call"] for row in bsp.predict(main, nprocs=p, machine=bsp.Machine(p=p)).per_superstep]
    scored = found[found.index("sync") + 1 :]
    assert len(scored) == 5 and sum("allgather" in call for call in scored) == 2, scored


def test_a_summary_without_values_names_what_is_asked_for() -> None:
    def main(proc: Any) -> None:
        rng = ba.random.default_rng(1)
        summary = glm.LinearRegression().fit(rng.normal(size=(60, 3)), rng.normal(size=60)).summary()
        assert "no coefficients" in f"{summary}"
        summary.names  # noqa: B018

    with pytest.raises(bsp.ValueNeeded, match=r"summary\(\)\.names at .*: LinearRegression: a run without values"):
        bsp.predict(main, nprocs=2, machine=bsp.Machine(p=2), abstract=True)
