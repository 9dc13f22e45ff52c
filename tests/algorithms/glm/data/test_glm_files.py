"""Files as people have them: other separators and decimal marks, UTF-16, grouped digits, percentages, dates, indices.

The oracle is pandas.read_csv with the right options on the same file.  Files are small and processes many, so ranges of
bytes begin inside quotes, inside characters, and inside lines.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import itertools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import bsp
from bsp.algorithms import glm
from bsp.algorithms.glm.data.coding import coding_of
from bsp.algorithms.glm.data.spelling import Spelling, kind_of, number_of
from bsp.algorithms.glm.data.table import Table, read_table
from bsp.arrays.compiled import COMPILED
from bsp.arrays.files import columns as parsing
from bsp.arrays.files.lines import dialect, division, encoding, streams

PROCESSES = [1, 3, 17, 64]
TOWNS = ["Köln; Süd", "Łódź, dolna", 'die "Stadt"', "東京, 都", "Bern", "🙂, ; 🙂"]
BSPRUN = os.path.join(os.path.dirname(sys.executable), "bsprun")


def whole(tables: list[Table]) -> tuple[dict[str, list[Any]], tuple[str, ...]]:
    """The columns of all processes together, texts as texts, and the notes; all agree on what the columns are."""
    first = tables[0]
    found: dict[str, list[Any]] = {}
    for k, name in enumerate(first.names):
        levels = first.levels[k]
        assert all((each.names, each.levels, each.notes) == (first.names, first.levels, first.notes) for each in tables)
        values = np.concatenate([each.vector(name) for each in tables])
        found[name] = values.tolist() if levels is None else [None if c < 0 else levels[c] for c in values]
    assert first.counts == tuple(len(each.vector(first.names[0])) for each in tables)
    return found, first.notes


def read(path: Path, nprocs: int, **options: Any) -> tuple[dict[str, list[Any]], tuple[str, ...]]:
    return whole(bsp.run(lambda proc: read_table(path, **options), nprocs=nprocs))


def refused(path: Path, nprocs: int, **options: Any) -> str:
    def main(proc: bsp.Process) -> str:
        with pytest.raises(ValueError) as caught:
            read_table(path, **options)
        return str(caught.value)

    (message,) = set(bsp.run(main, nprocs=nprocs))
    return message


def same(found: dict[str, list[Any]], known: pandas.DataFrame) -> None:
    """The same columns, bit by bit, as pandas has read them."""
    assert list(found) == list(known.columns)
    for name, values in found.items():
        wanted = known[name]
        if wanted.dtype.kind in "biuf":
            np.testing.assert_array_equal(np.array(values, float), wanted.to_numpy(float))
        else:
            assert values == [None if gone else text for text, gone in zip(wanted, wanted.isna(), strict=True)]


def number(value: float, decimal: str) -> str:
    return f"{value:.6g}".replace(".", decimal)


def text_of(delimiter: str, decimal: str, end: str, rows: int = 60, minimal: bool = True) -> str:
    """A table with numbers, negative, small, missing and whole ones, and with texts that need quotes."""
    rng = np.random.default_rng(rows)
    out = io.StringIO()
    quoting = csv.QUOTE_MINIMAL if minimal else csv.QUOTE_ALL
    writer = csv.writer(out, delimiter=delimiter, lineterminator=end, quoting=quoting)
    writer.writerow(["y", "Größe, m", "town", "count"])
    for k in range(rows):
        size = "" if k % 13 == 7 else number(rng.normal() * 10.0 ** rng.integers(-7, 3), decimal)
        writer.writerow([number(rng.normal(), decimal), size, TOWNS[k % len(TOWNS)], k * k])
    return out.getvalue()


@pytest.fixture(params=["c", "pyarrow", "python"])
def reader(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """All ways to parse."""
    if request.param != "c":
        monkeypatch.setattr(parsing, "COMPILED", False)
    if request.param == "python":
        monkeypatch.setattr(parsing, "_by_pyarrow", lambda *arguments: None)
    return str(request.param)


WRITTEN = [
    (delimiter, decimal)
    for delimiter, decimal in itertools.product([",", ";", "\t", "|"], [".", ","])
]  # fmt: skip


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize(("delimiter", "decimal"), WRITTEN)
def test_separators_and_decimal_marks_are_found(
    delimiter: str, decimal: str, nprocs: int, reader: str, tmp_path: Path
) -> None:
    for end, minimal in (("\n", True), ("\r\n", False)):
        path = tmp_path / "people.csv"
        path.write_text(text_of(delimiter, decimal, end, minimal=minimal), "utf-8", newline="")
        known = pandas.read_csv(path, sep=delimiter, decimal=decimal)
        found, notes = read(path, nprocs)
        same(found, known)
        assert len(notes) == (delimiter != "," or decimal != ".")
        for mark, word in ((delimiter != ",", "separated by"), (decimal != ".", "decimal mark is a comma")):
            assert mark == any(word in note for note in notes)
        found, notes = read(path, nprocs, delimiter=delimiter, decimal=decimal)
        same(found, known)
        assert notes == ()  # nothing was found that was not told


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("coded", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32", "utf-32-be"])
def test_a_byte_order_mark_says_what_the_text_is(coded: str, nprocs: int, reader: str, tmp_path: Path) -> None:
    mark = "\ufeff" * coded.endswith("be")
    text = text_of(";", ",", "\r\n").replace("Bern", "\u010a\u0a0a\u0a00")  # characters with a byte 10 end no line
    path = tmp_path / "people.csv"
    path.write_bytes((mark + text).encode(coded))
    known = pandas.read_csv(io.StringIO(text), sep=";", decimal=",")
    same(read(path, nprocs)[0], known)
    for ending, packed in ((".gz", gzip.compress), (".bz2", bz2.compress)):
        compressed = tmp_path / f"people.csv{ending}"
        compressed.write_bytes(packed((mark + text).encode(coded)))
        same(read(compressed, nprocs)[0], known)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_an_error_in_utf16_has_its_line(nprocs: int, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    lines = ["y,x,name", *(f"{k},{k * k % 5},\u010a\u0a0a" for k in range(40))]
    lines[30] = "1,2"
    path.write_text("\n".join(lines), "utf-16")
    assert "line 31: it has 2 fields, the first line has 3" in refused(path, nprocs)
    lines[30] = "1,?,x"
    path.write_text("\n".join(lines), "utf-16")
    assert "line 31 has '?'" in refused(path, nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_text_that_cannot_be_read_is_refused_clearly(nprocs: int, tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes("y,x\n1,2\n3,4\n".encode("utf-16-le"))
    assert "line 1 has NUL characters: if it is UTF-16 without a byte-order mark, convert it" in refused(path, nprocs)
    path.write_bytes("y,x\n1,2\n3,4\n".encode("utf-16")[:-1])
    assert "it is not UTF-16-LE, as its first bytes say" in refused(path, nprocs)
    path.write_bytes("y,größe\n1,2\n3,4\n".encode("latin-1"))
    assert "line 1: it is not UTF-8: convert the file, as with iconv" in refused(path, nprocs)
    path.write_bytes(gzip.compress(b"y,x\n1,2\n3,4\n"))
    assert "it is compressed by gzip: name it so that it ends in .gz" in refused(path, nprocs)
    path.write_bytes(bz2.compress(b"y,x\n1,2\n3,4\n"))
    assert "it is compressed by bzip2: name it so that it ends in .bz2" in refused(path, nprocs)
    path.write_text("BZh,x\n1,2\n3,4\n")
    assert list(read(path, nprocs)[0]) == ["BZh", "x"]
    for mark, name in ((b"(\xb5/\xfd\x04", "zstd"), (b"PK\x03\x04\x14", "zip")):
        path.write_bytes(mark + b"\n1,2\n")
        assert f"it is compressed by {name}: decompress it, or compress it by gzip" in refused(path, nprocs)
    path.write_bytes("y,x\n1,2\n".encode("utf-16") + b"\x00\xdc\x00\xdc" * 9)  # halves of characters
    assert "it is not UTF-16-LE" in refused(path, nprocs)


def test_a_long_text_in_utf16_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The head, the pieces of a stream and the search for line ends are all shorter than the file, and than a line."""
    monkeypatch.setattr(encoding, "PIECE", 16)
    monkeypatch.setattr(streams, "PIECE", 16)
    monkeypatch.setattr(division, "_HEAD", 1 << 9)
    path = tmp_path / "people.csv"
    path.write_text(text_of(";", ",", "\n", rows=200), "utf-16", newline="")
    known = pandas.read_csv(path, sep=";", decimal=",", encoding="utf-16")
    for nprocs in (1, 2, 7):
        same(read(path, nprocs)[0], known)


def test_what_a_file_is_does_not_hang_on_what_comes_after_its_first_lines(tmp_path: Path) -> None:
    rows = [f"{k};{k % 7},5" for k in range(20_000)]
    path = tmp_path / "long.csv"
    path.write_text("\n".join(["y;x", *rows]))
    assert path.stat().st_size > dialect.SAMPLE
    same(read(path, 3)[0], pandas.read_csv(path, sep=";", decimal=","))
    path.write_text("\n".join(["y;x", *(row.replace(",5", "") for row in rows), "1;2,5"]))
    message = refused(path, 3)
    assert "column 'x' has 20000 numbers and 1 number with another decimal mark: line 20002 has '2,5'" in message
    assert read(path, 3, decimal=",")[0]["x"][-1] == 2.5


GUESSED = {  # the beginning of a file: delimiter and decimal mark
    "y\n1\n2\n": ",.", "y x z\n1 2 a\n3 4 b\n": " .", "first name,last name\na b,c d\n": ",.", "": ",.", "a;b\n": ";.",
    "y\tx\n1\t1,101\n2\t2,345\n": "\t.", "y;x\n1;1,101\n2;2,345\n": ";,", 'y,x\n1,"1,101"\n2,"2,345"\n': ",.",
    'y,x\n1,"1,5"\n2,"2,34"\n': ",,", "weight (kg, net);height (m, tall)\n1,5;2,5\n3,5;4,5\n": ";,",
    "y;x\n1;2\n3\n4;5\n6;7\n": ";.", "a|b\nx|y\nz|w\n": "|.", "a;b,c\n1;x,2\n3;y,4\n": ",.",
    "y;x\n1;1.234,5\n2;2.345,6\n": ";,", "d;x\n12.03.2024;1,5\n": ";,", "y;x\n1.5;2.5\n": ";.", "y;x\n1;,5\n": ";,",
    "d\tx\n2024-01-01 10:00\t1.5\n": "\t.", "y;t\n1;a, b\n2;c, d\n": ";.", "a,b\nx; y,z\nw; v,u\n": ",.",
    '"a;b",c\n1,2\n': ",.", '"a,b";c\n1;2\n': ";.", "y;x\n1,5;2.5\n1;2\n3.5;4.5\n": ";.", "y;x\n-0,101;1\n": ";,",
}  # fmt: skip


@pytest.mark.parametrize("text", GUESSED)
def test_what_first_lines_are(text: str) -> None:
    found = dialect.completed(dialect.Dialect(), text.encode(), ",")
    assert f"{found.delimiter}{found.decimal}" == GUESSED[text]


# ------------------------------------------------------------------- numbers as people write them


@pytest.mark.parametrize("nprocs", [1, 3, 17])
def test_grouped_digits_are_numbers(nprocs: int, reader: str, tmp_path: Path) -> None:
    path = tmp_path / "income.csv"
    rows = [f'{k % 5},"{k * 977:,}"' for k in range(1, 40)]
    path.write_text("\n".join(["y,income", *rows, "1,"]))
    found, notes = read(path, nprocs)
    same(found, pandas.read_csv(path, thousands=","))
    assert notes == ("column income has numbers with grouped digits: '1,954' is read as 1954",)
    path.write_text("\n".join(["y;income", *(f"{k % 5},5;{k * 977:,}".replace(",", "X", 1).replace(",", ".")
                                            .replace("X", ",") for k in range(1, 40))]))  # fmt: skip
    found, notes = read(path, nprocs)
    same(found, pandas.read_csv(path, sep=";", decimal=",", thousands="."))
    assert "column income has numbers with grouped digits: '1.954' is read as 1954" in notes


@pytest.mark.parametrize("nprocs", [1, 3, 17])
@pytest.mark.parametrize("blank", [" ", "\u00a0", "\u202f", "'", "\u2019"])
def test_blanks_and_apostrophes_group_digits_too(blank: str, nprocs: int, tmp_path: Path) -> None:
    path = tmp_path / "income.csv"
    values = [k * 977.5 for k in range(1, 40)]
    path.write_text("\n".join(["y,x", *(f"1,{value:,}".replace(",", "|", 1).replace(",", blank).replace("|", ",")
                                        for value in values)]))  # fmt: skip
    assert read(path, nprocs)[0]["x"] == values


@pytest.mark.parametrize("nprocs", [1, 3, 17])
def test_percentages_are_shares(nprocs: int, reader: str, tmp_path: Path) -> None:
    path = tmp_path / "shares.csv"
    path.write_text("\n".join(["y,share", *(f"{k % 3},{k / 10}%" for k in range(50)), "1,NA"]))
    found, notes = read(path, nprocs)
    assert found["share"][:-1] == [float(f"{k / 10}e-2") for k in range(50)]  # 0.003, not 0.0029999999999999996
    assert np.isnan(found["share"][-1])
    assert notes == ("column share has percentages: '0.0%' is read as 0",)


@pytest.mark.parametrize("nprocs", [1, 3, 17])
def test_truth_values_are_numbers_as_those_of_a_frame_are(nprocs: int, reader: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    frame = pandas.DataFrame({"y": rng.normal(size=40).round(3), "late": rng.random(40) < 0.4, "x": np.arange(40.0)})
    written, packed = tmp_path / "trains.csv", tmp_path / "trains.parquet"
    spelled = np.where(frame["late"], np.resize(["True", "TRUE", "true"], 40), np.resize(["FALSE", "False"], 40))
    frame.assign(late=spelled).to_csv(written, index=False)
    frame.to_parquet(packed, row_group_size=7)
    pandas.testing.assert_frame_equal(pandas.read_csv(written), frame)

    def main(proc: bsp.Process) -> None:
        data = [frame, written, packed, frame.astype({"late": object})]
        models = [glm.LinearRegression().fit(each, "y") for each in data]
        assert {each.solution_.names for each in models} == {("late", "x")}
        for each in models:
            np.testing.assert_allclose(each.coef_, models[0].coef_, rtol=1e-12, atol=0)
            for rows in (frame[["late", "x"]], *(read_table(path, columns=["late", "x"]) for path in data[1:3])):
                found = each.predict(rows)
                np.testing.assert_allclose(found, models[0].predict(frame[["late", "x"]]), rtol=0, atol=1e-12)
        for y, kind in (("late", glm.LogisticRegression), ("late", glm.MultinomialRegression), ("late ~ x", None)):
            models = [(kind or glm.LogisticRegression)().fit(each, y) for each in data]
            for each in models:
                assert each.classes_.dtype == bool
                np.testing.assert_allclose(each.coef_, models[0].coef_, rtol=1e-9, atol=0)
        for each in models:
            assert each.score(written, "late") == each.score(packed, "late") == each.score(frame, frame["late"])

    bsp.run(main, nprocs=nprocs)
    _, notes = read(written, nprocs)
    assert notes == ("column late has truth values: 'FALSE' is read as 0",) or frame["late"][0]
    gaps = tmp_path / "gaps.csv"
    gaps.write_text(
        "\n".join(["y,late,town", *(f"{k},{['True', '', 'False'][k % 3]},True" for k in range(20)), "1,,x"])
    )
    found, _ = read(gaps, nprocs)
    np.testing.assert_array_equal(found["late"], [*np.resize([1, np.nan, 0], 20), np.nan])
    assert found["town"] == ["True"] * 20 + ["x"]  # one text among them: they are names
    assert read(gaps, nprocs, categorical=["late"])[0]["late"] == [*np.resize(["True", None, "False"], 20), None]


MIXED = {
    "a text among numbers": (["1", "2", "x", "4"], "3 numbers and 1 text: line 4 has 'x'"),
    "a text among grouped ones": (["1,000", "2,000", "x", "4"], "3 numbers and 1 text: line 4 has 'x'"),
    "a number among percentages": (["1%", "2%", "3", "4%"], "3 percentages and 1 number: line 4 has '3'"),
    "a percentage among numbers": (["1", "2", "3%", "4"], "3 numbers and 1 percentage: line 4 has '3%'"),
    "a date among numbers": (["1", "2", "3", "1/2/2020"], "3 numbers and 1 date: line 5 has '1/2/2020'"),
    "all else": (["1", "2", "3", "4", "x", "5%"], "4 numbers and 2 other values: line 6 has 'x'"),
    "other decimal marks": (["1.5", "2.5", "3,5"], "2 numbers and 1 number with another decimal mark: line 4"),
    "another decimal mark": (["0,5", "1.5", "2,5", "7", "3.5", "4.5"], "4 numbers and 2 numbers with another decimal"),
    "dates": (["2024-01-01", "2024-01-02", "2024-02-03"], "has dates, neither numbers nor groups: line 2 has"),
    "days": (["1.2.2024", "13.2.2024", "24.12.2023"], "has dates, neither numbers nor groups: line 2 has '1.2.2024'"),
    "moments": (["2024-01-01 10:00", "2024-01-02T11:30:05Z"], "has dates"),
    "months": (["5 May 2020", "Jan 3, 2021", "3-Feb-99"], "has dates"),
}


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("case", MIXED)
def test_mixtures_and_dates_end_with_the_first_line_that_is_not_as_the_others(
    case: str, nprocs: int, tmp_path: Path
) -> None:
    values, message = MIXED[case]
    path = tmp_path / "mixed.csv"
    path.write_text("\n".join(["y,x", *(f'{k},"{value}"' for k, value in enumerate(values))]))
    said = refused(path, nprocs)
    assert f"mixed.csv: column 'x' {'has ' * message[:1].isdigit()}{message}" in said
    assert "categorical= or --categorical x)" in said  # to programs and to who gives a command
    found, notes = read(path, nprocs, categorical=["x"])
    assert found["x"] == values
    assert notes == ()


def test_thousands_of_texts_that_are_nearly_all_numbers_are_an_error_by_the_first_text(tmp_path: Path) -> None:
    path = tmp_path / "sensor.csv"
    path.write_text("\n".join(["y,x", *(f"{k % 9},{'off' if k in (3100, 4200) else k / 7}" for k in range(5000))]))
    assert "column 'x' has 4998 numbers and 2 texts: line 3102 has 'off'" in refused(path, 3)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_other_texts_mean_missing_if_told(nprocs: int, reader: str, tmp_path: Path) -> None:
    path = tmp_path / "gaps.csv"
    path.write_text(
        "\n".join(["y,x,town", *(f"{k},{'?' if k % 4 == 2 else k},{'-' if k % 5 else 'a'}" for k in range(30))])
    )
    found, _ = read(path, nprocs, na=["?", "-"])
    same(found, pandas.read_csv(path, na_values=["?", "-"]))


@pytest.mark.parametrize("nprocs", [1, 3])
def test_numbers_are_categories_if_told(nprocs: int, reader: str, tmp_path: Path) -> None:
    path = tmp_path / "codes.csv"
    path.write_text("\n".join(["y,code,x", *(f"{k % 7},{(1, 10, 2)[k % 3]},{k * k % 11}" for k in range(30))]))
    frame = pandas.read_csv(path, dtype={"code": str})
    same(read(path, nprocs, categorical=["code"])[0], frame)
    model = bsp.run(lambda proc: glm.LinearRegression().fit(read_table(path, categorical=["code"]), "y"), nprocs=nprocs)
    X = np.column_stack([frame["code"] == "2", frame["code"] == "10", frame["x"]]).astype(float)
    np.testing.assert_allclose(
        np.append(model[0].intercept_, model[0].coef_),
        np.linalg.lstsq(np.column_stack([np.ones(30), X]), frame["y"], rcond=None)[0],
        rtol=1e-10, atol=0,
    )  # fmt: skip
    assert model[0].solution_.names == ("code[2]", "code[10]", "x")  # numbers in their order, as pandas' categories
    assert "categorical='cod': there is no column 'cod'; did you mean 'code'?" in refused(path, 2, categorical=["cod"])


@pytest.mark.parametrize(("options", "message"), [
    ({"delimiter": ",,"}, "delimiter=',,': one character, not a quote"),
    ({"delimiter": '"'}, "delimiter='\"': one character"),
    ({"decimal": ";"}, "decimal=';': '.' or ','"),
])  # fmt: skip
def test_a_dialect_that_cannot_be_is_refused(options: dict[str, str], message: str, tmp_path: Path) -> None:
    path = tmp_path / "few.csv"
    path.write_text("y,x\n1,2\n")
    assert message in refused(path, 2, **options)
    frame = tmp_path / "few.parquet"
    pandas.DataFrame({"y": [1], "x": [2]}).to_parquet(frame)
    assert "a Parquet file has no delimiter and no decimal mark" in refused(frame, 2, decimal=",")


NUMBER, GROUPED, PERCENT, OTHER, DATE, TRUTH, TEXT = Spelling
KINDS = {
    "1": NUMBER, "-1e5": NUMBER, "inf": NUMBER, "1,101": GROUPED, "-12,345,678.9": GROUPED,
    "0,101": OTHER, "1,5": OTHER, "1.234,5": OTHER, "33%": PERCENT, "-0.5 %": PERCENT,
    "1,10,1": TEXT, "1,1011": OTHER, "1,101,1": TEXT, "12 345": GROUPED, "12 345,678": OTHER,
    "2024-13-01": TEXT, "2024-01-32": TEXT, "31/12/99": DATE, "1.2.3": TEXT, "18-25": TEXT,
    "12:30:05": DATE, "1:10": TEXT, "": TEXT, "%": TEXT, "1_000": TEXT, "Mai 68": TEXT,
    "2024-05-01 23:59:59.5 +02:00": DATE, "Ward 3": TEXT, "10 Downing 1999": TEXT, "nan%": TEXT,
    "True": TRUTH, "false": TRUTH, "TRUE": TRUTH, "tRue": TEXT, "yes": TEXT, "T": TEXT,
}  # fmt: skip


@pytest.mark.parametrize("text", KINDS)
def test_what_a_text_is(text: str) -> None:
    assert kind_of(text, ".") is KINDS[text]
    swapped = text.translate(str.maketrans(".,", ",."))
    if KINDS[text] is not DATE:
        assert kind_of(swapped, ",") is KINDS[text]
    assert kind_of(text, None) is (NUMBER if KINDS[text] is NUMBER else TEXT)


def test_what_a_number_is() -> None:
    cases = {
        "1,101": 1101.0,
        "-12,345,678.9": -12345678.9,
        "33%": 0.33,
        "true": 1.0,
        "False": 0.0,
        "-0.5 %": -0.005,
        "1e3%": 10.0,
        "1 000.": 1e3,
    }
    assert {text: number_of(text, ".") for text in cases} == cases
    assert number_of("1.234,5", ",") == 1234.5


# ---------------------------------------------------------------------------------------- indices


@pytest.mark.parametrize("nprocs", [1, 3, 64])
def test_the_index_that_pandas_writes_is_left_out(nprocs: int, reader: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    frame = pandas.DataFrame({"y": rng.normal(size=50), "x": rng.normal(size=50), "town": rng.choice(TOWNS[:3], 50)})
    path = tmp_path / "indexed.csv"
    frame.to_csv(path)
    found, notes = read(path, nprocs)
    same(found, frame)
    assert notes == ("column 1 (Unnamed: 0) is the index that pandas wrote: it is left out",)
    pandas.read_csv(path).to_csv(path)  # read and written once more: now there are two
    found, notes = read(path, nprocs)
    same(found, frame)
    assert len(notes) == 2
    assert read(path, nprocs, columns=["Unnamed: 0", "x"])[0]["Unnamed: 0"] == list(range(50))  # asked for
    frame.index = frame.index + 1  # as R's write.csv numbers rows
    frame.to_csv(path, quoting=csv.QUOTE_ALL)
    same(read(path, nprocs)[0], frame)
    frame[frame["x"] > 0].to_parquet(tmp_path / "indexed.parquet")
    found, notes = read(tmp_path / "indexed.parquet", nprocs)
    same(found, frame[frame["x"] > 0])
    assert notes == ("column 4 (__index_level_0__) is the index that pandas wrote: it is left out",)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_column_without_a_name_that_is_no_index_is_refused(nprocs: int, tmp_path: Path) -> None:
    path = tmp_path / "unnamed.csv"
    path.write_text("y,,x\n" + "".join(f"{k},{k * k % 7},{k}\n" for k in range(9)))
    assert "column 2 has no name: name it, or leave it out (--exclude 'Unnamed: 1')" in refused(path, nprocs)
    assert list(read(path, nprocs, exclude=["Unnamed: 1"])[0]) == ["y", "x"]
    path.write_text("y;x;\n" + "".join(f"{k};{k * k % 7};\n" for k in range(9)))  # each line ends with a separator
    found, notes = read(path, nprocs)
    assert list(found) == ["y", "x"]
    assert "column 3 (Unnamed: 2) has no values: it is left out" in notes


def test_a_counter_with_a_name_is_a_column(tmp_path: Path) -> None:
    path = tmp_path / "years.csv"
    path.write_text("year,y\n" + "".join(f"{k},{k * k % 7}\n" for k in range(9)))
    assert list(read(path, 3)[0]) == ["year", "y"]


# -------------------------------------------------------------------------------- the command line


@pytest.mark.skipif(not COMPILED, reason="the package was installed without a C compiler")
@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("target", range(4))
def test_neighbouring_columns_are_not_copied(target: int, nprocs: int, tmp_path: Path) -> None:
    """The matrix of the rows is that of the table, and fits leave it as it is."""
    rng = np.random.default_rng(3)
    values = rng.normal(size=(9000, 4)).round(3)
    names = [f"c{k}" for k in range(4)]
    pandas.DataFrame(values, columns=names).to_csv(path := tmp_path / "numbers.csv", index=False)
    others = [k for k in range(4) if k != target]
    known = glm.LinearRegression().fit(values[:, others], values[:, target])

    def main(proc: bsp.Process) -> None:
        table = read_table(path)
        assert table.matrix is not None
        coding, kept, _ = coding_of(table, [names[k] for k in others], [names[target]])
        rows = coding.rows(table, kept)
        assert np.shares_memory(rows, table.matrix) == (target in (0, 3))
        before = table.matrix.tobytes()
        models = [glm.LinearRegression().fit(table, names[target]) for _ in range(2)]
        assert table.matrix.tobytes() == before
        assert models[0].coef_.tobytes() == models[1].coef_.tobytes()
        np.testing.assert_allclose(models[0].coef_, known.coef_, rtol=0, atol=1e-12)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.thorough
@pytest.mark.jobs
def test_several_elements_read_as_one(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text(text_of(";", ",", "\r\n"), "utf-16", newline="")
    words = ["-m", "bsp.algorithms.glm", str(path), "--target", "y", "--missing", "drop", "--json", "-"]
    one, many = (
        subprocess.run([*launcher, *words], capture_output=True, text=True, check=True, timeout=300).stdout
        for launcher in ([BSPRUN, "-p", "5", "-n", "1"], [BSPRUN, "-p", "5", "-n", "3"])
    )
    assert one == many
    assert "the decimal mark is a comma" in one


def test_the_options_of_the_command_reach_the_reader(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from bsp.algorithms.glm import __main__ as command

    path = tmp_path / "people.txt"
    path.write_text(
        "y\tg\tx\n" + "".join(f"{k % 4}\t{k % 3}\t{'?' if k == 5 else f'{k * k % 10},5'}\n" for k in range(30))
    )
    words = ["--target", "y", "--delimiter", "tab", "--decimal", ",", "--na", "?", "--categorical", "g"]
    status = bsp.run(lambda proc: command.main([str(path), *words, "--missing", "drop"]), nprocs=3)
    out = capfd.readouterr().out
    assert status == [0, 0, 0]
    frame = pandas.read_csv(path, sep="\t", decimal=",", na_values="?", dtype={"g": str}).dropna()
    known = glm.LinearRegression().fit(frame, "y")
    assert [line.split()[0] for line in out.splitlines()[2:6]] == ["intercept", "g[1]", "g[2]", "x"]
    assert [float(line.split()[1]) for line in out.splitlines()[3:6]] == pytest.approx(known.coef_, rel=1e-5)
