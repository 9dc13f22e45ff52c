"""The recent pauses of an event loop, as a loaded machine or a stopped process causes them (N3)."""

from __future__ import annotations

from collections import deque

_LEAST = 0.05  # seconds; shorter delays are not counted as pauses
_KEPT = 30.0  # seconds for which a pause counts as recent
_TIMES = 2.0  # the next pause may be this many times as long as the longest recent one


class Pauses:
    """The recent pauses of one loop.  Only the longest matters: the loop may be as late again."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque()  # (time, seconds), times ascending, lengths descending

    def note(self, now: float, seconds: float) -> None:
        """Record that at time `now` the loop has run `seconds` later than it should."""
        if seconds < _LEAST:
            return
        while self._seen and self._seen[-1][1] <= seconds:
            self._seen.pop()
        self._seen.append((now, seconds))

    def longest(self, now: float) -> float:
        """Return the longest recent pause in seconds; 0.0 if there was none."""
        while self._seen and self._seen[0][0] < now - _KEPT:
            self._seen.popleft()
        return self._seen[0][1] if self._seen else 0.0


def allowance(longest: float) -> float:
    """Return the seconds by which limits of silence grow, given the longest recent pause."""
    return _TIMES * longest
