"""Models of checkpoints and refreshes by time: optimal intervals, expected overheads, and which of the two is cheaper.

Elements fail at random, each at rate λ = 1/mtbf, so a job on P of them is hit every M = mtbf/P on average.  All
formulas are exact for exponential lifetimes.  Young's and Daly's first order is wrong exactly where the question
whether to clone is decided (M = 5C: slowdown 1.63 instead of 2.48).

Every function takes times in one unit of the caller's choice.  "Reference" is `fault-tolerance.md`, section 4.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Literal

from scipy.optimize import brentq
from scipy.special import beta, lambertw

# ------------------------------------------------------------------------------ checkpoints


def young_interval(checkpoint: float, mtbf: float) -> float:
    """Return the work between checkpoints to first order: √(2·C·M).

    mtbf : of the job, M.  Source: Young; formula 7.
    """
    _positive("young_interval", checkpoint=checkpoint, mtbf=mtbf)
    return math.sqrt(2 * checkpoint * mtbf)


def young_slowdown(checkpoint: float, mtbf: float) -> float:
    """Return the time over the work to first order: 1 + √(2·C/M).

    It shows how far off the first order is; use `slowdown` for prices.
    """
    _positive("young_slowdown", checkpoint=checkpoint, mtbf=mtbf)
    return 1 + math.sqrt(2 * checkpoint / mtbf)


def checkpoint_interval(checkpoint: float, mtbf: float) -> float:
    """Return the work W between checkpoints that minimises `slowdown`: W = M·(1 + W0(-e^(-1 - C/M))).

    W0 is Lambert's function: the derivative is zero where (1 - x)·e^(x + C/M) = 1, x = W/M.  Near C/M = 0 that equation
    loses its digits, and Daly's series x = s - s²/3 + s³/36, s = √(2C/M), is accurate.
    """
    _positive("checkpoint_interval", checkpoint=checkpoint, mtbf=mtbf)
    ratio = checkpoint / mtbf
    if ratio < 1e-7:
        s = math.sqrt(2 * ratio)
        return mtbf * (s - s**2 / 3 + s**3 / 36)
    return mtbf * (1 + float(lambertw(-math.exp(-1 - ratio)).real))


def slowdown(checkpoint: float, mtbf: float, restart: float, interval: float | None = None) -> float:
    """Return the expected time over the work of a long job that checkpoints every `interval` of work (None: the best).

        M·e^(Rst/M)·(e^((W + C)/M) - 1) / W

    Failures strike work, checkpoints and restarts alike.  Source: Daly; reference formula 7.
    """
    _positive("slowdown", mtbf=mtbf)
    work = checkpoint_interval(checkpoint, mtbf) if interval is None else interval
    _positive("slowdown", interval=work)
    return segment_time(work + checkpoint, mtbf, restart) / work


def segment_time(length: float, mtbf: float, restart: float) -> float:
    """Return the expected time until `length` has passed without a failure.

    Each failure costs a restart and all progress:
    M·e^(Rst/M)·(e^(length/M) - 1); infinite where a float cannot hold it.
    """
    _positive("segment_time", mtbf=mtbf)
    if not length >= 0 or not restart >= 0:
        raise ValueError(f"segment_time: length {length:g}, restart {restart:g}; times are 0 or more")
    exponent = (length + restart) / mtbf
    return math.inf if exponent > 700 else mtbf * math.exp(restart / mtbf) * math.expm1(length / mtbf)


def checkpointed_time(work: float, checkpoint: float, mtbf: float, restart: float) -> tuple[float, int]:
    """Return the expected time of a job of `work`, and the best number of equal segments, each ended by a checkpoint.

    The time is k·M·e^(Rst/M)·(e^((work/k + C)/M) - 1) for k segments.  It is convex in k, so the best k is one of the
    two whole numbers beside work/W.
    """
    _positive("checkpointed_time", work=work)
    ideal = work / checkpoint_interval(checkpoint, mtbf)
    return min(
        (k * segment_time(work / k + checkpoint, mtbf, restart), k)
        for k in (max(1, math.floor(ideal)), max(1, math.ceil(ideal)))
    )


def crash_crossover(r: int, restart: float = 1.0) -> float:
    """Return the ratio M/C at which checkpoints take as long as `r` clones on the same machine, crashes alone.

    With clones each process has r times the work and no crash costs time.  Clone below the ratio, checkpoint above it.
    restart : in units of C.  Source: reference formula 8: 7.6 for two clones, 3.75 for three.
    """
    if r < 2:
        raise ValueError(f"crash_crossover: r is {r}; one clone is no cloning, give 2 or more")
    _positive("crash_crossover", restart=restart)
    # slowdown falls from infinity (M/C -> 0) to 1 as M/C grows, so there is one root; found in ln(M/C)
    return math.exp(brentq(lambda log: slowdown(1, math.exp(log), restart) - r, -2.0, 40.0, xtol=1e-13))


# --------------------------------------------------------------------------- clones, by time


def refresh_loss(groups: int, clones: int, mtbf: float, interval: float) -> float:
    """Return the probability that one of `groups` loses all its clones between two refreshes, which restore all clones.

    1 - (1 - (1 - e^(-λτ))^r)^b, about b·(λτ)^r.  mtbf : of an element.  Source: reference formula 9.
    """
    _groups("refresh_loss", groups, clones)
    _positive("refresh_loss", mtbf=mtbf, interval=interval)
    gone = (-math.expm1(-interval / mtbf)) ** clones
    return 1.0 if gone >= 1 else -math.expm1(groups * math.log1p(-gone))


Notice = Literal["at once", "at the barrier"]


def refresh_overhead(
    groups: int, clones: int, mtbf: float, cost: float, interval: float, notice: Notice = "at once"
) -> float:
    """Return the lost time over the time, to lowest order in λτ: c/τ + b·κ·(λτ)^r.

    A lost group costs the time since the last refresh.  The last of r clones dies after r/(r + 1) of the interval on
    average (κ); if the loss is noticed only at the end of the interval, κ = 1.  Source: reference formula 9.
    """
    _groups("refresh_overhead", groups, clones)
    _positive("refresh_overhead", mtbf=mtbf, cost=cost, interval=interval)
    return cost / interval + groups * _wasted(clones, notice) * (interval / mtbf) ** clones


def refresh_interval(groups: int, clones: int, mtbf: float, cost: float, notice: Notice = "at once") -> float:
    """Return the interval that minimises `refresh_overhead`: τ* = [c / (b·κ·r·λ^r)]^(1/(r+1)).

    If losses are noticed at once this is [c(r + 1) / (b·r²·λ^r)]^(1/(r+1)), for pairs (3c / 4bλ²)^(1/3).
    Source: reference formula 9.
    """
    _groups("refresh_interval", groups, clones)
    _positive("refresh_interval", mtbf=mtbf, cost=cost)
    fraction = cost / (groups * _wasted(clones, notice) * clones)
    return float((fraction * mtbf**clones) ** (1 / (clones + 1)))


def _wasted(clones: int, notice: Notice) -> float:
    """Return κ: the mean share of an interval that has passed when the loss of a group is noticed."""
    if notice not in ("at once", "at the barrier"):
        raise ValueError(f"notice is {notice!r}; say 'at once' or 'at the barrier'")
    return clones / (clones + 1) if notice == "at once" else 1.0


def failures_to_interruption(groups: int) -> Fraction:
    """Return the mean number of failures until one of `groups` *pairs* is lost, without refreshes: 1 + 4^b/C(2b, b).

    Failures that strike an element already dead count, as they do in a rate of 2b·λ; those of live elements alone are
    one fewer, 4^b/C(2b, b).  About √(πb) + 1: at scale, pairs without refreshes lose almost all their worth.
    Source: reference formula 9 (SC'19).
    """
    _groups("failures_to_interruption", groups, 2)
    return 1 + Fraction(4**groups, math.comb(2 * groups, groups))


def time_to_loss(groups: int, clones: int, mtbf: float) -> float:
    """Return the mean time until one of `groups` has lost all its clones, without refreshes.

    ∫ (1 - (1 - e^(-λt))^r)^b dt = mtbf/r·Σ_{i<r} B((i + 1)/r, b), B the beta function.  For pairs this is
    failures_to_interruption(b)·mtbf / 2b.  mtbf : of an element.
    """
    _groups("time_to_loss", groups, clones)
    _positive("time_to_loss", mtbf=mtbf)
    return mtbf / clones * sum(float(beta((i + 1) / clones, groups)) for i in range(clones))


def _positive(call: str, **values: float) -> None:
    """Raise ValueError, in the name of `call`, for a value that is not above 0 and finite."""
    for name, value in values.items():
        if not 0 < value < math.inf:
            raise ValueError(f"{call}: {name} is {value:g}; give a time above 0")


def _groups(call: str, groups: int, clones: int) -> None:
    """Raise ValueError, in the name of `call`, unless there are one or more groups and clones."""
    if groups < 1 or clones < 1:
        raise ValueError(f"{call}: {groups} groups of {clones} clones; needs one or more of both")
