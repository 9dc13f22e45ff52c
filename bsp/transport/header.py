"""The header of a control packet: 64 bytes that every element sends to every other at every boundary.

All elements receive all headers, so they reach the same verdict without another message.  `c/compiled.h` has the same
layout.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple

# Flags of the sending element
RAISED = 1  # a process has raised or exited with a status
RETURNED = 2  # a process has returned while another one waits
MIXED = 4  # processes are at different boundaries
GET = 8  # a process reads remote memory: replies follow
REGISTERED = 16  # a process has registered or released coarrays: tables are exchanged first
BODY = 32  # some packet is larger than its slot and follows outside it
BLOCKS = 64  # large blocks follow the packets

FAULTS = RAISED | RETURNED | MIXED
FOLLOWS = BLOCKS | GET

_LAYOUT = struct.Struct("<d I H H 8s i I Q Q Q Q")
SIZE = _LAYOUT.size
_INLINE, _INLINE_AT = struct.Struct("<H"), struct.calcsize("<d I H")
_BODY, _BODY_AT = struct.Struct("<Q"), struct.calcsize("<d I H H 8s i I Q")

# by the other element; the largest hint; the flags of the other elements together, of FOLLOWS
SmallPackets = tuple[Mapping[int, bytes | memoryview], int, int]


class Header(NamedTuple):
    """The fields of a header, in the order of their bytes; sizes in bytes."""

    clock: float  # seconds since the job began, on the sending element
    superstep: int
    flags: int
    inline: int  # bytes of the packet in the same slot, behind this header
    digest: bytes  # of the boundary and the arguments that must agree
    bad_pid: int  # the lowest faulty process, or -1
    row_count: int  # elements that the sender has bytes for
    hint: int  # the largest number that a process here contributes to the call (a size, a count of supersteps)
    body: int  # bytes of the packet that follow outside the slot
    row_total: int  # bytes that the sender has for all others, blocks included
    row_max: int  # the largest of its packets

    def pack(self) -> bytes:
        """Return the 64 bytes of this header."""
        return _LAYOUT.pack(*self)


def set_inline(slots: bytearray, offset: int, size: int) -> None:
    """Set the size of the packet in the same slot, in the header at `offset`."""
    _INLINE.pack_into(slots, offset + _INLINE_AT, size)


def set_body(slots: bytearray, offset: int, size: int) -> None:
    """Set the size of the packet that follows outside the slot, in the header at `offset`."""
    _BODY.pack_into(slots, offset + _BODY_AT, size)


def pack_quiet(clock: float, superstep: int, digest: bytes) -> bytes:
    """Return the bytes of the header of an element without data or faults."""
    return _LAYOUT.pack(clock, superstep, 0, 0, digest, -1, 0, 0, 0, 0, 0)


def pack_small(
    clock: float, superstep: int, digest: bytes, hint: int, row: tuple[int, int, int], block_bytes: int, asks: bool
) -> bytes:
    """Return the header of an element with packets in slots; `row` has their number, total and longest."""
    count, total, longest = row
    flags = (BLOCKS if block_bytes else 0) | (GET if asks else 0)
    return _LAYOUT.pack(clock, superstep, flags, 0, digest, -1, count, hint, 0, total + block_bytes, longest)


def small_inline(slots: bytearray, offset: int, superstep: int, digest: bytes) -> tuple[int, int, int, int] | None:
    """Return the sizes of the packet in the slot and of its sender's longest, its hint, and its flags.

    superstep, digest : those of a sender at the same boundary.
    Returns None if the sender has more than packets, and blocks or replies that follow.
    """
    _, at, flags, inline, called, _, _, hint, _, _, longest = _LAYOUT.unpack_from(slots, offset)
    if flags & ~FOLLOWS or called != digest or at != superstep:
        return None
    return inline, longest, hint, flags


def unpack(slots: bytearray, offset: int) -> Header:
    """Return the header at the beginning of a slot."""
    return Header._make(_LAYOUT.unpack_from(slots, offset))


def combined(headers: Sequence[Header], mine: Header) -> tuple[int, int]:
    """Return the flags of all headers together, with MIXED if their boundaries differ, and the largest hint."""
    flags = hint = 0
    for header in headers:
        flags |= header.flags
        if header.hint > hint:
            hint = header.hint
        if header.digest != mine.digest or header.superstep != mine.superstep:
            flags |= MIXED
    return flags, hint


def clock_of(slot: bytes | bytearray | memoryview) -> float:
    """Return the clock of the header at the beginning of a slot."""
    clock: float = struct.unpack_from("<d", slot)[0]
    return clock


def digest(*agreed: object) -> bytes:
    """Return eight bytes that differ if a boundary, or an argument that must agree, differs."""
    return blake2b(repr(agreed).encode(), digest_size=8).digest()
