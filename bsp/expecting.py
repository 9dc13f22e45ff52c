"""`bsp.expect`: how often a condition is assumed to hold in a run without values (--abstract)."""

from __future__ import annotations

import operator
from typing import Any

from bsp.values.payload import is_abstract


def expect(condition: object, times: int) -> bool:
    """Return `bool(condition)`; with --abstract, where it has no value: True `times` times, then False, and so on.

    condition : a value, or an array of one element.
    times : how often the condition is assumed to hold in a row: an integer, 0 or more.
    Counted for each process and place in the program: `while bsp.expect(error > tol, times=20):` makes 20
    rounds, `if bsp.expect(ok, times=1)` is True once.  Without --abstract `times` has no effect.
    Raises TypeError or ValueError for a bad `times`, with and without --abstract.
    """
    given: Any = condition
    if is_abstract(given) and given.size == 1:
        from bsp.abstract import expectation

        return expectation.expect(given, times, depth=2)
    if isinstance(times, bool) or not hasattr(times, "__index__"):
        raise TypeError(f"expect(times={times!r}): times is an integer, how often the condition is assumed to hold")
    if operator.index(times) < 0:
        raise ValueError(f"expect(times={times}): a condition cannot hold less than 0 times")
    return bool(condition)
