"""CRC-32 of bytes that several processes have in pieces: each computes that of its own, and `joined` combines them."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from functools import lru_cache, reduce
from typing import NamedTuple

from bsp.arrays.errors import FormatError
from bsp.arrays.execution.world import world
from bsp.arrays.typing import PathLike
from bsp.declared import declares

_POLYNOMIAL = 0xEDB88320  # CRC-32's, x^31 in the lowest bit (ISO 3309)
_ONE, _ALL = 1 << 31, 0xFFFFFFFF
_READ = 1 << 20  # bytes that are read at once


def _times(a: int, b: int) -> int:
    """Return the product of two polynomials over GF(2), modulo the polynomial of CRC-32."""
    found = 0
    while a:
        if a & _ONE:
            found ^= b
        a = (a << 1) & _ALL
        b = (b >> 1) ^ (_POLYNOMIAL if b & 1 else 0)
    return found


@lru_cache(maxsize=64)
def _power(k: int) -> int:
    """Return x^(8·2^k), the factor by which 2^k appended zero bytes multiply a checksum."""
    return 1 << 23 if not k else _times(_power(k - 1), _power(k - 1))


def joined(first: int, second: int, length: int) -> int:
    """Return the CRC-32 of two pieces joined, from that of each; `length`: the number of bytes of the second."""
    shift, k = _ONE, 0
    while length >> k:
        if (length >> k) & 1:
            shift = _times(shift, _power(k))
        k += 1
    return _times(first, shift) ^ second


class CheckedFile(NamedTuple):
    """A file that lies inside another one, uncompressed: its name, its first byte there, its size and its CRC-32."""

    name: str
    start: int
    size: int
    crc: int


class CheckedPiece(NamedTuple):
    """Consecutive bytes of a checked file: the offset of the first, their number and their CRC-32."""

    offset: int
    length: int
    crc: int


@declares(lambda costs, path, inside: [])
def share(path: PathLike, inside: CheckedFile) -> list[CheckedPiece]:
    """Read this process's even share of a checked file; return its checksum.  A run without values reads nothing."""
    here = world()
    low, high = (inside.size * k // here.nprocs for k in (here.pid, here.pid + 1))
    crc, left = 0, high - low
    with open(path, "rb") as file:
        file.seek(inside.start + low)
        while left and (data := file.read(min(left, _READ))):
            crc = zlib.crc32(data, crc)
            left -= len(data)
    return [CheckedPiece(low, high - low, crc)]


@declares(lambda costs, call, inside, pieces: None)
def check(call: str, inside: CheckedFile, pieces: Iterable[CheckedPiece]) -> None:
    """Raise FormatError unless the pieces of all processes, which make up a checked file, have its checksum."""
    crc = reduce(lambda whole, piece: joined(whole, piece.crc, piece.length), sorted(pieces), 0)
    if crc != inside.crc:
        raise FormatError(f"{call}: Bad CRC-32: it has changed since it was written")
