"""Differences and sums of neighbours: gradient, trapezoid, unwrap, ediff1d.  Lazy: slices of the array beside itself.

Cost: where the axis is cut, one line of elements across each cut, in one superstep; else none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from bsp.arrays import build
from bsp.arrays.api import reductions
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import concat, cut_along, laid_along, ravel
from bsp.arrays.api.ufuncs import absolute, astype, remainder, where
from bsp.arrays.array import Array, wrap
from bsp.arrays.gathering import decided
from bsp.arrays.typing import ArrayLike

__all__ = ["ediff1d", "gradient", "trapezoid", "unwrap"]


def _array(x: Any) -> Array:
    return wrap(build.strong(asarray(x)._node))


def gradient(
    f: ArrayLike, *varargs: ArrayLike, axis: int | Sequence[int] | None = None, edge_order: int = 1
) -> Any:  # fmt: skip
    """Return the gradient by central differences of second order, one-sided ones of `edge_order` at the ends.

    varargs : the spacing: one number for all axes, or for each axis a number or the coordinates of its points.
    axis : the axes along which to differentiate; None: all.
    Returns an array for one axis, else a tuple with one for each.  Lazy, but collective where coordinates are given:
    their values are computed.
    """
    array = _array(f)
    axes = tuple(range(array.ndim)) if axis is None else normalize_axis_tuple(axis, array.ndim)
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    spacings = _spacings(array, varargs, axes)
    kind = array.dtype
    if kind.kind == "M":  # durations since the epoch, which can be added
        array = array - np.zeros((), kind)
        kind = array.dtype
    elif kind.kind not in "fcm":
        array, kind = astype(array, np.float64) if kind.kind in "iu" else array, np.dtype(np.float64)
    found = []
    for place, spacing in zip(axes, spacings, strict=True):
        if array.shape[place] < edge_order + 1:
            raise ValueError(
                "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
                "required."
            )
        found.append(astype(_along(array, place, spacing, edge_order), kind))
    return found[0] if len(found) == 1 else tuple(found)


def _spacings(array: Array, given: Sequence[Any], axes: Sequence[int]) -> list[Any]:
    """Return the spacing of each axis: one number, or the differences of coordinates."""
    if not given:
        return [1.0] * len(axes)
    if len(given) == 1 and not np.shape(given[0]):
        return list(given) * len(axes)
    if len(given) != len(axes):
        raise TypeError("invalid number of arguments")
    found: list[Any] = []
    for distances, axis in zip(given, axes, strict=True):
        line = distances if isinstance(distances, Array) else np.asarray(distances)
        if not line.ndim:
            found.append(distances)
            continue
        if line.ndim != 1:
            raise ValueError("distances must be either scalars or 1d")
        if line.shape[0] != array.shape[axis]:
            raise ValueError("when 1d, distances must match the length of the corresponding dimension")
        points = _array(line)
        steps = reductions.diff(astype(points, np.float64) if points.dtype.kind in "iu" else points)
        if steps.size and decided(reductions.all(steps == steps[0]), usual=False):
            found.append(steps[0].compute()[()])  # evenly spaced: NumPy uses the simpler formulas
        else:
            found.append(steps)
    return found


def _along(f: Array, axis: int, spacing: Any, edge_order: int) -> Array:
    ndim = f.ndim
    before, middle, after = cut_along(f, axis, None, -2), cut_along(f, axis, 1, -1), cut_along(f, axis, 2, None)

    def at(position: int) -> Array:
        return cut_along(f, axis, position, position + 1 or None)

    if not isinstance(spacing, Array):
        inner = (after - before) / (2.0 * spacing)
        if edge_order == 1:
            first, last = (at(1) - at(0)) / spacing, (at(-1) - at(-2)) / spacing
        else:
            a, b, c = -1.5 / spacing, 2.0 / spacing, -0.5 / spacing
            first = a * at(0) + b * at(1) + c * at(2)
            last = 0.5 / spacing * at(-3) + -2.0 / spacing * at(-2) + 1.5 / spacing * at(-1)
        return concat([first, inner, last], axis=axis)
    left, right = laid_along(spacing[:-1], axis, ndim), laid_along(spacing[1:], axis, ndim)
    inner = (
        -right / (left * (left + right)) * before
        + (right - left) / (left * right) * middle
        + left / (right * (left + right)) * after
    )

    def step(position: int) -> Array:
        return laid_along(spacing[slice(position, position + 1 or None)], axis, ndim)

    if edge_order == 1:
        first, last = (at(1) - at(0)) / step(0), (at(-1) - at(-2)) / step(-1)
    else:
        p, q = step(0), step(1)
        first = -(2.0 * p + q) / (p * (p + q)) * at(0) + (p + q) / (p * q) * at(1) + -p / (q * (p + q)) * at(2)
        p, q = step(-2), step(-1)
        last = q / (p * (p + q)) * at(-3) + -(q + p) / (p * q) * at(-2) + (2.0 * q + p) / (q * (p + q)) * at(-1)
    return concat([first, inner, last], axis=axis)


def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Array:
    """Return the integral along an axis by the trapezoidal rule, at points x, or dx apart."""
    values = _array(y)
    place = build.whole_axis(axis, values.ndim)
    steps: Any = dx
    if x is not None:
        points = _array(x)
        steps = reductions.diff(points, axis=-1 if points.ndim == 1 else axis)
        if points.ndim == 1:
            steps = laid_along(steps, place, values.ndim)
    pairs = cut_along(values, place, 1, None) + cut_along(values, place, None, -1)
    return reductions.sum(steps * pairs / 2.0, axis=place)


def ediff1d(ary: ArrayLike, to_end: ArrayLike | None = None, to_begin: ArrayLike | None = None) -> Array:
    """Return the differences of neighbours in C order, with `to_begin` in front and `to_end` at the end."""
    line = ravel(_array(ary))
    parts = [line[1:] - line[:-1]]
    for name, given in (("to_end", to_end), ("to_begin", to_begin)):
        if given is None:
            continue
        side = ravel(_array(given))
        if not np.can_cast(side.dtype, line.dtype, "same_kind"):
            raise TypeError(f"dtype of `{name}` must be compatible with input `ary` under the `same_kind` rule.")
        side = astype(side, line.dtype)
        parts = [*parts, side] if name == "to_end" else [side, *parts]
    return concat(parts) if len(parts) > 1 else parts[0]


def unwrap(p: ArrayLike, discont: float | None = None, axis: int = -1, *, period: float = 2 * np.pi) -> Array:
    """Return phases without jumps: where neighbours differ by more than half a period, whole periods are added.

    discont : the least difference that is a jump, if more than half a period.
    Cost: a running sum along the axis.
    """
    phases = _array(p)
    place = build.whole_axis(axis, phases.ndim)
    steps = reductions.diff(phases, axis=place)
    kind = np.result_type(steps.dtype, period)
    if np.issubdtype(kind, np.integer):
        high, rest = divmod(period, 2)
        ambiguous = rest == 0
    else:
        high, ambiguous = period / 2, True
    low = -high
    inside = remainder(steps - low, period) + low
    if ambiguous:
        inside = where((inside == low) & (steps > 0), high, inside)
    added = where(absolute(steps) < (period / 2 if discont is None else discont), 0, inside - steps)
    first, rest_of = cut_along(phases, place, None, 1), cut_along(phases, place, 1, None)
    return concat([astype(first, kind), astype(rest_of + reductions.cumsum(added, axis=place), kind)], axis=place)
