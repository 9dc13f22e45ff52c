"""User code that goes wrong in one clone only: what `SABOTAGE` says, once, wherever the script asks.

SABOTAGE="burn@3:17; flip@1:20": element 3 exceeds a CPU limit in round 17, element 1 changes a hidden
bit in round 20, or in the next round that it computes (a laggard jumps over some).  Each happens once,
also if the round is computed again: `SABOTAGE_ONCE` is a folder that remembers, with the round.
A script without both variables is undisturbed: that is the reference.

`STRIKING` names a file that is there while strikes from outside are to come: on a busy machine the job would be over
before them.  With several places to strike at, each has a file, with the place behind that name.
`LINGERING` names a file that is there while somebody does what needs the job's rounds, such as a host that joins.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
from typing import Any

_PLAN = [part.strip() for part in os.environ.get("SABOTAGE", "").split(";") if part.strip()]


def at(k: int, state: Any) -> None:
    """What is planned for this element in round k, or was before."""
    for part in _PLAN:
        what, _, where = part.partition("@")
        element, planned, *rest = (int(number) for number in where.split(":"))
        if planned <= k and element == _element() and _first(part, k):
            globals()["_" + what](state, *rest)


def strikes_are_to_come(place: str = "") -> bool:
    """Whether somebody has not struck yet."""
    return "STRIKING" in os.environ and os.path.exists(os.environ["STRIKING"] + place)


def await_strikes(place: str = "") -> None:
    """Compute, for who does nothing hangs, until the last strike has been made."""
    while strikes_are_to_come(place):
        for _ in range(1000):
            pass
        time.sleep(0.0005)


def linger(k: int, rounds: int) -> None:
    """Let a round of the second half take a second, unless nobody needs it any more."""
    until = time.monotonic() + 1
    while k >= rounds // 2 and os.path.exists(os.environ.get("LINGERING", "")) and time.monotonic() < until:
        time.sleep(0.01)


def _first(part: str, k: int) -> bool:
    try:
        with open(os.path.join(os.environ["SABOTAGE_ONCE"], part), "x") as file:
            file.write(str(k))
    except FileExistsError:
        return False
    return True


def _burn(state: Any) -> None:
    """RLIMIT_CPU: the system ends us."""
    resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
    while True:
        pass


def _leave(state: Any, status: int) -> None:
    """sys.exit in the middle of the script."""
    sys.exit(status)


def _flip(state: Any) -> None:
    """One bit of what nobody is told before the end."""
    state.hidden ^= 1


def _slow(state: Any) -> None:
    """Compute for long."""
    time.sleep(0.2)


def _nap(state: Any) -> None:
    """Compute for many times as long as the others."""
    time.sleep(1.0)


def _behead(state: Any, victim: int) -> None:
    """Kill the agent of another element of this job, who has announced by now: we are slower than it."""
    time.sleep(0.15)
    os.kill(_agents()[victim], signal.SIGKILL)


def _element() -> int:
    """The element that this worker runs on: its agent has forked the process that forked it."""
    agent = _parent(os.getppid())
    return next((element for element, pid in _agents().items() if pid == agent), -1)


def _agents() -> dict[int, int]:
    """The agents that the job started with, by element, as its event log names them."""
    with open(os.path.join(os.environ["SABOTAGE_ONCE"], "events.jsonl")) as log:
        started = next(event for event in map(json.loads, log) if event["kind"] == "started")
    return {int(element): pid for element, pid in started["agents"].items()}


def _parent(pid: int) -> int:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return int(file.read().rpartition(b")")[2].split()[1])
