"""Declared costs: one formula is a procedure's price before there are processes, and its run without values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bsp
from bsp.abstract.work import counter
from bsp.cost.model import Cost, Machine
from bsp.declared import Costs, Reported, Totals, declares

MACHINES = {
    "words are dear": Machine(g=1e3, L=1.0, o=0.0),
    "supersteps are dear": Machine(g=0.1, L=1e6, o=1.0),
    "default": Machine(),
}


def smoothed_cost(costs: Costs, values: Any, rounds: int, pid: int = 0) -> Any:
    """A ring exchange and a sum in each round."""
    n = len(values)
    with costs.holding(2 * n):
        for _ in range(rounds):
            costs.work(elementwise=3.0 * n)
            costs.exchange("ring", {(pid + 1) % costs.p: n} if costs.p > 1 else {}, n * (costs.p > 1), costs.p > 1)
            costs.allreduce(5)
    return costs.array((n,))


def test_totals_add_work_words_supersteps_messages_and_the_most_memory() -> None:
    totals = Totals(4, Machine(g=1e3, L=1.0, o=0.0))
    totals.work(blas2=10, blas3=5)
    with totals.holding(100):
        totals.exchange("ring", {1: 7}, 7, 1)
        with totals.holding(50):
            totals.work(elementwise=1, nbytes=800)
    with totals.holding(120):
        totals.exchange("ring", {1: 7}, 7, 1)
    assert totals.cost == Cost(16, 14, 2, 150, 2)


@pytest.mark.parametrize("name", ["blas4", "bytes", "calls"])
def test_work_of_an_unknown_class_is_refused(name: str) -> None:
    with pytest.raises(TypeError, match=f"class '{name}': it is one of blas1, "):
        Totals(4, Machine()).work(**{name: 1.0})


@pytest.mark.parametrize(("declare", "told"), [
    (lambda costs: costs.work(blas1=-10), "blas1 = -10"), (lambda costs: costs.work(blas2=float("nan")), "blas2 = nan"),
    (lambda costs: costs.work(nbytes=-8), "nbytes = -8"), (lambda costs: costs.allreduce(-4), "count = -4"),
    (lambda costs: costs.exchange("ring", {1: -5}, 5, 1), "words to process 1 = -5"),
    (lambda costs: costs.exchange("ring", {}, -5, 1), "h = -5"), (lambda costs: costs.holding(-5), "words = -5"),
    (lambda costs: costs.exchange("ring", {7: 5}, 5, 1), "ring: a declared cost sends to process 7; there are 3"),
])  # fmt: skip
def test_amounts_that_cannot_be_are_refused_with_values_or_without(declare: Callable[[Costs], Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        declare(Totals(3, Machine()))
    with pytest.raises(ValueError, match=told):
        bsp.predict(lambda proc: declares(declare)(abs)(), nprocs=3, machine=Machine(p=3), abstract=True)


def test_a_process_that_sends_more_than_the_busiest_is_told() -> None:
    procedure = declares(lambda costs: costs.exchange("ring", {(bsp.process().pid + 1) % 3: 50}, 5, 1))(abs)
    with pytest.raises(
        ValueError, match="ring: a declared cost sends 50 words, more than h = 5 of the busiest process"
    ):
        bsp.predict(lambda proc: procedure(), nprocs=3, machine=Machine(p=3), abstract=True)


def test_costs_one_after_the_other_hold_the_memory_of_the_larger() -> None:
    assert Cost(1, 2, 3, 40, 5) + Cost(10, 20, 30, 4, 50) == Cost(11, 22, 33, 40, 55)
    machine = Machine(r=10.0, g=2.0, L=3.0, o=5.0)
    cost = Cost(100, 10, 2, 4, 1, machine)
    assert cost.price() == cost.price(machine) == 100 + 2 * 10 + 3 * 2 + 5
    assert cost.seconds == cost.price() / 10
    assert cost.peak_bytes == 32


@pytest.mark.parametrize("machine", list(MACHINES))
@pytest.mark.parametrize("p", [1, 2, 3, 8])
def test_a_run_without_values_reports_what_totals_add_up(p: int, machine: str) -> None:
    where = MACHINES[machine]

    @declares(lambda costs, values, rounds: smoothed_cost(costs, values, rounds, bsp.process().pid))
    def smoothed(values: Any, rounds: int) -> Any:
        raise AssertionError("the body is not entered")

    def main(proc: bsp.Process) -> None:
        found = smoothed(np.zeros(11), 3)
        assert found.shape == (11,)

    rows = bsp.predict(main, nprocs=p, machine=where, abstract=True).per_superstep
    totals = Totals(p, where)
    smoothed_cost(totals, np.zeros(11), 3)
    assert sum(max(row["h_sent"], row["h_received"]) for row in rows) == totals.cost.H
    assert len(rows) == totals.cost.S
    assert [row["label"] for row in rows].count("ring") == 3


def test_with_values_the_body_runs_and_the_cost_is_not_looked_at() -> None:
    def refused(costs: Costs, x: Any) -> Any:
        raise AssertionError("there are values")

    @declares(refused)
    def doubled(x: Any) -> Any:
        """Double."""
        return 2 * x

    assert bsp.run(lambda proc: doubled(proc.pid), nprocs=3) == [0, 2, 4]
    assert doubled.__doc__ == "Double."


def test_declared_supersteps_leave_their_callers_puts_and_messages_alone() -> None:
    """B2."""
    seen: list[int] = []

    @declares(lambda costs: costs.exchange("step", {}, 0, 0))
    def step() -> None:
        raise AssertionError("the body is not entered")

    def main(proc: bsp.Process) -> None:
        proc.send((proc.pid + 1) % proc.nprocs, "hello")
        step()
        seen.append(len(proc.inbox))
        proc.sync()
        seen.append(len(proc.inbox))

    bsp.predict(main, nprocs=2, machine=Machine(), abstract=True)
    assert sorted(seen) == [0, 0, 1, 1]


def test_memory_that_is_held_counts_in_the_peak() -> None:
    def large(costs: Costs) -> None:
        with costs.holding(1 << 20):
            costs.allreduce(1)

    @declares(large)
    def step() -> None:
        raise AssertionError("the body is not entered")

    def peak(body: Any) -> int:
        return int(bsp.predict(body, nprocs=2, machine=Machine(), abstract=True).peak_bytes)

    assert peak(lambda proc: step()) >= peak(lambda proc: proc.allreduce(1.0)) + 8 * (1 << 20)


def test_arrays_that_are_declared_to_travel_count_their_words_and_the_memory_where_they_arrive() -> None:
    held: list[tuple[int, int]] = []

    def ring(costs: Reported, pid: int) -> None:
        sent = costs.memory((100,), float)
        before = counter.live_bytes
        arrived = costs.total_exchange("ring", [((pid + 1) % costs.p, sent), (pid, sent)])
        assert [source for source, _ in arrived] == sorted([pid, (pid - 1) % costs.p])
        own = counter.live_bytes - before
        placed = costs.total_exchange("placed", [((pid + 1) % costs.p, sent[:50])], placed=True)
        held.append((own, counter.live_bytes - before - own))
        del arrived, placed
        told = costs.tell("told", costs.memory((3,), np.int32))
        assert [(source, array.shape) for source, array in told] == [(k, (3,)) for k in range(costs.p)]

    @declares(ring)
    def step(pid: int) -> None:
        raise AssertionError("the body is not entered")

    rows = bsp.predict(lambda proc: step(proc.pid), nprocs=3, machine=Machine(), abstract=True).per_superstep
    assert [row["label"] for row in rows] == ["ring", "placed", "told"]
    assert [row["h_sent"] for row in rows] == [row["h_received"] for row in rows] == [100, 50, 3]
    assert held == [(800, 0)] * 3


def test_the_busiest_process_is_another_one_wherever_there_is_one() -> None:
    found: list[int] = []
    step = declares(lambda costs: found.append(costs.busiest))(lambda: None)
    for p in (1, 3):
        bsp.predict(lambda proc: step(), nprocs=p, machine=Machine(), abstract=True)
    assert found == [0, 1, 0, 0]


def test_fractions_of_words_are_rounded_up_in_their_sum() -> None:
    """Elements may be shorter than a word."""

    def halves(costs: Costs) -> None:
        costs.exchange("step", {1: 1.5, 2: 1.5} if bsp.process().pid == 0 else {}, 3.0, 2)

    @declares(halves)
    def step() -> None:
        raise AssertionError("the body is not entered")

    (row,) = bsp.predict(lambda proc: step(), nprocs=3, machine=Machine(), abstract=True).per_superstep
    assert (row["h_sent"], row["h_received"]) == (3, 2)


def test_what_arrives_takes_memory_and_what_is_sent_is_the_procedures_own() -> None:
    words = 1 << 20

    def scatter(costs: Costs, dests: int) -> None:
        sends = dict.fromkeys(range(1, 1 + dests), words)
        costs.exchange("step", sends if bsp.process().pid == 0 else {}, dests * words, dests)

    @declares(scatter)
    def step(dests: int) -> None:
        raise AssertionError("the body is not entered")

    def held(dests: int) -> list[int]:
        """Return the most bytes on each of four elements, beyond those on the emptiest one."""
        found = bsp.predict(lambda proc: step(dests), nprocs=4, machine=Machine(p=4), abstract=True)
        peaks = [element["peak_bytes"] for element in found.record["per_element"]]
        return [peak - min(peaks) for peak in peaks]

    assert held(0) == [0] * 4
    assert [each >= 8 * words for each in held(1)] == [False, True, False, False]
    assert [each >= 8 * words for each in held(3)] == [False, True, True, True]


def test_products_and_visits_are_counted_by_class_and_cache() -> None:
    totals = Totals(2, Machine())
    totals.product(3, 4, 5)
    totals.product(3, 4, 5, complex)
    totals.visits(7)
    assert totals.cost.W == 2 * 60 + 8 * 60 + 7
