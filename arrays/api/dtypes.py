"""Properties of arrays that do not depend on values: the standard's dtypes, shapes, shared memory.  Local."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.array import Array
from bsp.arrays.typing import ArrayLike, Axes, Casting, DTypeLike
from bsp.arrays.views import overlap

__all__ = [
    "can_cast", "common_type", "finfo", "iinfo", "iscomplexobj", "isdtype", "isrealobj", "may_share_memory", "ndim",
    "result_type", "shape", "shares_memory", "size",
]  # fmt: skip


def result_type(*arrays_and_dtypes: ArrayLike | DTypeLike) -> np.dtype[Any]:
    """Return the dtype that arrays, numbers and dtypes are promoted to."""
    given: list[Any] = [each.dtype if isinstance(each, Array) else each for each in arrays_and_dtypes]
    return np.result_type(*given)


def can_cast(from_: Array | DTypeLike, to: DTypeLike, /, casting: Casting | None = None) -> bool:
    """Return whether a dtype, or an array's, can be cast by a rule of NumPy's; None: "safe"."""
    return bool(np.can_cast(from_.dtype if isinstance(from_, Array) else from_, to, casting or "safe"))


def isdtype(dtype: DTypeLike, kind: DTypeLike | str | tuple[DTypeLike | str, ...]) -> bool:
    """Return whether a dtype is of a kind, as the standard names kinds: "integral", "real floating" and so on."""
    return bool(np.isdtype(np.dtype(dtype), kind))


class FloatLimits:
    """The result of `finfo`: the standard's attributes as Python numbers, and NumPy's further ones."""

    def __init__(self, dtype: Any) -> None:
        self._numpys: Any = np.finfo(dtype)
        self.bits = int(self._numpys.bits)
        self.eps = float(self._numpys.eps)
        self.max = float(self._numpys.max)
        self.min = float(self._numpys.min)
        self.smallest_normal = float(self._numpys.smallest_normal)
        self.dtype = np.dtype(self._numpys.dtype)  # for a complex dtype, that of its parts

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._numpys, name)

    def __repr__(self) -> str:
        return (
            f"finfo(bits={self.bits}, eps={self.eps}, max={self.max}, min={self.min}, "
            f"smallest_normal={self.smallest_normal}, dtype={self.dtype})"
        )


def finfo(type: ArrayLike | DTypeLike, /) -> FloatLimits:
    """Return the limits of a floating-point dtype; of a complex one, those of its parts."""
    return FloatLimits(type.dtype if isinstance(type, Array) else type)


def iinfo(type: ArrayLike | DTypeLike, /) -> np.iinfo[Any]:
    """Return the limits of an integer dtype."""
    return np.iinfo(type.dtype if isinstance(type, Array) else type)


def shape(x: ArrayLike) -> tuple[int, ...]:
    """Return the lengths of the axes."""
    given: Any = x
    return x.shape if isinstance(x, Array) else np.shape(given)


def ndim(x: ArrayLike) -> int:
    """Return the number of axes."""
    return len(shape(x))


def size(x: ArrayLike, axis: Axes = None) -> int:
    """Return the number of elements, or the length of an axis, or the product of several."""
    lengths = shape(x)
    return prod(lengths[each] for each in build.normal_axes(axis, len(lengths)))


def iscomplexobj(x: ArrayLike) -> bool:
    """Return whether the dtype is one of complex numbers, whatever the values."""
    return np.dtype(x.dtype if isinstance(x, Array) else np.asarray(x).dtype).kind == "c"


def isrealobj(x: ArrayLike) -> bool:
    """Return whether the dtype is not one of complex numbers, whatever the values."""
    return not iscomplexobj(x)


def common_type(*arrays: Array | np.ndarray) -> type[np.inexact[Any]]:
    """Return the inexact dtype that the numbers of all arrays fit into, as a type."""
    found: type[np.inexact[Any]] = np.common_type(*[np.empty(0, each.dtype) for each in arrays])
    return found


def shares_memory(a: object, b: object, max_work: int | None = None) -> bool:
    """Return True if changes of one array appear in the other: the same array, or overlapping views of one."""
    return isinstance(a, Array) and isinstance(b, Array) and overlap(a, b)


def may_share_memory(a: object, b: object, max_work: int | None = None) -> bool:
    """Return `shares_memory`, which is exact here."""
    return shares_memory(a, b)
