"""Functions that take one of several values for each element: select, choose, piecewise.

They are lazy, except for the calls of piecewise's functions and the check of choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api import reductions
from bsp.arrays.api.creation import asarray, zeros_like
from bsp.arrays.api.manipulation import unstack
from bsp.arrays.api.ufuncs import astype, stored, where
from bsp.arrays.array import Array, wrap
from bsp.arrays.gathering import decided
from bsp.arrays.typing import ArrayLike, Arrays, Mode, Scalar

__all__ = ["choose", "piecewise", "select"]


def _several(given: Any) -> list[Any]:
    """Return the members of a sequence; of an array, the slices along its first axis."""
    return list(unstack(given)) if isinstance(given, Array) and given.ndim else list(given)


def _first_of(cases: Sequence[tuple[Any, Any]], default: Any, dtype: Any, shape: Any) -> Array:
    """Return for each element the value of the first case whose condition holds."""
    found = astype(wrap(build.strong(build.operand(default))), dtype)
    for condition, value in reversed(cases):
        found = where(condition, astype(wrap(build.strong(build.operand(value))), dtype), found)
    return wrap(build.broadcast(found._node, shape))


def select(condlist: Arrays, choicelist: Arrays, default: Scalar | Array = 0) -> Array:
    """Return for each element the choice of the first condition that holds, else `default`.  Lazy: as many `where`."""
    conditions, choices = _several(condlist), _several(choicelist)
    if len(conditions) != len(choices):
        raise ValueError("list of cases must be same length as list of conditions")
    if not conditions:
        raise ValueError("select with an empty condition list is not possible")
    values = [each if type(each) in (int, float, complex) else asarray(each) for each in (*choices, default)]
    kind = np.result_type(*[each.dtype if isinstance(each, Array) else each for each in values])
    held = [asarray(each) for each in conditions]
    for k, each in enumerate(held):
        if each.dtype.kind != "b":
            raise TypeError(f"invalid entry {k} in condlist: should be boolean ndarray")
    shapes = [each.shape for each in held] + [np.shape(each) for each in values]
    shape = np.broadcast_shapes(*shapes)
    return _first_of(list(zip(held, values[:-1], strict=True)), values[-1], kind, shape)


def choose(a: ArrayLike, choices: Arrays, out: Array | None = None, mode: Mode | None = "raise") -> Array:
    """Return, for each element, the choice whose number it is.  Lazy: as many `where` as choices.

    mode : the treatment of integers out of range: "raise" (collective: their values are computed), "wrap", "clip".
    """
    if mode not in ("raise", "wrap", "clip", None):
        raise ValueError(f"clipmode must be one of 'clip', 'raise', or 'wrap' (got {mode!r})")
    values = [asarray(each) for each in _several(choices)]
    if not values:
        raise ValueError("0-length sequence.")
    at = asarray(a)
    if not np.can_cast(at.dtype, np.intp, "safe"):
        raise TypeError(f"Cannot cast array data from {at.dtype!r} to dtype('int64') according to the rule 'safe'")
    at, count = astype(at, np.intp), len(values)
    if mode == "raise" and decided(reductions.any((at < 0) | (at >= count)), usual=False):
        raise ValueError("invalid entry in choice array")
    at = at % count if mode == "wrap" else at.clip(0, count - 1)
    kind = np.result_type(*[each.dtype for each in values])
    shape = np.broadcast_shapes(at.shape, *[each.shape for each in values])
    cases = [(at == k, value) for k, value in enumerate(values[:-1])]
    return stored(_first_of(cases, values[-1], kind, shape), out)


def piecewise(
    x: ArrayLike, condlist: ArrayLike, funclist: Sequence[Callable[..., Any] | Scalar], *args: Any, **kw: Any
) -> Array:
    """Return for each element the value of the function, or the number, of the last condition that holds.

    condlist : one condition or several.   funclist : a function of vectors or a number for each condition; one more for
        the elements where no condition holds.   args, kw : further arguments of the functions.
    Cost: for each function, x[condition], which stays on its processes, and its assignment; for a number none.
    """
    array = asarray(x)
    functions = _several(funclist)
    cases: Any = condlist
    if isinstance(cases, (Array, np.ndarray)):
        alone = cases.ndim == 0 or (cases.ndim == 1 and array.ndim > 0)
    else:
        alone = np.isscalar(cases) or (array.ndim > 0 and not isinstance(cases[0], (list, np.ndarray, Array)))
    conditions = [cases] if alone else _several(cases)
    held = [astype(asarray(each), bool) for each in conditions]
    if len(held) == len(functions) - 1:
        otherwise = held[0]
        for each in held[1:]:
            otherwise = otherwise | each
        held.append(~otherwise)
    elif len(held) != len(functions):
        raise ValueError(f"with {len(held)} condition(s), either {len(held)} or {len(held) + 1} functions are expected")
    found = zeros_like(array)
    for condition, function in zip(held, functions, strict=True):
        if not callable(function):
            found[condition] = function
            continue
        values = array[condition]
        if values.size:
            found[condition] = function(values, *args, **kw)
    return found
