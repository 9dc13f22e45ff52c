"""Effects, which the state machines of an element and of bsprun return for their drivers to perform."""

from __future__ import annotations

from typing import Any, NamedTuple

from bsp.faults.protocol.messages.between_elements import Handover
from bsp.faults.protocol.messages.orders import Orders
from bsp.faults.protocol.messages.packets import BundlePacket, Snapshot, Token
from bsp.faults.protocol.messages.reports import AgentReport, Divergence


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
