"""Messages between elements: announcements, packets, marks and states."""

from __future__ import annotations

from typing import NamedTuple

from bsp.faults.protocol.messages.packets import BundlePacket, Snapshot, Token


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
