"""Loops over elements become array statements where their iterations are independent, and compute what the loops do."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
from loop_kernels import KERNELS, Kernel, lu, seidel

import bsp
import bsp.arrays as ba
from bsp.arrays.loops import parallel


def leaves(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for each in value for leaf in leaves(each)]
    return [] if value is None else [value]


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.function.__name__)
def test_what_becomes_of_loops(kernel: Kernel) -> None:
    made = parallel(kernel.function)
    counted = [sum(each.parallel is which for each in made.loops) for which in (True, False)]
    assert counted == [kernel.becomes, kernel.stays], made.explain()
    assert all(each.line > 0 for each in made.loops)
    made.check(*kernel.arguments)


@pytest.mark.parametrize("nprocs", [1, 3, 8])
@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.function.__name__)
def test_kernels_on_processes(kernel: Kernel, nprocs: int) -> None:
    wanted = copy.deepcopy(kernel.arguments)
    result = kernel.function(*wanted)
    made = parallel(kernel.function)

    def main(proc: bsp.Process) -> None:
        given = copy.deepcopy(kernel.arguments)
        found = made(*given)
        for a, b in zip(leaves((result, wanted)), leaves((found, given)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)

    bsp.run(main, nprocs=nprocs)


def test_distributed_arrays_stay_distributed() -> None:
    def smooth(u: Any, v: Any) -> None:
        for i in range(1, len(u) - 1):
            v[i] = (u[i - 1] + u[i] + u[i + 1]) / 3

    def main(proc: bsp.Process) -> Any:
        u = np.arange(40.0) ** 2
        v = ba.zeros(40, grid=(4,))
        assert parallel(smooth)(ba.asarray(u, grid=(4,)), v) is None
        return v.compute()

    wanted = np.zeros(40)
    smooth(np.arange(40.0) ** 2, wanted)
    np.testing.assert_allclose(bsp.run(main, nprocs=4)[0], wanted)


def test_explain_shows_slices_and_reasons() -> None:
    assert "becomes A[k + 1:n, k + 1:n] = " in parallel(lu).explain()
    text = parallel(seidel).explain()
    assert "A[i - 1, j] may be what another iteration writes as A[i, j]" in text
    assert text.startswith("line ")


def refused(function: Any, why: str) -> None:
    made = parallel(function)
    assert not any(each.parallel for each in made.loops)
    assert why in made.explain()


def test_why_loops_stay() -> None:
    def scan(x: Any) -> Any:
        total = 0.0
        for i in range(len(x)):
            total = total * 0.5 + x[i]
        return total

    def last(x: Any) -> Any:
        for i in range(len(x)):
            found = x[i]
        return found

    def same(x: Any, y: Any) -> None:
        for i in range(len(x)):
            y[0] = x[i]

    def by_position(x: Any, at: Any, y: Any) -> None:
        for i in range(len(at)):
            y[at[i]] = x[i]

    def calls(x: Any) -> None:
        for i in range(len(x)):
            x[i] = repr(x[i])

    def down(x: Any) -> None:
        for i in range(len(x), 0, -1):
            x[i] = 0

    def broken(x: Any) -> None:
        for i in range(len(x)):
            if x[i] > 2:
                break

    for function, why in [
        (scan, "total is used outside of the loop"), (last, "found is used outside of the loop"),
        (same, "iterations of i write the same element y[0]"), (by_position, "at[i]"), (calls, "calls repr"),
        (down, "no loop over range"), (broken, "break is no assignment"),
    ]:  # fmt: skip
        refused(function, why)


def test_positions_before_the_first_are_errors() -> None:
    """The loop would take them from the end; slices do not, so nothing is computed."""

    def wrapped(x: Any, y: Any) -> None:
        for i in range(len(x)):
            y[i] = x[i - 1]

    with pytest.raises(IndexError, match="reaches position -1"):
        parallel(wrapped).with_numpy(np.arange(4.0), np.zeros(4))


def test_check_finds_arrays_that_are_one() -> None:
    """Two arguments that are the same array are not seen in the source; the check is for that."""

    def shift(x: Any, y: Any) -> None:
        for i in range(1, len(x)):
            y[i] = x[i - 1]

    made = parallel(shift)
    made.check(np.arange(5.0), np.zeros(5))
    x = np.arange(5.0)
    with pytest.raises(AssertionError, match="shift"):
        made.check(x, x)
