"""Random programs of puts, gets, accumulates and sends, against a naive interpreter of D1 to D3.

The interpreter knows nothing of packets, elements or schedules: it keeps one list of arrays, reads all
gets from it, and then applies one effect after the other in (source pid, issue order).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from tests_run import run_program
from thinning import examples

import bsp
from bsp.transport.packet import DIRECT_BYTES

Shape = tuple[int, ...]
DIRECT = DIRECT_BYTES // 8  # float64 values that stand inside a packet
UFUNCS = {"add": np.add, "min": np.minimum, "max": np.maximum, "multiply": np.multiply}


@dataclass(frozen=True)
class Step:
    """One call of one process."""

    kind: str
    dest: int
    where: Any
    value: int
    op: str | None
    size: int


def indices(length: int) -> st.SearchStrategy[Any]:
    """An index for one axis: a number, or a slice with a step of either sign."""
    bound = st.one_of(st.none(), st.integers(0, length))
    step = st.sampled_from([-1, 2, None, 1, 3, 1000, -2, -1000])
    throughout = st.builds(slice, st.none(), st.none(), step)
    return st.one_of(throughout, st.builds(slice, bound, bound, step), st.integers(-length, length - 1))


ALL = ["scalar", "block", "lent", "each", "get", "get_each", "send", "big"]
# puts of ranges of rows; a superstep of these alone has a short way
RANGES = ["range", "range lent", "range of its own"]


def steps(nprocs: int, shapes: list[Shape], kinds: list[str]) -> st.SearchStrategy[Step]:
    """A call that is legal for coarrays of these shapes (by pid)."""

    @st.composite
    def one(draw: Any) -> Step:
        kind = draw(st.sampled_from(kinds))
        dest = draw(st.integers(0, nprocs - 1))
        shape = shapes[dest]
        size = prod(shape)
        op = draw(st.sampled_from([None, None, *UFUNCS])) if kind in ("block", "each", "scalar") else None
        value = draw(st.integers(-3, 9))
        where: Any = 0
        if kind == "scalar":
            where = tuple(draw(st.integers(-n, n - 1)) for n in shape)
            where = where[0] if len(shape) == 1 else where
        elif kind in ("block", "get", "lent"):
            where = tuple(draw(indices(n)) for n in shape[: draw(st.integers(1, len(shape)))])
            where = where[0] if len(where) == 1 else where
        elif kind in RANGES:
            ends = sorted(draw(st.tuples(*[st.integers(0, shape[0])] * 2)))
            where = draw(st.sampled_from([..., slice(*ends)]))
        elif kind in ("each", "get_each"):
            where = draw(st.lists(st.integers(-size, size - 1), max_size=6))
        return Step(kind, dest, where, value, op, draw(st.integers(0, 5)))

    return one()


@st.composite
def programs(draw: Any) -> tuple[int, list[Shape], list[list[list[Step]]]]:
    """(nprocs, shapes by pid, for each superstep and process its calls); some shapes hold more than DIRECT_BYTES."""
    nprocs = draw(st.integers(1, 5))
    ndim = draw(st.integers(1, 3))
    small = st.tuples(*[st.integers(1, 7)] * ndim)
    large = st.sampled_from([(3 * DIRECT + 1, *[2] * (ndim - 1)), (*[2] * (ndim - 1), 3 * DIRECT + 1)])
    any_large = draw(st.booleans())
    shapes = [draw(large if any_large else small) for _ in range(nprocs)]
    supersteps = draw(st.integers(1, 3))
    plan = []
    for _ in range(supersteps):
        kinds = draw(st.sampled_from([ALL, RANGES, [*RANGES, "send"]]))
        plan.append([draw(st.lists(steps(nprocs, shapes, kinds), max_size=5)) for _ in range(nprocs)])
    return nprocs, shapes, plan


def values_of(step: Step, shape: Shape, pid: int, own: np.ndarray) -> np.ndarray:
    """Values to put; those of its own are the first of the sender's coarray, if it has as many."""
    if step.kind == "range of its own" and own.size >= prod(shape):
        return own.reshape(-1)[: prod(shape)].reshape(shape)
    return np.arange(prod(shape)).reshape(shape) * 0.5 + step.value + pid


def big_of(step: Step, pid: int) -> np.ndarray:
    """A message beyond the size that stands inside a packet."""
    return np.full(5000 + step.size, float(step.value + pid))


def told(array: Any) -> Any:
    """An array in a form that compares, and that a failure shows in few lines."""
    array = np.asarray(array)
    return array.tolist() if array.size < 100 else (array.shape, hashlib.sha256(array.tobytes()).hexdigest())


def naive(nprocs: int, shapes: list[Shape], plan: list[list[list[Step]]]) -> list[Any]:
    """What every process must have seen."""
    memory = [np.zeros(shape) for shape in shapes]
    seen: list[list[Any]] = [[] for _ in range(nprocs)]
    for superstep in plan:
        before = [array.copy() for array in memory]
        inboxes: list[list[Any]] = [[] for _ in range(nprocs)]
        for pid, calls in enumerate(superstep):
            for step in calls:
                if step.kind == "get":
                    seen[pid].append(told(memory[step.dest][step.where]))
                elif step.kind == "get_each":
                    seen[pid].append(told(memory[step.dest].ravel()[np.array(step.where, int)]))
        for pid, calls in enumerate(superstep):
            for step in calls:
                if step.kind == "send":
                    inboxes[step.dest].append((pid, step.size, step.value))
                elif step.kind == "big":
                    inboxes[step.dest].append((pid, None, float(big_of(step, pid).sum())))
                elif step.kind in ("scalar", "block", "lent", "each", *RANGES):
                    target = memory[step.dest]
                    numbers = np.arange(target.size)
                    if step.kind == "each":
                        chosen = numbers[np.array(step.where, int)]
                    else:
                        chosen = numbers.reshape(target.shape)[step.where]
                    values = values_of(step, np.shape(chosen), pid, before[pid])
                    flat = target.reshape(-1)
                    for position, value in zip(np.ravel(chosen), np.ravel(values), strict=True):
                        flat[position] = value if step.op is None else UFUNCS[step.op](flat[position], value)
        for pid in range(nprocs):
            seen[pid].append((told(memory[pid]), inboxes[pid]))
    return seen


def program(proc: bsp.Process, shapes: list[Shape], plan: list[list[list[Step]]]) -> list[Any]:
    """The same calls, for real."""
    x = proc.coarray(shapes[proc.pid])
    seen: list[Any] = []
    for superstep in plan:
        pending = []
        for step in superstep[proc.pid]:
            if step.kind == "scalar":
                x.put(step.dest, float(step.value + proc.pid), at=step.where, op=step.op)
            elif step.kind in ("block", "lent", *RANGES):
                shape = np.broadcast_to(0.0, shapes[step.dest])[step.where].shape
                values = values_of(step, shape, proc.pid, x.local)
                x.put(step.dest, values, step.where, step.op, buffered=step.kind in ("block", "range"))
            elif step.kind == "each":
                x.put_each(step.dest, step.where, values_of(step, (len(step.where),), proc.pid, x.local), step.op)
            elif step.kind == "get":
                pending.append(x.get(step.dest, step.where))
            elif step.kind == "get_each":
                pending.append(x.get_each(step.dest, step.where))
            elif step.kind == "send":
                proc.send(step.dest, step.value, tag=step.size)
            else:
                proc.send(step.dest, big_of(step, proc.pid))
        proc.sync()
        seen += [told(got.value) for got in pending]
        inbox = [(m.source, m.tag, m.payload if m.tag is not None else float(m.payload.sum())) for m in proc.inbox]
        seen.append((told(x.local), inbox))
        proc.sync()  # nobody writes while the next superstep's state is being looked at
    return seen


@examples(150)
@given(programs())
def test_random_programs_do_what_the_naive_interpreter_does(case: Any) -> None:
    nprocs, shapes, plan = case
    assert run_program(program, shapes, plan, nprocs=nprocs) == naive(nprocs, shapes, plan)


@examples(25)
@given(programs(), st.sampled_from(["latin", "bruck", "two-phase"]))
def test_every_schedule_gives_the_same(case: Any, schedule: str) -> None:
    nprocs, shapes, plan = case
    assert run_program(program, shapes, plan, nprocs=nprocs, schedule=schedule) == naive(nprocs, shapes, plan)
