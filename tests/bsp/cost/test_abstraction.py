"""Abstract runs: where shapes determine the traffic, it is that of the real program, and nothing is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bsp
from bsp.abstract import AbstractArray
from bsp.errors import ValueNeeded
from bsp.values import payload

pytestmark = pytest.mark.solo

MACHINE = bsp.Machine(p=4, r=1e9, g=4.0, L=1e4, o=1e2)


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


def test_objects_weigh_what_the_arrays_in_them_stand_for() -> None:
    def main(proc: bsp.Process) -> None:
        proc.send((proc.pid + 1) % proc.nprocs, {"a": np.zeros(10_000), "b": [np.zeros(500)]})
        proc.sync()
        assert proc.inbox[0].payload["a"].shape == (10_000,)
        proc.gather({"x": np.zeros(3000)}, algorithm="tree-2")

    real, abstract = (bsp.predict(main, nprocs=3, machine=MACHINE, abstract=way) for way in (False, True))
    assert abs(abstract[0]["h_sent"] - real[0]["h_sent"]) < 100
    assert abstract[1]["h_sent"] > 3000


@pytest.mark.parametrize("algorithm", [None, "one-phase", "two-phase", "tree-2"])
def test_a_broadcast_of_an_object_takes_the_way_it_really_takes(algorithm: str | None) -> None:
    def main(proc: bsp.Process) -> None:
        found = proc.broadcast({"A": np.zeros(200_000)} if proc.pid == 0 else None, algorithm=algorithm)
        assert found["A"].shape == (200_000,)

    real, abstract = (bsp.predict(main, nprocs=8, machine=MACHINE, abstract=way) for way in (False, True))
    assert [row["messages"] for row in abstract] == [row["messages"] for row in real]
    for name in ("h_sent", "h_received"):
        assert [row[name] for row in abstract] == pytest.approx([row[name] for row in real], abs=100)


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
