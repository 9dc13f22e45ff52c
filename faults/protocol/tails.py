"""How fast a superstep can be, and when a computation takes too long (N2; McColl 2022, section 1.8)."""

from __future__ import annotations

from bsp.faults.protocol.clone import Clone
from bsp.faults.protocol.messages import Announce, Limits, Role

_KEPT = 256  # supersteps whose least computing time is remembered


class Pace:
    """How far all bundles are and MinTime of each superstep, as one element has heard."""

    def __init__(self, bundles: int, limits: Limits) -> None:
        self._limits = limits
        self._min_time: dict[int, float] = {}  # by superstep
        self._front = (0, 0.0)  # the furthest exchange announced by anyone, and when that was first heard
        self._announced = [-1] * bundles  # the furthest exchange of each bundle

    def hear(self, message: Announce, now: float) -> bool:
        """An announcement; whether a superstep can be faster than was known."""
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
        """The furthest exchange of a bundle."""
        return self._announced[bundle]

    def late_at(self, clone: Clone) -> float | None:
        """When a computation under way becomes a tail; for a paused passive clone, when it is to take over."""
        if clone.late:
            return None
        limit = self._limits.tail_limit
        if clone.role is Role.PASSIVE:
            if clone.pulled or self._announced[clone.bundle] >= self._front[0]:
                return None
            known = self._min_time.get(max(self._min_time, default=-1), 0.0)
            return self._front[1] + limit * max(known, self._limits.floor)
        if clone.computing_since is None:
            return None
        least = None if clone.task is None else self._min_time.get(clone.task)
        if least is None:
            return None
        return clone.computing_since + limit * max(least, self._limits.floor)
