"""`bsp doctor --hosts`: a line for each host, with what is wrong there and what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hosts.cluster import Cluster
from hosts.slurm import SlurmCluster

pytestmark = pytest.mark.thorough


def lines(hosts: Cluster, *words: str, status: int = 0) -> list[str]:
    """Return what `bsp doctor` prints on h1."""
    done = hosts["h1"].run(["bsp", "doctor", *words])
    assert (done.returncode, done.stderr) == (status, ""), done
    return done.stdout.splitlines()


def test_hosts_on_which_all_works(hosts: Cluster) -> None:
    *of_hosts, job = lines(hosts, "--hosts", "h1,h2:2,h3")
    for host, line in zip(hosts.hosts, of_hosts, strict=True):
        assert line.startswith(f"{host.name}  works: ")
        assert f"{host.address} (eth0)" in line
    assert job == "job         4 elements on all hosts: works"


def test_each_host_that_does_not_work_has_its_line(hosts: Cluster) -> None:
    h2, h3 = hosts["h2"], hosts["h3"]
    h2.run(["mount", "-t", "tmpfs", "none", str(Path(sys.executable).parents[1])], check=True)
    h3.cut()
    found = lines(hosts, "--hosts", "h1,h2,h3,h4", status=1)
    h3.heal()
    h2.crash()
    h2.power_on()
    assert [line.split()[0] for line in found] == ["h1", "h2", "h3", "h4"]
    works, no_python, unreachable, unknown = found
    assert "works" in works
    assert "must be installed at the same place on every host" in no_python
    assert "cannot be reached" in unreachable
    assert "its name cannot be resolved" in unknown


def test_a_program_that_a_host_does_not_have(hosts: Cluster) -> None:
    hosts["h1"].run(["sh", "-c", "echo > /tmp/own.py"], check=True)
    here, there = lines(hosts, "--hosts", "h1,h2", "/tmp/own.py", status=1)
    assert "works" in here
    assert there == f"h2  script '/tmp/own.py' does not exist there (looked in {hosts.share})"


def test_other_versions_are_told(hosts: Cluster) -> None:
    import numpy

    info = next(Path(numpy.__file__).parents[1].glob("numpy-*.dist-info"))
    h3 = hosts["h3"]
    h3.run(["sh", "-c", f"sed 's/^Version: .*/Version: 1.0.0/' {info}/METADATA > /tmp/m"], check=True)
    h3.run(["mount", "--bind", "/tmp/m", f"{info}/METADATA"], check=True)
    here, there = lines(hosts, "--hosts", "h1,h3", status=1)
    h3.crash()
    h3.power_on()
    assert "works" in here
    assert f"numpy is 1.0.0, here {numpy.__version__}: results may differ in their last bits (D7)" in there


def test_a_missing_package_is_told(hosts: Cluster) -> None:
    import mpi4py

    packages = Path(mpi4py.__file__).parents[1]
    others = f"mkdir /tmp/all /tmp/some; mount --bind {packages} /tmp/all; ln -s /tmp/all/* /tmp/some; "
    h3 = hosts["h3"]
    h3.run(["sh", "-c", f"{others} rm /tmp/some/mpi4py*; mount --bind /tmp/some {packages}"], check=True)
    here, there = lines(hosts, "--hosts", "h1,h3", status=1)
    h3.crash()
    h3.power_on()
    assert "works" in here
    assert there == f"h3  mpi4py is missing there, here it is {mpi4py.__version__}: install it"


@pytest.mark.parametrize("words", [[], ["--hosts", "h2,h3"]])
def test_in_a_slurm_allocation(allocation: SlurmCluster, words: list[str]) -> None:
    done = allocation["h1"].run(["salloc", "-N3", "--ntasks-per-node=1", "bsp", "doctor", *words])
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("works") == (3 if words else 4)
