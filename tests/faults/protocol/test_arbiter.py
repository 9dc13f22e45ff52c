"""bsprun's side by hand: reports, deaths and time in, effects out (N2, N5, N8, N9, N11-N13, DESIGN section 7)."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from bsp.faults.protocol.arbiter import Arbiter
from bsp.faults.protocol.lease import APART
from bsp.faults.protocol.messages import (
    AgentReport,
    ClonePlace,
    Commit,
    Corrupt,
    Dismiss,
    Divergence,
    Fence,
    Finished,
    Hold,
    Limits,
    Lost,
    Note,
    Once,
    Order,
    Orders,
    Print,
    Progress,
    Reply,
    Role,
    Token,
)

LIMITS = Limits(hang_limit=2.0, linger=0.5)
PAIRS = ((0,), (1,), (0,), (1,))  # the rows of elements 0 to 3: two bundles twice
TRIPLES = (*PAIRS, (0,), (1,))
VERTICAL = ((0, 1), (1, 0))  # two bundles, once each, and the other one as a passive clone
T = TypeVar("T")


def given(effects: Iterable[Any], kind: type[T]) -> list[T]:
    """The effects of one kind."""
    return [effect for effect in effects if isinstance(effect, kind)]


def notes(effects: Iterable[Any], kind: str) -> list[dict[str, Any]]:
    """The fields of notes of one kind."""
    return [note.fields for note in given(effects, Note) if note.kind == kind]


def noted(effects: Iterable[Any], kind: str, **fields: Any) -> bool:
    """Whether there is one note of this kind, and it says this, among other things."""
    found = notes(effects, kind)
    return len(found) == 1 and fields.items() <= found[0].items()


class Court:
    """An arbiter, its clock, and elements that report."""

    def __init__(self, rows: tuple[tuple[int, ...], ...] = PAIRS, standbys: int = 2, limits: Limits = LIMITS) -> None:
        self.arbiter = Arbiter(rows, standbys, limits)
        self.now = 0.0
        for element in range(len(rows) + standbys):
            self.arbiter.appeared(0.0, element)
        self.arbiter.tick(0.0)
        self.elements = list(range(len(rows) + standbys))
        self.said: dict[tuple[int, int], dict[str, Any]] = {}
        self.kept: dict[int, list[Token]] = {}
        self.number = 0  # of reports

    @property
    def orders(self) -> Orders:
        return self.arbiter.orders

    def hosts(self, bundle: int) -> list[tuple[int, Role]]:
        return [(host.element, host.role) for host in self.arbiter.view.hosts[bundle]]

    def host(self, bundle: int, element: int) -> ClonePlace:
        return next(host for host in self.arbiter.view.hosts[bundle] if host.element == element)

    def say(self, element: int, bundle: int | None = None, **fields: Any) -> list[Any]:
        """A report: what the element has said of this clone so far, and this."""
        if bundle is not None:
            self.said.setdefault((bundle, element), {}).update(fields)
        return self.report(element)

    def report(
        self, element: int, divergences: tuple[Divergence, ...] = (), overdue: tuple[tuple[int, int], ...] = (),
        paused: float = 0.0,
    ) -> list[Any]:  # fmt: skip
        """What the element has said of its clones, as `Progress`."""
        clones = []
        for bundle, some in enumerate(self.arbiter.view.hosts):
            for host in some:
                if host.element == element:
                    plain = {"joined": host.role is not Role.JOINING, "since": host.since}
                    clones.append(progress(bundle, **{**plain, **self.said.get((bundle, element), {})}))
        report = AgentReport(
            element, self.arbiter.view.number, tuple(clones), divergences, overdue, self.number, paused=paused,
            kept=tuple(self.kept.get(element, ())),
        )  # fmt: skip
        return self.arbiter.report(self.now, report)

    def keep(self, replies: Iterable[Reply]) -> list[Any]:
        """The elements that are asked to keep values say that they do."""
        effects: list[Any] = []
        for reply in replies:
            if reply.once.keep:
                self.kept.setdefault(reply.element, []).append(reply.once.token)
                effects += self.report(reply.element)
        return effects

    def died(self, element: int) -> list[Any]:
        self.elements.remove(element)
        return self.arbiter.died(self.now, element, "was killed by signal 9")

    def later(self, seconds: float, *speaking: int, step: float = 0.1) -> list[Any]:
        """Ticks until then; these elements give signs of life."""
        effects: list[Any] = []
        until = self.now + seconds
        while self.now < until - 1e-9:
            self.now += step
            for element in speaking:
                effects += self.report(element)
            effects += self.arbiter.tick(self.now)
        return effects


def progress(bundle: int, **fields: Any) -> Progress:
    plain: dict[str, Any] = {
        "since": 1, "joined": True, "exchange": 0, "superstep": 0, "head": -1, "held": None, "raised": None,
        "ended": None, "failing": None, "stale": False, "said": 0, "once": None, "tails": 0, "pins": (), "parts": (),
    }  # fmt: skip
    plain["holds"] = fields.get("joined", True)
    return Progress(bundle, **{**plain, **fields})


# -------------------------------------------------------------------------------------- views


def test_the_first_view_is_the_placement_first_rows_live_others_passive() -> None:
    """Views: the first row covers all bundles and computes."""
    court = Court(VERTICAL, standbys=1)
    assert court.arbiter.view.number == 1
    assert court.hosts(0) == [(0, Role.LIVE), (1, Role.PASSIVE)]
    assert court.hosts(1) == [(0, Role.PASSIVE), (1, Role.LIVE)]
    assert court.arbiter.view.standbys == (2,)


def test_views_are_numbered_one_by_one() -> None:
    """N14: what bsprun says is its state; the larger number is the later one."""
    court = Court()
    numbers = [court.arbiter.view.number]
    for element in (0, 5, 1):
        orders = given(court.died(element), Order)
        assert orders[-1].orders.view is court.arbiter.view
        numbers.append(court.arbiter.view.number)
    assert numbers == [1, 2, 3, 4]


def test_a_standby_takes_the_places_of_a_dead_element_and_joins() -> None:
    """A loss costs a standby: it is named by a view and is given the state by a sibling."""
    court = Court()
    effects = court.died(2)
    assert court.hosts(0) == [(0, Role.LIVE), (4, Role.JOINING)]
    assert court.host(0, 4).since == court.arbiter.view.number == 2
    assert court.arbiter.view.standbys == (5,)
    assert noted(effects, "promoted", element=4, instead_of=2, bundles=[0])


def test_a_standby_takes_all_places_of_a_dead_element() -> None:
    """Vertical clones too, in the same roles once it has their states."""
    court = Court(VERTICAL, standbys=1)
    court.died(0)
    assert court.hosts(0) == [(1, Role.LIVE), (2, Role.JOINING)]
    assert court.hosts(1) == [(1, Role.LIVE), (2, Role.JOINING)]
    court.say(2, 0, joined=True)
    court.say(2, 1, joined=True)
    assert court.hosts(0) == [(1, Role.LIVE), (2, Role.LIVE)]
    assert court.hosts(1) == [(1, Role.LIVE), (2, Role.PASSIVE)]


def test_a_newcomer_is_live_when_it_says_that_it_has_gone_on_from_the_state() -> None:
    """N4: only a view makes the newcomer live, and lets the donor's mark go."""
    court = Court()
    court.died(2)
    court.say(4, 0, joined=False)
    assert court.hosts(0) == [(0, Role.LIVE), (4, Role.JOINING)]
    effects = court.say(4, 0, joined=True, superstep=7, given=1000, again=2)
    assert court.hosts(0) == [(0, Role.LIVE), (4, Role.LIVE)]
    assert court.host(0, 4).since == 2  # the same clone
    assert given(effects, Order)
    assert noted(effects, "restored", bundle=0, element=4, superstep=7, bytes=1000, rounds=2)
    hosts = [{0: "live", 4: "live"}, {1: "live", 3: "live"}]
    assert noted(effects, "view", view=3, hosts=hosts, standbys=(5,))


def test_what_a_clone_of_an_earlier_view_says_is_not_believed() -> None:
    """N7 for control: progress names the assignment."""
    court = Court()
    court.died(2)
    court.say(4, 0, joined=True, since=1)
    assert court.hosts(0) == [(0, Role.LIVE), (4, Role.JOINING)]


def test_without_standbys_the_job_goes_on_degraded() -> None:
    """A bundle has fewer clones than asked for."""
    court = Court(standbys=0)
    effects = court.died(1)
    assert noted(effects, "degraded", bundle=1, clones=1, goal=2)
    assert not given(effects, Lost)


def test_a_new_element_takes_the_place_of_a_lost_one_or_stands_by() -> None:
    """Of several, the place that fell vacant first; its number is one that nobody has had."""
    court = Court(standbys=0)
    court.died(1)
    court.died(2)
    effects = court.arbiter.add(court.now, 4)
    assert noted(effects, "promoted", element=4, instead_of=1, bundles=[1])
    assert court.hosts(1) == [(3, Role.LIVE), (4, Role.JOINING)]
    assert noted(court.arbiter.add(court.now, 5), "promoted", element=5, instead_of=2, bundles=[0])
    assert not notes(court.arbiter.add(court.now, 6), "promoted")
    assert court.arbiter.view.standbys == (6,)
    court.died(0)
    assert court.hosts(0) == [(5, Role.JOINING), (6, Role.JOINING)] or court.arbiter.over


def test_a_new_element_takes_the_place_whose_other_clones_are_on_other_hosts() -> None:
    """Bundle 0 on h1 and h2, bundle 1 on h3 and h4; h2 and h3 are lost, and one comes on h1."""
    arbiter = Arbiter(((0,), (1,), (0,), (1,)), 0, Limits(), ["h1", "h3", "h2", "h4"])
    arbiter.tick(0.0)
    for lost in (2, 1):
        arbiter.died(0.0, lost, "was lost with its host")
    assert arbiter.domains_of_vacancies() == {"h1", "h4"}
    assert noted(arbiter.add(0.0, 4, "h1"), "promoted", element=4, instead_of=1, bundles=[1])
    assert noted(arbiter.add(0.0, 5, "h4"), "promoted", element=5, instead_of=2, bundles=[0])
    assert arbiter.domains_of_vacancies() == set()


def test_the_standby_of_another_domain_is_promoted() -> None:
    """Bundle 0 on h1 and h2; h2's is lost, and of two standbys the first is on h1."""
    arbiter = Arbiter(((0,), (0,)), 2, Limits(), ["h1", "h2", "h1", "h3"])
    arbiter.tick(0.0)
    assert noted(arbiter.died(0.0, 1, "was killed"), "promoted", element=3, instead_of=1, bundles=[0])


def test_passive_clones_are_told_apart_from_those_of_the_first_row() -> None:
    """Vertical: who lacks only a passive one is not degraded; a bundle that lives on one is."""
    court = Court(VERTICAL, standbys=0)
    effects = court.died(0)  # bundle 0's only first-row clone, and bundle 1's passive one
    assert noted(effects, "degraded", bundle=0, clones=0, goal=1, passive=1)
    court = Court(((0, 1), (1, 0), (0, 1), (1, 0)), standbys=0)
    assert noted(court.died(0), "degraded", bundle=0, clones=1, goal=2, passive=2)
    court = Court(((0, 1), (1, 0), (0, 1), (1, 0)), standbys=1)
    assert not notes(court.died(0), "degraded")


def test_who_is_to_leave_keeps_its_clone_until_a_standby_has_joined_in_its_place() -> None:
    """N15: the newcomer's join, not its start, lets it go; its end then costs nothing."""
    court = Court()
    effects = court.arbiter.drain(court.now, 0, "bsp drain")
    assert noted(effects, "promoted", element=4, instead_of=0, bundles=[0])
    assert court.hosts(0) == [(0, Role.LIVE), (2, Role.LIVE), (4, Role.JOINING)]
    assert court.arbiter.drain(court.now, 0, "again") == []
    effects = court.say(4, 0, joined=True, holds=True)
    assert given(effects, Dismiss) == [Dismiss(0)] and noted(effects, "left", element=0)
    assert court.hosts(0) == [(2, Role.LIVE), (4, Role.LIVE)]
    assert court.died(0) == [] and court.hosts(0) == [(2, Role.LIVE), (4, Role.LIVE)]
    assert court.arbiter.view.standbys == (5,)


def test_who_is_to_leave_waits_for_a_new_element_where_nobody_stands_by() -> None:
    """N15, with one clone: nothing is lost."""
    court = Court(((0,), (1,)), standbys=0)
    assert not notes(court.arbiter.drain(court.now, 1, "SIGTERM"), "promoted")
    assert court.hosts(1) == [(1, Role.LIVE)] and court.arbiter.leaving == {1: "SIGTERM"}
    court.elements.append(2)
    assert noted(court.arbiter.add(court.now, 2), "promoted", element=2, instead_of=1, bundles=[1])
    assert given(court.say(2, 1, joined=True, holds=True), Dismiss) == [Dismiss(1)]
    assert court.hosts(1) == [(2, Role.LIVE)] and not court.arbiter.over


def test_a_standby_leaves_at_once() -> None:
    court = Court()
    assert given(court.arbiter.drain(court.now, 4, "bsp drain"), Dismiss) == [Dismiss(4)]
    assert court.arbiter.view.standbys == (5,)


def test_who_dies_while_it_is_to_leave_is_replaced_by_the_newcomer_that_joins_already() -> None:
    court = Court()
    court.arbiter.drain(court.now, 0, "bsp drain")
    effects = court.died(0)
    assert not notes(effects, "promoted") and not notes(effects, "degraded")
    assert court.hosts(0) == [(2, Role.LIVE), (4, Role.JOINING)] and court.arbiter.view.standbys == (5,)
    assert not given(court.say(4, 0, joined=True, holds=True), Dismiss)


def test_a_newcomer_that_dies_leaves_the_place_to_the_next_and_the_leaving_one_goes_on() -> None:
    court = Court()
    court.arbiter.drain(court.now, 0, "bsp drain")
    assert noted(court.died(4), "promoted", element=5, instead_of=0, bundles=[0])
    assert court.hosts(0) == [(0, Role.LIVE), (2, Role.LIVE), (5, Role.JOINING)]
    court.died(5)
    assert court.hosts(0) == [(0, Role.LIVE), (2, Role.LIVE)]
    assert noted(court.arbiter.add(court.now, 6), "promoted", element=6, instead_of=0, bundles=[0])
    assert given(court.say(6, 0, joined=True, holds=True), Dismiss) == [Dismiss(0)]


def test_what_one_that_has_left_was_permitted_passes_on_when_its_end_is_certain() -> None:
    """N9 and N15: it may be in the midst of a call when it is let go."""
    court = Court()
    token: Token = ("once", 0, 3, 0)
    assert court.say(0, 0, once=(token, 1, None))
    court.arbiter.drain(court.now, 0, "bsp drain")
    court.say(4, 0, joined=True, holds=True)
    assert not given(court.say(2, 0, once=(token, 1, None)), Reply)
    court.later(LIMITS.hang_limit / 2, 1, 2, 3, 4, 5)
    assert not given(court.report(2), Reply)
    court.arbiter.died(court.now, 0, "was killed")
    assert given(court.report(2), Reply) == [Reply(2, Once(0, token, None))]


def test_a_dead_standby_is_not_promoted() -> None:
    """The pool is what lives."""
    court = Court()
    court.died(4)
    court.died(0)
    assert court.hosts(0) == [(2, Role.LIVE), (5, Role.JOINING)]


def test_a_standby_that_is_being_fenced_is_not_promoted() -> None:
    """N5: a place is given to who is heard; its death is only not confirmed yet."""
    court = Court()
    assert given(court.later(2.3, 0, 1, 2, 3, 5), Fence) == [Fence(4, "silent for 2 s")]
    court.died(0)
    assert court.hosts(0) == [(2, Role.LIVE), (5, Role.JOINING)]
    assert court.arbiter.view.standbys == (4,)


def test_a_death_said_twice_costs_one_standby() -> None:
    """N14: repeated news is no news."""
    court = Court()
    court.died(0)
    assert court.arbiter.died(court.now, 0, "again") == []
    assert court.arbiter.view.standbys == (5,)


def test_the_loss_of_all_clones_of_a_bundle_is_told_with_its_name_and_superstep() -> None:
    """BundleLost names the bundle and how far it came."""
    court = Court(standbys=2)
    court.say(1, 1, superstep=12)
    court.died(3)
    court.say(0, 0, superstep=30)
    court.say(4, 1, joined=False, superstep=0)
    (lost,) = given(court.died(1), Lost)
    assert (lost.bundle, lost.why) == (1, "element 1 was killed by signal 9, and no other has its state")
    assert court.arbiter.over


def test_the_superstep_of_a_loss_is_the_furthest_that_a_clone_has_reported() -> None:
    """BundleLost: what a user looks for first."""
    court = Court(standbys=0)
    court.say(2, 0, superstep=11)
    court.died(0)
    court.say(2, 0, superstep=12)
    effects = court.later(3.0, 1, 3)
    assert [(lost.bundle, lost.superstep) for lost in given(effects, Lost)] == [(0, 12)]


def test_the_heir_of_a_bundle_without_live_clones_is_a_passive_one() -> None:
    """Vertical: the host of the second instance has the last head's state."""
    court = Court(VERTICAL, standbys=0)
    assert not given(court.died(0), Lost)
    assert court.hosts(0) == [(1, Role.LIVE)]


def test_a_newcomer_that_has_the_state_is_an_heir_one_that_waits_for_it_is_not() -> None:
    """N5: what counts is complete state, whether or not it has gone on from that yet."""
    for holds in (True, False):
        court = Court(standbys=1)
        court.died(2)
        said = progress(0, since=2, joined=False, holds=holds)
        court.arbiter.reports[4] = AgentReport(4, 2, (said,))
        assert bool(given(court.died(0), Lost)) is not holds
        if holds:
            assert court.hosts(0) == [(4, Role.LIVE)]


# ----------------------------------------------------------------------------- N2, N5: only silence


def test_a_silent_element_is_fenced_after_the_hang_limit_not_before() -> None:
    """N2: a hang is no sign of life from an agent; only hangs are fenced."""
    court = Court()
    others = [0, 1, 3, 4, 5]
    assert not given(court.later(1.9, *others), Fence)
    effects = court.later(0.4, *others)
    assert given(effects, Fence) == [Fence(2, "silent for 2 s")]
    assert [note["element"] for note in notes(effects, "suspected")] == [2]
    assert court.hosts(0) == [(0, Role.LIVE), (2, Role.LIVE)]  # it leaves the view when it is dead for certain


def test_a_late_element_is_not_fenced() -> None:
    """N2: late = fence killed 157 innocents in 80 runs."""
    court = Court()
    for element in (0, 1, 3):
        court.say(element, element % 2, superstep=1000, exchange=1000)
    court.say(2, 0, superstep=0, tails=50)
    assert not given(court.later(20.0, 0, 1, 2, 3, 4, 5), Fence)


def test_the_last_holder_of_a_state_is_not_fenced_while_another_is_only_joining() -> None:
    """N5: a fence would lose what a pause would not."""
    court = Court(standbys=1)
    court.died(2)
    effects = court.later(3.0, 1, 3, 4)
    assert not given(effects, Fence)
    assert [(lost.bundle, lost.why) for lost in given(effects, Lost)] == [
        (0, "every element with its state has been silent for 2 s")
    ]


def test_of_two_silent_holders_one_that_comes_back_is_spared() -> None:
    """N5: the first that is silent is fenced while the other is heard, and the other is then the last."""
    court = Court(standbys=0)
    court.later(1.5, 1, 2, 3)
    effects = court.later(1.0, 1, 3)
    assert given(effects, Fence) == [Fence(0, "silent for 2 s")]
    court.died(0)
    assert not given(court.later(0.5, 1, 3), Fence)
    assert not given(court.later(20.0, 1, 2, 3), Fence)


def test_after_a_stop_of_bsprun_itself_nobody_is_fenced_at_once() -> None:
    """N3: what the elements said is still in its sockets."""
    court = Court()
    court.later(1.0, *range(6))
    court.now += 60.0
    assert not given(court.arbiter.tick(court.now), Fence)
    assert not given(court.later(5.8, 1, 2, 3, 4, 5), Fence)  # 2 s, and twice as much again: it may happen again
    assert given(court.later(0.4, 1, 2, 3, 4, 5), Fence) == [Fence(0, "silent for 6 s")]


def test_who_stands_still_himself_calls_nobody_silent_as_soon_until_he_has_not_for_a_while() -> None:
    """N3: with looks 0.7 s late, a silence of twice as much beyond the limit may be nobody's fault."""
    court = Court()
    court.later(4.0, *range(6), step=0.8)
    assert not given(court.later(3.1, 1, 2, 3, 4, 5), Fence)
    assert given(court.later(0.4, 1, 2, 3, 4, 5), Fence) == [Fence(0, "silent for 3.4 s")]
    assert not given(court.later(31.0, 1, 2, 3, 4, 5), Fence)
    assert not given(court.later(1.9, 2, 3, 4, 5), Fence)
    assert given(court.later(0.4, 2, 3, 4, 5), Fence) == [Fence(1, "silent for 2 s")]


def test_what_elements_say_of_their_pauses_counts_for_all() -> None:
    """N3: whoever shares their machine may be late as well; and everybody is told."""
    court = Court()
    court.later(1.0, *range(6))
    court.report(3, paused=0.5)
    assert not given(court.later(2.9, 1, 2, 4, 5), Fence)
    assert {fence.element for fence in given(court.later(0.4, 1, 2, 4, 5), Fence)} == {0, 3}
    assert court.orders.allowance == 1.0
    court.died(3)
    court.later(0.1, 1, 2, 4, 5)
    assert court.orders.allowance == 0.0


def test_elements_that_had_to_wait_for_the_last_to_appear_have_not_been_silent() -> None:
    """N3: all begin when the last is there, at which moment what they have said meanwhile may not be read."""
    arbiter = Arbiter(PAIRS, 0, LIMITS)
    for element in range(4):
        arbiter.appeared(20.0 * element, element)
    assert not given(arbiter.tick(60.0), Fence) + given(arbiter.tick(60.9), Fence)
    assert not given(arbiter.tick(61.8), Fence) + given(arbiter.tick(61.8), Lost)
    for now in (62.7, 63.6):  # looks that are 0.8 s late: 1.6 s more
        assert not given(arbiter.tick(now), Lost)
    assert given(arbiter.tick(63.7), Lost)


def test_an_element_that_never_appeared_is_not_silent() -> None:
    """The launcher waits for those."""
    arbiter = Arbiter(PAIRS, 0, LIMITS)
    for element in (0, 1, 2):
        arbiter.appeared(0.0, element)
    effects: list[Any] = []
    for k in range(100):
        for element in (0, 1, 2):
            effects += arbiter.report(k / 10, AgentReport(element, 1, (progress(element % 2),)))
        effects += arbiter.tick(k / 10)
    assert not given(effects, Fence) + given(effects, Lost)


def test_an_element_whose_worker_fails_again_and_again_is_fenced_unless_it_is_the_last() -> None:
    """N12, N5: another element may do better."""
    court = Court(standbys=0)
    assert given(court.say(0, 0, failing="its worker was killed, 4 times"), Fence) == [
        Fence(0, "its worker was killed, 4 times")
    ]
    assert not given(court.report(0), Fence)  # once
    court.died(0)
    effects = court.say(2, 0, failing="its worker was killed, 4 times", superstep=9)
    assert not given(effects, Fence)
    assert given(effects, Lost) == [Lost(0, 9, "its worker was killed, 4 times")]


@pytest.mark.parametrize("clones", [2, 3])
def test_newcomers_on_which_a_worker_fails_alike_are_not_replaced_for_ever(clones: int) -> None:
    """N12: what ends on as many elements as a bundle has clones is the program's end, also while another holds it."""
    why = "its worker left with status 5, 4 times in superstep 0"
    court = Court(((0,),) * clones + ((1,),) * clones, standbys=clones)
    for element in range(clones - 1):
        assert given(court.say(element, 0, failing=why), Fence) == [Fence(element, why)]
        court.died(element)
        court.say(2 * clones + element, 0, joined=True)
        assert court.host(0, 2 * clones + element).role is Role.LIVE
    effects = court.say(2 * clones, 0, failing=why)
    assert not given(effects, Fence)
    assert given(effects, Lost) == [Lost(0, 0, why)]


def test_failures_of_workers_in_other_supersteps_are_others() -> None:
    """N12, N5: elements are replaced whose workers fail now and then."""
    court = Court(standbys=2)
    for number, element in enumerate((0, 2)):
        why = f"its worker was killed by signal 9, 4 times in superstep {number}"
        assert given(court.say(element, 0, failing=why), Fence) == [Fence(element, why)]
        court.died(element)
        court.say(4 + number, 0, joined=True)


def test_an_element_whose_worker_fails_is_not_fenced_while_it_alone_has_another_bundle() -> None:
    """N5: the clone that fails is made anew there, and what only this element has goes on."""
    court = Court(((0, 1), (1,), (0,)), standbys=0)
    court.died(1)
    effects = court.say(0, 0, failing="its worker was killed, 4 times")
    assert not given(effects, Fence) + given(effects, Lost)
    assert court.host(0, 0).role is Role.JOINING


def test_an_element_that_is_being_fenced_is_no_holder_for_another() -> None:
    """N5: of two whose workers fail, one after the other, the second is the last."""
    court = Court(standbys=0)
    assert given(court.say(0, 0, failing="its worker was killed, 4 times"), Fence)
    effects = court.say(2, 0, failing="its worker was killed, 4 times")
    assert not given(effects, Fence)
    assert given(effects, Lost)


def test_a_clone_that_lacks_what_nobody_keeps_is_given_a_siblings_state() -> None:
    """N6: stale is curable."""
    court = Court()
    effects = court.say(2, 0, failing="exchange 3 of bundle 1 is kept by nobody", stale=True)
    assert not given(effects, Fence)
    assert court.hosts(0) == [(0, Role.LIVE), (2, Role.JOINING)]
    assert court.host(0, 2).since == 2


def test_a_newcomer_that_lacks_what_nobody_keeps_is_begun_again() -> None:
    """N5: the job is not lost while a live clone of the bundle is there."""
    court = Court()
    court.died(2)
    effects = court.say(4, 0, joined=False, failing="exchange 3 of bundle 1 is kept by nobody", stale=True)
    assert not given(effects, Lost)
    assert court.host(0, 4).since == court.arbiter.view.number


def test_one_clones_failure_is_not_taken_for_that_of_another_element_in_another_view() -> None:
    """N5: element 10000 since view 1 is not element 0 since view 2."""
    court = Court(((0,), *(((1,),) * 9999), (0,)), standbys=0)
    court.report(1, overdue=((0, 0),))
    court.say(0, 0, since=2, joined=True)
    for element in (10000, 0):
        assert court.host(0, element).role is Role.LIVE
        court.say(element, 0, failing="exchange 3 of bundle 1 is kept by nobody", stale=True)
        assert court.host(0, element).role is Role.JOINING
        court.said[0, element] = {"joined": True}
        court.report(element)


def test_a_clone_whose_lag_costs_too_much_memory_is_refreshed_not_the_last() -> None:
    """N5, N6: the last holder stays."""
    court = Court(standbys=0)
    court.report(1, overdue=((0, 2),))
    assert court.hosts(0) == [(0, Role.LIVE), (2, Role.JOINING)]
    court.report(1, overdue=((0, 0),))
    assert court.hosts(0) == [(0, Role.LIVE), (2, Role.JOINING)]


# ------------------------------------------------------------------------------------- N8: the end


def test_the_end_comes_when_one_clone_of_each_bundle_has_ended_and_its_siblings_had_their_time() -> None:
    """N8: one clone of every bundle suffices; siblings may compare for `linger` seconds."""
    court = Court()
    assert not given(court.say(0, 0, ended=b"a"), Finished)
    assert not given(court.say(1, 1, ended=b"b"), Finished)
    assert not given(court.later(0.4, *range(6)), Finished)
    assert given(court.later(0.2, *range(6)), Finished)[0] == Finished((b"a", b"b"))


def test_siblings_have_their_time_also_when_bsprun_stood_still_meanwhile() -> None:
    """N8, N3: what they have said may not be read yet."""
    court = Court()
    court.say(0, 0, ended=b"a")
    court.say(1, 1, ended=b"b")
    court.now += 60.0
    assert not given(court.say(0, 0), Finished)
    assert not given(court.later(0.4, *range(6)), Finished)
    assert given(court.later(0.3, *range(6)), Finished)[0] == Finished((b"a", b"b"))


def test_the_end_comes_at_once_when_all_live_clones_have_ended() -> None:
    """N8: nobody is left to compare."""
    court = Court()
    for element in (0, 1, 2):
        assert not given(court.say(element, element % 2, ended=b"r"), Finished)
    assert given(court.say(3, 1, ended=b"r"), Finished) == [Finished((b"r", b"r"))]


def test_a_bundle_that_waits_for_more_than_an_ended_one_has_sent_is_lost() -> None:
    """It would wait for ever: the two have not carried out the same supersteps."""
    court = Court()
    waits = {"exchange": 8, "waits_for": (0,), "superstep": 5}
    for element in (0, 2):
        court.say(element, 0, ended=b"r", exchange=7)
    assert not given(court.say(1, 1, seconds=0.5, **waits), Lost)
    assert not given(court.say(1, 1, seconds=1.5, **waits), Lost)  # its sibling may go on
    (lost,) = given(court.say(3, 1, seconds=1.5, **waits), Lost)
    assert (lost.bundle, lost.superstep) == (1, 5)
    assert "waits for bundle 0, which has ended before: the program is not deterministic" in lost.why


@pytest.mark.parametrize("ended", [{}, {"ended": b"r", "exchange": 8}], ids=["still runs", "has sent all"])
def test_a_bundle_that_waits_for_what_can_come_is_not_lost(ended: dict[str, Any]) -> None:
    court = Court()
    for element in (0, 2):
        court.say(element, 0, **({"exchange": 7} | (ended if element == 0 else {"ended": b"r", "exchange": 7})))
    for element in (1, 3):
        assert not given(court.say(element, 1, seconds=9.0, exchange=8, waits_for=(0,)), Lost)


def test_a_clone_counts_as_ended_when_its_text_is_printed() -> None:
    """N8: ended and its text flushed."""
    court = Court()
    for element in (0, 1, 2, 3):
        assert not given(court.say(element, element % 2, ended=b"r", said=5 if element % 2 == 0 else 0), Finished)
    assert not given(court.later(1.0, *range(6)), Finished)
    assert not given(court.arbiter.text(court.now, 0, 0, b"12345"), Finished)
    assert not given(court.arbiter.printed(court.now, 4), Finished)
    assert given(court.arbiter.printed(court.now, 5), Finished)


def test_nobody_waits_long_for_a_reader_that_stands_still() -> None:
    court = Court()
    for element in (0, 1, 2, 3):
        court.say(element, element % 2, ended=b"r", said=5 if element % 2 == 0 else 0)
    court.arbiter.text(court.now, 0, 0, b"12345")
    assert not given(court.later(4.0, *range(6)), Finished)
    assert given(court.later(2.0, *range(6)), Finished)


def test_the_end_is_said_until_everybody_has_left() -> None:
    """N8, N14: the second step, repeated."""
    court = Court()
    assert given(court.arbiter.end(0.0), Order)[0].orders.end
    assert [order.orders.end for order in given(court.later(1.0), Order)].count(True) >= 9
    assert not given(court.later(30.0), Fence)


def test_a_passive_clone_that_has_ended_is_a_clone_that_has_ended() -> None:
    """N8: one clone of every bundle suffices; its live sibling may be slower by any factor."""
    court = Court(VERTICAL, standbys=0)
    court.say(1, 0, ended=b"a")
    effects = court.say(1, 1, ended=b"b") + court.later(2.0, 0, 1)
    assert given(effects, Finished)


# ------------------------------------------------------------------------------------ N9: effects

TOKEN: Token = ("once", 0, 4, 0)


def asks(court: Court, element: int, life: int = 1, value: bytes | None = None, token: Token = TOKEN) -> list[Any]:
    """Return the replies of bsprun when all keep the values that it asks them to keep."""
    replies = given(court.say(element, 0, once=(token, life, value)), Reply)
    return [reply for reply in replies + given(court.keep(replies), Reply) if not reply.once.keep]


def test_one_clone_is_given_leave_to_call() -> None:
    """N9: its siblings wait, however often they ask."""
    court = Court(TRIPLES)
    assert asks(court, 2) == [Reply(2, Once(0, TOKEN, None))]
    for _ in range(3):
        assert asks(court, 0) == []
        assert asks(court, 4) == []
    assert asks(court, 2) == [Reply(2, Once(0, TOKEN, None))]  # the reply may have been lost


def test_the_value_goes_to_everyone_who_asks() -> None:
    """N9: its value is delivered to all clones, the same."""
    court = Court(TRIPLES)
    asks(court, 2)
    asks(court, 0)
    value = Once(0, TOKEN, b"v")
    assert Reply(2, value) in asks(court, 2, value=b"v")
    for element in (0, 4):
        assert Reply(element, value) in asks(court, element)
    assert {reply.once for reply in asks(court, 0, value=b"other")} == {value}


def test_leave_passes_on_only_after_the_holders_confirmed_death() -> None:
    """N9: a silent holder may still be calling."""
    court = Court()
    asks(court, 0)
    court.later(1.5, 1, 2, 3, 4, 5)
    assert asks(court, 2) == []
    assert given(court.later(1.0, 1, 3, 4, 5), Fence) == [Fence(0, "silent for 2 s")]
    assert asks(court, 2) == []
    court.died(0)
    assert asks(court, 2) == [Reply(2, Once(0, TOKEN, None))]


def test_leave_passes_on_to_a_newer_worker_of_the_same_element_not_to_an_older_one() -> None:
    """N9: the agent knows that its own worker is dead; an old report is no newer worker."""
    court = Court()
    asks(court, 0, life=2)
    assert asks(court, 0, life=1) == []
    assert asks(court, 0, life=3) == [Reply(0, Once(0, TOKEN, None))]
    assert asks(court, 0, life=2) == []


def test_every_call_has_a_holder_of_its_own() -> None:
    """N9: the token is (pid, superstep, sequence)."""
    court = Court()
    assert asks(court, 0)
    assert asks(court, 2, token=("once", 0, 4, 1)) == [Reply(2, Once(0, ("once", 0, 4, 1), None))]


def test_the_time_is_given_without_a_call_and_is_the_same_for_all_clones() -> None:
    """A clock is an effect: read once."""
    court = Court()
    court.now = 12.5
    token = ("time", 0, 4, 0)
    assert Reply(0, Once(0, token, struct.pack("<d", 12.5))) in asks(court, 0, token=token)
    court.now = 99.0
    assert Reply(2, Once(0, token, struct.pack("<d", 12.5))) in asks(court, 2, token=token)


def test_time_never_decreases_from_superstep_to_superstep() -> None:
    """A process that reads its clock late gets no later time than those of later supersteps."""
    court = Court()
    times: dict[int, float] = {}
    for now, superstep in [(1.0, 3), (2.0, 9), (5.0, 6), (7.0, 4), (8.0, 12), (9.0, 8)]:
        court.now = now
        reply = asks(court, 0, token=("time", 1, superstep, 0))[0]
        assert reply.once.value is not None
        times[superstep] = struct.unpack("<d", reply.once.value)[0]
    assert [times[s] for s in sorted(times)] == sorted(times.values())
    assert times == {3: 1.0, 9: 2.0, 6: 2.0, 4: 2.0, 12: 8.0, 8: 2.0}


def test_text_is_printed_once_and_in_order_whoever_says_it() -> None:
    """N9: each range is printed once; overlaps are cut, gaps wait."""
    court = Court()
    text = b"".join(b"%d " % n for n in range(100))
    pieces = [(a, text[a:b]) for a, b in [(0, 5), (0, 5), (3, 9), (20, 30), (9, 12), (9, 11), (12, 25), (0, 40)]]
    printed = b"".join(p.data for piece in pieces for p in given(court.arbiter.text(0.0, 0, *piece), Print))
    assert printed == text[:40]
    assert court.orders.printed == 0
    court.arbiter.printed(0.0, 30)
    court.arbiter.printed(0.0, 20)
    assert court.orders.printed == 30
    assert not court.arbiter.text(0.0, 0, 50, text[50:])
    rest = court.arbiter.text(0.0, 2, 35, text[35:])
    assert given(rest, Print) == [Print(text[40:])]
    assert not given(court.arbiter.text(0.0, 2, 0, text), Print)


def test_an_effect_is_not_made_again_before_a_far_element_that_may_be_at_it_has_ended_itself() -> None:
    """N9: a death that nobody can see for certain is certain when the element has heard nobody for long enough."""
    court = Court()
    assert asks(court, 0)
    court.elements.remove(0)
    court.arbiter.died(court.now, 0, "was silent", confirmed=False)
    assert not asks(court, 2)
    court.now += LIMITS.alone * (1 + APART) - 0.1
    assert not asks(court, 2)
    court.now += 0.2
    assert [reply.element for reply in asks(court, 2)] == [2]


def test_a_value_is_passed_on_when_two_elements_keep_it_in_two_domains() -> None:
    """N16: bsprun's host may be lost with the caller, and whoever has acted on the value must not be left alone."""
    court = Court()
    court.arbiter._domains = {0: "a", 1: "a", 2: "b", 3: "b", 4: "a", 5: "b"}
    court.say(0, 0, once=(TOKEN, 1, None))
    asked = given(court.say(0, 0, once=(TOKEN, 1, b"v")), Reply)
    assert asked == [Reply(element, Once(0, TOKEN, b"v", keep=True)) for element in (0, 2)]
    assert not court.keep(asked[:1])
    court.now += 0.1
    again = given(court.report(0), Reply)  # the sibling does not answer: all others are asked
    assert {reply.element for reply in again} == {1, 2, 3, 4, 5}
    assert not [reply for reply in court.keep([r for r in again if r.element == 1]) if not reply.once.keep]
    assert Reply(0, Once(0, TOKEN, b"v")) in court.keep([r for r in again if r.element == 5])


def test_where_there_is_one_clone_nobody_else_keeps_a_value() -> None:
    """N16: with its only clone the job is lost anyway."""
    court = Court(((0,), (1,)), standbys=1)
    assert given(court.say(0, 0, once=(TOKEN, 1, b"v")), Reply) == [Reply(0, Once(0, TOKEN, b"v"))]


def test_who_makes_a_call_when_another_bsprun_takes_over_goes_on_making_it() -> None:
    """N16: the permissions of its predecessor lapse, but not those of elements that hear the new bsprun."""
    former = Court()
    court = Court()
    court.arbiter.take_over(0.0, 1, former.orders, (), dict.fromkeys(range(6)))
    court.say(0, 0, once=(TOKEN, 1, None), calls=True)
    court.later(2 * LIMITS.alone, *range(6))
    assert not asks(court, 2)
    court.died(0)
    assert asks(court, 2) == [Reply(2, Once(0, TOKEN, None))]


def test_a_bsprun_that_takes_over_has_values_kept_again_that_one_element_alone_has() -> None:
    """N16: which of them have been acted on is not known."""
    former, court = Court(), Court()
    other: Token = ("once", 0, 5, 0)
    values = [(TOKEN, b"v"), (other, b"w"), (other, b"w")]
    court.arbiter.take_over(0.0, 1, former.orders, values, dict.fromkeys(range(6)))
    asked = given(court.say(0, 0, once=(TOKEN, 1, None)), Reply)
    assert all(reply.once.keep for reply in asked)
    assert Reply(0, Once(0, TOKEN, b"v")) in court.keep(asked)
    assert Reply(2, Once(0, other, b"w")) in asks(court, 2, token=other)


def test_orders_acknowledge_the_reports_that_have_come() -> None:
    """N9: an element's lease runs from the time of its newest report that bsprun has."""
    court = Court()
    court.number = 7
    court.report(3)
    (order,) = given(court.later(0.1), Order)
    assert dict(order.orders.heard)[3] == 7


def test_it_may_have_been_allowed_to_wait_longer_than_others_are_now() -> None:
    """N9, N3: what it was told last is not known, so the most it can have been told counts."""
    court = Court()
    assert asks(court, 0)
    court.report(3, paused=0.5)
    court.later(0.1)
    assert court.orders.allowance == 1.0
    court.later(0.1, *range(6))
    assert court.orders.allowance == 0.0
    court.elements.remove(0)
    court.arbiter.died(court.now, 0, "was silent", confirmed=False)
    court.now += (LIMITS.alone + 1.0) * (1 + APART) - 0.1
    assert not asks(court, 2)
    court.now += 0.2
    assert [reply.element for reply in asks(court, 2)] == [2]


def test_a_value_goes_at_once_to_all_who_wait_for_it() -> None:
    """N9: else every sibling of the caller loses up to a beat in each proc.once, and lags by rounds (N6)."""
    court = Court(TRIPLES)
    for element in (2, 0, 4):
        asks(court, element)
    assert {reply.element for reply in asks(court, 2, value=b"v")} == {0, 2, 4}


def test_values_that_nobody_can_ask_for_again_are_forgotten() -> None:
    """A clock read in each superstep of a month."""
    court = Court()
    for superstep in range(2000):
        for element in (0, 2):
            court.say(element, 0, superstep=superstep, head=superstep, once=(("time", 0, superstep, 0), 1, None))
        for element in (0, 2):
            court.say(element, 0, once=None)
    assert len(court.arbiter.once) < 1000


# ---------------------------------------------------------------------------------- N11: corruption


def differ(*votes: tuple[int, bytes], exchange: int = 5, bundle: int = 0) -> Divergence:
    return Divergence(bundle, exchange, exchange, tuple(sorted(votes)))


def test_states_at_a_head_count_like_packets() -> None:
    """N11: two clones that come to head 5 in different states stop the job."""
    court = Court()
    assert given(court.report(1, divergences=(differ((0, b"a"), (2, b"b"), exchange=-1 - 5),)), Corrupt)


def test_of_three_states_one_is_outvoted_once() -> None:
    """N11: what the clone that stood there before has said of earlier heads does not count against the new one."""
    court = Court(TRIPLES)
    court.say(2, 0, head=5)
    states = differ((0, b"a"), (2, b"b"), (4, b"a"), exchange=-1 - 5)
    assert noted(court.report(1, divergences=(states,)), "outvoted", bundle=0, element=2)
    court.say(2, 0, joined=True)
    before = differ((0, b"a"), (2, b"c"), (4, b"a"), exchange=-1 - 4)
    assert not notes(court.report(1, divergences=(before,)), "outvoted")
    assert noted(court.report(1, divergences=(differ((0, b"a"), (2, b"c"), (4, b"a"), exchange=-7),)), "outvoted")


def test_three_outvote_one_which_is_refreshed() -> None:
    """N11: the minority is given a state of the majority."""
    court = Court(TRIPLES)
    effects = court.report(1, divergences=(differ((0, b"a"), (2, b"b"), (4, b"a")),))
    assert noted(effects, "outvoted", bundle=0, element=2, superstep=5)
    assert court.hosts(0) == [(0, Role.LIVE), (2, Role.JOINING), (4, Role.LIVE)]
    assert not given(effects, Corrupt)


def test_the_third_clone_is_waited_for() -> None:
    """N11: two of three differ, and the third will say who is right."""
    court = Court(TRIPLES)
    assert not given(court.report(1, divergences=(differ((0, b"a"), (2, b"b")),)), Corrupt)
    effects = court.report(3, divergences=(differ((0, b"a"), (4, b"b")),))
    assert [note["element"] for note in notes(effects, "outvoted")] == [0]


def test_two_that_differ_stop_the_job_by_name() -> None:
    """N11: nobody can say who is right."""
    court = Court()
    effects = court.report(1, divergences=(differ((0, b"a"), (2, b"b")),))
    (corrupt,) = given(effects, Corrupt)
    assert (corrupt.found.bundle, corrupt.found.superstep, corrupt.found.votes) == (0, 5, ((0, b"a"), (2, b"b")))
    assert noted(effects, "diverged", bundle=0, superstep=5, elements=[0, 2])
    assert court.arbiter.over


def test_three_that_all_differ_stop_the_job() -> None:
    """N11: no majority."""
    court = Court(TRIPLES)
    assert given(court.report(1, divergences=(differ((0, b"a"), (2, b"b"), (4, b"c")),)), Corrupt)


def test_a_settled_difference_is_not_judged_again() -> None:
    """N14: reports repeat it for ever."""
    court = Court(TRIPLES)
    found = differ((0, b"a"), (2, b"b"), (4, b"a"))
    court.report(1, divergences=(found,))
    court.say(2, 0, joined=True)
    assert court.hosts(0) == [(0, Role.LIVE), (2, Role.LIVE), (4, Role.LIVE)]
    assert not notes(court.report(3, divergences=(found,)), "outvoted")
    assert court.hosts(0) == [(0, Role.LIVE), (2, Role.LIVE), (4, Role.LIVE)]


def test_the_vote_of_the_dead_does_not_count() -> None:
    """N11: only live clones of the view vote."""
    court = Court(TRIPLES, standbys=0)
    court.died(2)
    effects = court.report(1, divergences=(differ((0, b"a"), (2, b"b"), (4, b"a")),))
    assert not given(effects, Corrupt)
    assert not notes(effects, "outvoted")


def test_a_worker_whose_second_run_differs_from_its_first_stops_a_job_without_clones() -> None:
    """N11: detected, though there is no sibling."""
    court = Court(((0,), (1,)))
    assert given(court.report(0, divergences=(differ((0, b"a"), (-1, b"b")),)), Corrupt)


def test_siblings_that_end_differently_stop_the_job_by_name() -> None:
    """N11: a bit that turns over behind the last exchange is seen by nobody else."""
    court = Court()
    effects = court.say(0, 0, ended=b"right") + court.say(2, 0, ended=b"flipped")
    effects += court.say(1, 1, ended=b"b") + court.say(3, 1, ended=b"b") + court.later(2.0, 0, 1, 2, 3, 4, 5)
    assert given(effects, Corrupt)
    assert not given(effects, Finished)


def test_what_a_clone_said_before_it_was_refreshed_is_not_held_against_it() -> None:
    """N11: it went on for some supersteps before it heard that it was outvoted."""
    court = Court(TRIPLES, standbys=0)
    first, second = (differ((0, b"a"), (2, b"b"), (4, b"a"), exchange=e) for e in (5, 6))
    court.report(1, divergences=(first,))
    court.report(1, divergences=(first, second))
    court.say(2, 0, joined=True, exchange=8)
    effects = court.report(1, divergences=(first, second))
    assert not notes(effects, "outvoted")
    court.died(4)
    effects = court.report(1, divergences=(first, second))
    assert not given(effects, Corrupt)


def test_a_worker_that_differs_from_its_own_first_run_is_judged_by_its_sibling() -> None:
    """N11: three votes, two alike."""
    court = Court()
    effects = court.report(0, divergences=(differ((0, b"a"), (-1, b"b")),))
    effects += court.report(2, divergences=(differ((0, b"a"), (2, b"a")),))
    assert not given(effects, Corrupt)


def test_a_clone_has_one_vote_however_often_it_was_run() -> None:
    """N11: three outvote one; found by a flip with 3 clones and messages lost (the outvoted one had jumped)."""
    court = Court(TRIPLES)
    effects = court.report(0, divergences=(differ((0, b"a"), (-1, b"b")),))
    effects += court.report(1, divergences=(differ((0, b"b"), (2, b"a"), (4, b"a")),))
    assert not given(effects, Corrupt)
    assert noted(effects, "outvoted", element=0)


def test_values_of_rounds_that_nobody_runs_again_are_forgotten_those_from_outside_loops_stay() -> None:
    """N9: a replay begins with the program; then every clone restarts from its own state."""
    court = Court(standbys=0)
    for element in range(4):
        court.say(element, element % 2, restarts=-1 if element == 3 else 100)
    asks(court, 0, value=b"outside")
    for head in range(50):
        asks(court, 0, token=("round", 0, head, 0), value=b"v")
    assert len(court.arbiter.once) == 51  # one of them has no state yet
    court.say(3, 1, restarts=40)
    asks(court, 0, token=("round", 0, 50, 0), value=b"v")
    assert set(court.arbiter.once) == {TOKEN, *(("round", 0, head, 0) for head in range(40, 51))}
    court.report(1, overdue=((0, 2),))  # made anew: it may be given a state that is older than all have now
    for element in (0, 1, 3):
        court.say(element, element % 2, restarts=100)
    asks(court, 0, token=("round", 0, 51, 0), value=b"v")
    assert len(court.arbiter.once) == 13


def test_text_of_one_of_three_clones_is_not_printed_before_another_has_said_the_same() -> None:
    """N11 for text: what an outvoted clone has written cannot be taken back."""
    court = Court(TRIPLES)
    assert not given(court.arbiter.text(0.0, 0, 0, b"x = 1\ny = flipped\n"), Print)
    assert given(court.arbiter.text(0.0, 2, 0, b"x = 1\ny"), Print) == [Print(b"x = 1\ny")]
    assert given(court.arbiter.text(0.0, 2, 7, b" = 2\n"), Print) == [Print(b" = ")]
    assert given(court.arbiter.text(0.0, 4, 0, b"x = 1\ny = 2\n"), Print) == [Print(b"2\n")]
    assert court.arbiter.taken == 12


def test_text_that_all_three_say_differently_is_printed_by_lines() -> None:
    """N11 for text: a program may print what its clones cannot agree on, a clock; nothing waits for ever."""
    court = Court(TRIPLES)
    assert not court.arbiter.text(0.0, 0, 0, b"0.12 s\nend\n")
    assert not court.arbiter.text(0.0, 2, 0, b"3.1 s\nend\n")
    assert given(court.arbiter.text(0.0, 4, 0, b"1.3"), Print) == [Print(b"0.12 s\n")]


def test_what_a_clone_that_joins_repeats_of_the_former_one_there_is_not_printed() -> None:
    """N11 for text: it was outvoted."""
    court = Court(TRIPLES)
    court.arbiter.text(0.0, 2, 0, b"flipped\n")
    court.report(1, divergences=(differ((0, b"a"), (2, b"b"), (4, b"a")),))
    court.arbiter.text(0.0, 2, 0, b"flipped\n")
    assert given(court.arbiter.text(0.0, 4, 0, b"x\n"), Print) == [Print(b"x\n")]


def test_the_text_of_a_clone_made_anew_counts_without_what_the_former_one_there_had_said() -> None:
    """N9, N11: that is forgotten, or its own would not be read before so much has been printed."""
    court = Court(TRIPLES)
    court.arbiter.text(0.0, 2, 0, b"flipped\n")
    court.report(1, divergences=(differ((0, b"a"), (2, b"b"), (4, b"a")),))
    court.say(2, 0, joined=True)
    assert court.hosts(0) == [(0, Role.LIVE), (2, Role.LIVE), (4, Role.LIVE)]
    assert not court.arbiter.text(0.0, 2, 0, b"x\n")
    assert given(court.arbiter.text(0.0, 4, 0, b"x\n"), Print) == [Print(b"x\n")]


def test_a_late_word_of_a_clone_that_was_made_anew_is_not_the_new_ones() -> None:
    """N7, N11 for text: it was outvoted, and what is printed cannot be taken back."""
    court = Court(TRIPLES)
    court.report(1, divergences=(differ((0, b"a"), (2, b"b"), (4, b"a")),))
    court.say(2, 0, since=2, joined=True)
    assert (2, Role.LIVE) in court.hosts(0)
    assert not court.arbiter.text(0.0, 2, 0, b"flipped\n", since=1)
    assert not court.arbiter.text(0.0, 6, 0, b"flipped\n", since=1)  # nor of one that stands by
    assert not given(court.arbiter.text(0.0, 0, 0, b"flipped\n", since=1), Print)
    assert given(court.arbiter.text(0.0, 4, 0, b"x\n", since=1), Print) == []
    assert given(court.arbiter.text(0.0, 2, 0, b"x\n", since=2), Print) == [Print(b"x\n")]


def test_who_began_behind_a_difference_is_not_waited_for() -> None:
    """N11: of what a newcomer has not computed it will say nothing; two are left, and nobody knows who is right."""
    court = Court(TRIPLES)
    court.died(4)
    court.say(6, 0, joined=True, exchange=9)
    assert (6, Role.LIVE) in court.hosts(0)
    assert not given(court.report(1, divergences=(differ((0, b"a"), (2, b"b"), exchange=8),)), Corrupt)
    assert given(court.report(1, divergences=(differ((0, b"a"), (2, b"b"), exchange=7),)), Corrupt)


def test_of_three_that_end_the_third_is_waited_for_where_two_differ() -> None:
    """N11: it will say who is right; and nobody's word alone ends the job."""
    court = Court(TRIPLES)
    for element in (1, 3, 5):
        court.say(element, 1, ended=b"b")
    effects = court.say(0, 0, ended=b"flipped") + court.later(2.0, *range(8))
    effects += court.say(2, 0, ended=b"right") + court.later(2.0, *range(8))
    assert not given(effects, Corrupt) + given(effects, Finished)
    effects = court.say(4, 0, ended=b"right") + court.later(2.0, *range(8))
    assert set(given(effects, Finished)) == {Finished((b"right", b"b"))}


# ---------------------------------------------------------------------------- N12, N13, checkpoints


def test_an_exception_is_the_programs_when_all_live_clones_raise_it() -> None:
    """N12: all live clones, alike."""
    court = Court()
    court.say(0, 0, raised=(3, b"ValueError"))
    assert court.orders.raised == ()
    effects = court.say(2, 0, raised=(3, b"ValueError"))
    assert court.orders.raised == ((0, 3),)
    assert given(effects, Order)[-1].orders.raised == ((0, 3),)


def test_exceptions_that_differ_are_not_the_programs() -> None:
    """N12: alike means the digest and the exchange."""
    court = Court()
    court.say(0, 0, raised=(3, b"ValueError"))
    court.say(2, 0, raised=(3, b"MemoryError"))
    assert court.orders.raised == ()


def test_siblings_that_raise_differently_do_not_wait_for_ever() -> None:
    """N12, N11: relaunched, or stopped by name."""
    court = Court()
    court.say(0, 0, raised=(3, b"ValueError: at 0x7f01"))
    effects = court.say(2, 0, raised=(3, b"ValueError: at 0x7f02"))
    assert [(e.found.bundle, e.found.exchange) for e in given(effects, Corrupt)] == [(0, 3)]


def test_of_three_exceptions_the_odd_one_is_outvoted_and_the_programs_stands() -> None:
    """N12, N11: its clone is made anew, and the others go on."""
    court = Court(TRIPLES)
    effects = court.say(0, 0, raised=(3, b"ValueError")) + court.say(2, 0, raised=(3, b"flipped"), superstep=3)
    assert court.orders.raised == ()  # the third one will say who is right
    effects += court.say(4, 0, raised=(3, b"ValueError"))
    assert not given(effects, Corrupt)
    assert noted(effects, "outvoted", bundle=0, element=2, superstep=3)
    assert court.hosts(0) == [(0, Role.LIVE), (2, Role.JOINING), (4, Role.LIVE)]
    assert given(effects, Order)[-1].orders.raised == ((0, 3),)


def test_three_exceptions_that_all_differ_stop_the_job() -> None:
    """N12, N11: nobody can say who is right."""
    court = Court(TRIPLES)
    effects = [effect for e in (0, 2, 4) for effect in court.say(e, 0, raised=(3, b"%d" % e))]
    assert [found.found.exchange for found in given(effects, Corrupt)] == [3]
    assert court.orders.raised == ()


def test_a_dead_clone_is_not_waited_for_to_raise() -> None:
    """N12: live clones of the view."""
    court = Court()
    court.say(0, 0, raised=(3, b"ValueError"))
    effects = court.died(2)
    assert court.orders.raised == ((0, 3),)
    assert given(effects, Order)[-1].orders.raised == ((0, 3),)


def test_a_newcomer_is_not_asked_whether_it_raises() -> None:
    """N12: until it is live its replay proves nothing."""
    court = Court()
    court.died(2)
    court.say(4, 0, joined=False)
    court.say(0, 0, raised=(3, b"ValueError"))
    assert court.orders.raised == ((0, 3),)


def test_a_hold_stops_at_the_largest_head_that_is_named() -> None:
    """N13: each clone names its next head, bsprun answers the largest: nobody has begun a round behind it."""
    court = Court()
    effects = court.arbiter.hold(0.0)
    assert given(effects, Order)[-1].orders.hold == Hold(1, None)
    for element, head in ((0, 6), (1, 8), (2, 6)):
        court.say(element, element % 2, held=head)
        assert court.orders.hold == Hold(1, None)
    effects = court.say(3, 1, held=9)
    assert court.orders.hold == Hold(1, 9)
    assert noted(effects, "held", head=9)


def test_who_comes_to_no_head_in_a_second_is_not_waited_for() -> None:
    """N13: while it computes, its siblings' state is written."""
    court = Court()
    court.arbiter.hold(0.0)
    court.say(0, 0, held=6)
    court.say(1, 1, held=8)
    court.later(0.9, 0, 1, 2, 3)
    assert court.orders.hold == Hold(1, None)
    court.later(0.3, 0, 1, 2, 3)
    assert court.orders.hold == Hold(1, 8)
    court.say(3, 1, held=9)
    assert court.orders.hold == Hold(1, 8)


def test_what_bsprun_stood_still_for_is_no_part_of_that_second() -> None:
    """N13, N3: they may have named theirs meanwhile."""
    court = Court()
    court.arbiter.hold(0.0)
    court.say(0, 0, held=6)
    court.now += 60.0
    court.say(1, 1, held=8)
    assert court.orders.hold == Hold(1, None)
    court.later(0.2, 0, 1)
    assert court.orders.hold == Hold(1, None)
    court.say(2, 0, held=6)
    court.say(3, 1, held=9)
    assert court.orders.hold == Hold(1, 9)


def test_nobody_is_held_for_a_bundle_that_has_ended() -> None:
    """N13: its last clone but one had sent all and was killed; the one behind it is held, the others are through."""
    court = Court(standbys=0)
    court.arbiter.hold(0.0)
    court.say(0, 0, held=44, head=44)
    effects = court.say(1, 1, head=50, ended=b"b")
    assert given(effects, Order)[-1].orders.hold is None
    court.arbiter.hold(0.1)
    assert court.orders.hold is None


def test_a_hold_moves_on_when_nobody_of_a_bundle_could_stop_where_it_was() -> None:
    """N13: a head without a state to keep is passed by all clones, and all bundles follow; never back."""
    court = Court()
    court.arbiter.hold(0.0)
    for element, head in ((0, 6), (1, 8), (2, 6), (3, 6)):
        court.say(element, element % 2, held=head)
    assert court.orders.hold == Hold(1, 8)
    court.died(1)
    assert court.orders.hold == Hold(1, 8)  # though all who are left have named 6
    court.say(3, 1, held=8)
    court.say(0, 0, held=9)
    assert court.orders.hold == Hold(1, 8)  # its sibling may yet stop there
    effects = court.say(2, 0, held=9)
    assert court.orders.hold == Hold(1, 9)
    assert given(effects, Order)[-1].orders.hold == Hold(1, 9)
    assert noted(effects, "held", head=9)


def test_a_hold_is_behind_the_last_checkpoint() -> None:
    """N13: at a head whose checkpoint has been written nobody keeps its state again, and all would wait for ever."""
    court = Court()
    court.arbiter.committed(0.0, 14)
    court.arbiter.hold(0.0)
    for element in range(4):
        court.say(element, element % 2, held=14)
    assert court.orders.hold == Hold(1, 15)


def test_a_hold_said_twice_is_one_hold() -> None:
    """N13, N14: SIGTERM may be sent again."""
    court = Court()
    court.arbiter.hold(0.0)
    court.died(0)
    court.arbiter.hold(1.0)
    assert court.orders.hold == Hold(1, None)


def pin(court: Court, head: int, *elements: int) -> None:
    for element in elements:
        court.say(element, element % 2, pins=(head,))


def test_a_checkpoint_is_written_when_every_bundle_keeps_the_same_head_one_writer_each() -> None:
    """Second line: a checkpoint is of one head."""
    court = Court()
    pin(court, 4, 0)
    assert court.orders.writes == ()
    pin(court, 8, 3)
    assert court.orders.writes == ()
    pin(court, 4, 1)
    assert court.orders.writes == ((0, 0, 4), (1, 1, 4))


def test_a_checkpoint_is_committed_when_all_parts_are_written_and_then_released() -> None:
    """Second line: atomic, all parts or none."""
    court = Court()
    pin(court, 4, 0, 1)
    assert not given(court.say(0, 0, parts=((4, "part 0"),)), Commit)
    assert given(court.say(1, 1, parts=((4, "part 1"),)), Commit) == [Commit(4, ("part 0", "part 1"))]
    assert not given(court.report(1), Commit)
    assert given(court.arbiter.committed(1.0, 4), Order)[-1].orders.released == 4
    court.say(0, 0, pins=(4, 8))
    court.say(1, 1, pins=(4, 8))
    assert court.orders.writes == ((0, 0, 8), (1, 1, 8))


def test_a_part_whose_writer_dies_is_written_by_a_sibling_that_kept_the_state() -> None:
    """Second line: the checkpoint is not given up while some clone of the bundle has its part."""
    court = Court()
    pin(court, 4, 0, 1, 2, 3)
    court.say(1, 1, parts=((4, "part 1"),))
    assert court.orders.writes == ((0, 0, 4), (1, 1, 4))
    effects = court.died(0)
    assert court.orders.writes == ((0, 2, 4), (1, 1, 4))
    assert given(effects, Order)[-1].orders.writes == court.orders.writes
    assert given(court.say(2, 0, parts=((4, "part 0"),)), Commit) == [Commit(4, ("part 0", "part 1"))]


def test_a_checkpoint_whose_state_is_gone_is_given_up_for_the_next() -> None:
    """Second line: nobody waits for what cannot come."""
    court = Court()
    pin(court, 4, 0, 1)
    court.died(0)
    assert (court.orders.writes, court.orders.released) == ((), 4)
    court.say(2, 0, pins=(8,))
    court.say(1, 1, pins=(4, 8))
    assert court.orders.writes == ((0, 2, 8), (1, 1, 8))


def test_orders_are_repeated_with_every_beat() -> None:
    """N14: control messages are state, re-sent."""
    court = Court()
    orders = given(court.later(1.0, *range(6)), Order)
    assert 9 <= len(orders) <= 11
    assert [order.orders.number for order in orders] == sorted({order.orders.number for order in orders})
    assert {replace(order.orders, number=0, heard=()) for order in orders} == {court.orders}


def test_older_reports_are_not_believed() -> None:
    """N14: reports are numbered, the larger number holds: one that comes late takes nothing back."""
    court = Court()
    for number, raised in ((2, (3, b"ValueError")), (1, None)):
        court.arbiter.report(0.0, AgentReport(0, 1, (progress(0, raised=raised),), number=number))
    court.say(2, 0, raised=(3, b"ValueError"))
    assert court.orders.raised == ((0, 3),)


@pytest.mark.parametrize("element", [0, 5])
def test_what_the_dead_say_is_not_heard(element: int) -> None:
    """Views guard control: a report that was under way when its element died changes nothing."""
    court = Court()
    late = AgentReport(element, 1, (progress(0, once=(TOKEN, 1, None), ended=b"r"),))
    court.died(element)
    before = court.orders
    assert court.arbiter.report(court.now, late) == []
    assert court.orders is before
