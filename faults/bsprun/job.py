"""A nonstop job: its options, its checks before the start, and the state that outlives its incarnations.

That state is: the text printed, the results of proc.once, the clock, the event log, the folder of checkpoints.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import secrets
import shlex
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bsp.command.launch import Launch
from bsp.errors import LaunchError
from bsp.faults.bsprun.background import Aside
from bsp.faults.bsprun.job_file import JobFile, fresh_name, regular_output
from bsp.faults.bsprun.output import Output
from bsp.faults.checkpoints.folder import Checkpoint, claim, last_of, latest, needs_key
from bsp.faults.checkpoints.key import Key, NoKey, user_key
from bsp.faults.checkpoints.ownership import exposed
from bsp.faults.engine.once_calls import has_raised
from bsp.faults.errors import CheckpointError
from bsp.faults.events.log import EventLog
from bsp.faults.injection import check, parse
from bsp.faults.protocol.clones.once_values import OnceValues
from bsp.faults.protocol.messages import Limits
from bsp.faults.protocol.placement import Placement, elements_for, place
from bsp.faults.protocol.text import Shown
from bsp.host import cores
from bsp.hosts.build import build

if TYPE_CHECKING:
    from bsp.faults.events.live_view import LiveView

LOST = 3  # exit status of a job that has lost a bundle
OVERTHROWN = 1  # exit status of a bsprun from which another one has taken the job over
PREEMPTED = 75  # exit status of a job that has written a checkpoint on SIGTERM (EX_TEMPFAIL)
_PATIENCE = 2.0  # seconds to write the remaining text of a job that a signal has ended


@dataclass
class Resilience:
    """The options of `bsprun` for cloned execution and checkpoints."""

    clones: float = 1.0
    vertical: int = 1
    standbys: int = 0
    limits: Limits = field(default_factory=Limits)
    checkpoint: str | None = None  # the folder; of a resumed job, too
    keep: int = 2
    resume: str | None = None
    inject: str | None = None
    events: str | None = None
    progress: bool = False
    listen: int | None = None  # port for joiners; None: nobody joins by hand
    leave_when: str | None = None  # a command, see SpotNotice
    strict: bool = False  # refuse to run with clones of a process on one host
    orphan_limit: float = 600.0  # seconds that the job waits for another bsprun when its own is gone

    @property
    def option(self) -> str:
        """The option that names the folder of checkpoints."""
        return "--checkpoint" if self.resume is None else "--resume"


@contextlib.contextmanager
def _writing(option: str, path: str | None) -> Iterator[None]:
    """Turn an OSError into a LaunchError that names the option whose file cannot be written."""
    try:
        yield
    except OSError as wrong:
        raise LaunchError(f"{option} '{path}': cannot be written: {wrong.strerror or wrong}") from None


_OPTIONS = {
    "nprocs": ("processes", "-p"), "elements": ("elements", "-n"), "blas_threads": ("BLAS threads", "--blas-threads"),
}  # fmt: skip


def difference(key: str, theirs: Any, ours: Any) -> str:
    """Return how a checkpoint's job differs from this one in `key` of its identity, and what to do about it."""
    if key == "program":
        return f"it ran '{shlex.join(theirs)}', and this is '{shlex.join(ours)}'"
    if key == "script":
        return "the script has changed since"
    if key == "machine":
        return "it chose its algorithms by the profile of another machine; leave --machine out"
    if key == "seed":
        return f"its seed is {theirs}, not {ours}; give --seed {theirs}"
    what, option = _OPTIONS[key]
    return f"its number of {what} is {theirs}, not {ours}; give {option} {theirs}"


def identity(launch: Launch) -> dict[str, Any]:
    """Return the properties in which a checkpoint's job must equal this one."""
    path, digest = launch.script, ""
    if path is not None and os.path.isfile(path):
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
    machine = json.dumps(launch.machine, sort_keys=True, default=str)
    return {
        "program": [os.path.basename(word) if word == path else word for word in launch.asked],
        "script": digest,
        "nprocs": launch.nprocs,
        "elements": launch.elements,
        "seed": launch.seed,
        "blas_threads": launch.threads() or cores(),  # products have other bytes with another number of them (D8)
        "machine": hashlib.sha256(machine.encode()).hexdigest()[:16],
    }


def digest_of(job: dict[str, Any]) -> str:
    """Return the digest of an identity, as 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()


def placed(launch: Launch, asked: Resilience) -> Placement:
    """Return the placement of bundles on elements; raise LaunchError if options do not fit together."""
    try:
        rows = place(launch.elements, elements_for(launch.elements, asked.clones), asked.vertical)
        if asked.inject:
            check(parse(asked.inject), len(rows) + asked.standbys, launch.nprocs)
    except ValueError as wrong:
        raise LaunchError(str(wrong)) from None
    return rows


def key_of(asked: Resilience, job: dict[str, Any], make: bool) -> Key:
    """Return the key of the job's checkpoints; raise LaunchError if the job cannot begin with their folder.

    make : whether to create a key for a user without one.  If not, a key that has sealed nothing takes its place.
    """
    option, folder = asked.option, asked.checkpoint
    if folder is None:
        return Key.fresh()  # these checkpoints are deleted with the job
    if os.path.isdir(folder) and (why := exposed(folder)):
        raise LaunchError(f"{option} '{folder}': {why}")
    try:
        key = user_key(make=make and asked.resume is None)
    except NoKey as wrong:
        if asked.resume is not None and needs_key(Path(folder)):
            raise LaunchError(f"{option} {folder}: {wrong}") from None
        key = Key.fresh()
    except CheckpointError as wrong:
        raise LaunchError(f"{option} {folder}: {wrong}") from None
    if asked.resume is None and (last := last_of(Path(folder), key, job)) is not None:
        raise LaunchError(
            f"--checkpoint {folder}: checkpoints of this very job are there already, the last is {last}; "
            f"go on from it with --resume {folder}, or name another folder"
        )
    return key


def _key_again(folder: str) -> Key:
    """Return the key of a job that another bsprun has begun; raise LaunchError without it."""
    try:
        return user_key(make=False)
    except CheckpointError as wrong:
        raise LaunchError(f"--checkpoint {folder}: {wrong}") from None


def last_checkpoint(
    asked: Resilience, folder: str, key: Key, job: dict[str, Any], say: Callable[[str], None], begins: bool
) -> Checkpoint | None:
    """Return the last checkpoint that can be used, or None; `say` gets the reason for each one refused.

    begins : whether the job starts from it; then LaunchError is raised if there is no folder or no checkpoint in it.
    """
    try:
        return latest(Path(folder), key, job, lambda text: say(f"checkpoint: {text}"), difference)
    except ValueError as wrong:
        if begins:
            raise LaunchError(f"--resume {asked.resume}: {wrong}") from None
        return None


class Job:
    """A job with all its incarnations."""

    def __init__(self, launch: Launch, asked: Resilience, predecessor: JobFile | None = None) -> None:
        """Check the options and folders, and open the event log and the live view; raise LaunchError if that fails.

        predecessor : the file of the job, if another bsprun has begun it.
        """
        self.launch, self.asked = launch, asked
        self.local = launch.local and asked.listen is None  # whether all will always be on this machine
        self.rows = placed(launch, asked)
        # computed at the start, because the script may be changed while it runs
        self.identity = identity(launch) if predecessor is None else dict(predecessor.identity)
        self.checkpoints = asked.checkpoint or ""
        self.key = Key.fresh()
        self._claim: int | None = None  # a descriptor that keeps other jobs from the folder
        if asked.checkpoint is not None:
            with _writing(asked.option, self.checkpoints):
                os.makedirs(self.checkpoints, mode=0o700, exist_ok=True)
                if predecessor is None:
                    self.key = key_of(asked, self.identity, make=True)
                else:
                    self.key = _key_again(asked.checkpoint)
                try:
                    self._claim = claim(Path(self.checkpoints))
                except CheckpointError as wrong:
                    if predecessor is None or not predecessor.runs():  # else it is that one's, and it ends (--takeover)
                        raise LaunchError(f"{asked.option} {self.checkpoints}: {wrong}") from None
                tempfile.TemporaryFile(dir=self.checkpoints).close()
        self.name = fresh_name(launch.asked) if predecessor is None else predecessor.name
        # How many bspruns have taken over, and a number by which two that do so at the same time differ: the keepers of
        # all hosts follow the one with the larger.
        self.reign = 0 if predecessor is None else (predecessor.reign >> 32) + 1
        self.seal = (self.reign << 32) + (0 if predecessor is None else secrets.randbits(32))
        since = 0.0 if predecessor is None else max(0.0, time.time() - predecessor.began)
        with _writing("--events", asked.events):
            self.log = EventLog(
                None if asked.events is None else Path(asked.events), since=None if predecessor is None else since
            )
        self.view: LiveView | None = None
        if asked.progress:
            from bsp.faults.events.live_view import LiveView  # late, because importing rich takes a while

            self.view = LiveView()
            self.log.subscribe(self.view.event)
        self.began = time.monotonic() - since
        self.file_of_output = regular_output() if predecessor is None else predecessor.output
        self.before = 0  # bytes of standard output that others have written
        self.printed = 0  # bytes of standard output, those that are still to be written included
        self.errors: dict[int, Shown] = {}  # standard error that has been shown, by bundle
        self.once = OnceValues()
        self.incarnation = 0 if predecessor is None else predecessor.incarnation
        # of the agents, counting also the attempts to start an incarnation
        self.term = 0 if predecessor is None else predecessor.term
        self.sent = 0  # bytes sent by the agents of all incarnations
        self.signals: list[int] = []  # received and not handled yet
        self.resumed = ""  # the checkpoint from which the incarnation continues
        self.preempted = False  # SIGTERM has asked for a checkpoint and an end
        self.left = False  # a signal has ended the job
        self.disk = Aside()
        self.output = Output(self.view)
        self.save: Callable[[], None] = lambda: None  # writes the job's file
        self.struck: set[str] = set()  # injected faults that have happened

    def latest(self) -> Checkpoint | None:
        """Return the last checkpoint that can be used, or None."""
        if self.asked.checkpoint is None:
            return None
        begins = self.asked.resume is not None and self.incarnation == 0
        return last_checkpoint(self.asked, self.checkpoints, self.key, self.identity, self.say, begins)

    def adopt(self, resume: Checkpoint, fresh: bool) -> None:
        """Take over what a checkpoint holds beside the bundles' states; `fresh` at the start of a resumed job."""
        head = resume.head
        for token, encoded in head["once"]:
            value = base64.b64decode(encoded)
            what, _, at, _ = token
            is_later = at >= head["head"] if what == "round" else at > head["superstep"]
            # a call that raised, as for want of room on a disk, is made again
            if what == "time" or not is_later or not has_raised(value):
                self.once.add([(tuple(token), value)])
        if fresh:
            self.before = self.printed = int(head["said"])
            self.began = time.monotonic() - float(head["seconds"])
            before = head["build"]
            if changed := [f"{name} was {before[name]} and is {now}" for name, now in build() if before[name] != now]:
                self.say(
                    f"warning: {resume.name}: {'; '.join(changed)}: results may differ in their last bits from those "
                    "of a job that was not interrupted"
                )

    def not_before(self, seconds: float) -> None:
        """Take the job to have begun at least so many seconds ago.

        Of another bsprun's job only the date tells when it began, and that may have been set back since, or differ on
        this host.  What the program has read of the time must not come again.
        """
        behind = seconds - (time.monotonic() - self.began)
        if behind > 0:
            self.began -= behind
            self.log.move_beginning(behind)

    def written(self) -> int:
        """Return how many bytes of the job's standard output have been written, by whichever bsprun."""
        return self.before + self.output.written

    def goes_on_behind(self, confirmed: int) -> None:
        """Have the text go on where that of the bsprun before ended, which is at least behind `confirmed` bytes.

        If standard output goes to the same file, its size tells.
        """
        now, then = regular_output(), self.file_of_output
        behind = confirmed
        if now and then and tuple(now[:2]) == tuple(then[:2]):
            behind = max(confirmed, now[2] - then[2])
        self.before = self.printed = behind

    def leave(self, number: int) -> int:
        """Say which signal ends the job; return the exit status."""
        self.say(self.interrupted(number))
        self.left = True
        return 128 + number

    def totals(self) -> dict[str, Any]:
        """Return the totals for the event that ends the job."""
        return {"seconds": round(time.monotonic() - self.began, 3), "bytes": self.sent}

    def tell_missed(self, last: int) -> None:
        """Warn of injected faults that have not happened: a rehearsal must not pass for a fault survived.

        last : the last superstep.
        """
        for fault in parse(self.asked.inject) if self.asked.inject else ():
            if fault.superstep is None or str(fault) in self.struck:
                continue
            why = (
                f"superstep {last} was the last"
                if fault.superstep > last
                else "nothing was computed there then (a standby, or a clone that had jumped ahead)"
            )
            self.say(f"warning: --inject: '{fault}' has not happened: {why}")

    def say(self, text: str) -> None:
        """Print a line on standard error."""
        self.output.complain(f"bsprun: {text}\n".encode(errors="backslashreplace"))

    @staticmethod
    def interrupted(number: int = signal.SIGTERM) -> str:
        """Return the words that name the signal that ended the job."""
        return "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"

    def close(self) -> None:
        """Write all remaining text, then end the live view and the event log.

        A further signal ends the wait, and so does a short limit if a signal has ended the job.
        """
        self.output.end()
        until = time.monotonic() + _PATIENCE
        while not self.output.finish(0.2) and not self.signals and not (self.left and time.monotonic() > until):
            pass
        self.log.close()
        if self._claim is not None:
            os.close(self._claim)
