"""Puts into one range, small puts into a part, small gets, messages, and values for all, as records of bytes.

A superstep of these makes no other objects.

Until the boundary such an effect is a tuple, `(kind, dest, address, start, data, coarray)`.

kind : PUT for a small one; COPIED or LENT for one of DIRECT_BYTES (`bsp.transport.packet`) or more, whose bytes follow
    the packets as a block, from a copy or from memory of the program's own; PART for a small one into a rectangular
    part that is no range; VALUE for a value that is given to all processes from `dest` to `start` - 1, a pickle, and
    ARRAY for an array that is, as bytes (`bsp.values.payload.array_out`); MESSAGE for a small message; ASK for a small
    get, whose `dest` is the owner of the memory; COMBINE for a small put with an operation.
address : `address_of` the context, the coarray (0 if there is none) and the source.
start : where the bytes of a put or a get begin in the memory of the coarray; of a value, the end of the range of pids.
data : bytes, of a part its description and its items (`bsp.values.parts`), with an operation behind the operation's
    number, of a get the description, of a message its tag and what it carries (`message_out`); of a block an array of
    bytes.
coarray : that of the source, of a part with its region, of a get with its region and the function that takes the
    values; None if there is none.

In a packet it is a head of 32 bytes and the data, if they are no block.  The functions here are the reference; where
the package was installed with a C compiler, those in C take their place (`bsp.transport.compiled`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from bsp.values.memory import LARGE
from bsp.values.parts import read_part
from bsp.values.payload import array_in, array_out

PUT, VALUE, COPIED, LENT, PART, ARRAY, MESSAGE, ASK, COMBINE = 1, 2, 3, 4, 5, 6, 7, 8, 9
BLOCKS, FOR_ALL = (COPIED, LENT), (VALUE, ARRAY)
PUTS = (PUT, PART, COMBINE, *BLOCKS)
KINDS = frozenset({*PUTS, *FOR_ALL, MESSAGE, ASK})  # the first byte of a packet; one of marshalled records has another
LARGEST_BLOCK = (1 << 32) - 1  # bytes that the head of a record can tell

Record = tuple[int, int, bytes, int, Any, Any]

_ADDRESS = struct.Struct("<IIi")
_MESSAGE = struct.Struct("<?i")
_ARRAY, _PICKLE = _MESSAGE.pack(True, -1), _MESSAGE.pack(False, -1)  # of messages without a tag
_HEAD = struct.Struct("<B 3x 12s i I Q")
HEAD = _HEAD.size


@lru_cache(maxsize=1024)
def address_of(context: int, coarray: int, source: int) -> bytes:
    """Return the part of a record's head that names the sender and its coarray."""
    return _ADDRESS.pack(context, coarray, source)


def parts_of(address: bytes) -> tuple[int, int, int]:
    """Return the context, the coarray and the source in an address."""
    return _ADDRESS.unpack(address)


def message_out(tag: bytes | None, array: np.ndarray | None, pickled: bytes | None) -> bytes | None:
    """Return a small message as bytes: an array or a pickle, and the pickle of its tag; None if it is none."""
    body = pickled if array is None else array_out(array)
    if type(body) is not bytes or len(body) + len(tag or b"") >= LARGE:
        return None
    if tag is None:
        return (_PICKLE if array is None else _ARRAY) + body
    return _MESSAGE.pack(array is not None, len(tag)) + tag + body


def message_in(data: bytes) -> tuple[bytes | None, np.ndarray | None, bytes | None]:
    """Return tag, array and pickle of `message_out`."""
    is_array, length = _MESSAGE.unpack_from(data)
    start, tag = _MESSAGE.size, None
    if length >= 0:
        start += length
        tag = data[_MESSAGE.size : start]
    return (tag, array_in(data[start:]), None) if is_array else (tag, None, data[start:])


def pack(
    outboxes: Sequence[list[Any]],
    owner: Sequence[int],
    elements: int,
    index: int,
    room: int,
    blocks: dict[int, list[Any]],
) -> dict[int, bytes] | None:
    """Return the packet for each element, in their order; None if some effect is no tuple, or a packet is too long.

    outboxes : the effects of the processes here, in the order of their pids.  owner : the element of each process.
    index : this element, whose own packet may have any length.  room : the longest packet for another one.
    blocks : is given the blocks for each element, in the order of their records, unless None is returned.
    """
    packets: dict[int, list[bytes]] = {}
    for effects in outboxes:
        for effect in effects:
            if type(effect) is not tuple:
                return None
            kind, dest, address, start, data, _ = effect
            record = _HEAD.pack(kind, address, dest, len(data), start)
            if kind not in BLOCKS:
                record += data
            for k in range(owner[dest], elements) if kind in FOR_ALL else (owner[dest],):
                packets.setdefault(k, []).append(record)
    joined = {k: b"".join(packets[k]) for k in sorted(packets)}
    if any(len(packet) > room for k, packet in joined.items() if k != index):
        return None
    for effects in outboxes:
        for kind, dest, _, _, data, _ in effects:
            if kind in BLOCKS:
                blocks.setdefault(owner[dest], []).append(data)
    return joined


def apply(packet: bytes, tasks: Sequence[Any], first: int, values: dict[int, Any], blocks: list[Any]) -> None:
    """Write the puts of a packet into their coarrays, and its values into `values`, by source, in their order.

    An array is there as a bytearray, by which `Element.take` knows it.

    tasks : the processes here; their pids are consecutive, from `first`.
    blocks : the bytes of each block of the packet; None for one that is in its place already.
    """
    taken = 0
    for kind, context, coarray, source, dest, start, size, data in each(packet):
        if kind in FOR_ALL:
            values[source] = data if kind == VALUE else bytearray(data)
            continue
        if kind == MESSAGE:
            if not 0 <= dest - first < len(tasks):
                raise IndexError(f"process {dest} is not here")
            tasks[dest - first].contexts[context].receive(source, data)
            continue
        if kind == ASK:
            continue
        if kind == COMBINE:
            coarray_of(tasks, first, context, coarray, dest)._combine(start, data)
            continue
        if kind == PART:
            part = read_part(data)
            view = part.view(coarray_of(tasks, first, context, coarray, dest).raw, start)
            view[...] = np.frombuffer(part.items, np.uint8).reshape(view.shape)
            continue
        found: Any = data
        if kind != PUT:
            if taken == len(blocks):
                raise ValueError("a record has no block")
            found = blocks[taken]
            taken += 1
            if found is None:
                continue
            if len(found) != size:
                raise ValueError("a block has another size than its record")
        place = memory_of(tasks, first, context, coarray, dest, start, start + size)[start : start + size]
        place[:] = memoryview(found)
    if taken < len(blocks):
        raise ValueError("a block has no record")


def read_asked(packet: bytes, tasks: Sequence[Any], first: int) -> list[tuple[int, int, bytes]]:
    """Return what the gets of a packet ask for, in their order, as (source, owner, contents).

    tasks, first : as for `apply`.
    """
    found = []
    for kind, context, coarray, source, dest, start, _, data in each(packet):
        if kind == ASK:
            part = read_part(data, filled=False)
            memory = coarray_of(tasks, first, context, coarray, dest).raw
            found.append((source, dest, part.view(memory, start).tobytes()))
    return found


def coarray_of(tasks: Sequence[Any], first: int, context: int, coarray: int, dest: int) -> Any:
    """Return a coarray of a process here."""
    if not 0 <= dest - first < len(tasks):
        raise IndexError(f"process {dest} is not here")
    return tasks[dest - first].contexts[context].coarrays[coarray]


def memory_of(tasks: Sequence[Any], first: int, context: int, coarray: int, dest: int, low: int, high: int) -> Any:
    """Return the memory of a coarray here, which a put writes to from byte `low` to below `high`."""
    memory = coarray_of(tasks, first, context, coarray, dest).raw
    if low < 0 or high > len(memory):
        raise IndexError("a put or a get runs past its coarray")
    return memory


def each(packet: bytes | memoryview) -> Iterator[tuple[int, int, int, int, int, int, int, bytes]]:
    """Generate the records of a packet, as (kind, context, coarray, source, dest, start, size, data).

    The data of a block are elsewhere: they are empty.
    """
    at = 0
    while at < len(packet):
        if len(packet) - at < HEAD:
            raise ValueError("a packet ends inside a record")
        kind, address, dest, size, start = _HEAD.unpack_from(packet, at)
        if kind not in KINDS:
            raise ValueError(f"a record of the unknown kind {kind}")
        at += HEAD
        inline = 0 if kind in BLOCKS else size
        if len(packet) - at < inline:
            raise ValueError("a packet ends inside a record")
        yield kind, *parts_of(address), dest, start, size, bytes(packet[at : at + inline])
        at += inline
