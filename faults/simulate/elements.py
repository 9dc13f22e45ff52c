"""Elements of a simulated job: their members of the protocol, their workers, their clocks."""

from __future__ import annotations

import random
from typing import Any, NamedTuple

from bsp.faults.protocol.member import Member
from bsp.faults.simulate.program import Worker


class DriftingClock(NamedTuple):
    """A clock that begins anywhere and runs too fast or too slowly."""

    rate: float = 1.0
    offset: float = 0.0

    def read(self, now: float) -> float:
        """Return what the clock shows at a virtual time."""
        return self.offset + self.rate * now

    def when(self, reading: float) -> float:
        """Return the virtual time at which the clock certainly shows `reading`."""
        if self.rate == 1.0 and self.offset == 0.0:
            return reading
        return (reading - self.offset) / self.rate + 1e-9  # more than readings are rounded by


def drawn_clock(rng: random.Random, drift: float) -> DriftingClock:
    """Draw a clock whose rate is off by at most `drift`; without drift it shows the virtual time."""
    if not drift:
        return DriftingClock()
    return DriftingClock(1.0 + drift * rng.choice((-1.0, -0.5, 0.5, 1.0)), rng.uniform(0.0, 1000.0))


class SimulatedElement:
    """The simulated state of an element: its member of the protocol, its workers, and the faults that hit it."""

    def __init__(self, member: Member, host: int, clock: DriftingClock, reign: int) -> None:
        """Create an element on a host; `reign` is that of the bsprun that it hears."""
        self.member = member
        self.host = host
        self.clock = clock
        self.reign = reign
        self.alive = True
        self.stopped = False
        self.backlog: list[tuple[Any, int]] = []  # (message, source) that arrived while it was stopped
        self.workers: dict[int, Worker] = {}
        self.factor = 1.0  # by which its computing times are multiplied
        self.fuse = -1  # effects that it still performs before it dies; -1: no limit
        self.tick_at = float("inf")  # when its next tick is planned

    def runs(self, bundle: int, life: int) -> bool:
        """Return whether this worker can act now."""
        worker = self.workers.get(bundle)
        return self.alive and not self.stopped and worker is not None and worker.life == life and not worker.stopped
