"""The predicted cost of a procedure: a rehearsal of all p processes, with shapes only, run by the calling process.

Procedures (sort, unique, quantile, a mask, a factorisation) look at values while they run, so no plan made from
coordinates can predict them.  Where sizes follow from values the rehearsal takes the largest; words and bytes are then
upper bounds, and the forecast is marked `bounded`.  `forecast(ba.sort, x)` returns one.  Under a memory limit, every
procedure whose arrays are not small beside the limit is forecast before it runs, and refused if it would not fit.
`explain()` of a result shows the forecast of the call that made it.

The peak is the memory of the fullest process: the operands, the data it sends and receives, and its working copies.  It
is above the memory used in fact, by less than a factor of two where sizes do not follow from values.  It does not
include the freed blocks that an interpreter keeps for reuse (`execution.memory`), nor about 1 MiB beside arrays: tables
of blocks, small objects, the pieces of fused chains.
"""

from __future__ import annotations

import dis
import functools
import gc
import inspect
import pickle
from collections.abc import Callable, Iterator
from types import CodeType, FunctionType
from typing import Any, NamedTuple, TypeVar

import numpy as np

from bsp.arrays.array import Array, nodes_of, wrap
from bsp.arrays.errors import ArrayError, PlanTooLarge
from bsp.arrays.execution.world import World, world
from bsp.arrays.expressions.graph import LEAF, DType, leaf
from bsp.arrays.expressions.layout import Layout, Shape
from bsp.arrays.planning.plan import Explanation
from bsp.cost.model import WORD, Cost
from bsp.cost.prediction.predict import predicted
from bsp.cost.units import counted, in_bytes, in_seconds
from bsp.runner import raise_failure

SAFE = 16  # no procedure holds SAFE times its arrays on one process: if that fits the limit, no rehearsal is needed
_KEPT = 256
_forecasts: dict[Any, Forecast] = {}
_Function = TypeVar("_Function", bound=Callable[..., Any])


class ForecastSuperstep(NamedTuple):
    """One superstep of a forecast: the work up to the boundary, and the total exchange there."""

    what: str
    seconds: float  # the work of the busiest process on the machine
    h: int  # words
    messages: int


class Forecast(NamedTuple):
    """The predicted cost of a procedure; words and bytes are upper bounds if `bounded`, exact otherwise."""

    name: str
    supersteps: list[ForecastSuperstep]
    peak_bytes: int  # on the fullest process
    seconds: float
    bounded: bool
    price: Cost

    @property
    def words(self) -> int:
        """The total H of the h-relations of all supersteps, in words."""
        return sum(step.h for step in self.supersteps)

    def cost(self) -> Cost:
        """Return W, H, S, peak bytes and seconds."""
        return self.price

    def explain(self) -> Explanation:
        """Return one line for each superstep, then their total."""
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
    """A record of how an array was made: the function called, and its arrays as shapes and layouts."""

    function: Callable[..., Any]
    args: Any
    kwargs: Any
    kept: bool = False  # whether findings about its arrays are remembered (`procedures.remembered`)

    def forecast(self) -> Forecast:
        """Return the forecast of that call on this machine."""
        return _forecast(self, world())

    def again(self) -> Forecast | None:
        """Return the forecast of a repeated call on the same arrays; None if no remembered finding makes it cheaper."""
        if not self.kept:
            return None
        first, second = self.forecast(), _forecast(self, world(), True)
        return second if second.words < first.words or len(second.supersteps) < len(first.supersteps) else None

    def explain(self) -> Explanation:
        """Return the cost of the call as text, followed by that of a repeated call if that is less."""
        first, second = self.forecast().explain(), self.again()
        if second is None:
            return first
        return Explanation(
            f"{first}\nagain, of the same arrays, of which it keeps what it has found out:\n{second.explain()}"
        )


class Sketch(NamedTuple):
    """An array without its data: shape, dtype and layout."""

    shape: Shape
    dtype: DType
    layout: Layout | None  # None: a NumPy array, which every process has


def forecast(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Forecast:
    """Predict the cost of `function(*args, **kwargs)`, persisted, on this machine.  No superstep; computes nothing.

    function : a function of arrays: `ba.sort`, `ba.linalg.qr`, or your own, of which every process runs all lines.  Its
        arrays are its arguments.
    Raises ArrayError if a Python function reads an array that is no argument: the other processes' parts of it are
        unknown here.  Raises what a run with shapes only raises: ValueNeeded where the function decides by a value.
    """
    if read := _read_by(function):
        raise ArrayError(
            f"forecast: the function reads the array {read[0]!r}, which is not an argument of it; take it as one: "
            f"forecast(lambda {read[0]}: ..., {read[0]})"
        )
    return Origin(function, _sketched(args), _sketched(kwargs)).forecast()


def _read_by(function: Callable[..., Any]) -> list[str]:
    """Return the names of arrays that a Python function reads from around it: closed over, global, or as a default."""
    if not isinstance(function, FunctionType):
        return []
    found = {**inspect.getclosurevars(function).nonlocals}
    codes = [function.__code__]
    for code in codes:  # functions inside it are among its constants
        codes.extend(each for each in code.co_consts if isinstance(each, CodeType))
        names = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
        found |= {name: function.__globals__[name] for name in names & function.__globals__.keys()}
    found |= {
        name: each.default
        for name, each in inspect.signature(function).parameters.items()
        if each.default is not each.empty
    }
    return [name for name, value in found.items() if isinstance(value, Array)]


def procedure(function: _Function) -> _Function:
    """Make a function a procedure: it runs when called, in supersteps of its own, and keeps its origin with its result.

    A call that would not fit the memory limit raises PlanTooLarge before it starts.  A procedure called by another runs
    as part of it.
    """

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        here = world()
        if here.in_procedure:
            return function(*args, **kwargs)
        if here.memory and SAFE * sum(map(_nbytes, _arrays((args, kwargs)))) > here.memory:
            _fitting(Origin(called, _sketched(args), _sketched(kwargs)), here)
        before = here.noted
        here.note_given(
            (function.__name__, *_given((args, kwargs))), (array._node for array in _own_arrays((args, kwargs)))
        )
        noted = here.noted
        here.in_procedure = True
        try:
            with here.calculating(function.__name__):
                found = function(*args, **kwargs)
        finally:
            here.in_procedure = False
        leaves = [array._node for array in _own_arrays(found) if array._node.op is LEAF]
        if leaves:  # the arguments have been computed by now, so their layouts are known
            kept = any(array._node.findings for array in _own_arrays((args, kwargs)) if array._node.op is LEAF)
            origin = Origin(called, _sketched(args), _sketched(kwargs), kept)
            for node in leaves:
                node.origin = origin
        if (
            leaves and here.noted is noted and noted is not before
        ):  # no superstep has compared them: one that uses the result will
            here.noted = before
            for node in leaves:
                node.given = noted
        return found

    return called  # type: ignore[return-value]


def explain(*arrays: Array) -> Explanation:
    """Return the plan of several arrays together; for one that a procedure has made, the forecast of that call."""
    nodes = nodes_of("explain", arrays)
    if len(arrays) == 1 and (origin := origin_of(arrays[0])) is not None:
        return origin.explain()
    return world().planned(nodes, False)[0].explain()


def origin_of(array: Array) -> Origin | None:
    """Return the origin of an array that a procedure has made; None for others."""
    node = array._node
    return node.origin if node.op is LEAF else None


# ------------------------------------------------------------------------------- the rehearsal


def _fitting(origin: Origin, here: World) -> None:
    """Raise PlanTooLarge if the call takes more than the memory limit."""
    found = _forecast(origin, here)
    if found.peak_bytes > here.memory:
        most = "may need" if found.bounded else "needs"
        raise PlanTooLarge(
            f"{found.name} {most} {in_bytes(found.peak_bytes)} on a process, limit {in_bytes(here.memory)}; "
            "take more processes"
        )


def _forecast(origin: Origin, here: World, again: bool = False) -> Forecast:
    from bsp.values import by_value

    try:
        key = (here.nprocs, here.machine, here.schedule, by_value.dumps(origin[:3]), again)
    except (pickle.PicklingError, TypeError, ValueError):  # what cannot be pickled gives no key
        return _rehearsed(origin, here, again)
    found = _forecasts.get(key)
    if found is None:
        if len(_forecasts) >= _KEPT:
            _forecasts.clear()
        found = _forecasts[key] = _rehearsed(origin, here, again)
    return found


def _rehearsed(origin: Origin, here: World, again: bool) -> Forecast:
    """Run a call with shapes only and return its forecast.

    again : forecast the second of two calls on the same arrays.
    """
    name = getattr(origin.function, "__name__", "a function")
    first = _forecast(origin, here) if again else None

    def body() -> None:
        there = world()
        there.plan_with(here.schedule, here.memory)
        args, kwargs = _filled(origin.args, there), _filled(origin.kwargs, there)
        for _ in range(2 if again else 1):
            found = origin.function(*args, **kwargs)
            lazy = [array._node for array in _own_arrays(found) if array._node.op is not LEAF]
            if lazy:
                there.evaluate(lazy, False)
            del found, lazy

    machine = here.machine
    here.task.leave()
    collects = gc.isenabled()
    gc.disable()  # collections free arrays in cycles at moments that differ between elements: peaks would differ too
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
        ForecastSuperstep(row["label"] or row["call"], row["w"], max(row["h_sent"], row["h_received"]), row["messages"])
        for row in record["per_superstep"][len(first.supersteps) if first else 0 :]
    ]
    total = record["seconds"] - (first.seconds if first else 0.0)
    work = sum(step.seconds for step in steps) + record["end"]["w"]
    price = Cost(
        work * machine.r, sum(step.h for step in steps), len(steps), -(-peak // WORD),
        sum(step.messages for step in steps), machine,
    )  # fmt: skip
    return Forecast(name, steps, peak, total, element.abstract.bounded, price)


# --------------------------------------------------------------------------------- arguments


def _sketched(value: Any) -> Any:
    """Replace the arrays in arguments by sketches, which have no data."""
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
    """Replace the sketches in arguments by arrays with shapes for data, on a process of the rehearsal."""
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


def _leaves(value: Any) -> Iterator[Any]:
    """Yield what arguments or results consist of, inside tuples, lists and dictionaries, too."""
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from _leaves(each)
    elif isinstance(value, dict):
        yield from _leaves(list(value.values()))
    else:
        yield value


def _arrays(value: Any) -> Iterator[Any]:
    """Yield the arrays in arguments or results, ours and NumPy's."""
    return (each for each in _leaves(value) if isinstance(each, (Array, np.ndarray)))


def _own_arrays(value: Any) -> Iterator[Array]:
    """Yield the arrays of ours in arguments or results."""
    return (each for each in _leaves(value) if isinstance(each, Array))


def _given(value: Any) -> Iterator[Any]:
    """Yield everything in arguments that is no array of ours."""
    return (each for each in _leaves(value) if not isinstance(each, Array))


def _nbytes(array: Any) -> int:
    return int(array.size) * int(array.dtype.itemsize)
