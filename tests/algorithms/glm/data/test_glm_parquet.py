"""Parquet tables: what columns hold, folders of files, and columns that are in the names of folders.

The oracle is pandas.read_parquet of the same file.
"""

from __future__ import annotations

import datetime
import decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas
import pytest
from test_glm_files import read, refused, same

import bsp
from bsp.algorithms import glm

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")
PROCESSES = [1, 3, 9]
PEOPLE = pandas.DataFrame({
    "y": [1, 0, 2, 3, 1, 0, 4], "x": [0.1, 0.5, 0.2, 0.9, 0.4, 0.3, 1.0],
    "town": ["a b", "c", "c", "é", "a b", "c", "é"], "year": [2024, 2025, 2025, 2024, 2025, 2024, 2025],
})  # fmt: skip


def written(path: Path, columns: Any, **options: Any) -> Path:
    parquet.write_table(pyarrow.table(columns), path, **options)
    return path


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_numbers_and_dates_are_categories_where_they_are_said_to_be(tmp_path: Path, nprocs: int) -> None:
    days = [datetime.date(2024, 1, 1 + k % 3) for k in range(7)]
    columns = {
        "code": PEOPLE["year"], "coded": pyarrow.array(PEOPLE["year"]).dictionary_encode(), "day": days,
        "yes": [True, None, False, True, True, False, True], "time": pyarrow.array(days).cast("timestamp[us]"),
    }  # fmt: skip
    path = written(tmp_path / "people.parquet", columns, row_group_size=2)
    found, _ = read(path, nprocs, categorical=[*columns])
    years = [str(year) for year in PEOPLE["year"]]
    assert found == {
        "code": years, "coded": years, "day": [str(day) for day in days],
        "yes": ["True", None, "False", "True", "True", "False", "True"], "time": [f"{day} 00:00:00" for day in days],
    }  # fmt: skip
    assert (
        "column 'day' has dates, neither numbers nor groups: row 1 has '2024-01-01'; make a column of numbers of it "
        "before, as the month or the days since a date, exclude it, or make it categorical"
        in refused(path, nprocs, columns=["day"])
    )


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_decimals_are_numbers_and_columns_of_nothing_are_missing_values(tmp_path: Path, nprocs: int) -> None:
    price = [decimal.Decimal("1.50"), None, *map(decimal.Decimal, range(5))]
    columns = {"price": price, "view": pyarrow.array(PEOPLE["town"], pyarrow.string_view()), "none": pyarrow.nulls(7)}
    found, _ = read(written(tmp_path / "sales.parquet", columns, row_group_size=3), nprocs)
    np.testing.assert_array_equal(found["price"], [1.5, np.nan, 0, 1, 2, 3, 4])
    assert found["view"] == PEOPLE["town"].tolist() and np.isnan(found["none"]).all()


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_texts_that_only_a_dictionary_has_are_no_levels(tmp_path: Path, nprocs: int) -> None:
    town = pandas.Categorical(PEOPLE["town"], ["zz", "é", "c", "a b"])
    path = tmp_path / "people.parquet"
    PEOPLE.assign(town=town).to_parquet(path, row_group_size=2)

    def main(proc: bsp.Process) -> Any:
        model = glm.PoissonRegression().fit(PEOPLE[["y", "town"]], "y")
        return np.asarray(model.predict(glm.read_table(path, columns=["town"])))

    for found in bsp.run(main, nprocs=nprocs):
        np.testing.assert_allclose(found, PEOPLE.groupby("town")["y"].transform("mean"), rtol=0, atol=1e-9)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_categories_are_in_the_order_of_the_frame_that_was_written(tmp_path: Path, nprocs: int) -> None:
    path, folder = tmp_path / "people.parquet", tmp_path / "people"
    orders = {"first": ["é", "zz", "c", "a b"], "other": ["c", "é", "a b"], "plain": None}
    frame = PEOPLE[["y"]].assign(**{name: pandas.Categorical(PEOPLE["town"], each) for name, each in orders.items()})
    frame.to_parquet(path, row_group_size=2)
    frame.assign(year=PEOPLE["year"]).to_parquet(folder, partition_cols=["year"], index=False)
    levels = {"y": None, "first": ("é", "c", "a b"), "other": ("c", "é", "a b"), "plain": ("a b", "c", "é")}
    known = {(*levels, *more): (*levels.values(), *(None for _ in more)) for more in ((), ("year",))}
    for each in (path, folder):
        for table in bsp.run(lambda proc, each=each: glm.read_table(each), nprocs=nprocs):
            assert table.levels == known[table.names]
    coded = pyarrow.array(["b", "a", "b", "c"]).dictionary_encode()
    parts = [{"x": coded}, {"x": pyarrow.array(["c", "a"]).dictionary_encode()}]  # no one order
    folder = tmp_path / "parts.parquet"
    folder.mkdir()
    for k, part in enumerate(parts):
        written(folder / f"{k}.parquet", part)
    for table in bsp.run(lambda proc: glm.read_table(folder), nprocs=nprocs):
        assert table.levels == (("a", "b", "c"),)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_files_of_a_folder_may_have_other_types_and_need_the_same_columns(tmp_path: Path, nprocs: int) -> None:
    folder = tmp_path / "people.parquet"
    folder.mkdir()
    written(folder / "a.parquet", {"y": [1, 2, 3], "code": [7, 8, 9]})
    written(folder / "b.parquet", {"code": ["8", "x", "y", "z", "x"], "y": [4.5, None, 5, 6, 7]})
    found, _ = read(folder, nprocs)
    np.testing.assert_array_equal(found["y"], [1, 2, 3, 4.5, np.nan, 5, 6, 7])
    assert found["code"] == ["7", "8", "9", "8", "x", "y", "z", "x"]
    written(folder / "c.parquet", {"code": ["x"]})
    assert "there is no column 'y' in c.parquet, and there is in other files of the folder" in refused(folder, nprocs)
    assert list(read(folder, nprocs, columns=["code"])[0]) == ["code"]


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("name", ["people.parquet", "people"])
def test_columns_in_the_names_of_folders_are_read(tmp_path: Path, name: str, nprocs: int) -> None:
    path = tmp_path / name
    town = PEOPLE["town"].where(PEOPLE["town"] != "c", None)
    PEOPLE.assign(town=town).to_parquet(path, partition_cols=["year", "town"], index=False)
    (path / "_SUCCESS").touch()
    known = pandas.concat(  # pandas itself does not read folders of missing values
        pandas.read_parquet(each, partitioning=None).assign(year=int(year[5:]), town=unquote(town[5:]))
        for each in sorted(path.rglob("*.parquet"))
        for year, town in [each.relative_to(path).parts[:2]]
    )
    known = known.replace({"town": {"__HIVE_DEFAULT_PARTITION__": None}})
    same(read(path, nprocs)[0], known)
    same(read(path, nprocs, categorical=["year"])[0], known.astype({"year": str}))
    same(read(path, nprocs, columns=["year"])[0], known[["year"]])
    found = read(path, nprocs, columns=["year"], na=["2024"])[0]["year"]
    np.testing.assert_array_equal(found, known["year"].where(known["year"] != 2024, np.nan))


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_fit_to_folders_by_year_is_that_to_the_frame(tmp_path: Path, nprocs: int) -> None:
    path = tmp_path / "people"
    PEOPLE.to_parquet(path, partition_cols=["year"], index=False)

    def main(proc: bsp.Process) -> list[float]:
        models = [glm.PoissonRegression().fit(each, "y") for each in (str(path), PEOPLE)]
        assert models[0].feature_names_in_.tolist() == models[1].feature_names_in_.tolist()
        np.testing.assert_allclose(models[0].coef_, models[1].coef_, rtol=0, atol=1e-9)
        return models[0].coef_.tolist()

    assert len({tuple(each) for each in bsp.run(main, nprocs=nprocs)}) == 1


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_files_outside_the_folders_of_a_column_are_named(tmp_path: Path, nprocs: int) -> None:
    path = tmp_path / "people"
    PEOPLE.to_parquet(path, partition_cols=["year"], index=False)
    PEOPLE[["y", "x", "town"]].to_parquet(path / "zz.parquet", index=False)
    said = refused(path, nprocs)
    assert "column 'year' is in the names of some folders, and " in said and "zz.parquet is in none of them" in said
