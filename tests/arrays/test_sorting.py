"""Sorted arrays are NumPy's to the bit, ties, zeros of both signs and NaNs included, in three supersteps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.arrays.selection.orderstats import Sorted, Unsorted, order_statistics
from bsp.arrays.world import world

RNG = np.random.default_rng(5)
KINDS = ("normal", "constant", "few", "nan", "sorted", "zeros", "integers", "booleans", "complex", "float32")


def sample(kind: str, size: int) -> Any:
    x: Any = RNG.normal(size=size)
    if kind == "constant":
        x[:] = 3
    elif kind == "few":
        x = np.floor(x * 2)
    elif kind == "nan":
        x[RNG.random(size) < 0.3] = np.nan
        x[RNG.random(size) < 0.2] = -np.nan
    elif kind == "sorted":
        x.sort()
    elif kind == "zeros":
        x = np.where(RNG.random(size) < 0.8, 0 * RNG.choice([-1.0, 1.0], size), x)
    elif kind == "integers":
        x = RNG.integers(-1000, 1000, size)
    elif kind == "booleans":
        x = x > 1
    elif kind == "complex":
        x = np.floor(x * 1.3) + 1j * np.floor(RNG.normal(size=size) * 2)
        for value in (np.nan, complex(1, np.nan), complex(-0.0, 0.0), complex(0.0, -0.0)):
            x[RNG.random(size) < 0.1] = value
    elif kind == "float32":
        x = x.astype(np.float32)
    return x


def oracle(x: Any, descending: bool, axis: int = -1) -> tuple[Any, Any]:
    """By NumPy's stable argsort; descending: the last of equal elements first, backwards."""
    if descending:
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), kind="stable", axis=axis), axis)
    else:
        order = np.argsort(x, kind="stable", axis=axis)
    return np.take_along_axis(x, order, axis), order


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", (0, 1, 2, 7, 300, 5000, 40_000))
def test_a_dealt_vector_is_sorted_stably_to_the_bit(kind: str, size: int) -> None:
    x = sample(kind, size)

    def main(proc: bsp.Process, grid: int) -> Any:
        array = ba.asarray(x, grid=grid)
        return [
            (ba.sort(array, descending=down).compute().tobytes(), ba.argsort(array, descending=down).compute())
            for down in (False, True)
        ]

    want = [oracle(x, down) for down in (False, True)]
    for nprocs, grid in ((1, 1), (2, 2), (3, 7), (11, 11)):
        for results in bsp.run(main, grid, nprocs=nprocs):
            for (values, order), (good, right) in zip(results, want, strict=True):
                assert values == good.tobytes()
                assert order.dtype == np.int64 and np.array_equal(order, right)


def test_lines_of_any_axis_are_sorted() -> None:
    x = RNG.integers(-3, 3, (6, 7, 5)) * 1.0

    def main(proc: bsp.Process, grid: Any, axis: int, down: bool) -> Any:
        array = ba.asarray(x, grid=grid)
        return ba.sort(array, axis=axis, descending=down).compute(), np.argsort(array, axis=axis).compute()

    for nprocs, grid in ((1, None), (4, (2, 2, 1)), (4, (1, 3, 2))):
        for axis in (0, 1, -1):
            for down in (False, True):
                for values, order in bsp.run(main, grid, axis, down, nprocs=nprocs):
                    assert values.tobytes() == oracle(x, down, axis)[0].tobytes()
                    assert np.array_equal(order, oracle(x, False, axis)[1])


@pytest.mark.parametrize("kind", ("normal", "constant", "few", "nan"))
def test_a_sort_takes_three_supersteps_and_ends_in_even_pieces(kind: str) -> None:
    x = sample(kind, 50_001)

    def main(proc: bsp.Process) -> Any:
        array = ba.asarray(x)
        before = proc.superstep
        found = ba.sort(array)
        steps = proc.superstep - before
        return steps, found.layout is array.layout

    assert bsp.run(main, nprocs=4) == [(3, True)] * 4


def test_the_exchange_of_a_sort_moves_what_lies_elsewhere() -> None:
    n, p = 40_000, 4
    x = RNG.normal(size=n)

    def main(proc: bsp.Process) -> None:
        ba.sort(ba.asarray(x))

    rows = bsp.predict(main, nprocs=p, machine=bsp.Machine(p=p)).per_superstep
    exchange = rows[2]
    owner = np.argsort(np.argsort(x)) * p // n
    moved = np.array(
        [[np.count_nonzero(owner[a * n // p : (a + 1) * n // p] == b) for b in range(p)] for a in range(p)]
    )
    np.fill_diagonal(moved, 0)
    assert (exchange["h_sent"], exchange["h_received"]) == (moved.sum(axis=1).max(), moved.sum(axis=0).max())


@pytest.mark.parametrize("kind", ("normal", "constant", "few", "nan", "sorted", "zeros", "integers", "booleans"))
@pytest.mark.parametrize("size", (1, 300, 5000, 60_000))
def test_order_statistics_are_exact_and_counted_by_process(kind: str, size: int) -> None:
    x = sample(kind, size)
    ordered = np.sort(x)
    ranks = sorted({0, size - 1, size // 2, size // 4, min(size - 1, size // 4 + 1), 3 * size // 4})

    def main(proc: bsp.Process, cuts: Any, first_sorted: bool) -> Any:
        mine = x[cuts[proc.pid] : cuts[proc.pid + 1]]
        before = proc.superstep
        data = Sorted(np.sort(mine)) if first_sorted else Unsorted(mine)
        found, extras = order_statistics(world(), data, ranks, [proc.pid])
        assert extras[:, 0].tolist() == list(range(proc.nprocs))
        return found, proc.superstep - before

    for inner in ([], [size // 2], [0, 0, size // 2, size // 2]):
        cuts = [0, *inner, size]
        for first_sorted in (False, True):
            for found, steps in bsp.run(main, cuts, first_sorted, nprocs=len(cuts) - 1):
                assert steps <= 2
                for rank in ranks:
                    value, less, equal = found[rank]
                    assert np.array_equal(value, ordered[rank], equal_nan=x.dtype.kind == "f")
                    for k in range(len(cuts) - 1):
                        own = np.sort(x[cuts[k] : cuts[k + 1]])
                        low = np.searchsorted(own, value, "left")
                        assert (less[k], equal[k]) == (low, np.searchsorted(own, value, "right") - low)


@pytest.mark.parametrize("nprocs", (1, 2, 5))
def test_searchsorted_counts_what_is_less(nprocs: int) -> None:
    line, values = np.sort(RNG.integers(0, 500, 3001)), RNG.integers(-5, 505, (40, 50))

    def main(proc: bsp.Process) -> Any:
        lines = (line, ba.asarray(line, grid=nprocs), ba.asarray(line, grid=7))
        wanted = (values, ba.asarray(values, grid=(nprocs, 1)), ba.asarray(values[:3, :3], grid=(2, 2)))
        return [ba.searchsorted(a, b, side=side).compute() for a in lines for b in wanted for side in ("left", "right")]

    want = [np.searchsorted(line, b, side) for b in (values, values, values[:3, :3]) for side in ("left", "right")] * 3
    for results in bsp.run(main, nprocs=nprocs):
        for got, expected in zip(results, want, strict=True):
            assert got.shape == expected.shape and np.array_equal(got, expected)


def test_searchsorted_takes_a_sorter_and_digitize_falling_bins() -> None:
    x, edges = RNG.normal(size=2000), np.array([2.0, 1.0, 0.0])

    def main(proc: bsp.Process) -> Any:
        array = ba.asarray(x, grid=3)
        found = ba.searchsorted(array, array, sorter=ba.argsort(array))
        return found.compute(), np.digitize(array, edges, right=True).compute()

    for found, bins in bsp.run(main, nprocs=3):
        assert np.array_equal(found, np.searchsorted(x, x, sorter=np.argsort(x)))
        assert np.array_equal(bins, np.digitize(x, edges, right=True))


def test_an_abstract_sort_moves_every_word() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.random.rand(100_000))
        ba.sort(x)

    rows = bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep
    assert rows[-1]["h_sent"] == 25_000


@pytest.mark.jobs
def test_processes_of_several_elements_sort_alike() -> None:
    x = np.random.default_rng(1).normal(size=30_000)
    for values, order in bsp.run(_sorted, nprocs=3, elements=2):
        assert np.array_equal(values, np.sort(x)) and np.array_equal(order, np.argsort(x, kind="stable"))


def _sorted(proc: bsp.Process) -> Any:
    array = ba.asarray(np.random.default_rng(1).normal(size=30_000))
    return ba.sort(array).compute(), ba.argsort(array).compute()
