"""Arrays are joined by NumPy's rules of casting, and have NumPy's margins."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpys_answers import alike, random

import bsp
import bsp.arrays as ba
from bsp.arrays.kernels import overlay


@pytest.mark.parametrize("name", ["concatenate", "vstack", "hstack"])
def test_the_rule_of_casting_is_kept_when_arrays_are_joined(name: str) -> None:
    data = random(5, 3)

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(data, grid=(2, 1))
        with pytest.raises(TypeError, match="according to the rule 'same_kind'"):
            getattr(np, name)([x, x], dtype=np.int64)
        found = getattr(np, name)([x, x], dtype=np.int64, casting="unsafe").compute()
        np.testing.assert_array_equal(found, getattr(np, name)([data, data], dtype=np.int64, casting="unsafe"))

    for p in (1, 3):
        bsp.run(main, nprocs=p)


def test_numbers_become_columns() -> None:
    alike(lambda xp, x: xp.column_stack((x.sum(), 2.5)), random(5, 3))
    alike(lambda xp, x: xp.column_stack((x[:, 0], x)), random(5, 3))


WIDTHS = st.integers(0, 12)


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), WIDTHS, WIDTHS), min_size=1, max_size=3),
    st.sampled_from(["constant", "edge", "reflect", "symmetric", "wrap"]),
)
def test_margins_are_numpys(axes: list[tuple[int, int, int]], mode: Any) -> None:
    shape, widths = tuple(length for length, _, _ in axes), [(before, after) for _, before, after in axes]
    data = np.arange(np.prod(shape)).reshape(shape)

    def outcome(pad: Any, x: Any) -> Any:
        try:
            return np.asarray(pad(x, widths, mode))
        except ValueError as wrong:
            return str(wrong)

    expected = outcome(np.pad, data)
    for nprocs, grid in ((1, None), (3, (2,) * len(shape))):
        for found in bsp.run(lambda proc, grid=grid: outcome(ba.pad, ba.asarray(data, grid=grid)), nprocs=nprocs):
            np.testing.assert_array_equal(found, expected)


def test_a_periodic_margin_moves_the_margin_alone() -> None:
    def main(proc: bsp.Process, mode: Any) -> None:
        x = ba.asarray(np.ones((2000, 1000)))
        if mode is not None:
            ba.pad(x, 1, mode).persist()

    made, wrapped = (bsp.predict(main, mode, nprocs=4, machine=bsp.Machine(p=4)).words for mode in (None, "wrap"))
    assert wrapped - made <= 2 * 1002  # a process sends the first and the last row of the result


def test_the_numbers_of_a_list_are_not_compared_pair_by_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = []
    plain = overlay._uncovered

    def uncovered(where: Any, later: Any) -> Any:
        compared.append(len(later))
        return plain(where, later)

    monkeypatch.setattr(overlay, "_uncovered", uncovered)
    rows = ba.arange(600.0, grid=1).reshape(200, 3)
    found = ba.array([row.sum() for row in rows]).compute()
    np.testing.assert_array_equal(found, np.arange(600.0).reshape(200, 3).sum(axis=1))
    assert compared and not any(compared)


@pytest.mark.parametrize("few", [0, 100])
def test_of_many_parts_the_later_ones_are_on_top(few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overlay, "_FEW", few)

    def filled(xp: Any, x: Any, y: Any) -> Any:
        for k in range(6):
            x[k : k + 4, 5 - k :] = y[k : k + 4, 5 - k :]
            x[k::2, k] = y[k, k]
            x[2] = y[k]
        return x

    alike(filled, np.zeros((10, 9)), np.arange(90.0).reshape(10, 9))
