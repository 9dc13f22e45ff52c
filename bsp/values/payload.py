"""Payloads: values in the form in which they travel, an array of numbers as it is, any other object as a pickle.

With --abstract, arrays carry shapes only (`bsp.abstract`).  They travel like the arrays that they represent, and a
pickle of them has the size of the pickle of those.  Nothing of `bsp.abstract` is imported before it is needed.
"""

from __future__ import annotations

import io
import pickle
import struct
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from bsp.values.memory import LARGE
from bsp.values.scalars import scalar_in, scalar_out

Packed = np.ndarray | bytes  # a value in the form in which it travels


def is_abstract(value: Any) -> bool:
    """Return whether a value is an array that carries a shape only."""
    kind = type(value)
    return kind is not np.ndarray and getattr(kind, "is_abstract_array", False)


# the types of most values that are no arrays: a value is looked at no further than its type
NUMBERS = frozenset({bool, int, float, complex})
PLAIN = NUMBERS | {str, bytes, type(None)}
_OBJECTS = PLAIN | {tuple, list, dict}


def is_array(value: Any) -> bool:
    """Return whether a value travels as an array of numbers; NumPy's scalars are objects."""
    kind = type(value)
    if kind is np.ndarray:
        return not value.dtype.hasobject
    return kind not in _OBJECTS and is_abstract(value) and not value.is_scalar


def as_array(value: Any, dtype: Any = None) -> np.ndarray:
    """Return np.asarray(value, dtype); an array without values is returned as it is, of `dtype` if one is given."""
    if not is_abstract(value):
        return np.asarray(value, dtype)
    found: np.ndarray = value if dtype is None else value.astype(dtype, copy=False)
    return found


def items_in(data: bytes | np.ndarray, dtype: np.dtype[Any], count: int) -> np.ndarray:
    """Return `count` items of `dtype` from `data`, without a copy; items may have no bytes at all."""
    return np.frombuffer(data, dtype, count) if dtype.itemsize and count else np.empty(count, dtype)


def array_out(array: np.ndarray) -> bytes | None:
    """Return a small array of plain numbers as bytes, its dtype and shape, then its items; None for any other."""
    return array_head(array.dtype.num, array.shape) + array.tobytes() if is_small(array) else None


def is_small(array: np.ndarray) -> bool:
    """Return whether an array travels inside a record: a small one of plain numbers."""
    return type(array) is np.ndarray and array.nbytes < LARGE and is_single(array.dtype)


def is_single(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is NumPy's for plain numbers of its character, be it another object, as pickles give."""
    known = BY_NUMBER.get(dtype.num)
    return known is dtype or (known is not None and known == dtype and not dtype.metadata)


@lru_cache(maxsize=1024)
def array_head(number: int, shape: tuple[int, ...]) -> bytes:
    """Return what stands before the items of a small array as bytes.

    number : that of its dtype.  Dtypes may be equal and have two: `q` is another one than `l`, and stays so.
    Its length is a multiple of 8 bytes, so that the items are aligned where it is.
    """
    return struct.pack(f"<BB6x{len(shape)}q", number, len(shape), *shape)


def array_in(data: bytes | bytearray) -> np.ndarray:
    """Return the array of `array_out`, in memory of its own."""
    start = 8 + 8 * data[1]
    dtype, shape = _described(bytes(data[:start]))
    return np.ndarray(shape, dtype, data, start).copy()


@lru_cache(maxsize=1024)
def _described(head: bytes) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the dtype and the shape of `array_head`."""
    return BY_NUMBER[head[0]], struct.unpack_from(f"<{head[1]}q", head, 8)


NUMBER_TYPES = "?bhilqBHILQefdgFDG"  # the characters of dtypes of plain numbers
BY_NUMBER: dict[int, np.dtype[Any]] = {dtype.num: dtype for dtype in map(np.dtype, NUMBER_TYPES)}
_canonical: dict[tuple[np.dtype[Any], str], np.dtype[Any]] = {}


def received(array: np.ndarray) -> np.ndarray:
    """Return an array in the form its receiver gets: equal dtypes are one object, wherever the array came from.

    A pickle writes a dtype object once and refers to it later.  So without this, the pickle of two received arrays
    would depend on whether they came from this element or another one.
    """
    dtype = array.dtype
    known = BY_NUMBER.get(dtype.num)
    if known is dtype or is_abstract(array):
        return array
    if known is not None and is_single(dtype):
        return array.view(known)
    key = dtype, repr(dtype.metadata)
    known = _canonical.get(key)
    if known is None:
        known = pickle.loads(pickle.dumps(dtype, 5))
        _canonical[key] = known
    return array.view(known)


class Weighed(bytes):
    """A pickle with arrays without values inside; `weight` is the number of bytes that it would have more with them."""

    weight: int


class _Weighing(pickle.Pickler):
    """A pickler that notes which kinds of values it meets."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, 5)
        self.arrays = self.pickles = False  # whether an array without values is inside; whether a pickle of one is

    def reducer_override(self, value: Any) -> Any:
        """Note what kind of value this is; leave the pickling unchanged."""
        self.arrays = self.arrays or is_abstract(value)
        self.pickles = self.pickles or type(value) is Weighed
        return NotImplemented


class _PickleCounter(pickle.Pickler):
    """A pickler that counts the bytes which a pickle would have with the values of its arrays, and keeps none of them.

    Of a large array only a piece is written, because a pickle adds as many bytes to any of LARGEST bytes or more.
    """

    LARGEST = 1 << 16  # pickle's FRAME_SIZE_TARGET: larger contents are outside of its frames

    def __init__(self) -> None:
        super().__init__(self, 5)
        self.bytes = 0

    def write(self, data: Any) -> None:
        """Count what the pickler, whose file this is, writes."""
        self.bytes += memoryview(data).nbytes

    def persistent_id(self, value: Any) -> Any:
        """Return a Python number in place of one without a value."""
        if not (is_abstract(value) and value.is_scalar) or isinstance(value.example, np.generic):
            return None
        self.bytes -= 1  # the opcode of a persistent identity
        return value.example

    def reducer_override(self, value: Any) -> Any:
        """Pickle an array without values as NumPy pickles one with values."""
        if not is_abstract(value):
            return NotImplemented
        if value.is_scalar:
            return value.example.__reduce__()
        reduced: Any
        dtype, in_c, shape = value.dtype, value.flags.c_contiguous, value.shape
        own = (
            *list(shape),
        )  # a new tuple, as NumPy makes one for each array: a pickle refers to one it has met before
        if value.nbytes > self.LARGEST:
            shape = (1,) * (len(shape) - 1) + (-(-self.LARGEST // dtype.itemsize),)
        if in_c or value.flags.f_contiguous:
            example: Any = np.ndarray(shape, dtype, bytearray(prod(shape) * dtype.itemsize))
            function, arguments = example.__reduce_ex__(5)[:2]
            reduced = function, (arguments[0], dtype, own, "C" if in_c else "F")
        else:
            example = np.ndarray((*shape, 2), dtype, bytearray(2 * prod(shape) * dtype.itemsize))[..., 0]
            function, arguments, state = example.__reduce_ex__(5)[:3]
            reduced = function, arguments, (state[0], own, *state[2:])
        self.bytes += value.nbytes - example.nbytes
        return reduced

    def with_bytes(self, bundle: Any) -> Any:
        """Return a bundle with bytes of the counted size in place of each pickle of arrays without values."""
        kind = type(bundle)
        if kind is Weighed:
            size = size_of(bundle)
            written = min(size, self.LARGEST)
            self.bytes += size - written
            return bytes(written)
        if kind is dict:
            return {key: self.with_bytes(item) for key, item in bundle.items()}
        return kind(map(self.with_bytes, bundle)) if kind in (tuple, list) else bundle


weighing = False  # whether arrays without values may be inside pickles; set for --abstract
canonical = False  # whether equal values must give equal pickles; set for cloned execution, which compares them


def dumps(value: Any) -> bytes:
    """Return a value's pickle: canonical, weighed, or plain, by the two switches above."""
    found = scalar_out(value)  # by all three: its bytes depend on the value alone
    if found is not None:
        return found
    if canonical:
        from bsp.values.canonical import pickled as canonical_pickle

        return canonical_pickle(value)
    if not weighing or type(value) in PLAIN:
        return pickle.dumps(value, 5)
    out = io.BytesIO()
    pickler = _Weighing(out)
    pickler.dump(value)
    if not pickler.arrays and not pickler.pickles:
        return out.getvalue()
    counting = _PickleCounter()
    counting.dump(counting.with_bytes(value) if pickler.pickles else value)  # only collectives put pickles into bundles
    pickled = Weighed(out.getvalue())
    pickled.weight = counting.bytes - len(pickled)
    return pickled


UNREADABLE = (
    "Another process sent this as a pickle that cannot be read back: pickle.loads(pickle.dumps(value)) fails alike, "
    "anywhere.  An exception, for one, is made again from its `args`."
)  # a note for errors


def loads(data: bytes | memoryview) -> Any:
    """Return the value of a pickle that another process has sent; an error in it gets a note that says so."""
    found = scalar_in(data)
    if found is not None:
        return found
    try:
        return pickle.loads(data)
    except Exception as wrong:
        wrong.add_note(UNREADABLE)
        raise


def cuts_of(size: int, parts: int) -> list[int]:
    """Return the positions at which to cut `size` items into parts as even as possible: parts + 1 of them."""
    return [size * k // parts for k in range(parts + 1)]


def pieces_of(packed: Packed, parts: int) -> list[Packed]:
    """Return a value cut into parts of almost equal size, to be joined again by the receiver."""
    if isinstance(packed, Weighed):  # weight is no bytes: the first piece takes all bytes, each a share of the weight
        cuts = cuts_of(size_of(packed), parts)
        pieces = [Weighed(packed if k == 0 else b"") for k in range(parts)]
        for k, piece in enumerate(pieces):
            piece.weight = cuts[k + 1] - cuts[k] - len(piece)
        return list(pieces)
    flat = np.frombuffer(packed, np.uint8) if isinstance(packed, bytes) else packed.reshape(-1)
    cuts = cuts_of(flat.size, parts)
    return [flat[cuts[k] : cuts[k + 1]] for k in range(parts)]


def size_of(packed: Packed) -> int:
    """Return the number of bytes that travel."""
    if isinstance(packed, bytes):
        return len(packed) + getattr(packed, "weight", 0)
    return packed.nbytes
