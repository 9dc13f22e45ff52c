"""Every formula held against counted rounds: within 99.9 % intervals, seeds fixed.

Shares are held to the exact binomial interval (Clopper and Pearson), means to the normal one; means are
only taken of laws with a finite variance (exponent above 2, better 3).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bsp.faults import intervals, models
from bsp.faults.counting import Counts, Setting, count, survivals
from bsp.faults.estimate import Tail

NO_TAIL = Tail(math.inf)


def hold_share(hits: int, trials: int, expected: float) -> None:
    found = stats.binomtest(hits, trials).proportion_ci(confidence_level=0.999)
    assert found.low <= expected <= found.high, (hits / trials, expected)


def hold_mean(values: np.ndarray, expected: float, slack: float = 0.0) -> None:
    """`slack`: expected may be anywhere up to that much above."""
    error = 3.29 * float(values.std(ddof=1)) / math.sqrt(values.size)
    assert values.mean() - error - slack <= expected <= values.mean() + error, (values.mean(), error, expected)


def ran(seed: int, trials: int, bundles: int, elements: int, rounds: int, tail: Tail, **more: Any) -> Counts:
    return count(Setting(bundles, elements, rounds, tail, **more), np.random.default_rng(seed), trials)


# --------------------------------------------------------------------- crashes


@pytest.mark.parametrize(("r", "p", "f"), [(2, 8, 2), (2, 8, 4), (3, 5, 3), (3, 100, 10), (2, 1000, 2)])
def test_formula_1_availability(r: int, p: int, f: int) -> None:
    trials = 20_000 if p < 1000 else 10_000
    hits = survivals(p, r * p, f, trials, np.random.default_rng(1))
    hold_share(hits, trials, float(models.availability(r, p, f)))


def test_formula_1_for_a_part_of_a_row() -> None:
    """McColl 1.8.3: 21 elements for 6 processes, HC = 3.5."""
    hits = survivals(6, 21, 6, 20_000, np.random.default_rng(2))
    hold_share(hits, 20_000, float(models.placed_availability(6, 21, 6)))


@pytest.mark.parametrize(("q", "p", "hc"), [(0.2, 10, 2), (0.3, 20, 3), (0.01, 5000, 2)])
def test_formula_2_crashes(q: float, p: int, hc: int) -> None:
    trials = 20_000 if p < 1000 else 300
    lost = ran(3, trials, p, p * hc, 1, NO_TAIL, crash=q).lost_rounds
    hold_share(int((lost == 0).sum()), trials, models.round_success(q, p, hc))


@pytest.mark.parametrize("vc", [1, 2, 3])
def test_formula_2_attempts_multiply_tails_and_not_crashes(vc: int) -> None:
    counts = ran(4, 20_000, 10, 20, 1, Tail(1.0), limit=2.0, attempts=vc, crash=0.1)
    q = models.late_or_dead(0.5, 0.1, vc)
    hold_share(int((counts.lost_rounds == 0).sum()), 20_000, models.round_success(q, 10, 2))


@pytest.mark.parametrize(("hc", "crash", "away"), [(2, 0.002, 1), (2, 0.002, 5), (2, 0.001, 20), (3, 0.01, 6)])
def test_loss_per_round_with_clones_that_come_back(hc: int, crash: float, away: int) -> None:
    """The chance that no bundle is lost in 300 rounds; from all there, so the model may be on the safe side only.

    By how much is bounded by what the first `away` rounds, in which fewer are gone, could have lost.
    """
    p, rounds, trials = 20, 300, 4000
    lost = ran(5, trials, p, p * hc, rounds, NO_TAIL, crash=crash, away=away).first_lost >= 0
    rate = models.loss_per_round(hc, crash, away)
    found = stats.binomtest(int(lost.sum()), trials).proportion_ci(confidence_level=0.999)
    assert found.low <= 1 - models.no_loss(rate, p, rounds)
    assert 1 - models.no_loss(rate, p, rounds - 2 * away) <= found.high


def test_standbys_last_a_run_as_often_as_they_should() -> None:
    """S of 50 + S elements die with probability 0.05 each."""
    level = models.standby_level(50, 0.05, 0.99)
    crashes = ran(6, 20_000, 50 + level, 50 + level, 1, NO_TAIL, crash=0.05).crashes
    n = 50 + level
    hold_share(int((crashes <= level).sum()), 20_000, float(stats.binom.cdf(level, n, 0.05)))
    assert (crashes <= level).mean() > 0.985


def test_formula_9_loss_between_refreshes() -> None:
    crash = 0.004  # in a round; λτ over a refresh of 10 rounds
    lost = ran(7, 20_000, 20, 40, 10, NO_TAIL, crash=crash, away=None, refresh=10).lost_rounds > 0
    mtbf = -1 / math.log1p(-crash)
    hold_share(int(lost.sum()), 20_000, intervals.refresh_loss(20, 2, mtbf, 10))


def test_formula_9_refreshes_are_independent() -> None:
    lost = ran(8, 5000, 20, 40, 50, NO_TAIL, crash=0.004, away=None, refresh=10).first_lost >= 0
    once = intervals.refresh_loss(20, 2, -1 / math.log1p(-0.004), 10)
    hold_share(int(lost.sum()), 5000, 1 - (1 - once) ** 5)


@pytest.mark.parametrize(("groups", "clones"), [(50, 2), (10, 3)])
def test_formula_9_time_to_loss_without_refresh(groups: int, clones: int) -> None:
    """In rounds: a loss is seen in the round it falls in, so up to one more than its time."""
    counts = ran(9, 1000, groups, groups * clones, 600, NO_TAIL, crash=0.01, away=None)
    assert (counts.first_lost >= 0).all()
    mean = intervals.time_to_loss(groups, clones, -1 / math.log(0.99))
    hold_mean(counts.first_lost + 1.0, mean, slack=1.0)


# ----------------------------------------------------------------------- tails


@pytest.mark.parametrize(("p", "hc", "D"), [(500, 2, 4.0), (64, 1, 4.0), (16, 3, 1.5), (5000, 2, 3.0)])
def test_formula_3_tail_maximum(p: int, hc: int, D: float) -> None:
    rounds = 4000 if p < 1000 else 200
    counts = ran(10, 10, p, p * hc, rounds // 10, Tail(D))
    hold_mean(counts.times.ravel(), models.expected_maximum(p, hc * D))


@pytest.mark.parametrize(("hc", "D"), [(2, 4.0), (2, 2.0), (3, 4.0), (1, 1.0)])
def test_formula_4_tail_limit(hc: int, D: float) -> None:
    """With probability 0.9 none of 50 rounds is lost."""
    limit = models.tail_limit(8, hc, 50, D, 0.1)
    counts = ran(11, 4000, 8, 8 * hc, 50, Tail(D), limit=limit)
    hold_share(int((counts.first_lost < 0).sum()), 4000, 0.9)


def test_formula_4_is_on_the_safe_side_of_a_measured_min_time() -> None:
    limit = models.tail_limit(8, 2, 50, 2.0, 0.2)
    known = ran(12, 4000, 8, 16, 50, Tail(2.0), limit=limit).first_lost < 0
    measured = ran(12, 4000, 8, 16, 50, Tail(2.0), limit=limit, min_time="measured").first_lost < 0
    assert measured.sum() > known.sum()


@pytest.mark.parametrize(("p", "elements"), [(4, 12), (10, 10), (100, 250)])
def test_marks_of_healthy_clones(p: int, elements: int) -> None:
    """Exactly, with MinTime set by the fastest of the first row (1.8.2 says P/t^D)."""
    counts = ran(13, 200, p, elements, 200, Tail(2.0), limit=3.0, min_time="measured")
    hold_mean(counts.marks / 200, models.expected_marks(p, elements, 3.0, 2.0))


@pytest.mark.parametrize(("a", "cost"), [(4.0, 1.0), (1.0, 0.5), (0.7, 2.0)])
def test_formula_5_restarts(a: float, cost: float) -> None:
    """One process, begun anew at T* as often as it takes (60 times; what is left over is below 10^-9)."""
    best = models.restart_threshold(a, cost)
    for limit in (best, 1.5, 3 * best):
        counts = ran(14, 20_000, 1, 1, 1, Tail(a), limit=limit, attempts=60, relaunch=cost)
        assert not counts.lost_rounds.any()
        hold_mean(counts.times.ravel(), models.restarted_time(limit, a, cost))


@pytest.mark.parametrize(("elements", "D"), [(64, 3.0), (64, 6.0), (1000, 5.0)])
def test_formula_6_cloning_at_a_fixed_size(elements: int, D: float) -> None:
    """Twice the work on half the processes, against none: the ratio of two means, by the delta method."""
    cloned = 2 * ran(15, 20, elements // 2, elements, 200, Tail(D)).times.ravel()
    single = ran(16, 20, elements, elements, 200, Tail(D)).times.ravel()
    ratio = cloned.mean() / single.mean()
    relative = math.hypot(cloned.std() / cloned.mean(), single.std() / single.mean()) / math.sqrt(single.size)
    assert abs(ratio - models.cloning_factor(elements, 2, D)) < 3.29 * relative * ratio
    assert (ratio < 1) == (models.break_even_predictability(elements, 2) > D)


# ----------------------------------------------------------------- the counter


def test_without_tails_and_faults_every_round_is_min_time() -> None:
    for wait in (True, False):
        counts = ran(17, 2, 5, 12, 7, NO_TAIL, limit=2.0, wait=wait)
        assert (counts.times == 1).all() and (counts.spent == 12 * 7).all()
        for zero in (counts.lost_rounds, counts.lost_bundles, counts.marks, counts.crashes, counts.jumps):
            assert not zero.any()
        assert (counts.first_lost == -1).all()


def test_a_late_clone_makes_nobody_wait_and_jumps() -> None:
    """Without waiting for it: rounds are between those of clones that all begin together and those of one clone."""
    together = ran(18, 20, 50, 100, 200, Tail(2.0)).times.mean()
    apart = ran(18, 20, 50, 100, 200, Tail(2.0), wait=False)
    single = ran(18, 20, 50, 50, 200, Tail(2.0)).times.mean()
    assert together < apart.times.mean() < single
    assert apart.jumps.min() > 0
    assert (apart.spent < 100 * apart.times.sum(axis=1)).all()  # no element computes longer than the run


def test_with_one_clone_nobody_can_be_behind() -> None:
    """All wait for the last, so beginning together and apart are the same."""
    together = ran(19, 3, 30, 30, 50, Tail(1.5))
    apart = ran(19, 3, 30, 30, 50, Tail(1.5), wait=False)
    np.testing.assert_allclose(apart.times, together.times, rtol=1e-12, atol=0)
    assert not apart.jumps.any()


def test_dead_clones_serve_nothing_until_somebody_stands_in() -> None:
    dead = ran(20, 1, 3, 6, 5, NO_TAIL, crash=1.0, away=2)
    assert dead.crashes[0] == 18 and dead.lost_bundles[0] == 15 and dead.first_lost[0] == 0  # rounds 0, 2, 4
    assert (dead.times == 0).all()
    never = ran(20, 1, 3, 6, 5, NO_TAIL, crash=1.0, away=None)
    assert never.crashes[0] == 6
    refreshed = ran(20, 1, 3, 6, 5, NO_TAIL, crash=1.0, away=None, refresh=2)
    assert refreshed.crashes[0] == 18


def test_the_same_seed_counts_the_same() -> None:
    setting = Setting(20, 50, 30, Tail(2.0), limit=4.0, crash=0.01, away=3, wait=False)
    one, other = (count(setting, np.random.default_rng(21), 3) for _ in range(2))
    for name in vars(one):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_ten_thousand_elements() -> None:
    counts = ran(22, 1, 5000, 10_000, 100, Tail(4.0), limit=30.0, crash=1e-4, away=2, wait=False)
    assert counts.times.shape == (1, 100) and counts.crashes[0] > 0


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"bundles": 5}, "5 bundles on 4 elements"),
        ({"limit": 0.5}, "needs limit >= 1"),
        ({"crash": 2.0}, "crash 2"),
        ({"away": 0}, "whole numbers, 1 or more"),
        ({"attempts": 2, "min_time": "measured"}, "min_time must be 'known'"),
    ],
)
def test_bad_settings_are_named(more: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError) as refused:
        Setting(**{"bundles": 2, "elements": 4, "rounds": 1, "tail": NO_TAIL, **more})
    assert says in str(refused.value)


def test_more_faults_than_elements_are_named() -> None:
    with pytest.raises(ValueError, match="5 faults among 4 elements"):
        survivals(2, 4, 5, 1, np.random.default_rng(0))
