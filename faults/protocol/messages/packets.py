"""Packets of exchanges and states at heads: the records that carry bytes.

Names validate data (rule N7): a packet or state is accepted by the exchange or head that it names.
"""

from __future__ import annotations

from pickle import PickleBuffer
from typing import Any, NamedTuple

_BESIDE = 1 << 15  # bytes; packets of this size or more travel beside the pickle and are not copied into it


class BundlePacket(NamedTuple):
    """The bytes that one bundle sends to another in one exchange."""

    size: int
    digest: bytes
    data: Any  # bytes, or what holds them for us; None if the packet is only announced here and travels separately

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the packet; large data becomes an out-of-band buffer (see faults/carrier/mesh.py)."""
        beside = self.size >= _BESIDE and isinstance(self.data, bytes | bytearray | memoryview)
        small = bytes(self.data) if isinstance(self.data, memoryview) else self.data
        return BundlePacket, (self.size, self.digest, PickleBuffer(self.data) if beside else small)


class Packed(NamedTuple):
    """A state as bytes: a pickle, and the arrays that it refers to by position, each in npy format."""

    pickle: Any  # bytes
    names: tuple[str, ...]  # of the arrays
    arrays: tuple[Any, ...]  # bytes, or what holds them for us

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the state; its large pieces become out-of-band buffers (see faults/carrier/mesh.py)."""
        return Packed, (_beside(self.pickle), self.names, tuple(map(_beside, self.arrays)))

    @property
    def size(self) -> int:
        """The size of the pickle and all arrays, in bytes."""
        return len(self.pickle) + sum(map(len, self.arrays))


def _beside(data: Any) -> Any:
    """Return `data` as an out-of-band buffer for pickle if it is large, else unchanged."""
    large = len(data) >= _BESIDE and isinstance(data, bytes | bytearray | memoryview)
    return PickleBuffer(data) if large else data


class Snapshot(NamedTuple):
    """The state of a bundle at a head."""

    bundle: int
    head: int  # number of this head, counted over the whole program and equal on all processes (N10)
    loop: int  # number of the outermost `rounds` loop in the program
    round: int
    final: bool  # the loop ends at this head
    exchange: int  # the first exchange after this head
    start: int  # the first exchange of the loop
    superstep: int
    digest: bytes  # of `data`; clones of a bundle must agree on it
    data: Any  # Packed; None if no state was taken at this head
    said: int = 0  # bytes of standard output that the bundle wrote before this head
    erred: int = 0  # pieces of standard error before it; not part of `digest`, because clones may differ in them

    @property
    def size(self) -> int:
        """The size of the state in bytes; 0 if none was taken."""
        return self.data.size if isinstance(self.data, Packed) else 0


# Identifies one call of proc.once, or one reading of the clock, equally in all clones:
# ("time" or "once", pid, superstep, sequence); inside a loop ("round", pid, head, sequence).
Token = tuple[str, int, int, int]
