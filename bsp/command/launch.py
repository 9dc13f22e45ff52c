"""Start the elements of a job, watch over them, and leave none behind.

One element runs as it is, without MPI.  More run under `mpiexec`; which one, and with which settings,
is decided here.  A job's exit status comes from element 0 (see `lifeline`), so that MPI's launcher sees an orderly
end and does not talk about it; what it says otherwise is shown only where we cannot say more.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from bsp.command.lifeline import Desk
from bsp.engine.layout import Hosting
from bsp.errors import LaunchError
from bsp.host import cores, die_with_parent, find_mpiexec, is_open_mpi, no_mpi

BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
MOST_ELEMENTS_A_CORE = 64
_GRACE = 2.0  # seconds between asking a job to end and making it
_LAST_WORDS = 10.0  # seconds that elements have to say the rest when the job has failed


@dataclass
class Launch:
    """A job to be started: what `bsprun` was asked for."""

    nprocs: int
    elements: int
    program: list[str]
    seed: int = 0
    check: bool = False
    schedule: str = "auto"
    blas_threads: int | None = None
    hostfile: str | None = None
    mpi_args: list[str] = field(default_factory=list)
    machine: dict[str, Any] | None = None  # the profile that choices are made by, frozen here (D5)
    trace: str | None = None  # a file for the record of the run
    predict: dict[str, Any] | None = None  # to be priced instead: on how many elements, whether abstract
    progress: bool = False  # a live line on stderr
    profile: str | None = None  # a folder for profiles
    mpi: bool = False  # by mpiexec, however few the elements

    @property
    def local(self) -> bool:
        """Whether all elements are on this machine."""
        return self.hostfile is None and not self.mpi_args

    def command(self, **job: Any) -> list[str]:
        """The command line that runs the elements; `job` are settings of this one pass."""
        settings = {"nprocs": self.nprocs, "seed": self.seed, "schedule": self.schedule, **job}
        for name in ("machine", "trace", "predict", "progress", "profile"):
            if getattr(self, name):
                settings[name] = getattr(self, name)
        element = [sys.executable, "-m", "bsp.command.start", json.dumps(settings), *self.program]
        if self.elements == 1 and self.local:
            return element
        mpiexec = find_mpiexec()
        if mpiexec is None:
            raise LaunchError(no_mpi())
        flags: list[str] = []
        if is_open_mpi(mpiexec):
            if self.elements > cores() and self.local:
                flags.append("--oversubscribe")
            if (self.blas_threads or 1) > 1:
                flags += ["--bind-to", "none"]
            if not self.local:
                for name in sorted(self.environment()):
                    flags += ["-x", name]
        if self.hostfile is not None:
            flags += ["--hostfile", self.hostfile]
        return [mpiexec, *flags, *self.mpi_args, "-n", str(self.elements), *element]

    def environment(self) -> dict[str, str]:
        """What the elements' environment has beyond ours."""
        # hash("a word") and the order of a set are the same on every element and in every run (D6)
        extra = {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", str(self.seed % 2**32))}
        threads = self.blas_threads or (1 if self.nprocs > 1 else None)
        if threads is not None:  # D8
            extra |= dict.fromkeys(BLAS_VARIABLES, str(threads))
        if self.mpi or self.elements > 1 or not self.local:
            if hasattr(os, "geteuid") and os.geteuid() == 0:
                extra |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            if self.local:
                # shared memory only: without them Open MPI spends a second looking for networks
                for name, value in (("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "self,sm")):
                    extra[name] = os.environ.get(name, value)
        return extra


@dataclass(frozen=True)
class Outcome:
    """How a job has ended: its status, and what there is to say about it on stderr."""

    status: int
    said: str = ""

    def tell(self) -> int:
        """Says it, after the job's text; the status."""
        sys.stdout.flush()
        sys.stderr.write(self.said)
        return self.status


def start(job: Launch) -> int:
    """Run a job to its end; its exit status."""
    if not job.check:
        return one_pass(job).tell()
    from bsp.command.check_passes import checked

    with tempfile.TemporaryDirectory(prefix="bsp-check-") as folder:
        return checked(job, folder).tell()


def one_pass(job: Launch, hash_seed: str | None = None, **settings: Any) -> Outcome:
    """Run a job once; `hash_seed` in place of the job's own."""
    with tempfile.TemporaryDirectory(prefix="bsprun-", ignore_cleanup_errors=True) as folder:
        environment = os.environ | job.environment()
        if hash_seed is not None:
            environment["PYTHONHASHSEED"] = hash_seed
        if job.local:
            # Open MPI names a job's files after its launcher's pid and leaves them behind when it is killed: a later
            # launcher of that pid would find them in its way and not start
            environment.setdefault("PRTE_MCA_prte_tmpdir_base", folder)
            return _here(job, folder, environment, settings)
        return _elsewhere(job, folder, environment, settings)


def _here(job: Launch, folder: str, environment: dict[str, str], settings: dict[str, Any]) -> Outcome:
    """A job whose elements are all on this machine, and connected to us."""
    given = _is_open(0) and not os.isatty(0)  # a terminal answers only to the process group in front
    single = job.elements == 1 and not job.mpi
    launcher = os.path.join(folder, "launcher")
    desk = Desk(folder, (0, 1, 2) if given else (1, 2))
    command = job.command(lifeline=folder, keeper=os.getpid(), **settings)
    no_input = job.predict is not None or (given and not single)  # element 0 is given ours
    try:
        with open(launcher, "wb") as said:
            code = _watch(
                command, environment, desk, stdin=subprocess.DEVNULL if no_input else None,
                stdout=None if single else said, stderr=None if single else subprocess.STDOUT,
            )  # fmt: skip
        desk.drain(_GRACE)
    finally:
        desk.close()
    ending = desk.ending
    if ending.status is not None:
        return Outcome(ending.status, ending.said)
    if code < 0 and (-code in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) or not single):
        return _signalled(-code)
    if ending.lost:
        return Outcome(_status_of(code), f"bsprun: error: {_obituary(job, desk, ending.lost[0], code)}\n")
    told = ""
    if not single:
        with open(launcher, errors="replace") as file:
            told = file.read()
    return Outcome(_status_of(code), f"{told}bsprun: error: the job did not start (status {_status_of(code)})\n")


def _elsewhere(job: Launch, folder: str, environment: dict[str, str], settings: dict[str, Any]) -> Outcome:
    """A job on other machines, which tells how it ended by a file."""
    report = os.path.join(folder, "status")
    code = _watch(job.command(status=report, **settings), environment)
    if os.path.exists(report):
        with open(report) as file:
            told = json.load(file)
        return Outcome(int(told["status"]), told["said"])
    if code == 0:
        return Outcome(1, "bsprun: error: the job ended without saying how; an element left by os._exit?\n")
    if code < 0 or code - 128 in set(signal.Signals):
        return _signalled(-code if code < 0 else code - 128)
    return Outcome(code, f"bsprun: error: an element died (status {code})\n")


def _signalled(number: int) -> Outcome:
    """The job was ended by a signal: by one to bsprun, which has said so, or to MPI's launcher."""
    asked = number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    return Outcome(128 + number, "" if asked else f"bsprun: error: the job was ended by {_name_of(number)}\n")


def _status_of(code: int) -> int:
    """The job's exit status when it ended with `code` and nobody said how: never 0."""
    return 128 - code if code < 0 else code or 1


def _name_of(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _obituary(job: Launch, desk: Desk, element: int, code: int) -> str:
    """Which element died first, of what, and what it was doing."""
    pids = Hosting(job.nprocs, job.elements).pids(element)
    whose = f"process {pids[0]}" if len(pids) == 1 else f"processes {pids[0]}-{pids[-1]}"
    pid, superstep, moment = desk.last_moments(element)
    number = -code if code < 0 else code - 128
    if moment.startswith("by "):
        how = f"ended {moment}"
    elif number in set(signal.Signals):
        how = f"was killed by {_name_of(number)}" + (" (out of memory?)" if number == signal.SIGKILL else "")
        how += f" {moment}" if moment else ""
    else:
        how = f"ended with status {code} {moment}".rstrip()
    turn = f", in the turn of process {pid}, superstep {superstep}" if pid >= 0 else ", before its first process ran"
    return f"element {element} ({whose}) {how}{turn}"


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _watch(command: Sequence[str], environment: dict[str, str], desk: Desk | None = None, **streams: Any) -> int:
    """Run a command to its end; a signal to us ends it, and everything it has started, within seconds."""
    child = subprocess.Popen(command, env=environment, preexec_fn=die_with_parent, **streams)
    received: list[int] = []

    def forward(number: int, frame: Any) -> None:
        received.append(number)
        if len(received) == 1:  # a second one at the same time changes nothing
            raise _Ended

    # only the main thread may watch signals; bsp.run may be called from another one
    main = threading.current_thread() is threading.main_thread()
    watched = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP] if main else []
    kept = {number: signal.signal(number, forward) for number in watched}
    try:
        code = child.wait() if desk is None else _attend(child, desk)
    except _Ended:
        for number in watched:
            signal.signal(number, signal.SIG_IGN)
        _end(child)
        code = -received[0]
        what = "interrupted" if received[0] == signal.SIGINT else f"ended by {signal.Signals(received[0]).name}"
        print(f"bsprun: {what}", file=sys.stderr)
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
    return code


def _attend(child: subprocess.Popen[bytes], desk: Desk) -> int:
    """Wait for the end of a job, whose elements may be kept from ending by threads of the program."""
    ending, noted = desk.ending, False
    code = desk.wait(child, None)
    until = time.monotonic() + _LAST_WORDS
    while code is None:
        code = desk.wait(child, _GRACE)
        if code is None and ending.failed:  # nothing that still runs may keep that from being told
            if desk.all_have_left() or time.monotonic() > until:
                _end(child)
                code = child.wait()
        elif code is None and not noted:
            for element, threads in sorted(ending.waits.items()):
                if threads:
                    noted = True
                    print(
                        f"bsprun: note: the program has ended; element {element} waits for "
                        f"{'its thread' if len(threads) == 1 else f'{len(threads)} threads,'} {', '.join(threads[:3])}",
                        file=sys.stderr, flush=True,
                    )  # fmt: skip
    return code


class _Ended(Exception):
    """A signal asked this launcher to end."""


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a child and all its descendants: ask, wait, kill."""
    import psutil

    try:
        family = psutil.Process(child.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    child.terminate()
    try:
        child.wait(_GRACE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    kill(family)


def kill(family: Sequence[Any]) -> None:
    """End processes, and wait until they are over; who is a zombie is: a container's first process may collect none."""
    import psutil

    def runs(process: Any) -> bool:
        try:
            return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
        except psutil.NoSuchProcess:
            return False

    for process in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    until = time.monotonic() + _GRACE
    while any(map(runs, family)) and time.monotonic() < until:
        time.sleep(0.005)
