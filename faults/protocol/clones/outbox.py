"""The packets that a clone has sent, until every clone that they are for has them (N4), and their digests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bsp.faults.protocol.messages import BundlePacket, Submitted

Sent = tuple[int, tuple[tuple[int, BundlePacket], ...], bytes]  # (exchange, packets by destination, digest)


class PacketOutbox:
    """Packets sent, by exchange and destination bundle."""

    def __init__(self) -> None:
        self.sent: dict[int, dict[int, BundlePacket]] = {}  # by exchange and destination bundle
        self.announced = 0  # the next exchange to be announced
        self.digests: dict[int, bytes] = {}  # by exchange: of what this clone has computed
        # by exchange: (digest, donor) of what a sibling announced before this clone took its state
        self.inherited: dict[int, tuple[bytes, int]] = {}
        self.size = 0  # bytes of all packets
        self._dropped: dict[int, int] = {}  # by destination: packets of earlier exchanges are dropped

    def keep(self, submitted: Submitted) -> None:
        """Retain the packets of an exchange that is being announced (N4)."""
        self._retain(submitted.exchange, submitted.packets)
        self.digests[submitted.exchange] = submitted.digest
        self.announced = submitted.exchange + 1

    def inherit(self, sent: Iterable[Sent], announced: int, donor: int) -> None:
        """Take over a sibling's retained packets and digests: others may ask for them here."""
        for exchange, kept, digest in sent:
            self._retain(exchange, dict(kept))
            if digest and exchange not in self.digests:
                self.inherited[exchange] = digest, donor
        self.announced = max(self.announced, announced)

    def _retain(self, exchange: int, packets: Mapping[int, BundlePacket]) -> None:
        """Retain those packets that some clone may still need.

        A slow clone announces packets that all receivers have long had from its siblings; these are not retained.
        """
        kept = {dest: packet for dest, packet in packets.items() if self._dropped.get(dest, 0) <= exchange}
        if kept and exchange not in self.sent:
            self.sent[exchange] = kept
            self.size += sum(packet.size for packet in kept.values())

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
                    self.size -= packet.size
                if not kept:
                    del self.sent[exchange]
        self._dropped[dest] = max(start, below)

    def forget_digests(self, before: int) -> None:
        """Forget the digests of exchanges before one that no new worker computes again."""
        for known in (self.digests, self.inherited):
            for exchange in [exchange for exchange in known if exchange < before]:
                del known[exchange]

    def all_sent(self) -> tuple[Sent, ...]:
        """Return all retained packets and known digests, as a Handover holds them."""
        digests = {e: digest for e, (digest, _) in self.inherited.items()} | self.digests
        exchanges = sorted(self.sent.keys() | digests.keys())
        return tuple((e, tuple(self.sent.get(e, {}).items()), digests.get(e, b"")) for e in exchanges)
