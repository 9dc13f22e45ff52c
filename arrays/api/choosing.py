"""One of several values for each element: select, choose, piecewise.  Lazy, but for what piecewise's functions do."""

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
from bsp.arrays.execution.world import world


def _several(given: Any) -> list[Any]:
    """A sequence's members; of an array the slices along its first axis."""
    return list(unstack(given)) if isinstance(given, Array) and given.ndim else list(given)


def _first_of(cases: Sequence[tuple[Any, Any]], default: Any, dtype: Any, shape: Any) -> Array:
    """Of each element the value of the first case whose condition holds."""
    found = astype(wrap(build.strong(build.operand(default))), dtype)
    for condition, value in reversed(cases):
        found = where(condition, astype(wrap(build.strong(build.operand(value))), dtype), found)
    return wrap(build.broadcast(found._node, shape))


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Array:
    """Of each element the choice of the first condition that holds, else `default`.  Lazy: as many `where`."""
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


def choose(a: Any, choices: Any, out: Any = None, mode: str = "raise") -> Array:
    """Of each element the choice that its integer names.  Lazy: as many `where` as choices.

    mode : what is done with integers that name none: "raise" (a collective: it looks at them), "wrap", "clip".
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
    if mode == "raise":
        wrong = reductions.any((at < 0) | (at >= count))
        if not world().abstract and bool(wrong):
            raise ValueError("invalid entry in choice array")
    at = at % count if mode == "wrap" else at.clip(0, count - 1)
    kind = np.result_type(*[each.dtype for each in values])
    shape = np.broadcast_shapes(at.shape, *[each.shape for each in values])
    cases = [(at == k, value) for k, value in enumerate(values[:-1])]
    return stored(_first_of(cases, values[-1], kind, shape), out)


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Array:
    """Of each element what the last function whose condition holds makes of those where it does, or the number it is.

    Cost: for each function x[condition], which stays in place, and its assignment; for a number nothing.
    """
    array = asarray(x)
    functions = _several(funclist)
    if isinstance(condlist, (Array, np.ndarray)):
        alone = condlist.ndim == 0 or (condlist.ndim == 1 and array.ndim > 0)
    else:
        alone = np.isscalar(condlist) or (array.ndim > 0 and not isinstance(condlist[0], (list, np.ndarray, Array)))
    conditions = [condlist] if alone else _several(condlist)
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


FUNCTIONS: dict[str, Callable[..., Any]] = {each.__name__: each for each in (select, choose, piecewise)}
