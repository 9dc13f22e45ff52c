"""Functions of whole lines: each line along an axis is gathered on one process; the other axes stay dealt.

Lazy: nodes of an expression.  Cost: one total exchange, size/p words, if the axis is cut; else none.  A single line
has no other axes to deal: it is gathered on every process, with a warning if it is large (see `gathering`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import expand_dims, moveaxis
from bsp.arrays.array import Array, wrap
from bsp.arrays.expressions.graph import Along, DType, Node, kind_of
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.gathering import is_everywhere, permitted
from bsp.arrays.kernels.shared_errors import current
from bsp.arrays.typing import ArrayLike
from bsp.values.payload import is_abstract

__all__ = ["apply_along_axis", "apply_over_axes"]


class LineFunction:
    """A function that `Along` calls with arrays (..., n), one for each argument; it returns one array (..., *core)."""

    fallible = True

    def __init__(self, name: str, call: Callable[..., Any], work: float = 1.0) -> None:
        self.name = name
        self.call = call
        self.work = work  # operations for each element


def of_lines(how: LineFunction, arrays: Sequence[Any], axis: int, core: Shape, dtype: DType) -> Array:
    """Apply `how` to the lines of arrays along an axis; other axes broadcast.  Lazy.  The result has `core` last."""
    given = [wrap(build.strong(asarray(each)._node)) for each in arrays]
    lines = [moveaxis(each, axis, -1) for each in given]
    outer = np.broadcast_shapes(*[each.shape[:-1] for each in lines])
    if prod(outer) == 1:
        size = sum(each.nbytes for each in given if not is_everywhere(each))
        permitted(f"{how.name} of one line", size, "several lines are dealt")
    nodes = tuple(build.broadcast(each._node, (*outer, each.shape[-1])) for each in lines)
    return wrap(Node(Along(how, (1,) * len(nodes), core), nodes, kind_of((*outer, *core), dtype)))


def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: ArrayLike, *args: Any, **kwargs: Any) -> Array:
    """Return `func1d(line, *args, **kwargs)` for each line along an axis; its result, of any shape, replaces that axis.

    func1d : takes NumPy vectors and must return the same on every process; the first line's result sets shape and
        dtype.
    Collective: the first line is brought to every process; the rest is lazy (see the module).
    """
    array = asarray(arr)
    place = build.normal_axis(axis, array.ndim)
    rest = [length for k, length in enumerate(array.shape) if k != place]
    if not prod(rest):
        raise ValueError("Cannot apply_along_axis when any iteration dimensions are 0")
    first = array[tuple(slice(None) if k == place else 0 for k in range(array.ndim))]
    line = first.compute()
    sample = func1d(line.copy(), *args, **kwargs)
    if not is_abstract(sample):
        sample = np.asarray(sample)

    def call(lines: np.ndarray) -> np.ndarray:
        found = np.empty((*lines.shape[:-1], *sample.shape), sample.dtype)
        for at in np.ndindex(*lines.shape[:-1]):
            current.piece = tuple(slice(k, k + 1) for k in at)
            found[at] = func1d(lines[at], *args, **kwargs)
        return found

    name = f"apply_along_axis {getattr(func1d, '__name__', 'a function')}"
    found = of_lines(LineFunction(name, call, 16.0), [array], place, sample.shape, sample.dtype)
    places = range(found.ndim - sample.ndim, found.ndim)
    return moveaxis(found, tuple(places), tuple(range(place, place + sample.ndim)))


def apply_over_axes(func: Callable[..., Any], a: ArrayLike, axes: int | Sequence[int]) -> Array:
    """Apply `func(a, axis)` for one axis after the other; an axis that it removes is restored with length 1."""
    array = asarray(a)
    ndim = array.ndim
    for axis in np.atleast_1d(axes).tolist():
        found = asarray(func(array, axis % ndim if ndim and axis < 0 else axis))
        if found.ndim != ndim:
            found = expand_dims(found, axis=axis)
            if found.ndim != ndim:
                raise ValueError("function is not returning an array of the correct shape")
        array = found
    return array
