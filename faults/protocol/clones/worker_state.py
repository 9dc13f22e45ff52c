"""The worker of a clone, as the protocol sees it: its phase, where it stands, what it waits for."""

from __future__ import annotations

from bsp.faults.protocol.clones.phases import AT_HEAD, RUNNING, ClonePhase, follow
from bsp.faults.protocol.messages import Head, Snapshot, Submitted, Token


class WorkerState:
    """The state of a clone's current worker.  A new worker begins with a new one."""

    def __init__(self, life: int = 0, *, now: float, before: ClonePhase | None = None) -> None:
        """Begin with worker number `life`; 0: there is none yet.

        before : the phase of the clone's previous worker, or of the clone before its first one.
        """
        self.life = life
        self.phase = ClonePhase.JOINING if before is None else follow(before, ClonePhase.REPLAYING)
        self.since = now  # time at which it began to compute, or to wait
        self.position = 0  # the exchange that it submits next
        self.stands: int | None = None  # the head that it passed last
        self.task: int | None = None  # superstep that it computes; None in a replay
        self.late = False  # in this superstep
        self.waiting: Submitted | None = None  # what it has submitted, while it waits for packets
        self.asking: Head | None = None  # the head at which it waits for the agent's answer
        self.once: tuple[Token, int, bytes | None] | None = None  # its call of proc.once: token, life and result

    def enter(self, phase: ClonePhase) -> None:
        """Enter a phase; raise WrongPhase if it may not follow the present one."""
        self.phase = follow(self.phase, phase)

    @property
    def runs(self) -> bool:
        """True while its program runs, a call of proc.once included."""
        return self.phase in RUNNING

    @property
    def at_head(self) -> bool:
        """True while it stands at a head."""
        return self.phase in AT_HEAD

    def run(self, now: float, task: int | None) -> None:
        """Let it go on computing.

        task : the superstep that it computes; None in a replay.
        """
        self.enter(ClonePhase.REPLAYING if task is None else ClonePhase.COMPUTING)
        self.waiting = self.asking = None
        self.task, self.since = task, now

    def submit(self, event: Submitted, now: float) -> None:
        """Record that it has ended a computation and submits an exchange."""
        self.waiting, self.asking, self.late = event, None, False
        self.position, self.since = event.exchange, now

    def stand(self, event: Head, now: float, task: int | None) -> None:
        """Record that it has come to a head; if it asks, `Member` decides what follows."""
        self.position, self.stands = event.snapshot.exchange, event.snapshot.head
        self.task = task
        if event.asks:
            self.asking, self.late, self.since = event, False, now
        else:
            self.enter(ClonePhase.REPLAYING if task is None else ClonePhase.COMPUTING)

    def load(self, state: Snapshot, now: float) -> None:
        """Let a worker at a head go on from another state; it replays from there."""
        self.position, self.stands = state.exchange, state.head
        self.run(now, None)

    def stop(self) -> None:
        """Record that it has been killed and no other follows."""
        self.enter(ClonePhase.STOPPED)
        self.life, self.waiting, self.asking, self.once = 0, None, None, None

    def call(self, token: Token, value: bytes | None) -> None:
        """Record that it waits in proc.once; `value` is the result if it has made the call."""
        self.once = token, self.life, value
        if self.phase is not ClonePhase.CALLING:
            self.enter(ClonePhase.CALLING)

    def end_call(self) -> None:
        """Let it go on behind a call of proc.once, whose value it is given."""
        self.once = None
        self.enter(ClonePhase.REPLAYING if self.task is None else ClonePhase.COMPUTING)

    @property
    def held(self) -> int | None:
        """The head at which bsprun holds it (N13), or None."""
        return self.asking.snapshot.head if self.asking is not None and self.phase is ClonePhase.HELD else None

    @property
    def raised(self) -> tuple[int, bytes] | None:
        """The exception that it has raised and nobody has confirmed, as (exchange, digest), or None (N12)."""
        if self.phase is not ClonePhase.RAISED or self.waiting is None:
            return None
        return self.waiting.exchange, self.waiting.digest
