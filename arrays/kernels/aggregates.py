"""Aggregates: the three steps of a reduction, which fold a piece, merge partial results, and finish.

Partial results are sent between processes, so they are arrays too.  Their dtype is that of the result, or a
structured one where more is needed: a mean and a sum of squares, or a value and its position.  Merging is
associative up to rounding, and is always done in the order of the blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from math import prod
from typing import Any

import numpy as np

from bsp.arrays.expressions.graph import DType
from bsp.arrays.kernels.programs import PIECE

Axes = tuple[int, ...]
_LINE = 1 << 11  # elements: longer inner loops of a reduction are not faster
_COUNTS = (np.int64, np.float64)  # dtypes that have the sum of any truth values exactly
Place = Sequence[tuple[int, int]]  # origin of a piece: for each axis (first position, length of the whole axis)


def typed(dtype: DType) -> DType | None:
    """Return the `dtype=` argument for a ufunc's methods, which take no byte order, and of dates no units: None."""
    return None if dtype.kind in "mM" else dtype.newbyteorder("=")


def reduced(ufunc: np.ufunc, values: np.ndarray, axes: Axes, dtype: DType | None) -> np.ndarray:
    """Return the reduction of values over axes by an associative and commutative ufunc.

    If the first axes are reduced and few elements are left of each line, NumPy's inner loop is as short as the line:
    32 columns take three times as long as 1024.  So several lines are taken as one, and reduced at the end.

    Truth values are counted where all of them are summed.
    """
    count = len(axes)
    kept = values.shape[count:]
    if ufunc is np.add and values.dtype == bool and count == values.ndim and dtype in _COUNTS:
        return np.asarray(np.count_nonzero(values), dtype)
    inner = prod(kept)
    if axes != tuple(range(count)) or not 1 < inner <= _LINE // 2 or not values.flags.c_contiguous:
        return np.asarray(ufunc.reduce(values, axis=axes, dtype=dtype))
    lines, together = values.reshape(-1, inner), _LINE // inner
    whole = len(lines) // together
    if whole < 2:
        return np.asarray(ufunc.reduce(values, axis=axes, dtype=dtype))
    long = lines[: whole * together].reshape(whole, -1)
    found = ufunc.reduce(ufunc.reduce(long, axis=0, dtype=dtype).reshape(together, inner), axis=0, dtype=dtype)
    rest = lines[whole * together :]
    if len(rest):
        found = ufunc(found, ufunc.reduce(rest, axis=0, dtype=dtype))
    return np.asarray(found).reshape(kept)


class Aggregate:
    """A reduction by a ufunc: `fold` and `merge` call its `reduce`.  Subclasses implement other reductions."""

    piece = PIECE  # elements in one call of `fold`
    plain = True  # whether `fold` is the ufunc's reduce alone

    @property
    def term(self) -> str | None:
        """Name of the operation in NumPy's warnings; None if `fold` consists of several operations."""
        return "reduce" if self.plain else None

    def __init__(self, name: str, ufunc: np.ufunc, identity: Any, result: Callable[[DType], DType]) -> None:
        self.name = name
        self.ufunc = ufunc
        self.identity = identity  # None: the reduction of an empty array is undefined
        self.result = result

    def partial(self, dtype: DType) -> DType:
        """Return the dtype of partial results for values of `dtype`."""
        return self.result(dtype)

    def fold(self, values: np.ndarray, axes: Axes, place: Place) -> np.ndarray:
        """Return the partial result of one piece.

        values : the piece.
        axes : its axes that are reduced.
        place : its origin in the whole array; only reductions to positions use it.
        """
        return reduced(self.ufunc, values, axes, typed(self.partial(values.dtype)))

    def at_once(self, values: np.ndarray, axes: Axes) -> bool:
        """Return whether `fold` reads all of `values` where they are, without temporaries that grow with them."""
        return self.plain or values.size <= self.piece

    def into(self, total: np.ndarray, part: np.ndarray, folded: int, merged: int) -> None:
        """Merge `part` into `total` in place.

        folded, merged : the number of values reduced so far in each element of `total` and of `part`.
        """
        self.ufunc(total, part, out=total)

    def merge(self, parts: np.ndarray, axes: Axes, counts: np.ndarray) -> np.ndarray:
        """Return partial results merged along `axes`.

        counts : the number of values behind each partial result; broadcasts to `parts`.
        """
        return np.asarray(self.ufunc.reduce(parts, axis=axes, dtype=typed(parts.dtype)))

    def start(self, shape: tuple[int, ...], dtype: DType) -> np.ndarray:
        """Return the partial result of an empty set of values of a dtype."""
        return self.start_of(shape, self.partial(dtype))

    def start_of(self, shape: tuple[int, ...], partial: DType) -> np.ndarray:
        """Return the partial result, of dtype `partial`, of an empty set of values.

        Without an identity the array holds zeros as placeholders, which no caller reads.
        """
        if self.identity is None:
            return np.zeros(shape, partial)
        return np.full(shape, np.asarray(self.identity).astype(partial), partial)  # -1 becomes all bits set

    def finish(self, partial: np.ndarray, count: Any) -> np.ndarray:
        """Return the result from a merged partial result.

        count : the number of values behind each element: one number, or an array of them.
        """
        return partial


@cache
def _sum_dtype(ufunc: np.ufunc, dtype: DType) -> DType:
    found: DType = ufunc.reduce(np.empty(0, dtype)).dtype
    return found


def _native(dtype: DType) -> DType:
    return dtype.newbyteorder("=")


def _boolean(dtype: DType) -> DType:
    return np.dtype(bool)


class Extreme(Aggregate):
    """Reductions argmin and argmax: the position of the first extreme value, in C order of the reduced axes."""

    plain = False
    piece = 4 * PIECE  # lines across rows are copied to be searched: longer ones take fewer searches

    def __init__(self, name: str, find: Callable[..., Any], better: np.ufunc) -> None:
        super().__init__(name, better, None, lambda dtype: np.dtype(np.intp))
        self._find = find
        self._better = better

    def partial(self, dtype: DType) -> DType:
        """Return the structured dtype of an extreme value and its position."""
        return np.dtype([("value", dtype), ("place", np.int64)])

    def at_once(self, values: np.ndarray, axes: Axes) -> bool:
        """Return whether the reduced axes are contiguous lines, which NumPy searches where they are, and not many.

        NumPy copies what is read-only, too.
        """
        kept = [axis for axis in range(values.ndim) if axis not in axes]
        few = prod(values.shape[axis] for axis in kept) <= self.piece
        flags = values.transpose(*kept, *axes).flags
        return values.size <= self.piece or (few and flags.c_contiguous and flags.writeable)

    def fold(self, values: np.ndarray, axes: Axes, place: Place) -> np.ndarray:
        """Return the extreme value of a piece and its position in the whole array."""
        kept = [axis for axis in range(values.ndim) if axis not in axes]
        lengths = [values.shape[axis] for axis in axes]
        lines = values.transpose(*kept, *axes).reshape(*[values.shape[axis] for axis in kept], -1)
        found = self._find(lines, axis=-1)
        out = np.empty(found.shape, self.partial(values.dtype))
        out["value"] = np.take_along_axis(lines, found[..., None], -1)[..., 0]
        position = np.zeros(found.shape, np.int64)
        for axis, local in zip(axes, np.unravel_index(found, lengths), strict=True):
            start, length = place[axis]
            position = position * length + local + start
        out["place"] = position
        return out

    def into(self, total: np.ndarray, part: np.ndarray, folded: int, merged: int) -> None:
        """Keep the better of the two values in `total`: NaN first; among equal values the one at the lower position."""
        new, old = part["value"], total["value"]
        take = self._better(new, old)
        equal = new == old
        if new.dtype.kind in "fcmM":
            new_nan, old_nan = np.isnan(new), np.isnan(old)
            take = (take & ~old_nan) | (new_nan & ~old_nan)
            equal = equal | (new_nan & old_nan)
        take = take | (equal & (part["place"] < total["place"]))
        np.copyto(total, part, where=take)

    def merge(self, parts: np.ndarray, axes: Axes, counts: np.ndarray) -> np.ndarray:
        """Return partial results merged one after the other, in C order of `axes`."""
        kept = [axis for axis in range(parts.ndim) if axis not in axes]
        count = prod(parts.shape[axis] for axis in axes)
        lines = parts.transpose(*axes, *kept).reshape(count, *[parts.shape[axis] for axis in kept])
        total = np.array(lines[0], parts.dtype)
        for line in lines[1:]:
            self.into(total, np.asarray(line, parts.dtype), 1, 1)
        return total

    def finish(self, partial: np.ndarray, count: Any) -> np.ndarray:
        """Return the position of the extreme value."""
        return partial["place"].astype(np.intp)


class Moments(Aggregate):
    """Variance or standard deviation in one pass over the data.

    A partial result holds the mean and the sum of squared deviations; they are merged by the update of Chan, Golub
    and LeVeque (1979).
    """

    plain = False

    piece = 4 * PIECE  # a merge takes a dozen NumPy calls: longer pieces need fewer merges

    def __init__(self, correction: float, root: bool) -> None:
        super().__init__(f"{'std' if root else 'var'}({correction:g})", np.add, None, self._result)
        self._correction = correction
        self._root = root

    @staticmethod
    def _result(dtype: DType) -> DType:
        if dtype.kind in "mM":
            np.square(np.empty(1, dtype))  # raises NumPy's error for dates and durations
        found = np.dtype(np.float64) if dtype.kind in "iub" else _native(dtype)
        return np.dtype(f"f{found.itemsize // 2}") if found.kind == "c" else found

    def partial(self, dtype: DType) -> DType:
        """Return the structured dtype of a mean and the sum of squared deviations from it."""
        mean = np.dtype(np.float64) if dtype.kind in "iub" else _native(dtype)
        if mean == np.float16:
            mean = np.dtype(np.float32)
        square = np.dtype(f"f{mean.itemsize // 2}") if mean.kind == "c" else mean
        return np.dtype([("mean", mean), ("squares", square)])

    def fold(self, values: np.ndarray, axes: Axes, place: Place) -> np.ndarray:
        """Return mean and squares of one piece, in two passes: it is small enough to stay in the cache."""
        partial = self.partial(values.dtype)
        count = prod(values.shape[axis] for axis in axes)
        mean = reduced(np.add, values, axes, typed(partial["mean"])) / partial["mean"].type(count)
        out = np.empty(mean.shape, partial)
        out["mean"] = mean
        mean = np.expand_dims(mean, axes)
        if values.dtype.kind == "c":
            deviation = values - mean
            out["squares"] = reduced(np.add, deviation.real**2 + deviation.imag**2, axes, None)
        else:
            deviation = np.asarray(np.subtract(values, mean, dtype=typed(partial["mean"])))
            np.multiply(deviation, deviation, out=deviation)
            out["squares"] = reduced(np.add, deviation, axes, None)
        return out

    def into(self, total: np.ndarray, part: np.ndarray, folded: int, merged: int) -> None:
        """Merge two means and sums of squares in place by Chan's update."""
        if not merged:
            return
        if not folded:
            total[...] = part
            return
        delta = part["mean"] - total["mean"]
        whole = folded + merged
        total["mean"] += delta * (merged / whole)
        size = delta.real**2 + delta.imag**2 if delta.dtype.kind == "c" else delta * delta
        total["squares"] += part["squares"] + size * (folded * merged / whole)

    def merge(self, parts: np.ndarray, axes: Axes, counts: np.ndarray) -> np.ndarray:
        """Return all partial results merged at once: the weighted mean, and the squares within and between parts."""
        counts = np.asarray(counts, np.float64)
        total = np.broadcast_to(counts, parts.shape).sum(axis=axes, keepdims=True)
        weight = (counts / np.maximum(total, 1)).astype(parts["squares"].dtype)
        mean = (parts["mean"] * weight).sum(axis=axes, keepdims=True)
        delta = np.where(counts > 0, parts["mean"] - mean, 0)
        size = delta.real**2 + delta.imag**2 if delta.dtype.kind == "c" else delta * delta
        out = np.empty(np.squeeze(mean, axes).shape, parts.dtype)
        out["mean"] = np.squeeze(mean, axes)
        out["squares"] = (parts["squares"] + size * counts.astype(parts["squares"].dtype)).sum(axis=axes)
        return out

    def finish(self, partial: np.ndarray, count: Any) -> np.ndarray:
        """Return squares / (count - correction), or the root of it.

        A divisor of 0 or less counts as 0, which gives NaN or infinity, as in NumPy.
        """
        left = np.maximum(count - self._correction, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = partial["squares"] / np.asarray(left, partial["squares"].dtype)
            return np.asarray(np.sqrt(found) if self._root else found)


class Unfinished(Moments):
    """Moments left unfinished, so that a mean and several variances of the same array share one pass."""

    def __init__(self) -> None:
        super().__init__(0.0, False)
        self.name = "moments"
        self.result = self.partial

    def finish(self, partial: np.ndarray, count: Any) -> np.ndarray:
        """Return the moments unchanged."""
        return partial


class Mean(Aggregate):
    """Mean: a sum that `finish` divides by the count."""

    def __init__(self) -> None:
        super().__init__("mean", np.add, 0, self._result)

    @staticmethod
    def _result(dtype: DType) -> DType:
        if dtype.kind == "M":
            np.add.reduce(np.empty(1, dtype))  # raises NumPy's error for the addition of dates
        return np.dtype(np.float64) if dtype.kind in "iub" else _native(dtype)

    def partial(self, dtype: DType) -> DType:
        """Return the dtype of the sums: float32 for float16, as in NumPy, else that of the result."""
        found = self.result(dtype)
        return np.dtype(np.float32) if found == np.float16 else found

    def finish(self, partial: np.ndarray, count: Any) -> np.ndarray:
        """Return the sums divided by the count."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.true_divide(partial, count, dtype=typed(partial.dtype)))


SUM = Aggregate("sum", np.add, 0, partial(_sum_dtype, np.add))
PROD = Aggregate("prod", np.multiply, 1, partial(_sum_dtype, np.multiply))
MIN = Aggregate("min", np.minimum, None, _native)
MAX = Aggregate("max", np.maximum, None, _native)
ALL = Aggregate("all", np.logical_and, True, _boolean)
ANY = Aggregate("any", np.logical_or, False, _boolean)
ARGMIN = Extreme("argmin", np.argmin, np.less)
ARGMAX = Extreme("argmax", np.argmax, np.greater)
MEAN = Mean()
MOMENTS = Unfinished()


# Ufuncs f with f(f(a, b), c) = f(a, f(b, c)) up to rounding, so that partial results can be merged in groups
ASSOCIATIVE = (
    np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logical_and, np.logical_or, np.logical_xor,
    np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.gcd, np.lcm, np.hypot, np.logaddexp, np.logaddexp2,
)  # fmt: skip
_of_ufunc: dict[np.ufunc, Aggregate] = {
    np.add: SUM, np.multiply: PROD, np.maximum: MAX, np.minimum: MIN,
}  # fmt: skip


def of_ufunc(ufunc: np.ufunc) -> Aggregate:
    """Return the interned aggregate that is the `reduce` of an associative ufunc."""
    found = _of_ufunc.get(ufunc)
    if found is None:
        assert ufunc in ASSOCIATIVE

        def result(dtype: DType) -> DType:
            reduced: DType = ufunc.reduce(np.ones(1, dtype)).dtype
            return reduced

        found = _of_ufunc[ufunc] = Aggregate(ufunc.__name__, ufunc, ufunc.identity, result)
    return found


def finished(how: Aggregate, partial: np.ndarray, count: int) -> np.ndarray:
    """Return a mean, a variance or a standard deviation, as `how` selects, from shared moments."""
    return partial["mean"] if how is MEAN else how.finish(partial, count)


_moments: dict[tuple[float, bool], Moments] = {}


def moments(correction: float, root: bool) -> Moments:
    """Return the interned aggregate of a variance or, with `root`, of a standard deviation."""
    key = (float(correction), root)
    if key not in _moments:
        _moments[key] = Moments(*key)
    return _moments[key]
