"""What cloned execution costs, and what faults cost with it; rows of docs/benchmarks.md.

Progress is what a reader of bsprun's output sees: the time between two rounds' lines.  Faults are
`--inject`ed, so each run hits the same superstep at its end, or struck from outside in the middle of a round.
Rounds lost are those that the event log's `ended` counts; of every run that is struck each line must come
once, in order, with the text of the undisturbed run.
"""

from __future__ import annotations

import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from bsp.faults.advise.models import expected_maximum
from bsp.faults.events.log import read
from bsp.faults.protocol.messages import Limits
from bsp.faults.simulate.program import SimulatedProgram
from bsp.faults.simulate.schedules import SimulatedRun
from bsp.faults.simulate.simulation import Simulation

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

    def lost(self) -> int:
        """Rounds that all clones of a bundle have computed again."""
        return next(int(str(e["rounds_lost"])) for e in self.events if e["kind"] == "ended")

    def count(self, kind: str) -> int:
        """Events of a kind."""
        return sum(e["kind"] == kind for e in self.events)


class Hit(NamedTuple):
    """SIGKILL from outside to an element, so many seconds after a round's line."""

    element: int
    round: int
    seconds: float


def run(
    options: str, rounds: int, seconds: float, how: str, words: int = 10, p: int = 2, hit: Hit | None = None
) -> Run:
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
            if hit is not None and len(text) == hit.round:
                started = next(e for e in read(log) if e["kind"] == "started")
                threading.Timer(hit.seconds, os.kill, (started["agents"][str(hit.element)], signal.SIGKILL)).start()
        status = job.wait()
        events: list[dict[str, object]] = list(read(log)) if log.exists() else []
    return Run(times, text, status, events)


ROUNDS = 60, 0.05  # how many, and the seconds that each one sleeps, of a job that is struck


def fault(what: str, quiet: Run, more: str = "", clones: int = 2, hit: Hit | None = None) -> tuple[float, Run]:
    """The longest stall beyond a round of the undisturbed run, whose text this one must have."""
    done = run(f"--clones {clones} {more} --inject {what}", *ROUNDS, "sleep", p=4, hit=hit)
    assert done.status == 0, (what, done.status)
    assert done.text == quiet.text, f"{what}: other lines than those of the undisturbed run"
    assert done.count("injected") == what.count(":"), done.events
    return max(done.gaps(5)) - statistics.median(quiet.gaps()), done


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
    script = SimulatedProgram(8, 0, ((150, 1),), 0, text=0)
    schedule = SimulatedRun(seed, script, 8 * clones, 0, 1, Limits(), step=0.02, tail=2.0)
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
    """The agents of a job: forked by the fork server of its keeper."""
    for keeper in psutil.Process(pid).children():
        for server in keeper.children():
            yield from server.children()


def struck(quiet: Run) -> Iterator[Row]:
    """Real faults in a job of four processes."""
    usual, rng = statistics.median(quiet.gaps()), random.Random(7)
    runs = [
        fault(f"kill:element={e},superstep={8 + 3 * e}", quiet, "--standby 2",
              hit=Hit((e + 3) % 8, 45, rng.random() * ROUNDS[1]))
        for e in range(8)
    ]  # fmt: skip
    assert all(done.count("died") == done.count("promoted") == 2 for _, done in runs)
    worst, lost = max(stall for stall, _ in runs), sum(done.lost() for _, done in runs)
    yield ("SIGKILL of each agent, at a step's end and in the middle of one (16 hits): longest stall beyond a round; "
           "rounds lost", "", "100 ms; 0", f"{worst * 1e3:.0f} ms; {lost}", worst <= 0.1 and lost == 0)  # fmt: skip

    hits = ("kill:worker=0,superstep=20", "kill:worker=5,superstep=33", "raise:worker=2,superstep=27")
    runs = [fault(what, quiet, "--standby 1") for what in hits]
    assert not any(done.count("promoted") for _, done in runs)  # the pool is untouched
    back, lost = max(between(done.events, "injected", "caught_up") for _, done in runs), sum(d.lost() for _, d in runs)
    yield ("SIGKILL or exception of a worker, HC = 2: its successor has caught up after; rounds lost", "", "2 s; 0",
           f"{back:.3f} s; {lost}", back <= 2 and lost == 0)  # fmt: skip

    beyond, done = fault("kill:worker=1,superstep=20", quiet, clones=1)
    yield ("SIGKILL of a worker, HC = 1, the same bytes: stall beyond a round; rounds begun again", "",
           "a round + 0.3 s; 1", f"{beyond:.3f} s; {done.lost()}",
           beyond <= usual + 0.3 and done.lost() <= 1)  # fmt: skip

    beyond, done = fault("stop:element=1,superstep=20", quiet, "--standby 2 --hang-limit 1")
    fenced, lost = between(done.events, "injected", "fenced"), done.lost()
    yield ("SIGSTOP of an agent: longest stall beyond a round; rounds lost; fenced after (hang limit 1 s)", "",
           "100 ms; 0", f"{beyond * 1e3:.0f} ms; {lost}; {fenced:.2f} s", beyond <= 0.1 and lost == 0)  # fmt: skip

    runs = [fault("kill:element=1,superstep=20", quiet) for _ in range(3)]
    assert all(done.count("appeared") == 1 for _, done in runs)
    beyond, lost = max(stall for stall, _ in runs), sum(done.lost() for _, done in runs)
    back = max(between(done.events, "died", "restored") for _, done in runs)
    yield ("SIGKILL of an agent, nobody stands by: longest stall beyond a round of three; rounds lost; two clones "
           "again after", "", "100 ms; 0; 3 s", f"{beyond * 1e3:.0f} ms; {lost}; {back:.2f} s",
           beyond <= 0.1 and lost == 0 and back <= 3)  # fmt: skip


def against_the_plain_engine(clones: int, rounds: int, seconds: float, words: int = 10, times: int = 5) -> float:
    """A round of a job whose processes compute for so long and put so many words each, over the plain engine's."""
    ratios = []
    for _ in range(times):
        plain, nonstop = (run(options, rounds, seconds, "busy", words) for options in ("", f"--clones {clones}"))
        ratios.append(statistics.median(nonstop.gaps()) / statistics.median(plain.gaps()))
    return statistics.median(ratios)


def with_a_state(megabytes: int, rounds: int = 400) -> float:
    """A round of 50 ms with so much in bsp.State, HC = 1, over the plain engine's, on the mean of the run."""
    took = []
    for options in ("", "--clones 1"):
        command = [str(BSPRUN), "-p", "2", "-n", "2", *options.split(), str(HERE / "nonstop_state.py")]
        with subprocess.Popen([*command, str(rounds), "0.05", str(megabytes)], stdout=subprocess.PIPE) as job:
            assert job.stdout is not None
            times = [time.perf_counter() for _ in job.stdout]
        took.append(times[-1] - times[0])
    return took[1] / took[0]


def rows() -> Iterator[Row]:
    """One by one."""
    for clones, rounds, seconds, words, what, target in [
        (1, 150, 0.005, 10, "5 ms supersteps", 1.05), (1, 400, 0.001, 10, "1 ms supersteps", 1.3),
        (1, 60, 0.005, 1 << 21, "5 ms supersteps with 16 MiB put", 1.5),
        (2, 60, 0.005, 1 << 21, "5 ms supersteps with 16 MiB put, on half the cores that it would have", 2.5),
    ]:  # fmt: skip
        ratio = against_the_plain_engine(clones, rounds, seconds, words, 5 if words == 10 else 3)
        name = f"nonstop engine, HC = {clones}, {what}"
        yield name, "the plain engine", f"{target:.2f}×", f"{ratio:.2f}×", ratio <= target
    for megabytes in (10, 50, 500):
        ratio = with_a_state(megabytes)
        yield (f"nonstop engine, HC = 1, {megabytes} MB in `bsp.State`, rounds of 50 ms", "the plain engine", "1.05×",
               f"{ratio:.3f}×", ratio <= 1.05)  # fmt: skip
    pairs = [
        (statistics.median(run("--clones 1", 100, 0.01, "sleep").gaps()),
         statistics.median(run("--clones 2", 100, 0.01, "sleep").gaps()))
        for _ in range(5)
    ]  # fmt: skip
    ratio = statistics.median(b / a for a, b in pairs)
    yield "HC = 2 on twice the elements, rounds that sleep 10 ms", "HC = 1", "1.10×", f"{ratio:.3f}×", ratio < 1.10

    quiet = run("--clones 2", *ROUNDS, "sleep", p=4)
    assert quiet.status == 0 and [line.split()[0] for line in quiet.text] == [str(k) for k in range(ROUNDS[0])]
    yield from struck(quiet)
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
