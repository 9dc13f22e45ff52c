"""Abstract runs: where shapes determine the traffic, it is that of the real program, and nothing is computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from thinning import examples

import bsp
from bsp.abstract import AbstractArray
from bsp.collectives.choice import COLLECTIVES
from bsp.cost.machine_file import fitting, to_machine
from bsp.errors import ValueNeeded
from bsp.hosts.listing import Host
from bsp.values import payload

pytestmark = pytest.mark.solo

MACHINE = bsp.Machine(p=4, r=1e9, g=4.0, L=1e4, o=1e2)
HOSTS = to_machine(fitting(4, [Host("a", 2), Host("b", 2)]))


def puts(proc: bsp.Process) -> None:
    x = proc.coarray((6, 5))
    mine = proc.rng.normal(size=(6, 5))
    proc.sync()
    x.put((proc.pid + 1) % proc.nprocs, mine)
    x.put((proc.pid + 2) % proc.nprocs, mine[:, 1], at=(slice(None), 3), op="add")
    proc.sync()
    got = x.get((proc.pid + 1) % proc.nprocs, (slice(0, 2), slice(None)))
    each = x.get_each(np.arange(proc.nprocs), [0] * proc.nprocs)
    proc.sync()
    assert got.value.shape == (2, 5)
    assert each.value.shape == (proc.nprocs,)
    x.put_each(np.arange(proc.nprocs), np.arange(proc.nprocs) % 30, x.local[0, 0])
    x.release()
    proc.sync()


def sends(proc: bsp.Process) -> None:
    proc.send((proc.pid + 1) % proc.nprocs, np.zeros(100, np.float32))
    proc.sync()
    (message,) = proc.inbox
    assert message.payload.shape == (100,)
    assert message.payload.dtype == np.float32


def collectives(proc: bsp.Process) -> None:
    x = np.ones((30, 2))
    for algorithm in ("one-phase", "two-phase", "tree-2"):
        assert proc.broadcast(x if proc.pid == 0 else None, algorithm=algorithm).shape == (30, 2)
        assert proc.allreduce(x, algorithm=algorithm).shape == (30, 2)
        proc.reduce(x, op="max", algorithm=algorithm)
    proc.scan(x, algorithm="two-phase")
    proc.exscan(x, algorithm="one-phase")
    assert len(proc.allgather(x, algorithm="one-phase")) == proc.nprocs
    proc.gather(x, algorithm="one-phase")
    proc.scatter([x] * proc.nprocs if proc.pid == 0 else None, algorithm="one-phase")
    proc.alltoall([x] * proc.nprocs, algorithm="one-phase")
    assert proc.total_exchange(np.zeros((proc.nprocs, 3)), algorithm="one-phase").shape == (proc.nprocs, 3)


@pytest.mark.parametrize("nprocs", [1, 2, 5])
@pytest.mark.parametrize("main", [puts, sends, collectives])
def test_traffic_is_that_of_the_real_program(main: Any, nprocs: int) -> None:
    real, abstract = (bsp.predict(main, nprocs=nprocs, machine=MACHINE, abstract=way) for way in (False, True))
    for name in ("h_sent", "h_received", "messages", "call", "source"):
        assert [row[name] for row in abstract] == [row[name] for row in real]
    assert abstract.record["abstract"]


def test_work_is_counted_not_timed_and_memory_is_the_arrays() -> None:
    n, d = 10**9, 100

    def main(proc: bsp.Process) -> None:
        x = proc.rng.random((n // proc.nprocs, d))
        x.T @ x
        proc.sync()

    first, second = (bsp.predict(main, nprocs=8, machine=MACHINE, abstract=True) for _ in range(2))
    assert first.per_superstep == second.per_superstep
    flops = 2 * d * d * (n // 8)
    assert flops <= first[0]["w"] * MACHINE.r <= 1.2 * flops
    share = 2 * n // 8 * d * 8  # two processes an element
    assert share <= first.peak_bytes <= 1.1 * share + 2**28


VALUES: dict[str, Callable[[bsp.Process], Any]] = {
    "floats": lambda proc: proc.pid + 1.0,
    "tuples": lambda proc: (proc.pid, 2.5, "x"),
    "nothing": lambda proc: None,
    "texts": lambda proc: "é" * 300,
    "bytes of more than a frame": lambda proc: b"x" * 70_000,
    "arrays": lambda proc: np.zeros(3),
    "arrays of 160 kB": lambda proc: np.zeros((100, 200)),
    "views": lambda proc: np.zeros((300, 40)).T,
    "numbers": lambda proc: np.zeros(3).sum(),
    "drawn numbers": lambda proc: (proc.rng.random(), np.float32(1)),
    "objects": lambda proc: {"a": np.zeros(proc.pid), "b": [np.zeros((3, 4)).T, np.zeros((9, 9))[:, :3]], "c": "d"},
    "large objects": lambda proc: [np.zeros(9000), np.zeros((200, 100))[:, :90], np.zeros(9000).sum(), "a" * 70_000],
    "copies of one array": lambda proc: [x := np.zeros((9, 3)), x.copy()],
    "one array twice": lambda proc: [np.zeros(9000)] * 2,
}
CARRYING = [
    (name, each.name, HOSTS if each.by_hosts else MACHINE)
    for name in ("gather", "allgather", "scatter", "alltoall", "broadcast")
    for each in COLLECTIVES[name].algorithms.values()
]


@given(
    call=st.sampled_from(CARRYING),
    value=st.sampled_from(sorted(VALUES)),
    nprocs=st.sampled_from([1, 2, 3, 4, 7, 16]),
    elements=st.sampled_from([1, 3, 4]),
)
@examples(400)
def test_collectives_carry_the_words_of_the_real_run(call: Any, value: str, nprocs: int, elements: int) -> None:
    """Also where processes pass on pickles inside of pickles, whatever the values are."""
    name, algorithm, machine = call
    if machine is HOSTS:
        nprocs, elements = max(nprocs, 4), 4
    elements = min(elements, nprocs)

    def main(proc: bsp.Process) -> None:
        each = [VALUES[value](proc) for _ in range(proc.nprocs)]
        getattr(proc, name)(each if name in ("scatter", "alltoall") else each[0], algorithm=algorithm)

    real, abstract = (
        bsp.predict(main, nprocs=nprocs, elements=elements, machine=machine, abstract=way) for way in (False, True)
    )
    for quantity in ("h_sent", "h_received", "messages"):
        assert [row[quantity] for row in abstract] == [row[quantity] for row in real]


SIZE = 100_000
HELD: dict[str, tuple[Callable[[bsp.Process], Any], Callable[[int, int], float]]] = {
    # a call, and the arrays of SIZE numbers that process `pid` of p holds at most
    "put": (
        lambda proc: proc.coarray(SIZE).put((proc.pid + 1) % proc.nprocs, np.ones(SIZE)),
        lambda pid, p: 3,  # the coarray, the values, and their copy
    ),
    "unbuffered put": (
        lambda proc: proc.coarray(SIZE).put((proc.pid + 1) % proc.nprocs, np.ones(SIZE), buffered=False),
        lambda pid, p: 2,
    ),
    "gets by one": (
        lambda proc: [x.get(k) for x in [proc.coarray(SIZE)] for k in range(proc.nprocs * (not proc.pid))],
        lambda pid, p: 1 if pid else p + 1,
    ),
    "messages to one": (
        lambda proc: proc.send(0, np.ones(SIZE)),
        lambda pid, p: 2 if pid else p + 1,  # the values and their copy, which is gone when all have arrived
    ),
    "gather": (lambda proc: proc.gather(np.ones(SIZE)), lambda pid, p: 1 if pid else p + 1),
    "alltoall": (lambda proc: proc.alltoall([np.ones(SIZE)] * proc.nprocs), lambda pid, p: p + 1),
    "scatter": (
        lambda proc: proc.scatter(None if proc.pid else [np.ones(SIZE)] * proc.nprocs), lambda pid, p: 1 if pid else 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("nprocs", [2, 3, 8, 1100])
@pytest.mark.parametrize("name", HELD)
def test_memory_is_that_of_the_process_which_receives(name: str, nprocs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bsp.cost.prediction.predict.memory_in_use", lambda: 0)  # that is, before the program
    call, arrays = HELD[name]

    def main(proc: bsp.Process) -> Any:
        found = call(proc)
        proc.sync()
        return found

    found = bsp.predict(main, nprocs=nprocs, machine=bsp.Machine(p=nprocs), abstract=True)
    peaks = [element["peak_bytes"] / (8 * SIZE) for element in found.record["per_element"]]
    assert peaks == pytest.approx([arrays(pid, nprocs) for pid in range(nprocs)], rel=0.15 if nprocs == 2 else 0.05)


def test_copies_that_a_boundary_makes_are_no_work_of_the_next_process() -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(SIZE)
        np.ones(SIZE)
        x.get((proc.pid + 1) % proc.nprocs)
        proc.sync()
        proc.sync()

    rates = dict.fromkeys(("blas1", "blas2", "blas3", "elementwise", "bandwidth"), 1e9)
    found = bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4, rates=rates), abstract=True)
    assert [row["w"] > 0 for row in found.per_superstep] == [True, False]


def test_everything_is_as_before_afterwards_also_after_an_error() -> None:
    kept = np.zeros, np.random.default_rng

    def main(proc: bsp.Process) -> None:
        assert type(np.zeros(3)) is AbstractArray
        if np.zeros(3).sum() > 0:
            proc.sync()

    with pytest.raises(ValueNeeded, match=r"test_abstraction\.py:\d+"):
        bsp.predict(main, nprocs=2, machine=MACHINE, abstract=True)
    assert (np.zeros, np.random.default_rng) == kept
    assert not payload.weighing
    assert type(bsp.run(lambda proc: np.zeros(3), nprocs=2)[1]) is np.ndarray


@pytest.mark.parametrize(("times", "error"), [(1.5, TypeError), (True, TypeError), (-1, ValueError)])
def test_expect_refuses_what_is_no_number_of_times(times: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        bsp.expect(True, times=times)


@pytest.mark.parametrize("condition", [True, False, 0, 3, np.bool_(True), [], "text"])
def test_expect_of_a_value_is_its_truth(condition: Any) -> None:
    assert bsp.expect(condition, times=7) is bool(condition)
