"""Reductions over axes: sums, extremes, moments and the like; running sums and products."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, Literal, overload

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.manipulation import concat, diagonal
from bsp.arrays.api.ufuncs import absolute, into, isclose, mask_of, sqrt, where
from bsp.arrays.array import NO_VALUE, Array, wrap
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.expressions.graph import LEAF, Node, Scan, interned, leaf
from bsp.arrays.expressions.layout import Axis, layout_of
from bsp.arrays.gathering import decided
from bsp.arrays.kernels import aggregates as ag
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.typing import ArrayLike, Axes, DTypeLike
from bsp.errors import ShapeError

__all__ = [
    "all", "allclose", "amax", "amin", "any", "argmax", "argmin", "array_equal", "array_equiv", "average",
    "count_nonzero", "cumprod", "cumsum", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min",
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmin", "nanprod", "nanstd", "nansum",
    "nanvar", "prod", "ptp", "real_if_close", "std", "sum", "trace", "var",
]  # fmt: skip


def _cast(node: Node, dtype: Any) -> Node:
    """Return a node cast to the dtype in which its elements are added up; None: as it is.

    Raises TypeError for dates and durations, whose numbers of days or seconds would be added up.
    """
    found = node.kind.dtype if dtype is None else element_type(dtype)
    if node.kind.dtype.kind in "mM" and found != node.kind.dtype:
        raise TypeError(f"dtype={found}: {node.kind.dtype} is not added up as another dtype; cast it first by astype")
    return build.cast(node, found)


def _dtype_of(how: ag.Aggregate, x: Any, dtype: Any, out: Any) -> Any:
    """Return the dtype argument of an aggregate: where it is not given, sums and products take that of `out`."""
    if dtype is not None or not isinstance(out, Array):
        return dtype
    given = build.strong(build.operand(x)).kind.dtype
    taken = how in (ag.SUM, ag.PROD) or (how is ag.MEAN and given.kind in "fc" and out.dtype.kind in "fc")
    return np.result_type(given, out.dtype) if taken else None


def _reduced(
    name: str, how: ag.Aggregate, x: Any, axis: Any, dtype: Any, out: Any, keepdims: Any, initial: Any, where: Any
) -> Array:  # fmt: skip
    """Return an aggregate of elements over axes, with NumPy's arguments.  Lazy.

    initial : a value to start from; NO_VALUE: none; None: none, and empty axes are refused.
    where : the elements that count; the others count as the identity of the aggregate.
    out : without `dtype`, sums, products and means are computed in its dtype if that is wider, as in NumPy.
    """
    dtype = _dtype_of(how, x, dtype, out)
    if where is not True:
        where = wrap(mask_of(where))
    if how is ag.MEAN and (where is not True or _is_exact(dtype)):
        return into(_masked_mean(_array(x), where, axis, dtype, keepdims), out)
    node = _cast(build.strong(build.operand(x)), dtype)
    kind = node.kind.dtype if dtype is not None or initial is NO_VALUE else how.result(node.kind.dtype)
    if initial is None:
        if where is not True or builtins.any(not node.kind.shape[k] for k in _axes_of(axis, node)):
            what = f"reduction operation {how.ufunc.__name__} which has no identity"
            raise ValueError(f"{name}: zero-size array, or a mask, to {what}: initial=None takes it away")
        initial = NO_VALUE
    if initial is not NO_VALUE:
        initial = _assigned(initial, how, kind)
    if where is not True:
        node = _masked(name, how, node, where, initial)
    if name in ("all", "any"):
        node = build.truth(node)
    axes = build.reduced_axes(axis, len(node.kind.shape))
    if how in (ag.SUM, ag.MEAN) and axes == (0,) and node.kind.size and dtype is None and initial is NO_VALUE:
        totals = _totals(node)
        if totals is not None:
            found = build.reduced(totals, ag.SUM, axes, bool(keepdims))
            if how is ag.MEAN:
                found = build.apply(ew.of_ufunc(np.divide), found, build.operand(float(node.kind.size)))
            return into(wrap(found), out)
    empty = builtins.any(not node.kind.shape[k] for k in axes)
    if initial is not NO_VALUE and (how.identity is None or empty):
        return into(_with_initial(how, node, axes, keepdims, initial), out)
    found = build.reduced(node, how, axes, bool(keepdims))
    if dtype is not None:
        found = build.cast(found, element_type(dtype))
    array = wrap(found)
    if initial is not NO_VALUE:
        array = wrap(build.apply(ew.of_ufunc(how.ufunc), array._node, build.operand(initial)))
    return into(array, out)


def _totals(node: Node) -> Node | None:
    """Return the sums of the blocks of a vector that has them without its elements (`selection.selected`), or None."""
    blocks: Any = getattr(node, "value", None) if node.op is LEAF else None
    if blocks is None or not hasattr(blocks, "total"):
        return None
    assert node.layout is not None
    (axis,) = node.layout.axes
    layout = layout_of((Axis(axis.parts, axis.parts, axis.deal, axis.stride),))
    return leaf((axis.parts,), node.kind.dtype, layout, {at: np.array([blocks.total(at)]) for at in blocks})


def _axes_of(axis: Any, node: Node) -> tuple[int, ...]:
    return build.reduced_axes(axis, len(node.kind.shape))


def _assigned(value: Any, how: ag.Aggregate, dtype: np.dtype[Any]) -> np.ndarray:
    """Return a value to start from as an element of the result's dtype; raises NumPy's errors for what does not fit."""
    found = value.compute() if isinstance(value, Array) else value
    return np.asarray(how.ufunc.reduce(np.empty(0, dtype), dtype=ag.typed(dtype), initial=found))


def _with_initial(how: ag.Aggregate, node: Node, axes: tuple[int, ...], keepdims: bool, initial: Any) -> Array:
    """Return an extreme with a value to start from, so that an empty axis is allowed."""
    first = build.operand(initial)
    if builtins.any(node.kind.shape[axis] == 0 for axis in axes):
        kept = tuple(
            (1 if keepdims else None) if axis in axes else length for axis, length in enumerate(node.kind.shape)
        )
        shape = tuple(length for length in kept if length is not None)
        return wrap(build.apply(ew.COPY, build.broadcast(first, shape)))
    found = build.reduced(node, how, axes, keepdims)
    return wrap(build.apply(ew.of_ufunc(how.ufunc), found, first))


def _masked(name: str, how: ag.Aggregate, node: Node, mask: Any, initial: Any) -> Node:
    """Return the elements with the identity of the aggregate where a mask does not hold."""
    fill = how.identity
    if fill is None:
        if initial is NO_VALUE:
            raise ValueError(
                f"{name}: reduction operation '{name}' does not have an identity, so where= needs initial="
            )
        fill = initial
    else:
        fill = np.asarray(fill).astype(node.kind.dtype)  # -1 becomes all bits set
    held = build.operand(mask)
    if np.broadcast_shapes(held.kind.shape, node.kind.shape) != node.kind.shape:
        raise ShapeError(f"{name}: where= of shape {held.kind.shape} does not broadcast to {node.kind.shape}")
    return where(wrap(held), wrap(node), fill)._node


def sum(
    x: ArrayLike, /, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, initial: ArrayLike | None = NO_VALUE, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """Return the sum of elements over axes.  Lazy.

    axis : one, several, or None for all.   keepdims : the reduced axes stay, with length 1.
    initial : a value to start from.   where : a mask of the elements that count.
    Cost: one pass; where the axis is dealt to q processes, a partial reduce: h = (q-1)·n words for n results (one
    superstep), or about 2n (two), whichever is cheaper by (g, L).  Source: Elibol, section 3.4.
    """
    return _reduced("sum", ag.SUM, x, axis, dtype, out, keepdims, initial, where)


def prod(
    x: ArrayLike, /, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, initial: ArrayLike | None = NO_VALUE, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """Return the product of elements over axes.  Lazy.  Arguments and cost: as `sum`."""
    return _reduced("prod", ag.PROD, x, axis, dtype, out, keepdims, initial, where)


def min(
    x: ArrayLike, /, axis: Axes = None, out: Array | None = None, keepdims: bool = False,
    initial: ArrayLike | None = NO_VALUE, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """Return the least element over axes; NaN if any element is NaN.  Lazy.  Arguments and cost: as `sum`."""
    return _reduced("min", ag.MIN, x, axis, None, out, keepdims, initial, where)


def max(
    x: ArrayLike, /, axis: Axes = None, out: Array | None = None, keepdims: bool = False,
    initial: ArrayLike | None = NO_VALUE, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """Return the greatest element over axes; NaN if any element is NaN.  Lazy.  Arguments and cost: as `sum`."""
    return _reduced("max", ag.MAX, x, axis, None, out, keepdims, initial, where)


amin, amax = min, max


def all(
    x: ArrayLike, /, axis: Axes = None, out: Array | None = None, keepdims: bool = False, *,
    where: ArrayLike = True,
) -> Array:  # fmt: skip
    """Return whether all elements are true, over axes.  Lazy.  Arguments and cost: as `sum`."""
    return _reduced("all", ag.ALL, x, axis, None, out, keepdims, NO_VALUE, where)


def any(
    x: ArrayLike, /, axis: Axes = None, out: Array | None = None, keepdims: bool = False, *,
    where: ArrayLike = True,
) -> Array:  # fmt: skip
    """Return whether some element is true, over axes.  Lazy.  Arguments and cost: as `sum`."""
    return _reduced("any", ag.ANY, x, axis, None, out, keepdims, NO_VALUE, where)


def mean(
    x: ArrayLike, /, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, *, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """Return the mean of elements over axes.  Lazy.  Arguments and cost: as `sum`."""
    return _reduced("mean", ag.MEAN, x, axis, dtype, out, keepdims, NO_VALUE, where)


def of_ufunc(ufunc: np.ufunc) -> Callable[..., Array]:
    """Return the `reduce` of an associative ufunc, as a function with the arguments of `sum`."""
    found = _of_ufunc.get(ufunc)
    if found is None:
        how, name = ag.of_ufunc(ufunc), f"{ufunc.__name__}.reduce"

        def function(
            x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False,
            initial: Any = NO_VALUE, where: Any = True,
        ) -> Array:  # fmt: skip
            return _reduced(name, how, x, axis, dtype, out, keepdims, initial, where)

        found = _of_ufunc[ufunc] = function
    return found


_of_ufunc: dict[np.ufunc, Callable[..., Array]] = {np.add: sum, np.multiply: prod}


def _moment(
    root: bool, x: Any, axis: Any, dtype: Any, out: Any, ddof: float, keepdims: Any, where: Any, mean: Any,
    correction: float | None,
) -> Array:  # fmt: skip
    """Return the variance of elements, or its root.  Source of the one pass: Chan, Golub, LeVeque 1979."""
    if where is not True:
        where = wrap(mask_of(where))
    if where is not True or mean is not None or _is_exact(dtype):
        left_out = ddof if correction is None else correction
        found = _masked_variance(_array(x), where, axis, dtype, left_out, keepdims, mean)
        return into(_root(found) if root else found, out)
    node = _cast(build.strong(build.operand(x)), dtype)
    how = ag.moments(ddof if correction is None else correction, root)
    axes = build.reduced_axes(axis, len(node.kind.shape))
    squares = build.reduced(node, how, axes, bool(keepdims))
    return into(wrap(squares if dtype is None else build.cast(squares, element_type(dtype))), out)


def var(
    x: ArrayLike, /, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None, ddof: float = 0,
    keepdims: bool = False, *, where: ArrayLike = True, mean: ArrayLike | None = None, correction: float | None = None,
) -> Array:  # fmt: skip
    """Return the variance of elements over axes, computed in one pass.  Lazy.

    correction, ddof : the divisor is n - correction.   mean : the mean of the elements, if known, with the reduced axes
    kept.
    Cost: as `sum` of twice the words.  With `where` or `mean`: two passes.
    """
    return _moment(False, x, axis, dtype, out, ddof, keepdims, where, mean, correction)


def std(
    x: ArrayLike, /, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None, ddof: float = 0,
    keepdims: bool = False, *, where: ArrayLike = True, mean: ArrayLike | None = None, correction: float | None = None,
) -> Array:  # fmt: skip
    """Return the standard deviation of elements over axes.  Lazy.  Arguments and cost: as `var`."""
    return _moment(True, x, axis, dtype, out, ddof, keepdims, where, mean, correction)


def _extreme(name: str, how: ag.Aggregate, x: Any, axis: Any, out: Any, keepdims: Any) -> Array:
    node = build.strong(build.operand(x))
    ndim = len(node.kind.shape)
    axes = tuple(range(ndim)) if axis is None else (build.whole_axis(axis, ndim or 1),)[:ndim]
    if node.kind.size == 0 and (axis is None or node.kind.shape[axes[0]] == 0):
        raise ValueError(f"attempt to get {name} of an empty sequence")
    return into(wrap(build.reduced(node, how, axes, keepdims)), out)


def argmin(x: ArrayLike, /, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False) -> Array:
    """Return the position of the first least element along an axis, NaN before all.  Lazy.

    axis : None counts positions in C order.
    """
    return _extreme("argmin", ag.ARGMIN, x, axis, out, keepdims)


def argmax(x: ArrayLike, /, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False) -> Array:
    """Return the position of the first greatest element along an axis, NaN before all.  Lazy.

    axis : None counts positions in C order.
    """
    return _extreme("argmax", ag.ARGMAX, x, axis, out, keepdims)


def count_nonzero(x: ArrayLike, /, axis: Axes = None, *, keepdims: bool = False) -> Array:
    """Return the number of elements that are not zero, over axes.  Lazy.  Cost: as `sum`."""
    node = build.strong(build.operand(x))
    return sum(wrap(build.truth(node)), axis=axis, keepdims=keepdims)


def trace(
    x: ArrayLike, /, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None,
    out: Array | None = None,
) -> Array:  # fmt: skip
    """Return the sum of a diagonal of two axes.  Lazy."""
    return sum(diagonal(x, offset, axis1, axis2), axis=-1, dtype=dtype, out=out)


def ptp(x: ArrayLike, axis: Axes = None, out: Array | None = None, keepdims: bool = False) -> Array:
    """Return the greatest element less the least, over axes.  Lazy."""
    return into(max(x, axis=axis, keepdims=keepdims) - min(x, axis=axis, keepdims=keepdims), out)


@overload
def average(
    x: ArrayLike, axis: Axes = None, weights: ArrayLike | None = None, returned: Literal[False] = False, *,
    keepdims: bool = False,
) -> Array: ...  # fmt: skip
@overload
def average(
    x: ArrayLike, axis: Axes = None, weights: ArrayLike | None = None, *, returned: Literal[True],
    keepdims: bool = False,
) -> tuple[Array, Array]: ...  # fmt: skip
@overload
def average(
    x: ArrayLike, axis: Axes, weights: ArrayLike | None, returned: Literal[True], *, keepdims: bool = False
) -> tuple[Array, Array]: ...
def average(
    x: ArrayLike, axis: Axes = None, weights: ArrayLike | None = None, returned: bool = False, *,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """Return the mean over axes, weighted by `weights` if given; with `returned` also the sum of the weights.  Lazy.

    weights : of the shape of x, or of the length of one axis, which is then given.
    """
    a = wrap(build.strong(build.operand(x)))
    if weights is None:
        found = mean(a, axis=None if axis is None else build.normal_axes(axis, a.ndim), keepdims=keepdims)
        count = a.size // builtins.max(found.size, 1)
        return (found, _constant(count, found)) if returned else found
    w = wrap(build.strong(build.operand(weights)))
    if w.shape != a.shape:
        if not isinstance(axis, (int, np.integer)) or w.ndim != 1 or w.shape[0] != a.shape[axis]:
            raise TypeError("average: weights have the shape of the array, or of one axis that is named")
        place = build.normal_axis(axis, a.ndim)
        w = w[tuple(slice(None) if k == place else None for k in range(a.ndim))]
    dtype = np.result_type(a.dtype, w.dtype, np.float64 if a.dtype.kind in "iub" else a.dtype)
    w = wrap(build.broadcast(build.cast(w._node, dtype), a.shape))
    total = sum(w, axis=axis, keepdims=keepdims)
    found = sum(a * w, axis=axis, keepdims=keepdims) / total
    return (found, total) if returned else found


def _constant(value: float, like: Array) -> Array:
    """Return one number in the shape and dtype of another array."""
    return wrap(build.broadcast(build.cast(build.operand(value), like.dtype), like.shape))


# ------------------------------------------------------------------------ some elements left out


def _array(x: Any) -> Array:
    return wrap(build.strong(build.operand(x)))


def _counted(x: Array, mask: Any, axis: Any, keepdims: bool) -> Array:
    """Return how many elements a mask leaves for each result, as numbers that the results can be divided by."""
    held = wrap(build.broadcast(build.strong(build.cast(build.operand(mask), np.dtype(bool))), x.shape))
    single = np.float32  # at least: half precision holds no number above 65504
    kind = np.result_type(_real_dtype(x), single) if x.dtype.kind in "fc" else np.dtype(np.float64)
    return sum(held, axis=axis, keepdims=keepdims).astype(kind)


def _masked_mean(x: Array, mask: Any, axis: Any, dtype: Any, keepdims: bool) -> Array:
    """Return the mean of the elements where a mask holds; NaN where it holds nowhere."""
    kind = ag.MEAN.result(x.dtype) if dtype is None else element_type(dtype)
    sums = kind if _is_exact(kind) else ag.MEAN.partial(kind)
    total = sum(_where_held(mask, x), axis=axis, dtype=sums, keepdims=keepdims)
    return (total / _counted(x, mask, axis, keepdims)).astype(kind)


def _masked_variance(
    x: Array, mask: Any, axis: Any, dtype: Any, ddof: float, keepdims: bool, centre: Any = None, refused: bool = False
) -> Array:
    """Return the variance of the elements where a mask holds, in two passes: the mean first, then the squares.

    centre : the mean, if it is known.  refused : return NaN where there are not more elements than `ddof`, as NumPy's
    nanvar does; its var divides by 0 there.
    """
    kind = ag.MEAN.result(x.dtype) if dtype is None else element_type(dtype)
    exact = _is_exact(kind)
    known = kind if exact else ag.MEAN.partial(kind)
    middle = _masked_mean(x, mask, axis, known, True) if centre is None else _array(centre)
    deviation = x - middle
    squares = deviation.real**2 + deviation.imag**2 if deviation.dtype.kind == "c" else deviation * deviation
    total = sum(_where_held(mask, squares), axis=axis, dtype=kind if exact else None, keepdims=keepdims)
    left = _counted(x, mask, axis, keepdims) - ddof
    left = where(left > 0, left, np.nan if refused else 0.0)
    real = kind.kind == "c" and dtype is None
    return (total / left).astype(np.dtype(f"f{kind.itemsize // 2}") if real else kind)


def _where_held(mask: Any, x: Array) -> Array:
    """Return the elements where a mask holds, and 0 elsewhere."""
    return x if mask is True else where(mask, x, x.dtype.type(0))


def _is_exact(dtype: Any) -> bool:
    """Return True if the requested dtype has no fractions.

    NumPy then cuts means to integers at each step; so do the functions here.
    """
    return dtype is not None and element_type(dtype).kind in "iub"


def _root(x: Array) -> Array:
    """Return the square roots of variances, in their dtype; raises as NumPy does for several integers."""
    if not _is_exact(x.dtype):
        found: Array = x**0.5
        return found
    if x.ndim:
        np.sqrt(np.ones(1, x.dtype), out=np.ones(1, x.dtype))
    return wrap(build.cast(sqrt(x)._node, x.dtype))


def _inexact(array: Array, dtype: Any) -> None:
    """Raise NumPy's TypeError if the dtype of a result that ignores NaN has no NaN."""
    if _is_exact(dtype):
        raise TypeError(f"If a is inexact, then dtype must be inexact, not {np.dtype(dtype)} for {array.dtype}")


def _without_nan(
    plain: Callable[..., Array], fill: float, x: Any, axis: Any, dtype: Any, out: Any, keepdims: Any, initial: Any,
    where: Any,
) -> Array:  # fmt: skip
    """Return a sum or product in which NaN counts as `fill`."""
    array = _array(x)
    if array.dtype.kind in "fc":
        array = _instead(array != array, fill, array)
    return plain(array, axis=axis, dtype=dtype, out=out, keepdims=keepdims, initial=initial, where=where)


_instead = where  # under another name, for the parameters named `where`


def nansum(
    x: ArrayLike, /, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, initial: ArrayLike | None = NO_VALUE, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """Return the sum of the elements that are not NaN.  Lazy.  Arguments and cost: as `sum`."""
    return _without_nan(sum, 0.0, x, axis, dtype, out, keepdims, initial, where)


def nanprod(
    x: ArrayLike, /, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None,
    keepdims: bool = False, initial: ArrayLike | None = NO_VALUE, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """Return the product of the elements that are not NaN.  Lazy.  Arguments and cost: as `sum`."""
    return _without_nan(prod, 1.0, x, axis, dtype, out, keepdims, initial, where)


def nanmin(
    x: ArrayLike, /, axis: Axes = None, out: Array | None = None, keepdims: bool = False,
    initial: ArrayLike | None = NO_VALUE, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """Return the least of the elements that are not NaN; NaN if all are.  Lazy.  Arguments and cost: as `sum`."""
    return of_ufunc(np.fmin)(x, axis, None, out, keepdims, initial, where)


def nanmax(
    x: ArrayLike, /, axis: Axes = None, out: Array | None = None, keepdims: bool = False,
    initial: ArrayLike | None = NO_VALUE, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """Return the greatest of the elements that are not NaN; NaN if all are.  Lazy.  Arguments and cost: as `sum`."""
    return of_ufunc(np.fmax)(x, axis, None, out, keepdims, initial, where)


def _real_dtype(array: Array) -> np.dtype[Any]:
    """Return the dtype of an array's absolute values."""
    return np.dtype(f"f{array.dtype.itemsize // 2}") if array.dtype.kind == "c" else array.dtype


def nanmean(
    x: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None, keepdims: bool = False,
    *, where: ArrayLike = True,
) -> Array:  # fmt: skip
    """Return the mean of the elements that are not NaN.  Lazy.  Arguments and cost: as `mean`, in two passes."""
    array = _array(x)
    if array.dtype.kind not in "fc":
        return mean(array, axis=axis, dtype=dtype, out=out, keepdims=keepdims, where=where)
    _inexact(array, dtype)
    return into(_masked_mean(array, _numbers(array, where), axis, dtype, keepdims), out)


def _numbers(array: Array, mask: Any) -> Any:
    """Return where elements are not NaN and a mask holds."""
    held = array == array
    return held if mask is True else held & wrap(mask_of(mask))


def nanvar(
    x: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None, ddof: float = 0,
    keepdims: bool = False, *, where: ArrayLike = True, mean: ArrayLike | None = None, correction: float | None = None,
) -> Array:  # fmt: skip
    """Return the variance of the elements that are not NaN, in two passes.  Lazy.  Arguments: as `var`."""
    array, left_out = _array(x), ddof if correction is None else correction
    if array.dtype.kind not in "fc":
        return var(array, axis=axis, dtype=dtype, out=out, ddof=left_out, keepdims=keepdims, where=where, mean=mean)
    _inexact(array, dtype)
    held = _numbers(array, where)
    return into(_masked_variance(array, held, axis, dtype, left_out, keepdims, mean, True), out)


def nanstd(
    x: ArrayLike, axis: Axes = None, dtype: DTypeLike | None = None, out: Array | None = None, ddof: float = 0,
    keepdims: bool = False, *, where: ArrayLike = True, mean: ArrayLike | None = None, correction: float | None = None,
) -> Array:  # fmt: skip
    """Return the standard deviation of the elements that are not NaN, in two passes.  Lazy.  Arguments: as `var`."""
    left_out = ddof if correction is None else correction
    found = nanvar(x, axis, dtype, None, left_out, keepdims, where=where, mean=mean)
    return into(_root(found), out)


def accumulated(how: ag.Aggregate, x: Any, axis: int, dtype: Any = None) -> Array:
    """Return for each element the aggregate of the elements up to it along an axis.

    Cost: where the axis is dealt to q processes, totals of parts go round: h = (q-1)·(n / length) words, one superstep.
    """
    node = build.strong(build.operand(x))
    axis = build.whole_axis(axis, len(node.kind.shape))
    node = build.cast(node, how.result(node.kind.dtype)) if dtype is None else _cast(node, dtype)
    op = interned(Scan, how, how.ufunc, axis)
    return wrap(Node(op, (node,), node.kind))


def _cumulative(how: ag.Aggregate, x: Any, axis: Any, dtype: Any, out: Any) -> Array:
    node = build.strong(build.operand(x))
    if axis is None:
        node, axis = build.reshaped(node, (node.kind.size,)), 0
    return into(accumulated(how, wrap(build.lined(node)), axis, _dtype_of(how, x, dtype, out)), out)


def cumsum(
    x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Array | None = None
) -> Array:  # fmt: skip
    """Return running sums along an axis; None: of all elements in C order.  Lazy.

    Cost: where the axis is dealt to q processes, totals of parts go round: h = (q-1)·(n / length) words, one superstep.
    """
    return _cumulative(ag.SUM, x, axis, dtype, out)


def cumprod(
    x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Array | None = None
) -> Array:  # fmt: skip
    """Return running products along an axis; None: of all elements in C order.  Lazy.  Cost: as `cumsum`."""
    return _cumulative(ag.PROD, x, axis, dtype, out)


def nancumsum(
    x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Array | None = None
) -> Array:  # fmt: skip
    """Return running sums in which NaN counts as 0.  Lazy.  Arguments and cost: as `cumsum`."""
    return cumsum(_nan_as(0.0, x), axis, dtype, out)


def nancumprod(
    x: ArrayLike, axis: int | None = None, dtype: DTypeLike | None = None, out: Array | None = None
) -> Array:  # fmt: skip
    """Return running products in which NaN counts as 1.  Lazy.  Arguments and cost: as `cumsum`."""
    return cumprod(_nan_as(1.0, x), axis, dtype, out)


def _nan_as(fill: float, x: Any) -> Array:
    """Return an array in which NaN is replaced by a number."""
    array = _array(x)
    return where(array != array, fill, array) if array.dtype.kind in "fc" else array


def _nan_extreme(plain: Callable[..., Array], fill: float, x: Any, axis: Any, out: Any, keepdims: Any) -> Array:
    array = _array(x)
    if array.dtype.kind not in "fc":
        return plain(array, axis=axis, out=out, keepdims=keepdims)
    missing = array != array
    if array.size and decided(any(all(missing, axis=axis)), usual=False):
        raise ValueError("All-NaN slice encountered")
    return plain(where(missing, fill, array), axis=axis, out=out, keepdims=keepdims)


def nanargmin(x: ArrayLike, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False) -> Array:
    """Return the position of the first least element that is not NaN.

    Collective: it looks whether there is a slice of NaN alone, for which it raises ValueError.
    """
    return _nan_extreme(argmin, np.inf, x, axis, out, keepdims)


def nanargmax(x: ArrayLike, axis: int | None = None, out: Array | None = None, *, keepdims: bool = False) -> Array:
    """Return the position of the first greatest element that is not NaN.

    Collective: it looks whether there is a slice of NaN alone, for which it raises ValueError.
    """
    return _nan_extreme(argmax, -np.inf, x, axis, out, keepdims)


def _from_initial(
    name: str, plain: Callable[..., Array], identity: int, x: Any, axis: Any, dtype: Any, include_initial: bool
) -> Array:
    """Return running results along one axis, with the identity in front of them if `include_initial`."""
    node = build.lined(build.strong(build.operand(x)))
    ndim = len(node.kind.shape)
    if axis is None:
        if ndim != 1:
            raise ValueError(f"{name}: axis must be given for an array of {ndim} dimensions")
        axis = 0
    found = plain(wrap(node), axis=axis, dtype=dtype)
    if not include_initial:
        return found
    axis = build.normal_axis(axis, ndim)
    shape = list(found.shape)
    shape[axis] += 1
    starts = [0] * ndim
    shifted = list(starts)
    shifted[axis] = 1
    first = list(found.shape)
    first[axis] = 1
    head = build.broadcast(build.cast(build.operand(identity), found.dtype), tuple(first))
    return wrap(build.assembled(tuple(shape), found.dtype, [
        (head, starts, [1] * ndim), (found._node, shifted, [1] * ndim)
    ]))  # fmt: skip


def cumulative_sum(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Array:
    """Return running sums along one axis, which a vector may leave out.  Lazy.  Cost: as `cumsum`.

    include_initial : 0 comes before the first sum, so that the axis is longer by one.
    """
    return _from_initial("cumulative_sum", cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: ArrayLike, /, *, axis: int | None = None, dtype: DTypeLike | None = None, include_initial: bool = False
) -> Array:
    """Return running products along one axis, which a vector may leave out.  Lazy.  Cost: as `cumsum`.

    include_initial : 1 comes before the first product, so that the axis is longer by one.
    """
    return _from_initial("cumulative_prod", cumprod, 1, x, axis, dtype, include_initial)


def diff(
    x: ArrayLike, n: int = 1, axis: int = -1, prepend: ArrayLike | None = None, append: ArrayLike | None = None
) -> Array:
    """Return the differences of neighbours along an axis, taken n times.  Lazy.

    prepend, append : values joined to the array before.
    """
    array = wrap(build.strong(build.operand(x)))
    if n == 0:
        return array
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    axis = build.normal_axis(axis, array.ndim)
    one = tuple(1 if k == axis else length for k, length in enumerate(array.shape))

    def beside(side: Any) -> list[Array]:
        if side is None:
            return []
        node = build.strong(build.operand(side))
        return [wrap(node if node.kind.shape else build.broadcast(node, one))]

    if prepend is not None or append is not None:
        array = concat([*beside(prepend), array, *beside(append)], axis=axis)
    upper = tuple(slice(1, None) if k == axis else slice(None) for k in range(array.ndim))
    lower = tuple(slice(None, -1) if k == axis else slice(None) for k in range(array.ndim))
    for _ in range(n):
        array = array[upper] != array[lower] if array.dtype.kind == "b" else array[upper] - array[lower]
    return array


def allclose(a: ArrayLike, b: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Return whether all elements are close by the rule of `isclose`.  Collective.

    Cost: W = 5n/p, h = p - 1 words at most, S = 1, and what brings them together if they have two layouts.
    """
    return bool(all(isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)))


def array_equal(a: ArrayLike, b: ArrayLike, equal_nan: bool = False) -> bool:
    """Return whether two arrays have the same shape and elements.  Collective if they have the same shape.

    Cost: W = n/p, h = p - 1 words at most, S = 1, and what brings them together if they have two layouts.
    """
    x, y = (wrap(build.strong(build.operand(each))) for each in (a, b))
    if x.shape != y.shape:
        return False
    same = x == y
    if equal_nan and x.dtype.kind in "fcmM" and y.dtype.kind in "fcmM":
        same = same | ((x != x) & (y != y))
    return bool(all(same))


def real_if_close(x: ArrayLike, tol: float = 100) -> Array:
    """Return the real parts if all imaginary ones are small, else x itself.  Collective for complex numbers.

    tol : the bound for imaginary parts, in units of the last place if it is greater than 1.
    """
    array = x if isinstance(x, Array) else _array(x)
    if array.dtype.kind != "c":
        return array
    limit = tol * np.finfo(array.dtype).eps if tol > 1 else tol
    return array.real if decided(all(absolute(array.imag) < limit), usual=False) else array


def array_equiv(a: ArrayLike, b: ArrayLike) -> bool:
    """Return whether two arrays are equal after one is repeated to the shape of the other.

    Collective if their shapes broadcast.
    """
    x, y = (wrap(build.strong(build.operand(each))) for each in (a, b))
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return bool(all(x == y))
