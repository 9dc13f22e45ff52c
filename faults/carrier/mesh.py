"""Connections between the processes of a job: agents, the keepers of hosts, bsprun.

Processes on one machine reach each other over Unix-domain sockets (`near`), others over ZeroMQ (`abroad`).  Nothing
here waits for anybody.  A message to a process that is gone is lost, and so is one that finds its queue full: the
protocol repeats what matters (N1, N14).  Messages of one process to another arrive in order.  Nothing is unpickled
before the other side has proved that it has the job's key.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import time
from collections.abc import Collection, Iterator
from heapq import heappop, heappush
from typing import Any, NamedTuple

import zmq

from bsp.faults.carrier.abroad import AbroadLinks, Sender
from bsp.faults.carrier.job_key import JobKey
from bsp.faults.carrier.message_faults import MessageFaults
from bsp.faults.carrier.near import NearLinks, Outgoing

BSPRUN = -1  # the number of bsprun; keepers have smaller ones, agents the numbers of their elements
_CONNECT = 3.0  # seconds to try an address


class Address(NamedTuple):
    """Where a process receives."""

    machine: str  # processes that can use each other's address `here` have the same
    here: str
    port: int = 0  # for other machines; 0 if there are none
    network: str = ""  # the machine's IP address, as far as it is known
    user: int = -1  # whose process it is

    @property
    def abroad(self) -> str:
        """The address for other machines."""
        return f"tcp://{f'[{self.network}]' if ':' in self.network else self.network}:{self.port}"


class Mesh:
    """The connections of one process to the others of its job."""

    def __init__(
        self, key: JobKey, number: int, term: int = 0, network: str | None = None, port: int = 0, reign: int = 0
    ) -> None:
        """Begin to receive.

        number : of this process.  term : messages of processes of another term are ignored; processes of term 0
        outlast all terms, hear everybody and are heard by everybody.
        reign : of the bsprun that this process hears or is; one of an earlier reign is not heard any more (N16).
        network : the IP address at which processes on other machines reach this one, empty if it is not known yet; None
        if there are no other machines.  port : for other machines; 0: any that is free.
        """
        self.number, self.term, self.reign, self.sent_bytes = number, term, reign, 0
        self.outdated = False  # whether a bsprun of an earlier reign has said something
        self.faults: MessageFaults | None = None
        self._abroad = None if network is None else AbroadLinks(key, port)
        self._near = NearLinks(key)
        port = 0 if self._abroad is None else self._abroad.port
        self.address = Address(machine(), self._near.name, port, network or "", os.geteuid())
        self._peers: dict[int, tuple[Address, Outgoing | Sender]] = {}
        self._late: list[tuple[float, int, int, list[Any]]] = []  # heap of delayed ones: (time, order, to, parts)
        self._order = itertools.count()

    @property
    def sources(self) -> tuple[Any, ...]:
        """Descriptors and sockets, one of which is readable when a message has arrived."""
        return (self._near.fileno(),) if self._abroad is None else (self._near.fileno(), self._abroad.socket)

    def wait(self, seconds: float) -> None:
        """Wait for a message, at most so long."""
        poller = zmq.Poller()
        for each in self.sources:
            poller.register(each, zmq.POLLIN)
        poller.poll(round(1000 * seconds))

    def meet(self, number: int, address: Address) -> None:
        """Connect to a process, so that messages can be sent to it; at another address than before: anew."""
        known = self._peers.get(number)
        if known is not None and known[0] == address:
            return
        self.forget(number)
        if address.machine == self.address.machine:
            self._peers[number] = address, self._near.connect(address.here, address.user)
        elif self._abroad is not None:
            self._peers[number] = address, self._abroad.connect(address.abroad)

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
        parts = self._peers[number][1].frames((self.term, self.reign, self.number, message))
        if self.faults is None:
            self._send(number, parts)
            return
        for seconds in self.faults.copies():
            if seconds:
                heappush(self._late, (time.monotonic() + seconds, next(self._order), number, parts))
            else:
                self._send(number, parts)

    def _send(self, number: int, parts: list[Any]) -> None:
        known = self._peers.get(number)
        if known is not None:
            self.sent_bytes += sum(map(len, parts))
            known[1].post(parts)

    def due(self) -> float:
        """Return the time at which `take` must be called next, though nothing has arrived."""
        late = self._late[0][0] if self._late else float("inf")
        return min(late, self._near.due())

    def take(self) -> Iterator[tuple[int, Any]]:
        """Yield the messages that have arrived, as (number of the sender, message)."""
        while self._late and self._late[0][0] <= time.monotonic():
            _, _, number, parts = heappop(self._late)
            self._send(number, parts)
        for links in (self._near, self._abroad):
            for term, reign, sender, message in () if links is None else links.take():
                if sender == BSPRUN and reign < self.reign:
                    self.outdated = True
                elif term == self.term or not term or not self.term:
                    yield sender, message

    def close(self, seconds: float = 0.0) -> None:
        """Close all connections, after at most so many seconds for what has not been sent yet."""
        self._near.close(seconds)
        for _, out in self._peers.values():
            if isinstance(out, Sender):
                out.close(seconds)
            else:
                out.close()
        self._peers.clear()
        if self._abroad is not None:
            self._abroad.close()


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
