"""On the path of a job's interpreters: agents on the host HELD_ON wait at their start until a test lets them go.

The file HELD is there as long as they wait; FORKED is a file that the first of them makes.
"""

import os
import sys
import time


def _hold() -> None:
    with open(f"/proc/{os.getppid()}/stat", "rb") as file:
        grandparent = int(file.read().rpartition(b")")[2].split()[1])
    if grandparent != _KEEPER:  # a keeper forks what it forks agents from, and that forks the agents
        return
    with open(os.environ["FORKED"], "w"):
        pass
    while os.path.exists(os.environ["HELD"]):
        time.sleep(0.01)


if "bsp.faults.engine.keeper" in sys.orig_argv and os.uname().nodename == os.environ.get("HELD_ON"):
    _KEEPER = os.getpid()
    os.register_at_fork(after_in_child=_hold)
