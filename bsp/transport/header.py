"""The fixed part of a control packet: what every element tells every other at every boundary.

All elements see all headers, so they reach the same verdict without another message.  Of a quiet
superstep (nothing sent, everybody at the same boundary) the headers are equal but for the clock,
which stands first for that reason: one comparison of bytes settles it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

RAISED = 1  # a process here has raised or left with a status
RETURNED = 2  # a process here has returned while another one here waits
MIXED = 4  # processes here stand at different boundaries
GET = 8  # somebody here reads: replies will follow
REGISTERED = 16  # somebody here has registered or released coarrays: tables are exchanged first
BODY = 32  # packets from here continue behind their slot
BLOCKS = 64  # large blocks follow the packets from here

FAULTS = RAISED | RETURNED | MIXED

_LAYOUT = struct.Struct("<d I H H 8s i I Q Q Q Q")
SIZE = _LAYOUT.size
_INLINE, _INLINE_AT = struct.Struct("<H"), struct.calcsize("<d I H")
_BODY, _BODY_AT = struct.Struct("<Q"), struct.calcsize("<d I H H 8s i I Q")
_COMPARED = slice(8, SIZE)


class Header(NamedTuple):
    """See the module's head; sizes in bytes."""

    clock: float  # seconds since the job began, on the sending element
    superstep: int
    flags: int
    inline: int  # bytes of the packet that stand behind this header
    digest: bytes  # of the boundary and the arguments that must agree
    bad_pid: int  # the lowest faulty process, or -1
    row_count: int  # elements the sender has bytes for
    hint: int  # the largest number a process here contributes to the call (a size, a count of steps)
    body: int  # bytes of the packet that follow outside the slot
    row_total: int  # bytes the sender has for all others, blocks included
    row_max: int  # the largest of its packets

    def pack(self) -> bytes:
        """The 64 bytes of this header."""
        return _LAYOUT.pack(*self)


def set_inline(slots: bytearray, offset: int, size: int) -> None:
    """In the header at `offset`: this many bytes of packet stand behind it."""
    _INLINE.pack_into(slots, offset + _INLINE_AT, size)


def set_body(slots: bytearray, offset: int, size: int) -> None:
    """In the header at `offset`: this many bytes of packet follow outside the slot."""
    _BODY.pack_into(slots, offset + _BODY_AT, size)


def pack_quiet(clock: float, superstep: int, digest: bytes) -> bytes:
    """The header of an element that has nothing to send and nothing to report."""
    return _LAYOUT.pack(clock, superstep, 0, 0, digest, -1, 0, 0, 0, 0, 0)


def unpack(slots: bytearray, offset: int) -> Header:
    """The header at the beginning of a slot."""
    return Header._make(_LAYOUT.unpack_from(slots, offset))


def combined(headers: Sequence[Header], mine: Header) -> tuple[int, int]:
    """The flags of all headers together, MIXED if they stand at different boundaries; and the largest hint."""
    flags = hint = 0
    for header in headers:
        flags |= header.flags
        if header.hint > hint:
            hint = header.hint
        if header.digest != mine.digest or header.superstep != mine.superstep:
            flags |= MIXED
    return flags, hint


def clock_of(slot: bytes | bytearray | memoryview) -> float:
    """The clock of the header at the beginning of a slot."""
    clock: float = struct.unpack_from("<d", slot)[0]
    return clock


def compared(slot: bytes) -> bytes:
    """The part of a quiet header that must be equal everywhere."""
    return slot[_COMPARED]


def digest(*agreed: object) -> bytes:
    """Eight bytes that differ when a boundary or an argument that must agree differs."""
    return blake2b(repr(agreed).encode(), digest_size=8).digest()
