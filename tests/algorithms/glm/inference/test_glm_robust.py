"""Sandwich covariances for few rows, HC0 to HC3: statsmodels' of linear models, the formula of others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse
import statsmodels.api as sm
from numpy.testing import assert_allclose

import bsp
from bsp.algorithms import glm
from bsp.algorithms.glm.cost import cost
from bsp.algorithms.glm.fitting import solve
from bsp.algorithms.glm.problem import Model, Rows

N, KINDS = 60, ["HC0", "HC1", "HC2", "HC3"]
RNG = np.random.default_rng(51)
X = RNG.normal(size=(N, 3)) * [1, 5, 0.1] + [0, 100, 0]
Y = X @ [1, 0.1, 2] + RNG.normal(size=N) * np.abs(X[:, 0])
COUNTS = RNG.poisson(np.exp(0.4 * X[:, 0])).astype(float)
WEIGHTS = RNG.integers(0, 4, N) / 2.0


def errors(family: str, kind: Any, y: np.ndarray, nprocs: int = 3, rows: Any = X, weights: Any = None) -> np.ndarray:
    models = bsp.run(lambda proc: glm.GLM(family, robust=kind, tol=1e-13).fit(rows, y, weights), nprocs=nprocs)
    assert len({each.standard_errors_.tobytes() for each in models}) == 1
    found: np.ndarray = models[0].standard_errors_
    return found


@pytest.mark.parametrize("nprocs", [1, 3, 64])
@pytest.mark.parametrize("kind", KINDS)
def test_those_of_linear_models_are_statsmodels(kind: str, nprocs: int) -> None:
    known = sm.OLS(Y, sm.add_constant(X)).fit(cov_type=kind)
    assert_allclose(errors("gaussian", kind, Y, nprocs), known.bse, rtol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["poisson", "gamma"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weighted"])
def test_those_of_other_models_are_the_formula(family: str, kind: str, weights: Any) -> None:
    y = COUNTS + (family == "gamma")
    model = glm.GLM(family, tol=1e-13).fit(X, y, weights)
    A, w = sm.add_constant(X), np.ones(N) if weights is None else weights
    mu = model.predict(X)
    score, bend, information = {
        "poisson": (mu - y, mu, mu),
        "gamma": (1 - y / mu, y / mu, np.ones(N)),
    }[family]
    leverage = w * information * ((A @ np.linalg.inv(A.T @ (A * (w * information)[:, None]))) * A).sum(axis=1)
    rest = (1 - leverage) ** {"HC0": 0, "HC1": 0, "HC2": 1, "HC3": 2}[kind]
    outer = np.linalg.inv(A.T @ (A * (w * bend)[:, None]))
    meat = A.T @ (A * ((w * score) ** 2 / rest)[:, None])
    rows = np.count_nonzero(w)
    small = rows / (rows - 4) if kind == "HC1" else 1.0
    right = np.sqrt(np.diag(outer @ meat @ outer) * small)
    assert_allclose(errors(family, kind, y, weights=weights), right, rtol=1e-7)
    assert_allclose(errors(family, kind, y, rows=scipy.sparse.csr_matrix(X), weights=weights), right, rtol=1e-7)


def test_nearly_collinear_columns_have_robust_errors_of_the_same_digits() -> None:
    near = np.column_stack([X, X[:, 0] + 1e-5 * RNG.normal(size=N)])
    apart = np.column_stack([X, (near[:, 3] - near[:, 0]) * 1e5])  # the same model, in columns that are far apart
    known = sm.OLS(Y, sm.add_constant(apart)).fit(cov_type="HC3")
    assert_allclose(errors("gaussian", "HC3", Y, rows=near)[[0, 2, 3]], known.bse[[0, 2, 3]], rtol=1e-8)
    assert_allclose(errors("gaussian", "HC3", Y, rows=near)[4], known.bse[4] * 1e5, rtol=1e-8)


def test_a_row_of_leverage_1_counts_for_nothing() -> None:
    rows = np.column_stack([X, np.arange(N) == 7])
    plain = errors("gaussian", "HC3", np.delete(Y, 7), rows=np.delete(X, 7, axis=0))
    assert_allclose(errors("gaussian", "HC3", Y, rows=rows)[:4], plain, rtol=1e-9)


@pytest.mark.parametrize("abstract", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["poisson", "gamma"])
def test_supersteps_and_words_are_those_of_cost(family: str, kind: str, abstract: bool) -> None:
    p, model, steps = 4, Model(family, robust=kind), list[int]()

    def main(proc: Any) -> None:
        rows = Rows(proc.rng.normal(size=(N, 3)), proc.rng.integers(1, 4, N).astype(float))
        steps.append(solve(rows, model).n_iter)

    where = bsp.Machine(p=p)
    found = bsp.predict(main, nprocs=p, machine=where, abstract=abstract).per_superstep
    expected = cost(model, N * p, 3, p, where, steps[0])
    assert (len(found), sum(max(each["h_sent"], each["h_received"]) for each in found)) == (expected.S, expected.H)


def test_the_kind_is_told_and_an_unknown_one_refused() -> None:
    model = glm.PoissonRegression(robust="HC3").fit(X, COUNTS)
    assert "standard errors are robust (HC3)" in model.summary().notes
    assert "standard errors are robust (HC0)" in glm.PoissonRegression(robust=True).fit(X, COUNTS).summary().notes
    with pytest.raises(ValueError, match="robust='HC4': True, False, HC0, HC1, HC2, HC3"):
        glm.PoissonRegression(robust="HC4").fit(X, COUNTS)
