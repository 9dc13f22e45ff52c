"""Models as estimators: scikit-learn's conventions, predictions, scores, the same model on every process."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from glm_families import DEFAULTS, possible, theirs_of, tight

import bsp
import bsp.arrays as ba
from bsp.algorithms import glm

CLASSES = ["GLM", "LinearRegression", "LogisticRegression", "PoissonRegression", "GammaRegression"]
CHECKS = """
import json, sys, warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", "Estimator .* does not inherit from `sklearn.base.BaseEstimator`")
from sklearn.utils.estimator_checks import check_estimator
from bsp.algorithms import glm
found = {name: check_estimator(getattr(glm, name)(), on_fail=None, on_skip=None) for name in sys.argv[1:]}
print(json.dumps({
    name: [[each["check_name"], each["status"], str(each["exception"])] for each in checks]
    for name, checks in found.items()
}))
"""


def problem(family: str, n: int = 200, k: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, k))
    eta = 0.3 + X @ np.linspace(-0.5, 0.5, k)
    y = {
        "gaussian": lambda: eta + rng.normal(size=n),
        "binomial": lambda: (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(float),
        "gamma": lambda: rng.gamma(2.0, np.exp(eta) / 2),
        "inverse-gaussian": lambda: rng.wald(np.exp(eta), 8.0),
    }.get(family, lambda: possible(family, rng.poisson(np.exp(eta)).astype(float)))()
    return X, y


@pytest.fixture(scope="module")
def checks() -> dict[str, list[list[str]]]:
    """What scikit-learn's checks say of each class; without the variable one of them would be skipped."""
    words = [sys.executable, "-c", CHECKS, *CLASSES]
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, "SCIPY_ARRAY_API": "1"})
    assert done.returncode == 0, done.stderr
    found: dict[str, list[list[str]]] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("name", CLASSES)
def test_scikit_learns_checks_pass(name: str, checks: dict[str, list[list[str]]]) -> None:
    assert len(checks[name]) > 50
    assert [each for each in checks[name] if each[1] != "passed"] == []


def test_importing_the_models_does_not_import_scikit_learn_or_pandas() -> None:
    code = "import sys; from bsp.algorithms import glm; print({'sklearn', 'pandas', 'pyarrow'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_reading_a_file_does_not_import_pandas(tmp_path: Path) -> None:
    """It takes a second on each process; pyarrow's to_numpy imports it."""
    path = tmp_path / "a.csv"
    path.write_text("x,z,y\n1,a,2\n2.5,b,3\n,a,4\n4,b,4.5\n5,a,7\n")
    code = (
        "import sys; from bsp.algorithms import glm; "
        f"glm.GLM('gaussian').fit(glm.read_table({str(path)!r}, missing='drop'), 'y'); "
        "print('pyarrow' in sys.modules, 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"


@pytest.mark.parametrize("family", DEFAULTS)
@pytest.mark.parametrize("nprocs", [1, 2, 7, 64])
def test_coefficients_and_errors_are_statsmodels(family: str, nprocs: int) -> None:
    import statsmodels.api as sm

    X, y = problem(family)
    known = sm.GLM(y, sm.add_constant(X), family=theirs_of(family)).fit(**tight(family))
    models = bsp.run(lambda proc: glm.GLM(family, tol=1e-12).fit(X, y), nprocs=nprocs)
    for model in models:
        found = np.append(model.intercept_, model.coef_)
        np.testing.assert_allclose(found, known.params, rtol=1e-8, atol=0)
        np.testing.assert_allclose(model.standard_errors_, known.bse, rtol=1e-6, atol=0)
        np.testing.assert_allclose(model.deviance_, known.deviance, rtol=1e-10, atol=0)
        assert model.coef_.tobytes() == models[0].coef_.tobytes()
        assert model.converged_


@pytest.mark.parametrize(
    ("name", "family"),
    [("LinearRegression", "gaussian"), ("PoissonRegression", "poisson"), ("GammaRegression", "gamma")],
)
def test_a_familys_class_is_the_general_one_with_that_family(name: str, family: str) -> None:
    X, y = problem(family)
    own, general = getattr(glm, name)(alpha=0.1).fit(X, y), glm.GLM(family, alpha=0.1).fit(X, y)
    assert own.coef_.tobytes() == general.coef_.tobytes()
    assert own.score(X, y) == general.score(X, y)
    assert "family" not in own.get_params()
    assert "family" in general.get_params()


def test_scores_are_scikit_learns() -> None:
    from sklearn.metrics import accuracy_score, d2_tweedie_score, r2_score

    weights = np.random.default_rng(3).random(200)
    for family, score in (
        ("gaussian", r2_score),
        ("poisson", lambda *a, **k: d2_tweedie_score(*a, power=1, **k)),
        ("gamma", lambda *a, **k: d2_tweedie_score(*a, power=2, **k)),
    ):
        X, y = problem(family)
        model = glm.GLM(family).fit(X, y)
        assert model.score(X, y) == pytest.approx(score(y, model.predict(X)), rel=1e-12)
        weighted = score(y, model.predict(X), sample_weight=weights)
        assert model.score(X, y, sample_weight=weights) == pytest.approx(weighted, rel=1e-12)
    X, y = problem("binomial")
    model = glm.LogisticRegression().fit(X, y)
    assert model.score(X, y) == accuracy_score(y, model.predict(X))


def test_labels_of_any_kind_are_classes() -> None:
    X, y = problem("binomial")
    numbers = glm.LogisticRegression().fit(X, y)
    texts = glm.LogisticRegression().fit(X, np.where(y > 0, "yes", "no"))
    assert texts.coef_.tobytes() == numbers.coef_.tobytes()
    assert texts.classes_.tolist() == ["no", "yes"]
    assert set(texts.predict(X)) == {"no", "yes"}
    np.testing.assert_array_equal(texts.predict(X) == "yes", numbers.decision_function(X) > 0)
    np.testing.assert_allclose(numbers.predict_proba(X).sum(axis=1), 1, rtol=0, atol=1e-15)
    np.testing.assert_allclose(numbers.predict_proba(X)[:, 1], glm.GLM("binomial").fit(X, y).predict(X), rtol=1e-12)


def test_probabilities_of_other_families_are_no_attribute() -> None:
    assert not hasattr(glm.GLM("poisson"), "predict_proba")
    assert hasattr(glm.GLM("binomial"), "predict_proba")


def test_trials_are_rows_of_one_trial_each() -> None:
    rng = np.random.default_rng(5)
    X, trials = rng.normal(size=(30, 2)), rng.integers(1, 9, 30)
    y = rng.binomial(trials, 0.4)
    rows = np.repeat(np.arange(30), trials)
    ones = np.concatenate([np.arange(m) < s for m, s in zip(trials, y, strict=True)]).astype(float)
    for model in (glm.GLM("binomial"), glm.LogisticRegression()):
        counted = model.fit(X, y, trials=trials)
        found, errors = counted.coef_, counted.standard_errors_
        each = glm.GLM("binomial").fit(X[rows], ones)
        np.testing.assert_allclose(found, each.coef_, rtol=1e-9, atol=0)
        np.testing.assert_allclose(errors, each.standard_errors_, rtol=1e-8, atol=0)


def test_an_offset_is_added_in_fit_and_predict() -> None:
    X, y = problem("poisson")
    exposure = np.random.default_rng(1).random(200) + 0.5
    model = glm.PoissonRegression().fit(X, y, offset=np.log(exposure))
    with pytest.warns(UserWarning, match="fitted with an offset, and none is given here"):
        plain = model.predict(X)
    np.testing.assert_allclose(model.predict(X, offset=np.log(exposure)), exposure * plain, rtol=1e-13, atol=0)
    np.testing.assert_allclose(model.predict(X, offset=np.log(exposure)).sum(), y.sum(), rtol=1e-9)


def test_weight_2_is_a_row_twice() -> None:
    X, y = problem("poisson", 50)
    weights = np.random.default_rng(2).integers(0, 3, 50)
    rows = np.repeat(np.arange(50), weights)
    np.testing.assert_allclose(
        glm.PoissonRegression().fit(X, y, sample_weight=weights).coef_,
        glm.PoissonRegression().fit(X[rows], y[rows]).coef_, rtol=1e-9, atol=0,
    )  # fmt: skip


def test_a_model_that_is_not_fitted_says_so() -> None:
    model = glm.LogisticRegression()
    for call in (lambda: model.predict([[1.0]]), lambda: model.score([[1.0]], [1]), model.summary):
        with pytest.raises(ValueError, match=r"this LogisticRegression instance is not fitted yet; call fit\(X, y\)"):
            call()


def test_a_fitted_model_survives_pickling() -> None:
    X, y = problem("gamma")
    model = glm.GammaRegression().fit(X, y)
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(X).tobytes() == model.predict(X).tobytes()
    assert str(again.summary()) == str(model.summary())


def test_parameters_that_cannot_be_are_refused_before_the_data_are_touched() -> None:
    wrong: dict[str, Any] = {
        "family": "poison", "alpha": -1, "l1_ratio": 2, "solver": "bfgs", "tol": 0, "max_iter": 0,
    }  # fmt: skip
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=f"^{name}={value!r}"):
            glm.GLM(**{name: value}).fit("nowhere.csv", "y")


def test_a_wrong_parameter_name_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid parameter 'aplha' for estimator GLM; valid are family, alpha"):
        glm.GLM().set_params(aplha=1)


def test_repr_shows_what_is_not_the_default() -> None:
    assert repr(glm.GLM("poisson", alpha=0.5)) == "GLM(family='poisson', alpha=0.5)"
    assert repr(glm.LinearRegression()) == "LinearRegression()"


def test_penalised_models_have_no_standard_errors() -> None:
    X, y = problem("gaussian")
    model = glm.LinearRegression(alpha=0.1).fit(X, y)
    assert model.covariance_ is None
    assert model.standard_errors_ is None


@pytest.mark.parametrize("alphas", [0.1, [[0.1, 0.2]]])
def test_a_path_takes_a_sequence_of_penalties(alphas: Any) -> None:
    with pytest.raises(ValueError, match=r"alphas=.*: a sequence of numbers, or None"):
        glm.LinearRegression(l1_ratio=1.0).regularisation_path(np.eye(5), np.arange(5.0), alphas)


def test_the_regularisation_path_ends_at_the_weakest_penalty() -> None:
    X, y = problem("binomial")
    path = glm.LogisticRegression(l1_ratio=1.0).regularisation_path(X, y, alphas=[0.001, 0.1, 0.01])
    alone = glm.LogisticRegression(alpha=0.001, l1_ratio=1.0).fit(X, y)
    assert len(path) == 3
    np.testing.assert_allclose(path[-1].coef, alone.coef_, rtol=0, atol=1e-7)
    assert np.abs(path[0].coef).sum() < np.abs(path[1].coef).sum() < np.abs(path[2].coef).sum()


def test_a_pipeline_and_a_grid_search_take_it() -> None:
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    X, y = problem("binomial")
    search = GridSearchCV(
        make_pipeline(StandardScaler(), glm.LogisticRegression()), {"logisticregression__alpha": [0.0, 0.1, 10.0]}, cv=3
    )
    search.fit(X, y)
    assert search.best_score_ > 0.5
    assert search.best_estimator_[-1].n_features_in_ == 3


@pytest.mark.parametrize("nprocs", [1, 3, 8])
def test_predictions_of_dealt_rows_are_dealt_and_the_same(nprocs: int) -> None:
    X, y = problem("binomial", 37)
    known = glm.LogisticRegression().fit(X, y)

    def main(proc: bsp.Process) -> Any:
        rows, labels = ba.array(X, grid=(nprocs, 1)), ba.array(y, grid=(nprocs,))
        model = glm.LogisticRegression().fit(rows, labels)
        found = model.predict_proba(rows), model.predict(rows), model.decision_function(rows)
        assert all(isinstance(each, ba.Array) for each in found)
        return [each.compute() for each in found], model.score(rows, labels), model.score(X, y)

    for (probabilities, labels, eta), dealt_score, whole_score in bsp.run(main, nprocs=nprocs):
        np.testing.assert_allclose(probabilities, known.predict_proba(X), rtol=1e-9, atol=0)
        np.testing.assert_allclose(eta, known.decision_function(X), rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(labels, known.predict(X))
        assert dealt_score == pytest.approx(known.score(X, y), rel=1e-12)
        assert whole_score == pytest.approx(known.score(X, y), rel=1e-12)


def test_one_process_may_predict_alone() -> None:
    X, y = problem("poisson")

    def main(proc: bsp.Process) -> Any:
        model = glm.PoissonRegression().fit(X, y)
        before = proc.superstep
        if proc.pid == 1:
            model.predict(X)
            model.score(X, y)
        return proc.superstep - before

    assert bsp.run(main, nprocs=3) == [0, 0, 0]


@pytest.mark.thorough
@pytest.mark.jobs
def test_two_elements_fit_the_same_bytes_as_one() -> None:
    X, y = problem("poisson")
    one, two = (
        bsp.run(lambda proc: glm.PoissonRegression().fit(X, y).coef_.tobytes(), nprocs=3, elements=n) for n in (1, 2)
    )
    assert one == two


@pytest.mark.parametrize("nprocs", [1, 3])
def test_what_is_scored_is_looked_at(nprocs: int) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.poisson(2, 60)
    frame = pd.DataFrame({"y": y, "a": X[:, 0], "b": X[:, 1]})

    def main(proc: bsp.Process) -> None:
        model = glm.PoissonRegression().fit(frame, "y")
        rows = frame[["a", "b"]]
        assert model.score(frame, "y") == model.score(rows, frame["y"])
        for given, said in (
            ((rows, -frame["y"] - 1), "must be a count"), ((rows, y, np.zeros(60)), "no row has a weight above 0"),
            ((rows, y, np.full(60, np.nan)), "sample_weight must be finite"), ((rows, "z"), "there is no column 'z'"),
            ((rows, 3), "it must be a vector of 60 elements"),
        ):  # fmt: skip
            with pytest.raises(glm.DataError, match=said):
                model.score(*given)
        path = glm.GLM("poisson", l1_ratio=1.0).regularisation_path(frame, "y", [0.1, 0.3])
        assert [each.alpha for each in path] == [0.3, 0.1]

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_rows_that_are_not_finite_are_predicted_nowhere(nprocs: int) -> None:
    X, y = problem("poisson")
    wrong = X.copy()
    wrong[len(X) // 2, 1] = np.nan
    endless = np.zeros(len(X))
    endless[-1] = np.inf

    def main(proc: bsp.Process) -> None:
        model = glm.PoissonRegression().fit(X, y)
        for kind in (np.asarray, ba.asarray):
            with pytest.raises(glm.DataError, match="Input X contains NaN"):
                model.predict(kind(wrong))
            with pytest.raises(glm.DataError, match="Input X contains NaN"):
                model.score(kind(wrong), y)
            with pytest.raises(glm.DataError, match="Input offset contains infinity"):
                model.predict(kind(X), offset=kind(endless))

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_labels_of_no_class_are_not_scored(nprocs: int) -> None:
    X, _ = problem("binomial")
    won = np.where(np.arange(len(X)) % 3, 1, 0)
    other = np.where(np.arange(len(X)) == 5, 2, won)

    def main(proc: bsp.Process) -> None:
        model = glm.LogisticRegression().fit(X, won)
        for rows in (X, ba.asarray(X)):
            with pytest.raises(glm.DataError, match="y has label 2; the model was fitted to 0 and 1"):
                model.score(rows, other)
            kept = np.where(other == 2, 0.0, 1.0)
            assert model.score(rows, other, kept) == model.score(rows, won, kept)
            counts = glm.LogisticRegression().fit(rows, won, trials=np.full(len(won), 2))
            with pytest.raises(glm.DataError, match="y has label 2; the model was fitted to 0 and 1"):
                counts.score(rows, 2 * won)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_columns_of_zeros_alone_have_coefficients_of_0(nprocs: int) -> None:
    y = np.arange(1.0, 9.0)

    def main(proc: bsp.Process) -> list[glm.LinearRegression]:
        solvers = "newton", "coordinate", "lbfgs"
        return [glm.LinearRegression(fit_intercept=False, solver=each).fit(np.zeros((8, 2)), y) for each in solvers]

    for model in bsp.run(main, nprocs=nprocs)[0]:
        assert (model.coef_.tolist(), model.converged_, model.deviance_) == ([0.0, 0.0], True, y @ y)
