"""Reductions of what every process gives to all: combined from the element's pool, and the short way of `allreduce`.

An iterative program reduces a number or two in every superstep.  For that it would be most of the time to describe the
call, to choose its algorithm and to make the objects of a collective of many supersteps, so a process keeps what its
calls have in common (`KnownReduction`) where the algorithm is the one superstep in which everybody gives to all.
"""

from __future__ import annotations

import pickle
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bsp.collectives.steps import give_to_all, pickled
from bsp.engine.task import Call
from bsp.errors import ShapeError
from bsp.values.operations import Prefixes, Reduction, combine

if TYPE_CHECKING:
    from bsp.cost.choice import Choice
    from bsp.engine.pool import Pool
    from bsp.processes import Process


def pool_combined(pool: Pool, op: Reduction, count: int, owns: bool) -> Any:
    """Return the values of the first `count` processes combined in the tree of D3, of those that all gave to all.

    owns : whether arrays in the pool are this process's own.
    Raises TypeError or ValueError if they do not combine.
    """
    if pool.shared:
        result = pool.once(count, lambda: _in_common(pool, op, count))
        if result is not None:
            return result.copy() if isinstance(result, np.ndarray) and not owns else result
    given = pool.packed.values() if count == len(pool.packed) else islice(pool.packed.values(), count)
    return combine(
        [pickle.loads(part) if isinstance(part, bytes) else part if owns else part.copy() for part in given], op
    )


def _in_common(pool: Pool, op: Reduction, count: int) -> Any:
    """Return the first values of a pool combined for all processes here, or None where some could tell.

    Nobody can with numbers and arrays, an operation of NumPy's, and no warning.
    """
    if op.ufunc is None:  # a function of the program may change its arguments
        return None
    try:
        with np.errstate(all="raise"):
            tree = pool.once("tree", lambda: _tree_of(pool, op))
            return None if tree is None else tree.first(count)
    except (FloatingPointError, TypeError, ValueError):
        return None


def _tree_of(pool: Pool, op: Reduction) -> Prefixes | None:
    """Return the tree of D3 over all values of a pool, or None if they are no numbers and no arrays."""
    values = [pickle.loads(part) if isinstance(part, bytes) else part for part in pool.packed.values()]
    kinds = set(map(type, values))
    plain = kinds == {np.ndarray} or all(kind in _NUMBERS or issubclass(kind, (np.number, np.bool_)) for kind in kinds)
    return Prefixes(values, op) if plain else None


_NUMBERS = frozenset({bool, int, float, complex})


class KnownReduction(NamedTuple):
    """The common part of all calls of `allreduce` with one operation, on one process, for values that are no arrays."""

    call: Call
    op: Reduction
    choice: Choice


def allreduced(proc: Process, value: Any, known: KnownReduction) -> Any:
    """Return all values combined, on every process: `allreduce` in one superstep."""
    call, op, choice = known
    task = proc._task
    give_to_all(task.contexts[1], proc.pid, 0, proc.nprocs, pickled(value, proc, call.text), lent=False)
    task.choice = task.chosen = choice
    task.boundary(call)
    pool = task.element.pool
    assert pool is not None
    try:
        return pool_combined(pool, op, proc.nprocs, pool.take())
    except (TypeError, ValueError) as wrong:
        raise no_fit(proc, call.text, wrong) from wrong


def no_fit(proc: Process, text: str, wrong: Exception) -> ShapeError:
    """Return the error for values that do not combine."""
    return ShapeError(f"{text}: the values do not combine: {wrong}{proc._place()}")
