"""Type aliases for the signatures of `bsp.arrays`.

Public functions take `ArrayLike` where they read values: an array of this package, of NumPy or of another library, a
number, or nested sequences of them; text is none of these.  Functions that write into an array take `Array`.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import EllipsisType
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

T_co = TypeVar("T_co", covariant=True)


class SupportsArray(Protocol):
    """An object that NumPy converts: arrays of this package, of NumPy, pandas and others."""

    def __array__(self) -> np.ndarray: ...


class SupportsDLPack(Protocol):
    """An object that shares its memory by the DLPack protocol."""

    @property
    def __dlpack__(self) -> Callable[..., Any]: ...


class Nested(Protocol[T_co]):
    """A sequence of values, or of such sequences: lists, tuples and ranges, but not text."""

    def __len__(self, /) -> int: ...
    def __getitem__(self, index: int, /) -> T_co | Nested[T_co]: ...
    def __contains__(self, x: object, /) -> bool: ...
    def __iter__(self, /) -> Iterator[T_co | Nested[T_co]]: ...
    def __reversed__(self, /) -> Iterator[T_co | Nested[T_co]]: ...
    def count(self, value: Any, /) -> int:
        """Return the number of parts that equal a value."""

    def index(self, value: Any, /) -> int:
        """Return the position of the first part that equals a value."""


Scalar: TypeAlias = complex | np.generic  # int, float and bool are among the complex numbers for type checkers
Time: TypeAlias = datetime.date | datetime.timedelta
ArrayLike: TypeAlias = SupportsArray | complex | Nested[SupportsArray | complex]
Arrays: TypeAlias = Iterable[ArrayLike]  # several operands, or one array that is split along its first axis

PathLike: TypeAlias = str | os.PathLike[str]
Int: TypeAlias = int | np.integer[Any]
ShapeLike: TypeAlias = Int | Sequence[Int]
Axes: TypeAlias = int | tuple[int, ...] | None  # the axes of a reduction; None: all
Grid: TypeAlias = int | Sequence[int] | None  # blocks, or processes, along each axis; None: the library chooses
Part: TypeAlias = Int | slice | EllipsisType | ArrayLike | None
Index: TypeAlias = Part | tuple[object, ...]  # mypy takes (*before, k) of slices and an integer for objects

DTypeLike: TypeAlias = npt.DTypeLike
Casting: TypeAlias = Literal["no", "equiv", "safe", "same_kind", "unsafe"]
Device: TypeAlias = Literal["cpu"] | None
Mode: TypeAlias = Literal["raise", "wrap", "clip"]  # the treatment of positions that are out of range
Norm: TypeAlias = Literal["backward", "ortho", "forward"] | None
Optimize: TypeAlias = bool | Literal["greedy", "optimal"] | Sequence[Any]  # the order of products in einsum
Order: TypeAlias = Literal["C", "F", "A", "K"] | None
Side: TypeAlias = Literal["left", "right"]
SortKind: TypeAlias = Literal["quicksort", "mergesort", "heapsort", "stable"] | None
Method: TypeAlias = Literal[  # of quantiles
    "linear", "lower", "higher", "nearest", "midpoint", "inverted_cdf", "averaged_inverted_cdf", "closest_observation",
    "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased", "normal_unbiased",
]  # fmt: skip
Ord: TypeAlias = Literal["fro", "nuc"] | float | None  # of a norm
