"""Models of cloning: probabilities of loss, expected lengths of rounds, and limits.  Pure functions without state.

An element's time in a round is MinTime·X with P[X > t] = t^-D for t >= 1.  D, the *predictability*, is the chapter's
only parameter of an architecture's tails (McColl 2022, 1.8.2).  The fastest of HC clones is then Pareto with exponent
a = HC·D, and every formula on tails below is one on the largest of p such draws.  Probabilities of faults in one round
are ratios of counts, so they are exact fractions.

Times are in units of MinTime unless a docstring says seconds.  "Reference" is `fault-tolerance.md`, section 4;
checkpoints and refreshes are in `intervals`, estimates of D in `estimate`.  All formulas assume that the clones of a
bundle are in different failure domains, and that every round is drawn independently.
"""

from __future__ import annotations

import math
from fractions import Fraction

from scipy.optimize import brentq
from scipy.special import bdtrc, beta

# ---------------------------------------------------- f faults in one round: exact counts


def availability(r: int, p: int, f: int) -> Fraction:
    """Return the probability that f faults among r·p elements leave every one of p processes a clone.

        A(r, p, f) = Σ_j (-1)^j C(p, j)·C(rp - rj, f - rj) / C(rp, f)

    j runs over sets of processes that have lost all clones (inclusion and exclusion).  Equal to McColl's recursion, see
    `availability_by_recursion`.  Source: reference formula 1; for r = 2 the sum is 2^f·C(p, f) / C(2p, f), as in 1.8.4.
    """
    return placed_availability(p, _clones("availability", r) * p, f)


def availability_by_recursion(r: int, p: int, f: int) -> Fraction:
    """Return the same as `availability`, by the chapter's recursion (1.8.4).

    It is 1 - N(r, p, f) / C(rp, f) with

        N(r, p, f) = C(r(p - 1), f - r) + Σ_{i<r} C(r, i)·N(r, p - 1, f - i),   N = 0 for p < 1 or f < r.

    N counts the sets of f elements that hold all clones of some process.  Row p needs row p - 1 only, so one row is
    kept and nothing recurses.  O(p·f·r) steps.
    """
    _faults("availability_by_recursion", p, _clones("availability_by_recursion", r) * p, f)
    lost = [0] * (f + 1)
    for q in range(1, p + 1):
        lost = [
            0
            if k < r
            else math.comb(r * (q - 1), k - r) + sum(math.comb(r, i) * lost[k - i] for i in range(min(r, k + 1)))
            for k in range(f + 1)
        ]
    return 1 - Fraction(lost[f], math.comb(r * p, f))


def placed_availability(p: int, elements: int, f: int) -> Fraction:
    """Return `availability` for any number of elements, with process b on elements b, b + p, b + 2p, ...

    HC = elements / p need not be whole (1.8.3 has 21 elements for 6 processes).  Some processes then have one clone
    more than others, and the sum runs over lost processes of both kinds.
    """
    _faults("placed_availability", p, elements, f)
    r, more = divmod(elements, p)
    kept = 0
    for j in range(min(p - more, f // r) + 1):
        for k in range(min(more, (f - j * r) // (r + 1)) + 1):
            gone = j * r + k * (r + 1)
            ways = math.comb(p - more, j) * math.comb(more, k) * math.comb(elements - gone, f - gone)
            kept += -ways if (j + k) % 2 else ways
    return Fraction(kept, math.comb(elements, f))


def disjoint_availability(r: int, p: int, f: int) -> Fraction:
    """Return the probability that f faults among r·p elements leave one of r disjoint copies of the job intact.

        Σ_{j>=1} (-1)^(j+1) C(r, j)·C((r - j)p, f) / C(rp, f)

    This is the usual redundancy, to compare `availability` with (1.8.4: p = 1000, f = 2: 0.5 against 0.9995).  The
    chapter's 2·C(p, f) / C(2p, f) is this for r = 2 and f >= 1; at f = 0 it would be 2.
    """
    _faults("disjoint_availability", p, _clones("disjoint_availability", r) * p, f)
    kept = sum((-1) ** (j + 1) * math.comb(r, j) * math.comb((r - j) * p, f) for j in range(1, r + 1))
    return Fraction(kept, math.comb(r * p, f))


# ------------------------------------------------------- independent faults, round by round


def late_or_dead(late: float, dead: float, vc: int = 1) -> float:
    """Return the probability that a clone serves nothing in a round: its element is dead, or all attempts are late.

    dead + (1 - dead)·late^VC, VC = vc.  Attempts one after the other on an element multiply their probabilities of
    being late, but a crashed element makes no attempt.  Source: reference formula 2.
    """
    _probability("late_or_dead", "late", late)
    _probability("late_or_dead", "dead", dead)
    return dead + (1 - dead) * late ** _clones("late_or_dead", vc, "vc")


def round_success(q: float, p: int, hc: int) -> float:
    """Return the probability that every process has a clone in time: (1 - q^HC)^p.

    q : the probability that a clone serves nothing, independently of the others.  Source: reference formula 2.
    """
    _probability("round_success", "q", q)
    return no_loss(q ** _clones("round_success", hc, "hc"), p, 1)


def no_loss(per_round: float, p: int, rounds: float) -> float:
    """Return the probability that no process is lost in any round: (1 - per_round)^(p·rounds).

    per_round : the probability that one process is lost in one round.
    """
    _probability("no_loss", "per_round", per_round)
    return 0.0 if per_round == 1 else math.exp(p * rounds * math.log1p(-per_round))


def loss_per_round(hc: int, crash: float, away: int = 1) -> float:
    """Return the probability that a process loses its last clone in a given round, by crashes alone.

    crash : the probability that an element dies in a round.
    away : rounds that its clone then misses, including that of the crash, until a standby replaces it.
    In the long run a clone is away with probability u = k·q / (k·q + 1 - q), k = away, q = crash, and the time since
    its crash is equally likely to be any of 1..k rounds.  So the probability is

        all away, one of them newly:  u^HC·(1 - (1 - 1/k)^HC)

    which is q^HC for k = 1, and approaches HC·λ^HC·ρ^(HC-1) per second for a repair time ρ of many rounds.  For a run
    that starts with all clones it is an upper bound.
    """
    _probability("loss_per_round", "crash", crash)
    _clones("loss_per_round", away, "away")
    u = away * crash / (away * crash + 1 - crash)
    return u ** _clones("loss_per_round", hc, "hc") * (1 - (1 - 1 / away) ** hc)


def standby_level(elements: int, lost: float, confidence: float) -> int:
    """Return the fewest standbys S with which, at this confidence, at least `elements` of elements + S survive.

    lost : the probability that one element is lost before another can take its place in the pool (during the whole run
    if none comes back; during the relaunch time if one does).  Standbys die like the others, so S is a quantile of
    Binomial(elements + S, lost).  Source: reference formula 4.
    """
    _clones("standby_level", elements, "elements")
    _probability("standby_level", "lost", lost)
    if lost == 1 or not 0 <= confidence < 1:
        raise ValueError(
            f"standby_level: lost is {lost:g} and confidence {confidence:g}; no pool is large enough unless both are"
            " below 1: shorten the run or lower the confidence"
        )

    def enough(standbys: int) -> bool:
        """Return whether more elements than the standbys are lost with probability 1 - confidence at most."""
        return lost == 0 or float(bdtrc(standbys, elements + standbys, lost)) <= 1 - confidence

    if enough(0):
        return 0
    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# ------------------------------------------------------------------- tails, MinTime = 1


def expected_maximum(p: float, a: float) -> float:
    """Return the mean of the largest of p Pareto(a) draws: the length of a round of p processes, a = HC·D.

    Γ(p + 1)·Γ(1 - 1/a) / Γ(p + 1 - 1/a), about Γ(1 - 1/a)·p^(1/a); infinite for a <= 1.  p may be any real number >= 1.
    Source: reference formula 3.
    """
    _exponent("expected_maximum", "a", a)
    if not p >= 1:
        raise ValueError(f"expected_maximum: p is {p:g}; a round has one process or more")
    if math.isinf(a):
        return 1.0
    return math.inf if a <= 1 else float(p * beta(p, 1 - 1 / a))


def chance_to_spare(p: float, rounds: float, epsilon: float) -> float:
    """Return the failure probability of a process in a round for which the whole run fails with probability `epsilon`.

    1 - (1 - ε)^(1 / (p·R)), about ε / (p·R).
    """
    _probability("chance_to_spare", "epsilon", epsilon)
    if not 0 < epsilon < 1 or p < 1 or rounds < 1:
        raise ValueError(
            f"chance_to_spare: epsilon {epsilon:g}, p {p:g}, rounds {rounds:g}; needs 0 < epsilon < 1 and one of each"
        )
    return -math.expm1(math.log1p(-epsilon) / (p * rounds))


def tail_limit(p: int, hc: int, rounds: int, D: float, epsilon: float) -> float:
    """Return the TailLimit T that, with probability 1 - ε, all clones of a process exceed together in no round.

    T = [1 - (1 - ε)^(1/(pR))]^(-1/a), about (p·R/ε)^(1/a), a = HC·D.  MinTime is taken as the least time a round can
    take; the measured one is at least that, so the limit in force, T times the measured one, is on the safe side.
    Source: reference formula 4.
    """
    a = _clones("tail_limit", hc, "hc") * _exponent("tail_limit", "D", D)
    return float(chance_to_spare(p, rounds, epsilon) ** (-1 / a))


def expected_marks(p: int, elements: int, limit: float, D: float) -> float:
    """Return the mean number of healthy clones that a round marks as tails: the price of a TailLimit that is too low.

    MinTime is the time m of the fastest of the p elements of the first row (1.8.2).  Given m the other p - 1 are Pareto
    from m on, so T^-D of them are late; of the rest E[(T·m)^-D] = T^-D·p/(p + 1).  Together

        T^-D·[(p - 1) + (P - p)·p/(p + 1)]

    where the chapter has P/T^D.  Holds for any TailLimit T >= 1.
    """
    _faults("expected_marks", p, elements, 0)
    _exponent("expected_marks", "D", D)
    _limit("expected_marks", limit)
    return float(limit**-D * ((p - 1) + (elements - p) * p / (p + 1)))


def restarted_time(limit: float, a: float, cost: float) -> float:
    """Return the mean time to a result if every attempt is stopped at `limit` and started again at a cost of `cost`.

        g = (E[min(X, T)] + c·T^-a) / (1 - T^-a),   E[min(X, T)] = (a - T^(1-a)) / (a - 1), 1 + ln T for a = 1

    `cost` in units of MinTime.  Finite for every a > 0, even where the mean of X is not.
    """
    _exponent("restarted_time", "a", a)
    if not limit > 1 or not cost >= 0:
        raise ValueError(f"restarted_time: limit {limit:g}, cost {cost:g}; needs limit > 1 (MinTime) and cost >= 0")
    late = limit**-a
    log = math.log(limit)
    # (a - T^(1-a)) / (a - 1) = 1 + (1 - T^(1-a)) / (a - 1); this form keeps its digits near a = 1
    waited = 1 + (log if a == 1 else -math.expm1((1 - a) * log) / (a - 1))
    return float((waited + cost * late) / -math.expm1(-a * log))


def restart_threshold(a: float, cost: float) -> float:
    """Return the best time to restart a process *none* of whose clones has finished: T* = a·(g + c).

    g = restarted_time(T*).  At T* the hazard rate of finishing, a/t, has fallen to what a new start would give.  There
    is one root: wherever T = a·(g(T) + c), g is at its minimum.  A clone whose sibling has finished is another matter:
    stopping it costs a relaunch and no time.  Source: reference formula 5.
    """
    _exponent("restart_threshold", "a", a)

    def over(log: float) -> float:
        """Return how far T = exp(log) lies above the threshold equation's right side; the root is where it is 0."""
        return math.exp(log) - a * (restarted_time(math.exp(log), a, cost) + cost)

    high = 1.0
    while over(high) < 0:
        high *= 2
        if high > 500:
            raise ValueError(f"restart_threshold: cost is {cost:g} MinTimes; never restart where it is that dear")
    low = high / 2
    while over(low) > 0:
        low /= 2
    return math.exp(brentq(over, low, high, xtol=1e-14, rtol=1e-14))


def cloning_factor(elements: float, r: int, D: float) -> float:
    """Return the time with r clones over that with none, on equally many elements, tails alone; cloning pays below 1.

    r·E[max of P/r of Pareto(rD)] / E[max of P of Pareto(D)]: r clones leave a P/r-th part of the machine to each of P/r
    processes, which then has r times the work.  0 where only the clones' mean is finite.  Source: reference formula 6.
    """
    cloned = expected_maximum(elements / _clones("cloning_factor", r), r * _exponent("cloning_factor", "D", D))
    single = expected_maximum(elements, D)
    if math.isinf(cloned) and math.isinf(single):
        raise ValueError(f"cloning_factor: D is {D:g}; with r = {r} both means are infinite, take r > {1 / D:.3g}")
    return r * cloned / single


def break_even_predictability(elements: float, r: int) -> float:
    """Return the D at which r clones on a machine of that size are as fast as none, tails alone.

    Below it clones are faster, above it slower.
    Source: reference formula 6 (P = 1000: 6.06 with two clones, 5.02 with three).
    """
    if _clones("break_even_predictability", r) < 2 or elements < 2 * r:
        raise ValueError(
            f"break_even_predictability: {elements:g} elements and r = {r}; needs two clones or more, and two"
            " processes of them"
        )
    high = 4.0
    while cloning_factor(elements, r, high) < 1:
        high *= 2
    return float(brentq(lambda D: cloning_factor(elements, r, D) - 1, 1 + 1e-9, high, xtol=1e-12))


def detection_loss(false: float, relaunch: float, delay: float) -> float:
    """Return the mean cost of a detector's decision, in the unit of its arguments: P(false)·relaunch + delay.

    A low limit means a short delay and many healthy clones relaunched.  Source: reference formula 11.
    """
    _probability("detection_loss", "false", false)
    return false * relaunch + delay


# ------------------------------------------------------------------------- bad arguments


def _clones(call: str, number: int, name: str = "r") -> int:
    """Return a whole number, 1 or more.  Raises ValueError, in the name of `call`, for any other."""
    if number < 1 or int(number) != number:
        raise ValueError(f"{call}: {name} is {number}; give a whole number, 1 or more")
    return int(number)


def _faults(call: str, p: int, elements: int, f: int) -> None:
    """Raise ValueError, in the name of `call`, unless p processes fit on the elements and f of them can fail."""
    if p < 1 or elements < p:
        raise ValueError(f"{call}: {p} processes on {elements} elements; needs one process or more, each on an element")
    if not 0 <= f <= elements:
        raise ValueError(
            f"{call}: f is {f}; there are {elements} elements, so give a number of faults in 0..{elements}"
        )


def _probability(call: str, name: str, value: float) -> None:
    """Raise ValueError, in the name of `call`, unless the value lies in 0..1."""
    if not 0 <= value <= 1:
        raise ValueError(f"{call}: {name} is {value:g}; a probability lies in 0..1")


def _exponent(call: str, name: str, value: float) -> float:
    """Return the tail exponent.  Raises ValueError, in the name of `call`, unless it is above 0."""
    if not value > 0:
        raise ValueError(f"{call}: {name} is {value:g}; a tail exponent is above 0 (inf: no tails)")
    return value


def _limit(call: str, value: float) -> None:
    """Raise ValueError, in the name of `call`, unless the TailLimit is 1 or more."""
    if not value >= 1:
        raise ValueError(f"{call}: limit is {value:g}; a TailLimit is 1 (MinTime) or more")
