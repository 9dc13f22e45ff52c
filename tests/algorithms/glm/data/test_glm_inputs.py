"""What may be fitted to: arrays of all kinds, data frames, files; the same model from each, one error a mistake."""

from __future__ import annotations

import gzip
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import statsmodels.formula.api as smf
from scipy import sparse

import bsp
import bsp.arrays as ba
from bsp.algorithms import glm
from bsp.algorithms.glm.data.table import read_table
from bsp.arrays import files
from bsp.arrays import sparse as dealt
from bsp.arrays.files import Codes, Columns, columns

PROCESSES = [1, 3, 64]
REGIONS = ["east, far", "north", "south"]


def people(n: int = 90) -> pandas.DataFrame:
    """A table with numbers and texts, whose first level in sorted order is "east, far"."""
    rng = np.random.default_rng(7)
    frame = pandas.DataFrame({
        "visits": rng.poisson(1.5, n), "age": rng.normal(40, 10, n).round(3),
        "region": rng.choice(REGIONS, n), "smokes": rng.choice(["no", "yes"], n),
    })  # fmt: skip
    frame.loc[: len(REGIONS) - 1, "region"] = REGIONS
    return frame


def written(folder: Path, frame: pandas.DataFrame, ending: str = ".csv") -> str:
    path = str(folder / f"people{ending}")
    if ending == ".parquet":
        frame.to_parquet(path, row_group_size=20)
    else:
        frame.to_csv(path, index=False)
    return path


def design(frame: pandas.DataFrame) -> np.ndarray:
    """Treatment coding by hand."""
    coded = [frame["age"], *(frame["region"] == each for each in REGIONS[1:]), frame["smokes"] == "yes"]
    return np.column_stack(coded).astype(float)


def fitted(nprocs: int, call: Callable[[bsp.Process], Any]) -> list[Any]:
    """The models on each process; all are the same."""
    models = bsp.run(call, nprocs=nprocs)
    assert len({np.append(model.intercept_, model.coef_).tobytes() for model in models}) == 1
    return models


def raised(nprocs: int, call: Callable[[], Any]) -> str:
    """The message of the error that every process has alike."""

    def main(proc: bsp.Process) -> str:
        with pytest.raises((ValueError, TypeError, OSError)) as caught:
            call()
        return f"{type(caught.value).__name__}: {caught.value}"

    (message,) = set(bsp.run(main, nprocs=nprocs))
    return message


# ---------------------------------------------------------------------------------- arrays


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize(
    "kind",
    [
        np.asarray,
        np.asfortranarray,
        np.ndarray.tolist,
        sparse.csr_matrix,
        sparse.csc_array,
        pandas.DataFrame,
        "float32",
    ],
)
def test_whole_arrays_of_any_kind_give_the_same_model(kind: Any, nprocs: int) -> None:
    X = np.random.default_rng(0).integers(-3, 4, size=(40, 3)).astype(float)
    y = np.random.default_rng(1).poisson(1.0, 40)
    known = glm.PoissonRegression().fit(X, y)
    given = X.astype(kind) if isinstance(kind, str) else kind(X)
    for model in fitted(nprocs, lambda proc: glm.PoissonRegression().fit(given, y)):
        np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9, atol=0)
        np.testing.assert_allclose(model.predict(given), known.predict(X), rtol=1e-9, atol=0)


@pytest.mark.parametrize("role", ["y", "sample_weight", "offset"])
@pytest.mark.parametrize("nprocs", [1, 3])
def test_rows_of_pandas_that_are_shuffled_against_each_other_are_told(role: str, nprocs: int) -> None:
    frame = people()[["visits", "age"]]
    X, given = frame[["age"]], {"y": frame["visits"], role: frame["visits"]}
    known = glm.PoissonRegression().fit(X, **given)
    mixed = {**given, role: frame["visits"].sample(frac=1.0, random_state=0)}
    message = raised(nprocs, lambda: glm.PoissonRegression().fit(X, **mixed))
    assert message.startswith("DataError: X and the Series 'visits' have different indices")
    assert message == raised(nprocs, lambda: known.score(X, **mixed))
    for role_of in (lambda one: one.loc[X.index], lambda one: one.loc[X.index].to_numpy()):
        mended = {name: role_of(one) for name, one in mixed.items()}
        assert glm.PoissonRegression().fit(X, **mended).coef_ == known.coef_


@pytest.mark.parametrize("nprocs", [1, 2, 3, 8])
@pytest.mark.parametrize("layout", ["rows", "cyclic", "columns", "blocks", "replicated"])
def test_arrays_of_bsp_are_used_however_they_lie(layout: str, nprocs: int) -> None:
    X, y = np.random.default_rng(0).normal(size=(50, 4)), np.random.default_rng(1).poisson(1.0, 50)
    known = glm.PoissonRegression().fit(X, y)
    options: dict[str, Any] = {
        "rows": {"grid": (nprocs, 1)}, "cyclic": {"grid": (3 * nprocs, 1), "process_grid": (nprocs, 1)},
        "columns": {"grid": (1, min(nprocs, 4))}, "blocks": {"grid": (2, 2)}, "replicated": {},
    }[layout]  # fmt: skip

    def main(proc: bsp.Process) -> Any:
        return glm.PoissonRegression().fit(ba.array(X, **options), ba.array(y, grid=(max(1, nprocs // 2),)))

    for model in fitted(nprocs, main):
        np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9, atol=0)


@pytest.mark.parametrize("nprocs", [1, 2, 3, 8])
@pytest.mark.parametrize("stored", ["rows", "columns", "lazy", "bounds"])
def test_sparse_arrays_of_bsp_give_what_scipys_matrices_give(stored: str, nprocs: int) -> None:
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.integers(-3, 4, size=(60, 4)) * (rng.random((60, 4)) < 0.4)).astype(float)
    y, weights = rng.poisson(1.0, 60), rng.random(60)
    known = glm.PoissonRegression().fit(X, y, sample_weight=weights)
    bounds = np.linspace(0, 60, nprocs + 1).astype(int)

    def main(proc: bsp.Process) -> Any:
        A = dealt.from_scipy(X, bounds=bounds**2 // 60 if stored == "bounds" else None)
        A = {"rows": A, "columns": dealt.from_scipy(X.T).T, "lazy": 0.5 * A + A * 0.5, "bounds": A}[stored]
        model = glm.PoissonRegression().fit(A, ba.array(y, grid=(proc.nprocs,)), sample_weight=weights)
        mu = model.predict(A)
        assert isinstance(mu, ba.Array)
        np.testing.assert_allclose(mu.compute(), known.predict(X), rtol=1e-9, atol=0)
        assert model.score(A, y) == pytest.approx(known.score(X, y), rel=1e-9)
        np.testing.assert_allclose(model.residuals(A, y).compute(), known.residuals(X, y), rtol=1e-7, atol=1e-9)
        return model

    for model in fitted(nprocs, main):
        np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9, atol=0)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_sparse_arrays_that_are_no_data_are_told(nprocs: int) -> None:
    y = np.zeros(5)
    for make, text in [
        (lambda: dealt.from_scipy(sparse.csr_array((0, 4))), r"0 sample\(s\)"),
        (lambda: dealt.from_scipy(sparse.csr_array((5, 0))), r"0 feature\(s\)"),
        (lambda: dealt.eye(5) * 1j, "Complex data not supported"),
        (lambda: dealt.eye(4), "inconsistent numbers of samples: .4, 5."),
        (lambda: dealt.from_coo([0], [0], [np.nan], (5, 5)), "NaN"),
    ]:
        assert re.search(text, raised(nprocs, lambda make=make: glm.LinearRegression().fit(make(), y)))


def test_blocks_of_rows_are_used_where_they_lie() -> None:
    X, y = np.random.default_rng(0).normal(size=(4096, 8)), np.zeros(4096)

    def main(proc: bsp.Process, dealt: bool) -> None:
        glm.LinearRegression().fit(*((ba.array(X, grid=(4, 1)), ba.array(y, grid=(4,))) if dealt else (X, y)))

    whole, dealt = (
        sum(row["h_received"] for row in bsp.predict(main, arrays, nprocs=4, machine=bsp.Machine(p=4)).per_superstep)
        for arrays in (False, True)
    )
    assert dealt == whole


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array, pandas.DataFrame, np.ndarray.tolist])
@pytest.mark.parametrize("which", ["X", "y", "rows"])
def test_whole_data_that_differ_between_processes_are_refused(kind: Any, which: str) -> None:
    X, y = np.arange(24.0).reshape(12, 2) ** 2 % 7, np.arange(12.0)

    def main(proc: bsp.Process) -> None:
        own = 12 - (which == "rows" and proc.pid == 2)
        change = np.where(np.arange(12) == 3, proc.pid == 2, 0)[:own]
        rows = kind(X[:own] + change[:, None] * (which == "X"))
        model = glm.LinearRegression()
        with pytest.raises(glm.DataError, match=r"processes 0 and 2 .* different data.*bsp\.arrays\.from_local"):
            model.fit(rows, y[:own] + change * (which == "y"))
        model.fit(kind(X), y)
        assert len(model.predict(rows)) == own  # of whole arrays it is every process's own affair

    bsp.run(main, nprocs=3)


def test_a_vector_that_lies_elsewhere_is_brought_to_the_rows() -> None:
    X = np.random.default_rng(0).normal(size=(31, 2))
    y, offset = np.random.default_rng(1).poisson(1.0, 31), np.linspace(0, 1, 31)
    known = glm.PoissonRegression().fit(X, y, offset=offset)

    def main(proc: bsp.Process) -> Any:
        rows = ba.from_local(X[:20] if proc.pid == 0 else X[20:29] if proc.pid == 1 else X[29:], axis=0)
        return glm.PoissonRegression().fit(rows, y, offset=ba.array(offset, grid=(3,)))

    for model in fitted(3, main):
        np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9, atol=0)


WRONG_ARRAYS = {
    "no rows": (np.empty((0, 3)), [], r"DataError: Found array with 0 sample\(s\) \(shape=\(0, 3\)\)"),
    "no columns": (np.empty((4, 0)), np.ones(4), r"DataError: Found array with 0 feature\(s\)"),
    "one dimension": (np.ones(4), np.ones(4), "DataError: Expected 2D array, got 1D array instead"),
    "no y": (np.ones((4, 1)), None, "DataError: this model requires y to be passed, but the target y is None"),
    "lengths": (np.ones((4, 1)), np.ones(5), r"inconsistent numbers of samples: \[4, 5\] \(X, y\)"),
    "two columns of y": (np.ones((4, 1)), np.ones((4, 2)), r"y should be a 1d array, got an array of shape \(4, 2\)"),
    "complex": (np.ones((4, 1)) * 1j, np.ones(4), "DataError: Complex data not supported"),
    "texts": ([["a"], ["b"]], [1, 2], "DataError: X has texts; it needs numbers"),
    "objects": (np.array([[{}], [1]], object), [1, 2], "TypeError: .*argument must be"),
    "text y": ([[1.0], [2.0]], ["a", "b"], "DataError: y has texts; a gaussian model needs numbers"),
    "NaN in y": ([[1.0], [2.0]], [1.0, np.nan], "DataError: Input y contains NaN"),
    "NaN in X": ([[1.0], [np.nan]], [1.0, 2.0], "DataError: row 1: column 'x0' holds NaN"),
}


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("what", WRONG_ARRAYS)
def test_a_wrong_array_is_one_clear_error_everywhere(what: str, nprocs: int) -> None:
    X, y, message = WRONG_ARRAYS[what]
    assert re.search(message, raised(nprocs, lambda: glm.LinearRegression().fit(X, y)))


def test_what_only_one_process_can_see_is_everybodys_error() -> None:
    X, y = np.ones((8, 1)) * np.arange(8)[:, None], np.arange(8.0)
    y[7] = np.inf
    assert "contains infinity" in raised(4, lambda: glm.LinearRegression().fit(X, y))
    weights = np.ones(8)
    weights[6] = -1
    assert "row 6: weight = -1" in raised(4, lambda: glm.LinearRegression().fit(X, np.arange(8.0), weights))


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("weight", [np.nan, -1.0])
def test_weights_that_are_all_impossible_are_named(weight: float, nprocs: int) -> None:
    X, y = np.arange(8.0)[:, None], np.arange(8.0)
    for model, target in ((glm.LinearRegression(), y), (glm.LogisticRegression(), y > 3)):
        said = raised(nprocs, lambda model=model, target=target: model.fit(X, target, np.full(8, weight)))
        assert f"row 0: weight = {weight}, which must be finite and 0 or more" in said


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_missing_values_of_data_frames_are_told_with_what_leaves_them_out(nprocs: int) -> None:
    """Rows of arrays and data frames are counted alike."""
    frame = people().assign(visits=lambda frame: frame["visits"].astype(float))
    frame.loc[2, "age"] = np.nan
    said = raised(nprocs, lambda: glm.PoissonRegression().fit(frame, "visits"))
    assert "values are missing: 'age' 1 (first: row 2); dropna() leaves such rows out" in said
    rows, y = frame[["age"]].to_numpy(), frame["visits"].to_numpy()
    assert "row 2: column 'x0' holds NaN" in raised(nprocs, lambda: glm.PoissonRegression().fit(rows, y))
    clean = frame.dropna()

    def predicted() -> None:
        model = glm.PoissonRegression().fit(clean, "visits")
        model.predict(clean.drop(columns="visits").assign(region=None))

    assert "values are missing: column 'region' has none" in raised(nprocs, predicted)


def test_a_classifier_needs_two_classes() -> None:
    X = np.arange(6.0)[:, None]
    classifier = glm.LogisticRegression()
    assert "Only binary classification is supported" in raised(3, lambda: classifier.fit(X, [1, 2, 3, 1, 2, 3]))
    assert "there is only one class: every y is 'a'" in raised(3, lambda: classifier.fit(X, list("aaaaaa")))
    assert "Unknown label type: continuous" in raised(3, lambda: classifier.fit(X, X[:, 0] / 4))
    assert "there is only one class" in raised(3, lambda: classifier.fit(X, [0, 1, 0, 1, 0, 1], [0, 1, 0, 1, 0, 1]))


def test_trials_that_cannot_be_are_refused() -> None:
    X = np.arange(4.0)[:, None]
    model = glm.GLM("binomial")
    assert "4 of 3 is impossible" in raised(2, lambda: model.fit(X, [1, 2, 4, 0], trials=[3, 3, 3, 3]))
    assert "trials must be 0 or more; one is -1" in raised(2, lambda: model.fit(X, [1, 0, 1, 0], trials=[3, -1, 3, 3]))
    assert "1 of 0 is impossible" in raised(2, lambda: model.fit(X, [1, 1, 1, 0], trials=[3, 0, 3, 3]))
    assert "this one is poisson" in raised(1, lambda: glm.PoissonRegression().fit(X, [1, 0, 1, 0], trials=[3] * 4))


# ---------------------------------------------------------------------------- tables


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("ending", ["frame", ".csv", ".csv.gz", ".parquet"])
def test_texts_get_treatment_coding(ending: str, nprocs: int, tmp_path: Path) -> None:
    frame = people()
    X = frame if ending == "frame" else written(tmp_path, frame, ending)
    known = glm.PoissonRegression().fit(design(frame), frame["visits"])

    def main(proc: bsp.Process) -> Any:
        model = glm.PoissonRegression().fit(X, y="visits")
        model.predicted = model.predict(frame.drop(columns="visits") if X is frame else X)
        if X is not frame:
            model.predicted = model.predicted.compute()
        return model

    for model in fitted(nprocs, main):
        np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-8, atol=0)
        np.testing.assert_allclose(model.predicted, known.predict(design(frame)), rtol=1e-8, atol=0)
        assert model.feature_names_in_.tolist() == ["age", "region", "smokes"]
        assert model.solution_.names == ("age", "region[north]", "region[south]", "smokes[yes]")


@pytest.mark.parametrize("pyarrow", [True, False])
@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_table_has_the_same_values_with_and_without_pyarrow(
    pyarrow: bool, nprocs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "mixed.csv"
    path.write_bytes(
        b'\xef\xbb\xbfid,"a, b",code,late\r\n1,0.1,x,1\r\n\r\n2,NA,"y, z",2\r\n'
        b'3,1e3,,3\r\n4, 5 , x ,"q"\r\n5,-inf,NULL,NA'
    )
    monkeypatch.setattr(columns, "COMPILED", False)
    if not pyarrow:
        monkeypatch.setattr(columns, "_by_pyarrow", lambda *arguments: None)

    def main(proc: bsp.Process) -> Any:
        table = read_table(path, exclude=["late"])
        return table.names, table.levels, [table.vector(name).tolist() for name in table.names]

    found = bsp.run(main, nprocs=nprocs)
    assert {each[:2] for each in found} == {(("id", "a, b", "code"), (None, None, ("x", "y, z")))}
    ids, numbers, codes = ([value for each in found for value in each[2][k]] for k in range(3))
    assert ids == [1, 2, 3, 4, 5]
    np.testing.assert_array_equal(numbers, [0.1, np.nan, 1000, 5, -np.inf])
    assert codes == [0, 1, -1, 0, -1]


def test_a_column_that_turns_to_text_late_is_text_on_every_process(tmp_path: Path) -> None:
    path = tmp_path / "late.csv"
    rows = [f"{k},{k % 2}" if k < 40 else f"{k},t{k % 3}" for k in range(100)]
    path.write_text("\n".join(["k,kind", *rows]) + "\n")
    for table in bsp.run(lambda proc: read_table(path), nprocs=5):
        assert table.levels == (None, ("0", "1", "t0", "t1", "t2"))


def test_weights_offset_and_trials_may_be_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame({
        "x": rng.normal(size=40), "m": rng.integers(1, 6, 40), "w": rng.random(40), "o": rng.normal(size=40),
    })  # fmt: skip
    frame["s"] = rng.binomial(frame["m"], 0.4)
    path = written(tmp_path, frame)
    known = glm.GLM("binomial").fit(
        frame[["x"]].to_numpy(), frame["s"], frame["w"].to_numpy(), frame["o"].to_numpy(), frame["m"].to_numpy()
    )
    for model in fitted(3, lambda proc: glm.GLM("binomial").fit(path, "s", "w", "o", "m")):
        np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9, atol=0)
    model = bsp.run(lambda proc: glm.GLM("binomial").fit(path, "s", frame["w"], "o", "m"), nprocs=3)[0]
    assert model.n_features_in_ == 2  # w is no longer left out of X


def test_rows_with_missing_values_are_left_out_on_request(tmp_path: Path) -> None:
    frame = people()
    frame.loc[[4, 50], "age"] = np.nan
    frame.loc[70, "region"] = None
    path = written(tmp_path, frame)
    whole = frame.dropna()
    known = glm.PoissonRegression().fit(design(whole), whole["visits"])

    def main(proc: bsp.Process) -> Any:
        return glm.PoissonRegression().fit(read_table(path, missing="drop"), "visits")

    for model in fitted(7, main):
        np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-8, atol=0)
        assert "note: 3 of 90 rows have missing values and are left out" in str(model.summary())
    message = raised(7, lambda: glm.PoissonRegression().fit(path, "visits"))
    assert "values are missing: 'age' 2 (first: line 6), 'region' 1 (first: line 72)" in message


@pytest.mark.parametrize("missing", ["error", "drop"])
def test_a_prediction_with_missing_values_is_not_told_to_drop_what_it_was_told_to(missing: str, tmp_path: Path) -> None:
    frame = people()
    path = written(tmp_path, frame)
    frame.loc[4, "age"] = np.nan
    gap = tmp_path / "gap.csv"
    frame.to_csv(gap, index=False)

    def main() -> None:
        model = glm.PoissonRegression().fit(path, "visits")
        model.predict(read_table(gap, missing=missing))

    told = raised(2, main)
    assert "values are missing: 'age' 1 (first: line 6); a row is predicted from all of its values" in told
    assert "drop" not in told


@pytest.mark.parametrize("reference", [{}, {"region": "south"}])
def test_a_summary_names_the_levels_that_others_are_compared_with(reference: dict[str, str], tmp_path: Path) -> None:
    path = written(tmp_path, people())

    def main(proc: bsp.Process) -> Any:
        return glm.PoissonRegression().fit(read_table(path, reference=reference), "visits")

    (model, *_) = fitted(2, main)
    region = reference.get("region", "east, far")
    said = f"region {region!r}, smokes 'no'"
    assert ("reference levels", said) in model.summary().facts
    assert re.search(rf"^reference levels +{re.escape(said)}$", str(model.summary()), re.MULTILINE)
    numbers = glm.LinearRegression().fit(people()[["age", "visits"]], "visits")
    assert "reference levels" not in str(numbers.summary())


def test_the_reference_of_a_column_that_does_not_explain_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, people())
    told = raised(2, lambda: glm.LogisticRegression().fit(read_table(path, reference={"smokes": "yes"}), "smokes"))
    assert "reference='smokes': only columns that explain take a reference level" in told
    assert "the first in sorted order counts as 0" in told


def test_what_belongs_to_the_data_is_refused_by_models_with_the_call_that_takes_it() -> None:
    with pytest.raises(TypeError) as refused:
        glm.LogisticRegression(missing="drop")  # type: ignore[call-arg]
    assert str(refused.value) == (
        "LogisticRegression(missing=...): that belongs to the data, not to the model: "
        "fit(glm.read_table(path, missing='drop'), y='a column')"
    )
    with pytest.raises(TypeError, match=r"^GLM\(reference=\.\.\.\): that belongs to the data"):
        glm.GLM("poisson", reference={"region": "south"})  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'alhpa'"):
        glm.GLM(alhpa=1)  # type: ignore[call-arg]
    with pytest.raises(
        TypeError, match=r"^LogisticRegression\(\) got an unexpected keyword argument 'alhpa'; there are alp"
    ):
        glm.LogisticRegression(alhpa=1)  # type: ignore[call-arg]
    assert list(inspect.signature(glm.GLM).parameters)[:2] == ["family", "alpha"]
    assert next(iter(inspect.signature(glm.LogisticRegression).parameters)) == "alpha"


def test_another_reference_level_moves_the_others_by_its_own(tmp_path: Path) -> None:
    path = written(tmp_path, people())

    def main(proc: bsp.Process, **reference: str) -> Any:
        return glm.PoissonRegression().fit(read_table(path, reference=reference), "visits")

    first, moved = fitted(2, main)[0], fitted(2, lambda proc: main(proc, region="south"))[0]
    names, found = (dict(zip(each.solution_.names, each.coef_, strict=True)) for each in (first, moved))
    assert set(found) == {"age", "region[east, far]", "region[north]", "smokes[yes]"}
    assert found["region[north]"] == pytest.approx(names["region[north]"] - names["region[south]"], rel=1e-8)
    assert found["region[east, far]"] == pytest.approx(-names["region[south]"], rel=1e-8)


def test_a_level_the_model_has_not_seen_is_named() -> None:
    frame = people()
    model = glm.PoissonRegression().fit(frame, "visits")
    new = frame.drop(columns="visits").assign(region="west")
    with pytest.raises(glm.DataError, match="column 'region' has 'west', which the model was not fitted to"):
        model.predict(new)
    with pytest.raises(glm.DataError, match="Feature names seen at fit time, yet now missing:\n- region"):
        model.predict(new.drop(columns="region"))


@pytest.mark.parametrize("ending", [".npy", ".h5"])
def test_files_of_one_matrix_are_read_by_all(ending: str, tmp_path: Path) -> None:
    X, y = np.random.default_rng(0).normal(size=(30, 3)), np.random.default_rng(1).poisson(1.0, 30)
    known = glm.PoissonRegression().fit(X, y)

    def main(proc: bsp.Process) -> Any:
        ba.save(tmp_path / f"X{ending}", ba.array(X))
        ba.save(tmp_path / f"y{ending}", ba.array(y))
        return glm.PoissonRegression().fit(str(tmp_path / f"X{ending}"), tmp_path / f"y{ending}")

    for model in fitted(3, main):
        np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9, atol=0)


WRONG_FILES = {
    "empty": ("", "it has no data: it is empty"),
    "header only": ("y,x\n", "has no rows"),
    "duplicate names": ("y,x,x\n1,2,3\n", "columns 2 and 3 are both named 'x'"),
    "no name": ("y,,x\n1,2,3\n", "column 2 has no name: name it, or leave it out (--exclude 'Unnamed: 1')"),
    "no header": ("1,2\n3,4\n", "the first line has numbers, not the names of the columns"),
    "no such column": ("Y,x\n1,2\n2,3\n", "there is no column 'y'; did you mean 'Y'"),
    "short line": ("y,x\n1,2\n\n3\n", "line 4: it has 1 field, the first line has 2"),
    "open quote": ('y,x\n1,"2\n', "line 2: its quotes do not match"),
    "typo": ("y,x\n1,2\n2,3\n3,4o\n", "column 'x' has 2 numbers and 1 text: line 4 has '4o'; correct or exclude it"),
    "infinite": ("y,x\n1,2\n2,inf\n", "column 'x' has an infinite value"),
    "target only": ("y\n1\n2\n", "no columns are left to fit to"),
    "negative count": ("y,x\n1,2\n-2,3\n", "line 3: y is -2; in a poisson model it must be a count, 0 or more"),
    "text target": ("y,x\na,2\nb,3\n", "y has texts; a poisson model needs numbers"),
    "all missing": ("y,x\n1,NA\n2,\n", "values are missing: 'x' 2 (first: line 2)"),
}


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("what", WRONG_FILES)
def test_a_wrong_file_is_one_clear_error_everywhere(what: str, packed: bool, nprocs: int, tmp_path: Path) -> None:
    text, message = WRONG_FILES[what]
    path = tmp_path / ("wrong.csv.gz" if packed else "wrong.csv")
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    assert message in raised(nprocs, lambda: glm.PoissonRegression().fit(path, "y"))


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path: Path) -> None:
    for name in ("a.csv", "a.csv.gz", "a.parquet", "a.npy"):
        assert "No such file" in raised(2, lambda name=name: glm.LinearRegression().fit(tmp_path / name, "y"))


def test_a_column_of_names_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "names.csv"
    path.write_text("y,name\n" + "".join(f"{k},person {k}\n" for k in range(1500)))
    message = raised(3, lambda: glm.LinearRegression().fit(path, "y"))
    assert "column 'name' has more than 1000 different texts; exclude it" in message


def test_more_processes_than_rows_and_one_row(tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("y,x,k\n1,1,a\n2,3,b\n4,5,a\n3,2,b\n")
    known = fitted(1, lambda proc: glm.LinearRegression().fit(path, "y"))[0]
    for nprocs in (5, 64):
        for model in fitted(nprocs, lambda proc: glm.LinearRegression().fit(path, "y")):
            np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-9, atol=0)
    path.write_text("y,x\n1,1\n")
    one = fitted(3, lambda proc: glm.LinearRegression().fit(path, "y"))[0]
    assert (one.coef_[0], one.intercept_) == (0.0, 1.0)
    assert "column x is constant: it is left out, with coefficient 0" in one.summary().notes


def test_reading_takes_two_supersteps_with_texts_and_one_without(tmp_path: Path) -> None:
    frame = people(40)
    texts, numbers = written(tmp_path, frame), str(tmp_path / "numbers.csv")
    frame[["visits", "age"]].to_csv(numbers, index=False)

    def main(proc: bsp.Process) -> list[int]:
        found = [proc.superstep]
        for path in (texts, numbers):
            read_table(path)
            found.append(proc.superstep)
        return np.diff(found).tolist()

    assert set(map(tuple, bsp.run(main, nprocs=2))) == {(2, 1)}


def test_without_values_the_data_take_the_same_supersteps_and_words(tmp_path: Path) -> None:
    path = written(tmp_path, people())

    def main(proc: bsp.Process) -> None:
        str(glm.PoissonRegression().fit(path, "visits").summary())

    real, abstract = (
        [
            (row["label"] or row["call"], row["h_sent"], row["h_received"])
            for row in bsp.predict(main, nprocs=3, machine=bsp.Machine(p=3), abstract=each).per_superstep
        ]
        for each in (False, True)
    )
    solving = next(k for k, (call, *_) in enumerate(real) if call.startswith("allreduce"))
    assert solving == 4  # kinds of columns, their texts, missing values and spread, responses
    assert abstract[: solving + 1] == real[: solving + 1]
    assert abstract[-1] == real[-1]


@pytest.mark.parametrize("without", ["X", "y", "sample_weight", "offset", "frequencies", "X and y"])
def test_data_of_which_some_have_no_values_are_predicted(without: str) -> None:
    shapes = {"X": (50, 3), "y": (50,), "sample_weight": (50,), "offset": (50,), "frequencies": (50,)}

    def made() -> dict[str, Any]:
        rng = np.random.default_rng(0)
        return {name: rng.integers(1, 9, shape).astype(float) for name, shape in shapes.items()}

    kept = made()

    def main(proc: bsp.Process) -> None:
        gone = {name: each for name, each in made().items() if name in without.split(" and ")}
        glm.LinearRegression().fit(**(kept | gone))

    real, abstract = (
        bsp.predict(main, nprocs=3, machine=bsp.Machine(p=3), abstract=each).per_superstep for each in (False, True)
    )
    assert [row["h_sent"] for row in abstract] == [row["h_sent"] for row in real]


@pytest.mark.parametrize("pyarrow", [True, False])
def test_quotes_and_carriage_returns_amid_lines_mean_the_same_to_both_readers(
    pyarrow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(columns, "COMPILED", False)
    if not pyarrow:
        monkeypatch.setattr(columns, "_by_pyarrow", lambda *arguments: None)
    path = tmp_path / "odd.csv"
    path.write_text('y,x\n1,"2"\n3,"4\n5,"6\n')
    assert "line 3: its quotes do not match" in raised(2, lambda: read_table(path))
    path.write_bytes(b"y,x\n1,2\r3\n4,5\n6,7\n8,9\n")
    assert "line 2: it has carriage returns inside" in raised(2, lambda: read_table(path))


@pytest.mark.parametrize("nprocs", [1, 3])
def test_texts_of_a_frame_that_are_all_numbers_are_categories(nprocs: int) -> None:
    frame = pandas.DataFrame({"code": ["1", "2", "10"] * 20, "y": np.arange(60.0) ** 0.5})
    for model in fitted(nprocs, lambda proc: glm.LinearRegression().fit(frame, "y")):
        assert model.solution_.names == ("code[10]", "code[2]")


class _Pairs:
    """Rows of a format of one's own: "name=value, name=value" on each line, dealt in turn."""

    def __init__(self, path: Any, choose: files.Choose, dialect: files.Dialect) -> None:
        self.path, self.choose, self.names = path, choose, ()

    def columns(self, texts: set[int]) -> Columns:
        proc = bsp.process()
        rows = [dict(pair.split("=") for pair in line.split(", ")) for line in Path(self.path).read_text().splitlines()]
        self.names = self.choose(tuple(rows[0]))
        own = rows[len(rows) * proc.pid // proc.nprocs : len(rows) * (proc.pid + 1) // proc.nprocs]
        chunk: list[np.ndarray] = []
        levels: list[list[str] | None] = []
        for k, name in enumerate(self.names):
            values = [row[name] for row in own]
            try:
                if k in texts:
                    raise ValueError
                chunk.append(np.array(values, float))
                levels.append(None)
            except ValueError:
                codes = Codes()
                chunk.append(codes.of(values))
                levels.append(codes.levels)
        return Columns([chunk], levels)

    def place(self, row: int) -> str:
        return f"pair {row}"


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_table_format_of_ones_own_is_one_call_of_register(nprocs: int, tmp_path: Path) -> None:
    frame = people()
    path = tmp_path / "people.pairs"
    path.write_text("\n".join(", ".join(f"{k}={v}" for k, v in row.items()) for row in frame.to_dict("records")))
    frame = frame.replace({"east, far": "east"})
    path.write_text(path.read_text().replace("east, far", "east"))
    known = glm.PoissonRegression().fit(design(frame.replace({"east": "east, far"})), frame["visits"])
    files.register(".pairs", table=_Pairs)
    try:
        for model in fitted(nprocs, lambda proc: glm.PoissonRegression().fit(path, y="visits")):
            np.testing.assert_allclose(model.coef_, known.coef_, rtol=1e-8, atol=0)
            assert model.solution_.names == ("age", "region[north]", "region[south]", "smokes[yes]")
        path.write_text("visits=1, age=2, region=a\nvisits=-2, age=3, region=b")
        message = raised(nprocs, lambda: glm.PoissonRegression().fit(path, "visits"))
        assert "people.pairs: pair " in message and "visits is -2" in message
    finally:
        del files.FORMATS[".pairs"]


DAYS = np.arange(12).astype("M8[D]")
TIMES = {"dates": DAYS, "durations": DAYS - DAYS[3], "NaT": np.where(np.arange(12) == 7, np.datetime64("NaT"), DAYS),
         "objects": np.array(list(DAYS), object)}  # fmt: skip


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("kind", TIMES)
def test_dates_and_durations_are_no_numbers(kind: str, nprocs: int) -> None:
    rng, times = np.random.default_rng(3), TIMES[kind]
    X, y = rng.normal(size=(12, 2)), rng.normal(size=12)

    def main(proc: bsp.Process) -> None:
        model = glm.LinearRegression().fit(X, y)
        for call in (
            lambda: model.fit(times[:, None], y), lambda: model.fit(X, times), lambda: model.fit(X, y, times),
            lambda: model.predict(np.column_stack([times, times])), lambda: model.score(X, times),
            lambda: model.predict(X, offset=times), lambda: glm.LogisticRegression().fit(X, times),
        ):  # fmt: skip
            with pytest.raises(glm.DataError, match=r"has (datetime|timedelta)64\[D\], neither numbers nor texts"):
                call()

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("kind", ["date", "Timestamp", "timedelta", "Period", "Interval", "object"])
def test_objects_of_a_frame_are_no_groups_unless_they_are_categories(kind: str, nprocs: int) -> None:
    """Their texts may even be addresses in memory, which differ between processes."""
    days = pandas.date_range("2024-01-01", periods=12)
    column = {
        "date": days.date, "Timestamp": pandas.Series(list(days), dtype=object),
        "timedelta": pandas.Series((days - days[0]).to_pytimedelta(), dtype=object),
        "Period": days.to_period("M"), "Interval": pandas.interval_range(0, 12),
        "object": np.array([object() for _ in days]),
    }[kind]  # fmt: skip
    frame = pandas.DataFrame({"x": np.arange(12.0), "when": column})
    y = np.random.default_rng(3).normal(size=12)
    message = raised(nprocs, lambda: glm.LinearRegression().fit(frame, y))
    assert f"column 'when' has {kind} objects, neither numbers nor texts" in message
    if kind == "date":
        groups = frame.assign(when=pandas.Categorical(frame["when"].map(lambda day: day.replace(day=day.day % 2 + 1))))
        (model, *_) = fitted(nprocs, lambda proc: glm.LinearRegression().fit(groups, y))
        assert model.solution_.names == ("x", "when[2024-01-02]")


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_masked_elements_are_refused_and_a_mask_of_nothing_is_none(nprocs: int) -> None:
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(12, 2)), rng.normal(size=12)
    some = np.ma.masked_array(y, np.arange(12) == 10)

    def main(proc: bsp.Process) -> None:
        model = glm.LinearRegression().fit(X, y)
        known = model.coef_.tobytes()
        for call in (
            lambda: model.fit(np.ma.masked_array(X, X > 1), y), lambda: model.fit(X, some),
            lambda: model.fit(X, y, some), lambda: model.fit(X, y, absorb=some), lambda: model.score(X, some),
            lambda: model.predict(np.ma.masked_array(X, X > 1)),
        ):  # fmt: skip
            with pytest.raises(glm.DataError, match="has masked elements: leave such rows out"):
                call()
        assert model.fit(np.ma.masked_array(X), np.ma.masked_array(y)).coef_.tobytes() == known

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("kind", ["numbers", "ordered", "texts"])
def test_categories_are_levels_in_their_order(kind: str, nprocs: int) -> None:
    """Columns and formulas are those of statsmodels, whose reference is the first category."""
    rng = np.random.default_rng(11)
    values = np.array(["low", "mid", "high"])[np.arange(30) % 3] if kind == "texts" else np.arange(30) % 3 * 9 + 2
    order = ["low", "mid", "high"] if kind == "texts" else [11, 2, 20] if kind == "ordered" else None
    grades = pandas.Categorical(values, order, ordered=kind == "ordered")
    frame = pandas.DataFrame({"y": rng.normal(size=30), "a": rng.normal(size=30), "grade": grades})
    known = smf.ols("y ~ grade + a", frame).fit()
    names = [f"grade[{level}]" for level in grades.categories[1:]]

    def main(proc: bsp.Process) -> None:
        plain = glm.LinearRegression().fit(frame, "y")
        for model, own in ((plain, ("a", *names)), (glm.LinearRegression().fit(frame, "y ~ grade + a"), None)):
            estimates = dict(zip(model.summary().names, np.append(model.intercept_, model.coef_), strict=True))
            assert own is None or tuple(estimates)[1:] == own
            found = [estimates.get(name, estimates.get(name.replace("T.", ""))) for name in known.params.index[1:]]
            np.testing.assert_allclose(found, known.params.to_numpy()[1:], rtol=1e-9)
            np.testing.assert_allclose(model.predict(frame[["a", "grade"]]), known.fittedvalues, rtol=1e-9)
            assert model.solution_.df_resid == known.df_resid

    bsp.run(main, nprocs=nprocs)


def test_categories_of_numbers_are_numbers_where_numbers_are_needed() -> None:
    frame = people()
    given = frame.assign(visits=pandas.Categorical(frame["visits"]), late=pandas.Categorical(frame["visits"] > 1))
    known = glm.PoissonRegression().fit(frame[["age", "visits"]], "visits").coef_
    for y in ("visits", "visits ~ age"):
        model = glm.PoissonRegression().fit(given[["age", "visits"]], y)
        np.testing.assert_allclose(model.coef_, known, rtol=1e-9)
    assert glm.LogisticRegression().fit(given[["age", "late"]], "late").classes_.dtype == bool


@pytest.mark.parametrize("y", ["y", "y ~ a"])
def test_columns_of_a_table_of_pyarrow_are_not_taken_for_files(y: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"a": [1.0, 2.0, 4.0], "y": [1.0, 2.0, 3.0]})
    with pytest.raises(glm.DataError, match=rf"^'{y}' names columns, and X is a pyarrow.Table: .* X.to_pandas\(\)"):
        glm.LinearRegression().fit(table, y)


def test_responses_beyond_the_range_of_numbers_are_told_to_be_scaled() -> None:
    with pytest.raises(glm.DataError, match=r"range of numbers: scale y or the columns of X down$"):
        glm.PoissonRegression().fit([[1.0], [2.0], [4.0]], [1e307, 1e308, 1.7e308])
