"""Python objects over a stream socket: worker and agent, agent and bsprun.

Both ends belong to the job: a stranger who connects to bsprun is turned away before anything of his
is unpickled (see `nonstop`).
"""

from __future__ import annotations

import contextlib
import pickle
import socket
import struct
from typing import Any

_LENGTH = struct.Struct("<Q")
_CHUNK = 1 << 20


class Closed(Exception):
    """The other end is gone."""


class Wire:
    """Objects in order; reads when asked, writes now or, without blocking, as the socket takes it."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._in = bytearray()
        self._out = bytearray()

    def fileno(self) -> int:
        """For a selector."""
        return self.end.fileno()

    def send(self, value: Any) -> None:
        """Write it; waits until it is out."""
        data = pickle.dumps(value, 5)
        try:
            self.end.sendall(_LENGTH.pack(len(data)) + data if len(data) < _CHUNK else _LENGTH.pack(len(data)))
            if len(data) >= _CHUNK:
                self.end.sendall(data)
        except OSError as wrong:
            raise Closed(str(wrong)) from None

    def receive(self) -> Any:
        """The next object; waits for it."""
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
        return pickle.loads(self._exactly(size))

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        view = memoryview(data)
        have = 0
        while have < size:
            try:
                got = self.end.recv_into(view[have:])
            except OSError as wrong:
                raise Closed(str(wrong)) from None
            if not got:
                raise Closed("end of stream")
            have += got
        return data

    # -------------------------------------------------------------- without waiting

    def post(self, value: Any) -> None:
        """Write what the socket takes now; `flush` writes the rest."""
        data = pickle.dumps(value, 5)
        self._out += _LENGTH.pack(len(data))
        self._out += data
        self.flush()

    def flush(self) -> bool:
        """Whether everything is written."""
        with contextlib.suppress(BlockingIOError):
            while self._out:
                try:
                    sent = self.end.send(memoryview(self._out)[:_CHUNK], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
                except BlockingIOError:
                    raise
                except OSError as wrong:
                    raise Closed(str(wrong)) from None
                del self._out[:sent]
        return not self._out

    def read(self) -> list[Any]:
        """The objects that have arrived; Closed when nothing more can."""
        try:
            while True:
                data = self.end.recv(_CHUNK, socket.MSG_DONTWAIT)
                if not data:
                    if not self._in:
                        raise Closed("end of stream")
                    break
                self._in += data
                if len(data) < _CHUNK:
                    break
        except BlockingIOError:
            pass
        except OSError as wrong:
            raise Closed(str(wrong)) from None
        found = []
        start = 0
        while len(self._in) - start >= _LENGTH.size:
            (size,) = _LENGTH.unpack_from(self._in, start)
            if len(self._in) - start - _LENGTH.size < size:
                break
            begin = start + _LENGTH.size
            found.append(pickle.loads(memoryview(self._in)[begin : begin + size]))
            start = begin + size
        del self._in[:start]
        return found

    def close(self) -> None:
        """No more."""
        with contextlib.suppress(OSError):
            self.end.close()
