"""Arrays of positions: grids of coordinates, triangles, diagonals, C-order positions and back.

An element of a grid or a triangle is a function of its position: every process makes its own blocks, no words.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, Literal, overload

import numpy as np

from bsp.arrays import build
from bsp.arrays.api import reductions
from bsp.arrays.api.creation import arange, asarray, checked_shape, linspace, of_indices
from bsp.arrays.api.manipulation import concat, laid_along, stack
from bsp.arrays.api.ufuncs import astype
from bsp.arrays.array import Array, wrap
from bsp.arrays.selection.masks import flatnonzero, nonzero
from bsp.arrays.typing import ArrayLike, Arrays, DTypeLike, Int, Mode, ShapeLike
from bsp.declared import Reported, declares

__all__ = [
    "c_", "diag_indices", "diag_indices_from", "indices", "ix_", "mask_indices", "mgrid", "ogrid", "r_",
    "ravel_multi_index", "tri", "tril_indices", "tril_indices_from", "triu_indices", "triu_indices_from",
    "unravel_index",
]  # fmt: skip


def _open_grid(lines: list[Array]) -> tuple[Array, ...]:
    return tuple(laid_along(line, axis, len(lines)) for axis, line in enumerate(lines))


def _dense(lines: list[Array]) -> Array:
    """Return the coordinates of all points of a grid, stacked along a new first axis."""
    shape = tuple(line.shape[0] for line in lines)
    whole = [wrap(build.broadcast(each._node, shape)) for each in _open_grid(lines)]
    return stack(whole, axis=0)


@overload
def indices(dimensions: Sequence[Int], dtype: DTypeLike = int, sparse: Literal[False] = False) -> Array: ...
@overload
def indices(dimensions: Sequence[Int], dtype: DTypeLike = int, *, sparse: Literal[True]) -> tuple[Array, ...]: ...
def indices(dimensions: Sequence[Int], dtype: DTypeLike = int, sparse: bool = False) -> Any:
    """Return the indices of a grid as one array, shape (axes, *dimensions).

    sparse : return instead an array for each axis, of length 1 along all other axes.
    """
    shape = checked_shape(tuple(dimensions))
    lines = [arange(length, dtype=dtype) for length in shape]
    if sparse:
        return _open_grid(lines)
    return _dense(lines) if lines else asarray(np.indices((), dtype))


def _line(part: slice, kind: Any) -> Array:
    """Return the numbers start:stop:step; an imaginary step is a number of points, including stop."""
    start = 0 if part.start is None else part.start
    step = 1 if part.step is None else part.step
    if isinstance(step, complex):
        return astype(linspace(start, part.stop, int(abs(step))), kind)
    length = max(0, int(np.ceil((part.stop - start) / step)))
    return astype(arange(length), kind) * step + start


class Grid:
    """`mgrid[0:5, 0:1:3j]` and `ogrid[...]`: coordinates written as slices, dense or open."""

    def __init__(self, sparse: bool) -> None:
        self._sparse = sparse

    def __getitem__(self, key: Any) -> Any:
        """Return the coordinates for one slice, or the grid for several."""
        parts = key if isinstance(key, tuple) else (key,)
        numbers = [each for part in parts for each in (part.start, part.stop, part.step)]
        given = [abs(each) if isinstance(each, complex) else each for each in numbers if each is not None]
        imaginary = any(isinstance(each, complex) for each in numbers)
        kind = np.result_type(*given, *([float] if imaginary else []), int if not imaginary else float)
        lines = [_line(part, kind) for part in parts]
        if not isinstance(key, tuple):
            return lines[0]
        return _open_grid(lines) if self._sparse else _dense(lines)


class Joined:
    """`r_[...]` and `c_[...]`: arrays, numbers and slices joined along the first axis, or as columns."""

    def __init__(self, columns: bool) -> None:
        self._columns = columns

    def __getitem__(self, key: Any) -> Array:
        """Join the parts of the key; slices mean the same as for `mgrid`."""
        found: list[Array] = []
        for part in key if isinstance(key, tuple) else (key,):
            if isinstance(part, str):
                raise TypeError(f"{part!r}: r_ and c_ take arrays, numbers and slices; concatenate names an axis")
            array = mgrid[part] if isinstance(part, slice) else asarray(part)
            array = array if array.ndim else array[None]
            found.append(array[:, None] if self._columns and array.ndim == 1 else array)
        return concat(found, axis=-1 if self._columns else 0)


mgrid, ogrid, r_, c_ = Grid(False), Grid(True), Joined(False), Joined(True)


# ---------------------------------------------------------------------- triangles and diagonals


def tri(N: Int, M: Int | None = None, k: int = 0, dtype: DTypeLike = float) -> Array:
    """Return a matrix of ones on and below the k-th diagonal, zeros above."""
    shape = (int(N), int(N if M is None else M))
    return of_indices(lambda i, j: j - i <= k, shape, dtype=np.dtype(dtype))


def _of_mask(mask: Array) -> tuple[Array, Array]:
    rows, columns = nonzero(mask)
    return rows, columns


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the positions on and below the k-th diagonal.  Collective: as `nonzero`."""
    return _of_mask(tri(n, m, k, bool))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """Return the positions on and above the k-th diagonal.  Collective: as `nonzero`."""
    return _of_mask(of_indices(lambda i, j: j - i >= k, (n, n if m is None else m)))


def _matrix_shape(arr: Any) -> tuple[int, int]:
    shape = asarray(arr).shape
    if len(shape) != 2:
        raise ValueError("input array must be 2-d")
    return shape[0], shape[1]


def tril_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Return `tril_indices` for a matrix of the shape of `arr`.  Collective: as `nonzero`."""
    rows, columns = _matrix_shape(arr)
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: ArrayLike, k: int = 0) -> tuple[Array, Array]:
    """Return `triu_indices` for a matrix of the shape of `arr`.  Collective: as `nonzero`."""
    rows, columns = _matrix_shape(arr)
    return triu_indices(rows, k, columns)


def mask_indices(n: int, mask_func: Callable[..., Any], k: float = 0) -> tuple[Array, ...]:
    """Return the positions where `mask_func` of an n by n matrix of ones, and k, is not zero.  Collective."""
    return nonzero(mask_func(of_indices(lambda i, j: np.ones_like(i + j), (n, n)), k) != 0)


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """Return the positions of the main diagonal of a cube of `ndim` axes."""
    return (arange(n),) * ndim


def diag_indices_from(arr: ArrayLike) -> tuple[Array, ...]:
    """Return `diag_indices` for an array of the shape of `arr`."""
    shape = asarray(arr).shape
    if len(shape) < 2:
        raise ValueError("input array must be at least 2-d")
    if len(set(shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    return diag_indices(shape[0], len(shape))


def ix_(*args: ArrayLike) -> tuple[Array, ...]:
    """Return arrays that index the grid of the given vectors of positions, or masks.  Collective for masks."""
    found = []
    for each in args:
        array = asarray(each)
        if array.ndim != 1:
            raise ValueError("Cross index must be 1 dimensional")
        if not array.size:
            array = astype(array, np.intp)
        found.append(flatnonzero(array) if array.dtype.kind == "b" else array)
    return _open_grid(found)


# ------------------------------------------------------------------------- C-order positions


def _integers(x: Any) -> Array:
    array = wrap(build.strong(asarray(x)._node))
    if array.dtype.kind not in "biu":
        raise TypeError("only int indices permitted")
    return astype(array, np.intp)


def _refused_cost(costs: Reported, wrong: Array, message: Callable[[], str]) -> None:
    """Declare the cost of `_refuse`, assuming that nothing is wrong."""
    reductions.any(wrong).compute()


@declares(_refused_cost)
def _refuse(wrong: Array, message: Callable[[], str]) -> None:
    """Raise ValueError on every process if any element of `wrong` is true.  Collective."""
    if bool(reductions.any(wrong)):
        raise ValueError(message())


def unravel_index(indices: ArrayLike, shape: ShapeLike, order: Literal["C", "F"] | None = "C") -> tuple[Array, ...]:
    """Return the index along each axis of positions in C or Fortran order.  Collective: checks the positions."""
    at = _integers(indices)
    lengths = checked_shape(shape)
    order = "C" if order is None else order
    if order not in ("C", "F"):
        raise ValueError("only 'C' or 'F' order is permitted")
    size = prod(lengths)
    wrong = (at < 0) | (at >= size)
    whole = at
    _refuse(wrong, lambda: f"index {int(whole[wrong][0])} is out of bounds for array with size {size}")
    found: list[Array] = []
    for length in reversed(lengths) if order == "C" else lengths:
        found.append(at % length)
        at = at // length
    return tuple(reversed(found)) if order == "C" else tuple(found)


def ravel_multi_index(
    multi_index: Arrays, dims: ShapeLike, mode: Mode | tuple[Mode, ...] | None = "raise",
    order: Literal["C", "F"] | None = "C",
) -> Array:  # fmt: skip
    """Return the positions in C or Fortran order of indices along each axis.

    mode : what to do with indices out of range: "raise" (collective: checks the indices), "wrap", "clip"; or a tuple
        with one for each axis.
    """
    lengths = checked_shape(dims)
    given = [_integers(each) for each in multi_index]
    if len(given) != len(lengths):
        raise ValueError(f"parameter multi_index must be a sequence of length {len(lengths)}")
    order = "C" if order is None else order
    if order not in ("C", "F"):
        raise ValueError("only 'C' or 'F' order is permitted")
    modes = (mode or "raise",) * len(lengths) if mode is None or isinstance(mode, str) else tuple(mode)
    found: Any = 0
    parts = list(zip(given, lengths, modes, strict=True))
    for at, length, how in parts if order == "C" else reversed(parts):
        if how == "wrap":
            at = at % length
        elif how == "clip":
            at = at.clip(0, length - 1)
        elif how == "raise":
            _refuse((at < 0) | (at >= length), lambda: "invalid entry in coordinates array")
        else:
            raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {how!r})")
        found = found * length + at
    return asarray(found)
