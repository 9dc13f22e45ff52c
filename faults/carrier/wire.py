"""Python objects over a pair of connected sockets, between an agent and its workers on one machine.

One process made the pair and gave the other end to its child, so nobody else can write to it.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Sequence
from typing import Any

from bsp.faults.carrier import frames
from bsp.faults.carrier.segments import SegmentGone

_CHUNK = 1 << 16  # bytes to read at once
_AT_ONCE = 64  # buffers passed to one system call


class Closed(Exception):
    """The other end has closed the connection or is dead."""


class Wire:
    """A connection that carries objects in order, with calls that wait and calls that do not."""

    def __init__(self, end: socket.socket) -> None:
        """Use the connected socket `end`."""
        self.end = end
        self._sending = threading.Lock()  # threads of a program write to standard error meanwhile
        self._in = bytearray()
        self._first: bytearray | None = None  # first part of an object whose buffers are incomplete
        self._buffers: list[bytearray] = []
        self._filled = 0  # bytes of these buffers received
        self._out: deque[memoryview] = deque()

    def fileno(self) -> int:
        """Return the socket's descriptor, for a selector."""
        return self.end.fileno()

    def send(self, value: Any) -> None:
        """Write an object, and wait until all of it is written.  Threads may call it at the same time."""
        first, buffers = frames.encode(value)
        try:
            with self._sending:
                self.end.sendall(first)
                for buffer in buffers:
                    self.end.sendall(buffer)
        except OSError as wrong:
            raise Closed(str(wrong)) from None

    def receive(self) -> Any:
        """Wait for the next object and return it."""
        head = self._exactly(frames.HEAD_BYTES)
        first = head + self._exactly(frames.extent(head) - frames.HEAD_BYTES)
        buffers = frames.buffers_of(first)
        for buffer in buffers:
            self._fill(memoryview(buffer))
        try:
            return frames.decode(first, buffers)
        except SegmentGone as wrong:
            raise Closed(str(wrong)) from None

    def _exactly(self, size: int) -> bytearray:
        """Wait for `size` bytes and return them."""
        data = bytearray(size)
        self._fill(memoryview(data))
        return data

    def _fill(self, view: memoryview) -> None:
        """Wait until `view` is filled."""
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
        """Write an object as far as possible without waiting; `flush` writes the rest.

        The object's buffers must not change until then.
        """
        first, buffers = frames.encode(value)
        self.put((first, *buffers))

    def put(self, parts: Sequence[Any]) -> None:
        """Write an encoded object as `post` does: its first part, and its buffers."""
        self._out.extend(map(memoryview, parts))
        self.flush()

    @property
    def queued(self) -> int:
        """How many parts of objects are still to be written."""
        return len(self._out)

    @property
    def pending(self) -> bool:
        """True if something is still to be written."""
        return bool(self._out)

    def flush(self) -> bool:
        """Write as much as possible without waiting; return whether everything is written."""
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
        """Return the objects that have arrived, without waiting; raise Closed when no more can come."""
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
        """Take complete objects out of the bytes read; for one with buffers, `_fill_buffers` receives the rest."""
        start = 0
        while self._first is None and len(self._in) - start >= frames.HEAD_BYTES:
            size = frames.extent(self._in, start)
            if len(self._in) - start < size:
                break
            first = self._in[start : start + size]
            start += size
            buffers = frames.buffers_of(first)
            if not buffers:
                _take(found, first, buffers)
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
        """Receive without waiting into the buffers of the unfinished object; return False at the end of the stream."""
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
        """Complete the unfinished object if all its buffers are filled."""
        if self._first is not None and self._filled == sum(len(buffer) for buffer in self._buffers):
            _take(found, self._first, self._buffers)
            self._first, self._buffers = None, []

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(OSError):
            self.end.close()


def _take(found: list[Any], first: bytearray, buffers: list[bytearray]) -> None:
    """Append an object, unless it is of a sender that has ended since: its end is about to be noticed."""
    with contextlib.suppress(SegmentGone):
        found.append(frames.decode(first, buffers))
