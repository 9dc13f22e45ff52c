"""bsprun's part of a nonstop job: one incarnation after the other, until the program has ended.

An incarnation is an MPI job of agents with an `Arbiter` of its own.  A later one goes on from a checkpoint of the one
before: a planned refresh (the standbys are used up), a loss that only a checkpoint can mend, or `--resume`.
"""

from __future__ import annotations

import signal
import socket
import tempfile
from dataclasses import replace
from typing import Any

from bsp.errors import LaunchError
from bsp.faults.checkpoint import Checkpoint
from bsp.faults.incarnation import Incarnation, NotStarted
from bsp.faults.job import Job, Resilience
from bsp.launch import Launch, find_mpiexec, is_open_mpi, no_mpi

_TRIES = 3  # to start an incarnation
_IDLE_RESTARTS = 3  # incarnations in a row that came no further


def run(launch: Launch, asked: Resilience) -> int:
    """The whole job; its exit status."""
    mpiexec = find_mpiexec()
    if mpiexec is None:
        raise LaunchError(no_mpi())
    if not is_open_mpi(mpiexec):
        raise LaunchError("--clones and checkpoints need Open MPI 5 with ULFM: pip install 'nonstop-bsp[mpi]'")
    with tempfile.TemporaryDirectory(prefix="bsprun-", ignore_cleanup_errors=True) as folder:
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


def _incarnations(job: Job, wake: socket.socket) -> int:
    resume: Checkpoint | None = None
    if job.asked.resume is not None:
        resume = job.latest()
        if resume is None:
            raise LaunchError(f"--resume {job.asked.resume}: none of its checkpoints can be used (see above)")
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
        if "head" in resume.head:  # not in one that an earlier version has written
            arbiter = incarnation.arbiter
            lost["rounds_lost"] = arbiter.reach.lost(int(resume.head["head"]), arbiter.reports.keys())
        job.log.record("resumed", name=resume.name, superstep=superstep, **lost)
