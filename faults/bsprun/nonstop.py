"""The whole of a nonstop job as bsprun runs it: one incarnation after the other, until the program has ended.

An incarnation is a set of agents with an `Arbiter` of its own.  A later one continues from a checkpoint of the one
before, after a loss that only a checkpoint can repair.  The keepers of the hosts stay throughout.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from bsp.command.launch import Launch, asked, numbered
from bsp.engine.layout import Hosting
from bsp.errors import LaunchError
from bsp.faults.bsprun.crew import Crew, keeper_command
from bsp.faults.bsprun.homes import Homes
from bsp.faults.bsprun.incarnation import Estate, Incarnation, NotStarted
from bsp.faults.bsprun.job import OVERTHROWN, Job, Resilience, identity, key_of, last_checkpoint, placed
from bsp.faults.bsprun.job_file import JobFile, start_of, waiting
from bsp.faults.carrier.job_key import from_secret
from bsp.faults.checkpoints.folder import Checkpoint
from bsp.faults.checkpoints.key import VARIABLE
from bsp.faults.protocol.messages import Limits
from bsp.host import allow_many_files
from bsp.hosts.listing import Host

_TRIES = 3  # attempts to start an incarnation
_IDLE_RESTARTS = 3  # incarnations in a row without progress, after which bsprun gives up


def run(launch: Launch, asked: Resilience) -> int:
    """Run the whole job; return its exit status."""
    homes = _homes(launch, asked)
    job = Job(launch, asked)
    for other in waiting(job.checkpoints) if asked.resume is not None else []:
        job.say(
            f"warning: --resume {asked.resume}: job {other.name}, which wrote these checkpoints, still waits; "
            f"to go on with it instead, without a lost round, interrupt this one: bsprun --attach {other.name}"
        )
    crew = Crew(
        homes.hosts, launch.program, launch.reach, job.local,
        leave_when=asked.leave_when, port=asked.listen or 0, orphan=asked.orphan_limit,
    )  # fmt: skip
    return _supervised(job, homes, crew, None)


def take_over(
    file: JobFile, keepers: Sequence[Any], environment: Mapping[str, str], pause: float, progress: bool
) -> int:  # fmt: skip
    """Go on with a job whose bsprun is gone; return its exit status.

    file : the job's.  keepers : see `Crew.take_over`.  environment : the job's.  pause : see `Estate`.
    """
    hosts = [Host(**fields) for fields in file.hosts]
    of_launch = dict(file.launch)
    given = of_launch.pop("hosts")
    launch = Launch(**of_launch, hosts=None if given is None else [Host(**fields) for fields in given])
    asked = Resilience(**{**file.asked, "limits": Limits(**file.asked["limits"]), "inject": None})
    asked.progress = progress
    with contextlib.suppress(OSError):
        os.chdir(file.folder)
    homes = Homes(launch.hosts, placed(launch, asked), asked.standbys)
    homes.hosts[:] = hosts
    job = Job(launch, asked, file)
    crew = Crew(
        homes.hosts, launch.program, launch.reach, job.local, leave_when=asked.leave_when, port=asked.listen or 0,
        orphan=asked.orphan_limit, key=from_secret(file.secret), reign=job.seal,
    )  # fmt: skip
    return _supervised(job, homes, crew, (file.resumed, Estate(environment, keepers, file.left, pause)))


def _supervised(job: Job, homes: Homes, crew: Crew, estate: tuple[str, Estate] | None) -> int:
    """Run a job, with signals, and with its file in the folder of jobs; return its exit status.

    estate : of a job that another bsprun has begun, the name of the checkpoint that it continues, and the rest.
    """

    def signalled(number: int, frame: Any) -> None:
        job.signals.append(number)

    allow_many_files()  # strangers can hold connections open until the handshake's limit: there must be more than these

    kept = {n: signal.signal(n, signalled) for n in asked()}
    wake, waker = socket.socketpair()
    waker.setblocking(False)
    signal.set_wakeup_fd(waker.fileno())
    file: JobFile | None = None

    def save() -> None:
        nonlocal file
        file = _file(job, crew)
        file.write()

    job.save = save
    try:
        with contextlib.closing(crew):
            if estate is None:
                crew.start(_environment(job.launch), lambda: bool(job.signals))
                save()
                if job.asked.listen is not None:
                    told = crew.told()
                    where = " or ".join(f"{network}:{told['bsprun'][2]}" for network in told["networks"])
                    job.say(f"job {job.name} listens at {where}")
            return _incarnations(job, crew, homes, wake, estate)
    finally:
        if file is not None and not crew.overthrown:
            file.remove()
        job.close()
        signal.set_wakeup_fd(-1)
        for number, handler in kept.items():
            signal.signal(number, handler)
        wake.close()
        waker.close()


def _file(job: Job, crew: Crew) -> JobFile:
    """Return the job's file as it is now."""
    return JobFile(
        name=job.name, pid=os.getpid(), host=socket.gethostname(), began=time.time() - time.monotonic() + job.began,
        program=tuple(job.launch.asked), incarnation=job.incarnation, resumed=job.resumed, folder=os.getcwd(),
        identity=job.identity,
        launch=asdict(job.launch), asked=asdict(job.asked), output=job.file_of_output,
        started=start_of(os.getpid()) or 0, **crew.told(),
    )  # fmt: skip


def show(launch: Launch, asked: Resilience) -> int:
    """Print where everything would run, and the command that starts the keeper of each host; return the exit status.

    Nothing is created or changed.
    """

    def say(text: str) -> None:
        print(f"bsprun: {text}", file=sys.stderr)

    homes, job = _homes(launch, asked), identity(launch)
    key = key_of(asked, job, make=False)
    if asked.resume is not None and last_checkpoint(asked, asked.resume, key, job, say, begins=True) is None:
        raise LaunchError(_none_fits(asked))
    for line in _places(launch, asked, homes):
        print(line)
    added = " ".join(f"{name}={shlex.quote(value)}" for name, value in sorted(launch.program_environment().items()))
    for host in homes.hosts:
        print(f"{added} {shlex.join(keeper_command(host.name, launch.program, launch.reach, launch.local))}")
    say("--show: one keeper a host; bsprun gives it its settings and the key of the job over standard input")
    return 0


def _homes(launch: Launch, asked: Resilience) -> Homes:
    """Return the hosts of all elements; warn of clones that cannot be kept apart, or refuse them (`--strict`)."""
    homes = Homes(launch.hosts, placed(launch, asked), asked.standbys)
    if homes.together:
        hosting = Hosting(launch.nprocs, launch.elements)
        names = [numbered("process", hosting.pids(bundle)) for bundle in homes.together]
        told = ", ".join(names[:3]) + (f" and of {len(names) - 3} more elements" if len(names) > 3 else "")
        domains = ", ".join(dict.fromkeys(homes.together.values()))
        text = f"clones of {told} cannot be kept apart: they stand on {domains} together, and are lost together"
        if asked.strict:
            raise LaunchError(f"--strict: {text}; give more hosts, or the same number of slots on each")
        print(f"bsprun: warning: {text}", file=sys.stderr)
    return homes


def _places(launch: Launch, asked: Resilience, homes: Homes) -> Iterator[str]:
    """Yield a line for each element: its host, and the processes that it runs a clone of."""
    rows, hosting = placed(launch, asked), Hosting(launch.nprocs, launch.elements)
    for element, host in enumerate(homes.first):
        live, *passive = rows[element] if element < len(rows) else (None,)
        what = "a standby" if live is None else numbered("process", hosting.pids(live))
        more = "".join(f", passive {numbered('process', hosting.pids(bundle))}" for bundle in passive)
        yield f"host {homes.hosts[host].name}: element {element}, {what}{more}"


def _environment(launch: Launch) -> dict[str, str]:
    """Return the environment of the job on every host; its processes do not need the user's key of checkpoints."""
    environment = os.environ | launch.program_environment()
    environment.pop(VARIABLE, None)
    return environment


def _none_fits(asked: Resilience) -> str:
    """Return the message for `--resume` without a checkpoint that can be used."""
    return f"--resume {asked.resume}: none of its checkpoints can be used (see above)"


def _incarnations(
    job: Job, crew: Crew, homes: Homes, wake: socket.socket, estate: tuple[str, Estate] | None
) -> int:  # fmt: skip
    """Run incarnations until one ends the program; return the exit status of the job."""
    if job.signals:
        return job.leave(job.signals.pop(0))
    resume: Checkpoint | None = None
    left: Estate | None = None
    if estate is not None:
        resumed, left = estate
        if resumed and (resume := job.latest()) is not None:
            job.adopt(resume, fresh=False)
    elif job.asked.resume is not None:
        resume = job.latest()
        if resume is None:
            raise LaunchError(_none_fits(job.asked))
        job.adopt(resume, fresh=True)
    idle, last, failed = 0, -1, 0
    while True:
        job.resumed = "" if resume is None else resume.name
        incarnation = Incarnation(job, crew, homes, resume, wake)
        try:
            status = incarnation.run(left)
            left = None
        except NotStarted as wrong:
            job.say(f"warning: {wrong}")
            incarnation.reason = f"bsprun: the job could not be started: {wrong}\n"
            status, failed = None, failed + 1
            if failed < _TRIES:
                continue
        finally:
            incarnation.close()
            job.sent += incarnation.arbiter.reach.sent
        if crew.overthrown:
            return OVERTHROWN
        if status is not None:
            job.log.record("ended", status=status, **job.totals())
            job.tell_missed(incarnation.superstep())
            return status
        if failed == _TRIES:
            return incarnation.gave_up()
        failed, resume = 0, job.latest()
        superstep = -1 if resume is None else int(resume.head["superstep"])
        idle = idle + 1 if superstep <= last else 0
        last = superstep
        if resume is None or idle >= _IDLE_RESTARTS:
            job.tell_missed(incarnation.superstep())
            return incarnation.gave_up()
        job.adopt(resume, fresh=False)
        job.incarnation += 1
        lost = {}
        if "head" in resume.head:  # absent in checkpoints of earlier versions
            arbiter = incarnation.arbiter
            lost["rounds_lost"] = arbiter.reach.lost(int(resume.head["head"]), arbiter.reports.keys())
        job.log.record("resumed", name=resume.name, superstep=superstep, **lost)
