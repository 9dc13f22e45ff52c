"""Messages between agents: MPI point-to-point that outlives the death of any of them.

Nothing here waits for a particular rank: sends and receives are started, looked at, and given up
when MPI says that the other is gone.  MPI has nothing that an event loop could sleep on, so every
message is followed by a datagram that says: look.  A datagram that is lost costs one timeout.
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

_TAG = 7
_BUFFER = 8  # the tag of the buffers that follow a message


class Peers:
    """All other agents."""

    def __init__(self, faults: Sequence[Fault], now: float) -> None:
        self._comm = MPI.COMM_WORLD
        self._comm.Set_errhandler(MPI.ERRORS_RETURN)
        self.rank: int = self._comm.rank
        self.size: int = self._comm.size
        self.bell = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.bell.bind(("", 0))
        self.bell.setblocking(False)
        self.port: int = self.bell.getsockname()[1]
        self._bells: list[tuple[str, int]] = []
        self._sending: list[tuple[Any, Any]] = []
        self._receiving: list[_Receiving] = []
        self._given_up: set[int] = set()
        self._status = MPI.Status()
        self._faults = [fault for fault in faults if fault.kind in ("drop", "delay", "duplicate")]
        self._draw = {fault: random.Random(f"{fault.seed} {self.rank}") for fault in self._faults}
        self._late: list[tuple[float, int, Framed]] = []
        self.now = now
        self.sent_bytes = 0

    def learn(self, bells: list[tuple[str, int]]) -> None:
        """Where each rank's bell is."""
        self._bells = bells

    def give_up(self, rank: int) -> None:
        """It is dead, or no longer part of the job."""
        self._given_up.add(rank)

    # --------------------------------------------------------------------------------- out

    def send(self, rank: int, message: Any) -> None:
        """Start a message on its way; to the dead it goes nowhere."""
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
        """Keep what is being sent until it is."""
        self.sent_bytes += len(data)
        if not request.Test():
            self._sending.append((request, data))

    def ring(self, rank: int) -> None:
        """Look, there is something."""
        with contextlib.suppress(OSError):
            self.bell.sendto(b"", self._bells[rank])

    # ---------------------------------------------------------------------------------- in

    @property
    def busy(self) -> bool:
        """Whether MPI has to be looked at soon: a message is half way."""
        return bool(self._sending or self._receiving)

    def hush(self) -> bool:
        """Take all rings; whether there was one."""
        rung = False
        with contextlib.suppress(BlockingIOError):
            while True:
                self.bell.recv(16)
                rung = True
        return rung

    def take(self, now: float) -> list[tuple[int, Any]]:
        """The messages that have arrived: (rank, message)."""
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
        """Start to receive all that a rank has sent."""
        missed = 0
        while missed < 2:  # the first look makes MPI look, the second one sees
            try:
                message = self._comm.Improbe(rank, _TAG, self._status)
                if message is None:
                    missed += 1
                    if rank in self._given_up:
                        return
                    continue
                first = bytearray(self._status.Get_count(MPI.BYTE))
                task = _Receiving(self._comm, rank, first, message.Irecv([first, MPI.BYTE]))
            except MPI.Exception:  # it is dead, and all it had sent has been taken
                self._given_up.add(rank)
                return
            self._receiving.append(task)

    def _go_on(self, found: list[tuple[int, Any]]) -> None:
        """With all that is half way.  MPI gives the buffers of one sender to receives in their order."""
        left: list[_Receiving] = []
        before: set[int] = set()  # ranks of which an earlier message has yet to ask for its buffers
        for task in self._receiving:
            if not task.over(found, task.rank in before):
                left.append(task)
                if not task.asked:
                    before.add(task.rank)
        self._receiving = left


class _Receiving:
    """A message on its way in: what goes first, then its buffers."""

    def __init__(self, comm: Any, rank: int, first: bytearray, request: Any) -> None:
        self._comm = comm
        self.rank = rank
        self._first = first
        self._requests = [request]
        self._buffers: list[bytearray] | None = None

    @property
    def asked(self) -> bool:
        """Whether its buffers, if it has any, are being received."""
        return self._buffers is not None

    def over(self, found: list[tuple[int, Any]], waits: bool) -> bool:
        """Whether it has come, into `found`, or never will; `waits`: to ask for buffers is another message's turn."""
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
        except MPI.Exception:  # the sender died half way
            return True
        found.append((self.rank, frames.decode(self._first, self._buffers)))
        return True


def _settled(request: Any) -> bool:
    try:
        return bool(request.Test())
    except MPI.Exception:
        return True
