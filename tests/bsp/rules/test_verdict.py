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


def test_processes_are_in_step_if_all_have_raised_and_none_waits() -> None:
    """Then a session can go on with another call; with one process at a boundary, or returned, it cannot."""
    raised = [report(p, "raised", error="E", superstep=4) for p in range(3)]
    assert judge(raised, 4).in_step
    for other in ("waiting", "returned"):
        assert not judge([*raised[:2], report(2, other)], 4).in_step
    assert not judge([report(0, "returned"), report(1, "raised", status=9)], 4).in_step
    assert not judge([report(0, "returned"), report(1, "waiting")], 4).in_step
