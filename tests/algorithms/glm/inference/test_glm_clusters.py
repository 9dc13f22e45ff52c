"""Clustered standard errors: statsmodels' for every deal of the rows, and clusters that cannot be."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import statsmodels.api as sm
from numpy.testing import assert_allclose

import bsp
import bsp.arrays as ba
from bsp.algorithms import glm
from bsp.algorithms.glm.cost import cost
from bsp.algorithms.glm.errors import DataError
from bsp.algorithms.glm.problem import Model

N = 120
RNG = np.random.default_rng(7)
VILLAGE = RNG.integers(0, 17, N)
X = RNG.normal(size=(N, 3)) * [1, 5, 0.1] + [0, 100, 0] + 0.3 * VILLAGE[:, None]
Y = X @ [1, 0.1, 2] + RNG.normal(size=17)[VILLAGE] + RNG.normal(size=N)
COUNTS = RNG.poisson(np.exp(0.2 * X[:, 0] + 0.5 * RNG.normal(size=17)[VILLAGE])).astype(float)
WEIGHTS = np.where(VILLAGE == 3, 0.0, RNG.integers(1, 4, N) / 2.0)
FAMILIES = {
    "gaussian": (Y, sm.families.Gaussian()),
    "poisson": (COUNTS, sm.families.Poisson()),
    "gamma": (COUNTS + 1, sm.families.Gamma(sm.families.links.Log())),
}


def fitted(nprocs: int, family: str, y: Any, labels: Any, rows: Any = X, weights: Any = None) -> Any:
    def main(proc: bsp.Process) -> Any:
        return glm.GLM(family, robust="cluster", tol=1e-13).fit(rows, y, weights, clusters=labels)

    models = bsp.run(main, nprocs=nprocs)
    assert len({each.standard_errors_.tobytes() for each in models}) == 1
    return models[0]


@pytest.mark.parametrize("nprocs", [1, 3, 64])
@pytest.mark.parametrize("family", FAMILIES)
def test_they_are_statsmodels(family: str, nprocs: int) -> None:
    y, theirs = FAMILIES[family]
    known = sm.GLM(y, sm.add_constant(X), theirs).fit(tol=1e-13, maxiter=200)
    if family == "gamma":  # statsmodels takes the expected information twice; we, the observed one, as its HC0 does not
        mu = known.mu
        A, score = sm.add_constant(X), y / mu - 1
        sums = np.array([(A * score[:, None])[k == VILLAGE].sum(axis=0) for k in range(17)])
        outer = np.linalg.inv(A.T @ (A * (y / mu)[:, None]))
        errors = np.sqrt(np.diag(outer @ sums.T @ sums @ outer) * 17 / 16 * (N - 1) / (N - 4))
    else:
        kinds = {"cov_type": "cluster", "cov_kwds": {"groups": VILLAGE}}
        errors = sm.GLM(y, sm.add_constant(X), theirs).fit(tol=1e-13, maxiter=200, **kinds).bse
    model = fitted(nprocs, family, y, VILLAGE)
    assert_allclose(model.standard_errors_, errors, rtol=1e-7)
    assert model.solution_.clusters == 17
    assert "clustered (17 clusters)" in str(model.summary())


def test_labels_may_be_texts_and_rows_sparse_or_dealt_and_the_bytes_are_those_of_numbers() -> None:
    texts = np.array([f"village {k}" for k in VILLAGE])
    once = fitted(3, "poisson", COUNTS, texts).standard_errors_
    assert_allclose(once, fitted(1, "poisson", COUNTS, VILLAGE).standard_errors_, rtol=1e-12)
    assert_allclose(
        fitted(3, "poisson", COUNTS, VILLAGE.tolist(), scipy.sparse.csr_matrix(X)).standard_errors_, once, rtol=1e-9
    )

    def dealt(proc: bsp.Process) -> Any:
        model = glm.GLM("poisson", robust="cluster", tol=1e-13)
        return model.fit(ba.asarray(X), ba.asarray(COUNTS), clusters=ba.asarray(VILLAGE)).standard_errors_

    assert_allclose(bsp.run(dealt, nprocs=3)[0], once, rtol=1e-9)


def test_rows_without_weight_make_no_cluster() -> None:
    some = WEIGHTS > 0
    every = fitted(3, "poisson", COUNTS, VILLAGE, weights=WEIGHTS)
    kept = fitted(3, "poisson", COUNTS[some], VILLAGE[some], X[some], WEIGHTS[some])
    assert every.solution_.clusters == 16
    assert_allclose(every.standard_errors_, kept.standard_errors_, rtol=1e-9)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_equal_labels_are_one_cluster_however_they_are_written(nprocs: int) -> None:
    early = np.arange(N) < N // 3
    zeros = np.where(early, -1.0, 1.0) * (VILLAGE % 5)  # -0.0 in early rows
    mixed = np.array(["a", 1, 1.0], object)[np.where(VILLAGE % 2, 1 + early, 0)]
    for labels, known in ((zeros, zeros.astype(int)), (mixed, VILLAGE % 2)):
        found, plain = (fitted(nprocs, "gaussian", Y, each) for each in (labels, known))
        assert found.solution_.clusters == plain.solution_.clusters == len(np.unique(known))
        assert_allclose(found.standard_errors_, plain.standard_errors_, rtol=1e-12)


def test_each_row_a_cluster_is_hc1_nearly() -> None:
    robust = glm.GLM("gaussian", robust="HC0").fit(X, Y)
    own = fitted(2, "gaussian", Y, np.arange(N)).standard_errors_
    assert_allclose(own, robust.standard_errors_ * np.sqrt(N / (N - 1) * (N - 1) / (N - 4)), rtol=1e-9)


def test_few_clusters_are_noted_and_one_is_refused() -> None:
    model = fitted(2, "gaussian", Y, VILLAGE % 3)
    assert any("3 clusters for 4 coefficients" in note for note in model.solution_.notes)
    with pytest.raises(DataError, match="all rows are in one cluster"):
        fitted(2, "gaussian", Y, np.ones(N, int))


@pytest.mark.parametrize(
    ("robust", "labels", "message"),
    [
        (False, VILLAGE, "one of them needs the other"),
        ("cluster", None, "one of them needs the other"),
        ("cluster", np.where(VILLAGE == 2, np.nan, VILLAGE), "clusters has missing labels"),
        ("cluster", [None, *map(str, VILLAGE[1:])], "clusters has missing labels"),
        ("cluster", VILLAGE[1:], "inconsistent numbers of samples"),
    ],
)
def test_bad_clusters_are_one_clear_error(robust: Any, labels: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        glm.GLM(robust=robust).fit(X, Y, clusters=labels)


def test_a_path_has_no_errors_to_cluster() -> None:
    with pytest.raises(ValueError, match="a path has no standard errors"):
        glm.GLM(robust="cluster", l1_ratio=0.5).regularisation_path(X, Y)


def test_the_declared_cost_is_an_upper_bound_of_one_more_superstep_and_sum() -> None:
    plain, clustered = (cost(Model("poisson", robust=kind), N, 3, 4) for kind in ("HC0", "cluster"))
    assert clustered.S >= plain.S + 2 and clustered.H > plain.H


@pytest.mark.thorough
def test_the_command_line_takes_the_column(tmp_path: Path) -> None:
    rows = (f"{a!r},{b!r},{c!r}" for a, b, c in X.tolist())
    lines = [f"{row},{y},v{k}" for row, y, k in zip(rows, COUNTS, VILLAGE, strict=True)]
    (tmp_path / "visits.csv").write_text("\n".join(["a,b,c,y,village", *lines]) + "\n")
    words = [sys.executable, "-m", "bsp.algorithms.glm", "visits.csv", "--target", "y", "--family", "poisson"]
    done = subprocess.run(
        [*words, "--clusters", "village", "--json", "-"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    both = subprocess.run([*words, "--clusters", "village", "--robust"], cwd=tmp_path, capture_output=True, text=True)
    assert (both.returncode, "one kind of standard errors" in both.stderr) == (2, True)
    told = json.loads(done.stdout)
    known = fitted(1, "poisson", COUNTS, VILLAGE).standard_errors_
    assert_allclose([each["error"] for each in told["coefficients"]], known, rtol=1e-6)
    assert [each["name"] for each in told["coefficients"]] == ["intercept", "a", "b", "c"]
