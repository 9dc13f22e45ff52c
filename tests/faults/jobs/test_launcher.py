"""bsprun itself under strain: readers that stand still, disks that are full, signals, a start that goes wrong."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from bsp.faults.bsprun import crew
from bsp.faults.bsprun.incarnation import Incarnation
from bsp.faults.bsprun.job import Job
from bsp.faults.carrier.wire import Wire
from bsp.faults.engine import agent, forks
from bsp.faults.injection import parse
from bsp.faults.protocol.messages import Limits
from bsp.hosts.listing import Host

pytestmark = pytest.mark.jobs

BSPRUN = str(Path(sys.executable).with_name("bsprun"))

PROGRAM = """
import sys, time
import bsp
proc = bsp.process()
state = bsp.State(total=0.0)
for k in proc.rounds(int(sys.argv[1]), state):
    time.sleep(0.01)
    state.total += proc.allreduce(k + proc.pid)
    print(k, proc.pid, state.total, "x" * int(sys.argv[2]), flush=True)
"""


@contextlib.contextmanager
def running(folder: Path, options: str, rounds: int, width: int = 1) -> Iterator[subprocess.Popen[str]]:
    """A job of PROGRAM on 4 elements a copy; its standard error lies in `errors`, its events in `events.jsonl`."""
    (folder / "program.py").write_text(PROGRAM)
    command = [BSPRUN, "-p", "4", "-n", "4", *options.split(), "--events", str(folder / "events.jsonl")]
    command += [str(folder / "program.py"), str(rounds), str(width)]
    with (folder / "errors").open("w") as errors:
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        try:
            yield job
        finally:
            if job.poll() is None:
                job.send_signal(signal.SIGINT)  # SIGKILL would leave its agents waiting for another bsprun
            assert job.stdout is not None
            job.stdout.close()
            job.wait(60)


def events(folder: Path) -> list[dict[str, object]]:
    log = folder / "events.jsonl"
    return (
        [json.loads(line) for line in log.read_text().splitlines(True) if line.endswith("\n")] if log.exists() else []
    )


def wait_for(folder: Path, kind: str, job: subprocess.Popen[str]) -> dict[str, object]:
    """The first event of a kind; the job's own end is the deadline."""
    while True:
        over = job.poll() is not None
        for event in events(folder):
            if event["kind"] == kind:
                return event
        time.sleep(0.01)
        assert not over, (kind, events(folder), (folder / "errors").read_text())


def errors(folder: Path) -> str:
    return (folder / "errors").read_text()


def text(rounds: int, width: int = 1) -> list[str]:
    """What the program prints, in some order of processes."""
    totals = [sum(4 * j + 6 for j in range(k + 1)) for k in range(rounds)]
    return sorted(f"{k} {pid} {float(totals[k])} {'x' * width}" for k in range(rounds) for pid in range(4))


def agents(job: subprocess.Popen[str]) -> list[psutil.Process]:
    """keeper -> fork server -> agents."""
    servers = [server for keeper in psutil.Process(job.pid).children() for server in keeper.children()]
    return [agent for server in servers for agent in server.children()]


@pytest.mark.thorough
def test_a_reader_that_stands_still_does_not_stop_the_job(tmp_path: Path) -> None:
    """`bsprun ... | less`: nothing is read before the job has ended; then it is all there."""
    with running(tmp_path, "--clones 2", 30, 10_000) as job:
        assert wait_for(tmp_path, "ended", job)["status"] == 0
        assert job.poll() is None  # it holds a megabyte that nobody has read
        said, _ = job.communicate(timeout=300)
        assert job.returncode == 0
        assert sorted(said.splitlines()) == text(30, 10_000)


def test_a_job_that_cannot_write_its_checkpoint_ends_all_the_same(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoints"
    with running(tmp_path, f"--clones 2 --checkpoint {folder} --every 1000000", 100_000) as job:
        wait_for(tmp_path, "started", job)
        folder.rmdir()
        folder.write_text("")
        job.send_signal(signal.SIGTERM)
        job.communicate(timeout=300)
        assert job.returncode == 128 + signal.SIGTERM
    assert "no checkpoint at superstep" in errors(tmp_path)
    assert f"ended by SIGTERM; there is no checkpoint in {folder}\n" in errors(tmp_path)


def test_checkpoints_that_all_fail_are_told_once(tmp_path: Path) -> None:
    """Fail as a write to a full disk does."""
    folder = tmp_path / "checkpoints"
    folder.mkdir(0o700)
    for superstep in range(60):
        (folder / f"checkpoint-{superstep:06d}").touch()  # no folder can be made there
    (tmp_path / "program.py").write_text(
        "import bsp\nproc = bsp.process()\nfor k in proc.rounds(50, bsp.State()):\n    proc.sync()\n"
    )
    command = [BSPRUN, "-p", "2", "-n", "2", "--clones", "2", "--checkpoint", str(folder), "--every", "10"]
    command += ["--events", str(tmp_path / "events.jsonl"), str(tmp_path / "program.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0
    assert len([event for event in events(tmp_path) if "error" in event]) > 1
    assert done.stderr.count("no checkpoint at superstep") == 1
    assert done.stderr.endswith("; the next warning comes after one that succeeds\n")


def test_a_second_sigterm_ends_a_job_that_comes_to_no_round(tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text("import bsp\nproc = bsp.process()\nwhile True:\n    proc.sync()\n")
    command = [BSPRUN, "-p", "2", "-n", "2", "--clones", "2", "--checkpoint", str(tmp_path / "ck")]
    command += ["--events", str(tmp_path / "events.jsonl"), str(tmp_path / "idle.py")]
    job = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert job.stderr is not None
    wait_for(tmp_path, "started", job)
    job.send_signal(signal.SIGTERM)
    assert "a second SIGTERM ends the job" in job.stderr.readline()
    job.send_signal(signal.SIGTERM)
    assert job.wait(timeout=300) == 128 + signal.SIGTERM
    job.stderr.close()


@pytest.mark.thorough
def test_a_folder_with_checkpoints_of_this_very_job_is_not_begun_anew(tmp_path: Path) -> None:
    """A restart would take the states of the run before for its own."""
    options = f"--clones 2 --checkpoint {tmp_path / 'ck'} --every 10"
    with running(tmp_path, options, 25) as job:
        job.communicate(timeout=300)
        assert job.returncode == 0, errors(tmp_path)
    before = sorted((tmp_path / "ck").iterdir())
    with running(tmp_path, options, 25) as job:
        said, _ = job.communicate(timeout=300)
        assert (job.returncode, said) == (2, "")
    assert "checkpoints of this very job are there already, the last is checkpoint-0000" in errors(tmp_path)
    assert f"--resume {tmp_path / 'ck'}" in errors(tmp_path)
    assert sorted((tmp_path / "ck").iterdir()) == before
    with running(tmp_path, options, 26) as job:  # other arguments: another job
        job.communicate(timeout=300)
        assert job.returncode == 0, errors(tmp_path)


@pytest.mark.thorough
def test_an_element_that_dies_before_it_appears_costs_the_job_nothing(tmp_path: Path) -> None:
    """Killed as soon as it is there: before it has connected, while it does, or just behind it."""
    with running(tmp_path, "--clones 2", 30) as job:
        while job.poll() is None and not agents(job):
            time.sleep(0.001)
        agents(job)[0].kill()
        said, _ = job.communicate(timeout=300)
        assert job.returncode == 0, errors(tmp_path)
        assert sorted(said.splitlines()) == text(30)
    assert " in 60 s" not in errors(tmp_path)  # its death was seen


@pytest.mark.thorough
def test_a_host_under_two_names_is_refused_because_clones_would_be_lost_together(tmp_path: Path) -> None:
    (tmp_path / "program.py").touch()
    words = ["-p", "1", "--clones", "2", "--hosts", "localhost,127.0.0.1", str(tmp_path / "program.py")]
    done = subprocess.run([BSPRUN, *words], capture_output=True, text=True, check=False)
    said = "host 127.0.0.1 is localhost under another name; give it once, with all its slots"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"bsprun: error: {said}\n")


@pytest.mark.parametrize("clones", [[], ["--clones", "2"]])
def test_a_way_to_hosts_that_is_no_command_is_named_with_the_host(tmp_path: Path, clones: list[str]) -> None:
    (tmp_path / "program.py").touch()
    words = ["-p", "2", *clones, "--hosts", "a:4", "--reach", "no-such-shell {host}", str(tmp_path / "program.py")]
    done = subprocess.run([BSPRUN, *words], capture_output=True, text=True, check=False)
    said = "bsprun: error: host a: 'no-such-shell' cannot be started here: No such file or directory"
    assert (done.returncode, done.stdout, done.stderr.splitlines()[-1]) == (2, "", said)


def test_who_stops_bsprun_for_long_is_told_what_became_of_the_job(tmp_path: Path) -> None:
    with running(tmp_path, "--clones 2 --orphan-limit 0", 100_000) as job:
        wait_for(tmp_path, "started", job)
        all_agents = agents(job)
        job.send_signal(signal.SIGSTOP)
        psutil.wait_procs(all_agents, timeout=300)  # they hear nobody
        job.send_signal(signal.SIGCONT)
        job.communicate(timeout=300)
        assert job.returncode == 3
    assert re.search(r"had not heard bsprun, which stood still for \d+ s, and ended itself after 5 s", errors(tmp_path))


def test_a_job_goes_on_when_its_bsprun_does(tmp_path: Path) -> None:
    """Ctrl-Z and fg: nobody ends itself meanwhile; seven seconds are more than anybody's patience."""
    with running(tmp_path, "--clones 2", 30, 100) as job:
        wait_for(tmp_path, "started", job)
        job.send_signal(signal.SIGSTOP)
        time.sleep(7)
        job.send_signal(signal.SIGCONT)
        said, _ = job.communicate(timeout=300)
        assert job.returncode == 0, errors(tmp_path)
        assert sorted(said.splitlines()) == text(30, 100)
    assert not [event for event in events(tmp_path) if event["kind"] in ("died", "fenced")]


def test_the_jobs_key_is_in_no_argument_environment_or_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever knows it may have bsprun unpickle what he likes."""
    settings: list[dict[str, str]] = []
    written = json.dumps

    def dumps(value: Any, **how: Any) -> str:
        if isinstance(value, dict) and "secret" in value:
            settings.append(value)
        return written(value, **how)

    monkeypatch.setattr(crew.json, "dumps", dumps)
    (tmp_path / "program.py").write_text(PROGRAM)
    program = [str(tmp_path / "program.py"), "1000000", "1"]
    with contextlib.closing(crew.Crew([Host("localhost", 2)], program, None, True)) as job:
        job.start(os.environ, lambda: False)
        limits = asdict(Limits())
        job.begin(1, {"bundles": 2, "nprocs": 2, "seed": 0, "machine": None, "every": 0, "limits": limits})
        job.launch(0, 0)
        while not job.known():
            job.hear(0.1)
        family = psutil.Process().children(recursive=True)  # of all tests in this process
        seen = [process for process in family if program[0] in process.cmdline()]
        (secret,) = (each["secret"] for each in settings)
        assert len(seen) >= 3  # the keeper, what agents are forked from, an agent
        told = "".join(f"{process.cmdline()} {process.environ()}" for process in seen)
        assert told and secret not in told
        for process in seen:  # nor in a file with a name
            names = [os.readlink(link) for link in Path(f"/proc/{process.pid}/fd").iterdir() if link.is_symlink()]
            for name in names:
                if name.startswith("/") and Path(name).is_file():
                    assert secret.encode() not in Path(name).read_bytes(), name
    until = time.monotonic() + 60
    while left := [process for process in seen if _runs(process)]:
        assert time.monotonic() < until, left
        time.sleep(0.01)


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_an_agent_whose_fork_server_has_ended_ends_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where it notices this only as it asks for a worker."""

    def run(self: agent.Agent) -> None:
        forks.ask(Wire(server), forks.Fork(0, 0, 0, True), socket.socket())

    ended = list[str]()
    monkeypatch.setattr(agent.Agent, "__init__", lambda self, *settings: None)
    monkeypatch.setattr(agent.Agent, "run", run)
    monkeypatch.setattr(agent, "_end_by_force", ended.append)
    monkeypatch.setattr(agent, "leave_when_asked", lambda: None)
    monkeypatch.setattr(agent.signal, "signal", lambda number, handler: None)
    with socket.socket() as server:
        agent.lead({}, [])(server, forks.Fork(0, 0, 0, True))
    assert ended == ["the fork server or the keeper is gone"]
    assert capfd.readouterr().err == ""


def test_two_signals_at_once_are_told_once() -> None:
    """A closing terminal sends SIGHUP and SIGTERM together; the first one gives the status."""
    told = list[str]()
    job = SimpleNamespace(signals=[signal.SIGTERM, signal.SIGHUP], left=False, say=told.append)
    job.interrupted, job.leave = Job.interrupted, lambda number: Job.leave(job, number)  # type: ignore[arg-type]
    wake, waker = socket.socketpair()
    with wake, waker:
        of_bsprun = SimpleNamespace(job=job, asked=SimpleNamespace(checkpoint=None), _wake=wake)
        Incarnation._hear_signals(of_bsprun)  # type: ignore[arg-type]
    assert (told, of_bsprun.status, job.signals) == (["ended by SIGTERM"], 128 + signal.SIGTERM, [])


def test_a_fault_hits_a_worker_that_is_faster_than_the_word_of_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker's first superstep may come first on a busy machine; number 0 would be all processes of the host."""
    hit = list[int]()
    monkeypatch.setattr(agent, "_hit", lambda fault, pid: hit.append(pid))
    ours, server = socket.socketpair()
    with ours, server:
        of_element = object.__new__(agent.Agent)
        of_element.element, of_element._forks = 0, Wire(ours)
        of_element._faults = list(parse("kill:worker=0,superstep=0"))
        worker = agent._Worker(0, 7, Wire(ours))
        of_element._workers = {7: worker}
        monkeypatch.setattr(of_element, "_post", lambda message: None)
        monkeypatch.setattr(of_element, "_await_confirmation", lambda fault: None)
        Wire(server).send(forks.WorkerStarted(7, 4321))
        of_element._strike(worker, SimpleNamespace(compute=0.0, superstep=0))  # type: ignore[arg-type]
    assert hit == [4321]


def test_an_agent_that_is_lost_before_its_introduction_is_read_has_not_come() -> None:
    """An agent that bsprun has already lost is not taken in when its introduction is read afterwards."""
    of_bsprun = SimpleNamespace(crew=SimpleNamespace(running=lambda: {0, 1}), _came={0, 1})
    Incarnation._greet(of_bsprun, SimpleNamespace(element=6, pid=7))  # type: ignore[arg-type]
    assert of_bsprun._came == {0, 1}
