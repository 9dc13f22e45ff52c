"""Convolution, correlation, and sliding windows.

A convolution needs no halo: each process convolves its piece of the longer vector with all of the shorter one, and
overlapping results of neighbours are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from bsp.arrays import build
from bsp.arrays.api.creation import arange, asarray, zeros
from bsp.arrays.api.manipulation import moveaxis, stack
from bsp.arrays.api.ufuncs import FUNCTIONS as UFUNCS
from bsp.arrays.api.ufuncs import astype
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import world
from bsp.arrays.gathering import brought, given
from bsp.arrays.kernels.kernels import charge
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.procedures.operands import computed, in_line, known, line_layout, made_of
from bsp.arrays.selection.selecting import take
from bsp.arrays.typing import ArrayLike, ShapeLike
from bsp.declared import Reported, declares

__all__ = ["convolve", "correlate", "sliding_window_view"]

FEW = 64  # windows of at most so many positions are stacked from as many slices


def _vector(x: Any, name: str) -> Array:
    array = wrap(build.strong(asarray(x)._node))
    array = array if array.ndim else array[None]
    if array.ndim > 1:
        raise ValueError("object too deep for desired array")
    if not array.size:
        raise ValueError(f"{name} cannot be empty")
    return array


def _checked(mode: Any) -> str:
    found = {0: "valid", 1: "same", 2: "full"}.get(mode, mode)
    if found not in ("full", "same", "valid"):
        raise ValueError("Use one of 'valid', 'same', or 'full' for convolve/correlate mode")
    return str(found)


@procedure
def _full(a: Array, v: Array) -> Array:
    """Return the full convolution of two vectors, of which the second is not the longer.  Collective.

    Cost: 2nm/p flops; the shorter vector's m words to each process if it is dealt; one superstep, m - 1 words from
    each process to those after it.
    """
    here = world()
    kind = np.result_type(a.dtype, v.dtype)
    (node,) = computed(build.cast(build.strong(a._node), kind))
    short = brought("convolve: the shorter vector", astype(v, kind))
    whole = known(node)
    n, m = node.kind.shape[0], v.shape[0]
    if whole is not None:
        return given(_convolved(whole, short))
    bounds, block = in_line(node)
    starts = [int(bound) for bound in bounds]
    ends = [*starts[:-1], n + m - 1]  # bounds of the result's pieces: the last non-empty piece gets the tail
    for k in range(len(ends) - 2, 0, -1):
        if starts[k] < n:
            break
        ends[k] = n + m - 1

    def reach(pid: int) -> tuple[int, int]:
        """Return where the part of the result that a process computes begins and ends."""
        low, high = starts[pid], starts[pid + 1]
        return low, high + m - 1 if high > low else low

    low, high = reach(here.pid)
    part = _convolved(block, short)
    out = []
    for dest in range(here.nprocs):
        first, last = max(low, ends[dest]), min(high, ends[dest + 1])
        if dest != here.pid and last > first:
            out.append((dest, part[first - low : last - low]))
    arrived = iter(here.exchange("results that overlap", out))
    mine, stop = ends[here.pid], ends[here.pid + 1]
    pieces = []
    for pid in range(here.pid):  # nothing reaches back
        begin, end = reach(pid)
        first, last = max(begin, mine), min(end, stop)
        if last > first:
            pieces.append((first - mine, next(arrived)[1]))
    total = _added_up(part[: stop - mine], pieces)
    return made_of((n + m - 1,), kind, line_layout(ends), {(here.pid,): total})


def _convolved_cost(costs: Reported, block: Any, short: Any) -> Any:
    """Declare the cost of `_convolved`."""
    charge("blas1", 2.0 * block.shape[0] * short.shape[0], [block])
    return costs.memory((block.shape[0] + short.shape[0] - 1 if block.size else 0,), block.dtype)


@declares(_convolved_cost)
def _convolved(block: Any, short: Any) -> Any:
    """Return the convolution of a block with a shorter vector; an empty block gives an empty result."""
    return np.convolve(block, short) if block.size else block


@declares(lambda costs, own, pieces: own)
def _added_up(own: Any, pieces: Sequence[tuple[int, Any]]) -> Any:
    """Return a process's own sums, to whose elements those of others are added: each piece from its start on."""
    if not pieces:
        return own
    others = np.zeros(max(start + len(piece) for start, piece in pieces), own.dtype)
    for start, piece in pieces:
        others[start : start + len(piece)] += piece
    own[: len(others)] += others
    return own


def convolve(a: ArrayLike, v: ArrayLike, mode: Literal["full", "same", "valid"] = "full") -> Array:
    """Return the convolution of two vectors.

    mode : "full"; "same": as long as the longer vector; "valid": only where the vectors overlap entirely.
    Cost, for n and m <= n elements: 2nm/p flops; the shorter vector's m words to each process if it is dealt; one
    superstep, m - 1 words from each process to those after it.  "same" and "valid" compute all and cut afterwards.
    """
    first, second = _vector(a, "a"), _vector(v, "v")
    how = _checked(mode)
    if second.size > first.size:
        first, second = second, first
    n, m = first.size, second.size
    found = _full(first, second)
    if how == "full":
        return found
    return found[m - 1 : n] if how == "valid" else found[(m - 1) // 2 : (m - 1) // 2 + n]


def correlate(a: ArrayLike, v: ArrayLike, mode: Literal["full", "same", "valid"] = "valid") -> Array:
    """Return the correlation of two vectors: sums of a's elements times conjugated elements of the shifted v.

    mode : as for `convolve`.  Cost: as `convolve`.
    """
    how = _checked(mode)
    first, second = _vector(a, "first array argument"), _vector(v, "second array argument")
    turned = UFUNCS["conjugate"](second[::-1]) if second.dtype.kind == "c" else second[::-1]
    n, m = first.size, second.size
    found = _full(first, turned) if n >= m else _full(turned, first)
    if how == "full":
        return found
    least, most = min(n, m), max(n, m)
    if how == "valid":
        return found[least - 1 : most]
    start = (m - 1) - m // 2 if n >= m else n // 2
    return found[start : start + most]


@procedure
def sliding_window_view(x: ArrayLike, window_shape: ShapeLike, axis: int | Sequence[int] | None = None) -> Array:
    """Return sliding windows along axes, as new last axes.

    The result is a copy, not a view: it has about as many times the elements of x as a window has positions.

    Cost: where an axis is cut, the part of a window on the other side of the cut; windows of more than 64 positions
    along an axis are looked up, two words for each element of the result.
    """
    array = wrap(build.strong(asarray(x)._node))
    shape = tuple(window_shape) if np.iterable(window_shape) else (window_shape,)
    if any(length < 0 for length in shape):
        raise ValueError("`window_shape` cannot contain negative values")
    if axis is None:
        axes = tuple(range(array.ndim))
        if len(shape) != len(axes):
            raise ValueError(
                f"Since axis is None, must provide window_shape for all dimensions of `x`; got {len(shape)} "
                f"window_shape elements and `x.ndim` is {array.ndim}."
            )
    else:
        axes = normalize_axis_tuple(axis, array.ndim, allow_duplicate=True)
        if len(shape) != len(axes):
            raise ValueError(
                f"Must provide matching length window_shape and axis; got {len(shape)} window_shape elements and "
                f"{len(axes)} axes elements."
            )
    for length, place in zip(shape, axes, strict=True):
        count = array.shape[place] - length + 1
        if count < 1:
            raise ValueError("window shape cannot be larger than input array shape")
        if not length:
            grown = tuple(count if k == place else own for k, own in enumerate(array.shape))
            array = zeros((*grown, 0), dtype=array.dtype)
        elif length <= FEW:
            before = (slice(None),) * place
            array = stack([array[(*before, slice(k, k + count))] for k in range(length)], axis=array.ndim)
        else:
            positions = arange(count)[:, None] + arange(length)[None, :]
            array = moveaxis(take(array, positions, axis=place), place + 1, -1)
    return array


OF_NUMPY = {np.lib.stride_tricks.sliding_window_view: sliding_window_view}
