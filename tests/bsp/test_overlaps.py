"""--check: overlaps with both lines, bytes that must not depend on the order of turns, and state that is declared.

What bsprun adds to it, with an interpreter for each pass, is in tests/faults/jobs/test_rehearsal.py.
"""

from __future__ import annotations

import operator
import sys
from typing import Any

import numpy as np
import pytest

import bsp
from bsp.checking import names

shared: list[int] = []


@pytest.fixture(autouse=True)
def one_module(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is this module: all that pytest has imported would be compared at every head (20 times the work)."""
    monkeypatch.setattr(names, "_users_modules", lambda: [sys.modules[__name__]])


def check(run: Any, main: Any, nprocs: int = 3) -> list[Any]:
    shared.clear()
    found: list[Any] = run(main, nprocs=nprocs, check=True)
    return found


LINE = r"test_overlaps.py:\d+ by process"


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
        bsp.ScheduleDependence, match=r"does something else in superstep 1 \(sync at test_overlaps.py:\d+\)"
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


# --------------------------------------------------------------------------------- rehearsal


@pytest.mark.parametrize("nprocs", [1, 2, 5])
def test_processes_made_again_at_heads_go_on_as_they_were(run: Any, nprocs: int) -> None:
    def main(proc: bsp.Process) -> list[float]:
        x, state = proc.coarray(2), bsp.State(total=0.0, words=[])
        for k in proc.rounds(9, state):
            x.put((proc.pid + 1) % proc.nprocs, proc.rng.random(), at=k % 2)
            proc.send(0, f"{k}")
            state.total += proc.allreduce(float(x.local.sum()) + np.random.random())
            state.words += [message.payload for message in proc.inbox]
        for _ in proc.rounds(3, state):
            state.total = proc.allreduce(state.total, op="max")
        return [state.total, len(state.words), proc.superstep]

    assert check(run, main, nprocs) == run(main, nprocs=nprocs)


def test_what_a_round_surely_needs_of_the_last_one_is_named(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        beta = 1.0
        for _ in proc.rounds(5, bsp.State()):
            beta = proc.allreduce(beta) / 2

    with pytest.raises(
        bsp.Undeclared,
        match=r"^process 0 needs 'beta' \(test_overlaps.py:\d+\) in round \d of the loop at test_overlaps.py:\d+ as "
        r"the rounds before have left it, and a process that is made again there has it as before the loop; put it "
        r"into the bsp.State that proc.rounds is given, and use it as state.beta$",
    ):
        check(run, main)


def test_what_shows_only_in_the_bytes_is_named_then(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        sums = np.zeros(2)
        for k in proc.rounds(6, bsp.State()):
            sums[k % 2] += 1
            if k:
                proc.send(0, sums)
            proc.sync()

    with pytest.raises(
        bsp.Undeclared, match=r"^process \d, made again at .*: it has 'sums' \(test_overlaps.py:\d+\) as be"
    ):
        check(run, main)


def test_an_exception_of_a_process_that_is_made_again_is_told_as_what_it_is(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        for k in proc.rounds(6, bsp.State()):
            last = proc.allreduce(k)
        if proc.pid == 1:
            print(last)

    with pytest.raises(bsp.Undeclared, match=r"^process \d, made again at the end .* raises UnboundLocalError"):
        check(run, main)


def test_a_result_that_hangs_on_what_is_lost_counts(run: Any) -> None:
    def main(proc: bsp.Process) -> list[int]:
        box: dict[str, list[int]] = {"seen": []}

        def note(k: int) -> None:
            box["seen"].append(k)

        for k in proc.rounds(4, bsp.State()):
            note(k)
            proc.sync()
        return sorted(*box.values())

    with pytest.raises(bsp.Undeclared, match="'box'"):
        check(run, main)


def test_the_clock_of_the_first_pass_is_everybodys(run: Any) -> None:
    def main(proc: bsp.Process) -> float:
        proc.sync()
        print(proc.time())
        proc.sync()
        return proc.time()

    assert check(run, main)[0] > 0


@pytest.mark.thorough
@pytest.mark.jobs
def test_a_job_of_several_elements_raises_the_same() -> None:
    def main(proc: bsp.Process, declared: bool) -> float:
        state, x = bsp.State(x=1.0), 1.0
        for _ in proc.rounds(5, state):
            total = proc.allreduce(state.x if declared else x)
            if declared:
                state.x = total / 2
            else:
                x = total / 2
        return state.x

    assert bsp.run(main, True, nprocs=3, elements=2, check=True) == bsp.run(main, True, nprocs=3)
    with pytest.raises(bsp.Undeclared, match="'x'"):
        bsp.run(main, False, nprocs=3, elements=2, check=True)


@pytest.mark.parametrize("left", ["raise", "divide"])
def test_an_exception_out_of_a_round_is_told_as_ever(run: Any, left: str) -> None:
    def main(proc: bsp.Process) -> None:
        for k in proc.rounds(4, bsp.State()):
            proc.sync()
            if k == 2 and proc.pid == 1:
                if left == "raise":
                    raise ValueError("no convergence")
                k / (2 - k)
            proc.sync()

    with pytest.raises(ValueError if left == "raise" else ZeroDivisionError):
        check(run, main)


def test_a_round_may_be_left_by_an_exception_that_is_caught(run: Any) -> None:
    def main(proc: bsp.Process) -> int:
        state = bsp.State(x=0)
        try:
            for k in proc.rounds(4, state):
                state.x += proc.allreduce(k)
                if k == 2:
                    raise ValueError
        except ValueError:
            state.x += 1
        return state.x

    assert check(run, main) == [10, 10, 10]


LOST = {
    "send": lambda proc, x: proc.send(0, "text"),
    "put": lambda proc, x: x.put(0, [1.0, 2.0], at=slice(0, 2)),
    "scalar put": lambda proc, x: x.put(0, 1.0, at=0),
    "assignment": lambda proc, x: operator.setitem(x, (0, 1), 2.0),
    "get": lambda proc, x: x.get(0),
    "put_each": lambda proc, x: x.put_each([0, 0], [0, 1], [1.0, 2.0]),
    "get_each": lambda proc, x: x.get_each([0, 0], [0, 1]),
}


@pytest.mark.parametrize("call", list(LOST))
@pytest.mark.parametrize("new", [False, True])
def test_what_no_boundary_delivers_is_told_with_the_line_of_the_first(run: Any, call: str, new: bool) -> None:
    """new : of a coarray whose remote shapes are not known yet."""
    line = LOST[call].__code__.co_firstlineno

    def main(proc: bsp.Process) -> None:
        x = proc.coarray(2)
        if not new:
            proc.sync()
        if proc.pid == 1:
            LOST[call](proc, x)
            proc.send(2, "a later one")

    with pytest.raises(
        bsp.EffectsLost, match=rf"process 1 ends with .*; the first at test_overlaps\.py:{line}\); sync once"
    ):
        check(run, main)


def test_without_check_a_lost_call_says_how_its_line_is_found(run: Any) -> None:
    def main(proc: bsp.Process) -> None:
        proc.send(0, "text")

    with pytest.raises(bsp.EffectsLost, match=r"bsprun --check names the line of the first\); sync once"):
        run(main, nprocs=2)
