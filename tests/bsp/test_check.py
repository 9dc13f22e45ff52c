"""--check: overlaps with both lines, and bytes that must not depend on the order of turns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bsp

shared: list[int] = []


def check(run: Any, main: Any, nprocs: int = 3) -> list[Any]:
    shared.clear()
    found: list[Any] = run(main, nprocs=nprocs, check=True)
    return found


LINE = r"test_check.py:\d+ by process"


@pytest.mark.parametrize("nprocs", [1, 2, 5])
def test_a_clean_program_passes_and_gives_its_results(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> float:
        x = proc.coarray(proc.nprocs + 1)
        right = (proc.pid + 1) % proc.nprocs
        x.put(right, float(proc.pid), at=proc.pid)  # everyone another place
        x.put(0, 1.0, at=-1, op="add")  # everyone the same place, with a common op
        x.put(right, 9.0, at=proc.pid)  # one's own earlier put: issue order is one's own affair
        proc.sync()
        got = x.get(right)
        proc.sync()
        print(got.value)
        return float(proc.allreduce(got.value.sum()))

    first = check(run, main, nprocs)
    assert first == run(main, nprocs=nprocs)


def test_two_puts_to_one_place_are_told_with_both_lines(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(8)
        if proc.pid == 0:
            x.put(2, [1.0, 2.0, 3.0], at=slice(1, 4))
        elif proc.pid == 1:
            x.put(2, 5.0, at=3)
        proc.sync()

    with pytest.raises(
        bsp.Overlap, match=rf"put at {LINE} 0 and put at {LINE} 1 touch the same element, flat position 3"
    ):
        check(run, main)


@pytest.mark.parametrize("ops", [("add", "max"), ("add", None)])
def test_puts_with_different_ops_conflict(run: Any, ops: tuple[Any, Any]) -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(4)
        if proc.pid < 2:
            x.put_each(2, [0, 1], [1.0, 1.0], op=ops[proc.pid])
        proc.sync()

    with pytest.raises(bsp.Overlap, match="give both the same op"):
        check(run, main)


def test_a_get_of_what_a_put_overwrites_is_told(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray((2, 2))
        proc.sync()
        if proc.pid == 0:
            x.put(1, [7.0], at=([1], [1]))
        elif proc.pid == 2:
            x.get(1, (slice(None), 1))
        proc.sync()

    with pytest.raises(
        bsp.Overlap, match=rf"put at {LINE} 0 and get at {LINE} 2 .* flat position 3 of 'x' on process 1"
    ):
        check(run, main)


def test_overlaps_are_found_in_the_registering_superstep_and_by_scattered_gets(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(4)
        if proc.pid == 0:
            x.put(1, 1.0, at=2)
        else:
            x.get_each([1, 1], [0, 2])
        proc.sync()

    with pytest.raises(bsp.Overlap, match="flat position 2"):
        check(run, main, nprocs=2)


@pytest.mark.solo
@pytest.mark.parametrize("way", ["message", "put", "text", "memory"])
def test_what_depends_on_the_order_of_turns_is_found(run: Any, way: str) -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(1)
        proc.sync()
        shared.append(proc.pid)  # a list that all processes of the interpreter see
        mine = len(shared)
        if way == "message":
            proc.send(0, mine)
        elif way == "put":
            x.put(proc.pid, float(mine))
        elif way == "text":
            print(mine)
        else:
            x.local[0] = mine
        proc.sync()

    with pytest.raises(
        bsp.ScheduleDependence, match=r"does something else in superstep 1 \(sync at test_check.py:\d+\)"
    ):
        shared.clear()
        bsp.run(main, nprocs=6, check=True)


def test_checking_changes_no_result(run: Any) -> None:
    def main(proc: bsp.Process) -> list[float]:
        x = proc.coarray(50)
        for k in range(20):
            x.put((proc.pid + k) % proc.nprocs, float(k), at=proc.pid)
        proc.sync()
        return [*x.local.tolist(), *np.random.random(3).tolist(), *proc.rng.random(2).tolist()]

    assert check(run, main) == run(main, nprocs=3)


def test_a_plain_put_under_ones_own_accumulate_still_conflicts_with_others(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        x = proc.coarray(3)
        if proc.pid == 0:
            x.put(2, [1.0], at=slice(0, 1))
            x.put(2, [2.0], at=slice(0, 1), op="add")
        elif proc.pid == 1:
            x.put(2, [3.0], at=slice(0, 1), op="add")
        proc.sync()

    with pytest.raises(bsp.Overlap, match="flat position 0"):
        check(run, main)


def test_puts_through_two_registrations_of_one_array_conflict(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        array = np.zeros(4)
        x, y = proc.register(array), proc.register(array)
        proc.sync()
        if proc.pid < 2:
            (x, y)[proc.pid].put(2, 1.0, at=1)
        proc.sync()

    with pytest.raises(bsp.Overlap, match="flat position 1"):
        check(run, main)
