"""Inside a Slurm allocation, its nodes are where elements run."""

from __future__ import annotations

import pytest
from hosts.slurm import SlurmCluster

pytestmark = pytest.mark.thorough

PROGRAM = """\
import os, bsp
proc = bsp.process()
names = proc.allgather(os.uname().nodename)
if proc.pid == 0:
    print(*names)
"""


@pytest.fixture(autouse=True)
def program(allocation: SlurmCluster) -> None:
    """A program that all nodes see."""
    (allocation.share / "program.py").write_text(PROGRAM)


@pytest.mark.parametrize(
    ("asked", "words", "names"),
    [
        (["-N3", "--ntasks-per-node=1"], ["-p", "6"], "h1 h1 h2 h2 h3 h3"),
        (["-N3", "--ntasks-per-node=2"], [], "h1 h1 h2 h2 h3 h3"),
        (["-N2", "--nodelist=h2,h3", "--ntasks-per-node=2"], ["-p", "8"], "h2 h2 h2 h2 h3 h3 h3 h3"),
        (["-N3", "--exclusive"], ["-p", "6", "-n", "2"], "h1 h1 h1 h1 h1 h1"),
    ],
)
def test_the_allocation_is_the_machine(
    allocation: SlurmCluster, asked: list[str], words: list[str], names: str
) -> None:
    done = allocation["h1"].run(["salloc", *asked, "bsprun", *words, "program.py"])
    assert done.returncode == 0, done.stderr
    assert done.stdout == names + "\n"


def test_a_batch_job(allocation: SlurmCluster) -> None:
    script = allocation.share / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --nodes=3 --ntasks-per-node=2 --output=out.txt\nbsprun program.py\n")
    done = allocation["h1"].run(["sbatch", "--wait", str(script)])
    assert done.returncode == 0, done.stderr
    assert (allocation.share / "out.txt").read_text() == "h1 h1 h2 h2 h3 h3\n"


def test_copies_by_srun_are_refused_in_one_line(allocation: SlurmCluster) -> None:
    done = allocation["h1"].run(["salloc", "-N3", "--ntasks-per-node=1", "srun", "bsprun", "-p", "6", "program.py"])
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if line.startswith("bsprun")]
    assert said == [
        "bsprun: error: srun has started 3 copies of bsprun; start one, which starts the elements itself:"
        " leave srun out"
    ]
