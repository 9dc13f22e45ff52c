"""Bits: eight elements along an axis as one byte, and back.

Each eight are a line of `lines`, so one process has all of them; the bytes of a block are made in one call of NumPy.
"""

from __future__ import annotations

from operator import index
from typing import Any, Literal

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import expand_dims, moveaxis, pad, ravel, reshape
from bsp.arrays.array import Array
from bsp.arrays.procedures.lines import LineFunction, of_lines
from bsp.arrays.typing import ArrayLike

__all__ = ["packbits", "unpackbits"]

_BYTE = np.dtype(np.uint8)


def packbits(x: ArrayLike, axis: int | None = None, bitorder: Literal["big", "little"] = "big") -> Array:
    """Return eight elements along an axis as the bits of one byte; the last byte is filled up with zeros.  Lazy.

    axis : None packs all elements in C order.   bitorder : which bit the first element is.
    Cost: W = the elements; where a process ends within eight of them, these are brought together.
    """
    array = asarray(x)
    if array.dtype.kind not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    order = _bit_order(bitorder)
    if axis is None:
        array, axis = ravel(array), 0
    place = build.whole_axis(axis, array.ndim)
    missing = -array.shape[place] % 8
    if missing:
        array = pad(array, [(0, missing if k == place else 0) for k in range(array.ndim)])
    before, length, after = array.shape[:place], array.shape[place], array.shape[place + 1 :]

    def pack(eights: np.ndarray) -> Any:
        return np.packbits(np.ascontiguousarray(eights), bitorder=order).reshape(eights.shape[:-1])

    return of_lines(
        LineFunction("packbits", pack), [reshape(array, (*before, length // 8, 8, *after))], place + 1, (), _BYTE
    )


def unpackbits(
    x: ArrayLike, axis: int | None = None, count: int | None = None, bitorder: Literal["big", "little"] = "big"
) -> Array:
    """Return the bits of bytes, each as an element along an axis.  Lazy.

    axis : None unpacks all bytes in C order.   count : how many bits; a negative one leaves out -count at the end.
    Cost: W = the bits, which stay where the bytes are; deals them anew where the length changes their shares.
    """
    array = asarray(x)
    if array.dtype != _BYTE:
        raise TypeError("Expected an input array of unsigned byte data type")
    order = _bit_order(bitorder)
    if axis is None:
        array, axis = ravel(array), 0
    place = build.normal_axis(axis, array.ndim)
    before, length, after = array.shape[:place], 8 * array.shape[place], array.shape[place + 1 :]

    def unpack(single: np.ndarray) -> Any:
        return np.unpackbits(np.ascontiguousarray(single), bitorder=order).reshape(*single.shape[:-1], 8)

    bits = of_lines(
        LineFunction("unpackbits", unpack, 8.0), [expand_dims(array, axis=place + 1)], place + 1, (8,), _BYTE
    )
    found = reshape(moveaxis(bits, -1, place + 1), (*before, length, *after))
    if count is None:
        return found
    count = index(count)
    if -count > length:
        raise ValueError(f"-ve count must be smaller than the number of elements along axis, {length}")
    wanted = count if count >= 0 else length + count
    if wanted > length:
        return pad(found, [(0, wanted - length if k == place else 0) for k in range(found.ndim)])
    return found[(*[slice(None)] * place, slice(wanted))]


def _bit_order(bitorder: str) -> Literal["big", "little"]:
    """Return NumPy's name of an order, of which it looks at the first letter."""
    if bitorder[:1] not in ("b", "l"):
        raise ValueError("'order' must begin with 'l' or 'b'")
    return "big" if bitorder[0] == "b" else "little"
