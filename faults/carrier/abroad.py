"""Connections between the processes of a job on different machines, over ZeroMQ.

Every process has one socket that receives (PULL) and one that sends (PUSH) for each process that it sends to.  What
they send is encrypted, and nothing is unpickled before the other side has proved that it has the job's key.  Nothing
here waits for anybody; connections that break are made anew.
"""

from __future__ import annotations

import contextlib
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import zmq
from zmq.auth.thread import ThreadAuthenticator

from bsp.faults.carrier.job_key import JobKey
from bsp.faults.carrier.segments import SegmentGone, pickled

_MOST_QUEUED = 1 << 14  # messages to one process that have not been sent yet
_MOST_CONNECTIONS = 1 << 16
_HANDSHAKE = 5000  # milliseconds until a connection that has not shown the key is closed
_GONE = 10_000  # milliseconds without a sign of life until a connection is made anew


class AbroadLinks:
    """One process's connections from and to others on other machines."""

    def __init__(self, key: JobKey, port: int = 0) -> None:
        """Begin to accept connections at a port; 0: any that is free."""
        self._key = key
        self._context = zmq.Context()
        self._context.set(zmq.MAX_SOCKETS, min(_MOST_CONNECTIONS, self._context.get(zmq.SOCKET_LIMIT)))
        self._guard = _Guard(self._context)
        self.socket: zmq.Socket[bytes] = self._context.socket(zmq.PULL)
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)  # also after a Ctrl-C
            self._listen(port)
            undo.pop_all()

    def _listen(self, port: int) -> None:
        self._guard.start()
        self._guard.configure_curve_callback(credentials_provider=_OnlyThisKey(self._key))
        self.socket.curve_server = True
        self.socket.curve_secretkey = self._key.secret
        self.socket.set(zmq.RCVHWM, 0)
        self.socket.set(zmq.HANDSHAKE_IVL, _HANDSHAKE)
        self.socket.set(zmq.IPV6, True)
        if port:
            self.socket.bind(f"tcp://*:{port}")
        self.port = port or self.socket.bind_to_random_port("tcp://*")

    def connect(self, address: str) -> Sender:
        """Connect to another process, so that messages can be sent to it."""
        out: zmq.Socket[bytes] = self._context.socket(zmq.PUSH)
        out.curve_publickey, out.curve_secretkey, out.curve_serverkey = *self._key, self._key.public
        out.set(zmq.LINGER, 0)
        out.set(zmq.SNDHWM, _MOST_QUEUED)
        out.set(zmq.IPV6, True)
        out.set(zmq.HEARTBEAT_IVL, _GONE // 4)
        out.set(zmq.HEARTBEAT_TIMEOUT, _GONE)
        out.connect(address)
        return Sender(out)

    def take(self) -> Iterator[Any]:
        """Yield the messages that have arrived."""
        while True:
            try:
                first = self.socket.recv(zmq.NOBLOCK)
            except zmq.Again:
                return
            rest = []
            while self.socket.get(zmq.RCVMORE):
                rest.append(self.socket.recv(copy=False).buffer)
            with contextlib.suppress(SegmentGone):  # as if it were lost: what matters is repeated, or asked of others
                yield pickle.loads(first, buffers=rest)

    def close(self) -> None:
        """Close all connections."""
        self.socket.close(linger=0)
        self._guard.stop()
        self._context.destroy(linger=0)  # `term` would wait for ever for a socket whose opening was interrupted


class Sender:
    """A connection to another process."""

    def __init__(self, out: zmq.Socket[bytes]) -> None:
        self._out = out

    @staticmethod
    def frames(message: Any) -> list[Any]:
        """Return a message in the form in which `post` takes it."""
        data, buffers = pickled(message, here=False)
        return [data, *buffers]

    def post(self, parts: Sequence[Any]) -> None:
        """Send a message; it is lost if the other process is gone, or far behind in reading."""
        with contextlib.suppress(zmq.Again):
            if len(parts) == 1:
                self._out.send(parts[0], zmq.NOBLOCK)
            else:
                self._out.send_multipart(parts, zmq.NOBLOCK, copy=False)

    def close(self, seconds: float = 0.0) -> None:
        """Close the connection, after at most so many seconds for what has not been sent yet."""
        self._out.close(linger=round(seconds * 1000))


class _Guard(ThreadAuthenticator):
    """The thread that decides which connections are accepted."""

    def stop(self) -> None:
        """End the thread.  If a Ctrl-C has kept it from its start, nobody would take the message to end."""
        if self.pipe is not None and not self.is_alive():
            self.pipe.close()
            self.pipe = None  # type: ignore[assignment]
        super().stop()


class _OnlyThisKey:
    """The object that ZeroMQ asks whether a connection is accepted."""

    def __init__(self, key: JobKey) -> None:
        self._key = key

    def callback(self, domain: str, key: bytes) -> bool:
        """Return whether the other side has proved that it has the job's key."""
        return key == self._key.public
