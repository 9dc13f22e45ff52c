"""Messages from a worker to its element's agent."""

from __future__ import annotations

from typing import Any, NamedTuple

from bsp.faults.protocol.messages.packets import BundlePacket, Snapshot, Token


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
