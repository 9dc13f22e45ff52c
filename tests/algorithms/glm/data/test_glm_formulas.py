"""Formulas: the columns, coefficients and predictions of statsmodels and pandas, for any number of processes."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf

import bsp
from bsp.algorithms import glm

N = 120
VISITS = Path(__file__).resolve().parents[4] / "examples" / "data" / "randhie.csv.gz"


def table() -> pandas.DataFrame:
    rng = np.random.default_rng(8)
    region = np.array(["north", "south", "east"])[rng.integers(0, 3, N)]
    frame = pandas.DataFrame(
        {
            "age": rng.uniform(20, 60, N), "income": np.exp(rng.normal(1, 0.5, N)), "grade": rng.integers(1, 5, N),
            "region": region, "smoker": rng.random(N) < 0.4, "weight": rng.uniform(0.5, 2, N),
        }
    )  # fmt: skip
    mean = np.exp(0.02 * frame.age - 0.3 * np.log(frame.income) + 0.2 * (frame.grade == 3) + 0.4 * (region == "south"))
    frame["visits"] = rng.poisson(mean)
    frame["cost"] = mean + rng.normal(0, 0.3, N) + 5
    return frame


FORMULAS = [
    "visits ~ age + region",
    "visits ~ np.log(income) + C(grade) + smoker",
    "visits ~ age * region - age",
    "visits ~ C(grade):region + I(age**2 / 100)",
    "visits ~ C(region, Treatment(reference='south')) + income",
    "visits ~ C(region, contr.sum) + C(grade, contr.poly)",
    "visits ~ center(age) + scale(income)",
    "visits ~ bs(age, df=5) + poly(income, 2)",
]


@pytest.mark.parametrize("text", FORMULAS)
@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_fit_is_that_of_the_columns_that_formulaic_makes_of_all_rows(run: Any, text: str, nprocs: int) -> None:
    """The oracle sees all rows at once: formulaic makes the matrix of them, and statsmodels fits it."""
    import formulaic

    frame = table()
    y, X = formulaic.model_matrix(text, frame)
    names = [str(name) for name in X.columns]
    expected = sm.GLM(np.asarray(y)[:, 0], np.asarray(X, float), family=sm.families.Poisson()).fit(tol=1e-12)

    def main(proc: bsp.Process) -> None:
        model = glm.PoissonRegression().fit(frame, text)
        found = np.array([model.intercept_, *model.coef_])
        assert model.solution_.names == tuple(name.replace(".0]", "]") for name in names[1:])
        np.testing.assert_allclose(found, expected.params, rtol=1e-7, atol=1e-8)
        np.testing.assert_allclose(model.standard_errors_, expected.bse, rtol=1e-6)
        np.testing.assert_allclose(model.predict(frame.iloc[5:9]), expected.fittedvalues[5:9], rtol=1e-7)
        assert text in str(model.summary())

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize(
    "text", ["cost ~ C(age // 10) + C(grade):C(region.str[0])", "cost ~ C(age > 40) + C(age.round())"]
)
def test_the_levels_of_an_expression_are_those_that_it_has_in_all_rows(
    run: Any, text: str, nprocs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Levels count, not the different values in the columns that they are computed from."""
    import formulaic

    monkeypatch.setattr("bsp.algorithms.glm.data.formulas.MOST_LEVELS", 45)
    frame = table().sort_values("age").reset_index(drop=True)
    y, X = (np.asarray(side, float) for side in formulaic.model_matrix(text, frame))
    expected = X @ np.linalg.lstsq(X, y[:, 0])[0]

    def main(proc: bsp.Process) -> None:
        model = glm.LinearRegression().fit(frame, text)
        np.testing.assert_allclose(model.predict(frame), expected, rtol=1e-8)

    run(main, nprocs=nprocs)


@pytest.mark.thorough
@pytest.mark.parametrize("nprocs", [1, 4, 150])
def test_the_mean_alone_is_a_model(run: Any, nprocs: int) -> None:
    frame = table()

    def main(proc: bsp.Process) -> None:
        model = glm.LinearRegression().fit(frame, "np.log(cost) ~ 1")
        assert model.intercept_ == pytest.approx(np.log(frame.cost).mean(), rel=1e-12)
        assert model.coef_.shape == (0,)
        np.testing.assert_allclose(model.predict(frame), np.full(N, model.intercept_))
        assert "intercept" in str(model.summary())

    run(main, nprocs=nprocs)


def test_a_column_may_be_named_intercept_or_like_a_function_or_a_keyword() -> None:
    rng = np.random.default_rng(3)
    names = ["Intercept", "log", "C", "class", "0", "two words"]
    frame = pandas.DataFrame(rng.uniform(1, 2, (40, 7)), columns=["y", *names])
    known = np.linalg.lstsq(np.column_stack([np.ones(40), frame[names]]), frame.y)[0]
    model = glm.LinearRegression().fit(frame, "y ~ Intercept + log + C + `class` + `0` + `two words`")
    np.testing.assert_allclose([model.intercept_, *model.coef_], known, rtol=1e-8)
    assert list(model.solution_.names) == names
    origin = glm.LinearRegression(fit_intercept=False).fit(frame, "y ~ 0 + Intercept + log.astype(float)")
    known = np.linalg.lstsq(frame[["Intercept", "log"]].to_numpy(), frame.y)[0]
    np.testing.assert_allclose(origin.coef_, known, rtol=1e-8)


def test_statsmodels_reads_the_same_formula() -> None:
    frame = table()
    text = "cost ~ age + C(region) * smoker"
    expected = smf.ols(text, frame).fit()
    found = glm.LinearRegression().fit(frame, text)
    known = {name.replace("[T.True]", ""): value for name, value in expected.params.items()}
    assert known.pop("Intercept") == pytest.approx(found.intercept_, rel=1e-9)
    assert dict(zip(found.solution_.names, found.coef_, strict=True)) == pytest.approx(known, rel=1e-8)


@pytest.mark.parametrize("nprocs", [1, 2, 5])
def test_files_and_frames_give_the_same_fit_and_the_same_predictions(run: Any, tmp_path: Path, nprocs: int) -> None:
    frame = table()
    path = str(tmp_path / "visits.csv")
    frame.to_csv(path, index=False)
    text = "visits ~ log(income) + C(grade) * region + scale(age)"
    alone = glm.PoissonRegression().fit(frame, text, sample_weight="weight")

    def main(proc: bsp.Process) -> None:
        model = glm.PoissonRegression().fit(path, text, sample_weight="weight")
        np.testing.assert_allclose(model.coef_, alone.coef_, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(np.asarray(model.predict(path)), alone.predict(frame), rtol=1e-9)
        assert model.score(path, y="visits") == pytest.approx(alone.score(frame, "visits"), rel=1e-9)
        again = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(again.predict(frame), model.predict(frame))

    run(main, nprocs=nprocs)


def test_a_fitted_formula_is_the_same_bytes_in_every_interpreter() -> None:
    """Clones, and the runs of --check, compare the bytes of a State that has one; words hash otherwise in each run."""
    fit = (
        "import numpy as np, pandas\n"
        "from bsp.algorithms import glm\n"
        "rows = pandas.DataFrame({'u': np.sqrt(np.arange(12.0)), 'v': list('abcd') * 3, 'w': np.arange(12.0)})\n"
        "model = glm.LinearRegression().fit(rows, 'w ~ center(u) * C(v)')\n"
    )
    load = "model = pickle.load(sys.stdin.buffer)\n"  # no formula is read there

    def found(make: str, seed: str, given: bytes = b"") -> bytes:
        code = f"import pickle, sys\n{make}from bsp.values.canonical import pickled\n"
        code += "sys.stdout.buffer.write(pickled(model))\n"
        words = os.environ | {"PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", code], input=given, capture_output=True, check=True, env=words
        ).stdout

    first = found(fit, "1")
    assert first == found(fit, "2") == found(load, "3", first)


def test_a_level_that_only_one_process_has_gets_its_column_everywhere(run: Any) -> None:
    frame = table().sort_values("grade").reset_index(drop=True)  # each process has one or two of the grades

    def main(proc: bsp.Process) -> None:
        model = glm.PoissonRegression().fit(frame, "visits ~ C(grade)")
        assert model.solution_.names == ("C(grade)[T.2]", "C(grade)[T.3]", "C(grade)[T.4]")
        rates = np.exp(model.intercept_ + np.array([0, *model.coef_]))
        np.testing.assert_allclose(rates, frame.groupby("grade").visits.mean(), rtol=1e-8)

    run(main, nprocs=4)


def test_more_processes_than_rows(run: Any) -> None:
    frame = table().iloc[:9]
    alone = glm.LinearRegression().fit(frame, "cost ~ age + center(income) + C(grade)")

    def main(proc: bsp.Process) -> None:
        found = glm.LinearRegression().fit(frame, "cost ~ age + center(income) + C(grade)")
        np.testing.assert_allclose(found.coef_, alone.coef_, rtol=1e-8, atol=1e-10)

    run(main, nprocs=13)


def test_the_response_may_be_an_expression_or_have_labels(run: Any) -> None:
    frame = table()

    def main(proc: bsp.Process) -> None:
        model = glm.LinearRegression().fit(frame, "np.log(cost) ~ age")
        slope, _ = np.polyfit(frame.age, np.log(frame.cost), 1)
        assert model.coef_[0] == pytest.approx(slope, rel=1e-9)
        assert "np.log(cost)" in str(model.summary())
        smokers = glm.LogisticRegression().fit(frame, "smoker ~ age + region")
        assert smokers.classes_.tolist() == [False, True]
        assert smokers.predict(frame).dtype == bool
        regions = glm.MultinomialRegression().fit(frame, "region ~ age + log(income)")
        assert list(regions.classes_) == ["east", "north", "south"]

    run(main, nprocs=2)


def test_all_other_columns_are_a_point_and_an_absorbed_effect_beside_it(run: Any) -> None:
    frame = table()[["cost", "age", "income", "region", "weight"]]

    def main(proc: bsp.Process) -> None:
        everything = glm.LinearRegression().fit(frame, "cost ~ .", sample_weight="weight")
        named = glm.LinearRegression().fit(frame, "cost ~ age + income + region", sample_weight="weight")
        np.testing.assert_array_equal(everything.coef_, named.coef_)
        within = glm.LinearRegression().fit(frame, "cost ~ age + income", absorb="region")
        full = glm.LinearRegression().fit(frame, "cost ~ age + income + region")
        np.testing.assert_allclose(within.coef_, full.coef_[:2], rtol=1e-8)

    run(main, nprocs=3)


def test_rows_with_missing_values_are_left_out_of_what_the_formula_uses(run: Any, tmp_path: Path) -> None:
    frame = table()
    frame.loc[3, "income"] = np.nan
    frame.loc[7, "region"] = None
    frame.loc[11, "age"] = np.nan  # not used
    frame.to_csv(tmp_path / "some.csv", index=False)
    text = "visits ~ log(income) + region"
    expected = glm.PoissonRegression().fit(frame.dropna(subset=["income", "region"]), text)

    def main(proc: bsp.Process) -> None:
        data = glm.read_table(tmp_path / "some.csv", missing="drop", reference={"region": "south"})
        model = glm.PoissonRegression().fit(data, text)
        assert model.solution_.names == ("log(income)", "region[T.east]", "region[T.north]")
        assert model.deviance_ == pytest.approx(expected.deviance_, rel=1e-9)
        assert "2 of 120 rows" in str(model.summary())

    run(main, nprocs=3)


def test_columns_that_a_formula_does_not_name_may_hold_anything(run: Any) -> None:
    plain = table()
    frame = plain.assign(day=pandas.Timestamp("2024-01-31"), thing=[object() for _ in range(len(plain))])
    known = glm.PoissonRegression().fit(plain, "visits ~ age", offset="weight")

    def main(proc: bsp.Process) -> Any:
        with pytest.raises(glm.DataError, match=r"no column 'nothing'.*thing"):
            glm.PoissonRegression().fit(frame.drop(columns="day"), "visits ~ nothing")
        return glm.PoissonRegression().fit(frame, "visits ~ age", offset="weight").coef_

    for coef in run(main, nprocs=3):
        np.testing.assert_allclose(coef, known.coef_, rtol=1e-12, atol=0)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_formula_reads_its_columns_of_a_file_alone(run: Any, tmp_path: Path, nprocs: int) -> None:
    plain = table()
    frame = plain.assign(day=pandas.Timestamp("2024-01-31"), gap=np.nan)
    frame.to_csv(tmp_path / "visits.csv")
    frame.to_csv(tmp_path / "visits.csv.gz")
    frame.to_parquet(tmp_path / "visits.parquet")
    known = glm.PoissonRegression().fit(plain, "visits ~ age", offset="weight")
    every = glm.PoissonRegression().fit(plain, "visits ~ .")

    def main(proc: bsp.Process) -> None:
        for name in ("visits.csv", "visits.csv.gz", "visits.parquet"):
            path = str(tmp_path / name)
            model = glm.PoissonRegression().fit(path, "visits ~ age", offset="weight")
            np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9, atol=0)
            other = {"offset": "weight", "sample_weight": "cost"}  # columns that the model does not have
            np.testing.assert_allclose(
                model.predict(path, "weight").compute(), known.predict(plain, "weight"), rtol=1e-9
            )
            assert model.score(path, "visits", **other) == pytest.approx(
                known.score(plain, "visits", **other), rel=1e-9
            )
            for each in ("residuals", "leverage"):
                given = ["visits"] if each == "residuals" else []
                found = getattr(model, each)(path, *given, **other).compute()
                np.testing.assert_allclose(found, getattr(known, each)(plain, *given, **other), rtol=1e-6)
            with pytest.raises(glm.DataError, match=rf"{name}: there is no column 'wight'; did you mean 'weight'"):
                model.predict(path, "wight")
            model = glm.PoissonRegression().fit(path, "visits ~ . - day - gap")
            assert model.deviance_ == pytest.approx(every.deviance_, rel=1e-9)
            with pytest.raises(glm.DataError, match="no column 'wight'; did you mean 'weight'"):
                glm.PoissonRegression().fit(path, "visits ~ age", offset="wight")
            with pytest.raises(glm.DataError, match=rf"{name}: there is no column 'aeg'.*gap"):
                glm.PoissonRegression().fit(path, "visits ~ aeg")

    run(main, nprocs=nprocs)


def test_a_model_without_an_intercept() -> None:
    frame = table()
    model = glm.LinearRegression(fit_intercept=False).fit(frame, "cost ~ 0 + region")
    np.testing.assert_allclose(model.coef_, frame.groupby("region").cost.mean(), rtol=1e-9)
    for level, name in zip(["east", "north", "south"], model.solution_.names, strict=True):
        assert level in name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("visits ~ nosuch", "there is no column 'nosuch'"),
        ("visits ~ log(Q('the age'))", r"stands in backticks, `as here`, not in Q\("),
        ("visits ~ nosuch.dt.month", "there is no column 'nosuch.dt.month'"),
        ("visits ~ age + age.dt.month", r"'age\.dt\.month' in a formula: .* make a column of age\.dt\.month before"),
        ("visits ~ agee", "did you mean 'age'"),
        ("visits ~ age +", "misplaced"),
        ("~ age", "no response"),
        ("visits ~ age | region", "absorb="),
        ("visits ~ age + offset(log(income))", r"beside the formula, as a column: fit\(\.\.\., offset='column'\)"),
        ("visits + cost ~ age", "one number for each row"),
        ("center(cost) ~ age", "of that row alone"),
        ("visits ~ 0 + age", "fit_intercept=True"),
        ("visits ~ unknown_function(age)", "unknown_function"),
        ("visits ~ log(age - 40)", r"line|row"),
        ("visits ~ I(age - age.mean())", "depends on other rows"),
        ("visits ~ I(age / age.max())", "depends on other rows"),
        ("visits ~ age.rank()", "depends on other rows"),
        ("visits ~ I(income.cumsum())", "depends on other rows"),
        ("I(visits / visits.max()) ~ age", "depends on other rows"),
        ("visits ~ C(age * income) + scale(age)", "more than 50 different values"),
    ],
)
def test_a_formula_that_cannot_be_fitted_is_one_clear_error_on_every_process(
    run: Any, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bsp.algorithms.glm.data.formulas.MOST_LEVELS", 50)
    frame = table()

    def main(proc: bsp.Process) -> None:
        with pytest.raises(glm.DataError, match=message):
            glm.PoissonRegression().fit(frame, text)
        proc.sync()  # all are here: none waits in the fit

    run(main, nprocs=2)


def test_what_a_formula_is_for() -> None:
    with pytest.raises(glm.DataError, match="columns with names"):
        glm.LinearRegression().fit(np.ones((4, 2)), "y ~ x")
    frame = table()
    model = glm.PoissonRegression().fit(frame, "visits ~ C(grade) + region")
    other = frame.copy()
    other.loc[2, "grade"] = 9
    with pytest.raises(glm.DataError, match="grade"):
        model.predict(other)
    other = frame.copy()
    other.loc[2, "region"] = "west"
    with pytest.raises(glm.DataError, match="'west'"):
        model.predict(other)
    with pytest.raises(glm.DataError, match="no column 'region'"):
        model.predict(frame.drop(columns="region"))
    ages = frame[["age"]].to_numpy()  # as many columns as coefficients, but these are not what the coefficients are of
    model = glm.PoissonRegression().fit(frame, "visits ~ log(age)")
    for rows in (ages, ages.tolist(), bsp.arrays.asarray(ages)):
        with pytest.raises(glm.DataError, match="data frames and tables"):
            model.predict(rows)


@pytest.mark.thorough
@pytest.mark.jobs
@pytest.mark.parametrize("terms", ["log(disea + 1) + lncoins * idp", "scale(disea) + C(hlthp)"])
def test_a_run_without_values_takes_the_supersteps_of_the_run(tmp_path: Path, terms: str) -> None:
    script = tmp_path / "fit.py"
    script.write_text(
        f"from bsp.algorithms import glm\nglm.PoissonRegression(max_iter=6).fit({str(VISITS)!r}, 'mdvis ~ {terms}')\n"
    )
    bsprun = [str(Path(sys.executable).with_name("bsprun")), "-p", "3"]
    trace = tmp_path / "trace.json"
    subprocess.run([*bsprun, "--trace", str(trace), str(script)], check=True, capture_output=True)
    told = subprocess.run([*bsprun, "--predict", "--abstract", str(script)], check=True, capture_output=True, text=True)
    lines = [line.split() for line in told.stdout.splitlines() if line.startswith("allgather")]
    ran = [each for each in json.loads(trace.read_text())["per_superstep"] if each["call"].startswith("allgather")]
    assert [len(lines), int(lines[0][2]), len(ran)] == [1, 6, 6]


@pytest.mark.parametrize(
    ("text", "new", "message"),
    [
        ("visits ~ C(grade) + C(smoker)", {"grade": 9}, r"C\(grade\) has 9, which the model was not fitted to"),
        ("visits ~ C(grade):C(smoker)", {"smoker": 2}, r"C\(smoker\) has 2, which"),
        (
            "visits ~ C(age > 30) * C(round(age / 20), contr.sum)",
            {"age": 99.0},
            r"C\(round\(age / 20\).*\) has 5, which",
        ),
        ("visits ~ C(grade, levels=[1, 2, 3, 4])", {"grade": 9}, r"9"),
        ("visits ~ region", {"region": "west"}, r"'region' has 'west', which the model was not fitted to"),
    ],
)
@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_level_that_a_fit_has_not_seen_is_named(
    run: Any, tmp_path: Path, text: str, new: dict[str, Any], message: str, nprocs: int
) -> None:
    frame = table().astype({"smoker": int})
    later = pandas.concat([frame.head(7), frame.tail(1).assign(**new)])
    later.to_csv(tmp_path / "later.csv", index=False)

    def main(proc: bsp.Process) -> None:
        model = glm.PoissonRegression().fit(frame, text)
        for rows in (later, str(tmp_path / "later.csv")):
            with pytest.raises(glm.DataError, match=message):
                model.predict(rows)

    run(main, nprocs=nprocs)
