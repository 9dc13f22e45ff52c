"""Sparse arrays are what scipy's are, whatever p and the pattern; a product moves the far columns' elements alone."""

from __future__ import annotations

import operator
import pickle
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as ss
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays import sparse

PROCESSES = (1, 2, 3, 5, 8)


def matrix(seed: int, n: int, m: int, density: float, dtype: Any = float) -> ss.csr_array:
    rng = np.random.default_rng(seed)
    values = rng.integers(-4, 5, (n, m))
    return ss.csr_array((values * (rng.random((n, m)) < density)).astype(dtype))


CASES = [
    (0, 30, 30, 0.2), (1, 7, 31, 0.3), (2, 40, 6, 0.2), (3, 3, 3, 0.6), (4, 12, 12, 0.0), (5, 20, 20, 1.0),
    (6, 1, 9, 0.5),
]  # fmt: skip


def same(found: Any, wanted: Any) -> None:
    found = found.compute() if hasattr(found, "compute") else found
    found = found.toarray() if ss.issparse(found) else found
    wanted = wanted.toarray() if ss.issparse(wanted) else wanted
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
    assert np.asarray(found).dtype == np.asarray(wanted).dtype


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("case", CASES)
def test_operators_and_reductions_are_scipys(case: tuple[int, int, int, float], nprocs: int) -> None:
    W = matrix(*case)
    D, (n, m) = W.toarray(), W.shape
    rng = np.random.default_rng(9)
    x, z, X = rng.normal(size=m), rng.normal(size=n), rng.normal(size=(m, 3))
    V, Z = matrix(case[0] + 50, n, m, 0.3), np.stack([z, z], 1)

    def main(proc: bsp.Process) -> None:
        A, B = sparse.from_scipy(W), sparse.from_scipy(V)
        assert (A.shape, A.nnz, A.dtype) == (W.shape, W.nnz, W.dtype)
        for found, wanted in [
            (A, W), (A.T, W.T), (A.todense(), D), (A.T.todense(), D.T),
            (A @ x, D @ x), (A @ X, D @ X), (A.T @ z, D.T @ z), (z @ A, z @ D), (A.T @ Z, D.T @ Z),
            (2 * (A @ x) + 1, 2 * (D @ x) + 1), (A * 2, W * 2), (-A, -W), (abs(A), abs(W)), (A / 4, W / 4),
            (np.sqrt(abs(A)), np.sqrt(abs(W))), (A * x, D * x), (A * z[:, None], D * z[:, None]), (A.T * z, D.T * z),
            (A * (D + 1), D * (D + 1)), (A.T * (D + 1).T, (D * (D + 1)).T),
            (A + B, W + V), (A - B, W - V), (A * B, W.multiply(V)), (A.T + B.T, (W + V).T), (A + B.T.T, W + V),
            (A + D, D + D), (D - A, D - D), (A @ B.T, W @ V.T), (A.T @ B, W.T @ V), (A.T.tocsr() @ B, W.T @ V),
            (A @ V.T, W @ V.T), (A.tocsc(), W), (A.diagonal(), W.diagonal()), (A.trace(), W.diagonal().sum()),
            (A.power(2), W.power(2)), (A**3, W**3), (A.astype(np.float32), W.astype(np.float32)),
            (A.count_nonzero(), np.int64(W.count_nonzero())), (A.vector(x), x), (A.T.vector(z), z),
        ]:  # fmt: skip
            same(found, wanted)
        for axis in (None, 0, 1, -1):
            for name in ("sum", "mean", "max", "min"):
                same(getattr(A, name)(axis), getattr(D, name)(axis))
                same(getattr(np, name)(A, axis=axis), getattr(D, name)(axis))
                if axis is not None:
                    same(getattr(A.T, name)(axis), getattr(D.T, name)(axis))

    bsp.run(main, nprocs=nprocs)


@given(st.data())
@examples(60)
def test_positions_of_extremes_are_numpys(data: st.DataObject) -> None:
    nprocs, kind = data.draw(st.integers(1, 5)), data.draw(st.sampled_from([float, np.int8, np.uint16, bool, complex]))
    shape = data.draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    values = {
        "f": [0.0, -0.0, 1.0, -1.0, np.nan, -np.inf], "i": [0, 1, -1, -128], "u": [0, 1, 9], "b": [0, 1],
        "c": [0, 1, 1j, -1, 1 - 1j],
    }[np.dtype(kind).kind]  # fmt: skip
    drawn = data.draw(st.lists(st.sampled_from(values), min_size=shape[0] * shape[1], max_size=shape[0] * shape[1]))
    there = data.draw(st.lists(st.booleans(), min_size=len(drawn), max_size=len(drawn)))
    i, j = np.nonzero(np.array(there).reshape(shape))
    W = ss.csr_array((np.array(drawn, kind).reshape(shape)[i, j], (i, j)), shape=shape)  # has stored zeros
    D = W.toarray()

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(W)
        for name in ("argmax", "argmin"):
            for axis in (None, 0, 1, -1):
                same(getattr(A, name)(axis), getattr(D, name)(axis))
                same(getattr(np, name)(A.T, axis=axis), getattr(D.T, name)(axis))

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_matrices_take_other_shapes(nprocs: int) -> None:
    W = matrix(3, 6, 8, 0.3)
    D = W.toarray()

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(W)
        for shape in ((4, 12), (48, 1), (-1, 3), (2, 3, 8), (48,)):
            same(A.reshape(*shape), D.reshape(shape))
            same(A.T.reshape(shape), D.T.reshape(shape))
        assert A.reshape(4, 12).format == "csr"
        with pytest.raises(ba.ArrayError, match="reshape"):
            A.reshape(5, 5)
        for axis in (None, 0):
            with pytest.raises(ValueError, match="no elements"):
                sparse.from_scipy(ss.csr_array((0, 3))).argmax(axis)
        same(sparse.from_scipy(ss.csr_array((0, 3))).argmin(1), np.zeros(0, np.int64))

    bsp.run(main, nprocs=nprocs)


KEYS: list[Any] = [
    slice(2, 20), (slice(None), slice(1, 25)), slice(None, None, -1), (slice(None, None, 3), slice(4, None, 2)), 3,
    (slice(None), 4), np.array([5, 0, 5, 2]), (slice(None), np.array([1, -1, 7])), np.arange(30) % 3 == 0,
    (np.arange(30) % 2 == 0, slice(0, 0)),
]  # fmt: skip


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_parts_are_scipys(nprocs: int) -> None:
    W = matrix(0, 30, 30, 0.2)

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(W)
        for key in KEYS:
            wanted = W.toarray()[key]
            same(A[key], np.atleast_2d(wanted).reshape(A[key].shape))
            same(A.T[key], np.atleast_2d(W.toarray().T[key]).reshape(A.T[key].shape))
        assert A[-1, 7] == W[-1, 7]
        for wrong in (30, (0, 30), np.array([30]), np.zeros(29, bool)):
            with pytest.raises(IndexError):
                A[wrong]

    bsp.run(main, nprocs=nprocs)


PAIRS: list[tuple[Any, Any]] = [
    ([0, 1], [1, 2]), ([3, 3, -1, 0], [5, 5, -2, 0]), ([2], [0, 4, 5]), ([0, 6, 6], [-1]),
    (np.array([4]), np.array([3])), ([], []),
    (np.arange(7) % 3 == 0, [0, 1, 2]), (np.arange(7) < 2, np.arange(6) > 3), (np.arange(7) < 0, []),
    (np.arange(40) % 7, np.arange(40) % 6), (range(6), range(6)),
]  # fmt: skip


@pytest.mark.parametrize("nprocs", [1, 2, 3])
@pytest.mark.parametrize("dtype", [float, np.int8, bool, complex])
def test_two_vectors_of_positions_are_pairs(dtype: Any, nprocs: int) -> None:
    """Two vectors of positions are pairs, as in scipy.sparse and NumPy; the result is a dense vector."""
    W = matrix(11, 7, 6, 0.5, dtype)
    D = W.toarray()

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(W)
        for rows, columns in PAIRS:
            wanted = W[rows, columns]
            assert isinstance(A[rows, columns], ba.Array)
            same(A[rows, columns], np.asarray(wanted.toarray() if ss.issparse(wanted) else wanted, dtype))
            same(A.T[columns, rows], D.T[columns, rows])
            same((A * 2)[rows, columns], (D * 2)[rows, columns])
        same(A[ba.asarray([0, 1]), ba.asarray([1, 2])] + 1, D[[0, 1], [1, 2]] + 1)
        for wrong in [([0, 1], [0, 1, 2]), ([0, 7], [0, 1]), ([0, 1], [0, 6]), (np.ones(6, bool), [0])]:
            for array in (A, W, D):
                with pytest.raises(IndexError):
                    array[wrong]
        with pytest.raises(IndexError, match=r"a\[np.ix_\(rows, columns\)\] is the block of all of them"):
            A[[0, 1], [0, 1, 2]]

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_open_grids_of_positions_are_blocks(nprocs: int) -> None:
    W = matrix(12, 7, 6, 0.5)
    D = W.toarray()

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(W)
        for rows, columns in [([0, 1], [1, 2]), ([5, 0, 5], [2]), ([], [1]), (np.arange(7) % 2 == 0, [3, -1])]:
            found = A[np.ix_(rows, columns)]
            assert isinstance(found, sparse.SparseArray)
            same(found, D[np.ix_(rows, columns)])
            same(A.T[np.ix_(columns, rows)], D.T[np.ix_(columns, rows)])
        for wrong in [(np.zeros((2, 2), int), [0, 1]), ([[0], [1]], [0, 1]), ([[0, 1]], [[0], [1]])]:
            with pytest.raises(IndexError, match=r"two vectors for pairs, or np\.ix_"):
                A[wrong]

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 3])
def test_comparisons_are_refused_alike(nprocs: int) -> None:
    """They would fill the array; `==` gave one bool, which says whether both are the same object."""
    W = matrix(13, 5, 5, 0.5)

    def main(proc: bsp.Process) -> None:
        A, B = sparse.from_scipy(W), sparse.from_scipy(W)
        compared: list[Callable[[Any, Any], Any]] = [
            operator.eq, operator.ne, operator.gt, operator.ge, operator.lt, operator.le,
        ]  # fmt: skip
        for a, b in [(A, 0), (0, A), (A, B), (A, A), (A, ba.ones((5, 5))), (ba.ones((5, 5)), A), (A.tocoo(), 1)]:
            for compare in compared:
                with pytest.raises(TypeError, match=r"not supported between instances of"):
                    compare(a, b)
        with pytest.raises(
            TypeError, match=r"^'==' not .* 'SparseArray' and 'int': compare a.todense\(\), or the stored"
        ):
            A == 0  # noqa: B015
        with pytest.raises(TypeError, match=r"^'>' not .* 'SparseArray' and 'float': .*, as a.kept\(a.entries > 0.5\)"):
            A[A > 0.5]
        same(A.kept(A.entries > 0.5), W.multiply(W > 0.5))
        for product in (lambda: W @ A, lambda: W * A):  # scipy asks NumPy first
            with pytest.raises(TypeError, match=r"beside a matrix W of scipy's, sparse\.from_scipy\(W\)"):
                product()
        assert {A: 1, B: 2}[A] == 1  # by identity
        same(A.todense() == 0, W.toarray() == 0)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex128, bool])
def test_triples_of_all_processes_are_summed(nprocs: int, dtype: Any) -> None:
    rng = np.random.default_rng(3)
    rows, columns = rng.integers(0, 25, 200), rng.integers(0, 40, 200)
    values = rng.integers(0, 2, 200).astype(dtype) * dtype(1)
    wanted = ss.coo_array((values, (rows, columns)), shape=(25, 40)).tocsr()

    def main(proc: bsp.Process) -> None:
        mine = slice(proc.pid, None, proc.nprocs)
        A = sparse.from_coo(rows[mine], columns[mine], values[mine], (25, 40))
        same(A, wanted)
        assert A.compute().indices.tolist() == wanted.indices.tolist()
        if proc.nprocs > 1:
            assert max(np.diff(A._pattern.outline.entries)) <= 2 * wanted.nnz / proc.nprocs + 40

    bsp.run(main, nprocs=nprocs)


def test_rows_are_dealt_by_entries() -> None:
    """A row that is longer than an even share is one process's alone; the others share the rest."""

    def main(proc: bsp.Process) -> Any:
        rows = np.concatenate([np.zeros(4000, int), np.arange(1, 1001)])
        columns = np.concatenate([np.arange(4000), np.zeros(1000, int)])
        none = np.zeros(0, int)
        A = sparse.from_coo(*((rows, columns, np.ones(5000)) if proc.pid == 0 else (none, none, none)), (4000, 4000))
        return A.row_bounds, np.diff(A._pattern.outline.entries).tolist()

    bounds, entries = bsp.run(main, nprocs=4)[0]
    assert bounds[1] == 1
    assert entries[0] == 4000
    assert sum(entries) == 5000


def moved(main: Callable[[bsp.Process], Any], nprocs: int) -> list[tuple[str, int]]:
    rows = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs)).per_superstep
    return [(row["call"], max(row["h_sent"], row["h_received"])) for row in rows]


@pytest.mark.parametrize("nprocs", [2, 4, 7])
def test_a_repeated_product_is_one_superstep_with_one_word_for_each_far_column(nprocs: int) -> None:
    W = matrix(11, 60, 60, 0.1)
    bounds: list[Any] = []

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(W)
        x = ba.asarray(np.ones(60), grid=(proc.nprocs,))
        (A @ x).persist()
        y = (A @ x).persist()
        for _ in range(3):
            y = (A @ y).persist()
        bounds[:] = A.row_bounds

    steps = moved(main, nprocs)
    owner = np.searchsorted(bounds, np.arange(60), side="right") - 1
    pairs = {(owner[i], j) for i, j in zip(*W.nonzero(), strict=True) if owner[i] != owner[j]}
    received = max(np.bincount([p for p, _ in pairs], minlength=nprocs))
    sent = max(np.bincount([owner[j] for _, j in pairs], minlength=nprocs))
    assert [h for call, h in steps[-3:] if "sparse product" in call] == [max(received, sent)] * 3


def test_a_plan_of_dense_and_sparse_terms_is_lazy_and_shares_supersteps() -> None:
    """The sum of a product's elements and another sum end in the same superstep; nothing ran before."""

    def main(proc: bsp.Process) -> Any:
        A = sparse.from_scipy(matrix(1, 50, 50, 0.2))
        x = (A @ ba.ones(50)).persist()  # dealt as the rows of A
        before = proc.superstep
        total, other = (A @ x * 2 + x).sum(), (x * x).sum()
        assert proc.superstep == before
        return str(ba.explain(total, other))

    plan = bsp.run(main, nprocs=4)[0]
    assert "2 supersteps" in plan
    assert "sparse product" in plan


@given(st.data())
@examples(25)
def test_any_pattern_on_any_bounds(data: st.DataObject) -> None:
    nprocs = data.draw(st.integers(1, 5))
    n, m = data.draw(st.integers(0, 9)), data.draw(st.integers(0, 9))
    count = data.draw(st.integers(0, 12)) if n and m else 0
    rows = np.array(data.draw(st.lists(st.integers(0, max(n - 1, 0)), min_size=count, max_size=count)), int)
    columns = np.array(data.draw(st.lists(st.integers(0, max(m - 1, 0)), min_size=count, max_size=count)), int)
    cuts = sorted(data.draw(st.lists(st.integers(0, n), min_size=nprocs - 1, max_size=nprocs - 1)))
    D = np.zeros((n, m))
    np.add.at(D, (rows, columns), 1.0 + np.arange(count))

    def main(proc: bsp.Process) -> None:
        mine = slice(proc.pid, None, proc.nprocs)
        A = sparse.from_coo(rows[mine], columns[mine], (1.0 + np.arange(count))[mine], (n, m), bounds=(0, *cuts, n))
        same(A, D)
        same(A @ np.arange(m, dtype=float), D @ np.arange(m))
        same(A.T @ np.arange(n, dtype=float), D.T @ np.arange(n))
        same(A.T @ A, D.T @ D)
        same(A @ A.T, D @ D.T)
        same(A.T.tocsr(), D.T)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_what_is_made_of_formulas(nprocs: int) -> None:
    def main(proc: bsp.Process) -> Any:
        same(sparse.eye(7, 9, k=2), np.eye(7, 9, 2))
        D = ss.diags_array([[1.0, 2, 3], [4.0, 5, 6, 7], np.full(3, 9.0)], offsets=[-1, 0, 1])
        same(sparse.diags([[1.0, 2, 3], [4.0, 5, 6, 7], 9.0], offsets=[-1, 0, 1], shape=(4, 4)), D)
        return sparse.random(300, 200, density=0.05, seed=4).compute()

    found = bsp.run(main, nprocs=nprocs)[0]
    again = bsp.run(main, nprocs=4)[0]
    assert (found != again).nnz == 0  # values do not depend on p
    assert abs(found.nnz / (300 * 200) - 0.05) < 0.005


@pytest.mark.parametrize("nprocs", [1, 3])
def test_extremes_of_complex_numbers_and_of_no_elements_are_numpys(nprocs: int) -> None:
    D = matrix(3, 6, 5, 0.6, complex).toarray() * (1 - 2j)
    D[2] = 1 + np.arange(5) * 1j  # a full row

    def main(proc: bsp.Process) -> None:
        A, nothing = sparse.from_scipy(D), sparse.from_scipy(np.zeros((0, 0)))
        for name in ("max", "min"):
            for axis in (None, 0, 1):
                for B in (A, A.tocoo()):
                    same(getattr(B, name)(axis), getattr(D, name)(axis))
                for B in (nothing, nothing.tocoo()):
                    with pytest.raises(ValueError, match=r"zero-size array of shape \(0, 0\)"):
                        getattr(B, name)(axis)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_kronecker_product_without_entries_keeps_the_element_type(nprocs: int) -> None:
    W = ss.csr_array((3, 2), dtype=np.int32)

    def main(proc: bsp.Process) -> Any:
        return sparse.kron(sparse.from_scipy(W), np.eye(2, dtype=np.int8)).dtype

    assert bsp.run(main, nprocs=nprocs) == [np.dtype(np.int32)] * nprocs


@pytest.mark.parametrize("density", [0, 1e-300, 0.001, 0.3, 0.7, 1])
def test_a_random_matrix_has_the_density_that_is_asked_for(density: float) -> None:
    m, n = 600, 100

    def main(proc: bsp.Process) -> Any:
        assert sparse.random(m, 0, density=density).nnz == sparse.random(0, n, density=density).nnz == 0
        with pytest.raises(ba.ArrayError, match=r"dtype int64: numbers in \[0, 1\) would all be 0"):
            sparse.random(3, 3, dtype=np.int64)
        with pytest.raises(ba.ArrayError, match="seed=-1"):
            sparse.random(3, 3, seed=-1)
        return sparse.random(m, n, density=density, seed=1).compute()

    found = bsp.run(main, nprocs=3)[0]
    assert abs(found.nnz - density * m * n) <= 4 * np.sqrt(m * n * density * (1 - density))
    assert np.diff(found.indptr).max() <= n and found.has_canonical_format
    if density == 0.3:  # rows and columns alike
        by_column = np.bincount(found.indices, minlength=n)
        assert abs(by_column - density * m).max() <= 4.5 * np.sqrt(m * density * (1 - density))


@pytest.mark.parametrize("nprocs", [1, 3])
def test_mistakes_are_told(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        A = sparse.eye(5)
        for wrong, text in [
            (lambda: A @ np.ones(4), r"shapes \(5, 5\) and \(4,\) do not fit"),
            (lambda: A + sparse.eye(4), "not the same"),
            (lambda: A + 1, "would fill the array"),
            (lambda: np.exp(A), "would fill"),
            (lambda: sparse.from_coo([0, 5], [0, 0], 1.0, (5, 5)), "index 5 is out of range for length 5"),
            (lambda: sparse.from_coo([0], [-1], 1.0, (5, 5)), "index -1 is out of range"),
            (lambda: sparse.from_coo([0], [0, 1], 1.0, (5, 5)), "1 rows, 2 columns"),
            (lambda: sparse.from_coo([0.5], [0], 1.0, (5, 5)), "integers, not float64"),
            (lambda: sparse.from_coo([0], [0], 1.0, (3, 5, 6)), r"from_coo: shape \(3, 5, 6\): the numbers of rows"),
            (lambda: sparse.from_coo([0], [0], 1.0, (3, 2**70)), "integers from 0"),
            (lambda: sparse.from_coo([np.nan], [0], 1.0), "integers, not float64"),
            (lambda: sparse.from_coo(([np.nan], [0]), 1.0), "integers, not float64"),
            (lambda: sparse.from_coo(([0], [0]), 1.0, shape=(1.5, 3)), r"shape \(1.5, 3\): lengths of axes"),
            (lambda: sparse.diags([]), "diags of no diagonals"),
            (lambda: sparse.diags([1, [2, 3]], offsets=[0, 1], shape=(2, 2)), "has 1 elements, not 2"),
            (lambda: sparse.eye(-2), r"shape \(-2, -2\)"),
            (lambda: sparse.random(3, 3, density=2), "from 0 to 1"),
            (lambda: A.sum(2), "axis 2"),
            (lambda: np.sum(A, out=np.zeros(())), "take no out="),
            (lambda: len(A), "use nnz"),
        ]:
            with pytest.raises((ba.ArrayError, TypeError, bsp.BspError), match=text):
                wrong()

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("dtype", [object, np.float16, "M8[s]", "m8[s]", "U1"])
def test_element_types_that_scipy_does_not_hold_are_refused(dtype: Any) -> None:
    values = np.array([1, 2]).astype(dtype)

    def main(proc: bsp.Process) -> None:
        makers: list[Callable[[], Any]] = [
            lambda: sparse.from_coo([0, 1], [0, 1], values, (2, 2)),
            lambda: sparse.from_coo(([0, 1], [0, 1]), values, shape=(2, 2)),
            lambda: sparse.from_scipy(values.reshape(1, 2)), lambda: sparse.from_local(values.reshape(1, 2)),
            lambda: sparse.as_coo(values), lambda: sparse.diags([values]),
        ]  # fmt: skip
        if np.dtype(dtype).kind in "fmM":
            makers.append(lambda: sparse.eye(3).astype(dtype))
        for make in makers:
            with pytest.raises(ba.ArrayError, match=f"32 bits or more, not {re.escape(str(values.dtype))}"):
                make()

    bsp.run(main, nprocs=2)


def test_arrays_move_as_pickles() -> None:
    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(matrix(0, 30, 30, 0.2))
        (A @ np.ones(30)).persist()
        B = pickle.loads(pickle.dumps(A))
        assert B._pattern.outline is A._pattern.outline
        before = proc.superstep
        same((B @ ba.ones(30)).persist(), matrix(0, 30, 30, 0.2).sum(1))
        assert proc.superstep - before <= 3

    bsp.run(main, nprocs=3)


VIEWS: dict[str, Callable[[], Any]] = {
    "a repeated number": lambda: ba.broadcast_to(ba.asarray(2.0), (5,)),
    "a repeated result": lambda: ba.broadcast_to(ba.asarray(2.0) + 1, (5,)),
    "repeated rows": lambda: ba.broadcast_to(ba.arange(3) * 1.0, (5, 3)),
    "repeated columns": lambda: ba.broadcast_to((ba.arange(5) * 1.0)[:, None], (5, 3)),
    "every other": lambda: (ba.arange(10) * 1.0)[::2],
    "backwards": lambda: (ba.arange(5) * 1.0)[::-1],
    "a transpose": lambda: (ba.arange(15).reshape(3, 5) * 1.0).T,
    "a dealt transpose": lambda: ba.asarray(np.arange(15.0).reshape(3, 5), grid=(1, 2)).T,
    "a reversed axis": lambda: (ba.arange(15).reshape(5, 3) * 1.0)[:, ::-1],
    "no columns": lambda: ba.zeros((5, 0)),
}


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_operands_may_be_views_of_any_kind(nprocs: int) -> None:
    W = matrix(3, 8, 5, 0.4)
    T = W.T.tocsr()

    def main(proc: bsp.Process) -> None:
        A, B = sparse.from_scipy(W), sparse.from_scipy(T)
        for name, make in VIEWS.items():
            x = make().compute()
            for found, wanted in (
                (A @ make(), W @ x), (B.T @ make(), W @ x), (make().T @ B, x.T @ T),
                (A.dot(make(), multiply=lambda a, b: a * b), W @ x),
                (A * make().T if x.ndim == 1 else (make().T @ B).T, W.multiply(x) if x.ndim == 1 else W @ x),
            ):  # fmt: skip
                found = found.compute()
                found = found.toarray() if ss.issparse(found) else found
                wanted = wanted.toarray() if ss.issparse(wanted) else wanted
                np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=0, err_msg=name)
        same(A.with_entries(ba.broadcast_to(ba.asarray(3.0), (A.nnz,))) @ np.ones(5), 3.0 * (W != 0).sum(1))

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2, 11])
@pytest.mark.parametrize("shape", [(0, 5), (7, 0), (0, 0), (1, 1), (9, 1), (1, 9)])
def test_arrays_without_rows_or_columns_or_with_few(shape: tuple[int, int], nprocs: int) -> None:
    W = ss.csr_array(np.arange(1.0, shape[0] * shape[1] + 1).reshape(shape))
    D, (n, m) = W.toarray(), shape

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(W)
        for found, wanted in [
            (A.todense(), D), (A.T.todense(), D.T), (A + A, 2 * D), (A @ A.T, D @ D.T), (A.T @ A, D.T @ D),
            (A @ np.ones(m), D @ np.ones(m)), (A.T @ np.ones(n), D.T @ np.ones(n)),
            (A @ np.ones((m, 2)), D @ np.ones((m, 2))),
            (A * D, D * D), (D + A, D + D), (D - A, D - D), (A * np.array([[2.0]]), D * 2), (A * np.ones((1, m)), D),
            (A * np.ones((n, 1)), D), (A.sum(0), D.sum(0)), (A.sum(1), D.sum(1)), (A.T.tocsr(), D.T),
            (A[...], D), (A[..., ::2], D[..., ::2]), (A[::-1], D[::-1]), (A[np.zeros(n, bool)], D[:0]), (A[[]], D[:0]),
            (A.diagonal(), D.diagonal()), (sparse.hstack([A, A]), np.hstack([D, D])),
            (sparse.vstack([A, A]), np.vstack([D, D])),
        ]:  # fmt: skip
            same(found, wanted)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3, 11])
@pytest.mark.parametrize("dtype", [np.int64, np.int8, bool, np.float32, np.complex128, np.uint16])
def test_the_element_type_does_not_depend_on_who_has_entries(dtype: Any, nprocs: int) -> None:
    """scipy's results without entries are floats; processes without entries have no say."""
    W = ss.csr_array((np.ones(2, dtype), ([1, 5], [0, 2])), shape=(7, 4))

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(W)
        x = np.arange(4)
        for found, wanted in [
            (sparse.kron(A, A), ss.kron(W, W)), (A @ A.T, W @ W.T), (A + A, W + W), (A[1:3], W[1:3]), (A.conj(), W),
            (sparse.hstack([A, A]), ss.hstack([W, W])), (A @ x, W @ x), (A.T @ np.arange(7), W.T @ np.arange(7)),
            (sparse.from_local(np.ones((2, 3), np.int8) if proc.pid == 0 else np.zeros((1, 3))),
             np.vstack([np.ones((2, 3), np.int8), np.zeros((nprocs - 1, 3), np.int8)])),
        ]:  # fmt: skip
            same(found, wanted)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 2])
@pytest.mark.parametrize("make", [sparse.from_scipy, sparse.from_local])
def test_arrays_share_no_memory_that_a_caller_writes_to(make: Callable[[Any], sparse.SparseArray], nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        W = ss.csr_array((np.array([1.0, 2, 3, 4]), np.array([2, 0, 1, 1]), np.array([0, 2, 4])), shape=(2, 3))
        before = [each.tolist() for each in (W.data, W.indices, W.indptr)]
        A = make(W)  # whose entries are sorted, and duplicates summed
        assert [each.tolist() for each in (W.data, W.indices, W.indptr)] == before
        wanted = A.compute().toarray()
        W.data[:] = 99
        for part in (A.local().data, A.local().indices, A.T.local().indptr, *A.triples()[2:]):
            with pytest.raises(ValueError, match="read-only"):
                part[:1] = 0
        same(A, wanted)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("change", ["a value", "a place", "the shape"])
def test_a_whole_matrix_that_differs_between_processes_is_refused(change: str) -> None:
    def main(proc: bsp.Process) -> None:
        W = matrix(0, 9 + (change == "the shape" and proc.pid == 1), 9, 0.4).tolil()
        W[0, 3 + (change == "a place" and proc.pid == 1)] = 7 + (change == "a value" and proc.pid == 1)
        sparse.from_scipy(W).sum().compute()

    with pytest.raises(bsp.SyncMismatch, match="give the same values to its arrays"):
        bsp.run(main, nprocs=3)


_W = matrix(14, 8, 8, 0.5)
DIFFERENT: list[Callable[[int], Any]] = [
    lambda pid: sparse.eye(3 + pid), lambda pid: sparse.eye(3, k=pid), lambda pid: sparse.diags([np.ones(4) + pid]),
    lambda pid: sparse.random(4, 4, density=0.5, seed=pid), lambda pid: sparse.from_coo([0], [0], [1.0], (3 + pid, 3)),
    lambda pid: sparse.from_coo([0], [0], [1.0], (3, 3), bounds=(0, pid, 3)),
    lambda pid: sparse.from_coo(([0], [0]), [1.0], shape=(3 + pid, 3)),
    lambda pid: sparse.from_scipy(_W.astype(np.float32) if pid else _W).compute(),
    lambda pid: sparse.from_scipy(_W) + _W * pid, lambda pid: sparse.kron(sparse.from_scipy(_W), np.eye(2 + pid)),
    lambda pid: sparse.from_scipy(_W)[pid], lambda pid: sparse.from_scipy(_W)[pid, 0],
    lambda pid: sparse.from_scipy(_W)[:, pid:], lambda pid: sparse.from_scipy(_W)[[0, 1], [pid, 1]],
    lambda pid: sparse.from_scipy(_W).T[np.arange(8) % 2 == pid], lambda pid: sparse.as_coo(_W)[pid],
    lambda pid: sparse.as_coo(_W)[pid, 0], lambda pid: sparse.as_coo(_W)[:, [pid, 0]],
    lambda pid: sparse.as_coo(_W).reshape((64,) if pid else (16, 4))[0],
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(DIFFERENT)))
def test_arguments_that_differ_between_processes_are_refused(number: int) -> None:
    """They gave what some processes had asked for, or rows at places that an array does not have."""
    with pytest.raises(bsp.SyncMismatch):
        bsp.run(lambda proc: DIFFERENT[number](proc.pid), nprocs=2)


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.uint64])
@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_sparse_array_is_subtracted_in_the_type_of_the_result(dtype: Any, nprocs: int) -> None:
    W, D = matrix(0, 5, 4, 0.6).astype(dtype), np.arange(20.0).reshape(5, 4).astype(np.int16)

    def main(proc: bsp.Process) -> None:
        for A, wanted in ((sparse.from_scipy(W), D - W.toarray()), (sparse.from_scipy(W.T).T, D - W.toarray())):
            same(D - A, wanted)
            same(D - A.tocoo(), wanted)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_means_of_integers_do_not_overflow(nprocs: int) -> None:
    D = np.full((3, 3), np.iinfo(np.int64).max) * np.eye(3, dtype=np.int64)[[0, 0, 1]]

    def main(proc: bsp.Process) -> None:
        for A in (sparse.from_scipy(D), sparse.from_scipy(D).tocoo()):
            for axis in (None, 0, 1):
                same(A.mean(axis), D.mean(axis))

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_positions_take_complex_numbers_with_infinite_parts_as_they_are(nprocs: int) -> None:
    D = np.diag(np.array([np.inf, -np.inf, 1, 0, np.nan]) + 0j)
    D.imag[np.diag_indices(5)] = [-1, 2, np.inf, np.nan, 0]
    at = [3, 0, 0, -1, 2, 1]

    def main(proc: bsp.Process) -> None:
        for A in (sparse.from_scipy(D), sparse.from_scipy(D.T).T):
            same(A[at], D[at])
            same(A[:, at], D[:, at])
            same(A[::-2], D[::-2])

    bsp.run(main, nprocs=nprocs)


def test_functions_that_would_take_a_sparse_array_for_something_else_are_refused() -> None:
    a = sparse.eye(4)
    for call in (lambda: np.array_equal(a, a), lambda: np.array_equiv(np.eye(4), a)):
        with pytest.raises(TypeError, match=r"equal ones have abs\(a - b\).max\(\) == 0"):
            call()
    assert float(abs(a - a).max().compute()) == 0
    for name, function in (("compute", ba.compute), ("persist", ba.persist), ("explain", ba.explain)):
        with pytest.raises(TypeError, match=rf"{name}: SparseArray is no array .* it has a method {name}\(\)"):
            function(a)
    assert (np.shape(a), np.ndim(a), float(np.sum(a))) == ((4, 4), 2, 4.0)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_an_array_made_before_rounds_is_first_multiplied_in_one_by_processes_made_again(nprocs: int) -> None:
    """They did not have the exchange that the others had found in the first round, and looked for it."""

    def main(proc: bsp.Process) -> float:
        A = sparse.diags([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(40, 40))
        state = bsp.State(x=ba.ones(40))
        for _ in proc.rounds(6, state):
            state.x = (A.T @ (A @ state.x) * 0.1 + state.x).persist()
        return float(state.x.sum())

    assert bsp.run(main, nprocs=nprocs, check=True) == bsp.run(main, nprocs=nprocs)
