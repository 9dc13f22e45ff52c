"""A source line is the user's."""

from __future__ import annotations

import sys

from bsp.source import SourceLine, assigned_name, user_line


def test_a_source_line_is_the_users_and_names_what_it_assigns() -> None:
    class Proc:
        def coarray(self, size: int) -> SourceLine:
            frame = sys._getframe(1)
            return SourceLine((frame.f_code.co_filename, frame.f_lineno))

    proc = Proc()
    rows = proc.coarray(3)
    assert assigned_name(rows) == "rows"
    left, right = proc.coarray(1), proc.coarray(2)
    assert assigned_name(left) is None is assigned_name(right)
    first = proc.coarray(1); second = proc.coarray(2)  # noqa: E702  # fmt: skip
    assert assigned_name(first) is None is assigned_name(second)
    assert user_line(sys._getframe())[0] == __file__ and "test_source.py:" in str(rows)
