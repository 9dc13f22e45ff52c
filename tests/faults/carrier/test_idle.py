"""Watch: a real process that computes, sleeps, stands still, or is gone."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import psutil

from bsp.faults.engine.idle import LOOKS, Watch


@contextlib.contextmanager
def process(text: str) -> Iterator[psutil.Popen]:
    """One that has said that it is there, and then does what the text says."""
    with psutil.Popen([sys.executable, "-c", f"print(flush=True)\n{text}"], stdout=subprocess.PIPE) as child:
        try:
            child.stdout.readline()
            yield child
        finally:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()


def settled(child: psutil.Popen, status: str) -> None:
    """It is in this state, and has used no time between two looks."""
    until, used = time.monotonic() + 300, None
    while child.status() != status or child.cpu_times() != used:
        assert time.monotonic() < until
        used = child.cpu_times()
        time.sleep(0.01)


def test_one_that_sleeps_is_idle_after_so_many_looks_and_again_after_as_many() -> None:
    with process("import time; time.sleep(100)") as child:
        settled(child, psutil.STATUS_SLEEPING)
        watch = Watch()
        watch.look(child.pid)
        seen = [watch.look(child.pid) for _ in range(2 * LOOKS + 2)]
    assert seen == ([""] * LOOKS + ["idle"]) * 2


def test_one_that_stands_still_is_stopped() -> None:
    with process("import time; time.sleep(100)") as child:
        child.send_signal(signal.SIGSTOP)
        settled(child, psutil.STATUS_STOPPED)
        watch = Watch()
        watch.look(child.pid)
        assert [watch.look(child.pid) for _ in range(LOOKS + 1)] == [""] * LOOKS + ["stopped"]


def test_looks_count_from_when_it_was_last_given_something() -> None:
    """And however long ago that is: between two looks the machine may have stood still."""
    with process("import time; time.sleep(100)") as child:
        settled(child, psutil.STATUS_SLEEPING)
        watch = Watch()
        watch.look(child.pid)
        for _ in range(5):
            assert [watch.look(child.pid) for _ in range(LOOKS)] == [""] * LOOKS
            watch.give()


def test_one_that_computes_or_waits_for_a_core_is_not_idle() -> None:
    """However often it is looked at within one tick of its clock."""
    with process("while True: pass") as child:
        watch = Watch()
        seen = [watch.look(child.pid) for _ in range(100 * LOOKS)]
    assert not any(seen)


def test_of_one_that_is_gone_nothing_is_said() -> None:
    """The fork server says how it ended."""
    with process("") as child:
        child.wait(30)
    assert [Watch().look(child.pid) for _ in range(2 * LOOKS)] == [""] * 2 * LOOKS
