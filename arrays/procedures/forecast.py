"""What a procedure will cost, before it runs: it is rehearsed with shapes only, on all p processes, by this one.

A procedure looks at values on its way, so no plan made from coordinates says what it does: sort, unique, quantile, a
mask, a factorisation.  Where its sizes follow from values the rehearsal takes the largest, so words and bytes are
upper bounds, and it says so.  `forecast(ba.sort, x)` shows one; a memory limit asks for one of every procedure whose
arrays are not small beside the limit, and refuses what would not fit; `explain()` of a result shows the one of how it
was made.

Its peak is that of the fullest process with its own memory: the operands, what it sends and receives, the copies it
works on.  It lies above what is taken in fact, by less than a factor of two where sizes do not follow from values.
Not in it are the freed blocks that an interpreter keeps for the next ones (`execution.memory`), and about 1 MiB beside
arrays: tables of blocks, what is small, the pieces of fused chains.
"""

from __future__ import annotations

import functools
import gc
import pickle
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bsp.arrays.array import Array, wrap
from bsp.arrays.errors import PlanTooLarge
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import LEAF, DType, leaf
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.planning.plan import Explanation
from bsp.cost.model import WORD, Cost
from bsp.cost.prediction.predict import predicted
from bsp.cost.units import counted, in_bytes, in_seconds
from bsp.runner import raise_failure

SAFE = 16  # no procedure holds so many times its arrays on one process: below, a limit needs no rehearsal
_KEPT = 256
_forecasts: dict[Any, Forecast] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Superstep(NamedTuple):
    """What the program does up to a boundary, and the total exchange there."""

    what: str
    seconds: float  # of the busiest process's work, on the machine
    h: int  # words
    messages: int


class Forecast(NamedTuple):
    """The price of a procedure; words and bytes are upper bounds if `bounded`, exact otherwise."""

    name: str
    supersteps: list[Superstep]
    peak_bytes: int  # of the fullest process
    seconds: float
    bounded: bool
    price: Cost

    @property
    def words(self) -> int:
        """H: the h-relations of all supersteps, added."""
        return sum(step.h for step in self.supersteps)

    def cost(self) -> Cost:
        """W, H, S, peak bytes and seconds."""
        return self.price

    def explain(self) -> Explanation:
        """One line for each superstep, then all of it."""
        most = "at most " if self.bounded else ""
        lines = [
            f"superstep {k + 1}  {step.what:<42}  h = {most}{counted(step.h, 'word')}, "
            f"{counted(step.messages, 'message')}, "
            f"{in_seconds(step.seconds)} of work"
            for k, step in enumerate(self.supersteps)
        ]
        lines.append(
            f"{self.name}: {counted(len(self.supersteps), 'superstep')}, {most}{counted(self.words, 'word')}, "
            f"peak {most}{in_bytes(self.peak_bytes)}/process, {in_seconds(self.seconds)} predicted"
        )
        return Explanation("\n".join(lines))

    def __str__(self) -> str:
        return str(self.explain())

    def __repr__(self) -> str:
        return str(self)


class Origin(NamedTuple):
    """How an array was made: the call, its arrays as shapes and layouts."""

    function: Callable[..., Any]
    args: Any
    kwargs: Any

    def forecast(self) -> Forecast:
        """What that costs here."""
        return _forecast(self, world())


class Sketch(NamedTuple):
    """An array without its data."""

    shape: Shape
    dtype: DType
    layout: Layout | None  # None: NumPy's own, of which every process has all


def forecast(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Forecast:
    """What `function(*args, **kwargs)`, persisted, will cost on this machine; nothing is computed, no superstep ends.

    function : of arrays: `ba.sort`, `ba.linalg.qr`, a function of your own of which every process runs all lines.
    Raises what a run with shapes only raises: ValueNeeded where the function decides by a value.
    """
    return Origin(function, _sketched(args), _sketched(kwargs)).forecast()


def procedure(function: _Function) -> _Function:
    """A function that runs at once, in supersteps of its own: refused beforehand if it would not fit a limit."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        here = world()
        if here.abstract or here.in_procedure:
            return function(*args, **kwargs)
        if here.memory and SAFE * sum(map(_nbytes, _arrays((args, kwargs)))) > here.memory:
            _fitting(Origin(called, _sketched(args), _sketched(kwargs)), here)
        here.in_procedure = True
        try:
            with here.calculating(function.__name__):
                found = function(*args, **kwargs)
        finally:
            here.in_procedure = False
        leaves = [array._node for array in _arrays(found) if isinstance(array, Array) and array._node.op is LEAF]
        if leaves:  # by now its arrays are computed, so that their layouts are known
            origin = Origin(called, _sketched(args), _sketched(kwargs))
            for node in leaves:
                node.origin = origin
        return found

    return called  # type: ignore[return-value]


def explain(*arrays: Array) -> Explanation:
    """The plan of arrays together; of one that a procedure has made, what that was expected to cost."""
    if len(arrays) == 1 and (origin := origin_of(arrays[0])) is not None:
        return origin.forecast().explain()
    return world().planned([array._node for array in arrays], False)[0].explain()


def origin_of(array: Array) -> Origin | None:
    """How it was made, if a procedure has made it."""
    node = array._node
    return node.origin if node.op is LEAF else None


# ------------------------------------------------------------------------------- the rehearsal


def _fitting(origin: Origin, here: World) -> None:
    """PlanTooLarge if it takes more than the limit."""
    found = _forecast(origin, here)
    if found.peak_bytes > here.memory:
        most = "may need" if found.bounded else "needs"
        raise PlanTooLarge(
            f"{found.name} {most} {in_bytes(found.peak_bytes)} on a process, limit {in_bytes(here.memory)}; "
            "take more processes"
        )


def _forecast(origin: Origin, here: World) -> Forecast:
    import cloudpickle

    try:
        key = (here.nprocs, here.machine, here.schedule, cloudpickle.dumps(origin))
    except (pickle.PicklingError, TypeError, ValueError):  # a function that holds what no other process could
        return _rehearsed(origin, here)
    found = _forecasts.get(key)
    if found is None:
        if len(_forecasts) >= _KEPT:
            _forecasts.clear()
        found = _forecasts[key] = _rehearsed(origin, here)
    return found


def _rehearsed(origin: Origin, here: World) -> Forecast:
    name = getattr(origin.function, "__name__", "a function")

    def body() -> None:
        there = world()
        there.schedule, there.memory = here.schedule, here.memory
        found = origin.function(*_filled(origin.args, there), **_filled(origin.kwargs, there))
        lazy = [array._node for array in _arrays(found) if isinstance(array, Array) and array._node.op is not LEAF]
        if lazy:
            there.evaluate(lazy, False)

    machine = here.machine
    here.task.leave()
    collects = gc.isenabled()
    gc.disable()  # when a cycle is found, and its arrays given back, must not differ between elements
    try:
        record, verdict, element = predicted(
            lambda element: element.host(lambda task: body()),
            here.nprocs, min(here.nprocs, machine.p), machine, 0, True, [name],
        )  # fmt: skip
        raise_failure(verdict, element)
    finally:
        if collects:
            gc.enable()
        here.task.enter()
    assert element.abstract is not None
    peak = max(account.peak_bytes for account in element.abstract.accounts)
    steps = [
        Superstep(row["label"] or row["call"], row["w"], max(row["h_sent"], row["h_received"]), row["messages"])
        for row in record["per_superstep"]
    ]
    total = record["seconds"]
    work = sum(step.seconds for step in steps) + record["end"]["w"]
    price = Cost(
        work * machine.r, sum(step.h for step in steps), len(steps), -(-peak // WORD),
        sum(step.messages for step in steps), machine,
    )  # fmt: skip
    return Forecast(name, steps, peak, total, element.abstract.bounded, price)


# --------------------------------------------------------------------------------- arguments


def _sketched(value: Any) -> Any:
    """Arguments without data."""
    if isinstance(value, Array):
        return Sketch(value.shape, value.dtype, value.layout)
    if isinstance(value, np.ndarray) and value.nbytes > 1 << 16 and not value.dtype.hasobject:
        return Sketch(value.shape, value.dtype, None)
    if type(value) in (tuple, list):
        return type(value)(_sketched(each) for each in value)
    if type(value) is dict:
        return {name: _sketched(each) for name, each in value.items()}
    return value


def _filled(value: Any, here: World) -> Any:
    """Arguments with shapes for data, on a process of the rehearsal."""
    if isinstance(value, Sketch):
        layout = value.layout
        if layout is None:
            return here.empty(value.shape, value.dtype)
        blocks = {at: here.empty(layout.block_shape(at), value.dtype) for at in layout.mine(here.pid)}
        return wrap(leaf(value.shape, value.dtype, layout, blocks))
    if type(value) in (tuple, list):
        return type(value)(_filled(each, here) for each in value)
    if type(value) is dict:
        return {name: _filled(each, here) for name, each in value.items()}
    return value


def _arrays(value: Any) -> Iterator[Any]:
    """Arrays, ours and NumPy's."""
    if isinstance(value, (Array, np.ndarray)):
        yield value
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _arrays(each)
    elif isinstance(value, dict):
        for each in value.values():
            yield from _arrays(each)


def _nbytes(array: Any) -> int:
    return int(array.size) * int(array.dtype.itemsize)
