"""One element by hand: events in, effects out; each test is for a rule of bsp.faults.protocol.member (N1-N14)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from bsp.faults.protocol.clones.unconfirmed_text import UnconfirmedText
from bsp.faults.protocol.member import Member
from bsp.faults.protocol.messages import (
    AgentReport,
    Announce,
    Answer,
    Asks,
    BundlePacket,
    ClonePlace,
    Data,
    Deliver,
    Die,
    Died,
    Ended,
    Gone,
    Handover,
    Head,
    Hold,
    Leave,
    Limits,
    Marks,
    Note,
    Once,
    Orders,
    Passed,
    Printed,
    Progress,
    Pull,
    Read,
    Role,
    Say,
    SendTo,
    Snapshot,
    StartWorker,
    StopWorker,
    Stuck,
    Submitted,
    Tail,
    Tell,
    View,
    Want,
    Write,
)

LARGE = 1 << 20
LIMITS = Limits()
T = TypeVar("T")

Place = int | tuple[int, Role] | tuple[int, Role, int]


def view(*bundles: Sequence[Place], number: int = 1, standbys: Sequence[int] = ()) -> View:
    """Who hosts what: an element alone is live since view 1."""
    hosts = []
    for places in bundles:
        some = []
        for place in places:
            element, role, since = (*place, 1)[:3] if isinstance(place, tuple) else (place, Role.LIVE, 1)
            some.append(ClonePlace(element, role, since))
        hosts.append(tuple(some))
    return View(number, tuple(hosts), tuple(standbys))


def packet(text: str, size: int | None = None) -> BundlePacket:
    """Small unless a size is given."""
    return BundlePacket(len(text) if size is None else size, text.encode(), text.encode())


def announced(item: BundlePacket) -> BundlePacket:
    """As an announcement names a large packet."""
    return item._replace(data=None)


def announce(
    bundle: int,
    exchange: int,
    packets: dict[int, BundlePacket] | None = None,
    *,
    compute: float = 0.01,
    sets_min: bool = True,
    digest: bytes = b"same",
    head: int = -1,
    mark: int | None = 0,
    view: int = 1,
    state: bytes = b"",
) -> Announce:
    """A superstep is an exchange here."""
    parts = tuple((packets or {}).items())
    return Announce(bundle, exchange, exchange, compute, sets_min, digest, head, mark, view, parts, state)


def snapshot(bundle: int, head: int, *, loop: int = 0, exchange: int | None = None, final: bool = False) -> Snapshot:
    """Loops of one exchange a round, which begin at exchange 0 of the program or of what came before."""
    at = head if exchange is None else exchange
    return Snapshot(bundle, head, loop, head, final, at, at - head, at, b"d%d" % head, ("state", head))


def given(effects: Iterable[Any], kind: type[T]) -> list[T]:
    """The effects of one kind."""
    return [effect for effect in effects if isinstance(effect, kind)]


def sent(effects: Iterable[Any], kind: type[T], to: int | None = None) -> list[T]:
    """The messages of one kind, to one element or to all."""
    return [s.message for s in given(effects, SendTo) if isinstance(s.message, kind) and to in (None, s.element)]


def notes(effects: Iterable[Any], kind: str) -> list[dict[str, Any]]:
    """The fields of notes of one kind."""
    return [note.fields for note in given(effects, Note) if note.kind == kind]


def noted(effects: Iterable[Any], kind: str, **fields: Any) -> bool:
    """Whether there is one note of this kind, and it says this, among other things."""
    found = notes(effects, kind)
    return len(found) == 1 and fields.items() <= found[0].items()


class Driven:
    """A member, its clock, and the workers' side of it."""

    def __init__(self, element: int, first: View, limits: Limits = LIMITS, *, resuming: bool = False) -> None:
        self.member = Member(element, len(first.hosts), limits, resuming)
        self.now = 0.0
        self.member.tick(0.0)
        self.started = self.command(Orders(first))

    def command(self, orders: Orders) -> list[Any]:
        return self.member.command(self.now, orders)

    def hear(self, message: Any, sender: int) -> list[Any]:
        return self.member.receive(self.now, message, sender)

    def local(self, event: Any) -> list[Any]:
        return self.member.receive(self.now, event)

    def later(self, seconds: float, bsprun: bool = True, step: float = 0.02) -> list[Any]:
        """Ticks until then, at no large distances; bsprun is heard all the time."""
        effects: list[Any] = []
        until = self.now + seconds
        while self.now < until:
            self.now = min(self.now + step, until)
            if bsprun:
                effects += self.member.command(self.now, self.member._orders or Orders(self.member.view))
            effects += self.member.tick(self.now)
        return effects

    def jump(self, seconds: float) -> list[Any]:
        """The element stood still; its first look at the clock."""
        self.now += seconds
        return self.member.tick(self.now)

    def submit(
        self, exchange: int, packets: dict[int, BundlePacket] | None = None, *, bundle: int = 0,
        digest: bytes = b"same", raised: bool = False, sets_min: bool = True, life: int | None = None,
    ) -> list[Any]:  # fmt: skip
        """The worker ends a computation."""
        life = self.clone(bundle).worker.life if life is None else life
        return self.local(
            Submitted(bundle, life, exchange, exchange, 0.01, sets_min, digest, raised, dict(packets or {}))
        )

    def head(
        self, head: int, *, bundle: int = 0, asks: bool = False, entry: bool = False, exchange: int | None = None,
        loop: int = 0, final: bool = False,
    ) -> list[Any]:  # fmt: skip
        """The worker passes a head."""
        place = snapshot(bundle, head, loop=loop, exchange=exchange, final=final)
        if entry:
            place = place._replace(data=None)
        return self.local(Head(bundle, self.clone(bundle).worker.life, asks, entry, place))

    def round(self, number: int, source: int = 1, sender: int = 1, head: int | None = None) -> list[Any]:
        """One exchange with bundle `source`, and the head behind it: heads are numbered like exchanges."""
        effects = self.submit(number, {source: packet(f"mine {number}")})
        theirs = number if head is None else head
        effects += self.hear(announce(source, number, {0: packet(f"theirs {number}")}, head=theirs), sender)
        return effects + self.head(number + 1)

    def clone(self, bundle: int = 0) -> Any:
        return self.member.clones[bundle]

    def progress(self, bundle: int = 0) -> Progress:
        return next(p for p in self.member.report().clones if p.bundle == bundle)

    def keeps(self, exchange: int, dest: int = 1, bundle: int = 0, asked_by: int = 1) -> bool:
        """Whether a packet can still be asked for."""
        effects = self.hear(Pull(bundle, exchange, dest), asked_by)
        assert len(sent(effects, Data)) + len(sent(effects, Gone)) == 1
        return bool(sent(effects, Data))


ALONE = view([0], [1])  # two bundles, no clones
PAIRS = view([0, 2], [1, 3])  # each twice
TRIPLES = view([0, 2, 4], [1, 3, 5])


# ------------------------------------------------------------------- N1: announce; first come serves


def test_what_arrived_first_is_delivered_and_later_announcements_change_nothing() -> None:
    """N1: first come serves."""
    member = Driven(0, view([0, 3], [1, 4], [2, 5]))
    member.submit(0, {1: packet("a"), 2: packet("b")})
    assert not given(member.hear(announce(1, 0, {0: packet("first")}), 1), Deliver)
    assert not given(member.hear(announce(1, 0, {0: packet("second")}), 4), Deliver)
    (delivery,) = given(member.hear(announce(2, 0, {0: packet("other")}), 2), Deliver)
    assert {source: p.data for source, p in delivery.packets.items()} == {1: b"first", 2: b"other"}
    assert not given(member.hear(announce(2, 0, {0: packet("other")}), 5), Deliver)


def test_nobody_waits_for_the_second_clone_of_a_bundle() -> None:
    """N1: no waiting while identical bytes exist; the sibling of the one heard may be slow or dead."""
    member = Driven(0, PAIRS)
    member.submit(0, {1: packet("a")})
    assert given(member.hear(announce(1, 0, {0: packet("x")}), 3), Deliver)


def test_an_announcement_goes_to_every_element_with_small_packets_for_all_clones_of_their_bundle() -> None:
    """N1: small payloads inside."""
    member = Driven(0, PAIRS)
    effects = member.submit(0, {1: packet("small")})
    for element in (1, 3):
        (message,) = sent(effects, Announce, element)
        assert message.packets == ((1, packet("small")),)
    (to_sibling,) = sent(effects, Announce, 2)
    assert (to_sibling.exchange, to_sibling.packets, to_sibling.digest) == (0, (), b"same")
    assert not sent(effects, Data)


@pytest.mark.parametrize(("element", "receiver"), [(0, 1), (2, 3)])
def test_a_large_packet_is_pushed_only_by_the_clone_of_the_receivers_column(element: int, receiver: int) -> None:
    """N1: a large payload comes once, from the sender designated for the receiver's column."""
    member = Driven(element, PAIRS)
    big = packet("big", LARGE)
    effects = member.submit(0, {1: big})
    for other in (1, 3):
        (message,) = sent(effects, Announce, other)
        assert message.packets == ((1, announced(big)),)
    assert [(s.element, s.message.packet) for s in given(effects, SendTo) if isinstance(s.message, Data)] == [
        (receiver, big)
    ]


def pushed(member: Driven, dest: int = 1) -> list[int]:
    """To whom it sends a large packet by itself."""
    effects = member.submit(0, {dest: packet("big", LARGE)})
    return [s.element for s in given(effects, SendTo) if isinstance(s.message, Data)]


def test_large_packets_are_designated_among_live_clones() -> None:
    """N1: a passive clone is paused and sends nothing; live receivers are dealt over the senders first."""
    passive, joining = Role.PASSIVE, Role.JOINING
    alone = view([(1, passive), 0], [(0, passive), 1])
    assert pushed(Driven(0, alone)) == [1, 0]
    receivers: list[Place] = [5, (6, passive), 7, (8, joining)]
    hosts = view([(3, passive), 0, (4, joining), 1], receivers)
    assert [pushed(Driven(element, hosts)) for element in (0, 1)] == [[5, 6], [7, 8]]


def test_a_large_packet_is_asked_of_the_one_that_announced_it_after_grace_not_before() -> None:
    """N1: a short grace after a sibling announced it."""
    member = Driven(0, PAIRS)  # its column's sender is 1
    member.submit(0, {1: packet("a")})
    member.hear(announce(1, 0, {0: announced(packet("big", LARGE))}), 3)
    assert not sent(member.later(LIMITS.grace / 2, step=0.0005), Pull)
    asked = [s for s in given(member.later(LIMITS.grace, step=0.0005), SendTo) if isinstance(s.message, Pull)]
    assert asked == [SendTo(3, Pull(1, 0, 0))]
    assert given(member.hear(Data(1, 0, 0, packet("big", LARGE)), 3), Deliver)
    assert not sent(member.later(0.5), Pull)


def test_a_large_packet_announced_before_its_receiver_has_computed_is_asked_for_after_grace_too() -> None:
    """N1: the receiver was the slow one; it does not wait for `patience`."""
    member = Driven(0, PAIRS)
    member.hear(announce(1, 0, {0: announced(packet("big", LARGE))}), 3)
    assert not sent(member.later(0.05), Pull)  # it does not need it yet
    member.submit(0, {1: packet("a")})
    assert sent(member.later(2 * LIMITS.grace, step=0.0005), Pull, 3) == [Pull(1, 0, 0)]


def test_what_nobody_has_announced_is_asked_of_every_clone_after_patience_and_again() -> None:
    """N1: an announcement may be lost with the element that made it."""
    member = Driven(0, PAIRS)
    member.submit(0, {1: packet("a")})
    assert not sent(member.later(LIMITS.patience * 0.9), Pull)
    effects = member.later(LIMITS.patience * 0.3)
    assert [s.element for s in given(effects, SendTo) if isinstance(s.message, Pull)] == [1, 3]
    assert len(sent(member.later(3.0), Pull)) >= 4
    assert given(member.hear(Data(1, 0, 0, packet("x")), 3), Deliver)


def test_a_lost_packet_is_asked_for_while_the_worker_computes_if_later_ones_have_come() -> None:
    """N1: a gap in what was heard shows the loss before the worker has to wait for it."""
    member = Driven(0, PAIRS)
    member.hear(announce(1, 1, {0: packet("later")}), 1)
    assert sent(member.later(3 * LIMITS.patience), Pull, 3)[0] == Pull(1, 0, 0)


def test_packets_that_arrive_before_they_are_needed_are_delivered_in_their_exchange() -> None:
    """N1: exchanges are direct and unordered; numbers order them."""
    member = Driven(0, ALONE)
    member.hear(announce(1, 1, {0: packet("one")}), 1)
    member.hear(announce(1, 0, {0: packet("zero")}), 1)
    (first,) = given(member.submit(0, {1: packet("a")}), Deliver)
    (second,) = given(member.submit(1, {1: packet("b")}), Deliver)
    assert (first.exchange, first.packets[1].data, second.exchange, second.packets[1].data) == (0, b"zero", 1, b"one")


def test_offers_of_large_packets_are_forgotten() -> None:
    """One for each exchange of a month would be too many, and each wait looks through all of them."""
    member = Driven(0, view([0, 3], [1, 4], [2, 5]))
    big = packet("big", LARGE)
    for number in range(50):
        member.submit(number, {1: packet("a"), 2: packet("b")})
        member.hear(announce(1, number, {0: announced(big)}), 1)
        member.hear(Data(1, number, 0, big), 1)
        member.hear(announce(1, number, {0: announced(big)}), 4)
        member.hear(announce(2, number, {0: packet("x")}), 2)
    assert len(member.clone().inbox.offers) <= 1


# --------------------------------------------------------------------------- N2: tails, by its own clock


def computing(first: View = PAIRS, least: float = 0.01, sets_min: bool = True, limits: Limits = LIMITS) -> Driven:
    """An element that computes superstep 1, which a sibling has done in `least` seconds."""
    member = Driven(0, first, limits)
    member.head(0)
    member.round(0)
    assert member.clone().worker.since == 0.0
    member.hear(announce(0, 1, compute=least, sets_min=sets_min), 2)
    return member


def test_a_tail_is_reported_above_the_limit_and_once() -> None:
    """N2: a tail is a self-reported compute time above T * max(MinTime, floor)."""
    member = computing(least=0.2)
    assert not notes(member.later(5 * 0.2 - 0.03), "tail")
    assert noted(member.later(0.06), "tail", bundle=0, element=0, superstep=1)
    assert not notes(member.later(3.0), "tail")
    assert member.progress().tails == 1


def test_the_floor_counts_where_min_time_is_smaller() -> None:
    """N2: the jitter of equal short rounds is no tail."""
    member = computing(least=0.0001)
    assert not notes(member.later(LIMITS.tail_limit * LIMITS.floor - 0.03), "tail")
    assert notes(member.later(0.06), "tail")


def test_only_clones_that_set_min_time_do() -> None:
    """N2 and the chapter's sets_min_time: where nobody sets MinTime there are no tails."""
    assert not notes(computing(sets_min=False).later(20.0), "tail")


def test_the_fastest_clone_of_any_bundle_sets_min_time() -> None:
    """MinTime is a minimum over all first-row clones, whatever order they are heard in."""
    member = computing(least=0.4)
    member.hear(announce(1, 1, compute=0.1), 1)
    member.hear(announce(1, 1, compute=0.3), 3)
    assert not notes(member.later(0.45), "tail")
    assert notes(member.later(0.1), "tail")


def test_waiting_for_others_is_no_tail() -> None:
    """N2: only its own computing counts; who has submitted is not late, however long the others take."""
    member = computing()
    member.submit(1, {1: packet("a")})
    assert not notes(member.later(20.0), "tail")
    assert member.progress().tails == 0


@pytest.mark.parametrize("first", [True, False])
def test_that_all_clones_are_late_is_told_by_the_first_of_them(first: bool) -> None:
    """N5: it is the work that takes so long; who was late in another superstep does not count."""
    member = computing(PAIRS if first else view([2, 0], [1, 3]))
    effects = member.hear(Tail(0, 0), 2)
    effects += member.later(1.0)
    assert notes(effects, "tail")
    effects += member.hear(Tail(0, 0), 2)
    assert not notes(effects, "note")
    effects = member.hear(Tail(0, 1), 2)
    what = "all clones of bundle 0 are late in superstep 1: the limit is lifted for it"
    assert notes(effects, "note") == ([{"bundle": 0, "text": what, "warning": True}] if first else [])


def test_a_tail_costs_a_pull_of_passive_siblings_and_nothing_else() -> None:
    """N2: only silence is fenced; the clone goes on, and nobody else is judged."""
    member = computing(view([0, 2, (3, Role.PASSIVE)], [1]))
    effects = member.later(1.0)
    told = {s.element for s in given(effects, SendTo) if isinstance(s.message, Tail)}
    assert 3 in told
    assert told <= {2, 3}  # its siblings
    assert not given(effects, Die) + given(effects, StopWorker) + given(effects, StartWorker)
    assert not notes(effects, "relaunched")


def test_a_passive_clone_computes_when_it_is_told_of_a_tail() -> None:
    """A pull: the passive clone goes on from where it paused, until its next head."""
    member = Driven(0, view([2, (0, Role.PASSIVE)], [1]))
    assert not given(member.head(0, asks=True), Answer)  # paused
    effects = member.hear(Tail(0, 0), 2)
    assert noted(effects, "pulled", bundle=0, element=0, reason="a tail")
    assert given(effects, Answer) == [Answer(0, None)]
    member.submit(0, {1: packet("a")})
    assert given(member.hear(announce(1, 0, {0: packet("x")}), 1), Deliver)[0].ask
    assert not given(member.head(1, asks=True), Answer)  # and pauses again


def test_a_passive_clone_takes_over_by_itself_when_its_bundle_is_overdue() -> None:
    """A live sibling that cannot say that it is late is late all the same."""
    member = Driven(0, view([2, (0, Role.PASSIVE)], [1]))
    member.head(0, asks=True)
    member.hear(announce(1, 0), 1)
    member.hear(announce(1, 1), 1)
    assert not notes(member.later(0.2), "pulled")
    assert noted(member.later(0.1), "pulled", bundle=0, element=0, reason="overdue")


def test_what_a_passive_clone_computes_does_not_set_min_time() -> None:
    """Only the first row sets MinTime: a pulled clone is late by its nature."""
    member = Driven(0, view([2, (0, Role.PASSIVE)], [1]))
    (message,) = sent(member.submit(0, {1: packet("a")}), Announce, 1)
    assert not message.sets_min


def test_a_superstep_is_compared_with_its_own_min_time() -> None:
    """N2: a long superstep behind a short one is no tail while nobody has done it faster."""
    member = Driven(0, PAIRS)
    member.submit(0, {1: packet("a")})
    member.hear(announce(0, 0, compute=0.001), 2)
    member.hear(announce(1, 0, {0: packet("x")}, compute=0.001), 1)
    assert not notes(member.later(5.0), "tail")


def test_a_replay_is_no_tail() -> None:
    """N6: newcomers are exempt."""
    member = computing()
    member.local(Died(0, member.clone().worker.life, "was killed"))
    assert not notes(member.later(1.0), "tail")


def test_a_replay_is_no_tail_from_its_first_delivery_to_its_last() -> None:
    """N2: the newcomer does again what has been announced in its place; what comes behind that is its own."""
    member = Driven(0, PAIRS)
    for number in range(2):
        member.submit(number, {1: packet("a")})
        member.hear(announce(1, number, {0: packet("x")}), 1)
    for superstep in range(3):
        member.hear(announce(0, superstep), 2)
    member.local(Died(0, member.clone().worker.life, "was killed"))
    assert given(member.submit(0, {1: packet("a")}), Deliver)
    assert not notes(member.later(3.0), "tail")
    assert given(member.submit(1, {1: packet("a")}), Deliver)
    assert noted(member.later(3.0), "tail", superstep=1)


def test_a_worker_that_is_brought_to_a_head_it_had_passed_is_not_late() -> None:
    """N2: newcomers are exempt: others have long done the superstep in which it enters the loop."""
    member = computing()
    member.local(Died(0, member.clone().worker.life, "was killed"))
    assert given(member.head(0, asks=True, entry=True), Answer) == [Answer(0, snapshot(0, 1))]
    assert not notes(member.later(3.0), "tail")


# ------------------------------------------------------------------------- N3: drain before deadlines


def test_an_element_that_was_stopped_re_arms_its_deadlines_instead_of_reporting_a_tail() -> None:
    """N3: the seconds in which it stood still are not its worker's."""
    member = computing()
    assert not notes(member.jump(30.0), "tail")
    assert not notes(member.later(0.2), "tail")
    assert notes(member.later(0.1), "tail")


def test_an_element_that_was_stopped_does_not_die_of_bsprun_s_silence_at_once() -> None:
    """N3: it could not hear; it listens for `alone` seconds more."""
    member = Driven(0, PAIRS)
    assert not given(member.jump(60.0), Die)
    assert not given(member.later(LIMITS.alone - 0.1, bsprun=False), Die)
    assert given(member.later(0.3, bsprun=False), Die) == [Die("bsprun has not been heard")]


def test_an_element_says_for_how_long_it_has_stood_still_of_late() -> None:
    """N3: the longest of half a minute; what any loop is late by is no pause."""
    member = Driven(0, PAIRS)
    member.later(1.0)
    assert member.member.report().paused == 0.0
    for seconds in (0.5, 3.0, 1.0):
        member.jump(seconds)
        member.later(5.0)
    said = member.member.report().paused
    assert 2.8 < said <= 3.0
    member.later(20.0)
    assert 0.8 < member.member.report().paused <= 1.0
    member.later(10.0)
    assert member.member.report().paused == 0.0


def test_an_element_waits_for_bsprun_as_much_longer_as_bsprun_has_told_it() -> None:
    """N3: its own pauses do not count: bsprun says when an element that it cannot see is over (N9)."""
    member = Driven(0, PAIRS)
    member.jump(3.0)
    member.command(Orders(PAIRS, allowance=1.5))
    assert not given(member.later(LIMITS.alone + 1.4, bsprun=False), Die)
    assert given(member.later(0.2, bsprun=False), Die)


# ---------------------------------------------------------------------------------- N4: retention


def test_a_packet_is_kept_until_every_clone_of_its_destination_has_marked_it() -> None:
    """N4: packets of exchange s are dropped when every clone has mark > s."""
    member = Driven(0, PAIRS)
    member.round(0)
    member.hear(Marks(1, ((1, 1),)), 1)
    assert member.keeps(0)
    member.hear(Marks(1, ((1, 0),)), 3)
    assert member.keeps(0)
    member.hear(Marks(1, ((1, 1),)), 3)
    assert not member.keeps(0)
    assert member.clone().outbox.size == 0


def test_a_mark_inside_an_announcement_counts_like_one_said_alone() -> None:
    """N4: the announcement carries (superstep, own compute time, digests, mark)."""
    member = Driven(0, ALONE)
    member.round(0)
    assert member.keeps(0)
    member.hear(announce(1, 1, {0: packet("x")}, mark=1), 1)
    assert not member.keeps(0)


def test_marks_never_go_back() -> None:
    """N4, N14: an old mark that arrives late takes nothing back."""
    member = Driven(0, PAIRS)
    for number in range(3):
        member.round(number)
    member.hear(Marks(1, ((1, 3),)), 1)
    member.hear(Marks(1, ((1, 1),)), 1)
    member.hear(Marks(1, ((1, 2),)), 3)
    assert [member.keeps(e) for e in range(3)] == [False, False, True]


def test_only_a_view_takes_a_silent_clone_out_of_the_count() -> None:
    """N4: only views remove members."""
    member = Driven(0, PAIRS)
    member.round(0)
    member.hear(Marks(1, ((1, 1),)), 1)
    member.later(30.0)
    assert member.keeps(0)
    member.command(Orders(view([0, 2], [1], number=2)))
    assert not member.keeps(0)


def test_a_newcomer_counts_from_the_view_that_names_it() -> None:
    """N4: until a joiner says what it has, nothing for it is dropped."""
    member = Driven(0, PAIRS)
    member.round(0)
    member.command(Orders(view([0, 2], [1, (4, Role.JOINING, 2)], number=2)))
    member.hear(Marks(2, ((1, 1),)), 1)
    member.hear(Marks(2, ((1, None),)), 4)
    assert member.keeps(0)
    member.hear(Marks(2, ((1, 1),)), 4)
    assert not member.keeps(0)


def test_a_mark_said_under_a_later_view_is_not_believed_yet() -> None:
    """N4: it may be let go by siblings that count a newcomer of which we do not know."""
    member = Driven(0, ALONE)
    member.round(0)
    member.hear(Marks(2, ((1, 1),)), 1)
    assert member.keeps(0)
    member.command(Orders(view([0], [1], number=2)))
    member.hear(Marks(2, ((1, 1),)), 1)
    assert not member.keeps(0)


def said_mark(effects: list[Any]) -> int | None:
    return dict(sent(effects, Marks)[-1].marks)[0]


def test_a_mark_stays_while_a_sibling_joins_and_moves_again_when_it_is_live() -> None:
    """N4: a donor's mark stays at its snapshot until a view makes the newcomer live."""
    member = Driven(0, PAIRS)
    member.round(0)
    assert said_mark(member.later(0.2)) == 1
    member.command(Orders(view([0, (4, Role.JOINING, 2)], [1, 3], number=2)))
    member.round(1)
    assert said_mark(member.later(0.2)) == 1
    assert sent(member.submit(2, {1: packet("a")}), Announce, 1)[0].mark == 1
    member.command(Orders(view([0, (4, Role.LIVE, 2)], [1, 3], number=3)))
    assert said_mark(member.later(0.2)) == 2


def test_state_is_given_to_a_newcomer_as_soon_as_it_is_of_our_view() -> None:
    """N4: before we know of it our marks may still move; it need not ask again."""
    member = Driven(0, PAIRS)
    member.head(0)
    member.round(0)
    assert not sent(member.hear(Want(0, 2, -1), 4), Handover)
    (state,) = sent(member.command(Orders(view([0, (4, Role.JOINING, 2)], [1, 3], number=2))), Handover, 4)
    assert state.snapshot is not None
    assert (state.snapshot.head, state.complete, state.announced) == (1, 1, 1)
    assert not sent(member.hear(Want(0, 1, -1), 4), Handover)  # of another assignment


def coming() -> tuple[Driven, Handover]:
    """Element 4, which joins bundle 0, and what element 0 has for it behind one round."""
    donor = Driven(0, PAIRS)
    donor.head(0)
    donor.round(0)
    joined = view([(4, Role.JOINING, 2), 0], [1, 3], number=2)
    donor.command(Orders(joined))
    (state,) = sent(donor.hear(Want(0, 2, -1), 4), Handover)
    return Driven(4, joined), state


def test_a_newcomer_serves_what_others_may_still_ask_of_the_one_it_follows() -> None:
    """N4: retained packets move with the state, or the last copy would be lost with the donor."""
    newcomer, state = coming()
    newcomer.hear(state, 0)
    assert newcomer.keeps(0)


def refreshed() -> Driven:
    """Bundle 1's clone on element 3 had marked exchange 0, then it was given a new place in view 2."""
    member = Driven(0, PAIRS)
    member.round(0)
    member.hear(Marks(1, ((1, 1),)), 3)
    member.command(Orders(view([0, 2], [1, (3, Role.JOINING, 2)], number=2)))
    return member


def test_the_mark_of_a_refreshed_clone_is_forgotten() -> None:
    """N4: a joiner counts from the view that names it; what its predecessor had is no matter."""
    member = refreshed()
    member.hear(Marks(2, ((1, 1),)), 1)
    assert member.keeps(0)


def test_a_late_mark_of_the_clone_before_a_refresh_does_not_count() -> None:
    """N4: it was said under an earlier view, by the one who was outvoted."""
    member = Driven(0, PAIRS)
    member.round(0)
    member.command(Orders(view([0, 2], [1, (3, Role.JOINING, 2)], number=2)))
    member.hear(Marks(1, ((1, 1),)), 3)
    member.hear(Marks(2, ((1, 1),)), 1)
    assert member.keeps(0)


def test_a_slow_clone_does_not_keep_what_everybody_has_from_its_sibling() -> None:
    """N4: memory of a clone that is always a little behind must not grow with the job."""
    member = Driven(0, PAIRS)
    for number in range(50):
        for sender in (1, 3):
            member.hear(announce(1, number, {0: packet(f"theirs {number}")}, mark=number + 1), sender)
        member.submit(number, {1: packet("a" * 100)})
    assert len(member.clone().outbox.sent) <= 1
    assert member.clone().outbox.size <= 100


def test_a_newcomer_does_not_keep_what_was_dropped_before_it_came() -> None:
    """N4: the donor may not have heard the marks yet."""
    newcomer, state = coming()
    for sender in (1, 3):
        newcomer.hear(Marks(2, ((1, 1),)), sender)
    newcomer.hear(state, 0)
    for sender in (1, 3):
        newcomer.hear(Marks(2, ((1, 20),)), sender)
    assert newcomer.clone().outbox.sent == {}


def test_that_one_bundles_packet_is_gone_says_nothing_of_anothers() -> None:
    """N4: an element may host clones of both (vertical)."""
    member = Driven(0, view([0], [1, (2, Role.PASSIVE)], [2, (3, Role.PASSIVE)]))
    member.submit(0, {1: packet("a"), 2: packet("b")})
    member.hear(Gone(1, 0, 0), 2)
    member.hear(Gone(2, 0, 0), 3)
    assert member.progress().failing is None  # 1 may have bundle 1's, and 2 bundle 2's


# --------------------------------------------------------------------------------- N6: lag is no fault


def lagging(rounds: int) -> Driven:
    """An element at head 1, whose sibling 2 is so many rounds ahead."""
    member = Driven(0, PAIRS)
    member.head(0)
    member.hear(announce(0, 1 + rounds, head=1 + rounds), 2)
    member.round(0)
    return member


def test_a_clone_more_than_a_round_behind_asks_for_a_siblings_state_at_its_next_head() -> None:
    """N6: a clone over one round behind jumps at its own next loop head."""
    member = lagging(2)
    member.submit(1, {1: packet("a")})
    (delivery,) = given(member.hear(announce(1, 1, {0: packet("x")}), 1), Deliver)
    assert delivery.ask
    member.hear(announce(0, 4, head=4), 2)
    effects = member.head(2, asks=True)
    assert given(effects, SendTo) == [SendTo(2, Want(0, 1, 2))]
    assert not given(effects, Answer)


def test_a_clone_one_round_behind_goes_on_by_itself() -> None:
    """N6: one round is the difference between announcing and being delivered."""
    member = lagging(1)
    effects = member.head(1, asks=True)
    assert given(effects, Answer) == [Answer(0, None)]
    assert not sent(effects, Want)


def donated(member: Driven, head: int, since: int = 1) -> Handover:
    """The state of element 0's sibling at this head."""
    donor = Driven(2, PAIRS)
    donor.head(0)
    for number in range(head):
        donor.round(number)
    state: Handover = donor.clone().handover(since)
    return state


def test_a_laggard_goes_on_from_the_siblings_state() -> None:
    """N6: what lies between is not computed again."""
    member = lagging(4)
    member.head(1, asks=True)
    state = donated(member, 5)
    effects = member.hear(state, 2)
    assert given(effects, Answer) == [Answer(0, snapshot(0, 5))]
    assert noted(effects, "jumped", bundle=0, element=0, rounds=4)
    assert sent(member.submit(5, {1: packet("a")}), Announce, 1)[0].exchange == 5
    assert not given(effects, StartWorker)


def test_a_laggard_keeps_its_own_state_if_what_it_is_given_is_not_newer() -> None:
    """N6: it keeps its old state until the new one is there."""
    member = lagging(4)
    member.head(1, asks=True)
    effects = member.hear(donated(member, 1), 2)
    assert given(effects, Answer) == [Answer(0, None)]
    assert member.clone().states.newest.head == 1


def test_a_laggard_whose_sibling_does_not_answer_goes_on_by_itself() -> None:
    """N6: the sibling may have died; nobody waits for a particular clone."""
    member = lagging(4)
    member.head(1, asks=True)
    assert not given(member.later(0.3), Answer)
    assert given(member.later(0.2), Answer) == [Answer(0, None)]


def lagging_of_three(flipped: int | None = None, state: bytes = b"d5") -> tuple[Driven, Handover]:
    """An element at head 1 that has been offered the state of sibling 2 at head 5; what sibling 4 has said alike.

    flipped : the exchange in which it differs.   state : its digest at that head.
    """
    member = Driven(0, TRIPLES)
    member.head(0)
    member.hear(announce(1, 0, {0: packet("theirs 0")}, head=0), 3)
    member.round(0)
    for exchange in range(1, 6):
        member.hear(announce(0, exchange, head=exchange, state=b"d%d" % exchange), 2)
        digest = b"other" if exchange == flipped else b"same"
        if exchange < 5:
            member.hear(announce(0, exchange, digest=digest, head=exchange, state=b"d%d" % exchange), 4)
    assert sent(member.head(1, asks=True), Want, 2)
    offered = donated(member, 5)
    assert not given(member.hear(offered, 2), Answer)
    return member, offered


def test_a_laggard_of_three_goes_on_from_a_state_that_two_siblings_have_come_to() -> None:
    """N6, N11: as soon as the second one says so."""
    member, _ = lagging_of_three()
    assert not given(member.hear(announce(0, 5, head=5, state=b"else"), 4), Answer)
    member, _ = lagging_of_three()
    effects = member.hear(announce(0, 5, head=5, state=b"d5"), 4)
    assert given(effects, Answer) == [Answer(0, snapshot(0, 5))]
    assert noted(effects, "jumped", bundle=0, element=0, rounds=4)


def test_a_laggard_of_three_does_not_leave_out_what_it_must_judge() -> None:
    """N6, N11: it computes that, and says what came out; the next time it asks the other sibling."""
    member, _ = lagging_of_three(flipped=3)
    assert not given(member.hear(announce(0, 5, head=5, state=b"d5"), 4), Answer)
    assert given(member.later(4 * LIMITS.patience + 0.1), Answer) == [Answer(0, None)]
    effects = member.submit(1, {1: packet("a")})
    assert {s.element for s in given(effects, SendTo) if isinstance(s.message, Announce)} == {1, 2, 3, 4, 5}
    member.hear(announce(1, 1, {0: packet("x")}), 3)
    member.hear(announce(1, 1, {0: packet("x")}), 5)
    member.later(17 * LIMITS.patience)
    assert sent(member.head(2, asks=True), Want, 4)


def test_a_laggard_of_three_that_has_lost_a_sibling_need_not_wait_for_its_word() -> None:
    """N11: of two, one may serve."""
    member, offered = lagging_of_three()
    member.command(Orders(view([0, 2], [1, 3, 5], number=2)))
    assert given(member.hear(offered, 2), Answer) == [Answer(0, snapshot(0, 5))]


def test_what_comes_behind_a_siblings_state_a_clone_says_itself() -> None:
    """N11: a copy of what one has said is not a second vote."""
    member = lagging(6)
    member.head(1, asks=True)
    state = donated(member, 5)
    flipped = (5, ((1, packet("flipped")),), b"flipped")
    state = state._replace(sent=(*state.sent, flipped), announced=6, text=((0, b"early "), (6, b"late")))
    member.hear(state._replace(snapshot=replaced(state.snapshot, said=6)), 2)
    assert not sent(member.hear(Pull(0, 5, 1), 1), Data)
    assert member.clone().text.pieces == ((0, b"early "),)
    (message, *_) = sent(member.submit(5, {1: packet("right")}, digest=b"right"), Announce, 1)
    assert (message.exchange, message.digest, message.packets) == (5, b"right", ((1, packet("right")),))


def replaced(snapshot: Snapshot | None, **fields: Any) -> Snapshot:
    """The same with other fields."""
    assert snapshot is not None
    return snapshot._replace(**fields)


@pytest.mark.parametrize("alive", [True, False])
def test_a_newcomer_that_computes_other_bytes_than_its_donor_says_who_said_what(alive: bool) -> None:
    """N11: its vote is its own."""
    member = Driven(0, view([(0, Role.JOINING, 1), 2], [1, 3]))
    state = donated(member, 2)
    state = state._replace(sent=(*state.sent, (2, ((1, packet("b")),), b"theirs")), announced=3)
    member.hear(state, 2)
    if not alive:
        member.command(Orders(view([0], [1, 3], number=2)))
    effects = member.submit(2, {1: packet("a")}, digest=b"mine")
    votes = given(effects, Tell)[-1].report.divergences[0].votes
    assert votes == (((0, b"mine"), (2, b"theirs")) if alive else ((-1, b"theirs"), (0, b"mine")))


def test_a_sibling_gives_a_laggard_nothing_that_is_not_newer() -> None:
    """N6: a request names the head of the one who asks."""
    member = Driven(0, PAIRS)
    member.head(0)
    for number in range(3):
        member.round(number)
    (refusal,) = sent(member.hear(Want(0, 1, 3), 2), Handover, 2)
    assert refusal == Handover(0, 1, (), None, (), 0, 0, (), ())
    (state,) = sent(member.hear(Want(0, 1, 1), 2), Handover, 2)
    assert state.snapshot is not None and state.snapshot.head == 3


def test_a_laggard_that_is_given_nothing_goes_on_at_once() -> None:
    """N6: its sibling has gone on, and has not kept a state since."""
    member = lagging(4)
    member.head(1, asks=True)
    effects = member.hear(Handover(0, 1, (), None, (), 0, 0, (), ()), 2)
    assert given(effects, Answer) == [Answer(0, None)]
    assert member.clone().states.newest.head == 1


def asked_in_vain(member: Driven, head: int) -> list[Any]:
    """At this head it asks, and goes on by itself when nothing has come."""
    assert sent(member.head(head, asks=True), Want)
    effects = []
    while not given(effects, Answer):
        effects = member.later(0.02)
    member.submit(head, {1: packet("a")})
    member.hear(announce(1, head, {0: packet("x")}, head=head), 1)
    return effects


def test_a_laggard_waits_twice_as_long_each_time_and_rests_between() -> None:
    """N6: a state that takes long to travel is not asked for again and again."""
    member = lagging(100)
    for k in range(3):
        began = member.now
        asked_in_vain(member, 1 + 2 * k)
        waited = member.now - began
        assert 2**k * 4 * LIMITS.patience == pytest.approx(waited, abs=0.03)
        assert not sent(member.head(2 + 2 * k, asks=True), Want)
        member.submit(2 + 2 * k, {1: packet("a")})
        member.hear(announce(1, 2 + 2 * k, {0: packet("x")}, head=2 + 2 * k), 1)
        member.later(4 * waited)
    late = donated(member, 1)
    member.hear(late, 2)  # of the last request, which it has learned from
    took = member.now - began
    began = member.now
    asked_in_vain(member, 7)
    assert member.now - began == pytest.approx(2 * took, abs=0.03)


@pytest.mark.parametrize("gone", [False, True])
def test_a_donor_that_is_no_more_is_not_waited_for(gone: bool) -> None:
    """N6: a view says so, and the next one is asked at once; one that stays is not asked again for that."""
    hosts: list[Place] = [2, 5] if not gone else [5]
    newcomer = Driven(4, view([(4, Role.JOINING, 2), 2, 5], [1], number=2))
    assert sent(newcomer.started, Want, 2)
    effects = newcomer.command(Orders(view([(4, Role.JOINING, 2), *hosts], [1], number=3)))
    assert [s.element for s in given(effects, SendTo) if isinstance(s.message, Want)] == [5] * gone
    laggard = Driven(0, view([0, 2, 5], [1]))
    laggard.head(0)
    for sibling in (2, 5):
        laggard.hear(announce(0, 9, head=9), sibling)
    laggard.round(0)
    assert sent(laggard.head(1, asks=True), Want, 2)
    effects = laggard.command(Orders(view([0, *hosts], [1], number=2)))
    assert [s.element for s in given(effects, SendTo) if isinstance(s.message, Want)] == [5] * gone
    if gone:
        effects = laggard.command(Orders(view([0], [1], number=3)))
        assert given(effects, Answer) == [Answer(0, None)]


def test_whose_lag_costs_too_much_memory_is_named_to_bsprun() -> None:
    """N6: it is retired only for lack of retention memory."""
    member = Driven(0, view([0, 2], [1, 3]), Limits(retention=100))
    for number in range(4):
        member.round(number)
    member.hear(Marks(1, ((1, 4),)), 1)
    member.hear(Marks(1, ((1, 0),)), 3)
    assert member.member.report().overdue == ()
    for number in range(4, 40):
        member.round(number)
    member.hear(Marks(1, ((1, 39),)), 1)
    member.hear(Marks(1, ((0, 39),)), 2)
    assert member.member.report().overdue == ((1, 3),)


def test_who_does_not_lag_is_not_refreshed_for_memory() -> None:
    """N6: retired only for lack of memory, and only a laggard: else one large exchange refreshes one after another."""
    member = Driven(0, PAIRS, Limits(retention=100))
    member.submit(0, {1: packet("big", LARGE)})
    member.hear(Marks(1, ((1, 0),)), 1)
    member.hear(Marks(1, ((1, 0),)), 3)
    assert member.member.report().overdue == ()


# ------------------------------------------------------------------------------ N7: names validate data


def test_a_packet_is_used_only_in_the_exchange_and_for_the_bundle_that_it_names() -> None:
    """N7: others are rejected, nobody goes back."""
    member = Driven(0, ALONE)
    member.round(0)
    member.submit(1, {1: packet("a")})
    assert not given(member.hear(Data(1, 0, 0, packet("late")), 1), Deliver)  # of an exchange that is over
    assert not given(member.hear(Data(1, 2, 0, packet("early")), 1), Deliver)
    assert not given(member.hear(Data(1, 1, 1, packet("for another")), 1), Deliver)
    (delivery,) = given(member.hear(Data(1, 1, 0, packet("right")), 1), Deliver)
    assert delivery.packets[1].data == b"right"
    (delivery,) = given(member.submit(2, {1: packet("b")}), Deliver)
    assert delivery.packets[1].data == b"early"


def test_epochs_do_not_decide_about_data() -> None:
    """N7: views guard control only; bytes with the right name are right under any view."""
    member = Driven(0, ALONE)
    member.command(Orders(view([0], [1], number=7)))
    member.submit(0, {1: packet("a")})
    assert given(member.hear(announce(1, 0, {0: packet("x")}, view=3), 1), Deliver)


def test_a_state_for_an_earlier_assignment_is_refused() -> None:
    """N7: every snapshot names (bundle, assignment, superstep)."""
    member = Driven(4, view([(4, Role.JOINING, 5), 2], [1, 3], number=5))
    assert not given(member.hear(donated(member, 3, since=4), 2), StartWorker)
    assert given(member.hear(donated(member, 3, since=5), 2), StartWorker)


def test_what_an_earlier_worker_of_the_clone_says_is_not_heard() -> None:
    """N7: events name the worker; the dead one's may still be in the pipe."""
    member = Driven(0, ALONE)
    first = member.clone().worker.life
    member.local(Died(0, first, "was killed"))
    assert member.clone().worker.life == first + 1
    assert not member.submit(0, {1: packet("a")}, life=first)
    assert not member.local(Died(0, first, "was killed"))
    assert not member.local(Printed(0, first, 0, b"text"))
    assert not member.local(Ended(0, first, b"end"))
    assert not member.local(Stuck(0, first, True))
    assert not member.local(Asks(0, first, ("once", 0, 0, 0), None))
    assert not member.local(Head(0, first, True, False, snapshot(0, 0)))


# --------------------------------------------------------------------------------- N10: states at heads


def test_a_new_worker_is_brought_from_the_last_head_to_where_it_was_with_logged_deliveries() -> None:
    """N10 and the join: what came before the head is in the state, what came since is delivered again."""
    member = Driven(0, ALONE)
    member.head(0)
    for number in range(3):
        member.round(number)
    member.submit(3, {1: packet("a")})
    member.hear(announce(1, 3, {0: packet("theirs 3")}), 1)
    effects = member.local(Died(0, member.clone().worker.life, "was killed"))
    assert len(given(effects, StartWorker)) == 1
    (answer,) = given(member.head(0, asks=True, entry=True), Answer)
    assert answer.snapshot == snapshot(0, 3)
    effects = member.submit(3, {1: packet("a")})
    assert given(effects, Deliver)[0].packets[1].data == b"theirs 3"
    assert not sent(effects, Announce)  # it has been announced


def test_a_new_worker_has_caught_up_when_it_submits_what_the_one_before_it_had_announced() -> None:
    """Redundancy is back then, not when the worker is started; how much was gone through again is said."""
    member = Driven(0, ALONE)
    member.head(0)
    for number in range(3):
        member.round(number)
    for number in (3, 4):  # a round of more than one superstep
        member.submit(number, {1: packet("a")})
        member.hear(announce(1, number, {0: packet(f"theirs {number}")}), 1)
    effects = member.local(Died(0, member.clone().worker.life, "was killed"))
    # superstep 4 has ended, so that the worker died in the next one
    assert noted(effects, "relaunched", bundle=0, element=0, superstep=5, reason="was killed", attempt=1)
    effects = member.head(0, asks=True, entry=True)
    effects += member.submit(3, {1: packet("a")})
    assert not notes(effects, "caught_up")
    effects = member.local(Died(0, member.clone().worker.life, "was killed"))  # on its way
    assert noted(effects, "relaunched", superstep=3, attempt=1)
    member.head(0, asks=True, entry=True)
    member.submit(3, {1: packet("a")})
    effects = member.submit(4, {1: packet("a")})
    assert noted(effects, "caught_up", bundle=0, element=0, superstep=4, rounds=1)
    assert not notes(member.submit(5, {1: packet("a")}), "caught_up")


def test_rounds_whose_states_were_not_taken_are_gone_through_again() -> None:
    """The state is of head 1, the worker died in the round behind head 4."""
    member = Driven(0, ALONE)
    member.head(0)
    member.round(0)
    for number in (1, 2, 3):
        member.submit(number, {1: packet("a")})
        member.hear(announce(1, number, {0: packet("x")}), 1)
        place = snapshot(0, number + 1)._replace(data=None)
        member.local(Head(0, member.clone().worker.life, False, False, place))
    member.local(Died(0, member.clone().worker.life, "was killed"))
    member.head(0, asks=True, entry=True)
    for number in (1, 2):
        assert not notes(member.submit(number, {1: packet("a")}), "caught_up")
    assert noted(member.submit(3, {1: packet("a")}), "caught_up", rounds=4)


def test_heads_that_a_replay_passes_again_do_not_bring_an_older_state_back() -> None:
    """N10: a state is of a later head, or it is none."""
    member = Driven(0, ALONE)
    member.head(0)
    for number in range(3):
        member.round(number)
    member.head(1)
    assert member.clone().states.newest.head == 3


def test_a_finished_loop_is_remembered_by_its_final_state() -> None:
    """N10: leaving a loop is a head; a newcomer that comes to the loop loads its end."""
    member = Driven(0, ALONE)
    member.head(0)
    member.round(0)
    end = snapshot(0, 2, exchange=2, final=True)._replace(start=0)
    member.submit(1, {1: packet("a")})
    member.hear(announce(1, 1, {0: packet("x")}), 1)
    member.local(Head(0, member.clone().worker.life, False, False, end))
    member.local(Died(0, member.clone().worker.life, "was killed"))
    assert given(member.head(0, asks=True, entry=True), Answer) == [Answer(0, end)]
    assert member.clone().inbox.log == {}


def test_heads_that_lie_behind_the_end_of_their_loop_are_no_state() -> None:
    """N10: who is behind a sibling's state passes them too; what is handed on is the end."""
    member = Driven(0, PAIRS)
    member.head(0)
    member.round(0)
    end = snapshot(0, 2, final=True)
    member.local(Head(0, member.clone().worker.life, False, False, end))
    member.head(1)
    member.command(Orders(view([0, (4, Role.JOINING, 2)], [1, 3], number=2)))
    (state,) = sent(member.hear(Want(0, 2, -1), 4), Handover)
    assert (state.finals, state.snapshot) == ((end,), None)


def test_what_lies_outside_loops_is_delivered_again_from_the_log() -> None:
    """The log is kept for the job's life: a newcomer runs the script from the top."""
    member = Driven(0, ALONE)
    for number in range(2):
        member.submit(number, {1: packet("a")})
        member.hear(announce(1, number, {0: packet(f"theirs {number}")}), 1)
    member.local(Head(0, member.clone().worker.life, False, False, snapshot(0, 0, exchange=2)))
    member.submit(2, {1: packet("a")})
    member.hear(announce(1, 2, {0: packet("theirs 2")}), 1)
    member.local(Head(0, member.clone().worker.life, False, False, snapshot(0, 1, exchange=3)._replace(start=2)))
    assert sorted(member.clone().inbox.log) == [0, 1]
    member.local(Died(0, member.clone().worker.life, "was killed"))
    for number in range(2):
        (delivery,) = given(member.submit(number, {1: packet("a")}), Deliver)
        assert delivery.packets[1].data == f"theirs {number}".encode()


def test_a_worker_behind_a_siblings_state_is_still_given_what_leads_there() -> None:
    """N10: a passive clone at work keeps its log from where its worker stands, though a later head has come."""
    member = Driven(0, view([2, (0, Role.PASSIVE)], [1]))
    member.head(0, asks=True)
    member.hear(Tail(0, 0), 2)
    for number in range(3):
        member.hear(announce(1, number, {0: packet(f"theirs {number}")}), 1)
    assert given(member.submit(0, {1: packet("mine 0")}), Deliver)
    member.hear(Passed(donated(member, 3)), 2)
    assert member.clone().states.newest.head == 3
    (delivery,) = given(member.submit(1, {1: packet("mine 1")}), Deliver)
    assert delivery.packets == {1: packet("theirs 1")}


def test_a_state_for_a_checkpoint_is_kept_every_so_many_rounds_until_it_is_settled() -> None:
    """Second line: pinned at the head, written by whom bsprun names, once, and let go."""
    member = Driven(0, ALONE, Limits(every=2))
    member.head(0)
    for number in range(5):
        member.round(number)
    assert member.progress().pins == (2, 4)
    orders = Orders(ALONE, writes=((0, 0, 4), (1, 1, 4)))
    (write,) = given(member.command(orders), Write)
    assert (write.bundle, write.head, write.handover.snapshot) == (0, 4, snapshot(0, 4))
    assert not given(member.command(orders), Write)
    member.command(Orders(ALONE, released=4))
    assert member.progress().pins == ()


def test_a_clone_says_before_which_head_no_round_is_run_again() -> None:
    """N9: by its state, by where its worker is, and by what a checkpoint may need."""
    member = Driven(0, ALONE, Limits(every=4))
    assert member.progress().restarts == -1
    for number in range(6):
        member.round(number)
    assert (member.progress().restarts, member.progress().pins) == (4, (4,))
    member.command(Orders(ALONE, released=4))
    assert member.progress().restarts == 6
    member.local(Died(0, member.clone().worker.life, "was killed"))
    member.clone().worker.stands = 3  # at work behind a state that it was sent
    assert member.progress().restarts == 3


def test_a_newcomer_asks_its_siblings_in_turn_until_one_answers() -> None:
    """One join mechanism: a donor may die while it is asked."""
    member = Driven(4, view([(4, Role.JOINING, 2), 0, 2], [1], number=2))
    assert given(member.started, SendTo) == [SendTo(0, Want(0, 2, -1))]
    effects = member.later(15.3 * LIMITS.patience)  # 5, and 10
    assert [s.element for s in given(effects, SendTo) if isinstance(s.message, Want)] == [2, 0]
    assert not given(effects, StartWorker)
    state = donated(member, 3, since=2)
    assert given(member.hear(state, 2), StartWorker)
    assert not member.progress().joined
    member.head(0, asks=True, entry=True)
    member.submit(3, {1: packet("a")})
    assert member.progress().joined


# -------------------------------------------------------------------------------------- N11: corruption


def test_with_three_live_clones_a_packet_is_used_when_two_agree() -> None:
    """N11: nobody uses what one alone says."""
    member = Driven(0, TRIPLES)
    member.submit(0, {1: packet("a")})
    assert not given(member.hear(announce(1, 0, {0: packet("flipped")}), 1), Deliver)
    assert not given(member.hear(announce(1, 0, {0: packet("right")}), 3), Deliver)
    (delivery,) = given(member.hear(announce(1, 0, {0: packet("right")}), 5), Deliver)
    assert delivery.packets[1].data == b"right"


def test_one_clone_that_repeats_itself_does_not_agree_with_itself() -> None:
    """N11, N14: votes are counted by element."""
    member = Driven(0, TRIPLES)
    member.submit(0, {1: packet("a")})
    for _ in range(3):
        assert not given(member.hear(announce(1, 0, {0: packet("flipped")}), 1), Deliver)


def test_an_announced_digest_agrees_with_a_large_packet() -> None:
    """N11: two must say the same, one must send it."""
    member = Driven(0, TRIPLES)
    member.submit(0, {1: packet("a")})
    big = packet("big", LARGE)
    assert not given(member.hear(announce(1, 0, {0: announced(big)}), 3), Deliver)
    assert not given(member.hear(announce(1, 0, {0: announced(big)}), 5), Deliver)
    assert given(member.hear(Data(1, 0, 0, big), 1), Deliver)


def test_the_bytes_of_an_outvoted_clone_do_not_count() -> None:
    """N11: it is refreshed, and what it says until then is not used."""
    member = Driven(0, view([0], [1, 3, (5, Role.JOINING, 2)], number=2))
    member.submit(0, {1: packet("a")})
    assert not given(member.hear(announce(1, 0, {0: packet("flipped")}), 5), Deliver)
    assert not given(member.hear(Data(1, 0, 0, packet("flipped")), 5), Deliver)
    assert given(member.hear(announce(1, 0, {0: packet("right")}), 3), Deliver)[0].packets[1].data == b"right"


def test_what_one_alone_has_said_is_used_when_no_third_clone_is_left_to_agree() -> None:
    """N11: after a death two clones are left, and one may serve."""
    member = Driven(0, TRIPLES)
    member.submit(0, {1: packet("a")})
    member.hear(announce(1, 0, {0: packet("right")}), 3)
    effects = member.command(Orders(view([0, 2, 4], [3, 5], number=2)))
    assert given(effects, Deliver)[0].packets[1].data == b"right"


def test_what_an_outvoted_clone_has_said_is_struck_out_when_the_others_are_counted_again() -> None:
    """N11: consumers of its bytes do not get them through the back door of a smaller view."""
    member = Driven(0, TRIPLES)
    member.submit(0, {1: packet("a")})
    member.hear(announce(1, 0, {0: packet("flipped")}), 5)
    effects = member.command(Orders(view([0, 2, 4], [1, 3, (5, Role.JOINING, 2)], number=2)))
    assert not given(effects, Deliver)


def test_siblings_that_announce_different_digests_are_reported_with_who_said_what() -> None:
    """N11: siblings compare digests."""
    member = Driven(0, PAIRS)
    member.hear(announce(1, 0, digest=b"one"), 1)
    assert member.member.report().divergences == ()
    effects = member.hear(announce(1, 0, digest=b"other"), 3)
    (found,) = given(effects, Tell)[0].report.divergences
    assert (found.bundle, found.exchange, found.votes) == (1, 0, ((1, b"one"), (3, b"other")))


def test_an_element_compares_its_own_bytes_too() -> None:
    """N11: with two bundles the sibling is the only one who can."""
    member = Driven(0, PAIRS)
    member.submit(0, {1: packet("a")}, digest=b"mine")
    effects = member.hear(announce(0, 0, digest=b"theirs"), 2)
    assert given(effects, Tell)[0].report.divergences[0].votes == ((0, b"mine"), (2, b"theirs"))


def test_siblings_that_come_to_a_head_in_different_states_are_reported() -> None:
    """N11: digests of states are compared too: a bit that turns over there is in no packet yet."""
    member = Driven(0, TRIPLES)
    member.head(0)
    member.hear(announce(0, 0, head=0, state=b"d0"), 4)
    assert member.member.report().divergences == ()
    effects = member.hear(announce(0, 0, head=0, state=b"other"), 2)
    (found,) = given(effects, Tell)[0].report.divergences
    assert (found.bundle, found.exchange, found.votes) == (0, -1 - 0, ((0, b"d0"), (2, b"other")))


def test_the_state_of_a_clone_that_is_made_anew_is_not_compared() -> None:
    """N11: it was outvoted, and may not have heard so."""
    member = Driven(0, view([0, 4, (2, Role.JOINING, 2)], [1], number=2))
    member.head(0)
    member.hear(announce(0, 0, head=0, state=b"other"), 2)
    assert member.member.report().divergences == ()


def test_a_worker_run_again_that_computes_other_bytes_is_reported() -> None:
    """N11: what was announced cannot be taken back."""
    member = Driven(0, ALONE)
    member.submit(0, {1: packet("a")}, digest=b"first")
    member.local(Died(0, member.clone().worker.life, "was killed"))
    effects = member.submit(0, {1: packet("b")}, digest=b"again")
    assert given(effects, Tell)[0].report.divergences[0].votes == ((-1, b"again"), (0, b"first"))
    assert member.clone().outbox.sent[0][1].data == b"a"


# -------------------------------------------------------------------------------------- N12: exceptions


def test_an_exception_waits_for_what_the_siblings_say() -> None:
    """N12: it is reported, not announced."""
    member = Driven(0, PAIRS)
    effects = member.submit(0, {1: packet("a")}, digest=b"ValueError", raised=True)
    assert not sent(effects, Announce)
    assert given(effects, Tell)[0].report.clones[0].raised == (0, b"ValueError")


def test_an_exception_of_one_clone_only_is_not_the_programs_its_worker_is_run_again() -> None:
    """N12: whether the sibling has gone on before or after."""
    early, late = Driven(0, PAIRS), Driven(0, PAIRS)
    early.hear(announce(0, 0), 2)
    first = early.submit(0, {1: packet("a")}, digest=b"ValueError", raised=True)
    late.submit(0, {1: packet("a")}, digest=b"ValueError", raised=True)
    second = late.hear(announce(0, 0), 2)
    for effects in (first, second):
        assert len(given(effects, StartWorker)) == 1
        assert not sent(effects, Announce)
    assert early.progress().raised is None


@pytest.mark.parametrize("how", ["bsprun says so", "a sibling has announced it"])
def test_an_exception_of_all_live_clones_is_passed_on(how: str) -> None:
    """N12: it is the program's."""
    member = Driven(0, PAIRS)
    member.submit(0, {1: packet("a")}, digest=b"ValueError", raised=True)
    if how == "bsprun says so":
        effects = member.command(Orders(PAIRS, raised=((0, 0),)))
    else:
        effects = member.hear(announce(0, 0, digest=b"ValueError"), 2)
    assert len(sent(effects, Announce, 1)) == 1
    assert not given(effects, StartWorker)


def test_a_worker_is_run_again_three_times_in_a_superstep_then_its_element_says_why_it_cannot() -> None:
    """N12: at most 3 relaunches."""
    member = Driven(0, PAIRS)
    for _ in range(3):
        effects = member.local(Died(0, member.clone().worker.life, "was killed by signal 9"))
        assert len(given(effects, StartWorker)) == 1
    effects = member.local(Died(0, member.clone().worker.life, "was killed by signal 9"))
    assert not given(effects, StartWorker)
    assert given(effects, StopWorker) == [StopWorker(0)]
    assert member.progress().failing == "its worker was killed by signal 9, 4 times in superstep 0"
    assert not member.progress().stale


def test_relaunches_are_counted_by_superstep() -> None:
    """N12: a job of a month may lose more than 3 workers."""
    member = Driven(0, ALONE)
    member.head(0)
    for number in range(8):
        member.local(Died(0, member.clone().worker.life, "was killed"))
        member.head(0, asks=True, entry=True)
        member.round(number)
    assert member.progress().failing is None
    assert len(member.clone().relaunched) <= 1  # and remember none of them


def test_relaunches_are_counted_by_superstep_without_loops_too() -> None:
    """N12: there are no heads at which to forget."""
    member = Driven(0, ALONE)
    for number in range(8):
        for again in range(number + 1):
            member.submit(again, {1: packet("a")})
            member.hear(announce(1, again, {0: packet("x")}), 1)
        member.local(Died(0, member.clone().worker.life, "was killed"))
    assert member.progress().failing is None


def test_a_worker_that_is_stopped_is_run_again() -> None:
    """A hang of user code is a local event."""
    member = Driven(0, PAIRS)
    effects = member.local(Stuck(0, member.clone().worker.life, True))
    assert len(given(effects, StartWorker)) == 1


def test_an_idle_worker_hangs_only_if_a_sibling_has_gone_on() -> None:
    """N5: all clones late, for the same reason: they are waited for."""
    member = Driven(0, PAIRS)
    assert not given(member.local(Stuck(0, member.clone().worker.life, False)), StartWorker)
    member.hear(announce(0, 0), 2)
    assert given(member.local(Stuck(0, member.clone().worker.life, False)), StartWorker)


def test_a_worker_that_waits_for_others_is_not_stuck() -> None:
    """N2: the others' time is not its own."""
    member = Driven(0, PAIRS)
    member.hear(announce(0, 0), 2)
    member.submit(0, {1: packet("a")})
    assert not given(member.local(Stuck(0, member.clone().worker.life, True)), StartWorker)


# ------------------------------------------------------------------------------ N13: agreeing on a head


def held(target: int | None = None) -> Orders:
    return Orders(PAIRS, hold=Hold(1, target))


def at_head(member: Driven, number: int) -> list[Any]:
    """A round that ends at this head, where the worker asks if it was told to."""
    member.submit(number - 1, {1: packet("a")})
    (delivery,) = given(member.hear(announce(1, number - 1, {0: packet("x")}), 1), Deliver)
    return member.head(number, asks=delivery.ask)


def test_under_a_hold_a_worker_stops_at_its_next_head_and_names_it() -> None:
    """N13: each element names its next head and holds there."""
    member = Driven(0, PAIRS)
    member.head(0)
    at_head(member, 1)
    member.command(held())
    effects = at_head(member, 2)
    assert not given(effects, Answer)
    assert given(effects, Tell)[-1].report.clones[0].held == 2


def test_a_held_worker_goes_on_to_the_head_that_bsprun_answers() -> None:
    """N13: bsprun answers the largest."""
    member = Driven(0, PAIRS)
    member.head(0)
    member.command(held())
    at_head(member, 1)
    assert given(member.command(held(3)), Answer) == [Answer(0, None)]
    assert given(at_head(member, 2), Answer) == [Answer(0, None)]
    assert member.progress().held is None
    effects = at_head(member, 3)
    assert not given(effects, Answer)
    assert (member.progress().held, member.progress().pins) == (3, (3,))


def test_a_worker_held_where_all_stop_stays_and_keeps_its_state_for_the_checkpoint() -> None:
    """N13: a hold is a checkpoint of one head."""
    member = Driven(0, PAIRS)
    member.head(0)
    member.command(held())
    at_head(member, 1)
    effects = member.command(held(1))
    assert not given(effects, Answer)
    assert given(effects, Tell)[-1].report.clones[0].pins == (1,)
    assert not given(member.later(1.0), Answer)


def test_without_a_hold_nobody_is_asked_to_stop() -> None:
    """N13: a head costs nothing when nobody wants anything of it."""
    member = Driven(0, PAIRS)
    member.submit(0, {1: packet("a")})
    assert not given(member.hear(announce(1, 0, {0: packet("x")}), 1), Deliver)[0].ask


def test_a_hold_at_the_entry_of_a_loop_keeps_a_state_or_goes_on_to_a_head_that_has_one() -> None:
    """N13: a hold that is never answered with a checkpoint never ends."""
    member = Driven(0, PAIRS)
    effects = member.command(held())
    effects += member.head(0, asks=True, entry=True)
    effects += member.command(held(0))
    assert member.progress().pins == (0,) or given(effects, Answer) == [Answer(0, None)]


def test_who_waits_in_an_exchange_under_a_hold_names_its_next_head() -> None:
    """N13: what it waits for may be held at the head before; then nobody would move again."""
    member = Driven(0, PAIRS)
    member.head(0)
    member.submit(0, {1: packet("a")})
    member.command(held())
    assert member.progress().held == 1


def test_a_held_state_that_is_settled_is_not_kept_again() -> None:
    """N13: the checkpoint of the hold is out."""
    member = Driven(0, PAIRS)
    member.head(0)
    member.command(held())
    at_head(member, 1)
    member.command(held(1))
    member.command(Orders(PAIRS, hold=Hold(1, 1), released=1))
    assert member.progress().pins == ()


# --------------------------------------------------------------- N14, N8, N9: state, repeated; the end


def deliveries(times: int) -> tuple[list[Any], Any]:
    """What an element does when each message comes so many times."""
    member = Driven(0, TRIPLES)
    effects: list[Any] = []
    for number in range(4):
        for _ in range(times):
            effects += member.hear(announce(1, number, {0: packet(f"x{number}")}, head=number), 1)
        effects += member.submit(number, {1: packet(f"mine {number}")})
        for sender in (3, 5):
            for _ in range(times):
                message = announce(1, number, {0: packet(f"x{number}")}, head=number, mark=number)
                effects += member.hear(message, sender)
                effects += member.hear(Data(1, number, 0, packet(f"x{number}")), sender)
        for _ in range(times):
            effects += member.hear(Marks(1, ((1, number),)), 1)
            effects += member.command(Orders(TRIPLES))
        effects += member.head(number)
    return given(effects, Deliver), (
        given(effects, StartWorker),
        sorted(member.clone().outbox.sent),
        member.member.report(),
    )


def test_repeated_messages_and_orders_change_nothing() -> None:
    """N14: what is said twice is done once."""
    assert deliveries(3) == deliveries(1)
    assert len(deliveries(1)[0]) == 4


def test_a_newcomer_waits_since_it_was_told_to_join() -> None:
    """Not since its machine was switched on."""
    member = Driven(4, view([0], [1, 3], standbys=[4]))
    member.later(5.0)
    member.command(Orders(view([0], [1, 3, (4, Role.JOINING, 2)], number=2)))
    member.later(0.2)
    (clone,) = member.member.report().clones
    assert clone.seconds == pytest.approx(0.2)


def test_reports_are_repeated_and_say_the_same() -> None:
    """N14: re-sent until acknowledged: the state goes again with every beat; only the time that it has lasted grows."""
    member = Driven(0, PAIRS)
    member.submit(0, {1: packet("a")})
    reports = [tell.report for tell in given(member.later(1.0), Tell)]
    assert len(reports) >= 9
    assert [report.number for report in reports] == sorted({report.number for report in reports})
    waited = [report.clones[0].seconds for report in reports]
    assert waited == sorted(set(waited))
    last = member.member.report()

    def timeless(report: AgentReport) -> AgentReport:
        return replace(report, number=0, clones=tuple(clone._replace(seconds=0.0) for clone in report.clones))

    assert {timeless(report) for report in reports} == {timeless(last)}


def test_settled_differences_are_not_reported_for_ever() -> None:
    """N14 says the state, not the history."""
    member = Driven(0, TRIPLES)
    for number in range(400):
        for sender, digest in ((1, b"flipped"), (3, b"right"), (5, b"right")):
            member.hear(announce(1, number, digest=digest if number < 100 else b"right"), sender)
    assert len(member.member.report().divergences) < 100


def test_an_older_view_is_not_adopted() -> None:
    """Views are numbered, the larger number holds."""
    member = Driven(0, view([0], [1], number=2))
    assert not member.command(Orders(view([2], [1], number=1)))
    assert member.member.view.number == 2


def test_older_orders_are_not_obeyed() -> None:
    """N14: orders are numbered, the larger number holds: those that come late say nothing any more."""
    member = Driven(0, PAIRS)
    member.head(0)
    member.command(replace(held(), number=5))
    assert not member.command(Orders(PAIRS, number=4))
    assert not given(at_head(member, 1), Answer)
    assert member.progress().held == 1


def test_an_element_that_is_not_in_the_view_dies() -> None:
    """Only views remove members, and the one removed learns it from them."""
    member = Driven(0, PAIRS)
    assert given(member.command(Orders(view([2], [1, 3], number=2))), Die) == [Die("declared dead")]
    assert not member.later(1.0)


def test_signs_of_life_that_are_far_apart_are_no_jumps_of_the_clock() -> None:
    """N2, N3: one of 128 elements speaks every 1.3 s and looks at its clock when something is due; it is judged."""
    member = computing(least=0.2, limits=replace(LIMITS, beat=1.28, alone=6.4))
    when: dict[str, float] = {}
    while "death" not in when and member.now < 20.0:
        member.now = max(member.member.deadline(), member.now + 0.001)
        effects = member.member.tick(member.now)
        when |= {"tail": member.now} if notes(effects, "tail") else {}
        when |= {"death": member.now} if given(effects, Die) else {}
    assert when == {"tail": pytest.approx(5 * 0.2, abs=0.01), "death": pytest.approx(6.4, abs=1.3)}


def test_an_element_that_bsprun_does_not_reach_dies() -> None:
    """An element that has not heard bsprun for `alone` seconds kills itself; nothing is done after that."""
    member = Driven(0, PAIRS)
    assert not given(member.later(LIMITS.alone - 0.1, bsprun=False), Die)
    assert given(member.later(0.2, bsprun=False), Die)
    assert not member.submit(0, {1: packet("a")})
    assert not member.command(Orders(PAIRS))


def test_a_standby_lives_while_bsprun_is_heard_and_begins_nothing() -> None:
    """A standby is an element without clones."""
    member = Driven(4, view([0, 2], [1, 3], standbys=[4]))
    effects = member.later(20.0)
    assert not given(effects, Die) + given(effects, StartWorker)


def test_an_ended_clone_goes_on_serving_until_bsprun_says_that_all_is_over() -> None:
    """N8: the end comes in two steps."""
    member = Driven(0, PAIRS)
    member.round(0)
    effects = member.local(Ended(0, member.clone().worker.life, b"result"))
    assert given(effects, Tell)[0].report.clones[0].ended == b"result"
    assert not given(member.later(10.0), Leave)
    assert member.keeps(0)
    assert given(member.command(Orders(PAIRS, end=True)), Leave) == [Leave()]
    assert not member.hear(Pull(0, 0, 1), 1)


def test_what_a_sibling_wrote_before_it_gave_its_state_must_be_printed_before_a_newcomer_counts_as_ended() -> None:
    """N8, N9: its own worker may write no byte more, and the sibling may be gone (simulator, orphaned 9011)."""
    newcomer = Driven(0, view([2, (0, Role.JOINING)], [1]))
    state = donated(newcomer, 3)
    newcomer.hear(state._replace(snapshot=replaced(state.snapshot, said=60), text=((40, b"x" * 20),)), 2)
    assert newcomer.progress().said == 60


def test_text_is_said_again_until_bsprun_has_it() -> None:
    """N9: text goes to bsprun as (offset, bytes) from every clone, and stays here until it is printed."""
    member = Driven(0, PAIRS)
    assert given(member.local(Printed(0, member.clone().worker.life, 0, b"abc")), Say) == [Say(0, b"abc", 1)]
    member.local(Printed(0, member.clone().worker.life, 3, b"def"))
    assert not given(member.later(0.1), Say), "it has only just been said"
    member.local(Printed(0, member.clone().worker.life, 6, b"ghi"))
    assert given(member.later(0.1), Say) == [Say(0, b"abcdef", 1)]
    assert given(member.later(0.1), Say) == [Say(0, b"abcdefghi", 1)]
    member.command(Orders(PAIRS, printed=3))
    assert given(member.later(0.1), Say) == [Say(3, b"defghi", 1)]
    member.command(Orders(PAIRS, printed=9))
    assert not given(member.later(0.1), Say)
    assert member.progress().said == 9


def test_of_much_text_that_waits_some_is_said_again_at_a_time() -> None:
    """One part after the other; what has the same place is not there twice."""
    text, lines = UnconfirmedText(), [(k << 10, b"%1024d" % k) for k in range(3000)]
    for line in lines[1:]:
        text.add(line)
    text.inherit(lines[:2])
    assert text.overdue() == [(0, lines[0][1])]
    assert text.pieces == tuple(lines)
    (piece,) = text.overdue()
    assert piece == (0, b"".join(data for _, data in lines[:1024]))
    assert text.overdue() == [(1 << 20, b"".join(data for _, data in lines[1024:2048]))]
    text.confirm((1 << 20) + 5)
    assert text.overdue() == [(2 << 20, b"".join(data for _, data in lines[2048:]))]
    assert text.overdue() == [(1 << 20, b"".join(data for _, data in lines[1024:2048]))]


def test_leave_to_call_is_given_to_a_worker_once_and_its_value_is_passed_on() -> None:
    """N9: replies are repeated, calls are not."""
    member, token = Driven(0, PAIRS), ("once", 0, 1, 0)
    life = member.clone().worker.life
    member.local(Asks(0, life, token, None))
    assert member.progress().once == (token, life, None)
    assert given(member.member.reply(0.0, Once(0, token, None)), Once) == [Once(0, token, None)]
    assert not member.member.reply(0.0, Once(0, token, None))
    member.local(Asks(0, life, token, b"value"))
    assert not member.member.reply(0.0, Once(0, token, None))
    assert member.member.reply(0.0, Once(0, token, b"value")) == [Once(0, token, b"value")]
    assert not member.member.reply(0.0, Once(0, token, b"value"))
    assert member.progress().once is None


def test_leave_to_call_is_given_again_to_the_next_worker() -> None:
    """N9: at least once: the one that had leave is dead."""
    member, token = Driven(0, PAIRS), ("once", 0, 1, 0)
    member.local(Asks(0, member.clone().worker.life, token, None))
    member.member.reply(0.0, Once(0, token, None))
    member.local(Died(0, member.clone().worker.life, "was killed"))
    assert member.progress().once is None
    member.local(Asks(0, member.clone().worker.life, token, None))
    assert member.member.reply(0.0, Once(0, token, None)) == [Once(0, token, None)]


def calling() -> tuple[Driven, tuple[str, int, int, int]]:
    """An element whose worker makes a call, and the call; bsprun has acknowledged its report of second 0."""
    member, token = Driven(0, PAIRS), ("once", 0, 1, 0)
    member.local(Asks(0, member.clone().worker.life, token, None))
    member.command(Orders(PAIRS, heard=((0, member.member.report().number),)))
    assert given(member.member.reply(0.0, Once(0, token, None)), Once)
    assert member.progress().calls
    return member, token


def test_a_lease_runs_from_the_time_of_the_newest_report_that_bsprun_has_acknowledged() -> None:
    """N9: what is heard may have been long on its way, and bsprun may hear nothing of who hears it."""
    member, _ = calling()
    assert not given(member.later(LIMITS.alone - 0.01), StartWorker)  # bsprun is heard all the time
    assert given(member.later(0.03), StartWorker)
    member, _ = calling()
    member.later(3.0)
    number = member.member.report().number
    member.command(Orders(PAIRS, heard=((2, 10**6), (0, number))))
    assert not given(member.later(LIMITS.alone - 0.1), StartWorker)
    assert given(member.later(0.2), StartWorker)


def test_the_time_in_which_an_element_stood_still_counts_for_its_lease() -> None:
    """N9, N3: bsprun may have given the call to another meanwhile."""
    member, _ = calling()
    assert given(member.jump(LIMITS.alone + 0.1), StartWorker)


def test_permission_that_comes_when_the_lease_has_run_out_is_not_passed_on() -> None:
    """N9: it may have been on its way for longer than bsprun has waited."""
    member, token = Driven(0, PAIRS), ("once", 0, 1, 0)
    member.local(Asks(0, member.clone().worker.life, token, None))
    member.later(LIMITS.alone + 0.1)
    assert not member.member.reply(member.now, Once(0, token, None))
    member.command(Orders(PAIRS, heard=((0, member.member.report().number),)))
    assert given(member.member.reply(member.now, Once(0, token, None)), Once)


def test_a_worker_in_a_call_is_given_the_value_when_the_call_has_returned() -> None:
    """N9: it reads no answer before, and would take it for that to something else."""
    member, token = calling()
    value = Once(0, token, b"another's")
    assert not member.member.reply(0.0, value)
    member.local(Asks(0, member.clone().worker.life, token, b"its own"))
    assert member.member.reply(0.0, value) == [value]


def test_a_value_to_be_kept_is_confirmed_and_told_to_the_next_bsprun_and_not_passed_on() -> None:
    """N16: also while the clone's worker waits for it."""
    member, token = Driven(0, PAIRS), ("once", 0, 1, 0)
    member.local(Asks(0, member.clone().worker.life, token, None))
    effects = member.member.reply(0.0, Once(0, token, b"v", keep=True))
    assert not given(effects, Once)
    assert given(effects, Tell)[0].report.kept == (token,)
    assert member.member.estate()[1] == ((token, b"v"),)
    assert given(member.member.reply(0.0, Once(0, token, b"v")), Once)


def test_a_worker_on_its_way_to_a_state_that_the_clone_has_already_asks_for_no_other() -> None:
    """N6: behind a loop that was left early each new worker comes to the last head in it."""
    member = lagging(4)
    member.head(1, asks=True)
    there = donated(member, 5)
    later = there.snapshot._replace(loop=1)  # type: ignore[union-attr]
    assert given(member.hear(there._replace(snapshot=later), 2), StartWorker)
    member.now += 1.0
    effects = member.head(1, asks=True)
    assert given(effects, Answer) == [Answer(0, None)]
    assert not sent(effects, Want)


def test_what_is_kept_by_nobody_is_reported_as_curable_by_a_siblings_state() -> None:
    """N4, N6: the clone does not wait for ever."""
    member = Driven(0, PAIRS)
    member.submit(0, {1: packet("a")})
    member.hear(Gone(1, 0, 0), 1)
    assert member.progress().failing is None
    member.hear(Gone(1, 0, 0), 3)
    assert member.progress().stale
    assert member.progress().failing == "exchange 0 of bundle 1 is kept by nobody"


def test_a_refreshed_clone_gets_a_new_worker_and_asks_for_a_state() -> None:
    """A place in a view with a new `since` is a new clone, on the same element too."""
    member = Driven(0, PAIRS)
    effects = member.command(Orders(view([(0, Role.JOINING, 2), 2], [1, 3], number=2)))
    assert given(effects, StopWorker) == [StopWorker(0)]
    assert sent(effects, Want, 2) == [Want(0, 2, -1)]
    assert not given(effects, StartWorker)


def test_a_passive_clone_follows_its_siblings_states_without_computing() -> None:
    """Vertical = passive: the host keeps a paused joiner."""
    live = Driven(2, view([2, (0, Role.PASSIVE)], [1]))
    passive = Driven(0, view([2, (0, Role.PASSIVE)], [1]))
    live.head(0)
    passive.head(0, asks=True)
    for number in range(3):
        (state,) = sent(live.round(number), Passed, 0)
        passive.hear(announce(1, number, {0: packet(f"theirs {number}")}), 1)
        passive.hear(state, 2)
    assert passive.clone().states.newest.head == 3
    assert passive.clone().inbox.complete == 3
    (answer,) = given(passive.hear(Tail(0, 3), 2), Answer)
    assert answer.snapshot is not None and answer.snapshot.head == 3


def test_the_last_clone_of_a_bundle_is_the_passive_one() -> None:
    """A view that makes a passive clone live sets it to work."""
    member = Driven(0, view([2, (0, Role.PASSIVE)], [1]))
    member.head(0, asks=True)
    effects = member.command(Orders(view([(0, Role.LIVE)], [1], number=2)))
    assert given(effects, Answer) == [Answer(0, None)]
    assert noted(effects, "promoted", bundle=0, element=0, was="passive")


def test_a_resumed_element_reads_its_state_before_it_starts() -> None:
    """Second line: resume is a join whose donor is a file."""
    member = Driven(0, ALONE, resuming=True)
    assert given(member.started, Read) == [Read(0, 1)]
    assert not given(member.started, StartWorker)
    state = donated(member, 3)
    member.now = 9.0
    assert given(member.local(state), StartWorker)
    assert member.clone().request._travel == 0.0  # nobody was asked for it


def test_a_resumed_element_that_hears_of_a_later_view_first_reads_its_state_too() -> None:
    """Resume: an element that died at the start has moved the view before others have heard of it."""
    member = Driven(0, view([0], [1], number=2), resuming=True)
    assert given(member.started, Read) == [Read(0, 1)]
    assert not given(member.started, StartWorker)
