"""Distinct elements, membership and counts are NumPy's, from few elements and from many, whatever the layout."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpys_answers import as_numpys
from thinning import examples

import bsp
import bsp.arrays as ba

RNG = np.random.default_rng(3)
ALL = {"return_index": True, "return_inverse": True, "return_counts": True}


def sample(kind: str, size: int) -> Any:
    x: Any = RNG.normal(size=size)
    if kind == "few":
        x = np.floor(x * 2)
    elif kind == "nan":
        x = np.floor(x * 30)
        x[RNG.random(size) < 0.1] = np.nan
    elif kind == "integers":
        x = RNG.integers(0, size // 2 + 9, size)
    elif kind == "bytes":
        x = RNG.integers(-128, 128, size).astype(np.int8)
    elif kind == "least":
        x = np.iinfo(np.int64).min + RNG.integers(0, 99, size)
    elif kind == "greatest":
        x = np.uint64(np.iinfo(np.uint64).max) - RNG.integers(0, 99, size).astype(np.uint64)
    elif kind == "wide":
        x = RNG.integers(-(1 << 62), 1 << 62, size) * 2
    elif kind == "complex":
        x = np.floor(x * 3) + 1j * np.floor(RNG.normal(size=size) * 3)
    return x


def same(got: Any, want: Any) -> bool:
    got, want = (each if isinstance(each, tuple) else (each,) for each in (got, want))
    return len(got) == len(want) and all(
        a.shape == b.shape and a.dtype == b.dtype and np.array_equal(a, b, equal_nan=b.dtype.kind in "fc")
        for a, b in zip(got, want, strict=True)
    )


def computed(found: Any) -> Any:
    return tuple(each.compute() for each in found) if isinstance(found, tuple) else found.compute()


@pytest.mark.parametrize("kind", ("normal", "few", "nan", "integers", "bytes", "least", "greatest", "wide", "complex"))
@pytest.mark.parametrize("size", (0, 1, 5, 300, 12_000))
def test_distinct_elements_are_numpys(kind: str, size: int) -> None:
    x = sample(kind, size)
    y = np.concatenate([x[: size // 2], x[:3]])

    def main(proc: bsp.Process, grid: Any) -> list[Any]:
        a, b = ba.asarray(x, grid=grid), ba.asarray(y, grid=proc.nprocs)
        found = [
            ba.unique(a), ba.unique(a, **ALL), ba.unique(a, equal_nan=False, **ALL), tuple(ba.unique_all(a)),
            tuple(ba.unique_counts(a)), ba.unique_values(a), ba.isin(a, b), ba.isin(a, y[:4], invert=True),
            ba.union1d(a, b), ba.intersect1d(a, y[:9]), ba.setdiff1d(a, y[:9]),
        ]  # fmt: skip
        return [computed(each) for each in found]

    bare = np.unique(x, equal_nan=False)
    want = [
        np.unique(x), np.unique(x, **ALL), np.unique(x, equal_nan=False, **ALL), tuple(np.unique_all(x)),
        tuple(np.unique_counts(x)), bare, np.isin(x, y), np.isin(x, y[:4], invert=True), np.union1d(x, y),
        np.intersect1d(x, y[:9]), np.setdiff1d(x, y[:9]),
    ]  # fmt: skip
    for nprocs, grid in ((1, 1), (3, 3), (4, 7), (2, None)):
        for results in bsp.run(main, grid, nprocs=nprocs):
            for k, (got, expected) in enumerate(zip(results, want, strict=True)):
                assert same(got, expected), (nprocs, grid, k, got, expected)


def test_the_inverse_of_a_matrix_has_its_shape() -> None:
    x = RNG.integers(-3, 4, (60, 70))

    def main(proc: bsp.Process) -> Any:
        return computed(ba.unique(ba.asarray(x, grid=(2, 2)), **ALL))

    assert all(same(got, np.unique(x, **ALL)) for got in bsp.run(main, nprocs=4))


def test_few_distinct_elements_cost_one_superstep_and_many_three() -> None:
    def main(proc: bsp.Process) -> Any:
        few, many = (ba.arange(40_000) % 10).persist(), ba.arange(40_000)
        marks = [proc.superstep]
        for array in (few, many):
            ba.unique(array)
            marks.append(proc.superstep)
        return np.diff(marks).tolist()

    assert bsp.run(main, nprocs=4) == [[1, 3]] * 4


@pytest.mark.parametrize("nprocs", (1, 2, 5))
def test_bins_are_counted_like_numpys(nprocs: int) -> None:
    x, n = RNG.integers(0, 300, 5000), RNG.normal(size=5000)
    weights = RNG.integers(0, 9, 5000) * 1.0  # sums are exact

    def main(proc: bsp.Process) -> Any:
        a, b, w = ba.asarray(x, grid=3), ba.asarray(n, grid=nprocs), ba.asarray(weights, grid=2)
        with pytest.raises(ValueError, match="'list' argument must have no negative elements"):
            ba.bincount(a - 5)
        found = (
            ba.bincount(a), ba.bincount(a, minlength=20_000), ba.bincount(a, weights=w), ba.histogram(b),
            ba.histogram(b, bins=7, range=(-1, 2.0)), ba.histogram(b, [-1, 0, 0.5, 3], density=True),
            ba.histogram(b, weights=w),
        )  # fmt: skip
        return [computed(each) for each in found]

    want = [
        np.bincount(x), np.bincount(x, minlength=20_000), np.bincount(x, weights=weights), np.histogram(n),
        np.histogram(n, bins=7, range=(-1, 2.0)), np.histogram(n, [-1, 0, 0.5, 3], density=True),
        np.histogram(n, weights=weights),
    ]  # fmt: skip
    for results in bsp.run(main, nprocs=nprocs):
        for k, (got, expected) in enumerate(zip(results, want, strict=True)):
            assert same(got, expected), (k, got, expected)


def test_sets_run_abstractly() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.random.rand(100_000))
        assert ba.unique(x).shape == (100_000,)
        assert ba.unique_inverse(x).inverse_indices.shape == (100_000,)
        assert ba.histogram(x)[0].shape == (10,)

    assert bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep


SLICES = [(1, 1), (9, 2), (40, 3), (5, 2, 3), (0, 2), (3, 0), (7, 1, 2)]


@examples(60)
@given(st.sampled_from(SLICES), st.sampled_from([0, 1, -1]), st.sampled_from(["integers", "floats", "nan", "bools"]),
       st.integers(1, 5), st.sampled_from(["blocks", "fine", "ragged"]))  # fmt: skip
def test_distinct_slices_are_numpys(shape: tuple[int, ...], axis: int, kind: str, nprocs: int, way: str) -> None:
    rng = np.random.default_rng(len(shape) + shape[0])
    x: Any = rng.integers(0, 2, shape)
    if kind in ("floats", "nan"):
        x = x - 0.5
    if kind == "nan":
        x[rng.random(shape) < 0.1] = np.nan
    if kind == "bools":
        x = x > 0
    as_numpys(
        {
            "values": lambda x: np.unique(x, axis=axis),
            "all": lambda x: np.unique(x, axis=axis, **ALL),
            "counts": lambda x: np.unique(x, axis=axis, return_counts=True),
        },
        [x], nprocs=nprocs, ways=(way,),
    )  # fmt: skip


def test_many_distinct_rows_are_dealt() -> None:
    x = np.random.default_rng(1).integers(0, 90, (20_000, 2))
    as_numpys({"rows": lambda x: np.unique(x, axis=0, **ALL)}, [x], ways=("blocks", "ragged"))
    as_numpys({"no such axis": lambda x: np.unique(x, axis=2), "nor": lambda x: np.unique(x[:, 0], axis=1)}, [x])


def test_what_is_in_one_of_two_and_where_common_elements_stand() -> None:
    x, y = np.array([3, 1, 4, 1, 5, 9, 2, 6]), np.array([5, 3, 5, 8, 9, 7])
    a, b = np.array([1.0, np.nan, 2, np.nan]), np.array([np.nan, 2, 3.0])
    as_numpys(
        {
            "xor": lambda x, y, a, b: np.setxor1d(x, y),
            "xor with NaN": lambda x, y, a, b: np.setxor1d(a, b),
            "xor of distinct ones": lambda x, y, a, b: np.setxor1d(x[:3], y[:2], True),
            "indices": lambda x, y, a, b: np.intersect1d(x, y, return_indices=True),
            "indices of distinct ones": lambda x, y, a, b: np.intersect1d(x[4:], y[2:5], True, True),
            "indices of none": lambda x, y, a, b: np.intersect1d(x, x + 100, return_indices=True),
        },
        [x, y, a, b],
    )


def test_distinct_slices_run_abstractly() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.random.rand(10_000, 5))
        assert ba.unique(x, axis=0).shape == (10_000, 5)
        assert ba.unique(x, axis=0, return_inverse=True)[1].shape == (10_000,)

    assert bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep


@pytest.mark.parametrize("size", (3000, 60_000))
def test_processes_with_few_elements_and_with_many_agree(size: int) -> None:
    """Some tell all they have, others a sample; some have nothing."""
    p = 6
    x = np.random.default_rng(2).integers(0, 10 * size, size) * 1.0
    bounds = [0, 3, 3, size // 2, size // 2, size - 50, size]

    def main(proc: bsp.Process) -> Any:
        array = ba.from_local(x[bounds[proc.pid] : bounds[proc.pid + 1]])
        other = ba.from_local(x[bounds[p - 1 - proc.pid] : bounds[p - proc.pid]] + (proc.pid % 2) * 0.5)
        found = [ba.unique(array), *ba.unique(array, True, True, True), ba.isin(array, other), ba.sort(array)]
        return [each.compute() for each in found], other.compute()

    for found, other in bsp.run(main, nprocs=p):
        want = [np.unique(x), *np.unique(x, True, True, True), np.isin(x, other), np.sort(x)]
        for got, expected in zip(found, want, strict=True):
            assert np.array_equal(got, expected)


def test_common_elements_with_positions_have_the_dtype_of_both() -> None:
    a, b = np.array([1, 2, 7, 2], np.uint16), np.array([2, 5, 7], np.int8)
    as_numpys({"intersect1d": lambda a, b: np.intersect1d(a, b, return_indices=True)}, [a, b])
