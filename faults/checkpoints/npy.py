"""Conversion of arrays to bytes in NumPy's npy format and back, without pickle.

Some arrays cannot be converted: arrays of objects, instances of subclasses, and dtypes of which npy would lose
something (metadata, alignment, that it is `q` and not `l`, types that other libraries have registered).  They stay in
the pickle of the object that contains them.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.lib import format as npy

from bsp.faults.carrier.segments import LEAST, Segment, SegmentPiece, bytes_of


def encode(array: np.ndarray, into: Segment | None = None) -> bytearray | SegmentPiece | None:
    """Return the array in npy format, or None if npy would lose part of it.

    Memory order is kept; an array with gaps between its items becomes C-ordered, as pickle makes it.
    into : shared memory to which a large array is added.
    """
    dtype = array.dtype
    if type(array) is not np.ndarray or dtype.hasobject or not _is_plain(dtype):
        return None
    in_columns = array.flags.f_contiguous and not array.flags.c_contiguous
    start = _start(dtype, array.shape, in_columns)
    if start is None:
        return None
    if into is not None and array.nbytes >= LEAST and array.flags.forc:
        with contextlib.suppress(OSError):  # no room there: in memory of our own, like small ones
            return into.append([start, _raw(array)])
    data = bytearray(len(start) + array.nbytes)
    data[: len(start)] = start
    if not array.flags.forc:
        np.frombuffer(data, dtype, offset=len(start)).reshape(array.shape)[...] = array
    elif array.nbytes:
        memoryview(data)[len(start) :] = _raw(array)
    return data


def decode(encoded: bytes | bytearray | memoryview | SegmentPiece) -> np.ndarray:
    """Return a new, writable array from what `encode` has returned."""
    data = bytes_of(encoded)
    source = _Reader(data)
    header = npy.read_array_header_1_0 if npy.read_magic(source) == (1, 0) else npy.read_array_header_2_0
    shape, in_columns, dtype = header(source, max_header_size=len(data))
    array = np.empty(shape, dtype, order="F" if in_columns else "C")
    if array.nbytes:
        _raw(array)[:] = memoryview(data)[source.at :]
    return array


def _raw(array: np.ndarray) -> memoryview:
    """Return the memory of an array without gaps between its items as bytes, including padding between fields."""
    return array.reshape(-1, order="C" if array.flags.c_contiguous else "F").view(np.uint8).data


class _Reader:
    """A minimal file over a buffer, from which NumPy reads a header; it copies only what is read."""

    def __init__(self, data: bytes | bytearray | memoryview) -> None:
        """Read `data` from its beginning; `at` is the position."""
        self._data = memoryview(data)
        self.at = 0

    def read(self, count: int = 0, /) -> bytes:
        """Return the next bytes, `count` at most."""
        found = bytes(self._data[self.at : self.at + count])
        self.at += len(found)
        return found


def _is_plain(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype has no part that comparison ignores: metadata, alignment, `q` for `l`, a scalar type.

    For such parts the round trip in `_start` would compare equal although npy has lost them.
    """
    if dtype.metadata or dtype.isalignedstruct:
        return False
    if dtype.subdtype is not None:
        return _is_plain(dtype.subdtype[0])
    if dtype.fields is None:
        return dtype.kind not in "iu" or dtype.num == np.dtype(dtype.str).num
    return dtype.type is np.void and all(_is_plain(field[0]) for field in dtype.fields.values())


@lru_cache(maxsize=256)
def _start(dtype: np.dtype[Any], shape: tuple[int, ...], in_columns: bool) -> bytes | None:
    """Return the npy header for an array, or None if the dtype does not survive the round trip through npy."""
    out = io.BytesIO()
    try:
        with warnings.catch_warnings(action="error"):
            described: Any = npy.dtype_to_descr(dtype)
        if npy.descr_to_dtype(described) != dtype:
            return None
        said = {"descr": described, "fortran_order": in_columns, "shape": shape}
        try:
            npy.write_array_header_1_0(out, said)
        except ValueError:  # longer than the 64 KiB of version 1.0
            npy.write_array_header_2_0(out, said)
    except (ValueError, TypeError, Warning):
        return None
    return out.getvalue()
