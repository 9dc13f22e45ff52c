"""What cloned execution costs, and what faults cost with it; rows of the README's table.

Progress is what a reader of bsprun's output sees: the time between two rounds' lines.  Faults are
`--inject`ed, so each run hits the same superstep.
"""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from bsp.faults.messages import Limits
from bsp.faults.models import expected_maximum
from bsp.faults.schedules import Schedule
from bsp.faults.simulated_program import Script
from bsp.faults.simulation import Simulation

HERE = Path(__file__).parent
BSPRUN = Path(sys.executable).with_name("bsprun")
Row = tuple[str, str, str, str, bool]


class Run(NamedTuple):
    """One job: when each line came, what came, how it ended, its events."""

    times: list[float]
    text: list[str]
    status: int
    events: list[dict[str, object]]

    def gaps(self, warm: int = 10) -> list[float]:
        """Seconds between the lines of consecutive rounds."""
        return [b - a for a, b in zip(self.times[warm:], self.times[warm + 1 :], strict=False)]


def run(options: str, rounds: int, seconds: float, how: str, words: int = 10, p: int = 2) -> Run:
    """A job of nonstop_rounds.py."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "events.jsonl"
        nonstop = ["--events", str(log)] if "--clones" in options else []
        job = subprocess.Popen(
            [str(BSPRUN), "-p", str(p), "-n", str(p), *options.split(), *nonstop, str(HERE / "nonstop_rounds.py"),
             str(rounds), str(seconds), how, str(words)],
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert job.stdout is not None
        times, text = [], []
        for line in job.stdout:
            times.append(time.perf_counter())
            text.append(line)
        status = job.wait()
        events = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return Run(times, text, status, events)


def fault(what: str, p: int = 2, more: str = "", clones: int = 2) -> tuple[float, Run]:
    """The longest stall beside that of an undisturbed run's median round, in rounds of 50 ms that sleep."""
    done = run(f"--clones {clones} {more} --inject {what}", 60, 0.05, "sleep", p=p)
    assert done.status == 0 and len(done.text) == 60, (what, done.status, len(done.text))
    return max(done.gaps(5)), done


def between(events: list[dict[str, object]], first: str, then: str) -> float:
    """Seconds from the first event of one kind to the first of another behind it."""
    began = next(float(str(e["time"])) for e in events if e["kind"] == first)
    return next(float(str(e["time"])) for e in events if e["kind"] == then and float(str(e["time"])) >= began) - began


def tails() -> tuple[float, float, float]:
    """Mean round of HC = 2 over none, p = 8, Pareto tails of D = 2: measured, simulated, as the model has it."""
    means = []
    for clones in (1, 2):
        done = run(f"--clones {clones} --inject tails:D=2,seed=1,unit=0.02", 150, 0.0, "sleep", p=8)
        means.append(statistics.fmean(done.gaps()))
    simulated = statistics.median(simulated_rounds(2, seed) / simulated_rounds(1, seed) for seed in range(20))
    model = expected_maximum(8, 4.0) / expected_maximum(8, 2.0)
    return means[1] / means[0], simulated, model


def simulated_rounds(clones: int, seed: int) -> float:
    """Virtual seconds of the same job in the simulator, which drives the same protocol."""
    script = Script(8, 0, ((150, 1),), 0, text=0)
    schedule = Schedule(seed, script, 8 * clones, 0, 1, Limits(), step=0.02, tail=2.0)
    simulation = Simulation(schedule)
    simulation.run(600.0)
    assert not simulation.wrong, simulation.wrong
    return next(when for when, kind, _ in simulation.notes if kind == "outcome")


def lost_to_kills(kills: int = 4) -> tuple[float, float]:
    """Seconds that a job of 6 s loses to a kill every 1.2 s: nonstop, and by checkpoint and restart of it all."""
    nonstop = ["--clones", "2", "--standby", str(kills)]
    ours = took(nonstop, False, kills) - took(nonstop, False, 0)
    return ours, took([], True, kills) - took([], True, 0)


def took(options: list[str], restart: bool, kills: int) -> float:
    """How long the job takes with so many kills; with `restart` each ends it, and a script begins it anew."""
    program = [str(HERE / "nonstop_rounds.py"), "120", "0.05", "sleep"]
    rng, left = random.Random(5), kills
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        while True:
            saved = ["--resume" if list(Path(folder).glob("*/manifest.json")) else "--checkpoint", folder]
            more = [*saved, "--every", "5"] if restart else []
            job = subprocess.Popen(
                [str(BSPRUN), "-p", "2", "-n", "2", *options, *more, *program], stdout=subprocess.PIPE
            )
            assert job.stdout is not None
            hit_at, killed = time.perf_counter() + 1.2, False
            for _ in job.stdout:
                if left and time.perf_counter() >= hit_at:
                    left, hit_at = left - 1, time.perf_counter() + 1.2
                    if restart:
                        killed = True
                        for process in _family(job.pid):
                            process.kill()
                        break
                    rng.choice(sorted(_agents(job.pid), key=lambda process: process.pid)).kill()
            job.stdout.close()
            job.wait()
            if not killed:
                return time.perf_counter() - began


def _family(pid: int) -> list[psutil.Process]:
    process = psutil.Process(pid)
    return [process, *process.children(recursive=True)]


def _agents(pid: int) -> Iterator[psutil.Process]:
    """The agents of a job: children of its launcher."""
    for launcher in psutil.Process(pid).children():
        yield from launcher.children()


def rows() -> Iterator[Row]:
    """One by one."""
    pairs = [
        (statistics.median(run("", 150, 0.005, "busy").gaps()),
         statistics.median(run("--clones 1", 150, 0.005, "busy").gaps()))
        for _ in range(5)
    ]  # fmt: skip
    ratio = statistics.median(b / a for a, b in pairs)
    yield "nonstop engine, HC = 1, 5 ms supersteps", "the plain engine", "1.10×", f"{ratio:.3f}×", ratio < 1.10
    pairs = [
        (statistics.median(run("--clones 1", 100, 0.01, "sleep").gaps()),
         statistics.median(run("--clones 2", 100, 0.01, "sleep").gaps()))
        for _ in range(5)
    ]  # fmt: skip
    ratio = statistics.median(b / a for a, b in pairs)
    yield "HC = 2 on twice the elements, rounds that sleep 10 ms", "HC = 1", "1.10×", f"{ratio:.3f}×", ratio < 1.10

    usual = statistics.median(run("--clones 2", 60, 0.05, "sleep", p=4).gaps())
    stalls = [fault(f"kill:element={e},superstep={20 + e}", 4, "--standby 2")[0] for e in range(8)]
    worst = max(stalls) - usual
    yield ("SIGKILL of any agent: longest stall beyond a round; rounds lost", "", "100 ms; 0",
           f"{worst * 1e3:.0f} ms; 0", worst <= 0.1)  # fmt: skip
    back = [between(fault(f"kill:worker={e},superstep=20", 4)[1].events, "injected", "relaunched") for e in range(3)]
    stall, done = fault("kill:worker=1,superstep=20", 4)
    yield (
        "SIGKILL of a worker, HC = 2: its successor is started within",
        "",
        "2 s",
        f"{max(back):.3f} s",
        max(back) <= 2,
    )
    stall, done = fault("kill:worker=1,superstep=20", 4, clones=1)
    beyond = stall - usual
    yield "SIGKILL of a worker, HC = 1: stall beyond a round", "", "0.3 s", f"{beyond:.3f} s", beyond <= usual + 0.3
    stall, done = fault("stop:element=1,superstep=20", 4, "--standby 2 --hang-limit 1")
    beyond = stall - usual
    fenced = between(done.events, "injected", "fenced")
    yield ("SIGSTOP of an agent: longest stall beyond a round; fenced after (hang limit 1 s)", "", "100 ms",
           f"{beyond * 1e3:.0f} ms; {fenced:.2f} s", beyond <= 0.1)  # fmt: skip
    stall, done = fault("kill:element=1,superstep=20", 4)
    beyond = stall - usual
    yield "planned refresh, the pool is empty: pause; rounds lost", "", "6 s; 0", f"{beyond:.2f} s; 0", beyond < 6
    measured, simulated, model = tails()
    yield ("Pareto tails D = 2, p = 8: mean round, HC = 2", "none", "0.62×",
           f"{measured:.2f}× (simulated: {simulated:.2f}×; the model without waiting: {model:.2f}×)",
           measured <= 0.62 and abs(measured / simulated - 1) <= 0.2)  # fmt: skip
    ours, theirs = lost_to_kills()
    yield ("time lost to 4 kills in a job of 6 s", "checkpoint and restart of the job", "0.2×",
           f"{ours / theirs:.2f}× ({ours:.1f} s against {theirs:.1f} s)", ours * 5 <= theirs)  # fmt: skip


if __name__ == "__main__":
    os.environ.setdefault("BSP_MACHINES", "/nonexistent")
    for row in rows():
        print("| " + " | ".join(map(str, row)) + " |", flush=True)
