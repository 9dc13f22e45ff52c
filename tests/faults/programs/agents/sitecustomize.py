"""On the path of a job's interpreters: SIGUSR1 makes an agent leave as `LEAVING` says, an exit status or "finalize".

An agent never leaves of its own accord; this is what a library that calls exit() in it would do.
"""

import os
import signal
import sys

if "bsp.faults.engine.agent" in sys.orig_argv:

    def _leave(number: int, frame: object) -> None:
        with open(os.environ["LEAVING"]) as file:
            how = file.read()
        if how == "finalize":
            from mpi4py import MPI

            MPI.Finalize()
        os._exit(0 if how == "finalize" else int(how))

    signal.signal(signal.SIGUSR1, _leave)
