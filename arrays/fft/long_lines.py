"""One long line transformed by all processes, each of which holds a part of it.

A line of n = a·b elements is a matrix of a rows.  Its columns are transformed and multiplied by powers of the n-th root
of unity, then the rows are transformed; the transform of the line is the transposed result.  Each of the three changes
of layout is one total exchange (Bailey, FFTs in external or hierarchical memory, 1990; Inda and Bisseling, A simple and
efficient parallel FFT algorithm using the BSP model, 2001).  A length that has no two such factors is transformed by a
convolution, at a length that has (Bluestein, 1970).

Cost on p processes: 5 log2 n + 40 flops for each element; H = 6·n/p words, S = 3.  By convolution three times that of
the power of two that is 2n - 1 or more.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt, log2, pi
from typing import Any

import numpy as np

from bsp.arrays.api.creation import arange, of_indices, zeros
from bsp.arrays.api.manipulation import concat, flip, reshape
from bsp.arrays.api.ufuncs import astype, conj, real
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import Along, DType, Node, interned, kind_of

LEAST = 1 << 16  # elements of a line below which bringing it to every process is the faster way
_SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
_TWIDDLE = 40  # operations for a root of unity, and the product with it


def is_dealt(n: int, dtype: DType) -> bool:
    """Return whether a line of n elements, whose transform has this dtype, is transformed by all processes."""
    p = world().nprocs
    return n >= LEAST and p > 1 and p * p <= n and np.finfo(dtype).dtype.itemsize <= 8


def along_line(name: str, x: Array, n: int, norm: str, dtype: DType) -> Array:
    """Return the transform of a vector, of NumPy's name, for n elements in the domain of time.  Lazy.

    dtype : of the result.
    """
    if name == "hfft":
        return along_line("irfft", conj(x), n, _SWAPPED[norm], dtype)
    if name == "ihfft":
        return conj(along_line("rfft", x, n, _SWAPPED[norm], dtype))
    inner = np.result_type(dtype, np.complex64)
    half, inverse = n // 2 + 1, name in ("ifft", "irfft")
    if name == "irfft":
        x = _cut(x, half)
        x = concat([x, conj(flip(x[1 : n - half + 1]))])
    found = _sums(_cut(x, n), 1 if inverse else -1, inner)
    factor = {"backward": 1 / n if inverse else 1.0, "ortho": 1 / np.sqrt(n), "forward": 1.0 if inverse else 1 / n}[
        norm
    ]
    found = found[:half] if name == "rfft" else real(found) if name == "irfft" else found
    return found if factor == 1 else found * dtype.type(factor)


def _cut(x: Array, n: int) -> Array:
    """Return the first n elements of a vector, filled with zeros."""
    return x[:n] if x.shape[0] >= n else concat([x, zeros(n - x.shape[0], dtype=x.dtype)])


def _sums(x: Array, sign: int, dtype: DType) -> Array:
    """Return the sums over j of x[j]·exp(sign·2πi·jk/n) for all k."""
    n = x.shape[0]
    sides = _sides(n, world().nprocs)
    if sides is None:
        return astype(_convolved(x, sign), dtype)
    a, b = sides
    matrix, columns = reshape(x, (a, b)), arange(b)[:, None]
    node = _node(_columns(a, n, sign, dtype), (matrix.T._node, columns._node), (b, a), dtype)
    node = _node(_rows(b, sign, dtype), (wrap(node).T._node,), (a, b), dtype)
    return reshape(wrap(node).T, (n,))


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


def _node(how: Lines, args: tuple[Node, ...], shape: tuple[int, int], dtype: DType) -> Node:
    return Node(interned(Along, how, (1,) * len(args), (shape[1],)), args, kind_of(shape, dtype))


def roots(powers: np.ndarray, n: int, sign: int, dtype: DType) -> np.ndarray:
    """Return exp(sign·2πi/n) to some powers of 0 to n - 1."""
    angles = np.where(powers > n // 2, powers - n, powers) * (sign * 2 * pi / n)  # small angles have small errors
    found = np.empty(angles.shape, dtype)
    found.real, found.imag = np.cos(angles), np.sin(angles)
    return found


def _convolved(x: Array, sign: int) -> Array:
    """Return the sums of `_sums` in double precision, by jk = (j² + k² - (k - j)²) / 2 as a convolution."""
    n = x.shape[0]
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
    return _sums(both, 1, own.dtype)[:n] * own / length
