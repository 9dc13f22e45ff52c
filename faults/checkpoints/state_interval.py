"""The rule that decides at which heads a worker takes a state: at each one, unless states exceed 2 % of the time.

If they do, the worker takes a state at every 2nd, 4th, 8th, ... head.  Intervals are powers of 2 so that siblings whose
intervals differ still take some states at the same heads, where they can be compared (N11).  What a state costs is
measured; before that it is estimated from its size, so that the first state of a large program is not early.

Packets that come are kept until the next state.  So where they are large, states are taken for them: a state is an
eighth to a quarter of the bytes that have come since the last one.
"""

from __future__ import annotations

from collections import deque
from math import ceil, floor, log2

_SHARE = 0.02  # the part of the time that states may take
_COSTS = 4  # costs that are remembered; the least of them counts, since the others may come from a busy machine
_PER_BYTE = 0.7e-9  # seconds to write and digest arrays (measured: 0.58 ms a MB into new memory, 0.1 ms for the digest)
_KEPT = 8  # times the bytes of a state that packets kept have, before another state is taken for them
_KEPT_AT_LEAST = 1 << 26  # and bytes that they have


class Spacing:
    """The costs of the last states and the time of the newest one; decides at which heads to take the next."""

    def __init__(self, now: float) -> None:
        """Begin at time `now`, with no state taken."""
        self._head, self._then, self._came = 0, now, 0
        self._costs: deque[float] = deque(maxlen=_COSTS)

    def took(self, head: int, now: float, came: int, seconds: float | None) -> None:
        """Record that a state has been taken at `head` at time `now`, when packets of `came` bytes had come in all.

        seconds : what it has cost; None if unknown.
        """
        self._head, self._then, self._came = head, now, came
        if seconds is not None:
            self._costs.append(seconds)

    def is_due(self, head: int, now: float, came: int, size: int) -> bool:
        """Return whether to take a state at this head.

        came : bytes of all packets that have come.  size : bytes of the arrays in the state.
        With fewer than four costs known the interval is at most 1, 1, 2 and 4 heads, because so few measurements may
        all be outliers; it is longer if the size alone demands that.
        """
        rounds = max(1, head - self._head)
        a_round = (now - self._then) / rounds
        by_size = _doublings(size * _PER_BYTE, a_round)
        doubled = by_size
        if len(self._costs) > 1:
            doubled = _doublings(min(self._costs), a_round)
            if len(self._costs) < _COSTS:
                doubled = min(doubled, max(by_size, len(self._costs) - 1))
        kept = max(_KEPT * size, _KEPT_AT_LEAST) * rounds / max(1, came - self._came)  # rounds until they are so many
        return head % (1 << min(doubled, floor(log2(max(1.0, kept))))) == 0


def _doublings(cost: float, a_round: float) -> int:
    """Return log2 of the least power of 2 of rounds in which one state takes at most _SHARE of the time."""
    return ceil(log2(max(1.0, cost / (_SHARE * max(a_round, 1e-9)))))
