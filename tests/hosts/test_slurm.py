"""Inside a Slurm allocation, its nodes are where elements run."""

from __future__ import annotations

import itertools
import os
import pty
import time

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

ENDLESS = """\
import itertools, bsp
proc = bsp.process()
for k in itertools.count():
    proc.sync()
    if k == 9 and proc.pid == 0:
        print("under way", flush=True)
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


def test_scancel_ends_a_job_in_one_line_and_leaves_no_folder(allocation: SlurmCluster) -> None:
    (allocation.share / "program.py").write_text(ENDLESS)
    script, out = allocation.share / "job.sh", allocation.share / "cancelled.txt"
    script.write_text(f"#!/bin/bash\n#SBATCH --nodes=3 --ntasks-per-node=2 --output={out}\nbsprun program.py\n")
    done = allocation["h1"].run(["sbatch", "--parsable", str(script)], check=True)
    while not (out.exists() and "under way" in out.read_text()):
        time.sleep(0.05)
    allocation["h1"].run(["scancel", "--full", done.stdout.strip()], check=True)
    while allocation["h1"].run(["squeue", "--noheader"]).stdout:
        time.sleep(0.05)
    assert len([line for line in out.read_text().splitlines() if line.startswith("bsprun: ")]) <= 1
    folders = [host.run(["ls", "/tmp"]).stdout.split() for host in allocation.hosts[1:]]
    assert not [name for name in itertools.chain(*folders) if name.startswith("bsprun-")]


def test_a_host_that_is_not_allocated_is_named(allocation: SlurmCluster) -> None:
    words = ["salloc", "-N2", "--ntasks-per-node=2", "--nodelist=h1,h2", "bsprun", "--hosts", "h1,h3", "program.py"]
    done = allocation["h1"].run(words)
    assert "bsprun: error: host h3: it is no node of this Slurm allocation (srun: error: " in done.stderr


def test_copies_by_srun_are_refused_in_one_line(allocation: SlurmCluster) -> None:
    done = allocation["h1"].run(["salloc", "-N3", "--ntasks-per-node=1", "srun", "bsprun", "-p", "6", "program.py"])
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if line.startswith("bsprun")]
    assert said == [
        "bsprun: error: srun has started 3 copies of bsprun; start one, which starts the elements itself:"
        " leave srun out"
    ]


def test_an_interactive_shell_of_several_tasks_starts_jobs(allocation: SlurmCluster) -> None:
    """`srun --pty` starts a shell for each task; those without the terminal end at once."""
    out = allocation.share / "interactive.txt"
    ours, theirs = pty.openpty()
    words = ["srun", "-N3", "--ntasks-per-node=2", "--pty", "bash", "--norc"]
    shell = allocation["h1"].popen(words, stdin=theirs, stdout=theirs, stderr=theirs)
    os.write(ours, f"bsprun program.py < /dev/null > {out} 2>&1; exit\n".encode())
    assert shell.wait(120) == 0, out.read_text()
    os.close(ours)
    os.close(theirs)
    assert out.read_text() == "h1 h1 h2 h2 h3 h3\n"
