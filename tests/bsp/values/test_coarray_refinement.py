"""Coarrays against a naive model: a dictionary of arrays, to which what was asked for is done in the order of D1.

`verify.refines` compares both, each method alone, from small states: one to three processes, arrays of one and two
dimensions, ragged and empty, of `coarray` and of `register`, before and after the boundary that brings the shapes (B3).
A method is one superstep (Xu, section 7.4: boxing distributes, unboxing collects).  The invariant of a coarray, checked
after each call and each boundary:

1. its flat and its raw form are the memory of its local array, all of it;
2. the shape and the length that it has of its own process are those of its local array;
3. no put of it is queued behind its open batch of scalar puts: else the batch, which still grows, would overtake it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partialmethod
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests_run import run_program

import bsp
import bsp.engine.element
from bsp import coarray, verify
from bsp.coarray import Coarray
from bsp.errors import CastError, GetOutOfRange, NoSuchProcess, NotRegistered, PutOutOfRange, ShapeError
from bsp.errors import UnknownOperation as NoSuchOperation
from bsp.pending import Pending
from bsp.values.effects import Put, PutEach, ScalarPuts
from bsp.values.records import PUTS

REMOTE: dict[str, Any] = {  # mistakes found at the boundary, on all processes, until the shapes have arrived
    "put": (PutOutOfRange, ShapeError), "[]=": (PutOutOfRange, ShapeError), "get": GetOutOfRange, "[]": GetOutOfRange,
    "put_each": PutOutOfRange, "get_each": GetOutOfRange,
}  # fmt: skip
Call = tuple[Any, ...]  # pid, name of the method, its arguments


class State(NamedTuple):
    """The arrays of all processes, and how they are registered: fresh, before the boundary that brings the shapes."""

    arrays: tuple[np.ndarray, ...]
    fresh: bool = False
    registered: bool = False


class OfAll:
    """The methods of both: each is a superstep in which one process makes one call; `superstep` has several."""

    superstep: Callable[..., Any]

    def alone(self, name: str, pid: int, *args: Any) -> Any:
        """One call in a superstep of its own."""
        return self.superstep((pid, name, *args))

    put = partialmethod(alone, "put")
    get = partialmethod(alone, "get")
    put_each = partialmethod(alone, "put_each")
    get_each = partialmethod(alone, "get_each")
    assign = partialmethod(alone, "assign")
    shape_on = partialmethod(alone, "shape_on")


class Ours(OfAll):
    """The coarrays of all processes of a run."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.arrays = [array.copy() for array in state.arrays]
        self.broken = ""  # the call after which the invariant does not hold

    def superstep(self, *calls: Call) -> Any:
        """Make the calls, each on its process, and end the superstep; return what each gives, or its exception."""
        return self._run(calls, release=False)

    def release(self, *calls: Call) -> Any:
        """Release, make the calls, end the superstep, and make those again that are no assignments."""
        return self._run(calls, release=True)

    def _run(self, calls: tuple[Call, ...], release: bool) -> Any:
        state, arrays = self.state, self.arrays

        def main(proc: bsp.Process) -> Any:
            own = arrays[proc.pid].copy()
            if state.registered:
                x = proc.register(own)
            else:
                x = proc.coarray(own.shape, own.dtype)
                x.local = own
            if not state.fresh:
                proc.sync()
            if release:
                x.release()
            mine = [(k, call) for k, call in enumerate(calls) if call[0] == proc.pid]
            broken = ""
            given: dict[int, Any] = {}
            for k, (_, name, *args) in mine:
                given[k] = called(x, name, args)
                broken = broken or ("" if sound(x) else f"{name}{tuple(args)!r}")
            proc.sync()
            broken = broken or ("" if release or sound(x) else "the boundary")
            values = {k: each.value if isinstance(each, Pending) else each for k, each in given.items()}
            if release:
                again = [(k, name, args) for k, (_, name, *args) in mine if name != "assign"]
                values |= {len(calls) + k: called(x, name, args) for k, name, args in again}
            return x.local, values, broken

        ended = run_program(main, nprocs=len(arrays))
        self.arrays = [local.copy() for local, _, _ in ended]
        self.broken = next((broken for _, _, broken in ended if broken), "")
        found = {k: value for _, values, _ in ended for k, value in values.items()}
        return [found.get(k) for k in range(len(calls) * (2 if release else 1))]


def called(x: Coarray, name: str, args: Any) -> Any:
    """Return what a call returns, or the type of what it raises."""
    try:
        if name == "assign":
            x.local = args[0]
            return None
        if name in ("[]", "[]="):
            pid, at, *values = args
            key = (pid, *at) if isinstance(at, tuple) else (pid, at)
            return x.__setitem__(key, values[0]) if values else x[key]
        return getattr(x, name)(*args)
    except Exception as error:  # noqa: BLE001 - what it is is compared
        return type(error)


def sound(x: Coarray) -> bool:
    """The invariant of a coarray."""
    local, pid = x.local, x._task.pid
    whole = x._flat.size == local.size and x.raw.nbytes == local.nbytes
    one = not local.size or (np.shares_memory(x._flat, local) and np.shares_memory(x.raw, local))
    shapes = x._shapes is None or x._shapes[pid] == local.shape
    lengths = x._shapes is None or local.ndim != 1 or x._lengths[pid] == len(local)
    queue = x._outbox.effects
    batch = [k for k, each in enumerate(queue) if isinstance(each, ScalarPuts) and each.items is x._batch]
    puts = [isinstance(each, Put | PutEach | ScalarPuts) or (type(each) is tuple and each[0] in PUTS) for each in queue]
    behind = any(any(puts[k + 1 :]) for k in batch)
    return bool(whole and one and shapes and lengths and (x._batch is None or (batch and not behind)))


class Naive(OfAll):
    """A dictionary of arrays.  A superstep reads what is asked for, and then does all puts, one number at a time."""

    def __init__(self, state: State) -> None:
        self.arrays = {pid: array.copy() for pid, array in enumerate(state.arrays)}
        self.fresh = state.fresh

    def superstep(self, *calls: Call) -> Any:
        """Do the calls; return what each gives, or the type of its mistake."""
        found: list[Any] = [None] * len(calls)
        puts, gets, changed = [], [], {pid: array.copy() for pid, array in self.arrays.items()}
        for k, (pid, name, *args) in enumerate(calls):
            if pid not in self.arrays:
                continue
            try:
                if name == "assign":
                    changed[pid] = self._assigned(pid, *args)
                elif name == "shape_on":
                    found[k] = self._shape_on(*args)
                elif name in ("put", "put_each", "[]="):
                    args = [args[0], args[2], args[1]] if name == "[]=" else args
                    puts.append((pid, self._put(*args) if name != "put_each" else self._put_each(*args)))
                else:
                    gets.append((k, self._get(*args) if name != "get_each" else self._get_each(*args)))
            except Exception as mistake:
                if self.fresh and isinstance(mistake, REMOTE.get(name, ())) and ("each" in name or args[0] != pid):
                    raise
                found[k] = type(mistake)
        self.arrays = changed
        for k, places in gets:
            values = [self.arrays[pid].flat[at] for pid, at in places.ravel()]
            dtype = self.arrays[0].dtype
            found[k] = np.array(values, dtype).reshape(places.shape) if places.ndim else dtype.type(values[0])
        for _, one in sorted(puts, key=lambda each: each[0]):  # by source; sorted() keeps the order of issue
            for pid, at, value, op in one:
                array = self.arrays[pid]
                array.flat[at] = value if op is None else OPERATIONS[op](array.flat[at], value)
        return found

    def release(self, *calls: Call) -> Any:
        """Do the calls; made again they are refused."""
        found = self.superstep(*calls)
        return found + [NotRegistered if call[0] in self.arrays and call[1] != "assign" else None for call in calls]

    def _shape_on(self, pid: int) -> Any:
        if self.fresh:
            raise bsp.errors.NotReady
        return self._on(pid).shape

    def _on(self, pid: Any) -> np.ndarray:
        if pid not in self.arrays:
            raise NoSuchProcess
        return self.arrays[pid]

    def _cast(self, values: Any) -> np.ndarray:
        given, dtype = np.asarray(values), self.arrays[0].dtype
        if given.size and not np.can_cast(given.dtype, dtype, "same_kind"):
            raise CastError
        return given.astype(dtype)

    def _assigned(self, pid: int, values: Any) -> np.ndarray:
        given = self._cast(values)
        if given.shape != self.arrays[pid].shape:
            raise ShapeError
        return given

    def _places(self, pid: int, at: Any, mistake: type[Exception]) -> np.ndarray:
        """(pid, flat position) of each element that an index selects."""
        array = self._on(pid)
        try:
            for axis, part in enumerate(at if isinstance(at, tuple) else (at,)):
                bounds = (part.start, part.stop) if isinstance(part, slice) else ()
                if any(bound is not None and abs(bound) > array.shape[axis] for bound in bounds):
                    raise IndexError
            chosen = np.arange(array.size).reshape(array.shape)[at]
        except IndexError:
            raise mistake from None
        places = np.empty(np.shape(chosen), object)
        for k in np.ndindex(places.shape):
            places[k] = pid, int(np.asarray(chosen)[k])
        return places

    def _put(self, pid: int, values: Any, at: Any = ..., op: str | None = None) -> list[Any]:
        self._on(pid)
        if op is not None and op not in OPERATIONS:
            raise NoSuchOperation
        given, places = self._cast(values), self._places(pid, at, PutOutOfRange)
        try:
            spread = np.broadcast_to(given, places.shape)
        except ValueError:
            raise ShapeError from None
        return [(*place, value, op) for place, value in zip(places.ravel(), spread.ravel().tolist(), strict=True)]

    def _get(self, pid: int, at: Any = ...) -> np.ndarray:
        return self._places(pid, at, GetOutOfRange)

    def _each(self, pids: Any, at: Any, mistake: type[Exception], values: Any = 0) -> tuple[np.ndarray, Any]:
        """(pid, flat position) of each item, and the values spread over them."""
        indices = at if isinstance(at, tuple) else (at,)
        if len(indices) not in (1, self.arrays[0].ndim):
            raise ShapeError
        try:
            dest, given, *spread = np.broadcast_arrays(pids, values, *indices)
        except ValueError:
            raise ShapeError from None
        places = np.empty(dest.shape, object)
        for pid in dest.ravel().tolist():  # all pids are looked at before any position
            self._on(pid)
        for k in np.ndindex(dest.shape):
            pid = int(dest[k])
            array = self._on(pid) if len(indices) > 1 else self._on(pid).reshape(-1)
            try:
                places[k] = pid, int(np.arange(array.size).reshape(array.shape)[tuple(int(one[k]) for one in spread)])
            except IndexError:
                raise mistake from None
        return places, given

    def _put_each(self, pids: Any, at: Any, values: Any, op: str | None = None) -> list[Any]:
        if op is not None and op not in OPERATIONS:
            raise NoSuchOperation
        places, given = self._each(pids, at, PutOutOfRange, self._cast(values))
        return [(*place, value, op) for place, value in zip(places.ravel(), given.ravel().tolist(), strict=True)]

    def _get_each(self, pids: Any, at: Any) -> np.ndarray:
        return self._each(pids, at, GetOutOfRange)[0]


OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda a, b: a + b, "multiply": lambda a, b: a * b, "min": min, "max": max,
}  # fmt: skip


def states(shapes: list[tuple[int, ...]], dtype: type, fresh: bool) -> list[State]:
    """States of small numbers, of `coarray` and of `register`."""
    arrays: list[np.ndarray] = []
    first = 1
    for shape in shapes:
        size = int(np.prod(shape))
        arrays.append(np.arange(first, first + size).reshape(shape).astype(dtype))
        first += size
    return [State(tuple(arrays), fresh, registered) for registered in (False, True)]


def refined(states: list[State], calls: dict[str, Any]) -> int:
    return verify.refines(
        Ours, Naive, box=(Ours, Naive), unbox=(lambda x: list(x.arrays), lambda x: list(x.arrays.values())),
        states=states, calls=calls, invariant=lambda x: not x.broken,
    )  # fmt: skip


LINES = [[(3,)], [(2,), (3,)], [(2,), (0,), (3,)]]
PAIRS = [(0, 1), (1, 0), (2, 2), (0, 7)]  # source and dest; some do not exist


def of_one_dimension() -> dict[str, Any]:
    """Each method with all kinds of places, and with mistakes of all kinds."""
    places = [0, -1, 2, ..., slice(0, 2), slice(None, None, -1), slice(1, 4), [1, 0, 1], (0, 0)]
    puts: list[Any] = [(7, 0), (7, -1), ([5, 6], slice(0, 2)), ([5, 6], slice(0, 1)), (1.5, 1), (3, 9), (4, ...)]
    puts += [(9, at, op) for at in ([1, 0, 1], slice(None, None, 2), 0) for op in ("add", "max", "nothing")]
    each: list[Any] = [
        ([0, 1, 0], [1, 0, 1]), (1, [0, 0, 1]), ([0, 1], [-1, 5]), ([0, 9], [0, 0]), ([0, 1], [0, 0, 0]), ([], []),
    ]  # fmt: skip
    return {
        "put": [(source, dest, *put) for source, dest in PAIRS for put in puts],
        "get": [(source, dest, at) for source, dest in PAIRS[1:] for at in places],
        "put_each": [(1, *one, values) for one in each for values in (4, [7, 8, 9][: len(one[1])], 2.5)]
        + [(0, *each[0], [7, 8, 9], op) for op in ("add", "min", "nothing")],
        "get_each": [(1, *one) for one in each],
        "assign": [(0, [7, 8, 9]), (1, [7, 8, 9]), (0, 7), (0, [0.5, 1, 2])],
        "shape_on": [(0, 0), (1, 2), (0, -1)],
    }


@pytest.mark.parametrize("shapes", LINES, ids=len)
@pytest.mark.parametrize(("dtype", "fresh"), [(int, False), (float, True)])
def test_each_method_alone(shapes: list[tuple[int, ...]], dtype: type, fresh: bool) -> None:
    assert refined(states(shapes, dtype, fresh), of_one_dimension()) == 2 * 125


def test_arrays_of_two_dimensions() -> None:
    places = [(0, 1), (slice(None), 0), ([0, 1], [1, 0]), (..., -1), 1, (0, 0, 0), (slice(None, None, -1), slice(0, 1))]
    calls = {
        "put": [(0, 1, values, at, op) for at in places for values in (7, [8]) for op in (None, "multiply")],
        "get": [(1, 0, at) for at in places],
        "put_each": [(1, 0, ([0, 1, 0], [1, 0, 1]), [7, 8, 9]), (1, [0, 1], [3, 0], 6), (0, 1, ([0], [0], [0]), 1)],
        "get_each": [(1, [0, 1], ([0, 0], [1, -1])), (1, 0, ([0], [5]))],
    }
    every = states([(2, 2), (1, 2)], float, False) + states([(2, 2), (1, 2)], float, True)
    assert refined(every, calls) == 4 * (28 + 7 + 3 + 2)


MEETING: list[Call] = [  # calls of several processes that meet in three elements
    (0, "put", 1, 5, 0), (0, "put", 1, 6, 0), (0, "put", 1, [7, 8], slice(0, 2)), (2, "put", 1, 9, [0, 0], "add"),
    (2, "[]=", 1, slice(None), 4), (1, "put", 1, [3, 2], ..., "multiply"),
    (1, "put_each", [1, 1, 0], [0, 0, 1], [1, 2, 3]), (2, "get", 1, ...), (0, "[]", 1, 0),
    (1, "get_each", [1, 0], [1, 1]), (1, "assign", [50, 60]),
]  # fmt: skip


@pytest.mark.parametrize("few", [0, coarray._FEW_NUMBERS], ids=["batches", "records"])
@pytest.mark.parametrize("fresh", [False, True])
def test_two_calls_of_one_superstep(fresh: bool, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call with every other, in both orders of issue: D1's order shows where they meet."""
    monkeypatch.setattr(coarray, "_FEW_NUMBERS", few)
    every = states([(2,), (2,), (1,)], int, fresh)
    assert refined(every, {"superstep": list(itertools.product(MEETING, repeat=2))}) == 2 * 121


def test_many_calls_of_one_superstep_and_released_memory() -> None:
    rng = np.random.default_rng(0)
    many = [
        tuple(MEETING[k] for k in rng.integers(0, len(MEETING), count)) for count in (3, 4, 6, 9) for _ in range(20)
    ]
    assert refined(states([(2,), (2,), (1,)], int, False), {"superstep": many, "release": [(), *many[:20]]}) == 2 * 101


# ------------------------------------------------------------------------ what it would find


def test_a_batch_left_open_is_found_at_the_put_that_overtakes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coarray, "_FEW_NUMBERS", 0)
    monkeypatch.setattr(Coarray, "_close_batch", lambda self: None)
    calls = {"superstep": [((0, "put", 1, 5, 0), (0, "put", 1, [7, 8], slice(0, 2)))]}
    with pytest.raises(verify.Counterexample, match=r"Ours.superstep\(.*breaks the invariant"):
        refined(states([(2,), (2,)], int, False)[:1], calls)


def test_puts_in_another_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pack = bsp.engine.element.pack
    backwards = lambda outboxes, *rest: pack([effects[::-1] for effects in outboxes], *rest)  # noqa: E731
    monkeypatch.setattr("bsp.engine.element.pack", backwards)
    monkeypatch.setattr("bsp.engine.element.COMPILED", False)  # else C packs
    calls = {"superstep": [((0, "put", 1, 5, 0), (1, "put", 0, 5, 0)), ((0, "put", 1, 5, 0), (0, "put", 1, [7, 8]))]}
    with pytest.raises(verify.Counterexample, match=r"leaves .* but the twin has"):
        refined(states([(2,), (2,)], int, False)[1:], calls)
