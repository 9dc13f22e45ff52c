"""Sums, extremes, moments and their like over axes; running sums and products."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays.array import Array, wrap
from bsp.arrays.functions import build
from bsp.arrays.functions.manipulation import concat, diagonal
from bsp.arrays.functions.ufuncs import isclose, stored, where
from bsp.arrays.planning import aggregates as ag
from bsp.arrays.planning import elementwise as ew
from bsp.arrays.planning.graph import LEAF, Node, Scan, interned, kind_of, leaf
from bsp.arrays.planning.layout import Axis, layout_of

_NONE = object()


def _reduction(name: str, how: ag.Aggregate, typed: bool, what: str) -> Callable[..., Array]:
    def function(
        x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False, initial: Any = _NONE,
        where: Any = True,
    ) -> Array:  # fmt: skip
        node = build.strong(build.operand(x))
        if typed and dtype is not None:
            node = build.cast(node, np.dtype(dtype))
        elif dtype is not None:
            raise TypeError(f"{name}() got an unexpected keyword argument 'dtype'")
        if where is not True:
            node = _masked(name, how, node, where, initial)
        if name in ("all", "any") and node.kind.dtype.kind != "b":
            node = build.apply(ew.of_ufunc(np.not_equal), node, build.operand(0))
        axes = build.normal_axes(axis, len(node.kind.shape))
        if how in (ag.SUM, ag.MEAN) and axes == (0,) and node.kind.size and dtype is None and initial is _NONE:
            totals = _totals(node)
            if totals is not None:
                found = build.reduced(totals, ag.SUM, axes, bool(keepdims))
                if how is ag.MEAN:
                    found = build.apply(ew.of_ufunc(np.divide), found, build.operand(float(node.kind.size)))
                return stored(wrap(found), out)
        if initial is not _NONE and how.identity is None:
            return stored(_with_initial(how, node, axes, keepdims, initial), out)
        found = build.reduced(node, how, axes, bool(keepdims))
        if typed and dtype is not None:
            found = build.cast(found, np.dtype(dtype))
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


def _with_initial(how: ag.Aggregate, node: Node, axes: tuple[int, ...], keepdims: bool, initial: Any) -> Array:
    """An extreme that also has a value to start from, so an empty axis is no mistake."""
    first = build.operand(initial)
    if builtins.any(node.kind.shape[axis] == 0 for axis in axes):
        kept = tuple(
            (1 if keepdims else None) if axis in axes else length for axis, length in enumerate(node.kind.shape)
        )
        shape = tuple(length for length in kept if length is not None)
        return wrap(build.apply(ew.COPY, build.broadcast(build.cast(first, node.kind.dtype), shape)))
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
    if name in ("mean", "var", "std"):
        raise TypeError(f"{name}: where= is not supported; use sum(x*mask) and sum(mask)")
    return where(wrap(build.operand(mask)), wrap(node), fill)._node


sum = _reduction("sum", ag.SUM, True, "The sum of elements")
prod = _reduction("prod", ag.PROD, True, "The product of elements")
min = _reduction("min", ag.MIN, False, "The least element")
max = _reduction("max", ag.MAX, False, "The greatest element")
all = _reduction("all", ag.ALL, False, "Whether all elements are true")
any = _reduction("any", ag.ANY, False, "Whether some element is true")
mean = _reduction("mean", ag.MEAN, True, "The mean of elements")


def _moment(name: str, root: bool) -> Callable[..., Array]:
    def function(
        x: Any, /, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: bool = False,
        *, correction: float | None = None,
    ) -> Array:  # fmt: skip
        node = build.strong(build.operand(x))
        if dtype is not None:
            node = build.cast(node, np.dtype(dtype))
        how = ag.moments(ddof if correction is None else correction, root)
        axes = build.normal_axes(axis, len(node.kind.shape))
        return stored(wrap(build.reduced(node, how, axes, bool(keepdims))), out)

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
        if node.kind.size == 0 and (
            axis is None or node.kind.shape[build.normal_axis(axis, len(node.kind.shape))] == 0
        ):
            raise ValueError(f"attempt to get {name} of an empty sequence")
        axes = build.normal_axes(axis, len(node.kind.shape))
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
        found = mean(a, axis=axis, keepdims=keepdims)
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


def _nan(name: str, plain: Callable[..., Array], fill: float) -> Callable[..., Array]:
    def function(x: Any, /, axis: Any = None, **kwargs: Any) -> Array:
        array = wrap(build.strong(build.operand(x)))
        if array.dtype.kind not in "fc":
            return plain(array, axis=axis, **kwargs)
        found = plain(where(array != array, fill, array), axis=axis, **kwargs)
        if plain in (min, max):  # of NaN alone it is NaN
            found = where(any(array == array, axis=axis, keepdims=kwargs.get("keepdims", False)), found, np.nan)
        return found

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"{plain.__name__}, NaN left out."
    return function


nansum = _nan("nansum", sum, 0.0)
nanprod = _nan("nanprod", prod, 1.0)
nanmin = _nan("nanmin", min, np.inf)
nanmax = _nan("nanmax", max, -np.inf)


def _real_dtype(array: Array) -> np.dtype[Any]:
    """The dtype of an array's absolute values."""
    return np.dtype(f"f{array.dtype.itemsize // 2}") if array.dtype.kind == "c" else array.dtype


def nanmean(x: Any, axis: Any = None, *, keepdims: bool = False) -> Array:
    """The mean, NaN left out."""
    array = wrap(build.strong(build.operand(x)))
    if array.dtype.kind not in "fc":
        return mean(array, axis=axis, keepdims=keepdims)
    count = sum(array == array, axis=axis, keepdims=keepdims)
    return nansum(array, axis=axis, keepdims=keepdims) / count.astype(_real_dtype(array))


def nanvar(x: Any, axis: Any = None, ddof: float = 0, *, keepdims: bool = False) -> Array:
    """The variance, NaN left out."""
    array = wrap(build.strong(build.operand(x)))
    if array.dtype.kind not in "fc":
        return var(array, axis=axis, ddof=ddof, keepdims=keepdims)
    deviation = array - nanmean(array, axis=axis, keepdims=True)
    squares = deviation.real**2 + deviation.imag**2 if array.dtype.kind == "c" else deviation * deviation
    count = sum(array == array, axis=axis, keepdims=keepdims)
    return nansum(squares, axis=axis, keepdims=keepdims) / (count - ddof).astype(_real_dtype(array))


def nanstd(x: Any, axis: Any = None, ddof: float = 0, *, keepdims: bool = False) -> Array:
    """The standard deviation, NaN left out."""
    return nanvar(x, axis=axis, ddof=ddof, keepdims=keepdims) ** 0.5


def _cumulative(name: str, how: ag.Aggregate) -> Callable[..., Array]:
    def function(x: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Array:
        node = build.strong(build.operand(x))
        if axis is None:
            node = build.reshaped(node, (node.kind.size,))
            axis = 0
        axis = build.normal_axis(axis, len(node.kind.shape))
        found = how.result(node.kind.dtype) if dtype is None else np.dtype(dtype)
        node = build.cast(node, found)
        op = interned(Scan, how, how.ufunc, axis)
        return stored(wrap(Node(op, (node,), kind_of(node.kind.shape, found))), out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"Running {'sums' if how is ag.SUM else 'products'} along an axis; None: of all elements in C order.\n\n"
        "    Cost: where the axis is dealt to q processes, totals of parts go round: h = (q-1)·(n / length) words,\n"
        "    one superstep."
    )
    return function


cumsum = _cumulative("cumsum", ag.SUM)
cumprod = _cumulative("cumprod", ag.PROD)


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
    axis = build.normal_axis(axis, array.ndim)
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
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


FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        sum, prod, min, max, all, any, mean, var, std, argmin, argmax, count_nonzero, trace, ptp, average, nansum,
        nanprod, nanmin, nanmax, nanmean, nanvar, nanstd, cumsum, cumprod, cumulative_sum, cumulative_prod, diff,
        allclose, array_equal,
    )
} | {"amax": max, "amin": min}  # fmt: skip
