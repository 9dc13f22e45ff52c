"""Standard error of clones: every byte once, whoever says it first and in whatever order."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bsp.faults.protocol.text import Shown

TEXT = bytes(range(60))
PIECES = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 12)), max_size=20)


@given(PIECES)
def test_each_byte_is_shown_once_whatever_comes_first(pieces: list[tuple[int, int]]) -> None:
    shown, known = Shown(), set[int]()
    for offset, size in pieces:
        data = TEXT[offset : offset + size]
        new = shown.add(offset, data)
        assert new == bytes(k for k in data if k not in known)
        known |= set(data)


def test_what_a_killed_clone_had_written_last_comes_from_its_sibling() -> None:
    """A third clone is ahead already: the gap is filled when the sibling comes to it."""
    shown = Shown()
    assert shown.add(0, b"one\n") == b"one\n"
    assert shown.add(8, b"three\n") == b"three\n"
    assert shown.add(0, b"one\ntwo\nthree\nfour\n") == b"two\nfour\n"
