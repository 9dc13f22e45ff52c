"""The tests of real jobs, once more with MPICH in the place of Open MPI."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from mpich import NoMpich, make_environment

pytestmark = [pytest.mark.jobs, pytest.mark.long, pytest.mark.thorough]

ROOT = Path(__file__).resolve().parents[2]
SUBJECTS = ("endings", "examples", "exchange", "jobs", "predict", "profiles", "shared_interpreter", "signals")


def test_the_tests_of_real_jobs_pass_with_mpich(tmp_path: Path) -> None:
    try:
        python = make_environment(tmp_path / "environment")
    except NoMpich as why:
        pytest.skip(str(why))
    vendor = tmp_path / "vendor.py"
    vendor.write_text("from mpi4py import MPI\nimport bsp\nprint(MPI.get_vendor()[0], MPI.COMM_WORLD.size)\n")
    said = subprocess.run([python.with_name("bsprun"), "-p", "2", "-n", "2", vendor], capture_output=True, text=True)
    assert said.stdout == "MPICH 2\nMPICH 2\n", said.stderr
    files = [f"tests/mpi/test_{subject}.py" for subject in SUBJECTS]
    done = subprocess.run(
        [python, "-m", "pytest", *files],
        cwd=ROOT, env=os.environ | {"BSP_TESTS": "few"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
