"""Sparse arrays of any number of axes are what NumPy's dense arrays are, whatever p and the places."""

from __future__ import annotations

import pickle
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
from bsp.arrays.sparse.places import range_bounds

PROCESSES = (1, 2, 3, 5, 16)
SHAPES: list[tuple[int, ...]] = [(3, 4, 5), (7,), (2, 3, 4, 5), (1, 1, 30), (30, 1, 1), (5, 6), (3, 0, 4), (6, 7, 8)]
Entries = tuple[list[np.ndarray], np.ndarray]


def entries_of(shape: tuple[int, ...], count: int, seed: int = 0, dtype: Any = float) -> Entries:
    """Coordinates, many of them more than once, and small integers as values, of which sums are exact."""
    rng = np.random.default_rng(seed)
    count = count if np.prod(shape) else 0
    return [rng.integers(0, max(length, 1), count) for length in shape], rng.integers(-4, 5, count).astype(dtype)


def dense_of(shape: tuple[int, ...], entries: Entries) -> np.ndarray:
    found = np.zeros(shape, entries[1].dtype)
    np.add.at(found, tuple(entries[0]), entries[1])
    return found


def share(proc: bsp.Process, shape: tuple[int, ...], entries: Entries) -> sparse.CooArray:
    """The array of which each process passes every p-th entry."""
    mine = slice(proc.pid, None, proc.nprocs)
    return sparse.from_coo([each[mine] for each in entries[0]], entries[1][mine], shape=shape)


def same(found: Any, wanted: Any) -> None:
    """Compare values, shapes and element types; a sparse array also has no more than twice an even share anywhere."""
    if isinstance(found, sparse.CooArray):
        counts = np.diff(found._places.entries)
        assert max(counts) <= 2 * -(-found.nnz // len(counts))
        assert found.nnz == sum(counts)
        found = found.compute()
        assert (np.diff(np.ravel_multi_index(found.coords, found.shape)) > 0).all() or not found.nnz
        found = found.toarray()
    found = found.compute() if hasattr(found, "compute") else found
    found = found.toarray() if ss.issparse(found) else found
    wanted = wanted.toarray() if ss.issparse(wanted) else wanted
    np.testing.assert_array_equal(found, wanted)
    assert np.shape(found) == np.shape(wanted)
    assert np.asarray(found).dtype == np.asarray(wanted).dtype


@pytest.mark.crossed
@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("count", [0, 3, 50])
def test_entries_of_all_processes_are_one_array_dealt_evenly(nprocs: int, shape: tuple[int, ...], count: int) -> None:
    given_entries = entries_of(shape, count)
    D = dense_of(shape, given_entries)
    wanted = ss.coo_array((given_entries[1], tuple(given_entries[0])), shape=shape)
    wanted.sum_duplicates()

    def main(proc: bsp.Process) -> None:
        A = share(proc, shape, given_entries)
        assert (A.shape, A.ndim, A.nnz, A.dtype) == (shape, len(shape), wanted.nnz, wanted.dtype)
        same(A, wanted)
        same(A.todense(), D)
        coords, values = A.local()
        np.testing.assert_array_equal(values, D[coords])
        assert proc.allreduce(len(values)) == A.nnz
        same(sparse.as_coo(D), D)
        same(sparse.as_coo(wanted), D)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.crossed
@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [float, np.int32, complex])
def test_arithmetic_and_reductions_are_numpys(nprocs: int, shape: tuple[int, ...], dtype: Any) -> None:
    first, second = entries_of(shape, 60, 1, dtype), entries_of(shape, 25, 2, dtype)
    D, E = dense_of(shape, first), dense_of(shape, second)
    rng = np.random.default_rng(3)
    full = rng.integers(1, 5, shape).astype(dtype)
    line, planes = rng.integers(1, 5, shape[-1:]).astype(dtype), rng.integers(1, 5, (shape[0], *[1] * (D.ndim - 1)))
    column = line.reshape(-1, *[1] * (D.ndim - 1))

    def main(proc: bsp.Process) -> None:
        A, B, F = share(proc, shape, first), share(proc, shape, second), ba.asarray(full)
        for found, wanted in [
            (A * 2, D * 2), (3 * A, 3 * D), (A / 4, D / 4), (-A, -D), (abs(A), abs(D)), (A.conj(), D.conj()),
            (np.square(A), np.square(D)), (A + B, D + E), (A - B, D - E), (B - A, E - D), (A * B, D * E),
            (A + sparse.as_coo(E), D + E), (A * ss.coo_array(E), D * E), (A.T + B.T, D.T + E.T), (A.T - E.T, D.T - E.T),
            (A - A, D - D), (A + (A * 2), D + D * 2), (B + B.T.T, E + E),
            (A * full, D * full), (F * A, full * D), (A * line, D * line), (A * planes, D * planes),
            (A.T * F.T, D.T * full.T), (A.T * column, D.T * column),
            (A / full, D / full), (A + F, D + full), (F - A, full - D), (A.todense() @ line, D @ line),
            (A * np.ones((1,) * D.ndim, dtype), D), (A.astype(np.complex64), D.astype(np.complex64)),
            (A.count_nonzero(), np.int64(np.count_nonzero(D))),
        ]:  # fmt: skip
            same(found, wanted)
        every = [None, *range(-D.ndim, D.ndim), tuple(range(D.ndim)), (-1, 0), (0, 1), (1, -1)]
        for axis in every:
            if isinstance(axis, tuple) and (max(axis) >= D.ndim or len({each % D.ndim for each in axis}) < len(axis)):
                continue
            same(A.sum(axis), D.sum(axis=axis))
            same(A.T.sum(axis), D.T.sum(axis=axis))
            same(A.count_nonzero(axis), np.asarray((D != 0).sum(axis=axis)))
            for name in ("max", "min", "mean") if dtype is not complex and D.size else ():
                same(getattr(A, name)(axis), getattr(D, name)(axis=axis))
                same(getattr(A.T, name)(axis), getattr(D.T, name)(axis=axis))

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_extremes_of_full_empty_and_zero_size_arrays_are_numpys(nprocs: int) -> None:
    full = np.arange(-30.0, -6.0).reshape(2, 3, 4)

    def main(proc: bsp.Process) -> None:
        for D in (full, np.zeros((2, 3, 4)), np.where(full > -12, full, 0)):
            A = sparse.as_coo(D)
            for axis in (None, 0, (0, 1), -1):
                same(A.max(axis), D.max(axis=axis))
                same(A.min(axis), D.min(axis=axis))
        empty = sparse.as_coo(np.zeros((3, 0, 4)))
        same(empty.max(0), np.zeros((0, 4)))
        for axis in (None, 1, (1, 2)):
            with pytest.raises(ValueError, match="zero-size array"):
                empty.max(axis)
        same(empty.sum(1), np.zeros((3, 4)))

    bsp.run(main, nprocs=nprocs)


ORDERS = [(0, 1, 2), (2, 0, 1), (-1, -3, 1), (1, 0, 2)]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_axes_in_another_order_and_other_shapes_are_numpys(nprocs: int) -> None:
    shape = (4, 6, 5)
    first, second = entries_of(shape, 40, 4), entries_of(shape, 30, 5)
    D, E = dense_of(shape, first), dense_of(shape, second)

    def main(proc: bsp.Process) -> None:
        A, B = share(proc, shape, first), share(proc, shape, second)
        begin = proc.superstep
        turned = [A.transpose(order) for order in ORDERS]
        shaped = A.reshape(24, 5), A.reshape((2, -1, 10)), A.reshape(-1), A.reshape(4, 1, 6, 5, 1)
        assert proc.superstep == begin
        for T, order in zip(turned, ORDERS, strict=True):
            same(T, D.transpose(order))
            same(T.todense(), D.transpose(order))
            same(T.sum(0), D.transpose(order).sum(0))
            same(T + B.transpose(order), (D + E).transpose(order))
            same(T * B.reshape(T.shape), D.transpose(order) * E.reshape(T.shape))
            same(T.reshape(-1, 2), D.transpose(order).reshape(-1, 2))
            same(T * E.transpose(order)[:, :1], D.transpose(order) * E.transpose(order)[:, :1])
        for found in shaped:
            same(found, D.reshape(found.shape))

    bsp.run(main, nprocs=nprocs)


KEYS: list[Any] = [
    0, -1, (1, 2), (slice(None), 3), (..., 0), (slice(1, 3), slice(None, None, 2), slice(4, 0, -1)),
    slice(None, None, -2), (None, 1, ..., None, slice(2, 5)), (slice(3, 3),), (..., slice(1, 2)), (slice(-3, None), -2),
    ..., (slice(0, 1),) * 3, (None, 1, 2, 3, None),
]  # fmt: skip


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_parts_are_numpys(nprocs: int) -> None:
    shape = (5, 6, 7)
    given_entries = entries_of(shape, 90, 6)
    D = dense_of(shape, given_entries)

    def main(proc: bsp.Process) -> None:
        A = share(proc, shape, given_entries)
        for key in KEYS:
            same(A[key], D[key])
            same(A.T[key], D.T[key])
            same(A[key].sum(), D[key].sum())
        for at in ((0, 0, 0), (4, -1, 6), tuple(each[0] for each in given_entries[0]), (-1, -1, -1)):
            assert A[at] == D[at]
            assert A.T[at[::-1]] == D[at]
        for wrong, error in (((0, 6), IndexError), ((0,) * 4, IndexError), ((..., ...), IndexError), (-6, IndexError),
                             (([0, 1], [0, 1]), ba.ArrayError), (True, IndexError), (1.0, ba.ArrayError),
                             ([0, 5], IndexError), (([True],), IndexError), ([[0, 1]], ba.ArrayError)):  # fmt: skip
            with pytest.raises(error):
                A[wrong]

    bsp.run(main, nprocs=nprocs)


LISTS: list[Any] = [
    [0, 2, 4], [4, 0, 0, 2], [], [-1, 1], np.array([True, False, True, True, False]), (slice(None), [5, 1]),
    (1, ..., [6, 0, 3, 3]), (slice(1, 4), [0, 1, 4], 2), (..., slice(None, None, -2), None, [1, 2]),
]  # fmt: skip


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_masks_and_positions_are_numpys(nprocs: int) -> None:
    shape = (5, 6, 7)
    given_entries = entries_of(shape, 90, 11)
    D = dense_of(shape, given_entries)

    def main(proc: bsp.Process) -> None:
        A = share(proc, shape, given_entries)
        for key in LISTS:
            same(A[key], D[key])
        for key in ((1, slice(None), [2, 0]), (1, None, [2, 0], slice(4)), (1, ..., [0, 3], slice(None, None, -1)),
                    ([3, 1], slice(2, None), -1, None), (None, 1, [2, 2]), (1, slice(3), D[0, 0] > 0)):  # fmt: skip
            same(A[key], D[key])  # listed positions apart from an integer come first
        same(A.T[:, [3, 0, 3]].T, D[:, [3, 0, 3]])
        same(A[ba.asarray(np.array([2, 0]))], D[[2, 0]])

    bsp.run(main, nprocs=nprocs)


CONTRACTIONS: list[Any] = [2, 1, 0, ([0, 1], [2, 0]), ([2], [1]), (0, 2), ([-1, 0], [-2, 2]), ([0, 1, 2], [2, 0, 1])]


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("axes", CONTRACTIONS)
def test_tensordot_is_numpys(nprocs: int, axes: Any) -> None:
    A_shape, B_shape = ((4, 3, 5), (3, 5, 4)) if axes != 1 else ((4, 3, 5), (5, 4, 2))
    first, second = entries_of(A_shape, 30, 7), entries_of(B_shape, 30, 8)
    D, E = dense_of(A_shape, first), dense_of(B_shape, second)
    wanted = np.tensordot(D, E, axes)
    turned = ((2 - np.array(axes[0]) % 3).tolist(), axes[1]) if isinstance(axes, tuple) else axes

    def main(proc: bsp.Process) -> None:
        A, B = share(proc, A_shape, first), share(proc, B_shape, second)
        same(A.tensordot(B, axes), wanted)
        same(A.tensordot(E, axes), wanted)
        same(A.tensordot(ba.asarray(E), axes), wanted)
        if isinstance(axes, tuple):
            same(A.T.tensordot(ss.coo_array(E), turned), np.tensordot(D.T, E, turned))

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3, 5])
@pytest.mark.parametrize("axes", [1, 2, ([0, 2], [2, 1]), ([0, 1, 2], [2, 0, 1])])
def test_tensordot_in_other_semirings_leaves_absent_entries_out(nprocs: int, axes: Any) -> None:
    """Compared with a loop over pairs of entries whose coordinates are the same along the axes."""
    A_shape, B_shape = ((4, 3, 5), (3, 5, 4)) if axes != 1 else ((4, 3, 5), (5, 4, 2))
    first, second = entries_of(A_shape, 25, 12), entries_of(B_shape, 25, 13)
    D, E = dense_of(A_shape, first), dense_of(B_shape, second)
    mine, theirs = ([1, 2], [0, 1]) if axes == 2 else ([2], [0]) if axes == 1 else axes
    left, right = ([k for k in range(3) if k not in each] for each in (mine, theirs))
    there = [np.zeros(each.shape, bool) for each in (D, E)]
    for of, given_to in ((first, there[0]), (second, there[1])):
        given_to[tuple(of[0])] = True
    least, greatest = (np.full([*[A_shape[k] for k in left], *[B_shape[k] for k in right]], each)
                       for each in (np.inf, -np.inf))  # fmt: skip
    dense = least.copy()
    for i in np.ndindex(A_shape):
        for j in np.ndindex(B_shape):
            if there[0][i] and [i[k] for k in mine] == [j[k] for k in theirs]:
                at = (*[i[k] for k in left], *[j[k] for k in right])
                dense[at] = min(dense[at], D[i] + E[j])
                if there[1][j]:
                    least[at] = min(least[at], D[i] + E[j])
                    greatest[at] = max(greatest[at], min(D[i], E[j]))

    def main(proc: bsp.Process) -> None:
        A, B = share(proc, A_shape, first), share(proc, B_shape, second)
        shortest = A.tensordot(B, axes, add=np.minimum, multiply=np.add)
        widest = A.tensordot(B, axes, add=np.maximum, multiply=np.minimum)
        for found, wanted in ((shortest, least), (widest, greatest)):
            if isinstance(found, sparse.CooArray):
                assert found.nnz == np.isfinite(wanted).sum()
                np.testing.assert_array_equal(found.compute().toarray(), np.where(np.isfinite(wanted), wanted, 0))
            else:
                assert found.compute() == wanted
        same(A.tensordot(E, axes, add=np.minimum, multiply=np.add), dense)
        nothing = sparse.from_coo([np.zeros(0, int)] * 3, np.zeros(0), shape=A_shape)
        if isinstance(axes, tuple) and len(mine) == 3:
            assert nothing.tensordot(B, axes, add=np.minimum, multiply=np.add).compute() == np.inf

    bsp.run(main, nprocs=nprocs)


def entrywise(T: np.ndarray, there: np.ndarray, zero: float) -> np.ndarray:
    """The values at the entries, and a zero elsewhere; there has the shape of the leading axes."""
    return np.where(there.reshape(*there.shape, *[1] * (T.ndim - there.ndim)), T, zero)


@pytest.mark.parametrize("nprocs", [1, 2, 5])
def test_comprehensions_are_numpys(nprocs: int) -> None:
    shape = (4, 5, 6)
    given_entries = entries_of(shape, 40, 14)
    T = dense_of(shape, given_entries)
    there = np.zeros(shape, bool)
    there[tuple(given_entries[0])] = True
    rng = np.random.default_rng(3)
    x, B, C, M, K = (rng.integers(1, 9, each) * 1.0 for each in (6, (5, 3), (6, 3), (6, 4), (5, 4, 6)))
    cases: list[tuple[str, Any]] = [
        ("Y[i,r] = sum(T[i,j,k] * B[j,r] * C[k,r])", np.einsum("ijk,jr,kr->ir", T, B, C)),
        ("Y[r,j] = sum(T[i,j,k] * C[k,r])", np.einsum("ijk,kr->rj", T, C)),
        ("y[j,i] = sum(T[i,j,k] * x[k])", (T @ x).T),
        ("y[i] = max(T[i,j,k] + M[k,i] - x[k])",
         entrywise(T + M.T[:, None, :] - x, there, -np.inf).max((1, 2))),
        ("y[k] = min(T[i,j,k] * K[j,i,k])", entrywise(T * K.swapaxes(0, 1), there, np.inf).min((0, 1))),
        ("s = sum(T[i,j,k] * (i + 2 * k))", (T * (np.arange(4)[:, None, None] + 2 * np.arange(6))).sum()),
        ("y[i] = sum(U[k,i,j] * T[i,j,k])", (T * T).sum((1, 2))),
        ("y[i] = 2 * any(T[i,j,k] > 2) + any(M[k,i] > 20)", 2 * (there & (T > 2)).any((1, 2)) + 0),
    ]  # fmt: skip
    placed: list[tuple[str, Any]] = [
        ("Y[i,j,k] = T[i,j,k] * x[k] - i", entrywise(T * x - np.arange(4)[:, None, None], there, 0.0)),
        ("Y[k,i,j] = sum(T[i,j,k] * B[j,r] * C[k,r])",
         np.transpose(entrywise(T * np.einsum("jr,kr->jk", B, C), there, 0.0), (2, 0, 1))),
    ]  # fmt: skip

    def main(proc: bsp.Process) -> None:
        A = share(proc, shape, given_entries)
        values = {"T": A, "U": A.transpose((2, 0, 1)), "x": x, "B": B, "C": C, "M": M, "K": K}

        def found(text: str) -> Any:
            return ba.comprehension(text, **{name: each for name, each in values.items() if f"{name}[" in text})

        for text, wanted in cases:
            np.testing.assert_allclose(found(text).compute(), wanted, rtol=1e-12, err_msg=text)
        for text, wanted in placed:
            made = found(text)
            assert isinstance(made, sparse.CooArray)
            np.testing.assert_allclose(made.todense().compute(), wanted, rtol=1e-12, err_msg=text)
        for wrong, text in (("y[i] = sum(T[i,j])", "3 different plain indices"),
                            ("y[i] = sum(T[i,j,j])", "3 different plain indices"),
                            ("y[i,j] = T[i,j,k] * 2", "index 'k' is not on the left, and no aggregate is over it"),
                            ("y[i,l] = sum(T[i,j,k] * T[i,j,l])", "one of matrices: see"),
                            ("Y[i,r,q] = sum(T[i,j,k] * B[j,r] * C[k,q])", "indices r, q: at most one")):  # fmt: skip
            with pytest.raises(ba.errors.ComprehensionError, match=text):
                found(wrong)

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_products_and_matrices_go_there_and_back(nprocs: int) -> None:
    shape = (4, 6, 5)
    given_entries = entries_of(shape, 40, 9)
    D = dense_of(shape, given_entries)
    rng = np.random.default_rng(1)
    x, X, z = rng.integers(0, 5, 5) * 1.0, rng.integers(0, 5, (5, 3)) * 1.0, rng.integers(0, 5, 24) * 1.0

    def main(proc: bsp.Process) -> None:
        A = share(proc, shape, given_entries)
        same(A @ x, D @ x)
        same(A @ X, D @ X)
        same(A @ sparse.from_scipy(ss.csr_array(X)), D @ X)
        M = A.reshape(24, 5)
        flat = D.reshape(24, 5)
        same(z @ M, z @ flat)
        same(M.tocsr(), flat)
        same(M.T.tocsr(), flat.T)
        same(M.tocsr().tocoo(), flat)
        same(M.tocsr().T.tocoo(), flat.T)
        same(M.tocsr().tocoo().reshape(shape) - A, D - D)
        same(M.tocsr() + M, flat + flat)
        same(M + M.tocsr(), flat + flat)
        same(M.tocsr() @ M.T, flat @ flat.T)
        same(M.T @ M, flat.T @ flat)
        same(sparse.from_coo(list(M.coords), M.local()[1], shape=(24, 5)), flat)
        wide = M.T.tocsr()
        assert (wide.format, wide.shape) == ("csr", (5, 24))
        nothing = sparse.as_coo(np.zeros((3, 0, 2)))
        same(nothing.tensordot(np.ones((0, 2, 4))), np.zeros((3, 4)))
        same(nothing.tensordot(sparse.as_coo(np.ones((0, 2, 4)))), np.zeros((3, 4)))
        vector = A.reshape(-1)
        same(vector @ D.reshape(-1), np.tensordot(D, D, 3))

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [2, 3, 8])
def test_what_is_far_moves_once_and_its_positions_once(nprocs: int) -> None:
    """Later products and sums along the same axes take one superstep, and not one word of positions."""
    shape = (40, 30, 20)
    given_entries = entries_of(shape, 900, 10)
    weights = np.arange(30.0)

    def main(proc: bsp.Process) -> None:
        A = share(proc, shape, given_entries)
        w = ba.asarray(weights)[:, None]
        begins.append(proc.superstep)
        (A * w).sum((0, 2)).persist()
        begins.append(proc.superstep)
        ((A * 2) * w).sum((0, 2)).persist()
        begins.append(proc.superstep)
        owned = range_bounds((30,), nprocs)
        mine = set(A.coords[1].tolist()) - set(range(owned[proc.pid], owned[proc.pid + 1]))
        far.append(len(mine))

    begins: list[int] = []
    far: list[int] = []
    rows = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs)).per_superstep
    first, again, end = sorted(set(begins))
    assert (again - first, end - again) == (4, 2)
    for steps in (rows[again - 2 : again], rows[again:end]):
        assert max(far) > 0
        assert (steps[0]["h_received"], steps[1]["h_sent"]) == (max(far), max(far))


@pytest.mark.parametrize("nprocs", [2, 5])
def test_operations_take_the_supersteps_and_words_that_they_state(nprocs: int) -> None:
    shape = (20, 30, 10)
    first, second = entries_of(shape, 2000, 14), entries_of(shape, 300, 15)

    def main(proc: bsp.Process) -> None:
        def counted(call: Any) -> Any:
            begin = proc.superstep
            found = call()
            spans.append((begin, proc.superstep))
            return found

        A = counted(lambda: share(proc, shape, first))
        B, doubled = share(proc, shape, second), (A * 2).persist()
        counted(lambda: A + B)
        counted(lambda: A + doubled)
        counted(lambda: A[1:, 3, ::2])
        counted(lambda: A.T.reshape(300, 20))
        owner = A._places.owners(B._places.positions)
        moved.append(2 * int((owner != proc.pid).sum()))

    spans: list[tuple[int, int]] = []
    moved: list[int] = []
    rows = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs)).per_superstep
    made, added, beside, part, turned = dict.fromkeys(spans)
    assert [end - begin for begin, end in (made, added, beside, part, turned)] == [6, 2, 1, 1, 4]
    assert rows[added[0]]["h_sent"] == max(moved) > 0


@pytest.mark.parametrize("nprocs", [1, 3, 4])
def test_skewed_places_are_dealt_evenly_and_stay_so(nprocs: int) -> None:
    """All entries in one plane, all passed by one process, all but a few the same, or cut down to a corner."""
    plane = [np.zeros(300, int), np.arange(300), np.arange(300) % 7]
    D = dense_of((50, 300, 7), (plane, np.ones(300)))

    def main(proc: bsp.Process) -> None:
        mine = slice(None) if proc.pid == 0 else slice(0)
        A = sparse.from_coo([each[mine] for each in plane], np.ones(300)[mine], shape=D.shape)
        assert max(np.diff(A._places.entries)) == -(-300 // proc.nprocs)
        same(A, D)
        same(A[:, 200:], D[:, 200:])
        same(A[0, :20], D[0, :20])
        repeated = sparse.from_coo([[3, 3, 3, proc.pid], [1, 1, 1, 0], [2, 2, 2, 1]], 1.0, shape=(50, 300, 7))
        assert repeated[3, 1, 2] == 3 * proc.nprocs
        same(A + repeated, D + repeated.todense().compute())
        left, right = A[:, :150].reshape(50, 150 * 7), A[:, 150:].reshape(50, 150 * 7)
        same(left + right, D[:, :150].reshape(50, -1) + D[:, 150:].reshape(50, -1))
        same(sparse.from_coo(([proc.pid], [0], [proc.pid]), proc.pid + 1), np.fromfunction(
            lambda i, j, k: (i == k) * (i + 1), (proc.nprocs, 1, proc.nprocs), dtype=int))  # fmt: skip

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [2, 5])
def test_many_entries_are_cut_exactly(nprocs: int) -> None:
    """More entries than are sent to all: each process gets an even share of the places, whoever passed them."""
    rng = np.random.default_rng(13)
    count, shape = 60_000, (400, 50, 60)
    skewed = [rng.zipf(1.3, count) % 400, rng.integers(0, 50, count), rng.integers(0, 60, count)], np.ones(count)
    D = dense_of(shape, skewed)
    distinct = list(np.nonzero(D)), D[np.nonzero(D)]

    def main(proc: bsp.Process) -> None:
        A, B = share(proc, shape, distinct), share(proc, shape, skewed)
        assert (A.nnz, B.nnz) == (len(distinct[1]), len(distinct[1]))
        assert set(np.diff(A._places.entries).tolist()) <= {A.nnz // nprocs, -(-A.nnz // nprocs)}
        np.testing.assert_array_equal(A.todense().compute(), D)
        assert (B - A).nnz == 0

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [2, 5])
def test_large_shapes_take_memory_for_their_entries_only(nprocs: int) -> None:
    shape = (2**20, 2**21, 2**21)
    rng = np.random.default_rng(2)
    places = [rng.integers(0, length, 200) for length in shape]

    def main(proc: bsp.Process) -> None:
        A = share(proc, shape, (places, np.ones(200)))
        assert (A + A).sum().compute() == 400
        assert A.sum((1, 2)).shape == (2**20,)
        assert A[int(places[0][0]), int(places[1][0]), int(places[2][0])] == 1
        assert A[:, ::-1, : 2**20].nnz == (places[2] < 2**20).sum()
        assert (A * ba.arange(2**21)).sum().compute() == places[2].sum()
        with ba.options(memory=1e9), pytest.raises(ba.PlanTooLarge, match=f"{2**41} rows and {2**21} columns"):
            A @ np.ones(2**21)
        with pytest.raises(ba.ArrayError, match=r"more than 2\*\*63 - 1 positions"):
            sparse.from_coo([[0], [0], [0], [0]], 1.0, shape=(*shape, 4))

    bsp.run(main, nprocs=nprocs)


@pytest.mark.thorough
@pytest.mark.parametrize("elements", [1, 3])
def test_the_same_bits_on_any_number_of_elements(elements: int) -> None:
    shape = (9, 8, 7)
    rng = np.random.default_rng(11)
    places, values = [rng.integers(0, length, 700) for length in shape], rng.normal(size=700)

    def main(proc: bsp.Process) -> list[bytes]:
        import bsp.arrays as ba
        from bsp.arrays import sparse

        mine = slice(proc.pid, None, proc.nprocs)
        A = sparse.from_coo([each[mine] for each in places], values[mine], shape=shape)
        found = (
            A.sum((0, 1)),
            A.sum(1),
            A.sum(),
            (A * ba.asarray(values[:7])).sum((1, 2)),
            A.T.todense(),
            A @ values[:7],
        )
        return [each.compute().tobytes() for each in found]

    assert bsp.run(main, nprocs=6, elements=elements) == bsp.run(main, nprocs=6)


@pytest.mark.parametrize("nprocs", [1, 4])
def test_mistakes_are_told_on_all_processes(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        last = proc.pid == proc.nprocs - 1
        A = sparse.as_coo(np.eye(12).reshape(3, 4, 12))
        for wrong, text in [
            (lambda: sparse.from_coo([[0], [0, 1], [0]], 1.0, shape=(2, 2, 2)), "of 1, 2, 1 coordinates, 1 values"),
            (lambda: sparse.from_coo([[0, 1], [0, 4 + last], [0, 0]], 1.0, shape=(2, 5, 2)),
             rf"axis 1: index 5 is out of range for length 5 \(entry 1 of process {proc.nprocs - 1}\)"),
            (lambda: sparse.from_coo([[0], [0], [-1]], 1.0, shape=(2, 5, 2)), "axis 2: index -1 is out of range"),
            (lambda: sparse.from_coo([[0], [0.5], [1]], 1.0), "axis 1: indices are integers"),
            (lambda: sparse.from_coo([[0], [0]], 1.0, shape=(2, 2, 2)), "2 vectors of coordinates .* of 3 axes"),
            (lambda: sparse.from_coo([], 1.0), "one length or more"),
            (lambda: sparse.from_coo([[0], [0], [0]], [1.0, 2.0]), "1, 1, 1 coordinates, 2 values"),
            (lambda: sparse.from_coo([[0]], [1.0], shape=(-2,)), r"shape \(-2,\)"),
            (lambda: A + sparse.as_coo(np.ones((3, 4, 11))), "are not the same"),
            (lambda: A * np.ones((2, 3, 4, 12)), "do not fit"), (lambda: A * np.ones(5), "do not fit"),
            (lambda: A + 1, "would fill the array"), (lambda: np.cos(A), "would fill it"),
            (lambda: A.sum(3), "axis 3 of"), (lambda: A.sum((0, -3)), "repeated axis"), (lambda: A.max(()), "name"),
            (lambda: A.transpose((0, 1)), "transpose: axes"), (lambda: A.transpose((0, 1, 1)), "transpose: axes"),
            (lambda: A.transpose((0, 1, 3)), "transpose: axes"), (lambda: A.reshape(5, -1), "reshape: an array"),
            (lambda: A.reshape(-1, -1), "reshape"), (lambda: A.reshape(143), "reshape"),
            (lambda: A.tensordot(np.ones((4, 3)), 2), "differ"), (lambda: A.tensordot(np.ones(3), 2), "2 axes of"),
            (lambda: A.tensordot(np.ones(12), ([0, 1], [0])), "2 axes of one array and 1"),
            (lambda: A @ np.ones(4), "do not fit"), (lambda: np.ones(3) @ A, "tensordot takes any axes"),
            (lambda: A.tocsr(), "a matrix has 2 axes"), (lambda: len(A), "ambiguous"),
            (lambda: np.asarray(A), r"would make it dense: .*todense\(\)"),
            (lambda: np.linalg.norm(A), r"would make it dense"),
            (lambda: sparse.write_mtx("a.mtx", A), "no sparse array of two axes; save_npz takes any number"),  # type: ignore[arg-type]
        ]:  # fmt: skip
            with pytest.raises((ba.ArrayError, TypeError), match=text):
                wrong()

    bsp.run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_arrays_go_through_rounds_with_their_exchange(nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        A = sparse.as_coo(np.arange(60.0).reshape(3, 4, 5) % 7).transpose((1, 2, 0)).persist()
        wanted = A.sum(0).compute()
        copied = pickle.loads(pickle.dumps(A))
        begin = proc.superstep
        np.testing.assert_array_equal(copied.sum(0).compute(), wanted)
        assert proc.superstep - begin <= 2  # the exchange is in the copy
        assert repr(copied) == "<4x5x3 sparse array of float64, 51 entries, coo>"

    bsp.run(main, nprocs=nprocs)


def test_predictions_have_the_supersteps_and_words_of_the_run() -> None:
    given_entries = entries_of((9, 8, 7), 200, 12)

    def main(proc: bsp.Process) -> None:
        A = share(proc, (9, 8, 7), given_entries)
        (A * np.arange(7.0)).sum(0).compute()
        (A + A[:, ::-1]).todense().persist()
        A.tensordot(np.ones((8, 7))).persist()

    real, without = (
        bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=each).per_superstep for each in (False, True)
    )
    assert [row["h_sent"] for row in real] == [row["h_sent"] for row in without]


@examples(40)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple), st.integers(0, 40), st.integers(1, 6),
    st.integers(0, 2**16), st.data(),
)  # fmt: skip
def test_any_array_is_numpys(shape: tuple[int, ...], count: int, nprocs: int, seed: int, data: st.DataObject) -> None:
    first, second = entries_of(shape, count, seed), entries_of(shape, count // 2, seed + 1)
    D, E = dense_of(shape, first), dense_of(shape, second)
    order = data.draw(st.permutations(range(len(shape))))
    axes = tuple(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    key = tuple(data.draw(st.slices(length)) for length in shape)
    operand = np.arange(float(D.sum(axis=axes).size)).reshape(D.sum(axis=axes, keepdims=True).shape)

    def main(proc: bsp.Process) -> None:
        A, B = share(proc, shape, first), share(proc, shape, second)
        same(A.transpose(order)[tuple(key[k] for k in order)], D[key].transpose(order))
        same(A.sum(axes), D.sum(axis=axes))
        same(A * operand, D * operand)
        same(A.transpose(order) - B.transpose(order), (D - E).transpose(order))
        same((A * B).transpose(order).reshape(-1), (D * E).transpose(order).reshape(-1))

    bsp.run(main, nprocs=nprocs)


def test_a_part_of_a_long_axis_takes_no_memory_for_its_positions() -> None:
    def main(proc: bsp.Process) -> None:
        A = sparse.from_coo([[2**61 - 1], [0]], [1.0], shape=(2**61, 2))
        assert A[::-1, :1].compute().coords[0].tolist() == [0]
        assert A[2**60 :].compute().coords[0].tolist() == [2**60 - 1]

    bsp.run(main, nprocs=2)
