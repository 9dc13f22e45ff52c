"""Ranges of memory that effects write: which of them meet."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bsp.engine.delivery import Ranges
from bsp.values.blocks import alone

RANGES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)).map(lambda r: (r[0], r[0] + r[1])), max_size=12)


@given(RANGES, st.tuples(st.integers(0, 60), st.integers(1, 9)).map(lambda r: (r[0], r[0] + r[1])))
def test_ranges_meet_if_some_address_lies_in_both(ranges: list[tuple[int, int]], other: tuple[int, int]) -> None:
    covered = {address for low, high in ranges for address in range(low, high)}
    assert Ranges(ranges).meet(other) == bool(covered & set(range(*other)))


@given(RANGES)
def test_a_range_is_alone_if_it_meets_no_other(ranges: list[tuple[int, int]]) -> None:
    for k, free in enumerate(alone(ranges)):
        mine = set(range(*ranges[k]))
        others = {a for j, (low, high) in enumerate(ranges) if j != k for a in range(low, high)}
        if mine & others:
            assert not free
        elif mine and not any(
            low <= ranges[k][0] < high or ranges[k][0] <= low < ranges[k][1]
            for j, (low, high) in enumerate(ranges)
            if j != k
        ):
            assert free
