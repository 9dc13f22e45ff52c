"""What a loop carries from round to round: computed once where it is persisted, told of where it is computed twice."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.arrays.errors import RecomputedWarning


def rounds(side: int, count: int, persist: bool) -> float:
    """Jacobi's method: each round starts from the array of the last one, which is asked for its change only."""
    u = ba.zeros((side, side), grid=(2, 1))
    change = 0.0
    for _ in range(count):
        new = 0.25 * (ba.roll(u, 1, 0) + ba.roll(u, -1, 0) + ba.roll(u, 1, 1) + ba.roll(u, -1, 1)) + 1.0
        if persist:
            new.persist()
        change = float(abs(new - u).max())
        u = new
    return change


def told(side: int, count: int, persist: bool) -> list[warnings.WarningMessage]:
    """The warnings of such a loop on two processes."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert bsp.run(lambda proc: rounds(side, count, persist), nprocs=2) == [1.0, 1.0]
    return found


def test_a_loop_that_computes_its_array_twice_in_each_round_is_told_once_with_its_line() -> None:
    (warned,) = told(400, 9, persist=False)
    assert warned.category is RecomputedWarning
    assert "an array of shape (400, 400) is computed a second time" in str(warned.message)
    assert "persist it in each round" in str(warned.message)
    assert warned.filename == __file__
    with open(__file__) as file:
        assert "change = float(" in file.read().splitlines()[warned.lineno - 1]


@pytest.mark.parametrize(("side", "count", "persist"), [(400, 9, True), (40, 9, False), (400, 3, False)])
def test_loops_that_persist_are_small_or_are_short_are_not_told(side: int, count: int, persist: bool) -> None:
    assert told(side, count, persist) == []


def test_both_give_numpys_values() -> None:
    known = np.zeros((40, 40))
    for _ in range(5):
        before = known
        known = 0.25 * sum(np.roll(known, by, axis) for by in (1, -1) for axis in (0, 1)) + 1.0
    assert rounds(40, 5, True) == rounds(40, 5, False) == abs(known - before).max()
