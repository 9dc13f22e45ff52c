"""The cases of a check: sizes, numbers of processes, and inputs, the smallest first."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bsp.verify.polynomials import unknowns

Shape = tuple[str | int, ...]  # of an argument: names of sizes, and numbers
_LARGE = 2**20  # of random values, so that sums of products of a few stay exact
_SMALL = 2  # of random values that repeat


class Case(NamedTuple):
    """One size of each name, and a number of processes."""

    sizes: dict[str, int]
    nprocs: int

    def __str__(self) -> str:
        return ", ".join([*[f"{name} = {size}" for name, size in self.sizes.items()], f"p = {self.nprocs}"])


def ordered(
    sizes: Mapping[str, Sequence[int]], nprocs: Sequence[int], assume: Callable[..., bool] | None
) -> list[Case]:
    """Return all cases that satisfy `assume(nprocs=..., **sizes)`, those with the smallest sizes first."""
    names = list(sizes)
    found = [
        Case(dict(zip(names, each, strict=True)), p)
        for each in itertools.product(*[sizes[name] for name in names])
        for p in nprocs
    ]
    if assume is not None:
        found = [case for case in found if assume(nprocs=case.nprocs, **case.sizes)]
    return sorted(found, key=lambda case: (sum(case.sizes.values()) + case.nprocs, case.nprocs, *case.sizes.values()))


def shape_of(shape: Shape, sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return a shape whose names of sizes are replaced by sizes."""
    return tuple(sizes[each] if isinstance(each, str) else each for each in shape)


def symbolic(shapes: Sequence[Shape], case: Case) -> list[Any]:
    """Return inputs whose elements are unknowns."""
    return [unknowns(shape_of(shape, case.sizes), "xyzuvw"[k % 6]) for k, shape in enumerate(shapes)]


def numeric(shapes: Sequence[Shape], case: Case, count: int, seed: int) -> Iterator[list[Any]]:
    """Yield inputs of integers: the numbers from 1 on, so that each element is another; then random ones.

    Of these the second, fourth, ... are between -2 and 2, so that some are equal or 0.
    """
    for k in range(count):
        rng = np.random.default_rng([seed, k, case.nprocs, *case.sizes.values()])
        found, first = [], 1
        for shape in shapes:
            full = shape_of(shape, case.sizes)
            size = int(np.prod(full))
            most = _LARGE if k % 2 else _SMALL
            values = rng.integers(-most, most + 1, size) if k else np.arange(first, first + size)
            found.append(values.reshape(full))
            first += size
        yield found
