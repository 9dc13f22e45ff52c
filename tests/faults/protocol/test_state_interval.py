"""States are taken at every head unless that is dear, and siblings take some in common."""

from __future__ import annotations

import itertools
import random

import pytest

from bsp.faults.checkpoints.state_interval import Spacing


def taken(heads: int, round_seconds: float, costs: list[float], size: int = 0, packets: int = 0) -> list[int]:
    """The heads at which states are taken that cost so much, one after the other and round again.

    packets : bytes that come in each round.
    """
    now, found = 0.0, []
    spacing = Spacing(now)
    for head in range(1, heads + 1):
        now += round_seconds
        if spacing.is_due(head, now, head * packets, size):
            cost = costs[len(found) % len(costs)]
            found.append(head)
            now += cost
            spacing.took(head, now, head * packets, cost)
    return found


def test_cheap_states_are_taken_at_every_head() -> None:
    assert taken(100, 0.05, [0.0009]) == list(range(1, 101))


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_busy_machine_at_first_does_not_make_states_rare(first: int) -> None:
    """One that costs 300 times as much by chance is not taken for all that come."""
    found = taken(100, 0.05, [0.3] * first + [0.0009] * 200)
    gaps = [b - a for a, b in itertools.pairwise(found)]
    assert max(gaps) <= 1 << (first - 1) and gaps[8:] == [1] * len(gaps[8:])


@pytest.mark.parametrize("times", [2, 5, 100])
def test_dear_states_take_two_percent_of_the_time(times: int) -> None:
    cost = 0.02 * 0.05 * times
    found = taken(5000, 0.05, [cost])
    assert 0.25 * 0.02 <= cost * (len(found) - 4) / (5000 * 0.05) <= 0.02


@pytest.mark.parametrize("megabytes", [10, 50, 500])
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_the_first_states_of_a_large_program_are_not_early(megabytes: int, factor: float) -> None:
    """In 20 seconds of rounds of 50 ms, whatever the size; also where a state costs three times what is expected."""
    cost = factor * megabytes * 0.7e-3
    found = taken(400, 0.05, [cost], megabytes * 10**6)
    assert sum(cost for _ in found) <= factor * 0.02 * 400 * 0.05
    assert all(head % (found[0] if found else 1) == 0 for head in found)


def test_siblings_that_know_other_costs_take_states_in_common() -> None:
    rng = random.Random(1)
    for _ in range(50):
        one, two = (set(taken(600, 0.05, [rng.uniform(0.0005, 0.02)])) for _ in range(2))
        assert len(one & two) >= min(len(one), len(two)) - 8  # the rarer ones are among the others, but for the first


def test_a_state_whose_cost_is_not_known_says_nothing_of_the_next() -> None:
    spacing = Spacing(0.0)
    for head in range(1, 9):
        assert spacing.is_due(head, float(head), 0, 0)
        spacing.took(head, float(head), 0, None)


@pytest.mark.parametrize(("size", "packets", "interval"), [
    (10**7, 10**7, 8),  # a state is an eighth of them
    (10**7, 10**5, 64),  # small packets: dear states are as rare as without them
    (0, 10**7, 4), (0, 10**9, 1),  # a small state: 64 MiB are kept, or one round's
])  # fmt: skip
def test_states_are_taken_for_large_packets_that_are_kept_until_then(size: int, packets: int, interval: int) -> None:
    found = taken(1000, 0.01, [0.01], size, packets)
    assert {b - a for a, b in itertools.pairwise(found[-8:])} == {interval}
