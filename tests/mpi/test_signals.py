"""However a job is ended from outside, its status says so and none of its processes is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from bsp.host import find_mpiexec, is_open_mpi
from bsp.hosts import processes

pytestmark = pytest.mark.jobs

BSPRUN = os.path.join(os.path.dirname(sys.executable), "bsprun")
START, END = 300.0, 300.0  # seconds, on a busy machine

COMPUTING = """
    while True:
        pass
"""
WAITING = """
    import signal
    if proc.pid == proc.nprocs - 1:
        signal.pause()
    proc.sync()
"""
THREAD = """
    import threading, time
    threading.Thread(target=time.sleep, args=(10_000,)).start()
"""
PLACES = {"computing": COMPUTING, "waiting in sync": WAITING}


@dataclass
class Job:
    """A running job, and everything it consists of."""

    bsprun: subprocess.Popen[bytes]
    family: list[psutil.Process]
    err: Path
    folder: Path

    @property
    def child(self) -> psutil.Process:
        """mpiexec, or the only element."""
        (child,) = psutil.Process(self.bsprun.pid).children()
        return child

    @property
    def elements(self) -> list[psutil.Process]:
        """The Python interpreters that host processes."""
        return [process for process in self.family if _words(process)[1:3] == ["-m", "bsp.command.start"]]

    def status(self) -> int:
        """How it ended, as a shell would say; then nothing of it may be left."""
        code = self.bsprun.wait(END)
        until(lambda: not self.left(), END, "the end of all processes")
        return code if code >= 0 else 128 - code

    def left(self) -> list[psutil.Process]:
        """What still runs of the job."""
        return [process for process in self.family if _runs(process)]


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:  # it has just gone
        return []


def until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    """Poll until a condition holds; fail after so many seconds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"{what}: not within {seconds} s"
        time.sleep(0.01)


Start = Callable[..., Job]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """`start(elements, place)`: a job of four processes that has come to that place.

    With `early`, its elements exist as processes and are still at their imports.
    """
    jobs: list[Job] = []

    def started(elements: int, place: str, early: bool = False) -> Job:
        script, out, err = (tmp_path / name for name in ("endless.py", "out", "err"))
        lines = "\n".join(line.removeprefix("    ") for line in (PLACES | {"in a thread": THREAD})[place].splitlines())
        script.write_text("import bsp\nproc = bsp.process()\nproc.sync()\nprint('there', flush=True)\n" + lines)
        words = [BSPRUN, "-p", "4", "-n", str(elements), str(script)]
        with out.open("wb") as told, err.open("wb") as said:
            bsprun = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=told, stderr=said, start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # tests may run under nohup
                env=os.environ | {"TMPDIR": str(tmp_path)},
            )  # fmt: skip
        job = Job(bsprun, [], err, tmp_path)
        jobs.append(job)

        def come() -> bool:
            job.family = psutil.Process(bsprun.pid).children(recursive=True)
            return len(job.elements) == elements and (early or "there" in out.read_text())

        until(come, START, "the first superstep")
        return job

    yield started
    for job in jobs:
        for process in job.left():
            process.kill()
        job.bsprun.kill()
        job.bsprun.wait(END)


EVERYWHERE = pytest.mark.parametrize("place", PLACES)
ELEMENTS = pytest.mark.parametrize("elements", [1, 2])
ASKED = {signal.SIGTERM: "ended by SIGTERM", signal.SIGINT: "interrupted", signal.SIGHUP: "ended by SIGHUP",
         signal.SIGQUIT: "ended by SIGQUIT"}  # fmt: skip


@EVERYWHERE
@ELEMENTS
@pytest.mark.parametrize("number", ASKED)
def test_bsprun_asked_to_end_ends_the_job_and_says_why(
    start: Start, number: signal.Signals, elements: int, place: str
) -> None:
    job = start(elements, place)
    job.bsprun.send_signal(number)
    assert job.status() == 128 + number
    said = job.err.read_text()
    assert said.splitlines()[-1] == f"bsprun: {ASKED[number]}"
    assert "Traceback" not in said
    assert list(job.folder.glob("bsprun-*")) == []  # nor is a folder left


@ELEMENTS
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_of_the_terminal_reaches_the_whole_group_and_means_the_same(
    start: Start, number: signal.Signals, elements: int
) -> None:
    job = start(elements, "computing")
    os.killpg(job.bsprun.pid, number)
    assert job.status() == 128 + number
    assert "Traceback" not in job.err.read_text()


@ELEMENTS
def test_a_job_whose_threads_a_signal_ends_has_not_succeeded(start: Start, elements: int) -> None:
    """They may have been writing results; a batch system looks at the status."""
    job = start(elements, "in a thread")
    until(lambda: "the program has ended" in job.err.read_text(), END, "the end of the program")
    job.bsprun.send_signal(signal.SIGTERM)
    assert job.status() == 128 + signal.SIGTERM
    assert job.err.read_text().splitlines()[-1] == "bsprun: ended by SIGTERM"


@ELEMENTS
def test_two_signals_at_once_end_the_job_like_one(start: Start, elements: int) -> None:
    """A closing terminal or a service manager sends SIGTERM and SIGHUP together."""
    job = start(elements, "computing")
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGHUP, signal.SIGCONT):  # both wait when it goes on
        job.bsprun.send_signal(number)
    assert job.status() in (128 + signal.SIGTERM, 128 + signal.SIGHUP)
    assert "Traceback" not in job.err.read_text()


STRUCK = """
import os, signal, sys
from bsp.command import entry, launch
from bsp.hosts import lifeline

place, name, number, when = eval(sys.argv.pop(1)), sys.argv.pop(1), int(sys.argv.pop(1)), sys.argv.pop(1)
real = getattr(place, name)

def struck(*given, **named):
    setattr(place, name, real)
    if when == "before":
        os.kill(os.getpid(), number)
    found = real(*given, **named)
    if when == "behind":
        os.kill(os.getpid(), number)
    return found

setattr(place, name, struck)
sys.exit(entry.bsprun())
"""


@pytest.mark.parametrize(
    ("place", "name", "number", "when", "status", "said"),
    [
        ("signal", "signal", signal.SIGINT, "behind", 130, "bsprun: interrupted\n"),
        ("launch", "Desk", signal.SIGTERM, "before", 143, "bsprun: ended by SIGTERM\n"),
        ("launch", "_attend", signal.SIGTERM, "before", 143, "bsprun: ended by SIGTERM\n"),
        ("lifeline._Element", "read", signal.SIGTERM, "before", 143, "bsprun: ended by SIGTERM\n"),
        ("launch", "_attend", signal.SIGTERM, "behind", 143, "bsprun: ended by SIGTERM\n"),
        ("lifeline.Desk", "drain", signal.SIGTERM, "behind", 143, "bsprun: ended by SIGTERM\n"),
        ("lifeline.Desk", "close", signal.SIGTERM, "before", 0, ""),  # the job has ended
    ],
)
def test_a_signal_at_any_moment_of_a_job_is_one_line_and_leaves_no_folder(
    tmp_path: Path, place: str, name: str, number: int, when: str, status: int, said: str
) -> None:
    (tmp_path / "empty.py").touch()
    found = subprocess.run(
        [sys.executable, "-c", STRUCK, place, name, str(int(number)), when, "-p", "2", "-n", "1", "empty.py"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=tmp_path,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # tests may run in the background
    )  # fmt: skip
    assert (found.returncode, found.stderr) == (status, said)
    assert list(tmp_path.glob("bsprun-*")) == []


@pytest.mark.parametrize("options", [["-n", "1"], ["-n", "2"], ["-n", "2", "--clones", "2"]])
def test_under_nohup_the_job_outlives_its_terminal(tmp_path: Path, options: list[str]) -> None:
    script, go = tmp_path / "waiting.py", tmp_path / "go"
    script.write_text(
        "import os, sys, bsp\nproc = bsp.process()\nprint('there', flush=True)\n"
        "while not proc.allreduce(float(proc.once(lambda: os.path.exists(sys.argv[1])))):\n    pass\n"
        "for _ in range(5000):\n    proc.sync()\nprint('end')\n"
    )
    job = subprocess.Popen(
        ["nohup", BSPRUN, "-p", "2", *options, str(script), str(go)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert job.stdout is not None
    assert job.stdout.readline() == "there\n"
    os.killpg(job.pid, signal.SIGHUP)
    go.touch()
    out, err = job.communicate(timeout=END)
    assert (job.returncode, out.splitlines()[-2:], err) == (0, ["end", "end"], "")


@EVERYWHERE
@ELEMENTS
def test_the_job_dies_with_a_killed_bsprun(start: Start, elements: int, place: str) -> None:
    job = start(elements, place)
    job.bsprun.kill()
    assert job.status() == 137


@ELEMENTS
def test_the_job_dies_with_a_bsprun_killed_while_its_elements_start(start: Start, elements: int) -> None:
    job = start(elements, "computing", early=True)
    job.bsprun.kill()
    assert job.status() == 137


@EVERYWHERE
@ELEMENTS
def test_the_job_dies_with_the_killed_child_of_bsprun(start: Start, elements: int, place: str) -> None:
    job = start(elements, place)
    assert (job.child in job.elements) == (elements == 1)  # else it is mpiexec
    job.child.kill()
    assert job.status() == 137
    whose = "element 0 (processes 0-3) was killed by SIGKILL" if elements == 1 else "the job was ended by SIGKILL"
    assert job.err.read_text().splitlines()[-1].startswith(f"bsprun: error: {whose}")


@EVERYWHERE
@pytest.mark.parametrize("rank", [0, 1])
def test_the_job_dies_with_one_killed_element(start: Start, rank: int, place: str) -> None:
    job = start(2, place)
    ranks = ("OMPI_COMM_WORLD_RANK", "PMI_RANK")  # of Open MPI, of MPICH
    (victim,) = [each for each in job.elements if str(rank) in [each.environ().get(name) for name in ranks]]
    victim.kill()
    assert job.status() == 137
    whose = f"element {rank} (processes {2 * rank}-{2 * rank + 1}) was killed by SIGKILL"
    assert job.err.read_text().splitlines()[-1].startswith(f"bsprun: error: {whose}")


@pytest.mark.timeout(20)
def test_who_has_ended_and_is_not_collected_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first process of a container may collect nobody: every end of a job would take seconds more."""
    monkeypatch.setattr(processes, "GRACE", 1e9)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    process = psutil.Process(child.pid)
    processes.kill([process])
    assert process.status() == psutil.STATUS_ZOMBIE
    assert child.wait() == -signal.SIGKILL
    processes.kill([process])  # nor is it, when it is gone


@pytest.mark.skipif(not is_open_mpi(find_mpiexec() or ""), reason="the files of other MPIs have other names")
def test_open_mpis_shared_memory_has_no_name_while_the_job_runs(tmp_path: Path) -> None:
    """A job that is killed as a whole, as by a batch system, can remove nothing: the files would stay for ever."""
    path = tmp_path / "segments.py"
    path.write_text(
        "import bsp\nbsp.process().sync()\n"
        "maps = [line.split(maxsplit=5)[-1] for line in open('/proc/self/maps') if '/sm_segment.' in line]\n"
        "print(len(set(maps)), all(name.endswith(' (deleted)\\n') for name in maps))\n"
    )
    done = subprocess.run([BSPRUN, "-p", "3", "-n", "3", str(path)], capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.stderr, done.returncode) == ("3 True\n" * 3, "", 0)
