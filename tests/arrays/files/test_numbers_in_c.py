"""Numbers of text read in C: the double that Python's float gives, and nothing that Python's rules do not read."""

from __future__ import annotations

import io
import struct
import tracemalloc
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

from bsp.arrays.compiled import COMPILED, numbers_of_lines, powers_of_five
from bsp.arrays.files import columns
from bsp.arrays.files.lines.division import TextLines
from bsp.arrays.files.lines.fields import MISSING, BadLine, Fields, exact
from bsp.arrays.files.lines.opening import Opening

pytestmark = pytest.mark.skipif(not COMPILED, reason="the package was installed without a C compiler")

NONE = tuple(each.encode() for each in MISSING)


def parsed(text: bytes, width: int = 1, decimal: str = ".", room: int = 1000, missing: tuple[bytes, ...] = NONE) -> Any:
    """Return what C reads of lines with so many fields: a list of rows and the bytes read, or None."""
    out = np.full((room, width), 777.0)
    found = numbers_of_lines(
        text, ord(","), ord(decimal), np.arange(width), missing, powers_of_five(), out, width
    )  # fmt: skip
    if found is None:
        return None
    rows, read = found
    assert (out[rows:] == 777).all()
    return out[:rows].tolist(), read


def in_c(text: bytes, fields: Fields) -> Any:
    """Return what C reads of a text as a matrix; None if it leaves the text to the reference."""
    lines = TextLines(Opening(fields, 0, 0), lambda: io.BytesIO(text), lambda: 0)
    found = columns._in_c(lines, fields)
    if found is None:
        return None
    return np.concatenate([np.empty((0, len(fields.columns))), *(np.stack(chunk, 1) for chunk in found.chunks)])


def bits(value: float) -> bytes:
    return struct.pack("d", value)


def middles() -> st.SearchStrategy[str]:
    """Numbers exactly between two neighbouring doubles, in up to 40 digits."""

    def text(mantissa: int, exponent: int) -> str:
        middle = Fraction(2 * mantissa + 1) * Fraction(2) ** exponent
        with localcontext() as context:
            context.prec = 40
            return str(Decimal(middle.numerator) / Decimal(middle.denominator))

    return st.builds(text, st.integers(1 << 52, (1 << 53) - 1), st.integers(-60, 60))


decimals = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds("{}{}.{}e{}".format, st.sampled_from(["", "-", "+"]), st.integers(0, 1 << 70), st.integers(0, 1 << 40),
              st.integers(-400, 400)),
    st.builds("{}e{}".format, st.integers(0, 1 << 64), st.integers(-45, 45)),
    st.builds("0.{:0{}}".format, st.integers(0, 1 << 60), st.integers(1, 40)),
    middles(),
)  # fmt: skip


@examples(4000)
@given(st.lists(decimals, min_size=1, max_size=20))
def test_every_number_is_the_double_that_python_reads(texts: list[str]) -> None:
    found, read = parsed("".join(f"{each}\n" for each in texts).encode())
    assert read == sum(map(len, texts)) + len(texts)
    assert [bits(value) for (value,) in found] == [bits(float(each)) for each in texts]


LIMITS = """
18446744073709551616 18446744073709551615 9007199254740993 9007199254740992.5 00000000000000000000001
0.00000000000000000000000000000001 1e-324 4.9e-324 2.2250738585072011e-308 1.7976931348623159e308 1e999999999999
-0 -0.0e5 .5 5. +3 1e+5 123456789012345678901234567890 0e400 inf -NAN
"""


@pytest.mark.parametrize("text", LIMITS.split())
def test_numbers_at_the_limits(text: str) -> None:
    ((value,),), _ = parsed(f"{text}\n".encode(), missing=())
    assert value != value if text == "-NAN" else bits(value) == bits(float(text))


@pytest.mark.parametrize("field", [
    "", ".", "-", "e5", "1e", "1e+", "--1", "1.2.3", "1 2", "1_0", "0x10", "1d5", "x", '"1"', "1\r1", "\0", "1\0", "é",
    "١", "1,2", "0" * 70, "+-1", "infi",
])  # fmt: skip
def test_what_is_no_plain_number_is_left_to_the_reference(field: str) -> None:
    assert parsed(f"1\n{field}x\n".encode(), missing=()) is None
    if field not in ("", "0" * 70):
        assert parsed(f"1\n{field}\n".encode(), missing=()) is None


def test_lines() -> None:
    nan = float("nan")
    assert parsed(b"1,2\r\n\r\n  \n-3,4\n5,6", 2) == ([[1, 2], [-3, 4]], 15)  # the last line is not complete
    assert str(parsed(b"1,2\n,\n\t, \n", 2)) == str(([[1.0, 2.0], [nan, nan], [nan, nan]], 10))
    assert parsed(b"1,2\n3\n", 2) is None
    assert parsed(b"1,2\n3,4,5\n", 2) is None
    assert parsed(b"1,2\n3,4\n5,6\n", 2, room=2) == ([[1, 2], [3, 4]], 8)
    assert parsed(b"1,5\n", 1, ",") is not None  # a decimal mark that is no delimiter is the caller's to choose
    assert str(parsed(b"NA, 2 \n,nan\n", 2)) == str(([[nan, 2.0], [nan, nan]], 12))
    assert str(parsed(b"-9,2\n", 2, missing=(b"-9",))) == str(([[nan, 2.0]], 5))
    assert parsed(b"", 1) == ([], 0)
    out = np.zeros((2, 1))
    found = numbers_of_lines(b"x,1\nyy,2\n", ord(","), ord("."), np.array([-1, 0]), (), powers_of_five(), out, 1)
    assert (found, out.tolist()) == ((2, 9), [[1], [2]])


def test_wrong_arguments_are_refused() -> None:
    places, out, powers = np.zeros(1, np.int64), np.zeros((1, 1)), powers_of_five()
    for bad in ((places + 1, NONE, powers), (places, NONE, powers[1:]), (places, ("",), powers)):
        with pytest.raises((ValueError, TypeError)):
            numbers_of_lines(b"1\n", 44, 46, *bad, out, 1)  # type: ignore[arg-type]
    for marks in ((10, 46), (13, 46), (44, 10)):
        with pytest.raises(ValueError, match="no decimal mark, or no delimiter"):
            numbers_of_lines(b"1\n", *marks, places, NONE, powers, out, 1)


rows = st.lists(
    st.tuples(st.floats().map(repr), st.integers(-999, 999).map(str), st.sampled_from(MISSING)), max_size=30
)


@examples(300)
@given(rows, st.integers(1, 300), st.sampled_from(["\n", "\r\n"]), st.booleans(), st.sampled_from([(0, 1, 2), (2, 0)]))
def test_text_in_pieces_of_any_size(
    rows: list[Any], size: int, end: str, ended: bool, chosen: tuple[int, ...]
) -> None:  # fmt: skip
    text = "".join(",".join(row) + end for row in rows).encode()
    text = text if ended else text.removesuffix(end.encode())
    fields = Fields(",", 3, chosen, ("a", "b", "c"), np.dtype(float))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_CHUNK", size)
        np.testing.assert_array_equal(in_c(text, fields), exact(text, fields))


@examples(300)
@given(st.sampled_from(",;|\t "), st.integers(1, 3), st.lists(st.lists(st.sampled_from(["1", "", " ", "\t", "2 "]),
       min_size=1, max_size=3), max_size=5))  # fmt: skip
def test_blank_lines_and_lines_of_missing_values(delimiter: str, width: int, rows: list[list[str]]) -> None:
    text = "".join(delimiter.join(row) + "\n" for row in rows).encode()
    fields = Fields(delimiter, width, tuple(range(width)), ("a", "b", "c"), np.dtype(float))
    try:
        expected = exact(text, fields)
    except BadLine:
        assert in_c(text, fields) is None
    else:
        np.testing.assert_array_equal(in_c(text, fields), expected)


@examples(500)
@given(st.lists(st.lists(st.sampled_from(["1", "-2.5e3", "nan", "NA", " ", "\t", "  ", "\r", "\x0b", "x"]), max_size=6),
       max_size=5), st.integers(1, 3))  # fmt: skip
def test_fields_between_runs_of_blanks(rows: list[list[str]], width: int) -> None:
    text = "".join("".join(row) + "\n" for row in rows).encode()
    fields = Fields(None, width, tuple(range(width)), ("a", "b", "c"), np.dtype(float))
    try:
        expected = exact(text, fields)
    except BadLine:
        assert in_c(text, fields) is None
    else:
        found = in_c(text, fields)
        assert found is not None or "\x0b" in text.decode() or "\r" in text.decode()
        if found is not None:
            np.testing.assert_array_equal(found, expected)


integers = st.one_of(
    st.integers(-(1 << 64), 1 << 64).map(str), st.integers(-130, 260).map(str),
    st.sampled_from([(1 << 53) + k for k in (-1, 0, 1)]).map(str),
    st.sampled_from(["+7", "-0", "007", "1e2", "4.0", "inf", ""]),
)  # fmt: skip


@examples(1000)
@given(st.lists(integers, min_size=1, max_size=5), st.sampled_from(["i1", "u1", "i4", "i8", "u8"]))
def test_integers_are_those_of_the_reference(texts: list[str], kind: str) -> None:
    text = "".join(f"{each},1\n" for each in texts).encode()
    fields = Fields(",", 2, (0, 1), ("a", "b"), np.dtype(kind))
    lines = TextLines(Opening(fields, 0, 0), lambda: io.BytesIO(text), lambda: 0)
    try:
        expected = exact(text, fields)
    except BadLine as wrong:
        with pytest.raises(BadLine) as found:
            columns.numbers_of(lines, fields)
        assert (found.value.index, found.value.text) == (wrong.index, wrong.text)
    else:
        values = columns.numbers_of(lines, fields)
        assert values.dtype == expected.dtype
        np.testing.assert_array_equal(values, expected)


def test_memory_is_taken_for_rows_not_for_blank_lines() -> None:
    width = 20_000
    fields = Fields(",", width, tuple(range(width)), ("",) * width, np.dtype(float))
    tracemalloc.start()
    found = in_c(b",".join([b"1"] * width) + b"\n" * 1_000_000, fields)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.shape == (1, width)
    assert most < 100e6


def test_a_matrix_of_numbers_takes_memory_once(tmp_path: Path) -> None:
    fields = Fields(",", 20, tuple(range(20)), ("",) * 20, np.dtype(float))
    (tmp_path / "x").write_bytes((b",".join([b"-1.25"] * 20) + b"\n") * 400_000)
    lines = TextLines(Opening(fields, 0, 0), lambda: (tmp_path / "x").open("rb"), lambda: 0)
    tracemalloc.start()
    found = columns.numbers_of(lines, fields)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.shape == (400_000, 20)
    assert (found == -1.25).all()
    assert most < 1.1 * found.nbytes + 24e6  # a piece's numbers are there, too


def test_a_line_without_end_is_left_to_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = Fields(",", 1, (0,), ("a",), np.dtype(float))
    monkeypatch.setattr(columns, "_CHUNK", 100)
    monkeypatch.setattr(columns, "_LONGEST", 1000)
    assert in_c(b"1" * 2000 + b"\n", fields) is None
    assert in_c(b" " * 900 + b"1\n", fields).tolist() == [[1]]


def test_delimiters_that_occur_in_numbers_are_left_to_the_reference() -> None:
    for delimiter in "e-.5":
        fields = Fields(delimiter, 2, (0, 1), ("a", "b"), np.dtype(float))
        assert in_c(b"1x2\n", fields) is None
