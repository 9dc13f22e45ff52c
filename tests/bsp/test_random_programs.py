"""Random programs of puts, gets, accumulates and sends, against a naive interpreter of D1 to D3.

The interpreter knows nothing of packets, elements or schedules: it keeps one list of arrays, reads all
gets from it, and then applies one effect after the other in (source pid, issue order).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from tests_run import run_program

import bsp

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


def steps(nprocs: int, sizes: list[int]) -> st.SearchStrategy[Step]:
    """A call that is legal for coarrays of these sizes (by pid)."""

    @st.composite
    def one(draw: Any) -> Step:
        kind = draw(st.sampled_from(["scalar", "block", "lent", "each", "get", "get_each", "send", "big"]))
        dest = draw(st.integers(0, nprocs - 1))
        n = sizes[dest]
        op = draw(st.sampled_from([None, None, *UFUNCS])) if kind in ("block", "each", "scalar") else None
        value = draw(st.integers(-3, 9))
        where: Any = 0
        if kind == "scalar":
            where = draw(st.integers(-n, n - 1))
        elif kind in ("block", "get", "lent"):
            low = draw(st.integers(0, n))
            where = slice(low, draw(st.integers(low, n)), draw(st.sampled_from([None, 1, 2])))
        elif kind in ("each", "get_each"):
            where = draw(st.lists(st.integers(-n, n - 1), max_size=6))
        return Step(kind, dest, where, value, op, draw(st.integers(0, 5)))

    return one()


@st.composite
def programs(draw: Any) -> tuple[int, list[int], list[list[list[Step]]]]:
    """(nprocs, sizes by pid, for each superstep and process its calls)."""
    nprocs = draw(st.integers(1, 5))
    sizes = [draw(st.integers(1, 7)) for _ in range(nprocs)]
    call = steps(nprocs, sizes)
    supersteps = draw(st.integers(1, 3))
    plan = [[draw(st.lists(call, max_size=5)) for _ in range(nprocs)] for _ in range(supersteps)]
    return nprocs, sizes, plan


def values_of(step: Step, count: int, pid: int) -> np.ndarray:
    return np.arange(count) * 0.5 + step.value + pid


def big_of(step: Step, pid: int) -> np.ndarray:
    """A message beyond the size that stands inside a packet."""
    return np.full(5000 + step.size, float(step.value + pid))


def naive(nprocs: int, sizes: list[int], plan: list[list[list[Step]]]) -> list[Any]:
    """What every process must have seen."""
    memory = [np.zeros(size) for size in sizes]
    seen: list[list[Any]] = [[] for _ in range(nprocs)]
    for superstep in plan:
        inboxes: list[list[Any]] = [[] for _ in range(nprocs)]
        for pid, calls in enumerate(superstep):
            for step in calls:
                if step.kind in ("get", "get_each"):
                    seen[pid].append(
                        memory[step.dest][step.where if step.kind == "get" else np.array(step.where, int)].tolist()
                    )
        for pid, calls in enumerate(superstep):
            for step in calls:
                target = memory[step.dest]
                if step.kind == "send":
                    inboxes[step.dest].append((pid, step.size, step.value))
                elif step.kind == "big":
                    inboxes[step.dest].append((pid, None, float(big_of(step, pid).sum())))
                elif step.kind in ("scalar", "block", "lent", "each"):
                    place = [step.where] if step.kind == "scalar" else step.where
                    index = np.arange(target.size)[place] if place != [] else np.array([], int)
                    for position, value in zip(index, values_of(step, len(index), pid), strict=True):
                        target[position] = value if step.op is None else UFUNCS[step.op](target[position], value)
        for pid in range(nprocs):
            seen[pid].append((memory[pid].tolist(), inboxes[pid]))
    return seen


def program(proc: bsp.Process, sizes: list[int], plan: list[list[list[Step]]]) -> list[Any]:
    """The same calls, for real."""
    x = proc.coarray(sizes[proc.pid])
    seen: list[Any] = []
    for superstep in plan:
        pending = []
        for step in superstep[proc.pid]:
            n = sizes[step.dest]
            if step.kind == "scalar":
                x.put(step.dest, float(step.value + proc.pid), at=step.where, op=step.op)
            elif step.kind in ("block", "lent"):
                count = len(range(*step.where.indices(n)))
                x.put(step.dest, values_of(step, count, proc.pid), step.where, step.op, buffered=step.kind == "block")
            elif step.kind == "each":
                x.put_each(step.dest, step.where, values_of(step, len(step.where), proc.pid), step.op)
            elif step.kind == "get":
                pending.append(x.get(step.dest, step.where))
            elif step.kind == "get_each":
                pending.append(x.get_each(step.dest, step.where))
            elif step.kind == "send":
                proc.send(step.dest, step.value, tag=step.size)
            else:
                proc.send(step.dest, big_of(step, proc.pid))
        proc.sync()
        seen += [got.value.tolist() for got in pending]
        inbox = [(m.source, m.tag, m.payload if m.tag is not None else float(m.payload.sum())) for m in proc.inbox]
        seen.append((x.local.tolist(), inbox))
        proc.sync()  # nobody writes while the next superstep's state is being looked at
    return seen


@settings(max_examples=150)
@given(programs())
def test_random_programs_do_what_the_naive_interpreter_does(case: Any) -> None:
    nprocs, sizes, plan = case
    assert run_program(program, sizes, plan, nprocs=nprocs) == naive(nprocs, sizes, plan)


@settings(max_examples=25)
@given(programs(), st.sampled_from(["latin", "bruck", "two-phase"]))
def test_every_schedule_gives_the_same(case: Any, schedule: str) -> None:
    nprocs, sizes, plan = case
    assert run_program(program, sizes, plan, nprocs=nprocs, schedule=schedule) == naive(nprocs, sizes, plan)
