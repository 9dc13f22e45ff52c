"""Fourier transforms: the `fft` extension of the array API standard.

Each line along the transformed axis is brought to one process whole, and NumPy transforms it there; the other axes
stay in blocks.  A transform over several axes transforms one axis after the other.  All transforms are lazy.

Cost of an axis of length n: 5 log2 n flops for each element; one total exchange, size/p words, if the axis is cut into
blocks.  Lines of 2¹⁶ elements or more are transformed by all processes together, in three total exchanges, if there
are at most p/2 of them (see `long_lines`).  A shorter single line is brought to every process.  So is one of
longdouble, or of less than p² elements: with a GatherWarning above 16 MB; GatherRefused if it has more than 2²².
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import log2, prod
from operator import index
from typing import Any, Protocol

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray, of_indices
from bsp.arrays.api.manipulation import moveaxis, roll
from bsp.arrays.api.ufuncs import stored
from bsp.arrays.array import Array, wrap
from bsp.arrays.errors import GatherRefused
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import Along, DType, Node, interned, kind_of
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.fft.long_lines import along_lines, are_dealt
from bsp.arrays.gathering import SILENT_BYTES, is_everywhere, warned
from bsp.arrays.typing import ArrayLike, Device, DTypeLike, Norm

LINE = 1 << 22  # elements at most of a single line that is brought to every process


class Transform:
    """A transform of the last axis, in the form that the operation `Along` takes."""

    fallible = False
    pure = True

    def __init__(self, name: str, length: int, n: int | None, norm: str, dtype: DType) -> None:
        self.name = name if n is None and norm == "backward" else f"{name}({n}, {norm})"
        self._function = getattr(np.fft, name)
        self._n, self._norm = n, norm
        sample = self.call(np.empty((0, length), dtype))
        self.dtype: DType = sample.dtype
        self.length: int = sample.shape[1]
        self.work = 5 * log2(max(length, self.length, 2))

    def call(self, lines: np.ndarray) -> np.ndarray:
        """Return the transforms of lines, which are along the last axis."""
        found: np.ndarray = self._function(lines, n=self._n, axis=-1, norm=self._norm)
        if not lines.shape[-1]:
            found[...] = 0  # NumPy leaves real results of no elements as the memory was
        return found


@lru_cache(maxsize=1024)
def _transform(name: str, length: int, n: int | None, norm: str, dtype: DType) -> Transform:
    return Transform(name, length, n, norm, dtype)


def _along(name: str, x: Any, n: int | None, axis: int, norm: str | None) -> Array:
    array = wrap(build.strong(asarray(x)._node))
    axis = build.normal_axis(axis, array.ndim)
    length = array.shape[axis]
    how = _transform(name, length, None if n is None else index(n), norm or "backward", array.dtype)
    node = moveaxis(array, axis, -1)._node
    outer = node.kind.shape[:-1]
    if not is_everywhere(array):
        times = (length if n is None else index(n)) if name in ("rfft", "ihfft") else how.length
        if are_dealt(prod(outer), times, how.dtype):
            return moveaxis(along_lines(name, wrap(node), times, norm or "backward", how.dtype), -1, axis)
        if prod(outer) == 1:
            _check_line(name, array, how)
    op = interned(Along, how, (1,), (how.length,))
    return moveaxis(wrap(Node(op, (node,), kind_of((*outer, how.length), how.dtype))), -1, axis)


def _check_line(name: str, array: Array, how: Transform) -> None:
    """Raise GatherRefused, or warn, where a single line would be brought to every process."""
    p, size = world().nprocs, max(array.size, how.length)
    if size > LINE:
        raise GatherRefused(
            f"{name} of one line of {size} elements would bring it to each of {p} processes "
            f"({size * how.dtype.itemsize / 1e9:.3g} GB); lines of at most {LINE} elements, or several, are transformed"
        )
    if size * how.dtype.itemsize > SILENT_BYTES:
        warned(f"{name} of one line brings {size * how.dtype.itemsize / 1e6:.3g} MB to each of {p} processes")


class OneAxis(Protocol):
    """The type of transforms along one axis, whose lines are cut or filled with zeros to length n."""

    def __call__(
        self, x: ArrayLike, /, n: int | None = None, axis: int = -1, norm: Norm = "backward", out: Array | None = None
    ) -> Array: ...


class SeveralAxes(Protocol):
    """The type of transforms along several axes; lines are cut or filled with zeros to the lengths s, except for -1."""

    def __call__(
        self, x: ArrayLike, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None,
        norm: Norm = "backward", out: Array | None = None,
    ) -> Array: ...  # fmt: skip


class TwoAxes(Protocol):
    """The type of transforms along two axes."""

    def __call__(
        self, x: ArrayLike, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1),
        norm: Norm = "backward", out: Array | None = None,
    ) -> Array: ...  # fmt: skip


def _one(name: str, what: str) -> OneAxis:
    def function(
        x: ArrayLike, /, n: int | None = None, axis: int = -1, norm: Norm = "backward", out: Array | None = None
    ) -> Array:
        return stored(_along(name, x, n, axis, norm), out, name=name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{what} along one axis, cut or filled with zeros to n.  Cost: see the module."
    return function


fft = _one("fft", "The transform")
ifft = _one("ifft", "The inverse transform")
rfft = _one("rfft", "The transform of real numbers: its first half")
irfft = _one("irfft", "The inverse of rfft")
hfft = _one("hfft", "The real transform of the first half of a Hermitian line")
ihfft = _one("ihfft", "The inverse of hfft")


def _lengths(shape: Shape, s: Any, axes: Any) -> tuple[list[int | None], list[int]]:
    """Return the length and the number of each axis to transform, by NumPy's rules for `s` and `axes`."""
    ndim = len(shape)
    if axes is None:
        places = list(range(ndim)) if s is None else list(range(ndim - len(s), ndim))
    else:
        places = [build.normal_axis(axis, ndim) for axis in axes]
    lengths: list[int | None] = [None] * len(places) if s is None else list(s)
    if len(lengths) != len(places):
        raise ValueError("Shape and axes have different lengths.")
    return [shape[axis] if n == -1 else n for n, axis in zip(lengths, places, strict=True)], places


def _several(name: str, one: str, last: str | None, last_first: bool, what: str) -> SeveralAxes:
    def function(
        x: ArrayLike, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: Norm = "backward",
        out: Array | None = None,
    ) -> Array:  # fmt: skip
        found = asarray(x)
        lengths, places = _lengths(found.shape, s, axes)
        steps = [(one, n, axis) for n, axis in zip(lengths, places, strict=True)]
        if last is not None:
            if not steps:
                raise ValueError("at least 1 axis must be transformed")
            final = (last, lengths[-1], places[-1])
            steps = [final, *reversed(steps[:-1])] if last_first else [*reversed(steps[:-1]), final]
        else:
            steps = steps[::-1]
        for each, n, axis in steps:
            found = _along(each, found, n, axis, norm)
        return stored(found, out, name=name)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{what} over several axes, one after the other; None: all.  Cost: that of each axis."
    return function


fftn = _several("fftn", "fft", None, False, "The transform")
ifftn = _several("ifftn", "ifft", None, False, "The inverse transform")
rfftn = _several("rfftn", "fft", "rfft", True, "The transform of real numbers")
irfftn = _several("irfftn", "ifft", "irfft", False, "The inverse of rfftn")


def _plane(name: str, several: SeveralAxes) -> TwoAxes:
    def function(
        x: ArrayLike, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: Norm = "backward",
        out: Array | None = None,
    ) -> Array:  # fmt: skip
        return several(x, s=s, axes=axes, norm=norm, out=out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{name[:-1]}n over two axes."
    return function


fft2 = _plane("fft2", fftn)
ifft2 = _plane("ifft2", ifftn)
rfft2 = _plane("rfft2", rfftn)
irfft2 = _plane("irfft2", irfftn)


def fftfreq(n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: Device = None) -> Array:
    """Return the frequencies of the results of fft, for samples d apart: 0, 1, ..., -2, -1 over n·d.  No words."""
    n = _count(n, device)
    half = (n - 1) // 2 + 1
    return of_indices(lambda i: np.where(i < half, i, i - n) * (1.0 / (n * d)), (n,), dtype=dtype or np.float64)


def rfftfreq(n: int, /, d: float = 1.0, *, dtype: DTypeLike | None = None, device: Device = None) -> Array:
    """Return the frequencies of the results of rfft, for samples d apart: 0, 1, 2, ... over n·d.  No words."""
    n = _count(n, device)
    return of_indices(lambda i: i * (1.0 / (n * d)), (n // 2 + 1,), dtype=dtype or np.float64)


def _count(n: Any, device: Any) -> int:
    if device not in (None, "cpu"):
        raise ValueError(f"device={device!r}: arrays live in the memory of processes, device 'cpu'")
    found = index(n)
    if found < 1:
        raise ValueError(f"{found} samples have no frequencies")
    return found


def _shifted(x: Any, axes: Any, sign: int) -> Array:
    array = asarray(x)
    places = range(array.ndim) if axes is None else axes if isinstance(axes, (tuple, list)) else (axes,)
    for axis in places:
        length = array.shape[build.normal_axis(axis, array.ndim)]
        array = roll(array, sign * (length // 2), axis=axis)
    return array


def fftshift(x: ArrayLike, /, axes: int | Sequence[int] | None = None) -> Array:
    """Return an array with frequency 0 moved to the middle of the axes; None: of all axes."""
    return _shifted(x, axes, 1)


def ifftshift(x: ArrayLike, /, axes: int | Sequence[int] | None = None) -> Array:
    """Return an array with frequency 0 moved from the middle of the axes to the start; the inverse of fftshift."""
    return _shifted(x, axes, -1)


__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
OF_NUMPY = {
    getattr(np.fft, name): globals()[name] for name in __all__ if name not in ("fftfreq", "rfftfreq")
}  # fmt: skip


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
