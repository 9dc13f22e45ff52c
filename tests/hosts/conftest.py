"""Fixtures of the tests on several hosts."""

from __future__ import annotations

import time
from collections.abc import Iterator

import psutil
import pytest
from hosts import cluster, slurm
from hosts.nonstop_job import RING, ROUNDS, plain


@pytest.fixture(scope="module")
def hosts() -> Iterator[cluster.Cluster]:
    """Three hosts, h1 to h3; a test that ends one starts it again."""
    if why := cluster.missing():
        pytest.skip(why)
    with cluster.Cluster(3) as three:
        yield three


@pytest.fixture(scope="module")
def four_hosts() -> Iterator[cluster.Cluster]:
    """Four hosts, h1 to h4."""
    if why := cluster.missing():
        pytest.skip(why)
    with cluster.Cluster(4) as four:
        yield four


@pytest.fixture(scope="module")
def allocation() -> Iterator[slurm.SlurmCluster]:
    """Three nodes of a Slurm cluster, with two cores each."""
    if why := slurm.missing():
        pytest.skip(why)
    with slurm.SlurmCluster(3) as three:
        yield three


@pytest.fixture
def nothing_left(four_hosts: cluster.Cluster) -> Iterator[None]:
    """No test leaves a process on any host, and each host is on when the next begins."""
    yield
    for host in four_hosts.hosts:
        host.heal_or_power_on()
    for mark in four_hosts.share.glob("marks/striking *"):  # of a test that has failed before it let its job go
        mark.unlink()
    until = time.monotonic() + 60
    while (found := left(four_hosts)) and time.monotonic() < until:
        psutil.wait_procs(found, timeout=0.2)
    told = [" ".join(process.cmdline()) for process in found]
    for process in found:
        process.kill()
    assert not told


def left(hosts: cluster.Cluster) -> list[psutil.Process]:
    """The processes on all hosts."""
    return [process for host in hosts.hosts for process in host.processes()]


@pytest.fixture(scope="module")
def expected(four_hosts: cluster.Cluster) -> str:
    """What the plain engine prints for ring.py."""
    return plain(four_hosts["h1"], RING, ROUNDS[0], "0", ROUNDS[2])
