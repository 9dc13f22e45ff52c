"""Connections between the processes of a job on one machine, over Unix-domain sockets.

A message goes straight from the sender's call into the receiver's, without a thread between them: on busy cores each
thread that has to be woken waits for its turn.

The receiver's name is in the abstract namespace: it is no file, and nothing is left behind.  Whoever is on the machine
can connect to it, and take the name once its owner is gone.  So a sender first says a digest of the name and of the
job's key, before which nothing is heard; and it says nothing to a receiver that is not of the user whose name it is.

Nothing here waits for anybody.
"""

from __future__ import annotations

import errno
import hmac
import secrets
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

from bsp.faults.carrier import frames
from bsp.faults.carrier.job_key import JobKey
from bsp.faults.carrier.wire import Closed, Wire

_HANDSHAKE = 5.0  # seconds until a connection that has not shown the key is closed
_MOST_QUEUED = 1 << 14  # parts of messages to one process that have not been written yet
_BACKLOG = 4096
_BUFFER = 1 << 22  # bytes that the system keeps for a receiver
_PEER = struct.Struct("iII")  # process, user and group


class NearLinks:
    """One process's connections from and to others on its machine."""

    def __init__(self, key: JobKey) -> None:
        """Begin to accept connections."""
        self.name = f"bsp-{secrets.token_hex(12)}"
        self._key = key
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.setblocking(False)
        self._listener.bind("\0" + self.name)
        self._listener.listen(_BACKLOG)
        self._epoll = select.epoll()
        self._epoll.register(self._listener, select.EPOLLIN)
        self._incoming: dict[int, Incoming] = {}  # by descriptor
        self._writing: dict[int, Outgoing] = {}  # connections that could not take all yet, by descriptor
        self._unproven: dict[int, float] = {}  # those that have not shown the key, and when they are closed
        self._found: deque[Any] = deque()

    def fileno(self) -> int:
        """Return a descriptor that is readable when `take` has something to do."""
        return self._epoll.fileno()

    def connect(self, name: str, user: int) -> Outgoing:
        """Return a connection to another process, a user's."""
        return Outgoing(self, name, user, _proof(self._key, name))

    def due(self) -> float:
        """Return the time at which `take` must be called next, because a connection has to be closed."""
        return min(self._unproven.values(), default=float("inf"))

    def take(self) -> Iterator[Any]:
        """Yield the messages that have arrived."""
        for descriptor, _ in self._epoll.poll(0):
            if descriptor == self._listener.fileno():
                self._accept()
            elif descriptor in self._writing:
                self._writing[descriptor].flush()
            elif descriptor in self._incoming:
                self._read(descriptor)
        if self._unproven and self.due() <= (now := time.monotonic()):
            for descriptor in [each for each, until in self._unproven.items() if until <= now]:
                self._drop(descriptor)
        while self._found:
            yield self._found.popleft()

    def _accept(self) -> None:
        while True:
            try:
                end, _ = self._listener.accept()
            except OSError as wrong:
                if wrong.errno in (errno.EMFILE, errno.ENFILE) and self._unproven:  # strangers have them
                    self._drop(min(self._unproven, key=self._unproven.__getitem__))
                    continue
                return
            self._incoming[end.fileno()] = Incoming(end, _proof(self._key, self.name))
            self._unproven[end.fileno()] = time.monotonic() + _HANDSHAKE
            self._epoll.register(end, select.EPOLLIN)

    def _read(self, descriptor: int) -> None:
        link = self._incoming[descriptor]
        try:
            self._found += link.read()
        except (Closed, OSError):
            self._drop(descriptor)
            return
        if link.is_proven:
            self._unproven.pop(descriptor, None)

    def _drop(self, descriptor: int) -> None:
        self._unproven.pop(descriptor, None)
        self._epoll.unregister(descriptor)
        self._incoming.pop(descriptor).close()

    def await_room(self, link: Outgoing) -> None:
        """Have `take` go on with a connection when it can be written to."""
        if link.fileno() not in self._writing:
            self._writing[link.fileno()] = link
            self._epoll.register(link.fileno(), select.EPOLLOUT)

    def forget_room(self, link: Outgoing) -> None:
        """Undo `await_room`."""
        if self._writing.pop(link.fileno(), None) is not None:
            self._epoll.unregister(link.fileno())

    def close(self, seconds: float = 0.0) -> None:
        """Close all connections, after at most so many seconds for what has not been written yet."""
        for descriptor in list(self._incoming):
            self._drop(descriptor)
        self._listener.close()
        until = time.monotonic() + seconds
        while self._writing and (left := until - time.monotonic()) > 0:
            for descriptor in [each for each, _ in self._epoll.poll(left) if each in self._writing]:
                self._writing[descriptor].flush()
        for link in list(self._writing.values()):
            link.close()
        self._epoll.close()


class Incoming:
    """A connection that another process has opened, or a stranger."""

    def __init__(self, end: socket.socket, proof: bytes) -> None:
        end.setblocking(False)
        self._end, self._proof, self._heard = end, proof, b""
        self._wire: Wire | None = None

    @property
    def is_proven(self) -> bool:
        """Whether the other side has shown that it has the key."""
        return self._wire is not None

    def read(self) -> list[Any]:
        """Return the messages that have arrived; raise Closed when no more can come, or the sender has not the key."""
        if self._wire is None:
            try:
                data = self._end.recv(len(self._proof) - len(self._heard))
            except BlockingIOError:
                return []
            self._heard += data
            if not data or not hmac.compare_digest(self._heard, self._proof[: len(self._heard)]):
                raise Closed("not the key")
            if len(self._heard) < len(self._proof):
                return []
            self._wire = Wire(self._end)
        return self._wire.read()

    def close(self) -> None:
        """Close the connection."""
        self._end.close()


class Outgoing:
    """A connection to another process.  If it breaks, the next message opens it anew."""

    def __init__(self, links: NearLinks, name: str, user: int, proof: bytes) -> None:
        self._links, self._name, self._user, self._proof = links, name, user, proof
        self._wire: Wire | None = None

    def fileno(self) -> int:
        """Return the socket's descriptor; -1 if there is no connection."""
        return -1 if self._wire is None else self._wire.fileno()

    @staticmethod
    def frames(message: Any) -> list[Any]:
        """Return a message in the form in which `post` takes it."""
        first, buffers = frames.encode(message)
        return [first, *buffers]

    def post(self, parts: Sequence[Any]) -> None:
        """Send a message; it is lost if the other process is gone, or far behind in reading."""
        if self._wire is None:
            self._wire = self._connected()
        if self._wire is None or self._wire.queued >= _MOST_QUEUED:
            return
        try:
            self._wire.put(parts)
        except Closed:
            self.close()
            return
        if self._wire.pending:
            self._links.await_room(self)

    def flush(self) -> None:
        """Go on writing."""
        try:
            done = self._wire is None or self._wire.flush()
        except Closed:
            self.close()
            return
        if done:
            self._links.forget_room(self)

    def _connected(self) -> Wire | None:
        """Return a connection over which the proof has been sent; None if there is none."""
        end = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER)
        end.setblocking(False)
        try:
            end.connect("\0" + self._name)
            _, user, _ = _PEER.unpack(end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size))
            if user == self._user:
                end.send(self._proof)
                return Wire(end)
        except OSError:  # gone, or so busy that its queue of connections is full
            pass
        end.close()
        return None

    def close(self) -> None:
        """Close the connection; what has not been written is lost."""
        if self._wire is not None:
            self._links.forget_room(self)
            self._wire.close()
            self._wire = None


def _proof(key: JobKey, name: str) -> bytes:
    """Return what a sender that has the key says first to the receiver of a name."""
    return hmac.digest(key.secret, name.encode(), "sha256")
