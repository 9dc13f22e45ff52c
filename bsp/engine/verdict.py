"""The judgement at a boundary where not every process waits at the same call.

Every element reports on its processes, all elements read the same reports, and `judge` is a pure
function of them: so every process gets the same exception without a further message.

Order of the rules in `judge`: an exception outranks an exit status, which outranks a return, which
outranks a difference of calls; among several, the first by (superstep, pid).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bsp.engine.task import RAISED, RETURNED, WAITING
from bsp.errors import ProcessExited, ProcessFailed, SyncMismatch
from bsp.source import SourceLine

_MOST_GROUPS = 3  # of processes that wait in calls unlike each other's: of more, all but the first are named as one


@dataclass(frozen=True)
class Standing:
    """The state of one process at the boundary."""

    pid: int
    state: str
    call: str
    digest: bytes
    line: SourceLine
    superstep: int = 0
    error: str = ""  # "ValueError: no convergence"
    traceback: str = ""
    shared: Exception | None = None  # an exception that is raised on every process as it is
    status: int | None = None  # of sys.exit
    pickled: bytes = b""  # the exception; no bytes if it cannot be pickled
    given: bytes = b""  # a digest of the values that it has given to arrays


@dataclass(frozen=True)
class Verdict:
    """The outcome of a judgement: an orderly end, or one exception for every process that still runs."""

    ended: bool
    failure: Exception | None
    status: int
    culprit: Standing | None = None  # whose traceback is printed
    farewell: str = ""  # the text of sys.exit("text")
    in_step: bool = False  # every process has returned, or every process has raised: none waited for another one


def judge(reports: Sequence[Standing], superstep: int) -> Verdict:
    """Return the verdict on these reports: one of each process, in pid order."""
    exits = sorted((r for r in reports if r.status), key=lambda r: (r.superstep, r.pid))
    errors = [report for report in reports if report.state == RAISED and report.status is None]
    waiting = [report for report in reports if report.state == WAITING]
    if errors:
        # the first by (superstep, pid)
        first = min(errors, key=lambda report: (report.superstep, report.pid))
        if first.shared is not None:
            return Verdict(False, first.shared, 1, first)
        others = f" (and {_pids([r.pid for r in errors if r is not first])} raised too)" if len(errors) > 1 else ""
        text = f"process {first.pid} raised {first.error} ({first.line}, superstep {first.superstep}){others}"
        status = 130 if first.error == "KeyboardInterrupt" else 1
        return Verdict(False, ProcessFailed(text), status, first, in_step=len(errors) == len(reports))
    if not waiting:
        if not exits:
            return Verdict(True, None, 0)
        return Verdict(
            True, None, exits[0].status or 0, farewell=exits[0].traceback, in_step=len(exits) == len(reports)
        )
    if exits:
        first = exits[0]
        text = (
            f"process {first.pid} left with status {first.status}; {_pids([r.pid for r in waiting])} "
            f"{_wait(waiting)} in {_calls(waiting)} (superstep {superstep})"
        )
        return Verdict(False, ProcessExited(text), (first.status or 1) % 256 or 1, farewell=first.traceback)
    returned = [report for report in reports if report.state == RETURNED]
    if returned:
        text = (
            f"{_pids([r.pid for r in returned])} {'has' if len(returned) == 1 else 'have'} returned; "
            f"{_pids([r.pid for r in waiting])} {_wait(waiting)} in {_calls(waiting)} (superstep {superstep}); "
            "every process must sync equally often"
        )
        return Verdict(False, SyncMismatch(text), 1)
    groups: dict[bytes, list[Standing]] = {}
    for report in waiting:
        groups.setdefault(report.digest, []).append(report)
    unlike = list(groups.values())
    if len(unlike) > _MOST_GROUPS:  # each process has an argument of its own
        unlike = [unlike[0], [report for group in unlike[1:] for report in group]]
    parts = [f"{_pids([r.pid for r in group])} {_wait(group)} in {_calls(group)}" for group in unlike]
    same = "this call with arguments that agree"
    if len({report.call for report in waiting}) > 1:
        same = "the same call"
    elif len({report.given for report in waiting}) > 1:
        same += (
            ", and give the same values to its arrays before: "
            "bsp.arrays.from_local makes one array of values that differ"
        )
    text = "; ".join(parts) + f" (superstep {superstep}); every process must make {same}"
    return Verdict(False, SyncMismatch(text), 1)


def _calls(group: Sequence[Standing]) -> str:
    """Return `sync at solver.py:58`, and at most two more places of the same call."""
    places = list(dict.fromkeys(f"{report.call} at {report.line}" for report in group))
    return " and ".join(places[:3]) + (f" and {len(places) - 3} more places" if len(places) > 3 else "")


def _wait(group: Sequence[Standing]) -> str:
    """Return the verb for so many processes."""
    return "waits" if len(group) == 1 else "wait"


def _pids(pids: Sequence[int]) -> str:
    """Return `process 2`, `processes 0, 1, 3` or `processes 0-62`."""
    runs: list[list[int]] = []
    for pid in sorted(pids):
        if runs and pid == runs[-1][1] + 1:
            runs[-1][1] = pid
        else:
            runs.append([pid, pid])
    parts = []
    for low, high in runs:
        parts += [str(low)] if low == high else [str(low), str(high)] if high == low + 1 else [f"{low}-{high}"]
    return f"{'process' if len(pids) == 1 else 'processes'} {', '.join(parts)}"
