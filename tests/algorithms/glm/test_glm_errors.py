"""Data that a model cannot be fitted to, or not wholly: each is said, in words, on every process."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

import bsp
from bsp.algorithms.glm.errors import DataError
from bsp.algorithms.glm.fitting import solve
from bsp.algorithms.glm.problem import Model, Rows, Solution
from bsp.algorithms.glm.solvers.semidefinite import factor

N, P = 60, 3
RNG = np.random.default_rng(11)
X0 = RNG.normal(size=(N, 3))
COUNTS = RNG.poisson(2.0, N).astype(float)
NOISE = RNG.normal(size=N)


def fits(X: Any, y: np.ndarray, nprocs: int = P, names: tuple[str, ...] = (), **options: Any) -> list[Solution]:
    columns = {name: options.pop(name) for name in ("weights", "offset", "trials") if name in options}
    model = Model(**{"robust": True, "tol": 1e-12} | options)

    def main(proc: Any) -> Solution:
        n = len(y)
        part = slice(n * proc.pid // nprocs, n * (proc.pid + 1) // nprocs)
        return solve(Rows(X[part], y[part], names=names, **{name: each[part] for name, each in columns.items()}), model)

    return bsp.run(main, nprocs=nprocs)


def fit(X: Any, y: np.ndarray, nprocs: int = P, **options: Any) -> Solution:
    return fits(X, y, nprocs, **options)[0]


def with_(values: np.ndarray, at: Any, value: float) -> np.ndarray:
    changed = np.array(values, float)
    changed[at] = value
    return changed


# --------------------------------------------------------------------------------- bad data


@pytest.mark.parametrize(
    ("y", "options", "says"),
    [
        (with_(COUNTS, 41, -1.0), {"family": "poisson"}, r"row 41: y = -1.0, .*poisson model must be a count"),
        (with_(COUNTS + 1, 3, 0.0), {"family": "gamma"}, r"row 3: y = 0.0, .*gamma model must be an amount above 0"),
        (with_(COUNTS > 2, 59, 1.5), {"family": "binomial"}, r"row 59: y = 1.5, .*between 0 and 1"),
        (with_(NOISE, 20, np.nan), {"family": "gaussian"}, r"row 20: y = nan, .*finite"),
        (NOISE, {"family": "gaussian", "weights": with_(np.ones(N), 30, -2.0)}, r"row 30: weight = -2.0, .*0 or more"),
        (NOISE, {"family": "gaussian", "offset": with_(np.ones(N), 1, np.inf)}, r"row 1: offset = inf, .*finite"),
        (NOISE, {"family": "gaussian", "weights": np.zeros(N)}, "no rows of positive weight"),
        (np.ones(N), {"family": "binomial"}, "one class only: all are 1"),
        (np.zeros(N), {"family": "binomial"}, "one class only: all are 0"),
        (with_(np.zeros(N), 7, 1.0), {"family": "binomial", "weights": with_(np.ones(N), 7, 0.0)}, "one class only"),
        (np.zeros(N), {"family": "poisson"}, "all y are 0"),
    ],
)  # fmt: skip
def test_impossible_responses_weights_and_offsets_are_named(y: np.ndarray, options: Any, says: str) -> None:
    with pytest.raises(DataError, match=says):
        fit(X0, y, **options)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("solver", ["newton", "lbfgs", "coordinate"])
@pytest.mark.parametrize("kind", [np.array, scipy.sparse.csr_matrix])
def test_a_value_that_is_no_number_is_named_by_row_and_column(value: float, solver: str, kind: Any) -> None:
    X = kind(with_(X0, (45, 1), value))
    with pytest.raises(DataError, match=f"row 45: column 'size' holds (?i:{value})"):
        fit(X, NOISE, family="gaussian", solver=solver, names=("age", "size", "year"))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"family": "probit"}, "family='probit': one of binomial, gamma, gaussian"),
        ({"family": "gaussian", "solver": "adam"}, "solver='adam': one of auto, newton"),
        ({"family": "gaussian", "alpha": -1.0}, "alpha=-1.0: a number, 0 or more"),
        ({"family": "gaussian", "alpha": 1.0, "l1_ratio": 2.0}, "l1_ratio=2.0: from 0 to 1"),
        ({"family": "gaussian", "alpha": 1.0, "l1_ratio": 0.5, "solver": "newton"}, "no L1 penalty: 'coordinate'"),
    ],
)
def test_a_model_that_cannot_be_is_refused(options: Any, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        fit(X0, NOISE, **options)


def test_a_start_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(ValueError, match="start has shape \\(3,\\); it holds 4 coefficients"):
        bsp.run(lambda proc: solve(Rows(X0, NOISE), Model("gaussian"), np.zeros(3)), nprocs=1)


def test_no_columns_and_no_intercept_are_refused() -> None:
    with pytest.raises(ValueError, match="no columns and there is no intercept"):
        fit(X0[:, :0], NOISE, family="gaussian", fit_intercept=False)


# ------------------------------------------------------------------------------- odd shapes


@pytest.mark.parametrize("nprocs", [2, 7, 64])
def test_processes_without_rows_take_part(nprocs: int) -> None:
    few = fit(X0[:20], COUNTS[:20], nprocs, family="poisson")
    one = fit(X0[:20], COUNTS[:20], 1, family="poisson")
    assert_allclose(few.coef, one.coef, rtol=1e-10)

    def last_has_all(proc: Any) -> Solution:
        part = slice(0, 20 if proc.pid == proc.nprocs - 1 else 0)
        return solve(Rows(X0[part], COUNTS[part]), Model("poisson"))

    assert_allclose(bsp.run(last_has_all, nprocs=nprocs)[0].coef, one.coef, rtol=1e-10)


def test_an_intercept_alone_is_the_mean() -> None:
    found = fit(X0[:, :0], COUNTS, family="poisson")
    assert_allclose(found.intercept, np.log(COUNTS.mean()), rtol=1e-14)
    assert found.deviance == pytest.approx(found.null_deviance, rel=1e-12)


def test_one_row_is_fitted_and_nothing_is_left_to_estimate_by() -> None:
    found = fit(np.ones((1, 1)), np.array([2.0]), family="gaussian")
    assert found.intercept == 2.0
    assert np.isnan(found.dispersion)
    assert any("nothing is left to estimate a dispersion by" in note for note in found.notes)


def test_a_constant_response_needs_no_columns() -> None:
    found = fit(X0, np.full(N, 7.1e9), family="gaussian")
    assert found.converged
    assert_allclose(found.intercept, 7.1e9, rtol=1e-15)
    assert_allclose(found.coef, 0, rtol=0, atol=1e-5)


def test_a_perfect_fit_is_found_and_ends() -> None:
    found = fit(X0, X0 @ [1.0, 2.0, 3.0] + 1e6, family="gaussian")
    assert found.converged
    assert_allclose(found.coef, [1, 2, 3], rtol=1e-9)


def test_a_step_that_goes_too_far_is_taken_back_half_the_way() -> None:
    X = np.exp(3 * X0)
    y = np.random.default_rng(3).poisson(np.exp(0.02 * np.minimum(X[:, 0], 100))).astype(float)

    def main(proc: Any) -> tuple[Solution, int]:
        return solve(Rows(X, y), Model("poisson")), proc.superstep

    found, supersteps = bsp.run(main, nprocs=1)[0]
    assert found.converged
    assert supersteps > 2 + (found.n_iter + 1) + 1
    values = [value for value, _ in found.history]
    assert all(after <= before + 1e-14 * abs(before) for before, after in pairwise(values))


# ------------------------------------------------------------------------- singular columns


def test_columns_that_say_nothing_new_are_named_and_left_out_as_if_not_there() -> None:
    X = np.column_stack([X0, np.full(N, 5.3), X0[:, 0] - 2 * X0[:, 1], np.zeros(N)])
    names = ("a", "b", "c", "flat", "mix", "none")
    found, plain = fit(X, COUNTS, family="poisson", names=names), fit(X0, COUNTS, family="poisson")
    assert found.notes == (
        "column flat is constant: it is left out, with coefficient 0",
        "column mix is a combination of a, b: it is left out, with coefficient 0",
        "column none is constant: it is left out, with coefficient 0",
    )
    assert found.converged
    assert found.coef[3:].tolist() == [0, 0, 0]
    assert_allclose(found.coef[:3], plain.coef, rtol=1e-9)
    assert found.df_resid == plain.df_resid
    errors, known = np.diag(found.covariance), np.diag(plain.covariance)
    assert_allclose(errors[:4], known, rtol=1e-9)
    assert np.isnan(errors[4:]).all() and np.isnan(np.diag(found.robust_covariance)[4:]).all()


@pytest.mark.parametrize("nprocs", [1, 2, 7])
def test_the_last_of_a_full_set_of_dummies_is_left_out_at_every_p(nprocs: int) -> None:
    groups = np.arange(N) % 4
    X = (groups[:, None] == np.arange(4)).astype(float)
    found = fit(X, COUNTS, nprocs, family="poisson", names=("q1", "q2", "q3", "q4"))
    assert found.notes == ("column q4 is a combination of q1, q2, q3: it is left out, with coefficient 0",)
    means = np.array([COUNTS[groups == g].mean() for g in range(4)])
    assert_allclose(np.exp(found.intercept + found.coef), means, rtol=1e-12)


def test_without_an_intercept_a_constant_column_is_a_column() -> None:
    found = fit(np.column_stack([np.full(N, 2.0), X0]), NOISE, family="gaussian", fit_intercept=False)
    assert found.notes == ()
    right = np.linalg.lstsq(np.column_stack([np.full(N, 2.0), X0]), NOISE, rcond=None)[0]
    assert_allclose(found.coef, right, rtol=1e-10)


def test_more_columns_than_rows_are_fitted_by_the_first_of_them() -> None:
    X = np.random.default_rng(4).normal(size=(5, 9))
    found = fit(X, NOISE[:5], family="gaussian")
    assert_allclose(found.intercept + X @ found.coef, NOISE[:5], rtol=0, atol=1e-10)
    assert (found.coef[4:] == 0).all()


def test_a_penalty_makes_singular_columns_harmless() -> None:
    X = np.column_stack([X0, X0[:, 0], np.full(N, 5.3)])
    found = fit(X, COUNTS, family="poisson", alpha=0.1)
    assert found.notes == ()
    assert_allclose(found.coef[3], found.coef[0], rtol=1e-10)
    assert_allclose(found.coef[4], 0, rtol=0, atol=1e-14)


def test_lbfgs_says_which_columns_have_no_standard_error() -> None:
    X = np.column_stack([X0, X0[:, 0] + X0[:, 1]])
    found = fit(X, COUNTS, family="poisson", solver="lbfgs")
    assert found.converged
    assert found.notes == ("column x3 is a combination of x0, x1 at the estimates: it has no standard error",)


def test_a_semidefinite_system_is_solved_in_its_range() -> None:
    rng = np.random.default_rng(5)
    B = rng.normal(size=(7, 4))
    A = B @ B.T
    found = factor(A)
    assert found.kept.tolist() == [0, 1, 2, 3]
    b = A @ rng.normal(size=7)
    assert_allclose(A @ found.solve(b), b, rtol=0, atol=1e-12 * np.abs(b).max())


# ------------------------------------------------------------------------------- separation


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_complete_separation_is_said(solver: str) -> None:
    found = fit(X0, (X0[:, 0] > 0.1).astype(float), family="binomial", solver=solver, max_iter=2000)
    assert not found.converged
    assert "the rows are completely separated" in found.notes[-1]
    assert "add a penalty" in found.notes[-1]


@pytest.mark.parametrize("solver", ["newton", "lbfgs"])
def test_quasi_complete_separation_is_said_and_the_column_named(solver: str) -> None:
    X = np.column_stack([X0[:, 0], X0[:, 1] > 0.8])
    y = np.where(X[:, 1] == 1, 1.0, COUNTS > 2)
    found = fit(X, y, family="binomial", solver=solver, names=("age", "ill"), max_iter=2000)
    assert "the rows are quasi-completely separated by ill:" in found.notes[-1]


def test_counts_are_separated_where_a_group_has_none() -> None:
    X = np.column_stack([X0[:, 0], X0[:, 1] > 0.8])
    found = fit(X, np.where(X[:, 1] == 1, 0.0, COUNTS), family="poisson", names=("age", "ill"))
    assert "the rows are quasi-completely separated by ill:" in found.notes[-1]


def test_rows_that_overlap_are_not_called_separated() -> None:
    y = (X0[:, 0] > 0.1).astype(float)
    nearly = with_(y, int(np.argmax(X0[:, 0])), 0.0)
    found = fit(X0[:, :1], nearly, family="binomial", max_iter=2)
    assert not any("separated" in note for note in found.notes)
    assert any("no convergence" in note for note in found.notes)
    assert fit(X0[:, :1], nearly, family="binomial").notes == ()


def test_a_penalty_makes_separated_rows_harmless() -> None:
    found = fit(X0, (X0[:, 0] > 0.1).astype(float), family="binomial", alpha=0.01)
    assert found.converged
    assert found.notes == ()


def test_every_process_says_the_same() -> None:
    found = fits(X0, (X0[:, 0] > 0.1).astype(float), family="binomial")
    assert len({each.notes for each in found}) == 1
    assert len({each.coef.tobytes() for each in found}) == 1


def test_progress_is_told_of_each_point() -> None:
    told: list[tuple[int, float, float]] = []

    def main(proc: Any) -> Solution:
        return solve(Rows(X0, COUNTS), Model("poisson"), progress=lambda *what: told.append(what))

    found = bsp.run(main, nprocs=1)[0]
    assert [iteration for iteration, _, _ in told] == list(range(found.n_iter + 1))
    assert tuple((value, norm) for _, value, norm in told) == found.history
