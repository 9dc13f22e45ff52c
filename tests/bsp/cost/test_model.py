"""The model against McColl 1.5.2 and 1.7.3, and against sums worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from math import log2

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsp.collectives.choice import COLLECTIVES
from bsp.collectives.sizes import levels_of
from bsp.cost.machine_file import profile_of, to_machine
from bsp.cost.model import NETWORKS, Cost, Level, Load, Machine, Traffic, costings, on_network
from bsp.cost.terms import TERMS, Term

FLAT = Machine(p=4, r=1e9, g=2.0, L=1000.0, o=10.0)


def traffic(blocks: list[float], words: list[float], fine: list[float], staged: list[float]) -> Traffic:
    """One superstep, a port for each entry."""
    return Traffic(*(np.array([each]) for each in (blocks, words, fine, staged)))


def nothing(ports: int) -> Traffic:
    return traffic(*[[0.0] * ports] * 4)


def test_a_superstep_is_w_plus_L_plus_o_m_plus_g_h() -> None:
    work = np.array([[1e-6, 5e-6, 2e-6, 0.0]])
    moved = traffic([3, 1, 0, 0], [100, 300, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0])
    load = Load(work.max(axis=1) * FLAT.r, (moved,), nothing(4), 1)
    (price,) = FLAT.price(Cost(0, 0, np.ones(1), load=load))
    busiest = max(3 * 10 + 2 * 100, 1 * 10 + 2 * 300)
    assert price / FLAT.r == pytest.approx(5e-6 + (1000 + busiest) / 1e9, rel=1e-12)


@given(st.integers(0, 10**9), st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 99))
def test_a_plan_and_its_run_have_one_price_where_there_are_no_levels(W: int, H: int, messages: int, S: int) -> None:
    """Sums alone, and the same words and messages as traffic of the busiest element."""
    plan = Cost(W, H, S, messages=messages)
    run = plan._replace(load=Load(W, (Traffic(messages, H),), Traffic(99, 99, 99, 99), 99))
    assert plan.price(FLAT) == run.price(FLAT) == W + 2.0 * H + 10.0 * messages + 1000.0 * S
    assert plan.price(FLAT) + plan.price(FLAT) == (plan + run).price(FLAT)


def test_words_one_by_one_staged_words_registrations_and_new_memory_have_prices_of_their_own() -> None:
    level = Level("between", g=2.0, o=10.0, L=1000.0, fine=50.0, staged=3.0)
    machine = Machine(
        p=2, r=1e9, g=2.0, L=1000.0, o=10.0, levels=(Level("inside", 1.0, 5.0, 7.0), level), registration=500.0,
        fresh=4.0,
    )  # fmt: skip
    moved = traffic([2, 0], [100, 0], [20, 0], [60, 0])
    inside = traffic([0, 3], [0, 30], [0, 0], [0, 0])
    (price,) = machine.price(Cost(0, 0, np.ones(1), load=Load(0.0, (moved,), inside, 5, np.ones(1), np.array([60.0]))))
    between = 1000 + 2 * 10 + 2 * 100 + 50 * 20 + 3 * 60
    within = 5 * 7 + 3 * 5 + 30 * 1
    assert price == pytest.approx(between + within + 500 + 4 * 60, rel=1e-12)


COUNTS = {  # in sums, by level and of the whole, as the loads below have them
    "g": (5, 5 + 17), "o": (3, 3 + 13), "L": (2, 2 + 29), "fine": (0, 7 + 19), "staged": (0, 11 + 23),
    "registration": (31, 0), "fresh": (37, 0),
}  # fmt: skip


@pytest.mark.parametrize("term", TERMS, ids=lambda term: term.name)
def test_every_term_is_multiplied_by_its_count_and_kept_in_machine_files(term: Term) -> None:
    levels = tuple(Level(name, 1.0, 1.0, 1.0, fine=1.0, staged=1.0) for name in ("inside", "between"))
    machine = Machine(p=2, g=1.0, o=1.0, L=1.0, registration=1.0, fresh=1.0, levels=levels, kind="imagined")
    known = Cost(0, 5, 2, messages=3)
    detailed = known._replace(load=Load(0.0, (Traffic(3, 5, 7, 11),), Traffic(13, 17, 19, 23), 29, 31, 37))
    of_machine, of_levels = COUNTS[term.name]
    if term.of_machine:
        dearer = replace(machine, **{term.name: 2.0})
        cost = known if term.of_levels else detailed
        assert cost.price(dearer) - cost.price(machine) == of_machine
        assert to_machine(profile_of(dearer, 2)) == dearer
    if term.of_levels:
        dearer = replace(machine, levels=tuple(replace(level, **{term.name: 2.0}) for level in levels))
        assert detailed.price(dearer) - detailed.price(machine) == of_levels
        assert to_machine(profile_of(dearer, 2)) == dearer


def test_g_is_interpolated_over_the_logarithm_of_the_block_size() -> None:
    level = Level("between", g=1.0, o=0.0, L=0.0, blocks=((64, 9.0), (4096, 3.0)))
    assert level.g_of(np.array([1, 64, 512, 4096, 1 << 20])).tolist() == [9.0, 9.0, 6.0, 3.0, 3.0]


@given(st.integers(2, 4096), st.integers(1, 4096))
def test_fewer_elements_never_make_a_barrier_dearer(p: int, elements: int) -> None:
    machine = Machine(p=p, L=1000.0, slowdown=1.5)
    seen = machine.using(min(elements, p))
    assert seen.L <= machine.L
    assert 1.0 <= seen.slowdown <= 1.5
    assert machine.using(p) == machine


def test_elements_packed_into_one_node_meet_without_the_network() -> None:
    levels = Level("inside", 1, 1, 1), Level("node", 1, 1, 100.0), Level("network", 1, 1, 1000.0, ports=8)
    machine = Machine(p=64, levels=levels)
    assert [level.L for level in machine.using(8).levels] == [1, 100.0, 0.0]
    assert [level.L for level in machine.using(16).levels] == [1, 100.0, pytest.approx(1000 / 3)]


@pytest.mark.parametrize(
    ("name", "g", "L"),
    [("ring", 64, 64), ("2d-array", 8, 8), ("butterfly", 6, 6), ("hypercube", 1, 6), ("complete", 1, 1)],
)
def test_table_1_1_of_mccoll(name: str, g: float, L: float) -> None:
    base = Machine(g=2.0, L=10.0)
    found = on_network(name, 64, base)
    assert (found.p, found.g, found.L) == (64, 2.0 * g, 10.0 * L)
    assert set(NETWORKS) == {"ring", "2d-array", "butterfly", "hypercube", "complete"}


def test_classical_cost_and_the_advice_of_mccoll_1_7_3() -> None:
    cost = Cost(1e6, 1000, 10, machine=Machine(g=100.0, L=2e5))
    assert cost.price() == 1e6 + 1e5 + 2e6
    assert cost.classical() == "W + g·H + L·S = 1e+06 + 100·1e+03 + 2e+05·10 = 3.1e+06 flop-times"
    assert cost._replace(messages=7).classical() == cost.classical()
    words, steps = cost.balance()
    assert words.startswith("g = 100 < 1e+03 = W/H: balanced")
    assert steps.startswith("L = 2e+05 >= 1e+05 = W/S: synchronisation costs more than computing")
    assert words.endswith("communication takes 10% of the time of computing")
    few, _ = Cost(1e9, 1000, 10, machine=Machine(g=4.0, L=2e5)).balance()
    assert few == "g = 4 < 1e+06 = W/H: communication is negligible, less than 1% of the time of computing"
    idle, _ = Cost(0.0, 1000, 10, machine=Machine(g=4.0, L=2e5)).balance()
    assert idle.startswith("g = 4 >= 0 = W/H: communication costs more than computing")
    assert Cost(1.0, 0, 0, machine=Machine(g=1.0, L=1.0)).balance() == [
        "g: no words, any g will do",
        "L: no supersteps, any L will do",
    ]


@given(st.lists(st.tuples(st.floats(0, 9), st.floats(0, 9), st.floats(0, 9)), min_size=1, max_size=9))
def test_removing_barriers_or_imbalance_never_costs(loads: list[tuple[float, float, float]]) -> None:
    w = [(max(each), sum(each) / 3) for each in loads]
    h = [(max(each), sum(each) / 3) for each in loads]
    own = [sum(each[k] for each in loads) * (1 + 2.0) for k in range(3)]
    four = costings(w, h, own, g=2.0, L=0.5)
    assert four["max_supersteps"] + 1e-9 >= four["max_async"] >= four["min_async"] - 1e-9
    assert four["max_supersteps"] + 1e-9 >= four["volume"] >= four["min_async"] - 1e-9


@pytest.mark.parametrize("p", [2, 3, 8, 64, 1000])
def test_collectives_on_the_classical_machine_cost_what_mccoll_1_6_1_says(p: int) -> None:
    g, L, o, n = 3.0, 1e4, 100.0, 720
    machine = Machine(p=p, g=g, L=L, o=o)
    found = COLLECTIVES["broadcast"].prices(machine, p, n, True)
    assert found["one-phase"] == pytest.approx((p - 1) * (g * n + o) + L)
    assert found["two-phase"] == pytest.approx(2 * ((p - 1) * (g * n / p + o) + L))
    for arity in (2, 4):
        if levels_of(p, arity) == round(log2(p) / log2(arity), 9):
            stages = levels_of(p, arity)
            assert found[f"tree-{arity}"] == pytest.approx(stages * ((arity - 1) * (g * n + o) + L))
    reduced = COLLECTIVES["reduce"].prices(machine, p, n, True)
    assert reduced["one-phase"] == pytest.approx((p - 1) * (g * n + o) + (p - 1) * n + L)


@pytest.mark.parametrize("collective", COLLECTIVES)
@pytest.mark.parametrize("p", [1, 2, 7, 64, 5000])
def test_every_collective_has_a_finite_price_on_every_machine(collective: str, p: int) -> None:
    deep = Machine(p=16, levels=(Level("inside", 1, 5, 50), Level("between", 2, 10, 500)), rates={"elementwise": 1e9})
    for machine in (Machine(), deep):
        for words in (0, 1, 10**6):
            found = COLLECTIVES[collective].prices(machine, p, words, True)
            assert "one-phase" in found
            assert all(0 < price < float("inf") for price in found.values())
