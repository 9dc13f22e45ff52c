"""Serialisation of objects with their large buffers separate, so that a packet of megabytes is sent without a copy.

An object is encoded as a first part and its buffers.  The first part holds the length of the pickle, the number of
buffers, the size of each, and the pickle.
"""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from typing import Any

from bsp.faults.carrier.segments import pickled

_HEAD = struct.Struct("<QQ")  # bytes of the pickle, number of buffers
_SIZE = struct.Struct("<Q")
HEAD_BYTES = _HEAD.size


def encode(value: Any) -> tuple[bytes, list[memoryview]]:
    """Return the first part of an object, and the buffers that follow it."""
    data, buffers = pickled(value)
    if not buffers:
        return _HEAD.pack(len(data), 0) + data, []
    sizes = b"".join([_SIZE.pack(buffer.nbytes) for buffer in buffers])
    return b"".join((_HEAD.pack(len(data), len(buffers)), sizes, data)), buffers


def extent(head: bytes | bytearray | memoryview, start: int = 0) -> int:
    """Return the length of a first part in bytes; its first HEAD_BYTES, at `start`, are enough."""
    size, count = _HEAD.unpack_from(head, start)
    return HEAD_BYTES + int(count) * _SIZE.size + int(size)


def has_buffers(first: bytes | bytearray | memoryview) -> bool:
    """Return whether any buffers follow a first part."""
    return bool(_HEAD.unpack_from(first)[1])


def buffers_of(first: bytes | bytearray | memoryview, start: int = 0) -> list[bytearray]:
    """Return empty buffers of the right sizes for those that follow a first part."""
    _, count = _HEAD.unpack_from(first, start)
    at = start + HEAD_BYTES
    return [bytearray(_SIZE.unpack_from(first, at + k * _SIZE.size)[0]) for k in range(count)]


def decode(first: bytes | bytearray | memoryview, buffers: Sequence[bytearray], start: int = 0) -> Any:
    """Return the object, from its first part and its buffers."""
    size, count = _HEAD.unpack_from(first, start)
    at = start + HEAD_BYTES + count * _SIZE.size
    return pickle.loads(memoryview(first)[at : at + size], buffers=buffers)
