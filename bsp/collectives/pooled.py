"""Reductions and scans of what every process gives to all: combined from the element's pool, and their short way.

An iterative program reduces a number or two in every superstep.  For that it would be most of the time to describe the
call, to choose its algorithm and to make the objects of a collective of many supersteps, so a process keeps what its
calls have in common (`KnownReduction`) where the algorithm is the one superstep in which everybody gives to all.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from bsp.collectives.steps import give_to_all, pickled
from bsp.engine.task import Call
from bsp.errors import ShapeError
from bsp.transport.compiled import prefixes_of_plain, tree_of_plain, tree_of_small
from bsp.values.operations import Prefixes, Reduction, combine, keeps
from bsp.values.payload import PLAIN, array_head, dumps, is_array, is_small, loads
from bsp.values.records import ARRAY, address_of

if TYPE_CHECKING:
    from bsp.cost.choice import Choice
    from bsp.engine.pool import Pool
    from bsp.processes import Process


def pool_combined(pool: Pool, op: Reduction, count: int, owns: bool, proc: Process, text: str) -> Any:
    """Return the values of the first `count` processes combined in the tree of D3, of those that all gave to all.

    owns : whether arrays in the pool are this process's own.
    text : the call, for the ShapeError that is raised if they do not combine.
    """
    if pool.shared:
        result = pool.once(count, lambda: _in_common(pool, op, count))
        if result is not None:
            return result.copy() if isinstance(result, np.ndarray) and not owns else result
    given = pool.packed.values() if count == len(pool.packed) else islice(pool.packed.values(), count)
    values = [loads(part) if isinstance(part, bytes) else part if owns else part.copy() for part in given]
    try:
        return combine(values, op)
    except (TypeError, ValueError, OverflowError) as wrong:
        raise no_fit(proc, text, wrong) from wrong


def _in_common(pool: Pool, op: Reduction, count: int) -> Any:
    """Return the first values of a pool combined for all processes here, or None where some could tell.

    Nobody can with arrays and values that cannot change, an operation of NumPy's, and no warning.
    """
    if op.ufunc is None:  # a function of the program may change its arguments
        return None
    try:
        with np.errstate(all="raise"):
            tree = pool.once("tree", lambda: _tree_of(pool, op))
            return None if tree is None else tree.first(count)
    except (ArithmeticError, TypeError, ValueError):
        return None


def _tree_of(pool: Pool, op: Reduction) -> Prefixes | None:
    """Return the tree of D3 over all values of a pool, or None if they are no arrays and some can change."""
    values = [loads(part) if isinstance(part, bytes) else part for part in pool.packed.values()]
    common = {*map(type, values)} == {np.ndarray} or all(map(_is_fixed, values))
    return Prefixes(values, op) if common else None


def _is_fixed(value: Any) -> bool:
    """Return whether a value cannot change, and neither can what is in it."""
    kind = type(value)
    return kind in PLAIN or issubclass(kind, (np.number, np.bool_)) or (kind is tuple and all(map(_is_fixed, value)))


def alike(value: Any, op: str) -> Any:
    """Return what calls of a collective with one operation have in common; None where there is nothing.

    All values that are no arrays; of small arrays those of one dtype and shape, by which algorithms are chosen.
    """
    if type(value) is np.ndarray:
        return (op, value.dtype.num, value.shape) if is_small(value) else None
    return None if is_array(value) else op


class KnownReduction:
    """All calls of a collective on one process that are `alike`: a superstep each."""

    __slots__ = (
        "_address", "_call", "_channel", "_choice", "_element", "_head", "_op",
        "_proc", "_scalar", "_small", "_stop", "_task",
    )  # fmt: skip

    def __init__(self, proc: Process, call: Call, op: Reduction, choice: Choice, value: Any) -> None:
        """Keep what the calls have in common: their boundary, their operation, and the choice of their algorithm.

        value : that of the first call.
        """
        self._proc, self._call, self._op, self._choice = proc, call, op, choice
        self._head = array_head(value.dtype.num, value.shape) if is_array(value) else None
        self._small = _same_form(value, op) if self._head is not None and proc.nprocs > 1 else None
        self._task = proc._task
        self._element = proc._task.element
        self._channel = proc._task.contexts[1]
        self._address, self._stop = address_of(self._channel.id, 0, proc.pid), proc.nprocs
        # what the operation does to Python's numbers; None if it is the program's own, or there is nothing to combine
        known = op.ufunc is not None and proc.nprocs > 1
        self._scalar = op.scalar if known else None

    def all(self, value: Any) -> Any:
        """Return the values of all processes combined, on every process."""
        pool, count = self._given(value, 0), self._proc.nprocs
        if self._scalar is not None and type(value) in PLAIN:
            if pool.plain is None:
                pool.plain = tree_of_plain(pool.packed, self._scalar)
            if pool.plain is not NotImplemented:
                return pool.plain
        if self._small is not None and not pool.shared:
            found = tree_of_small(pool.given, *self._small)
            if found is not NotImplemented:
                return found
        return self._combined(pool, count)

    def first(self, value: Any, count: int) -> Any:
        """Return the values of the first `count` processes combined: of those before this one, or with this one."""
        pool = self._given(value, self._proc.pid)
        if count and self._scalar is not None and type(value) in PLAIN:
            least = max(1, self._element.tasks[0].pid)  # that a process here asks for
            if pool.plain is None:
                pool.plain = prefixes_of_plain(pool.packed, self._scalar, least)
            if pool.plain is not NotImplemented:
                return pool.plain[count - least] if count > 1 else self._op.alone(pool.plain[0])
        return self._combined(pool, count) if count else self._op.identity_like(value)

    def _given(self, value: Any, first: int) -> Pool:
        """Give a value to the processes from `first` on, end the superstep, and return what everybody has given."""
        task, call = self._task, self._call
        if self._head is not None:  # as `give_to_all`, without its calls
            record = (ARRAY, first, self._address, self._stop, self._head + value.tobytes(), None)
            self._channel.outbox.effects.append(record)
        else:
            packed = dumps(value) if type(value) in PLAIN else pickled(value, self._proc, call.text)
            give_to_all(self._channel, self._proc.pid, first, self._stop, packed, lent=False)
        task.choice = task.chosen = self._choice
        task.boundary(call)
        pool = self._element.pool
        assert pool is not None
        return pool

    def _combined(self, pool: Pool, count: int) -> Any:
        """Return the first `count` values of a pool combined."""
        return pool_combined(pool, self._op, count, pool.take(), self._proc, self._call.text)


def _same_form(array: np.ndarray, op: Reduction) -> tuple[np.ufunc, bytes, tuple[int, ...], np.dtype[Any]] | None:
    """Return how `tree_of_small` combines small arrays like this one, or None if their sum has another form."""
    dtype = array.dtype
    if op.ufunc is None or not array.ndim or not keeps(op.name, dtype):
        return None
    result = op.ufunc(np.empty(0, dtype), np.empty(0, dtype)).dtype
    return (op.ufunc, array_head(dtype.num, array.shape), array.shape, dtype) if result is dtype else None


def no_fit(proc: Process, text: str, wrong: Exception) -> ShapeError:
    """Return the error for values that do not combine."""
    return ShapeError(f"{text}: the values do not combine: {wrong}{proc._place()}")
