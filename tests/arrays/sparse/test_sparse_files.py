"""What scipy writes sparse arrays read, and the other way round, on any number of processes; one error for all."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
import scipy.sparse as ss
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
from bsp.arrays import sparse
from bsp.arrays.errors import FileError, FormatError, NoSuchFile, PlanTooLarge
from bsp.arrays.sparse.files.market_lines import entries_of

PROCESSES = [1, 2, 3, 7]


def made(n: int, m: int, dtype: Any, seed: int = 0) -> ss.csr_array:
    rng = np.random.default_rng(seed)
    values = rng.integers(-9, 10, (n, m)) * (rng.random((n, m)) < 0.3)
    values = values / 7 if np.dtype(dtype).kind in "fc" else values
    values = values + 1j * values.T[:n, :m] if dtype is complex and n == m else values
    return ss.csr_array(values.astype(dtype))


def read(call: Callable[[], sparse.SparseArray], nprocs: int) -> ss.csr_array:
    """What a reader gives, which is the same on all processes."""
    return bsp.run(lambda proc: call().compute(), nprocs=nprocs)[-1]


def told(kind: type[Exception], call: Callable[..., Any], nprocs: int) -> str:
    """The error of call(), the same on every process, none of which is left behind."""

    def main(proc: bsp.Process) -> str:
        with pytest.raises(kind) as wrong:
            call()
        proc.sync()
        return str(wrong.value)

    (found,) = set(bsp.run(main, nprocs=nprocs))
    return str(found)


def equal(found: Any, wanted: Any) -> None:
    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
    np.testing.assert_array_equal(found.toarray(), wanted.toarray())


MATRICES = {
    "real": made(31, 17, float), "square": made(12, 12, complex), "integers": made(9, 30, np.int64),
    "none": ss.csr_array((5, 4)), "no rows": ss.csr_array((0, 3)), "one row": made(1, 40, float),
}  # fmt: skip


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("ending", [".mtx", ".mtx.gz"])
def test_matrix_market_is_scipys(tmp_path: Path, name: str, nprocs: int, ending: str) -> None:
    W = MATRICES[name]
    path = tmp_path / f"a{ending}"
    text = io.BytesIO()
    scipy.io.mmwrite(text, W, comment="two\nlines", precision=17)
    path.write_bytes(gzip.compress(text.getvalue()) if ending.endswith("gz") else text.getvalue())
    equal(read(lambda: sparse.load(path), nprocs), W)
    back = tmp_path / f"b{ending}"

    def write(proc: bsp.Process) -> None:
        sparse.write_mtx(back, sparse.from_scipy(W), comment="two\nlines")
        sparse.write_mtx(f"{back}.T{ending}", sparse.from_scipy(W).T)

    bsp.run(write, nprocs=nprocs)
    equal(ss.csr_array(scipy.io.mmread(back)), W)
    equal(ss.csr_array(scipy.io.mmread(f"{back}.T{ending}")), W.T)


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble])
def test_numbers_of_extended_precision_are_written_as_numbers(tmp_path: Path, dtype: Any) -> None:
    W = made(9, 7, float).astype(dtype)
    bsp.run(lambda proc: sparse.write_mtx(tmp_path / "a.mtx", sparse.from_scipy(W)), nprocs=2)
    np.testing.assert_array_equal(scipy.io.mmread(tmp_path / "a.mtx").toarray(), W.toarray())


@pytest.mark.parametrize("nprocs", [1, 3])
def test_parts_of_complex_numbers_stay_apart(tmp_path: Path, nprocs: int) -> None:
    values = np.array([complex(1, np.inf), complex(-0.0, 2), complex(np.nan, 3)])
    A = ss.csr_array((values, ([0, 1, 2], [0, 1, 2])))
    bsp.run(lambda proc: sparse.write_mtx(tmp_path / "a.mtx", sparse.from_scipy(A)), nprocs=nprocs)
    found = read(lambda: sparse.read_mtx(tmp_path / "a.mtx"), nprocs).data
    np.testing.assert_array_equal(found.view(float), values.view(float))
    assert np.signbit(found[1].real)


def test_double_is_another_word_for_real(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.write_text("%%MatrixMarket matrix coordinate double symmetric\n2 2 2\n1 1 3.5\n2 1 -1e-3\n")
    equal(read(lambda: sparse.read_mtx(path), 2), ss.csr_array(scipy.io.mmread(path)))


@pytest.mark.parametrize("nprocs", [1, 3])
def test_exponents_may_be_fortrans(tmp_path: Path, nprocs: int) -> None:
    """scipy.io.mmread reads 1.5D+03 as 1.5, in silence."""
    path = tmp_path / "a.mtx"
    values = ["1d3", "-1.5D-3", "2.D+02", "7.25", "1e-2", "3D0"]
    for field, more in (("real", ""), ("complex", " 1d1")):
        lines = [f"{k + 1} {k + 1}  {value}{more}\n" for k, value in enumerate(values)]
        path.write_text(f"%%MatrixMarket matrix coordinate {field} general\n% D\n6 6 6\n{''.join(lines)}")
        known = np.diag([1e3, -1.5e-3, 2e2, 7.25, 1e-2, 3.0]) + (np.diag([10j] * 6) if more else 0)
        equal(read(lambda: sparse.read_mtx(path), nprocs), ss.csr_array(known))
    path.write_text("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 2 1d\n")
    assert "line 3: column 3 ('value'): '1d' is no number" in told(FormatError, lambda: sparse.read_mtx(path), nprocs)
    path.write_text("%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 2 1d3\n")
    assert "line 3: column 3 ('value'): '1d3' is no integer" in told(FormatError, lambda: sparse.read_mtx(path), nprocs)


SYMMETRIES = [
    ("symmetric", "real"), ("symmetric", "complex"), ("symmetric", "integer"), ("symmetric", "pattern"),
    ("skew-symmetric", "real"), ("skew-symmetric", "complex"), ("skew-symmetric", "integer"), ("hermitian", "complex"),
]  # fmt: skip


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("symmetry, field", SYMMETRIES)
def test_the_other_triangle_is_filled_in(tmp_path: Path, field: str, symmetry: str, nprocs: int) -> None:
    path = tmp_path / "a.mtx"
    values = {"real": " -1.5", "complex": " 1.5 -2", "integer": " 7", "pattern": ""}[field]
    diagonal = "" if symmetry == "skew-symmetric" else f"3 3{values if symmetry != 'hermitian' else ' 2 0'}\n"
    count = 2 + bool(diagonal)
    head = f"%%MatrixMarket Matrix COORDINATE {field} {symmetry}\n% a\n\n5 5 {count}\n"
    path.write_text(f"{head}4 1{values}\n\n% b\n{diagonal}5 4{values}")
    found = read(lambda: sparse.read_mtx(path), nprocs)
    path.write_text(path.read_text().replace("% b\n", ""))  # which scipy does not skip
    equal(found, ss.csr_array(scipy.io.mmread(path)))


@given(st.sampled_from(["real", "integer", "complex", "pattern"]), st.data())
@examples(300)
def test_lines_that_scipy_reads_have_the_numbers_that_python_reads(field: str, data: st.DataObject) -> None:
    """Lines of any marks are read by scipy as Python would read them, or left to Python."""
    width = {"real": 3, "integer": 3, "complex": 4, "pattern": 2}[field]
    number = st.one_of(
        st.floats(allow_nan=False, allow_infinity=False).map(repr), st.integers(-(2**63), 2**63 - 1).map(str),
        st.text("0123456789-+.eE ", max_size=6),
    )  # fmt: skip
    indices = st.one_of(st.integers(1, 9).map(str), st.text("0123-.e ", max_size=2))
    line = st.tuples(indices, indices, *[number] * (width - 2)).map(" ".join)
    text = "\n".join(data.draw(st.lists(line, min_size=1, max_size=3)))
    found = entries_of(text.encode(), field, width, (9, 9))
    if found is None:
        return
    kind: Any = {"integer": int, "pattern": int}.get(field, float)
    rows = [each.split(" ") for each in text.removesuffix("\n").split("\n")]
    assert found.rows.tolist() == [int(each[0]) - 1 for each in rows]
    assert found.columns.tolist() == [int(each[1]) - 1 for each in rows]
    values = [[kind(value) for value in each[2:]] for each in rows]
    assert found.values.tolist() == [complex(*each) if width == 4 else each[0] if each else 1 for each in values]


def test_plain_lines_are_left_to_scipy() -> None:
    for field, text in (
        ("real", "1 1 -2\n2 1 1.5e-3\n3 3 .5\n3 1 1.E+2\n"), ("integer", "1 2 -7\n3 3 8"), ("pattern", "1 2\n3 3\n"),
        ("complex", "1 1 -2 1e5\n3 1 0.5 -1e-05"),
    ):  # fmt: skip
        assert entries_of(text.encode(), field, len(text.split("\n")[0].split()), (3, 3)) is not None


@pytest.mark.parametrize("text", [
    "1 1.0 2", "1  1.0", "1. 1 1", "1 1e0 2", "1 +1 2", " 1 1", "1 1 ", "1 1\n1 1 1 1", "1 1 1 1\n1 1",
])  # fmt: skip
@pytest.mark.parametrize("width", [3, 4])
def test_lines_that_scipy_would_read_beyond_their_end_are_not_left_to_it(text: str, width: int) -> None:
    """An index with a point, or an empty one, ends the interpreter there, or moves all numbers by one."""
    lines = "\n".join(line + " 7" * (width - 3) for line in text.split("\n"))
    assert entries_of(lines.encode(), {3: "real", 4: "complex"}[width], width, (9, 9)) is None


PART_NUMBERS = [
    ("real", "3.5.7"), ("real", "3e5-2"), ("real", "3e"), ("real", "3e-"), ("real", "3-5"), ("real", "3e5e2"),
    ("real", "3e5.2"), ("real", "3e-5.2"), ("real", "3 4"), ("integer", "3-5"), ("integer", "3.5"), ("integer", "3e2"),
    ("pattern", "3"), ("complex", "3 4.4.4"), ("complex", "3"),
]  # fmt: skip


@pytest.mark.parametrize("field, wrong", PART_NUMBERS)
def test_a_number_that_is_one_only_in_part_is_told_with_its_line(tmp_path: Path, field: str, wrong: str) -> None:
    good = {"real": " 3.5", "integer": " 3", "complex": " 3 4", "pattern": ""}[field]
    path = tmp_path / "a.mtx"
    path.write_text(f"%%MatrixMarket matrix coordinate {field} general\n9 9 3\n1 1{good}\n2 2 {wrong}\n3 3{good}\n")
    assert f"read_mtx({str(path)!r}): line 4: " in told(FormatError, lambda: sparse.read_mtx(path), 2)


BAD = [
    ("", "this is no Matrix Market file"),
    ("1 1 1\n", "this is no Matrix Market file"),
    ("%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n", "line 1: a matrix in the format 'array'"),
    ("%%MatrixMarket matrix coordinate quaternion general\n2 2 1\n1 1 1\n", "line 1: 'quaternion' is none of real"),
    ("%%MatrixMarket matrix coordinate real general\n% ends\n", "it ends before the line of its sizes"),
    ("%%MatrixMarket matrix coordinate real general\n2 2\n", "line 2: three sizes"),
    ("%%MatrixMarket matrix coordinate real symmetric\n2 3 0\n", "line 2: a symmetric matrix of 2 rows, 3 columns"),
    ("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n\n1 3 1\n", "line 5: column 3 is none of 1 to 2"),
    ("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n0 1 1\n", "line 4: row 0 is none of 1 to 2"),
    ("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n1.5 1 1\n", "line 4: row 1.5 is none of 1 to 2"),
    ("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\nnan 1 1\n", "line 4: row nan is none of 1 to 2"),
    ("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n1 1 x\n", "line 4: column 3 ('value'): 'x' is no"),
    ("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n1 1\n", "line 4: it has 2 fields"),
    ("%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 1\n1 2 1\n", "its head says 3 entries, it has 2"),
    ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1\n1 2 1\n", "its head says 1 entries, it has 2"),
]  # fmt: skip


@pytest.mark.parametrize("ending", [".mtx", ".mtx.gz"])
@pytest.mark.parametrize("text, message", BAD)
def test_mistakes_in_matrix_market_are_told_to_all(tmp_path: Path, text: str, message: str, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    path.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
    found = {told(FormatError, lambda: sparse.read_mtx(path), nprocs) for nprocs in (1, 4)}
    assert len(found) == 1
    assert f"read_mtx({str(path)!r}): {message}" in found.pop()


@pytest.mark.parametrize("nprocs", [1, 3])
def test_files_that_are_missing_or_too_large_are_told_before_they_are_read(tmp_path: Path, nprocs: int) -> None:
    for reader in (sparse.read_mtx, sparse.read_npz, sparse.read_edges):
        assert reader.__name__ in told(NoSuchFile, lambda reader=reader: reader(tmp_path / "none"), nprocs)
    path = tmp_path / "a.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n1000000000 1000000000 90000000000000\n1 1 1\n")

    def main(proc: bsp.Process) -> None:
        with pytest.raises(PlanTooLarge, match=r"with 90000000000000 entries, limit .*; take more processes"):
            sparse.read_mtx(path)
        with pytest.raises(PlanTooLarge, match="for 800000000000001 rows with 1 entries"):
            sparse.read_edges(tmp_path / "a.txt")

    (tmp_path / "a.txt").write_text("0 800000000000000\n")
    bsp.run(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs, memory=2**34))
    with pytest.raises((FileError, bsp.BspError)):
        bsp.run(lambda proc: sparse.write_mtx(tmp_path / "no" / "a.mtx", sparse.eye(3)), nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("name", MATRICES)
@pytest.mark.parametrize("compressed", [True, False])
def test_npz_is_scipys(tmp_path: Path, name: str, compressed: bool, nprocs: int) -> None:
    W = MATRICES[name]
    for form in ("csr", "csc", "coo"):
        path = tmp_path / f"{form}.npz"
        ss.save_npz(path, W.asformat(form), compressed=compressed)
        equal(read(lambda path=path: sparse.load(path), nprocs), W)
    ss.save_npz(tmp_path / "matrix.npz", ss.csr_matrix(W))
    equal(read(lambda: sparse.read_npz(tmp_path / "matrix.npz"), nprocs), W)

    def write(proc: bsp.Process) -> None:
        sparse.save_npz(tmp_path / "own", sparse.from_scipy(W), compressed=compressed)
        sparse.save_npz(tmp_path / "own.T.npz", sparse.from_scipy(W).T, compressed=compressed)

    bsp.run(write, nprocs=nprocs)
    found, other = ss.load_npz(tmp_path / "own.npz"), ss.load_npz(tmp_path / "own.T.npz")
    assert (found.format, other.format, type(found)) == ("csr", "csc", ss.csr_array)
    equal(found, W)
    equal(other, W.T)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_rows_of_npz_may_be_unsorted_and_have_duplicates(tmp_path: Path, nprocs: int) -> None:
    W = ss.csr_array((np.arange(1.0, 6), [2, 0, 1, 1, 1], [0, 2, 5]), shape=(2, 3))
    for each in (W, ss.csc_array((W.data, W.indices, W.indptr), shape=(3, 2))):
        ss.save_npz(tmp_path / "a.npz", each)
        found = read(lambda: sparse.read_npz(tmp_path / "a.npz"), nprocs)
        np.testing.assert_array_equal(found.toarray(), each.toarray())
        assert found.nnz == 3


@pytest.mark.parametrize("nprocs", [1, 3])
def test_reading_rows_of_npz_moves_no_entries(tmp_path: Path, nprocs: int) -> None:
    ss.save_npz(tmp_path / "a.npz", made(200, 200, float))

    def main(proc: bsp.Process) -> tuple[int, ...]:
        return sparse.read_npz(tmp_path / "a.npz").row_bounds

    steps = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs)).per_superstep
    assert max(max(row["h_sent"], row["h_received"]) for row in steps) < 200


def test_damaged_archives_are_told_to_all(tmp_path: Path) -> None:
    W, path = made(30, 20, float), tmp_path / "a.npz"
    members = {"indices": W.indices, "indptr": W.indptr, "format": b"csr", "shape": W.shape, "data": W.data}
    for change, message in [
        ({"indices": W.indices + 15}, "indices"),
        ({"indptr": W.indptr[::-1]}, "does not ascend"),
        ({"indptr": W.indptr[:-3]}, "not integers of shape (31,)"),
        ({"indptr": W.indptr * 2}, "indptr does not fit"),
        ({"data": W.data.astype("U3")}, "not <U3"),
        ({"data": W.data.astype(np.float16)}, "its member data: sparse arrays hold"),
        ({"data": W.data.astype("M8[s]")}, "not datetime64[s]"),
        ({"format": b"dia"}, "a matrix in the format 'dia': csr, csc or coo"),
        ({"shape": (3,)}, "not integers of shape (2,)"),
        ({"shape": (3, 4, 5)}, "an array with 3 axes"),
        ({"shape": (30.5, 20)}, "its member shape is"),
        ({"shape": (-30, 20)}, "its member shape is"),
        ({"indices": W.indices + 0.5}, "its member indices has float64"),
        ({"indptr": np.append(W.indptr, W.nnz)}, "not integers of shape (31,)"),
        ({"data": W.data[:, None]}, "its member data has the shape"),
        ({"format": b"coo", "row": np.zeros(W.nnz + 1, int), "col": W.indices}, "its member row has"),
        ({"format": b"coo", "row": np.zeros(W.nnz, int), "col": W.indices + 15}, "an index along axis 1"),
    ]:
        np.savez(path, **(members | change))
        for nprocs in (1, 3):
            assert message in told(FormatError, lambda: sparse.read_npz(path), nprocs)
    np.savez(path, x=W.data)
    assert "no sparse matrix of scipy: it has x.npy" in told(FormatError, lambda: sparse.read_npz(path), 3)
    ss.save_npz(path, W)
    path.write_bytes(path.read_bytes()[:-30])
    assert "no .npz archive" in told(FormatError, lambda: sparse.read_npz(path), 3)
    path.write_text("text")
    assert "no .npz archive" in told(FormatError, lambda: sparse.read_npz(path), 3)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_edges_read_as_symmetric_have_one_sum_both_ways(tmp_path: Path, nprocs: int) -> None:
    path = tmp_path / "a.txt"
    rng = np.random.default_rng(3)
    np.savetxt(path, np.column_stack([rng.integers(0, 4, (200, 2)), rng.random(200)]), "%d %d %.17g")
    found = read(lambda: sparse.read_edges(path, weights=2, symmetric=True), nprocs).toarray()
    assert np.array_equal(found, found.T)


EDGES = "# a graph\n#\n0 1 0.5\n4\t2 1.5 # last\n\n 3 3 2\n0 1 1\n"


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("ending", [".txt", ".el.gz"])
def test_edges_are_read_from_text(tmp_path: Path, nprocs: int, ending: str) -> None:
    path = tmp_path / f"a{ending}"
    path.write_bytes(gzip.compress(EDGES.encode()) if ending.endswith("gz") else EDGES.encode())
    wanted = np.zeros((5, 5))
    wanted[0, 1], wanted[4, 2], wanted[3, 3] = 1.5, 1.5, 2
    equal(read(lambda: sparse.load(path, weights=2), nprocs), ss.csr_array(wanted))
    both = wanted + wanted.T - np.diag(np.diag(wanted))
    equal(read(lambda: sparse.read_edges(path, weights=2, symmetric=True), nprocs), ss.csr_array(both))
    wanted[0, 1], wanted[4, 2], wanted[3, 3] = 2, 1, 1
    found = read(lambda: sparse.read_edges(path, shape=(5, 9), dtype=int, columns=(0, 1)), nprocs)
    equal(found, ss.csr_array(np.hstack([wanted, np.zeros((5, 4))]).astype(int)))


@pytest.mark.parametrize("nprocs", [1, 3])
def test_comments_of_the_first_lines_are_not_read(tmp_path: Path, nprocs: int) -> None:
    wanted = ss.csr_array(([1.0, 1], ([0, 1], [1, 1])), shape=(2, 2))
    path = tmp_path / "a.txt"
    for text in ("0 1 # x\n1 1\n", "\n# a\nfrom to # these\n0 1\n1 1", "\ufeff# a\n0 1\n1 1\n", "\ufeff0 1 # x\n1 1\n"):
        for encoding in ("utf-8", "utf-16"):
            path.write_bytes(text.removeprefix("\ufeff" * (encoding == "utf-16")).encode(encoding))
            equal(read(lambda: sparse.read_edges(path), nprocs), wanted)
    path.write_text("# a\n0 1 # x\n1 1 1\n")
    assert "line 3: it has 3 fields, the first line has 2" in told(FormatError, lambda: sparse.read_edges(path), nprocs)
    path.write_text("# a\n0 \0 # x\n")
    assert "line 2 has NUL characters" in told(FormatError, lambda: sparse.read_edges(path), nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_edges_are_read_from_tables(tmp_path: Path, nprocs: int) -> None:
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    rng = np.random.default_rng(1)
    source, target, weight = rng.integers(1, 31, 200), rng.integers(1, 31, 200), rng.integers(1, 9, 200)
    wanted = ss.coo_array((weight.astype(float), (source - 1, target - 1)), shape=(30, 30)).tocsr()
    text = "to,what,from,weight\n" + "".join(f"{t},x,{s},{w}\n" for s, t, w in zip(source, target, weight, strict=True))
    (tmp_path / "a.csv").write_text(text)
    columns = {"to": target, "from": source, "weight": weight}
    for rows in (7, 1000):
        parquet.write_table(pyarrow.table(columns), tmp_path / f"{rows}.parquet", row_group_size=rows)
    names: dict[str, Any] = {"columns": ("from", "to"), "weights": "weight", "base": 1, "shape": (30, 30)}
    for path in ("a.csv", "7.parquet", "1000.parquet"):
        equal(read(lambda path=path: sparse.read_edges(tmp_path / path, **names), nprocs), wanted)
    equal(read(lambda: sparse.read_edges(tmp_path / "7.parquet", columns=(1, 0), weights=2, base=1), nprocs),
          wanted)  # fmt: skip
    parquet.write_table(pyarrow.table(columns | {"to": target - 5}), tmp_path / "b.parquet")
    at = int(np.flatnonzero(target < 6)[0]) + 1
    assert f"row {at}: column " in told(FormatError, lambda: sparse.read_edges(tmp_path / "b.parquet", **names), nprocs)
    assert "no column 'x'; there are to, from, weight" in told(
        FormatError, lambda: sparse.read_edges(tmp_path / "7.parquet", columns=("x", "to")), nprocs
    )


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("text", ["", "\n\n", "# from to\n", "# from to", "from to\n"])
@pytest.mark.parametrize("ending", [".txt", ".txt.gz"])
def test_a_list_of_no_edges_is_an_empty_matrix_of_a_given_shape(
    tmp_path: Path, text: str, ending: str, nprocs: int
) -> None:
    path = tmp_path / f"a{ending}"
    path.write_bytes(gzip.compress(text.encode()) if ending.endswith("gz") else text.encode())
    equal(read(lambda: sparse.load(path, shape=(3, 3)), nprocs), ss.csr_array((3, 3)))
    equal(read(lambda: sparse.load(path, shape=(3, 4), weights=1), nprocs), ss.csr_array((3, 4)))
    found = read(lambda: sparse.read_coordinates(path, (0, 1), shape=(3, 4)), nprocs)
    assert (found.shape, found.nnz) == ((3, 4), 0)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_mistakes_in_edges_are_told_with_their_line(tmp_path: Path, nprocs: int) -> None:
    path = tmp_path / "a.txt"
    for text, options, message in [
        ("# x\n0 1\n1 -2\n", {}, "line 3: column -2 is none of 0 to"),
        ("0 1\n\n1 7 # y\n", {"shape": (5, 5)}, "line 3: column 7 is none of 0 to 4"),
        ("1 1\n# z\n0 1\n", {"base": 1}, "line 3: row 0 is none of 1 to"),
        (
            "0 1\n2 x\n",
            {"header": False},
            "line 2: column 2 ('c1'): 'x' is no integer; where vertices have names, bsp.g",
        ),
        (
            "a b\nx y\n",
            {},
            "line 2: column 1 ('a'): 'x' is no integer; where vertices have names, bsp.graphs.read_named_",
        ),
        ("0 1 2\n# 5\n0 1\n", {"weights": 2}, "line 3: it has 2 fields, the first line has 3"),
        ("0 1\n", {"weights": 2}, "there is no column 2; there are 2"),
        ("# only\n", {}, "it has no data: 1 line"),
    ]:
        path.write_text(text)
        assert message in told(FormatError, lambda options=options: sparse.read_edges(path, **options), nprocs)
    with pytest.raises((ValueError, bsp.BspError), match="base=2"):
        bsp.run(lambda proc: sparse.read_edges(path, base=2), nprocs=nprocs)


@given(st.data())
@examples(20)
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("sparse")
    n, m = data.draw(st.integers(0, 7)), data.draw(st.integers(0, 7))
    count = data.draw(st.integers(0, 9)) if n and m else 0
    kind = data.draw(st.sampled_from([np.float64, np.float32, np.int64, np.complex128, bool, np.uint8]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    W = ss.coo_array(
        (rng.normal(size=count).astype(kind), (rng.integers(0, max(n, 1), count), rng.integers(0, max(m, 1), count))),
        shape=(n, m),
    ).tocsr()
    nprocs = data.draw(st.integers(1, 4))

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(W)
        for each in (A, A.T):
            sparse.save_npz(folder / "a.npz", each)
            sparse.write_mtx(folder / "a.mtx", each)
            equal(sparse.load(folder / "a.npz").compute(), each.compute())
            market = sparse.load(folder / "a.mtx")
            np.testing.assert_array_equal(market.compute().toarray(), each.compute().toarray())
            assert market.nnz == each.nnz

    bsp.run(main, nprocs=nprocs)


# ------------------------------------------------------------------------------- any number of axes


def tensor(shape: tuple[int, ...], dtype: Any = float) -> ss.coo_array:
    rng = np.random.default_rng(4)
    values = rng.integers(-9, 10, shape) * (rng.random(shape) < 0.3) / (7 if np.dtype(dtype).kind == "f" else 1)
    return ss.coo_array(values.astype(dtype))


@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("nprocs", PROCESSES)
def test_npz_of_any_number_of_axes_is_scipys(tmp_path: Path, compressed: bool, nprocs: int) -> None:
    for k, whole in enumerate([tensor((4, 5, 6)), tensor((3, 0, 2)), tensor((9,)), tensor((2, 3, 2, 5), np.int32),
                               tensor((5, 7))]):  # fmt: skip
        theirs, ours = tmp_path / f"{k}.npz", tmp_path / f"{k}-own.npz"
        ss.save_npz(theirs, whole, compressed=compressed)

        def main(proc: bsp.Process) -> Any:
            found = sparse.load(theirs)
            if whole.ndim == 2:
                assert isinstance(found, sparse.SparseArray)
            sparse.save_npz(ours, found.tocoo(), compressed=compressed)
            again = sparse.read_npz(ours)
            return found.compute(), again.compute()

        for found in bsp.run(main, nprocs=nprocs)[-1]:
            equal(found, whole)
        equal(ss.load_npz(ours), whole)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_lists_of_coordinates_have_a_column_for_each_axis(tmp_path: Path, nprocs: int) -> None:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    whole = tensor((4, 5, 6))
    lines = ["# made by a test"]
    lines += [f"{i + 1} {j + 1} {k + 1} {v!r}" for i, j, k, v in zip(*whole.coords, whole.data.tolist(), strict=True)]
    text, table = tmp_path / "a.tns", tmp_path / "a.parquet"
    text.write_text("\n".join(lines) + "\n")
    columns = dict(zip("ijk", whole.coords, strict=True))
    pq.write_table(pa.table({"v": whole.data, **columns}), table, row_group_size=7)

    def main(proc: bsp.Process) -> Any:
        listed = sparse.read_coordinates(text, (0, 1, 2), 3, base=1, shape=(4, 5, 6))
        rows = sparse.read_coordinates(table, ("i", "j", "k"), "v")
        counted = sparse.read_coordinates(text, (2, 0), base=1, dtype=np.int64)
        assert (counted.shape, counted.sum().compute()) == ((6, 4), whole.nnz)
        return listed.compute(), rows.compute()

    for found in bsp.run(main, nprocs=nprocs)[-1]:
        np.testing.assert_array_equal(found.toarray(), whole.toarray()[tuple(map(slice, found.shape))])
        assert found.nnz == whole.nnz


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_null_is_no_integer(tmp_path: Path, nprocs: int) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="Parquet takes pyarrow")
    pa, path = pytest.importorskip("pyarrow"), tmp_path / "a.parquet"
    for value, message in ((None, "the value nan is none of int64"), (1.5, "the value 1.5 is none of int64")):
        parquet.write_table(pa.table({"i": [0, 1], "v": [1.0, value]}), path)
        read = lambda: sparse.read_coordinates(path, ("i",), "v", dtype=int)  # noqa: E731
        assert message in told(FormatError, read, nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_vector_that_scipy_wrote_as_csr_has_one_axis(tmp_path: Path, nprocs: int) -> None:
    path = tmp_path / "a.npz"
    W = np.array([0.0, 2.0, 0.0, 3.0, 5.0])
    np.savez(path, indices=[1, 3, 4], indptr=[0, 3], format=b"csr", shape=(5,), data=W[[1, 3, 4]])  # as scipy 1.15 does
    for found in bsp.run(lambda proc: sparse.read_npz(path).todense().compute(), nprocs=nprocs):
        np.testing.assert_array_equal(found, W)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_mistakes_in_files_of_coordinates_have_their_places(tmp_path: Path, nprocs: int) -> None:
    path = tmp_path / "a.tns"
    path.write_text("1 1 1 2.5\n1 1 7 1\n2 x 1 1\n")
    for shape, message in (((4, 5, 6), "line 2: coordinate 2 7 is none of 1 to 6"), (None, "line 3")):
        read = lambda: sparse.read_coordinates(path, (0, 1, 2), 3, base=1, shape=shape)  # noqa: E731
        path.write_text("1 1 1 2.5\n1 1 7 1\n2 x 1 1\n" if shape is None else "1 1 1 2.5\n1 1 7 1\n")
        assert message in told(FormatError, read, nprocs)
    with pytest.raises(ValueError, match=r"2 columns of coordinates for shape=.*: one for each axis"):
        bsp.run(lambda proc: sparse.read_coordinates(path, (0, 1), shape=(1, 2, 3)), nprocs=1)
    npz = tmp_path / "a.npz"
    np.savez(npz, coords=np.zeros((2, 4), int), data=np.ones(4), shape=np.array([2, 2, 2]), format=np.array(b"coo"))
    message = "not integers of shape (3, 4)"
    assert message in told(FormatError, lambda: sparse.read_npz(npz), nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_indices_that_floats_may_have_rounded_are_refused(tmp_path: Path, nprocs: int) -> None:
    path, large = tmp_path / "a.txt", 2**53 + 1
    for base in (0, 1):
        options: dict[str, Any] = {"values": 2, "base": base, "shape": (4, 2**60)}
        path.write_text(f"1 {large} 2\n2 {2**53 - 1} 3\n")
        message = f"line 1: coordinate 1 {2**53} is none of {base} to {2**53 - 1}"
        assert message in told(FormatError, lambda: sparse.read_coordinates(path, (0, 1), **options), nprocs)
        read = lambda proc: sparse.read_coordinates(path, (0, 1), dtype=int, **options).compute()  # noqa: E731
        for found in bsp.run(read, nprocs=nprocs):
            assert [*found.coords[1]] == [large - base, 2**53 - 1 - base]
        path.write_text(f"2 {2**53 - 1} 1.5\n")
        for found in bsp.run(lambda proc: sparse.read_coordinates(path, (0, 1), **options).compute(), nprocs=nprocs):
            assert [*found.coords[1]] == [2**53 - 1 - base]


@pytest.mark.parametrize("nprocs", [1, 3])
def test_unsigned_integers_are_written_and_read_as_scipy_does(tmp_path: Path, nprocs: int) -> None:
    W = np.array([[0, 2**64 - 1], [2**63, 0], [7, 0]], np.uint64)
    scipy.io.mmwrite(tmp_path / "theirs.mtx", ss.coo_array(W))

    def main(proc: bsp.Process) -> list[Any]:
        sparse.write_mtx(tmp_path / "ours.mtx", sparse.from_scipy(W))
        return [sparse.read_mtx(tmp_path / name).compute().toarray() for name in ("ours.mtx", "theirs.mtx")]

    ours = bsp.run(main, nprocs=nprocs)[0]
    for found in [scipy.io.mmread(tmp_path / "ours.mtx").toarray(), *ours]:
        np.testing.assert_array_equal(found, W)
        assert found.dtype == np.uint64


def test_a_size_that_no_integer_holds_is_a_mistake_in_the_head(tmp_path: Path) -> None:
    path = tmp_path / "a.mtx"
    path.write_text("%%MatrixMarket matrix coordinate real general\n99999999999999999999 2 1\n1 1 1\n")
    assert "line 2: sizes are at most 9223372036854775807" in told(FormatError, lambda: sparse.read_mtx(path), 2)
