"""Every formula of the reference (fault-tolerance.md, section 4) against its test values, brute force and identities.

Where a printed figure has few digits the test asks for half a unit of the last one.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from thinning import examples

from bsp.faults.advise import intervals, models
from bsp.faults.advise.models import availability, availability_by_recursion, placed_availability

# ------------------------------------------------------------------- f faults in one round


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ((2, 8, 2), 0.933333),
        ((2, 8, 4), 0.615385),
        ((3, 5, 3), 0.989011),
        ((3, 100, 10), 0.997308),
        ((2, 1000, 2), 0.99950),
        ((2, 10_000, 2), 0.99995),
    ],
)
def test_availability_has_the_values_of_the_reference(arguments: tuple[int, int, int], value: float) -> None:
    """Formula 1, and McColl 1.8.4: 0.9995 and 0.99995."""
    assert abs(float(availability(*arguments)) - value) <= (5e-7 if value < 0.999 else 5e-6)
    assert availability_by_recursion(*arguments) == availability(*arguments)


def brute_force(p: int, elements: int, f: int) -> Fraction:
    """By looking at every set of f elements; element e holds a clone of process e mod p."""
    kept = total = 0
    for gone in itertools.combinations(range(elements), f):
        total += 1
        kept += len({e % p for e in range(elements) if e not in gone}) == p
    return Fraction(kept, total)


@pytest.mark.parametrize(("p", "elements"), [(1, 1), (1, 4), (2, 5), (3, 6), (3, 8), (4, 12), (5, 11), (6, 9)])
def test_availability_is_a_count_of_all_sets_of_faults(p: int, elements: int) -> None:
    for f in range(elements + 1):
        assert placed_availability(p, elements, f) == brute_force(p, elements, f)


@examples(150)
@given(r=st.integers(1, 5), p=st.integers(1, 60), share=st.floats(0, 1))
def test_the_recursion_is_the_closed_form(r: int, p: int, share: float) -> None:
    """McColl 1.8.4, exactly; and for pairs 2^f·C(p, f)/C(2p, f)."""
    f = round(share * min(r * p, 40))
    assert availability_by_recursion(r, p, f) == availability(r, p, f)
    if r == 2:
        assert availability(2, p, f) == Fraction(2**f * math.comb(p, f), math.comb(2 * p, f))


def test_the_recursion_needs_no_stack() -> None:
    assert availability_by_recursion(2, 3000, 3) == availability(2, 3000, 3)


@given(p=st.integers(1, 30), elements=st.integers(1, 90), f=st.integers(0, 90))
def test_availability_falls_with_faults_and_rises_with_elements(p: int, elements: int, f: int) -> None:
    elements = max(elements, p)
    f = min(f, elements - 1)
    assert placed_availability(p, elements, f + 1) <= placed_availability(p, elements, f) <= 1
    assert placed_availability(p, elements, 0) == 1 and placed_availability(p, elements, elements) == 0


def test_disjoint_copies_are_worth_half_where_combined_ones_are_worth_nearly_all() -> None:
    """McColl 1.8.4: p = 1000, f = 2.  His formula 2·C(p, f)/C(2p, f) is ours from f = 1 on; at 0 it would be 2."""
    disjoint = models.disjoint_availability(2, 1000, 2)
    assert disjoint == Fraction(2 * math.comb(1000, 2), math.comb(2000, 2))
    assert abs(float(disjoint) - 0.5) < 3e-4
    assert models.disjoint_availability(2, 1000, 0) == 1
    assert models.disjoint_availability(2, 8, 1) == availability(2, 8, 1) == 1


@pytest.mark.parametrize(("r", "p"), [(1, 3), (2, 3), (3, 2), (3, 3)])
def test_disjoint_copies_by_brute_force(r: int, p: int) -> None:
    for f in range(r * p + 1):
        sets = list(itertools.combinations(range(r * p), f))
        whole = sum(any(all(e not in gone for e in range(c * p, c * p + p)) for c in range(r)) for gone in sets)
        assert models.disjoint_availability(r, p, f) == Fraction(whole, len(sets))


# --------------------------------------------------------------- independent faults by round


@pytest.mark.parametrize(("q", "p", "hc"), [(0.3, 2, 2), (0.1, 3, 3), (0.5, 4, 2)])
def test_round_success_is_a_sum_over_all_sets_of_faults(q: float, p: int, hc: int) -> None:
    """Formula 2, by weighing formula 1 with the number of faults."""
    n = p * hc
    weighed = sum(math.comb(n, f) * q**f * (1 - q) ** (n - f) * float(availability(hc, p, f)) for f in range(n + 1))
    assert abs(models.round_success(q, p, hc) - weighed) < 1e-14


def test_attempts_multiply_tails_and_not_crashes() -> None:
    """Formula 2."""
    assert models.late_or_dead(0.1, 0.0, 3) == pytest.approx(1e-3, rel=1e-14, abs=0)
    assert models.late_or_dead(0.0, 0.2, 3) == 0.2
    assert models.late_or_dead(0.1, 0.2, 1) == pytest.approx(0.28, rel=1e-14, abs=0)


def test_loss_of_clones_that_are_away_for_one_round_only_is_their_product() -> None:
    assert models.loss_per_round(3, 0.1, 1) == pytest.approx(1e-3, rel=1e-12, abs=0)
    # many rounds: HC·λ^HC·ρ^(HC-1) a second
    assert models.loss_per_round(2, 1e-9, 1000) == pytest.approx(2 * 1e-18 * 1000, rel=1e-3, abs=0)


@pytest.mark.parametrize(("elements", "lost", "confidence"), [(10, 0.1, 0.99), (1000, 0.01, 0.9999), (5, 0.5, 0.9)])
def test_the_standby_level_is_the_least_that_is_enough(elements: int, lost: float, confidence: float) -> None:
    def enough(s: int) -> float:
        n = elements + s
        return math.fsum(math.comb(n, k) * lost**k * (1 - lost) ** (n - k) for k in range(s + 1))

    level = models.standby_level(elements, lost, confidence)
    assert enough(level) >= confidence > enough(level - 1)


def test_no_standby_is_needed_where_nothing_is_lost() -> None:
    assert models.standby_level(1000, 0.0, 0.999999) == 0
    assert models.standby_level(1000, 1e-9, 0.999) == 0


# -------------------------------------------------------------------------------- tails


def test_the_mean_tail_maximum_of_the_reference() -> None:
    """Formula 3: p = 500, HC = 2, D = 4."""
    assert abs(models.expected_maximum(500, 8) - 2.37) < 0.005


@pytest.mark.parametrize(("p", "a"), [(1, 3.0), (2, 1.5), (7, 2.0), (64, 8.0), (10_000, 4.0)])
def test_the_mean_tail_maximum_is_an_integral(p: int, a: float) -> None:
    # over ln t, to where 10^-14 of it is left
    mean = (
        1
        + quad(
            lambda y: -math.expm1(p * math.log1p(-math.exp(-a * y))) * math.exp(y) if y > 0 else 1.0,
            0,
            (math.log(p) + 33) / (a - 1),
            limit=500,
            points=[math.log(p) / a + 0.01],
        )[0]
    )
    assert models.expected_maximum(p, a) == pytest.approx(mean, rel=1e-7, abs=0)


def test_limits_of_the_mean_tail_maximum() -> None:
    assert models.expected_maximum(1, 3) == pytest.approx(1.5, rel=1e-14, abs=0)  # the mean, a/(a - 1)
    assert models.expected_maximum(50, 1) == math.inf
    assert models.expected_maximum(50, math.inf) == 1
    far = math.gamma(1 - 1 / 4) * 1e6 ** (1 / 4)
    assert models.expected_maximum(1e6, 4) == pytest.approx(far, rel=1e-5, abs=0)


@pytest.mark.parametrize(("hc", "D", "limit", "digit"), [(2, 4, 7.3, 0.05), (2, 2, 53, 0.5), (3, 4, 3.8, 0.05)])
def test_tail_limits_of_the_reference(hc: int, D: float, limit: float, digit: float) -> None:
    """Formula 4: p = 8, R = 1000, ε = 10^-3; put back, it gives ε."""
    found = models.tail_limit(8, hc, 1000, D, 1e-3)
    assert abs(found - limit) < digit
    assert 1 - models.no_loss(found ** (-hc * D), 8, 1000) == pytest.approx(1e-3, rel=1e-9, abs=0)


def test_marks_are_the_chapters_p_over_t_to_the_d_but_for_who_sets_min_time() -> None:
    """1.8.2: P/t^D of P elements; we count that the first row sets MinTime (exact, see the docstring)."""
    assert models.expected_marks(1, 1, 5, 2) == 0
    assert models.expected_marks(1000, 1000, 5, 2) == pytest.approx(999 / 25, rel=1e-14, abs=0)
    assert models.expected_marks(10_000, 20_000, 5, 2) == pytest.approx(20_000 / 25, rel=2e-4, abs=0)


def test_the_restart_threshold_of_the_reference() -> None:
    """Formula 5: a = 4, c = 1."""
    assert abs(models.restart_threshold(4, 1) - 9.33) < 0.005


@pytest.mark.parametrize(("a", "cost"), [(4, 1), (4, 0), (1, 0.5), (1 + 1e-12, 0.5), (0.5, 2), (12, 0.01), (2, 30)])
def test_no_other_threshold_is_better(a: float, cost: float) -> None:
    best = models.restart_threshold(a, cost)
    found = minimize_scalar(
        lambda log: models.restarted_time(math.exp(log), a, cost),
        bounds=(1e-6, math.log(best) * 3 + 3),
        method="bounded",
        options={"xatol": 1e-10},
    )
    assert models.restarted_time(best, a, cost) <= found.fun * (1 + 1e-12)
    assert best == pytest.approx(a * (models.restarted_time(best, a, cost) + cost), rel=1e-9, abs=0)


def test_restarted_time_is_the_mean_itself_for_thresholds_far_out() -> None:
    assert models.restarted_time(1e9, 3, 1) == pytest.approx(1.5, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("elements", "two", "three"),
    [(16, 3.25, None), (64, 4.16, 3.44), (256, 5.11, 4.23), (1000, 6.06, 5.02), (10_000, 7.69, 6.39)],
)
def test_break_even_predictability_of_the_reference(elements: int, two: float, three: float | None) -> None:
    """Formula 6.  Its 2.69 for 16 elements and three clones is of 5 processes, see the next test."""
    assert abs(models.break_even_predictability(elements, 2) - two) < 0.005
    assert three is None or abs(models.break_even_predictability(elements, 3) - three) < 0.005


def test_declared_deviation_sixteen_elements_are_five_and_a_third_triples() -> None:
    """The reference has 2.69, with 5 processes at 3 times the work: less than all of it.  With 16/3 it is 2.675."""
    assert abs(models.break_even_predictability(16, 3) - 2.675) < 0.0005
    assert 3 * models.expected_maximum(5, 3 * 2.691) == pytest.approx(
        models.expected_maximum(16, 2.691), rel=1e-4, abs=0
    )


def test_speed_ups_of_the_reference() -> None:
    """Formula 6: P = 1000."""
    assert abs(1 / models.cloning_factor(1000, 2, 2) - 4.8) < 0.05
    assert abs(1 / models.cloning_factor(1000, 3, 2) - 6.3) < 0.05
    assert abs(1 / models.cloning_factor(1000, 2, 8) - 0.84) < 0.005
    assert models.cloning_factor(1000, 2, 0.8) == 0  # only the clones have a mean


@pytest.mark.parametrize("elements", [8, 100, 5000])
@pytest.mark.parametrize("r", [2, 3])
def test_cloning_pays_below_the_break_even_only(elements: int, r: int) -> None:
    edge = models.break_even_predictability(elements, r)
    factors = [models.cloning_factor(elements, r, D) for D in np.linspace(1.01, 3 * edge, 60)]
    assert factors == sorted(factors)
    assert models.cloning_factor(elements, r, edge * 0.99) < 1 < models.cloning_factor(elements, r, edge * 1.01)


def test_a_detector_pays_for_false_alarms_and_for_waiting() -> None:
    """Formula 11."""
    assert models.detection_loss(0.01, 50, 2) == 2.5


# --------------------------------------------------------------------------- checkpoints


def test_first_order_misleads_near_the_crossover() -> None:
    """Formula 7: at M = 5C, Rst = C: 2.48, not 1.63."""
    assert abs(intervals.slowdown(1, 5, 1) - 2.48) < 0.005
    assert abs(intervals.young_slowdown(1, 5) - 1.63) < 0.005


@pytest.mark.parametrize("ratio", [1e-12, 1e-8, 0.99e-7, 1.01e-7, 1e-5, 1e-2, 0.2, 1.0, 10.0])
def test_the_checkpoint_interval_solves_its_equation(ratio: float) -> None:
    """(1 - x)·e^(x + C/M) = 1, x = W/M; in logarithms, as a series where that cancels."""
    x = intervals.checkpoint_interval(ratio, 1)
    left = sum(x**k / k for k in range(2, 60)) if x < 0.1 else -math.log1p(-x) - x
    assert left == pytest.approx(ratio, rel=2e-6, abs=0)
    assert x <= intervals.young_interval(ratio, 1)
    worse = min(intervals.slowdown(ratio, 1, ratio, x * f) for f in (0.9, 1.1))
    assert intervals.slowdown(ratio, 1, ratio) < worse


def test_far_from_failure_young_is_right() -> None:
    assert intervals.checkpoint_interval(1, 1e10) == pytest.approx(intervals.young_interval(1, 1e10), rel=1e-5, abs=0)
    assert intervals.slowdown(1, 1e10, 1) == pytest.approx(intervals.young_slowdown(1, 1e10), rel=1e-9, abs=0)


def test_the_best_whole_number_of_checkpoints() -> None:
    for work in (1.0, 10.0, 37.0, 500.0):
        time, segments = intervals.checkpointed_time(work, 1, 40, 2)
        tried = [k * intervals.segment_time(work / k + 1, 40, 2) for k in range(1, 200)]
        assert time == min(tried) == tried[segments - 1]


def test_crash_crossovers_of_the_reference() -> None:
    """Formula 8: 7.6, 3.75; 2000 elements and C = 60 s: 253 h."""
    assert abs(intervals.crash_crossover(2) - 7.6) < 0.05
    assert abs(intervals.crash_crossover(3) - 3.75) < 0.005
    assert abs(intervals.crash_crossover(2) * 60 * 2000 / 3600 - 253) < 0.5
    assert intervals.slowdown(1, intervals.crash_crossover(2), 1) == pytest.approx(2, rel=1e-9, abs=0)


# ------------------------------------------------------------------------- clones, by time


def test_pairs_without_refresh() -> None:
    """Formula 9: 18.75 failures at b = 100, about √(πb) + 1."""
    assert abs(float(intervals.failures_to_interruption(100)) - 18.75) < 0.005
    about = math.sqrt(math.pi * 10_000) + 1
    assert float(intervals.failures_to_interruption(10_000)) == pytest.approx(about, rel=1e-4, abs=0)


@pytest.mark.parametrize("groups", [1, 2, 3, 10])
def test_failures_to_interruption_by_its_markov_chain(groups: int) -> None:
    """With k pairs degraded: k/2b hits a dead one, k/2b ends it, the rest degrades another."""
    expected = Fraction(0)
    live = Fraction(0)
    for k in range(groups, -1, -1):
        dead, end = Fraction(k, 2 * groups), Fraction(k, 2 * groups)
        expected = (1 + (1 - dead - end) * expected) / (1 - dead)
        live = 1 + live * Fraction(2 * groups - 2 * k, 2 * groups - k)
    assert intervals.failures_to_interruption(groups) == expected
    assert intervals.failures_to_interruption(groups) - 1 == live  # those that strike live elements


@pytest.mark.parametrize(("groups", "clones"), [(1, 1), (1, 3), (5, 2), (50, 3), (1000, 2)])
def test_time_to_loss_is_an_integral(groups: int, clones: int) -> None:
    mean = quad(lambda t: (1 - (-math.expm1(-t)) ** clones) ** groups, 0, 60, points=[0.1, 1, 5], limit=500)[0]
    assert intervals.time_to_loss(groups, clones, 3.0) == pytest.approx(3 * mean, rel=1e-8, abs=0)
    if clones == 2:
        by_failures = float(intervals.failures_to_interruption(groups)) * 3 / (2 * groups)
        assert intervals.time_to_loss(groups, 2, 3.0) == pytest.approx(by_failures, rel=1e-11, abs=0)


def test_refresh_each_round() -> None:
    """Formula 9: p = 1000, HC = 2, rounds of 60 s, element MTBF 30 days: 5·10^-7 of rounds."""
    found = intervals.refresh_loss(1000, 2, 30 * 86_400, 60)
    assert abs(found - 5e-7) < 5e-8
    assert found == pytest.approx(1000 * (60 / 30 / 86_400) ** 2, rel=1e-4, abs=0)


@pytest.mark.parametrize("notice", ["at once", "at the barrier"])
@pytest.mark.parametrize("clones", [1, 2, 3])
def test_the_refresh_interval_is_the_best(clones: int, notice: intervals.Notice) -> None:
    best = intervals.refresh_interval(100, clones, 1e6, 5, notice)
    at = intervals.refresh_overhead(100, clones, 1e6, 5, best, notice)
    assert at < min(intervals.refresh_overhead(100, clones, 1e6, 5, best * f, notice) for f in (0.98, 1.02))
    if notice == "at once":
        closed = (5 * (clones + 1) / (100 * clones**2 * 1e6**-clones)) ** (1 / (clones + 1))
        assert best == pytest.approx(closed, rel=1e-12, abs=0)


# --------------------------------------------------------------------------- bad arguments


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: availability(0, 3, 1), "availability: r is 0; give a whole number, 1 or more"),
        (lambda: availability(2, 3, 7), "there are 6 elements, so give a number of faults in 0..6"),
        (lambda: placed_availability(4, 3, 1), "4 processes on 3 elements"),
        (lambda: models.round_success(1.5, 2, 2), "round_success: q is 1.5; a probability lies in 0..1"),
        (lambda: models.standby_level(5, 1.0, 0.9), "shorten the run or lower the confidence"),
        (lambda: models.expected_maximum(0, 2), "a round has one process or more"),
        (lambda: models.tail_limit(8, 2, 10, -1, 0.1), "tail_limit: D is -1; a tail exponent is above 0"),
        (lambda: models.tail_limit(8, 2, 10, 2, 0), "needs 0 < epsilon < 1"),
        (lambda: models.expected_marks(2, 4, 0.5, 2), "a TailLimit is 1 (MinTime) or more"),
        (lambda: models.restarted_time(1, 2, 1), "needs limit > 1 (MinTime)"),
        (lambda: models.restart_threshold(2, 1e300), "never restart where it is that dear"),
        (lambda: models.cloning_factor(10, 2, 0.4), "take r > 2.5"),
        (lambda: models.break_even_predictability(3, 2), "needs two clones or more"),
        (lambda: intervals.slowdown(0, 1, 1), "checkpoint_interval: checkpoint is 0; give a time above 0"),
        (lambda: intervals.crash_crossover(1), "one clone is no cloning"),
        (lambda: intervals.refresh_interval(0, 2, 1, 1), "0 groups of 2 clones"),
        (lambda: intervals.refresh_overhead(1, 2, 1, 1, 1, "late"), "say 'at once' or 'at the barrier'"),  # type: ignore[arg-type]
    ],
)
def test_bad_arguments_are_named_with_what_to_do(call: object, says: str) -> None:
    with pytest.raises(ValueError) as refused:
        call()  # type: ignore[operator]
    assert says in str(refused.value)
