"""A clone's requests for a sibling's state: to join, or to jump over the rounds that it lags behind (N4, N6)."""

from __future__ import annotations

from bsp.faults.protocol.messages import Handover

# After waiting t seconds for a sibling's state, a clone computes on its own for _REST * t seconds before it asks again:
# waiting takes at most a fifth of its time (N6).
_REST = 4


class StateRequest:
    """Whom a clone has asked for a state, since when, and what has come."""

    def __init__(self) -> None:
        self.due: float | None = None  # time at which the attempt counts as failed; None: nothing is asked
        self.donor = -1  # the element last asked
        self.attempts = 0  # to join; selects the next donor
        self.refused = 0  # failed attempts to jump; selects the next donor
        self.offered: tuple[Handover, int] | None = None  # the state that has come for a jump, and its donor
        self.needed = 1  # how many had to agree on a state when that one came: the donor may be voted out meanwhile
        self.rests_until = 0.0  # no later state is asked for before this time (N6)
        self._asked_at = 0.0
        self._in_vain = 0  # requests in a row without an answer in time
        self._travel = 0.0  # seconds until the last answer came

    def ask(self, donor: int, now: float, patience: float) -> float:
        """Record a request to `donor`; return the time at which it counts as failed.

        That time is at least twice what the last state took to travel, and doubles with each failed attempt: a shorter
        limit would never let a large state arrive.
        """
        self.donor, self._asked_at = donor, now
        self.due = now + max(patience, 2 * self._travel) * 2 ** min(self._in_vain, 8)
        return self.due

    def came(self, now: float) -> None:
        """Record that a state has come."""
        self._in_vain, self._travel = 0, now - self._asked_at

    def fail(self) -> None:
        """Record that no state has come in time."""
        self._in_vain += 1

    def withdraw(self) -> None:
        """Ask nobody any more."""
        self.due, self.offered = None, None

    def rest(self, now: float) -> None:
        """End an attempt to jump, and set the time before which there is no other (N6).

        Where states travel for long, a clone lags by as much again when it has received one; without a rest it would do
        nothing but ask.
        """
        self.withdraw()
        self.rests_until = now + _REST * (now - self._asked_at)
