"""Products in any semiring are those of the definition, and joined matrices are scipy's, whatever p and the pattern."""

from __future__ import annotations

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
from bsp.arrays.sparse import semirings

PROCESSES = (1, 2, 5)


def matrix(seed: int, n: int, m: int, density: float, dtype: Any = float) -> ss.csr_array:
    rng = np.random.default_rng(seed)
    return ss.csr_array((rng.integers(1, 9, (n, m)) * (rng.random((n, m)) < density)).astype(dtype))


def naive(W: ss.csr_array, x: np.ndarray, add: np.ufunc, multiply: Callable[..., Any], zero: Any) -> np.ndarray:
    """The definition: add over the entries of each row of their products with x."""
    dtype = np.asarray(add(multiply(W.data[:0], x[:0].reshape(-1)[:0]), zero)).dtype
    found = np.full((W.shape[0], *x.shape[1:]), zero, dtype)
    for i in range(W.shape[0]):
        for k in range(W.indptr[i], W.indptr[i + 1]):
            found[i] = add(found[i], multiply(W.data[k], x[W.indices[k]]))
    return found


SEMIRINGS: list[tuple[np.ufunc, Any, Any]] = [
    (np.minimum, np.add, np.inf), (np.maximum, np.minimum, -np.inf), (np.logical_or, np.logical_and, False),
    (np.add, lambda a, b: abs(a - b), 0.0), (np.maximum, np.multiply, -np.inf),
]  # fmt: skip


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("add, multiply, zero", SEMIRINGS)
def test_products_with_dense_operands_are_those_of_the_definition(
    add: np.ufunc, multiply: Any, zero: Any, nprocs: int
) -> None:
    for case in [(0, 20, 20, 0.2), (1, 7, 31, 0.1), (2, 25, 4, 0.0)]:
        W = matrix(*case)
        n, m = W.shape
        rng = np.random.default_rng(1)
        x, X, z = rng.integers(0, 9, m) * 1.0, rng.integers(0, 9, (m, 3)) * 1.0, rng.integers(0, 9, n) * 1.0
        T = W.T.tocsr()

        def main(proc: bsp.Process, W: Any = W, T: Any = T, x: Any = x, X: Any = X, z: Any = z) -> None:
            A = sparse.from_scipy(W)
            for found, wanted in [
                (A.dot(x, add=add, multiply=multiply), naive(W, x, add, multiply, zero)),
                (sparse.matmul(W, X, add=add, multiply=multiply), naive(W, X, add, multiply, zero)),
                (A.T.dot(z, add=add, multiply=multiply), naive(T, z, add, multiply, zero)),
                (A.T.dot(np.stack([z, z], 1), add=add, multiply=multiply),
                 naive(T, np.stack([z, z], 1), add, multiply, zero)),
                (sparse.matmul(z, A, add=add, multiply=multiply),
                 naive(T, z, add, lambda a, b: multiply(b, a), zero)),
            ]:  # fmt: skip
                assert isinstance(found, ba.Array)  # lazy
                np.testing.assert_array_equal(found.compute(), wanted)
                assert found.dtype == wanted.dtype

        bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("add, multiply, zero", SEMIRINGS)
def test_sparse_products_are_those_of_the_definition(
    add: np.ufunc, multiply: Any, zero: Any, nprocs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all ways to store the operands, and with rows made in pieces; places that no products reach are absent."""
    monkeypatch.setattr(semirings, "_PRODUCTS", 7)
    V, W = matrix(3, 13, 17, 0.2), matrix(4, 17, 11, 0.2)
    wanted: dict[tuple[int, int], Any] = {}
    for i, k, j in zip(*np.nonzero((V.toarray() != 0)[:, :, None] & (W.toarray() != 0)), strict=True):
        product = multiply(V[i, k], W[k, j])
        wanted[int(i), int(j)] = add(wanted.get((i, j), zero), product)

    def main(proc: bsp.Process) -> None:
        for A in (sparse.from_scipy(V), sparse.from_scipy(V.T).T):
            for B in (sparse.from_scipy(W), sparse.from_scipy(W.T).T):
                found = A.dot(B, add=add, multiply=multiply).compute().tocoo()
                assert (
                    dict(zip(zip(*(each.tolist() for each in found.coords), strict=True), found.data, strict=True))
                    == wanted
                )

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_numbers_are_the_plain_product(nprocs: int) -> None:
    V, W = matrix(3, 13, 17, 0.2), matrix(4, 17, 11, 0.2)

    def main(proc: bsp.Process) -> None:
        A, B = sparse.from_scipy(V), sparse.from_scipy(W)
        for found in (sparse.matmul(A, B), A.dot(B), A.dot(W, add=np.add, multiply=lambda a, b: a * b)):
            np.testing.assert_array_equal(found.compute().toarray(), (V @ W).toarray())
        np.testing.assert_array_equal(A.dot(np.ones(17), multiply=lambda a, b: a * b), V.sum(1))

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_shortest_paths_by_squaring(nprocs: int) -> None:
    """A textbook use: distances in a ring with chords, by min-plus squares of the matrix with its zeros stored."""
    n = 24
    rows = np.arange(n)
    W = ss.coo_array(
        (np.r_[np.ones(n), np.full(4, 2.0), np.zeros(n)],
         (np.r_[rows, rows[:4], rows], np.r_[(rows + 1) % n, (rows[:4] * 5 + 7) % n, rows])), shape=(n, n)
    ).tocsr()  # fmt: skip
    wanted = ss.csgraph.shortest_path(W)

    def main(proc: bsp.Process) -> None:
        D = sparse.from_scipy(W)
        for _ in range(5):
            D = D.dot(D, add=np.minimum, multiply=np.add)
        np.testing.assert_array_equal(D.compute().toarray(), wanted)
        x = np.where(rows == 3, 0.0, np.inf)
        for _ in range(n):
            x = D.T.dot(x, add=np.minimum, multiply=np.add).persist()
        np.testing.assert_array_equal(x.compute(), wanted[3])

    bsp.run(main, nprocs=nprocs)


@given(st.data())
@examples(25)
def test_any_pattern_in_min_plus(data: st.DataObject) -> None:
    nprocs = data.draw(st.integers(1, 4))
    n, k, m = (data.draw(st.integers(0, 6)) for _ in range(3))
    seed, density = data.draw(st.integers(0, 99)), data.draw(st.sampled_from([0.0, 0.3, 1.0]))
    kind = data.draw(st.sampled_from([float, np.int64, np.float32]))
    V, W = matrix(seed, n, k, density, kind), matrix(seed + 1, k, m, density, kind)
    most = np.inf if np.dtype(kind).kind == "f" else np.iinfo(kind).max
    wanted = np.full((n, m), most, kind)
    for i, j in np.ndindex(n, m):
        for h in range(k):
            if V[i, h] and W[h, j]:
                wanted[i, j] = min(wanted[i, j], V[i, h] + W[h, j])

    def main(proc: bsp.Process) -> None:
        found = sparse.matmul(sparse.from_scipy(V), W, add=np.minimum, multiply=np.add)
        whole = found.compute().tocoo()
        dense = np.full((n, m), most, kind)
        dense[whole.coords] = whole.data
        np.testing.assert_array_equal(dense, wanted)
        assert found.dtype == kind

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint64, np.int16, bool])
def test_rows_without_entries_have_all_bits_where_bits_are_combined_by_and(dtype: Any) -> None:
    W = ss.csr_array(np.array([[0, 3], [0, 0]], dtype))

    def main(proc: bsp.Process) -> Any:
        found = sparse.from_scipy(W).dot(np.array([1, 1], dtype), add=np.bitwise_and, multiply=np.maximum)
        return found.compute()

    found = bsp.run(main, nprocs=2)[0]
    assert found.dtype == dtype
    assert found.tolist() == np.array([W[0, 1], ~np.zeros((), dtype)], dtype).tolist()


@pytest.mark.parametrize("nprocs", [1, 3])
def test_a_zero_is_given_where_numpy_has_none(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(matrix(0, 6, 6, 0.3, np.int64))
        x = np.arange(6)
        for call, text in [
            (lambda: A.dot(x, add=np.subtract, multiply=np.add), "no identity that NumPy knows: give zero="),
            (lambda: A.dot(x, add=sum), "a ufunc of two operands"),
            (lambda: A.dot(x, add=np.negative), "a ufunc of two operands"),
            (lambda: A.dot(x, multiply=3), "a function of two operands"),
            (lambda: A.dot(np.arange(5), add=np.minimum), r"dot: shapes \(6, 6\) and \(5,\) do not fit"),
            (lambda: A.dot(A * 1j, add=np.minimum).sum() and A.dot(x * 1j, add=np.minimum), "no least and largest"),
        ]:
            with pytest.raises(ba.ArrayError, match=text):
                call()
        found = A.dot(x, add=np.gcd, multiply=np.multiply, zero=0).compute()
        assert found.tolist() == [int(np.gcd.reduce(row * x)) for row in A.compute().toarray()]

    bsp.run(main, nprocs=nprocs)


# ------------------------------------------------------------------------------------- joining


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_joined_matrices_are_scipys(nprocs: int) -> None:
    U, V, W = matrix(1, 9, 6, 0.3), matrix(2, 9, 11, 0.3), matrix(3, 4, 6, 0.5)

    def main(proc: bsp.Process) -> None:
        A, B, C = (sparse.from_scipy(each) for each in (U, V, W))
        for found, wanted in [
            (sparse.hstack([A, B]), ss.hstack([U, V])), (sparse.hstack([A, B.T.tocsr().T, U]), ss.hstack([U, V, U])),
            (sparse.vstack([A, C]), ss.vstack([U, W])), (sparse.vstack([A.T, B.T]), ss.vstack([U.T, V.T])),
            (sparse.hstack([A.T, C.T]), ss.hstack([U.T, W.T])),
            (sparse.vstack([A, W, C.tocsc()]), ss.vstack([U, W, W])),
            (sparse.kron(A, C), ss.kron(U, W)), (sparse.kron(A.T, W), ss.kron(U.T, W)),
            (sparse.kron(sparse.eye(3), C.T), ss.kron(np.eye(3), W.T)),
        ]:  # fmt: skip
            np.testing.assert_array_equal(found.compute().toarray(), wanted.toarray())
            x = np.arange(found.shape[1]) * 1.0
            np.testing.assert_array_equal((found @ x).compute(), wanted @ x)
        with pytest.raises(ba.ArrayError, match=r"vstack: shapes \(9, 6\), \(9, 11\) do not fit"):
            sparse.vstack([A, B])
        with pytest.raises(ba.ArrayError, match="hstack of no arrays"):
            sparse.hstack([])

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_rows_that_processes_have_become_one_matrix(nprocs: int) -> None:
    W = matrix(5, 12, 7, 0.4)
    cuts = np.linspace(0, 12, nprocs + 1).astype(int) ** 2 // 12

    def main(proc: bsp.Process) -> None:
        A = sparse.from_local(W[cuts[proc.pid] : cuts[proc.pid + 1]])
        assert A.row_bounds == tuple(cuts)
        np.testing.assert_array_equal(A.compute().toarray(), W.toarray())
        if proc.nprocs > 1:
            with pytest.raises(ba.ArrayError, match="rows of 3, 4 columns"):
                sparse.from_local(np.ones((2, 3 + (proc.pid == 0))))

    bsp.run(main, nprocs=nprocs)
