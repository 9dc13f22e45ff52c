"""Values that all processes give to all: an element keeps them once, and no process can tell."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any

import numpy as np
import pytest

import bsp
from bsp.engine.pool import Pool
from bsp.values.operations import KNOWN, combine
from bsp.values.payload import Packed

PROCS = [1, 2, 3, 8, 13]
LARGE = 5000  # items of an array that travels as a block


@pytest.mark.parametrize("nprocs", PROCS)
@pytest.mark.parametrize("size", [3, LARGE])
def test_every_process_has_an_array_of_its_own(run: Any, nprocs: int, size: int) -> None:
    def main(proc: bsp.Process) -> None:
        mine = np.full(size, proc.pid + 1.0)
        total = proc.allreduce(mine, algorithm="one-phase")
        everybodys = proc.allgather(mine, algorithm="one-phase")
        sums = proc.scan(mine, algorithm="one-phase")
        mine[...] = total[...] = sums[...] = -1  # those who read later find what was there
        for each in everybodys:
            assert each.flags.writeable and each.flags.aligned
            each -= each[0]
        again = proc.allgather(mine, algorithm="one-phase")
        assert np.array_equal(again, np.full((nprocs, size), -1.0))
        everybodys = proc.allgather(np.full(size, proc.pid + 1.0), algorithm="one-phase")
        assert np.array_equal(everybodys, [np.full(size, pid + 1.0) for pid in range(nprocs)])

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCS)
def test_results_are_those_of_processes_that_read_in_turn(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        mine = np.arange(4) + proc.pid
        first = proc.allreduce(mine, algorithm="one-phase")
        first += proc.pid  # before others read theirs
        assert np.array_equal(proc.allreduce(mine, algorithm="one-phase"), first - proc.pid)
        before = proc.exscan(mine, algorithm="one-phase")
        expected = sum((np.arange(4) + pid for pid in range(proc.pid)), np.zeros(4, int))
        assert np.array_equal(before, expected) and before.dtype == mine.dtype

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCS)
def test_an_operation_that_changes_its_arguments_changes_this_processs_own(run: Any, nprocs: int) -> None:
    def extend(a: list[int], b: list[int]) -> list[int]:
        a.extend(b)
        return a

    def add_in_place(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        a += b
        return a

    def main(proc: bsp.Process) -> None:
        assert proc.allreduce([proc.pid], op=extend, algorithm="one-phase") == list(range(nprocs))
        assert proc.scan([proc.pid], op=extend, algorithm="one-phase") == list(range(proc.pid + 1))
        mine = np.full(3, proc.pid)
        total = proc.allreduce(mine, op=add_in_place, algorithm="one-phase")
        assert np.array_equal(total, np.full(3, nprocs * (nprocs - 1) // 2)) and np.array_equal(mine, [proc.pid] * 3)
        shared = proc.allreduce([proc.pid], op="add", algorithm="one-phase")
        shared.append(-1)  # a list of its own
        assert proc.allreduce(len(shared), op="max", algorithm="one-phase") == nprocs + 1

    run(main, nprocs=nprocs)


FIXED: dict[str, Any] = {
    "places of the largest": lambda pid: (-abs(pid - 3) / 2, pid), "text": lambda pid: ("a" * pid, pid % 2 == 0),
    "nested": lambda pid: (np.float64(pid), (pid, "x"), b""), "lists inside": lambda pid: (pid, [pid]),
    "scalars": lambda pid: np.float32(pid) / 3, "text alone": str, "do not compare": lambda pid: (None, pid % 3),
}  # fmt: skip


@pytest.mark.parametrize("nprocs", PROCS)
@pytest.mark.parametrize("what", FIXED)
def test_values_that_cannot_change_are_combined_as_by_one_process(run: Any, nprocs: int, what: str) -> None:
    def main(proc: bsp.Process) -> None:
        values = [FIXED[what](pid) for pid in range(nprocs)]
        for op in ("add", "max", "min"):
            try:
                expected = combine(values, KNOWN[op])
            except TypeError:
                with pytest.raises(bsp.ShapeError, match="do not combine"):
                    proc.allreduce(values[proc.pid], op=op, algorithm="one-phase")
                continue
            found = proc.allreduce(values[proc.pid], op=op, algorithm="one-phase")
            first = proc.scan(values[proc.pid], op=op, algorithm="one-phase")
            assert found == expected and type(found) is type(expected)
            assert first == combine(values[: proc.pid + 1], KNOWN[op])
            if what == "lists inside":
                found[-1].append(-1)  # its own

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [2, 5])
def test_every_process_is_warned_by_its_own_filters(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        huge = np.full(2, 1e308)
        with np.errstate(over="raise" if proc.pid == nprocs - 1 else "ignore"):
            try:
                outcome = str(proc.allreduce(huge, algorithm="one-phase")[0])
            except FloatingPointError:
                outcome = "raised"
        assert outcome == ("raised" if proc.pid == nprocs - 1 else "inf")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            proc.allreduce(huge, algorithm="one-phase")
        assert any(issubclass(each.category, RuntimeWarning) for each in caught)

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCS)
def test_values_that_do_not_combine_are_named_on_every_process(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        mine = np.ones(3 if proc.pid else 2)
        with pytest.raises(bsp.ShapeError, match="do not combine") if nprocs > 1 else contextlib.nullcontext():
            proc.allreduce([mine], op=lambda a, b: [a[0] + b[0]], algorithm="one-phase")

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", PROCS)
def test_some_processes_send_rows_of_small_values_and_others_large_ones(run: Any, nprocs: int) -> None:
    def value(source: int, dest: int) -> Any:
        if source % 3 == 1:
            return np.full(LARGE if dest % 2 else 2, source - dest)
        return {"from": source, "to": dest, "padding": "x" * (9 * LARGE if source % 3 == 2 and not dest else 1)}

    def main(proc: bsp.Process) -> None:
        came = proc.alltoall([value(proc.pid, dest) for dest in range(nprocs)], algorithm="one-phase")
        for source, found in enumerate(came):
            expected = value(source, proc.pid)
            assert np.array_equal(found, expected) if isinstance(expected, np.ndarray) else found == expected

    run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", [2, 4, 7])
def test_small_supersteps_meet_others_that_are_not(run: Any, nprocs: int) -> None:
    """Processes that put a word meet one that needs more than one exchange, in each superstep another."""

    def main(proc: bsp.Process) -> None:
        board = proc.coarray(nprocs)
        big = proc.coarray(LARGE)
        proc.sync()
        right = (proc.pid + 1) % nprocs
        for superstep in range(5 * nprocs):
            board.put(right, np.array([superstep + 0.5]), at=slice(proc.pid, proc.pid + 1))
            other, pending = None, None
            if superstep % nprocs == proc.pid:
                match superstep // nprocs:
                    case 0:
                        big.put(right, np.full(LARGE, float(superstep)))
                    case 1:
                        pending = board.get(right, at=right)
                    case 2:
                        proc.send(right, np.full(LARGE, superstep), tag="large")
                    case 3:
                        print(f"process {proc.pid}")
            if superstep // nprocs == 4:
                other = proc.coarray(superstep + 1)
            proc.sync()
            assert board.local[proc.pid - 1] == superstep + 0.5
            if pending is not None:
                assert pending.value == 0
            if other is not None:
                other.release()
        assert np.all(big.local == (proc.pid - 1) % nprocs)

    run(main, nprocs=nprocs)


def test_the_last_reader_of_a_pool_owns_it() -> None:
    pool = Pool(3, {})
    given: dict[int, Packed] = {0: b"a", 1: np.ones(2)}
    pool.add(given)
    assert pool.shared and [pool.take() for _ in range(3)] == [False, False, True]
    assert not Pool(1, {}).shared and Pool(1, {}).take()


def test_what_follows_from_a_pool_is_made_once_and_again_after_an_error() -> None:
    pool = Pool(2, {})
    with pytest.raises(ZeroDivisionError):
        pool.once("ratio", lambda: 1 // 0)
    made = pool.once("ratio", lambda: [1])
    assert pool.once("ratio", lambda: [2]) is made
