"""Fourier transforms: 5n log2 n flops for a complex line of length n, half of it for a real one."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from bsp.abstract.array import into, result
from bsp.abstract.elementwise import operand
from bsp.abstract.probe import DType, axis_of, outcome
from bsp.abstract.table import fourier, rule
from bsp.abstract.work import counter


def _line(a: Any, length: int, axis: int, found: DType, out_length: int, real: bool, out: Any = None) -> Any:
    """Return one transform along an axis: `length` points, of which `out_length` are given in the result."""
    if length < 1:
        raise ValueError(f"Invalid number of FFT data points ({length}) specified.")
    shape = (*a.shape[:axis], out_length, *a.shape[axis + 1 :])
    lines = prod(shape) // max(out_length, 1)
    counter.flops("elementwise", lines * fourier(length) * (0.5 if real else 1))
    return into(out, shape, found) if out is not None else result(shape, found)


def _complex(name: str) -> None:
    """Enter the rule of fft or ifft: as many points out as in."""
    function = getattr(np.fft, name)

    def transform(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        a = operand(a)
        axis = axis_of(axis, a.ndim)
        length = a.shape[axis] if n is None else n
        return _line(a, length, axis, outcome(function, a.dtype), length, False, out)

    rule(f"fft.{name}")(transform)


def _to_half(name: str) -> None:
    """Enter the rule of rfft or ihfft: real points in, half of the spectrum out."""
    function = getattr(np.fft, name)

    def transform(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        a = operand(a)
        axis = axis_of(axis, a.ndim)
        length = a.shape[axis] if n is None else n
        return _line(a, length, axis, outcome(function, a.dtype), length // 2 + 1, True, out)

    rule(f"fft.{name}")(transform)


def _from_half(name: str) -> None:
    """Enter the rule of irfft or hfft: half of the spectrum in, real points out."""
    function = getattr(np.fft, name)

    def transform(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        a = operand(a)
        axis = axis_of(axis, a.ndim)
        length = 2 * (a.shape[axis] - 1) if n is None else n
        return _line(a, length, axis, outcome(function, a.dtype, n=2), length, True, out)

    rule(f"fft.{name}")(transform)


for _name in ("fft", "ifft"):
    _complex(_name)
for _name in ("rfft", "ihfft"):
    _to_half(_name)
for _name in ("irfft", "hfft"):
    _from_half(_name)


def _many(a: Any, s: Sequence[int] | None, axes: Any, last: Any, others: Any, last_first: bool) -> Any:
    """Return a transform along each of several axes, the last one by `last`, in NumPy's order."""
    a = operand(a)
    if axes is None:
        axes = list(range(a.ndim)) if s is None else list(range(-len(s), 0))
    axes = [axis_of(axis, a.ndim) for axis in axes]
    lengths: list[int | None] = [None] * len(axes) if s is None else [None if n == -1 else n for n in s]
    if len(lengths) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    steps = [*((others, n, axis) for n, axis in zip(lengths[:-1], axes[:-1], strict=True))]
    final = (last, lengths[-1], axes[-1])
    for function, n, axis in [final, *steps] if last_first else [*steps, final]:
        a = function(a, n, axis)
    return a


def _several(name: str, last: Any, others: Any, last_first: bool) -> None:
    """Enter the rule of a transform over several axes."""
    planar = name.endswith("2")

    def transform(
        a: Any, s: Any = None, axes: Any = (-2, -1) if planar else None, norm: Any = None, out: Any = None
    ) -> Any:
        found = _many(a, s, axes, last, others, last_first)
        return into(out, found.shape, found.dtype) if out is not None else found

    rule(f"fft.{name}")(transform)


for _suffix in ("2", "n"):
    _several(f"fft{_suffix}", np.fft.fft, np.fft.fft, True)
    _several(f"ifft{_suffix}", np.fft.ifft, np.fft.ifft, True)
    _several(f"rfft{_suffix}", np.fft.rfft, np.fft.fft, True)
    _several(f"irfft{_suffix}", np.fft.irfft, np.fft.ifft, False)


@rule("fft.fftshift", "fft.ifftshift")
def shift(x: Any, axes: Any = None) -> Any:
    """numpy.fft.fftshift, numpy.fft.ifftshift: bytes read and written."""
    return np.roll(x, 0, tuple(axes) if np.ndim(axes) else axes)
