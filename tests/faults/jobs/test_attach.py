"""bsprun is killed, and another one goes on with its job: same output, no round lost, nothing is done twice."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from bsp.faults.events.log import read

pytestmark = pytest.mark.jobs

BIN = Path(sys.executable).parent
RING = str(Path(__file__).parents[1] / "programs" / "ring.py")
ROUNDS = ("150", "0.02", "4")
SECONDS = 100.0


class Job:
    """A job, and those who run it one after the other; they append to one file."""

    def __init__(self, folder: Path, *options: str, program: tuple[str, ...] = (RING, *ROUNDS)) -> None:
        self.folder, self.log, self.out, self.err = (folder / name for name in (".", "events.jsonl", "out", "err"))
        self.environment = os.environ | {"XDG_STATE_HOME": str(folder)}
        self.program = program
        self.out.touch()
        self.err.touch()
        self.runs: list[subprocess.Popen[str]] = []
        words = ["-p", "4", "-n", "2", "--clones", "2", *options, "--events", str(self.log), *program]
        self.bsprun(*words)
        self.until(lambda: self.events("started"), "the start")

    def bsprun(self, *words: str) -> subprocess.Popen[str]:
        with self.out.open("a") as out, self.err.open("a") as err:
            run = subprocess.Popen([str(BIN / "bsprun"), *words], stdout=out, stderr=err, env=self.environment)
        self.runs.append(run)
        return run

    def refused(self, *words: str) -> str:
        done = subprocess.run([str(BIN / "bsprun"), *words], capture_output=True, text=True, env=self.environment)
        assert done.returncode == 2 and done.stdout == "", (done, self.story())
        return done.stderr

    @property
    def file(self) -> Path:
        (found,) = (self.folder / "nonstop-bsp" / "jobs").glob("*.json")
        return found

    @property
    def name(self) -> str:
        return self.file.stem

    def kill(self) -> None:
        """SIGKILL to bsprun."""
        self.runs[-1].kill()
        self.runs[-1].wait()

    def attach(self, *more: str) -> subprocess.Popen[str]:
        return self.bsprun("--attach", self.name, *more)

    def round(self, number: int) -> None:
        self.until(lambda: f"round {number} " in self.out.read_text(), f"round {number}")

    def processes(self) -> list[psutil.Process]:
        """All processes of the job but its bsprun: keepers with its environment, and their children."""
        found = []
        for process in psutil.process_iter(["cmdline"]):
            if "bsp.faults.engine.keeper" in (process.info["cmdline"] or []):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if process.environ().get("XDG_STATE_HOME") == str(self.folder):
                        found += [process, *process.children(recursive=True)]
        return found

    def agents(self) -> dict[int, int]:
        return {int(element): pid for element, pid in self.events("started")[0]["agents"].items()}

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in read(self.log) if event["kind"] == kind] if self.log.exists() else []

    def until(self, holds: Callable[[], Any], what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"{what}\n{self.story()}"
            time.sleep(0.01)

    def story(self) -> str:
        return (self.log.read_text() if self.log.exists() else "") + self.err.read_text()

    def right(self) -> bool:
        """Wait for the end; whether the output is the plain engine's, and no round was lost."""
        assert self.runs[-1].wait(SECONDS) == 0, self.story()
        script, rounds, _, *more = self.program
        words = [str(BIN / "bsprun"), "-p", "4", "-n", "1", script, rounds, "0", *more]  # without sleep
        expected = subprocess.run(words, capture_output=True, text=True).stdout
        assert self.out.read_text() == expected, self.story()
        return bool(self.events("ended")[-1]["rounds_lost"] == 0)

    def end(self) -> None:
        for run in self.runs:
            run.kill()
            run.wait()
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Callable[..., Job]]:
    made: list[Job] = []

    def make(*options: str, **more: Any) -> Job:
        made.append(Job(tmp_path, *options, **more))
        return made[-1]

    yield make
    for job in made:
        job.end()


@pytest.mark.thorough
@pytest.mark.parametrize("clones", ["1", "2"])
def test_a_job_goes_on_where_its_bsprun_was_killed(jobs: Callable[..., Job], clones: str) -> None:
    """Three times, at any moment; whoever runs it last tells its status, and nothing is left."""
    job, rng = jobs("--clones", clones), random.Random(int(os.environ.get("BSP_SEED", "0")))
    for reign in (1, 2, 3):
        job.round(rng.randrange(30 * reign, 30 * reign + 20))
        job.kill()
        job.attach()
        job.until(lambda: len(job.events("attached")) == reign, "the next bsprun")
    assert job.right()
    assert [event["lost"] for event in job.events("attached")] == [0, 0, 0]
    assert not job.events("died") and not list((job.folder / "nonstop-bsp" / "jobs").iterdir())
    job.until(lambda: not job.processes(), "the end of all processes")


@pytest.mark.thorough
def test_an_element_that_is_lost_meanwhile_is_replaced(jobs: Callable[..., Job]) -> None:
    job = jobs()
    job.round(20)
    job.kill()
    os.kill(job.agents()[1], signal.SIGKILL)
    job.attach()
    assert job.right()
    assert [event["lost"] for event in job.events("attached")] == [1]
    assert [event["element"] for event in job.events("died")] == [1] and job.events("restored")


@pytest.mark.thorough
def test_text_that_nobody_can_look_up_is_printed_by_the_one_or_the_other(jobs: Callable[..., Job]) -> None:
    """To another file: what was written shortly before the end may come twice, and nothing is missing."""
    job = jobs()
    job.round(20)
    job.kill()
    first = job.out.read_text()
    job.out = job.folder / "more"
    job.attach()
    assert job.runs[-1].wait(SECONDS) == 0, job.story()
    words = [str(BIN / "bsprun"), "-p", "4", "-n", "1", RING, ROUNDS[0], "0", ROUNDS[2]]
    expected, rest = subprocess.run(words, capture_output=True, text=True).stdout, job.out.read_text()
    assert expected.startswith(first) and expected.endswith(rest) and rest
    assert len(first) + len(rest) >= len(expected)


TIMES = """
import time
import bsp

proc = bsp.process()
state = bsp.State(times=[0.0])
for k in proc.rounds(40, state):
    time.sleep(0.02)
    proc.sync()
    state.times.append(proc.time())
    if proc.pid == 0:
        print(f"round {k} ", flush=True)
if proc.pid == 0:
    print(state.times == sorted(state.times))
"""

ONCE = """
import os, sys, time
import bsp
proc = bsp.process()
began = proc.once(lambda: os.urandom(8).hex())
state = bsp.State(seen=[])
for k in proc.rounds(60, state):
    time.sleep(0.03)
    value = proc.once(lambda: os.urandom(8).hex()) if proc.pid == 0 and k % 5 == 0 else ""
    state.seen.append(proc.broadcast(value, 0))
    state.time = proc.time()
    if proc.pid == 0:
        print("round", k, "begins", flush=True)
assert len(set(proc.allgather((tuple(state.seen), state.time)))) == 1
assert proc.once(lambda: "again") == "again" and began
"""


@pytest.mark.thorough
def test_what_was_called_once_is_known_to_the_next_bsprun(jobs: Callable[..., Job], tmp_path: Path) -> None:
    """A worker that starts again from the beginning is given the value that the first bsprun gave."""
    program = tmp_path / "once.py"
    program.write_text(ONCE)
    job = jobs(program=(str(program),))
    job.round(15)
    job.kill()
    workers = [each for pid in job.agents().values() for each in psutil.Process(pid).children(recursive=True)]
    job.attach()
    job.until(lambda: job.events("attached"), "the next bsprun")
    leaves = [each for each in workers if not each.children()]
    leaves[0].kill()
    job.until(lambda: job.events("relaunched"), "a new worker")
    assert job.runs[-1].wait(SECONDS) == 0, job.story()
    assert not job.events("diverged") and not job.events("lost")


def test_the_programs_time_does_not_run_backwards_when_the_date_was_set_back(
    jobs: Callable[..., Job], tmp_path: Path
) -> None:
    """The next bsprun has only the date to tell when the job began, or it runs on a host whose date is another."""
    program = tmp_path / "times.py"
    program.write_text(TIMES)
    job = jobs(program=(str(program),))
    job.round(15)
    job.kill()
    told = json.loads(job.file.read_text())
    job.file.write_text(json.dumps(told | {"began": told["began"] + 86400.0}))  # as if it was yesterday now
    job.attach()
    assert job.runs[-1].wait(SECONDS) == 0, job.story()
    assert job.out.read_text().endswith("\nTrue\n")
    assert job.events("attached")[0]["time"] > job.events("started")[0]["time"]


def test_one_that_is_alive_is_not_disturbed_but_by_takeover(jobs: Callable[..., Job]) -> None:
    job = jobs()
    job.round(20)
    first = job.runs[0]
    refused = f"job {job.name} has its bsprun, process {first.pid} on this machine; --takeover fences it"
    assert job.refused("--attach", job.name) == f"bsprun: error: {refused}\n"
    job.attach("--takeover")
    assert first.wait(SECONDS) == 1
    assert "bsprun: another bsprun has taken over this job\n" in job.err.read_text()
    assert job.right()


def test_of_two_that_attach_at_once_one_goes_on(jobs: Callable[..., Job]) -> None:
    """The other is refused, or finds that it is superseded."""
    job = jobs(program=(RING, "300", "0.02", "4"))
    job.round(20)
    job.kill()
    pair = [job.attach(), job.attach()]
    statuses = sorted(run.wait(SECONDS) for run in pair)
    assert statuses in ([0, 1], [0, 2]), job.story()
    job.runs[-1] = next(run for run in pair if run.returncode == 0)
    assert job.right()


def test_one_that_stood_still_finds_that_it_is_superseded(jobs: Callable[..., Job]) -> None:
    job = jobs()
    job.round(20)
    job.runs[0].send_signal(signal.SIGSTOP)
    job.attach("--takeover")
    job.until(lambda: job.events("attached"), "the next bsprun")
    job.runs[0].send_signal(signal.SIGCONT)
    assert job.runs[0].wait(SECONDS) == 1
    assert job.right()


def test_one_that_stood_still_until_the_end_does_not_begin_again(jobs: Callable[..., Job], tmp_path: Path) -> None:
    """The elements are all gone, and there is a checkpoint from which the first bsprun could go on."""
    job = jobs("--checkpoint", str(tmp_path / "saved"), "--every", "10")
    job.until(lambda: job.events("checkpoint"), "a checkpoint")
    job.runs[0].send_signal(signal.SIGSTOP)
    job.attach("--takeover")
    assert job.runs[-1].wait(SECONDS) == 0, job.story()
    job.runs[0].send_signal(signal.SIGCONT)
    assert job.runs[0].wait(SECONDS) == 1
    assert job.right()


def test_a_checkpoint_is_written_by_the_next_bsprun(jobs: Callable[..., Job], tmp_path: Path) -> None:
    folder = str(tmp_path / "saved")
    job = jobs("--checkpoint", folder, "--every", "10")
    job.until(lambda: job.events("checkpoint"), "a checkpoint")
    job.kill()
    job.attach()
    job.until(lambda: job.events("attached"), "the next bsprun")
    known = len(job.events("checkpoint"))
    job.until(lambda: len(job.events("checkpoint")) > known, "another checkpoint")
    job.runs[-1].terminate()
    assert job.runs[-1].wait(SECONDS) == 75, job.story()
    job.bsprun("-p", "4", "-n", "2", "--resume", folder, "--events", str(tmp_path / "rest.jsonl"), *job.program)
    job.log = tmp_path / "rest.jsonl"
    assert job.right()


def test_a_job_that_waits_and_one_that_resumes_from_its_checkpoints_do_not_share_their_folder(
    jobs: Callable[..., Job], tmp_path: Path
) -> None:
    """The second is told of the first, which cannot be attached while the second writes there."""
    job = jobs("--checkpoint", str(tmp_path / "saved"), "--every", "10")
    job.until(lambda: job.events("checkpoint"), "a checkpoint")
    job.kill()
    name = job.name
    options = ["--resume", str(tmp_path / "saved"), "--events", str(tmp_path / "rest.jsonl")]
    second = subprocess.Popen(
        [str(BIN / "bsprun"), *options, *job.program],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=job.environment,
    )  # fmt: skip
    job.runs.append(second)
    assert second.stderr is not None
    assert f"job {name}, which wrote these checkpoints, still waits" in second.stderr.readline()
    assert "another bsprun writes its checkpoints there now" in job.refused("--attach", name)
    second.kill()
    second.communicate()
    job.bsprun("--attach", name)
    assert job.right()


@pytest.mark.parametrize("limit", ["0", "6"])
def test_nobody_waits_longer_than_asked(jobs: Callable[..., Job], limit: str) -> None:
    job = jobs("--orphan-limit", limit)
    job.round(5)
    assert job.processes()
    job.kill()
    if limit != "0":
        assert job.processes()
        asked = subprocess.run([str(BIN / "bsp"), "status"], capture_output=True, text=True, env=job.environment)
        assert asked.stderr.endswith("; bsprun --attach " + asked.stderr.split()[7] + " goes on with the job\n")
    job.until(lambda: not job.processes(), "the end of all processes")
    listed = subprocess.run([str(BIN / "bsp"), "jobs"], capture_output=True, text=True, env=job.environment)
    assert (listed.stdout, listed.returncode) == ("", 0)


def test_ctrl_c_ends_an_attached_job_with_all_that_belongs_to_it(jobs: Callable[..., Job]) -> None:
    job = jobs()
    job.round(20)
    job.kill()
    job.attach()
    job.until(lambda: job.events("attached"), "the next bsprun")
    job.runs[-1].send_signal(signal.SIGINT)
    assert job.runs[-1].wait(SECONDS) == 130
    job.until(lambda: not job.processes(), "the end of all processes")


def test_what_cannot_be_attached_is_said_in_a_line(jobs: Callable[..., Job], tmp_path: Path) -> None:
    job = jobs(program=(RING, "3000", "0.02", "4"))
    job.round(3)
    broken = tmp_path / "broken.json"
    broken.write_text(json.dumps({"name": "x"}))
    broken.chmod(0o600)
    for words, said in [
        (["--attach", "nobody-0000"], f"no job of yours is called 'nobody-0000' on this machine; there are {job.name}"),
        (["--attach", str(tmp_path / "none.json")], "there is no file"),
        (["--attach", str(broken)], "is not the file of a job"),
        (["--attach", job.name, RING], f"leave out {RING}"),
        (["--attach", job.name, "--clones", "2"], "leave out --clones"),
        (["--takeover", RING], "--takeover goes with --attach JOB"),
    ]:
        refused = job.refused(*words)
        assert said in refused and refused.count("\n") == 1, refused
