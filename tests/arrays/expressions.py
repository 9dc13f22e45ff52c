"""Random programs over arrays: one list of steps that NumPy and bsp.arrays both carry out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from bsp.arrays.execution import world
from bsp.arrays.expressions import layout

PROCESSES = (1, 2, 3, 5, 8)
Step = tuple[str, Any]


@contextlib.contextmanager
def nothing_replicated() -> Iterator[None]:
    """Inside the block small arrays are dealt too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "REPLICATED_SIZE", 0)
        for cache in (layout.automatic, layout.asked):
            cache.cache_clear()
        world._plans.clear()
        try:
            yield
        finally:
            for cache in (layout.automatic, layout.asked):
                cache.cache_clear()
            world._plans.clear()


@st.composite
def shapes(draw: Any, most: int = 3) -> tuple[int, ...]:
    """Ragged and short ones, axes of length 0 and 1 among them."""
    ndim = draw(st.integers(0, most))
    return tuple(draw(st.sampled_from((0, 1, 2, 3, 5, 7, 11, 13) if k else (1, 2, 5, 7, 13, 17))) for k in range(ndim))


@st.composite
def grids(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Blocks along each axis; sometimes more than there are elements, sometimes as the library likes."""
    if draw(st.booleans()):
        return None
    return tuple(draw(st.sampled_from((1, 1, 2, 3, 4))) for _ in shape)


def factored(size: int, seed: int) -> tuple[int, ...]:
    """A shape of so many elements."""
    rng = np.random.default_rng(seed)
    shape = [size]
    for _ in range(2):
        divisors = [d for d in range(1, shape[-1] + 1) if shape[-1] and shape[-1] % d == 0]
        if divisors:
            chosen = int(rng.choice(divisors))
            shape[-1:] = [chosen, shape[-1] // chosen]
    return tuple(shape)


@st.composite
def programs(draw: Any) -> tuple[int, tuple[int, ...], tuple[int, ...] | None, list[Step]]:
    """(p, shape, grid, steps)."""
    shape = draw(shapes())
    steps = draw(
        st.lists(
            st.tuples(
                st.sampled_from(
                    [
                        "negative",
                        "absolute",
                        "sqrt",
                        "row",
                        "column",
                        "scalar",
                        "transpose",
                        "slice",
                        "flip",
                        "reshape",
                        "expand",
                        "sum",
                        "mean",
                        "max",
                        "std",
                        "cumsum",
                        "gram",
                        "concat",
                        "roll",
                        "rechunk",
                        "assign",
                        "argmin",
                        "any",
                        "persist",
                        "stack",
                        "where",
                    ]
                ),
                st.integers(0, 1 << 16),
            ),
            min_size=1,
            max_size=6,
        )
    )
    return draw(st.sampled_from(PROCESSES)), shape, draw(grids(shape)), steps


def applied(xp: Any, x: Any, step: Step) -> Any:
    """One step, the same for NumPy (`xp` is numpy) and for bsp.arrays."""
    name, seed = step
    rng = np.random.default_rng(seed)
    axis = int(rng.integers(0, x.ndim)) if x.ndim else None
    keep = bool(rng.integers(0, 2))
    if name == "negative":
        return -x if x.dtype != bool else x
    if name == "absolute":
        return abs(x) * 1.5 + 0.25
    if name == "sqrt":
        return xp.sqrt(abs(x))
    if name == "row":
        return x - xp.asarray(rng.normal(size=x.shape[-1:]))
    if name == "column":
        return x * xp.asarray(rng.normal(size=(*x.shape[:1], *[1] * (x.ndim - 1))))
    if name == "scalar":
        return 2 * x + x
    if name == "transpose":
        return xp.permute_dims(x, tuple(int(k) for k in rng.permutation(x.ndim)))
    if name == "slice":
        index = tuple(_span(rng, length) for length in x.shape)
        return x[index]
    if name == "flip":
        return xp.flip(x, axis=axis)
    if name == "reshape":
        return xp.reshape(x, factored(prod(x.shape), seed))
    if name == "expand":
        return xp.expand_dims(x, axis=0) if x.ndim < 4 else x
    if name in ("sum", "mean", "std", "any"):
        if name in ("mean", "std") and (prod(x.shape) == 0):
            return x
        return getattr(xp, name)(x, axis=axis, keepdims=keep)
    if name in ("max", "argmin"):
        if prod(x.shape) == 0 or not x.ndim:
            return x
        return getattr(xp, name)(x, axis=axis, keepdims=keep)
    if name == "cumsum":
        return xp.cumsum(x, axis=axis or 0) if x.ndim else x
    if name == "gram":
        return xp.matmul(xp.matrix_transpose(x), x) if x.ndim >= 2 and x.dtype != bool else x
    if name == "concat":
        return xp.concat([x, x * 2], axis=axis) if x.ndim else x
    if name == "roll":
        return xp.roll(x, int(rng.integers(-9, 9)), axis=axis)
    if name == "assign":
        return _assigned(xp, x, rng)
    if name == "stack":
        return xp.stack([x, x + 1], axis=0) if x.ndim < 4 else x
    if name == "where":
        return xp.where(x > 0, x, 1 - x * 1)
    if name == "rechunk" and xp is not np:
        return xp.rechunk(x, grid=tuple(int(rng.integers(1, 4)) for _ in x.shape))
    if name == "persist" and xp is not np:
        return x.persist()
    return x


def _span(rng: np.random.Generator, length: int) -> Any:
    kind = rng.integers(0, 4)
    if kind == 0 and length:
        return int(rng.integers(-length, length))
    if kind == 1:
        return slice(None)
    start, stop = sorted(int(each) for each in rng.integers(0, length + 1, 2))
    step = int(rng.integers(1, 4))
    return slice(start, stop, step) if kind == 2 else slice(stop, None if start == 0 else start - 1, -step)


def _assigned(xp: Any, x: Any, rng: np.random.Generator) -> Any:
    found = xp.asarray(x + 0 if x.dtype != bool else xp.where(x, x, x))
    index = tuple(_span(rng, length) for length in x.shape)
    found[index] = 1
    return found
