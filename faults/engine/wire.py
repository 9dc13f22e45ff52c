"""Python objects over a stream socket: worker and agent, agent and bsprun.

Both ends belong to the job: a stranger who connects to bsprun is turned away before anything of his
is unpickled (see `nonstop`).
"""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from typing import Any

from bsp.faults.engine import frames

SECRET = "BSP_NONSTOP_SECRET"  # the variable that says what a job's agents know and no stranger does
_CHUNK = 1 << 16
_AT_ONCE = 64  # buffers handed to one call of the system


class Closed(Exception):
    """The other end is gone."""


class Wire:
    """Objects in order; reads when asked, writes now or, without blocking, as the socket takes it."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self._in = bytearray()
        self._first: bytearray | None = None  # of an object whose buffers are on their way
        self._buffers: list[bytearray] = []
        self._filled = 0  # bytes of the buffers that are here
        self._out: deque[memoryview] = deque()

    def fileno(self) -> int:
        """For a selector."""
        return self.end.fileno()

    def send(self, value: Any) -> None:
        """Write it; waits until it is out."""
        first, buffers = frames.encode(value)
        try:
            self.end.sendall(first)
            for buffer in buffers:
                self.end.sendall(buffer)
        except OSError as wrong:
            raise Closed(str(wrong)) from None

    def receive(self) -> Any:
        """The next object; waits for it."""
        head = self._exactly(frames.HEAD_BYTES)
        first = head + self._exactly(frames.extent(head) - frames.HEAD_BYTES)
        buffers = frames.buffers_of(first)
        for buffer in buffers:
            self._fill(memoryview(buffer))
        return frames.decode(first, buffers)

    def _exactly(self, size: int) -> bytearray:
        data = bytearray(size)
        self._fill(memoryview(data))
        return data

    def _fill(self, view: memoryview) -> None:
        while view:
            try:
                got = self.end.recv_into(view)
            except OSError as wrong:
                raise Closed(str(wrong)) from None
            if not got:
                raise Closed("end of stream")
            view = view[got:]

    # -------------------------------------------------------------- without waiting

    def post(self, value: Any) -> None:
        """Write what the socket takes now; `flush` writes the rest.  Buffers must not change until then."""
        first, buffers = frames.encode(value)
        self._out.append(memoryview(first))
        self._out.extend(buffers)
        self.flush()

    @property
    def pending(self) -> bool:
        """Whether something waits to be written."""
        return bool(self._out)

    def flush(self) -> bool:
        """Whether everything is written."""
        while self._out:
            try:
                some = [self._out[k] for k in range(min(len(self._out), _AT_ONCE))]
                sent = self.end.sendmsg(some, [], socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
            except BlockingIOError:
                return False
            except OSError as wrong:
                raise Closed(str(wrong)) from None
            while self._out and sent >= len(self._out[0]):
                sent -= len(self._out.popleft())
            if sent:
                self._out[0] = self._out[0][sent:]
        return True

    def read(self) -> list[Any]:
        """The objects that have arrived; Closed when nothing more can."""
        found: list[Any] = []
        closed = False
        try:
            while not closed:
                if self._first is not None:
                    closed = not self._fill_buffers(found)
                    continue
                data = self.end.recv(_CHUNK, socket.MSG_DONTWAIT)
                closed = not data
                self._in += data
                self._parse(found)
                if len(data) < _CHUNK and self._first is None:
                    break
        except BlockingIOError:
            pass
        except OSError as wrong:
            if not found:
                raise Closed(str(wrong)) from None
        if closed and not found:
            raise Closed("end of stream")
        return found

    def _parse(self, found: list[Any]) -> None:
        """Objects that are here in full; the first one with buffers goes on in `_fill_buffers`."""
        start = 0
        while self._first is None and len(self._in) - start >= frames.HEAD_BYTES:
            size = frames.extent(self._in, start)
            if len(self._in) - start < size:
                break
            first = self._in[start : start + size]
            start += size
            buffers = frames.buffers_of(first)
            if not buffers:
                found.append(frames.decode(first, buffers))
                continue
            self._first, self._buffers, self._filled = first, buffers, 0
            for buffer in buffers:
                here = min(len(buffer), len(self._in) - start)
                buffer[:here] = self._in[start : start + here]
                start += here
                self._filled += here
            self._finish(found)
        del self._in[:start]

    def _fill_buffers(self, found: list[Any]) -> bool:
        """What the socket has of the buffers, straight into them; False at its end."""
        done = 0
        for buffer in self._buffers:
            if self._filled < done + len(buffer):
                got = self.end.recv_into(memoryview(buffer)[self._filled - done :], 0, socket.MSG_DONTWAIT)
                self._filled += got
                self._finish(found)
                return got > 0
            done += len(buffer)
        return True

    def _finish(self, found: list[Any]) -> None:
        if self._first is not None and self._filled == sum(len(buffer) for buffer in self._buffers):
            found.append(frames.decode(self._first, self._buffers))
            self._first, self._buffers = None, []

    def close(self) -> None:
        """No more."""
        with contextlib.suppress(OSError):
            self.end.close()
