"""Models take what scikit-learn's users pass: labels of any dtype, constant columns, no trials, routing, notebooks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import sklearn
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import cross_validate

import bsp
from bsp.algorithms import glm

N = 120
RNG = np.random.default_rng(31)
X = RNG.normal(size=(N, 2))
WON = RNG.random(N) < 1 / (1 + np.exp(-X[:, 0]))
COUNTS = RNG.poisson(np.exp(0.3 * X[:, 0])).astype(float)


def fitted(make: Any, nprocs: int = 3) -> Any:
    return bsp.run(lambda proc: make(), nprocs=nprocs)[0]


@pytest.mark.parametrize("nprocs", [1, 3])
def test_labels_keep_their_dtype(nprocs: int) -> None:
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "won": WON})
    for make in (
        lambda: glm.LogisticRegression().fit(X, WON),
        lambda: glm.LogisticRegression().fit(frame[["a", "b"]], frame["won"]),
        lambda: glm.LogisticRegression().fit(frame, "won"),
        lambda: glm.LogisticRegression().fit(X, WON.tolist()),
        lambda: glm.LogisticRegression().fit(X, WON.astype(object)),
    ):
        model = fitted(make, nprocs)
        assert model.classes_.dtype == bool
        assert model.classes_.tolist() == [False, True]
        rows = frame[["a", "b"]] if hasattr(model, "feature_names_in_") else X
        assert model.predict(rows).dtype == bool
        assert model.score(rows, WON) > 0.5
    assert fitted(lambda: glm.LogisticRegression().fit(X, WON.astype(int))).classes_.dtype == int
    assert_allclose(
        fitted(lambda: glm.GLM("binomial").fit(X, WON)).coef_,
        fitted(lambda: glm.GLM("binomial").fit(X, 1.0 * WON)).coef_,
    )


def test_a_constant_column_of_a_frame_or_file_is_noted_as_that_of_an_array_is(tmp_path: Path) -> None:
    frame = pd.DataFrame({"a": X[:, 0], "flat": 5.0, "land": "DE", "y": COUNTS})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    array = fitted(lambda: glm.PoissonRegression().fit(frame[["a", "flat"]].to_numpy(), COUNTS))
    for data in (frame, str(tmp_path / "rows.csv")):
        model = fitted(lambda data=data: glm.PoissonRegression().fit(data, "y"))
        assert_allclose(model.coef_, array.coef_, rtol=1e-12)
        assert "column flat is constant: it is left out, with coefficient 0" in model.summary().notes
        assert "column land is 'DE' in every row: it is left out" in model.summary().notes
    assert_allclose(model.predict(frame.drop(columns="y")), array.predict(frame[["a", "flat"]].to_numpy()), rtol=1e-12)
    only = fitted(lambda: glm.PoissonRegression().fit(frame[["land", "y"]], "y"))
    assert_allclose(only.predict(frame[["land"]]), COUNTS.mean(), rtol=1e-12)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_row_of_no_trials_is_as_if_not_there(nprocs: int) -> None:
    trials = RNG.integers(0, 4, N)
    won = np.minimum(RNG.integers(0, 4, N), trials)
    some = trials > 0
    every = fitted(lambda: glm.GLM("binomial").fit(X, won, trials=trials), nprocs)
    kept = fitted(lambda: glm.GLM("binomial").fit(X[some], won[some], trials=trials[some]), nprocs)
    assert 0 < some.sum() < N
    assert_allclose(every.coef_, kept.coef_, rtol=1e-11)
    assert_allclose(every.standard_errors_, kept.standard_errors_, rtol=1e-11)
    assert every.solution_.df_resid == kept.solution_.df_resid
    assert_allclose(every.solution_.log_likelihood, kept.solution_.log_likelihood, rtol=1e-12)


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("scale", [1e-160, 1e-200, 1e-300])
def test_responses_whose_squares_are_beyond_numbers_are_refused(scale: float, nprocs: int) -> None:
    y = X @ [1.0, 2.0] + RNG.normal(size=N)
    with pytest.raises(glm.DataError, match="scale it up"):
        fitted(lambda: glm.LinearRegression().fit(X, scale * y), nprocs)
    small, plain = (fitted(lambda c=c: glm.LinearRegression().fit(X, c * y), nprocs) for c in (2.0**-400, 1.0))
    assert_array_equal(small.coef_, plain.coef_ * 2.0**-400)


@pytest.mark.parametrize("call", ["predict", "score"])
def test_an_offset_that_was_fitted_with_is_missed(call: str) -> None:
    offset = RNG.random(N)
    model = fitted(lambda: glm.PoissonRegression().fit(X, COUNTS, offset=offset))
    more = [COUNTS] if call == "score" else []
    with pytest.warns(UserWarning, match=r"fitted with an offset, and none is given here: it counts as 0"):
        getattr(model, call)(X, *more)
    getattr(model, call)(X, *more, offset=offset)
    getattr(fitted(lambda: glm.PoissonRegression().fit(X, COUNTS)), call)(X, *more)


def test_metadata_is_routed_by_scikit_learn() -> None:
    weights = RNG.random(N) + 0.5
    with pytest.raises(RuntimeError, match="enable_metadata_routing"):
        glm.PoissonRegression().set_fit_request(sample_weight=True)
    with sklearn.config_context(enable_metadata_routing=True):
        model = glm.PoissonRegression().set_fit_request(sample_weight=True, offset="exposure")
        model.set_score_request(sample_weight=False, offset="exposure")
        copied = clone(model)
        assert copied.get_metadata_routing().fit.requests == {
            "sample_weight": True, "offset": "exposure", "trials": None, "clusters": None, "frequencies": None
        }  # fmt: skip
        params = {"sample_weight": weights, "exposure": weights}
        found = cross_validate(copied, X, COUNTS, params=params, cv=3, return_estimator=True, return_indices=True)
        for each, rows, score in zip(found["estimator"], found["indices"]["train"], found["test_score"], strict=True):
            right = glm.PoissonRegression().fit(X[rows], COUNTS[rows], weights[rows], weights[rows])
            assert_array_equal(each.coef_, right.coef_)
            assert np.isfinite(score)
        with pytest.raises(TypeError, match="set_predict_request takes offset= not trials="):
            model.set_predict_request(trials=True)


def test_a_notebook_shows_the_parameters_and_then_the_summary() -> None:
    model = glm.GLM("poisson", alpha=0.0)
    assert model._repr_html_() == "<pre>GLM(family=&#x27;poisson&#x27;)</pre>"
    shown = fitted(lambda: model.fit(X, COUNTS))._repr_html_()
    assert shown.startswith("<pre>GLM(") and "<table>" in shown and "std err" in shown
