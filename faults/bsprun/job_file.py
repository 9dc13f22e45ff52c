"""The file of a running job, by which `bsp jobs`, `bsp status`, `bsp drain`, `bsp join` and `bsprun --attach` find it.

It lies in `nonstop-bsp/jobs` of the user's state folder (XDG_STATE_HOME, or ~/.local/state), with mode 600, because it
holds the job's key.  It goes with the job; one that stays behind is of a job whose bsprun was killed, and goes when
nobody waits for another bsprun any more.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import stat
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bsp.errors import LaunchError
from bsp.faults.checkpoints.ownership import exposed
from bsp.faults.errors import CheckpointError
from bsp.faults.state_folder import state_folder

WRITTEN_EVERY = 60.0  # seconds at most between two times that a bsprun writes the file of its job


@dataclass(frozen=True)
class JobFile:
    """What a job's file holds."""

    name: str
    secret: str  # half of the job's key
    bsprun: tuple[str, str, int, str]  # the fields of its `Address`
    networks: tuple[str, ...]  # IP addresses of bsprun's machine; none if the job is on that machine only
    pid: int  # of bsprun
    host: str
    began: float  # seconds since 1970
    program: tuple[str, ...]
    # what another bsprun needs to take over
    reign: int = 0  # see Job.seal
    term: int = 0  # of the agents
    incarnation: int = 0
    resumed: str = ""  # the checkpoint from which the incarnation continues
    identity: Mapping[str, Any] = field(default_factory=dict)  # of its checkpoints
    folder: str = ""  # in which the job was started
    launch: Mapping[str, Any] = field(default_factory=dict)  # the fields of its `Launch`
    asked: Mapping[str, Any] = field(default_factory=dict)  # and of its `Resilience`
    hosts: Sequence[Any] = ()  # the fields of each `Host`
    left: Sequence[int] = ()  # those that are not used any more
    keepers: Sequence[Any] = ()  # (number, position of its host, the fields of its `Address`) of each
    output: Sequence[Any] = ()  # of standard output, if it is a file: name, inode, size at the start of the job
    started: int = 0  # when bsprun was started (`start_of`): its number may be another process's later

    def write(self) -> None:
        """Write the file, complete or not at all; do nothing without a folder for it."""
        with contextlib.suppress(OSError, CheckpointError):
            folder = _folder()
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            folder.mkdir(mode=0o700, exist_ok=True)
            path = folder / f"{self.name}.json"
            draft = folder / f".{self.name}"
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
                json.dump(asdict(self), file)
            os.replace(draft, path)

    def remove(self) -> None:
        """Remove the file."""
        with contextlib.suppress(OSError, CheckpointError):
            (_folder() / f"{self.name}.json").unlink()

    def runs(self) -> bool:
        """Return whether bsprun is alive, as far as that can be seen: True for one on another machine."""
        if self.host != socket.gethostname():
            return True
        started = start_of(self.pid)
        return started is not None and self.started in (0, started)

    def is_over(self) -> bool:
        """Return whether nothing is left of a job.

        Of one on several machines that is certain when its file has not been written anew for longer than its keepers
        wait for another bsprun.
        """
        if self.networks:
            try:
                age = time.time() - (_folder() / f"{self.name}.json").stat().st_mtime
            except FileNotFoundError:  # the job has ended just now
                return True
            return age > 3 * WRITTEN_EVERY + float(self.asked.get("orphan_limit", 0.0))
        if self.runs():
            return False
        sockets = Path("/proc/net/unix").read_text()
        return not any(address[1] in sockets for _, _, address in self.keepers)


def fresh_name(program: Sequence[str]) -> str:
    """Return a name for a new job: that of its script or module, and four hexadecimal digits."""
    named = program[1] if program[0] in ("-m", "--numpy") and len(program) > 1 else program[0]
    script = named if program[0] == "-m" else Path(named).stem
    return f"{script.rpartition('.')[2] or 'job'}-{secrets.token_hex(2)}"


def start_of(pid: int) -> int | None:
    """Return when a process was started, in clock ticks since the system was; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] == b"Z" else int(fields[19])  # Z: a container's first process may collect none


def regular_output() -> tuple[str, int, int] | tuple[()]:
    """Return name, inode and size of the file that standard output goes to, or nothing if it is none."""
    try:
        found = os.fstat(1)
        return (os.readlink("/proc/self/fd/1"), found.st_ino, found.st_size) if stat.S_ISREG(found.st_mode) else ()
    except OSError:
        return ()


def known() -> list[JobFile]:
    """Return the files of the user's jobs, the latest first; remove those of jobs that are over."""
    with contextlib.suppress(OSError, CheckpointError):  # also a file that goes meanwhile
        found = [_read(path) for path in _folder().glob("*.json")]
        there = [each for each in found if each is not None]
        over = [each for each in there if each.is_over()]
        for each in over:
            each.remove()
        return sorted((each for each in there if each not in over), key=lambda each: -each.began)
    return []


def waiting(checkpoints: str) -> list[JobFile]:
    """Return the user's jobs that wait for another bsprun and have this folder of checkpoints."""
    there = os.path.realpath(checkpoints)
    own = ((each, each.asked.get("checkpoint")) for each in known() if not each.runs())
    return [each for each, folder in own if folder and os.path.realpath(os.path.join(each.folder, folder)) == there]


def of(name: str) -> JobFile:
    """Return the file of a job by its name or its path.  Raises LaunchError if there is none, or others may read it."""
    if os.sep in name or name.endswith(".json"):
        path = Path(name)
        if not path.is_file():
            raise LaunchError(f"there is no file {name}")
        if why := exposed(path):
            raise LaunchError(f"{name}: {why}")
        found = _read(path)
        if found is None:
            raise LaunchError(f"{name} is not the file of a job")
        return found
    jobs = known()
    for each in jobs:
        if each.name == name:
            return each
    there = f"there are {', '.join(each.name for each in jobs)}" if jobs else "there is none"
    raise LaunchError(f"no job of yours is called '{name}' on this machine; {there}")


def _folder() -> Path:
    return state_folder() / "jobs"


def _read(path: Path) -> JobFile | None:
    try:
        found: Mapping[str, Any] = json.loads(path.read_text())
        lists = {name: tuple(found[name]) for name in ("bsprun", "networks", "program")}
        return JobFile(**{**found, **lists})
    except (OSError, ValueError, TypeError, KeyError):
        return None
