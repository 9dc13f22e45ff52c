"""The three schedules between real ranks: every block arrives whole, whatever its way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bsp.command.launch import Launch
from bsp.host import find_mpiexec, is_open_mpi

pytestmark = pytest.mark.jobs


@pytest.mark.parametrize("elements", [1, 2, 3, 4, 5, 8])
def test_every_schedule_delivers_every_byte(elements: int) -> None:
    environment = os.environ | Launch(nprocs=elements, elements=2, program=[]).environment()
    mpiexec = find_mpiexec()
    assert mpiexec is not None
    script = Path(__file__).with_name("exchange_cases.py")
    more = ["--oversubscribe"] if is_open_mpi(mpiexec) else []
    done = subprocess.run(
        [mpiexec, *more, "-n", str(elements), sys.executable, str(script)],
        env=environment, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"all blocks arrived on {elements} elements" in done.stdout
