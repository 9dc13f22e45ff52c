"""The rule that decides at which heads a worker takes a state: at each one, unless states exceed 2 % of the time.

If they do, the worker takes a state at every 2nd, 4th, 8th, ... head.  Intervals are powers of 2 so that siblings whose
intervals differ still take some states at the same heads, where they can be compared (N11).  What a state costs is
measured; before that it is estimated from its size, so that the first state of a large program is not early.
"""

from __future__ import annotations

from collections import deque
from math import ceil, log2

_SHARE = 0.02  # the part of the time that states may take
_COSTS = 4  # costs that are remembered; the least of them counts, since the others may come from a busy machine
_PER_BYTE = 0.7e-9  # seconds to write and digest arrays (measured: 0.58 ms a MB into new memory, 0.1 ms for the digest)


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

    def is_due(self, head: int, now: float, size: int) -> bool:
        """Return whether to take a state at this head.

        size : bytes of the arrays in the state.
        With fewer than four costs known the interval is at most 1, 1, 2 and 4 heads, because so few measurements may
        all be outliers; it is longer if the size alone demands that.
        """
        a_round = (now - self._then) / max(1, head - self._head)
        by_size = _doublings(size * _PER_BYTE, a_round)
        doubled = by_size
        if len(self._costs) > 1:
            doubled = _doublings(min(self._costs), a_round)
            if len(self._costs) < _COSTS:
                doubled = min(doubled, max(by_size, len(self._costs) - 1))
        return head % (1 << doubled) == 0


def _doublings(cost: float, a_round: float) -> int:
    """Return log2 of the least power of 2 of rounds in which one state takes at most _SHARE of the time."""
    return ceil(log2(max(1.0, cost / (_SHARE * max(a_round, 1e-9)))))
