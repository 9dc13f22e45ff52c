"""The state of one clone inside its element's agent, in parts.

The processes of a program take part in a sequence of exchanges that is the same in every clone (DESIGN section 2), so
numbers identify what a clone has and needs.  With the packets of its inbox and its states at heads a new worker repeats
the program up to the current exchange; with its outbox others repeat theirs.
"""

from __future__ import annotations

from typing import NamedTuple

from bsp.faults.protocol.clones.head_states import HeadStates
from bsp.faults.protocol.clones.inbox import PacketInbox
from bsp.faults.protocol.clones.once_values import OnceValues
from bsp.faults.protocol.clones.outbox import PacketOutbox
from bsp.faults.protocol.clones.phases import ClonePhase
from bsp.faults.protocol.clones.state_request import StateRequest
from bsp.faults.protocol.clones.unconfirmed_text import UnconfirmedText
from bsp.faults.protocol.clones.worker_state import WorkerState
from bsp.faults.protocol.messages import Handover, Role, Snapshot, Token


class CatchingUp(NamedTuple):
    """The way of a new worker to the point that its predecessor had reached."""

    exchange: int  # the last one that the predecessor announced
    rounds: int  # to be computed again
    given: int  # bytes of the state from which it starts


class Clone:
    """The state of one clone.  It makes no decision about other clones; `Member` does."""

    def __init__(self, bundle: int, sources: int, role: Role, since: int, now: float) -> None:
        """Create a clone that receives packets from `sources` other bundles."""
        self.bundle, self.role, self.since = bundle, role, since
        self.inbox = PacketInbox(bundle, sources)
        self.outbox = PacketOutbox()
        self.states = HeadStates()
        self.worker = WorkerState(now=now)
        self.request = StateRequest()
        self.pull_at: float | None = None  # when missing packets are asked for
        # how far it is
        self.superstep = 0
        self.line = ""  # of the program, at which its worker waits or did last
        self.joined = role is not Role.JOINING  # has continued from the state that it was given
        self.given = self.given_head = 0  # bytes, and head, of that state
        self.again = 0  # rounds computed between that state and joining
        self.ended: bytes | None = None  # `Ended.digest`
        # its failures
        self.relaunched: dict[int, int] = {}  # restarts of the worker, by superstep
        self.catching: CatchingUp | None = None  # set while a restarted worker catches up
        self.failing: str | None = None  # why the clone cannot continue on this element
        self.stale = False  # a sibling's state would repair that
        # tails, and a passive clone's part in them (N2)
        self.tails = 0  # supersteps in which it was late
        self.late_siblings: tuple[int, set[int]] = (-1, set())  # (superstep, elements late in it)
        self.pulled = False  # a passive clone has been activated
        self.pulled_at = -1  # at this head
        # what it says to the world outside (N9)
        self.text = UnconfirmedText()
        self.said = 0  # bytes of standard output written, by a sibling before it gave its state, too
        self.granted: tuple[Token, int] | None = None  # call for which a worker has been given permission
        self.values = OnceValues()

    @property
    def phase(self) -> ClonePhase:
        """The phase of the clone."""
        return self.worker.phase

    @property
    def has_state(self) -> bool:
        """True unless it is still waiting for the state from which it starts."""
        return self.phase is not ClonePhase.JOINING

    @property
    def mark(self) -> int | None:
        """The clone's mark: it needs no packet of an earlier exchange.  None while the clone has no state."""
        return self.inbox.complete if self.has_state else None

    def new_worker(self, life: int, now: float) -> None:
        """Begin with another worker: what belonged to the previous one is forgotten."""
        self.worker = WorkerState(life, now=now, before=self.phase)
        self.request.withdraw()

    def passed(self, snapshot: Snapshot) -> None:
        """Store a state at a later head, and forget what only a replay up to it would need."""
        if not self.states.keep(snapshot):
            return
        # A worker that is behind a state taken from a sibling still needs the packets from its own position on.
        # Packets from before the loop (below `start`) stay: every new worker needs them.
        self.inbox.forget(snapshot.start, min(snapshot.exchange, self.worker.position))
        self.outbox.forget_digests(snapshot.exchange)
        for superstep in [s for s in self.relaunched if s < snapshot.superstep]:
            del self.relaunched[superstep]

    def restarts(self) -> int:
        """Return the head before which no round is run again: by a worker, or from a checkpoint being written.

        It is -1 if a worker would start at the beginning of the program.
        """
        state, worker = self.states.place, self.worker
        at_work = [worker.stands] if worker.stands is not None and worker.asking is None else []
        return -1 if state is None else min([state.head, *at_work, *self.states.pins])

    # ------------------------------------------------------------------ for siblings, and from them

    def handover(self, since: int, packets: bool = True, deliveries: bool = True) -> Handover:
        """Return the state of the clone for another one.

        since : `since` of the clone that receives it.
        packets : whether to include the retained packets and unconfirmed text; not for a checkpoint.  With both, the
            values of proc.once are included, too.
        deliveries : whether to include the log; not for passive clones, which have their own.
        """
        states = self.states
        log = self.inbox.deliveries() if deliveries else ()
        complete, announced = self.inbox.complete, self.outbox.announced
        if not packets and states.newest is not None:
            # After a resume all clones continue from here and send later packets again: with other content if the
            # program had ended because of a file that is there now.
            here = announced = states.newest.exchange
            log, complete = tuple(each for each in log if each[0] < here), min(complete, here)
        return Handover(
            self.bundle, since, tuple(states.finals), states.newest, log, complete, announced,
            self.outbox.all_sent() if packets else (), self.text.pieces if packets else (),
            tuple(self.values.items()) if packets and deliveries else (), tuple(states.repeats),
        )  # fmt: skip

    def receive(self, state: Handover, donor: int) -> None:
        """Take over a complete state: a sibling's, or one from a checkpoint (`donor` -1)."""
        self.states.finals, self.states.newest = list(state.finals), state.snapshot
        self.inbox.add(state.log)
        self.inbox.complete = max(self.inbox.complete, state.complete)
        self._inherit(state, donor)
        if state.snapshot is not None:
            self.inbox.forget(state.snapshot.start, state.snapshot.exchange)
        self.inbox.advance(self.outbox.announced)

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
        last = state.place
        assert last is not None
        at_work = not self.worker.at_head
        if self.inbox.complete < last.start or (at_work and self.inbox.complete < last.exchange):
            return
        self._inherit(state, donor)
        for final in state.finals:
            self.passed(final)
        if state.snapshot is not None:
            self.passed(state.snapshot)
        if not at_work:
            self.inbox.complete = max(self.inbox.complete, last.exchange)
            self.inbox.forget(last.start, last.exchange)
            self.inbox.advance(self.outbox.announced)

    def _inherit(self, state: Handover, donor: int) -> None:
        """Take over a sibling's retained packets, digests, unconfirmed text and values of proc.once.

        What the sibling had written up to its state counts as written here: the job must not end before it is printed.
        """
        if state.place is not None:
            self.said = max(self.said, state.place.said)
        self.outbox.inherit(state.sent, state.announced, donor)
        self.states.repeats |= set(state.repeats)
        self.text.inherit(state.text)
        self.values.add(state.values)
