"""The hosts that a job may use: from `--hosts`, from a hostfile, or from the Slurm allocation that we are in.

Hostfiles are read in the formats of Open MPI (`node1 slots=4`), of MPICH (`node1:4`) and of a plain list of names, in
which a name stands once for each slot, as PBS and LSF write it.  Besides `slots`, a line may say `rack=NAME`, the
failure domain of the host.
"""

from __future__ import annotations

import os
import re
import socket
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import psutil

from bsp.errors import LaunchError

_MOST_SLOTS = 1 << 16  # of one host: far more than any machine has cores
_KEYS = {"slots", "max_slots", "max-slots", "rack"}
_NAME = re.compile(r"(\w[\w.-]*@)?\w[\w.-]*")
_IPV6 = re.compile(r"\[?[0-9a-fA-F]*:[0-9a-fA-F:]*:[0-9a-fA-F:]*\]?(:\d+)?")


@dataclass(frozen=True)
class Host:
    """A machine with room for `slots` elements.

    rack : hosts of one rack may fail together; by default each host is a rack of its own.
    """

    name: str
    slots: int
    rack: str = ""


def from_option(text: str) -> list[Host]:
    """Return the hosts of `--hosts h1:4,h2:4`; a host without a number has one slot."""
    return _checked((_host_and_slots(part.strip(), "--hosts") for part in text.split(",")), "--hosts")


def from_file(path: str) -> list[Host]:
    """Return the hosts of a hostfile.  Raises LaunchError that names the line."""
    try:
        with open(path, encoding="utf-8-sig") as file:  # editors may put a byte order mark first
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as wrong:
        why = wrong.strerror if isinstance(wrong, OSError) else wrong
        raise LaunchError(f"--hostfile '{path}' cannot be read: {why}") from None
    found: list[Host] = []
    alone: dict[str, int] = {}  # where in `found` the hosts are whose lines are only their names
    for number, line in enumerate(lines, 1):
        words = re.sub(r"\s*=\s*", "=", line.partition("#")[0]).split()
        if not words:
            continue
        host = _of_line(words, f"--hostfile '{path}', line {number}")
        if words == [host.name] and host.name in alone:
            at = alone[host.name]
            found[at] = replace(found[at], slots=found[at].slots + 1)
            continue
        if words == [host.name]:
            alone[host.name] = len(found)
        found.append(host)
    return _checked(found, f"--hostfile '{path}'")


def _of_line(words: list[str], where: str) -> Host:
    host = _host_and_slots(words[0], where)
    keys: dict[str, str] = {}
    for word in words[1:]:
        key, given, value = word.partition("=")
        if key not in _KEYS or not given:
            raise LaunchError(f"{where}: unknown key '{word}'; a line is: NAME slots=4 rack=R (or NAME:4)")
        if not value or key in keys:
            raise LaunchError(f"{where}: {key} {'a second time' if key in keys else 'without a value'} ('{word}')")
        keys[key] = value
    if "slots" in keys and ":" in words[0]:
        raise LaunchError(f"{where}: the slots of host {host.name} are there twice ('{' '.join(words)}')")
    slots = _slots(keys["slots"], where, host.name) if "slots" in keys else host.slots
    return Host(host.name, slots, keys.get("rack", ""))


def _host_and_slots(text: str, where: str) -> Host:
    name, colon, number = text.partition(":")
    if not colon:
        number = "1"
    if _IPV6.fullmatch(text):
        raise LaunchError(f"{where}: '{text}' is an IPv6 address; write the host's name")
    if not _NAME.fullmatch(name):
        raise LaunchError(f"{where}: '{text}' is not a host; write NAME or NAME:SLOTS")
    return Host(name, _slots(number, where, name))


def _slots(text: str, where: str, name: str) -> int:
    if text.isdecimal() and (len(text) > 9 or int(text) > _MOST_SLOTS):
        raise LaunchError(
            f"{where}: host {name} has {text:.20} slots; a host has room for {_MOST_SLOTS} elements at most"
        )
    if not text.isdecimal() or int(text) < 1:
        raise LaunchError(f"{where}: host {name} has '{text}' slots; a host has room for 1 element or more")
    return int(text)


def _checked(hosts: Iterable[Host], where: str) -> list[Host]:
    found: dict[str, Host] = {}
    for host in hosts:
        if host.name in found:
            raise LaunchError(f"{where}: host {host.name} is there twice; say all its slots at once")
        found[host.name] = host
    if not found:
        raise LaunchError(f"{where} names no host")
    return list(found.values())


def from_slurm(environment: Mapping[str, str] = os.environ) -> list[Host] | None:
    """Return the hosts of the Slurm allocation that this process is in, None outside of one.

    The slots of a host are its tasks; an allocation that says nothing about tasks has one a core.
    Raises LaunchError for a heterogeneous allocation.
    """
    if "SLURM_HET_SIZE" in environment:  # its nodes are in variables of each component, and salloc sets no others
        raise LaunchError(
            f"this Slurm allocation is heterogeneous, of {environment['SLURM_HET_SIZE']} components: bsprun uses one;"
            " name the hosts with --hosts, and give --reach 'ssh {host}' if they are of several"
        )
    nodes = environment.get("SLURM_JOB_NODELIST")
    if not nodes:
        return None
    try:
        said = subprocess.run(["scontrol", "show", "hostnames", nodes], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as wrong:
        raise LaunchError(f"the hosts of the Slurm allocation ({nodes}) cannot be listed: {wrong}") from None
    names = said.stdout.split()
    counts = environment.get("SLURM_TASKS_PER_NODE") or environment.get("SLURM_JOB_CPUS_PER_NODE") or "1"
    return [Host(name, slots) for name, slots in zip(names, repeated(counts, len(names)), strict=True)]


def repeated(text: str, number: int) -> list[int]:
    """Return Slurm's list of counts, as in '2(x3),1', one for each node."""
    found: list[int] = []
    for part in text.split(","):
        run = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part.strip())
        if run is None:
            raise LaunchError(f"Slurm's counts '{text}' cannot be read; name the hosts with --hosts")
        found += [int(run[1])] * int(run[2] or 1)
    if len(found) != number:
        raise LaunchError(
            f"Slurm's counts '{text}' are for {len(found)} nodes, the allocation has {number}:"
            " start bsprun without srun"
        )
    return found


def placed(hosts: list[Host], elements: int) -> list[tuple[Host, int]]:
    """Return how many elements run on each host; consecutive ones share a host, and hosts fill up in their order.

    Raises LaunchError where there are fewer slots than elements.
    """
    slots = sum(host.slots for host in hosts)
    if elements > slots:
        room = ", ".join(f"{host.name}:{host.slots}" for host in hosts)
        raise LaunchError(
            f"-n {elements} elements, but {room} have {slots} slots; use -n {slots} or less, or give hosts more slots"
        )
    found = []
    for host in hosts:
        count = min(host.slots, elements)
        elements -= count
        if count:
            found.append((host, count))
    return found


def in_words(hosts: Iterable[Host] | None) -> str:
    """Return hosts as `--hosts` takes them, 'h1:4,h2:4'; empty for None."""
    return ",".join(f"{host.name}:{host.slots}" for host in hosts or ())


def is_here(name: str) -> bool:
    """Return whether a host's name means the machine that we are on."""
    if name in ("localhost", "127.0.0.1", socket.gethostname()):
        return True
    try:
        addresses = {found[4][0] for found in socket.getaddrinfo(name, None)}
    except (OSError, UnicodeError):  # a part of more than 63 letters is no name
        return False
    own = {address.address for each in psutil.net_if_addrs().values() for address in each}
    return bool(addresses & own)
