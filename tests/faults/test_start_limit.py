"""Start: for how long real ranks that have not appeared are waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from bsp.faults.engine import start_limit as start
from bsp.faults.engine.start_limit import Start

BURN = "while True: pass"
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="what a process has waited for is Linux's to tell")


def burning(count: int) -> list[subprocess.Popen[bytes]]:
    """Processes on one core, none of which gets more than its share of it."""
    core = {min(os.sched_getaffinity(0))}
    words = [sys.executable, "-c", BURN]
    return [subprocess.Popen(words, preexec_fn=lambda: os.sched_setaffinity(0, core)) for _ in range(count)]


def ended(children: list[subprocess.Popen[bytes]]) -> None:
    for child in children:
        child.kill()
        child.wait()


def test_what_a_process_has_waited_for_a_core_is_seen() -> None:
    children = burning(3)
    try:
        until = time.monotonic() + 300
        while min(start._starved(child.pid) for child in children) < 0.2:
            assert time.monotonic() < until
            time.sleep(0.01)
    finally:
        ended(children)
    assert start._starved(children[0].pid) == 0.0  # it is gone


def test_ranks_that_wait_for_a_core_are_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank of three on one core has two thirds of the time taken from it: three times as long, about."""
    monkeypatch.setattr(start, "_START", 1.0)
    monkeypatch.setattr(start, "_LOOK", 0.01)
    children = burning(3)
    monkeypatch.setattr(start, "_ranks", lambda _: {child.pid: 3 for child in children})
    waiting = Start(os.getpid())
    try:
        while not waiting.is_over():
            time.sleep(0.01)
        starved = max(start._starved(child.pid) for child in children)
    finally:
        ended(children)
    assert starved > 0.5
    assert waiting.seconds > 1.0 + starved / 2


def test_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ranks that wait for each other in MPI's start keep their cores busy."""
    monkeypatch.setattr(start, "_START", 0.1)
    monkeypatch.setattr(start, "_LONGEST", 0.5)
    monkeypatch.setattr(start, "_LOOK", 0.0)
    monkeypatch.setattr(start, "_ranks", lambda _: {os.getpid(): 1})
    monkeypatch.setattr(start, "_starved", lambda _: 1e9)
    waiting = Start(os.getpid())
    while not waiting.is_over():
        time.sleep(0.01)
    assert waiting.seconds >= 0.5
