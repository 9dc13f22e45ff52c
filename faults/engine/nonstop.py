"""The whole of a nonstop job as bsprun runs it: one incarnation after the other, until the program has ended.

An incarnation is an MPI job of agents with an `Arbiter` of its own.  A later incarnation continues from a checkpoint
of the one before.  It is started by a planned refresh (the standbys are used up), after a loss that only a checkpoint
can repair, or by `--resume`.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
from dataclasses import replace
from typing import Any

from bsp.command.launch import Launch
from bsp.errors import LaunchError
from bsp.faults.checkpoints.folder import Checkpoint
from bsp.faults.engine.agent_command import Command
from bsp.faults.engine.incarnation import Incarnation, NotStarted
from bsp.faults.engine.job import Job, Resilience, digest_of, identity, key_of, last_checkpoint, placed
from bsp.faults.engine.wire import SECRET
from bsp.host import find_mpiexec, is_open_mpi, no_mpi, temporary_folder

_FOLDER = "bsprun-"  # prefix of the folder for files that are deleted with the job
_TRIES = 3  # attempts to start an incarnation
_IDLE_RESTARTS = 3  # incarnations in a row without progress, after which bsprun gives up


def run(launch: Launch, asked: Resilience) -> int:
    """Run the whole job; return its exit status."""
    mpiexec = _mpiexec()
    with tempfile.TemporaryDirectory("", _FOLDER, temporary_folder(), ignore_cleanup_errors=True) as folder:
        job = Job(replace(launch, mpi=True), asked, folder, mpiexec)

        def signalled(number: int, frame: Any) -> None:
            job.signals.append(number)

        kept = {n: signal.signal(n, signalled) for n in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
        wake, waker = socket.socketpair()
        waker.setblocking(False)
        signal.set_wakeup_fd(waker.fileno())
        try:
            return _incarnations(job, wake)
        finally:
            job.close()
            signal.set_wakeup_fd(-1)
            for number, handler in kept.items():
                signal.signal(number, handler)
            wake.close()
            waker.close()


def show(launch: Launch, asked: Resilience) -> int:
    """Print the command line of the job's first incarnation, without starting it; return the exit status.

    Nothing is created or changed.
    """

    def say(text: str) -> None:
        print(f"bsprun: {text}", file=sys.stderr)

    folder = os.path.join(temporary_folder(), f"{_FOLDER}XXXXXXXX")
    launch, job = replace(launch, mpi=True), identity(launch)
    checkpoints, resume = asked.checkpoint or os.path.join(folder, "checkpoints"), None
    elements, key = len(placed(launch, asked)) + asked.standbys, key_of(asked, job, make=False)
    if asked.resume is not None:
        resume = last_checkpoint(asked, checkpoints, key, job, say, begins=True)
        if resume is None:
            raise LaunchError(_none_fits(asked))
    command = Command(launch, asked, _mpiexec(), elements, folder, checkpoints, digest_of(job), resume=resume)
    say(f"--show: bsprun itself listens on a port instead of 0, makes {folder}, and sets {SECRET}")
    print(command.line("127.0.0.1" if launch.local else socket.gethostname(), 0))
    return 0


def _mpiexec() -> str:
    """Return the path of mpiexec; raise LaunchError if there is none, or not one of Open MPI."""
    mpiexec = find_mpiexec()
    if mpiexec is None:
        raise LaunchError(no_mpi())
    if not is_open_mpi(mpiexec):
        raise LaunchError("--clones and checkpoints need Open MPI 5 with ULFM: pip install 'nonstop-bsp[mpi]'")
    return mpiexec


def _none_fits(asked: Resilience) -> str:
    """Return the message for `--resume` without a checkpoint that can be used."""
    return f"--resume {asked.resume}: none of its checkpoints can be used (see above)"


def _incarnations(job: Job, wake: socket.socket) -> int:
    """Run incarnations until one ends the program; return the exit status of the job."""
    resume: Checkpoint | None = None
    if job.asked.resume is not None:
        resume = job.latest()
        if resume is None:
            raise LaunchError(_none_fits(job.asked))
        job.adopt(resume, fresh=True)
    idle, last, failed = 0, -1, 0
    while True:
        incarnation = Incarnation(job, resume, wake)
        try:
            status = incarnation.run()
        except NotStarted as wrong:
            job.say(f"warning: {wrong}")
            incarnation.reason = f"bsprun: the job could not be started: {wrong}\n"
            status, failed = None, failed + 1
            if failed < _TRIES:
                continue
        finally:
            incarnation.close()
            job.sent += incarnation.arbiter.reach.sent
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
