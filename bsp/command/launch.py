"""The start of a job's elements and their supervision until the last of them has ended.

One element runs without MPI.  More run under `mpiexec`; this module chooses which, and its settings.  The job's exit
status comes from element 0 (see `lifeline`) and not through MPI's launcher, which would add messages of its own to
any status but 0.  The launcher's output is shown only if there is no better explanation.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from bsp.command.entry import write_error
from bsp.engine.layout import Hosting
from bsp.errors import LaunchError
from bsp.host import cores, die_with_parent, find_mpiexec, is_open_mpi, no_mpi, temporary_folder
from bsp.hosts.lifeline import IDLE, Desk, LastMoments
from bsp.hosts.links import Links
from bsp.hosts.listing import Host, in_words, placed
from bsp.hosts.processes import GRACE, end

BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")
MOST_ELEMENTS_A_CORE = 64
ASKED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)  # by which somebody asks a job to end
# Open MPI names a job's files after its launcher's pid and leaves them behind when it is killed: a later launcher of
# that pid would find them in its way and not start.  So they are in a folder of the job, which is removed with it
_FOLDER_OF_MPI = "PRTE_MCA_prte_tmpdir_base"
_LAST_WORDS = 10.0  # seconds that elements have to say the rest when the job has failed

T = TypeVar("T")

FOR_NUMPY = ["-m", "bsp.arrays.scripts"]  # runs a script for NumPy; by name: bsp does not depend on bsp.arrays


@dataclass
class Launch:
    """A job to be started, as `bsprun` was asked for it."""

    nprocs: int
    elements: int
    program: list[str]
    seed: int = 0
    check: bool = False
    schedule: str = "auto"
    blas_threads: int | None = None
    hosts: list[Host] | None = None  # where elements may run; None: this machine
    reach: str | None = None  # the command that runs another command on a host; None: ssh, or srun
    mpi_args: list[str] = field(default_factory=list)
    machine: dict[str, Any] | None = None  # the machine profile, the same for the whole job (D5)
    trace: str | None = None  # a file for the record of the run
    predict: dict[str, Any] | None = None  # to be priced and not run: the number of elements, whether abstract
    progress: bool = False  # a live line on stderr
    profile: str | None = None  # a folder for profiles

    @property
    def asked(self) -> list[str]:
        """The program as bsprun's command line has it."""
        return ["--numpy", *self.program[2:]] if self.program[:2] == FOR_NUMPY else self.program

    @property
    def script(self) -> str | None:
        """The file of the program; None for a module, a function or a session."""
        first = next((word for word in self.asked if word not in ("--numpy", "--explain")), "-")
        return None if first.startswith("-") else first

    @property
    def local(self) -> bool:
        """True if all elements are on this machine."""
        return self.hosts is None

    def placement(self) -> Iterator[str]:
        """Yield a line for each host, with the elements and processes that run on it."""
        hosting, first = Hosting(self.nprocs, self.elements), 0
        for host, count in placed(self.hosts, self.elements) if self.hosts else []:
            pids = range(hosting.pids(first)[0], hosting.pids(first + count - 1)[-1] + 1)
            yield f"host {host.name}: {numbered('element', range(first, first + count))}, {numbered('process', pids)}"
            first += count

    def _places(self) -> str:
        assert self.hosts is not None
        return ",".join(f"{host.name}:{count}" for host, count in placed(self.hosts, self.elements))

    def command(self, **job: Any) -> list[str]:
        """Return the command line that runs the elements; `job` holds settings of one pass."""
        settings = {"nprocs": self.nprocs, "seed": self.seed, "schedule": self.schedule, **job}
        for name in ("machine", "trace", "predict", "progress", "profile"):
            if getattr(self, name):
                settings[name] = getattr(self, name)
        alone = self.elements == 1 and self.local
        if alone:
            settings["alone"] = True
        element = [sys.executable, "-m", "bsp.command.start", json.dumps(settings), *self.program]
        if alone:
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
            if self.hosts is not None:
                flags += ["--host", self._places(), "--map-by", "slot"]
        elif self.hosts is not None:  # MPICH and its relatives
            flags += ["-hosts", self._places()]
        return [mpiexec, *flags, *self.mpi_args, "-n", str(self.elements), *element]

    def environment(self) -> dict[str, str]:
        """Return the environment variables that elements have in addition to this process's, those of MPI included."""
        extra = self.program_environment()
        if self.elements > 1 or not self.local:
            if hasattr(os, "geteuid") and os.geteuid() == 0:
                extra |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
            if self.local:
                # shared memory only: without them Open MPI spends a second looking for networks; "vader" is the name
                # of shared memory in Open MPI 3 and 4, which refuse to start with "sm", and another name for it in 5
                for name, value in (("OMPI_MCA_pml", "ob1"), ("OMPI_MCA_btl", "self,vader")):
                    extra[name] = os.environ.get(name, value)
        return extra

    def program_environment(self) -> dict[str, str]:
        """Return the environment variables that a program has on every element, whatever carries its data."""
        # hash("a word") and the order of a set are the same on every element and in every run (D6)
        extra = {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", str(self.seed % 2**32))}
        threads = self.threads()
        if threads is not None:
            extra |= dict.fromkeys(BLAS_VARIABLES, str(threads))
        return extra

    def threads(self) -> int | None:
        """Return the BLAS threads of an element (D8); None: as many as its machine has cores."""
        return self.blas_threads or (1 if self.nprocs > 1 else None)


def numbered(noun: str, numbers: range) -> str:
    """Return 'element 3' or 'elements 3-5'."""
    if len(numbers) == 1:
        return f"{noun} {numbers[0]}"
    return f"{noun}{'es' if noun.endswith('s') else 's'} {numbers[0]}-{numbers[-1]}"


@dataclass(frozen=True)
class Outcome:
    """The end of a job: its exit status, and the message for standard error."""

    status: int
    said: str = ""

    @property
    def asked(self) -> bool:
        """True if the job ended because somebody asked it to, by a signal."""
        return self.status - 128 in ASKED

    def tell(self) -> int:
        """Write the message after the job's text; return the status."""
        sys.stdout.flush()
        write_error(self.said)
        return self.status


def start(job: Launch) -> int:
    """Run a job to its end; return its exit status."""
    if not job.check:
        return one_pass(job).tell()
    from bsp.command.check_passes import checked

    with tempfile.TemporaryDirectory(prefix="bsp-check-") as folder:
        return checked(job, folder).tell()


def one_pass(job: Launch, hash_seed: str | None = None, **settings: Any) -> Outcome:
    """Run a job once, with `hash_seed` in place of the job's own.

    A signal that asks this process to end ends the job; what it has started and its files here are gone then.
    """
    with (
        _Asked() as asked_to_end,
        tempfile.TemporaryDirectory("", "bsprun-", temporary_folder(), ignore_cleanup_errors=True) as folder,
    ):
        environment = os.environ | job.environment()
        if hash_seed is not None:
            environment["PYTHONHASHSEED"] = hash_seed
        if job.local:
            environment.setdefault(_FOLDER_OF_MPI, folder)
            return _here(job, folder, environment, settings, asked_to_end)
        return _on_hosts(job, folder, environment, settings, asked_to_end)


def _here(
    job: Launch, folder: str, environment: dict[str, str], settings: dict[str, Any], asked_to_end: _Asked
) -> Outcome:  # fmt: skip
    """Run a job whose elements are all on this machine and connected to this process."""
    given = _is_open(0) and not os.isatty(0)  # only the foreground process group may read a terminal
    single = job.elements == 1
    desk = Desk(folder, (0, 1, 2) if given else (1, 2))
    command = job.command(lifeline=folder, keeper=os.getpid(), **settings)
    no_input = job.predict is not None or (given and not single)  # element 0 is given ours
    with contextlib.closing(desk):
        return _to_its_end(job, desk, command, environment, folder, None if no_input else 0, single, asked_to_end)


def _on_hosts(
    job: Launch, folder: str, environment: dict[str, str], settings: dict[str, Any], asked_to_end: _Asked
) -> Outcome:  # fmt: skip
    """Run a job whose elements are on several hosts, each connected to our daemon there."""
    assert job.hosts is not None
    places = [(host.name, count) for host, count in placed(job.hosts, job.elements)]
    with contextlib.closing(Links(folder, places, _carried(job, settings), job.reach)) as links:
        given = _is_open(0) and not os.isatty(0)
        networks = asked_to_end.unless(lambda: links.prepare(environment, job.script, given))
        if networks is None:
            return asked_to_end.outcome()
        if networks:
            environment.setdefault("OMPI_MCA_btl_tcp_if_include", ",".join(networks))
            environment.setdefault("PRTE_MCA_prte_if_include", ",".join(networks))
        environment.setdefault(_FOLDER_OF_MPI, links.folder)  # one that each host's daemon removes
        command = job.command(lifeline=links.folder, **settings)
        for here, name in _carried(job, settings).items():
            command = [word.replace(here, f"{links.folder}/{name}") for word in command]
        return _to_its_end(job, links, command, environment | links.launching(), folder, None, False, asked_to_end)


def _carried(job: Launch, settings: dict[str, Any]) -> dict[str, str]:
    """Folders here whose files elements read and write, by the name of their copy on every host."""
    files = [job.trace, *(settings.get("check") or {}).values()]
    if job.program[0] == "--function":
        files += job.program[1:3]
    folders = [os.path.dirname(file) for file in files if isinstance(file, str) and os.path.isabs(file)]
    if job.profile is not None:
        folders.append(job.profile)
    return {folder: f"carried-{k}" for k, folder in enumerate(dict.fromkeys(folders))}


def _to_its_end(
    job: Launch, desk: Desk | Links, command: list[str], environment: dict[str, str], folder: str, given: int | None,
    single: bool, asked_to_end: _Asked,
) -> Outcome:  # fmt: skip
    """Run a job to its end; how it ended, from the first that knows: a signal, the elements, the launcher."""
    launcher = os.path.join(folder, "launcher")
    with open(launcher, "wb") as said:
        child = subprocess.Popen(
            command, env=environment, preexec_fn=_depend, stdin=subprocess.DEVNULL if given is None else None,
            stdout=None if single else said, stderr=None if single else subprocess.STDOUT,
        )  # fmt: skip
    code = asked_to_end.unless(lambda: _attend(child, desk))
    if code is None:
        end(child)
    asked_to_end.unless(lambda: desk.drain(GRACE))
    if code is None or asked_to_end.ended:
        return asked_to_end.outcome(desk.ending.said)
    ending = desk.ending
    with open(launcher, errors="replace") as file:
        told = file.read()
    if isinstance(desk, Links) and desk.lost_output:
        where = f"standard output: {desk.lost_output}, in superstep {desk.superstep()}"
        return Outcome(ending.status or 1, f"{ending.said}bsprun: error: {where}\n")
    if ending.status is not None:
        return Outcome(ending.status, ending.said)
    if isinstance(desk, Links) and desk.lost_hosts and -code not in ASKED:
        return Outcome(1, f"bsprun: error: {_silence(job, desk)}\n")
    if code < 0 and (-code in ASKED or not single):
        # MPI's launcher may abort or crash when its processes do, before it has told of their end
        crashed = -code in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS)
        why, advice = _without_mpi(job, desk, told) if crashed else ("", "")
        return _signalled(-code, why, advice)
    if ending.lost:
        code, text = first_death(job, desk, told, code)
        why, advice = _without_mpi(job, desk, told) if code > 0 else ("", "")
        return Outcome(_status_of(code), f"{why}bsprun: error: {text}{advice}\n")
    return Outcome(_status_of(code), f"{told}bsprun: error: the job did not start (status {_status_of(code)})\n")


def _without_mpi(job: Launch, desk: Desk | Links, told: str) -> tuple[str, str]:
    """Return what MPI says of a job whose processes never ran, and advice for it; ("", "") if one has run."""
    moments = [desk.last_moments(element) for element in desk.ending.lost]
    if any(each.pid >= 0 or each.line for each in moments):
        return "", ""
    if job.hosts is not None:
        return _explained(told), f"; what is missing? Try bsp doctor --hosts {in_words(job.hosts)}"
    trial = f"mpiexec -n {job.elements} {sys.executable} -m mpi4py.bench helloworld"
    return _explained(told), f"; does MPI start? Try {trial}"


def first_death(job: Launch, desk: Desk | Links, told: str, code: int) -> tuple[int, str]:
    """Return how the element ended that died first, as a code, and in words; `told` by MPI's launcher."""
    told += "".join(desk.last_moments(element).of_mpi for element in desk.ending.lost)
    broken = [each for each in desk.ending.lost if desk.last_moments(each).line.startswith("by an error ")]
    first = broken[0] if broken else _first_of(desk.ending.lost, told)
    exited = re.search(r"Process name: \[\S+,(\d+)\]\s+Exit code:\s+(\d+)", told)
    if exited and desk.last_moments(int(exited[1])).pid < 0:  # it failed to start: a package is missing on its host
        return int(exited[2]), _obituary(job, desk, int(exited[1]), int(exited[2]))
    code = _signal_of(first, told, desk.last_moments(first), not job.local) or code
    return code, _obituary(job, desk, first, code)


def _first_of(lost: Mapping[int, float], told: str) -> int:
    """Return the element whose death had those of the others as its consequence, if none has noted an error itself.

    MPI's launcher names the first that was killed, if it has seen that: on several hosts, elements that lose their
    connection to a dead one wait for that (`Links.launching`).  Otherwise it is the first by the clock of those that
    MPI did not abort.
    """
    killed = re.search(r"process rank (\d+) with PID \d+ on node \S+ exited\s+on\s+signal", told)
    if killed and int(killed[1]) in lost:
        return int(killed[1])
    aborted = _aborted(told)
    return next((element for element in lost if element not in aborted), next(iter(lost)))


def _signal_of(element: int, told: str, moments: LastMoments, elsewhere: bool) -> int:
    """Return the signal that ended an element, negated, from the output of MPI's launcher; 0 if none did.

    `elsewhere`, the launcher may name an element that only lost its connection to the first: whoever ends
    without a word, a crash report or os._exit was killed.
    """
    said = re.search(rf"process rank {element} with PID \d+ on node \S+ exited\s+on\s+signal\s+(\d+)", told)
    said = said or re.search(r"EXIT STRING: .*\(signal (\d+)\)", told)  # MPICH's
    if said:
        return -int(said[1])
    if not elsewhere or moments.signal:
        return -moments.signal
    exited = re.search(rf"process rank {element} with PID \d+ on node", told)
    left_itself = exited or element in _aborted(told) or moments.line.startswith("by ")
    return 0 if left_itself else -signal.SIGKILL


def _aborted(told: str) -> set[int]:
    """Return the elements that MPI has aborted, because they lost their connection to another."""
    said = (
        r"\*\*\* reported by process \[\d+,(\d+)\]",
        r"process rank (\d+) with PID \d+ on node \S+ calling\s+.abort",
    )
    return {int(rank) for text in said for rank in re.findall(text, told)}


def _explained(told: str) -> str:
    """Return what MPI has written in its boxes, each text once."""
    boxes = dict.fromkeys(box.strip(" \n\0") for box in re.split(r"-{70,}\n", told))
    return "".join(f"{box}\n" for box in boxes if box and not box.startswith("prterun "))


def _silence(job: Launch, links: Links) -> str:
    """Return the message on a lost host: its name, and the processes that were on it."""
    host = links.lost_hosts[0]
    hosting, elements = Hosting(job.nprocs, job.elements), links.elements_of(host)
    pids = range(hosting.pids(elements[0])[0], hosting.pids(elements[-1])[-1] + 1)
    return f"host {host} with {numbered('process', pids)} {links.why_lost(host)}, in superstep {links.superstep()}"


def _signalled(number: int, why: str, advice: str) -> Outcome:
    """Return the outcome of a job whose launcher or only element was ended by a signal."""
    return Outcome(128 + number, f"{why}bsprun: error: the job was ended by {_name_of(number)}{advice}\n")


def _status_of(code: int) -> int:
    """Return the exit status of a job that ended with `code` without a status from element 0: never 0."""
    return 128 - code if code < 0 else code or 1


def _name_of(number: int) -> str:
    return signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"


def _obituary(job: Launch, desk: Desk | Links, element: int, code: int) -> str:
    """Return the message on the element that died first: the cause, and what it was doing."""
    pids = Hosting(job.nprocs, job.elements).pids(element)
    whose = numbered("process", pids)
    pid, superstep, moment = desk.last_moments(element)[:3]
    number = -code if code < 0 else code - 128
    if moment.startswith("by "):
        how = f"ended {moment}"
    elif number in set(signal.Signals):
        how = f"was killed by {_name_of(number)}" + (" (out of memory?)" if number == signal.SIGKILL else "")
        how += f" {moment}" if moment else ""
    else:
        how = f"ended with status {code} {moment}".rstrip()
    before = ", between calls" if pid == IDLE else ", before its first process ran"
    turn = f", in the turn of process {pid}, superstep {superstep}" if pid >= 0 else before
    where = f" on host {desk.host_of(element)}" if isinstance(desk, Links) else ""
    return f"element {element} ({whose}){where} {how}{turn}"


def asked() -> tuple[signal.Signals, ...]:
    """Return the signals of `ASKED`, without SIGHUP if it is ignored here, as `nohup` arranges."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return tuple(number for number in ASKED if not (ignored and number == signal.SIGHUP))


def _is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def _depend() -> None:
    """Arrange that this process dies with its parent, to which a terminal's SIGQUIT is left.

    MPI's launcher would die of it, and leave its shared memory behind.  It would also end the job at a SIGHUP that
    `nohup` has us ignore, so it gets a process group of its own then.
    """
    die_with_parent()
    signal.signal(signal.SIGQUIT, signal.SIG_IGN)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        os.setpgid(0, 0)


class _Asked:
    """The signals that ask this process to end, as a context manager in which they do not end it at once.

    A signal may come between any two steps.  So it is only noted, except while `unless` waits for something.
    """

    def __init__(self) -> None:
        self._first = 0  # the first signal that has come
        self._new = False  # whether one has come that has not ended a wait yet
        self._waits = False
        self.ended = False  # whether one has ended a wait

    def __enter__(self) -> _Asked:
        # only the main thread may watch signals; bsp.run may be called from another one
        main = threading.current_thread() is threading.main_thread()
        self._kept = {number: signal.getsignal(number) for number in (asked() if main else ())}
        for number in self._kept:
            signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._kept.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: Any) -> None:
        self._first = self._first or number
        self._new = True
        if self._waits:
            raise _Ended

    def unless(self, wait: Callable[[], T]) -> T | None:
        """Return what `wait()` returns; None if a signal has come that has not ended another wait."""
        try:
            try:
                self._waits = True
                if self._new:
                    raise _Ended
                return wait()
            finally:
                self._waits = False
        except _Ended:
            self._new, self.ended = False, True
            return None

    def outcome(self, said: str = "") -> Outcome:
        """Return the end of a job by the first signal; `said` before it, of a program that had failed."""
        what = "interrupted" if self._first == signal.SIGINT else f"ended by {signal.Signals(self._first).name}"
        return Outcome(128 + self._first, f"{said}bsprun: {what}\n")


def _attend(child: subprocess.Popen[bytes], desk: Desk | Links) -> int:
    """Wait for the end of a job, whose elements may be kept from ending by threads of the program."""
    ending, noted = desk.ending, False
    code = desk.wait(child, None)
    until = time.monotonic() + _LAST_WORDS
    while code is None:
        if isinstance(desk, Links) and (desk.lost_hosts or desk.lost_output):
            end(child)  # MPI may wait for a host for minutes
            return 1
        code = desk.wait(child, GRACE)
        if code is None and (ending.failed or ending.lost):  # nothing that still runs may keep that from being told
            late = time.monotonic() > until
            if late or (ending.failed and desk.all_have_left()):
                end(child)
                code = child.wait() if ending.failed else 1  # Open MPI's launcher does not always end
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
