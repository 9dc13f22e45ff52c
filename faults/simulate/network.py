"""The network of a simulated job: delays, losses, repetitions, and cuts between places.

A place is a host, or what bsprun runs on.  A cut blocks one direction between two places.  What is sent meanwhile is
lost, or is delivered when the cut heals, as TCP does with what it has not been able to send.  Where a cut only delays,
everything arrives, but late.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

OUTSIDE = -1  # the place of a bsprun that runs on none of the hosts

Way = tuple[int, int]  # (place of the sender, place of the receiver)


class VirtualNetwork:
    """The network between simulated processes: it delays, loses, holds and doubles messages."""

    def __init__(self, rng: random.Random, delay: float, lossy: float, holds: bool) -> None:
        """Create a network without cuts.

        delay : mean seconds of a message's way.  lossy : share of messages that is dropped; as many are duplicated, and
        as many are late.  holds : whether messages that meet a cut are delivered when it heals.
        """
        self._rng, self._delay, self._lossy, self._holds = rng, delay, lossy, holds
        self._healed: dict[Way, float] = {}  # time at which a cut heals
        self._late: dict[Way, float] = {}  # seconds by which the latest cut only delays

    def latency(self) -> float:
        """Draw the time that a message takes."""
        return self._delay * (0.5 + self._rng.random())

    def cut(self, ways: Iterable[Way], until: float, late: float = 0.0) -> None:
        """Block ways until a time; or, if `late` is not 0, delay what is sent until then by so many seconds."""
        for way in ways:
            self._healed[way], self._late[way] = max(until, self._healed.get(way, 0.0)), late

    def is_open(self, sender: int, receiver: int, now: float) -> bool:
        """Return whether messages pass from one place to another without more than the usual delay."""
        return self._healed.get((sender, receiver), 0.0) <= now

    def arrivals(self, sender: int, receiver: int, now: float) -> list[float]:
        """Return the times at which copies of a message arrive that is sent from one place to another."""
        if self._healed:
            healed = self._healed.get((sender, receiver), 0.0)
            if healed > now:
                if late := self._late[sender, receiver]:
                    return [now + late + self.latency()]
                return [healed + self.latency()] if self._holds and healed < float("inf") else []
        delay = self.latency()
        if self._lossy:
            draw = self._rng.random()
            if draw < self._lossy:
                return []
            if draw < 2 * self._lossy:
                return [now + delay + self.latency(), now + delay]
            if draw < 3 * self._lossy:
                delay += 20 * self.latency()
        return [now + delay]
