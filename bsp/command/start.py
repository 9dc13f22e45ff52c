"""The first thing an element runs: `python -m bsp.command.start SETTINGS PROGRAM...`, before anything slow is imported.

From here on it does not outlive the job, not even if the job is killed while elements are starting.
"""

from __future__ import annotations

import json
import os
import signal
import sys

from bsp.host import die_with_parent


def main() -> None:
    """Tie this element's life to its parent's and to bsprun's, then become the element."""
    settings = json.loads(sys.argv[1])
    die_with_parent()
    keeper = settings.get("keeper")
    if keeper is not None and not _alive(keeper):
        os._exit(1)  # bsprun died before it could be said that we die with it
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is bsprun's to handle
    lifeline = None
    if settings.get("lifeline") is not None:
        from bsp.command.lifeline import Lifeline

        lifeline = Lifeline(settings["lifeline"], _rank())
    from bsp.command.job import run_element

    run_element(settings, sys.argv[2:], lifeline)


def _rank() -> int:
    """The number of this element, as MPI's launcher has told it; 0 if there is no launcher."""
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
