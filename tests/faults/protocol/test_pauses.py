"""Pauses: the longest of late counts, as a list of all of them says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bsp.faults.protocol.pauses import Pauses, allowance


@given(st.lists(st.tuples(st.floats(0, 20), st.floats(0, 5)), max_size=30), st.floats(0, 60))
def test_the_longest_of_half_a_minute_counts(notes: list[tuple[float, float]], wait: float) -> None:
    pauses, now, seen = Pauses(), 0.0, []
    for after, seconds in notes:
        now += after
        pauses.note(now, seconds)
        seen.append((now, seconds))
    now += wait
    assert pauses.longest(now) == max((s for at, s in seen if at >= now - 30 and s >= 0.05), default=0.0)


def test_without_pauses_nothing_is_allowed_and_else_more_than_the_longest() -> None:
    assert allowance(0.0) == 0.0
    assert allowance(0.7) > 0.7
