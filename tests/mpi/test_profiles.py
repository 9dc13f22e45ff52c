"""Profiles: each process's own calls, whoever shares its interpreter."""

from __future__ import annotations

import os
import pstats
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.jobs

BSPRUN = os.path.join(os.path.dirname(sys.executable), "bsprun")
PROGRAM = """
import cProfile, pstats, sys
import bsp
proc = bsp.process()

def busy(n):
    for _ in range(n):
        leaf()

def leaf():
    pass

def step(k):
    busy(10 * (proc.pid + 1))
    proc.sync()

def whole():
    for k in range(5):
        step(k)
    busy(3)
    proc.sync(label="last")

if sys.argv[1:]:
    profile = cProfile.Profile()
    profile.runcall(whole)
    calls = {key[2]: value[:2] for key, value in pstats.Stats(profile).stats.items()}
    print(proc.pid, *(calls[name] for name in ("whole", "step", "busy", "leaf")))
else:
    whole()
"""


def job(folder: Path, elements: int, *options: str, words: tuple[str, ...] = ()) -> str:
    (folder / "solver.py").write_text(PROGRAM)
    done = subprocess.run(
        [BSPRUN, "-p", "4", "-n", str(elements), *options, "solver.py", *words],
        cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def failed(folder: Path, elements: int) -> tuple[int, str]:
    (folder / "solver.py").write_text(PROGRAM)
    done = subprocess.run(
        [BSPRUN, "-p", "4", "-n", str(elements), "--profile", "of it", "solver.py"],
        cwd=folder, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("elements", [1, 2])
def test_a_full_disk_is_told_in_one_line(tmp_path: Path, elements: int) -> None:
    (tmp_path / "of it").mkdir()
    (tmp_path / "of it" / "process-3.pstats").symlink_to("/dev/full")
    status, said = failed(tmp_path, elements)
    assert status == 1
    assert said.startswith(f"bsprun: error: element {elements - 1} (processes ")
    assert f" ended by an error of {tmp_path / 'of it'}: No space left on device, " in said
    assert said.count("\n") == 1


def test_a_folder_that_cannot_take_profiles_is_refused_before_the_run(tmp_path: Path) -> None:
    (tmp_path / "of it" / "merged.pstats").mkdir(parents=True)
    told = "bsprun: error: --profile 'of it': 'of it/merged.pstats' cannot be written: Is a directory\n"
    assert failed(tmp_path, 1) == (2, told)


def calls(path: Path) -> dict[str, Any]:
    """Calls without recursion, and all calls, of the program's functions."""
    stats: Any = pstats.Stats(str(path))
    return {key[2]: value[:2] for key, value in stats.stats.items() if key[0].endswith("solver.py")}


@pytest.mark.parametrize("elements", [1, 2, 4])
def test_cprofile_inside_a_process_counts_its_own_calls(tmp_path: Path, elements: int) -> None:
    wanted = [f"{pid} (1, 1) (5, 5) (6, 6) {(50 * (pid + 1) + 3,) * 2}" for pid in range(4)]
    assert job(tmp_path, elements, words=("own",)).splitlines() == wanted


@pytest.mark.parametrize("elements", [1, 2])
def test_bsprun_profiles_every_process_and_all_together_by_superstep(tmp_path: Path, elements: int) -> None:
    job(tmp_path, elements, "--profile", "profiles")
    folder = tmp_path / "profiles"
    names = ["merged.pstats", *(f"process-{pid}.pstats" for pid in range(4))]
    assert sorted(path.name for path in folder.iterdir()) == names
    for pid in range(4):
        found = calls(folder / f"process-{pid}.pstats")
        assert found["leaf"] == (50 * (pid + 1) + 3,) * 2
        assert found["step"] == (5, 5) and found["whole"] == (1, 1)
    merged = calls(folder / "merged.pstats")
    at = "sync at solver.py:15"
    assert merged[f"leaf [{at}]"] == (50 * (1 + 2 + 3 + 4),) * 2
    assert merged[f"busy [{at}]"] == (20, 20) and merged["busy [last]"] == (4, 4) and merged["leaf [last]"] == (12, 12)


@pytest.mark.parametrize("program", ["", "import bsp\nbsp.process().sync()\n"])
def test_what_runs_after_the_last_superstep_is_in_the_merged_profile(tmp_path: Path, program: str) -> None:
    """A program without a boundary has nothing else."""
    (tmp_path / "solver.py").write_text(f"{program}def late():\n    pass\nfor k in range(7): late()\n")
    done = subprocess.run(
        [BSPRUN, "-p", "3", "--profile", "profiles", "solver.py"], cwd=tmp_path, capture_output=True, timeout=300
    )
    assert (done.returncode, done.stderr) == (0, b"")
    merged = calls(tmp_path / "profiles" / "merged.pstats")
    assert merged["late [after the last superstep]"] == (21, 21)


def test_a_profile_goes_with_a_plain_run_only(tmp_path: Path) -> None:
    (tmp_path / "solver.py").write_text(PROGRAM)
    done = subprocess.run(
        [BSPRUN, "-p", "4", "--profile", "x", "--predict", "solver.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stderr.startswith("bsprun: error: --profile goes with a plain run: without --predict")
    assert not (tmp_path / "x").exists()
