"""Drawing positions with the chances that a program gives: the checks, and draws without replacement."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.array import Array, compute, wrap
from bsp.arrays.execution.world import World
from bsp.arrays.expressions.layout import replicated
from bsp.arrays.procedures.operands import computed, known, layout_at, made_of
from bsp.arrays.random.draws import FLOAT, drawn_array
from bsp.arrays.random.tiles import Box, Streams, Tiles
from bsp.arrays.sorting.quantiles import topk
from bsp.arrays.sorting.sorting import argsort
from bsp.declared import Reported, declares
from bsp.values.payload import as_array


def checked_chances(p: Any, count: int) -> Any:
    """Check probabilities as NumPy does; return them as an Array if they are dealt, else as a NumPy array.

    Collective for an Array: dealt probabilities take one superstep.
    """
    p = p if isinstance(p, Array) else as_array(p)
    if not np.can_cast(p.dtype, FLOAT):
        raise TypeError(f"choice: p has dtype {p.dtype}, which does not cast safely to float64")
    if isinstance(p, Array):
        (node,) = computed(build.cast(p._node, FLOAT))
        whole = known(node)
        chances: Any = wrap(node) if whole is None else whole
    else:
        chances = p.astype(float, copy=False)
    if chances.shape != (count,):
        raise ValueError("a and p must have same size")
    _check_chances(chances)
    return chances


def _good_and_total(chances: Any) -> tuple[Any, Any]:
    """Return whether all chances are finite and not negative, and their sum.  Collective, one plan, if dealt."""
    good, total = ((chances >= 0) & (chances < np.inf)).all(), chances.sum()
    if isinstance(chances, Array):
        good, total = compute(good, total)
    return good, total


def _check_chances_cost(costs: Reported, chances: Any) -> None:
    """Declare the cost of `_check_chances`."""
    _good_and_total(chances)


@declares(_check_chances_cost)
def _check_chances(chances: Any) -> None:
    """Raise NumPy's ValueError unless all chances are at least 0 and their sum is 1."""
    good, total = _good_and_total(chances)
    if not good:
        raise ValueError("Probabilities are not non-negative")
    if abs(total - 1) > max(np.sqrt(np.finfo(float).eps), 0):
        raise ValueError("Probabilities do not sum to 1.  See Notes section of docstring for more information.")


def _possible_cost(costs: Reported, chances: Any, many: int) -> None:
    """Declare the cost of `_check_possible`."""
    possible = (chances > 0).sum()
    if isinstance(possible, Array):
        possible.compute()


@declares(_possible_cost)
def _check_possible(chances: Any, many: int) -> None:
    """Raise ValueError if fewer than `many` chances are positive.  Collective if they are dealt."""
    possible = (chances > 0).sum()
    if (possible.compute() if isinstance(possible, Array) else possible) < many:
        raise ValueError("Fewer non-zero entries in p than size")


@declares(lambda costs, numbers, chances: costs.memory(numbers.shape, FLOAT))
def _divided(numbers: np.ndarray, chances: np.ndarray) -> np.ndarray:
    """Return numbers divided by their chances; infinity where the chance is 0."""
    with np.errstate(over="ignore"):
        return np.asarray(np.divide(numbers, chances, out=np.full(chances.shape, np.inf), where=chances > 0))


def least_of(here: World, streams: Streams, chances: Any, many: int) -> Array:
    """Draw `many` positions without replacement: those of the least exponential numbers divided by chances, in order.

    Collective if the chances are dealt.
    """
    shape = chances.shape

    def draw(generator: np.random.Generator, spans: Box) -> Any:
        return generator.standard_exponential(tuple(high - low for low, high in spans))

    node = chances._node if isinstance(chances, Array) else build.from_whole(chances, replicated(shape))
    layout = layout_at(node)
    _check_possible(chances, many)
    drawn = drawn_array(here, FLOAT, layout, streams, draw, Tiles(shape))._node.value
    numbers = made_of(shape, FLOAT, layout, {at: _divided(drawn[at], block) for at, block in node.value.items()})
    if 2 * many * here.nprocs <= shape[0]:
        return topk(numbers, many, largest=False)[1]
    return argsort(numbers)[:many]
