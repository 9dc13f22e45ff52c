"""One clone of a bundle inside its element's agent: what it has received, what it keeps for others.

Theory of operation.  The processes of a program take part in a sequence of exchanges that is the
same in every clone (DESIGN section 2), so a clone is known by numbers.  `log` holds what came in:
everything outside the program's `rounds` loops, and since the head that `snapshot` stands for; with
`finals`, the states that ended loops have left, a worker can be run again to where it was.  `sent`
holds what went out until every clone it is for has it (rule N4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bsp.faults.protocol.messages import Handover, Head, Packet, Role, Snapshot, Submitted, Token


class Ballot:
    """Who has said the same of a packet, and the packet, once somebody has sent it."""

    __slots__ = ("packet", "voters")

    def __init__(self) -> None:
        self.voters: set[int] = set()
        self.packet: Packet | None = None


class CatchingUp(NamedTuple):
    """A worker on its way to where the one before it was."""

    exchange: int  # there
    rounds: int  # to be gone through again
    given: int  # bytes it begins with


class Clone:
    """What an agent knows of one of its clones; decides nothing about others."""

    def __init__(self, bundle: int, sources: int, role: Role, since: int) -> None:
        self.bundle = bundle
        self.role = role
        self.since = since
        self._sources = sources
        # in
        self.log: dict[int, dict[int, Packet]] = {}
        self.complete = 0  # of all exchanges below, every packet is here or was
        self.votes: dict[tuple[int, int], dict[bytes, Ballot]] = {}  # (exchange, source), by digest, until accepted
        self.offers: dict[tuple[int, int], list[int]] = {}  # who announced a large packet
        self.gone: set[tuple[int, int]] = set()  # (source, element) that does not have what is missing any more
        # out
        self.sent: dict[int, dict[int, Packet]] = {}
        self.digests: dict[int, bytes] = {}  # of what it has computed itself
        self.inherited: dict[int, tuple[bytes, int]] = {}  # of what a sibling has, and which
        self.announced = 0
        self._dropped: dict[int, int] = {}  # by bundle: below, its packets are dropped
        self.kept_bytes = 0
        # the state
        self.finals: list[Snapshot] = []
        self.snapshot: Snapshot | None = None
        self.head = -1
        self.states: dict[int, bytes] = {}  # digests of its latest states, by head
        self.siblings: dict[int, dict[int, bytes]] = {}  # of its siblings', by head and element
        self.late_siblings: tuple[int, set[int]] = (-1, set())  # in this superstep
        self.superstep = 0
        self.task: int | None = None  # the superstep it computes, if nobody has yet in its place
        self.pins: dict[int, Handover] = {}
        # the worker
        self.has_state = role is not Role.JOINING
        self.life = 0
        self.position = 0  # the exchange it submits next
        self.stands: int | None = None  # the head that it has passed last
        self.relaunched: dict[int, int] = {}  # by superstep
        self.catching: CatchingUp | None = None  # since its worker was started again
        self.given = self.given_head = 0  # bytes of a sibling's state that it began with, and whose head
        self.again = 0  # rounds from there until it joined
        self.waiting: Submitted | None = None
        self.asking: Head | None = None
        self.computing_since: float | None = None
        self.pulled = False  # a passive clone at work
        self.pulled_at = -1  # the head from which on
        self.jumping = False  # waits for a sibling's state
        self.offered: tuple[Handover, int] | None = None  # that state, and whose it is
        self.refused = 0  # states that could not be taken
        self.held: int | None = None
        self.joined = role is not Role.JOINING
        self.raised: tuple[int, bytes] | None = None
        self.ended: bytes | None = None
        self.failing: str | None = None
        self.stale = False
        self.text: list[tuple[int, bytes]] = []  # not confirmed yet
        self.said = 0
        self.once: tuple[Token, int, bytes | None] | None = None
        self.granted: tuple[Token, int] | None = None
        self.tails = 0
        self.late = False  # in this superstep
        self.pull_at: float | None = None
        self.pulls = 0
        self.donor = -1  # who was asked for a state last
        self.wanted_at = 0.0  # and when
        self.in_vain = 0  # so often without an answer in time
        self.travel = 0.0  # seconds that the last answer took
        self.rests_until = 0.0

    # -------------------------------------------------------------------------- what came in

    @property
    def mark(self) -> int | None:
        """Below this exchange it needs nothing of others; None while nobody has said what it has."""
        return self.complete if self.has_state else None

    def take(self, exchange: int, source: int, packet: Packet) -> None:
        """A packet into the log; the first one counts."""
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
        """`complete` as far as it goes."""
        if self._sources == 0:  # nobody else: what the worker has submitted is complete
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

    def vote(self, exchange: int, source: int, packet: Packet, sender: int, needed: int) -> Packet | None:
        """One clone's word on a packet; the packet, if enough have said the same and someone has sent it (N11)."""
        ballot = self.votes.setdefault((exchange, source), {}).setdefault(packet.digest, Ballot())
        ballot.voters.add(sender)
        if packet.data is not None:
            ballot.packet = packet
        return ballot.packet if len(ballot.voters) >= needed else None

    def strike(self, exchange: int, source: int, out: set[int], needed: int) -> Packet | None:
        """Count again without the voters in `out`."""
        ballots = self.votes.get((exchange, source), {})
        for ballot in ballots.values():
            ballot.voters -= out
        good = [b for _, b in sorted(ballots.items()) if b.packet is not None and b.voters and len(b.voters) >= needed]
        return max(good, key=lambda ballot: len(ballot.voters)).packet if good else None

    def missing(self) -> list[int]:
        """The exchange that the log cannot do without now: who has not been heard."""
        have = self.log.get(self.complete, {})
        return [source for source in range(self._sources + 1) if source != self.bundle and source not in have]

    def has_hole(self) -> bool:
        """Whether later packets have come than one that is missing."""
        return any(exchange > self.complete for exchange in self.log) or any(x > self.complete for x, _ in self.votes)

    # ---------------------------------------------------------------------------- what went out

    def keep(self, submitted: Submitted) -> None:
        """Retain what has been announced (N4)."""
        self._retain(submitted.exchange, submitted.packets)
        self.digests[submitted.exchange] = submitted.digest
        self.announced = submitted.exchange + 1

    def _retain(self, exchange: int, packets: Mapping[int, Packet]) -> None:
        """What some clone may still need; a slow clone announces what all others have long had."""
        kept = {dest: packet for dest, packet in packets.items() if self._dropped.get(dest, 0) <= exchange}
        if kept and exchange not in self.sent:
            self.sent[exchange] = kept
            self.kept_bytes += sum(packet.size for packet in kept.values())

    def drop(self, dest: int, below: int) -> None:
        """Every clone of `dest` has what it needs below this exchange."""
        start = self._dropped.get(dest, 0)
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
        """A state of its own at a later head: what led there need not be replayed any more."""
        if snapshot.data is None or (self.snapshot is not None and snapshot.exchange < self.snapshot.exchange):
            return
        if snapshot.final:
            if all(final.loop != snapshot.loop for final in self.finals):
                self.finals.append(snapshot)
            self.snapshot = None
        elif any(final.loop == snapshot.loop for final in self.finals):
            return  # a replay passes heads that are behind it
        else:
            self.snapshot = snapshot
        # a worker at work behind a sibling's state still needs what it has not been given
        for exchange in [e for e in self.log if snapshot.start <= e < min(snapshot.exchange, self.position)]:
            del self.log[exchange]
        for known in (self.digests, self.inherited):
            for exchange in [e for e in known if e < snapshot.exchange]:
                del known[exchange]
        for superstep in [s for s in self.relaunched if s < snapshot.superstep]:
            del self.relaunched[superstep]

    def restarts(self) -> int:
        """The head before which no round is run again: not by a worker, not from a checkpoint that is being written."""
        state = self.snapshot or (self.finals[-1] if self.finals else None)
        at_work = [self.stands] if self.stands is not None and self.asking is None else []
        return -1 if state is None else min([state.head, *at_work, *self.pins])

    def stored(self, loop: int, head: int) -> Snapshot | None:
        """What a worker that enters a loop is to load: the loop's end, or the head that others have reached."""
        for final in self.finals:
            if final.loop == loop:
                return final
        if self.snapshot is not None and self.snapshot.loop == loop and self.snapshot.head > head:
            return self.snapshot
        return None

    def handover(self, since: int, packets: bool = True, deliveries: bool = True) -> Handover:
        """All of it, for a newcomer or (without what others may still ask for) for a checkpoint."""
        kept = sorted(self.log) if deliveries else []
        log = tuple((e, tuple(self.log[e].items())) for e in kept if e < self.complete)
        sent: tuple[tuple[int, tuple[tuple[int, Packet], ...], bytes], ...] = ()
        if packets:
            digests = {e: digest for e, (digest, _) in self.inherited.items()} | self.digests
            exchanges = sorted(self.sent.keys() | digests.keys())
            sent = tuple((e, tuple(self.sent.get(e, {}).items()), digests.get(e, b"")) for e in exchanges)
        announced = self.announced
        if not packets and self.snapshot is not None:
            announced = self.snapshot.exchange  # all clones go on from here
        text = tuple(self.text) if packets else ()
        finals = tuple(self.finals)
        return Handover(self.bundle, since, finals, self.snapshot, log, self.complete, announced, sent, text)

    def receive(self, state: Handover, donor: int) -> None:
        """Become what a sibling is, or (donor: -1) was when it wrote a checkpoint."""
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
        """Go on from a sibling's later state: what comes behind it this clone says itself (N11)."""
        assert state.snapshot is not None
        here = state.snapshot.exchange
        sent = tuple(each for each in state.sent if each[0] < here)
        text = tuple(piece for piece in state.text if piece[0] < state.snapshot.said)
        self.receive(state._replace(sent=sent, announced=min(state.announced, here), text=text), donor)

    def follow(self, state: Handover, donor: int) -> None:
        """A passive clone takes a newer state, if it has all that comes before and is not at work behind it."""
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
        """What others may still ask of the sibling."""
        for exchange, kept, digest in state.sent:
            self._retain(exchange, dict(kept))
            if digest and exchange not in self.digests:
                self.inherited[exchange] = digest, donor
        self.announced = max(self.announced, state.announced)
        self.text.extend(piece for piece in state.text if piece not in self.text)

    def new_worker(self, life: int) -> None:
        """The worker is gone, or will be; this is the next one."""
        self.waiting = self.asking = self.held = self.computing_since = self.raised = self.once = None
        self.jumping = self.late = False
        self.offered = None
        self.task = None
        self.life = life
        self.position = 0
        self.stands = None
