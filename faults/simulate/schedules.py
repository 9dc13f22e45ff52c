"""Schedules of simulated runs, drawn from a seed: the job, the network's delays and losses, and the faults."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

from bsp.faults.protocol.messages import Limits
from bsp.faults.simulate.program import SimulatedProgram


@dataclass
class SimulatedRun:
    """Input of a simulated run: the job, delays, losses and faults.  Times are virtual seconds."""

    seed: int
    script: SimulatedProgram
    elements: int
    standbys: int
    vertical: int
    limits: Limits
    step: float = 0.01  # seconds of computing in a superstep
    tail: float = 0.0  # Pareto exponent D of computing times; 0: no tails
    delay: float = 0.0005  # mean seconds of a message's way
    lossy: float = 0.0  # share of messages dropped; as many are duplicated, and as many late
    faults: list[tuple[float, str, int, float]] = field(default_factory=list)  # (time, kind, element, amount)
    anew: bool = False  # whether another element is started in place of each that is lost
    harmless: bool = False  # whether the job must survive these faults and give its answer


def drawn(seed: int) -> SimulatedRun:
    """Return the schedule of a seed with mixed faults, any number at any time; the job need not survive them."""
    rng = random.Random(f"schedule {seed}")
    bundles = rng.choice((1, 2, 3, 4, 4, 4))
    clones = rng.choice((1.0, 1.5, 2.0, 2.0, 2.0, 3.0))
    elements = max(bundles, round(bundles * clones))
    standbys = rng.choice((0, 1, 2, 2, 3))
    vertical = rng.choice((1, 1, 1, min(2, bundles)))
    loops: list[tuple[int, int]] = []
    left = rng.randrange(6, 56)
    while left > 0 and len(loops) < 3:
        each = rng.choice((1, 1, 2, 3))
        rounds = rng.randrange(1, max(2, left // each + 1))
        loops.append((rounds, each))
        left -= rounds * each
    if rng.random() < 0.1:
        loops = []
    before, after = rng.randrange(0, 5) if loops else rng.randrange(5, 40), rng.randrange(0, 2)
    large, once = rng.choice((0, 0, 3)), rng.choice((0, 0, 5))
    script = SimulatedProgram(bundles, before, tuple(loops), after, large, once=once, left=rng.choice((0, 1, 2)))
    limits = Limits(hang_limit=rng.choice((1.0, 2.0)), every=rng.choice((0, 0, 4)), linger=0.2)
    schedule = SimulatedRun(seed, script, elements, standbys, vertical, limits)
    schedule.tail = rng.choice((0.0, 0.0, 2.0, 4.0))
    schedule.lossy = rng.choice((0.0, 0.0, 0.01, 0.05))
    span = max(0.3, script.exchanges() * schedule.step * 1.3)
    count = rng.choice((0, 1, 2, 3, 4, 6))
    kinds = ("crash", "crash", "crash", "stop", "stop", "pause", "slow", "worker dies", "worker dies", "worker stops",
             "flip", "flip state", "cut")  # fmt: skip
    for _ in range(count):
        what, when, much = rng.choice(kinds), rng.random() * span, 0.0
        element = rng.randrange(elements + standbys)
        if what == "crash":
            much = rng.randrange(0, 12)
        elif what == "pause":
            what, much = "stop", rng.random() * limits.hang_limit * 1.5
        elif what == "slow":
            much = rng.choice((2.0, 5.0, 20.0))
        elif what == "cut":
            much = rng.random() * 2
        schedule.faults.append((when, what, element, much))
    return schedule


def survivable(seed: int) -> SimulatedRun:
    """Return the schedule of a seed whose faults the job must survive.

    p = 4, HC = 2, S = 2.  Two element faults, at least 1.5 s apart, which is longer than a recovery takes; any number
    of slow elements, short pauses and failing workers.
    """
    rng = random.Random(f"survivable {seed}")
    loops = ((rng.randrange(20, 40), 1), (rng.randrange(2, 20), 1))
    script = SimulatedProgram(
        4, rng.randrange(0, 4), loops, 1, rng.choice((0, 3)), once=rng.choice((0, 5)), left=rng.choice((0, 1))
    )
    limits = Limits(hang_limit=0.5, linger=0.2)
    schedule = SimulatedRun(seed, script, 8, 2, 1, limits, step=0.05, tail=rng.choice((0.0, 2.0, 4.0)), harmless=True)
    schedule.lossy = rng.choice((0.0, 0.01))
    hit = rng.sample(range(10), 2)
    when = rng.random() * 0.3
    for element in hit:
        what = rng.choice(("crash", "stop"))
        schedule.faults.append((when, what, element, float(rng.randrange(0, 12)) if what == "crash" else 0.0))
        when += 1.5 + rng.random()
    for _ in range(rng.randrange(0, 5)):
        what = rng.choice(("worker dies", "worker stops", "slow", "pause"))
        much = {"slow": 5.0, "pause": rng.random() * 0.3}.get(what, 0.0)
        what = "stop" if what == "pause" else what
        schedule.faults.append((rng.random() * 3.0, what, rng.randrange(10), much))
    return schedule


def changing(seed: int) -> SimulatedRun:
    """Return the schedule of a seed in which elements leave in good order, and others come; the job must survive it.

    p = 4.  With one clone nothing is lost beside, but for workers.  With two, an element crashes or stops in the midst
    of it, and another takes its place.
    """
    rng = random.Random(f"changing {seed}")
    loops = ((rng.randrange(20, 40), 1), (rng.randrange(2, 20), rng.choice((1, 2))))
    script = SimulatedProgram(
        4, rng.randrange(0, 4), loops, 1, rng.choice((0, 3)), once=rng.choice((0, 5)), left=rng.choice((0, 1))
    )
    clones, standbys, vertical = rng.choice((1, 2)), rng.choice((0, 0, 1, 2)), rng.choice((1, 1, 2))
    limits = Limits(hang_limit=0.5, linger=0.2, every=rng.choice((0, 4)))
    schedule = SimulatedRun(seed, script, 4 * clones, standbys, vertical, limits, step=0.05, anew=True, harmless=True)
    schedule.tail, schedule.lossy = rng.choice((0.0, 2.0, 4.0)), rng.choice((0.0, 0.01))
    count = 4 * clones + standbys
    for element in rng.sample(range(count), rng.randrange(1, count + 1)):
        schedule.faults.append((rng.random() * 3.0, "drain", element, 0.0))
    if clones == 2:
        what = rng.choice(("crash", "stop"))
        much = float(rng.randrange(0, 12)) if what == "crash" else 0.0
        schedule.faults.append((rng.random() * 3.0, what, rng.randrange(count), much))
    for _ in range(rng.randrange(0, 3)):
        schedule.faults.append((rng.random() * 3.0, rng.choice(("worker dies", "slow")), rng.randrange(count), 5.0))
    return schedule


def orphaned(seed: int) -> SimulatedRun:
    """Return the schedule of a seed in which bsprun dies and another takes over; the job must survive it.

    p = 4, HC = 2.  Meanwhile workers die, and an element is lost, for which another is started later.
    """
    rng = random.Random(f"orphaned {seed}")
    schedule = changing(seed)
    schedule.script = replace(schedule.script, text=rng.choice((1, 3)), once=rng.choice((0, 2, 5)))
    schedule.elements, schedule.limits = 8, replace(schedule.limits, alone=rng.choice((0.3, 5.0)), orphan=60.0)
    schedule.faults = [(rng.random() * 2.5, "bsprun dies", 0, rng.choice((0.05, 1.0, 7.0)))]
    if rng.random() < 0.3:
        schedule.faults.append((2.5 + rng.random(), "bsprun dies", 0, 0.5))
    if rng.random() < 0.6:
        what = rng.choice(("crash", "crash", "stop", "drain"))
        much = float(rng.randrange(0, 12)) if what == "crash" else 0.0
        schedule.faults.append((rng.random() * 3.0, what, rng.randrange(8), much))
    for _ in range(rng.randrange(0, 3)):
        schedule.faults.append((rng.random() * 3.0, rng.choice(("worker dies", "slow")), rng.randrange(8), 5.0))
    return schedule
