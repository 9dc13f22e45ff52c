"""How long a loop has stood still of late: what a loaded machine, or a stop, takes between two of its turns (N3)."""

from __future__ import annotations

from collections import deque

_LEAST = 0.05  # seconds: less is no pause
_KEPT = 30.0  # seconds for which a pause is remembered
_TIMES = 2.0  # as long as the longest one that was seen, the next may be


class Pauses:
    """Of one loop.  The longest counts: who has been late by so much may be again."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()  # when, how long: the later, the shorter

    def note(self, now: float, seconds: float) -> None:
        """The loop comes back, so much later than it was to."""
        if seconds < _LEAST:
            return
        while self._seen and self._seen[-1][1] <= seconds:
            self._seen.pop()
        self._seen.append((now, seconds))

    def longest(self, now: float) -> float:
        """Seconds, of those that are remembered."""
        while self._seen and self._seen[0][0] < now - _KEPT:
            self._seen.popleft()
        return self._seen[0][1] if self._seen else 0.0


def allowance(longest: float) -> float:
    """Seconds by which limits of silence grow where somebody has stood still for as long."""
    return _TIMES * longest
