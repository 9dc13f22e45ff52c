"""Messages, reports, orders and effects of cloned execution, as plain data, with the limits of the protocol.

A program is split into bundles of processes.  Each bundle runs as one or more clones, each on another element.
All communication of a program is one sequence of numbered exchanges between bundles.  A head is the start of a
round of a `rounds` loop, or the end of the loop; heads are numbered over the whole program.

Names validate data (rule N7): every message that carries bytes names the exchange, the source bundle and the
destination bundle.  Elements and bsprun send each other their state, not requests: they repeat it until the state
that the other side sends back shows that it has arrived (rule N14).  The rules N1 to N17 are in member.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pickle import PickleBuffer
from typing import Any, NamedTuple

from bsp.faults.protocol.clones.phases import ClonePhase

_BESIDE = 1 << 15  # bytes; packets of this size or more travel beside the pickle and are not copied into it


class Role(StrEnum):
    """The part that a clone plays for its bundle."""

    LIVE = "live"  # has the state and computes every round
    JOINING = "joining"  # waits for a sibling's state: packets are retained for it, and nothing else counts it
    PASSIVE = "passive"  # a vertical clone: has the state of the last head, computes only when it is activated


class ClonePlace(NamedTuple):
    """The place of one clone in a view."""

    element: int
    role: Role
    since: int  # number of the view that gave this place; a clone that is made anew gets a new one
    row: int = 0  # of the placement: clones in row 0 are live once they have joined, those in other rows passive


@dataclass(frozen=True, slots=True)
class View:
    """The assignment of bundles to elements.

    Only bsprun makes views.  They are numbered, and the one with the largest number is in force.
    """

    number: int
    hosts: tuple[tuple[ClonePlace, ...], ...]  # indexed by bundle
    standbys: tuple[int, ...]

    def elements(self) -> set[int]:
        """Return all elements that belong to the job."""
        return {host.element for hosts in self.hosts for host in hosts} | set(self.standbys)

    def live(self, bundle: int) -> list[int]:
        """Return the elements that have a live clone of `bundle`."""
        return [host.element for host in self.hosts[bundle] if host.role is Role.LIVE]

    def plain(self) -> dict[str, Any]:
        """Return the view as the fields of an event in the log."""
        hosts = [{host.element: host.role.value for host in some} for some in self.hosts]
        return {"view": self.number, "hosts": hosts, "standbys": self.standbys}

    def columns(self, bundle: int) -> list[int]:
        """Return the elements that have a clone of `bundle`, those with live clones first.

        A clone's position in this list is its column.  Each column has one designated sender of large packets (N1).
        """
        return [host.element for host in sorted(self.hosts[bundle], key=lambda host: host.role is not Role.LIVE)]


class BundlePacket(NamedTuple):
    """The bytes that one bundle sends to another in one exchange."""

    size: int
    digest: bytes
    data: Any  # bytes, or what holds them for us; None if the packet is only announced here and travels separately

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the packet; large data becomes an out-of-band buffer (see faults/carrier/mesh.py)."""
        beside = self.size >= _BESIDE and isinstance(self.data, bytes | bytearray | memoryview)
        return BundlePacket, (self.size, self.digest, PickleBuffer(self.data) if beside else self.data)


class Packed(NamedTuple):
    """A state as bytes: a pickle, and the arrays that it refers to by position, each in npy format."""

    pickle: Any  # bytes
    names: tuple[str, ...]  # of the arrays
    arrays: tuple[Any, ...]  # bytes, or what holds them for us

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the state; its large pieces become out-of-band buffers (see faults/carrier/mesh.py)."""
        return Packed, (_beside(self.pickle), self.names, tuple(map(_beside, self.arrays)))

    @property
    def size(self) -> int:
        """The size of the pickle and all arrays, in bytes."""
        return len(self.pickle) + sum(map(len, self.arrays))


def _beside(data: Any) -> Any:
    """Return `data` as an out-of-band buffer for pickle if it is large, else unchanged."""
    large = len(data) >= _BESIDE and isinstance(data, bytes | bytearray | memoryview)
    return PickleBuffer(data) if large else data


class Snapshot(NamedTuple):
    """The state of a bundle at a head."""

    bundle: int
    head: int  # number of this head, counted over the whole program and equal on all processes (N10)
    loop: int  # number of the outermost `rounds` loop in the program
    round: int
    final: bool  # the loop ends at this head
    exchange: int  # the first exchange after this head
    start: int  # the first exchange of the loop
    superstep: int
    digest: bytes  # of `data`; clones of a bundle must agree on it
    data: Any  # Packed; None if no state was taken at this head
    said: int = 0  # bytes of standard output that the bundle wrote before this head
    erred: int = 0  # bytes of standard error before it; not part of `digest`, because clones may differ in them

    @property
    def size(self) -> int:
        """The size of the state in bytes; 0 if none was taken."""
        return self.data.size if isinstance(self.data, Packed) else 0


# Identifies one call of proc.once, or one reading of the clock, equally in all clones:
# ("time" or "once", pid, superstep, sequence); inside a loop ("round", pid, head, sequence).
Token = tuple[str, int, int, int]


# ------------------------------------------------------------------------- between elements


class Announce(NamedTuple):
    """The announcement that a clone has computed an exchange (N1).

    It goes to every element that hosts a clone, and carries the small packets for the receiver's bundles.
    """

    bundle: int
    exchange: int
    superstep: int
    compute: float  # seconds of computation by the clone's own clock; negative except in a superstep's first exchange
    sets_min: bool  # `compute` may lower MinTime of this superstep (N2)
    digest: bytes  # of all its packets in this exchange (N11)
    head: int  # the latest head that the clone has passed
    mark: int | None  # the clone's mark: see Marks
    view: int  # number of the sender's view
    packets: tuple[tuple[int, BundlePacket], ...]  # (destination bundle, packet); large ones without data
    state: bytes = b""  # digest of the clone's state at `head`; empty if none was taken there


class Data(NamedTuple):
    """A packet with its bytes: one too large for the announcement, or the answer to a Pull."""

    bundle: int
    exchange: int
    dest: int
    packet: BundlePacket


class Pull(NamedTuple):
    """A request to send again the packet of `bundle` for `dest` in `exchange` (N1)."""

    bundle: int
    exchange: int
    dest: int


class Gone(NamedTuple):
    """The answer to a Pull for a packet that was dropped because every clone of `dest` had it (N4)."""

    bundle: int
    exchange: int
    dest: int


class Marks(NamedTuple):
    """The marks of all clones on the sending element (N4).

    The mark of a clone is an exchange: the clone needs no packet of any earlier one.  None: no mark yet.
    """

    view: int  # number of the sender's view; a receiver with an older view ignores the marks
    marks: tuple[tuple[int, int | None], ...]  # (bundle, mark)


class Want(NamedTuple):
    """A request for the state of `bundle`, answered with a Handover."""

    bundle: int
    since: int
    head: int  # only a state of a later head is wanted; -1: any state


class Handover(NamedTuple):
    """The complete state of a clone, from which another clone can continue in its place."""

    bundle: int
    since: int  # `since` of the clone that is to receive it (N7)
    finals: tuple[Snapshot, ...]  # the last states of earlier loops, in their order
    snapshot: Snapshot | None  # the newest state inside the current loop
    log: tuple[tuple[int, tuple[tuple[int, BundlePacket], ...]], ...]  # by exchange; outside loops and since `snapshot`
    complete: int  # all packets of all earlier exchanges have been received
    announced: int  # the next exchange to be announced
    sent: tuple[
        tuple[int, tuple[tuple[int, BundlePacket], ...], bytes], ...
    ]  # (exchange, packets still retained, digest)
    text: tuple[tuple[int, bytes], ...]  # (offset, text) of standard output that bsprun has not confirmed
    values: tuple[tuple[Token, bytes], ...] = ()  # results of proc.once and readings of the clock
    repeats: tuple[tuple[int, int], ...] = ()  # see Clone.repeats

    @property
    def place(self) -> Snapshot | None:
        """The snapshot from which a worker starts; None if it starts at the beginning of the program."""
        return self.snapshot or (self.finals[-1] if self.finals else None)

    @property
    def size(self) -> int:
        """The total size of all states and packets, in bytes."""
        states = sum(each.size for each in (self.snapshot, *self.finals) if each is not None)
        packets = [packet for _, kept in self.log for _, packet in kept]
        packets += [packet for _, kept, _ in self.sent for _, packet in kept]
        return states + sum(packet.size for packet in packets)


class Passed(NamedTuple):
    """A live clone's state at a head, sent to passive clones: a Handover without log, because they keep their own."""

    state: Handover


class Tail(NamedTuple):
    """The notice that a clone is late by its own clock (N2); passive siblings then compute this superstep."""

    bundle: int
    superstep: int


# ---------------------------------------------------------------------- elements and bsprun


class Progress(NamedTuple):
    """The state of one clone as its element reports it to bsprun."""

    bundle: int
    since: int
    joined: bool  # has received the state and has continued from it
    holds: bool  # has received the complete state: the clone could continue as the last of its bundle (N5)
    exchange: int  # the next exchange that it announces
    superstep: int
    head: int  # the latest head passed
    held: int | None  # head at which a hold stops it; if it waits in an exchange during a hold, its next head (N13)
    raised: tuple[int, bytes] | None  # the program raised an exception: (exchange, digest) (N12)
    ended: bytes | None  # the program has ended: `Ended.digest`
    failing: str | None  # the reason why the clone cannot continue on this element
    stale: bool  # a sibling's state would repair what `failing` names
    said: int  # bytes of standard output written here; bundle 0 only
    once: tuple[Token, int, bytes | None] | None  # waits in proc.once: token, life, result if it has called
    tails: int  # how often the clone was late (N2)
    pins: tuple[int, ...]  # heads whose state is kept for a checkpoint
    parts: tuple[tuple[int, Any], ...]  # parts of checkpoints written: (head, the writer's result)
    given: int = 0  # bytes of the sibling's state from which the clone started
    again: int = 0  # rounds computed between that state and joining
    restarts: int = -1  # no worker here will run rounds before this head again, but for those in `repeats`
    repeats: tuple[tuple[int, int], ...] = ()  # see Clone.repeats
    line: str = ""  # the program's at which its worker waits, or did last
    waits_for: tuple[int, ...] = ()  # the bundles whose packets its worker waits for
    seconds: float = 0.0  # that its worker has waited, or computed
    phase: ClonePhase = ClonePhase.JOINING
    calls: bool = False  # its worker has permission to make the call that `once` names


class Divergence(NamedTuple):
    """A difference between clones of one bundle: in the bytes of an exchange, or in the states at a head (N11)."""

    bundle: int
    exchange: int  # if negative, the difference is between states, and -1 - exchange is the head
    superstep: int
    votes: tuple[tuple[int, bytes], ...]  # (element, digest); -1 - element: a later, different digest of the same clone


@dataclass(frozen=True, slots=True)
class AgentReport:
    """The state of an element, as it sends it to bsprun (N14)."""

    element: int
    view: int
    clones: tuple[Progress, ...]
    divergences: tuple[Divergence, ...] = ()
    overdue: tuple[tuple[int, int], ...] = ()  # (bundle, element) of clones for which too many bytes are retained
    number: int = 0  # a larger number is newer; 0: not numbered
    sent: int = 0  # bytes sent to other elements
    paused: float = 0.0  # seconds: the element's longest recent pause (N3)
    leaving: str = ""  # why it is to leave; empty: it is not (N15)
    kept: tuple[Token, ...] = ()  # values of proc.once and proc.time that bsprun had it keep lately (N16)


@dataclass(frozen=True, slots=True)
class Hold:
    """The order to stop all clones at one head (N13)."""

    number: int
    target: int | None  # the common head; None until every bundle has named its next head


@dataclass(frozen=True, slots=True)
class Orders:
    """The state of bsprun, as it sends it to every element (N14)."""

    view: View
    hold: Hold | None = None
    raised: tuple[tuple[int, int], ...] = ()  # (bundle, exchange): the exception belongs to the program (N12)
    writes: tuple[tuple[int, int, int], ...] = ()  # (bundle, element, head): writer of each part of a checkpoint
    printed: int = 0  # bytes of standard output that have been written
    released: int = -1  # checkpoints of heads up to this one are settled, whether written or not
    end: bool = False  # the job is over: every element leaves (N8)
    allowance: float = 0.0  # seconds added to every limit of silence (N3)
    settled: int = -1  # no round before this head is run again, but for those in `repeats`; see OnceValues
    repeats: tuple[tuple[int, int], ...] = ()
    number: int = 0  # a larger number is newer; 0: not numbered
    heard: tuple[tuple[int, int], ...] = ()  # (element, number of its newest report): from its time its lease runs (N9)


# ------------------------------------------------------------- from a worker to its element


class Submitted(NamedTuple):
    """A worker's packets of one exchange; the worker waits for the other bundles' packets."""

    bundle: int
    life: int  # number of this worker; messages of the clone's earlier workers are ignored
    exchange: int
    superstep: int
    compute: float  # seconds since the last delivery; -1 except in a superstep's first exchange
    sets_min: bool
    digest: bytes  # of all packets
    raised: bool  # a process of the bundle has raised an exception (N12)
    packets: dict[int, BundlePacket]  # by destination bundle
    line: str = ""  # the program's, with the call that waits there


class Head(NamedTuple):
    """A worker has reached a head."""

    bundle: int
    life: int
    asks: bool  # the worker waits for an Answer
    entry: bool  # the loop starts here: the agent may already hold a later state for it
    snapshot: Snapshot  # its data is None if no state was taken at this head


class Printed(NamedTuple):
    """Standard output of the program; `offset` counts from the beginning of all its text."""

    bundle: int
    life: int
    offset: int
    data: bytes


class Asks(NamedTuple):
    """A worker waits in proc.once; `value` is the pickled result if the worker was told to make the call."""

    bundle: int
    life: int
    token: Token
    value: bytes | None


# Clones compare this many leading bytes of `Ended.digest`; the pickled exit status and message follow them.
END_COMPARED = 8


class Ended(NamedTuple):
    """The program has ended in this worker."""

    bundle: int
    life: int
    digest: bytes  # END_COMPARED bytes of digest, then the pickled exit status and message


class Died(NamedTuple):
    """The worker process has ended before its program has."""

    bundle: int
    life: int
    how: str


class Stuck(NamedTuple):
    """The worker uses no processor time and does not wait for its agent."""

    bundle: int
    life: int
    stopped: bool  # the system reports the process as stopped, so this is not merely a long pause


class Wrote(NamedTuple):
    """A part of a checkpoint has been written to disk."""

    bundle: int
    head: int
    part: Any


# ---------------------------------------------------------------- what an element is to do


class SendTo(NamedTuple):
    """Send a message to an element, which may be this one."""

    element: int
    message: Any


class Say(NamedTuple):
    """Send text to bsprun; repeated until bsprun confirms it (N14)."""

    offset: int
    data: bytes
    since: int = 0  # `since` of the clone that wrote it; 0: unknown


class NotWritten(NamedTuple):
    """The notice to bsprun that a part of a checkpoint could not be written."""

    head: int
    superstep: int
    why: str


class Once(NamedTuple):
    """Answer a worker in proc.once: with the value, or with permission to make the call (`value` is None).

    keep : the element is to keep the value for a bsprun that takes over, and not to pass it on yet (N16).
    """

    bundle: int
    token: Token
    value: bytes | None
    keep: bool = False


class Tell(NamedTuple):
    """Send a report to bsprun."""

    report: AgentReport


class Deliver(NamedTuple):
    """Give the worker the packets of its exchange, which is complete."""

    bundle: int
    exchange: int
    packets: dict[int, BundlePacket]  # by source bundle
    ask: bool  # at its next head the worker must wait for an Answer


class Answer(NamedTuple):
    """Let a worker that waits at a head continue, after loading `snapshot` if there is one."""

    bundle: int
    snapshot: Snapshot | None


class StartWorker(NamedTuple):
    """Start a worker for a clone, and kill the clone's previous worker first."""

    bundle: int
    life: int


class Read(NamedTuple):
    """Read the state of this bundle from the checkpoint that the job resumes; the result is a Handover."""

    bundle: int
    since: int


class StopWorker(NamedTuple):
    """Kill the worker of this clone; no other follows."""

    bundle: int


class Write(NamedTuple):
    """Write `handover` as this bundle's part of the checkpoint of `head`."""

    bundle: int
    head: int
    handover: Handover


class Note(NamedTuple):
    """Add an event to the log."""

    kind: str
    fields: dict[str, Any]


class Leave(NamedTuple):
    """End this element in order: the job is over."""


class Die(NamedTuple):
    """End this element at once: it no longer belongs to the job, or has not heard bsprun for too long."""

    why: str


# ------------------------------------------------------------------ what bsprun is to do


class Order(NamedTuple):
    """Send orders to every element."""

    orders: Orders


class Reply(NamedTuple):
    """Send the answer of proc.once to an element."""

    element: int
    once: Once


class Print(NamedTuple):
    """Print the next bytes of the program's standard output."""

    data: bytes


class Fence(NamedTuple):
    """Kill this element for certain, then report its death to the arbiter."""

    element: int
    why: str


class Dismiss(NamedTuple):
    """Others have taken over all that this element held: end it (N15)."""

    element: int


class Lost(NamedTuple):
    """No clone has the state of a bundle any more: restart from the last checkpoint, or end the job."""

    bundle: int
    superstep: int
    why: str


class Corrupt(NamedTuple):
    """Clones of a bundle differ and no majority decides: restart from the last checkpoint, or end the job (N11)."""

    found: Divergence


class Commit(NamedTuple):
    """Commit the checkpoint of `head`: all its parts are written."""

    head: int
    parts: tuple[Any, ...]  # the writers' results, by bundle


class Finished(NamedTuple):
    """The program is over: every bundle has an ended clone, and its siblings had time to compare (N8)."""

    digests: tuple[bytes, ...]  # `Ended.digest` of each bundle


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of the protocol; times are in seconds."""

    tail_limit: float = 5.0  # T: a computation longer than T * max(MinTime, floor) is a tail (N2)
    floor: float = 0.05  # least value used for MinTime, because equal rounds vary on a loaded machine
    hang_limit: float = 10.0  # an element that is silent for longer is fenced (N2)
    grace: float = 0.002  # until a large packet is asked of others than the designated sender (N1)
    patience: float = 0.1  # until a missing packet is asked for again (N1)
    beat: float = 0.1  # between signs of life
    alone: float = 5.0  # without a word from bsprun, after which an element's permissions have lapsed (N9)
    orphan: float = 0.0  # without a word from bsprun, after which an element ends itself; at least `alone`
    inline: int = 1 << 15  # bytes; larger packets travel outside the announcement
    retention: int = 1 << 32  # bytes an element retains for others before it reports the clone that lags most (N6)
    linger: float = 0.5  # for siblings to compare results after every bundle has an ended clone (N8)
    relaunches: int = 3  # of a clone's worker within one superstep (N12)
    every: int = 0  # rounds between checkpoints; 0: no checkpoints
