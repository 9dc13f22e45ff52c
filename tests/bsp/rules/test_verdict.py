"""Verdicts on a boundary: who is named, whose error it is, which status the job has."""

from __future__ import annotations

from typing import Any

from bsp.engine.verdict import Standing, judge
from bsp.errors import ProcessExited, ProcessFailed, SyncMismatch
from bsp.source import SourceLine


def report(pid: int, state: str, call: str = "sync", **more: Any) -> Standing:
    return Standing(pid, state, call, call.encode(), SourceLine(("solver.py", 58)), **more)


def test_a_process_that_returned_is_named_beside_those_that_wait() -> None:
    verdict = judge([report(p, "returned" if p == 2 else "waiting") for p in range(4)], 7)
    assert isinstance(verdict.failure, SyncMismatch) and not verdict.ended
    assert str(verdict.failure) == (
        "process 2 has returned; processes 0, 1, 3 wait in sync at solver.py:58 (superstep 7); "
        "every process must sync equally often"
    )


def test_the_first_error_by_superstep_and_pid_is_the_jobs() -> None:
    reports = [report(0, "waiting"), *(report(p, "raised", superstep=5 - p, error=f"E{p}") for p in (1, 2, 3))]
    verdict = judge(reports, 5)
    assert isinstance(verdict.failure, ProcessFailed) and verdict.culprit is reports[3]
    assert "process 3 raised E3 (solver.py:58, superstep 2) (and processes 1, 2 raised too)" in str(verdict.failure)


def test_the_status_is_the_first_non_zero_exit() -> None:
    ended = judge([report(0, "returned"), report(1, "raised", status=9, superstep=4), report(2, "raised", status=3)], 4)
    assert ended.ended and ended.status == 3
    left = judge([report(0, "waiting"), report(1, "raised", status=9)], 4)
    assert isinstance(left.failure, ProcessExited) and left.status == 9


def test_many_processes_are_named_as_runs() -> None:
    verdict = judge([report(p, "waiting", "sync" if p != 40 else "gather(root=0)") for p in range(64)], 0)
    assert "processes 0-39, 41-63 wait in sync" in str(verdict.failure)


def test_calls_that_are_unlike_on_every_process_are_told_in_a_line() -> None:
    """Two places, or three, are all named; with a call for each process, as of a root, the first and its others."""
    verdict = judge([report(p, "waiting", f"broadcast(root={p})") for p in range(64)], 0)
    assert "processes 1-63 wait in broadcast(root=1) at" in str(verdict.failure)
    assert "and 60 more places (superstep 0); every process must make the same call" in str(verdict.failure)
    three = judge([report(p, "waiting", f"broadcast(root={p % 3})") for p in range(5)], 0)
    assert str(three.failure).count(" in broadcast") == 3


def test_arrays_with_other_values_on_every_process_are_told_in_a_line() -> None:
    each = [
        Standing(p, "waiting", "sum(x0)", bytes([p]), SourceLine(("drawn.py", 7)), given=bytes([p])) for p in range(64)
    ]
    verdict = judge(each, 0)
    assert str(verdict.failure) == (
        "process 0 waits in sum(x0) at drawn.py:7; processes 1-63 wait in sum(x0) at drawn.py:7 (superstep 0); "
        "every process must make this call with arguments that agree, and give the same values to its arrays before: "
        "bsp.arrays.from_local makes one array of values that differ"
    )


def test_processes_are_in_step_if_all_have_raised_and_none_waits() -> None:
    """Then a session can go on with another call; with one process at a boundary, or returned, it cannot."""
    raised = [report(p, "raised", error="E", superstep=4) for p in range(3)]
    assert judge(raised, 4).in_step
    for other in ("waiting", "returned"):
        assert not judge([*raised[:2], report(2, other)], 4).in_step
    assert not judge([report(0, "returned"), report(1, "raised", status=9)], 4).in_step
    assert not judge([report(0, "returned"), report(1, "waiting")], 4).in_step
