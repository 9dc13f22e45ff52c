"""`bsp.expect` in a run without values: how long a loop is assumed to run when its condition has no value."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from types import CodeType
from typing import Any

from bsp.abstract.array import AbstractArray


def _alone() -> int:
    """Return the number of the only process."""
    return 0


current: Callable[[], int] = _alone  # returns the pid that asks; set by a runner of many processes
_answered: dict[tuple[int, CodeType, Any], int] = {}  # how often True in a row, by pid and place in the program


@lru_cache(maxsize=1 << 10)
def _position(code: CodeType, instruction: int) -> Any:
    """Return the place in the source of an instruction, because the condition of a `while` is compiled twice."""
    return next(islice(code.co_positions(), instruction // 2, None))


def expect(condition: Any, times: int, depth: int = 1) -> bool:
    """Return `bool(condition)`; for an abstract condition True `times` times, then False, and so on from the beginning.

    times : how often the condition is assumed to hold in a row: an integer, 0 or more.
    depth : the number of frames up to the place that asks.
    Counted for each process and place in the program.  `while bsp.expect(error > tol, times=20):` makes 20
    rounds; `if bsp.expect(...)` is True the first 20 times it is asked and False the next.  Without --abstract
    `times` has no effect.
    """
    if isinstance(times, bool):
        raise TypeError(f"expect(times={times!r}): times is an integer, how often the condition is assumed to hold")
    try:
        count = operator.index(times)
    except TypeError:
        raise TypeError(
            f"expect(times={times!r}): times is an integer, how often the condition is assumed to hold"
        ) from None
    if count < 0:
        raise ValueError(f"expect(times={count}): a condition cannot hold less than 0 times")
    if type(condition) is not AbstractArray or condition.size != 1:
        return bool(condition)
    frame = sys._getframe(depth)
    place = current(), frame.f_code, _position(frame.f_code, frame.f_lasti)
    answered = _answered.get(place, 0)
    if answered < count:
        _answered[place] = answered + 1
        return True
    _answered.pop(place, None)
    return False


def forget() -> None:
    """Reset every count, at the beginning of a run."""
    _answered.clear()
