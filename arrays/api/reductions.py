"""Sums, extremes, moments and their like over axes; running sums and products."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.manipulation import concat, diagonal
from bsp.arrays.api.ufuncs import FUNCTIONS as UFUNCS
from bsp.arrays.api.ufuncs import isclose, stored, where
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.expressions.graph import LEAF, Node, Scan, interned, kind_of, leaf
from bsp.arrays.expressions.layout import Axis, layout_of
from bsp.arrays.kernels import aggregates as ag
from bsp.arrays.kernels import elementwise as ew

_NONE = object()
absolute = UFUNCS["absolute"]


def _reduction(name: str, how: ag.Aggregate, typed: bool, what: str) -> Callable[..., Array]:
    def function(
        x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = _NONE,
        where: Any = True,
    ) -> Array:  # fmt: skip
        if how is ag.MEAN and (where is not True or _is_exact(dtype)):
            return stored(_masked_mean(_array(x), where, axis, dtype, keepdims), out)
        node = build.strong(build.operand(x))
        if typed and dtype is not None:
            node = build.cast(node, element_type(dtype))
        elif dtype is not None:
            raise TypeError(f"{name}() got an unexpected keyword argument 'dtype'")
        kind = node.kind.dtype if dtype is not None or initial is _NONE else how.result(node.kind.dtype)
        if initial is None:
            if where is not True or builtins.any(not node.kind.shape[k] for k in _axes_of(axis, node)):
                what = f"reduction operation {how.ufunc.__name__} which has no identity"
                raise ValueError(f"{name}: zero-size array, or a mask, to {what}: initial=None takes it away")
            initial = _NONE
        if initial is not _NONE:
            initial = _assigned(initial, how, kind)
        if where is not True:
            node = _masked(name, how, node, where, initial)
        if name in ("all", "any") and node.kind.dtype.kind != "b":
            node = build.apply(ew.of_ufunc(np.not_equal), node, build.operand(0))
        axes = build.reduced_axes(axis, len(node.kind.shape))
        if how in (ag.SUM, ag.MEAN) and axes == (0,) and node.kind.size and dtype is None and initial is _NONE:
            totals = _totals(node)
            if totals is not None:
                found = build.reduced(totals, ag.SUM, axes, bool(keepdims))
                if how is ag.MEAN:
                    found = build.apply(ew.of_ufunc(np.divide), found, build.operand(float(node.kind.size)))
                return stored(wrap(found), out)
        empty = builtins.any(not node.kind.shape[k] for k in axes)
        if initial is not _NONE and (how.identity is None or empty):
            return stored(_with_initial(how, node, axes, keepdims, initial), out)
        found = build.reduced(node, how, axes, bool(keepdims))
        if typed and dtype is not None:
            found = build.cast(found, element_type(dtype))
        array = wrap(found)
        if initial is not _NONE:
            array = wrap(build.apply(ew.of_ufunc(how.ufunc), array._node, build.operand(initial)))
        return stored(array, out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"{what} over `axis` (an integer, several, or all).\n\n"
        "    Cost: one pass; where the axis is dealt to q processes, a partial reduce: h = (q-1)·n words for n\n"
        "    results (one superstep), or about 2n (two), the cheaper by (g, L).  Source: Elibol, section 3.4."
    )
    return function


def _totals(node: Node) -> Node | None:
    """The sums of the blocks of a vector that knows them without its elements (`selection.selected`)."""
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
    """A value to start from as an element of the result's dtype, as NumPy takes it; its errors for what does not go."""
    found = value.compute() if isinstance(value, Array) else value
    return np.asarray(how.ufunc.reduce(np.empty(0, dtype), dtype=ag.typed(dtype), initial=found))


def _with_initial(how: ag.Aggregate, node: Node, axes: tuple[int, ...], keepdims: bool, initial: Any) -> Array:
    """An extreme that also has a value to start from, so an empty axis is no mistake."""
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
    """Elements that a mask leaves out count as the identity."""
    fill = how.identity
    if fill is None:
        if initial is _NONE:
            raise ValueError(
                f"{name}: reduction operation '{name}' does not have an identity, so where= needs initial="
            )
        fill = initial
    return where(wrap(build.operand(mask)), wrap(node), fill)._node


sum = _reduction("sum", ag.SUM, True, "The sum of elements")
prod = _reduction("prod", ag.PROD, True, "The product of elements")
min = _reduction("min", ag.MIN, False, "The least element")
max = _reduction("max", ag.MAX, False, "The greatest element")


def of_ufunc(ufunc: np.ufunc) -> Callable[..., Array]:
    """The `reduce` of an associative ufunc, as a function like `sum`."""
    found = _of_ufunc.get(ufunc)
    if found is None:
        found = _of_ufunc[ufunc] = _reduction(
            f"{ufunc.__name__}.reduce", ag.of_ufunc(ufunc), True, f"numpy.{ufunc.__name__} of all elements"
        )
    return found


all = _reduction("all", ag.ALL, False, "Whether all elements are true")
any = _reduction("any", ag.ANY, False, "Whether some element is true")
mean = _reduction("mean", ag.MEAN, True, "The mean of elements")
_of_ufunc: dict[np.ufunc, Callable[..., Array]] = {np.add: sum, np.multiply: prod}


def _moment(name: str, root: bool) -> Callable[..., Array]:
    def function(
        x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False,
        *, where: Any = True, mean: Any = None, correction: float | None = None,
    ) -> Array:  # fmt: skip
        if where is not True or mean is not None or _is_exact(dtype):
            left_out = ddof if correction is None else correction
            found = _masked_variance(_array(x), where, axis, dtype, left_out, keepdims, mean)
            return stored(_root(found) if root else found, out)
        node = build.strong(build.operand(x))
        if dtype is not None:
            node = build.cast(node, element_type(dtype))
        how = ag.moments(ddof if correction is None else correction, root)
        axes = build.reduced_axes(axis, len(node.kind.shape))
        squares = build.reduced(node, how, axes, bool(keepdims))
        return stored(wrap(squares if dtype is None else build.cast(squares, element_type(dtype))), out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"The {'standard deviation' if root else 'variance'} of elements, in one pass (Chan, Golub, LeVeque 1979).\n\n"
        "    correction, ddof : the divisor is n - correction.  Cost: as `sum` of twice the words."
    )
    return function


var = _moment("var", False)
std = _moment("std", True)


def _extreme(name: str, how: ag.Aggregate) -> Callable[..., Array]:
    def function(x: Any, /, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Array:
        node = build.strong(build.operand(x))
        ndim = len(node.kind.shape)
        axes = tuple(range(ndim)) if axis is None else (build.whole_axis(axis, ndim),)
        if node.kind.size == 0 and (axis is None or node.kind.shape[axes[0]] == 0):
            raise ValueError(f"attempt to get {name} of an empty sequence")
        return stored(wrap(build.reduced(node, how, axes, keepdims)), out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"The position of the first {'least' if name == 'argmin' else 'greatest'} element, NaN before all."
    )
    return function


argmin = _extreme("argmin", ag.ARGMIN)
argmax = _extreme("argmax", ag.ARGMAX)


def count_nonzero(x: Any, /, axis: Any = None, *, keepdims: bool = False) -> Array:
    """How many elements are not zero."""
    node = build.strong(build.operand(x))
    return sum(wrap(build.apply(ew.of_ufunc(np.not_equal), node, build.operand(0))), axis=axis, keepdims=keepdims)


def trace(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Array:
    """The sum of a diagonal."""
    return stored(sum(diagonal(x, offset, axis1, axis2), axis=-1, dtype=dtype), out)


def ptp(x: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Array:
    """Greatest less least."""
    return stored(max(x, axis=axis, keepdims=keepdims) - min(x, axis=axis, keepdims=keepdims), out)


def average(x: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """The mean, weighted if there are weights."""
    a = wrap(build.strong(build.operand(x)))
    if weights is None:
        found = mean(a, axis=None if axis is None else build.normal_axes(axis, a.ndim), keepdims=keepdims)
        count = a.size // builtins.max(found.size, 1)
        return (found, _constant(count, found)) if returned else found
    w = wrap(build.strong(build.operand(weights)))
    if w.shape != a.shape:
        if axis is None or w.ndim != 1 or w.shape[0] != a.shape[axis]:
            raise TypeError("average: weights have the shape of the array, or of one axis that is named")
        place = build.normal_axis(axis, a.ndim)
        w = w[tuple(slice(None) if k == place else None for k in range(a.ndim))]
    dtype = np.result_type(a.dtype, w.dtype, np.float64 if a.dtype.kind in "iub" else a.dtype)
    w = wrap(build.broadcast(build.cast(w._node, dtype), a.shape))
    total = sum(w, axis=axis, keepdims=keepdims)
    found = sum(a * w, axis=axis, keepdims=keepdims) / total
    return (found, total) if returned else found


def _constant(value: float, like: Array) -> Array:
    """One number in the shape and dtype of another array."""
    return wrap(build.broadcast(build.cast(build.operand(value), like.dtype), like.shape))


# ------------------------------------------------------------------------ some elements left out


def _array(x: Any) -> Array:
    return wrap(build.strong(build.operand(x)))


def _counted(x: Array, mask: Any, axis: Any, keepdims: bool) -> Array:
    """How many elements a mask leaves in each result, as numbers that the results divide by."""
    held = wrap(build.broadcast(build.strong(build.cast(build.operand(mask), np.dtype(bool))), x.shape))
    kind = _real_dtype(x) if x.dtype.kind in "fc" else np.dtype(np.float64)
    return sum(held, axis=axis, keepdims=keepdims).astype(kind)


def _masked_mean(x: Array, mask: Any, axis: Any, dtype: Any, keepdims: bool) -> Array:
    """The mean of the elements where a mask holds; of none NaN."""
    kind = ag.MEAN.result(x.dtype) if dtype is None else element_type(dtype)
    sums = kind if _is_exact(kind) else ag.MEAN.partial(kind)
    total = sum(_where_held(mask, x), axis=axis, dtype=sums, keepdims=keepdims)
    return (total / _counted(x, mask, axis, keepdims)).astype(kind)


def _masked_variance(
    x: Array, mask: Any, axis: Any, dtype: Any, ddof: float, keepdims: bool, centre: Any = None, refused: bool = False
) -> Array:
    """The variance of the elements where a mask holds: the mean first, then the squares; two passes.

    centre : the mean, if it is known.  refused : NaN where there are not more elements than `ddof` (nanvar has it so;
    of var the divisor is 0 then).
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
    """The elements where a mask holds, 0 elsewhere."""
    return x if mask is True else where(mask, x, x.dtype.type(0))


def _is_exact(dtype: Any) -> bool:
    """Whether a dtype that was asked for has no fractions: means are then cut to it, step by step, as NumPy's are."""
    return dtype is not None and element_type(dtype).kind in "iub"


def _root(x: Array) -> Array:
    """The square roots of variances, in their dtype; NumPy has none of several integers."""
    if not _is_exact(x.dtype):
        found: Array = x**0.5
        return found
    if x.ndim:
        np.sqrt(np.ones(1, x.dtype), out=np.ones(1, x.dtype))
    return wrap(build.cast(UFUNCS["sqrt"](x)._node, x.dtype))


def _inexact(array: Array, dtype: Any) -> None:
    """NumPy's refusal of a dtype without NaN for what leaves NaN out."""
    if _is_exact(dtype):
        raise TypeError(f"If a is inexact, then dtype must be inexact, not {np.dtype(dtype)} for {array.dtype}")


def _nan(name: str, plain: Callable[..., Array], fill: float) -> Callable[..., Array]:
    typed = plain in (sum, prod)
    of_dates = of_ufunc(np.fmin if plain is min else np.fmax)

    def function(
        x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = _NONE,
        where: Any = True,
    ) -> Array:  # fmt: skip
        array = _array(x)
        kwargs: dict[str, Any] = {"axis": axis, "keepdims": keepdims, "initial": initial, "where": where}
        if dtype is not None or typed:
            kwargs["dtype"] = dtype
        if array.dtype.kind not in "fc":
            dates = array.dtype.kind in "mM" and plain in (min, max)
            return stored((of_dates if dates else plain)(array, **kwargs), out)
        found = plain(_instead(array != array, fill, array), **kwargs)
        if not typed:  # of NaN alone the least and the greatest are NaN
            some = any(array == array, axis=axis, keepdims=keepdims, where=where)
            found = _instead(some if initial is _NONE or initial is None else True, found, np.nan)
        return stored(found, out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{plain.__name__}, NaN left out."
    return function


_instead = where
nansum = _nan("nansum", sum, 0.0)
nanprod = _nan("nanprod", prod, 1.0)
nanmin = _nan("nanmin", min, np.inf)
nanmax = _nan("nanmax", max, -np.inf)


def _real_dtype(array: Array) -> np.dtype[Any]:
    """The dtype of an array's absolute values."""
    return np.dtype(f"f{array.dtype.itemsize // 2}") if array.dtype.kind == "c" else array.dtype


def nanmean(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True
) -> Array:
    """The mean, NaN left out."""
    array = _array(x)
    if array.dtype.kind not in "fc":
        return mean(array, axis=axis, dtype=dtype, out=out, keepdims=keepdims, where=where)
    _inexact(array, dtype)
    return stored(_masked_mean(array, _numbers(array, where), axis, dtype, keepdims), out)


def _numbers(array: Array, mask: Any) -> Any:
    """Where elements are not NaN, and a mask holds."""
    held = array == array
    return held if mask is True else held & mask


def nanvar(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False,
    *, where: Any = True, mean: Any = None, correction: float | None = None,
) -> Array:  # fmt: skip
    """The variance, NaN left out."""
    array, left_out = _array(x), ddof if correction is None else correction
    if array.dtype.kind not in "fc":
        return var(array, axis=axis, dtype=dtype, out=out, ddof=left_out, keepdims=keepdims, where=where, mean=mean)
    _inexact(array, dtype)
    held = _numbers(array, where)
    return stored(_masked_variance(array, held, axis, dtype, left_out, keepdims, mean, True), out)


def nanstd(
    x: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False,
    *, where: Any = True, mean: Any = None, correction: float | None = None,
) -> Array:  # fmt: skip
    """The standard deviation, NaN left out."""
    left_out = ddof if correction is None else correction
    found = nanvar(x, axis, dtype, None, left_out, keepdims, where=where, mean=mean)
    return stored(_root(found), out)


def accumulated(how: ag.Aggregate, x: Any, axis: int, dtype: Any = None) -> Array:
    """The results of an aggregate of the elements up to each one along an axis.

    Cost: where the axis is dealt to q processes, totals of parts go round: h = (q-1)·(n / length) words, one superstep.
    """
    node = build.strong(build.operand(x))
    axis = build.whole_axis(axis, len(node.kind.shape))
    found = how.result(node.kind.dtype) if dtype is None else element_type(dtype)
    op = interned(Scan, how, how.ufunc, axis)
    return wrap(Node(op, (build.cast(node, found),), kind_of(node.kind.shape, found)))


def _cumulative(name: str, how: ag.Aggregate) -> Callable[..., Array]:
    def function(x: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
        node = build.strong(build.operand(x))
        if axis is None:
            node, axis = build.reshaped(node, (node.kind.size,)), 0
        return stored(accumulated(how, wrap(node), axis, dtype), out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Running {'sums' if how is ag.SUM else 'products'} along an axis; None: of all elements in C order.\n\n"
        "    Cost: where the axis is dealt to q processes, totals of parts go round: h = (q-1)·(n / length) words,\n"
        "    one superstep."
    )
    return function


cumsum = _cumulative("cumsum", ag.SUM)
cumprod = _cumulative("cumprod", ag.PROD)


def _nan_cumulative(name: str, plain: Callable[..., Array], fill: float) -> Callable[..., Array]:
    def function(x: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
        array = _array(x)
        held = where(array != array, fill, array) if array.dtype.kind in "fc" else array
        return plain(held, axis=axis, dtype=dtype, out=out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{plain.__name__}, NaN counted as {fill:g}."
    return function


nancumsum = _nan_cumulative("nancumsum", cumsum, 0.0)
nancumprod = _nan_cumulative("nancumprod", cumprod, 1.0)


def _nan_extreme(name: str, plain: Callable[..., Array], fill: float) -> Callable[..., Array]:
    def function(x: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Array:
        array = _array(x)
        if array.dtype.kind not in "fc":
            return plain(array, axis=axis, out=out, keepdims=keepdims)
        missing = array != array
        if array.size and not world().abstract and bool(any(all(missing, axis=axis))):
            raise ValueError("All-NaN slice encountered")
        return plain(where(missing, fill, array), axis=axis, out=out, keepdims=keepdims)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{plain.__name__}, NaN left out.  Collective: it looks whether there is a slice of NaN alone."
    return function


nanargmin = _nan_extreme("nanargmin", argmin, np.inf)
nanargmax = _nan_extreme("nanargmax", argmax, -np.inf)


def _cumulative_standard(name: str, plain: Callable[..., Array], identity: int) -> Callable[..., Array]:
    def function(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: bool = False) -> Array:
        node = build.strong(build.operand(x))
        ndim = len(node.kind.shape)
        if axis is None:
            if ndim != 1:
                raise ValueError(f"{name}: axis must be given for an array of {ndim} dimensions")
            axis = 0
        found = plain(x, axis=axis, dtype=dtype)
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

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The standard's {name}: {plain.__name__} along one axis."
    return function


cumulative_sum = _cumulative_standard("cumulative_sum", cumsum, 0)
cumulative_prod = _cumulative_standard("cumulative_prod", cumprod, 1)


def diff(x: Any, n: int = 1, axis: int = -1, *, prepend: Any = None, append: Any = None) -> Array:
    """Differences of neighbours along an axis, n times over."""
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


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as `isclose` says.  A collective."""
    return bool(all(isclose(a, b, rtol=rtol, atol=atol, equal_nan=equal_nan)))


def array_equal(a: Any, b: Any, equal_nan: bool = False) -> bool:
    """Whether two arrays have the same shape and elements.  A collective if they have the same shape."""
    x, y = (wrap(build.strong(build.operand(each))) for each in (a, b))
    if x.shape != y.shape:
        return False
    same = x == y
    if equal_nan and x.dtype.kind in "fc" and y.dtype.kind in "fc":
        same = same | ((x != x) & (y != y))
    return bool(all(same))


def real_if_close(x: Any, tol: float = 100) -> Array:
    """The real parts, if all imaginary ones are less than `tol` units of the last place.  A collective then."""
    array = x if isinstance(x, Array) else _array(x)
    if array.dtype.kind != "c" or world().abstract:
        return array
    limit = tol * np.finfo(array.dtype).eps if tol > 1 else tol
    return array.real if bool(all(absolute(array.imag) < limit)) else array


def array_equiv(a: Any, b: Any) -> bool:
    """Whether two arrays are equal where one is repeated to the shape of the other.  A collective if it can be."""
    x, y = (wrap(build.strong(build.operand(each))) for each in (a, b))
    try:
        np.broadcast_shapes(x.shape, y.shape)
    except ValueError:
        return False
    return bool(all(x == y))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        sum, prod, min, max, all, any, mean, var, std, argmin, argmax, count_nonzero, trace, ptp, average, nansum,
        nanprod, nanmin, nanmax, nanmean, nanvar, nanstd, nancumsum, nancumprod, nanargmin, nanargmax, cumsum, cumprod,
        cumulative_sum, cumulative_prod, diff, allclose, array_equal, array_equiv, real_if_close,
    )
} | {"amax": max, "amin": min}  # fmt: skip
