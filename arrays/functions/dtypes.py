"""Dtypes: NumPy's, with the standard's questions about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays.array import Array


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


def finfo(type: Any, /) -> Any:
    """Limits of a floating-point dtype."""
    return np.finfo(type.dtype if isinstance(type, Array) else type)


def iinfo(type: Any, /) -> Any:
    """Limits of an integer dtype."""
    return np.iinfo(type.dtype if isinstance(type, Array) else type)


def shape(x: Any) -> tuple[int, ...]:
    """The lengths of the axes."""
    return x.shape if isinstance(x, Array) else np.shape(x)


def ndim(x: Any) -> int:
    """The number of axes."""
    return len(shape(x))


def size(x: Any, axis: int | None = None) -> int:
    """The number of elements, or the length of an axis."""
    return int(np.prod(shape(x))) if axis is None else shape(x)[axis]


FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (result_type, can_cast, isdtype, finfo, iinfo, shape, ndim, size)
}
