"""At which heads a worker takes a state: at every one, unless states would take more than 2 % of the time.

Then every 2nd, 4th, ... head: siblings that have found their states dear otherwise still take some in common, which
are compared (N11).
"""

from __future__ import annotations

from collections import deque
from math import ceil, log2

_SHARE = 0.02  # of the time
_COSTS = 4  # states whose costs are remembered; the least of them counts, the others met a busy machine


class Spacing:
    """What the last states have cost, and when the last one was taken."""

    def __init__(self, now: float) -> None:
        self._head, self._then = 0, now
        self._costs: deque[float] = deque(maxlen=_COSTS)

    def took(self, head: int, now: float, seconds: float | None) -> None:
        """A state has been taken; None: what it has cost is not known."""
        self._head, self._then = head, now
        if seconds is not None:
            self._costs.append(seconds)

    def is_due(self, head: int, now: float) -> bool:
        """Whether one is taken here.  Before four costs are known, they are trusted the less the fewer they are."""
        if len(self._costs) < 2:
            return True
        a_round = (now - self._then) / max(1, head - self._head)
        doubled = ceil(log2(max(1.0, min(self._costs) / (_SHARE * max(a_round, 1e-9)))))
        if len(self._costs) < _COSTS:
            doubled = min(doubled, len(self._costs) - 1)
        return head % (1 << doubled) == 0
