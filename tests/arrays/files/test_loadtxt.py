"""`loadtxt` returns what NumPy's returns for files of numbers: comments, blanks, chosen columns and rows, axes."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays.errors import FormatError
from bsp.arrays.files.lines import comments as io_comments
from bsp.arrays.files.lines import division as io_lines

NUMBERS = ["0", "-1", "2.5", "1e3", "+7", "-0.0", "1e-320", "inf", "nan", "12345678901234567890", "0.1", ".5", "5."]


def loaded(path: Path, nprocs: int, **options: Any) -> np.ndarray:
    """Return what all processes read."""

    def main(proc: bsp.Process) -> Any:
        return np.array(ba.loadtxt(path, **options).compute())

    first, *others = bsp.run(main, nprocs=nprocs)
    for each in others:
        np.testing.assert_array_equal(each, first)
    found: np.ndarray = first
    return found


def agrees(path: Path, nprocs: int, **options: Any) -> None:
    """Compare with numpy.loadtxt: shape, dtype and every value."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # NumPy's, that blank lines do not count towards max_rows
        expected = np.loadtxt(path, **options)
    found = loaded(path, nprocs, **options)
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(found, expected)
    if found.dtype.kind == "f":
        there = ~np.isnan(found)
        np.testing.assert_array_equal(np.signbit(found[there]), np.signbit(expected[there]))


@st.composite
def texts(draw: Callable[..., Any]) -> tuple[str, dict[str, Any]]:
    """Return a file of numbers with comments, blank lines and any blanks, and the options to read it."""
    delimiter = draw(st.sampled_from([None, ",", ";", " ", "\t"]))
    marks = draw(st.sampled_from(["#", "%", "//", None, ("#", "//")]))
    width = draw(st.integers(1, 4))
    lines = ["# a title"] * (marks == "#")
    skiprows = len(lines) * draw(st.integers(0, 1))
    comment = (
        st.just("")
        if marks is None
        else st.sampled_from(["", "", f" {marks[0] if isinstance(marks, tuple) else marks} x 1"])
    )
    between = st.sampled_from([" ", "  ", "\t", " \t "]) if delimiter is None else st.just(delimiter)
    around = st.sampled_from(["", "", "  ", "\t"]) if delimiter is None else st.just("")
    for _ in range(draw(st.integers(1, 8))):
        fields = draw(st.lists(st.sampled_from(NUMBERS), min_size=width, max_size=width))
        line = draw(around) + "".join(field + draw(between) for field in fields[:-1]) + fields[-1] + draw(around)
        tail = draw(comment).lstrip(" ") if delimiter in (" ", "\t") else draw(comment)
        lines.append(line + tail)
        lines += draw(st.sampled_from([[], [], [""], [draw(comment).strip()]]))
    end = draw(st.sampled_from(["\n", "\r\n"]))
    options = {
        "comments": marks, "delimiter": delimiter, "skiprows": skiprows, "unpack": draw(st.booleans()),
        "ndmin": draw(st.integers(0, 2)), "max_rows": draw(st.sampled_from([None, None, 1, 2, 5])),
        "usecols": draw(st.sampled_from([None, 0, -1, (width - 1, 0)])),
    }  # fmt: skip
    return end.join(lines) + draw(st.sampled_from([end, ""])), options


@examples(300)
@given(texts(), st.sampled_from([1, 2, 5]))
def test_files_are_read_as_numpy_reads_them(given: tuple[str, dict[str, Any]], nprocs: int) -> None:
    text, options = given
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.txt"
        path.write_bytes(text.encode())
        agrees(path, nprocs, **options)


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("ending", ["", ".gz", ".bz2"])
def test_what_savetxt_writes_is_read_again(tmp_path: Path, ending: str, nprocs: int) -> None:
    path = tmp_path / f"x.txt{ending}"
    x = np.random.default_rng(1).standard_normal((300, 7))

    def main(proc: bsp.Process) -> None:
        ba.savetxt(path, ba.asarray(x), header="seven columns\nof numbers", footer="the end")
        np.testing.assert_array_equal(ba.loadtxt(path).compute(), x)
        columns = ba.loadtxt(path, unpack=True, usecols=(6, 1))
        for found, expected in zip(columns, x.T[[6, 1]], strict=True):
            np.testing.assert_array_equal(found.compute(), expected)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("rows", [0, 1, 2])
@pytest.mark.parametrize("ending, opener", [(".gz", gzip.open), (".bz2", bz2.open), (".xz", lzma.open)])
def test_compressed_text_of_few_rows_is_whole(tmp_path: Path, ending: str, opener: Any, rows: int) -> None:
    path = tmp_path / f"x.txt{ending}"
    bsp.run(lambda proc: ba.savetxt(path, ba.ones((rows, 2)), fmt="%g"), nprocs=4)
    assert path.stat().st_size
    with opener(path) as file:
        assert file.read() == b"1 1\n" * rows


def test_extended_precision_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("0.1 9007199254740993\n4.9e-324 1e400 # or inf\nnan -12345678901234567890\n-0.0 1e-4000\n")
    for nprocs in (1, 3):
        agrees(path, nprocs, dtype=np.longdouble)
    path.write_text("1 2\n3 0x10\n")
    with pytest.raises(FormatError, match=r"line 2: column 2 .*'0x10' is no number"):
        ba.loadtxt(path, dtype=np.longdouble)


def test_integers_and_layouts(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text(f"1 {2**63 - 1}\n# between\n-3   {-(2**63)} # last\n\n")
    agrees(path, 2, dtype=int)

    def main(proc: bsp.Process) -> Any:
        return (
            ba.loadtxt(path, grid=(2, 2)).grid,
            ba.loadtxt(path, usecols=1).shape,
            np.loadtxt(path, like=ba.ones(1)).shape,
        )

    assert bsp.run(main, nprocs=2) == [((2, 2), (2,), (2, 2))] * 2


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_text_with_a_byte_order_mark(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text("# Höhe\n1 2 # é\n3 4\n\n5 6\n7 8\n", encoding=encoding)
    for rows in (None, 1, 3, 9):
        expected = np.arange(1.0, 9).reshape(4, 2)[:rows]
        np.testing.assert_array_equal(loaded(path, 3, max_rows=rows, ndmin=2), expected)


def test_rows_that_end_behind_the_beginning_of_utf_16_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.txt"
    path.write_text("1 2\n" * 100, encoding="utf-16")
    monkeypatch.setattr(io_lines, "_HEAD", 400)
    assert ba.loadtxt(path, max_rows=40).shape == (40, 2)
    with pytest.raises(FormatError, match="do not have all rows wanted"):
        ba.loadtxt(path, max_rows=60)
    assert ba.loadtxt(path).shape == (100, 2)


def test_rows_behind_the_last_row_are_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("2 blocks\n1 2\n3 4\nthe second, wider:\n1 2 3\n4 5 6\n")
    for nprocs in (1, 4):
        agrees(path, nprocs, skiprows=1, max_rows=2)
        agrees(path, nprocs, skiprows=4)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_converters_make_numbers_of_texts(tmp_path: Path, nprocs: int) -> None:
    path = tmp_path / "x.txt"
    path.write_text("day;share;name\n1;5 %;Zoë\n2;12.5 %;Bo\n\n3;;Al # none\n")
    share = {1: lambda text: float(text.rstrip("%") or "nan"), -1: len}
    agrees(path, nprocs, delimiter=";", skiprows=1, converters=share)
    agrees(
        path,
        nprocs,
        delimiter=";",
        skiprows=1,
        usecols=(2, 0),
        converters={2: lambda text: len(text.strip())},
        dtype=int,
    )
    agrees(path, nprocs, delimiter=";", skiprows=1, usecols=0, converters=lambda text: -float(text), unpack=True)
    path.write_bytes("1;Zoë\n2;Zoé\n".encode("latin-1"))
    agrees(path, nprocs, delimiter=";", converters={1: lambda text: ord(text[-1])}, encoding="latin-1")


def test_lines_may_lack_columns_that_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("1 2 a remark\n3 4\n# none\n5 6 7\n\n8 9 b\n")
    for nprocs in (1, 3):
        agrees(path, nprocs, usecols=(1, 0))
        agrees(path, nprocs, usecols=0, dtype=int)
        agrees(path, nprocs, usecols=[])
        agrees(path, nprocs, usecols=(0, 1), converters={1: lambda text: -float(text)})


def test_places_and_names_of_arguments_are_numpys(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("x y\n1,2\n3,4\n5,6\n")
    given = (path, int, "%", ",", None, 1, (1, 0), True, 2, "utf-8", 2)
    np.testing.assert_array_equal(ba.loadtxt(*given, quotechar='"').compute(), np.loadtxt(*given, quotechar='"'))


ERRORS = [
    ("# c\n1 2\n3 x\n", {}, "line 3: column 2 ('c1'): 'x' is no number"),
    ("1 2\n# c\n3\n", {}, "line 3: it has 1 field, the first line has 2"),
    ("1,2\n3,\n", {"delimiter": ","}, "line 2: column 2 ('c1'): '' is no number"),
    ("1,2\n3,NA\n", {"delimiter": ","}, "line 2: column 2 ('c1'): 'NA' is no number"),
    ("1 2\n3 nan\n", {"dtype": int}, "line 2: column 2 ('c1'): a value is missing, and int64 has none"),
    ("a b\n1 2\n", {}, "line 1: column 1 ('c0'): 'a' is no number"),
    ("# only\n\n # comments\n", {}, "it has no data: 3 lines"),
    ("1 2\n", {"usecols": 2}, "there is no column 2; there are 2"),
    ("1 2 3\n4 5\n", {"usecols": 2}, "line 2: it has 2 fields, the first line has 3"),
    ("1 2\n3 4 5\n", {"usecols": (0, -1)}, "line 2: it has 3 fields, the first line has 2"),
    ("1 2\n", {"converters": {2: float}}, "converters: there is no column 2; there are 2"),
    ("1 2\n3 x\n", {"converters": float}, "line 2: column 2 ('c1'): the converter of 'x' raised ValueError: could not"),
    (
        "1 2\n3 400\n",
        {"converters": int, "dtype": np.int8},
        "line 2: column 2 ('c1'): the converter of '400' raised Ov",
    ),
    ("1 2\r3 4\r", {}, "line 1: it has carriage returns inside"),
    ("1\r2\r", {"delimiter": ","}, "line 1: it has carriage returns inside"),
    ("# a title\r1 2\r3 4\r", {}, "line 1: it has carriage returns inside"),
    ("1 2 # a comment\r3 4\n5 6\n", {}, "line 1: it has carriage returns inside"),
    ("1 2\n3 4 # a comment\r5 6\n", {}, "line 2: it has carriage returns inside"),
    ("1 2\n3\r4\n", {}, "line 2: it has carriage returns inside"),
]


@pytest.mark.parametrize("text, options, message", ERRORS)
def test_wrong_files_are_told(tmp_path: Path, text: str, options: dict[str, Any], message: str) -> None:
    path = tmp_path / "x.txt"
    path.write_text(text)

    def main(proc: bsp.Process) -> str:
        with pytest.raises(FormatError) as wrong:
            ba.loadtxt(path, **options)
        proc.sync()
        return str(wrong.value)

    (found,) = {each for nprocs in (1, 2, 5) for each in bsp.run(main, nprocs=nprocs)}
    assert message in found


@pytest.mark.parametrize("options", [
    {"dtype": complex}, {"delimiter": ",,"}, {"comments": ""}, {"comments": ["#", ""]}, {"comments": "#\n"},
    {"comments": ",", "delimiter": ","}, {"ndmin": 3}, {"max_rows": 0}, {"quotechar": "'"}, {"encoding": "utf-16"},
    {"comments": b"#"}, {"comments": [b"#"]}, {"delimiter": b","}, {"usecols": 1.0}, {"usecols": "a"},
    {"usecols": [0, "a"]},
])  # fmt: skip
def test_arguments_are_checked(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match="loadtxt"):
        ba.loadtxt(tmp_path / "x.txt", **options)


@given(st.lists(st.sampled_from([b"1 2", b"#", b"\n", b"\r\n", b"//", b"/", b" 7"])), st.integers(1, 9))
def test_comments_are_removed_alike_from_pieces(parts: list[bytes], size: int) -> None:
    class Pieces(io.BytesIO):
        def read(self, count: int | None = -1, /) -> bytes:
            return super().read(size)

    text = b"".join(parts)
    with io_comments.uncommented(lambda: Pieces(text), ("#", "//"))() as stream:
        assert stream.read() == io_comments.without(text, ("#", "//"))
    bare = [line.removesuffix(b"\r") for line in text.split(b"\n")]
    kept = b"\n".join(line.split(b"#")[0].split(b"//")[0] for line in bare)
    assert io_comments.without(text, ("#", "//")).replace(b"\r\n", b"\n") == kept
