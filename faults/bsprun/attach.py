"""`bsprun --attach JOB`: finds out whether a job's bsprun is gone, and takes its place.

The keepers of the job's hosts know when they last heard it.  One that is alive is never disturbed, unless the user asks
for that (`--takeover`); it is then not heard any more by any host that this one reaches, and ends.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from typing import Any, NamedTuple

from bsp.errors import LaunchError
from bsp.faults.bsprun.job_file import JobFile, of
from bsp.faults.bsprun.nonstop import take_over
from bsp.faults.carrier.job_key import from_secret
from bsp.faults.carrier.mesh import Address, Mesh, reachable
from bsp.faults.engine.control_messages import Answered, Inquiry

_ANSWER = 3.0  # seconds in which a keeper answers
_REPEAT = 0.3
_VISITORS = 1 << 41  # from minus this number on downwards those who ask keepers are numbered
_FAREWELL = 1.5  # seconds in which a bsprun that is alive hears from a keeper that it is superseded
_MARGIN = 2.0  # seconds beyond the time after which a bsprun counts as gone


class _Kept(NamedTuple):
    """A keeper that answers."""

    number: int
    position: int  # of its host
    address: Address
    silent: float  # seconds since it heard its bsprun
    environment: dict[str, str]


def attach(name: str, takeover: bool, progress: bool) -> int:
    """Take over a job and run it to its end; return its exit status.

    name : name or file of the job.  takeover : do so even if its bsprun is alive.
    Raises LaunchError if its bsprun is alive, or none of its hosts answers.
    """
    file = of(name)
    here = file.host == socket.gethostname()
    if here and file.runs() and not takeover:
        raise LaunchError(f"job {file.name} has its bsprun, process {file.pid} on this machine; --takeover fences it")
    gone = here and not file.runs()
    alone = float(file.asked["limits"]["alone"])
    until = time.monotonic() + alone + _MARGIN
    reached, network = _reached(file)
    while True:
        found = _ask(file, reached, network) if reached else []
        if not found:
            if gone and not file.networks:
                file.remove()
            raise LaunchError(f"no host of job {file.name} answers: it has ended, or cannot be reached from here")
        silent = min(each.silent for each in found)
        if gone or takeover or silent > alone:
            break
        if time.monotonic() > until:
            host = file.hosts[min(found, key=lambda each: each.silent).position]["name"]
            raise LaunchError(
                f"job {file.name} has its bsprun, on {file.host}: host {host} heard it {silent:.1f} s ago; "
                "--takeover fences it"
            )
        time.sleep(_REPEAT)
    keepers = [(each.number, each.position, each.address) for each in found]
    pause = _FAREWELL if takeover and not gone else 0.0
    return take_over(file, keepers, os.environ | found[0].environment, pause, progress)


def _reached(file: JobFile) -> tuple[dict[int, tuple[int, Address]], str | None]:
    """Return the keepers that can be reached, as (position of the host, address), and our IP address for them."""
    network, reached = None, dict[int, tuple[int, Address]]()
    for number, position, fields in file.keepers:
        address = Address(*fields)
        way = reachable(address, [address.network] if address.network else file.networks)
        if way is not None:
            reached[number] = position, way[0]
            network = way[1] or network  # empty on the same machine, where none is needed
    return reached, network


def _ask(file: JobFile, reached: dict[int, tuple[int, Address]], network: str | None) -> list[_Kept]:
    """Ask keepers when they heard their bsprun last; return the answers of those that give one."""
    number = -_VISITORS - secrets.randbits(60)
    with contextlib.closing(Mesh(from_secret(file.secret), number, network=network)) as mesh:
        for number, (_, address) in reached.items():
            mesh.meet(number, address)
        found: dict[int, _Kept] = {}
        until = time.monotonic() + _ANSWER
        while len(found) < len(reached) and time.monotonic() < until:
            for number in reached.keys() - found.keys():
                mesh.send(number, Inquiry(1, "bsprun", {}, mesh.address))
            mesh.wait(_REPEAT)
            for sender, message in mesh.take():
                if isinstance(message, Answered) and sender in reached:
                    told: dict[str, Any] = message.said
                    found[sender] = _Kept(sender, *reached[sender], told["silent"], told["environment"])
        return [kept for _, kept in sorted(found.items(), reverse=True)]
