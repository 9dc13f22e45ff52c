"""Schedules of simulated runs, drawn from a seed: the job, the network's delays and losses, and the faults."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from bsp.faults.protocol.messages import Limits
from bsp.faults.simulate.network import OUTSIDE, Way
from bsp.faults.simulate.program import SimulatedProgram


class Cut(NamedTuple):
    """A cut of the network, two-way or one-way, between hosts or between hosts and bsprun (OUTSIDE)."""

    when: float
    ways: tuple[Way, ...]
    seconds: float  # until it heals
    late: float = 0.0  # if not 0, messages are not cut off but come so many seconds late
    noticed: tuple[int, ...] = ()  # hosts whose connections bsprun sees end at once, so that it waits for no silence


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
    slots: Sequence[int] = ()  # of each host: elements for which it has room; () if there are no hosts
    seat: int = OUTSIDE  # the host on which bsprun runs
    absence: float = 0.5  # seconds until another bsprun takes over when its host has crashed
    cuts: list[Cut] = field(default_factory=list)
    holds: bool = False  # whether messages that meet a cut are delivered when it heals
    keepers_tell: bool = True  # whether keepers end elements that were replaced; else bsprun's orders do
    silent: float = 0.5  # seconds after which a host counts as lost
    reliable: float = 0.4  # seconds since a keeper was heard, within which bsprun waits for it to end an element
    drift: float = 0.0  # by which clocks are too fast or too slow at most; 0.05: 5 %
    call: float = 0.0  # seconds that a call of proc.once takes at most
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


def hosts(seed: int) -> SimulatedRun:
    """Return the schedule of a seed with hosts that are lost or cut off one at a time; the job must survive it.

    HC = 2 or 3 on 3 to 5 hosts; clocks run apart; bsprun dies, with a host or by itself, and another takes over.
    """
    rng = random.Random(f"hosts {seed}")
    schedule = _on_hosts(seed, rng)
    schedule.harmless = True
    clones, number = schedule.elements // schedule.script.bundles, len(schedule.slots)
    struck = rng.sample(range(number), 2)
    when = rng.random() * 1.5
    _strike_host(schedule, rng, struck[0], when, rng.choice((0.2, 1.5, 4.0, INFINITE)))
    # the next host is struck when what was lost is there again: what a silence, a lease and a join take together
    later = when + 4.0 + schedule.silent + 1.2 * schedule.limits.alone + rng.random()
    # of two clones one may go to its sibling's host, where no other has room
    if clones > 2 and rng.random() < 0.3:
        schedule.faults.append((rng.random() * 3.0, "host is drained", rng.randrange(number), 0.0))
    elif clones > 2 and rng.random() < 0.5:
        _strike_host(schedule, rng, struck[1], later, rng.choice((0.2, 1.5, INFINITE)))
    elif rng.random() < 0.3 and struck[1] != schedule.seat:
        schedule.cuts.append(Cut(later, _around(struck[1], number), 0.3 * schedule.silent * rng.random()))
    if rng.random() < 0.5:
        what = "bsprun dies" if rng.random() < 0.8 else "bsprun is superseded"
        schedule.faults.append(
            (rng.random() * 3.0, what, rng.choice((0, 0, rng.randrange(60))), rng.choice((0.05, 1.0, 3.0)))
        )
    _change_hosts(schedule, rng)
    return schedule


def torn(seed: int) -> SimulatedRun:
    """Return the schedule of a seed with any faults of hosts and of the network; the job need not survive them."""
    rng = random.Random(f"torn {seed}")
    schedule = _on_hosts(seed, rng)
    number = len(schedule.slots)
    for _ in range(rng.choice((1, 2, 3, 4))):
        _strike_host(schedule, rng, rng.randrange(number), rng.random() * 3.0, rng.choice((0.2, 1.0, 3.0, INFINITE)))
    # hosts that bsprun hears, and that never hear each other again, may have the last clones of two bundles
    schedule.cuts = [
        cut if any(OUTSIDE in way for way in cut.ways) else cut._replace(seconds=min(cut.seconds, 3.0))
        for cut in schedule.cuts
    ]
    if rng.random() < 0.3:
        schedule.faults.append((rng.random() * 3.0, "host is drained", rng.randrange(number), 0.0))
    for _ in range(rng.choice((0, 0, 1, 2))):
        schedule.faults.append((rng.random() * 3.0, "bsprun dies", rng.randrange(60), rng.choice((0.05, 1.0, 3.0))))
    for _ in range(rng.choice((0, 0, 1, 2))):
        what = rng.choice(("crash", "stop", "slow", "worker dies", "worker stops"))
        much = {"crash": float(rng.randrange(12)), "stop": rng.choice((0.0, 1.0, 3.0)), "slow": 5.0}.get(what, 0.0)
        schedule.faults.append((rng.random() * 3.0, what, rng.randrange(schedule.elements), much))
    _change_hosts(schedule, rng)
    schedule.lossy = rng.choice((0.0, 0.0, 0.01, 0.05))
    return schedule


INFINITE = float("inf")


def _on_hosts(seed: int, rng: random.Random) -> SimulatedRun:
    """Return a schedule without faults, on 3 to 5 hosts."""
    bundles, clones, number = rng.choice((2, 3)), rng.choice((2, 2, 3)), rng.choice((3, 3, 4, 5))
    loops = ((rng.randrange(10, 25), 1), (rng.randrange(2, 10), rng.choice((1, 2))))
    script = SimulatedProgram(
        bundles, rng.randrange(0, 4), loops, 1, rng.choice((0, 3)), text=rng.choice((1, 3)), once=rng.choice((2, 5)),
        left=rng.choice((0, 1)),
    )  # fmt: skip
    elements, standbys = bundles * clones, rng.choice((0, 0, 1, 2))
    limits = Limits(hang_limit=2.0, linger=0.2, alone=rng.choice((0.7, 2.0)), orphan=60.0, every=rng.choice((0, 0, 4)))
    schedule = SimulatedRun(seed, script, elements, standbys, 1, limits, step=0.05)
    room = -(-(elements + standbys) // (number - 1))  # for all, when a host is lost
    schedule.slots = [room] * number
    schedule.seat = rng.choice((OUTSIDE, OUTSIDE, 0))
    schedule.absence = rng.choice((0.1, 1.0, 3.0))
    schedule.holds, schedule.keepers_tell = rng.random() < 0.5, rng.random() < 0.7
    schedule.drift = rng.choice((0.0, 0.005, 0.045))
    schedule.call = rng.choice((0.0, 0.5, 2.0)) * limits.alone
    schedule.lossy = rng.choice((0.0, 0.0, 0.01))
    return schedule


def _around(host: int, number: int) -> tuple[Way, ...]:
    """Return all ways to and from a host, to and from bsprun included."""
    others = [place for place in (OUTSIDE, *range(number)) if place != host]
    return tuple(way for other in others for way in ((host, other), (other, host)))


def _strike_host(schedule: SimulatedRun, rng: random.Random, host: int, when: float, seconds: float) -> None:
    """Add the crash of a host, or a cut around it: from everybody, from bsprun, or from one host, also one-way."""
    number = len(schedule.slots)
    other = rng.choice([each for each in range(number) if each != host])
    kind = rng.choice(("crash", "crash", "alone", "alone", "from bsprun", "from bsprun", "from host", "stops"))
    if kind == "crash":
        schedule.faults.append((when, "host crashes", host, 0.0 if seconds == INFINITE else seconds))
        return
    if kind == "stops":
        schedule.faults.append((when, "host stops", host, min(seconds, 4.0)))
        return
    if kind == "alone" and host != schedule.seat:
        ways = _around(host, number)
    else:
        end = OUTSIDE if kind == "from bsprun" and host != schedule.seat else other
        both: tuple[Way, ...] = ((host, end), (end, host))
        ways = rng.choice((both, both[:1], both[1:]))
    late = rng.choice((0.0, 0.0, 0.0, 0.3, 1.0))
    if late:  # on the way to bsprun and back, an element that is always so late has no lease
        seconds = min(seconds, 4.0)
    noticed = (host,) if (host, OUTSIDE) in ways and rng.random() < 0.3 else ()
    schedule.cuts.append(Cut(when, ways, seconds, late, noticed))


def _change_hosts(schedule: SimulatedRun, rng: random.Random) -> None:
    """Let hosts join, and workers fail."""
    if rng.random() < 0.3:
        schedule.faults.append((rng.random() * 3.0, "host joins", 0, float(rng.choice((1, 2)))))
    for _ in range(rng.randrange(0, 2)):
        what = rng.choice(("worker dies", "slow"))
        schedule.faults.append((rng.random() * 3.0, what, rng.randrange(schedule.elements), 5.0))


KINDS: dict[str, Callable[[int], SimulatedRun]] = {
    "mixed": drawn, "survivable": survivable, "changing": changing, "orphaned": orphaned, "hosts": hosts, "torn": torn,
}  # fmt: skip
