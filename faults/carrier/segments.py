"""Large packets and states in memory that the processes of a machine share: workers write them, agents copy nothing.

A segment lies in a file that is only in memory (memfd).  What travels between agents and workers of a machine is where
it is to be opened; each then holds it by a descriptor of its own, or has a copy when descriptors are scarce.  To other
machines, and into checkpoints, its bytes travel.

New memory takes several times as long to write as memory that has been written before: 8 ms instead of 0.5 for 16 MiB
on a virtual machine.  So a worker uses a file again when nobody holds its segment any more.  Who holds one has a shared
lock on the file; when the worker gets an exclusive lock there is nobody.  A reference that is opened too late, after
that, is noticed by its number: each use of a file has its own, which stands at the file's beginning.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import pickle
import resource
import struct
import time
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np
from xxhash import xxh3_128

LEAST = 1 << 20  # bytes; smaller packets and arrays travel as they are, because descriptors are limited
_MOST = 64  # files that a worker keeps
_IDLE = 10.0  # seconds until the memory of one is given back
_CACHED = 1 << 18  # bytes that are copied at once
_NUMBER = struct.Struct("<Q")  # of the use of a file
_HEAD = 64  # bytes before a segment, of which the first are that number: arrays stay aligned

# whether what this thread pickles stays on this machine
_nearby: ContextVar[bool] = ContextVar("_nearby", default=False)


class SegmentGone(Exception):
    """A segment cannot be opened: its owner has ended, or dropped it, or there are no descriptors."""


class _File:
    """A file in memory: the number of its use, then the bytes of a segment."""

    __slots__ = ("descriptor", "idle_since", "inode", "map", "number", "room")

    def __init__(self, descriptor: int) -> None:
        """Use an open file; its descriptor now belongs to this object."""
        self.descriptor, self.inode = descriptor, os.fstat(descriptor).st_ino
        self.number = 0  # of its present use
        self.room = 0  # bytes behind the number that have memory
        self.map: mmap.mmap | None = None  # of a writer
        self.idle_since = 0.0

    def begin(self, number: int) -> bool:
        """Begin a use, after which references to earlier ones cannot be opened; False if somebody has one open."""
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        os.pwrite(self.descriptor, _NUMBER.pack(number), 0)
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        self.number = number
        return True

    def is_in_use(self, number: int) -> bool:
        """Lock a file that has just been opened, to read it; return whether it still has its use of this number."""
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:  # its owner is beginning another
            return False
        return os.pread(self.descriptor, _NUMBER.size, 0) == _NUMBER.pack(number)

    def write(self, data: memoryview, at: int) -> None:
        """Write bytes behind the number; raises OSError without room."""
        again = min(max(0, self.room - at), len(data))
        if again:
            if self.map is None or len(self.map) < _HEAD + self.room:
                flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
                self.map = mmap.mmap(self.descriptor, _HEAD + self.room, flags=flags)
            self.map[_HEAD + at : _HEAD + at + again] = data[:again]
        rest, at = data[again:], at + again
        while rest:  # new memory: through a map each page of it would be a fault
            done = os.pwrite(self.descriptor, rest, _HEAD + at)
            rest, at = rest[done:], at + done
        self.room = max(self.room, at)

    def __del__(self) -> None:
        os.close(self.descriptor)


class Segments:
    """A worker's segments, and the files whose segments it does not hold any more, to be used again.

    A file is used again for a segment of between half and twice its size.  New memory takes the place of other files
    that nobody holds, so that all have no more than twice what has been held at the same time.
    """

    def __init__(self) -> None:
        self._idle: list[_File] = []  # those that the worker does not hold, in the order in which they were used
        self._uses = 0

    def empty(self, size: int) -> Segment:
        """Return a new segment, to which `append` adds bytes: about `size` of them."""
        self._uses += 1
        for file in list(self._idle):
            if size <= 2 * file.room <= 4 * size and file.begin(self._uses):
                self._idle.remove(file)
                break
        else:
            file = _File(os.memfd_create("bsp", os.MFD_CLOEXEC))
            file.begin(self._uses)
        self._release(size - file.room)
        return Segment(file, 0, self)

    def _release(self, size: int) -> None:
        """Give back so many bytes of memory of files that nobody holds, if there are as many."""
        for file in list(self._idle):
            if size > 0 and file.begin(0):
                size -= file.room
                self._idle.remove(file)

    def take_back(self, file: _File) -> None:
        """Keep the file of a segment that the worker does not hold any more."""
        if file.room:
            file.idle_since = time.monotonic()
            self._idle.append(file)
            del self._idle[:-_MOST]

    def tidy(self) -> None:
        """Give back the memory of files that have not been used for some seconds."""
        if self._idle:
            since = time.monotonic() - _IDLE
            self._idle = [file for file in self._idle if file.idle_since > since]


class Segment:
    """Some bytes in shared memory."""

    __slots__ = ("_file", "_owner", "size")

    def __init__(self, file: _File, size: int, owner: Segments | None = None) -> None:
        """Use a file; `owner` gets it back when this object is dropped, else it is closed."""
        self._file, self._owner, self.size = file, owner, size

    def append(self, blocks: Sequence[Any]) -> SegmentPiece:
        """Add the bytes of these buffers; return where they are, with their digest.  Raises OSError without room."""
        start = at = self.size
        digest = xxh3_128()
        for block in blocks:
            data = memoryview(block)
            for first in range(0, len(data), _CACHED):  # digested and copied while it is in the cache
                part = data[first : first + _CACHED]
                digest.update(part)
                self._file.write(part, at)
                at += len(part)
        self.size = at
        return SegmentPiece(self, start, at - start, digest.digest())

    def read_into(self, blocks: Sequence[np.ndarray]) -> None:
        """Fill these arrays with the bytes, in their order."""
        at = _HEAD
        for block in blocks:
            rest = flat_bytes(block)
            while rest:
                done = os.preadv(self._file.descriptor, [rest], at)
                if not done:
                    raise SegmentGone(f"a segment of {self.size} bytes ends early")
                rest, at = rest[done:], at + done

    def view(self) -> memoryview:
        """Return the bytes, without a copy."""
        if not self.size:
            return memoryview(b"")
        end = _HEAD + self.size
        return memoryview(mmap.mmap(self._file.descriptor, end, prot=mmap.PROT_READ))[_HEAD:]

    def __len__(self) -> int:
        return self.size

    def __del__(self) -> None:
        if self._owner is not None:
            self._owner.take_back(self._file)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the segment is, or its bytes."""
        if _nearby.get():
            return _opened, (os.getpid(), self._file.descriptor, self._file.inode, self._file.number, self.size)
        return _as_it_is, (pickle.PickleBuffer(self.view()),)


class SegmentPiece:
    """A part of a segment.  The pieces of one segment that are pickled together are opened as one.

    digest : of its bytes; empty where the piece was not written.
    """

    __slots__ = ("_segment", "_size", "_start", "digest")

    def __init__(self, segment: Segment, start: int, size: int, digest: bytes = b"") -> None:
        """Use the bytes of `segment` from `start` on."""
        self._segment, self._start, self._size, self.digest = segment, start, size, digest

    def view(self) -> memoryview:
        """Return the bytes, without a copy."""
        return self._segment.view()[self._start : self._start + self._size]

    def __len__(self) -> int:
        return self._size

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the piece is, or its bytes."""
        if _nearby.get():
            return _piece, (self._segment, self._start, self._size)
        return _as_it_is, (pickle.PickleBuffer(self.view()),)


def bytes_of(data: Any) -> Any:
    """Return the bytes of a segment or piece without a copy; any other buffer as it is."""
    return data.view() if isinstance(data, Segment | SegmentPiece) else data


def _opened(pid: int, descriptor: int, inode: int, number: int, size: int) -> Segment | bytearray:
    try:
        file = _File(os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC))
    except OSError as wrong:
        raise SegmentGone(str(wrong)) from None
    if file.inode != inode:  # its owner has dropped it, and something else has the descriptor
        raise SegmentGone("another file")
    if not file.is_in_use(number):
        raise SegmentGone("another segment")
    file.number = number
    segment = Segment(file, size)
    # Half of the descriptors remain for others.  The system gives the lowest that is free.
    if 2 * file.descriptor >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 0:
        return bytearray(segment.view())
    return segment


def _piece(segment: Segment | bytearray, start: int, size: int) -> SegmentPiece | memoryview:
    return SegmentPiece(segment, start, size) if isinstance(segment, Segment) else memoryview(segment)[start:][:size]


def _as_it_is(buffer: Any) -> Any:
    return buffer


def flat_bytes(block: np.ndarray) -> memoryview:
    """Return the bytes of a contiguous array, without a copy."""
    return block.data.cast("B") if block.nbytes else memoryview(b"")


def pickled(value: Any, here: bool = True) -> tuple[bytes, list[memoryview]]:
    """Return the pickle of a message, and the buffers beside it.

    here : whether the receiver is on this machine: then segments travel as references, else as their bytes.
    """
    buffers: list[pickle.PickleBuffer] = []
    before = _nearby.set(here)
    try:
        data = pickle.dumps(value, 5, buffer_callback=buffers.append)
    finally:
        _nearby.reset(before)
    return data, [buffer.raw() for buffer in buffers]


def usable() -> bool:
    """Return whether the processes of a job can open each other's segments here."""
    try:
        return bool(os.listdir(f"/proc/{os.getppid()}/fd"))
    except OSError:
        return False
