"""Large packets in memory that processes of one machine share: written once by a worker, read once by each receiver.

A segment is a file that is only in memory (memfd).  What travels between agents and workers of a machine is where it is
to be opened; each then holds it by a descriptor of its own, and it is gone with the last of these.  To other machines,
and into checkpoints, its bytes travel.
"""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

LEAST = 1 << 20  # bytes; smaller packets travel as they are, because descriptors are limited

_nearby = False  # whether what is being pickled stays on this machine


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
    def of(cls, blocks: Sequence[np.ndarray]) -> Segment:
        """Return a segment that holds the bytes of these arrays, one behind the other.  Raises OSError without room."""
        descriptor, at = os.memfd_create("packet"), 0
        try:
            for block in blocks:
                rest = _bytes_of(block)
                while rest:
                    done = os.pwrite(descriptor, rest, at)
                    rest, at = rest[done:], at + done
        except OSError:
            os.close(descriptor)
            raise
        return cls(descriptor)

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

    def __len__(self) -> int:
        return self.size

    def __del__(self) -> None:
        os.close(self._descriptor)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle where the segment is, or its bytes."""
        if _nearby:
            return _opened, (os.getpid(), self._descriptor, self._inode)
        whole = np.empty(self.size, np.uint8)
        self.read_into([whole])
        return _as_it_is, (pickle.PickleBuffer(whole.data),)


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
    """Have segments that are pickled inside this context travel as references, if the receiver is `here`, too."""
    global _nearby
    before, _nearby = _nearby, here
    try:
        yield
    finally:
        _nearby = before


def usable() -> bool:
    """Return whether the processes of a job can open each other's segments here."""
    try:
        return bool(os.listdir(f"/proc/{os.getppid()}/fd"))
    except OSError:
        return False
