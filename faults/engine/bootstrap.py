"""The first program of a job on a host: reads the settings, then becomes the host's keeper (see keeper.py).

Settings come as one line of JSON over standard input, so that the job's key is in no argument and in no environment.
Some of the job's environment must be there before Python starts (PYTHONHASHSEED) or NumPy is loaded (threads of BLAS).
So this program starts Python again with that environment, and hands the settings on in a file that is only in memory.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_PIECE = 1 << 16


def main() -> None:
    """Read the settings and start the keeper in this process; the arguments are the program and its own arguments."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, _PIECE)  # bsprun sends nothing behind the line: standard input stays open while it lives
        if not piece:
            sys.exit("bsp.faults.engine.bootstrap: no settings on standard input; start the job with bsprun")
        line += piece
    become_keeper(json.loads(line), sys.argv[1:])


def become_keeper(settings: dict[str, Any], program: list[str]) -> None:
    """Start Python again in this process, as a keeper."""
    os.environ.update(settings["environment"])
    os.umask(settings["umask"])
    file = os.memfd_create("settings", 0)
    os.write(file, json.dumps(settings).encode())
    os.lseek(file, 0, os.SEEK_SET)
    os.execv(sys.executable, [sys.executable, "-m", "bsp.faults.engine.keeper", str(file), *program])


if __name__ == "__main__":
    main()
