"""MinTime of each superstep, and the time at which a computation becomes a tail (N2; McColl 2022, section 1.8)."""

from __future__ import annotations

from bsp.faults.protocol.clones.clone import Clone
from bsp.faults.protocol.messages import Announce, Limits, Role

_KEPT = 256  # supersteps whose MinTime is kept


class Pace:
    """The progress of all bundles and MinTime of each superstep, as announcements have reported them to one element."""

    def __init__(self, bundles: int, limits: Limits) -> None:
        self._limits = limits
        self._min_time: dict[int, float] = {}  # by superstep
        # the furthest exchange announced by any bundle, and the time when this element first heard of it
        self._front = (0, 0.0)
        self._announced = [-1] * bundles  # the furthest exchange announced, by bundle

    def hear(self, message: Announce, now: float) -> bool:
        """Record an announcement; return whether it lowers or sets MinTime of its superstep."""
        bundle, exchange = message.bundle, message.exchange
        if exchange > self._announced[bundle]:
            self._announced[bundle] = exchange
            if exchange > self._front[0]:
                self._front = exchange, now
        if not message.sets_min or message.compute < 0:
            return False
        known = self._min_time.get(message.superstep)
        if known is not None and message.compute >= known:
            return False
        self._min_time[message.superstep] = message.compute
        if len(self._min_time) > _KEPT:
            del self._min_time[min(self._min_time)]
        return True

    def announced(self, bundle: int) -> int:
        """Return the furthest exchange that a bundle has announced; -1 if none."""
        return self._announced[bundle]

    def late_at(self, clone: Clone) -> float | None:
        """Return the time at which a clone's computation becomes a tail; None if it cannot.

        There is no tail in a replay, nor before another clone has set MinTime of the superstep.  For a passive clone
        that is paused it is the time at which it takes over: its bundle is behind the furthest one, and has been so for
        longer than T * max(MinTime, floor), with MinTime of the latest superstep known.
        """
        if clone.worker.late:
            return None
        limit = self._limits.tail_limit
        if clone.role is Role.PASSIVE:
            if clone.pulled or self._announced[clone.bundle] >= self._front[0]:
                return None
            known = self._min_time.get(max(self._min_time, default=-1), 0.0)
            return self._front[1] + limit * max(known, self._limits.floor)
        if not clone.worker.runs:
            return None
        least = None if clone.worker.task is None else self._min_time.get(clone.worker.task)
        if least is None:
            return None
        return clone.worker.since + limit * max(least, self._limits.floor)
