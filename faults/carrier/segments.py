"""Large packets and states in memory that the processes of a machine share: workers write them, agents copy nothing.

A segment is a file that is only in memory (memfd).  What travels between agents and workers of a machine is where it is
to be opened; each then holds it by a descriptor of its own, and it is gone with the last of these.  To other machines,
and into checkpoints, its bytes travel.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import numpy as np

LEAST = 1 << 20  # bytes; smaller packets and arrays travel as they are, because descriptors are limited

# whether what this thread pickles stays on this machine
_nearby: ContextVar[bool] = ContextVar("_nearby", default=False)


class SegmentGone(Exception):
    """A segment cannot be opened any more: its owner has ended, or dropped it."""


class Segment:
    """Some bytes in shared memory."""

    __slots__ = ("_descriptor", "_inode", "size")

    def __init__(self, descriptor: int) -> None:
        """Use an open file that is only in memory; its descriptor now belongs to this object."""
        found = os.fstat(descriptor)
        self._descriptor, self._inode, self.size = descriptor, found.st_ino, found.st_size

    @classmethod
    def empty(cls) -> Segment:
        """Return a new segment, to which `append` adds bytes."""
        return cls(os.memfd_create("bsp"))

    @classmethod
    def of(cls, blocks: Sequence[np.ndarray]) -> Segment:
        """Return a segment that holds the bytes of these arrays, one behind the other.  Raises OSError without room."""
        segment = cls.empty()
        segment.append([_bytes_of(block) for block in blocks])
        return segment

    def append(self, blocks: Sequence[Any]) -> SegmentPiece:
        """Add the bytes of these buffers; return where they are.  Raises OSError without room."""
        start = at = self.size
        for block in blocks:
            rest = memoryview(block)
            while rest:
                done = os.pwrite(self._descriptor, rest, at)
                rest, at = rest[done:], at + done
        self.size = at
        return SegmentPiece(self, start, at - start)

    def read_into(self, blocks: Sequence[np.ndarray]) -> None:
        """Fill these arrays with the bytes, in their order."""
        at = 0
        for block in blocks:
            rest = _bytes_of(block)
            while rest:
                done = os.preadv(self._descriptor, [rest], at)
                if not done:
                    raise SegmentGone(f"a segment of {self.size} bytes ends early")
                rest, at = rest[done:], at + done

    def view(self) -> memoryview:
        """Return the bytes, without a copy."""
        if not self.size:
            return memoryview(b"")
        return memoryview(mmap.mmap(self._descriptor, self.size, prot=mmap.PROT_READ))

    def __len__(self) -> int:
        return self.size

    def __del__(self) -> None:
        os.close(self._descriptor)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the segment is, or its bytes."""
        if _nearby.get():
            return _opened, (os.getpid(), self._descriptor, self._inode)
        return _as_it_is, (pickle.PickleBuffer(self.view()),)


class SegmentPiece:
    """A part of a segment.  The pieces of one segment that are pickled together are opened as one."""

    __slots__ = ("_segment", "_size", "_start")

    def __init__(self, segment: Segment, start: int, size: int) -> None:
        """Use the bytes of `segment` from `start` on."""
        self._segment, self._start, self._size = segment, start, size

    def view(self) -> memoryview:
        """Return the bytes, without a copy."""
        return self._segment.view()[self._start : self._start + self._size]

    def __len__(self) -> int:
        return self._size

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the piece is, or its bytes."""
        if _nearby.get():
            return SegmentPiece, (self._segment, self._start, self._size)
        return _as_it_is, (pickle.PickleBuffer(self.view()),)


def bytes_of(data: Any) -> Any:
    """Return the bytes of a segment or piece without a copy; any other buffer as it is."""
    return data.view() if isinstance(data, Segment | SegmentPiece) else data


def _opened(pid: int, descriptor: int, inode: int) -> Segment:
    try:
        found = Segment(os.open(f"/proc/{pid}/fd/{descriptor}", os.O_RDONLY | os.O_CLOEXEC))
    except OSError as wrong:
        raise SegmentGone(str(wrong)) from None
    if found._inode != inode:  # its owner has dropped it, and something else has the descriptor
        raise SegmentGone("another file")
    return found


def _as_it_is(buffer: Any) -> Any:
    return buffer


def _bytes_of(block: np.ndarray) -> memoryview:
    return block.data.cast("B") if block.nbytes else memoryview(b"")


@contextlib.contextmanager
def nearby(here: bool = True) -> Iterator[None]:
    """Have segments that this thread pickles inside this context travel as references, if the receiver is `here`."""
    before = _nearby.set(here)
    try:
        yield
    finally:
        _nearby.reset(before)


def usable() -> bool:
    """Return whether the processes of a job can open each other's segments here."""
    try:
        return bool(os.listdir(f"/proc/{os.getppid()}/fd"))
    except OSError:
        return False
