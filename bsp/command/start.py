"""The program of an element's operating-system process: `python -m bsp.command.start SETTINGS PROGRAM...`.

It imports nothing slow before it has made sure that the element does not outlive the job, so that no element is left
behind if the job is killed while elements start.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from bsp.host import die_with_parent


def main() -> None:
    """Arrange that this process dies with its parent and with bsprun, then run the element."""
    settings = json.loads(sys.argv[1])
    die_with_parent()
    keeper = settings.get("keeper")
    if keeper is not None and not _alive(keeper):
        os._exit(1)  # bsprun died before this process was set to die with it
    for number in (signal.SIGINT, signal.SIGQUIT):  # of a terminal: bsprun handles them for all
        signal.signal(number, signal.SIG_IGN)
    lifeline = None
    if settings.get("lifeline") is not None:
        from bsp.hosts.lifeline import Lifeline

        lifeline = Lifeline(settings["lifeline"], 0 if settings.get("alone") else _rank())
    from bsp.command.job import run_element

    run_element(settings, sys.argv[2:], lifeline)


def _rank() -> int:
    """Return the number of this element, which MPI's launcher has put into the environment; 0 without a launcher."""
    names = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID")
    return int(next((os.environ[name] for name in names if name in os.environ), "0"))


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


if __name__ == "__main__":
    main()
