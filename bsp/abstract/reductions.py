"""Reductions and running sums: one visit to every element, class blas1.

The docstring of a rule gives the function of NumPy and what it counts.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from bsp.abstract.array import AbstractArray, into, result, scalar
from bsp.abstract.elementwise import check_empty, described, operand, reduce
from bsp.abstract.probe import DType, Shape, axis_of, broadcast, outcome, probe, reduced
from bsp.abstract.table import WEIGHTS, complexity, rule
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


@rule("argmin", "argmax")
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


# ------------------------------------------------------------------------ looking at shape and type alone


def _of_types(name: str) -> None:
    """Enter the rule of a function that depends on dtypes alone."""
    function = getattr(np, name)

    def of_types(*args: Any, **kwargs: Any) -> Any:
        return function(*[probe((1,), arg.dtype) if type(arg) is AbstractArray else arg for arg in args], **kwargs)

    rule(name)(of_types)


for _name in ("result_type", "can_cast", "min_scalar_type"):
    _of_types(_name)


@rule("may_share_memory", "shares_memory")
def share(a: Any, b: Any, max_work: Any = None) -> bool:
    """numpy.may_share_memory, numpy.shares_memory: true if both arrays have the same memory block."""
    return type(a) is type(b) is AbstractArray and a._block is not None and a._block is b._block


@rule("array_repr", "array_str", "array2string")
def text(a: Any, *args: Any, **kwargs: Any) -> str:
    """numpy.array_repr, numpy.array_str, numpy.array2string: the placeholder."""
    return repr(a)
