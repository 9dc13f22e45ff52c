"""The ledger: which injected fault an event shows, how long after its detection it is mended, what was lost."""

from __future__ import annotations

from typing import Any

import pytest

from bsp.faults.events.ledger import Ledger
from bsp.faults.events.log import KINDS

PAIRS = [{"0": "live", "2": "live"}, {"1": "live", "3": "live"}]


class Told:
    """A ledger, and its clock: a second passes before each event."""

    def __init__(self, hosts: list[dict[str, str]] = PAIRS) -> None:
        self.ledger = Ledger()
        self.time = 0.0
        assert self("view", view=1, hosts=hosts, standbys=[4]) == {}

    def __call__(self, kind: str, **fields: Any) -> dict[str, Any]:
        known = KINDS[kind]
        assert {*known.fields} <= fields.keys() <= {*known.fields, *known.may}
        self.time += 1.0
        added = self.ledger.complete({"time": self.time, "kind": kind, **fields})
        assert added.keys() <= {*known.adds}
        return added

    def injected(self, fault: str, element: int | None, superstep: int = 5) -> None:
        assert self("injected", fault=fault, element=element, superstep=superstep) == {}

    def relaunched(self, bundle: int, element: int) -> dict[str, Any]:
        return self("relaunched", bundle=bundle, element=element, superstep=5, reason="was killed", attempt=1)

    def caught_up(self, bundle: int, element: int, rounds: int = 2) -> dict[str, Any]:
        return self("caught_up", bundle=bundle, element=element, superstep=6, rounds=rounds, bytes=10)

    def restored(self, bundle: int, element: int) -> dict[str, Any]:
        return self("restored", bundle=bundle, element=element, superstep=6, rounds=1, bytes=10)

    def ended(self) -> int:
        return int(self("ended", status=0, seconds=9.0, bytes=100)["rounds_lost"])


def test_an_element_is_suspected_fenced_dead_and_replaced_because_of_one_injected_fault() -> None:
    told, fault = Told(), {"injected": "stop:element=2,superstep=5"}
    told.injected("stop:element=2,superstep=5", 2)
    assert told("suspected", element=2, silent=1.0) == fault
    assert told("fenced", element=2, reason="silent for 1 s") == fault
    assert told("died", element=2, reason="was fenced") == fault
    assert told("promoted", element=4, instead_of=2, bundles=[0]) == {}
    told("view", view=2, hosts=[{"0": "live", "4": "joining"}, PAIRS[1]], standbys=[])
    assert told.restored(0, 4) == {"seconds": 5.0, **fault}  # since it was suspected
    assert told("died", element=3, reason="was killed") == {}  # of its own
    assert told.ended() == 0


@pytest.mark.parametrize("fault", ["kill:worker=1,superstep=5", "raise:worker=1,superstep=5"])
def test_a_worker_is_started_again_because_of_the_fault_that_was_injected_into_it(fault: str) -> None:
    told = Told()
    told.injected(fault, 1)
    assert told.relaunched(0, 0) == {}  # another one
    assert told.relaunched(1, 1) == {"injected": fault}
    assert told.caught_up(1, 1) == {"seconds": 1.0, "rounds_lost": 0, "injected": fault}
    assert told.relaunched(1, 1) == {}  # that fault has been seen


def test_a_fault_of_another_element_or_of_the_transport_is_not_blamed() -> None:
    told = Told()
    told.injected("drop:rate=0.1,seed=1", None)
    told.injected("kill:element=1,superstep=5", 1)
    assert told("died", element=3, reason="was killed") == {}
    assert told("died", element=1, reason="was killed") == {"injected": "kill:element=1,superstep=5"}


def test_a_slow_element_is_seen_by_its_tails_again_and_again_while_it_lasts() -> None:
    told, fault = Told(), "slow:element=2,factor=10,until=7"
    told.injected(fault, 2)
    for superstep in (5, 7):
        assert told("tail", bundle=0, element=2, superstep=superstep, seconds=1.0) == {"injected": fault}
        jumped = told("jumped", bundle=0, element=2, superstep=superstep, rounds=3, bytes=10)
        assert jumped == {"seconds": 1.0, "injected": fault}
    assert told("tail", bundle=0, element=2, superstep=8, seconds=1.0) == {}
    assert told("tail", bundle=0, element=0, superstep=7, seconds=1.0) == {}


def test_a_flipped_bit_is_seen_by_the_vote_and_mended_by_the_clone_made_anew() -> None:
    told, fault = Told([{"0": "live", "1": "live", "2": "live"}]), {"injected": "flip:process=0,superstep=5"}
    told.injected("flip:process=0,superstep=5", 1)
    assert told("outvoted", bundle=0, element=1, superstep=5) == fault
    assert told("remade", bundle=0, element=1, reason="outvoted") == fault
    assert told.restored(0, 1) == {"seconds": 2.0, **fault}
    told.injected("flip:process=0,superstep=9", 2)
    assert told("diverged", bundle=0, superstep=9, elements=[0, 2]) == {"injected": "flip:process=0,superstep=9"}


def test_rounds_are_lost_when_all_clones_of_a_bundle_replay_at_once_and_counted_once() -> None:
    told = Told()
    told.relaunched(0, 0)
    told.relaunched(1, 3)  # of another bundle
    assert told.caught_up(1, 3)["rounds_lost"] == 0
    told.relaunched(0, 2)
    assert told.caught_up(0, 2, rounds=3)["rounds_lost"] == 3
    assert told.caught_up(0, 0, rounds=4)["rounds_lost"] == 0  # its sibling had them
    told.relaunched(0, 0)
    assert told.caught_up(0, 0)["rounds_lost"] == 0
    assert told.ended() == 3


def test_rounds_are_lost_when_the_only_current_clone_dies_while_its_sibling_replays() -> None:
    told = Told()
    told.relaunched(0, 0)
    told("died", element=2, reason="was killed")
    told("view", view=2, hosts=[{"0": "live", "4": "joining"}, PAIRS[1]], standbys=[])
    assert told.caught_up(0, 0)["rounds_lost"] == 2
    assert told.ended() == 2


def test_the_only_clone_loses_what_its_worker_goes_through_again() -> None:
    told = Told([{"0": "live"}, {"1": "live"}])
    told.relaunched(0, 0)
    assert told.caught_up(0, 0, rounds=1)["rounds_lost"] == 1


def test_a_loss_costs_the_rounds_since_the_checkpoint_and_its_faults_are_over() -> None:
    told = Told()
    told.injected("kill:element=3,superstep=50", 3)
    told("died", element=1, reason="was killed")
    told("degraded", bundle=1, clones=1, goal=2, passive=0)
    assert told("died", element=3, reason="was killed") == {"injected": "kill:element=3,superstep=50"}
    told("lost", bundle=1, superstep=50, reason="no other has its state")
    resumed = told("resumed", name="checkpoint-000040", superstep=40, rounds_lost=7)
    assert resumed == {"seconds": 2.0, "injected": "kill:element=3,superstep=50"}  # since the last one died
    again = {"nprocs": 2, "bundles": 2, "elements": 4, "clones": 2, "standbys": 0, "incarnation": 1, "agents": {}}
    again |= {"hosts": ["localhost"] * 4, "seconds": 9.0}
    assert told("started", **again) == {"seconds": 3.0, "injected": "kill:element=3,superstep=50"}
    assert told("started", **again) == {}
    assert told.relaunched(1, 3) == {}
    assert told.ended() == 7
