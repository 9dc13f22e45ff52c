"""The element's side of the protocol of cloned execution: a state machine without I/O.

An element hosts clones of bundles (groups of processes).  All clones of a program take part in one sequence of
numbered exchanges.  `Member` holds the state and makes the decisions of one element's agent; `Arbiter` (arbiter.py)
does so for bsprun.  `receive(now, event)` returns effects and performs none: no clock, no randomness, no network.  The
engine and the simulator drive these same objects.  Parts of the state have modules of their own: the clones with their
phases (clones/), computing times (clones/min_time.py, N2), the marks of all clones (retention.py, N4), who is believed
when clones differ (clones/votes.py, N11).

Theory of operation (McColl 2022, section 1.8).  Clones of a bundle compute the same bytes.  A clone therefore takes
a packet from whichever sibling sends it first and never depends on one particular sender.  What a clone sent is
retained until every clone of the receiving bundle has it.  What it received is kept since the last head (the start
of a round).  A clone can therefore be made again at any time: by its own agent, from the last state and the packets
received since, or from a sibling's state.  While each bundle has one clone with complete state the program
continues, and the other bundles compute nothing twice.  Safety does not depend on timing: a late or repeated packet
carries the bytes that its name identifies.

N1  The first copy to arrive is used.  An announcement carries the small packets.  A large packet is sent by one live
    clone, designated by the receiver's column.  The receiver asks those that have announced it after `grace`,
    and every clone that should have it after `patience`.
N2  A clone is judged by its own clock.  A tail is a computation that, as the clone itself reports, takes longer than
    T * max(MinTime, floor).  A tail activates passive siblings and has no other effect.  An element is fenced for
    silence, or because a clone cannot continue on it, but never for being late (bsprun's part).
N3  After a jump of its own clock an element handles its inbox and re-arms its deadlines before it judges anything.
    It reports its longest recent pause; limits of silence grow with the longest of these pauses (bsprun's part).
N4  A packet is dropped when every clone of its destination in the view has a mark beyond it.  A mark sent under a
    later view than ours is ignored for now.  While a sibling joins, a clone's mark does not move.
N5  The last holder of a bundle's state is never fenced or refreshed (bsprun's part).
N6  A clone more than a round behind takes a sibling's state at its own next head and skips the rounds between.  With
    three live clones it skips only exchanges in which two of its siblings agree.  It spends at most a fifth of its
    time waiting for such states, and waits longer after each failed attempt, because large states travel slowly.
N7  Names validate data; views guard control only.
N8  Ended clones continue to serve packets until bsprun ends the job.
N9  The right to an effect passes to another clone only after its holder's confirmed death, or when the holder's lease
    has certainly run out (bsprun's part).  A lease runs from the time of the newest report that bsprun has
    acknowledged, whatever is heard since and whether or not the element stood still; then calls that are being made
    end, and no permission is passed on.  Clocks may run apart by a tenth: see lease.py.
N10 States are taken at heads, which are the same superstep on all processes.
N11 Digests of siblings are compared.  With three live clones a packet is used when two of them agree, so that no
    clone's bytes are used on its word alone.  With two, a difference stops the job by name (bsprun's part).
N12 An exception belongs to the program when all live clones raise it (of three, one may be outvoted).  Otherwise
    the worker that raised it is run again, at most 3 times.
N13 A hold stops every clone at its next head, then all clones at the latest of these heads.  Once a clone has ended,
    the hold is cancelled.
N14 Elements and bsprun send each other state, repeatedly.
N15 An element that is to leave keeps its clones until others have joined in their places (bsprun's part).
N16 Without word from bsprun an element goes on, up to where it needs it, and keeps what another bsprun must know: its
    latest orders, values of proc.once, text that has not been written, and which call its worker makes.  A value is
    acted on only when two elements in different failure domains keep it.  Orders with smaller numbers are ignored.
N17 Clones of a bundle stand in different failure domains where that is possible: at the start (domains.py), and when a
    newcomer or a standby takes places (bsprun's part).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bsp.faults.protocol.clones.clone import CatchingUp, Clone
from bsp.faults.protocol.clones.min_time import Pace
from bsp.faults.protocol.clones.once_values import OnceValues
from bsp.faults.protocol.clones.phases import ClonePhase
from bsp.faults.protocol.clones.votes import Votes, votes_needed
from bsp.faults.protocol.lease import Lease
from bsp.faults.protocol.messages import (
    AgentReport,
    Announce,
    Answer,
    Asks,
    BundlePacket,
    Data,
    Deliver,
    Die,
    Died,
    Ended,
    Gone,
    Handover,
    Head,
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
    Token,
    View,
    Want,
    Write,
    Wrote,
)
from bsp.faults.protocol.pauses import Pauses
from bsp.faults.protocol.retention import Retention

_AFTER = 1e-6  # seconds after the end of a lease at which it has certainly ended
_LATELY = 8  # values that a report confirms
_JUMP = 0.5  # seconds: a tick later than this, or than half of `alone` if that is less, is a jump of the clock


class Member:
    """The protocol state of one element: its clones, and what other elements and bsprun have reported to it."""

    def __init__(self, element: int, bundles: int, limits: Limits, resuming: bool = False) -> None:
        """Create the state of element `element` in a job of `bundles` bundles.

        resuming : whether the clones of the first view start from a checkpoint, not from the program's beginning.
        """
        self.element = element
        self.bundles = bundles
        self.limits = limits
        self.view = View(0, (), ())
        self.clones: dict[int, Clone] = {}
        self._resuming = resuming
        self._orders: Orders | None = None
        self._effects: list[Any] = []
        self._now = 0.0
        self._ticked = False  # whether `tick` has been called: the first call cannot be late
        self._pauses = Pauses()
        self._heard_bsprun: float | None = None  # time of bsprun's latest orders; None before the first
        self._lease = Lease()
        self._kept = OnceValues()  # for a bsprun that takes over
        self._lately: tuple[Token, ...] = ()  # the latest of these
        self._beat_at = 0.0  # time of the next sign of life
        self._deadline = 0.0
        self._retention = Retention()
        self._heads: dict[tuple[int, int], int] = {}  # latest head by (bundle, element), from announcements
        self._votes = Votes(bundles)
        self._pace = Pace(bundles, limits)
        self._parts: dict[tuple[int, int], Any] = {}  # parts of checkpoints by (bundle, head); None until written
        self._lives = self._reports = 0  # counters: workers started, reports made
        self._early: dict[tuple[int, int], Want] = {}  # requests under a view later than ours, by (bundle, element)
        self._over = False  # the element has left the job; all further events are ignored
        self._handlers: dict[type, Callable[..., None]] = {
            Announce: self._announce, Data: self._data, Pull: self._pull, Gone: self._gone, Marks: self._take_marks,
            Want: self._want, Handover: self._handover, Passed: self._passed, Tail: self._tail,
            Submitted: self._submitted, Head: self._head, Ended: self._ended, Died: self._died, Stuck: self._stuck,
            Wrote: self._wrote, Printed: self._printed, Asks: self._asks,
        }  # fmt: skip

    # ---------------------------------------------------------------------------- events

    def receive(self, now: float, event: Any, sender: int = -1) -> list[Any]:
        """Handle an event and return its effects.

        event : an event of this element's own workers if `sender` is -1, else a message from element `sender`.
        """
        self._now = now
        if not self._over:
            handler = self._handlers[type(event)]
            if sender < 0:
                handler(event)
            else:
                handler(event, sender)
        effects, self._effects = self._effects, []
        return effects

    def command(self, now: float, orders: Orders) -> list[Any]:
        """Handle bsprun's orders, which are its whole state each time (N14); return the effects."""
        self._now = now
        self._lease.begin(now)
        self._heard_bsprun = now
        newest = self._orders.number if self._orders is not None else 0
        if not self._over and not 0 < orders.number < newest:
            self._obey(orders)
        effects, self._effects = self._effects, []
        return effects

    def deadline(self) -> float:
        """Return the time at which `tick` is due."""
        return self._deadline

    def tick(self, now: float) -> list[Any]:
        """Handle the passing of time and return the effects: overdue requests, tails, signs of life.

        The caller must have handled the whole inbox first: after a jump of the clock, messages that came meanwhile must
        count before any deadline does (N3).
        """
        late = now - self._deadline if self._ticked else 0.0
        jumped = late > min(_JUMP, self.limits.alone / 2)
        self._pauses.note(now, late)
        self._now, self._ticked = now, True
        self._lease.begin(now)
        if not self._over:
            if jumped and self._heard_bsprun is not None:
                self._heard_bsprun = now
            alone = 0.0 if self._heard_bsprun is None else now - self._heard_bsprun
            if alone > max(self._may_be_alone(), self.limits.orphan):
                self._over = True
                self._do(Die("bsprun has not been heard"))
            else:
                if not self._has_lease():
                    self._lapse()
                for clone in list(self.clones.values()):
                    self._check(clone, jumped)
                if now >= self._beat_at:
                    self._beat_at = now + self.limits.beat
                    self._say_marks()
                    self._report()
                    for clone in self.clones.values():
                        for offset, data in clone.text.overdue():
                            self._do(Say(offset, data, clone.since))
                self._plan_tick()
        effects, self._effects = self._effects, []
        return effects

    def _lapse(self) -> None:
        """End workers that make calls, because bsprun may have permitted others to make them (N9).

        Everything else goes on up to where it needs bsprun, which another one may become (N16).
        """
        for clone in self.clones.values():
            if _makes_a_call(clone):
                clone.granted = None
                self._relaunch(clone, "was in a call of proc.once when bsprun was lost")

    def _has_lease(self) -> bool:
        """Return whether permissions that bsprun gave hold."""
        return self._now <= self._lease.end(self._may_be_alone())

    def estate(self) -> tuple[Orders | None, tuple[tuple[Token, bytes], ...]]:
        """Return the newest orders and all values of proc.once and proc.time, for a bsprun that takes over (N16)."""
        values = {**self._kept}
        for clone in self.clones.values():
            values |= clone.values
        return self._orders, tuple(values.items())

    def _may_be_alone(self) -> float:
        """Return the length of this element's lease in seconds.

        Only bsprun's own allowance counts here, because bsprun computes from it when the element is certainly over
        (N9).
        """
        return self.limits.alone + (self._orders.allowance if self._orders is not None else 0.0)

    def _do(self, effect: Any) -> None:
        """Add an effect to those that the current call returns."""
        self._effects.append(effect)

    def _plan_tick(self) -> None:
        """Set the deadline to the next time at which something may be overdue."""
        due = self._beat_at
        for clone in self.clones.values():
            for when in (clone.pull_at, clone.request.due):
                if when is not None and when < due:
                    due = when
            late = self._pace.late_at(clone)
            if late is not None and late < due:
                due = late
            if _makes_a_call(clone) and self._has_lease():
                due = min(due, self._lease.end(self._may_be_alone()) + _AFTER)
        self._deadline = max(due, self._now)

    def _sooner(self, when: float) -> None:
        """Make the deadline `when` if that is earlier."""
        if when < self._deadline:
            self._deadline = when

    # ------------------------------------------------------------------ views and orders of bsprun

    def _obey(self, orders: Orders) -> None:
        """Act on orders: the end, a view, confirmed text, settled checkpoints and exceptions, parts to write."""
        self._orders = orders
        for element, number in orders.heard:
            if element == self.element:
                self._lease.acknowledge(number)
        self._kept.settle(orders.settled, orders.repeats)
        if orders.end:
            self._over = True
            self._do(Leave())
            return
        if orders.view.number > self.view.number:
            self._adopt(orders.view)
            if self._over:
                return
        for clone in self.clones.values():
            clone.values.settle(orders.settled, orders.repeats)
            clone.text.confirm(orders.printed)
            for head in [head for head in clone.states.pins if head <= orders.released]:
                del clone.states.pins[head]
            for key in [key for key in self._parts if key[1] <= orders.released]:
                del self._parts[key]
            if clone.worker.asking is not None:
                self._answer(clone)
            if clone.phase is ClonePhase.RAISED:
                self._settle_raised(clone)
        for bundle, element, head in orders.writes:
            mine = self.clones.get(bundle)
            if element == self.element and mine is not None and head in mine.states.pins:
                self._write(bundle, head, mine)

    def _write(self, bundle: int, head: int, clone: Clone) -> None:
        """Start writing a part of a checkpoint, once."""
        if (bundle, head) not in self._parts:
            self._parts[bundle, head] = None
            self._do(Write(bundle, head, clone.states.pins[head]))

    def _adopt(self, view: View) -> None:
        """Adopt a new view: start and remove clones, change roles, and re-examine all that depends on the view."""
        if self.element not in view.elements():
            self._over = True
            self._do(Die("declared dead"))
            return
        self.view = view
        self._retention.adopt(view)
        hosts = {(bundle, host.element): host for bundle, some in enumerate(view.hosts) for host in some}
        self._heads = {key: head for key, head in self._heads.items() if key in hosts}
        for bundle in list(self.clones):
            host = hosts.get((bundle, self.element))
            # a new `since` means that bsprun has the clone made anew, although it stays on this element
            if host is None or host.since != self.clones[bundle].since:
                self._do(StopWorker(bundle))
                del self.clones[bundle]
        for (bundle, element), host in hosts.items():
            if element != self.element:
                continue
            clone = self.clones.get(bundle)
            if clone is None:
                self._begin(bundle, host.role, host.since)
            elif clone.role is not host.role:
                if clone.role is Role.PASSIVE and host.role is Role.LIVE:
                    self._note("promoted", bundle=bundle, element=self.element, was="passive")
                clone.role = host.role
                if clone.worker.asking is not None:
                    self._answer(clone)
        early, self._early = self._early, {}
        for (_, element), want in early.items():
            self._want(want, element)
        for bundle in range(self.bundles):
            self._drop(bundle)
        for clone in self.clones.values():
            clone.inbox.gone = {(source, element) for source, element in clone.inbox.gone if element in view.elements()}
            self._recount(clone)
            self._ask_another(clone)
            if clone.role is Role.PASSIVE and not view.live(clone.bundle):
                self._activate(clone, "no live clone")
        self._report()

    def _begin(self, bundle: int, role: Role, since: int) -> None:
        """Create a clone and start it: from a checkpoint, a sibling's state, or the program's beginning."""
        clone = self.clones[bundle] = Clone(bundle, self.bundles - 1, role, since, self._now)
        if self._resuming and since == 1:
            self._do(Read(bundle, since))
        elif role is Role.JOINING:
            self._ask_state(clone)
        else:
            self._start(clone)

    def _start(self, clone: Clone) -> None:
        """Start a new worker for a clone."""
        self._lives += 1  # unique on this element, so that messages of earlier workers are recognised
        clone.new_worker(self._lives, self._now)
        self._do(StartWorker(clone.bundle, clone.worker.life))

    def _freezes(self, bundle: int) -> bool:
        """Return whether the marks of this bundle's clones must not move, because a clone of it is joining (N4).

        The newcomer starts from a sibling's state and needs the packets that came after it.
        """
        return any(host.role is Role.JOINING for host in self.view.hosts[bundle])

    # ---------------------------------------------------------------------------- retention (N4)

    def _mark_of(self, clone: Clone) -> int | None:
        """Return the mark to report for a clone: while a sibling joins, the one reported before."""
        if clone.role is not Role.JOINING and self._freezes(clone.bundle):
            return self._retention.of(clone.bundle, self.element)
        return clone.mark

    def _say_marks(self) -> None:
        """Send the marks of this element's clones to all other elements."""
        if not self.clones:
            return
        marks = tuple((clone.bundle, self._own_mark(clone)) for clone in self.clones.values())
        message = Marks(self.view.number, marks)
        for element in self.view.elements():
            if element != self.element:
                self._do(SendTo(element, message))

    def _own_mark(self, clone: Clone) -> int | None:
        """Return the mark to report for a clone, and record it."""
        mark = self._mark_of(clone)
        self._retention.put(clone.bundle, self.element, mark)
        return mark

    def _take_marks(self, message: Marks, sender: int) -> None:
        """Handle the marks of another element's clones."""
        for bundle, mark in message.marks:
            self._take_mark(bundle, sender, mark, message.view)

    def _take_mark(self, bundle: int, element: int, mark: int | None, view: int) -> None:
        """Record one mark and drop the packets that it was the last to need."""
        if self._retention.hear(bundle, element, mark, view):
            self._drop(bundle)

    def _drop(self, dest: int) -> None:
        """Drop retained packets that every clone of bundle `dest` has."""
        low = self._retention.low(dest)
        if low is not None:
            for clone in self.clones.values():
                if clone.bundle != dest:
                    clone.outbox.drop(dest, low)

    def _overdue(self) -> tuple[tuple[int, int], ...]:
        """Return the clone that lags most, as (bundle, element), if retained packets exceed the memory limit (N6)."""
        if sum(clone.outbox.size for clone in self.clones.values()) <= self.limits.retention:
            return ()
        laggard = self._retention.laggard(self.element)
        return () if laggard is None else (laggard,)

    # -------------------------------------------------------------------- exchanges (N1, N11)

    def _submitted(self, event: Submitted) -> None:
        """Handle a worker's packets of an exchange."""
        clone = self.clones.get(event.bundle)
        if clone is None or clone.worker.life != event.life:
            return
        clone.worker.submit(event, self._now)
        clone.superstep, clone.line = event.superstep, event.line
        self._settle_caught_up(clone, event.exchange)
        # An exception is held back until a sibling or bsprun confirms it (N12).  If this clone has submitted the
        # exchange before, there is nothing to confirm: `_go` compares the two digests.
        if event.raised and event.exchange not in clone.outbox.digests:
            clone.worker.enter(ClonePhase.RAISED)
            self._settle_raised(clone)
            return
        clone.worker.enter(ClonePhase.WAITING)
        self._go(clone, event)

    def _go(self, clone: Clone, event: Submitted) -> None:
        """Announce a submitted exchange and wait for the others' packets.

        In a replay nothing is announced again.  This clone's earlier worker, or the sibling whose state it took, has
        announced the exchange, and the new digest is compared with the earlier one.
        """
        exchange = event.exchange
        if exchange >= clone.outbox.announced:
            clone.outbox.keep(event)
            self._settle_joined(clone)
            self._spread(clone, event)
        else:
            known = clone.outbox.digests.setdefault(exchange, event.digest)
            said, donor = clone.outbox.inherited.get(exchange, (known, -1))
            if known != event.digest:
                self._differ(clone.bundle, event, {self.element: known, -1 - self.element: event.digest})
            # The donor's digest for this exchange has been used by others.  If the donor is gone, its digest counts as
            # an earlier, different digest of this clone.
            elif said != known:
                by = donor if donor in self.view.live(clone.bundle) else -1 - self.element
                self._differ(clone.bundle, event, {self.element: known, by: said})
        self._vote(clone.bundle, event, self.element)
        if self.bundles == 1:
            clone.inbox.advance(clone.outbox.announced)
        self._deliver(clone)
        if clone.worker.waiting is not None:
            clone.inbox.pulls = 0
            clone.pull_at = self._now + self.limits.patience
            if clone.inbox.offers and any(x == clone.inbox.complete for x, _ in clone.inbox.offers):
                clone.pull_at = self._now + self.limits.grace
            self._sooner(clone.pull_at)

    def _spread(self, clone: Clone, event: Submitted) -> None:
        """Send the announcement to every element that hosts a clone, and the large packets due from here (N1)."""
        for_element: dict[int, list[tuple[int, BundlePacket]]] = {}
        large: list[tuple[int, Data]] = []
        senders = self.view.live(clone.bundle) or [self.element]
        for bundle, hosts in enumerate(self.view.hosts):
            packet = event.packets.get(bundle)
            inside = packet
            if packet is not None and packet.size > self.limits.inline:
                inside = BundlePacket(packet.size, packet.digest, None)
                for column, element in enumerate(self.view.columns(bundle)):
                    if senders[column % len(senders)] == self.element:
                        large.append((element, Data(clone.bundle, event.exchange, bundle, packet)))
            for host in hosts:
                parts = for_element.setdefault(host.element, [])
                if inside is not None:
                    parts.append((bundle, inside))
        mark = self._own_mark(clone)
        for element, packets in for_element.items():
            message = Announce(
                clone.bundle, event.exchange, event.superstep, event.compute,
                event.sets_min and clone.role is not Role.PASSIVE, event.digest, clone.states.head, mark,
                self.view.number, tuple(packets), clone.states.digests.get(clone.states.head, b""),
            )  # fmt: skip
            if element != self.element or packets:
                self._do(SendTo(element, message))
            else:
                self._hear(message)
        for element, data in large:
            self._do(SendTo(element, data))

    def _announce(self, message: Announce, sender: int) -> None:
        """Handle an announcement: record it, compare digests, and take its packets."""
        self._hear(message)
        bundle, exchange = message.bundle, message.exchange
        if sender != self.element:
            self._take_mark(bundle, sender, message.mark, message.view)
            self._heads[bundle, sender] = message.head
            self._vote(bundle, message, sender)
            self._compare_states(message, sender)
            own = self.clones.get(bundle)
            if own is not None and own.request.offered is not None and own.worker.asking is not None:
                self._jump(own)
        for dest, packet in message.packets:
            clone = self.clones.get(dest)
            if clone is None or exchange < clone.inbox.complete:
                continue
            if packet.data is None and bundle not in clone.inbox.log.get(exchange, {}):
                clone.inbox.offers.setdefault((exchange, bundle), []).append(sender)
                if clone.worker.waiting is not None and exchange == clone.inbox.complete and clone.pull_at is not None:
                    clone.pull_at = min(clone.pull_at, self._now + self.limits.grace)
                    self._sooner(clone.pull_at)
            self._take(clone, exchange, bundle, packet, sender)
        own = self.clones.get(bundle)
        if own is not None and own.phase is ClonePhase.RAISED:
            self._settle_raised(own)

    def _hear(self, message: Announce) -> None:
        """Record the progress of a bundle and MinTime; a smaller MinTime may make a deadline earlier."""
        if self._pace.hear(message, self._now):
            for clone in self.clones.values():
                late = self._pace.late_at(clone)
                if late is not None:
                    self._sooner(max(late, self._now))

    def _data(self, message: Data, sender: int) -> None:
        """Handle a packet that came outside an announcement."""
        clone = self.clones.get(message.dest)
        if clone is not None and message.exchange >= clone.inbox.complete:
            self._take(clone, message.exchange, message.bundle, message.packet, sender)

    def _needed(self, source: int) -> int:
        """Return how many clones of bundle `source` must send the same bytes before they are used (N11)."""
        return votes_needed(len(self.view.live(source)))

    def _take(self, clone: Clone, exchange: int, source: int, packet: BundlePacket, sender: int) -> None:
        """Use a packet for `clone` if enough of the source's clones agree on it."""
        if self._is_joining(source, sender):
            return  # a clone that is made anew may have been outvoted: its bytes do not count (N11)
        needed = self._needed(source)
        if needed > 1:
            agreed = clone.inbox.ballots.vote(exchange, source, packet, sender, needed)
            if agreed is None:
                return
            packet = agreed
        elif packet.data is None:
            return
        clone.inbox.take(exchange, source, packet)
        self._deliver(clone)

    def _is_joining(self, bundle: int, element: int) -> bool:
        """Return whether the view gives `element` a joining clone of `bundle`."""
        return any(h.element == element and h.role is Role.JOINING for h in self.view.hosts[bundle])

    def _recount(self, clone: Clone) -> None:
        """Count the votes on packets again after a change of the view: fewer clones may have to agree now."""
        for exchange, source in clone.inbox.ballots.open():
            joining = {h.element for h in self.view.hosts[source] if h.role is Role.JOINING}
            packet = clone.inbox.ballots.strike(exchange, source, joining, self._needed(source))
            if packet is not None:
                clone.inbox.take(exchange, source, packet)
        self._deliver(clone)

    def _deliver(self, clone: Clone) -> None:
        """Give a waiting worker its packets if the exchange is complete."""
        waiting = clone.worker.waiting
        if waiting is None or clone.phase is not ClonePhase.WAITING or waiting.exchange >= clone.inbox.complete:
            return
        clone.pull_at = None
        # Only work that nobody has done yet can be a tail: in a replay the next exchange has been announced already.
        clone.worker.run(self._now, waiting.superstep + 1 if waiting.exchange + 1 >= clone.outbox.announced else None)
        packets = clone.inbox.log.get(waiting.exchange, {})
        self._do(Deliver(clone.bundle, waiting.exchange, packets, self._will_ask(clone)))
        late = self._pace.late_at(clone)
        if late is not None:
            self._sooner(late)

    # ---------------------------------------------------------- requests for missing packets (N1)

    def _check(self, clone: Clone, jumped: bool) -> None:
        """Act on everything that is overdue for one clone."""
        now = self._now
        late = self._pace.late_at(clone)
        if late is not None and now >= late:
            if jumped:
                # the whole element stood still: the computation is timed from now on (N3)
                clone.worker.since = now
            elif clone.role is Role.PASSIVE:
                self._activate(clone, "overdue")
            else:
                self._is_late(clone)
        if not clone.has_state:
            if clone.role is Role.JOINING and (clone.request.due is None or now >= clone.request.due):
                self._ask_state(clone)
            return
        if clone.phase is ClonePhase.JUMPING and clone.request.due is not None and now >= clone.request.due:
            if clone.request.offered is None:
                clone.request.fail()
            self._stay(clone)
            return
        # Packets of a later exchange have come, so one of the current exchange may be lost: ask for it in time,
        # although the worker does not wait for it yet.
        if clone.pull_at is None and clone.worker.waiting is None and clone.inbox.has_hole():
            clone.pull_at = now + self.limits.patience
        elif clone.pull_at is not None and now >= clone.pull_at:
            self._ask_again(clone)

    def _ask_again(self, clone: Clone) -> None:
        """Ask for the missing packets of the current exchange (N1).

        The first request goes to the clones that announced the packet, if there are any.  Later ones go to every clone
        that should have it.
        """
        exchange = clone.inbox.complete
        for source in clone.inbox.missing():
            asked = set(clone.inbox.offers.get((exchange, source), ()))
            if not asked or clone.inbox.pulls:
                asked |= {host.element for host in self.view.hosts[source] if host.role is not Role.JOINING}
            for element in sorted(asked):
                self._do(SendTo(element, Pull(source, exchange, clone.bundle)))
        clone.inbox.pulls += 1
        clone.pull_at = self._now + min(self.limits.patience * 2 ** min(clone.inbox.pulls, 4), 2.0)
        if clone.worker.waiting is None and not clone.inbox.has_hole():
            clone.pull_at = None

    def _pull(self, message: Pull, sender: int) -> None:
        """Answer another clone's request for a packet, or report that it has been dropped."""
        clone = self.clones.get(message.bundle)
        if clone is None or not clone.has_state:
            return
        packet = clone.outbox.sent.get(message.exchange, {}).get(message.dest)
        if packet is not None:
            self._do(SendTo(sender, Data(*message, packet)))
        elif message.exchange < clone.outbox.announced:
            self._do(SendTo(sender, Gone(*message)))

    def _gone(self, message: Gone, sender: int) -> None:
        """Record that an element has dropped a packet that this clone misses.

        When no clone of the source has it any more, this clone cannot continue and reports itself stale; bsprun then
        has it made anew from a sibling's state.
        """
        clone = self.clones.get(message.dest)
        if clone is None or message.exchange != clone.inbox.complete or message.bundle not in clone.inbox.missing():
            return
        clone.inbox.gone.add((message.bundle, sender))
        holders = {h.element for h in self.view.hosts[message.bundle] if h.role is not Role.JOINING}
        if {(message.bundle, element) for element in holders} <= clone.inbox.gone and clone.failing is None:
            clone.stale = True
            clone.failing = f"exchange {message.exchange} of bundle {message.bundle} is kept by nobody"
            self._report()

    # ---------------------------------------------------------------------- digests (N11)

    def _vote(self, bundle: int, said: Submitted | Announce, element: int) -> None:
        """Record a clone's digest of an exchange; report to bsprun if it makes a new difference (N11)."""
        if self._votes.hear(bundle, said.exchange, said.superstep, element, said.digest):
            self._report()

    def _differ(self, bundle: int, said: Submitted, votes: dict[int, bytes]) -> None:
        """Report to bsprun digests of one exchange that differ."""
        if self._votes.differ(bundle, said.exchange, said.superstep, votes):
            self._report()

    def _is_agreed(self, clone: Clone, donor: int, there: Snapshot) -> bool:
        """Return whether a jump to the donor's state `there` is safe (N11).

        With three live clones, now or when the state came, another sibling must have reached the same state, and must
        have announced the same digests as the donor in all exchanges that the jump skips.
        """
        if max(clone.request.needed, self._needed(clone.bundle)) < 2:
            return True
        others = {element for element in self.view.live(clone.bundle) if element not in (donor, self.element)}
        states = clone.states.siblings.get(there.head, {})
        if all(states.get(other) != there.digest for other in others):
            return False
        return self._votes.are_alike(clone.bundle, clone.outbox.announced, there.exchange, donor, others)

    def _compare_states(self, message: Announce, sender: int) -> None:
        """Compare the digest of a sibling's state with the state of this element's clone at the same head (N11)."""
        clone = self.clones.get(message.bundle)
        if clone is None or not message.state or self._is_joining(message.bundle, sender):
            return
        clone.states.hear(message.head, sender, message.state)
        mine = clone.states.digests.get(message.head)
        if mine and mine != message.state:
            votes = {self.element: mine, sender: message.state}
            if self._votes.hear_states(message.bundle, message.head, message.superstep, votes):
                self._report()

    # ------------------------------------------------------------------------ heads (N6, N10, N13)

    def _will_ask(self, clone: Clone) -> bool:
        """Return whether a worker must wait at its next head: to be held, to be paused, or to load a later state."""
        if clone.role is Role.PASSIVE or (self._orders is not None and self._orders.hold is not None):
            return True
        return bool(self._ahead(clone, clone.states.head))

    def _ahead(self, clone: Clone, head: int) -> list[int]:
        """Return the siblings at least two heads ahead, furthest first; none while the clone may not ask yet (N6)."""
        if self._now < clone.request.rests_until:
            return []
        known = [
            (-self._heads.get((clone.bundle, host.element), -1), host.element)
            for host in self.view.hosts[clone.bundle]
            if host.element != self.element and host.role is Role.LIVE
        ]
        return [element for theirs, element in sorted(known) if -theirs >= head + 2]

    def _head(self, event: Head) -> None:
        """Handle a worker's arrival at a head: keep its state, also for checkpoints and passive siblings."""
        clone = self.clones.get(event.bundle)
        if clone is None or clone.worker.life != event.life:
            return
        passed = event.snapshot
        clone.states.head = max(clone.states.head, passed.head)
        clone.superstep = passed.superstep
        task = passed.superstep if passed.exchange >= clone.outbox.announced else None
        clone.worker.stand(event, self._now, task)
        if event.entry:
            clone.states.entered = passed.head
        clone.passed(passed)
        if passed.data is not None:
            clone.states.note(passed.head, passed.digest)
            every = self.limits.every
            new = passed.head > max(clone.states.pins, default=-1)
            if every and passed.round and passed.round % every == 0 and not passed.final and new:
                released = self._orders.released if self._orders is not None else -1
                # `Clone.passed` rejects the states of a replay; only a state that it has stored is pinned
                if passed.head > released and clone.states.newest is passed:
                    clone.states.pins[passed.head] = clone.handover(clone.since, packets=False)
                    self._report()
            if clone.role is Role.LIVE and self.view.live(clone.bundle)[0] == self.element:
                for host in self.view.hosts[clone.bundle]:
                    if host.role is Role.PASSIVE:
                        self._do(SendTo(host.element, Passed(clone.handover(host.since, deliveries=False))))
        if event.asks:
            self._answer(clone)

    def _answer(self, clone: Clone) -> None:
        """Decide what a worker that waits at a head does next.  No effect means that it continues to wait.

        In order: load a later state of this loop; leave an ended loop; pause a passive clone; stop for a hold (N13);
        ask a sibling that is ahead (N6); continue.
        """
        event = clone.worker.asking
        assert event is not None
        here = event.snapshot
        paused = clone.role is Role.PASSIVE and not clone.pulled
        newer = clone.states.later(here.loop, here.head)
        if newer is not None and (event.entry or not paused) and not here.final:
            self._load(clone, newer)
            return
        if here.final:
            self._proceed(clone)
            return
        # an activated passive clone that has computed its round pauses again, unless it is the only one left
        if clone.role is Role.PASSIVE and self.view.live(clone.bundle) and here.head > clone.pulled_at:
            clone.pulled, paused = False, True
        if paused:
            if clone.phase is not ClonePhase.PAUSED:
                clone.worker.enter(ClonePhase.PAUSED)
            return
        hold = self._orders.hold if self._orders is not None else None
        # Where a loop starts, or a state has just been loaded, the worker has taken no state that could be kept: it
        # continues to the next head.
        if hold is not None and here.data is not None and (hold.target is None or here.head >= hold.target):
            # bsprun must be told about a new head, and about a state that has been kept for the checkpoint
            news = clone.phase is not ClonePhase.HELD
            if news:
                clone.request.withdraw()
                clone.worker.enter(ClonePhase.HELD)
            fresh = self._orders is not None and here.head > max(self._orders.released, *clone.states.pins, -1)
            if hold.target is not None and fresh and self._has_state_of(clone, here.head):
                clone.states.pins[here.head] = clone.handover(clone.since, packets=False)
                news = True
            if news:
                self._settle_joined(clone)
                self._report()
            return
        if clone.phase is ClonePhase.JUMPING and clone.request.due is not None:
            return
        # A worker on its way through a loop that was left early, to a state in a later loop that the clone has already:
        # only a later one than that is worth waiting for.
        reached = max(here.head, clone.states.newest.head if clone.states.newest is not None else -1)
        donors = self._ahead(clone, reached) if clone.role is Role.LIVE else []
        if donors:
            if clone.phase is not ClonePhase.JUMPING:
                clone.worker.enter(ClonePhase.JUMPING)
            self._want_state(clone, donors[clone.request.refused % len(donors)], reached, 4 * self.limits.patience)
            return
        self._proceed(clone)

    def _has_state_of(self, clone: Clone, head: int) -> bool:
        """Return whether the clone's newest state is that of `head`."""
        return clone.states.newest is not None and clone.states.newest.head == head

    def _proceed(self, clone: Clone) -> None:
        """Let a worker that waits at a head continue from its own state."""
        clone.request.withdraw()
        clone.worker.run(self._now, clone.worker.task)
        self._do(Answer(clone.bundle, None))

    def _load(self, clone: Clone, snapshot: Snapshot) -> None:
        """Let a worker that waits at a head continue from another state."""
        clone.states.head = max(clone.states.head, snapshot.head)
        clone.request.withdraw()
        clone.worker.load(snapshot, self._now)
        self._do(Answer(clone.bundle, snapshot))

    # ------------------------------------------------ states of siblings: joining, jumping (N4, N6)

    def _donors(self, bundle: int) -> list[int]:
        """Return the elements that can provide the state of a bundle."""
        return [host.element for host in self.view.hosts[bundle] if host.role is not Role.JOINING]

    def _ask_state(self, clone: Clone) -> None:
        """Ask a sibling for its state; each attempt asks the next one in turn."""
        donors = self._donors(clone.bundle)
        if donors:
            self._want_state(clone, donors[clone.request.attempts % len(donors)], -1, 5 * self.limits.patience)
            clone.request.attempts += 1
            clone.request.fail()

    def _want_state(self, clone: Clone, donor: int, head: int, patience: float) -> None:
        """Ask `donor` for a state of a later head than `head`; the attempt has `patience` seconds or more."""
        self._sooner(clone.request.ask(donor, self._now, patience))
        self._do(SendTo(donor, Want(clone.bundle, clone.since, head)))

    def _ask_another(self, clone: Clone) -> None:
        """Ask another sibling if the one that was asked for its state is no longer in the view."""
        if clone.request.donor in self._donors(clone.bundle) or clone.request.offered is not None:
            return
        if clone.role is Role.JOINING and not clone.has_state:
            self._ask_state(clone)
        elif clone.phase is ClonePhase.JUMPING:
            clone.request.withdraw()
            self._answer(clone)

    def _want(self, message: Want, sender: int) -> None:
        """Handle a sibling's request for a state."""
        clone = self.clones.get(message.bundle)
        if clone is None or not clone.has_state or clone.role is Role.JOINING:
            return
        if message.head >= 0 and (clone.states.newest is None or clone.states.newest.head <= message.head):
            # an empty handover: there is no newer state
            self._do(SendTo(sender, Handover(message.bundle, message.since, (), None, (), 0, 0, (), ())))
            return
        if message.head < 0 and self._host(message.bundle, sender, message.since) is None:
            # The newcomer's place is in a later view than ours.  Our marks stay fixed only once that view is adopted,
            # so the request waits until then (N4).
            if message.since > self.view.number:
                self._early[message.bundle, sender] = message
            return
        self._do(SendTo(sender, clone.handover(message.since)))

    def _host(self, bundle: int, element: int, since: int) -> Any:
        """Return the place of a clone in the view, or None."""
        for host in self.view.hosts[bundle]:
            if host.element == element and host.since == since:
                return host
        return None

    def _handover(self, state: Handover, sender: int = -1) -> None:
        """Handle a state: a sibling's, or (`sender` -1) one read from a checkpoint."""
        clone = self.clones.get(state.bundle)
        if clone is None or clone.since != state.since:
            return
        if sender >= 0:
            clone.request.came(self._now)
        if not clone.has_state:
            clone.request.withdraw()
            clone.receive(state, sender)
            clone.given, clone.given_head = state.size, state.place.head if state.place is not None else 0
            self._start(clone)
            self._report()
        elif clone.phase is ClonePhase.JUMPING:
            clone.request.offered = state, sender
            clone.request.needed = self._needed(clone.bundle)
            self._jump(clone)

    def _jump(self, clone: Clone) -> None:
        """Continue from the state that a sibling has sent, if it is later and the jump to it is safe (N6, N11)."""
        assert clone.worker.asking is not None
        assert clone.request.offered is not None
        (state, donor), here = clone.request.offered, clone.worker.asking.snapshot
        there = state.snapshot
        if there is None or there.head <= max(
            here.head, clone.states.newest.head if clone.states.newest is not None else -1
        ):
            self._stay(clone)
            return
        if not self._is_agreed(clone, donor, there):
            # Wait for a sibling's announcement that confirms it.  If none comes in time, `_check` lets the clone
            # compute these rounds itself, so that its own digests decide.
            return
        clone.request.refused = 0
        clone.request.rest(self._now)
        clone.jump(state, donor)
        self._note(
            "jumped", bundle=clone.bundle, element=self.element, superstep=there.superstep,
            rounds=there.head - here.head, bytes=state.size,
        )  # fmt: skip
        # a worker can load only a state of the loop that it is in
        if there.loop == here.loop:
            self._load(clone, there)
        else:
            self._start(clone)

    def _stay(self, clone: Clone) -> None:
        """Give up waiting for a sibling's state and continue from the clone's own."""
        clone.request.refused += 1  # the next request goes to another sibling
        clone.request.rest(self._now)
        if clone.worker.asking is not None:
            self._proceed(clone)

    def _settle_joined(self, clone: Clone) -> None:
        """Record that a newcomer has continued from its state; bsprun then gives it its role."""
        if not clone.joined:
            clone.joined = True
            clone.again = max(clone.states.head - clone.given_head + 1, 0)
            self._report()

    def _passed(self, message: Passed, sender: int) -> None:
        """Handle a live sibling's newer state for a passive clone."""
        clone = self.clones.get(message.state.bundle)
        if clone is not None and clone.role is Role.PASSIVE and clone.since == message.state.since:
            clone.follow(message.state, sender)
            if clone.worker.asking is not None and clone.worker.asking.entry:
                self._answer(clone)

    # ---------------------------------------------------------------------------- tails (N2)

    def _is_late(self, clone: Clone) -> None:
        """Declare a tail: notify the siblings, and log it."""
        clone.worker.late = True
        clone.tails += 1
        seconds = round(self._now - clone.worker.since, 6)
        self._note("tail", bundle=clone.bundle, element=self.element, superstep=clone.superstep, seconds=seconds)
        for host in self.view.hosts[clone.bundle]:
            if host.element != self.element:
                self._do(SendTo(host.element, Tail(clone.bundle, clone.superstep)))
        self._count_late(clone, clone.superstep, self.element)

    def _tail(self, message: Tail, sender: int) -> None:
        """Handle a sibling's notice that it is late: a passive clone starts to compute."""
        clone = self.clones.get(message.bundle)
        if clone is not None and clone.role is Role.PASSIVE:
            self._activate(clone, "a tail")
        elif clone is not None:
            self._count_late(clone, message.superstep, sender)

    def _count_late(self, clone: Clone, superstep: int, element: int) -> None:
        """Count the late live clones of a superstep; log a warning when all are late.

        If all clones are late the superstep simply takes that long, and none of them is at fault (N5).  The first live
        clone writes the warning.
        """
        known, late = clone.late_siblings
        # late notices are counted for the newest superstep only
        if superstep != known:
            if superstep < known:
                return
            late = set()
        late.add(element)
        clone.late_siblings = superstep, late
        live = self.view.live(clone.bundle)
        if late >= set(live) and live[0] == self.element:
            what = f"all clones of bundle {clone.bundle} are late in superstep {superstep}: the limit is lifted for it"
            self._note("note", bundle=clone.bundle, text=what, warning=True)

    def _activate(self, clone: Clone, why: str) -> None:
        """Let a passive clone compute up to its next head, or without pausing if no live clone is left."""
        if clone.pulled:
            return
        clone.pulled = True
        here = clone.worker.asking.snapshot.head if clone.worker.asking is not None else clone.states.head
        clone.pulled_at = max(here, clone.states.newest.head if clone.states.newest is not None else -1)
        self._note("pulled", bundle=clone.bundle, element=self.element, superstep=clone.superstep, reason=why)
        if clone.worker.asking is not None:
            self._answer(clone)

    # ------------------------------------------------------------------------ workers (N12)

    def _ended(self, event: Ended) -> None:
        """Handle the end of the program in a worker."""
        clone = self.clones.get(event.bundle)
        if clone is not None and clone.worker.life == event.life:
            clone.ended = event.digest
            clone.worker.enter(ClonePhase.ENDED)
            self._settle_joined(clone)
            self._settle_caught_up(clone, clone.outbox.announced)
            self._report()

    def _died(self, event: Died) -> None:
        """Handle the death of a worker."""
        clone = self.clones.get(event.bundle)
        if clone is not None and clone.worker.life == event.life and clone.ended is None:
            self._relaunch(clone, event.how)

    def _printed(self, event: Printed) -> None:
        """Send a clone's text to bsprun, and keep it until bsprun has confirmed it (N9)."""
        clone = self.clones.get(event.bundle)
        if clone is None or clone.worker.life != event.life:
            return
        clone.said = max(clone.said, event.offset + len(event.data))
        printed = self._orders.printed if self._orders is not None else 0
        if event.offset + len(event.data) > printed:
            clone.text.add((event.offset, event.data))
            self._do(Say(event.offset, event.data, clone.since))

    def _asks(self, event: Asks) -> None:
        """Report a worker that waits in proc.once."""
        clone = self.clones.get(event.bundle)
        if clone is not None and clone.worker.life == event.life:
            clone.worker.call(event.token, event.value)
            self._report()

    def reply(self, now: float, once: Once) -> list[Any]:
        """Handle bsprun's answer to a worker in proc.once, or a value to be kept; return the effects.

        Reports are repeated, so an answer may come twice.  Permission to make the call is passed on once to each
        worker, under the lease.  A worker that makes the call is answered when the call has returned.
        """
        self._now = now
        clone = self.clones.get(once.bundle)
        call = clone.worker.once if clone is not None else None
        if once.keep and once.value is not None and not self._over:
            self._kept.add([(once.token, once.value)])
            self._lately = (*[token for token in self._lately if token != once.token], once.token)[-_LATELY:]
            self._report()
        elif clone is not None and call is not None and call[0] == once.token and not self._over:
            token, life, value = call
            if once.value is not None:
                if not _makes_a_call(clone):
                    clone.worker.end_call()
                    clone.values.add([(token, once.value)])
                    self._do(once)
            elif value is None and clone.granted != (token, life) and self._has_lease():
                clone.granted = token, life
                self._do(once)
                self._plan_tick()
        effects, self._effects = self._effects, []
        return effects

    def _stuck(self, event: Stuck) -> None:
        """Start a worker again that neither computes nor waits for the agent.

        A stopped process counts as hung.  One that is only idle may be slow by its nature, for example in a long read;
        it counts as hung if a sibling has completed the same computation.
        """
        clone = self.clones.get(event.bundle)
        if clone is None or clone.worker.life != event.life or not clone.worker.runs:
            return
        passed = self._pace.announced(clone.bundle) >= clone.outbox.announced
        if event.stopped or passed:
            self._relaunch(clone, "stopped" if event.stopped else "idle while its sibling has gone on")

    def _settle_raised(self, clone: Clone) -> None:
        """Decide about an exception of the program (N12).

        It stands if bsprun has confirmed it or a sibling has announced the same.  If siblings have announced something
        else, the worker is run again.  Otherwise bsprun decides once all live clones have reported.
        """
        assert clone.worker.raised is not None and clone.worker.waiting is not None
        exchange, digest = clone.worker.raised
        theirs = {e: d for e, d in self._votes.of(clone.bundle, exchange).items() if e != self.element}
        granted = self._orders is not None and (clone.bundle, exchange) in self._orders.raised
        if granted or digest in theirs.values():
            clone.worker.enter(ClonePhase.WAITING)
            self._go(clone, clone.worker.waiting)
        elif theirs:
            self._relaunch(clone, "raised an exception that its sibling did not")
        else:
            self._report()

    def _relaunch(self, clone: Clone, how: str) -> None:
        """Start a clone's worker again, or report the clone as failing after too many attempts in one superstep."""
        if clone.worker.task is not None:  # the superstep under way, of which the worker has submitted nothing yet
            clone.superstep = clone.worker.task
        superstep = clone.superstep
        count = clone.relaunched[superstep] = clone.relaunched.get(superstep, 0) + 1
        if count > self.limits.relaunches:
            if clone.failing is None:
                clone.failing = f"its worker {how}, {self.limits.relaunches + 1} times in superstep {superstep}"
                clone.worker.stop()
                self._do(StopWorker(clone.bundle))
                self._report()
            return
        self._note(
            "relaunched", bundle=clone.bundle, element=self.element, superstep=superstep, reason=how, attempt=count
        )
        if clone.catching is None:
            given = clone.handover(clone.since)._replace(sent=())  # a worker gets none of its own packets
            # rounds to be computed again: those since the state from which the new worker starts, and the unfinished
            # one
            stands = clone.worker.asking is not None and clone.worker.asking.snapshot.head == clone.states.head
            rounds = clone.states.head - (given.place.head if given.place is not None else 0) + (not stands)
            clone.catching = CatchingUp(clone.outbox.announced - 1, max(rounds, 0), given.size)
        self._start(clone)

    def _settle_caught_up(self, clone: Clone, exchange: int) -> None:
        """Log that a new worker has caught up with its predecessor.

        It has caught up when it has submitted the last exchange that its predecessor announced, or a later one.
        """
        if clone.catching is not None and exchange >= clone.catching.exchange:
            rounds, given = clone.catching.rounds, clone.catching.given
            clone.catching = None
            self._note(
                "caught_up", bundle=clone.bundle, element=self.element, superstep=clone.superstep, rounds=rounds,
                bytes=given,
            )  # fmt: skip

    def _wrote(self, event: Wrote) -> None:
        """Record a part of a checkpoint that has been written."""
        if (event.bundle, event.head) in self._parts:
            self._parts[event.bundle, event.head] = event.part
            self._report()

    # ------------------------------------------------------------------- reports to bsprun (N14)

    def _note(self, kind: str, **fields: Any) -> None:
        """Add an event to the log."""
        self._do(Note(kind, fields))

    def _report(self) -> None:
        """Send this element's report to bsprun."""
        self._do(Tell(self.report()))

    def report(self) -> AgentReport:
        """Return this element's report.  Each call gives it a new number."""
        self._reports += 1
        self._lease.report(self._reports, self._now)
        return AgentReport(
            self.element,
            self.view.number,
            tuple(self._progress(clone) for clone in self.clones.values()),
            self._votes.differences,
            self._overdue(),
            self._reports,
            paused=self._pauses.longest(self._now),
            kept=self._lately,
        )

    def _next_head(self, clone: Clone) -> int | None:
        """Return the head that a clone names under a hold (N13), or None.

        A clone that waits in an exchange may wait for the packets of a clone that is held; were it to name no head,
        neither would ever continue.  It names the next head that it would reach.
        """
        hold = self._orders.hold if self._orders is not None else None
        if clone.worker.held is None and clone.worker.waiting is not None and hold is not None:
            return clone.states.head + 1
        return clone.worker.held

    def _progress(self, clone: Clone) -> Progress:
        """Return the state of one clone for the report."""
        parts: Sequence[tuple[int, Any]] = [
            (head, part) for (bundle, head), part in self._parts.items() if bundle == clone.bundle and part is not None
        ]
        worker, states = clone.worker, clone.states
        waits_for = tuple(clone.inbox.missing()) if worker.waiting is not None else ()
        return Progress(
            clone.bundle, clone.since, clone.joined, clone.has_state, clone.outbox.announced, clone.superstep,
            states.head, self._next_head(clone), worker.raised, clone.ended, clone.failing, clone.stale, clone.said,
            worker.once, clone.tails, tuple(states.pins), tuple(parts), clone.given, clone.again, clone.restarts(),
            tuple(states.repeats), clone.line, waits_for, self._now - worker.since, clone.phase,
            _makes_a_call(clone),
        )  # fmt: skip


def _makes_a_call(clone: Clone) -> bool:
    """Return whether a clone's worker has permission for a call that has not returned."""
    call = clone.worker.once
    return call is not None and call[2] is None and clone.granted == call[:2]
