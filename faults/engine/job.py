"""A nonstop job: what was asked for, and what outlives its incarnations.

The text that is out, the values of proc.once, the clock, the event log, the folder of checkpoints.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
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
from bsp.faults.checkpoints.folder import Checkpoint, last_of, latest, needs_key
from bsp.faults.checkpoints.key import Key, NoKey, user_key
from bsp.faults.checkpoints.ownership import exposed
from bsp.faults.engine.background import Aside
from bsp.faults.engine.output import Output
from bsp.faults.errors import CheckpointError
from bsp.faults.events.log import EventLog
from bsp.faults.injection import check, parse
from bsp.faults.protocol.messages import Limits
from bsp.faults.protocol.placement import Placement, elements_for, place
from bsp.faults.protocol.text import Shown

if TYPE_CHECKING:
    from bsp.faults.events.live_view import LiveView

LOST = 3  # the status of a job that has lost a bundle
PREEMPTED = 75  # and of one that has written a checkpoint when asked to end (EX_TEMPFAIL)
_PATIENCE = 2.0  # seconds for the rest of the text of a job that a signal has ended


@dataclass
class Resilience:
    """What `bsprun` was asked for."""

    clones: float = 1.0
    vertical: int = 1
    standbys: int = 0
    limits: Limits = field(default_factory=Limits)
    checkpoint: str | None = None  # of a resumed job, too
    keep: int = 2
    resume: str | None = None
    inject: str | None = None
    events: str | None = None
    progress: bool = False
    refresh: bool = True

    @property
    def option(self) -> str:
        """The one that names the folder of checkpoints."""
        return "--checkpoint" if self.resume is None else "--resume"


@contextlib.contextmanager
def _writing(option: str, path: str | None) -> Iterator[None]:
    """What cannot be written is told before the run, with its option."""
    try:
        yield
    except OSError as wrong:
        raise LaunchError(f"{option} '{path}': cannot be written: {wrong.strerror or wrong}") from None


_OPTIONS = {"nprocs": ("processes", "-p"), "elements": ("elements", "-n")}


def difference(key: str, theirs: Any, ours: Any) -> str:
    """How the job of a checkpoint differs from this one (`Job.identity`), and what to do."""
    if key == "program":
        return f"it ran '{shlex.join(theirs)}', and this is '{shlex.join(ours)}'"
    if key == "script":
        return "the script has changed since"
    if key == "machine":
        return "it chose its algorithms by the profile of another machine; give it the same --machine FILE"
    if key == "seed":
        return f"its seed is {theirs}, not {ours}; give --seed {theirs}"
    what, option = _OPTIONS[key]
    return f"it has {theirs} {what}, not {ours}; give {option} {theirs}"


def identity(launch: Launch) -> dict[str, Any]:
    """What must be equal for a checkpoint to be this job's."""
    program = launch.program
    path = program[0]
    digest = ""
    if path != "-m" and os.path.isfile(path):
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
    machine = json.dumps(launch.machine, sort_keys=True, default=str)
    return {
        "program": [os.path.basename(path), *program[1:]],
        "script": digest,
        "nprocs": launch.nprocs,
        "elements": launch.elements,
        "seed": launch.seed,
        "machine": hashlib.sha256(machine.encode()).hexdigest()[:16],
    }


def digest_of(job: dict[str, Any]) -> str:
    """An identity in 64 digits."""
    return hashlib.sha256(json.dumps(job, sort_keys=True).encode()).hexdigest()


def placed(launch: Launch, asked: Resilience) -> Placement:
    """Which element runs what; LaunchError for options that do not fit together."""
    try:
        rows = place(launch.elements, elements_for(launch.elements, asked.clones), asked.vertical)
        if asked.inject:
            check(parse(asked.inject), len(rows) + asked.standbys, launch.nprocs)
    except ValueError as wrong:
        raise LaunchError(str(wrong)) from None
    return rows


def key_of(asked: Resilience, job: dict[str, Any], make: bool) -> Key:
    """The key of the job's checkpoints; LaunchError if the job cannot begin with their folder.

    make : whether a user without a key gets one.  If not, a key that has sealed nothing takes its place.
    """
    option, folder = asked.option, asked.checkpoint
    if folder is None:
        return Key.fresh()  # they are gone with the job
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


def last_checkpoint(
    asked: Resilience, folder: str, key: Key, job: dict[str, Any], say: Callable[[str], None], begins: bool
) -> Checkpoint | None:
    """The last checkpoint that can be used; LaunchError if a job that `begins` with one finds none there."""
    try:
        return latest(Path(folder), key, job, lambda text: say(f"checkpoint: {text}"), difference)
    except ValueError as wrong:
        if begins:
            raise LaunchError(f"--resume {asked.resume}: {wrong}") from None
        return None


class Job:
    """All incarnations."""

    def __init__(self, launch: Launch, asked: Resilience, folder: str, mpiexec: str) -> None:
        self.launch, self.asked, self.folder, self.mpiexec = launch, asked, folder, mpiexec
        self.rows = placed(launch, asked)
        self.identity = identity(launch)  # as it is now: somebody may change the script while it runs
        self.checkpoints = asked.checkpoint or os.path.join(folder, "checkpoints")
        with _writing(asked.option, self.checkpoints):
            os.makedirs(self.checkpoints, mode=0o700, exist_ok=True)
            self.key = key_of(asked, self.identity, make=True)
            tempfile.TemporaryFile(dir=self.checkpoints).close()
        with _writing("--events", asked.events):
            self.log = EventLog(None if asked.events is None else Path(asked.events))
        self.view: LiveView | None = None
        if asked.progress:
            from bsp.faults.events.live_view import LiveView  # rich takes a while

            self.view = LiveView()
            self.log.subscribe(self.view.event)
        self.began = time.monotonic()
        self.printed = 0
        self.errors: dict[int, Shown] = {}  # of standard error, by bundle
        self.once: dict[Any, bytes] = {}
        self.incarnation = 0
        self.sent = 0  # bytes, by the agents of all incarnations
        self.signals: list[int] = []
        self.preempted = False  # has been asked to write a checkpoint and end
        self.left = False  # has been ended by a signal
        self.disk = Aside()
        self.output = Output(self.view)
        self.struck: set[str] = set()  # injected faults that have happened

    def latest(self) -> Checkpoint | None:
        """The last checkpoint that can be used."""
        begins = self.asked.resume is not None and self.incarnation == 0
        return last_checkpoint(self.asked, self.checkpoints, self.key, self.identity, self.say, begins)

    def adopt(self, resume: Checkpoint, fresh: bool) -> None:
        """What the checkpoint knows beside the bundles' states."""
        head = resume.head
        once = {tuple(token): base64.b64decode(value) for token, value in head["once"]}
        self.once.update({token: value for token, value in once.items() if token not in self.once})
        if fresh:
            self.printed = int(head["said"])
            self.began = time.monotonic() - float(head["seconds"])

    def totals(self) -> dict[str, Any]:
        """What the end of the job says of it all."""
        return {"seconds": round(time.monotonic() - self.began, 3), "bytes": self.sent}

    def tell_missed(self, last: int) -> None:
        """A rehearsal that tried nothing must not look like one that was survived."""
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
        """A line on standard error."""
        self.output.complain(f"bsprun: {text}\n".encode())

    @staticmethod
    def interrupted(number: int = signal.SIGTERM) -> str:
        """Who has ended the job."""
        return "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"

    def close(self) -> None:
        """All that was said is out, unless the user wants to leave; the event log and the live view end."""
        self.output.end()
        until = time.monotonic() + _PATIENCE
        while not self.output.finish(0.2) and not self.signals and not (self.left and time.monotonic() > until):
            pass
        self.log.close()
