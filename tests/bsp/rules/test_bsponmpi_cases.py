"""The test suite of BSPonMPI (Suijlen), case by case, as claims about this runtime.

Each docstring names the original.  Where BSPlib leaves something open or forbids it and we fix it, the
docstring says "Ours": a coarray is usable in the superstep that registers it, overlapping puts end in the
order of (source pid, issue order), messages arrive in the order of (source pid, issue order), a tag belongs
to its message, and a mistake is an exception, the same on every process where processes are compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests_run import PROCESSES, SEVERAL, told_to_all

import bsp

GROUP_SIZES = [1, 2, 3, 4, 5, 7, 8, 12]
TREES = ["tree", "tree-2", "tree-4", "tree-8", "tree-16"]


def tree(values: list[Any], op: Callable[[Any, Any], Any]) -> Any:
    """The balanced tree of D3, written down naively."""
    while len(values) > 1:
        pairs = [op(*values[i : i + 2]) if i + 1 < len(values) else values[i] for i in range(0, len(values), 2)]
        values = pairs
    return values[0]


# ------------------------------------------------------------------------------ push_reg, pop_reg


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_coarray_is_reachable_from_every_process(run: Any, nprocs: int) -> None:
    """BSPonMPI push_reg_1."""

    def main(proc: bsp.Process) -> list[float]:
        x = proc.coarray(proc.nprocs, fill=-1)
        proc.sync()
        for dest in range(proc.nprocs):
            x.put(dest, 10 * proc.pid + dest, at=proc.pid)
        proc.sync()
        return x.local.tolist()

    assert run(main, nprocs=nprocs) == [[10.0 * s + d for s in range(nprocs)] for d in range(nprocs)]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_sizes_may_differ_between_processes(run: Any, nprocs: int) -> None:
    """BSPonMPI push_reg_2: each process is written to in full, whatever its size."""

    def main(proc: bsp.Process) -> tuple[list[int], list[tuple[int, ...]]]:
        x = proc.coarray(3 * proc.pid + 1, dtype=int)
        proc.sync()
        right = (proc.pid + 1) % proc.nprocs
        x.put(right, np.arange(x.shape_on(right)[0]) + 100 * proc.pid)
        proc.sync()
        return x.local.tolist(), [x.shape_on(pid) for pid in range(proc.nprocs)]

    for pid, (held, shapes) in enumerate(run(main, nprocs=nprocs)):
        assert held == [100 * ((pid - 1) % nprocs) + k for k in range(3 * pid + 1)]
        assert shapes == [(3 * s + 1,) for s in range(nprocs)]


EMPTY = {
    "the first process": lambda pid, nprocs: pid == 0,
    "the last process": lambda pid, nprocs: pid == nprocs - 1,
    "all but the last": lambda pid, nprocs: pid != nprocs - 1,
    "all": lambda pid, nprocs: True,
}


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("who", EMPTY)
def test_an_instance_may_be_empty(run: Any, nprocs: int, who: str) -> None:
    """BSPonMPI push_reg_3 (zero size on one), push_reg_4, 5, 6 (NULL on p0, on all but the last, on all)."""
    empty = EMPTY[who]

    def main(proc: bsp.Process) -> list[float]:
        x = proc.coarray(0 if empty(proc.pid, proc.nprocs) else 2, fill=-1)
        proc.sync()
        for dest in range(proc.nprocs):
            x.put(dest, [proc.pid] * x.shape_on(dest)[0])
        proc.sync()
        return x.local.tolist()

    assert run(main, nprocs=nprocs) == [[] if empty(pid, nprocs) else [nprocs - 1.0] * 2 for pid in range(nprocs)]


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("who", EMPTY)
def test_registering_and_releasing_in_one_superstep_leaves_others_alone(run: Any, nprocs: int, who: str) -> None:
    """BSPonMPI push_reg_14, 15: push and pop of NULL in the same superstep."""
    empty = EMPTY[who]

    def main(proc: bsp.Process) -> tuple[list[float], str]:
        short = proc.coarray(0 if empty(proc.pid, proc.nprocs) else 1)
        kept = proc.coarray(1)
        short.release()
        proc.sync()
        kept.put((proc.pid + 1) % proc.nprocs, proc.pid + 1, at=0)
        try:
            short.get(proc.pid)
        except bsp.NotRegistered as error:
            refused = str(error)
        proc.sync()
        return kept.local.tolist(), refused

    for pid, (held, refused) in enumerate(run(main, nprocs=nprocs)):
        assert held == [(pid - 1) % nprocs + 1.0]
        assert "get on coarray 'short': it was released" in refused


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("supersteps", ["together", "newest first", "oldest first", "within one step"])
def test_an_array_registered_twice_is_reached_through_either_handle(run: Any, nprocs: int, supersteps: str) -> None:
    """BSPonMPI push_reg_7 to 10: the same address twice, popped together, in separate syncs, within one step.

    Ours: registrations do not stack; each has its own handle, and releasing one leaves the other.
    """

    def main(proc: bsp.Process) -> tuple[list[int], list[int], list[str]]:
        array = np.zeros(2, int)
        first, second = proc.register(array), proc.register(array)
        right = (proc.pid + 1) % proc.nprocs
        if supersteps == "within one step":
            first.release()
            second.release()
        else:
            proc.sync()
        first.put(right, proc.pid + 1, at=0)
        second.put(right, proc.pid + 11, at=1)
        if supersteps == "together":
            first.release()
            second.release()
        proc.sync()
        early = array.tolist()
        one_by_one = {"newest first": [second, first], "oldest first": [first, second]}
        for going in one_by_one.get(supersteps, []):
            staying = first if going is second else second
            going.release()
            proc.sync()
            if not staying._released:
                staying.put(right, 100 + proc.pid, at=1)
            proc.sync()
        refusals = []
        for handle in (first, second):
            try:
                handle.put(right, 0, at=0)
            except bsp.NotRegistered as error:
                refusals.append(str(error))
        proc.sync()
        return early, array.tolist(), refusals

    for pid, (early, late, refusals) in enumerate(run(main, nprocs=nprocs)):
        left = (pid - 1) % nprocs
        assert early == [left + 1, left + 11]
        assert late == [left + 1, 100 + left if "first" in supersteps else left + 11]
        assert len(refusals) == 2
        assert all("it was released" in refusal for refusal in refusals)


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("last", ["scalar", "block"])
def test_puts_through_two_handles_of_one_array_apply_in_issue_order(run: Any, nprocs: int, last: str) -> None:
    """After BSPonMPI push_reg_7: the same memory, registered a second time, written through both in turn.

    Ours: overlapping puts of one process end in issue order, whichever handle they went through (D1).
    """

    def main(proc: bsp.Process) -> list[float]:
        x = proc.coarray(1)
        again = proc.register(x.local)
        proc.sync()
        right = (proc.pid + 1) % proc.nprocs
        x.put(right, 1.0, at=0)
        again.put(right, [2.0], at=slice(0, 1))
        if last == "scalar":
            x.put(right, 3.0, at=0)
        else:
            x.put(right, [3.0], at=slice(0, 1))
        proc.sync()
        return x.local.tolist()

    assert run(main, nprocs=nprocs) == [[3.0]] * nprocs


SUBSETS = {
    "only the first": lambda pid, nprocs: pid == 0,
    "all but the first": lambda pid, nprocs: pid != 0,
    "only the last": lambda pid, nprocs: pid == nprocs - 1,
}


@pytest.mark.parametrize("nprocs", SEVERAL)
@pytest.mark.parametrize("who", SUBSETS)
@pytest.mark.parametrize("size", [0, 4])
def test_registering_on_a_subset_is_a_mismatch_on_every_process(run: Any, nprocs: int, who: str, size: int) -> None:
    """BSPonMPI push_reg_11, 13, 16 (abort): push on some processes only, with and without memory."""
    chosen = SUBSETS[who]

    def main(proc: bsp.Process) -> None:
        proc.coarray(3)
        if chosen(proc.pid, proc.nprocs):
            proc.coarray(size)
        proc.sync()

    error = told_to_all(run, main, nprocs)
    assert type(error) is bsp.RegistrationMismatch
    here, there = (2, 1) if chosen(0, nprocs) else (1, 2)
    other = next(pid for pid in range(nprocs) if chosen(pid, nprocs) != chosen(0, nprocs))
    assert f"process 0 has registered {here} coarray(s) and process {other} {there}" in str(error)
    assert "test_bsponmpi_cases.py:" in str(error)
    assert "superstep 0" in str(error)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_releasing_twice_in_a_superstep_is_once_and_later_is_refused(run: Any, nprocs: int) -> None:
    """BSPonMPI push_reg_12, pop_reg_2 (abort): pop of what is not registered, or popped already."""

    def main(proc: bsp.Process) -> tuple[str, list[float]]:
        x = proc.coarray(1)
        other = proc.coarray(1)
        proc.sync()
        x.release()
        x.release()
        proc.sync()
        try:
            x.release()
        except bsp.NotRegistered as error:
            refused = str(error)
        other.put((proc.pid + 1) % proc.nprocs, 5, at=0)
        proc.sync()
        return refused, other.local.tolist()

    for pid, (refused, held) in enumerate(run(main, nprocs=nprocs)):
        assert "release on coarray 'x': it was released" in refused
        assert f"process {pid}, superstep 2" in refused
        assert held == [5.0]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_interleaved_coarrays_are_matched_by_creation_order(run: Any, nprocs: int) -> None:
    """BSPonMPI push_reg_17: x, y, x, y pushed in turn; pop_reg_5, 6: each pop finds the right one of two."""

    def main(proc: bsp.Process) -> list[list[int]]:
        arrays = [np.full(2, -1) for _ in range(2)]
        handles = [proc.register(arrays[k % 2]) for k in range(4)]
        proc.sync()
        right = (proc.pid + 1) % proc.nprocs
        handles[0].release()
        handles[3].release()
        proc.sync()
        handles[1].put(right, 10 + proc.pid, at=0)
        handles[2].put(right, 20 + proc.pid, at=1)
        proc.sync()
        return [array.tolist() for array in arrays]

    for pid, arrays in enumerate(run(main, nprocs=nprocs)):
        left = (pid - 1) % nprocs
        assert arrays == [[-1, 20 + left], [10 + left, -1]]


@pytest.mark.parametrize("nprocs", [1, 3, 4])
def test_a_hundred_coarrays_twice_over_released_one_a_superstep(run: Any, nprocs: int) -> None:
    """BSPonMPI push_reg_18: 100 + 100 registrations, with a sync for each pop; the rest stay usable."""

    def main(proc: bsp.Process) -> list[int]:
        counter = np.zeros(100, int)
        first = [proc.register(counter[k : k + 1]) for k in range(100)]
        second = [proc.register(counter[k : k + 1]) for k in range(100)]
        right = (proc.pid + 1) % proc.nprocs
        for k in range(100):
            first[k].put(right, 1, at=0, op="add")  # still works: released in the same superstep
            first[k].release()
            second[99 - k].put(right, 10, at=0, op="add")
            proc.sync()
        for k in range(100):
            second[k].put(right, 100, at=0, op="add")
            second[k].release()
        proc.sync()
        return counter.tolist()

    assert run(main, nprocs=nprocs) == [[111] * 100] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_forty_five_handles_of_one_array_released_irregularly(run: Any, nprocs: int) -> None:
    """BSPonMPI push_reg_19: a stack of 45 registrations of one address, popped irregularly."""

    def main(proc: bsp.Process) -> tuple[list[int], int]:
        array = np.zeros(45, int)
        handles = {k: proc.register(array) for k in range(45)}
        right = (proc.pid + 1) % proc.nprocs
        refused = 0
        for step in range(9):
            for k in [(7 * step + 11 * j) % 45 for j in range(5)]:
                handle = handles.pop(k, None)
                if handle is not None:
                    handle.release()
            for k, handle in handles.items():
                handle.put(right, 1, at=k, op="add")
            proc.sync()
        for handle in handles.values():
            handle.release()
        proc.sync()
        for handle in handles.values():
            try:
                handle.get(right)
            except bsp.NotRegistered:
                refused += 1
        return array.tolist(), refused

    left, counts = dict.fromkeys(range(45)), [0] * 45
    for step in range(9):
        for k in [(7 * step + 11 * j) % 45 for j in range(5)]:
            left.pop(k, None)
        for k in left:
            counts[k] += 1
    assert 0 < len(left) < 45
    assert run(main, nprocs=nprocs) == [(counts, len(left))] * nprocs


@pytest.mark.parametrize("nprocs", SEVERAL)
@pytest.mark.parametrize("who", SUBSETS)
def test_releasing_on_a_subset_is_a_mismatch_on_every_process(run: Any, nprocs: int, who: str) -> None:
    """BSPonMPI pop_reg_1 (abort)."""
    chosen = SUBSETS[who]

    def main(proc: bsp.Process) -> None:
        x = proc.coarray(1)
        proc.sync()
        if chosen(proc.pid, proc.nprocs):
            x.release()
        proc.sync()

    error = told_to_all(run, main, nprocs)
    assert type(error) is bsp.RegistrationMismatch
    assert f"process 0 releases coarrays {[0] if chosen(0, nprocs) else []}" in str(error)
    assert "every process releases the same ones" in str(error)


@pytest.mark.parametrize("nprocs", SEVERAL)
@pytest.mark.parametrize("empty", [False, True])
def test_releasing_different_coarrays_is_a_mismatch_on_every_process(run: Any, nprocs: int, empty: bool) -> None:
    """BSPonMPI pop_reg_3, 4, 7 (abort): different registrations popped; NULL that never matches on all."""

    def main(proc: bsp.Process) -> None:
        x, y = proc.coarray(0 if empty else 1), proc.coarray(0 if empty else 1)
        proc.sync()
        (x if proc.pid == 0 else y).release()
        proc.sync()

    error = told_to_all(run, main, nprocs)
    assert type(error) is bsp.RegistrationMismatch
    assert "process 0 releases coarrays [0] and process 1 [1]" in str(error)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_an_empty_instance_is_released_with_the_coarray_it_belongs_to(run: Any, nprocs: int) -> None:
    """BSPonMPI pop_reg_5, 6: NULL on some processes matched against the right one of two."""

    def main(proc: bsp.Process) -> tuple[list[float], list[float]]:
        x = proc.coarray(0 if proc.pid % 2 == 0 else 1)
        y = proc.coarray(1)
        z = proc.coarray(0 if proc.pid % 2 else 1)
        proc.sync()
        x.release()
        y.put((proc.pid + 1) % proc.nprocs, 1 + proc.pid, at=0)
        proc.sync()
        z.release()
        y.put((proc.pid + 1) % proc.nprocs, 7, at=0, op="add")
        proc.sync()
        return y.local.tolist(), z.local.tolist()

    for pid, (y, z) in enumerate(run(main, nprocs=nprocs)):
        assert y == [(pid - 1) % nprocs + 8.0]
        assert z == ([] if pid % 2 else [0.0])


# ------------------------------------------------------------------------------------ put and get


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_puts_work_in_the_superstep_that_registers(run: Any, nprocs: int) -> None:
    """BSPonMPI put_1 (abort there).  Ours: legal; resolved at the boundary that makes the shapes known (B3)."""

    def main(proc: bsp.Process) -> list[float]:
        x = proc.coarray(4, fill=-1)
        right = (proc.pid + 1) % proc.nprocs
        x.put(right, 1.0 + proc.pid, at=0)
        x.put(right, [2.0 + proc.pid], at=slice(1, 2), buffered=False)
        x.put_each([right], [2], [3.0 + proc.pid])
        x[right, -1] = 4.0 + proc.pid
        proc.sync()
        return x.local.tolist()

    assert run(main, nprocs=nprocs) == [[(s - 1) % nprocs + k for k in (1.0, 2.0, 3.0, 4.0)] for s in range(nprocs)]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_gets_work_in_the_superstep_that_registers(run: Any, nprocs: int) -> None:
    """BSPonMPI get_1 (abort there).  Ours: legal, and they read what was assigned before the boundary."""

    def main(proc: bsp.Process) -> tuple[float, list[float], list[float]]:
        x = proc.coarray(3)
        left = (proc.pid - 1) % proc.nprocs
        one, some, each = x[left, 0], x.get(left, slice(1, 3)), x.get_each([left, proc.pid], [2, 0])
        x.local[:] = [proc.pid, 10 + proc.pid, 20 + proc.pid]
        proc.sync()
        return one.value, some.value.tolist(), each.value.tolist()

    for pid, (one, some, each) in enumerate(run(main, nprocs=nprocs)):
        left = (pid - 1) % nprocs
        assert one == left
        assert some == [10 + left, 20 + left]
        assert each == [20 + left, pid]


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("release_first", [False, True])
def test_a_reverse_exchange_by_puts_works_with_the_release_before_the_sync(
    run: Any, nprocs: int, release_first: bool
) -> None:
    """BSPonMPI put_2: a put issued before or after the pop, in the same superstep, still works."""

    def main(proc: bsp.Process) -> list[float]:
        x = proc.coarray(1, fill=-1)
        proc.sync()
        if release_first:
            x.release()
        x.put(proc.nprocs - 1 - proc.pid, proc.pid, at=0)
        if not release_first:
            x.release()
        proc.sync()
        return x.local.tolist()

    assert run(main, nprocs=nprocs) == [[nprocs - 1.0 - pid] for pid in range(nprocs)]


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("release_first", [False, True])
def test_a_reverse_exchange_by_gets_works_with_the_release_before_the_sync(
    run: Any, nprocs: int, release_first: bool
) -> None:
    """BSPonMPI get_2."""

    def main(proc: bsp.Process) -> float:
        x = proc.coarray(1, fill=proc.pid)
        proc.sync()
        if release_first:
            x.release()
        found = x.get(proc.nprocs - 1 - proc.pid, 0)
        if not release_first:
            x.release()
        proc.sync()
        return found.value

    assert run(main, nprocs=nprocs) == [nprocs - 1.0 - pid for pid in range(nprocs)]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_put_beyond_an_empty_remote_instance_raises_at_the_call(run: Any, nprocs: int) -> None:
    """BSPonMPI put_3 (abort): 4 bytes beyond a remote area of size zero.  Ours: at the call, and it can be caught."""

    def main(proc: bsp.Process) -> tuple[list[str], list[float]]:
        x = proc.coarray(0 if proc.pid == proc.nprocs - 1 else 1)
        proc.sync()
        last = proc.nprocs - 1
        said = []
        for call in (
            lambda: x.put(last, 1.0, at=0),
            lambda: x.put(last, [1.0], at=slice(0, 1)),
            lambda: x.put_each([last], [0], [1.0]),
        ):
            try:
                call()
            except bsp.PutOutOfRange as error:
                said.append(str(error))
        if last:
            x.put(0, 1, at=0, op="add")
        proc.sync()
        return said, x.local.tolist()

    last = nprocs - 1
    for pid, (said, held) in enumerate(run(main, nprocs=nprocs)):
        assert len(said) == 3
        assert f"put of 1 float64 at offset 0 runs 1 past the end of 'x' (length 0) on process {last}" in said[0]
        assert f"put of 1 float64 at offset 0 runs 1 past the end of 'x' (length 0) on process {last}" in said[1]
        assert f"put_each at position 0 of 'x' (shape (0,), axis length 0) on process {last}" in said[2]
        assert all(f"process {pid}, superstep 1)" in text for text in said)
        assert held == ([] if pid == last else [float(nprocs)] if pid == 0 else [0.0])


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_get_beyond_an_empty_remote_instance_raises_at_the_call(run: Any, nprocs: int) -> None:
    """BSPonMPI get_3 (abort)."""

    def main(proc: bsp.Process) -> list[str]:
        x = proc.coarray(0 if proc.pid == proc.nprocs - 1 else 1)
        proc.sync()
        last = proc.nprocs - 1
        said = []
        for call in (lambda: x.get(last, 0), lambda: x.get(last, slice(0, 1)), lambda: x.get_each([last], [0])):
            try:
                call()
            except bsp.GetOutOfRange as error:
                said.append(str(error))
        proc.sync()
        return said

    last = nprocs - 1
    for said in run(main, nprocs=nprocs):
        assert len(said) == 3
        assert f"get at offset 0 runs 1 past the end of 'x' (length 0) on process {last}" in said[0]
        assert f"get at offset 0 runs 1 past the end of 'x' (length 0) on process {last}" in said[1]
        assert f"get_each at position 0 of 'x' (shape (0,), axis length 0) on process {last}" in said[2]


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("buffered", [True, False])
def test_overlapping_puts_end_as_a_rooftile_with_the_highest_pid_on_top(run: Any, nprocs: int, buffered: bool) -> None:
    """BSPonMPI put_4: process s writes [s, s + 2); the highest source wins wherever two overlap."""

    def main(proc: bsp.Process) -> list[int]:
        x = proc.coarray(proc.nprocs + 1, dtype=int, fill=-1)
        values = np.full(2, proc.pid)
        proc.sync()
        for dest in range(proc.nprocs):
            x.put(dest, values, at=slice(proc.pid, proc.pid + 2), buffered=buffered)
        proc.sync()
        return x.local.tolist()

    assert run(main, nprocs=nprocs) == [[*range(nprocs), nprocs - 1]] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_overlapping_gets_each_read_what_stands_there(run: Any, nprocs: int) -> None:
    """BSPonMPI get_4 (rooftile) and get_5 (pyramid)."""

    def main(proc: bsp.Process) -> tuple[list[list[int]], list[list[int]]]:
        p, s = proc.nprocs, proc.pid
        x = proc.coarray(2 * p, dtype=int)
        x.local[:] = 100 * s + np.arange(2 * p)
        proc.sync()
        rooftile = [x.get(source, slice(s, s + 2)) for source in range(p)]
        pyramid = [x.get(source, slice(s, 2 * p - s)) for source in range(p)]
        proc.sync()
        return [got.value.tolist() for got in rooftile], [got.value.tolist() for got in pyramid]

    for s, (rooftile, pyramid) in enumerate(run(main, nprocs=nprocs)):
        assert rooftile == [[100 * source + s, 100 * source + s + 1] for source in range(nprocs)]
        assert pyramid == [[100 * source + k for k in range(s, 2 * nprocs - s)] for source in range(nprocs)]


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("upside_down", [False, True])
def test_overlapping_puts_end_as_a_pyramid_with_the_highest_pid_on_top(
    run: Any, nprocs: int, upside_down: bool
) -> None:
    """BSPonMPI put_5: process s writes [s, 2p - s), or the widest block comes from the highest pid."""

    def main(proc: bsp.Process) -> list[int]:
        p = proc.nprocs
        x = proc.coarray(2 * p, dtype=int, fill=-1)
        proc.sync()
        edge = p - 1 - proc.pid if upside_down else proc.pid
        for dest in range(p):
            x.put(dest, proc.pid, at=slice(edge, 2 * p - edge))
        proc.sync()
        return x.local.tolist()

    steps = [nprocs - 1] * 2 * nprocs if upside_down else [min(k, 2 * nprocs - 1 - k) for k in range(2 * nprocs)]
    assert run(main, nprocs=nprocs) == [steps] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("registered_now", [False, True])
def test_a_put_copies_at_the_call_and_writes_at_the_boundary(run: Any, nprocs: int, registered_now: bool) -> None:
    """BSPonMPI put_6: put x to myself, then x = 8, sync: x is the old one again."""

    def main(proc: bsp.Process) -> tuple[list[float], list[float]]:
        x = proc.coarray(3, fill=proc.pid)
        if not registered_now:
            proc.sync()
        x.put(proc.pid, x.local)
        x.local[:] = 8
        before = x.local.tolist()
        proc.sync()
        return before, x.local.tolist()

    assert run(main, nprocs=nprocs) == [([8.0] * 3, [float(pid)] * 3) for pid in range(nprocs)]


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("registered_now", [False, True])
def test_a_get_reads_at_the_boundary(run: Any, nprocs: int, registered_now: bool) -> None:
    """BSPonMPI get_6: get x from myself, then x = 8, sync: 8 was read; the receiver has a copy of its own."""

    def main(proc: bsp.Process) -> tuple[list[float], list[float], bool]:
        x = proc.coarray(3, fill=proc.pid)
        if not registered_now:
            proc.sync()
        mine, theirs = x.get(proc.pid), x.get((proc.pid + 1) % proc.nprocs)
        x.local[:] = 8 + proc.pid
        proc.sync()
        shared = np.shares_memory(mine.value, x.local)
        x.local[:] = 0
        return mine.value.tolist(), theirs.value.tolist(), shared

    expected = [([8.0 + s] * 3, [8.0 + (s + 1) % nprocs] * 3, False) for s in range(nprocs)]
    assert run(main, nprocs=nprocs) == expected


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_handle_of_a_run_that_has_ended_is_refused(run: Any, nprocs: int) -> None:
    """BSPonMPI put_7, get_7 (never registered) and the `_spmd` cases (calls outside the SPMD part), all aborts."""
    kept: dict[int, tuple[bsp.Process, bsp.Coarray]] = {}

    def main(proc: bsp.Process) -> None:
        kept[proc.pid] = proc, proc.coarray(1)
        proc.sync()

    run(main, nprocs=nprocs)

    def after(proc: bsp.Process) -> list[str]:
        said = []
        for call in ("put", "get", "put_each", "get_each", "release", "sync"):
            old, x = kept[proc.pid]
            calls: dict[str, Callable[[], Any]] = {
                "put": lambda: x.put(0, 1.0, at=0),
                "get": lambda: x.get(0),
                "put_each": lambda: x.put_each([0], [0], [1.0]),
                "get_each": lambda: x.get_each([0], [0]),
                "release": lambda: x.release(),
                "sync": lambda: old.sync(),
            }
            try:
                calls[call]()
            except bsp.NotRegistered as error:
                said.append(f"{call}: {error}")
        proc.sync()
        return said

    for said in run(after, nprocs=nprocs):
        assert len(said) == 6
        assert all("the run it belongs to has ended" in text for text in said)


def in_turn(nprocs: int, size: int) -> list[tuple[int, str, int, int, int, int]]:
    """A fixed muddle of (who, put or get, other, start, stop, value), overlapping everywhere."""
    todo = []
    for who in range(nprocs):
        for k in range(6):
            other, start = (who * 3 + k * 5) % nprocs, (who * 7 + k * 3) % (size - 1)
            stop = start + 1 + (who + k) % (size - start)
            todo.append((who, "put" if (who + k) % 3 else "get", other, start, stop, 100 * who + k))
    return todo


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("size", [5, 64, 1000])
def test_gets_read_before_any_overlapping_put_is_applied(run: Any, nprocs: int, size: int) -> None:
    """BSPonMPI putget_1, 2: overlapping puts and gets of one superstep, against a sequential replay."""
    todo = in_turn(nprocs, size)

    def main(proc: bsp.Process) -> tuple[list[int], list[list[int]]]:
        x = proc.coarray(size, dtype=int)
        x.local[:] = -1 - proc.pid - 10 * np.arange(size)
        proc.sync()
        gets = []
        for who, what, other, start, stop, value in todo:
            if who == proc.pid and what == "put":
                x.put(other, value + np.arange(stop - start), at=slice(start, stop))
            elif who == proc.pid:
                gets.append(x.get(other, slice(start, stop)))
        proc.sync()
        return x.local.tolist(), [got.value.tolist() for got in gets]

    memory = [-1 - s - 10 * np.arange(size) for s in range(nprocs)]
    read = [
        [memory[o][a:b].tolist() for w, what, o, a, b, _ in todo if w == s and what == "get"] for s in range(nprocs)
    ]
    for _, what, other, start, stop, value in todo:
        if what == "put":
            memory[other][start:stop] = value + np.arange(stop - start)
    assert run(main, nprocs=nprocs) == [(memory[s].tolist(), read[s]) for s in range(nprocs)]


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("words", [0, 1, 100, 5000, 131072])
def test_an_unbuffered_put_moves_the_block_as_it_stands(run: Any, nprocs: int, words: int) -> None:
    """BSPonMPI hpput_1 (our buffered=False); hpput_one_int_max in spirit: up to 1 MiB a block."""

    def main(proc: bsp.Process) -> bool:
        x = proc.coarray(words + 2, fill=-1)
        values = np.arange(words) + 1000.0 * proc.pid
        proc.sync()
        x.put((proc.pid + 1) % proc.nprocs, values, at=slice(1, words + 1), buffered=False)
        proc.sync()
        left = (proc.pid - 1) % proc.nprocs
        return x.local[0] == x.local[-1] == -1 and np.array_equal(x.local[1:-1], np.arange(words) + 1000.0 * left)

    assert run(main, nprocs=nprocs) == [True] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("words", [1, 100, 5000])
def test_unbuffered_puts_rotate_an_array_in_place(run: Any, nprocs: int, words: int) -> None:
    """After BSPonMPI hpput_1: undefined there.  Ours: what stood in the source at the boundary is what moves (D1)."""

    def main(proc: bsp.Process) -> tuple[float, float]:
        x = proc.coarray(words, fill=proc.pid)
        proc.sync()
        for _ in range(proc.nprocs + 1):
            x.put((proc.pid + 1) % proc.nprocs, x.local, buffered=False)
            proc.sync()
        return x.local.min(), x.local.max()

    assert run(main, nprocs=nprocs) == [((s - 1) % nprocs,) * 2 for s in range(nprocs)]


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("words", [1, 100, 5000, 131072])
def test_a_get_delivers_a_block_of_any_size(run: Any, nprocs: int, words: int) -> None:
    """BSPonMPI hpget_1.  Ours: there is one get; it delivers an aligned, writable copy of one's own (D9)."""

    def main(proc: bsp.Process) -> tuple[bool, bool]:
        x = proc.coarray(words)
        x.local[:] = np.arange(words) + 1000.0 * proc.pid
        found = x.get((proc.pid + 1) % proc.nprocs)
        proc.sync()
        value = found.value
        right = (proc.pid + 1) % proc.nprocs
        flags = value.flags
        return (
            np.array_equal(value, np.arange(words) + 1000.0 * right),
            flags.aligned and flags.writeable and flags.c_contiguous and not np.shares_memory(value, x.local),
        )

    assert run(main, nprocs=nprocs) == [(True, True)] * nprocs


# --------------------------------------------------------------------------------------- messages


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("bad", ["-1", "p", "True", "1.0", "None", "'0'", "2**70"])
def test_a_message_to_no_process_is_refused_and_nothing_is_sent(run: Any, nprocs: int, bad: str) -> None:
    """BSPonMPI send_* (abort): bad pid -1 and p, and what is no pid at all."""
    dest = eval(bad, {"p": nprocs})

    def main(proc: bsp.Process) -> tuple[str, list[Any]]:
        try:
            proc.send(dest, "lost")
        except bsp.NoSuchProcess as error:
            said = str(error)
        proc.sync()
        return said, list(proc.inbox)

    for pid, (said, inbox) in enumerate(run(main, nprocs=nprocs)):
        assert f"send to process {dest!r}: pids are integers in 0..{nprocs - 1}" in said
        assert f"process {pid}, superstep 0)" in said
        assert inbox == []


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_payload_or_tag_that_cannot_be_pickled_is_refused_at_the_call(run: Any, nprocs: int) -> None:
    """BSPonMPI send_* (abort): NULL arguments with a size; the nearest thing here is what cannot travel."""

    def main(proc: bsp.Process) -> tuple[list[str], int]:
        said = []
        for payload, tag in ((lambda: None, None), (1, lambda: None), ((n for n in ()), "t")):
            try:
                proc.send(0, payload, tag)
            except bsp.CannotSend as error:
                said.append(str(error))
        proc.sync()
        return said, len(proc.inbox)

    for said, count in run(main, nprocs=nprocs):
        assert [text.split(":")[0] for text in said] == [
            "send to process 0 of function",
            "send to process 0 of a function as tag",
            "send to process 0 of generator",
        ]
        assert all("cannot be pickled" in text for text in said)
        assert count == 0


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_messages_arrive_in_order_of_source_and_issue(run: Any, nprocs: int) -> None:
    """BSPonMPI send and move.  Ours: BSPlib promises no order, we fix (source pid, issue order) (D2)."""

    def main(proc: bsp.Process) -> list[tuple[int, Any, Any]]:
        for k in range(3):
            for dest in reversed(range(proc.nprocs)):
                proc.send(dest, (proc.pid, dest, k), tag=k)
        proc.sync()
        return [tuple(message) for message in proc.inbox]

    for pid, inbox in enumerate(run(main, nprocs=nprocs)):
        assert inbox == [(s, k, (s, pid, k)) for s in range(nprocs) for k in range(3)]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_an_empty_queue_is_an_empty_list(run: Any, nprocs: int) -> None:
    """BSPonMPI move, hpmove, get_tag on an empty queue (abort, or status -1).  Ours: a list like any other."""

    def main(proc: bsp.Process) -> list[int]:
        sizes = [len(proc.inbox)]
        proc.sync()
        sizes.append(len(proc.inbox))
        if proc.pid == 0:
            proc.send(proc.nprocs - 1, "x")
        proc.sync()
        sizes.append(len(proc.inbox))
        proc.sync()
        return [*sizes, len(proc.inbox)]

    assert run(main, nprocs=nprocs) == [[0, 0, int(pid == nprocs - 1), 0] for pid in range(nprocs)]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_queue_lives_until_the_next_boundary_and_what_was_kept_lives_on(run: Any, nprocs: int) -> None:
    """BSPonMPI move_*: unread messages are discarded at the next sync.  Ours: `inbox` becomes a new list (B1)."""

    def main(proc: bsp.Process) -> tuple[bool, list[int], list[int], bool]:
        proc.send((proc.pid + 1) % proc.nprocs, 1)
        proc.sync()
        first = proc.inbox
        same = proc.inbox is first
        proc.send((proc.pid + 1) % proc.nprocs, 2)
        proc.sync()
        second = proc.inbox
        return same, [m.payload for m in first], [m.payload for m in second], first is second

    assert run(main, nprocs=nprocs) == [(True, [1], [2], False)] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_the_queue_knows_how_much_has_arrived(run: Any, nprocs: int) -> None:
    """BSPonMPI qsize_*: number of messages and their bytes, ragged sizes, zero-size messages included."""

    def main(proc: bsp.Process) -> tuple[int, int]:
        for dest in range(proc.nprocs):
            for size in range((proc.pid + dest) % 3 + 1):
                proc.send(dest, np.zeros(size, np.int32))
        proc.sync()
        return len(proc.inbox), sum(message.payload.nbytes for message in proc.inbox)

    expected = []
    for dest in range(nprocs):
        counts = [(s + dest) % 3 + 1 for s in range(nprocs)]
        expected.append((sum(counts), sum(4 * sum(range(count)) for count in counts)))
    assert run(main, nprocs=nprocs) == expected


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_message_without_payload_is_delivered(run: Any, nprocs: int) -> None:
    """BSPonMPI send: a zero-byte payload is a message still; the tag says what it is about."""

    def main(proc: bsp.Process) -> list[tuple[int, Any, str]]:
        right = (proc.pid + 1) % proc.nprocs
        proc.send(right, None, tag="nothing")
        proc.send(right, b"", tag="no bytes")
        proc.send(right, np.empty((0, 3)), tag="no rows")
        proc.sync()
        return [(m.source, m.tag, repr(getattr(m.payload, "shape", m.payload))) for m in proc.inbox]

    for pid, inbox in enumerate(run(main, nprocs=nprocs)):
        left = (pid - 1) % nprocs
        assert inbox == [(left, "nothing", "None"), (left, "no bytes", "b''"), (left, "no rows", "(0, 3)")]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_what_is_sent_is_the_value_at_the_call(run: Any, nprocs: int) -> None:
    """BSPonMPI send (buffered on both sides): the sender may change the payload at once, also one sent to itself."""

    def main(proc: bsp.Process) -> list[Any]:
        array, listed = np.arange(3) + proc.pid, [proc.pid]
        for dest in range(proc.nprocs):
            proc.send(dest, array)
            proc.send(dest, listed)
            array += 100
            listed.append(dest)
        proc.sync()
        return [m.payload.tolist() if isinstance(m.payload, np.ndarray) else m.payload for m in proc.inbox]

    for pid, inbox in enumerate(run(main, nprocs=nprocs)):
        expected: list[Any] = []
        for s in range(nprocs):
            expected += [[s + 100 * pid + k for k in range(3)], [s, *range(pid)]]
        assert inbox == expected


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("words", [0, 3, 5000])
def test_a_received_array_is_the_receivers_own(run: Any, nprocs: int, words: int) -> None:
    """BSPonMPI hpmove_*: without a copy there.  Ours: aligned, C-ordered, writable and not shared (D9)."""

    def main(proc: bsp.Process) -> tuple[list[float], list[float], bool]:
        array = np.full(words, float(proc.pid))
        for dest in range(proc.nprocs):
            proc.send(dest, array)
        proc.sync()
        received = [message.payload for message in proc.inbox]
        fit = True
        for part in received:
            fit &= part.flags.aligned and part.flags.c_contiguous and part.flags.writeable
            fit &= not any(np.shares_memory(part, other) for other in [array, *received] if other is not part)
            part += 1000 * (proc.pid + 1)
        proc.sync()  # everybody has written to what it received
        return array.tolist(), [part.sum() for part in received], bool(fit)

    for pid, (sent, sums, fit) in enumerate(run(main, nprocs=nprocs)):
        assert sent == [float(pid)] * words
        assert sums == [words * (s + 1000.0 * (pid + 1)) for s in range(nprocs)]
        assert fit


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_tag_belongs_to_its_message_and_needs_no_agreement(run: Any, nprocs: int) -> None:
    """BSPonMPI set_tagsize_1 to 5, _null, _negative, default_tagsize, send_various_tags.

    Ours: no tag size is set, none is agreed on, and none takes effect a superstep later; None by default.
    """
    tags = [None, 0, "", "word", b"bytes", (1, "two", 3.0), 2**80, frozenset({1})]

    def main(proc: bsp.Process) -> list[Any]:
        right = (proc.pid + 1) % proc.nprocs
        proc.send(right, "default")
        for tag in tags[proc.pid % len(tags) :]:  # every process uses other ones, and other sizes
            proc.send(right, np.ones(2), tag=tag)
        proc.sync()
        return [message.tag for message in proc.inbox]

    assert run(main, nprocs=nprocs) == [[None, *tags[(pid - 1) % nprocs % len(tags) :]] for pid in range(nprocs)]


# ------------------------------------------------------------------------- sync, begin, end, abort


@pytest.mark.parametrize("nprocs", SEVERAL)
@pytest.mark.parametrize("who", ["the first", "all but the first", "the last"])
@pytest.mark.parametrize("supersteps", [0, 2])
def test_returning_while_others_sync_is_a_mismatch_on_all_who_wait(
    run: Any, nprocs: int, who: str, supersteps: int
) -> None:
    """BSPonMPI sync_1, 2, 3 (abort): some call bsp_sync while others call bsp_end, both ways."""
    waits = {
        "the first": lambda pid: pid == 0,
        "all but the first": lambda pid: pid != 0,
        "the last": lambda pid: pid == nprocs - 1,
    }[who]

    def main(proc: bsp.Process) -> None:
        for _ in range(supersteps):
            proc.sync()
        if waits(proc.pid):
            proc.sync()

    gone = tuple(pid for pid in range(nprocs) if not waits(pid))
    error = told_to_all(run, main, nprocs, gone)
    assert type(error) is bsp.SyncMismatch
    assert "returned; process" in str(error)
    assert "in sync at test_bsponmpi_cases.py:" in str(error)
    assert f"(superstep {supersteps})" in str(error)
    assert str(error).startswith(f"process {gone[0]} has" if len(gone) == 1 else f"processes {gone[0]}")


@pytest.mark.parametrize("nprocs", SEVERAL)
def test_syncs_at_different_lines_are_one_boundary(run: Any, nprocs: int) -> None:
    """BSPonMPI sync: only the number of syncs counts."""

    def main(proc: bsp.Process) -> list[int]:
        x = proc.coarray(1, dtype=int)
        x.put((proc.pid + 1) % proc.nprocs, proc.pid, at=0)
        if proc.pid % 2:
            proc.sync()
        else:
            proc.sync()
        return x.local.tolist()

    assert run(main, nprocs=nprocs) == [[(pid - 1) % nprocs] for pid in range(nprocs)]


@pytest.mark.parametrize("nprocs", [*PROCESSES, 12])
def test_pids_count_from_zero_to_nprocs(run: Any, nprocs: int) -> None:
    """BSPonMPI begin, init, nprocs, pid; begin(nprocs/2): a job may be smaller than the machine."""

    def main(proc: bsp.Process, extra: str) -> tuple[int, int, int, str]:
        before = proc.superstep
        proc.sync()
        return proc.pid, proc.nprocs, proc.superstep - before, extra

    assert run(main, "argument", nprocs=nprocs) == [(pid, nprocs, 1, "argument") for pid in range(nprocs)]


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_a_program_without_a_boundary_runs_and_one_run_leaves_nothing_to_the_next(run: Any, nprocs: int) -> None:
    """BSPonMPI lifecycle: begin directly followed by end, and again."""

    def fresh(proc: bsp.Process) -> tuple[int, int]:
        return proc.superstep, len(proc.inbox)

    def busy(proc: bsp.Process) -> int:
        proc.coarray(5)
        proc.send(0, "x")
        proc.sync()
        return len(proc.inbox)

    assert run(fresh, nprocs=nprocs) == [(0, 0)] * nprocs
    assert run(busy, nprocs=nprocs) == [nprocs] + [0] * (nprocs - 1)
    assert run(fresh, nprocs=nprocs) == [(0, 0)] * nprocs


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_what_one_process_raises_ends_the_job_and_the_others_hear_who_it_was(run: Any, nprocs: int) -> None:
    """BSPonMPI abort.  Ours: an exception; the job raises it as it was raised, the others get ProcessFailed."""
    culprit = nprocs - 1
    notes: dict[int, str] = {}

    def main(proc: bsp.Process) -> None:
        proc.sync()
        if proc.pid == culprit:
            raise ZeroDivisionError("no convergence")
        try:
            proc.sync()
        except bsp.ProcessFailed as error:
            notes[proc.pid] = str(error)
            raise

    with pytest.raises(ZeroDivisionError, match="no convergence") as ended:
        run(main, nprocs=nprocs)
    assert str(ended.value) == "no convergence"
    assert f"raised by process {culprit} in superstep 1" in "".join(ended.value.__notes__)
    told = run(lambda proc: notes.get(proc.pid, ""), nprocs=nprocs)
    assert len(set(told[:culprit])) <= 1
    for text in told[:culprit]:
        assert f"process {culprit} raised ZeroDivisionError: no convergence" in text
    assert told[culprit] == ""


@pytest.mark.parametrize("nprocs", SEVERAL)
def test_effects_after_the_last_boundary_are_an_error(run: Any, nprocs: int) -> None:
    """BSPonMPI lifecycle: communication issued before bsp_end without a sync.  Ours: an error, not silence (B5)."""

    def main(proc: bsp.Process) -> None:
        proc.sync()
        if proc.pid == 1:
            proc.send(0, "too late")

    with pytest.raises(bsp.EffectsLost, match=r"process 1 ends with 1 put, get or send call\(s\).*superstep 1"):
        run(main, nprocs=nprocs)


# ------------------------------------------------------------------------ bsc_*: collectives, groups


def groups_of(nprocs: int) -> dict[str, list[list[int]]]:
    """Ways to divide 0..p-1; the groups of one way work side by side."""
    return {
        "backwards": [list(range(nprocs))[::-1]],
        "evens and odds": [part for part in (list(range(0, nprocs, 2)), list(range(1, nprocs, 2))) if part],
        "only the last": [[nprocs - 1]],
        "thirds, some idle": [part for part in (list(range(k, nprocs, 3)) for k in (2, 0)) if part],
    }


def mine(groups: list[list[int]], pid: int) -> list[int]:
    """The group of this process; one that is idle names the first."""
    return next((group for group in groups if pid in group), groups[0])


WAYS = list(groups_of(1))


@pytest.mark.parametrize("nprocs", GROUP_SIZES)
@pytest.mark.parametrize("algorithm", [None, "one-phase", "two-phase", *TREES])
def test_broadcast_reaches_everyone_from_every_root(run: Any, nprocs: int, algorithm: str | None) -> None:
    """BSPonMPI bsc_bcast_2phase, bsc_bcast_qtree: sizes that p does not divide, and smaller than p."""
    sizes = [0, 1, 2, 7, 101]

    def main(proc: bsp.Process) -> list[Any]:
        found: list[Any] = []
        for root in range(proc.nprocs):
            size = sizes[root % len(sizes)]
            value = np.arange(size) * 3 + root if proc.pid == root else None
            found.append(proc.broadcast(value, root=root, algorithm=algorithm).tolist())
        found.append(proc.broadcast({"text": [1, 2]} if proc.pid == 0 else "ignored", algorithm=algorithm))
        return found

    expected: list[Any] = [[3 * k + root for k in range(sizes[root % len(sizes)])] for root in range(nprocs)]
    assert run(main, nprocs=nprocs) == [[*expected, {"text": [1, 2]}]] * nprocs


@pytest.mark.parametrize("nprocs", GROUP_SIZES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("algorithm", [None, "one-phase", "two-phase", "tree-2", "tree-4"])
def test_broadcasts_of_several_groups_work_side_by_side(run: Any, nprocs: int, way: str, algorithm: str | None) -> None:
    """BSPonMPI bsc_bcast_* over groups; idle processes take the same supersteps and get None."""
    groups = groups_of(nprocs)[way]

    def main(proc: bsp.Process) -> tuple[Any, int]:
        group = mine(groups, proc.pid)
        root = group[-1]
        value = np.arange(13) + 100 * root if proc.pid == root else None
        got = proc.broadcast(value, root=root, group=group, algorithm=algorithm)
        return (None if got is None else got.tolist()), proc.superstep

    results = run(main, nprocs=nprocs)
    assert len({superstep for _, superstep in results}) == 1
    for pid, (got, _) in enumerate(results):
        group = mine(groups, pid)
        assert got == ([100 * group[-1] + k for k in range(13)] if pid in group else None)


def noisy(pid: int, size: int) -> np.ndarray:
    """Numbers whose sum depends on the order of summation."""
    return 10.0 ** ((np.arange(size) * 5 + pid * 7) % 17) / 3 - pid


@pytest.mark.parametrize("nprocs", GROUP_SIZES)
@pytest.mark.parametrize("algorithm", [None, "one-phase", "two-phase", *TREES])
def test_reductions_give_the_bytes_of_one_tree_by_every_algorithm(run: Any, nprocs: int, algorithm: str | None) -> None:
    """BSPonMPI bsc_reduce_qtree, bsc_allreduce_qtree.  Ours: the same bytes whatever the algorithm (D3)."""
    sizes = [0, 1, 3, 17]

    def main(proc: bsp.Process) -> list[Any]:
        found = []
        for size in sizes:
            value = noisy(proc.pid, size)
            root = size % proc.nprocs
            to_one = proc.reduce(value, root=root, algorithm=algorithm)
            to_all = proc.allreduce(value, algorithm=algorithm)
            found.append((None if to_one is None else to_one.tobytes(), to_all.tobytes(), to_all.shape))
        return found

    for pid, found in enumerate(run(main, nprocs=nprocs)):
        for size, (to_one, to_all, shape) in zip(sizes, found, strict=True):
            whole = tree([noisy(s, size) for s in range(nprocs)], np.add).tobytes()
            assert to_one == (whole if pid == size % nprocs else None)
            assert to_all == whole
            assert shape == (size,)


@pytest.mark.parametrize("nprocs", GROUP_SIZES)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("algorithm", [None, "one-phase", "tree-2", "tree-4"])
def test_reductions_of_several_groups_work_side_by_side(run: Any, nprocs: int, way: str, algorithm: str | None) -> None:
    """BSPonMPI bsc_reduce_*, bsc_allreduce_* over groups: combined in the order the group names its members."""
    groups = groups_of(nprocs)[way]

    def main(proc: bsp.Process) -> tuple[Any, Any, Any]:
        group = mine(groups, proc.pid)
        value = noisy(proc.pid, 6)
        to_one = proc.reduce(value, root=group[0], group=group, algorithm=algorithm)
        to_all = proc.allreduce(value, group=group, algorithm=algorithm)
        word = proc.allreduce(chr(97 + proc.pid), group=group, algorithm=algorithm)
        return (None if to_one is None else to_one.tobytes()), (None if to_all is None else to_all.tobytes()), word

    for pid, (to_one, to_all, word) in enumerate(run(main, nprocs=nprocs)):
        group = mine(groups, pid)
        whole = tree([noisy(s, 6) for s in group], np.add).tobytes() if pid in group else None
        assert to_one == (whole if pid == group[0] else None)
        assert to_all == whole
        assert word == ("".join(chr(97 + s) for s in group) if pid in group else None)


@pytest.mark.parametrize("nprocs", GROUP_SIZES)
@pytest.mark.parametrize("algorithm", [None, "one-phase", "two-phase"])
def test_scans_give_every_prefix_the_bytes_of_its_own_tree(run: Any, nprocs: int, algorithm: str | None) -> None:
    """BSPonMPI bsc_scan_3tree."""

    def main(proc: bsp.Process) -> list[Any]:
        value = noisy(proc.pid, 5)
        upto = proc.scan(value, algorithm=algorithm)
        before = proc.exscan(value, algorithm=algorithm)
        least = proc.exscan(value, op="min", algorithm=algorithm)
        return [upto.tobytes(), before.tobytes(), None if least is None else least.tobytes()]

    for pid, (upto, before, least) in enumerate(run(main, nprocs=nprocs)):
        values = [noisy(s, 5) for s in range(pid + 1)]
        assert upto == tree(values, np.add).tobytes()
        assert before == (tree(values[:-1], np.add) if pid else np.zeros(5)).tobytes()
        assert least == (tree(values[:-1], np.minimum).tobytes() if pid else None)


@pytest.mark.parametrize("nprocs", GROUP_SIZES)
@pytest.mark.parametrize("way", WAYS)
def test_scans_of_several_groups_go_in_the_order_of_the_group(run: Any, nprocs: int, way: str) -> None:
    """BSPonMPI bsc_scan_* over groups."""
    groups = groups_of(nprocs)[way]

    def main(proc: bsp.Process) -> tuple[Any, Any]:
        group = mine(groups, proc.pid)
        letter = chr(97 + proc.pid)
        return proc.scan(letter, group=group), proc.exscan(proc.pid + 1, group=group)

    for pid, (upto, before) in enumerate(run(main, nprocs=nprocs)):
        group = mine(groups, pid)
        members = group[: group.index(pid) + 1] if pid in group else []
        assert upto == ("".join(chr(97 + s) for s in members) if members else None)
        assert before == (sum(s + 1 for s in members[:-1]) if members else None)


@pytest.mark.parametrize("nprocs", GROUP_SIZES)
@pytest.mark.parametrize("way", ["everyone", *WAYS])
@pytest.mark.parametrize("algorithm", [None, "one-phase", "tree-2", "tree-4"])
def test_scatter_and_gather_of_ragged_parts_are_inverse(run: Any, nprocs: int, way: str, algorithm: str | None) -> None:
    """BSPonMPI bsc_scatter_partition, bsc_gather_partition, bsc_*_neighbour, over groups."""
    groups = groups_of(nprocs)[way] if way != "everyone" else [list(range(nprocs))]

    def main(proc: bsp.Process) -> tuple[Any, Any]:
        group = mine(groups, proc.pid)
        root = group[len(group) // 2]
        names = None if way == "everyone" else group
        parts = [np.arange(2 * s) + 100 * root for s in group] if proc.pid == root else None
        part = proc.scatter(parts, root=root, group=names, algorithm=algorithm)
        back = proc.gather(part, root=root, group=names, algorithm=algorithm)
        return (None if part is None else part.tolist()), (None if back is None else [b.tolist() for b in back])

    for pid, (part, back) in enumerate(run(main, nprocs=nprocs)):
        group = mine(groups, pid)
        root = group[len(group) // 2]
        parts = {s: [100 * root + k for k in range(2 * s)] for s in group}
        assert part == parts.get(pid)
        assert back == (list(parts.values()) if pid == root else None)


@pytest.mark.parametrize("nprocs", GROUP_SIZES)
@pytest.mark.parametrize("way", ["everyone", *WAYS])
@pytest.mark.parametrize("short", [None, "one-phase", "of log p steps"])
def test_alltoall_transposes_and_allgather_collects(run: Any, nprocs: int, way: str, short: str | None) -> None:
    """BSPonMPI bsc_alltoall_neighbour, bsc_allgather_neighbour, over groups."""
    groups = groups_of(nprocs)[way] if way != "everyone" else [list(range(nprocs))]
    logarithmic, doubling = ("logarithmic", "doubling") if short == "of log p steps" else (short, short)

    def main(proc: bsp.Process) -> tuple[Any, Any]:
        group = mine(groups, proc.pid)
        names = None if way == "everyone" else group
        rows = [np.full(dest + 1, proc.pid) for dest in group]
        swapped = proc.alltoall(rows, group=names, algorithm=logarithmic)
        everybody = proc.allgather(("from", proc.pid), group=names, algorithm=doubling)
        return (None if swapped is None else [row.tolist() for row in swapped]), everybody

    for pid, (swapped, everybody) in enumerate(run(main, nprocs=nprocs)):
        group = mine(groups, pid)
        assert swapped == ([[s] * (pid + 1) for s in group] if pid in group else None)
        assert everybody == ([("from", s) for s in group] if pid in group else None)


@pytest.mark.parametrize("nprocs", GROUP_SIZES)
def test_collectives_one_after_another_do_not_mix(run: Any, nprocs: int) -> None:
    """BSPonMPI bsc combis, bsc_sync_*: many collectives in a row, with messages of the user's own between.

    Ours: they are not deferred and coalesced; each is one boundary for the user's messages (B1).
    """

    def main(proc: bsp.Process) -> list[Any]:
        proc.send((proc.pid + 1) % proc.nprocs, "hello")
        total = proc.allreduce(proc.pid)
        heard = [message.payload for message in proc.inbox]
        names = proc.allgather(f"p{proc.pid}")
        forgotten = len(proc.inbox)
        first = proc.broadcast(names[0] if proc.pid == 0 else None)
        upto = proc.scan(1, algorithm="one-phase")
        turned = proc.alltoall([(proc.pid, d) for d in range(proc.nprocs)], algorithm="logarithmic")
        return [total, heard, forgotten, names, first, upto, turned]

    for pid, found in enumerate(run(main, nprocs=nprocs)):
        names = [f"p{s}" for s in range(nprocs)]
        total = nprocs * (nprocs - 1) // 2
        assert found == [total, ["hello"], 0, names, "p0", pid + 1, [(s, pid) for s in range(nprocs)]]


@pytest.mark.parametrize("nprocs", SEVERAL)
def test_groups_that_disagree_about_their_members_are_a_mismatch_on_every_process(run: Any, nprocs: int) -> None:
    """BSPonMPI bsc_sync_*: groups have to be consistent.  Ours: whoever hears from another group says so."""

    def main(proc: bsp.Process) -> None:
        group = list(range(proc.nprocs)) if proc.pid == 0 else list(range(proc.nprocs))[::-1]
        proc.allgather(proc.pid, group=group)
        proc.sync()

    with pytest.raises(bsp.SyncMismatch, match="all members of a group must name the same group"):
        run(main, nprocs=nprocs)


@pytest.mark.parametrize("nprocs", SEVERAL)
def test_different_collectives_are_a_mismatch_on_every_process(run: Any, nprocs: int) -> None:
    """BSPonMPI bsc: collectives have to match; ours names both calls and both lines."""

    def main(proc: bsp.Process) -> None:
        if proc.pid == 0:
            proc.broadcast(1, root=0)
        else:
            proc.gather(1, root=0)

    error = told_to_all(run, main, nprocs)
    assert type(error) is bsp.SyncMismatch
    assert "process 0 waits in broadcast(root=0) at test_bsponmpi_cases.py:" in str(error)
    assert "in gather(root=0) at test_bsponmpi_cases.py:" in str(error)
    assert "every process must make the same call" in str(error)


# ------------------------------------------------- the four programs of Hill et al., BSPlib (1998)


@pytest.mark.parametrize("nprocs", PROCESSES)
def test_paper_example_reverse(run: Any, nprocs: int) -> None:
    """BSPonMPI paper_example_reverse: x on process s goes to p - 1 - s, the put inside a function of its own."""

    def reverse(proc: bsp.Process, x: int) -> int:
        registered = proc.register(np.array([x]))
        registered.put(proc.nprocs - 1 - proc.pid, x, at=0)
        proc.sync()
        registered.release()
        return int(registered.local[0])

    def main(proc: bsp.Process) -> int:
        once = reverse(proc, proc.pid + 1)
        assert reverse(proc, once) == proc.pid + 1
        return once

    assert run(main, nprocs=nprocs) == list(range(nprocs, 0, -1))


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("each", [1, 4, 97])
def test_paper_example_put_array(run: Any, nprocs: int, each: int) -> None:
    """BSPonMPI paper_example_put_array: xs[xs[i]] = xs[i] for a permutation dealt in blocks sorts it."""
    n = nprocs * each

    def main(proc: bsp.Process) -> tuple[list[int], list[int]]:
        permutation = (np.arange(n) * 7919 + 13) % n if np.gcd(7919, n) == 1 else np.arange(n)[::-1]
        by_ones, at_once = proc.coarray(each, dtype=int, fill=-1), proc.coarray(each, dtype=int, fill=-1)
        for value in permutation[proc.pid * each : (proc.pid + 1) * each].tolist():
            by_ones.put(value // each, value, at=value % each)
        block = permutation[proc.pid * each : (proc.pid + 1) * each]
        at_once.put_each(block // each, block % each, block)
        proc.sync()
        return by_ones.local.tolist(), at_once.local.tolist()

    expected = [list(range(pid * each, (pid + 1) * each)) for pid in range(nprocs)]
    assert run(main, nprocs=nprocs) == [(block, block) for block in expected]


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("each", [0, 1, 10])
def test_paper_example_bsp_sum(run: Any, nprocs: int, each: int) -> None:
    """BSPonMPI paper_example_bsp_sum: partial sums put to everyone, against reduce and a doubling of gets."""

    def main(proc: bsp.Process) -> tuple[float, float, float]:
        xs = np.arange(each) + proc.pid * each
        sums = proc.coarray(proc.nprocs)
        for dest in range(proc.nprocs):
            sums.put(dest, xs.sum(), at=proc.pid)
        running = proc.coarray(1, fill=xs.sum())
        proc.sync()
        distance = 1
        while distance < proc.nprocs:  # the paper's bsp_allsums, by gets
            got = running.get(proc.pid - distance, 0) if proc.pid >= distance else None
            proc.sync()
            running.local += got.value if got is not None else 0
            distance *= 2
        return sums.local.sum(), running.local[0], proc.allreduce(float(xs.sum()))

    for pid, (total, upto, reduced) in enumerate(run(main, nprocs=nprocs)):
        assert total == reduced == sum(range(nprocs * each))
        assert upto == sum(range((pid + 1) * each))


@pytest.mark.parametrize("nprocs", PROCESSES)
@pytest.mark.parametrize("each", [1, 6])
def test_paper_example_all_gather_sparse_vec(run: Any, nprocs: int, each: int) -> None:
    """BSPonMPI paper_example_all_gather_sparse_vec: nonzeros sent with their index as tag, to everyone."""
    whole = np.where(np.arange(nprocs * each) % 3 == 1, np.arange(nprocs * each) * 1.5, 0.0)

    def main(proc: bsp.Process) -> tuple[list[int], list[float]]:
        block = whole[proc.pid * each : (proc.pid + 1) * each]
        for k in np.flatnonzero(block).tolist():
            for dest in range(proc.nprocs):
                proc.send(dest, float(block[k]), tag=proc.pid * each + k)
        proc.sync()
        return [message.tag for message in proc.inbox], [message.payload for message in proc.inbox]

    indices = np.flatnonzero(whole).tolist()
    assert run(main, nprocs=nprocs) == [(indices, whole[indices].tolist())] * nprocs
