"""A bsprun that takes the place of another, as faults/bsprun/attach.py and incarnation.py do it (N16)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from bsp.faults.protocol.arbiter import Arbiter
from bsp.faults.protocol.messages import Lost, Order, Orders
from bsp.faults.simulate.elements import DriftingClock
from bsp.faults.simulate.network import OUTSIDE

if TYPE_CHECKING:
    from bsp.faults.simulate.simulation import Simulation

_TURN = 0.02  # seconds between two ticks of a bsprun that is superseded


def take_over(run: Simulation) -> None:
    """Have another bsprun take the place of one that is gone, or is not heard any more."""
    run.deaf, run.reign, run.clock, run.seat = False, run.reign + 1, run.new_clock(), OUTSIDE
    if run.keepers is None:
        there = [element for element, node in enumerate(run.nodes) if node.alive]
        present: dict[int, str | None] = dict.fromkeys(there)
    else:
        there = run.keepers.take_over()
        present = {element: run.keepers.domain(run.nodes[element].host) for element in there}
    for element in there:
        run.nodes[element].reign = run.reign
    found = {element: run.nodes[element].member.estate() for element in there}
    known = [orders for orders, _ in found.values() if orders is not None]
    run.note("taken over", {"reign": run.reign, "there": there})
    run.arbiter = run.new_arbiter()
    if not known or any(orders.end for orders in known):
        run.outcome = Lost(0, 0, "it ended before another bsprun could take it over")
        run.fence_rest()
        return
    newest = max(known, key=lambda orders: orders.number)
    members = newest.view.elements()  # others were given up, and what they know may have been replaced
    values = [each for element, (_, some) in found.items() if element in members for each in some]
    allowance = max(orders.allowance for orders in known)
    _go_on_from(run, replace(newest, printed=len(run.printed), allowance=allowance), values, present)


def _go_on_from(run: Simulation, newest: Orders, values: Sequence[Any], present: dict[int, str | None]) -> None:
    """Let a new arbiter go on from what elements know; let others be started in place of those that are gone."""
    arbiter = run.arbiter
    arbiter.take_over(run.seconds(), run.reign, newest, values, present)
    for element in sorted(arbiter.view.elements() - present.keys()):
        run.bury(element, "was gone when another bsprun came", certain=run.keepers is None)
    for element in sorted(present.keys() - arbiter.view.elements()):
        run.welcome(element, present[element])
    if run.keepers is not None:
        run.keepers.missing(arbiter.vacancies())
    elif run.schedule.anew:
        for _ in range(arbiter.vacancies()):
            run.join_soon()


def overthrow(run: Simulation, seconds: float) -> None:
    """Let another bsprun take over, while the former goes on for some seconds, heard by nobody who follows."""
    former, reign, clock = run.arbiter, run.reign, run.clock
    take_over(run)
    _haunt(run, former, reign, clock, run.now + seconds)


def _haunt(run: Simulation, former: Arbiter, reign: int, clock: DriftingClock, until: float) -> None:
    """Let a bsprun that is superseded send its orders; it prints nothing, and its keepers do not obey it."""
    for effect in former.tick(clock.read(run.now)):
        if isinstance(effect, Order):
            run.send_orders(effect, reign)
    if run.now < until and run.outcome is None:
        run.at(run.now + _TURN, _haunt, run, former, reign, clock, until)
