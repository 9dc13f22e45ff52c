"""The packets that a clone has received, and what it knows of those that are missing (N1, N11)."""

from __future__ import annotations

from collections.abc import Iterable

from bsp.faults.protocol.clones.votes import Ballots
from bsp.faults.protocol.messages import BundlePacket

Log = Iterable[tuple[int, Iterable[tuple[int, BundlePacket]]]]  # (exchange, (source bundle, packet)...)...


class PacketInbox:
    """Packets received, by exchange and source bundle.

    `log` holds those from outside the program's `rounds` loops, and those since the head of the clone's newest state:
    with them a new worker repeats the program up to the current exchange.
    """

    def __init__(self, bundle: int, sources: int) -> None:
        """Create the inbox of a clone of `bundle`, which receives from `sources` other bundles."""
        self._bundle, self._sources = bundle, sources
        self.log: dict[int, dict[int, BundlePacket]] = {}  # by exchange and source bundle
        self.complete = 0  # all packets of all earlier exchanges have been received
        self.ballots = Ballots()  # on packets that have not been accepted
        self.offers: dict[tuple[int, int], list[int]] = {}  # (exchange, source): elements that announced a large packet
        self.gone: set[tuple[int, int]] = set()  # (source, element) that has dropped the missing packet
        self.pulls = 0  # requests for missing packets since one has come

    def take(self, exchange: int, source: int, packet: BundlePacket) -> None:
        """Put a packet into the log.  Of several copies the first is kept."""
        if exchange < self.complete:
            return
        arrived = self.log.setdefault(exchange, {})
        self.ballots.close(exchange, source)
        if source not in arrived:
            arrived[source] = packet
            self.offers.pop((exchange, source), None)
            if exchange == self.complete and len(arrived) == self._sources:
                self.advance()

    def add(self, log: Log) -> None:
        """Add packets that a sibling has received."""
        for exchange, packets in log:
            self.log.setdefault(exchange, {}).update(packets)

    def advance(self, announced: int = 0) -> None:
        """Move `complete` forward over all exchanges whose packets are in the log.

        announced : the next exchange to be announced; a single bundle receives nothing, so what it submits is complete.
        """
        if self._sources == 0:
            self.complete = max(self.complete, announced)
            return
        before = self.complete
        while len(self.log.get(self.complete, ())) == self._sources:
            self.complete += 1
        if self.complete != before:
            self.ballots.forget(self.complete)
            for key in [key for key in self.offers if key[0] < self.complete]:
                del self.offers[key]
            self.gone.clear()
            self.pulls = 0

    def forget(self, start: int, end: int) -> None:
        """Forget the packets of exchanges in [start, end): no new worker needs them."""
        for exchange in [exchange for exchange in self.log if start <= exchange < end]:
            del self.log[exchange]

    def missing(self) -> list[int]:
        """Return the bundles whose packets of exchange `complete` have not arrived."""
        have = self.log.get(self.complete, {})
        return [source for source in range(self._sources + 1) if source != self._bundle and source not in have]

    def has_hole(self) -> bool:
        """Return whether packets of a later exchange than `complete` have arrived."""
        return any(exchange > self.complete for exchange in self.log) or self.ballots.are_beyond(self.complete)

    def deliveries(self) -> tuple[tuple[int, tuple[tuple[int, BundlePacket], ...]], ...]:
        """Return the log of all complete exchanges, as a Handover holds it."""
        return tuple((e, tuple(self.log[e].items())) for e in sorted(self.log) if e < self.complete)
