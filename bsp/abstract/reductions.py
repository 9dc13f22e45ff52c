"""Reductions and running sums: one visit to every element, class blas1.

The docstring of a rule gives the function of NumPy and what it counts.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from bsp.abstract.array import AbstractArray, into, owned, result, scalar
from bsp.abstract.elementwise import check_empty, described, operand, reduce
from bsp.abstract.probe import DType, Shape, axis_of, broadcast, outcome, probe, reduced, representative
from bsp.abstract.table import TABLE, WEIGHTS, complexity, product, product_kernel, rule
from bsp.abstract.work import counter

_INT = np.dtype(np.intp)
_BOOL = np.dtype(bool)


def _keyed(dtype: Any) -> DType | None:
    """Return a dtype argument as a dtype, or None."""
    return None if dtype is None else np.dtype(dtype)


def _reduced(shape: Shape, axis: Any, keepdims: bool) -> Shape:
    """Return `reduced` for functions that, unlike sum, raise AxisError for an axis of a number."""
    if not shape and axis is not None:
        raise np.exceptions.AxisError(axis if isinstance(axis, int) else 0, 0)
    return reduced(shape, axis, keepdims)


def _reduction(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return the rule of a reduction with a dtype: sum, prod."""

    def reduction(
        a: Any,
        axis: Any = None,
        dtype: Any = None,
        out: Any = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        return reduce(ufunc, a, axis, dtype, out, keepdims, initial, where)

    return reduction


def _extreme(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return the rule of min or max."""

    def extreme(
        a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, initial: Any = None, where: Any = True
    ) -> Any:
        return reduce(ufunc, a, axis, None, out, keepdims, initial, where)

    return extreme


def _truth(ufunc: np.ufunc) -> Callable[..., Any]:
    """Return the rule of any or all."""

    def truth(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False, *, where: Any = True) -> Any:
        return reduce(ufunc, a, axis, None, out, keepdims, None, where)

    return truth


rule("sum")(_reduction(np.add))
rule("prod")(_reduction(np.multiply))
rule("min", "amin")(_extreme(np.minimum))
rule("max", "amax")(_extreme(np.maximum))
rule("any")(_truth(np.logical_or))
rule("all")(_truth(np.logical_and))


def _statistic(name: str, flops: float, root: bool = False) -> None:
    """Enter the rule of mean, var, std or a variant: `flops` an element, and a division and perhaps a root a result."""
    function = getattr(np, name)
    place = 0 if name.endswith("mean") else 1  # of keepdims after `out`; in the others `ddof` comes before it

    def statistic(a: Any, axis: Any = None, dtype: Any = None, out: Any = None, *args: Any, **kwargs: Any) -> Any:
        keepdims = args[place] if len(args) > place else kwargs.get("keepdims", False)
        key, shape = described(a)
        left = _reduced(shape, axis, bool(keepdims))
        where = kwargs.get("where", True)
        if where is not True:
            broadcast(shape, described(where)[1])
        found = outcome(function, key, dtype=_keyed(dtype))
        scale = complexity(np.result_type(found, key if isinstance(key, np.dtype) else found))
        roots = WEIGHTS["divide"] + (WEIGHTS["sqrt"] if root else 0)
        counter.flops("blas1", scale * (flops * prod(shape) + roots * prod(left)))
        return into(out, left, found)

    rule(name)(statistic)


_statistic("mean", 1)  # a sum, then a division
_statistic("nanmean", 2)  # and a test for nan
_statistic("var", 4)  # the mean's sum; difference, square, sum
_statistic("std", 4, root=True)
_statistic("nanvar", 5)
_statistic("nanstd", 5, root=True)


def _without_nan(name: str) -> None:
    """Enter the rule of nansum or a similar one: a test of each element, then the reduction."""
    plain = getattr(np, name.removeprefix("nan"))

    def reduction(a: Any, *args: Any, **kwargs: Any) -> Any:
        counter.flops("elementwise", prod(described(a)[1]))
        return TABLE[plain](a, *args, **kwargs)

    rule(name)(reduction)


@rule("ptp")
def ptp(a: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """numpy.ptp: the largest, the smallest, and their difference."""
    return np.subtract(np.max(a, axis=axis, keepdims=keepdims), np.min(a, axis=axis, keepdims=keepdims), out=out)


@rule("argmin", "argmax", "nanargmin", "nanargmax")
def argument(a: Any, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
    """numpy.argmin, numpy.argmax and their nan variants: a comparison an element; the result is a position."""
    _, shape = described(a)
    if axis is not None:
        axis = 0 if not shape and axis in (0, -1) else axis_of(axis, len(shape))
    left = reduced(shape, axis, bool(keepdims))
    check_empty(np.argmax, shape, axis)
    counter.flops("blas1", prod(shape))
    return into(out, left, _INT)


@rule("count_nonzero")
def count_nonzero(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    """numpy.count_nonzero: a test an element; without an axis the result is a Python integer."""
    _, shape = described(a)
    counter.flops("blas1", prod(shape))
    if axis is None and not keepdims:
        return scalar(_INT, int)
    return result(reduced(shape, axis, bool(keepdims)), _INT)


# --------------------------------------------------------------------------------- running sums


def _running(name: str, ufunc: np.ufunc, flops: float) -> None:
    """Enter the rule of a running sum or product: `flops` an element."""

    def running(a: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        key, shape = described(a)
        if axis is not None:
            axis_of(axis, max(len(shape), 1))
        if axis is None or not shape:
            shape = (prod(shape),)
        found = outcome(ufunc.accumulate, key, dtype=_keyed(dtype))
        counter.flops("blas1", flops * prod(shape) * complexity(found))
        return into(out, shape, found)

    rule(name)(running)


_running("cumsum", np.add, 1)
_running("cumprod", np.multiply, 1)
_running("nancumsum", np.add, 2)
_running("nancumprod", np.multiply, 2)


def _inclusive(name: str, plain: Any) -> None:
    """Enter the rule of the array API's running sum or product: as `plain`."""

    def cumulative(
        x: Any, /, *, axis: Any = None, dtype: Any = None, out: Any = None, include_initial: bool = False
    ) -> Any:
        _, shape = described(x)
        if axis is None:
            if len(shape) != 1:
                raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
            axis = 0
        found = TABLE[plain](x, axis=axis, dtype=dtype)
        if not include_initial:
            return into(out, found.shape, found.dtype)
        axis = axis_of(axis, len(shape))
        return into(out, tuple(length + (k == axis) for k, length in enumerate(shape)), found.dtype)

    rule(name)(cumulative)


_inclusive("cumulative_sum", np.cumsum)
_inclusive("cumulative_prod", np.cumprod)
for _name in ("nansum", "nanprod", "nanmin", "nanmax"):
    _without_nan(_name)


@rule("diff")
def diff(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """numpy.diff: a subtraction for each pair of neighbours, n times."""
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n!r}")
    a = operand(a)
    if a.ndim == 0:
        raise ValueError("diff requires input that is at least one dimensional")
    axis = axis_of(axis, a.ndim)
    parts = []
    for part, place in ((prepend, 0), (a, 1), (append, 2)):
        if part is not None:
            part = operand(part)
            if place != 1 and part.ndim == 0:
                part = np.broadcast_to(part, tuple(1 if k == axis else length for k, length in enumerate(a.shape)))
            parts.append(part)
    if len(parts) > 1:
        a = np.concatenate(parts, axis)
    for _ in range(n):
        before = (slice(None),) * axis
        a = (np.not_equal if a.dtype == _BOOL else np.subtract)(
            a[(*before, slice(1, None))], a[(*before, slice(None, -1))]
        )
    return a


@rule("ediff1d")
def ediff1d(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    """numpy.ediff1d: a subtraction for each pair of neighbours."""
    flat = operand(ary).reshape(-1)
    length = max(flat.size - 1, 0) + sum(operand(end).size for end in (to_end, to_begin) if end is not None)
    counter.flops("elementwise", length)
    return result((length,), flat.dtype)


@rule("gradient")
def gradient(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """numpy.gradient: 5 flops for each element and axis; 10 along an axis with given coordinates."""
    f = operand(f)
    axes = tuple(range(f.ndim)) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    axes = tuple(axis_of(each, f.ndim) for each in axes)
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError("invalid number of arguments")
    if any(f.shape[each] < edge_order + 1 for each in axes):
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least "
            "(edge_order + 1) elements are required."
        )
    spacing = varargs if len(varargs) == len(axes) else varargs * len(axes) or (1.0,) * len(axes)
    found = f.dtype if f.dtype.kind in "fc" else np.dtype(float)
    parts = []
    for each in spacing:
        counter.flops("elementwise", (5 if operand(each).ndim == 0 else 10) * f.size)
        parts.append(result(f.shape, found))
    return parts[0] if len(parts) == 1 else tuple(parts)


@rule("trapezoid")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """numpy.trapezoid: a sum of neighbours, a product and a sum for each interval."""
    y = operand(y)
    axis = axis_of(axis, y.ndim)
    before = (slice(None),) * axis
    if x is None:
        width = dx
    else:
        width = np.diff(x) if operand(x).ndim == 1 else np.diff(x, axis=axis)
        if operand(x).ndim == 1:
            width = width.reshape((-1,) + (1,) * (y.ndim - axis - 1))
    return (width * (y[(*before, slice(1, None))] + y[(*before, slice(None, -1))]) / 2.0).sum(axis)


# ---------------------------------------------------------------------------- order statistics, averages


def _order_statistic(name: str) -> None:
    """Enter the rule of a median or quantile: a partition (introselect visits each element a few times: 4)."""
    function = getattr(np, name)
    takes_q = not name.endswith("median")

    def statistic(a: Any, *args: Any, **kwargs: Any) -> Any:
        names = [*(["q"] if takes_q else []), "axis", "out"]
        given = dict(zip(names, args, strict=False), **kwargs)
        key, shape = described(a)
        operands: list[Any] = [key]
        leading: Shape = ()
        if takes_q:
            quantiles = operand(given["q"])
            leading = quantiles.shape
            operands.append((quantiles.dtype, len(leading)) if leading else described(given["q"])[0])
        left = _reduced(shape, given.get("axis"), bool(given.get("keepdims", False)))
        counter.flops("blas1", 4 * prod(shape))
        return into(given.get("out"), leading + left, outcome(function, *operands))

    rule(name)(statistic)


for _name in ("median", "nanmedian", "quantile", "percentile", "nanquantile", "nanpercentile"):
    _order_statistic(_name)


@rule("average")
def average(a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False) -> Any:
    """numpy.average: a mean; with weights a product and two sums an element, and a division a result."""
    a = operand(a)
    if weights is None:
        mean = np.mean(a, axis=axis, keepdims=keepdims)
        return (mean, result(mean.shape, mean.dtype)) if returned else mean
    weights = operand(weights)
    if weights.shape != a.shape:
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        axes = axis if isinstance(axis, tuple) else (axis,)
        if weights.shape != tuple(a.shape[axis_of(each, a.ndim)] for each in axes):
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    found = _weighted(a.dtype, weights.dtype)
    left = _reduced(a.shape, axis, bool(keepdims))
    counter.flops("blas1", complexity(found) * (3 * a.size + WEIGHTS["divide"] * prod(left)))
    mean = result(left, found)
    return (mean, result(left, found)) if returned else mean


def _weighted(of: DType, by: DType) -> DType:
    """Return the dtype of a weighted average."""
    return np.asarray(np.average(representative(of), weights=representative(by))).dtype


@rule("cov")
def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: Any = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """numpy.cov: centres the variables, then multiplies the matrix by its transpose."""
    m = operand(m)
    if m.ndim > 2 or (y is not None and operand(y).ndim > 2):
        raise ValueError("m has more than 2 dimensions")
    variables, observations = _variables(m, rowvar)
    types = [m.dtype]
    if y is not None:
        y = operand(y)
        more, others = _variables(y, rowvar)
        if others != observations:
            raise ValueError("all the input array dimensions except for the concatenation axis must match exactly")
        variables += more
        types.append(y.dtype)
    found = _keyed(dtype) or np.result_type(*types, np.float64)
    size = variables * observations
    counter.flops("blas1", 2 * size * complexity(found))
    counter.flops(
        product_kernel(variables, variables, found, observations),
        product(variables, observations, variables) * complexity(found),
    )
    return owned(() if variables == 1 else (variables, variables), found)


def _variables(m: Any, rowvar: bool) -> tuple[int, int]:
    """Return how many variables and observations a matrix holds."""
    if m.ndim < 2:
        return 1, m.size
    return (m.shape[0], m.shape[1]) if rowvar or m.shape[0] == 1 else (m.shape[1], m.shape[0])


@rule("corrcoef")
def corrcoef(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    """numpy.corrcoef: cov, and two divisions for each of its elements."""
    c = cov(x, y, rowvar, dtype=dtype)
    counter.flops("elementwise", 2 * WEIGHTS["divide"] * c.size)
    return c


# ------------------------------------------------------------------------ looking at shape and type alone


@rule("shape")
def shape_rule(a: Any) -> Any:
    """numpy.shape: free."""
    return described(a)[1]


@rule("ndim")
def ndim(a: Any) -> int:
    """numpy.ndim: free."""
    return len(described(a)[1])


@rule("size")
def size_rule(a: Any, axis: Any = None) -> int:
    """numpy.size: free."""
    shape = described(a)[1]
    return prod(shape) if axis is None else prod(shape[axis_of(k, len(shape))] for k in _as_tuple(axis))


def _as_tuple(axis: Any) -> tuple[Any, ...]:
    """Return an axis, or a tuple of them, as a tuple."""
    return axis if isinstance(axis, tuple) else (axis,)


def _of_types(name: str) -> None:
    """Enter the rule of a function that depends on dtypes alone."""
    function = getattr(np, name)

    def of_types(*args: Any, **kwargs: Any) -> Any:
        return function(*[probe((1,), arg.dtype) if type(arg) is AbstractArray else arg for arg in args], **kwargs)

    rule(name)(of_types)


for _name in ("result_type", "can_cast", "min_scalar_type", "iscomplexobj", "isrealobj", "common_type"):
    _of_types(_name)


@rule("may_share_memory", "shares_memory")
def share(a: Any, b: Any, max_work: Any = None) -> bool:
    """numpy.may_share_memory, numpy.shares_memory: true if both arrays have the same memory block."""
    return type(a) is type(b) is AbstractArray and a._block is not None and a._block is b._block


@rule("array_repr", "array_str", "array2string")
def text(a: Any, *args: Any, **kwargs: Any) -> str:
    """numpy.array_repr, numpy.array_str, numpy.array2string: the placeholder."""
    return repr(a)
