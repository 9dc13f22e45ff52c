"""Messages between agents: MPI point-to-point that survives the death of any agent.

Nothing here waits for a particular rank.  Sends and receives are started, tested, and given up when MPI reports that
the other rank is gone.  MPI offers nothing that an event loop can sleep on.  Every message is therefore followed by a
datagram to the receiver's bell, a socket that wakes its loop.  A lost datagram costs one timeout.
"""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Sequence
from typing import Any

from mpi4py import MPI

from bsp.faults.engine import frames
from bsp.faults.injection import Fault

Framed = tuple[bytes, list[memoryview]]

_TAG = 7  # of a message's first part (see frames.py)
_BUFFER = 8  # of the buffers that follow it


class Peers:
    """The connections to all other agents."""

    def __init__(self, faults: Sequence[Fault], now: float) -> None:
        """Join MPI and open the bell; injected faults of messages are carried out here."""
        self._comm = MPI.COMM_WORLD
        self._comm.Set_errhandler(MPI.ERRORS_RETURN)
        self.rank: int = self._comm.rank
        self.size: int = self._comm.size
        self.bell = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.bell.bind(("", 0))
        self.bell.setblocking(False)
        self.port: int = self.bell.getsockname()[1]
        self._bells: list[tuple[str, int]] = []  # address of each rank's bell
        self._sending: list[tuple[Any, Any]] = []  # (request, data) of unfinished sends
        self._receiving: list[_Receiving] = []
        self._given_up: set[int] = set()  # ranks that are dead or no longer in the job
        self._status = MPI.Status()
        self._faults = [fault for fault in faults if fault.kind in ("drop", "delay", "duplicate")]
        self._draw = {fault: random.Random(f"{fault.seed} {self.rank}") for fault in self._faults}
        self._late: list[tuple[float, int, Framed]] = []  # messages delayed by a fault: (due time, rank, message)
        self.now = now
        self.sent_bytes = 0

    def learn(self, bells: list[tuple[str, int]]) -> None:
        """Set the addresses of all ranks' bells."""
        self._bells = bells

    def give_up(self, rank: int) -> None:
        """Send nothing more to a rank that is dead or no longer part of the job."""
        self._given_up.add(rank)

    # --------------------------------------------------------------------------------- out

    def send(self, rank: int, message: Any) -> None:
        """Start sending a message; one to a dead rank is dropped."""
        if rank in self._given_up:
            return
        data = frames.encode(message)
        for fault in self._faults:
            if self._draw[fault].random() < (fault.rate or 0.0):
                if fault.kind == "drop":
                    return
                if fault.kind == "delay":
                    self._late.append((self.now + (fault.seconds or 0.0), rank, data))
                    return
                self._start(rank, data)
        self._start(rank, data)

    def _start(self, rank: int, framed: Framed) -> None:
        """Start the sends of an encoded message, and ring the receiver's bell."""
        first, buffers = framed
        try:
            self._begin(self._comm.Isend([first, MPI.BYTE], rank, _TAG), first)
            for buffer in buffers:
                self._begin(self._comm.Isend([buffer, MPI.BYTE], rank, _BUFFER), buffer)
        except MPI.Exception:
            self._given_up.add(rank)
            return
        self.ring(rank)

    def _begin(self, request: Any, data: Any) -> None:
        """Keep the data of an unfinished send alive: MPI reads it until the send is complete."""
        self.sent_bytes += len(data)
        if not request.Test():
            self._sending.append((request, data))

    def ring(self, rank: int) -> None:
        """Wake a rank's event loop."""
        with contextlib.suppress(OSError):
            self.bell.sendto(b"", self._bells[rank])

    # ---------------------------------------------------------------------------------- in

    @property
    def busy(self) -> bool:
        """True if a message is half sent or half received, so that MPI must be tested soon."""
        return bool(self._sending or self._receiving)

    def hush(self) -> bool:
        """Take all datagrams from the bell; return whether there were any."""
        rung = False
        with contextlib.suppress(BlockingIOError):
            while True:
                self.bell.recv(16)
                rung = True
        return rung

    def take(self, now: float) -> list[tuple[int, Any]]:
        """Return the messages that have arrived, as (rank, message), and continue all unfinished sends and receives."""
        self.now = now
        if self._late:
            due = [late for late in self._late if late[0] <= now]
            self._late = [late for late in self._late if late[0] > now]
            for _, rank, data in due:
                self._start(rank, data)
        found: list[tuple[int, Any]] = []
        for rank in range(self.size):
            if rank != self.rank:
                self._probe(rank, found)
        if self._receiving:
            self._go_on(found)
        if self._sending:
            self._sending = [task for task in self._sending if not _settled(task[0])]
        return found

    def _probe(self, rank: int, found: list[tuple[int, Any]]) -> None:
        """Start receiving everything that a rank has sent."""
        missed = 0
        while missed < 2:  # the first probe makes MPI fetch what has come, the second one finds it
            try:
                message = self._comm.Improbe(rank, _TAG, self._status)
                if message is None:
                    missed += 1
                    if rank in self._given_up:
                        return
                    continue
                first = bytearray(self._status.Get_count(MPI.BYTE))
                task = _Receiving(self._comm, rank, first, message.Irecv([first, MPI.BYTE]))
            except MPI.Exception:  # the rank is dead, and all that it had sent has been received
                self._given_up.add(rank)
                return
            self._receiving.append(task)

    def _go_on(self, found: list[tuple[int, Any]]) -> None:
        """Continue all unfinished receives.

        MPI matches the buffers of one sender with receives in the order in which they are posted.  A message therefore
        posts its receives only after all earlier messages of that rank have posted theirs.
        """
        left: list[_Receiving] = []
        before: set[int] = set()  # ranks with an earlier message that has not posted them
        for task in self._receiving:
            if not task.over(found, task.rank in before):
                left.append(task)
                if not task.asked:
                    before.add(task.rank)
        self._receiving = left


class _Receiving:
    """A message that is being received: its first part, then its buffers."""

    def __init__(self, comm: Any, rank: int, first: bytearray, request: Any) -> None:
        """Follow the receive `request` of a message's first part."""
        self._comm = comm
        self.rank = rank
        self._first = first
        self._requests = [request]
        self._buffers: list[bytearray] | None = None

    @property
    def asked(self) -> bool:
        """True if the receives of its buffers have been posted."""
        return self._buffers is not None

    def over(self, found: list[tuple[int, Any]], waits: bool) -> bool:
        """Continue the receive; return whether the message is complete (it is then in `found`) or never will be.

        waits : whether an earlier message must post its receives first.
        """
        try:
            while True:
                self._requests = [request for request in self._requests if not request.Test()]
                if self._requests:
                    return False
                if self._buffers is not None:
                    break
                if waits and frames.has_buffers(self._first):
                    return False
                self._buffers = frames.buffers_of(self._first)
                self._requests = [self._comm.Irecv([b, MPI.BYTE], self.rank, _BUFFER) for b in self._buffers]
        except MPI.Exception:  # the sender died while sending
            return True
        found.append((self.rank, frames.decode(self._first, self._buffers)))
        return True


def _settled(request: Any) -> bool:
    """Return whether a send is complete or has failed."""
    try:
        return bool(request.Test())
    except MPI.Exception:
        return True
