"""The files of jobs: they are private, and none stays for ever behind a bsprun that was killed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from bsp.command.launch import FOR_NUMPY, Launch
from bsp.faults.bsprun.job import identity
from bsp.faults.bsprun.job_file import WRITTEN_EVERY, JobFile, fresh_name, known

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


def test_a_job_of_a_module_has_its_name() -> None:
    launch = Launch(nprocs=2, elements=2, program=["-m", "package.solver", "x"])
    assert launch.script is None
    assert fresh_name(launch.asked).startswith("solver-")
