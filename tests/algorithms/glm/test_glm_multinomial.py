"""Multinomial logistic regression: statsmodels' MNLogit and scikit-learn's for every deal of the rows."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import statsmodels.api as sm
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_score

import bsp
import bsp.arrays as ba
from bsp.algorithms import glm
from bsp.algorithms.glm.multinomial.softmax import expansion

N, MODES = 150, np.array(["bus", "car", "train", "walk"])
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 3)) * [1, 5, 0.1] + [0, 100, 0]
ETA = np.column_stack([np.zeros(N), X[:, 0], 0.1 * (X[:, 1] - 100), 5 * X[:, 2] - 0.5])
CODES = np.argmax(ETA + RNG.gumbel(size=(N, 4)), axis=1)
Y = MODES[CODES]
WEIGHTS, TIMES = RNG.integers(1, 5, N) / 2.0, RNG.integers(0, 4, N)


def fitted(nprocs: int, *data: Any, rows: Any = X, y: Any = Y, **parameters: Any) -> Any:
    def main(proc: bsp.Process) -> Any:
        return glm.MultinomialRegression(**{"tol": 1e-12} | parameters).fit(rows, y, *data)

    models = bsp.run(main, nprocs=nprocs)
    assert len({(each.coef_.tobytes(), pickle.dumps(each.standard_errors_)) for each in models}) == 1
    return models[0]


def theirs(**kinds: Any) -> Any:
    return sm.MNLogit(CODES, sm.add_constant(X)).fit(method="newton", maxiter=100, tol=1e-14, disp=0, **kinds)


def stacked(model: Any) -> np.ndarray:
    return np.column_stack([model.intercept_, model.coef_])


@pytest.mark.parametrize("nprocs", [1, 3, 64, 200])
def test_it_is_statsmodels(nprocs: int) -> None:
    known, model = theirs(), fitted(nprocs)
    assert model.converged_ and model.n_features_in_ == 3
    assert_array_equal(model.classes_, MODES)
    assert_array_equal(stacked(model)[0], 0.0)
    assert_array_equal(model.standard_errors_[0], 0.0)
    assert_allclose(stacked(model)[1:], known.params.T, rtol=1e-7, atol=1e-10)
    assert_allclose(model.standard_errors_[1:], known.bse.T, rtol=1e-7)
    assert_allclose(model.covariance_, known.cov_params(), rtol=1e-6, atol=1e-9 * np.abs(known.cov_params()).max())
    found = model.solution_
    assert_allclose(found.log_likelihood, known.llf, rtol=1e-11)
    assert_allclose(found.null_deviance, -2 * known.llnull, rtol=1e-9)  # theirs is iterated to fewer digits
    assert (found.df_resid, found.deviance) == (N - 12, -2 * found.log_likelihood)
    assert_allclose([model.summary().aic, model.summary().bic], [known.aic, known.bic], rtol=1e-10)
    assert_allclose(model.predict_proba(X), known.predict(), rtol=1e-7)
    assert_array_equal(model.predict(X), MODES[known.predict().argmax(axis=1)])
    assert model.score(X, Y) == np.mean(model.predict(X) == Y)


@pytest.mark.parametrize("kind", ["HC0", "HC1"])
def test_robust_errors_are_statsmodels(kind: str) -> None:
    bse = theirs(cov_type="HC0").bse.T  # its HC1 is the same here: it does not count the coefficients
    few = np.sqrt(N / (N - 12)) if kind == "HC1" else 1.0
    assert_allclose(fitted(3, robust=kind).standard_errors_[1:], few * bse, rtol=1e-6)


VILLAGE = np.random.default_rng(4).integers(0, 17, N)


@pytest.mark.parametrize("nprocs", [1, 3, 64])
def test_clustered_errors_are_statsmodels(nprocs: int) -> None:
    known = theirs(cov_type="cluster", cov_kwds={"groups": VILLAGE})
    labels = np.array([f"village {each}" for each in VILLAGE])
    models = bsp.run(
        lambda proc: glm.MultinomialRegression(robust="cluster", tol=1e-12).fit(X, Y, clusters=labels), nprocs=nprocs
    )
    assert len({each.standard_errors_.tobytes() for each in models}) == 1
    found = models[0]
    assert_allclose(found.standard_errors_[1:], known.bse.T, rtol=1e-7)
    assert_allclose(found.covariance_, known.cov_params(), rtol=1e-6, atol=1e-9 * np.abs(known.cov_params()).max())
    assert "standard errors are clustered (17 clusters)" in found.summary().notes


def test_clusters_go_with_weights_sparse_rows_and_no_intercept() -> None:
    weights, parameters = np.where(VILLAGE == 3, 0.0, WEIGHTS), {"robust": "cluster", "fit_intercept": False}
    used, rows = weights > 0, X - [0, 100, 0]
    model = glm.MultinomialRegression(**parameters)
    found = model.fit(rows[used], Y[used], weights[used], clusters=VILLAGE[used]).standard_errors_
    for given in (rows, scipy.sparse.csr_matrix(rows)):
        some = bsp.run(
            lambda proc, given=given: glm.MultinomialRegression(**parameters).fit(given, Y, weights, clusters=VILLAGE),
            nprocs=3,
        )[0]
        assert_allclose(some.standard_errors_, found, rtol=1e-9)
        assert some.solution_.clusters == len(np.unique(VILLAGE)) - 1
    own = glm.MultinomialRegression(robust="cluster").fit(X, Y, clusters=np.arange(N)).standard_errors_  # each alone
    assert_allclose(
        own, fitted(2, robust="HC0").standard_errors_ * np.sqrt(N / (N - 1) * (N - 1) / (N - 12)), rtol=1e-8
    )


def test_clusters_and_clustered_errors_need_each_other() -> None:
    with pytest.raises(ValueError, match="robust='cluster' and clusters=None: one of them needs the other"):
        fitted(1, robust="cluster")
    with pytest.raises(ValueError, match=r"robust=False and clusters=.*: one of them needs the other"):
        glm.MultinomialRegression().fit(X, Y, clusters=VILLAGE)
    with pytest.raises(glm.DataError, match="all rows are in one cluster"):
        glm.MultinomialRegression(robust="cluster").fit(X, Y, clusters=np.ones(N))


def test_the_reference_changes_no_probability_and_compares_with_another_class() -> None:
    first, other = fitted(2), fitted(2, reference="train")
    assert other.reference_ == "train"
    assert_array_equal(stacked(other)[2], 0.0)
    assert_allclose(stacked(other), stacked(first) - stacked(first)[2], rtol=1e-7, atol=1e-9)
    assert_allclose(other.predict_proba(X), first.predict_proba(X), rtol=1e-8)
    assert_allclose(other.standard_errors_[0], first.standard_errors_[2], rtol=1e-7)
    assert other.summary().names[:2] == ("bus: intercept", "bus: x0")
    assert "classes are compared with 'train'" in str(other.summary())


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weighted"])
@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
@pytest.mark.parametrize("reference", [None, "walk"])
def test_with_a_ridge_it_is_scikit_learn(weights: Any, solver: str, reference: Any) -> None:
    alpha, total = 0.02, N if weights is None else weights.sum()
    rows = (X - [0, 100, 0]) / [1, 5, 0.1]
    known = LogisticRegression(C=1 / (alpha * total), tol=1e-12, max_iter=10_000).fit(rows, Y, weights)
    model = fitted(3, weights, rows=rows, alpha=alpha, solver=solver, reference=reference, max_iter=500)
    assert model.standard_errors_ is None
    assert_allclose(model.predict_proba(rows), known.predict_proba(rows), rtol=0, atol=1e-6)
    assert_allclose(model.coef_ - model.coef_.mean(axis=0), known.coef_ - known.coef_.mean(axis=0), rtol=0, atol=1e-6)


def test_two_classes_are_logistic_regression() -> None:
    won = Y == "car"
    known, model = glm.LogisticRegression(tol=1e-12).fit(X, won), fitted(3, y=won)
    assert model.classes_.dtype == bool
    assert_allclose(stacked(model)[1], [known.intercept_, *known.coef_], rtol=1e-8)
    assert_allclose(model.standard_errors_[1], known.standard_errors_, rtol=1e-8)
    assert_allclose(model.decision_function(X), known.decision_function(X), rtol=1e-7, atol=1e-9)
    assert_allclose(model.solution_.pearson_chi2, known.solution_.pearson_chi2, rtol=1e-8)


@pytest.mark.parametrize("robust", [False, "HC0", "HC1"])
@pytest.mark.parametrize("nprocs", [1, 3])
def test_frequencies_are_repeated_rows(nprocs: int, robust: Any) -> None:
    rows, y, weights = (np.repeat(each, TIMES, axis=0) for each in (X, Y, WEIGHTS))
    known, model = fitted(1, weights, rows=rows, y=y, robust=robust), fitted(nprocs, WEIGHTS, TIMES, robust=robust)
    assert_allclose(stacked(model), stacked(known), rtol=1e-8, atol=1e-10)
    assert_allclose(model.standard_errors_, known.standard_errors_, rtol=1e-8)
    assert (model.solution_.n_rows, model.solution_.df_resid) == (len(y), len(y) - 12)
    assert_allclose(model.summary().bic, known.summary().bic, rtol=1e-10)


def test_rows_may_be_sparse_dealt_or_of_a_table() -> None:
    known = fitted(1)
    assert_allclose(stacked(fitted(3, rows=scipy.sparse.csr_matrix(X))), stacked(known), rtol=1e-7, atol=1e-9)

    def dealt(proc: bsp.Process) -> Any:
        x, codes = ba.asarray(X), ba.asarray(CODES)
        model = glm.MultinomialRegression(tol=1e-12).fit(x, codes)
        shown = model.predict_proba(x).compute(), model.predict(x).compute(), model.score(x, codes)
        return stacked(model), *shown

    coefficients, chances, labels, score = bsp.run(dealt, nprocs=3)[0]
    assert_allclose(coefficients, stacked(known), rtol=1e-7, atol=1e-9)
    assert_allclose(chances, known.predict_proba(X), rtol=1e-7)
    assert (MODES[labels] == known.predict(X)).all() and score == known.score(X, Y)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abc")).assign(mode=Y)
    model = fitted(3, rows=frame, y="mode")
    assert_allclose(stacked(model), stacked(known), rtol=1e-7, atol=1e-9)
    assert model.summary().title == "Multinomial logistic regression of mode (logit link), 150 rows"
    assert model.summary().names[:2] == ("car: intercept", "car: a")
    assert_array_equal(model.predict(frame.drop(columns="mode")), known.predict(X))


def test_without_an_intercept_it_is_statsmodels() -> None:
    known = sm.MNLogit(CODES, X).fit(method="newton", maxiter=100, tol=1e-14, disp=0)
    model = fitted(2, fit_intercept=False)
    assert_allclose(model.coef_[1:], known.params.T, rtol=1e-7, atol=1e-10)
    assert_allclose(model.standard_errors_[1:], known.bse.T, rtol=1e-7)
    assert_array_equal(model.intercept_, 0.0)


def test_hypotheses_are_tested_by_name_and_by_two_fits() -> None:
    known, model = theirs(), fitted(2)
    names = [f"{mode}: x1" for mode in MODES[1:]]
    matrix = np.zeros((3, 12))
    matrix[range(3), [2, 6, 10]] = 1.0
    right = known.wald_test(matrix, scalar=True, use_f=False)
    assert_allclose(model.wald_test(names)[0], float(right.statistic), rtol=1e-6)
    smaller = fitted(2, rows=X[:, [0, 2]])
    found = model.likelihood_ratio_test(smaller)
    assert_allclose((found.statistic, found.df), (smaller.deviance_ - model.deviance_, 3), rtol=1e-12)


def test_collinear_columns_are_left_out_once_by_name() -> None:
    rows = np.column_stack([X, X[:, 0] + X[:, 2], np.ones(N)])
    known, model = fitted(1), fitted(3, rows=rows)
    assert_allclose(model.predict_proba(rows), known.predict_proba(X), rtol=1e-7)
    notes = [note for note in model.solution_.notes if "left out" in note]
    assert len(notes) == 2 and "x3 is a combination of x0, x2" in notes[0] and "x4 is constant" in notes[1]
    assert np.isnan(model.standard_errors_[1:, 4:]).all()
    assert_allclose(model.standard_errors_[:, :4], known.standard_errors_, rtol=1e-6)


@pytest.mark.parametrize("separate", ["bus", "walk"])
@pytest.mark.parametrize("reference", [None, "train"])
def test_a_class_that_a_column_separates_is_noted(separate: str, reference: Any) -> None:
    rows = np.column_stack([X, (separate == Y) & (X[:, 0] < 10)])
    model = fitted(3, rows=rows, reference=reference)
    assert not model.converged_
    assert any("separated" in note and "x3" in note for note in model.solution_.notes)
    assert fitted(3, rows=rows, reference=reference, alpha=0.1).converged_


def test_rows_without_weight_make_no_class() -> None:
    some = np.where(Y == "train", 0.0, WEIGHTS)
    every, kept = fitted(3, some), fitted(3, some[some > 0], rows=X[some > 0], y=Y[some > 0])
    assert_array_equal(every.classes_, ["bus", "car", "walk"])
    assert_allclose(stacked(every), stacked(kept), rtol=1e-7, atol=1e-9)
    assert every.solution_.df_resid == kept.solution_.df_resid


def test_probabilities_near_0_and_1_keep_their_digits() -> None:
    eta = np.array([[800.0, -300.0], [40.0, 1.0], [-50.0, -60.0]])
    at = expansion(eta, np.array([0, 0, 2]))
    assert_allclose(at.loss[1:], [np.exp(-40) + np.exp(-39), np.exp(-50) + np.exp(-60)], rtol=1e-12)
    assert_allclose(at.score[1, 0], -(np.exp(-40) + np.exp(-39)), rtol=1e-12)
    assert at.loss[0] == 0.0 and np.isfinite(at.rest).all()


def test_derivatives_are_those_of_the_loss() -> None:
    eta, codes, step = RNG.normal(size=(20, 3)), RNG.integers(0, 4, 20), 1e-5
    for j in range(3):
        up, down = (expansion(eta + side * step * np.eye(3)[j], codes) for side in (1, -1))
        at = expansion(eta, codes)
        assert_allclose(at.score[:, j], (up.loss - down.loss) / (2 * step), rtol=1e-7, atol=1e-9)
        curved = (up.score[:, j] - down.score[:, j]) / (2 * step)
        assert_allclose(at.probability[:, j] * at.rest[:, j], curved, rtol=1e-7, atol=1e-9)


def test_every_point_is_one_superstep() -> None:
    steps: list[Any] = []

    def main(proc: bsp.Process) -> None:
        before = proc.superstep
        model = glm.MultinomialRegression().fit(X, Y)
        steps.append((proc.superstep - before, model.n_iter_))

    bsp.run(main, nprocs=3)
    assert {(taken, iterations) for taken, iterations in steps} == {(3 + 1 + steps[0][1], steps[0][1])}


def test_scikit_learn_clones_and_validates_it() -> None:
    model = glm.MultinomialRegression(reference="car", alpha=0.1)
    assert repr(clone(model)) == "MultinomialRegression(reference='car', alpha=0.1)"
    assert (cross_val_score(model, X, Y, cv=3) > 0.3).all()
    assert model.__sklearn_tags__().classifier_tags.multi_class
    assert "<table>" in fitted(1)._repr_html_()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"reference": "plane"},
            r"reference='plane': no row is of this class; there are 'bus', 'car', ",
        ),
        ({"y": np.full(N, "bus")}, "there is only one class"),
        ({"y": X[:, 0]}, "Unknown label type: continuous"),
        ({"y": np.arange(N * 10)[::10], "rows": X}, None),
        ({"y": Y[1:]}, "inconsistent numbers of samples"),
        ({"solver": "coordinate"}, "solver='coordinate': one of auto, newton, lbfgs"),
        ({"robust": "HC3"}, "robust='HC3': one of False, True, HC0, HC1, cluster"),
        ({"alpha": -1.0}, "alpha=-1.0: a number, 0 or more"),
        ({"rows": np.where(np.arange(N)[:, None] == 8, np.nan, X)}, r"row 8: column 'x0' holds NaN"),
    ],
)
def test_bad_input_is_one_clear_error(changed: dict[str, Any], message: str | None) -> None:
    if message is None:  # as many classes as rows
        model = fitted(3, max_iter=2, **changed)
        assert len(model.classes_) == N
        return
    with pytest.raises(ValueError, match=message):
        fitted(3, **changed)


def test_more_classes_than_can_be_are_refused_and_two_are_hinted_at() -> None:
    with pytest.raises(glm.DataError, match="more than 1000 different labels"):
        fitted(2, rows=np.ones((1200, 1)), y=np.arange(1200))
    with pytest.raises(glm.DataError, match="MultinomialRegression is for more than two classes"):
        glm.LogisticRegression().fit(X, Y)


@pytest.mark.parametrize("weights", [np.where(np.arange(N) == 3, wrong, WEIGHTS) for wrong in (-1.0, np.inf)])
def test_bad_weights_name_their_row(weights: np.ndarray) -> None:
    with pytest.raises(glm.DataError, match=r"row \d+: weight = .*must be finite and 0 or more"):
        fitted(3, weights)
