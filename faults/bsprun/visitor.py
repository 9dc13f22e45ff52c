"""The connection of somebody outside a job to its bsprun: it asks, and repeats that until it is answered."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import Iterator
from typing import Any

from bsp.errors import LaunchError
from bsp.faults.bsprun.job_file import JobFile
from bsp.faults.carrier.job_key import from_secret
from bsp.faults.carrier.mesh import BSPRUN, Address, Mesh, machine
from bsp.faults.engine.control_messages import Answered, Inquiry

_CONNECT = 3.0  # seconds to try an address
_ANSWER = 10.0  # seconds in which bsprun answers
_REPEAT = 0.3
_VISITORS = 1 << 40  # from minus this number on downwards visitors are numbered


class Visitor:
    """A connection to one job."""

    def __init__(self, file: JobFile) -> None:
        """Connect; raise LaunchError if bsprun cannot be reached from here."""
        self.name, self.number = file.name, -_VISITORS - secrets.randbits(60)
        bsprun, network = _reached(file)
        self._mesh = Mesh(from_secret(file.secret), self.number, network=network)
        self._mesh.meet(BSPRUN, bsprun)
        self._asked = 0

    def ask(self, what: str, **about: Any) -> Answered:
        """Ask, and return the answer.  Raises LaunchError if there is none."""
        self._asked += 1
        inquiry = Inquiry(self._asked, what, about, self._mesh.address)
        until = time.monotonic() + _ANSWER
        while time.monotonic() < until:
            self._mesh.send(BSPRUN, inquiry)
            self._mesh.wait(_REPEAT)
            for sender, message in self._mesh.take():
                if sender == BSPRUN and isinstance(message, Answered) and message.number == self._asked:
                    return message
        raise LaunchError(f"the bsprun of job {self.name} does not answer")

    def close(self) -> None:
        """Close the connection."""
        self._mesh.close()


@contextlib.contextmanager
def visiting(file: JobFile) -> Iterator[Visitor]:
    """Connect to a job, as a context manager."""
    visitor = Visitor(file)
    try:
        yield visitor
    finally:
        visitor.close()


def _reached(file: JobFile) -> tuple[Address, str | None]:
    """Return the address at which bsprun can be reached from here, and ours for it; None on the same machine."""
    address = Address(*file.bsprun)
    if address.machine == machine():
        if not file.runs():
            raise LaunchError(
                f"the bsprun of job {file.name} is gone (it was process {file.pid}); "
                f"bsprun --attach {file.name} goes on with the job"
            )
        return address, None
    if not file.networks:
        raise LaunchError(f"job {file.name} runs on machine {file.host} alone: ask there, or start it with --listen")
    for network in file.networks:
        with contextlib.suppress(OSError), socket.create_connection((network, address.port), _CONNECT) as trial:
            return address._replace(network=network), str(trial.getsockname()[0])
    tried = ", ".join(f"{network}:{address.port}" for network in file.networks)
    raise LaunchError(f"the bsprun of job {file.name} cannot be reached at {tried}: ended, or a firewall?")
