"""Frequencies: a row of frequency f is f equal rows in every number that a fit returns."""

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
from glm_families import DEFAULTS, possible, theirs_of, tight
from numpy.testing import assert_allclose

import bsp
import bsp.arrays as ba
from bsp.algorithms import glm
from bsp.algorithms.glm.families import family_of

N = 60
RNG = np.random.default_rng(24)
X = RNG.normal(size=(N, 3)) * [1, 5, 0.1] + [0, 100, 0]
COUNTS = RNG.poisson(np.exp(0.3 * X[:, 0] + 0.5)).astype(float)
TIMES = RNG.integers(0, 5, N)
WEIGHTS = RNG.integers(1, 5, N) / 2.0
VILLAGE = RNG.integers(0, 11, N)
KINDS = [False, "HC0", "HC1", "HC2", "HC3", "cluster"]
NUMBERS = [
    "n_rows", "sum_weights", "df_resid", "deviance", "null_deviance", "dispersion", "pearson_chi2", "log_likelihood",
    "objective", "clusters",
]  # fmt: skip


def repeated(values: Any) -> Any:
    return np.repeat(values, TIMES, axis=0)


def fitted(nprocs: int, model: dict[str, Any], *data: Any, **columns: Any) -> Any:
    models = bsp.run(lambda proc: glm.GLM(tol=1e-12, **model).fit(*data, **columns), nprocs=nprocs)
    assert len({each.coef_.tobytes() for each in models}) == 1
    return models[0]


def assert_alike(found: Any, known: Any, rtol: float = 1e-8) -> None:
    assert_allclose([found.intercept_, *found.coef_], [known.intercept_, *known.coef_], rtol=rtol, atol=1e-10)
    for name in ("covariance", "robust_covariance"):
        one, other = getattr(found.solution_, name), getattr(known.solution_, name)
        assert (one is None) == (other is None)
        if one is not None:
            assert_allclose(one, other, rtol=rtol, atol=rtol * np.abs(other).max())
    for name in NUMBERS:
        one, other = getattr(found.solution_, name), getattr(known.solution_, name)
        assert (one is None) == (other is None), name
        if one is not None:
            assert_allclose(one, other, rtol=rtol, err_msg=name)
    assert [each is None for each in (found.summary().aic, found.summary().bic)] == [known.summary().aic is None] * 2
    if found.summary().aic is not None:
        assert_allclose(found.summary().aic, known.summary().aic, rtol=rtol)
        assert_allclose(found.summary().bic, known.summary().bic, rtol=rtol)


@pytest.mark.parametrize("nprocs", [1, 3, 64])
@pytest.mark.parametrize("family", DEFAULTS)
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["", "weighted"])
def test_a_row_of_frequency_f_is_f_rows(family: str, weights: Any, nprocs: int) -> None:
    y, model = possible(family, COUNTS), {"family": family}
    known = fitted(1, model, repeated(X), repeated(y), None if weights is None else repeated(weights))
    rtol = 2e-6 if family == "inverse-gaussian" else 1e-8  # its loss is not convex: rounding ends the fit sooner
    assert_alike(fitted(nprocs, model, X, y, weights, frequencies=TIMES), known, rtol)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("family", ["gaussian", "poisson", "gamma"])
def test_so_are_all_standard_errors(family: str, kind: Any) -> None:
    y, model = possible(family, COUNTS), {"family": family, "robust": kind}
    labels = {} if kind != "cluster" else {"clusters": VILLAGE}
    again = {name: repeated(each) for name, each in labels.items()}
    known = fitted(1, model, repeated(X), repeated(y), repeated(WEIGHTS), **again)
    for rows in (X, scipy.sparse.csr_matrix(X)):
        assert_alike(fitted(3, model, rows, y, WEIGHTS, frequencies=TIMES, **labels), known, 1e-7)


DIVERGES = "inverse-gaussian"  # statsmodels' scoring on these data; the repeated rows are its oracle


@pytest.mark.parametrize("family", [each for each in DEFAULTS if family_of(each).has_likelihood and each != DIVERGES])
def test_statsmodels_freq_weights_are_the_same(family: str) -> None:
    y = possible(family, COUNTS)
    found = fitted(2, {"family": family}, X, y, frequencies=TIMES)
    known = sm.GLM(y, sm.add_constant(X), family=theirs_of(family), freq_weights=TIMES).fit(**tight(family))
    assert_allclose([found.intercept_, *found.coef_], known.params, rtol=2e-6, atol=1e-9)
    assert_allclose(found.standard_errors_, known.bse, rtol=2e-6)
    assert (found.solution_.n_rows, found.solution_.df_resid) == (TIMES.sum(), known.df_resid)


def test_trials_and_offsets_and_frequencies_go_together() -> None:
    trials, offset = RNG.integers(0, 6, N), RNG.normal(size=N) / 3
    won = RNG.binomial(trials, 1 / (1 + np.exp(-X[:, 0])))
    known = fitted(1, {"family": "binomial"}, repeated(X), repeated(won), None, repeated(offset), repeated(trials))
    assert_alike(fitted(3, {"family": "binomial"}, X, won, None, offset, trials, frequencies=TIMES), known)


@pytest.mark.parametrize(
    "model", [{"alpha": 0.1}, {"alpha": 0.05, "l1_ratio": 0.5}, {"solver": "lbfgs"}, {"fit_intercept": False}]
)
def test_every_solver_counts_them(model: dict[str, Any]) -> None:
    centred = X - X.mean(axis=0)  # L-BFGS converges in few iterations
    known = fitted(1, {"family": "poisson", "max_iter": 500, **model}, repeated(centred), repeated(COUNTS))
    found = fitted(3, {"family": "poisson", "max_iter": 500, **model}, centred, COUNTS, frequencies=TIMES)
    assert_alike(found, known, 1e-6)


def test_nearly_collinear_columns_keep_their_digits() -> None:
    near = np.column_stack([X, X[:, 0] + 1e-5 * RNG.normal(size=N)])
    known = fitted(1, {"robust": "HC1"}, repeated(near), repeated(COUNTS))
    assert_alike(fitted(3, {"robust": "HC1"}, near, COUNTS, frequencies=TIMES), known, 1e-6)


def test_they_come_from_dealt_arrays_and_columns_of_tables() -> None:
    known = fitted(1, {"family": "poisson"}, repeated(X), repeated(COUNTS))

    def dealt(proc: bsp.Process) -> Any:
        return glm.GLM("poisson", tol=1e-12).fit(ba.asarray(X), ba.asarray(COUNTS), frequencies=ba.asarray(TIMES))

    assert_alike(bsp.run(dealt, nprocs=3)[0], known)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abc")).assign(visits=COUNTS, people=TIMES)
    assert_alike(fitted(3, {"family": "poisson"}, frame, "visits", frequencies="people"), known)


def test_labels_that_only_rows_of_frequency_0_have_are_no_class() -> None:
    labels = np.where(np.arange(N) % 2, "yes", "no")
    with pytest.raises(ValueError, match="only one class"):
        glm.LogisticRegression().fit(X, labels, frequencies=(labels == "yes").astype(int))


def test_a_path_counts_them() -> None:
    model = glm.GLM("poisson", l1_ratio=1.0)
    known = model.regularisation_path(repeated(X), repeated(COUNTS), [0.2, 0.01])
    for one, other in zip(model.regularisation_path(X, COUNTS, [0.2, 0.01], frequencies=TIMES), known, strict=True):
        assert_allclose(one.coef, other.coef, rtol=1e-7, atol=1e-10)
        assert one.n_rows == other.n_rows


@pytest.mark.parametrize(
    ("frequencies", "message"),
    [
        (np.where(np.arange(N) == 41, 1.5, TIMES), r"row 41: frequency = 1.5, which must be a whole number, 0 or more"),
        (np.where(np.arange(N) == 7, -1, TIMES), r"row 7: frequency = -1.0, which must be a whole number"),
        (np.where(np.arange(N) == 7, np.inf, TIMES), r"row 7: frequency = inf, which must be a whole number"),
        (np.where(np.arange(N) == 7, np.nan, TIMES), r"row 7: frequency = nan, which must be a whole number"),
        (np.zeros(N), "frequencies are 0 in every row"),
        (TIMES[1:], "inconsistent numbers of samples"),
        (np.full(N, "two"), "frequencies has texts"),
    ],
)
def test_bad_frequencies_are_one_clear_error(frequencies: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fitted(3, {"family": "poisson"}, X, COUNTS, frequencies=frequencies)


@pytest.mark.thorough
def test_the_command_line_takes_the_column(tmp_path: Path) -> None:
    rows = (f"{a!r},{b!r},{c!r}" for a, b, c in X.tolist())
    lines = [f"{row},{y},{f}" for row, y, f in zip(rows, COUNTS, TIMES, strict=True)]
    (tmp_path / "visits.csv").write_text("\n".join(["a,b,c,y,people", *lines]) + "\n")
    words = [sys.executable, "-m", "bsp.algorithms.glm", "visits.csv", "--target", "y", "--family", "poisson"]
    done = subprocess.run(
        [*words, "--frequencies", "people", "--json", "-"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    told = json.loads(done.stdout)
    known = fitted(1, {"family": "poisson"}, repeated(X), repeated(COUNTS))
    assert told["n_rows"] == TIMES.sum()
    assert_allclose([each["error"] for each in told["coefficients"]], known.standard_errors_, rtol=1e-6)
