"""What elements, workers and bsprun tell each other, and what they are told to do: plain data.

Names validate data (rule N7): everything that carries bytes names the exchange, the bundle they are
from and the bundle they are for.  What bsprun and the elements tell each other is state, not
requests: sent again until the other's state shows that it has arrived (rule N14).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pickle import PickleBuffer
from typing import Any, NamedTuple

_BESIDE = 1 << 15  # bytes from which a packet is not copied into a pickle


class Role(StrEnum):
    """What a clone is to the others."""

    LIVE = "live"  # has the state, computes every round
    JOINING = "joining"  # is being given the state: counts for retention, not for anything else
    PASSIVE = "passive"  # a vertical clone: has the state of the last head, computes when pulled


class Host(NamedTuple):
    """One clone in a view."""

    element: int
    role: Role
    since: int  # the view that gave it this place; a refreshed clone has a new one


@dataclass(frozen=True, slots=True)
class View:
    """Who hosts what; made by bsprun alone, numbered, the larger number holds."""

    number: int
    hosts: tuple[tuple[Host, ...], ...]  # by bundle
    standbys: tuple[int, ...]

    def elements(self) -> set[int]:
        """All elements that belong to the job."""
        return {host.element for hosts in self.hosts for host in hosts} | set(self.standbys)

    def live(self, bundle: int) -> list[int]:
        """The elements with a live clone of a bundle."""
        return [host.element for host in self.hosts[bundle] if host.role is Role.LIVE]

    def plain(self) -> dict[str, Any]:
        """As an event has it."""
        hosts = [{host.element: host.role.value for host in some} for some in self.hosts]
        return {"view": self.number, "hosts": hosts, "standbys": self.standbys}

    def columns(self, bundle: int) -> list[int]:
        """The elements with a clone of a bundle, the live ones first: each column has its sender of large packets."""
        return [host.element for host in sorted(self.hosts[bundle], key=lambda host: host.role is not Role.LIVE)]


class Packet(NamedTuple):
    """What one bundle has for another in one exchange."""

    size: int
    digest: bytes
    data: Any  # bytes; None where only announced

    def __reduce__(self) -> tuple[Any, ...]:
        """A large one travels beside its pickle (`frames`)."""
        beside = self.size >= _BESIDE and self.data is not None
        return Packet, (self.size, self.digest, PickleBuffer(self.data) if beside else self.data)


class Packed(NamedTuple):
    """A state as bytes: a pickle, and beside it the arrays that it refers to by their positions, in npy format."""

    pickle: Any  # bytes
    names: tuple[str, ...]  # of the arrays
    arrays: tuple[Any, ...]  # bytes

    def __reduce__(self) -> tuple[Any, ...]:
        """Large pieces travel beside the pickle that this one is in (`frames`)."""
        return Packed, (_beside(self.pickle), self.names, tuple(map(_beside, self.arrays)))

    @property
    def size(self) -> int:
        """Bytes of all of it."""
        return len(self.pickle) + sum(map(len, self.arrays))


def _beside(data: Any) -> Any:
    return PickleBuffer(data) if len(data) >= _BESIDE else data


class Snapshot(NamedTuple):
    """The state of a bundle at the head of a round."""

    bundle: int
    head: int  # heads passed before, on every process alike
    loop: int  # which outermost `rounds` of the program
    round: int
    final: bool  # the loop has ended here
    exchange: int  # the next one
    start: int  # the first exchange of the loop
    superstep: int
    digest: bytes
    data: Any  # Packed; None if it was not taken
    said: int = 0  # bytes of text written before
    erred: int = 0  # and of standard error, in which clones may differ: `digest` does not know it

    @property
    def size(self) -> int:
        """Bytes of the state."""
        return self.data.size if isinstance(self.data, Packed) else 0


# ------------------------------------------------------------------------- between elements


class Announce(NamedTuple):
    """A clone has computed; with it everything small that it has for the receiver's bundles."""

    bundle: int
    exchange: int
    superstep: int
    compute: float  # seconds since its last delivery, by its own clock
    sets_min: bool
    digest: bytes  # of all its packets and of the state of its last head
    head: int
    mark: int | None
    view: int
    packets: tuple[tuple[int, Packet], ...]  # (bundle they are for, ...)
    state: bytes = b""  # digest of the state at `head`, if it was taken


class Data(NamedTuple):
    """A packet that was too large for the announcement, or was asked for again."""

    bundle: int
    exchange: int
    dest: int
    packet: Packet


class Pull(NamedTuple):
    """Send me again what `bundle` had for `dest`."""

    bundle: int
    exchange: int
    dest: int


class Gone(NamedTuple):
    """The answer to a pull: dropped, every clone of the time had it."""

    bundle: int
    exchange: int
    dest: int


class Marks(NamedTuple):
    """Below these exchanges a clone needs nothing more: (bundle, mark) of each clone of the sender."""

    view: int
    marks: tuple[tuple[int, int | None], ...]


class Want(NamedTuple):
    """Give me the state of this bundle; `head`: only if it is of a later head than this."""

    bundle: int
    since: int
    head: int


class Handover(NamedTuple):
    """All that a clone is: what a newcomer needs to go on in its place."""

    bundle: int
    since: int
    finals: tuple[Snapshot, ...]  # of the loops that have ended
    snapshot: Snapshot | None
    log: tuple[tuple[int, tuple[tuple[int, Packet], ...]], ...]  # deliveries outside loops and since the snapshot
    complete: int
    announced: int  # the next exchange to be announced
    sent: tuple[tuple[int, tuple[tuple[int, Packet], ...], bytes], ...]  # packets others may still ask for
    text: tuple[tuple[int, bytes], ...]  # what bsprun has not confirmed yet

    @property
    def place(self) -> Snapshot | None:
        """Where its worker begins; None: at the program's beginning."""
        return self.snapshot or (self.finals[-1] if self.finals else None)

    @property
    def size(self) -> int:
        """Bytes of all states and packets in it."""
        states = sum(each.size for each in (self.snapshot, *self.finals) if each is not None)
        packets = [packet for _, kept in self.log for _, packet in kept]
        packets += [packet for _, kept, _ in self.sent for _, packet in kept]
        return states + sum(packet.size for packet in packets)


class Passed(NamedTuple):
    """The state at a head, for passive clones: a handover without its log, which they keep themselves."""

    state: Handover


class Tail(NamedTuple):
    """A clone is late by its own clock: passive siblings, take over this superstep."""

    bundle: int
    superstep: int


# ---------------------------------------------------------------------- elements and bsprun


Token = tuple[str, int, int, int]  # "time" or "once", pid, superstep, sequence; in a loop "round", pid, head, sequence


class Progress(NamedTuple):
    """What an element says of one of its clones."""

    bundle: int
    since: int
    joined: bool  # has the state, and has gone on from it
    holds: bool  # has the state: it could, if nobody else were left
    exchange: int
    superstep: int
    head: int
    held: int | None  # the head it stands at, held; while it waits for others under a hold, its next one
    raised: tuple[int, bytes] | None  # an exception of the program at this exchange, and its digest
    ended: bytes | None  # digest of how the program ended
    failing: str | None  # why it cannot go on here
    stale: bool  # a sibling's state would cure it
    said: int  # bytes of text the program has written here, of bundle 0
    once: tuple[Token, int, bytes | None] | None  # stands in proc.once: token, worker, value if it was called here
    tails: int
    pins: tuple[int, ...]  # heads whose state is kept for a checkpoint
    parts: tuple[tuple[int, Any], ...]  # checkpoints written: (head, what the writer says of it)
    given: int = 0  # bytes of the state it has begun with
    again: int = 0  # rounds from there until it joined
    restarts: int = -1  # nobody asks here again for values of rounds before this head


class Divergence(NamedTuple):
    """Clones of one bundle that announced different bytes, or (exchange: -1 - head) came to a head in other states."""

    bundle: int
    exchange: int
    superstep: int
    votes: tuple[tuple[int, bytes], ...]  # (element, digest)


@dataclass(frozen=True, slots=True)
class Report:
    """An element's state, to bsprun."""

    element: int
    view: int
    clones: tuple[Progress, ...]
    divergences: tuple[Divergence, ...] = ()
    overdue: tuple[tuple[int, int], ...] = ()  # (bundle, element) that keeps too much memory waiting
    number: int = 0  # the larger is the newer; 0: not told
    sent: int = 0  # bytes to other elements
    paused: float = 0.0  # seconds: its longest pause of late


@dataclass(frozen=True, slots=True)
class Hold:
    """All are to stop at one head (rule N13); `target` is known when all have named their next."""

    number: int
    target: int | None


@dataclass(frozen=True, slots=True)
class Orders:
    """bsprun's state, to every element."""

    view: View
    hold: Hold | None = None
    raised: tuple[tuple[int, int], ...] = ()  # (bundle, exchange): the exception is the program's (N12)
    writes: tuple[tuple[int, int, int], ...] = ()  # (bundle, element, head): who writes this part of a checkpoint
    printed: int = 0  # bytes of the program's text that are out
    released: int = -1  # checkpoints of heads up to this one are settled
    end: bool = False
    allowance: float = 0.0  # seconds by which limits of silence have grown (N3)
    number: int = 0  # the larger is the newer; 0: not told


# ------------------------------------------------------------- from a worker to its element


class Submitted(NamedTuple):
    """The worker has reached the end of its computation before this exchange, and waits."""

    bundle: int
    life: int  # which worker of this clone
    exchange: int
    superstep: int
    compute: float
    sets_min: bool
    digest: bytes
    raised: bool
    packets: dict[int, Packet]


class Head(NamedTuple):
    """The worker passes the head of a round; it waits if `asks`."""

    bundle: int
    life: int
    asks: bool
    entry: bool  # the loop begins: a state may be waiting for it
    snapshot: Snapshot  # data is None if it was not worth while


class Printed(NamedTuple):
    """The program has written text, from this offset of all its text on."""

    bundle: int
    life: int
    offset: int
    data: bytes


class Asks(NamedTuple):
    """The worker stands in proc.once; `value` is what its call gave, if it was told to call."""

    bundle: int
    life: int
    token: Token
    value: bytes | None


END_COMPARED = 8


class Ended(NamedTuple):
    """The program has ended in this worker; clones compare the first END_COMPARED bytes of `digest`."""

    bundle: int
    life: int
    digest: bytes


class Died(NamedTuple):
    """The worker has gone without a word."""

    bundle: int
    life: int
    how: str


class Stuck(NamedTuple):
    """The worker neither computes nor waits for us; `stopped`: the system says so, it is no long pause."""

    bundle: int
    life: int
    stopped: bool


class Wrote(NamedTuple):
    """A part of a checkpoint is on disk."""

    bundle: int
    head: int
    part: Any


# ---------------------------------------------------------------- what an element is to do


class Send(NamedTuple):
    """To another element (or to itself)."""

    element: int
    message: Any


class Say(NamedTuple):
    """Text, to bsprun, until it confirms it."""

    offset: int
    data: bytes
    since: int = 0  # the clone's; 0: not told


class NotWritten(NamedTuple):
    """A part of a checkpoint could not be written, to bsprun."""

    head: int
    superstep: int
    why: str


class Once(NamedTuple):
    """To the worker in proc.once: the value, or leave to call (value is None)."""

    bundle: int
    token: Token
    value: bytes | None


class Tell(NamedTuple):
    """To bsprun."""

    report: Report


class Deliver(NamedTuple):
    """The worker's exchange is complete; at its next head it is to ask if `ask`."""

    bundle: int
    exchange: int
    packets: dict[int, Packet]
    ask: bool


class Answer(NamedTuple):
    """To a worker that asks at a head: go on, or load this first."""

    bundle: int
    snapshot: Snapshot | None


class StartWorker(NamedTuple):
    """A new worker for a clone; the one before, if any, is to be killed first."""

    bundle: int
    life: int


class Read(NamedTuple):
    """The state of this bundle is in the checkpoint that the job resumes; answer with a Handover."""

    bundle: int
    since: int


class StopWorker(NamedTuple):
    """No worker for this clone any more."""

    bundle: int


class Write(NamedTuple):
    """Write this as a part of the checkpoint of a head."""

    bundle: int
    head: int
    handover: Handover


class Note(NamedTuple):
    """For the event log."""

    kind: str
    fields: dict[str, Any]


class Leave(NamedTuple):
    """The job has ended: go, in order."""


class Die(NamedTuple):
    """This element is no longer part of the job, or nobody hears it: go at once."""

    why: str


# ------------------------------------------------------------------ what bsprun is to do


class Order(NamedTuple):
    """To every element."""

    orders: Orders


class Reply(NamedTuple):
    """To an element whose worker stands in proc.once."""

    element: int
    once: Once


class Print(NamedTuple):
    """The next bytes of the program's text."""

    data: bytes


class Fence(NamedTuple):
    """End this element for certain, then say that it is dead."""

    element: int
    why: str


class Lost(NamedTuple):
    """No clone of a bundle has its state: the last checkpoint, or the end."""

    bundle: int
    superstep: int
    why: str


class Corrupt(NamedTuple):
    """Two clones differ and nobody can say who is right: the last checkpoint, or the end."""

    found: Divergence


class Commit(NamedTuple):
    """All parts of a checkpoint are written."""

    head: int
    parts: tuple[Any, ...]


class Finished(NamedTuple):
    """One clone of every bundle has ended, and its siblings had their time."""

    digests: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Limits:
    """The protocol's times, in seconds."""

    tail_limit: float = 5.0  # T of the model
    floor: float = 0.05  # MinTime counts as this at least: equal rounds vary on a loaded machine
    hang_limit: float = 10.0
    grace: float = 0.002  # before a large packet is asked of another clone than the designated one
    patience: float = 0.1  # before a missing packet is asked for again
    beat: float = 0.1  # between signs of life
    alone: float = 5.0  # without a word of bsprun an element ends itself
    inline: int = 1 << 15  # bytes of a packet that travels inside the announcement
    retention: int = 1 << 32  # bytes kept for others before the last of them is refreshed
    linger: float = 0.5  # for siblings to compare, once one clone of each bundle has ended
    relaunches: int = 3  # of one worker in one superstep
    every: int = 0  # rounds between checkpoints; 0: none
