"""The lease under which an element may act outside the job: for how long a permission of bsprun holds (N9).

An element's lease runs for `alone` seconds, and bsprun's allowance, from the time at which the element sent the newest
report that bsprun has acknowledged.  What the element hears of bsprun does not prolong it otherwise: that may have been
on its way since before bsprun gave the element up, and bsprun may hear nothing of an element that hears it.  The time
in which the element stood still counts.

bsprun gives a permission to another element when the holder's lease has certainly run out: an element that it gives up
sent its last report before that moment.  Nobody's clock is compared with another's.  Only their rates matter: bsprun
waits for longer by the share `APART`, so the element's clock may be slower than bsprun's by that share.  Clocks of
computers differ by less than a thousandth.

An element makes no calls while its messages to bsprun and back take as long as a lease.
"""

from __future__ import annotations

from collections import deque

APART = 0.1  # by which the rates of two clocks may differ
_KEPT = 1024  # reports whose times are kept; an acknowledgement of an earlier one is ignored


class Lease:
    """The time from which one element's lease runs."""

    def __init__(self) -> None:
        self._reports: deque[tuple[int, float]] = deque(maxlen=_KEPT)  # (number, time) not acknowledged
        self._since: float | None = None

    def begin(self, now: float) -> None:
        """Let the lease run from now on, if it has not begun: no report is older than its element."""
        if self._since is None:
            self._since = now

    def report(self, number: int, now: float) -> None:
        """Record that a report is sent."""
        self._reports.append((number, now))

    def acknowledge(self, number: int) -> None:
        """Let the lease run from the time of a report that bsprun has acknowledged."""
        while self._reports and self._reports[0][0] <= number:
            self._since = self._reports.popleft()[1]

    def end(self, length: float) -> float:
        """Return the time at which a lease of that length ends."""
        return length if self._since is None else self._since + length


def certainly_over(length: float) -> float:
    """Return the seconds by bsprun's clock after which a lease of that length, by any other clock, has run out."""
    return length * (1 + APART)
