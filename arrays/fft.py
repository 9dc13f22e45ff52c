"""Fourier transforms: the standard's `fft` extension.

Each line along the transformed axis is brought together in one piece on one process, NumPy transforms it, and the
other axes stay dealt; transforms over several axes go one axis after the other.  Lazy: nodes of an expression.

Cost of an axis of length n: 5 log2 n flops a point; one total exchange, size/p words, if the axis is cut.  A single
line has no other axes to deal: it is brought to every process if it has at most 2²² elements, with a GatherWarning
above 16 MB; beyond that GatherRefused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import log2, prod
from operator import index
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray, of_indices
from bsp.arrays.api.manipulation import moveaxis, roll
from bsp.arrays.array import Array, wrap
from bsp.arrays.errors import GatherRefused
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import LEAF, Along, DType, Node, interned, kind_of
from bsp.arrays.gathering import SILENT_BYTES, warned

LINE = 1 << 22  # elements of a single line that is brought to every process


class Transform:
    """A transform of the last axis, as `Along` takes it."""

    fallible = False

    def __init__(self, name: str, length: int, n: int | None, norm: str, dtype: DType) -> None:
        self.name = name if n is None and norm == "backward" else f"{name}({n}, {norm})"
        self._function = getattr(np.fft, name)
        self._n, self._norm = n, norm
        sample = self.call(np.empty((0, length), dtype))
        self.dtype: DType = sample.dtype
        self.length: int = sample.shape[1]
        self.work = 5 * log2(max(length, self.length, 2))

    def call(self, lines: np.ndarray) -> np.ndarray:
        """The lines transformed."""
        found: np.ndarray = self._function(lines, n=self._n, axis=-1, norm=self._norm)
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
    if prod(outer) == 1:
        _check_line(name, array, how)
    op = interned(Along, how, (1,), (how.length,))
    return moveaxis(wrap(Node(op, (node,), kind_of((*outer, how.length), how.dtype))), -1, axis)


def _check_line(name: str, array: Array, how: Transform) -> None:
    """One line: all of it on every process."""
    p, node = world().nprocs, array._node
    if p == 1 or (node.op is LEAF and node.layout is not None and node.layout.replicated):
        return
    size = max(array.size, how.length)
    if size > LINE:
        raise GatherRefused(
            f"{name} of one line of {size} elements would bring it to each of {p} processes "
            f"({size * how.dtype.itemsize / 1e9:.3g} GB); lines of at most {LINE} elements, or several, are transformed"
        )
    if size * how.dtype.itemsize > SILENT_BYTES:
        warned(f"{name} of one line brings {size * how.dtype.itemsize / 1e6:.3g} MB to each of {p} processes")


def _one(name: str, what: str) -> Callable[..., Array]:
    def function(x: Any, /, n: int | None = None, axis: int = -1, norm: str | None = "backward") -> Array:
        return _along(name, x, n, axis, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{what} along one axis, cut or filled with zeros to n.  Cost: see the module."
    return function


fft = _one("fft", "The transform")
ifft = _one("ifft", "The inverse transform")
rfft = _one("rfft", "The transform of real numbers: its first half")
irfft = _one("irfft", "The inverse of rfft")
hfft = _one("hfft", "The real transform of the first half of a Hermitian line")
ihfft = _one("ihfft", "The inverse of hfft")


def _lengths(ndim: int, s: Any, axes: Any) -> tuple[list[int | None], list[int]]:
    """Lengths and axes, as NumPy takes them."""
    if axes is None:
        places = list(range(ndim)) if s is None else list(range(ndim - len(s), ndim))
    else:
        places = [build.normal_axis(axis, ndim) for axis in axes]
    lengths: list[int | None] = [None] * len(places) if s is None else list(s)
    if len(lengths) != len(places):
        raise ValueError("Shape and axes have different lengths.")
    return lengths, places


def _several(name: str, one: str, last: str | None, last_first: bool, what: str) -> Callable[..., Array]:
    def function(x: Any, /, s: Sequence[int] | None = None, axes: Any = None, norm: str | None = "backward") -> Array:
        found = asarray(x)
        lengths, places = _lengths(found.ndim, s, axes)
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
        return found

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{what} over several axes, one after the other; None: all.  Cost: that of each axis."
    return function


fftn = _several("fftn", "fft", None, False, "The transform")
ifftn = _several("ifftn", "ifft", None, False, "The inverse transform")
rfftn = _several("rfftn", "fft", "rfft", True, "The transform of real numbers")
irfftn = _several("irfftn", "ifft", "irfft", False, "The inverse of rfftn")


def _plane(name: str, several: Callable[..., Array]) -> Callable[..., Array]:
    def function(x: Any, /, s: Any = None, axes: Any = (-2, -1), norm: str | None = "backward") -> Array:
        return several(x, s=s, axes=axes, norm=norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{several.__name__} over two axes."
    return function


fft2, ifft2, rfft2, irfft2 = (_plane(f"{each.__name__[:-1]}2", each) for each in (fftn, ifftn, rfftn, irfftn))


def fftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of fft's results, for samples d apart: 0, 1, ..., -2, -1 over n·d.  No words."""
    n = _count(n, device)
    half = (n - 1) // 2 + 1
    return of_indices(lambda i: np.where(i < half, i, i - n) * (1.0 / (n * d)), (n,), dtype=dtype or np.float64)


def rfftfreq(n: int, /, d: float = 1.0, *, dtype: Any = None, device: Any = None) -> Array:
    """The frequencies of rfft's results.  No words."""
    n = _count(n, device)
    return of_indices(lambda i: i * (1.0 / (n * d)), (n // 2 + 1,), dtype=dtype or np.float64)


def _count(n: Any, device: Any) -> int:
    if device not in (None, "cpu"):
        raise ValueError(f"device={device!r}: arrays live in the memory of processes, device 'cpu'")
    found = int(n.__index__())
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


def fftshift(x: Any, /, axes: Any = None) -> Array:
    """Frequency 0 in the middle of the axes; None: of all."""
    return _shifted(x, axes, 1)


def ifftshift(x: Any, /, axes: Any = None) -> Array:
    """The inverse of fftshift."""
    return _shifted(x, axes, -1)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        fft, ifft, rfft, irfft, hfft, ihfft, fftn, ifftn, rfftn, irfftn, fft2, ifft2, rfft2, irfft2, fftfreq,
        rfftfreq, fftshift, ifftshift,
    )
}  # fmt: skip
OF_NUMPY = {
    getattr(np.fft, name): function for name, function in FUNCTIONS.items() if name not in ("fftfreq", "rfftfreq")
}
__all__ = list(FUNCTIONS)


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted(__all__)
