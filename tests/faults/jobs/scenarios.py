"""The 31 scenarios of the fault-tolerance study (its section 5): what strikes, and what must be seen.

A scenario is data: a script, bsprun's options, faults for `--inject`, signals from outside, and the
events and status that must follow.  `run(scenario, seed, folder)` plays it on real processes with
`bsprun -p 4 -n 4 --clones 2 --standby 2` (10 ranks), and holds it against the invariants:

I1  standard output is the plain engine's, byte for byte (of a job that is lost: a beginning of it)
I2  within a budget of wall time
I3  status 0 if and only if I1; otherwise a named error
I4  soon after its end no process of the job is left
I5  each fault is in the event log once, and so is what was done about it
I6  each message is delivered once per superstep: checked by the simulator at every delivery

What real processes cannot be made to show at will is played by the simulator, on the very objects of
the protocol: `Simulated`.  A seed gives the superstep and the element of each fault; real signals are
sent when the text or the event log says that the job has come to a place, never after a time.

Where the study and DESIGN section 7 differ DESIGN holds: a slow element is not retired but jumps (12,
N6); all clones late lift the limit (13, N5); a bit flip stops two clones by name and outvotes one of
three (23, N11), one of a state within a round (24); bsprun is the arbiter (6, 20, 28: no leader, no
Shrink); an agent is started in place of each lost one (21).
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil

from bsp.faults.advise import models
from bsp.faults.events.log import read
from bsp.faults.injection import Fault, parse
from bsp.faults.protocol.messages import Corrupt, Fence, Finished, Limits, Lost
from bsp.faults.simulate.program import SimulatedProgram
from bsp.faults.simulate.schedules import SimulatedRun, drawn
from bsp.faults.simulate.simulation import Simulation

PROGRAMS = Path(__file__).parents[1] / "programs"
BSPRUN = os.path.join(os.path.dirname(sys.executable), "bsprun")
HANG = 5.0  # --hang-limit: seconds of silence that no busy machine makes; where something hangs on purpose
SHORT = 1.5  # it is this
GONE = 60.0  # I4: at most, on a busy machine
_numbers = itertools.count()

RING = ("ring.py", "50", "0.01", "4")
STEADY = ("ring.py", "200", "0.01", "4")
LONGER = ("ring.py", "300", "0.02", "4")  # six: SHORT, and seconds for which bsprun may be late on a busy machine
LONG = ("ring.py", "125", "0.02", "4")  # two seconds at least: time enough for SHORT behind the first rounds
SLOW = ("ring.py", "60", "0.05", "4")  # states cost little beside a round, and nobody jumps over one
ENDLESS = ("ring.py", "5000", "0.01", "4")  # not over before elements that hear nothing end themselves
BULK = ("ring.py", "40", "0.002", "200000")  # 1.6 MB a put


# ------------------------------------------------------------------------------------ the job


@dataclass(frozen=True)
class Hit:
    """A fault that this file, not bsprun, has made."""

    element: int
    worker: bool
    number: int


class Job:
    """One bsprun, its processes and its event log."""

    def __init__(
        self,
        folder: Path,
        options: Sequence[str],
        program: Sequence[str],
        environment: Mapping[str, str],
        token: str = "",
        strikes: bool = False,
    ) -> None:
        """`strikes`: the job stays in its last round (ring.py) until `let_end`."""
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.began = time.monotonic()
        self.token = token or f"job-{os.getpid()}-{next(_numbers)}"  # in the arguments of each of its processes
        self.out, self.err, self.log = (folder / name for name in ("out", "err", "events.jsonl"))
        script = str(PROGRAMS / program[0]) if not os.path.isabs(program[0]) else program[0]
        words = [BSPRUN, *options, "--events", str(self.log), script, *program[1:], self.token]
        self._striking = folder / "striking"
        if strikes:
            self._striking.touch()
        with self.out.open("wb") as out, self.err.open("wb") as err:
            self.bsprun = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True,
                env=os.environ | dict(environment) | {"STRIKING": str(self._striking)},
            )  # fmt: skip
        self.hits: list[Hit] = []
        self._agents: dict[int, tuple[int, psutil.Process]] = {}

    # ---------------------------------------------------------------------------- looking

    def events(self, kind: str = "", **fields: Any) -> list[dict[str, Any]]:
        """The events so far of a kind that have these fields."""
        known = read(self.log) if self.log.exists() else []
        return [e for e in known if e["kind"] == (kind or e["kind"]) and fields.items() <= e.items()]

    def until(self, holds: Callable[[], Any], what: str, seconds: float = 300.0) -> Any:
        """Poll until something is true; AssertionError after so many seconds, or when the job has ended without."""
        deadline = time.monotonic() + seconds
        while True:
            over = self.bsprun.poll() is not None or time.monotonic() > deadline
            if found := holds():
                return found
            assert not over, f"{what}: not seen in {time.monotonic() - self.began:.1f} s\n{self.story()}"
            time.sleep(0.003)

    def event(self, kind: str, count: int = 1, **fields: Any) -> dict[str, Any]:
        """Wait for the count-th event of a kind."""
        found = self.until(lambda: self.events(kind, **fields)[count - 1 :], f"event {count} {kind} {fields}")
        return dict(found[0])

    def round(self, k: int) -> None:
        """Wait until process 0 has said that it was in round k."""
        self.until(lambda: b"round %d " % k in self.out.read_bytes(), f"round {k}")

    def said(self) -> int:
        """Rounds that process 0 has said."""
        return self.out.read_bytes().count(b"\nround ")

    def agents(self) -> dict[int, psutil.Process]:
        """The agents of the last incarnation, by element; those that were started later included."""
        known = self.events()
        assert any(event["kind"] == "started" for event in known), "the elements have not started"
        last = max(k for k, event in enumerate(known) if event["kind"] == "started")
        pids = {int(element): pid for element, pid in known[last]["agents"].items()}
        pids |= {event["element"]: event["pid"] for event in known[last:] if event["kind"] == "appeared"}
        for element, pid in pids.items():
            if self._agents.get(element, (0, None))[0] != pid:  # looked up once: pids are reused
                with contextlib.suppress(psutil.NoSuchProcess):
                    self._agents[element] = pid, psutil.Process(pid)
        return {element: process for element, (pid, process) in self._agents.items() if pids.get(element) == pid}

    def workers(self, element: int) -> list[psutil.Process]:
        """agent -> fork server -> workers."""
        with contextlib.suppress(psutil.Error):
            return [w for server in self.agents()[element].children() for w in server.children()]
        return []

    def left(self) -> list[str]:
        """Processes of this job that still run, bsprun apart."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.pid == self.bsprun.pid or self.token not in process.cmdline():
                    continue
                if _runs(process):
                    found.append(f"{process.pid} {process.status()} {' '.join(process.cmdline())[:40]}")
        return found

    def story(self) -> str:
        """What is known of it, for a failure's message."""
        told = "\n".join(json.dumps(event) for event in self.events())
        return f"{self.folder}\n{told}\n{self.err.read_text(errors='replace')[-3000:]}"

    # ---------------------------------------------------------------------------- striking

    def let_end(self) -> None:
        """Whatever is to strike has struck; the deaths of agents are known, so that they are not the end's."""
        killed = {hit.element for hit in self.hits if hit.number == signal.SIGKILL and not hit.worker}
        while self.bsprun.poll() is None and not killed <= {event["element"] for event in self.events("died")}:
            time.sleep(0.003)
        self._striking.unlink(missing_ok=True)

    def strike(self, element: int, number: int = signal.SIGKILL, worker: bool = False) -> None:
        """A real signal to an agent or to its worker."""
        if worker:
            (process,) = self.until(lambda: self.workers(element), f"the worker of element {element}")
        else:
            process = self.agents()[element]
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)
        self.hits.append(Hit(element, worker, number))

    def stop(self) -> None:
        """Nothing of it may trouble the next one."""
        if self.bsprun.poll() is None:
            self.bsprun.send_signal(signal.SIGCONT)
            self.bsprun.kill()
            self.bsprun.wait()
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if self.token in process.cmdline():
                    process.kill()


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class References:
    """What the plain engine prints for a script; computed once per script and arguments, and ring.py without naps."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[int, bytes, str]] = {}
        self._lock = threading.Lock()

    def __call__(self, program: Sequence[str]) -> tuple[int, bytes, str]:
        """(status, standard output, standard error)."""
        if program[0] == "ring.py":
            program = (*program[:2], "0", *program[3:])
        with self._lock:
            if tuple(program) not in self._known:
                script = str(PROGRAMS / program[0]) if not os.path.isabs(program[0]) else program[0]
                words = [BSPRUN, "-p", PROCESSES.get(os.path.basename(script), "4"), "-n", "4", script, *program[1:]]
                ran = subprocess.run(words, capture_output=True, timeout=600)
                assert ran.returncode in (0, 1) and ran.stdout, f"the plain engine: {ran.stderr.decode()}"
                self._known[tuple(program)] = ran.returncode, ran.stdout, ran.stderr.decode()
            return self._known[tuple(program)]


PROCESSES = {"nonstop_training.py": "64"}
reference = References()


# ---------------------------------------------------------------------------------- scenarios


@dataclass(frozen=True)
class Scenario:
    """One that real processes play."""

    number: int
    name: str
    expects: str
    program: tuple[str, ...] = RING
    options: tuple[str, ...] = ()
    clones: str = "2"
    standby: str = "2"
    inject: Callable[[random.Random], str] | None = None
    sabotage: Callable[[random.Random], str] | None = None
    act: Callable[[Job, random.Random], None] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    status: int = 0
    error: str = ""  # in standard error, when the status is not 0
    counts: Mapping[str, int] = field(default_factory=dict)  # events: exactly so many
    check: Callable[[Job], None] | None = None
    budget: float = 600.0  # I2: long, for a machine with other things to do
    hang: float = HANG
    same: bool = True  # I1 against the plain engine's output; else the program has no right output
    accounted: bool = True  # I5: every death in the log is one of ours
    often: bool = False  # `make test` plays it, too

    @property
    def key(self) -> str:
        """The name of its test."""
        return f"{self.number:02d} {self.name}"


@dataclass(frozen=True)
class Simulated:
    """One that the simulator plays: `play(seed, many)` returns what was wrong; `many` is the nightly size."""

    number: int
    name: str
    expects: str
    play: Callable[[int, bool], list[str]]

    @property
    def key(self) -> str:
        """The name of its test."""
        return f"{self.number:02d} {self.name} (simulated)"


def run(scenario: Scenario, seed: int, folder: Path) -> dict[str, Any]:
    """Play it once; AssertionError if anything is not as it must be.  What was measured, for the report."""
    rng = random.Random(f"scenario {scenario.key} {seed}")
    options = ["-p", "4", "-n", "4", "--hang-limit", f"{scenario.hang:g}", "--clones", scenario.clones]
    options += ["--standby", scenario.standby, *(word.format(folder=folder) for word in scenario.options)]
    injected: tuple[Fault, ...] = ()
    if scenario.inject is not None:
        text = scenario.inject(rng)
        injected = parse(text)
        options += ["--inject", text]
    environment = {name: value.format(folder=folder) for name, value in scenario.environment.items()}
    if "PYTHONPATH" in environment and "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] += os.pathsep + os.environ["PYTHONPATH"]
    if scenario.sabotage is not None:
        folder.mkdir(parents=True, exist_ok=True)
        environment |= {"SABOTAGE": scenario.sabotage(rng), "SABOTAGE_ONCE": str(folder)}
    job = Job(folder, options, scenario.program, environment, strikes=scenario.act is not None)
    try:
        if scenario.act is not None:
            scenario.act(job, rng)
            job.let_end()
        return judge(scenario, job, injected)
    finally:
        job.stop()


def judge(scenario: Scenario, job: Job, injected: Sequence[Fault]) -> dict[str, Any]:
    """The invariants, when the job has ended."""
    try:
        status = job.bsprun.wait(max(0.1, job.began + scenario.budget - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise AssertionError(f"I2: still running after {scenario.budget:g} s\n{job.story()}") from None
    seconds = time.monotonic() - job.began
    gone = time.monotonic() + GONE
    while left := job.left():
        assert time.monotonic() < gone, f"I4: {left}\n{job.story()}"
        time.sleep(0.02)
    out, err = job.out.read_bytes(), job.err.read_text(errors="replace")
    healed = [fault for fault in injected if fault.kind == "flip" and job.events("jumped", element=_target(fault))]
    if not (healed and status == 0):  # a clone that jumps leaves its own state, flipped or not
        assert status == scenario.status, f"I3: status {status}, not {scenario.status}\n{job.story()}"
    if scenario.same:
        known, expected, _ = reference(scenario.program)
        if status == known:
            assert out == expected, f"I1: {_difference(out, expected)}\n{job.story()}"
        else:
            beginning = expected.startswith(out) or out.startswith(_sure(expected, job))
            assert beginning, f"I1: no beginning of the text\n{job.story()}"
    # nobody can tell what is wrong where the other clone has jumped over what it would have said; those who read the
    # bytes then fall over them, time and again
    flips = any(fault.kind == "flip" for fault in injected)
    undecided = flips and scenario.error not in err and "BundleLost" in err and bool(job.events("jumped"))
    if status and not undecided:
        assert scenario.error in err, f"I3: {scenario.error!r} is not said\n{job.story()}"
    seen = Counter(event["kind"] for event in job.events())
    if not undecided and _account(scenario, job, injected) and status == scenario.status:
        for kind, count in scenario.counts.items():
            assert seen[kind] == count, f"I5: {seen[kind]} events {kind!r}, not {count}\n{job.story()}"
        if scenario.check is not None:
            scenario.check(job)
    return {"seconds": round(seconds, 2), "events": dict(seen)} | measured(job)


def _sure(expected: bytes, job: Job) -> bytes:
    """What is printed for certain: all, but what two clones that differ say from then on may be either's.

    A round prints once its superstep has brought the text of other processes; what they say behind it comes with the
    next.
    """
    differ = job.events("diverged")
    if not differ:
        return expected
    return expected.partition(b"round %d" % max(0, differ[0]["superstep"] - 1))[0]


def _difference(out: bytes, expected: bytes) -> str:
    a, b = out.splitlines(), expected.splitlines()
    at = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    return f"line {at + 1}: {a[at : at + 1]} instead of {b[at : at + 1]} ({len(a)} lines, {len(b)} expected)"


def _target(fault: Fault) -> int:
    """The element that a fault is for."""
    return int(fault.host or 0) if fault.process is None else fault.process + 4 * fault.clone


def _account(scenario: Scenario, job: Job, injected: Sequence[Fault]) -> bool:
    """I5: each fault once, each death one of ours, and what was done about it; whether all have struck."""
    logged = Counter(event["fault"] for event in job.events("injected"))
    wanted = Counter(str(fault) for fault in injected if fault.kind != "tails")
    missing = wanted - logged
    assert not logged - wanted, f"I5: {logged - wanted} too often\n{job.story()}"
    for fault in injected:
        if str(fault) in missing:  # its clone has jumped over that superstep, which the log must say
            assert job.events("jumped", element=_target(fault)), f"I5: {fault} is not in the log\n{job.story()}"
    if not scenario.accounted:
        return not missing
    ends = {
        signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP, signal.SIGSEGV, signal.SIGABRT, signal.SIGXCPU,
    }  # fmt: skip
    agents = Counter(hit.element for hit in job.hits if not hit.worker and hit.number in ends | {signal.SIGUSR1})
    workers = Counter(hit.element for hit in job.hits if hit.worker and hit.number in ends)
    for fault in injected:
        if str(fault) in missing:
            continue
        if fault.kind in ("kill", "signal", "stop") and fault.seconds is None:
            (agents if fault.element is not None else workers)[int(fault.host or 0)] += 1
        elif fault.kind in ("exit", "raise"):
            workers[int(fault.host or 0)] += 1
    for element in agents:
        agents[element] = min(agents[element], 1 + len(job.events("resumed")))  # stopped, then killed: one death
    died = Counter(event["element"] for event in job.events("died"))
    assert died == agents, f"I5: died {died}, struck {agents}\n{job.story()}"
    again = Counter(event["element"] for event in job.events("relaunched"))
    assert again == workers, f"I5: relaunched {again}, struck {workers}\n{job.story()}"
    for event in job.events("died"):
        answer = [e for e in job.events() if e["time"] >= event["time"] and _answers(e, event["element"])]
        assert answer, f"I5: nothing was done about the death of element {event['element']}\n{job.story()}"
    return not missing


def _answers(event: Mapping[str, Any], element: int) -> bool:
    """Replaced, or missed, or it was a standby itself (then nobody is missed), or the end."""
    return bool(event.get("instead_of") == element or event["kind"] in ("degraded", "lost", "ended"))


def measured(job: Job) -> dict[str, Any]:
    """Latencies between the log's events (recorded, never asserted)."""
    known = job.events()
    spans: dict[str, list[float]] = {"detected": [], "restored": []}
    for event in known:
        if event["kind"] == "injected":
            later = [e for e in known if e["time"] >= event["time"] and e["kind"] in ("died", "relaunched", "diverged")]
            spans["detected"] += [round(e["time"] - event["time"], 4) for e in later[:1]]
        elif event["kind"] == "promoted" and "instead_of" in event:
            later = [
                e for e in known
                if e["time"] >= event["time"] and e["kind"] == "restored" and e["element"] == event["element"]
            ]  # fmt: skip
            spans["restored"] += [round(e["time"] - event["time"], 4) for e in later[:1]]
    return {name: values for name, values in spans.items() if values}


# ------------------------------------------------------------------------------ what may strike


def place(rng: random.Random, first: int = 6, last: int = 34) -> int:
    """A superstep of RING."""
    return rng.randrange(first, last)


def element(rng: random.Random) -> int:
    """One of the eight that compute at first."""
    return rng.randrange(8)


def other(rng: random.Random, one: int) -> int:
    """An element with another bundle."""
    return rng.choice([e for e in range(8) if e % 4 != one % 4])


def _kill_both_kinds(rng: random.Random) -> str:
    one = element(rng)
    return f"kill:element={one},superstep={place(rng)}; kill:worker={other(rng, one)},superstep={place(rng)}"


def _kill_in_sends(job: Job, rng: random.Random) -> None:
    """Rounds of 1.6 MB puts with hardly anything else: wherever it strikes, something is half way."""
    job.event("started")
    job.agents()
    job.round(rng.randrange(2, 8))
    one = element(rng)
    job.strike(one, worker=True)
    job.event("relaunched", element=one)
    job.round(rng.randrange(9, 14))
    job.strike(other(rng, one))


def _setter(rng: random.Random) -> str:
    """All but element 2 take 200 ms; element 2 is killed after 150 by one of them."""
    k = place(rng)
    killer = rng.choice((1, 3, 5, 7))
    slow = "; ".join(f"slow@{e}:{k}" for e in range(8) if e not in (2, killer))
    return f"{slow}; behead@{killer}:{k}:2"


def _zeros(job: Job, rng: random.Random) -> None:
    """Rank 0, then the other clone of what it had."""
    job.round(rng.randrange(2, 15))
    job.strike(0)
    job.event("restored")
    job.round(20 + rng.randrange(5))
    job.strike(4)


_WAYS = (
    "exit:worker={},superstep={},status=0", "exit:worker={},superstep={},status=1",
    "exit:worker={},superstep={},status=137", "signal:worker={},superstep={},name=SIGTERM",
    "signal:worker={},superstep={},name=SIGSEGV", "signal:worker={},superstep={},name=SIGABRT",
    "raise:worker={},superstep={}", "kill:worker={},superstep={}",
)  # fmt: skip


def _all_ways(rng: random.Random) -> str:
    """Each element's worker in another way, spread over the run."""
    elements = rng.sample(range(8), 8)
    return "; ".join(
        way.format(e, 4 + 4 * i + rng.randrange(3)) for i, (way, e) in enumerate(zip(_WAYS, elements, strict=True))
    )


def _user_code(rng: random.Random) -> str:
    one = element(rng)
    return f"burn@{one}:20; leave@{other(rng, one)}:60:5"


def _healed_in_their_slots(job: Job) -> None:
    """Both faults have struck; each worker was made again, from its sibling's state if that was far ahead by then."""
    struck = {int(path.name.partition("@")[2].partition(":")[0]) for path in job.folder.glob("*@*:*")}
    again = [event["element"] for kind in ("relaunched", "jumped") for event in job.events(kind)]
    assert len(struck) == 2 and struck <= set(again), f"struck were {struck}\n{job.story()}"
    assert len(job.events("relaunched")) <= 2, job.story()


_AGENT_WAYS = ("0", "1", "137", "255", "SIGHUP", "SIGSEGV", "SIGABRT", "SIGXCPU")


def _agents_leave(first: int) -> Callable[[Job, random.Random], None]:
    """Four of the ways an agent may end, of four bundles."""

    def act(job: Job, rng: random.Random) -> None:
        struck = rng.sample([0, 1, 2, 3], 4)
        for i, way in enumerate(_AGENT_WAYS[first : first + 4]):
            job.round(4 + 8 * i)
            if way.startswith("SIG"):
                job.strike(struck[i] + 4 * rng.randrange(2), int(signal.Signals[way]))
            else:
                (job.folder / "leaving").write_text(way)
                job.strike(struck[i] + 4 * rng.randrange(2), signal.SIGUSR1)
            job.event("died", i + 1)
            job.event("restored", i + 1)

    return act


def _stops(rng: random.Random) -> str:
    one = element(rng)
    two = other(rng, one)
    return f"stop:element={one},superstep={place(rng)}; stop:worker={two},superstep={place(rng)}"


def _short_stops(rng: random.Random) -> str:
    """Half of T * MinTime (floor 50 ms)."""
    k = place(rng, last=24)
    return (
        f"stop:element={element(rng)},superstep={k},seconds=0.125;"
        f"stop:worker={element(rng)},superstep={k + 15},seconds=0.125"
    )


def _one_sleeps(rng: random.Random) -> str:
    """A second: less than the rounds behind it take, however fast they are."""
    return f"nap@{element(rng)}:{place(rng)}"


def _jumped(job: Job) -> None:
    assert job.events("tail"), f"no tail is seen\n{job.story()}"
    assert job.events("jumped"), f"nobody jumped\n{job.story()}"


def _duty_cycle(job: Job, rng: random.Random) -> None:
    """An element and its worker run 10 ms of 50, to the end: the sleeps are the fault, not a wait for anything."""
    job.round(5)
    one = element(rng)
    family = [job.agents()[one], *job.agents()[one].children(recursive=True)]
    while job.said() < 110 and job.bsprun.poll() is None:
        for number, seconds in ((signal.SIGSTOP, 0.04), (signal.SIGCONT, 0.01)):
            for process in family:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
            time.sleep(seconds)


def _all_slow(rng: random.Random) -> str:
    """Both clones of one process: three rounds above T * MinTime, and one beyond the hang limit."""
    bundle, k = rng.randrange(4), place(rng)
    return "; ".join(
        f"slow:element={e},factor={factor},from={first},until={last}"
        for e in (bundle, bundle + 4)
        for factor, first, last in ((40, k, k + 2), (150, k + 5, k + 5))
    )


@contextlib.contextmanager
def hogs(count: int) -> Iterator[None]:
    """Other people's work on this machine."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in busy:
            one.kill()
            one.wait()


def _loaded(job: Job, rng: random.Random) -> None:
    job.let_end()
    job.round(5)
    with hogs(3):
        job.until(lambda: job.bsprun.poll() is not None, "the end")


def _unharmed(job: Job) -> None:
    """Nobody was suspected, fenced or made again."""
    for kind in ("suspected", "fenced", "died", "relaunched", "restored", "lost", "degraded"):
        assert not job.events(kind), f"{kind}\n{job.story()}"


def _waited_for(job: Job) -> None:
    """No limit counts while all clones are late; who still sleeps when its sibling has gone on may be made again."""
    assert "the limit is lifted" in json.dumps(job.events("note")), job.story()
    for kind in ("suspected", "fenced", "died", "lost", "degraded"):
        assert not job.events(kind), f"{kind}\n{job.story()}"


def _two_at_once(rng: random.Random) -> str:
    one, k = element(rng), place(rng)
    return f"kill:element={one},superstep={k}; kill:element={other(rng, one)},superstep={k}"


def _both_clones(job: Job, rng: random.Random) -> None:
    """Both stand still before either dies: no newcomer can have been given the state."""
    job.round(rng.randrange(8, 20))
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for one in (1, 5):
            job.strike(one, number)


def _both_clones_after_a_checkpoint(job: Job, rng: random.Random) -> None:
    job.event("checkpoint")
    _both_clones(job, rng)


def _donor(job: Job, rng: random.Random) -> None:
    """Of three clones one dies, and then one of the two that may give its state to the newcomer."""
    job.round(rng.randrange(2, 8))
    bundle = rng.randrange(4)
    one, two = rng.sample([bundle, bundle + 4, bundle + 8], 2)
    job.agents()
    job.strike(one)
    job.event("promoted", instead_of=one)
    job.strike(two)


def _last_donor(job: Job, rng: random.Random) -> None:
    """The only donor stands still and dies before it can give anything."""
    job.round(rng.randrange(8, 20))
    job.strike(6, signal.SIGSTOP)
    job.strike(2)
    job.event("promoted", instead_of=2)
    job.strike(6)


def _standby_dies(job: Job, rng: random.Random) -> None:
    """The standby stands still, so that it dies in its promotion for certain."""
    job.round(rng.randrange(2, 10))
    job.strike(8, signal.SIGSTOP)
    one = element(rng)
    job.strike(one)
    job.event("promoted", instead_of=one)
    job.strike(8)
    job.event("restored", element=9)


def _during_recovery(job: Job, rng: random.Random) -> None:
    """The second, of another process, when the first is known to be dead, or when it has a successor."""
    job.round(rng.randrange(2, 20))
    one = element(rng)
    job.agents()
    job.strike(one)
    job.event(rng.choice(("died", "promoted")))
    job.strike(other(rng, one))


def _three_in_sequence(job: Job, rng: random.Random) -> None:
    """Each after the first is struck when there is an agent in place of the one before."""
    job.round(rng.randrange(2, 10))
    for count, one in enumerate(rng.sample(range(8), 3), 1):
        job.strike(one)
        job.event("restored", count)
        job.event("appeared", count)


def _filled_again(job: Job) -> None:
    places = [event["instead_of"] for event in job.events("promoted")]
    assert places == [hit.element for hit in job.hits], job.story()
    assert len(job.events("view")[-1]["standbys"]) == 1, f"no standby again\n{job.story()}"
    told = [line for line in job.err.read_text().splitlines() if "warning" in line]
    assert all(" are late in superstep " in line for line in told), job.story()  # true on a loaded machine


def _kill_loop(job: Job, rng: random.Random) -> None:
    """Workers, 5 rounds apart in the mean, to the end; an agent whenever all is whole and a standby waits."""
    at, agents = 3.0, 0
    while True:
        at += rng.expovariate(1 / 5)
        if at > 150:
            return
        job.until(lambda: job.said() >= at, f"round {at:.0f}")
        if job.said() > 150:  # half a second before the end: a worker struck there may have ended before it is hit
            return
        whole = len(job.events("restored")) == agents
        alive = job.until(
            lambda: [e for e in range(8) if not job.events("died", element=e) and not _struck(job, e)],
            "one that is whole",
        )
        agent = agents < 2 and at > 60 * (agents + 1) and whole
        agents += agent
        job.strike(rng.choice(alive), worker=not agent)


def _struck(job: Job, one: int) -> bool:
    """Whether it, or its worker, has been struck and is not whole again.

    The log does not say yet what was done; or the worker has been run three times again in one superstep, and a fourth
    death there is the element's fault (N12).
    """
    hits = [hit for hit in job.hits if hit.element == one]
    again = [event["superstep"] for event in job.events("relaunched", element=one)]
    return any(not hit.worker for hit in hits) or len(hits) > len(again) or again.count(again[-1] if again else 0) > 2


def _flip(rng: random.Random) -> str:
    return f"flip:process=2,superstep={place(rng)},clone={rng.randrange(2)}"


def _flip_early(rng: random.Random) -> str:
    """Early enough for the refresh to end before the program does."""
    return f"flip:process=2,superstep={place(rng, 6, 16)},clone={rng.randrange(2)}"


def _flip_state(rng: random.Random) -> str:
    return f"flip:process=2,superstep={place(rng)},clone={rng.randrange(2)},what=state"


def _flip_hidden(rng: random.Random) -> str:
    """Element 2 or 6, in round 20: a value that nobody is told before the end."""
    return f"flip@{rng.choice((2, 6))}:20"


def _named(job: Job) -> None:
    """The process, and the superstep of the flip."""
    (found,) = job.events("diverged")
    assert "process 2 (bundle 2), superstep" in job.err.read_text(), job.story()
    flipped = [event["superstep"] for event in job.events("injected")]
    flipped += [int(marker.read_text()) for marker in job.folder.glob("flip@*")]  # a superstep a round
    assert len(flipped) == 1
    # clones on busy cores compare states at every 2nd, 4th or 8th head only, so that these take 2 % of the time
    assert flipped[0] <= found["superstep"] <= flipped[0] + 8, f"flipped in {flipped[0]}\n{job.story()}"


def _words(job: Job) -> list[str]:
    return list(job.bsprun.args)  # type: ignore[arg-type]


def _outvoted(job: Job) -> None:
    (found,) = job.events("outvoted")
    fault = parse(next(part for part in _words(job) if part.startswith("flip:")))[0]
    assert found["element"] == 2 + 4 * fault.clone, job.story()
    assert job.events("restored", element=found["element"]), f"not refreshed\n{job.story()}"
    assert f"warning: element {found['element']} has computed other bytes" in job.err.read_text(), job.story()


def _once_told(job: Job) -> None:
    status, _, said = reference(("raising.py",))
    assert job.err.read_text().count("\nZeroDivisionError: float division by zero") == 1, job.story()
    assert job.err.read_text().count("Traceback") == said.count("Traceback") == 1, job.story()
    assert status == 1


def _noise(kind: str) -> Callable[[random.Random], str]:
    def inject(rng: random.Random) -> str:
        seed = rng.randrange(1000)
        text = f"{kind}:rate=0.01,seed={seed}"
        return text + ",seconds=0.1" if kind == "delay" else text

    return inject


def _all_noise(rng: random.Random) -> str:
    return "; ".join(_noise(kind)(rng) for kind in ("drop", "delay", "duplicate"))


def _bsprun_pauses(job: Job, rng: random.Random) -> None:
    """bsprun is silent for less than the five seconds after which elements give up."""
    job.round(rng.randrange(5, 15))
    job.bsprun.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    while time.monotonic() < began + 1.5:  # the length of the fault
        time.sleep(0.05)
    job.bsprun.send_signal(signal.SIGCONT)


def _bsprun_silent(job: Job, rng: random.Random) -> None:
    """bsprun is silent for longer than elements wait for it or another one (--orphan-limit): none may go on."""
    job.round(rng.randrange(5, 15))
    agents = job.agents()
    job.bsprun.send_signal(signal.SIGSTOP)
    try:
        deadline = time.monotonic() + 5.0 + GONE
        while any(map(_runs, agents.values())):
            assert time.monotonic() < deadline, f"elements go on without bsprun\n{job.story()}"
            time.sleep(0.05)
    finally:
        job.bsprun.send_signal(signal.SIGCONT)


def _keeper(number: int) -> Callable[[Job, random.Random], None]:
    def act(job: Job, rng: random.Random) -> None:
        job.round(rng.randrange(2, 30))
        assert len(job.left()) >= 10, "I4 could not be seen"
        (keeper,) = psutil.Process(job.bsprun.pid).children()
        keeper.send_signal(number)
        job.until(lambda: job.bsprun.poll() is not None, "the end")

    return act


def _leave(job: Job, rng: random.Random) -> None:
    job.round(rng.randrange(2, 10))
    job.agents()[element(rng)].terminate()
    job.event("left")


def _end(number: int) -> Callable[[Job, random.Random], None]:
    def act(job: Job, rng: random.Random) -> None:
        job.round(rng.randrange(2, 30))
        assert len(job.left()) >= 10, "I4 could not be seen"
        job.bsprun.send_signal(number)
        if number != signal.SIGKILL:
            job.until(lambda: job.bsprun.poll() is not None, "the end")

    return act


def _go_on(job: Job) -> None:
    """--resume: the rest of the text, as if nothing had been."""
    rest = Job(
        job.folder / "resumed",
        ["-p", "4", "-n", "4", "--clones", "2", "--standby", "2", "--resume", str(job.folder / "checkpoints")],
        LONG, {}, job.token,
    )  # fmt: skip
    try:
        assert rest.bsprun.wait(40.0) == 0, rest.story()
        both = job.out.read_bytes() + rest.out.read_bytes()
        assert both == reference(LONG)[1], f"{_difference(both, reference(LONG)[1])}\n{rest.story()}"
        assert not rest.left()
    finally:
        rest.stop()


def _near_the_end(job: Job, rng: random.Random) -> None:
    """0 to 4 deaths of different processes in the last rounds, or behind them."""
    job.let_end()
    count = int(job.folder.name.rpartition("-")[2]) % 5
    struck = [bundle + 4 * rng.randrange(2) for bundle in rng.sample(range(4), count)]
    job.event("started")
    job.agents()
    job.round(rng.randrange(43, 49))
    for one in struck:
        job.strike(one)


_EXITS = {"PYTHONPATH": str(PROGRAMS / "agents"), "LEAVING": "{folder}/leaving"}

SCENARIOS = (
    Scenario(1, "nothing, one clone, other work on the machine", "200 rounds, nobody is harmed", STEADY, clones="1",
             standby="0", act=_loaded, check=_unharmed),
    Scenario(1, "nothing, two clones, other work on the machine", "200 rounds, nobody is harmed", STEADY,
             act=_loaded, check=_unharmed),
    Scenario(2, "SIGKILL of an agent and of a worker", "a standby takes the place; the worker is started again",
             inject=_kill_both_kinds, often=True),
    Scenario(3, "SIGKILL in the middle of its sends", "a sibling's packets are used", BULK, act=_kill_in_sends),
    Scenario(5, "SIGKILL of who sets MinTime, behind its announcement", "the round goes on with its sibling's",
             sabotage=_setter, counts={"died": 1, "promoted": 1, "relaunched": 0}, accounted=False),
    Scenario(6, "SIGKILL of rank 0", "as any other; all text is written", act=_zeros,
             counts={"died": 2, "promoted": 2}),
    Scenario(7, "a worker ends in every way", "each is one fault, healed in its slot", inject=_all_ways,
             counts={"died": 0}, often=True),
    Scenario(7, "a worker exceeds RLIMIT_CPU, another calls sys.exit", "healed in their slots", LONG,
             sabotage=_user_code, accounted=False, check=_healed_in_their_slots, counts={"died": 0}),
    Scenario(7, "an agent exits", "each is one fault; exit 1 does not hang", LONG, act=_agents_leave(0), standby="4",
             environment=_EXITS, counts={"died": 4, "promoted": 4}, hang=SHORT),
    Scenario(7, "an agent is ended by a signal", "each is one fault", LONG, act=_agents_leave(4), standby="4",
             counts={"died": 4, "promoted": 4}),
    Scenario(8, "SIGSTOP for ever of an agent and of a worker", "fenced and replaced; made again", LONGER,
             inject=_stops, counts={"suspected": 1, "fenced": 1, "died": 1, "promoted": 1, "relaunched": 1},
             hang=SHORT, often=True),
    Scenario(10, "SIGSTOP for half of T times MinTime", "nobody is harmed", inject=_short_stops, check=_unharmed,
             often=True),
    Scenario(11, "one clone sleeps ten times MinTime", "a tail; it jumps to its sibling's state",
             LONG, sabotage=_one_sleeps, accounted=False, check=_jumped, counts={"died": 0, "relaunched": 0},
             often=True),
    Scenario(12, "an element is five times slower for good", "it is not fenced: it jumps", LONG,
             act=_duty_cycle, counts={"died": 0, "fenced": 0}),
    Scenario(13, "all clones of one process are slow", "they are waited for", inject=_all_slow,
             check=_waited_for, accounted=False, hang=SHORT),
    Scenario(14, "three hogs on two cores", "nobody is harmed", LONG, act=_loaded, check=_unharmed),
    Scenario(15, "two deaths of different processes in one superstep", "goes on", inject=_two_at_once,
             counts={"died": 2, "promoted": 2}),
    Scenario(16, "two deaths of one process", "BundleLost by name", act=_both_clones, status=3,
             error="BundleLost: process 1 (bundle 1), superstep ", counts={"lost": 1}, accounted=False, often=True),
    Scenario(16, "two deaths of one process, with checkpoints", "goes on from the last one",
             act=_both_clones_after_a_checkpoint, options=("--checkpoint", "{folder}/checkpoints", "--every", "5"),
             counts={"lost": 1, "resumed": 1}, accounted=False, often=True),
    Scenario(18, "a donor dies with two to give", "the other one gives", ("ring.py", "40", "0.01", "20000"),
             clones="3", act=_donor, counts={"died": 2, "promoted": 2}),
    Scenario(18, "the only donor dies", "BundleLost by name", act=_last_donor, status=3,
             error="BundleLost: process 2 (bundle 2), superstep ", counts={"lost": 1}, accounted=False, often=True),
    Scenario(19, "the standby dies in its promotion", "the next one is used", act=_standby_dies,
             counts={"promoted": 2, "died": 2}),
    Scenario(20, "a second death in the recovery from the first", "both are replaced", act=_during_recovery,
             counts={"died": 2, "promoted": 2}),
    Scenario(21, "three deaths, one standby", "an agent is started in place of each", LONG, standby="1",
             act=_three_in_sequence, check=_filled_again, counts={"died": 3, "degraded": 0}, often=True),
    Scenario(22, "a kill every five rounds", "all are healed", STEADY, act=_kill_loop, often=True),
    Scenario(23, "a bit of a message, two clones", "stops by name", SLOW, inject=_flip, status=3, error="Corruption",
             check=_named, counts={"diverged": 1}, accounted=False),  # who read those bytes may fall over them
    Scenario(23, "a bit of a message, three clones", "outvoted and refreshed", clones="3", inject=_flip_early,
             check=_outvoted, counts={"outvoted": 1, "died": 0}, often=True),
    Scenario(24, "a bit of a state (--inject)", "stops by name when compared", SLOW, inject=_flip_state, status=3,
             error="Corruption", check=_named, counts={"diverged": 1}, often=True),
    Scenario(24, "a bit of a state that nobody is told", "stops by name when compared", SLOW, sabotage=_flip_hidden,
             status=3, error="Corruption", check=_named, counts={"diverged": 1}, accounted=False),
    Scenario(25, "unseeded randomness", "stops by name; nothing is tried again", ("astray.py", "rng"), status=3,
             error="process 1 (bundle 1), superstep ", same=False, counts={"diverged": 1, "relaunched": 0},
             often=True),
    Scenario(25, "the clock in the data", "stops by name; nothing is tried again", ("astray.py", "clock"), status=3,
             error="process 1 (bundle 1), superstep ", same=False, counts={"diverged": 1, "relaunched": 0}),
    Scenario(26, "the same exception in all clones", "told once, no relaunch", ("raising.py",), status=1,
             error="ZeroDivisionError", check=_once_told, counts={"relaunched": 0, "died": 0}, often=True),
    Scenario(27, "1 % of messages dropped, late and doubled", "nothing is seen of it", inject=_all_noise,
             check=_unharmed),
    Scenario(28, "bsprun stands still for a while", "nothing is seen of it", LONG, act=_bsprun_pauses,
             check=_unharmed, hang=SHORT),
    Scenario(28, "bsprun stands still for good", "elements end themselves; a loss by name", ENDLESS,
             act=_bsprun_silent, status=3, error="BundleLost", accounted=False, options=("--orphan-limit", "1")),
    Scenario(29, "SIGKILL of the keeper", "a loss by name", act=_keeper(signal.SIGKILL), status=3, error="BundleLost",
             accounted=False),
    Scenario(29, "SIGTERM of an agent", "it leaves when another has joined in its place", LONG, act=_leave,
             counts={"left": 1, "died": 0, "appeared": 1, "degraded": 0}, often=True),
    Scenario(29, "SIGKILL of bsprun", "nothing is left", act=_end(signal.SIGKILL), status=-9, often=True,
             options=("--orphan-limit", "0")),
    Scenario(29, "SIGTERM of bsprun", "143, as documented", act=_end(signal.SIGTERM), status=143,
             error="bsprun: ended by SIGTERM"),
    Scenario(29, "SIGTERM of bsprun, with checkpoints", "75, and --resume has the rest", LONG,
             act=_end(signal.SIGTERM), options=("--checkpoint", "{folder}/checkpoints"), status=75,
             error="go on with --resume", check=_go_on, often=True),
    Scenario(30, "0 to 4 deaths near the end", "it ends", act=_near_the_end, accounted=False),
)  # fmt: skip


# ---------------------------------------------------------------------------------- simulated


def quartet(seed: int, rounds: int = 12, clones: int = 2, standbys: int = 2, **changes: Any) -> SimulatedRun:
    """p = 4, `clones` copies, standbys; a loop, then another one."""
    script = SimulatedProgram(4, 1, ((rounds, 1), (4, 1)), 1, large=3, once=5)
    schedule = SimulatedRun(seed, script, 4 * clones, standbys, 1, Limits(hang_limit=0.5, linger=0.2), harmless=True)
    for name, value in changes.items():
        setattr(schedule, name, value)
    return schedule


def simulated(schedule: SimulatedRun, what: str, kind: type[Simulation] = Simulation) -> tuple[Simulation, list[str]]:
    """A run, and what was wrong with it."""
    simulation = kind(schedule)
    simulation.run()
    return simulation, [f"{what}, seed {schedule.seed}: {wrong}" for wrong in simulation.wrong]


def swept(what: str, schedules: Iterable[SimulatedRun]) -> list[str]:
    """The same schedule with a crash at other and other steps; most of them must strike."""
    wrong: list[str] = []
    crashes, runs, most = 0, 0, 0
    for schedule in schedules:
        simulation, found = simulated(schedule, f"{what}: {schedule.faults[-1]}")
        wrong += found
        planned = sum(fault[1] == "crash" for fault in schedule.faults)
        crashes += sum(kind == "crash" for _, kind, _ in simulation.notes)
        runs, most = runs + 1, most + planned
    if 4 * crashes < 3 * most:
        wrong.append(f"{what}: only {crashes} of {most} crashes in {runs} runs")
    return wrong


def _some(steps: range, seed: int, many: bool) -> range:
    """Every 2nd or 5th step, other ones with the next seed: many seeds strike each step often."""
    apart = 2 if many else 5
    return steps[seed % apart :: apart]


def _steps(schedule: SimulatedRun, struck: int, since: float = 0.0) -> int:
    """The effects of an element from a time on, undisturbed."""
    schedule.faults = [*schedule.faults, (since, "crash", struck, 1e9)]
    simulation, _ = simulated(schedule, "")
    return int(1e9) - simulation.nodes[struck].fuse


def every_step(seed: int, many: bool) -> list[str]:
    """A crash behind each effect of one element: in its sends, announcements, answers, reports."""
    rng = random.Random(f"every step {seed}")
    struck = element(rng)
    count = _steps(quartet(seed), struck)
    wrong: list[str] = []
    for step in _some(range(count), seed, many):
        schedule = quartet(seed, faults=[(0.0, "crash", struck, float(step))])
        simulation, found = simulated(schedule, f"element {struck} ends at its step {step} of {count}")
        wrong += found
        if not any(kind == "died" for _, kind, _ in simulation.notes) and step < count - 20:
            wrong.append(f"step {step} of {count}: nobody died")
    return wrong if count > 50 else [f"only {count} steps"]


class Unfenced(Simulation):
    """bsprun believes a silent element dead, and nobody kills it."""

    def _obey(self, effects: Sequence[Any]) -> None:
        for effect in effects:
            if isinstance(effect, Fence):
                self.note("fence", {"element": effect.element, "why": effect.why})
                self._dead(effect.element, "believed dead")
            else:
                super()._obey([effect])


def zombie(seed: int, many: bool) -> list[str]:
    """Stopped beyond the hang limit, taken for dead, woken again: what it says changes nothing, and it goes.

    There are no calls of `once`: their right passes only when a death is certain, or a lease has run out (N9).
    """
    wrong: list[str] = []
    for case in range(10 if many else 5):
        rng = random.Random(f"zombie {seed} {case}")
        struck = element(rng)
        schedule = quartet(seed * 100 + case, 100, step=0.05)
        schedule.script = replace(schedule.script, once=0)
        schedule.faults = [(0.2 + rng.random(), "stop", struck, 1.0 + rng.random())]
        simulation, found = simulated(schedule, "a zombie", Unfenced)
        wrong += found
        if not any(kind == "fence" for _, kind, _ in simulation.notes):
            wrong.append(f"zombie {seed} {case}: it was not believed dead")
        if simulation.nodes[struck].alive:
            wrong.append(f"zombie {seed} {case}: it is still there")
    return wrong


def setter(seed: int, many: bool) -> list[str]:
    """The fastest clone ends at each of its steps while all others still compute."""
    rng = random.Random(f"setter {seed}")
    struck = element(rng)
    slow = [(0.0, "slow", e, 3.0) for e in range(8) if e != struck]
    steps = range(60 if many else 20)
    return swept("the setter", (quartet(seed, faults=[*slow, (0.15, "crash", struck, float(i))]) for i in steps))


def trials(seed: int, many: bool) -> list[str]:
    """f of 8 elements crash at one moment: survival is A(2, 4, f), and exactly when every bundle has a clone left."""
    wrong: list[str] = []
    count = 100 if many else 75
    for f in (1, 2, 3, 4):
        survived = 0
        for case in range(count):
            rng = random.Random(f"trials {seed} {f} {case}")
            struck = rng.sample(range(8), f)
            when = 0.05 + 0.1 * rng.random()
            schedule = quartet(seed * count + case, 8, harmless=False)
            schedule.faults = [(when, "crash", e, 0.0) for e in struck]
            simulation, found = simulated(schedule, f"{f} at once")
            wrong += found
            whole = len({e % 4 for e in range(8) if e not in struck}) == 4
            if isinstance(simulation.outcome, Finished) != whole:
                wrong.append(f"{struck} at {when:.3f}, seed {schedule.seed}: {simulation.outcome}")
            survived += isinstance(simulation.outcome, Finished)
        expected = float(models.availability(2, 4, f))
        width = 4 * math.sqrt(expected * (1 - expected) / count)  # 1 in 16,000: there are 60 of them, and more
        if abs(survived / count - expected) > width + 1e-12:
            wrong.append(f"{f} deaths: {survived} of {count} survived, the model says {expected:.4f}")
    return wrong


def donors(seed: int, many: bool) -> list[str]:
    """Of three clones one dies, then a donor at each of its steps; with two clones: never a wrong answer."""
    wrong: list[str] = []
    for clones in (3, 2):
        steps = _some(range(200 if clones == 3 else 40), seed, many)
        wrong += swept(
            f"a donor of {clones}",
            (
                quartet(seed, clones=clones, harmless=clones == 3,
                        faults=[(0.1, "crash", 1, 0.0), (0.1, "crash", 5, float(step))])
                for step in steps
            ),
        )  # fmt: skip
    return wrong


def promotions(seed: int, many: bool) -> list[str]:
    """The standby ends at each of its steps since its promotion; the next one is used."""
    steps = _some(range(80), seed, many)
    faults = [[(0.1, "crash", 1, 0.0), (0.101, "crash", 8, float(step))] for step in steps]
    return swept("the standby", (quartet(seed, 40, faults=some) for some in faults))  # long enough for all steps


def recoveries(seed: int, many: bool) -> list[str]:
    """An element of another bundle ends at each of its steps since the first death."""
    rng = random.Random(f"recoveries {seed}")
    one = element(rng)
    two = other(rng, one)
    steps = _some(range(200), seed, many)
    faults = [[(0.1, "crash", one, 0.0), (0.1, "crash", two, float(step))] for step in steps]
    return swept("a second death", (quartet(seed, faults=some) for some in faults))


def kill_loop(seed: int, many: bool) -> list[str]:
    """200 rounds of 50 ms; a worker ends every 5 in the mean, and two elements on the way."""
    wrong: list[str] = []
    for case in range(10 if many else 2):
        rng = random.Random(f"kill loop {seed} {case}")
        schedule = quartet(seed * 10 + case, 200, step=0.05)
        when = 0.0
        while (when := when + rng.expovariate(1 / 0.25)) < 10.0:
            schedule.faults.append((when, "worker dies", rng.randrange(10), 0.0))
        first = element(rng)
        schedule.faults += [(2.0, "crash", first, 3.0), (5.0, "crash", other(rng, first), 7.0)]
        simulation, found = simulated(schedule, "kill loop")
        wrong += found
        if sum(kind == "relaunched" for _, kind, _ in simulation.notes) < 15:
            wrong.append(f"kill loop {schedule.seed}: hardly anything was struck")
    return wrong


def noise(seed: int, many: bool) -> list[str]:
    """1 % of all messages, those of bsprun too, are lost, as many come twice and late."""
    wrong: list[str] = []
    for case in range(60 if many else 15):
        schedule = quartet(seed * 100 + case, 40, lossy=0.01)
        wrong += simulated(schedule, "noise")[1]
    return wrong


def partitions(seed: int, many: bool) -> list[str]:
    """Elements 0, 3, 6, 9 hear neither the others nor bsprun for 3 s, then they do: bsprun's side alone goes on.

    Its view is the only one; the others are fenced after the hang limit, or, where nobody can (on another machine:
    `Unfenced`), end themselves.  Bundles 0, 1, 2 and 3 each have a clone on bsprun's side.
    """
    wrong: list[str] = []
    for case in range(15 if many else 8):
        for kind in (Simulation, Unfenced):
            rng = random.Random(f"partition {seed} {case}")
            schedule = quartet(seed * 100 + case, 100, step=0.05, harmless=kind is Simulation)
            schedule.faults = [(0.3 + rng.random(), "cut", 0, 3.0)]
            simulation, found = simulated(schedule, f"a partition ({kind.__name__})", kind)
            wrong += found
            if simulation.outcome is None:
                wrong.append(f"partition {schedule.seed}: no outcome")
            cut = {0, 3, 6, 9}
            fenced = {f["element"] for _, kind, f in simulation.notes if kind == "fence"}
            if not fenced <= cut:
                wrong.append(f"partition {schedule.seed}: fenced {fenced}")
            if kind is Unfenced and isinstance(simulation.outcome, Finished):
                views = {n.member.view.number for e, n in enumerate(simulation.nodes) if e not in cut}
                late = {n.member.view.number for e, n in enumerate(simulation.nodes) if e in cut}
                if max(late) > max(views):
                    wrong.append(f"partition {schedule.seed}: the cut side has made a view")
    return wrong


def alone(seed: int, many: bool) -> list[str]:
    """Without a word of bsprun for five seconds an element ends itself, and bsprun has a successor by then."""
    wrong: list[str] = []
    for case in range(10 if many else 3):
        schedule = quartet(seed * 100 + case, 160, step=0.05, harmless=False)
        schedule.limits = Limits(hang_limit=20.0, linger=0.2)  # bsprun is in no hurry
        schedule.faults = [(0.5, "cut", 0, 8.0)]
        simulation, found = simulated(schedule, "cut off")
        wrong += found
        gone = {f["element"] for _, kind, f in simulation.notes if kind == "died by itself"}
        if gone != {0, 3, 6, 9}:
            wrong.append(f"cut off {schedule.seed}: {sorted(gone)} have ended themselves")
    return wrong


def last_rounds(seed: int, many: bool) -> list[str]:
    """0 to 4 elements of different bundles end in the last rounds or behind them; nobody hangs."""
    wrong: list[str] = []
    for case in range(50 if many else 25):
        rng = random.Random(f"last rounds {seed} {case}")
        schedule = quartet(seed * 100 + case, 8)
        span = 0.012 * schedule.script.exchanges()
        struck = [bundle + 4 * rng.randrange(2) for bundle in rng.sample(range(4), case % 5)]
        schedule.faults = [(span * (0.6 + 0.8 * rng.random()), "crash", e, rng.randrange(20)) for e in struck]
        wrong += simulated(schedule, f"{len(struck)} deaths at the end")[1]
    return wrong


def mixed(seed: int, many: bool) -> list[str]:
    """Schedules of all faults, other ones than the 10,000 of test_simulation.py; a seed replays identically."""
    wrong: list[str] = []
    for case in range(100 if many else 40):
        schedule = drawn(10_000 + 100 * seed + case)
        simulation, found = simulated(schedule, "mixed")
        wrong += found
        if not isinstance(simulation.outcome, (Finished, Lost, Corrupt)):
            wrong.append(f"mixed {schedule.seed}: {simulation.outcome}")
    once, again = (simulated(drawn(seed), "")[0] for _ in range(2))
    if (once.notes, once.messages, once.printed) != (again.notes, again.messages, again.printed):
        wrong.append(f"seed {seed} does not replay identically")
    return wrong


SIMULATED = (
    Simulated(4, "a crash at every step of the protocol", "the same outcome for all survivors", every_step),
    Simulated(5, "the setter of MinTime at every step", "the round goes on", setter),
    Simulated(9, "a zombie, without fencing", "it changes nothing and goes", zombie),
    Simulated(17, "f deaths at once", "survival as the model says", trials),
    Simulated(18, "a donor at every step", "the other one gives; else a loss by name", donors),
    Simulated(19, "a standby at every step of its promotion", "the next one is used", promotions),
    Simulated(20, "a second death at every step", "both are replaced", recoveries),
    Simulated(22, "a kill every five rounds", "all are healed", kill_loop),
    Simulated(27, "1 % of messages lost, doubled, late", "nothing is seen of it", noise),
    Simulated(28, "a partition of 3 s", "one side has views and effects", partitions),
    Simulated(28, "a partition of 8 s", "who hears nothing of bsprun for 5 s ends itself", alone),
    Simulated(30, "0 to 4 deaths at the end", "it ends", last_rounds),
    Simulated(31, "all faults mixed", "nothing wrong is ever delivered; a seed replays", mixed),
)


def all_numbers() -> set[int]:
    """The scenarios that are played in one way or both."""
    plays: Iterable[Scenario | Simulated] = [*SCENARIOS, *SIMULATED]
    return {play.number for play in plays}
