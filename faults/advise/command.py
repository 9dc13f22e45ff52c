"""`bsp advise`: computes whether to clone a job, how, and what it costs compared with checkpoints and with nothing.

McColl (2022, 1.8.5): "given D, p, R we can automatically compute the most appropriate values for T, VC, HC, S".  So
this module prices the expected time of every way of running the job, and chooses among those that reach the target: the
fastest if the elements are a fixed budget, the one with the fewest element-hours if elements are bought.  If none
reaches the target, or there is no target (0), it chooses among all.  Cloning has no privilege: where nothing crashes
within the target, or there is none, the answer is often "do not clone".

`plans` prices the ways and defines availability, time and cost.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from bsp.cost.units import in_seconds
from bsp.errors import TraceError
from bsp.faults.advise.estimate import Estimate, RoundTimes
from bsp.faults.advise.intervals import crash_crossover
from bsp.faults.advise.measured import estimate_from
from bsp.faults.advise.models import break_even_predictability
from bsp.faults.advise.plans import MOST_CLONES, Option, PlannedJob, Way, ways

AVAILABILITY = 0.9999  # the default target
_CENTURY = 3e9  # seconds
_RELAUNCH, _RELAUNCH_HOST = 1.0, 3.0  # seconds until the clones of a lost element, of a lost host, are replaced
FLOOR_SECONDS = 0.05  # the runtime counts a shorter MinTime as this


@dataclass(frozen=True)
class Advice:
    """The chosen plan, the plans it was chosen from, and the assumptions behind them."""

    job: PlannedJob
    target: float  # P[no round is lost]; 0: no target
    choice: Option
    plans: tuple[Option, ...]  # one of each way: the cheapest, or the cloning that comes nearest to the target
    reached: bool  # whether some cloning reaches the target
    D: float | None
    notes: tuple[str, ...]
    assumptions: tuple[str, ...]

    @property
    def clone(self) -> bool:
        """True if the advice is to clone."""
        return self.choice.way == "clone"

    @property
    def never(self) -> bool:
        """True if even the plan that is chosen is expected to take more than a century."""
        return self.choice.seconds >= _CENTURY

    def plan(self, way: Way) -> Option | None:
        """Return the cheapest plan of that way, or None if there is none."""
        return next((plan for plan in self.plans if plan.way == way), None)

    def headline(self) -> str:
        """Return the advice in one line, with the options to give to bsprun."""
        choice = self.choice
        if self.never:
            return "do not run it so: give it shorter rounds, fewer processes, or a steadier machine"
        if choice.way == "clone":
            limit = "" if choice.tail_limit is None else f" --tail-limit {choice.tail_limit:.3g}"
            vertical = "" if choice.vertical == 1 else f" --vertical {choice.vertical}"
            return f"clone: --clones {choice.clones}{vertical} --standby {choice.standby}{limit}"
        if choice.way == "checkpoint":
            return f"do not clone: checkpoint every {in_seconds(choice.interval_seconds or 0)} of work"
        return "do not clone, nor checkpoint: begin again if it fails"

    def reason(self) -> str:
        """Return in one line why this plan was chosen: whether it meets the target, and what that costs."""
        if self.never:
            return "none of these ways is expected to end within a century"
        best, rest = ("fastest", "takes") if self.job.elements is not None else ("cheapest", "costs")
        if not self.target:
            return f"the {best} way; there is no target"
        if not self.choice.reaches(self.target):
            return f"no way reaches the target here, and this is the {best}"
        least = min(self.plans, key=lambda plan: _price(self.job, plan))
        if least.reaches(self.target):
            return f"the {best} way, and it meets the target"
        share = _price(self.job, least)[0] / _price(self.job, self.choice)[0]
        return (
            f"the {best} way that meets the target; '{least.name()}' {rest} {share:.2g} times as much and misses it"
            " (--availability 0: no target)"
        )

    def text(self) -> str:
        """Return the whole advice as text: job, choice, reason, a table of the plans, notes and assumptions."""
        job = self.job
        target = f"target {self.target:.10g} that no round is lost" if self.target else "no target"
        lines = [
            f"{job.processes} processes, {job.rounds} rounds of {in_seconds(job.round_seconds)}:"
            f" {in_seconds(job.perfect_seconds)} without faults or tails;"
            f" {target}",
            "",
            f"advice: {self.headline()}",
            f"reason: {self.reason()}",
            "",
            f"{'':<26}{'elements':>9}{'time':>10}{'/perfect':>10}{'cost':>8}   {'P[a round is lost]':<20}",
        ]
        for plan in self.plans:
            mark = "->" if plan is self.choice else "  "
            met = "" if plan.reaches(self.target) else "  misses the target"
            lines.append(
                f"{mark} {plan.name():<23}{plan.elements:>9}{_time(plan.seconds):>10}"
                f"{_number(plan.time):>10}{_number(plan.cost):>8}   {plan.loss:<.2g}{met}"
            )
        lines += ["", *_listed(self._details())]
        if self.notes:
            lines += ["", *_listed(self.notes)]
        lines += ["", "assumed:", *_listed(self.assumptions)]
        return "\n".join(line.rstrip() for line in lines) + "\n"

    def _details(self) -> Iterator[str]:
        """Yield a line each about the clones, the TailLimit and the checkpoints."""
        cloned, checkpointed = self.plan("clone"), self.plan("checkpoint")
        if cloned is not None:
            each = "" if cloned.processes_each == 1 else f", up to {cloned.processes_each} processes on each"
            hosts = self.job.hosts(cloned.elements)
            where = "" if self.job.slots == 1 else f", on {hosts} hosts of {self.job.slots}"
            yield (
                f"clones: {cloned.bundles} bundles x {cloned.clones} elements + {cloned.standby} standbys{each}{where}"
            )
            if cloned.tail_limit is not None:
                yield (
                    f"TailLimit T = {cloned.tail_limit:.3g} x MinTime, {cloned.marks_per_round:.2g} healthy clones a"
                    f" round marked; cost at most T·HC = {_number(cloned.bound or 0)} x perfect"
                )
        if checkpointed is not None and checkpointed.interval_seconds is not None:
            yield (
                f"checkpoints: one every {in_seconds(checkpointed.interval_seconds)} of work,"
                f" {checkpointed.rollbacks:.2g} returns to one expected"
            )

    def to_json(self) -> str:
        """Return the advice as JSON; infinite and unknown values become null."""
        found = asdict(self)
        found["headline"], found["reason"] = self.headline(), self.reason()
        return json.dumps(_finite(found), indent=1, allow_nan=False)


def advise(
    processes: int,
    rounds: int,
    round_seconds: float,
    *,
    availability: float = AVAILABILITY,
    mtbf_hours: float | None = None,
    D: float | None = None,
    estimate: Estimate | None = None,
    checkpoint_seconds: float | None = None,
    restart_seconds: float | None = None,
    relaunch_seconds: float | None = None,
    copy_seconds: float | None = None,
    elements: int | None = None,
    slots: int = 1,
) -> Advice:
    """Price the job cloned, with checkpoints and with nothing; choose the cheapest plan that meets the target.

    processes, rounds, round_seconds : the job; round_seconds is for one process on an element, without faults or tails.
    availability : the target, P[no round is lost]; 0: none, and clones are planned for the default one.
    mtbf_hours : mean time between losses of one host, with all its elements; None: no crashes.
    D, estimate : the predictability, given or estimated; give one at most.  Neither: no tails.
    checkpoint_seconds : length of a checkpoint; None: checkpoints are not priced.
    restart_seconds : time to be back after a crash; None: that of a checkpoint.
    relaunch_seconds : time until another clone is there; None: 1 s, and 3 s for those of a whole host.
    copy_seconds : time to copy a bundle's state each round; None: vertical clones are not considered.
    elements : a fixed budget, which makes the fastest plan the cheapest; None: as many as needed, and they cost.
    slots : elements of a host; they are lost together, and clones of a process stand on different hosts.
    Raises ValueError for values that no job has.
    """
    job = PlannedJob(
        processes,
        rounds,
        round_seconds,
        availability or AVAILABILITY,
        mtbf_hours,
        checkpoint_seconds,
        (checkpoint_seconds or 0.0) if restart_seconds is None else restart_seconds,
        (_RELAUNCH if slots == 1 else _RELAUNCH_HOST) if relaunch_seconds is None else relaunch_seconds,
        copy_seconds,
        elements,
        slots,
    )
    if D is not None and estimate is not None:
        raise ValueError("advise: both D and an estimate of it; give one")
    tail = RoundTimes(D) if D is not None else None if estimate is None else estimate.tail
    plans, candidates = ways(job, tail)
    good = [plan for plan in candidates if plan.reaches(job.availability)]
    offered = list(plans)
    if good:
        best = min(good, key=lambda plan: _price(job, plan))
        offered.append(best)
        plans.append(best)
    elif candidates:
        plans.append(min(candidates, key=lambda plan: plan.loss))
    meeting = [plan for plan in offered if plan.reaches(availability)]
    choice = min(meeting or offered, key=lambda plan: _price(job, plan))  # of equals the first, the simplest
    return Advice(
        job,
        availability,
        choice,
        tuple(plans),
        bool(good),
        None if tail is None else tail.D,
        tuple(_notes(job, tail, estimate, plans, bool(good))),
        tuple(_assumptions(job, tail)),
    )


def _price(job: PlannedJob, plan: Option) -> tuple[float, float]:
    """Return what plans are compared by: (time, cost) on a fixed budget, (cost, time) otherwise.

    Rounded to six digits, because a difference in the seventh is no reason to clone.
    """
    time, cost = (float(f"{value:.6g}") for value in (plan.time, plan.cost))
    return (time, cost) if job.elements is not None else (cost, time)


# ------------------------------------------------------------------------ notes and assumptions


def _notes(
    job: PlannedJob, tail: RoundTimes | None, estimate: Estimate | None, plans: list[Option], reached: bool
) -> Iterator[str]:
    """Yield remarks on the plans: the estimate of D, its warnings, missed targets, small pools, break-even points."""
    if estimate is not None:
        yield estimate.text()
        yield from estimate.warnings
    cloned = next((plan for plan in plans if plan.way == "clone"), None)
    if cloned is None:
        yield f"cloning is no choice: {job.elements} elements hold no second clone"
    elif not reached:
        yield (
            f"no cloning with HC <= {MOST_CLONES} reaches the target here; shown is the one that comes nearest:"
            " give more elements, shorter rounds or a lower target"
        )
    if cloned is not None and cloned.tail_limit_beyond:
        yield "this TailLimit lies beyond every time that was measured: measure more rounds before relying on it"
    if cloned is not None and cloned.standby < cloned.standby_wanted:
        yield (
            f"a pool that lasts the run has {cloned.standby_wanted} standbys; with {cloned.standby} the job pauses"
            f" about {cloned.pauses:.2g} times for {in_seconds(job.restart_seconds)} to begin anew at full size"
            " (priced; no round is lost)"
        )
    if job.round_seconds < FLOOR_SECONDS:
        yield f"rounds are shorter than the floor of {in_seconds(FLOOR_SECONDS)}: tails count from T·floor on"
    machine = job.elements or job.processes
    if machine >= 4 and tail is not None:
        yield (
            f"on any {machine} elements, all used either way, two clones pay for tails alone below"
            f" D = {break_even_predictability(machine, 2):.3g}"
        )
    if job.checkpoint_seconds is not None and job.restart_seconds > 0:
        ratio = crash_crossover(2, job.restart_seconds / job.checkpoint_seconds)
        hours = ratio * job.checkpoint_seconds * job.hosts(machine) / 3600
        one = "an element" if job.slots == 1 else "a host"
        yield (
            f"on any {machine} elements, all used either way, two clones pay for crashes alone below {one} MTBF"
            f" of {hours:.3g} h (every {ratio:.3g} checkpoint times a crash)"
        )


def _assumptions(job: PlannedJob, tail: RoundTimes | None) -> Iterator[str]:
    """Yield the assumptions that the prices rest on."""
    yield "clones of a bundle stand in failure domains of their own (no shared node, power supply or switch)"
    if job.mtbf_hours is None:
        yield "no crashes, for want of an MTBF (--mtbf)"
    else:
        what = "elements crash" if job.slots == 1 else f"hosts of {job.slots} elements are lost"
        yield (
            f"{what} independently, each every {job.mtbf_hours:.4g} h on average, at any age;"
            f" a standby takes over within {in_seconds(job.relaunch_seconds)}"
        )
        yield "a standby, or a free slot for an element started anew; what is lost does not come back during the run"
        yield f"a job that lost a bundle, or a crashed one without clones, is back in {in_seconds(job.restart_seconds)}"
    if tail is None:
        yield "no tails, for want of D (--predictability, or --times FILE of measured rounds)"
    elif tail.D is None:
        yield "tails are as measured, each round and element drawn anew, none longer than the longest seen"
    else:
        yield f"tails: every round and element drawn anew, a share t^-{tail.D:.3g} takes longer than t·MinTime"
    yield "processes are balanced, and clones add no traffic to what one of each sends"


def _number(value: float) -> str:
    """Return a number in four digits, or ">1e6"."""
    return f"{value:.4g}" if value < 1e6 else ">1e6"


def _time(seconds: float) -> str:
    """Return seconds in a readable unit, or "never" for more than a century."""
    return in_seconds(seconds) if seconds < _CENTURY else "never"


def _listed(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines as items of a list."""
    for line in lines:
        yield f"- {line}"


def _finite(value: Any) -> Any:
    """Return data for JSON: floats that are infinite or not a number become None."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


# ----------------------------------------------------------------------------- the command


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `bsp advise` to a parser."""
    add = parser.add_argument
    add("-p", "--nprocs", type=int, required=True, metavar="P", help="processes of the program")
    add("--rounds", type=int, required=True, metavar="R", help="rounds of the run")
    add("--round-seconds", type=float, required=True, metavar="S", help="length of a round, one process on an element")
    add("--availability", type=float, default=AVAILABILITY, metavar="A",
        help=f"target: P[no round is lost] (default {AVAILABILITY}; 0: none, the cheapest way)")  # fmt: skip
    add("--mtbf", type=float, metavar="HOURS", help="mean time between the losses of one host (default: no crashes)")
    add("--slots", type=int, default=1, metavar="K", help="elements of a host, which are lost together (default 1)")
    tails = parser.add_mutually_exclusive_group()
    tails.add_argument("--predictability", type=float, metavar="D",
        help="how rare late rounds are: a share t^-D takes t times the shortest, or more")  # fmt: skip
    tails.add_argument("--times", metavar="FILE", help="measured: a trace, or JSON lines of times by element")
    add("--elements", type=int, metavar="N", help="elements there are: the fastest way is chosen (else the cheapest)")
    add("--checkpoint-seconds", type=float, metavar="S", help="length of a checkpoint (default: no checkpoints)")
    add(
        "--restart-seconds", type=float, metavar="S", help="length of a restart after a crash (default: a checkpoint's)"
    )
    add("--relaunch-seconds", type=float, metavar="S", help="time to replace a clone (default 1; of a whole host's: 3)")
    add("--copy-seconds", type=float, metavar="S", help="time to copy a state each round; weighs vertical clones, too")
    add("--json", action="store_true", help="print JSON")


def main(options: argparse.Namespace) -> int:
    """Run `bsp advise`: print the advice; return 0, or 2 if an option, or the text of a file of times, is wrong."""
    try:
        advice = advise(
            options.nprocs,
            options.rounds,
            options.round_seconds,
            availability=options.availability,
            mtbf_hours=options.mtbf,
            D=options.predictability,
            estimate=None if options.times is None else estimate_from(options.times),
            checkpoint_seconds=options.checkpoint_seconds,
            restart_seconds=options.restart_seconds,
            relaunch_seconds=options.relaunch_seconds,
            copy_seconds=options.copy_seconds,
            elements=options.elements,
            slots=options.slots,
        )
    except (ValueError, TraceError) as wrong:
        print(f"bsp advise: error: {wrong}", file=sys.stderr)
        return 2
    print(advice.to_json() if options.json else advice.text(), end="\n" if options.json else "")
    return 0
