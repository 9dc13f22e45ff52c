"""Messages between agents over real MPI."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bsp.command.launch import Launch
from bsp.host import find_mpiexec

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.jobs
@pytest.mark.parametrize("network", ["tcp,self", "sm,self"])
def test_a_message_that_overtakes_another_does_not_take_its_buffers(network: str) -> None:
    """The first part of a large state is still on its way when a later, small message is there."""
    mpiexec = find_mpiexec()
    assert mpiexec is not None
    command = [mpiexec, "--oversubscribe", "--mca", "btl", network, "-n", "2", sys.executable]
    command.append(str(PROGRAMS / "two_messages.py"))
    environment = os.environ | Launch(nprocs=2, elements=2, program=[]).environment()
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == ["Data D D", "Handover H H"]
