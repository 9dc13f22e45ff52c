"""What a value is to the runtime: an array of numbers, which travels as it is, or an object, which is pickled.

With --abstract arrays carry shapes only (`bsp.abstract`); they travel like the arrays they stand for, also
inside pickles, whose size then includes theirs.  Nothing of `bsp.abstract` is imported before it is needed.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np

Packed = np.ndarray | bytes  # a value as it travels


def is_abstract(value: Any) -> bool:
    """Whether a value is an array that carries a shape only."""
    return getattr(type(value), "is_abstract_array", False)


def is_array(value: Any) -> bool:
    """Whether a value travels as an array of numbers; NumPy's scalars are objects."""
    if type(value) is np.ndarray:
        return not value.dtype.hasobject
    return is_abstract(value) and not value.is_scalar


def as_array(value: Any) -> np.ndarray:
    """np.asarray, of an abstract array too."""
    return value if is_abstract(value) else np.asarray(value)


def items_in(data: bytes | np.ndarray, dtype: np.dtype[Any], count: int) -> np.ndarray:
    """Return `count` items of `dtype` that stand in `data`, without a copy; items may have no bytes at all."""
    return np.frombuffer(data, dtype, count) if dtype.itemsize and count else np.empty(count, dtype)


_SINGLE = {dtype.num: dtype for dtype in map(np.dtype, "?bhilqBHILQefdgFDG")}
_canonical: dict[tuple[np.dtype[Any], str], np.dtype[Any]] = {}


def received(array: np.ndarray) -> np.ndarray:
    """An array as its receiver gets it: equal dtypes are one object, whether it came from here or from afar.

    Otherwise a pickle of two such arrays, which names a dtype object once, would depend on where they came from.
    """
    dtype = array.dtype
    if _SINGLE.get(dtype.num) is dtype or is_abstract(array):
        return array
    key = dtype, repr(dtype.metadata)
    known = _canonical.get(key)
    if known is None:
        known = pickle.loads(pickle.dumps(dtype, 5))
        _canonical[key] = known
    return array.view(known)


class Weighed(bytes):
    """A pickle with abstract arrays in it; `weight` is how many bytes theirs would be."""

    weight: int


class _Weighing(pickle.Pickler):
    weight = 0

    def reducer_override(self, value: Any) -> Any:
        """Notes what an abstract array, or a pickle inside this one, would weigh; pickles it as ever."""
        if is_abstract(value):
            self.weight += value.nbytes
        elif type(value) is Weighed:
            self.weight += value.weight
        return NotImplemented


weighing = False  # whether abstract arrays may be inside pickles
canonical = False  # whether equal values must give equal pickles, as clones' do


def dumps(value: Any) -> bytes:
    """A value's pickle."""
    if canonical:
        from bsp.values.canonical import pickled as canonical_pickle

        return canonical_pickle(value)
    if not weighing:
        return pickle.dumps(value, 5)
    out = io.BytesIO()
    pickler = _Weighing(out, 5)
    pickler.dump(value)
    pickled = Weighed(out.getvalue())
    pickled.weight = pickler.weight
    return pickled


def cuts_of(size: int, parts: int) -> list[int]:
    """Where to cut so many items into parts as even as can be."""
    return [size * k // parts for k in range(parts + 1)]


def pieces_of(packed: Packed, parts: int) -> list[Packed]:
    """A value cut into parts of almost equal size, to be joined again."""
    if isinstance(packed, Weighed):  # abstract arrays have no bytes to cut: the first piece has them, all have weight
        cuts = cuts_of(size_of(packed), parts)
        pieces = [Weighed(packed if k == 0 else b"") for k in range(parts)]
        for k, piece in enumerate(pieces):
            piece.weight = cuts[k + 1] - cuts[k] - len(piece)
        return list(pieces)
    flat = np.frombuffer(packed, np.uint8) if isinstance(packed, bytes) else packed.reshape(-1)
    cuts = cuts_of(flat.size, parts)
    return [flat[cuts[k] : cuts[k + 1]] for k in range(parts)]


def size_of(packed: Packed) -> int:
    """Bytes that travel."""
    if isinstance(packed, bytes):
        return len(packed) + getattr(packed, "weight", 0)
    return packed.nbytes
