"""How many digits a fit has: nearly collinear columns, columns far from 0, held to 18-digit arithmetic."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
from glm_families import DEFAULTS, EVERY, possible
from numpy.testing import assert_allclose
from scipy.special import gammaln, logsumexp

import bsp
from bsp.algorithms.glm.families import family_of
from bsp.algorithms.glm.fitting import solve
from bsp.algorithms.glm.problem import Model, Rows, Solution

N = 400


def fits(X: Any, y: np.ndarray, nprocs: int = 3, columns: Any = None, **options: Any) -> list[Solution]:
    """The solution on each process, each with its share of the rows."""
    model = Model(**{"robust": True} | options)

    def main(proc: bsp.Process) -> Solution:
        part = slice(len(y) * proc.pid // proc.nprocs, len(y) * (proc.pid + 1) // proc.nprocs)
        return solve(Rows(X[part], y[part], **{name: each[part] for name, each in (columns or {}).items()}), model)

    return bsp.run(main, nprocs=nprocs)


def _solved(r: np.ndarray, z: np.ndarray) -> np.ndarray:
    x = np.zeros_like(z)
    for i in reversed(range(len(z))):
        x[i] = (z[i] - r[i, i + 1 :] @ x[i + 1 :]) / r[i, i]
    return x


def _factored(A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """QR by Gram-Schmidt, three times over, in the precision of A."""
    q, r = A.copy(), np.zeros((A.shape[1], A.shape[1]), A.dtype)
    for j in range(A.shape[1]):
        for _ in range(3):
            share = q[:, :j].T @ q[:, j]
            q[:, j] -= q[:, :j] @ share
            r[:j, j] += share
        r[j, j] = np.sqrt(q[:, j] @ q[:, j])
        q[:, j] /= r[j, j]
    return q, r


class Exact:
    """A fit of 18 digits by IRLS with QR: estimates, standard errors, robust ones."""

    def __init__(self, family: str, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> None:
        A = np.column_stack([np.ones(len(y)), X]).astype(np.longdouble)
        y, w = y.astype(np.longdouble), np.longdouble(1) * (np.ones(len(y)) if weights is None else weights)
        beta = np.zeros(A.shape[1], np.longdouble)
        beta[0] = {"gaussian": 0.0, "poisson": np.log(y.mean()), "gamma": np.log(y.mean()), "binomial": 0.0}[family]
        for _ in range(60 if family == "gamma" else 30):
            score, bend = self._at(family, A @ beta, y)
            root = np.sqrt(w * bend)
            q, r = _factored(A * root[:, None])
            beta = beta - _solved(r, q.T @ (root * score / bend))
        score, bend = self._at(family, A @ beta, y)
        q, r = _factored(A * np.sqrt(w * bend)[:, None])
        inverse = np.stack([_solved(r, each) for each in np.eye(len(beta), dtype=np.longdouble)], axis=1)
        chi2 = (w * score**2 / bend).sum() if family != "gaussian" else (w * score**2).sum()
        scale = chi2 / (len(y) - len(beta)) if family in ("gaussian", "gamma") else 1
        self.beta = beta.astype(float)
        self.errors = np.sqrt((inverse @ inverse.T).diagonal() * scale).astype(float)
        u = q / np.sqrt(w * bend)[:, None] * (w * score)[:, None]
        self.robust = np.sqrt((inverse @ (u.T @ u) @ inverse.T).diagonal()).astype(float)

    @staticmethod
    def _at(family: str, eta: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if family == "gaussian":
            return eta - y, np.ones_like(eta)
        if family == "binomial":
            mu = 1 / (1 + np.exp(-eta))
            return mu - y, mu * (1 - mu)
        mu = np.exp(eta)
        return (mu - y, mu) if family == "poisson" else (1 - y / mu, np.ones_like(mu))


def near(noise: float, family: str) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    x = rng.normal(size=N)
    X = np.column_stack([x, rng.normal(size=N), x + noise * rng.normal(size=N)])
    eta = 0.5 + 0.3 * X[:, 0] - 0.2 * X[:, 1]
    y = {
        "gaussian": eta + rng.normal(size=N),
        "poisson": rng.poisson(np.exp(eta)).astype(float),
        "gamma": rng.gamma(2.0, np.exp(eta)),
        "binomial": (rng.random(N) < 1 / (1 + np.exp(-eta))).astype(float),
    }[family]
    return X, y


@pytest.mark.parametrize("noise", [5e-4, 1e-4, 1e-6, 3e-7])
@pytest.mark.parametrize("family", ["gaussian", "poisson", "binomial", "gamma"])
def test_nearly_collinear_columns_keep_the_digits_that_their_own_condition_leaves(family: str, noise: float) -> None:
    X, y = near(noise, family)
    weights = np.random.default_rng(2).random(N) + 0.5
    found = fits(X, y, family=family, columns={"weights": weights}, tol=1e-12)[0]
    right = Exact(family, X, y, weights)
    close = 1e-15 / noise
    assert found.converged
    assert_allclose(np.append(found.intercept, found.coef), right.beta, rtol=20 * close)
    assert found.covariance is not None and found.robust_covariance is not None
    assert_allclose(np.sqrt(found.covariance.diagonal()), right.errors, rtol=20 * close)
    if family != "gamma":  # whose Hessian, in the robust one, is not the information
        assert_allclose(np.sqrt(found.robust_covariance.diagonal()), right.robust, rtol=20 * close)
    (note,) = found.notes
    assert note.startswith("columns x0, x2 are nearly collinear")
    digits = int(note.split("about ")[1].split()[0])
    assert abs(digits + np.log10(close)) <= 2


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csr_array])
def test_a_near_fit_of_empty_processes_and_sparse_rows_is_the_same(kind: Any) -> None:
    X, y = near(1e-5, "poisson")
    whole = fits(X, y, 1, family="poisson")[0]

    def main(proc: bsp.Process) -> Solution:
        cuts = [0, 0, 2, 2, 399, 400][proc.pid : proc.pid + 2]
        return solve(Rows(kind(X)[slice(*cuts)], y[slice(*cuts)]), Model("poisson", robust=True))

    found = bsp.run(main, nprocs=5)
    assert_allclose(found[0].coef, whole.coef, rtol=1e-9)
    assert_allclose(found[0].covariance, whole.covariance, rtol=1e-8, atol=0)
    for each in found:
        assert (each.coef.tobytes(), each.covariance.tobytes(), each.notes, each.history) == (
            found[0].coef.tobytes(), found[0].covariance.tobytes(), found[0].notes, found[0].history
        )  # fmt: skip


@pytest.mark.thorough
@pytest.mark.jobs
def test_the_bytes_of_a_near_fit_do_not_depend_on_the_number_of_elements() -> None:
    X, y = near(1e-5, "poisson")

    def main(proc: bsp.Process) -> bytes:
        part = slice(N * proc.pid // 3, N * (proc.pid + 1) // 3)
        found = solve(Rows(X[part], y[part]), Model("poisson", robust="HC3"))
        assert found.covariance is not None and found.robust_covariance is not None
        return bytes(found.coef.tobytes() + found.covariance.tobytes() + found.robust_covariance.tobytes())

    one, two = (bsp.run(main, nprocs=3, elements=elements) for elements in (1, 2))
    assert one == two
    assert len(set(one)) == 1


def test_columns_that_are_left_out_leave_the_near_ones_what_they_are() -> None:
    X, y = near(1e-5, "gaussian")
    more = np.column_stack([X[:, :1], np.ones(N), X[:, 1:], X[:, 0] - X[:, 1]])
    found, plain = fits(more, y, family="gaussian")[0], fits(X, y, family="gaussian")[0]
    assert found.coef[[1, 4]].tolist() == [0, 0]
    assert_allclose(found.coef[[0, 2, 3]], plain.coef, rtol=1e-8)
    assert [note.split()[1] for note in found.notes] == ["x1", "x4", "x0,"]
    errors, known = found.covariance.diagonal(), plain.covariance.diagonal()
    assert_allclose(errors[[0, 1, 3, 4]], known, rtol=1e-8)
    assert np.isnan(errors[[2, 5]]).all()
    assert found.df_resid == plain.df_resid


def test_a_near_fit_without_an_intercept_is_least_squares() -> None:
    X, y = near(1e-6, "gaussian")
    found = fits(X, y, family="gaussian", fit_intercept=False)[0]
    q, r = _factored(X.astype(np.longdouble))
    assert_allclose(found.coef, _solved(r, q.T @ y).astype(float), rtol=1e-8)


def test_a_near_fit_takes_a_tree_of_rs_and_one_point_more() -> None:
    X, y = near(1e-5, "gaussian")
    p, d = 4, 4

    def main(proc: bsp.Process) -> None:
        solve(Rows(X[proc.pid :: p], y[proc.pid :: p]), Model("gaussian"))

    rows = bsp.predict(main, nprocs=p, machine=bsp.Machine(p=p, L=1e6)).per_superstep
    point = (p - 1) * (1 + d + d * (d + 1) // 2)
    words = [row["h_sent"] for row in rows]
    assert words == [(p - 1) * 13, (p - 1) * 3, point, (p - 1) * d * d, point, point, (p - 1) * 5]


def test_a_basis_is_taken_at_the_estimates_where_only_there_weights_make_columns_collinear() -> None:
    """20 rows tell the columns apart; they have means of 1e-9 in the end, and so weigh nothing."""
    rng = np.random.default_rng(4)
    x, apart = rng.normal(size=N), (np.arange(N) < 20) * 1.0
    X = np.column_stack([x, x + 1e-4 * rng.normal(size=N) + apart * rng.normal(size=N), apart])
    y = np.where(apart == 1, 1e-9 * rng.random(N), rng.poisson(2.0, N))
    found = fits(X, y, family="poisson", tol=1e-13)[0]
    right = Exact("poisson", X, y)
    assert found.converged
    assert_allclose(np.append(found.intercept, found.coef), right.beta, rtol=1e-8)
    assert_allclose(np.sqrt(found.covariance.diagonal()), right.errors, rtol=1e-9)
    (note,) = found.notes
    assert note.startswith("columns x0, x1 are nearly collinear")


def test_lbfgs_says_what_digits_its_standard_errors_have() -> None:
    X, y = near(1e-4, "poisson")
    found = fits(X, y, family="poisson", solver="lbfgs", max_iter=5000)[0]
    assert any("digits of the standard errors are right; solver='newton' finds more" in note for note in found.notes)


@pytest.mark.parametrize("kind", [np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csr_array])
@pytest.mark.parametrize("nprocs", [1, 3, 7])
def test_a_column_far_from_0_beside_its_spread_is_no_constant(kind: Any, nprocs: int) -> None:
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.integers(-1, 2, N), rng.normal(size=N) * (rng.random(N) < 0.2)]).astype(float)
    y = 1.0 + X @ [0.5, 2.0] + rng.normal(size=N)
    far = X + np.array([1e8, 0.0])
    found, plain = fits(kind(far), y, nprocs, family="gaussian")[0], fits(X, y, nprocs, family="gaussian")[0]
    assert found.notes == ()
    assert_allclose(found.coef, plain.coef, rtol=1e-12)
    assert_allclose(found.covariance.diagonal()[1:], plain.covariance.diagonal()[1:], rtol=1e-12)
    assert_allclose(found.intercept, plain.intercept - 1e8 * plain.coef[0], rtol=1e-12)


def test_a_sparse_column_far_from_0_may_have_a_few_zeros() -> None:
    rng = np.random.default_rng(6)
    X = np.column_stack([1e8 + rng.integers(-1, 2, N), rng.normal(size=N)])
    X[rng.choice(N, 3, replace=False), 0] = 0.0
    y = X @ [1e-8, 1.0] + rng.normal(size=N)
    sparse, dense = (fits(kind(X), y, family="gaussian")[0] for kind in (scipy.sparse.csr_matrix, np.asarray))
    assert_allclose(sparse.coef, dense.coef, rtol=1e-9)


# -------------------------------------------------------------------------- alike, and large

ALIKE = [(family, 0.3 if family_of(family).proportions else value) for family in DEFAULTS for value in (3.0, 0.1, 1e12)]


@pytest.mark.parametrize("solver", ["newton", "lbfgs", "coordinate"])
@pytest.mark.parametrize(("family", "value"), ALIKE)
def test_responses_that_are_alike_are_fitted_by_the_intercept_alone(family: str, value: float, solver: str) -> None:
    X = np.random.default_rng(7).normal(size=(N, 3))
    found = fits(X, np.full(N, value), family=family, solver=solver)[0]
    assert found.converged and found.notes == ()
    assert found.coef.tolist() == [0, 0, 0]
    assert_allclose(found.intercept, family_of(family).predictor(value), rtol=1e-14)
    assert 0 <= found.deviance <= 1e-20 * N * max(1.0, value**2)


def test_responses_that_differ_a_little_are_not_taken_for_alike() -> None:
    X, _ = near(1.0, "gaussian")
    for family in ("gaussian", "poisson", "gamma", "tweedie"):
        found = fits(X, 1e12 * np.exp(1e-9 * X[:, 0]), family=family)[0]
        assert found.deviance < 1e-3 * found.null_deviance
        assert_allclose(found.coef[0], 1e3 if family == "gaussian" else 1e-9, rtol=1e-3)


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
@pytest.mark.parametrize("unit", [1e-60, 1e-30, 1e30, 1e60])
@pytest.mark.parametrize("family", ["gaussian:log", "gamma", "inverse-gaussian", "tweedie:1.1", "quasi-poisson"])
def test_a_fit_does_not_depend_on_the_unit_of_the_responses(family: str, unit: float, solver: str) -> None:
    rng = np.random.default_rng(12)
    X = rng.normal(size=(N, 2))
    y = np.exp(X @ [0.2, -0.1]) * rng.gamma(2.0, size=N)
    plain, scaled = (fits(X, each, family=family, solver=solver, tol=1e-9)[0] for each in (y, y * unit))
    assert scaled.converged and scaled.notes == ()
    assert_allclose(scaled.coef, plain.coef, rtol=1e-6)


@pytest.mark.parametrize("family", ["poisson", "gamma", "inverse-gaussian", "tweedie", "negative-binomial"])
def test_the_deviance_of_large_responses_is_not_a_difference_of_large_sums(family: str) -> None:
    """Where all are near their means, it is Pearson's chi² but for third powers."""
    rng = np.random.default_rng(8)
    own, mu = family_of(family), 1e5 if family == "negative-binomial" else 1e12
    y = mu * np.exp(1e-6 * rng.normal(size=N))
    eta = np.full(N, np.log(mu))
    assert_allclose(2 * own.excess(eta, y), own.chi2(eta, y), rtol=2e-5)
    found = fits(np.zeros((N, 0)), y, family=family)[0]
    assert_allclose(found.deviance, found.pearson_chi2, rtol=1e-5)


def test_the_deviance_of_proportions_of_many_trials_keeps_its_digits() -> None:
    rng = np.random.default_rng(9)
    y = 0.3 + 1e-7 * rng.normal(size=N)
    found = fits(np.zeros((N, 0)), y, family="binomial", columns={"trials": np.full(N, 1e12)})[0]
    assert_allclose(found.deviance, found.pearson_chi2, rtol=1e-5)


@pytest.mark.parametrize("family", EVERY)
def test_unit_deviances_are_twice_what_losses_are_above_the_least(family: str) -> None:
    own = family_of(family)
    rng = np.random.default_rng(10)
    y = possible(family, rng.poisson(1.0, N).astype(float))
    y = np.where(rng.random(N) < 0.5, y, 0.3) if own.proportions else y
    eta = own.predictor(rng.uniform(0.1, 0.9, N))
    assert_allclose(own.excess(eta, y), own.expansion(eta, y).loss - own.least(y), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("power", [1.0001, 1.001, 1.05, 1.5, 1.99])
@pytest.mark.parametrize("mean", [2.0, 3e7])
def test_the_likelihood_of_a_tweedie_model_is_that_of_its_series_whatever_the_power(power: float, mean: float) -> None:
    """The terms are those of a Poisson number of gamma variables; Wright's function of some is beyond all numbers."""
    rng = np.random.default_rng(13)
    y = rng.poisson(mean, 40) * rng.gamma(4.0, 0.25, 40)
    y[0] = 1e-3
    found = fits(np.zeros((40, 0)), y, family=f"tweedie:{power}")[0]
    mu, phi, shape = y.mean(), found.dispersion, (2 - power) / (power - 1)
    rate, scale = mu ** (2 - power) / (phi * (2 - power)), phi * (power - 1) * mu ** (power - 1)
    total = -rate * np.count_nonzero(y == 0)
    for each in y[y > 0]:
        k = np.arange(1.0, 20_000.0)
        terms = k * np.log(rate) - gammaln(k + 1) - gammaln(k * shape)
        terms += (k * shape - 1) * np.log(each) - k * shape * np.log(scale)
        total += logsumexp(terms) - rate - each / scale
    assert_allclose(found.log_likelihood, total, rtol=1e-9)
