"""Small puts and small values for all, as records of bytes: a superstep of nothing else makes no other objects.

Until the boundary a small effect is a tuple, `(kind, dest, address, start, data, coarray)`.

kind : PUT, or VALUE for one that is given to all processes from `dest` to `start` - 1.
address : `address_of` the context, the coarray (0 for values) and the source.
start : where the bytes of a put go in the memory of the coarray; of a value, the end of the range of pids.
coarray : that of the source, None for a value.

In a packet it is a head of 32 bytes and the data.  The functions here are the reference; where the package was
installed with a C compiler, those of `compiled.c` take their place (`bsp.transport.compiled`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

PUT, VALUE = 1, 2  # the first byte of a packet; one of marshalled records begins with another

Small = tuple[int, int, bytes, int, bytes, Any]

_ADDRESS = struct.Struct("<IIi")
_HEAD = struct.Struct("<B 3x 12s i I Q")
HEAD = _HEAD.size


def address_of(context: int, coarray: int, source: int) -> bytes:
    """Return the part of a record's head that names the sender and its coarray."""
    return _ADDRESS.pack(context, coarray, source)


def parts_of(address: bytes) -> tuple[int, int, int]:
    """Return the context, the coarray and the source in an address."""
    return _ADDRESS.unpack(address)


def pack(
    outboxes: Sequence[list[Any]], owner: Sequence[int], elements: int, index: int, room: int
) -> dict[int, bytes] | None:
    """Return the packet for each element, in their order; None if some effect is no small one, or a packet is too long.

    outboxes : the effects of the processes here, in the order of their pids.  owner : the element of each process.
    index : this element, whose own packet may have any length.  room : the longest packet for another one.
    """
    packets: dict[int, list[bytes]] = {}
    for effects in outboxes:
        for effect in effects:
            if type(effect) is not tuple:
                return None
            kind, dest, address, start, data, _ = effect
            record = _HEAD.pack(kind, address, dest, len(data), start) + data
            for k in range(owner[dest], elements) if kind == VALUE else (owner[dest],):
                packets.setdefault(k, []).append(record)
    joined = {k: b"".join(packets[k]) for k in sorted(packets)}
    return None if any(len(packet) > room for k, packet in joined.items() if k != index) else joined


def apply(packet: bytes, tasks: Sequence[Any], first: int, values: dict[int, Any]) -> None:
    """Write the puts of a packet into their coarrays, and its values into `values`, by source, in their order.

    tasks : the processes here; their pids are consecutive, from `first`.
    """
    for kind, context, coarray, source, dest, start, data in each(packet):
        if kind == PUT:
            if not 0 <= dest - first < len(tasks):
                raise IndexError(f"process {dest} is not here")
            memory = tasks[dest - first].contexts[context].coarrays[coarray].raw
            if start + len(data) > len(memory):
                raise IndexError("a put runs past its coarray")
            memory[start : start + len(data)] = memoryview(data)
        else:
            values[source] = data


def each(packet: bytes | memoryview) -> Iterator[tuple[int, int, int, int, int, int, bytes]]:
    """Generate the records of a packet, as (kind, context, coarray, source, dest, start, data)."""
    at = 0
    while at < len(packet):
        if len(packet) - at < HEAD:
            raise ValueError("a packet ends inside a record")
        kind, address, dest, size, start = _HEAD.unpack_from(packet, at)
        at += HEAD
        if len(packet) - at < size:
            raise ValueError("a packet ends inside a record")
        yield kind, *parts_of(address), dest, start, bytes(packet[at : at + size])
        at += size
