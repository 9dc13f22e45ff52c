"""The rule that decides at which heads a worker takes a state: at each one, unless states exceed 2 % of the time.

If they do, the worker takes a state at every 2nd, 4th, 8th, ... head.  Intervals are powers of 2 so that siblings whose
intervals differ still take some states at the same heads, where they can be compared (N11).
"""

from __future__ import annotations

from collections import deque
from math import ceil, log2

_SHARE = 0.02  # the part of the time that states may take
_COSTS = 4  # costs that are remembered; the least of them counts, since the others may come from a busy machine


class Spacing:
    """The costs of the last states and the time of the newest one; decides at which heads to take the next."""

    def __init__(self, now: float) -> None:
        """Begin at time `now`, with no state taken."""
        self._head, self._then = 0, now
        self._costs: deque[float] = deque(maxlen=_COSTS)

    def took(self, head: int, now: float, seconds: float | None) -> None:
        """Record that a state has been taken at `head` at time `now`.

        seconds : what it has cost; None if unknown.
        """
        self._head, self._then = head, now
        if seconds is not None:
            self._costs.append(seconds)

    def is_due(self, head: int, now: float) -> bool:
        """Return whether to take a state at this head.

        Always true until two costs are known.  With two or three known costs the interval is at most 2 or 4 heads,
        because so few measurements may all be outliers.
        """
        if len(self._costs) < 2:
            return True
        # the interval: the least power of 2 of rounds in which one state takes at most _SHARE of the time
        a_round = (now - self._then) / max(1, head - self._head)
        doubled = ceil(log2(max(1.0, min(self._costs) / (_SHARE * max(a_round, 1e-9)))))
        if len(self._costs) < _COSTS:
            doubled = min(doubled, len(self._costs) - 1)
        return head % (1 << doubled) == 0
