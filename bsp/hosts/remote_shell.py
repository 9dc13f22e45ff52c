"""Run a command on another host for MPI's launcher, in place of ssh: `-m bsp.hosts.remote_shell HOST COMMAND...`.

It asks bsprun, over a socket in bsprun's folder, to run the command by its daemon on that host, waits for its end,
prints what it said, and ends with its status.
"""

from __future__ import annotations

import json
import os
import socket
import sys

VARIABLE = "BSP_REMOTE_SHELL"  # the path of bsprun's socket


def main() -> int:
    """Run a command on a host of the job; return its status."""
    host, *words = sys.argv[2:] if sys.argv[1] == "-x" else sys.argv[1:]  # MPICH asks ssh to forward no display
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(os.environ[VARIABLE])
        connection.sendall(json.dumps({"host": host, "command": " ".join(words)}).encode() + b"\n")
        with connection.makefile("r") as answers:
            answer = json.loads(answers.readline() or '{"status": 255, "said": "bsprun has ended\\n"}')
    sys.stderr.write(answer["said"])
    return int(answer["status"])


if __name__ == "__main__":
    sys.exit(main())
