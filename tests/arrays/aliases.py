"""Random programs of views and writes: one list of steps that NumPy and bsp.arrays both carry out."""

from __future__ import annotations

import operator
from math import prod
from typing import Any

import numpy as np
from expressions import PROCESSES, _span, factored, grids, shapes
from hypothesis import strategies as st

VIEWS = (
    "index", "index", "index", "transpose", "swap", "move", "reverse", "reshape", "reshape", "ravel", "expand",
    "squeeze", "flip", "turn", "diagonal", "broadcast", "real", "imag", "part", "row", "deep", "stack", "same", "lone",
)  # fmt: skip
WRITES = ("assign", "assign", "part", "add", "times", "other", "out", "masked", "picked", "put", "real", "whole", "nan")
OTHERS = ("copy", "arithmetic", "forget", "forget", "read", "persist", "persist")
Step = tuple[str, str, int]


@st.composite
def programs(draw: Any) -> tuple[int, list[tuple[tuple[int, ...], Any, bool]], list[Step]]:
    """(p, arrays as (shape, grid, complex), steps)."""
    arrays = []
    for _ in range(draw(st.integers(1, 2))):
        shape = draw(shapes())
        arrays.append((shape, draw(grids(shape)), draw(st.booleans())))
    step = st.one_of(
        st.tuples(st.just("view"), st.sampled_from(VIEWS), st.integers(0, 1 << 16)),
        st.tuples(st.just("write"), st.sampled_from(WRITES), st.integers(0, 1 << 16)),
        st.tuples(st.just("other"), st.sampled_from(OTHERS), st.integers(0, 1 << 16)),
    )
    return draw(st.sampled_from(PROCESSES)), arrays, draw(st.lists(step, min_size=2, max_size=14))


def start(shape: tuple[int, ...], is_complex: bool) -> np.ndarray:
    """Small integers as numbers, so that sums are exact."""
    found = np.arange(1.0, 1.0 + prod(shape)).reshape(shape) % 97
    return np.array(found - 1j * found if is_complex else found)


def index(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Integers, slices both ways, new axes, an ellipsis."""
    parts: list[Any] = [_span(rng, length) for length in shape[: int(rng.integers(0, len(shape) + 1))]]
    if rng.integers(0, 2):
        parts.insert(int(rng.integers(0, len(parts) + 1)), None)
    if rng.integers(0, 2):
        parts.append(Ellipsis)
    return tuple(parts)


def viewed(xp: Any, x: Any, name: str, seed: int, is_number: bool) -> Any:
    """A view of x, or whatever NumPy makes of it; functions that give an array as it is are not asked about numbers."""
    rng = np.random.default_rng(seed)
    axis = int(rng.integers(-x.ndim, x.ndim)) if x.ndim else None
    other = int(rng.integers(-x.ndim, x.ndim)) if x.ndim else None
    if name == "index":
        return x[index(rng, x.shape)]
    if name == "transpose":
        return xp.permute_dims(x, tuple(int(k) for k in rng.permutation(x.ndim)))
    if name == "swap" and x.ndim:
        return x.swapaxes(axis, other)
    if name == "move" and x.ndim:
        return xp.moveaxis(x, axis, other)
    if name == "reverse":
        return x.mT if x.ndim >= 2 and seed % 2 else x.T
    if name == "reshape":
        return x.reshape(factored(prod(x.shape), seed))
    if name == "ravel":
        return x.ravel()
    if name == "expand" and x.ndim < 5:
        return xp.expand_dims(x, axis=0 if axis is None else axis)
    if name == "squeeze":
        return xp.squeeze(x)
    if name == "flip":
        return xp.flip(x, axis=axis)
    if name == "turn" and x.ndim >= 2:
        return xp.rot90(x, seed % 5)
    if name == "diagonal" and x.ndim >= 2:
        return x.diagonal(seed % 3 - 1)
    if name == "broadcast" and x.ndim < 5:
        return xp.broadcast_to(x, (2, *x.shape))
    if name == "real":
        return x.real
    if name == "imag" and x.dtype.kind == "c":
        return x.imag
    if name == "part" and x.ndim:
        return xp.array_split(x, 2 + seed % 2, axis=axis)[seed % 2]
    if name == "row" and x.ndim and x.shape[0]:
        return list(x)[seed % x.shape[0]]
    if name == "deep" and x.ndim <= 2:
        return xp.atleast_3d(x)
    if name == "stack" and x.ndim and x.shape[axis]:
        return xp.unstack(x, axis=axis)[seed % x.shape[axis]]
    if name == "same" and not is_number:
        same = (xp.asarray(x), x[...], xp.real(x), x.astype(x.dtype, copy=False), xp.broadcast_arrays(x, 1)[0])
        return same[seed % len(same)]
    if name == "lone":
        return xp.reshape(x, (1, *x.shape, 1))[0] if x.ndim < 4 else x
    return x


def written(xp: Any, x: Any, others: list[Any], name: str, seed: int, is_number: bool) -> Any:
    """What a name is bound to after a write through it; NumPy's numbers are written to by operators alone."""
    rng = np.random.default_rng(seed)
    number = float(rng.integers(-9, 9))
    values = rng.integers(-9, 9, x.shape).astype(float)
    if name == "add" or is_number:
        return operator.iadd(x, number)
    if name == "assign":
        x[index(rng, x.shape)] = number
    elif name == "part":
        key = index(rng, x.shape)
        x[key] += number
    elif name == "whole":
        x[...] = xp.asarray(values)
    elif name == "times":
        x *= xp.asarray(values % 2 * 2 - 1)
    elif name == "other":
        same = [each for each in others if each.shape == x.shape and each.dtype in (x.dtype, np.dtype(float))]
        other = same[seed % len(same)] if same else x
        if seed % 2:
            x[...] = other
        else:
            x += other
    elif name == "out":
        xp.add(x, number, out=x)
    elif name == "masked":
        x[xp.asarray(values) > 0] = number
    elif name == "picked" and x.ndim and x.shape[0]:
        x[[0, x.shape[0] - 1]] = number
    elif name == "put" and x.ndim and x.size:
        xp.put(x, np.array([seed % x.size, 0]), number)
    elif name == "real":
        x.real = number
    elif name == "nan":
        xp.nan_to_num(x, copy=False)
    return x
