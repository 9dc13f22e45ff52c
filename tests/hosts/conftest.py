"""Fixtures of the tests on several hosts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hosts import cluster, slurm


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
