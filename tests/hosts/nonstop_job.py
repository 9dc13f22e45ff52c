"""A nonstop job on test hosts, and what a test sees of it: its text as it comes, its events, its end."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
from hosts.cluster import Cluster, Host

from bsp.faults.events.log import read

PROGRAMS = Path(__file__).parents[1] / "faults" / "programs"
RING, STEPS = str(PROGRAMS / "ring.py"), str(PROGRAMS / "steps.py")
HELD_AGENTS = PROGRAMS / "held_agents"
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
        program: str = RING, places: Sequence[str] = (), effects: Path | None = None,
        agents_held_on: str = "",
    ) -> None:  # fmt: skip
        """Start it.

        rounds : the program's arguments.  out : a file for its text, if it is not to be read here.
        places : where the program waits until `let_go` (steps.py; "": in the last round of ring.py).
        effects : see steps.py.  agents_held_on : a host on which agents come no further than their first line.
        """
        self.four, self.log = four, four.share / "events.jsonl"
        self.log.unlink(missing_ok=True)
        words = ["bsprun", "-p", "8", *options, "--events", str(self.log), program, *rounds]
        self.errors = four.share / "errors"
        self.out = out
        self._marks = four.share / "marks"
        shutil.rmtree(self._marks, ignore_errors=True)
        self._marks.mkdir()
        environment = four.environment() | {"STRIKING": f"{self._marks}/striking ", "REACHED": str(self._marks)}
        if effects is not None:
            environment["EFFECTS"] = str(effects)
        if agents_held_on:
            held, forked = (str(self._marks / word) for word in ("striking agents", "agents"))
            environment |= {"HELD_ON": agents_held_on, "HELD": held, "FORKED": forked, "PYTHONPATH": str(HELD_AGENTS)}
        for place in [*places, *(["agents"] if agents_held_on else [])]:
            (self._marks / f"striking {place}").touch()
        with self.errors.open("w") as errors, contextlib.ExitStack() as stack:
            where = subprocess.PIPE if out is None else stack.enter_context(out.open("w"))
            self.process = four["h1"].popen(words, stdout=where, stderr=errors, text=True, env=environment)
        self.said = ""

    @property
    def bsprun(self) -> psutil.Process:
        """Return the process of the job's bsprun."""
        (found,) = [p for p in psutil.Process(self.process.pid).children() if "bsprun" in " ".join(p.cmdline())]
        return found

    @property
    def name(self) -> str:
        """Return the job's name, as `bsp jobs` shows it on h1."""
        return str(self.four["h1"].run(["bsp", "jobs"]).stdout.split()[0])

    @property
    def key(self) -> str:
        """Return the job's key."""
        (file,) = self.four.share.glob(f"state/nonstop-bsp/jobs/{self.name}.json")
        return str(json.loads(file.read_text())["secret"])

    def join(self, host: Host) -> subprocess.Popen[str]:
        """Have a host join by hand, with two slots; the key comes in its environment."""
        self.until(lambda: " listens at " in self.errors.read_text())
        address = self.errors.read_text().split(" listens at ")[1].split()[0]
        words = ["sh", "-c", f"BSP_JOB_KEY=$(cat) exec bsp join {address} --slots 2"]
        joiner = host.popen(words, stdin=subprocess.PIPE, text=True)
        joiner.stdin.write(self.key)
        joiner.stdin.close()
        return joiner

    def reached(self, place: str, count: int = 1) -> None:
        """Wait until so many clones have reached a place at which they wait."""
        self.until(lambda: len(list(self._marks.glob(f"{place}, process *"))) >= count)

    def agents_are_held(self) -> None:
        """Wait until an agent is held."""
        self.until((self._marks / "agents").exists)

    def let_go(self, place: str) -> None:
        """Have the clones go on that wait there."""
        (self._marks / f"striking {place}").unlink()

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
            time.sleep(0.01)

    def hosts(self) -> list[dict[str, Any]]:
        """Return the hosts as `bsp status` lists them."""
        done = self.four["h1"].run(["bsp", "status", self.name, "--json"])
        assert done.returncode == 0, done.stderr + self.story()
        return list(json.loads(done.stdout)["hosts"])

    def events(self, kind: str) -> list[dict[str, Any]]:
        """The events so far of a kind."""
        return [event for event in read(self.log) if event["kind"] == kind] if self.log.exists() else []

    def end(self, seconds: float = 300.0) -> tuple[int, str, str]:
        """Status, standard output and standard error; AssertionError if it does not end."""
        reader = threading.Thread(target=self._read_on, daemon=True)
        reader.start()
        reader.join(seconds)
        assert not reader.is_alive(), f"it does not end\n{self.story()}\n{self.errors.read_text()}"
        return self.process.wait(), self.said, self.errors.read_text()

    def _read_on(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as rest:
            self.said += rest.read()

    def story(self) -> str:
        """Return the job's events as text, for the message of a failure."""
        return "\n".join(json.dumps(event) for event in read(self.log)) if self.log.exists() else ""
