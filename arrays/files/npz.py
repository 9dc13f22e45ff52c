"""NumPy's .npz archives: each array a .npy file in a zip, written by all processes at once.

A zip has the checksum of each member before its data.  Each process computes that of its own rows, and `joined`
combines them into that of the whole, for arrays that are written and for those that are read.  Deflated data can be
concatenated too: each process compresses its rows separately and ends at a whole byte; the last process ends the
stream.
"""

from __future__ import annotations

import io
import os
import struct
import zipfile
import zlib
from collections.abc import Iterable
from functools import reduce
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from bsp.arrays.api.creation import Grid, asarray
from bsp.arrays.array import Array
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import DType
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.files.agreement import agreed, evaluated, path_of, replaced, same_everywhere, write_at
from bsp.arrays.files.checksums import CheckedFile, joined
from bsp.arrays.files.format import register
from bsp.arrays.files.npy import FILES, load_npy
from bsp.arrays.procedures.operands import in_layout, slabs
from bsp.arrays.typing import ArrayLike, PathLike
from bsp.declared import declares

_LOCAL, _CENTRAL, _END = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
_END64, _LOCATOR64 = b"PK\x06\x06", b"PK\x06\x07"
_VERSION = 45  # of the zip format: with sizes of 64 bits
_DATE = (1 << 5) | 1  # always the first day of 1980, so that equal arrays make equal files
_ALL, _MANY = 0xFFFFFFFF, 0xFFFF  # mark a number that is in the extra field, or in the long form


# -------------------------------------------------------------------------------------- parts


class MemberPart(NamedTuple):
    """One process's part of a member: its number of bytes before and after compression, and their checksum."""

    raw: int
    stored: int
    crc: int


class ArchiveMember(NamedTuple):
    """One array of an archive: its name, place, sizes and checksum."""

    name: bytes
    start: int  # of its local header in the file
    raw: int
    stored: int
    crc: int

    def header(self, method: int) -> bytes:
        """Return the local header, which precedes the data in the file."""
        extra = struct.pack("<HHQQ", 1, 16, self.raw, self.stored)
        fields = (_VERSION, 0x800, method, 0, _DATE, self.crc, _ALL, _ALL, len(self.name), len(extra))
        return _LOCAL + struct.pack("<HHHHHIIIHH", *fields) + self.name + extra

    def entry(self, method: int) -> bytes:
        """Return the member's entry in the directory at the end of the archive."""
        extra = struct.pack("<HHQQQ", 1, 24, self.raw, self.stored, self.start)
        made = (3 << 8) | _VERSION  # by Unix
        fields = (made, _VERSION, 0x800, method, 0, _DATE, self.crc, _ALL, _ALL, len(self.name), len(extra))
        rights = 0o600 << 16
        return _CENTRAL + struct.pack("<HHHHHHIIIHHHHHII", *fields, 0, 0, 0, rights, _ALL) + self.name + extra


def _end(start: int, size: int, count: int) -> bytes:
    """Return the end of the directory; also in zip's long form where the short one cannot hold the numbers."""
    if max(start, size) < _ALL and count < _MANY:
        return _END + struct.pack("<HHHHIIH", 0, 0, count, count, size, start, 0)
    long = _END64 + struct.pack("<QHHIIQQQQ", 44, _VERSION, _VERSION, 0, 0, count, count, size, start)
    locator = _LOCATOR64 + struct.pack("<IQI", 0, start + size, 1)
    return long + locator + _END + struct.pack("<HHHHIIH", 0, 0, _MANY, _MANY, _ALL, _ALL, 0)


@declares(lambda costs, block: [])
def _in_bytes(block: np.ndarray) -> list[Any]:
    """Return the bytes of a block in C order; no bytes in a run with shapes only."""
    return [np.ascontiguousarray(block).reshape(-1).view(np.uint8).data]


def member_bytes(
    shape: Shape, dtype: DType, block: np.ndarray | None, *, fortran: bool = False
) -> tuple[list[Any], int]:
    """Return this process's share of a .npy file in pieces, and its size in bytes; process 0 has the header.

    block : this process's elements, which follow those of the processes before in the file; None: it has none.
    fortran : whether they are in Fortran's order; the block is given with its axes in reverse order then.
    """
    head = io.BytesIO()
    if world().pid == 0:
        np.lib.format.write_array_header_2_0(
            head, {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": fortran, "shape": shape}
        )
    size = head.tell() + (0 if block is None else prod(block.shape) * dtype.itemsize)
    return [head.getvalue(), *([] if block is None or not block.size else _in_bytes(block))], size


def _own_bytes(x: Array) -> tuple[list[Any], int]:
    """Return this process's rows of an array, as `member_bytes` does."""
    node = evaluated(x)
    shape = node.kind.shape
    laid = in_layout(node, slabs(shape, world().nprocs))
    return member_bytes(shape, node.kind.dtype, next(iter(laid.value.values()), None))


def _part(pieces: list[Any], size: int, compressed: bool) -> tuple[MemberPart, list[Any]]:
    """Return a process's share as the archive stores it, compressed if asked for, and its sizes and checksum."""
    crc = 0
    for piece in pieces:
        crc = zlib.crc32(piece, crc)
    if not compressed:
        return MemberPart(size, size, crc), pieces
    here = world()
    stream = zlib.compressobj(-1, zlib.DEFLATED, -15)
    found = [stream.compress(piece) for piece in pieces]
    found.append(stream.flush(zlib.Z_FINISH if here.pid == here.nprocs - 1 else zlib.Z_FULL_FLUSH))
    return MemberPart(size, sum(map(len, found)), crc), found


def written_members(
    call: str, path: str, arrays: Iterable[tuple[str, tuple[list[Any], int]]], compressed: bool
) -> None:
    """Write an archive.  Collective.  Cost: 4 supersteps, in which the sizes and checksums of the parts move.

    arrays : the names of the members, and this process's share of each as `member_bytes` returns it.
    """
    here = world()
    method = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    own: list[MemberPart] = []
    pieces: list[list[Any]] = []
    names: list[str] = []
    for name, share in arrays:
        part, data = _part(*share, compressed)
        names.append(name)
        own.append(part)
        pieces.append(data)
    told = agreed(call, lambda: own)
    members: list[ArchiveMember] = []
    places: list[int] = []  # offsets of this process's parts in the file
    at = 0
    for k, name in enumerate(names):
        parts = [parts[k] for parts in told]
        crc = reduce(lambda whole, part: joined(whole, part.crc, part.raw), parts, 0)
        stored = sum(part.stored for part in parts)
        member = ArchiveMember(f"{name}.npy".encode(), at, sum(part.raw for part in parts), stored, crc)
        members.append(member)
        first = at + len(member.header(method))
        places.append(first + sum(part.stored for part in parts[: here.pid]))
        at = first + stored
    directory = b"".join(member.entry(method) for member in members)

    def prepare(target: Path) -> None:
        with open(target, "wb") as file:
            for member in members:
                file.seek(member.start)
                file.write(member.header(method))
            file.seek(at)
            file.write(directory + _end(at, len(directory), len(members)))

    def write(target: Path) -> None:
        with open(target, "r+b", buffering=0) as file:
            for place, data in zip(places, pieces, strict=True):
                for piece in data:
                    write_at(file, place, piece)
                    place += len(piece)
            os.fsync(file.fileno())

    replaced(call, path, prepare, write, range(here.nprocs))


def _saved(call: str, file: Any, args: tuple[Any, ...], kwds: dict[str, Any], compressed: bool) -> None:
    path = path_of(file, call)
    path = path if path.endswith(".npz") else path + ".npz"
    arrays = dict(kwds)
    for k, each in enumerate(args):
        if f"arr_{k}" in arrays:
            raise ValueError(f"Cannot use un-named variables and keyword arr_{k}")
        arrays[f"arr_{k}"] = each
    own = ((name, _own_bytes(asarray(each))) for name, each in arrays.items())
    written_members(f"{call}({path!r})", path, own, compressed)


def savez(file: PathLike, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
    """Write several arrays to one .npz archive, which numpy.load reads: arr_0, arr_1, ... and those that are named.

    Cost: 4 supersteps; arrays whose rows are cut are first brought into whole rows, one total exchange each.
    Raises FileError on every process if one could not write; nothing is left behind.
    """
    _saved("savez", file, args, kwds, False)


def savez_compressed(file: PathLike, *args: ArrayLike, allow_pickle: bool = True, **kwds: ArrayLike) -> None:
    """Write arrays as `savez` does, deflated; a process holds its compressed rows in memory until they are written."""
    _saved("savez_compressed", file, args, kwds, True)


class NpzArrays(dict[str, Array]):
    """The arrays of a .npz archive by name.  It also has `files`, `close` and `with`, as what `numpy.load` returns.

    All arrays are read; no file stays open.
    """

    @property
    def files(self) -> list[str]:
        """Return the names of the arrays."""
        return list(self)

    def close(self) -> None:
        """Do nothing: the file is closed."""

    def __enter__(self) -> NpzArrays:
        """Return the archive."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Do nothing: the file is closed."""


def load_npz(path: PathLike, grid: Grid = None, process_grid: Grid = None) -> NpzArrays:
    """Read the arrays of a .npz archive, by name; every array gets the given grid and process_grid.

    Cost: one superstep, and one for each array: each process reads its own blocks.  A compressed array is decompressed
    by every process, which holds all of it for a moment.
    Raises NoSuchFile, FileError, or FormatError if it is no archive or the checksum of an array is wrong.
    """
    call = f"load({os.fspath(path)!r})"

    def listed() -> list[tuple[CheckedFile, bool]]:
        found = []
        try:
            with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
                for each in archive.infolist():
                    file.seek(each.header_offset + 26)
                    name, extra = struct.unpack("<HH", file.read(4))
                    start = each.header_offset + 30 + name + extra
                    member = CheckedFile(each.filename, start, each.file_size, each.CRC)
                    found.append((member, each.compress_type == zipfile.ZIP_STORED))
        except zipfile.BadZipFile as wrong:
            raise ValueError(f"this is no .npz archive: {wrong}") from None
        return found

    members = same_everywhere(call, agreed(call, listed))
    arrays = NpzArrays()
    for member, plain in members:
        key = member.name.removesuffix(".npy")
        if plain:
            arrays[key] = load_npy(path, grid, process_grid, inside=member)
        else:
            whole = _inflated(f"{call}, member {member.name!r}", path, member)
            arrays[key] = asarray(whole, grid=grid, process_grid=process_grid)
    return arrays


def _inflated(call: str, path: PathLike, member: CheckedFile) -> np.ndarray:
    found: list[np.ndarray] = []

    def work() -> None:
        with zipfile.ZipFile(path) as archive, archive.open(member.name) as file:
            if member.crc != archive.getinfo(member.name).CRC:
                raise ValueError("it was replaced while it was read")
            array = np.lib.format.read_array(file)
        found.append(array.astype(FILES.native(array.dtype), copy=False))

    agreed(call, work)
    return found[0]


register(
    ".npz", read=load_npz, functions=(savez, savez_compressed),
    of_numpy={np.savez: savez, np.savez_compressed: savez_compressed},
)  # fmt: skip
