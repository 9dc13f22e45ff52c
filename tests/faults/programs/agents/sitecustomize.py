"""On the path of a job's interpreters: SIGUSR1 makes an agent leave with the exit status that `LEAVING` names.

An agent never leaves of its own accord; this is what a library that calls exit() in it would do.
"""

import os
import signal
import sys

if "bsp.faults.engine.keeper" in sys.orig_argv:  # agents are forked from it

    def _leave(number: int, frame: object) -> None:
        with open(os.environ["LEAVING"]) as file:
            os._exit(int(file.read()))

    signal.signal(signal.SIGUSR1, _leave)
