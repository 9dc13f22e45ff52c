"""Standard error of clones: every piece once, whoever says it first and in whatever order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bsp.faults.protocol.text import Shown


@given(st.lists(st.integers(0, 20), max_size=40))
def test_each_piece_is_shown_once_whatever_comes_first(numbers: list[int]) -> None:
    shown, known = Shown(), set[int]()
    for number in numbers:
        assert shown.add(number) == (number not in known)
        known.add(number)


def test_what_a_killed_clone_had_written_last_comes_from_its_sibling() -> None:
    """A third clone is ahead already: the gap is filled when the sibling comes to it."""
    shown = Shown()
    assert shown.add(0) and shown.add(2)
    assert [shown.add(number) for number in range(4)] == [False, True, False, True]
