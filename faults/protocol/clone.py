"""The state of one clone inside its element's agent: packets received, packets retained for others, the worker.

Theory of operation.  The processes of a program take part in a sequence of exchanges that is the same in every clone
(DESIGN section 2), so numbers identify what a clone has and needs.  `log` holds the packets received outside the
program's `rounds` loops, and those received since the head of `snapshot`.  Together with `finals`, the last states of
earlier loops, they let a new worker repeat the program up to the current exchange.  `sent` holds the packets
sent, until every clone that they are for has them (rule N4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bsp.faults.protocol.messages import BundlePacket, Handover, Head, Role, Snapshot, Submitted, Token
from bsp.faults.protocol.once_values import OnceValues


class Ballot:
    """The clones that sent one digest for a packet, and the packet, once one of them has sent its bytes."""

    __slots__ = ("packet", "voters")

    def __init__(self) -> None:
        self.voters: set[int] = set()
        self.packet: BundlePacket | None = None


class CatchingUp(NamedTuple):
    """The way of a new worker to the point that its predecessor had reached."""

    exchange: int  # the last one that the predecessor announced
    rounds: int  # to be computed again
    given: int  # bytes of the state from which it starts


class Clone:
    """The state of one clone.  It makes no decision about other clones; `Member` does."""

    def __init__(self, bundle: int, sources: int, role: Role, since: int) -> None:
        """Create a clone that receives packets from `sources` other bundles."""
        self.bundle = bundle
        self.role = role
        self.since = since
        self._sources = sources
        # packets received
        self.log: dict[int, dict[int, BundlePacket]] = {}  # by exchange and source bundle
        self.complete = 0  # all packets of all earlier exchanges have been received
        self.votes: dict[tuple[int, int], dict[bytes, Ballot]] = {}  # (exchange, source): by digest, until accepted
        self.offers: dict[tuple[int, int], list[int]] = {}  # (exchange, source): elements that announced a large packet
        self.gone: set[tuple[int, int]] = set()  # (source, element) that has dropped the missing packet
        # packets sent
        self.sent: dict[int, dict[int, BundlePacket]] = {}  # by exchange and destination bundle
        self.digests: dict[int, bytes] = {}  # by exchange: of what this clone has computed
        # by exchange: (digest, donor) of what a sibling announced before this clone took its state
        self.inherited: dict[int, tuple[bytes, int]] = {}
        self.announced = 0  # the next exchange to be announced
        self._dropped: dict[int, int] = {}  # by destination: packets of earlier exchanges are dropped
        self.kept_bytes = 0  # bytes of all packets in `sent`
        # the state at heads
        self.finals: list[Snapshot] = []
        self.snapshot: Snapshot | None = None  # the newest state inside the current loop
        self.head = -1  # the latest head passed, by any of its workers
        self.entered = 0  # the first head of the loop that its worker is in
        # ranges of heads [first, last): rounds that every new worker runs again, because their loop was left early
        self.repeats: set[tuple[int, int]] = set()
        self.states: dict[int, bytes] = {}  # digests of its latest states, by head
        self.siblings: dict[int, dict[int, bytes]] = {}  # digests of siblings' states, by head and element
        self.late_siblings: tuple[int, set[int]] = (-1, set())  # (superstep, elements late in it)
        self.superstep = 0
        self.task: int | None = None  # superstep that it computes; None in a replay
        self.pins: dict[int, Handover] = {}  # by head: states kept for checkpoints
        # the worker
        self.has_state = role is not Role.JOINING
        self.life = 0  # number of the current worker
        self.position = 0  # the exchange that the worker submits next
        self.stands: int | None = None  # the head that the worker passed last
        self.relaunched: dict[int, int] = {}  # restarts of the worker, by superstep
        self.catching: CatchingUp | None = None  # set while a restarted worker catches up
        self.given = self.given_head = 0  # bytes, and head, of the sibling's state from which it started
        self.again = 0  # rounds computed between that state and joining
        self.waiting: Submitted | None = None  # the worker waits for packets
        self.asking: Head | None = None  # the worker waits at a head
        self.computing_since: float | None = None  # None while the worker waits
        self.waiting_since = 0.0
        self.line = ""  # of the program, at which it waits or did last
        self.pulled = False  # a passive clone has been activated
        self.pulled_at = -1  # at this head
        self.jumping = False  # waits for a sibling's later state
        self.offered: tuple[Handover, int] | None = None  # that state, and its donor
        self.refused = 0  # failed attempts to take a later state; selects the next donor
        self.held: int | None = None  # head at which a hold stops it
        self.joined = role is not Role.JOINING
        self.raised: tuple[int, bytes] | None = None  # (exchange, digest) of an exception held back (N12)
        self.ended: bytes | None = None  # `Ended.digest`
        self.failing: str | None = None  # why the clone cannot continue on this element
        self.stale = False  # a sibling's state would repair that
        self.text: list[tuple[int, bytes]] = []  # (offset, text) not confirmed by bsprun
        self.said = 0  # bytes of standard output written
        self.once: tuple[Token, int, bytes | None] | None = None  # token, life and result of the worker in proc.once
        self.granted: tuple[Token, int] | None = None  # call for which the worker has been given permission
        self.values = OnceValues()
        self.tails = 0  # supersteps in which it was late
        self.late = False  # in this superstep
        self.pull_at: float | None = None  # when a packet or a state is asked for again
        self.pulls = 0  # requests without success so far
        self.donor = -1  # the element last asked for a state
        self.wanted_at = 0.0  # time of that request
        self.in_vain = 0  # requests in a row without an answer in time
        self.travel = 0.0  # seconds until the last answer came
        self.rests_until = 0.0  # no later state is asked for before this time (N6)

    # -------------------------------------------------------------------------- what came in

    @property
    def mark(self) -> int | None:
        """The clone's mark: it needs no packet of an earlier exchange.  None while the clone has no state."""
        return self.complete if self.has_state else None

    def take(self, exchange: int, source: int, packet: BundlePacket) -> None:
        """Put a packet into the log.  Of several copies the first is kept."""
        if exchange < self.complete:
            return
        arrived = self.log.setdefault(exchange, {})
        self.votes.pop((exchange, source), None)
        if source not in arrived:
            arrived[source] = packet
            self.offers.pop((exchange, source), None)
            if exchange == self.complete and len(arrived) == self._sources:
                self.advance()

    def advance(self) -> None:
        """Move `complete` forward over all exchanges whose packets are in the log."""
        if self._sources == 0:  # a single bundle receives nothing: what it submits is complete
            self.complete = max(self.complete, self.announced)
            return
        before = self.complete
        while len(self.log.get(self.complete, ())) == self._sources:
            self.complete += 1
        if self.complete != before:
            for kept in (self.votes, self.offers):
                for key in [key for key in kept if key[0] < self.complete]:
                    del kept[key]
            self.gone.clear()
            self.pulls = 0

    def vote(self, exchange: int, source: int, packet: BundlePacket, sender: int, needed: int) -> BundlePacket | None:
        """Count one clone's copy of a packet; return it once `needed` clones agree and its bytes are here (N11)."""
        ballot = self.votes.setdefault((exchange, source), {}).setdefault(packet.digest, Ballot())
        ballot.voters.add(sender)
        if packet.data is not None:
            ballot.packet = packet
        return ballot.packet if len(ballot.voters) >= needed else None

    def strike(self, exchange: int, source: int, out: set[int], needed: int) -> BundlePacket | None:
        """Count the votes on a packet again, without the elements `out`; return it if `needed` clones agree (N11)."""
        ballots = self.votes.get((exchange, source), {})
        for ballot in ballots.values():
            ballot.voters -= out
        good = [b for _, b in sorted(ballots.items()) if b.packet is not None and b.voters and len(b.voters) >= needed]
        return max(good, key=lambda ballot: len(ballot.voters)).packet if good else None

    def missing(self) -> list[int]:
        """Return the bundles whose packets of exchange `complete` have not arrived."""
        have = self.log.get(self.complete, {})
        return [source for source in range(self._sources + 1) if source != self.bundle and source not in have]

    def has_hole(self) -> bool:
        """Return whether packets of a later exchange than `complete` have arrived."""
        return any(exchange > self.complete for exchange in self.log) or any(x > self.complete for x, _ in self.votes)

    # ---------------------------------------------------------------------------- what went out

    def keep(self, submitted: Submitted) -> None:
        """Retain the packets of an exchange that is being announced (N4)."""
        self._retain(submitted.exchange, submitted.packets)
        self.digests[submitted.exchange] = submitted.digest
        self.announced = submitted.exchange + 1

    def _retain(self, exchange: int, packets: Mapping[int, BundlePacket]) -> None:
        """Retain those packets that some clone may still need.

        A slow clone announces packets that all receivers have long had from its siblings; these are not retained.
        """
        kept = {dest: packet for dest, packet in packets.items() if self._dropped.get(dest, 0) <= exchange}
        if kept and exchange not in self.sent:
            self.sent[exchange] = kept
            self.kept_bytes += sum(packet.size for packet in kept.values())

    def drop(self, dest: int, below: int) -> None:
        """Drop packets for bundle `dest` of exchanges below `below`: every clone of it has them (N4)."""
        start = self._dropped.get(dest, 0)
        # iterate over whichever is shorter, the exchanges newly dropped or those retained
        due = range(start, below) if below - start <= len(self.sent) else [e for e in self.sent if e < below]
        for exchange in due:
            kept = self.sent.get(exchange)
            if kept is not None:
                packet = kept.pop(dest, None)
                if packet is not None:
                    self.kept_bytes -= packet.size
                if not kept:
                    del self.sent[exchange]
        self._dropped[dest] = max(start, below)

    # ------------------------------------------------------------------------------- the state

    def passed(self, snapshot: Snapshot) -> None:
        """Store a state at a later head, and forget what only a replay up to it would need.

        A state without data, an older one, and one of a loop that has ended (a replay passes such heads) are ignored.
        Of a loop that was left early the last state inside it is kept: a new worker computes from there, and leaves the
        loop where its predecessor did.
        """
        newest = self.snapshot
        if snapshot.final and snapshot.data is None:
            kept = newest is not None and newest.loop == snapshot.loop
            self.repeats.add((newest.head if newest is not None and kept else self.entered, snapshot.head))
        if snapshot.data is None or (newest is not None and snapshot.exchange < newest.exchange):
            return
        if newest is not None and newest.loop < snapshot.loop:
            self.finals.append(newest)
            self.repeats.add((newest.head, snapshot.head))
        if snapshot.final:
            if all(final.loop != snapshot.loop for final in self.finals):
                self.finals.append(snapshot)
            self.snapshot = None
        elif any(final.loop == snapshot.loop for final in self.finals):
            return  # a replay passes heads that it has passed before
        else:
            self.snapshot = snapshot
        # A worker that is behind a state taken from a sibling still needs the packets from its own position on.
        # Packets from before the loop (below `start`) stay: every new worker needs them.
        for exchange in [e for e in self.log if snapshot.start <= e < min(snapshot.exchange, self.position)]:
            del self.log[exchange]
        for known in (self.digests, self.inherited):
            for exchange in [e for e in known if e < snapshot.exchange]:
                del known[exchange]
        for superstep in [s for s in self.relaunched if s < snapshot.superstep]:
            del self.relaunched[superstep]

    def restarts(self) -> int:
        """Return the head before which no round is run again: by a worker, or from a checkpoint being written.

        It is -1 if a worker would start at the beginning of the program.
        """
        state = self.snapshot or (self.finals[-1] if self.finals else None)
        at_work = [self.stands] if self.stands is not None and self.asking is None else []
        return -1 if state is None else min([state.head, *at_work, *self.pins])

    def stored(self, loop: int, head: int) -> Snapshot | None:
        """Return the latest state of a loop, which a worker at `head` loads; None if there is no later one."""
        known = (*self.finals, *([] if self.snapshot is None else [self.snapshot]))
        return next((state for state in known if state.loop == loop and state.head > head), None)

    def handover(self, since: int, packets: bool = True, deliveries: bool = True) -> Handover:
        """Return the state of the clone for another one.

        since : `since` of the clone that receives it.
        packets : whether to include the retained packets and unconfirmed text; not for a checkpoint.  With both, the
            values of proc.once are included, too.
        deliveries : whether to include the log; not for passive clones, which have their own.
        """
        kept = sorted(self.log) if deliveries else []
        log = tuple((e, tuple(self.log[e].items())) for e in kept if e < self.complete)
        sent: tuple[tuple[int, tuple[tuple[int, BundlePacket], ...], bytes], ...] = ()
        if packets:
            digests = {e: digest for e, (digest, _) in self.inherited.items()} | self.digests
            exchanges = sorted(self.sent.keys() | digests.keys())
            sent = tuple((e, tuple(self.sent.get(e, {}).items()), digests.get(e, b"")) for e in exchanges)
        announced = self.announced
        if not packets and self.snapshot is not None:
            announced = self.snapshot.exchange  # after a resume all clones continue from here
        text = tuple(self.text) if packets else ()
        finals = tuple(self.finals)
        values = tuple(self.values.items()) if packets and deliveries else ()
        return Handover(
            self.bundle,
            since,
            finals,
            self.snapshot,
            log,
            self.complete,
            announced,
            sent,
            text,
            values,
            tuple(self.repeats),
        )

    def receive(self, state: Handover, donor: int) -> None:
        """Take over a complete state: a sibling's, or one from a checkpoint (`donor` -1)."""
        self.finals = list(state.finals)
        self.snapshot = state.snapshot
        for exchange, packets in state.log:
            self.log.setdefault(exchange, {}).update(packets)
        self.complete = max(self.complete, state.complete)
        self._inherit(state, donor)
        start, exchange = (state.snapshot.start, state.snapshot.exchange) if state.snapshot else (0, 0)
        for e in [e for e in self.log if start <= e < exchange]:
            del self.log[e]
        self.has_state = True
        self.advance()

    def jump(self, state: Handover, donor: int) -> None:
        """Take over a sibling's later state.

        What the sibling sent after that state is left out: this clone computes and announces it itself, so that it
        gives a vote of its own (N11).
        """
        assert state.snapshot is not None
        here = state.snapshot.exchange
        sent = tuple(each for each in state.sent if each[0] < here)
        text = tuple(piece for piece in state.text if piece[0] < state.snapshot.said)
        self.receive(state._replace(sent=sent, announced=min(state.announced, here), text=text), donor)

    def follow(self, state: Handover, donor: int) -> None:
        """Let a passive clone take over a live sibling's newer state.

        It does so only if it has all packets up to the start of the loop, and, while it computes, those up to the
        state itself.
        """
        snapshot = state.snapshot
        last = snapshot if snapshot is not None else state.finals[-1]
        at_work = self.waiting is not None or self.asking is None
        if self.complete < last.start or (at_work and self.complete < last.exchange):
            return
        self._inherit(state, donor)
        for final in state.finals:
            self.passed(final)
        if snapshot is not None:
            self.passed(snapshot)
        if not at_work:
            self.complete = max(self.complete, last.exchange)
            for e in [e for e in self.log if last.start <= e < last.exchange]:
                del self.log[e]
            self.advance()

    def _inherit(self, state: Handover, donor: int) -> None:
        """Take over a sibling's retained packets, digests and unconfirmed text: others may ask for them here."""
        for exchange, kept, digest in state.sent:
            self._retain(exchange, dict(kept))
            if digest and exchange not in self.digests:
                self.inherited[exchange] = digest, donor
        self.announced = max(self.announced, state.announced)
        self.repeats |= set(state.repeats)
        self.text.extend(piece for piece in state.text if piece not in self.text)
        self.values.add(state.values)

    def new_worker(self, life: int) -> None:
        """Reset everything that belonged to the previous worker; `life` is the number of the next one."""
        self.waiting = self.asking = self.held = self.computing_since = self.raised = self.once = None
        self.jumping = self.late = False
        self.offered = None
        self.task = None
        self.life = life
        self.position = 0
        self.stands = None
