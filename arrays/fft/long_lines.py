"""Few long lines transformed by all processes, each of which holds a part of each line.

A line of n = a·b elements is a matrix of a rows.  Its columns are transformed and multiplied by powers of the n-th root
of unity, then the rows are transformed; the transform of the line is the transposed result.  Each of the three changes
of layout is one total exchange (Bailey, FFTs in external or hierarchical memory, 1990; Inda and Bisseling, A simple and
efficient parallel FFT algorithm using the BSP model, 2001).  A length that has no two such factors is transformed by a
convolution, at a length that has (Bluestein, 1970).

Cost on p processes: 5 log2 n + 40 flops for each element; H = 6·n/p words a line, S = 3. By convolution three times
that of the power of two that is 2n - 1 or more.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import isqrt, log2, pi
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import arange, of_indices, zeros
from bsp.arrays.api.manipulation import concat, flip, reshape, swapaxes
from bsp.arrays.api.ufuncs import astype, conj, real
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import Along, DType, Node, interned, kind_of

LEAST = 1 << 16  # elements of a line below which bringing it to every process is the faster way
_SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
_TWIDDLE = 40  # operations for a root of unity, and the product with it


def are_dealt(lines: int, n: int, dtype: DType) -> bool:
    """Return whether lines of n elements, whose transforms have this dtype, are each transformed by all processes.

    So they are if whole lines would leave half of the processes without work.
    """
    p = world().nprocs
    return 0 < 2 * lines <= p and LEAST <= n >= p * p and np.finfo(dtype).dtype.itemsize <= 8


def along_lines(name: str, x: Array, n: int, norm: str, dtype: DType) -> Array:
    """Return the transforms along the last axis, of NumPy's name, for n elements in the domain of time.  Lazy.

    dtype : of the result.
    """
    if name == "hfft":
        return along_lines("irfft", conj(x), n, _SWAPPED[norm], dtype)
    if name == "ihfft":
        return conj(along_lines("rfft", x, n, _SWAPPED[norm], dtype))
    inner = np.result_type(dtype, np.complex64)
    half, inverse = n // 2 + 1, name in ("ifft", "irfft")
    if name == "irfft":
        x = _cut(x, half)
        x = concat([x, conj(flip(x[..., 1 : n - half + 1], axis=-1))], axis=-1)
    found = _sums(_cut(x, n), 1 if inverse else -1, inner)
    scaled = {"backward": inverse, "ortho": True, "forward": not inverse}[norm]
    found = found[..., :half] if name == "rfft" else real(found) if name == "irfft" else found
    return found * dtype.type(1 / (np.sqrt(n) if norm == "ortho" else n)) if scaled else found


def _cut(x: Array, n: int) -> Array:
    """Return the first n elements of lines, filled with zeros."""
    *outer, length = x.shape
    return x[..., :n] if length >= n else concat([x, zeros((*outer, n - length), dtype=x.dtype)], axis=-1)


def _sums(x: Array, sign: int, dtype: DType) -> Array:
    """Return the sums over j of x[..., j]·exp(sign·2πi·jk/n) for all k."""
    *outer, n = x.shape
    sides = _sides(n, world().nprocs)
    if sides is None:
        return astype(_convolved(x, sign), dtype)
    a, b = sides
    columns = build.broadcast(arange(b)[:, None]._node, (*outer, b, 1))
    found = _made(_columns(a, n, sign, dtype), [_turned(reshape(x, (*outer, a, b)))._node, columns], a, dtype)
    found = _made(_rows(b, sign, dtype), [_turned(found)._node], b, dtype)
    return reshape(_turned(found), (*outer, n))


def _turned(x: Array) -> Array:
    return swapaxes(x, -1, -2)


@lru_cache(maxsize=256)
def _sides(n: int, p: int) -> tuple[int, int] | None:
    """Return the factors of n, of p or more each, that are next to each other; None if there are none."""
    return next(((a, n // a) for a in range(isqrt(n), p - 1, -1) if n % a == 0), None)


class Lines:
    """Unnormalised transforms of lines, of which those of columns are multiplied by roots of unity."""

    fallible = False
    pure = True

    def __init__(self, length: int, n: int | None, sign: int, dtype: DType) -> None:
        self.name = f"fft({length}, {sign:+d})" + ("" if n is None else f" by roots of {n}")
        self.work = 5 * log2(length) + (0 if n is None else _TWIDDLE)
        self._length, self._n, self._sign, self._dtype = length, n, sign, dtype

    def call(self, lines: np.ndarray, columns: np.ndarray | None = None) -> np.ndarray:
        """Return the transforms of lines; `columns` (lines, 1) are their numbers."""
        found: np.ndarray = np.fft.fft(lines) if self._sign < 0 else np.fft.ifft(lines, norm="forward")
        if columns is not None and self._n is not None:
            found *= roots(columns * np.arange(self._length), self._n, self._sign, self._dtype)
        return found.astype(self._dtype, copy=False)


@lru_cache(maxsize=256)
def _columns(length: int, n: int, sign: int, dtype: DType) -> Lines:
    return Lines(length, n, sign, dtype)


@lru_cache(maxsize=256)
def _rows(length: int, sign: int, dtype: DType) -> Lines:
    return Lines(length, None, sign, dtype)


def _made(how: Lines, args: Sequence[Node], length: int, dtype: DType) -> Array:
    """Return what a function of lines makes: lines of a length."""
    op = interned(Along, how, (1,) * len(args), (length,))
    return wrap(Node(op, tuple(args), kind_of((*args[0].kind.shape[:-1], length), dtype)))


def roots(powers: np.ndarray, n: int, sign: int, dtype: DType) -> np.ndarray:
    """Return exp(sign·2πi/n) to some powers of 0 to n - 1."""
    angles = np.where(powers > n // 2, powers - n, powers) * (sign * 2 * pi / n)  # small angles have small errors
    found = np.empty(angles.shape, dtype)
    found.real, found.imag = np.cos(angles), np.sin(angles)
    return found


def _convolved(x: Array, sign: int) -> Array:
    """Return the sums of `_sums` in double precision, by jk = (j² + k² - (k - j)²) / 2 as a convolution."""
    n = x.shape[-1]
    length = 1 << (2 * n - 2).bit_length()

    def chirp(j: Any, sign: int) -> np.ndarray:
        return roots(j * j % (2 * n), 2 * n, sign, np.dtype(complex))

    def kernel(i: Any) -> np.ndarray:
        j = np.minimum(i, length - i)
        return np.where(j < n, chirp(np.minimum(j, n - 1), -sign), 0)

    own = of_indices(lambda j: chirp(j, sign), (n,), dtype=np.complex128)
    both = _sums(_cut(x * own, length), -1, own.dtype) * _sums(
        of_indices(kernel, (length,), dtype=np.complex128), -1, own.dtype
    )
    return _sums(both, 1, own.dtype)[..., :n] * own / length
