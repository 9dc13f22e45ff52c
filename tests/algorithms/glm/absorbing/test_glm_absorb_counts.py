"""Absorbed effects of counts: the Poisson fit with a column for each label, for every deal of the rows."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose

import bsp
from bsp.algorithms import glm
from bsp.algorithms.glm.families import family_of

N = 241
RNG = np.random.default_rng(6)
FIRM, YEAR, TOWN = RNG.integers(0, 13, N), RNG.integers(0, 5, N), RNG.integers(0, 4, N)
X = RNG.normal(size=(N, 3)) * [0.5, 1, 0.1] + [0, 100, 0] + 0.05 * FIRM[:, None]
OFFSET = 0.3 * RNG.normal(size=N)
MEAN = np.exp(X @ [0.5, 0.3, 1] - 29.5 + RNG.normal(size=13)[FIRM] + 0.2 * YEAR - 0.1 * TOWN + OFFSET)
Y = RNG.poisson(MEAN).astype(float)
Y[FIRM == 4] = 0.0  # a firm that has no finite effect
SOME = FIRM != 4
WEIGHTS, TIMES = np.where(FIRM == 3, 0.0, RNG.integers(1, 4, N) / 2.0), RNG.integers(0, 4, N)
EFFECTS = {"one": [FIRM], "two": [FIRM, YEAR], "three": [FIRM, YEAR, TOWN]}
SPARSE = "left out: all y of their label are 0, and so its effect has no finite estimate"


def fitted(
    nprocs: int, *data: Any, rows: Any = X, y: Any = Y, robust: Any = False, family: str = "poisson", **columns: Any
) -> Any:
    models = bsp.run(lambda proc: glm.GLM(family, robust=robust).fit(rows, y, *data, **columns), nprocs=nprocs)
    assert len({each.coef_.tobytes() + each.standard_errors_.tobytes() for each in models}) == 1
    return models[0]


def dummies(labels: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([each[:, None] == np.unique(each)[1:] for each in labels], axis=1).astype(float)


def with_columns(labels: list[np.ndarray], used: np.ndarray = SOME) -> np.ndarray:
    return np.column_stack([X[used], dummies([each[used] for each in labels])])


def assert_alike(found: Any, known: Any, k: int = 3) -> None:
    assert found.converged_ and found.intercept_ == 0.0
    assert_allclose(found.coef_, known.coef_[:k], rtol=1e-8)
    assert_allclose(found.standard_errors_, known.standard_errors_[1 : k + 1], rtol=1e-8)
    for name in ("n_rows", "df_resid", "deviance", "dispersion", "pearson_chi2", "log_likelihood"):
        ours, theirs = getattr(found.solution_, name), getattr(known.solution_, name)
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert_allclose(ours, theirs, rtol=1e-8, err_msg=name)


@pytest.mark.parametrize("nprocs", [1, 3, 8])
@pytest.mark.parametrize("effects", EFFECTS)
def test_it_is_statsmodels_fit_with_a_column_for_each_label(effects: str, nprocs: int) -> None:
    labels = EFFECTS[effects]
    every = sm.add_constant(with_columns(labels))
    known = sm.GLM(Y[SOME], every, sm.families.Poisson(), offset=OFFSET[SOME]).fit(tol=1e-14, maxiter=100)
    found = fitted(nprocs, offset=OFFSET, absorb=labels)
    assert_allclose(found.coef_, known.params[1:4], rtol=1e-9)
    assert_allclose(found.standard_errors_, known.bse[1:4], rtol=1e-9)
    assert_allclose([found.deviance_, found.solution_.log_likelihood], [known.deviance, known.llf], rtol=1e-10)
    assert (found.solution_.n_rows, found.solution_.df_resid) == (SOME.sum(), known.df_resid)
    gone = [note for note in found.summary().notes if SPARSE in note]
    assert gone == [f"{N - SOME.sum()} rows {SPARSE} (labels: 1 of absorb[0])"]


@pytest.mark.parametrize("effects", ["one", "two"])
@pytest.mark.parametrize("family", ["poisson", "quasi-poisson"])
@pytest.mark.parametrize("robust", [False, "HC0", "HC1"])
def test_weights_frequencies_offsets_and_robust_errors_go_with_it(effects: str, family: str, robust: Any) -> None:
    labels, options = EFFECTS[effects], {"robust": robust, "family": family}
    data = [each[SOME] for each in (WEIGHTS, OFFSET)]
    known = fitted(1, *data, rows=with_columns(labels), y=Y[SOME], frequencies=TIMES[SOME], **options)
    found = fitted(3, WEIGHTS, OFFSET, frequencies=TIMES, absorb=labels, **options)
    assert_alike(found, known)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_clustered_errors_do_not_count_effects_within_clusters(nprocs: int) -> None:
    region, rows = FIRM % 7, int(SOME.sum())
    kinds = {"cov_type": "cluster", "cov_kwds": {"groups": region[SOME], "use_correction": False}}
    for labels, count in (([FIRM, YEAR], 3 + 1 + 4), ([FIRM], 3 + 1)):  # firms are within regions, years are not
        theirs = sm.GLM(Y[SOME], sm.add_constant(with_columns(labels)), sm.families.Poisson())
        bare = theirs.fit(tol=1e-14, maxiter=100, **kinds).bse[1:4]
        found = fitted(nprocs, robust="cluster", clusters=region, absorb=labels)
        assert_allclose(found.standard_errors_, bare * np.sqrt(7 / 6 * (rows - 1) / (rows - count)), rtol=1e-8)


def test_the_null_deviance_is_that_of_the_effects_alone() -> None:
    known = glm.PoissonRegression().fit(dummies([FIRM[SOME], YEAR[SOME]]), Y[SOME], offset=OFFSET[SOME])
    found = fitted(3, offset=OFFSET, absorb=[FIRM, YEAR])
    assert_allclose(found.solution_.null_deviance, known.deviance_, rtol=1e-10)


def test_zeros_of_a_second_column_and_of_rows_without_weight_are_found() -> None:
    """A year has zeros only, but for a row of weight 0; a row of both reasons counts once."""
    y, weights, first = np.where(YEAR == 2, 0.0, Y), np.ones(N), np.flatnonzero(YEAR == 2)[0]
    y[first], weights[first] = 7.0, 0.0
    used = SOME & (YEAR != 2)
    known = fitted(1, rows=with_columns([FIRM, YEAR], used), y=y[used])
    found = fitted(3, weights, y=y, absorb=[FIRM, YEAR])
    assert_alike(found, known)
    gone = int(((FIRM == 4) | (YEAR == 2))[weights > 0].sum())
    assert f"{gone} rows {SPARSE} (labels: 1 of absorb[0], 1 of absorb[1])" in found.summary().notes


def test_effects_of_any_size_are_absorbed() -> None:
    """Levels from e^-6 to e^12, and a slope that takes means over many orders: steps are halved where they must be."""
    level = np.linspace(-6, 12, 13)[FIRM]
    y = np.random.default_rng(8).poisson(np.exp(level + 2.5 * X[:, 0])).astype(float)
    used = np.array([y[each == FIRM].sum() > 0 for each in FIRM])
    rows = np.column_stack([X[used, :1], dummies([FIRM[used], YEAR[used]])])
    known = glm.PoissonRegression().fit(rows, y[used])
    found = fitted(3, rows=X[:, :1], y=y, absorb=[FIRM, YEAR])
    assert known.converged_
    assert_alike(found, known, 1)


@pytest.mark.parametrize("labels", [[FIRM], [FIRM, YEAR]], ids=["one", "two"])
def test_responses_that_effects_explain_are_no_failure(labels: list[np.ndarray]) -> None:
    found = fitted(3, y=np.exp(sum(0.3 * each for each in labels)), absorb=labels)
    assert found.converged_
    assert_allclose(found.coef_, 0.0, rtol=0, atol=1e-10)
    assert found.deviance_ < 1e-20


def test_rows_that_a_column_separates_are_left_out() -> None:
    """y is 0 in all rows of a column: no label does it alone."""
    apart = np.arange(N) % 17 == 0
    y = np.where(apart, 0.0, Y + 1)
    found = fitted(3, rows=np.column_stack([X[:, :2], apart]), y=y, absorb=[FIRM, YEAR])
    assert found.converged_
    assert f"{apart.sum()} rows of y = 0 left out: x2 and effects separate them from the others" in told(found)
    assert "column x2" in told(found)  # nothing is left of it
    sound = fitted(1, rows=X[~apart, :2], y=y[~apart], absorb=[FIRM[~apart], YEAR[~apart]])
    assert_allclose(found.coef_, [*sound.coef_, 0.0], rtol=1e-9)
    assert_allclose(found.solution_.null_deviance, sound.solution_.null_deviance, rtol=1e-9)


def test_rows_that_two_columns_of_labels_separate_together_are_left_out() -> None:
    """Each label has counts, but where one's first meets the other's second there are none: the two effects part."""
    one, other = np.repeat([0, 0, 1], 30), np.repeat([0, 1, 1], 30)
    y = np.where(one == other, 2.0 + np.arange(90) % 3, 0.0)
    data = {"rows": np.arange(90.0)[:, None] % 7, "y": y, "clusters": np.arange(90) % 9}
    found = fitted(2, robust="cluster", absorb=[one, other], **data)
    assert found.converged_ and "30 rows of y = 0 left out: effects separate them from the others" in told(found)
    some = {name: each[y > 0] for name, each in data.items()}
    sound = fitted(1, robust="cluster", absorb=[one[y > 0], other[y > 0]], **some)
    assert_allclose(found.coef_, sound.coef_, rtol=1e-9)
    assert_allclose(found.standard_errors_, sound.standard_errors_, rtol=1e-9)
    assert found.solution_.n_rows == 60
    assert "left out: effects" not in told(fitted(2, absorb=[FIRM, YEAR]))


def told(model: Any) -> str:
    return "\n".join(model.summary().notes)


def test_a_column_that_the_effects_explain_is_left_out_by_name() -> None:
    rows = np.column_stack([X, np.sqrt(FIRM + 1.0) * 1e3, YEAR])
    found = fitted(3, rows=rows, absorb=[FIRM, YEAR])
    assert_allclose(found.coef_, [*fitted(1, absorb=[FIRM, YEAR]).coef_, 0.0, 0.0], rtol=1e-8)
    notes = [note for note in found.solution_.notes if "explained by the absorbed effects" in note]
    assert len(notes) == 2 and notes[0].startswith("column x3")


def test_too_few_iterations_are_no_convergence() -> None:
    model = glm.PoissonRegression(max_iter=2).fit(X, Y, absorb=[FIRM, YEAR])
    assert not model.converged_
    assert any(note.startswith("no convergence: the correlation of residuals") for note in model.solution_.notes)


def test_progress_is_told_of_each_iteration() -> None:
    told: list[tuple[int, float, float]] = []
    model = glm.PoissonRegression().fit(X, Y, absorb=FIRM, progress=lambda *each: told.append(each))
    own = [each for each in told if each[1:] in model.solution_.history]
    assert [step for step, *_ in own] == list(range(model.n_iter_ + 1))
    assert all(after <= before for (_, before, _), (_, after, _) in pairwise(own))


@pytest.mark.parametrize(
    ("options", "changed", "message"),
    [
        ({"alpha": 0.1}, {}, "alpha=0.1: a poisson model with absorbed effects has no penalty"),
        ({"robust": "HC2"}, {}, "robust='HC2' needs leverages"),
        ({}, {"y": np.where(np.arange(N) == 9, -1.0, Y)}, "row 9: y = -1.0, which of a poisson model must be a count"),
        ({}, {"y": np.zeros(N)}, "all y are 0"),
        ({}, {"X": np.where(np.arange(N)[:, None] == 8, np.nan, X)}, "row 8: column 'x0' holds NaN"),
    ],
)
def test_what_cannot_be_is_one_clear_error(options: Any, changed: Any, message: str) -> None:
    data = {"X": X, "y": Y} | changed
    with pytest.raises(ValueError, match=message):
        bsp.run(lambda proc: glm.PoissonRegression(**options).fit(**data, absorb=FIRM), nprocs=3)


def test_families_tell_whether_their_effects_can_be_absorbed() -> None:
    some = ("poisson", "quasi-poisson", "poisson:identity", "gamma", "negative-binomial:0.5", "binomial")
    assert [name for name in some if family_of(name).log_linear] == ["poisson", "quasi-poisson"]


JOB = """
import hashlib
import numpy as np
import bsp
from bsp.algorithms import glm

rng = np.random.default_rng(1)
firm, year = rng.integers(0, 13, 200), rng.integers(0, 5, 200)
X = rng.normal(size=(200, 2))
y = rng.poisson(np.exp(X @ [0.5, 0.3] + rng.normal(size=13)[firm] + 0.2 * year)).astype(float)
model = glm.PoissonRegression(robust="cluster").fit(X, y, absorb=[firm, year], clusters=year)
both = model.coef_.tobytes() + model.standard_errors_.tobytes()
print(bsp.process().pid, model.n_iter_, hashlib.sha256(both).hexdigest())
"""


@pytest.mark.jobs
@pytest.mark.thorough
def test_its_loop_is_one_of_rounds_and_elements_change_no_bit(tmp_path: Path) -> None:
    """Processes that are made again at heads of rounds go on with the same bytes; so do clones on more elements."""
    path = tmp_path / "job.py"
    path.write_text(JOB)

    def job(*words: str) -> str:
        bsprun = str(Path(sys.executable).with_name("bsprun"))
        done = subprocess.run([bsprun, "-p", "3", *words, str(path)], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return "\n".join(sorted(done.stdout.splitlines()))

    alone = job("-n", "1")
    assert job("-n", "1", "--check") == job("-n", "2") == alone
    assert job("-n", "2", "--clones", "2", "--standby", "1", "--inject", "kill:element=1,superstep=60") == alone
