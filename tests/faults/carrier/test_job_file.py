"""The files of jobs: they are private, and none stays for ever behind a bsprun that was killed."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bsp.command.launch import FOR_NUMPY, Launch
from bsp.faults.bsprun import job_file
from bsp.faults.bsprun.job import Job, Resilience, identity
from bsp.faults.bsprun.job_file import WRITTEN_EVERY, JobFile, fresh_name, known
from bsp.faults.checkpoints.folder import Checkpoint

DAY = 86400.0


def on_several_machines(name: str, orphan_limit: float) -> JobFile:
    """The file of a job whose bsprun is, or was, on another machine."""
    return JobFile(
        name, "secret", ("", "", 1, ""), ("192.0.2.1",), 1, "elsewhere", 0.0, ("train.py",),
        asked={"orphan_limit": orphan_limit},
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of jobs' files."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "nonstop-bsp" / "jobs"


def test_a_file_is_for_its_user_alone(folder: Path) -> None:
    on_several_machines("job", 600.0).write()
    assert (folder / "job.json").stat().st_mode & 0o777 == 0o600 and folder.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(("orphan_limit", "stays"), [(0.0, False), (600.0, False), (2 * DAY, True)])
def test_a_file_goes_when_nobody_waits_for_another_bsprun_any_more(
    folder: Path, orphan_limit: float, stays: bool
) -> None:
    """A bsprun that runs writes its file anew every minute."""
    file = on_several_machines("job", orphan_limit)
    file.write()
    assert [each.name for each in known()] == ["job"]
    then = time.time() - DAY
    os.utime(folder / "job.json", (then, then))
    assert [each.name for each in known()] == ["job"] * stays
    assert (folder / "job.json").exists() == stays
    assert WRITTEN_EVERY < DAY


def test_a_bsprun_is_gone_when_its_number_is_another_process_or_one_that_has_ended() -> None:
    ours = replace(on_several_machines("job", 0.0), host=socket.gethostname(), pid=os.getpid())
    started = job_file.start_of(os.getpid())
    assert started is not None
    assert replace(ours, started=started).runs()
    assert not replace(ours, started=started - 1).runs()
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert not replace(ours, pid=ended.pid).runs()
    assert not replace(ours, pid=ended.pid).runs()


def test_a_job_that_ends_while_jobs_are_listed_hides_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ends", "runs"):
        on_several_machines(name, 600.0).write()
    read = job_file._read

    def ends_then(path: Path) -> JobFile | None:
        found = read(path)
        if path.stem == "ends":
            path.unlink()
        return found

    monkeypatch.setattr(job_file, "_read", ends_then)
    assert [each.name for each in known()] == ["runs"]


@pytest.mark.parametrize("words", [[], FOR_NUMPY], ids=["script", "script for NumPy"])
def test_a_job_is_its_scripts(tmp_path: Path, words: list[str]) -> None:
    """It has its script's name, and a checkpoint of it is refused once the script has changed."""
    script = tmp_path / "train.py"
    script.write_text("first")
    launch = Launch(nprocs=2, elements=2, program=[*words, str(script), "x"])
    before = identity(launch)
    assert fresh_name(launch.asked).startswith("train-")
    assert before["program"] == [*(["--numpy"] if words else []), "train.py", "x"]
    script.write_text("second")
    assert identity(launch) == before | {"script": identity(launch)["script"]}
    assert identity(launch)["script"] != before["script"] != ""


@pytest.mark.parametrize(("nprocs", "asked", "threads"), [(2, None, 1), (2, 3, 3), (1, None, 5), (1, 1, 1)])
def test_a_checkpoint_is_for_as_many_blas_threads_as_wrote_it(
    monkeypatch: pytest.MonkeyPatch, nprocs: int, asked: int | None, threads: int
) -> None:
    """Products have other bytes with another number of them (D8).  One process has a thread on each core."""
    monkeypatch.setattr("bsp.faults.bsprun.job.cores", lambda: 5)
    launch = Launch(nprocs=nprocs, elements=nprocs, program=["-m", "solver"], blas_threads=asked)
    assert identity(launch)["blas_threads"] == threads


def test_a_job_that_resumes_with_another_build_is_warned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Equal bytes presume one build (D7)."""
    job = Job(Launch(nprocs=1, elements=1, program=["-m", "solver"]), Resilience())
    monkeypatch.setattr("bsp.faults.bsprun.job.build", lambda: (("Python", "3.12"), ("NumPy", "2.1")))
    head = {"once": [], "said": 0, "seconds": 1.0, "build": {"Python": "3.12", "NumPy": "1.26"}}
    job.adopt(Checkpoint(tmp_path, "checkpoint-000005", {}, head, ()), fresh=True)
    job.close()
    assert capfd.readouterr().err == (
        "bsprun: warning: checkpoint-000005: NumPy was 1.26 and is 2.1: results may differ in their last bits from "
        "those of a job that was not interrupted\n"
    )


def test_a_job_of_a_module_has_its_name() -> None:
    launch = Launch(nprocs=2, elements=2, program=["-m", "package.solver", "x"])
    assert launch.script is None
    assert fresh_name(launch.asked).startswith("solver-")
