"""Plans: ways of running one job, each with its expected time, cost and risk, as data for `advise` to choose from.

*Availability* is one number for the whole run: the probability that in every round every bundle has a clone that is
alive and done within TailLimit·MinTime.  A round without one is lost.  If all clones of the bundle are gone, the job
goes back to its last checkpoint or its start; if all are late, it waits (N5), and is only late.

*Perfect* is the run without a fault or tail on p elements: rounds·round_seconds.  *Time* is in units of Perfect, *cost*
in units of p·Perfect.  The formulas are in `models` and `intervals`; the rules N and the pool in the design, section 7.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from bsp.faults.advise.estimate import RoundTimes
from bsp.faults.advise.intervals import checkpointed_time, segment_time
from bsp.faults.advise.models import chance_to_spare, loss_per_round, standby_level
from bsp.faults.protocol.domains import deal
from bsp.faults.protocol.placement import place

MOST_CLONES = 8  # the search stops here, because more paid in no case that was tried
_MOST_DEALT = 1 << 22  # elements times hosts, above which they are not dealt, and the number of sets is bounded
_MOST_COUNTED = 10**8  # processes, elements and slots; the functions of probability count up to 2^31
LEAST_LIMIT = 3.0  # below it every machine marks healthy clones (measured: equal rounds differ by a factor of 1.7)

Way = Literal["nothing", "checkpoint", "clone"]


@dataclass(frozen=True)
class PlannedJob:
    """The job to run, and the machine.  None: unknown, or not offered."""

    processes: int
    rounds: int
    round_seconds: float  # of one process on an element, without faults and tails
    availability: float
    mtbf_hours: float | None  # mean time between losses of one host, with all that it carries
    checkpoint_seconds: float | None
    restart_seconds: float
    relaunch_seconds: float  # from the loss of a clone until a standby takes its place
    copy_seconds: float | None  # to copy a bundle's state to the element that keeps it for vertical clones
    elements: int | None  # the budget
    slots: int = 1  # elements of a host

    @property
    def perfect_seconds(self) -> float:
        """The seconds of the run without faults and tails."""
        return self.rounds * self.round_seconds

    @property
    def mtbf_seconds(self) -> float:
        """The mean time between losses of one host, in seconds; infinite without crashes."""
        return math.inf if self.mtbf_hours is None else self.mtbf_hours * 3600

    def hosts(self, elements: int) -> int:
        """Return how many hosts so many elements take."""
        return -(-elements // self.slots)

    def together(self, bundles: int, clones: int, vertical: int) -> int:
        """Return how many sets of hosts there are whose loss is the loss of a bundle, as bsprun deals clones to hosts.

        With one element a host it is the number of bundles; bundles whose clones stand on the same hosts share a set.
        """
        hosts = max(clones, self.hosts(bundles * clones))
        if self.slots == 1:
            return bundles
        if bundles * clones * hosts > _MOST_DEALT:
            return min(bundles, math.comb(hosts, clones))
        rows = place(bundles, bundles * clones, min(vertical, bundles))
        dealt = deal(rows, 0, [self.slots] * hosts, [str(host) for host in range(hosts)])
        on: dict[int, set[int]] = {}  # by bundle: the hosts of its clones
        for host, row in zip(dealt, rows, strict=True):
            for bundle in row:
                on.setdefault(bundle, set()).add(host)
        return len(set(map(frozenset, on.values())))


@dataclass(frozen=True)
class Option:
    """A priced way of running the job."""

    way: Way
    clones: int  # HC
    vertical: int  # VC
    bundles: int
    processes_each: int  # the most processes that one element runs in turn
    standby: int  # S
    standby_wanted: int  # standbys with which the pool lasts the run
    elements: int  # in all, standbys included
    seconds: float  # expected time of the run
    time: float  # seconds over Perfect
    cost: float  # element-seconds over p·Perfect
    loss: float  # the probability that some round is lost
    tail_limit: float | None = None  # T
    tail_limit_beyond: bool = False  # whether T lies beyond every measured time
    marks_per_round: float = 0.0  # expected healthy clones later than T
    interval_seconds: float | None = None  # work between checkpoints
    interval_rounds: int | None = None  # the same, for --every
    rollbacks: float = 0.0  # expected number of times the job goes back
    pauses: float = 0.0  # expected restarts at full size after the pool ran empty; no round is lost by them

    @property
    def bound(self) -> float | None:
        """McColl's bound on the cost, T·HC (1.8.5), for `processes_each` processes per element; None without tails."""
        return None if self.tail_limit is None else self.tail_limit * self.clones

    def reaches(self, availability: float) -> bool:
        """Return whether no round is lost with that probability.

        Compared to six digits, because a TailLimit is computed to meet it exactly.
        """
        return self.loss <= (1 - availability) * (1 + 1e-6)

    def name(self) -> str:
        """Return the plan's name in the table of `bsp advise`."""
        if self.way != "clone":
            return "no clones, checkpoints" if self.way == "checkpoint" else "no clones, begin again"
        return f"clone HC={self.clones} VC={self.vertical} S={self.standby}"


def ways(job: PlannedJob, tail: RoundTimes | None) -> tuple[list[Option], list[Option]]:
    """Return the plans without clones, and the plans with clones.

    The first list has the plan with nothing, and with checkpoints if their length and the MTBF are known.
    Raises ValueError for values that no job has.
    """
    _check(job)
    plain = [_nothing(job, tail)]
    if job.checkpoint_seconds is not None and job.mtbf_hours is not None:
        plain.append(_checkpointed(job, tail))
    return plain, list(_cloned(job, tail))


def _single(job: PlannedJob, tail: RoundTimes | None) -> tuple[Option, float]:
    """Return the plan without clones and without crashes, from which others begin, and its seconds."""
    hosts = min(job.processes, job.elements or job.processes)
    each = -(-job.processes // hosts)
    bundles = -(-job.processes // each)
    seconds = job.perfect_seconds * each * (1.0 if tail is None else tail.mean_of_maximum(bundles, 1))
    return _priced(job, Option("nothing", 1, 1, bundles, each, 0, 0, bundles, seconds, 0, 0, 0)), seconds


def _priced(job: PlannedJob, plan: Option) -> Option:
    """Return the plan with its time and cost, computed from its seconds and elements."""
    time = plan.seconds / job.perfect_seconds
    return replace(plan, time=time, cost=time * plan.elements / job.processes)


def _nothing(job: PlannedJob, tail: RoundTimes | None) -> Option:
    """Return the plan without clones and checkpoints: a crash takes the job back to its beginning."""
    plan, seconds = _single(job, tail)
    if job.mtbf_hours is None:
        return plan
    if math.isinf(seconds):
        return replace(plan, loss=1.0)
    mtbf = job.mtbf_seconds / job.hosts(plan.elements)
    expected = segment_time(seconds, mtbf, job.restart_seconds)
    returns = math.expm1(seconds / mtbf) if seconds / mtbf < 700 else math.inf
    return _priced(job, replace(plan, seconds=expected, loss=-math.expm1(-seconds / mtbf), rollbacks=returns))


def _checkpointed(job: PlannedJob, tail: RoundTimes | None) -> Option:
    """Return the plan with checkpoints at the best interval."""
    plan, seconds = _single(job, tail)
    plan = replace(plan, way="checkpoint")
    if math.isinf(seconds):
        return replace(plan, loss=1.0)
    assert job.checkpoint_seconds is not None
    mtbf = job.mtbf_seconds / job.hosts(plan.elements)
    expected, segments = checkpointed_time(seconds, job.checkpoint_seconds, mtbf, job.restart_seconds)
    one = seconds / segments
    exponent = (one + job.checkpoint_seconds) / mtbf
    returns = segments * math.expm1(exponent) if exponent < 700 else math.inf
    loss = -math.expm1(-(seconds + segments * job.checkpoint_seconds) / mtbf)
    every = max(1, round(job.rounds / segments))
    plan = replace(plan, seconds=expected, interval_seconds=one, interval_rounds=every, rollbacks=returns, loss=loss)
    return _priced(job, plan)


def _cloned(job: PlannedJob, tail: RoundTimes | None) -> Iterator[Option]:
    """Yield the plans with clones worth pricing.

    On a budget the processes are spread over the elements that clones and standbys leave.
    """
    for vertical in (1,) if job.copy_seconds is None else (1, 2):
        for clones in range(1, MOST_CLONES + 1):
            if clones * vertical == 1:
                continue
            if job.elements is not None and clones > job.hosts(job.elements):
                continue  # two clones of a bundle would stand on one host
            if job.elements is None:
                yield _cloning(job, tail, clones, vertical, 1)
            elif clones <= job.elements:
                each = -(-job.processes // min(job.processes, job.elements // clones))
                for more in (0, 1):  # one process more per element leaves elements for standbys
                    if each + more <= job.processes:
                        yield _cloning(job, tail, clones, vertical, each + more)


def _cloning(job: PlannedJob, tail: RoundTimes | None, clones: int, vertical: int, each: int) -> Option:
    """Return the plan with HC = clones and VC = vertical, `each` processes per element.

    It fixes the number of standbys and the TailLimit, then adds to the time what losses and an empty pool cost.
    """
    bundles = -(-job.processes // each)
    instances = clones * min(vertical, bundles)  # instances of a bundle, each on an element of its own
    mean = 1.0 if tail is None else tail.mean_of_maximum(bundles, clones)
    copy = job.copy_seconds or 0.0 if vertical > 1 else 0.0
    one = job.round_seconds * each * mean + copy
    plan = Option("clone", clones, vertical, bundles, each, 0, 0, bundles * clones, one * job.rounds, 0, 0, 1.0)
    if math.isinf(one):
        return _priced(job, plan)
    crash = -math.expm1(-one / job.mtbf_seconds)
    away = 1 + math.ceil(job.relaunch_seconds / one)  # rounds that a crashed clone misses
    gone = away * crash / (away * crash + 1 - crash)  # the probability that a clone is away, see loss_per_round
    if vertical > 1:  # a bundle whose first row is gone is computed after another one: that round lasts twice as long
        one *= 1 + min(1.0, bundles * gone**clones)
    seconds = one * job.rounds
    sets = job.together(bundles, clones, vertical)
    per_round = loss_per_round(instances, crash, away)
    spare = chance_to_spare(bundles, job.rounds, 1 - job.availability)
    wanted = _standbys(job, plan.elements, seconds)
    gone_for_good = job.hosts(plan.elements) * seconds / job.mtbf_seconds
    standby = wanted if job.elements is None else min(wanted, job.elements - plan.elements)
    if job.elements is None and wanted > plan.elements // 10 and job.restart_seconds > 0:
        # a large pool costs more than a few pauses: take the S that minimises (elements + S)·(seconds + pauses·restart)
        best = math.sqrt(job.hosts(plan.elements) * gone_for_good * job.restart_seconds / seconds)
        standby = min(wanted, max(1, round(best)) * job.slots)
    late = tails = 0.0
    if tail is not None:
        # crashes use up part of the probability of loss that the target allows; the TailLimit is set so that tails,
        # also of clones whose siblings are away, use up the rest
        room = max(spare - per_round * sets / bundles, 0.01 * spare)
        chance = min(1.0, max(0.0, (room + gone**clones) ** (1 / clones) - gone) / (1 - gone))
        limit = tail.limit_for(max(chance, 1e-300))
        value = max(LEAST_LIMIT, limit.value)
        late = float(tail.survival(value)) if value > limit.value else chance
        tails = (gone + (1 - gone) * late) ** clones - gone**clones
        plan = replace(plan, tail_limit=value, tail_limit_beyond=limit.beyond, marks_per_round=plan.elements * late)
    each_bundle = min(per_round * sets / bundles + tails, 1 - 1e-16)
    loss = -math.expm1(bundles * job.rounds * math.log1p(-each_bundle))
    # a lost bundle: the job begins again, as one without clones does; an empty pool: one pause, for a full-size job
    crashed = sets * job.rounds * -math.log1p(-min(per_round, 1 - 1e-16))
    if crashed > 0:
        seconds = segment_time(seconds, seconds / crashed, job.restart_seconds)
    pauses = gone_for_good / (standby / job.slots + 1) if standby < wanted else 0.0
    seconds += pauses * job.restart_seconds
    plan = replace(plan, seconds=seconds, loss=loss, standby=standby, standby_wanted=wanted, pauses=pauses)
    return _priced(job, replace(plan, elements=plan.elements + standby, rollbacks=crashed))


def _standbys(job: PlannedJob, elements: int, seconds: float) -> int:
    """Return the number S of standbys, or of slots to spare, with which the pool lasts the run.

    Agents that are lost are started anew where there is room; a host that is lost is taken not to come back.
    If the run loses more than half of its hosts no pool is practical: S is then computed for a loss of half.
    """
    lost = -math.expm1(-seconds / job.mtbf_seconds)
    return job.slots * standby_level(job.hosts(elements), min(lost, 0.5), job.availability) if lost > 0 else 0


def _check(job: PlannedJob) -> None:
    """Raise ValueError for values that no job has."""
    for number, what, most in (
        (job.slots, "elements on a host", _MOST_COUNTED), (job.processes, "processes", _MOST_COUNTED),
        (job.elements, "elements", _MOST_COUNTED), (job.rounds, "rounds", 10**18),
    ):  # fmt: skip
        if number is not None and not 1 <= number <= most:
            raise ValueError(f"advise: {number} {what}; give 1 or more, up to {most:.0e}")
    if not 0 < job.availability < 1:
        raise ValueError(f"advise: availability is {job.availability:g}; give a probability such as 0.9999, below 1")
    for name in ("round_seconds", "mtbf_hours", "checkpoint_seconds"):
        value = getattr(job, name)
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"advise: {name} is {value:g}; give a time above 0")
    for name in ("restart_seconds", "relaunch_seconds", "copy_seconds"):
        value = getattr(job, name)
        if value is not None and not 0 <= value < math.inf:
            raise ValueError(f"advise: {name} is {value:g}; give a time, 0 or more")
