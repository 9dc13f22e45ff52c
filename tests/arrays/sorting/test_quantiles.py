"""Quantiles and medians have NumPy's bits for every method; topk is the head of a stable sort."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpys_answers import alike

import bsp
import bsp.arrays as ba
from bsp.arrays.sorting.quantiles import METHODS

RNG = np.random.default_rng(9)


def sample(kind: str, size: int) -> Any:
    x: Any = RNG.normal(size=size)
    if kind == "few":
        x = np.floor(x * 2)
    elif kind == "nan":
        x[RNG.random(size) < 0.1] = np.nan
    elif kind == "inf":
        x[RNG.random(size) < 0.2] = np.inf
    elif kind == "integers":
        x = RNG.integers(-1000, 1000, size)
    elif kind == "float32":
        x = x.astype(np.float32)
    return x


def tried(call: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            return call()
        except (ValueError, TypeError) as wrong:
            return f"{type(wrong).__name__} {wrong}"[:40]


def same(got: Any, want: Any) -> bool:
    if isinstance(want, str) or isinstance(got, str):
        return isinstance(got, str) and got == want
    want = np.asarray(want)
    return got.shape == want.shape and got.dtype == want.dtype and bool(np.array_equal(got, want, equal_nan=True))


Q: tuple[Any, ...] = (0.5, 0, 1, 0.3, np.array([0.1, 0.5, 0.99, 0, 1.0]), [[0.25, 0.75]], np.linspace(0, 1, 31))


def calls(size: int) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    methods = METHODS if size < 400 else ("linear", "nearest", "hazen")
    found: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("quantile", (q,), {"method": method}) for method in methods for q in (Q if size < 400 else Q[4:])
    ]
    found += [("percentile", (q,), {}) for q in (50, [1, 99], 33.3)]
    found += [
        ("median", (), {}),
        ("median", (), {"keepdims": True}),
        ("nanmedian", (), {}),
        ("nanquantile", (0.3,), {}),
    ]
    return [*found, ("quantile", (1.5,), {}), ("percentile", (-1,), {}), ("nanpercentile", ([3, 50],), {})]


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ("normal", "few", "nan", "inf", "integers", "float32"))
@pytest.mark.parametrize("size", (1, 2, 5, 300, 5000, 30_001))
def test_quantiles_of_all_elements_have_numpys_bits(kind: str, size: int) -> None:
    x = sample(kind, size)

    def main(proc: bsp.Process, grid: Any) -> Any:
        array = ba.asarray(x, grid=grid)
        return [tried(lambda n=n, a=a, k=k: getattr(ba, n)(array, *a, **k).compute()) for n, a, k in calls(size)]

    want = [tried(lambda n=n, a=a, k=k: getattr(np, n)(x, *a, **k)) for n, a, k in calls(size)]
    for nprocs, grid in ((1, 1), (3, 3), (5, 7), (2, None)):
        for results in bsp.run(main, grid, nprocs=nprocs):
            for call, got, expected in zip(calls(size), results, want, strict=True):
                assert same(got, expected), (nprocs, grid, call, got, expected)


@pytest.mark.parametrize("nans", (0, 1, 2, 5))
def test_medians_of_complex_elements_skip_nan_in_either_part(nans: int) -> None:
    x = RNG.normal(size=5) + 1j * RNG.normal(size=5)
    x[:nans] = [complex(np.nan, k) if k % 2 else complex(k, np.nan) for k in range(nans)]

    def main(proc: bsp.Process, grid: Any) -> Any:
        return tried(lambda: ba.nanmedian(ba.asarray(x, grid=grid)).compute())

    for nprocs, grid in ((1, 1), (3, 3), (2, None)):
        for got in bsp.run(main, grid, nprocs=nprocs):
            assert same(got, tried(lambda: np.nanmedian(x)))


def test_quantiles_over_axes_are_numpys() -> None:
    x = RNG.normal(size=(6, 7, 5))
    x[1, 2, 3] = np.nan
    over: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
        ("quantile", (q,), {"axis": axis, "keepdims": keep})
        for q in (0.3, [0.2, 0.8]) for axis in (0, 1, -1, (0, 2), (0, 1, 2), None) for keep in (False, True)
    ]  # fmt: skip
    over += [("median", (), {"axis": 1}), ("nanmedian", (), {"axis": (0, 1)}), ("nanquantile", ([0.1],), {"axis": 0})]

    def main(proc: bsp.Process, grid: Any) -> Any:
        array = ba.asarray(x, grid=grid)
        return [getattr(ba, n)(array, *a, **k).compute() for n, a, k in over]

    want = [getattr(np, n)(x, *a, **k) for n, a, k in over]
    for nprocs, grid in ((1, None), (4, (2, 2, 1)), (4, (1, 3, 2))):
        for results in bsp.run(main, grid, nprocs=nprocs):
            for call, got, expected in zip(over, results, want, strict=True):
                assert same(got, expected), (call, got, expected)


def test_three_percentiles_take_two_supersteps_and_few_words() -> None:
    n, p = 200_000, 4
    x = RNG.normal(size=n)

    def main(proc: bsp.Process) -> None:
        ba.percentile(ba.asarray(x), [1, 50, 99])

    rows = bsp.predict(main, nprocs=p, machine=bsp.Machine(p=p)).per_superstep
    assert len([row for row in rows if row["h_sent"]]) == 2
    assert sum(row["h_received"] for row in rows) < n // 5


@pytest.mark.parametrize("kind", ("normal", "few", "nan", "integers"))
@pytest.mark.parametrize("size", (1, 5, 300, 20_000))
def test_topk_is_the_head_of_a_stable_sort(kind: str, size: int) -> None:
    x = sample(kind, size)
    counts = sorted({0, 1, min(5, size), size})

    def main(proc: bsp.Process, grid: Any) -> Any:
        array = ba.asarray(x, grid=grid)
        return [[each.compute() for each in ba.topk(array, k, largest=up)] for k in counts for up in (True, False)]

    down = size - 1 - np.argsort(x[::-1], kind="stable")[::-1]
    up = np.argsort(x, kind="stable")
    for nprocs, grid in ((1, 1), (3, 3), (4, 9)):
        for results in bsp.run(main, grid, nprocs=nprocs):
            for (values, places), (k, order) in zip(results, [(k, o) for k in counts for o in (down, up)], strict=True):
                assert np.array_equal(places, order[:k])
                assert np.array_equal(values, x[order[:k]], equal_nan=kind != "integers")


def test_topk_of_lines_and_of_more_than_there_are() -> None:
    x = RNG.integers(0, 9, (6, 50))

    def main(proc: bsp.Process) -> Any:
        array = ba.asarray(x, grid=(2, 2))
        with pytest.raises(ValueError, match="topk: k=51 of an axis of length 50"):
            ba.topk(array, 51)
        return [each.compute() for each in ba.topk(array, 3)], [each.compute() for each in ba.topk(array, 2, axis=0)]

    for rows, columns in bsp.run(main, nprocs=4):
        assert np.array_equal(rows[0], -np.sort(-x, axis=1)[:, :3])
        assert np.array_equal(rows[1], np.argsort(-x, axis=1, kind="stable")[:, :3])
        assert np.array_equal(columns[1], np.argsort(-x, axis=0, kind="stable")[:2])


def test_quantiles_run_abstractly() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.random.rand(100_000))
        assert ba.percentile(x, [1, 50, 99]).shape == (3,)
        assert ba.topk(x, 10)[1].shape == (10,)

    assert bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep


def test_the_median_of_complex_numbers_with_nan_is_nan() -> None:
    alike(lambda xp, x: xp.median(x), np.array([1 + 1j, complex(np.nan, 2), 3, 4 - 1j, 0]))
