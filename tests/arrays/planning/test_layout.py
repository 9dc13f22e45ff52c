"""Process grids and blocks dealt in turn, one by one or in lines: NumPy's values however blocks lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpys_answers import random

import bsp
import bsp.arrays as ba


@pytest.mark.parametrize("name", ["sum", "max", "argmax", "mean", "var", "cumsum"])
@pytest.mark.parametrize("grid", [1, 2])
def test_a_process_grid_may_be_longer_than_the_grid(name: str, grid: int) -> None:
    data = random(7)

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(data, grid=(grid,), process_grid=(3,))
        np.testing.assert_allclose(getattr(ba, name)(x).compute(), getattr(np, name)(data), rtol=1e-12)

    bsp.run(main, nprocs=3)


@pytest.mark.parametrize("name", ["sum", "std", "argmax", "cumsum", "median", "sort"])
@pytest.mark.parametrize("schedule", ["lshs", "round-robin"])
def test_blocks_placed_one_by_one_are_reduced_by_patterns(name: str, schedule: str) -> None:
    def main(proc: bsp.Process) -> None:
        for shape, grid in (((4, 4), (4, 4)), ((6, 5, 1), (1, 3, 3)), ((7, 4), (3, 2)), ((9,), (4,))):
            data = random(*shape)
            with ba.options(schedule=schedule):
                x = (ba.asarray(data, grid=grid) * 2).persist()
            for axis in range(len(shape)):
                found = getattr(ba, name)(x, axis=axis).compute()
                np.testing.assert_allclose(found, getattr(np, name)(2 * data, axis=axis), rtol=1e-9)

    bsp.run(main, nprocs=3)


def test_a_square_and_its_transpose_are_added_on_a_square_process_grid() -> None:
    data = random(6, 6)

    def main(proc: bsp.Process) -> None:
        for grid in ((2, 2), (4, 4)):
            x = ba.asarray(data, grid=grid, process_grid=(2, 2))
            np.testing.assert_array_equal((x + x.T).compute(), data + data.T)
            np.testing.assert_allclose((x @ x.T + x.T).compute(), data @ data.T + data.T, rtol=1e-12)

    bsp.run(main, nprocs=4)


@pytest.mark.parametrize("name", ["argmin", "argmax"])
def test_of_equal_extremes_the_first_is_found_in_blocks_dealt_in_turn(name: str) -> None:
    for data in (np.zeros(12), np.tile([1.0, 0.0], 6), np.tile([0.0, np.nan], 6)):

        def main(proc: bsp.Process, data: np.ndarray = data) -> None:
            for grid in (4, 5, 6):
                x = ba.asarray(data, grid=(grid,), process_grid=(2,))
                for each, values in ((x, data), (x[1:], data[1:]), (x[::-1], data[::-1])):
                    assert int(getattr(ba, name)(each)) == getattr(np, name)(values)

        bsp.run(main, nprocs=2)


@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running_results_go_on_from_block_to_block_dealt_in_turn(name: str) -> None:
    data = random(7, 9)

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(data, grid=(5, 4), process_grid=(2, 2))
        for axis in (0, 1):
            np.testing.assert_allclose(getattr(ba, name)(x, axis=axis).compute(), getattr(np, name)(data, axis=axis))

    bsp.run(main, nprocs=4)
    bsp.run(main, nprocs=5)


FROM_A_LINE: dict[str, Callable[..., Any]] = {
    "sort": lambda xp, x: xp.sort(x),
    "argsort": lambda xp, x: np.argsort(x, stable=True) if xp is np else xp.argsort(x),
    "unique": lambda xp, x: xp.unique(x),
    "searchsorted": lambda xp, x: xp.searchsorted(xp.sort(x), x),
    "median": lambda xp, x: xp.median(x),
    "mask": lambda xp, x: x[x > 0],
    "histogram": lambda xp, x: xp.histogram(x, bins=4)[0],
    "bincount": lambda xp, x: xp.bincount((x > 0).astype(int)),
    "isin": lambda xp, x: xp.isin(x, x[:3]),
}


@pytest.mark.parametrize("name", list(FROM_A_LINE))
def test_lines_of_a_process_grid_and_small_arrays_are_counted_once(name: str) -> None:
    data = random(12, 10)

    def main(proc: bsp.Process) -> None:
        for x in (ba.asarray(data, grid=(2, 2)), ba.asarray(data)):
            for line, values in ((x[:, 3], data[:, 3]), (x[5], data[5])):
                found = FROM_A_LINE[name](ba, line.persist()).compute()
                np.testing.assert_allclose(found, FROM_A_LINE[name](np, values), rtol=1e-12)

    bsp.run(main, nprocs=4)


@pytest.mark.parametrize("name", ["sort", "argsort", "unique", "median", "mask"])
def test_a_long_column_of_a_process_grid_is_a_line(name: str) -> None:
    data = random(20_000, 4).round(3)

    def main(proc: bsp.Process) -> None:
        line = (ba.asarray(data, grid=(2, 2))[:, 3] * 1).persist()
        np.testing.assert_array_equal(FROM_A_LINE[name](ba, line).compute(), FROM_A_LINE[name](np, data[:, 3]))

    bsp.run(main, nprocs=4)
