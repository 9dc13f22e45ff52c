"""Jobs with the Open MPI of the system, which may be older than the one from PyPI."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from mpich import make_environment_without_mpi

from bsp.host import is_open_mpi

pytestmark = [pytest.mark.jobs, pytest.mark.thorough]

FOLDERS = "/usr/bin:/bin"  # without the environment of the tests, in which the Open MPI from PyPI is


def test_a_job_starts_with_the_open_mpi_of_the_system(tmp_path: Path) -> None:
    mpiexec = shutil.which("mpiexec", path=FOLDERS)
    if mpiexec is None or not is_open_mpi(mpiexec):
        pytest.skip("the system has no Open MPI")
    python = make_environment_without_mpi(tmp_path / "environment")
    script = tmp_path / "sum.py"
    script.write_text("import bsp\nproc = bsp.process()\nprint(proc.allreduce(proc.pid))\n")
    done = subprocess.run(
        [python.with_name("bsprun"), "-p", "4", "-n", "2", script],
        env=os.environ | {"PATH": FOLDERS}, stdin=subprocess.DEVNULL, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "6\n" * 4), done.stderr
