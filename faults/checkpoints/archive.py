"""Archives that `numpy.load` and every zip program read, written and read from front to back.

Front to back, so that a digest is taken of each byte as it passes, and nothing is in memory twice: what has been read
is what the digest is of, even if somebody changes the file meanwhile.  The library's zipfile writes the sizes of a
member behind it, or goes back to put them before it, and cannot be used for that.

Members are stored, not compressed; every size has 64 bits; there are no dates, so equal members are equal bytes.
The layout is that of APPNOTE.TXT 6.3.10 (PKWARE), sections 4.3.7 (local header), 4.3.12 (central directory),
4.3.14 to 4.3.16 (ends) and 4.5.3 (sizes of 64 bits).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Protocol

Block = bytes | bytearray | memoryview

_LOCAL = struct.Struct("<4s5H3I2H")
_LOCAL_SIZES = struct.Struct("<2H2Q")
_CENTRAL = struct.Struct("<4s6H3I5H2I")
_CENTRAL_SIZES = struct.Struct("<2H3Q")
_END_64 = struct.Struct("<4sQ2H2I4Q")
_LOCATOR = struct.Struct("<4sIQI")
_END = struct.Struct("<4s4H2IH")

_VERSION = 45  # of a reader: sizes of 64 bits
_UNIX = 3 << 8
_UTF8 = 1 << 11
_DAY = 1 << 5 | 1  # the first of 1980
_FILE = 0o100644 << 16
_SEE_64 = 0xFFFFFFFF


class Source(Protocol):
    """What an archive is read from."""

    def take(self, count: int) -> bytearray:
        """Return the next bytes, exactly so many; ValueError if fewer are left."""


def blocks(members: Iterable[tuple[str, Block]]) -> Iterator[Block]:
    """Return the bytes of an archive, one block after the other; members themselves are never copied."""
    directory: list[bytes] = []
    at = 0
    for name, data in members:
        encoded, size, check = name.encode(), memoryview(data).nbytes, zlib.crc32(data)
        kind = (_VERSION, _UTF8, 0, 0, _DAY, check, _SEE_64, _SEE_64, len(encoded))
        header = _LOCAL.pack(b"PK\3\4", *kind, _LOCAL_SIZES.size) + encoded + _LOCAL_SIZES.pack(1, 16, size, size)
        directory += (
            _CENTRAL.pack(b"PK\1\2", _UNIX | _VERSION, *kind, _CENTRAL_SIZES.size, 0, 0, 0, _FILE, _SEE_64),
            encoded,
            _CENTRAL_SIZES.pack(1, 24, size, size, at),
        )
        yield header
        yield data
        at += len(header) + size
    count, listed = len(directory) // 3, b"".join(directory)
    ends = _END_64.pack(
        b"PK\6\6", _END_64.size - 12, _UNIX | _VERSION, _VERSION, 0, 0, count, count, len(listed), at
    ) + _LOCATOR.pack(b"PK\6\7", 0, at + len(listed), 1)
    yield listed + ends + _END.pack(b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, _SEE_64, _SEE_64, 0)


def read(source: Source) -> dict[str, bytearray]:
    """Return the members of an archive that `blocks` has made, by name; what follows them is left in the source.

    Raises ValueError for anything else.  The caller compares the source's digest before it uses any of them.
    """
    found: dict[str, bytearray] = {}
    while (signature := source.take(4)) == b"PK\3\4":
        *_, length, extra = _LOCAL.unpack(signature + source.take(_LOCAL.size - 4))
        name = source.take(length).decode()
        if extra != _LOCAL_SIZES.size or name in found:
            raise ValueError(f"member {name!r} is not one of ours")
        found[name] = source.take(_LOCAL_SIZES.unpack(source.take(extra))[2])
    return found
