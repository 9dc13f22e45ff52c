"""Absorbed effects: the fit with a column for each label, for every deal of the rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose

import bsp
import bsp.arrays as ba
from bsp.algorithms import glm

N = 120
RNG = np.random.default_rng(5)
FIRM, YEAR, TOWN = RNG.integers(0, 13, N), RNG.integers(0, 5, N), RNG.integers(0, 4, N)
X = RNG.normal(size=(N, 3)) * [1, 5, 0.1] + [0, 1000, 0] + 0.3 * FIRM[:, None]
Y = X @ [1, 0.1, 2] + RNG.normal(size=13)[FIRM] + 3 * YEAR + TOWN + RNG.normal(size=N)
WEIGHTS, TIMES = np.where(FIRM == 3, 0.0, RNG.integers(1, 4, N) / 2.0), RNG.integers(0, 4, N)
EFFECTS = {"one": [FIRM], "two": [FIRM, YEAR], "three": [FIRM, YEAR, TOWN]}


def fitted(nprocs: int, *data: Any, rows: Any = X, y: Any = Y, robust: Any = False, **columns: Any) -> Any:
    models = bsp.run(lambda proc: glm.LinearRegression(robust=robust).fit(rows, y, *data, **columns), nprocs=nprocs)
    assert len({each.coef_.tobytes() + each.standard_errors_.tobytes() for each in models}) == 1
    return models[0]


def dummies(labels: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([each[:, None] == np.unique(each)[1:] for each in labels], axis=1).astype(float)


def assert_alike(found: Any, known: Any, k: int = 3) -> None:
    assert found.intercept_ == 0.0
    assert_allclose(found.coef_, known.coef_[:k], rtol=1e-8)
    assert_allclose(found.standard_errors_, known.standard_errors_[1 : k + 1], rtol=1e-8)
    for name in ("n_rows", "df_resid", "deviance", "dispersion", "log_likelihood"):
        assert_allclose(getattr(found.solution_, name), getattr(known.solution_, name), rtol=1e-9, err_msg=name)
    assert_allclose([found.summary().aic, found.summary().bic], [known.summary().aic, known.summary().bic], rtol=1e-9)


@pytest.mark.parametrize("nprocs", [1, 3, 16])
@pytest.mark.parametrize("effects", EFFECTS)
def test_it_is_the_fit_with_a_column_for_each_label(effects: str, nprocs: int) -> None:
    known = glm.LinearRegression().fit(np.column_stack([X, dummies(EFFECTS[effects])]), Y)
    assert_alike(fitted(nprocs, absorb=EFFECTS[effects]), known)


@pytest.mark.parametrize("effects", ["one", "two"])
@pytest.mark.parametrize("robust", [False, "HC0", "HC1"])
def test_weights_frequencies_offsets_and_robust_errors_go_with_it(effects: str, robust: Any) -> None:
    offset, labels = RNG.normal(size=N), EFFECTS[effects]
    data = (WEIGHTS, offset)
    every = np.column_stack([X, dummies(labels)])
    known = fitted(1, *data, rows=every, robust=robust, frequencies=TIMES)
    assert_alike(fitted(3, *data, robust=robust, frequencies=TIMES, absorb=labels), known)


def test_the_parameters_of_two_columns_are_those_of_their_connected_components() -> None:
    apart = np.where(FIRM < 6, YEAR % 2, 2 + YEAR % 3)  # two groups of firms that share no year
    known = glm.LinearRegression().fit(np.column_stack([X, dummies([FIRM, apart])]), Y)
    found = fitted(3, absorb=[FIRM, apart])
    assert_alike(found, known)
    assert "effects of absorb[0], absorb[1] are absorbed: 16 parameters" in str(found.summary())


@pytest.mark.parametrize("nprocs", [1, 3])
def test_clustered_errors_do_not_count_effects_within_clusters(nprocs: int) -> None:
    labels, region = [FIRM, YEAR], FIRM % 7
    every = sm.add_constant(np.column_stack([X, dummies(labels)]))
    kinds = {"cov_type": "cluster", "cov_kwds": {"groups": region, "use_correction": False}}
    bare = sm.OLS(Y, every).fit(**kinds).bse[1:4]
    for own, count in ((labels, 3 + 1 + 4), ([FIRM], 3 + 1)):  # firms are within regions, years are not
        if own == [FIRM]:
            bare = sm.OLS(Y, sm.add_constant(np.column_stack([X, dummies(own)]))).fit(**kinds).bse[1:4]
        found = fitted(nprocs, robust="cluster", clusters=region, absorb=own)
        assert_allclose(found.standard_errors_, bare * np.sqrt(7 / 6 * (N - 1) / (N - count)), rtol=1e-7)


def test_a_column_that_the_effects_explain_is_left_out_by_name() -> None:
    rows = np.column_stack([X, np.sqrt(FIRM + 1.0) * 1e6, YEAR])
    found = fitted(3, rows=rows, absorb=[FIRM, YEAR])
    assert_allclose(found.coef_, [*fitted(1, absorb=[FIRM, YEAR]).coef_, 0.0, 0.0], rtol=1e-8)
    notes = [note for note in found.solution_.notes if "explained by the absorbed effects" in note]
    assert len(notes) == 2 and notes[0].startswith("column x3")


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("family", ["gaussian", "poisson"])
def test_where_no_column_is_left_the_fit_is_that_of_the_effects(family: str, nprocs: int) -> None:
    y = Y if family == "gaussian" else np.round(np.abs(Y - Y.mean()))

    def main(proc: bsp.Process) -> Any:
        return glm.GLM(family).fit(np.sqrt(FIRM + 1.0)[:, None], y, absorb=FIRM)

    found, known = bsp.run(main, nprocs=nprocs)[0], glm.GLM(family, tol=1e-12).fit(dummies([FIRM]), y)
    assert (found.coef_, found.converged_, found.solution_.df_resid) == ([0.0], True, known.solution_.df_resid)
    assert np.isnan(found.standard_errors_).all()
    assert_allclose(found.deviance_, known.deviance_, rtol=1e-9)
    assert "column x0 is explained by the absorbed effects: it is left out" in str(found.summary())


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_a_label_for_each_row_leaves_nothing(nprocs: int) -> None:
    found = fitted(nprocs, absorb=np.arange(N))
    assert found.coef_.tolist() == [0.0] * 3 and np.isnan(found.standard_errors_).all()
    assert f"{N} rows for {N} coefficients: nothing is left to estimate a dispersion by" in found.summary().notes


def test_a_chain_of_labels_is_absorbed_too() -> None:
    """Labels that are barely connected, for which alternating projections alone would take thousands of sweeps."""
    n = 400
    worker, firm = (np.arange(n) + 1) // 2, np.arange(n) // 2
    x, noise = RNG.normal(size=(n, 1)), RNG.normal(size=n)
    some = np.concatenate([np.arange(n), RNG.integers(0, n, n // 4)])
    rows, y = x[some] + 0.1 * RNG.normal(size=(len(some), 1)), noise[some] + worker[some] + RNG.normal(size=len(some))
    labels = [worker[some], firm[some]]
    known = glm.LinearRegression().fit(np.column_stack([rows, dummies(labels)]), y)
    found = fitted(3, rows=rows, y=y, absorb=labels)
    assert not any("no convergence" in note for note in found.summary().notes)
    assert_allclose(found.coef_, known.coef_[:1], rtol=1e-7)
    assert found.solution_.df_resid == known.solution_.df_resid


def test_labels_may_be_texts_columns_of_tables_and_dealt_arrays() -> None:
    known = fitted(1, absorb=[FIRM, YEAR])
    texts = np.array([f"firm {each}" for each in FIRM])
    assert_allclose(fitted(3, absorb=(texts, YEAR.tolist())).coef_, known.coef_, rtol=1e-10)

    def dealt(proc: bsp.Process) -> Any:
        model = glm.LinearRegression().fit(ba.asarray(X), ba.asarray(Y), absorb=[ba.asarray(FIRM), ba.asarray(YEAR)])
        return model.coef_

    assert_allclose(bsp.run(dealt, nprocs=3)[0], known.coef_, rtol=1e-10)
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abc")).assign(wage=Y, firm=texts, year=YEAR)
    found = fitted(3, rows=frame, y="wage", absorb=["firm", "year"])
    assert_allclose(found.coef_, known.coef_, rtol=1e-10)
    assert found.summary().names == ("a", "b", "c")
    assert "effects of firm, year are absorbed: 17 parameters" in str(found.summary())
    assert_allclose(fitted(2, rows=frame.drop(columns="year"), y="wage", absorb="firm").coef_,
                    fitted(1, absorb=FIRM).coef_, rtol=1e-10)  # fmt: skip


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_zeros_of_either_sign_are_one_label(nprocs: int) -> None:
    signed = np.where(np.arange(N) < N // 3, -1.0, 1.0) * YEAR  # -0.0 in the first rows
    found, known = (fitted(nprocs, absorb=each) for each in (signed, signed.astype(int)))
    assert found.solution_.df_resid == known.solution_.df_resid
    assert_allclose(found.coef_, known.coef_, rtol=1e-12)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("effects", ["one", "two"])
@pytest.mark.parametrize("power", [-470, 495])
def test_units_do_not_matter_where_squares_are_near_the_ends_of_the_range(
    power: int, effects: str, nprocs: int
) -> None:
    """1e149 and 1e-142: the squares are numbers still, near the ends of their range."""
    labels = EFFECTS[effects]
    known = fitted(nprocs, absorb=labels)
    columns = fitted(nprocs, rows=np.ldexp(X, power), absorb=labels)
    assert_allclose(np.ldexp(columns.coef_, power), known.coef_, rtol=1e-9)
    assert_allclose(np.ldexp(columns.standard_errors_, power), known.standard_errors_, rtol=1e-9)
    targets = fitted(nprocs, y=np.ldexp(Y, power), absorb=labels)
    assert_allclose(np.ldexp(targets.coef_, -power), known.coef_, rtol=1e-9)
    assert_allclose(np.ldexp(targets.standard_errors_, -power), known.standard_errors_, rtol=1e-9)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("unit", [1e160, 1e300, 1e-170])
def test_responses_whose_squares_are_no_numbers_are_refused_as_without_labels(unit: float, nprocs: int) -> None:
    with pytest.raises(glm.DataError) as plain:
        fitted(nprocs, y=Y * unit)
    with pytest.raises(glm.DataError) as absorbed:
        fitted(nprocs, y=Y * unit, absorb=FIRM)
    assert str(absorbed.value) == str(plain.value)
    with pytest.raises(glm.DataError, match="sums of X, y or weights are beyond the range of numbers"):
        fitted(nprocs, y=np.full(N, 1e308), absorb=FIRM)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_variances_beyond_the_range_of_numbers_are_noted(nprocs: int) -> None:
    for labels in ({}, {"absorb": FIRM}):
        found = fitted(nprocs, rows=X * [1, 1, 1e-159], **labels)
        assert_allclose(found.coef_ * [1, 1, 1e-159], fitted(nprocs, **labels).coef_, rtol=1e-3)
        assert any("variances of coefficients are beyond the range" in note for note in found.summary().notes)


JOB = """
import numpy as np, bsp
from bsp.algorithms import glm
rng = np.random.default_rng(5)
X, firm, year = rng.normal(size=(60, 2)), rng.integers(0, 9, 60), rng.integers(0, 7, 60)
model = glm.LinearRegression().fit(X, X[:, 0] + rng.normal(size=60), absorb=[firm, year])
for _ in range(12):  # more boundaries, so that processes are made again after the loop of the first fit
    glm.LinearRegression().fit(X, X[:, 1])
print(bsp.process().pid, model.coef_.tobytes().hex(), model.summary().notes)
"""


@pytest.mark.jobs
@pytest.mark.thorough
def test_processes_that_are_made_again_after_the_fit_have_its_notes(tmp_path: Path) -> None:
    path = tmp_path / "job.py"
    path.write_text(JOB)

    def job(*words: str) -> str:
        bsprun = str(Path(sys.executable).with_name("bsprun"))
        done = subprocess.run([bsprun, "-p", "3", "-n", "1", *words, str(path)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout

    alone = job()
    assert job("--check") == alone and "no convergence" not in alone


def test_there_is_no_prediction() -> None:
    with pytest.raises(ValueError, match="absorbed effects, which are not known"):
        fitted(1, absorb=FIRM).predict(X)


@pytest.mark.parametrize(
    ("family", "robust", "absorb", "message"),
    [
        ("gamma", False, FIRM, "absorb= is of linear models.*this one is 'gamma'"),
        ("poisson:identity", False, FIRM, "absorb= is of linear models.*this one is 'poisson:identity'"),
        ("gaussian", "HC3", FIRM, "robust='HC3' needs leverages"),
        ("gaussian", False, FIRM[1:], "inconsistent numbers of samples"),
        ("gaussian", False, np.where(FIRM == 2, np.nan, FIRM), "absorb has missing labels"),
        ("gaussian", False, FIRM.tolist(), "absorb takes a column of labels, or a list of columns"),
        ("gaussian", False, np.column_stack([FIRM, YEAR]), "absorb takes a column of labels, or a list of columns"),
        ("gaussian", False, [], r"absorb=\[\]"),
    ],
)
def test_bad_labels_are_one_clear_error(family: str, robust: Any, absorb: Any, message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        glm.GLM(family, robust=robust).fit(X, np.abs(Y), absorb=absorb)


def test_values_that_are_no_numbers_and_sparse_rows_are_refused() -> None:
    import scipy.sparse

    for nprocs in (1, 2, 3):
        for place in (8, N - 2):
            wrong = X.copy()
            wrong[place, 1] = np.nan
            with pytest.raises(glm.DataError, match=f"row {place}: column 'x1' holds NaN"):
                fitted(nprocs, rows=wrong, absorb=FIRM)
            with pytest.raises(glm.DataError, match=f"row {place}: weight = -1.0, which must be"):
                fitted(nprocs, np.where(np.arange(N) == place, -1.0, 1.0), absorb=FIRM)
    with pytest.raises(ValueError, match="absorb= needs a dense X"):
        fitted(1, rows=scipy.sparse.csr_matrix(X), absorb=FIRM)
