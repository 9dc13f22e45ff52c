"""What the solvers of bsp.algorithms.glm find, held to statsmodels and scikit-learn on real data."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import statsmodels.api as sm
from glm_families import DEFAULTS, possible, theirs_of, tight
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.linear_model import ElasticNet, GammaRegressor, LogisticRegression, PoissonRegressor

import bsp
from bsp.algorithms.glm.fitting import solve
from bsp.algorithms.glm.path import path
from bsp.algorithms.glm.problem import Model, Rows, Solution


def share(values: Any, proc: bsp.Process) -> Any:
    """This process's part of the rows."""
    if values is None:
        return None
    n = values.shape[0]
    return values[n * proc.pid // proc.nprocs : n * (proc.pid + 1) // proc.nprocs]


def fits(X: Any, y: np.ndarray, nprocs: int, start: Any = None, columns: Any = None, **options: Any) -> list[Solution]:
    """The solution on each process."""
    columns = columns or {}
    model = Model(**{"robust": True, "tol": 1e-12} | options)

    def main(proc: bsp.Process) -> Solution:
        rows = Rows(share(X, proc), share(y, proc), **{name: share(each, proc) for name, each in columns.items()})
        return solve(rows, model, start)

    return bsp.run(main, nprocs=nprocs)


def fit(X: Any, y: np.ndarray, nprocs: int = 3, **options: Any) -> Solution:
    return fits(X, y, nprocs, **options)[0]


def estimates(found: Solution, intercept: bool = True) -> np.ndarray:
    return np.append(found.intercept, found.coef) if intercept else found.coef


@lru_cache
def visits() -> tuple[np.ndarray, np.ndarray]:
    """RAND Health Insurance Experiment: doctor visits."""
    data = sm.datasets.randhie.load_pandas()
    return np.ascontiguousarray(data.exog.to_numpy(float)), data.endog.to_numpy(float)


@lru_cache
def affairs() -> tuple[np.ndarray, np.ndarray]:
    """Fair's survey: any affair at all."""
    data = sm.datasets.fair.load_pandas()
    return np.ascontiguousarray(data.exog.to_numpy(float)), (data.endog.to_numpy() > 0).astype(float)


@lru_cache
def schools() -> tuple[np.ndarray, np.ndarray]:
    """California schools 1998: pupils above and below the median."""
    data = sm.datasets.star98.load_pandas()
    return np.ascontiguousarray(data.exog.to_numpy(float)), data.endog.to_numpy(float)


@lru_cache
def tumours() -> tuple[np.ndarray, np.ndarray]:
    """Wisconsin breast cancer, ten mean columns: overlapping, and badly conditioned."""
    X, y = load_breast_cancer(return_X_y=True)
    return np.ascontiguousarray(X[:, :10]), y.astype(float)


def known(family: str, X: np.ndarray, y: np.ndarray, intercept: bool = True, **options: Any) -> tuple[Any, Any]:
    """statsmodels' fit, and its robust standard errors."""
    model = sm.GLM(y, sm.add_constant(X) if intercept else X, family=theirs_of(family), **options)
    return model.fit(**tight(family)), model.fit(cov_type="HC0", **tight(family)).bse


@lru_cache
def known_of(data: Any, family: str) -> tuple[Any, Any]:
    return known(family, *data())


def assert_as_statsmodels(
    found: Solution, expected: tuple[Any, Any], intercept: bool = True, robust: float = 1e-6
) -> None:
    """All that can be compared; robust errors less closely where statsmodels' own are not better."""
    right, robust_errors = expected
    assert found.converged
    assert all("Pearson chi2" in note for note in found.notes)
    assert_allclose(estimates(found, intercept), right.params, rtol=1e-8)
    assert found.covariance is not None and found.robust_covariance is not None
    assert_allclose(np.sqrt(np.diag(found.covariance)), right.bse, rtol=1e-6)
    assert_allclose(np.sqrt(np.diag(found.robust_covariance)), robust_errors, rtol=robust)
    numbers = [right.deviance, right.null_deviance, right.pearson_chi2, right.scale, right.df_resid]
    ours = [found.deviance, found.null_deviance, found.pearson_chi2, found.dispersion, found.df_resid]
    assert_allclose(ours, numbers, rtol=1e-10)
    if found.log_likelihood is not None:
        assert_allclose(found.log_likelihood, right.llf, rtol=1e-10)
        assert_allclose(-2 * found.log_likelihood + 2 * len(right.params), right.aic, rtol=1e-10)


# ------------------------------------------------------------------------------ statsmodels


@pytest.mark.parametrize("family", DEFAULTS)
@pytest.mark.parametrize("with_", [(), ("offset",), ("weights",), ("offset", "weights")])
def test_each_family_fits_doctor_visits_as_statsmodels_does(family: str, with_: tuple[str, ...]) -> None:
    X, visited = visits()
    X, y = X[::5], possible(family, visited[::5])
    rng = np.random.default_rng(5)
    columns = {"offset": 0.3 * rng.normal(size=len(y)), "weights": 0.1 + rng.random(len(y))}
    columns = {name: columns[name] for name in with_}
    theirs = {{"weights": "var_weights"}.get(name, name): values for name, values in columns.items()}
    found = fit(X, y, family=family, columns=columns)
    assert_as_statsmodels(found, known(family, X, y, **theirs))


@pytest.mark.parametrize("nprocs", [1, 2, 7, 64])
def test_the_fit_is_statsmodels_at_every_p_and_the_same_bytes_on_every_process(nprocs: int) -> None:
    X, y = visits()
    found = fits(X, y, nprocs, family="poisson")
    assert_as_statsmodels(found[0], known_of(visits, "poisson"))
    for other in found[1:]:
        assert estimates(other).tobytes() == estimates(found[0]).tobytes()
        assert other.robust_covariance.tobytes() == found[0].robust_covariance.tobytes()
        assert other.history == found[0].history


@pytest.mark.parametrize("nprocs", [1, 2, 7, 64])
@pytest.mark.parametrize(("data", "robust"), [(affairs, 1e-6), (tumours, 1e-5)])
def test_logistic_regression_is_statsmodels_at_every_p(data: Any, robust: float, nprocs: int) -> None:
    X, y = data()
    assert_as_statsmodels(fit(X, y, nprocs, family="binomial"), known_of(data, "binomial"), robust=robust)


def test_the_robust_covariance_of_badly_conditioned_columns_is_that_of_standardised_ones() -> None:
    X, y = tumours()
    found, scale = fit(X, y, family="binomial"), X.std(axis=0)
    Z = np.column_stack([np.ones(len(y)), (X - X.mean(axis=0)) / scale])
    mu = 1 / (1 + np.exp(-(found.intercept + X @ found.coef)))
    inverse = np.linalg.inv(Z.T @ (Z * (mu * (1 - mu))[:, None]))
    sandwich = inverse @ (Z.T @ (Z * ((mu - y) ** 2)[:, None])) @ inverse
    assert_allclose(np.sqrt(np.diag(found.robust_covariance)[1:]) * scale, np.sqrt(np.diag(sandwich)[1:]), rtol=1e-9)


@pytest.mark.parametrize("nprocs", [1, 7])
def test_binomial_counts_are_proportions_with_trials(nprocs: int) -> None:
    X, counts = schools()
    trials = counts.sum(axis=1)
    found = fit(X, counts[:, 0] / trials, nprocs, family="binomial", columns={"trials": trials})
    assert_as_statsmodels(found, known_of(schools, "binomial"))
    assert found.sum_weights == trials.sum()


@pytest.mark.parametrize("family", DEFAULTS)
def test_without_an_intercept_the_fit_is_statsmodels_too(family: str) -> None:
    X, visited = visits()
    y = possible(family, visited[::5])
    found = fit(X[::5], y, family=family, fit_intercept=False)
    assert_as_statsmodels(found, known(family, X[::5], y, intercept=False), intercept=False)
    assert found.intercept == 0.0


def test_weight_2_is_a_row_twice_and_weight_0_is_no_row() -> None:
    X, y = visits()
    X, y = X[:600], y[:600]
    weights = np.arange(600.0) % 3
    weighted = fit(X, y, family="poisson", columns={"weights": weights})
    repeated = fit(np.repeat(X, weights.astype(int), axis=0), np.repeat(y, weights.astype(int)), family="poisson")
    assert_allclose(estimates(weighted), estimates(repeated), rtol=1e-10)
    assert_allclose(weighted.covariance, repeated.covariance, rtol=0, atol=1e-10 * np.abs(repeated.covariance).max())
    assert (weighted.n_rows, weighted.sum_weights) == (400, 600.0)


# ----------------------------------------------------------------------------- scikit-learn


@pytest.mark.parametrize("alpha", [0.01, 1.0])
@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_ridge_regression_is_scikit_learns_objective(family: str, alpha: float) -> None:
    X, visited = visits()
    X, y = X[::5], possible(family, visited[::5])
    weights = 0.5 + np.random.default_rng(6).random(len(y))
    kind = {"poisson": PoissonRegressor, "gamma": GammaRegressor}[family]
    right = kind(alpha=alpha, tol=1e-12, solver="newton-cholesky", max_iter=1000).fit(X, y, weights)
    found = fit(X, y, family=family, alpha=alpha, columns={"weights": weights})
    assert_allclose(found.coef, right.coef_, rtol=0, atol=1e-8 * np.abs(right.coef_).max())
    assert_allclose(found.intercept, right.intercept_, rtol=1e-8)
    assert found.covariance is None


@pytest.mark.parametrize("nprocs", [1, 2, 7, 64])
@pytest.mark.parametrize(("alpha", "l1_ratio"), [(0.3, 1.0), (0.02, 0.5), (0.5, 0.1)])
def test_the_elastic_net_is_scikit_learns(alpha: float, l1_ratio: float, nprocs: int) -> None:
    X, y = load_diabetes(return_X_y=True)
    right = ElasticNet(alpha=alpha, l1_ratio=l1_ratio, tol=1e-14, max_iter=10**6).fit(X, y)
    found = fit(X, y, nprocs, family="gaussian", alpha=alpha, l1_ratio=l1_ratio)
    assert found.solver == "coordinate"
    assert_allclose(estimates(found), np.append(right.intercept_, right.coef_), rtol=1e-8)
    assert_array_equal(found.coef == 0, right.coef_ == 0)


@pytest.mark.parametrize("l1_ratio", [1.0, 0.5])
def test_sparse_logistic_regression_is_scikit_learns(l1_ratio: float) -> None:
    X, y = tumours()
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    alpha = 0.02
    right = LogisticRegression(
        C=1 / (alpha * len(y)), l1_ratio=l1_ratio, solver="saga", tol=1e-13, max_iter=100_000
    ).fit(X, y)
    found = fit(X, y, family="binomial", alpha=alpha, l1_ratio=l1_ratio)
    assert_allclose(found.coef, right.coef_[0], rtol=0, atol=1e-8 * np.abs(right.coef_).max())
    assert_allclose(found.intercept, right.intercept_[0], rtol=1e-8)
    assert 0 < np.count_nonzero(found.coef == 0) == np.count_nonzero(right.coef_ == 0)
    assert found.gradient_norm <= 1e-12


def test_the_thesis_example_on_which_newton_with_the_sign_goes_back_and_forth_is_solved() -> None:
    found = fit(np.ones((4, 1)), np.full(4, 0.3), family="gaussian", alpha=0.5, l1_ratio=1.0, fit_intercept=False)
    assert found.converged
    assert found.coef.tolist() == [0.0]


# ------------------------------------------------------------------------- between ourselves


@pytest.mark.parametrize("family", DEFAULTS)
@pytest.mark.parametrize("solver", ["lbfgs", "coordinate"])
def test_all_solvers_find_the_same(family: str, solver: str) -> None:
    X, visited = visits()
    X, y = X[::20], possible(family, visited[::20])
    newton, other = (fit(X, y, family=family, solver=each) for each in ("newton", solver))
    assert other.converged
    assert_allclose(estimates(other), estimates(newton), rtol=1e-8)
    assert_allclose(other.covariance, newton.covariance, rtol=0, atol=1e-8 * np.abs(newton.covariance).max())
    assert other.solver == solver


def test_lbfgs_with_a_ridge_finds_the_same() -> None:
    X, y = tumours()
    newton, other = (fit(X, y, family="binomial", alpha=0.1, solver=each, max_iter=500) for each in ("newton", "lbfgs"))
    assert other.converged
    assert_allclose(estimates(other), estimates(newton), rtol=1e-7)


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "coordinate"])
def test_a_sparse_matrix_gives_what_its_dense_copy_gives(solver: str) -> None:
    rng = np.random.default_rng(7)
    X = scipy.sparse.random(200, 12, density=0.2, random_state=7, format="csr")
    y = rng.poisson(1.5, 200).astype(float)
    sparse, dense = (fit(each, y, family="poisson", solver=solver) for each in (X, X.toarray()))
    assert_allclose(estimates(sparse), estimates(dense), rtol=0, atol=1e-10)
    assert_allclose(sparse.robust_covariance, dense.robust_covariance, rtol=0, atol=1e-10)


def test_a_path_goes_from_no_coefficient_to_many_and_each_end_is_a_fit_of_its_own() -> None:
    X, y = tumours()
    X = (X - X.mean(axis=0)) / X.std(axis=0)

    def main(proc: bsp.Process) -> list[Solution]:
        return path(Rows(share(X, proc), share(y, proc)), Model("binomial", l1_ratio=0.9))

    found = bsp.run(main, nprocs=2)[0]
    assert len(found) == 50
    assert all(each.converged for each in found)
    counts = [np.count_nonzero(each.coef) for each in found]
    assert counts[0] == 0 and counts[1] > 0 and counts[-1] >= 8
    point = X.T @ (y - y.mean()) / len(y)
    alone = fit(X, y, family="binomial", alpha=1e-3 * np.abs(point).max() / 0.9, l1_ratio=0.9)
    assert_allclose(found[-1].coef, alone.coef, rtol=0, atol=1e-9)


def test_a_path_of_given_alphas_starts_with_the_largest() -> None:
    X, y = load_diabetes(return_X_y=True)

    def main(proc: bsp.Process) -> list[Solution]:
        return path(Rows(share(X, proc), share(y, proc)), Model("gaussian"), [0.0, 10.0, 0.1])

    found = bsp.run(main, nprocs=3)[0]
    sizes = [float(np.abs(each.coef).sum()) for each in found]
    assert sizes == sorted(sizes)
    assert_allclose(found[2].coef, fit(X, y, family="gaussian").coef, rtol=1e-8)
    assert found[2].covariance is not None and found[1].covariance is None


def test_a_start_at_the_answer_takes_no_step() -> None:
    X, y = affairs()
    cold = fit(X, y, family="binomial")
    warm = fit(X, y, family="binomial", start=estimates(cold), tol=1e-10)
    assert (cold.n_iter, warm.n_iter) == (5, 0)
    assert_allclose(estimates(warm), estimates(cold), rtol=1e-14)


def test_the_gradient_norm_is_that_of_the_point_that_is_returned() -> None:
    X, y = visits()
    X, y = X[:500], y[:500]
    found = fit(X, y, family="poisson", max_iter=2)
    mu = np.exp(found.intercept + X @ found.coef)
    score = np.column_stack([np.ones(len(y)), X]).T @ (mu - y) / len(y)
    squares = np.append(1.0, (X * X).mean(axis=0)) * y.mean()
    chi2 = ((y - y.mean()) ** 2).mean() / y.mean()
    assert_allclose(found.gradient_norm, np.max(np.abs(score) / np.sqrt(squares * chi2)), rtol=1e-8)
    assert_allclose(found.objective, np.mean(mu - y * np.log(mu)), rtol=1e-13)
    assert not found.converged
    assert "no convergence" in found.notes[0]


def test_units_of_measurement_change_nothing_but_units() -> None:
    X, y = affairs()
    scale = 10.0 ** np.arange(-4, 4)
    plain, scaled = fit(X, y, family="binomial"), fit(X * scale, y, family="binomial")
    assert_allclose(scaled.coef * scale, plain.coef, rtol=1e-10)
    assert scaled.n_iter == plain.n_iter


def test_columns_far_from_zero_are_as_accurate_as_centred_ones() -> None:
    rng = np.random.default_rng(8)
    T = rng.integers(-500, 500, size=(400, 2)).astype(float)
    y = (rng.random(400) < 1 / (1 + np.exp(-T[:, 0] / 200))).astype(float)
    near, far = fit(T, y, family="binomial"), fit(T + 1.6e9, y, family="binomial")
    assert far.converged and far.notes == ()
    assert_allclose(far.coef, near.coef, rtol=1e-9)
    assert_allclose(np.diag(far.covariance)[1:], np.diag(near.covariance)[1:], rtol=1e-8)
    assert_allclose(far.intercept, near.intercept - 1.6e9 * near.coef.sum(), rtol=1e-8)


@pytest.mark.thorough
@pytest.mark.jobs
def test_the_bytes_do_not_depend_on_the_number_of_elements() -> None:
    X, y = visits()
    X, y = X[:900], y[:900]

    def main(proc: Any) -> bytes:
        n = len(y)
        part = slice(n * proc.pid // 3, n * (proc.pid + 1) // 3)
        rows = Rows(X[part], y[part])
        newton, sparse = solve(rows, Model("poisson")), solve(rows, Model("poisson", alpha=0.05, l1_ratio=0.5))
        return bytes(newton.coef.tobytes() + newton.covariance.tobytes() + sparse.coef.tobytes())

    one, two = (bsp.run(main, nprocs=3, elements=elements) for elements in (1, 2))
    assert one == two
    assert len(set(one)) == 1


def test_a_fit_neither_delivers_nor_clears_what_its_caller_has_issued() -> None:
    """B2: its supersteps are its own."""

    def main(proc: Any) -> list[float]:
        x = proc.coarray(1)
        proc.sync()
        x.put((proc.pid + 1) % proc.nprocs, [5.0])
        rng = np.random.default_rng(proc.pid)
        solve(Rows(rng.normal(size=(40, 3)), rng.integers(0, 2, 40).astype(float)), Model("poisson"))
        seen = [float(x.local[0])]
        proc.sync()
        return [*seen, float(x.local[0])]

    assert bsp.run(main, nprocs=3) == [[0.0, 5.0]] * 3
