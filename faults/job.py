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
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bsp.errors import LaunchError
from bsp.faults.aside import Aside
from bsp.faults.checkpoint import Checkpoint, last_of, latest
from bsp.faults.events import EventLog
from bsp.faults.injection import check, parse
from bsp.faults.messages import Limits
from bsp.faults.output import Output
from bsp.faults.placement import elements_for, place
from bsp.faults.spoken import Shown
from bsp.launch import Launch

if TYPE_CHECKING:
    from bsp.faults.view import LiveView

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
    checkpoint: str | None = None
    keep: int = 2
    resume: str | None = None
    inject: str | None = None
    events: str | None = None
    progress: bool = False
    refresh: bool = True


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


class Job:
    """All incarnations."""

    def __init__(self, launch: Launch, asked: Resilience, folder: str, mpiexec: str) -> None:
        self.launch, self.asked, self.folder, self.mpiexec = launch, asked, folder, mpiexec
        try:
            self.rows = place(launch.elements, elements_for(launch.elements, asked.clones), asked.vertical)
            if asked.inject:
                check(parse(asked.inject), len(self.rows) + asked.standbys, launch.nprocs)
        except ValueError as wrong:  # options that do not fit together
            raise LaunchError(str(wrong)) from None
        self.checkpoints = asked.checkpoint or asked.resume or os.path.join(folder, "checkpoints")
        with _writing("--checkpoint" if asked.checkpoint else "--resume", self.checkpoints):
            os.makedirs(self.checkpoints, exist_ok=True)
            tempfile.TemporaryFile(dir=self.checkpoints).close()
        if asked.resume is None and (last := last_of(Path(self.checkpoints), self.identity())) is not None:
            folder = self.checkpoints
            raise LaunchError(
                f"--checkpoint {folder}: checkpoints of this very job are there already, the last is {last}; "
                f"go on from it with --resume {folder}, or name another folder"
            )
        with _writing("--events", asked.events):
            self.log = EventLog(None if asked.events is None else Path(asked.events))
        self.view: LiveView | None = None
        if asked.progress:
            from bsp.faults.view import LiveView  # rich takes a while

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

    def identity(self) -> dict[str, Any]:
        """What must be equal for a checkpoint to be this job's."""
        program = self.launch.program
        path = program[0]
        digest = ""
        if path != "-m" and os.path.isfile(path):
            with open(path, "rb") as file:
                digest = hashlib.sha256(file.read()).hexdigest()
        machine = json.dumps(self.launch.machine, sort_keys=True, default=str)
        return {
            "program": [os.path.basename(path), *program[1:]],
            "script": digest,
            "nprocs": self.launch.nprocs,
            "elements": self.launch.elements,
            "seed": self.launch.seed,
            "machine": hashlib.sha256(machine.encode()).hexdigest()[:16],
        }

    def latest(self) -> Checkpoint | None:
        """The last checkpoint that can be used."""
        try:
            return latest(
                Path(self.checkpoints), self.identity(), lambda text: self.say(f"checkpoint: {text}"), difference
            )
        except ValueError as wrong:
            if self.asked.resume is not None and self.incarnation == 0:
                raise LaunchError(f"--resume {self.asked.resume}: {wrong}") from None
            return None

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
