"""Who asks something of a running job, and what it answers: `bsp jobs`, `bsp status`, `bsp drain`, `bsp join`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bsp.faults.bsprun.incarnation import Incarnation, Vacancy
from bsp.faults.events.log import read
from bsp.hosts.listing import Host

pytestmark = pytest.mark.jobs

BIN = Path(sys.executable).parent
RING = str(Path(__file__).parents[1] / "programs" / "ring.py")
ROUNDS = ("300", "0.02", "4")
SECONDS = 300.0


class Job:
    """A job that listens for joiners, and its user's other commands."""

    def __init__(
        self, folder: Path, *options: str, rounds: tuple[str, ...] = ROUNDS, program: str = RING
    ) -> None:  # fmt: skip
        self.folder, self.log = folder, folder / "events.jsonl"
        self.lingering = folder / "lingering"  # while it is there, the job is not over before what is done to it
        self.lingering.touch()
        self.environment = os.environ | {"XDG_STATE_HOME": str(folder), "LINGERING": str(self.lingering)}
        words = [
            str(BIN / "bsprun"),
            "-p",
            "4",
            "-n",
            "2",
            "--clones",
            "2",
            "--listen",
            "0",
            "--orphan-limit",
            "0",
            *options,
        ]
        with (folder / "out").open("w") as out, (folder / "err").open("w") as err:
            self.process = subprocess.Popen(
                [*words, "--events", str(self.log), program, *rounds], stdout=out, stderr=err, env=self.environment
            )
        self.others: list[subprocess.Popen[str]] = []
        self.until(lambda: self.events("started"), "the start")

    def bsp(self, *words: str, status: int = 0) -> str:
        """A command; its output, or what it says in its refusal."""
        done = subprocess.run([str(BIN / "bsp"), *words], capture_output=True, text=True, env=self.environment)
        assert done.returncode == status, done.stderr + self.story()
        return done.stdout if status == 0 else done.stderr

    @property
    def name(self) -> str:
        return self.bsp("jobs").split()[0]

    @property
    def file(self) -> Path:
        (found,) = (self.folder / "nonstop-bsp" / "jobs").glob("*.json")
        return found

    def join(self, *words: str) -> subprocess.Popen[str]:
        """A process of this machine that joins as if it were another."""
        address = (self.folder / "err").read_text().split(" listens at ")[1].split()[0]
        command = [str(BIN / "bsp"), "join", address, *words]
        joiner = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment
        )
        self.others.append(joiner)
        return joiner

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in read(self.log) if event["kind"] == kind] if self.log.exists() else []

    def until(self, holds: Any, what: str) -> None:
        deadline = time.monotonic() + SECONDS
        while not holds():
            assert self.process.poll() is None and time.monotonic() < deadline, f"{what}\n{self.story()}"
            time.sleep(0.01)

    def story(self) -> str:
        return self.log.read_text() + (self.folder / "err").read_text() if self.log.exists() else ""

    def right(self) -> bool:
        """Wait for the end; whether the output is the plain engine's."""
        self.lingering.unlink()
        assert self.process.wait(SECONDS) == 0, self.story()
        words = [str(BIN / "bsprun"), "-p", "4", "-n", "1", RING, ROUNDS[0], "0", ROUNDS[2]]
        return (self.folder / "out").read_text() == subprocess.run(words, capture_output=True, text=True).stdout


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    found = Job(tmp_path)
    yield found
    for process in (found.process, *found.others):
        process.kill()
        process.communicate()


@pytest.mark.thorough
def test_a_job_is_listed_told_of_and_its_file_is_private_and_goes_with_it(job: Job) -> None:
    assert job.name.startswith("ring-")
    assert f"pid {job.process.pid} on " in job.bsp("jobs") and "ring.py 300 0.02 4" in job.bsp("jobs")
    assert job.file.stat().st_mode & 0o777 == 0o600
    told = json.loads(job.bsp("status", job.name, "--json"))
    assert (told["processes"], told["bundles"]) == (4, 2)
    assert sorted((clone["bundle"], clone["role"]) for clone in told["clones"]) == [
        (0, "live"), (0, "live"), (1, "live"), (1, "live"),
    ]  # fmt: skip
    text = job.bsp("status")
    assert "4 processes in 2 bundles, superstep " in text and "standing by: none" in text
    secret = json.loads(job.file.read_text())["secret"]
    assert secret not in text + job.bsp("jobs") + job.story()
    file = job.file
    job.process.send_signal(signal.SIGINT)
    assert job.process.wait(SECONDS) == 130
    assert not file.exists() and job.bsp("jobs") == ""


def test_the_status_says_who_waits_for_whom_at_which_line_and_since_when(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(
        "import os, sys, time, bsp\nproc = bsp.process()\n"
        "while proc.pid == 3 and not os.path.exists(sys.argv[1]):\n    time.sleep(0.01)\n"
        "print(proc.allreduce(proc.pid))\n"
    )
    job = Job(tmp_path, program=str(tmp_path / "program.py"), rounds=(str(tmp_path / "go"),))
    try:
        clones: list[dict[str, Any]] = []

        def waits() -> bool:
            clones[:] = json.loads(job.bsp("status", job.name, "--json"))["clones"]
            return len(clones) == 4 and all(each["seconds"] > 0.5 for each in clones)

        job.until(waits, "the wait")
        waiting = [each for each in clones if each["bundle"] == 0]
        assert [each["waits_for"] for each in waiting] == [[1], [1]]
        assert {each["line"] for each in waiting} == {"allreduce(object, op='add') at program.py:5"}
        assert not any(each["waits_for"] for each in clones if each["bundle"] == 1)
        assert "waits for bundle 1 in allreduce(object, op='add') at program.py:5" in job.bsp("status")
        (tmp_path / "go").touch()
        assert job.process.wait(SECONDS) == 0
    finally:
        job.process.kill()
        job.process.wait()


@pytest.mark.thorough
def test_a_host_joins_takes_everything_over_and_the_first_is_left(job: Job) -> None:
    """All that is moved is moved without a round lost, and the output is the same."""
    key = job.folder / "key"
    key.touch(0o600)
    key.write_text(json.loads(job.file.read_text())["secret"])
    joiner = job.join("--slots", "4", "--name", "second", "--key-file", str(key))
    job.until(lambda: len(job.events("appeared")) == 4, "agents on the new host")
    assert job.bsp("drain", job.name, "localhost") == "no element is left on localhost\n"
    assert {event["element"] for event in job.events("left")} == {0, 1, 2, 3}
    told = json.loads(job.bsp("status", job.name, "--json"))
    assert {clone["host"] for clone in told["clones"]} == {"second"}
    refused = job.bsp("drain", job.name, "second", status=2)
    assert "host second cannot be left (bsp drain): there is no other host" in refused
    assert job.right()
    assert job.events("ended")[0]["rounds_lost"] == 0 and not job.events("died")
    joiner.wait(SECONDS)


@pytest.mark.thorough
def test_a_joiner_that_is_interrupted_leaves_in_good_order(job: Job) -> None:
    joiner = job.join("--slots", "2", "--name", "second", "--key-file", str(job.file))
    job.until(lambda: len(job.events("appeared")) == 2, "agents on the new host")
    job.process.send_signal(0)
    first = json.loads(job.bsp("status", "--json"))["standbys"]
    assert set(first.values()) == {"second"}
    joiner.send_signal(signal.SIGINT)
    assert joiner.wait(SECONDS) == 0
    assert [event["reason"] for event in job.events("drained")] == ["SIGINT"]
    assert job.right() and job.events("ended")[0]["rounds_lost"] == 0


@pytest.mark.thorough
def test_a_host_that_has_joined_twice_is_left_everywhere(job: Job) -> None:
    """One that was lost and joins again is in the list twice: `bsp drain` empties what is there now, too."""
    joiners = [job.join("--slots", "1", "--name", "second", "--key-file", str(job.file)) for _ in range(2)]
    job.until(lambda: len(job.events("appeared")) == 2, "agents of both")
    assert job.bsp("drain", job.name, "second") == "no element is left on second\n"
    assert "second" not in json.loads(job.bsp("status", job.name, "--json"))["standbys"].values()
    assert [joiner.wait(SECONDS) for joiner in joiners] == [0, 0]
    assert job.right() and not job.events("died")


@pytest.mark.thorough
def test_a_host_is_left_when_a_command_says_that_it_will_be_taken(tmp_path: Path) -> None:
    """--leave-when is asked on each host: here by its name."""
    gone = tmp_path / "gone"
    job = Job(tmp_path, "--leave-when", f'test -e {gone} && test "$SECOND" = yes', rounds=("3000", "0.01", "4"))
    try:
        job.environment["SECOND"] = "yes"
        job.join("--slots", "2", "--name", "second", "--key-file", str(job.file))
        job.until(lambda: len(job.events("appeared")) == 2, "agents on the new host")
        gone.touch()
        job.until(lambda: len(job.events("left")) == 2, "the departure")
        assert [event["host"] for event in job.events("drained")] == ["second"]
    finally:
        for process in (job.process, *job.others):
            process.kill()
            process.communicate()


@pytest.mark.thorough
def test_who_has_not_the_key_or_asks_for_what_is_not_there_is_told_so_in_a_line(job: Job, tmp_path: Path) -> None:
    """A stranger's key is not answered; the job does not notice."""
    for words, said in [
        (["drain", job.name, "h7"], "the job has no host h7; it has localhost"),
        (["status", "nobody-0000"], f"no job of yours is called 'nobody-0000' on this machine; there are {job.name}"),
        (["status", str(tmp_path / "none.json")], "there is no file"),
        (["join", "nowhere"], "'nowhere' is no address; it is HOST:PORT"),
        (["join", "h1:5000"], "no key: set BSP_JOB_KEY"),
        (["join", "h1:5000", "--key-file", str(tmp_path / "none")], "No such file"),
    ]:
        refused = job.bsp(*words, status=2)
        assert said in refused and refused.count("\n") == 1
    for held in ("", "x" * 39, " " * 40, "~" * 40, "\u00e9" * 20, "{", "{}", "\0"):
        no_key = tmp_path / "no key"
        no_key.write_text(held)
        no_key.chmod(0o600)
        refused = job.bsp("join", "h1:5000", "--key-file", str(no_key), status=2)
        assert "holds no key: a key has 40 characters" in refused and refused.count("\n") == 1
    key = tmp_path / "open"
    key.write_text("x" * 40)
    key.chmod(0o644)
    assert f"others may read it: chmod 600 {key}" in job.bsp("join", "h1:5000", "--key-file", str(key), status=2)
    assert job.process.poll() is None


@pytest.mark.thorough
def test_a_joiner_with_another_key_is_not_heard(job: Job, tmp_path: Path) -> None:
    from bsp.faults.carrier.job_key import fresh

    key = tmp_path / "another"
    key.touch(0o600)
    key.write_text(fresh().secret.decode())
    joiner = job.join("--key-file", str(key))
    assert joiner.wait(SECONDS) == 2
    assert joiner.stderr is not None and "does not answer; it hears only who has its key" in joiner.stderr.read()
    assert not job.events("joined") and job.process.poll() is None


def test_no_agent_is_started_on_a_host_that_was_left_before_it_was_there() -> None:
    """It would never appear, and whatever place it was to take would stay empty."""
    incarnation = Incarnation.__new__(Incarnation)
    launched: list[tuple[int, int]] = []
    incarnation.crew = cast(Any, SimpleNamespace(left={1}, launch=lambda *where: launched.append(where)))
    incarnation.homes = cast(Any, SimpleNamespace(hosts=[Host("h1", 2), Host("h2", 2), Host("h3", 2)]))
    incarnation._vacancies, incarnation._numbers = [Vacancy(0.0, 0, False)], 4
    incarnation._use(1)
    assert (launched, len(incarnation._vacancies)) == ([], 1)
    incarnation._use(2)
    assert (launched, len(incarnation._vacancies)) == ([(4, 2), (5, 2)], 0)
