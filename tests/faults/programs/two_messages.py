"""Rank 0 sends a message whose first part is large, then a small one; both have buffers.  Rank 1 says what it got."""

import sys
import time

from bsp.faults.engine.peers import Peers
from bsp.faults.protocol.messages import BundlePacket, Data, Handover, Packed, Snapshot

LARGE, SMALL = 1 << 26, 1 << 20


def packet(letter: bytes) -> BundlePacket:
    return BundlePacket(SMALL, letter, letter * SMALL)


peers = Peers((), time.monotonic())
peers.learn([("127.0.0.1", port) for port in peers._comm.allgather(peers.port)])
if peers.rank == 0:
    snapshot = Snapshot(0, 5, 0, 5, False, 5, 0, 5, b"d", Packed(b"S" * LARGE, (), ()), 0)
    kept = ((4, ((1, BundlePacket(SMALL, b"H", memoryview(b"H" * SMALL))),), b""),)
    peers.send(1, Handover(0, 1, (), snapshot, (), 5, 5, kept, ()))
    peers.send(1, Data(0, 7, 1, BundlePacket(SMALL, b"D", memoryview(b"D" * SMALL))))
    while peers.busy:
        peers.take(time.monotonic())
else:
    got = 0
    while got < 2:
        for _, message in peers.take(time.monotonic()):
            said = message.packet if isinstance(message, Data) else message.sent[0][1][0][1]
            print(type(message).__name__, said.digest.decode(), bytes(said.data[:1]).decode())
            got += 1
    sys.stdout.flush()
peers._comm.Barrier()
