"""Triangles, diagonals, chosen entries and arrays of blocks are scipy's, whatever p and the order of the entries."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as ss

import bsp
from bsp.arrays import sparse
from bsp.arrays.errors import ArrayError
from bsp.errors import SyncMismatch

PROCESSES = (1, 2, 3, 5, 8)
SHAPES = [(23, 17), (4, 30), (6, 6), (1, 9), (0, 3)]


def matrix(m: int, n: int, dtype: Any = float) -> ss.csr_array:
    rng = np.random.default_rng(m + n)
    values = rng.integers(-4, 5, (m, n)) * (rng.random((m, n)) < 0.3)
    return ss.csr_array((values * (1 - 2j if np.dtype(dtype).kind == "c" else 1)).astype(dtype))


def same(found: Any, wanted: Any) -> None:
    found = found.compute()
    found = found.toarray() if ss.issparse(found) else found
    wanted = wanted.toarray() if ss.issparse(wanted) else np.asarray(wanted)
    np.testing.assert_array_equal(found, wanted)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.complex64])
def test_triangles_and_diagonals_are_scipys(shape: tuple[int, int], dtype: Any, nprocs: int) -> None:
    W = matrix(*shape, dtype)

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(W)
        for found, wanted in ((A, W), (A.T, W.T.tocsr())):
            for k in (-40, -4, -1, 0, 1, 7, 40):
                same(sparse.tril(found, k), ss.tril(wanted, k).astype(dtype))
                same(sparse.triu(found, k), ss.triu(wanted, k).astype(dtype))
                same(found.diagonal(k), np.diagonal(wanted.toarray(), k))
                same(found.trace(k), np.trace(wanted.toarray(), k, dtype=np.diagonal(W.toarray()).sum().dtype))

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("shape", SHAPES)
def test_entries_are_chosen_by_a_mask(shape: tuple[int, int], nprocs: int) -> None:
    W = matrix(*shape)
    large = W.toarray() * (np.abs(W.toarray()) > 2)

    def main(proc: bsp.Process) -> None:
        for A, wanted in ((sparse.from_scipy(W), large), (sparse.from_scipy(W).T, large.T)):
            for array in (A, A.tocoo()):
                found = array.kept(abs(array.entries) > 2)
                same(found, wanted)
                assert found.nnz == np.count_nonzero(wanted)
                same(array.kept((abs(array.entries) > 2).compute()), wanted)  # a mask that all processes have
                rows, columns = (each.compute() for each in (array * 1.0).nonzero())
                assert sorted(zip(rows, columns, strict=True)) == sorted(zip(*np.nonzero(A.compute()), strict=True))
            same(A.kept(abs(A.entries) > 2) @ np.ones(A.shape[1]), wanted.sum(1))

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_values_of_any_layout_stand_at_the_places(nprocs: int) -> None:
    """They were taken for those of this process, though each process had others, or all of them."""
    W = matrix(23, 17)
    V = ss.csr_array((np.arange(float(W.nnz)), W.indices, W.indptr), shape=W.shape)

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(W)
        same(A.with_entries(np.arange(float(W.nnz))), V)
        assert A.tocoo().with_entries(np.arange(float(W.nnz))).compute().sum() == V.sum()

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_larger_and_smaller_elements_and_parts_of_numbers_are_scipys(nprocs: int) -> None:
    W, Z = matrix(23, 17), matrix(23, 17, complex)
    V = ss.csr_array(W[::-1])

    def main(proc: bsp.Process) -> None:
        A, B, C = (sparse.from_scipy(each) for each in (W, V, Z))
        for found, wanted in [
            (A.maximum(B), W.maximum(V)), (np.minimum(A, B), W.minimum(V)), (A.T.maximum(B.T), W.maximum(V).T),
            (A.maximum(V), W.maximum(V)), (np.maximum(V, A), W.maximum(V)), (A.maximum(0), W.maximum(0)),
            (np.maximum(-1.5, A), W.maximum(-1.5)), (A.minimum(2), W.minimum(2)),
            (A.tocoo().maximum(B), W.maximum(V)), (A.tocoo().minimum(0), W.minimum(0)),
            (C.real, Z.real), (C.imag, Z.imag), (A.real, W), (A.imag, W * 0), (C.conjugate(), Z.conjugate()),
            (C.tocoo().imag, Z.imag),
        ]:  # fmt: skip
            same(found, wanted)
        for name, wrong in (("maximum", 1), ("minimum", -1.0), ("maximum", float("nan")), ("minimum", np.ones(17))):
            with pytest.raises(ArrayError, match=r"todense\(\) first"):
                getattr(A, name)(wrong)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_arrays_of_blocks_are_scipys(nprocs: int) -> None:
    W, V, U = matrix(23, 17), matrix(23, 4), matrix(6, 6)
    blocks: list[list[Any]] = [[W, None, V], [None, U, None], [W * 2, None, V]]

    def main(proc: bsp.Process) -> None:
        made = [[None if each is None else sparse.from_scipy(each) for each in row] for row in blocks]
        same(sparse.block_array(made), ss.block_array(blocks))
        same(sparse.block_array([[sparse.from_scipy(W.T.tocsr()).T, V]]), ss.block_array([[W, V]]))
        same(sparse.block_diag([W, made[1][1], made[0][2].T]), ss.block_diag([W, U, V.T]))
        same(sparse.kronsum(U, sparse.from_scipy(W[:5, :5])), ss.kronsum(U, W[:5, :5]))
        for wrong, match in [
            ([[W, V], [V, W]], r"column 0 of blocks has lengths \[4, 17\]"), ([[W], [W, W]], "rows of 1, 2 blocks"),
            ([[W, None], [W, None]], "column 1 of blocks has only None"), ([], "rows of no blocks"),
        ]:  # fmt: skip
            with pytest.raises(ArrayError, match=match):
                sparse.block_array(wrong)
        with pytest.raises(ArrayError, match="both have to be square"):
            sparse.kronsum(W, U)

    bsp.run(main, nprocs=nprocs)


def test_masks_that_do_not_fit_and_diagonals_that_differ_are_refused() -> None:
    W = matrix(23, 17)

    def main(proc: bsp.Process) -> None:
        A = sparse.from_scipy(W)
        for wrong in (np.ones(3, bool), A.entries):
            with pytest.raises(ArrayError, match="kept: a mask of"):
                A.kept(wrong)
        sparse.tril(A, proc.pid).compute()

    with pytest.raises(SyncMismatch):
        bsp.run(main, nprocs=2)
