"""What is asked of arrays that no value decides: dtypes, as the standard has them, shapes, shared memory."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.array import Array
from bsp.arrays.views import overlap


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The dtype that promotion gives."""
    given = [each.dtype if isinstance(each, Array) else each for each in arrays_and_dtypes]
    return np.result_type(*given)


def can_cast(from_: Any, to: Any, /, casting: Any = None) -> bool:
    """Whether a cast loses nothing."""
    return bool(np.can_cast(from_.dtype if isinstance(from_, Array) else from_, to, casting or "safe"))


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a dtype is of a kind, as the standard names kinds."""
    return bool(np.isdtype(np.dtype(dtype), kind))


class FloatLimits:
    """What `finfo` returns: the standard's attributes as Python numbers, and NumPy's other ones."""

    def __init__(self, dtype: Any) -> None:
        self._numpys: Any = np.finfo(dtype)
        self.bits = int(self._numpys.bits)
        self.eps = float(self._numpys.eps)
        self.max = float(self._numpys.max)
        self.min = float(self._numpys.min)
        self.smallest_normal = float(self._numpys.smallest_normal)
        self.dtype = np.dtype(self._numpys.dtype)  # of the real numbers, for complex ones too

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._numpys, name)

    def __repr__(self) -> str:
        return (
            f"finfo(bits={self.bits}, eps={self.eps}, max={self.max}, min={self.min}, "
            f"smallest_normal={self.smallest_normal}, dtype={self.dtype})"
        )


def finfo(type: Any, /) -> FloatLimits:
    """Limits of a floating-point dtype; of a complex one, of its real and imaginary parts."""
    return FloatLimits(type.dtype if isinstance(type, Array) else type)


def iinfo(type: Any, /) -> Any:
    """Limits of an integer dtype."""
    return np.iinfo(type.dtype if isinstance(type, Array) else type)


def shape(x: Any) -> tuple[int, ...]:
    """The lengths of the axes."""
    return x.shape if isinstance(x, Array) else np.shape(x)


def ndim(x: Any) -> int:
    """The number of axes."""
    return len(shape(x))


def size(x: Any, axis: Any = None) -> int:
    """The number of elements, or the length of an axis, or of several multiplied."""
    lengths = shape(x)
    return prod(lengths[each] for each in build.normal_axes(axis, len(lengths)))


def iscomplexobj(x: Any) -> bool:
    """Whether the dtype is one of complex numbers, whatever the values."""
    return np.dtype(x.dtype if isinstance(x, Array) else np.asarray(x).dtype).kind == "c"


def isrealobj(x: Any) -> bool:
    """Whether the dtype is none of complex numbers."""
    return not iscomplexobj(x)


def common_type(*arrays: Any) -> Any:
    """The inexact dtype that all arrays' numbers fit into, as a type."""
    return np.common_type(*[np.empty(0, each.dtype) if isinstance(each, Array) else each for each in arrays])


def shares_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """Whether a change of one array shows in the other: of one array, and of views that overlap.  Local."""
    return isinstance(a, Array) and isinstance(b, Array) and overlap(a, b)


def may_share_memory(a: Any, b: Any, max_work: Any = None) -> bool:
    """As `shares_memory`."""
    return shares_memory(a, b)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        result_type, can_cast, isdtype, finfo, iinfo, shape, ndim, size, iscomplexobj, isrealobj, common_type,
        shares_memory, may_share_memory,
    )
}  # fmt: skip
