"""Jobs on several hosts and on one with MPICH, from the `mpich` package, in an environment beside this one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hosts.slurm import SlurmCluster
from mpich import NoMpich, make_environment

pytestmark = pytest.mark.thorough

PROGRAM = """\
import os, sys, bsp
from mpi4py import MPI
proc = bsp.process()
names = proc.allgather(os.uname().nodename)
big = proc.coarray(1 << 18)
big.put((proc.pid + 1) % proc.nprocs, big.local + proc.pid)
proc.sync()
if proc.pid == 0:
    print(MPI.get_vendor()[0], *names, big.local.sum())
if len(sys.argv) > 1 and proc.pid == 3:
    raise ValueError("on purpose")
"""


@pytest.fixture(scope="module")
def mpich(allocation: SlurmCluster) -> Iterator[list[str]]:
    """`bsprun` of an environment that has this one's packages, and MPICH in the place of Open MPI."""
    try:
        python = make_environment(allocation.share / "environment")
    except NoMpich as why:
        pytest.skip(str(why))
    yield [str(python.with_name("bsprun"))]


@pytest.fixture(autouse=True)
def program(allocation: SlurmCluster) -> None:
    """A program that all hosts see."""
    (allocation.share / "program.py").write_text(PROGRAM)


@pytest.mark.parametrize(
    ("words", "names"),
    [
        (["-n", "3"], "h1 h1 h1 h1 h1 h1"),
        (["--hosts", "h1:2,h2:2,h3:2"], "h1 h1 h2 h2 h3 h3"),
        (["--hosts", "h2:1,h3:1"], "h2 h2 h2 h3 h3 h3"),
    ],
)
def test_where_processes_run(allocation: SlurmCluster, mpich: list[str], words: list[str], names: str) -> None:
    done = allocation["h1"].run([*mpich, "-p", "6", *words, "program.py"])
    assert (done.returncode, done.stdout) == (0, f"MPICH {names} {float(5 << 18)}\n"), done.stderr


def test_in_an_allocation(allocation: SlurmCluster, mpich: list[str]) -> None:
    done = allocation["h1"].run(["salloc", "-N3", "--ntasks-per-node=1", *mpich, "-p", "6", "program.py"])
    assert (done.returncode, done.stdout) == (0, f"MPICH h1 h1 h2 h2 h3 h3 {float(5 << 18)}\n"), done.stderr


def test_an_exception_elsewhere(allocation: SlurmCluster, mpich: list[str]) -> None:
    done = allocation["h1"].run([*mpich, "-p", "6", "--hosts", "h1:2,h2:2,h3:2", "program.py", "fail"])
    assert done.returncode == 1
    assert done.stderr.startswith("bsprun: process 3 raised in superstep ")
    assert done.stderr.endswith("ValueError: on purpose\n")
