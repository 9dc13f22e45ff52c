"""Zip archives, written and read strictly from front to back; `numpy.load` and every zip program read them.

Reading and writing in one direction lets the caller digest each byte as it passes and keeps only one copy of the data
in memory: the bytes that were used are the bytes that were digested, even if another process changes the file
meanwhile.  The standard library's zipfile cannot be used for that: it writes the sizes of a member behind it, or seeks
back to write them before it.

Members are stored, not compressed.  Every size has 64 bits.  There are no dates, so equal members are equal bytes.
The layout follows APPNOTE.TXT 6.3.10 (PKWARE), sections 4.3.7 (local header), 4.3.12 (central directory),
4.3.14 to 4.3.16 (end records) and 4.5.3 (sizes of 64 bits).
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

_VERSION = 45  # the zip version that a reader needs for sizes of 64 bits
_UNIX = 3 << 8  # the system of the external attributes
_UTF8 = 1 << 11  # names are UTF-8
_DAY = 1 << 5 | 1  # 1 January 1980, the earliest date: the same in every archive
_FILE = 0o100644 << 16  # a regular file with mode 644
_SEE_64 = 0xFFFFFFFF  # in place of a size or offset: the 64-bit field holds it


class ByteSource(Protocol):
    """Interface of what `read` reads an archive from: bytes in order, without seeking."""

    def take(self, count: int) -> bytearray:
        """Return the next `count` bytes.  Raises ValueError if fewer are left."""


def blocks(members: Iterable[tuple[str, Block]]) -> Iterator[Block]:
    """Yield the bytes of a zip archive of `members`, given as (name, contents), one block after the other.

    The contents are yielded as they are, never copied.
    """
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


def read(source: ByteSource) -> dict[str, bytearray]:
    """Return the members of an archive that `blocks` has made, by name.

    Stops behind the last member; the central directory is left in the source.  Raises ValueError for any other archive.
    The data is not verified here: the caller compares the source's digest before it uses any member.
    """
    found: dict[str, bytearray] = {}
    while (signature := source.take(4)) == b"PK\3\4":
        *_, length, extra = _LOCAL.unpack(signature + source.take(_LOCAL.size - 4))
        name = source.take(length).decode()
        if extra != _LOCAL_SIZES.size or name in found:
            raise ValueError(f"member {name!r} is not one of ours")
        found[name] = source.take(_LOCAL_SIZES.unpack(source.take(extra))[2])
    return found
