"""Connections between the processes of a job, over ZeroMQ: agents, the keepers of hosts, bsprun.

Every process has one socket that receives (PULL) and one that sends (PUSH) for each process that it sends to.  Nothing
here waits for anybody.  A message to a process that is gone is lost, and so is one that finds its queue full: the
protocol repeats what matters (N1, N14).  Messages of one process to another arrive in order.

A process has two addresses, one on its machine and one between machines.  Nothing is unpickled before the other side
has proved that it has the job's key.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import secrets
import socket
import struct
import time
from collections.abc import Collection, Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

import zmq
from zmq.auth.thread import ThreadAuthenticator

from bsp.faults.carrier.job_key import JobKey
from bsp.faults.carrier.message_faults import MessageFaults
from bsp.faults.carrier.segments import SegmentGone, pickled

BSPRUN = -1  # the number of bsprun; keepers have smaller ones, agents the numbers of their elements
_HEAD = struct.Struct("<iqq")  # term, reign and number of the sender
_MOST_QUEUED = 1 << 14  # messages to one process that have not been sent yet
_MOST_CONNECTIONS = 1 << 16
_HANDSHAKE = 5000  # milliseconds until a connection that has not shown the key is closed
_CONNECT = 3.0  # seconds to try an address
_GONE = 10_000  # milliseconds without a sign of life until a connection is made anew


class Address(NamedTuple):
    """Where a process receives."""

    machine: str  # processes that can use each other's address `here` have the same
    here: str
    port: int = 0  # for other machines; 0 if there are none
    network: str = ""  # the machine's IP address, as far as it is known

    @property
    def abroad(self) -> str:
        """The address for other machines."""
        return f"tcp://{f'[{self.network}]' if ':' in self.network else self.network}:{self.port}"


class Mesh:
    """The connections of one process to the others of its job."""

    def __init__(
        self, key: JobKey, number: int, term: int = 0, network: str | None = None, port: int = 0, reign: int = 0
    ) -> None:
        """Open the receiving socket.

        number : of this process.  term : messages of processes of another term are ignored; processes of term 0
        outlast all terms, hear everybody and are heard by everybody.
        reign : of the bsprun that this process hears or is; one of an earlier reign is not heard any more (N16).
        network : the IP address at which processes on other machines reach this one, empty if it is not known yet; None
        if there are no other machines.  port : for other machines; 0: any that is free.
        """
        self.number, self.term, self.reign, self.sent_bytes = number, term, reign, 0
        self.outdated = False  # whether a bsprun of an earlier reign has said something
        self.faults: MessageFaults | None = None
        self._key = key
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, min(_MOST_CONNECTIONS, self._context.get(zmq.SOCKET_LIMIT)))
        self._guard = _Guard(self._context)
        self._guard.start()
        self._guard.configure_curve_callback(credentials_provider=_OnlyThisKey(key))
        self.socket: zmq.Socket[bytes] = self._context.socket(zmq.PULL)
        self.socket.curve_server = True
        self.socket.curve_secretkey = key.secret
        self.socket.set(zmq.RCVHWM, 0)
        self.socket.set(zmq.HANDSHAKE_IVL, _HANDSHAKE)
        here = f"ipc://@bsp-{secrets.token_hex(12)}"  # no file: nothing is left behind
        self.socket.bind(here)
        if network is not None:
            self.socket.set(zmq.IPV6, True)
            if port:
                self.socket.bind(f"tcp://*:{port}")
            else:
                port = self.socket.bind_to_random_port("tcp://*")
        self.address = Address(machine(), here, port, network or "")
        self._peers: dict[int, tuple[Address, zmq.Socket[bytes]]] = {}
        self._late: list[tuple[float, int, int, list[Any]]] = []  # heap of delayed ones: (time, order, to, frames)
        self._order = itertools.count()

    def meet(self, number: int, address: Address) -> None:
        """Connect to a process, so that messages can be sent to it; at another address than before: anew."""
        known = self._peers.get(number)
        if known is not None and known[0] == address:
            return
        self.forget(number)
        out: zmq.Socket[bytes] = self._context.socket(zmq.PUSH)
        out.curve_publickey, out.curve_secretkey, out.curve_serverkey = *self._key, self._key.public
        out.set(zmq.LINGER, 0)
        out.set(zmq.SNDHWM, _MOST_QUEUED)
        out.set(zmq.IPV6, True)
        if address.machine != self.address.machine:
            out.set(zmq.HEARTBEAT_IVL, _GONE // 4)
            out.set(zmq.HEARTBEAT_TIMEOUT, _GONE)
        out.connect(address.here if address.machine == self.address.machine else address.abroad)
        self._peers[number] = address, out

    def forget(self, number: int) -> None:
        """Send nothing more to a process."""
        known = self._peers.pop(number, None)
        if known is not None:
            known[1].close()

    def known(self) -> set[int]:
        """Return the numbers of the processes that messages can be sent to."""
        return set(self._peers)

    def send(self, number: int, message: Any) -> None:
        """Send a message; it is lost if that process is not known, gone, or far behind in reading."""
        if number not in self._peers:
            return
        data, buffers = pickled(message, self._peers[number][0].machine == self.address.machine)
        frames = [_HEAD.pack(self.term, self.reign, self.number) + data, *buffers]
        if self.faults is None:
            self._send(number, frames)
            return
        for seconds in self.faults.copies():
            if seconds:
                heappush(self._late, (time.monotonic() + seconds, next(self._order), number, frames))
            else:
                self._send(number, frames)

    def _send(self, number: int, frames: list[Any]) -> None:
        known = self._peers.get(number)
        if known is None:
            return
        self.sent_bytes += sum(map(len, frames))
        with contextlib.suppress(zmq.Again):
            if len(frames) == 1:
                known[1].send(frames[0], zmq.NOBLOCK)
            else:
                known[1].send_multipart(frames, zmq.NOBLOCK, copy=False)

    def due(self) -> float:
        """Return the time at which `take` must be called next, because of a delayed message."""
        return self._late[0][0] if self._late else float("inf")

    def take(self) -> Iterator[tuple[int, Any]]:
        """Yield the messages that have arrived, as (number of the sender, message)."""
        while self._late and self._late[0][0] <= time.monotonic():
            _, _, number, frames = heappop(self._late)
            self._send(number, frames)
        while True:
            try:
                first = self.socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            rest = []
            while self.socket.get(zmq.RCVMORE):
                rest.append(self.socket.recv(copy=False).buffer)
            term, reign, sender = _HEAD.unpack_from(first)
            if sender == BSPRUN and reign < self.reign:
                self.outdated = True
            elif term == self.term or not term or not self.term:
                try:
                    message = pickle.loads(memoryview(first)[_HEAD.size :], buffers=rest)
                except SegmentGone:  # as if it were lost: what matters is repeated, or asked of others
                    continue
                yield sender, message

    def close(self, seconds: float = 0.0) -> None:
        """Close all connections, after at most so many seconds for what has not been sent yet."""
        for _, out in self._peers.values():
            out.close(linger=round(seconds * 1000))
        self._peers.clear()
        self.socket.close(linger=0)
        self._guard.stop()
        self._context.destroy(linger=0)  # `term` would wait for ever for a socket whose opening was interrupted


class _Guard(ThreadAuthenticator):
    """The thread that decides which connections are accepted."""

    def stop(self) -> None:
        """End the thread.  If a Ctrl-C has kept it from its start, nobody would take the message to end."""
        if self.pipe is not None and not self.is_alive():
            self.pipe.close()
            self.pipe = None  # type: ignore[assignment]
        super().stop()


class _OnlyThisKey:
    """What ZeroMQ asks whether a connection is accepted."""

    def __init__(self, key: JobKey) -> None:
        self._key = key

    def callback(self, domain: str, key: bytes) -> bool:
        """Return whether the other side has proved that it has the job's key."""
        return key == self._key.public


def machine() -> str:
    """Return a name for the machine, as far as addresses and process ids reach: its boot and its namespaces."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        boot = file.read().strip()
    return f"{boot} {os.stat('/proc/self/ns/net').st_ino} {os.stat('/proc/self/ns/pid').st_ino}"


def reachable(address: Address, networks: Collection[str]) -> tuple[Address, str] | None:
    """Return how a process can be reached from here, and our IP address on the way; None if it cannot.

    networks : IP addresses of its machine, to be tried.  On the same machine our address is empty.
    """
    if address.machine == machine():
        return address, ""
    for network in networks:
        with contextlib.suppress(OSError), socket.create_connection((network, address.port), _CONNECT) as trial:
            return address._replace(network=network), str(trial.getsockname()[0])
    return None
