"""Sorting, searching, counting and taking: comparisons, and bytes gathered.

Comparisons are flops of the class elementwise.  Abstract positions are taken to be in range.  The length of the
result of unique, nonzero and similar functions depends on values, so the largest possible length is returned, and
marked.  The docstring of a rule gives the function of NumPy and what it counts.
"""

from __future__ import annotations

from math import log2, prod
from typing import Any

import numpy as np

from bsp.abstract.array import AbstractArray, at_most, into, owned, result
from bsp.abstract.elementwise import described, operand
from bsp.abstract.errors import value_needed
from bsp.abstract.probe import Shape, axis_of, broadcast, outcome
from bsp.abstract.table import TABLE, comparisons, rule
from bsp.abstract.work import counter

_INT = np.dtype(np.intp)

# --------------------------------------------------------------------------------------- sorting


def _lines(shape: Shape, axis: int) -> tuple[int, int]:
    """Return how many lines there are along the axis, and how long they are."""
    return prod(shape) // max(shape[axis], 1), shape[axis]


def _count_sort(shape: Shape, axis: int) -> None:
    """Count a sort of each line along the axis."""
    lines, length = _lines(shape, axis)
    counter.flops("elementwise", lines * comparisons(length))


def _line_of(a: Any, axis: int | None) -> tuple[Shape, int]:
    """Return the shape that is sorted, and along which axis; with axis None all of it as one line."""
    a_shape = described(a)[1]
    return ((prod(a_shape),), 0) if axis is None else (a_shape, axis_of(axis, len(a_shape)))


def _sorting(name: str) -> None:
    """Enter the rule of sort or argsort: n log2 n comparisons a line."""

    def sorting(a: Any, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
        if name == "argsort" and axis == -1 and not described(a)[1]:
            axis = None
        shape, place = _line_of(a, axis)
        _count_sort(shape, place)
        return owned(shape, _INT if name == "argsort" else operand(a).dtype)

    rule(name)(sorting)


def _partitioning(name: str) -> None:
    """Enter the rule of partition or argpartition: 4 flops an element, because introselect visits each a few times."""

    def partitioning(
        a: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None
    ) -> Any:  # fmt: skip
        shape, place = _line_of(a, axis)
        _check_kth(kth, shape[place])
        counter.flops("elementwise", 4 * prod(shape))
        return owned(shape, _INT if name == "argpartition" else operand(a).dtype)

    rule(name)(partitioning)


for _name in ("sort", "argsort"):
    _sorting(_name)
for _name in ("partition", "argpartition"):
    _partitioning(_name)
TABLE["sort in place"] = lambda a, axis: _count_sort(a.shape, axis_of(axis, a.ndim))


@rule("lexsort")
def lexsort(keys: Any, axis: int = -1) -> Any:
    """numpy.lexsort: a sort for each key."""
    keys = list(keys)
    if not keys:
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    shapes = {described(key)[1] for key in keys}
    if len(shapes) > 1:
        raise ValueError("all keys need to be the same shape")
    (shape,) = shapes
    for _ in keys:
        _count_sort(shape, axis_of(axis, len(shape)))
    return owned(shape, _INT)


def _check_kth(kth: Any, length: int) -> None:
    """Raise NumPy's error for a position outside the line."""
    if type(kth) is AbstractArray:
        return
    for each in np.asarray(kth).reshape(-1).tolist():
        if not -length <= each < length:
            raise ValueError(f"kth(={each}) out of bounds ({length})")


# ------------------------------------------------------------------------------------- searching


@rule("searchsorted")
def searchsorted(a: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
    """numpy.searchsorted: log2 n comparisons a key."""
    if described(a)[1] == () or len(described(a)[1]) > 1:
        raise ValueError("object of too small depth for desired array")
    length, keys = described(a)[1][0], described(v)[1]
    counter.flops("elementwise", prod(keys) * log2(max(length, 2)))
    return result(keys, _INT)


@rule("digitize")
def digitize(x: Any, bins: Any, right: bool = False) -> Any:
    """numpy.digitize: log2 n comparisons a key."""
    if len(described(bins)[1]) != 1:
        raise ValueError("object of too small depth for desired array")
    return searchsorted(bins, x)


@rule("isin")
def isin(
    element: Any, test_elements: Any, assume_unique: bool = False, invert: bool = False, *, kind: Any = None
) -> Any:
    """numpy.isin: sorts both together."""
    shape, others = described(element)[1], described(test_elements)[1]
    counter.flops("elementwise", 2 * comparisons(prod(shape) + prod(others)))
    return result(shape, np.dtype(bool))


@rule("interp")
def interp(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    """numpy.interp: a search, and a line through two points: log2 n + 8 flops a point."""
    points, values = described(xp)[1], described(fp)[1]
    if len(points) != 1 or len(values) != 1:
        raise ValueError("Data points must be 1-D sequences")
    if points != values:
        raise ValueError("fp and xp are not of the same length.")
    if not points[0]:
        raise ValueError("array of sample points is empty")
    shape = described(x)[1]
    counter.flops("elementwise", prod(shape) * (log2(max(points[0], 2)) + 8))
    return result(shape, outcome(np.interp, float, np.dtype(float), operand(fp).dtype))


# -------------------------------------------------------------------- results of unknown length


@rule("nonzero")
def nonzero(a: Any) -> Any:
    """numpy.nonzero: a test an element; at most every element is selected."""
    shape = described(a)[1]
    if not shape:
        raise ValueError("Calling nonzero on 0d arrays is not allowed. Use np.atleast_1d(scalar).nonzero() instead.")
    counter.flops("elementwise", prod(shape))
    return tuple(at_most((prod(shape),), _INT) for _ in shape)


@rule("argwhere")
def argwhere(a: Any) -> Any:
    """numpy.argwhere: a test an element; at most every element is selected."""
    shape = described(a)[1]
    counter.flops("elementwise", prod(shape))
    return at_most((prod(shape), len(shape)), _INT)


@rule("compress")
def compress(condition: Any, a: Any, axis: int | None = None, out: Any = None) -> Any:
    """numpy.compress: a mask along one axis."""
    a, condition = operand(a), operand(condition)
    if condition.ndim != 1:
        raise ValueError("condition must be a 1-d array")
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = axis_of(axis, a.ndim)
    within = (slice(None),) * axis
    if condition.shape[0] > a.shape[axis]:
        raise IndexError(f"index {condition.shape[0] - 1} is out of bounds for axis {axis} with size {a.shape[axis]}")
    return a[(*within, slice(None, condition.shape[0]))][(*within, condition.astype(bool))]


@rule("unique")
def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """numpy.unique: a sort, and a comparison of neighbours; at most all elements are different."""
    ar = operand(ar)
    if axis is None:
        length, shape, inverse = ar.size, (ar.size,), ar.shape
    else:
        place = axis_of(axis, ar.ndim)
        length, shape = ar.shape[place], ar.shape
        inverse = (length,)
    width = ar.size // max(length, 1)
    counter.flops("elementwise", width * (comparisons(length) + length))
    parts = [at_most(shape, ar.dtype)]
    if return_index:
        parts.append(at_most((length,), _INT))
    if return_inverse:
        parts.append(owned(inverse, _INT))
    if return_counts:
        parts.append(at_most((length,), _INT))
    return parts[0] if len(parts) == 1 else tuple(parts)


def _set_operation(name: str, most: Any) -> None:
    """Enter the rule of a set operation: sorts both together; at most `most(sizes)` elements."""

    @rule(name)
    def operation(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
        a, b = operand(ar1), operand(ar2)
        counter.flops("elementwise", comparisons(a.size + b.size))
        return at_most((most(a.size, b.size),), np.result_type(a.dtype, b.dtype))


_set_operation("union1d", lambda a, b: a + b)
_set_operation("setxor1d", lambda a, b: a + b)
_set_operation("intersect1d", min)
_set_operation("setdiff1d", lambda a, b: a)


# -------------------------------------------------------------------------------------- counting


@rule("bincount")
def bincount(x: Any, /, weights: Any = None, minlength: int = 0) -> Any:
    """numpy.bincount: an addition an element.  For abstract positions `minlength` is the number of bins."""
    shape = described(x)[1]
    if len(shape) > 1:
        raise ValueError("object too deep for desired array")
    if not shape:
        raise ValueError("object of too small depth for desired array")
    if type(x) is AbstractArray:
        if x.dtype.kind not in "iub":
            raise TypeError(f"Cannot cast array data from {x.dtype!r} to dtype('int64') according to the rule 'safe'")
        if not minlength and shape != (0,):
            raise value_needed("the length of numpy.bincount", x, "say how many bins there are (minlength=)")
        length = int(minlength)
    else:
        length = len(np.bincount(x, minlength=minlength))
    if weights is not None and described(weights)[1] != shape:
        raise ValueError("The weights and list don't have the same length.")
    counter.flops("elementwise", shape[0])
    return owned((length,), _INT if weights is None else np.dtype(float))


@rule("histogram_bin_edges")
def histogram_bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """numpy.histogram_bin_edges: finds the smallest and the largest element."""
    if isinstance(bins, str):
        raise value_needed(f"the number of bins by {bins!r}", operand(a), "say how many bins there are (bins=)")
    if type(bins) is AbstractArray and bins.is_scalar:
        raise value_needed("the number of bins", bins, "compute it from shapes and pids instead")
    if isinstance(bins, (int, np.integer)):
        if bins < 1:
            raise ValueError("`bins` must be positive, when an integer")
        counter.flops("blas1", 2 * prod(described(a)[1]))
        return owned(
            (int(bins) + 1,),
            np.result_type(operand(a).dtype, np.float32) if operand(a).dtype.kind == "f" else np.dtype(float),
        )
    edges = operand(bins)
    if edges.ndim != 1:
        raise ValueError("`bins` must be 1d, when an array")
    return edges


@rule("histogram")
def histogram(a: Any, bins: Any = 10, range: Any = None, density: bool | None = None, weights: Any = None) -> Any:
    """numpy.histogram: 8 flops an element with equal bins; a search with given edges."""
    shape = described(a)[1]
    edges = histogram_bin_edges(a, bins, range, weights)
    if weights is not None and described(weights)[1] != shape:
        raise ValueError("weights should have the same shape as a.")
    price = 8.0 if isinstance(bins, (int, np.integer)) else log2(max(edges.size, 2))
    counter.flops("elementwise", price * prod(shape))
    kept = _INT if weights is None else operand(weights).dtype
    return owned((edges.size - 1,), np.dtype(float) if density else kept), edges


# ---------------------------------------------------------------------------------------- taking


def _check_positions(indices: Any, length: int, axis: int) -> None:
    """Raise NumPy's error for a real position outside the axis."""
    if isinstance(indices, np.ndarray) and indices.size:
        for worst in (int(indices.max()), int(indices.min())):
            if not -length <= worst < length:
                raise IndexError(f"index {worst} is out of bounds for axis {axis} with size {length}")


def _positions(indices: Any) -> Any:
    """Return positions as an array; an empty list holds integers."""
    found = operand(indices)
    if isinstance(found, np.ndarray) and found.size == 0 and isinstance(indices, (list, tuple)):
        return found.astype(_INT)
    return found


@rule("take")
def take(a: Any, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
    """numpy.take: bytes gathered."""
    a, indices = operand(a), _positions(indices)
    if not np.can_cast(indices.dtype, _INT, "same_kind" if mode != "raise" else "safe"):
        raise TypeError(f"Cannot cast array data from {indices.dtype!r} to {_INT!r} according to the rule 'safe'")
    shape, place = ((a.size,), 0) if axis is None else (a.shape, axis_of(axis, a.ndim))
    if mode == "raise":
        _check_positions(indices, shape[place], place)
    if not shape[place] and indices.size:
        raise IndexError("cannot do a non-empty take from an empty axes.")
    new = into(out, (*shape[:place], *indices.shape, *shape[place + 1 :]), a.dtype)
    counter.moved(2 * new.nbytes + indices.nbytes)
    return new


@rule("put")
def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    """numpy.put: bytes scattered."""
    positions = _positions(ind)
    if mode == "raise":
        _check_positions(positions, a.size, 0)
    counter.moved(2 * positions.size * a.itemsize + positions.nbytes)


@rule("putmask", "place")
def putmask(a: Any, mask: Any, values: Any) -> None:
    """numpy.putmask, numpy.place: bytes; at most every element is written."""
    if described(mask)[1] != a.shape:
        raise ValueError("putmask: mask and data must be the same size")
    counter.moved(2 * a.nbytes + prod(a.shape))
    counter.upper_bound = counter.upper_bound or type(mask) is AbstractArray


@rule("unravel_index")
def unravel_index(indices: Any, shape: Any, order: str = "C") -> Any:
    """numpy.unravel_index: a division and a remainder (8 flops) for each dimension."""
    places = described(indices)[1]
    lengths = tuple(shape) if hasattr(shape, "__len__") else (shape,)
    counter.flops("elementwise", 8 * len(lengths) * prod(places))
    return tuple(result(places, _INT) for _ in lengths)


@rule("ravel_multi_index")
def ravel_multi_index(multi_index: Any, dims: Any, mode: Any = "raise", order: str = "C") -> Any:
    """numpy.ravel_multi_index: a product and a sum for each dimension."""
    places = broadcast(*[described(part)[1] for part in multi_index])
    counter.flops("elementwise", 2 * len(tuple(multi_index)) * prod(places))
    return result(places, _INT)


@rule("choose")
def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
    """numpy.choose: bytes gathered."""
    choices = [operand(choice) for choice in choices]
    shape = broadcast(described(a)[1], *[choice.shape for choice in choices])
    new = into(out, shape, np.result_type(*[choice.dtype for choice in choices]))
    counter.moved(2 * new.nbytes)
    return new
