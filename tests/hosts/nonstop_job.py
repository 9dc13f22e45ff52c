"""A nonstop job on test hosts, and what a test sees of it: its text as it comes, its events, its end."""

from __future__ import annotations

import contextlib
import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
from hosts.cluster import Cluster, Host

from bsp.faults.events.log import read

PROGRAMS = Path(__file__).parents[1] / "faults" / "programs"
RING, STEPS = str(PROGRAMS / "ring.py"), str(PROGRAMS / "steps.py")
ROUNDS = ("60", "0.05", "4")  # arguments of RING
HALF = "h1:3,h2:3,h3:2,h4:3"  # for 8 elements, with room for those of a host that is lost


def plain(host: Host, *program: str) -> str:
    """Return what the plain engine prints on one host, with 8 processes."""
    done = host.run(["bsprun", "-p", "8", "-n", "1", *program])
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


class Job:
    """A job on the hosts, started on h1."""

    def __init__(
        self, four: Cluster, *options: str, rounds: tuple[str, ...] = ROUNDS, out: Path | None = None,
        program: str = RING, strikes: bool = False, effects: Path | None = None,
    ) -> None:  # fmt: skip
        """Start it.

        rounds : the program's arguments.  out : a file for its text, if it is not to be read here.
        strikes : whether the program waits at its place (steps.py, ring.py: the last round) until `let_go`.
        effects : see steps.py.
        """
        self.four, self.log = four, four.share / "events.jsonl"
        self.log.unlink(missing_ok=True)
        words = ["bsprun", "-p", "8", *options, "--events", str(self.log), program, *rounds]
        self.errors = four.share / "errors"
        self.out = out
        self._striking, self._reached = four.share / "striking", four.share / "reached"
        self._reached.mkdir(exist_ok=True)
        for mark in self._reached.iterdir():
            mark.unlink()
        environment = four.environment() | {"STRIKING": str(self._striking), "REACHED": str(self._reached)}
        if effects is not None:
            environment["EFFECTS"] = str(effects)
        self._striking.unlink(missing_ok=True)
        if strikes:
            self._striking.touch()
        with self.errors.open("w") as errors, contextlib.ExitStack() as stack:
            where = subprocess.PIPE if out is None else stack.enter_context(out.open("w"))
            self.process = four["h1"].popen(words, stdout=where, stderr=errors, text=True, env=environment)
        self.said = ""

    @property
    def bsprun(self) -> psutil.Process:
        """Its bsprun."""
        (found,) = [p for p in psutil.Process(self.process.pid).children() if "bsprun" in " ".join(p.cmdline())]
        return found

    @property
    def name(self) -> str:
        """Its name, as `bsp jobs` shows it on h1."""
        return str(self.four["h1"].run(["bsp", "jobs"]).stdout.split()[0])

    def reached(self, host: str = "", count: int = 1) -> None:
        """Wait until so many clones, of a host if one is named, have reached the place at which they wait."""
        self.until(lambda: sum(mark.name.endswith(host) for mark in self._reached.iterdir()) >= count)

    def let_go(self) -> None:
        """Have the clones go on that wait."""
        self._striking.unlink()

    def round(self, number: int) -> None:
        """Wait until process 0 has said that it was in a round."""
        while self.out is not None and f"round {number} " not in self.out.read_text():
            assert self.process.poll() is None, self.story()
            time.sleep(0.02)
        if self.out is not None:
            return
        assert self.process.stdout is not None
        while f"round {number} " not in self.said:
            line = self.process.stdout.readline()
            assert line, self.story()
            self.said += line

    def until(self, holds: Callable[[], bool], seconds: float = 120.0) -> None:
        """Wait until something is so, while the job runs."""
        deadline = time.monotonic() + seconds
        while not holds():
            over = self.process.poll() is not None or time.monotonic() > deadline
            assert not over, self.story() + self.errors.read_text()
            time.sleep(0.05)

    def hosts(self, name: str) -> list[dict[str, Any]]:
        """What `bsp status` says of the hosts."""
        return list(json.loads(self.four["h1"].run(["bsp", "status", name, "--json"]).stdout)["hosts"])

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events so far of a kind."""
        return [event for event in read(self.log) if event["kind"] == kind] if self.log.exists() else []

    def end(self) -> tuple[int, str, str]:
        """Status, standard output and standard error."""
        assert self.process.stdout is not None
        with self.process.stdout as rest:
            self.said += rest.read()
        return self.process.wait(), self.said, self.errors.read_text()

    def story(self) -> str:
        """Its events, for a failure's message."""
        return "\n".join(json.dumps(event) for event in read(self.log)) if self.log.exists() else ""
