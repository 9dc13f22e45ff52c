"""When a host is lost matters to no output: at the start, in each superstep, in a join, in a checkpoint, at the end."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil
import pytest
from hosts.cluster import Cluster, Host
from hosts.nonstop_job import HALF, STEPS, Job, plain

pytestmark = [pytest.mark.jobs, pytest.mark.thorough, pytest.mark.usefixtures("nothing_left")]

LAST = 5
PLACES = [*[f"round {k}" for k in range(LAST + 1)], "loop is over", "text is over"]
CLONES = 8  # of 4 elements


@pytest.fixture(scope="module")
def steps(four_hosts: Cluster) -> str:
    """What the plain engine prints for six rounds of steps.py."""
    return plain(four_hosts["h1"], STEPS, str(LAST + 1), "nowhere", "0")


@pytest.mark.parametrize("place", PLACES)
def test_a_host_is_killed_in_each_superstep(four_hosts: Cluster, steps: str, place: str) -> None:
    """With both clones of everybody in that superstep; the survivors go on before anybody has missed the host."""
    job = Job(four_hosts, "-n", "4", "--clones", "2", "--hosts", HALF, program=STEPS,
              rounds=(str(LAST + 1), place, "0"), strikes=True)  # fmt: skip
    job.reached(count=CLONES)
    four_hosts["h3"].crash()
    job.let_go()
    status, out, err = job.end()
    assert (status, out) == (0, steps), err + job.story()
    assert job.events("ended")[0]["rounds_lost"] == 0


def keeper_runs(host: Host) -> bool:
    """Whether bsprun has reached the host: the first program of the job is there."""
    return any("bsp.faults.engine" in " ".join(_words(process)) for process in host.processes())


def agents_run(host: Host) -> bool:
    """Whether the keeper has forked: what it forks agents from, and an agent."""
    return sum("bsp.faults.engine.keeper" in " ".join(_words(process)) for process in host.processes()) >= 3


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.parametrize("strike", [Host.crash, Host.power_off])
@pytest.mark.parametrize("moment", [keeper_runs, agents_run])
def test_a_host_is_lost_at_the_start(
    four_hosts: Cluster, steps: str, moment: Callable[[Host], bool], strike: Callable[[Host], None]
) -> None:
    """The job runs without it, or is refused by the name of the host."""
    job = Job(four_hosts, "-n", "4", "--clones", "2", "--hosts", HALF, program=STEPS,
              rounds=(str(LAST + 1), "nowhere", "0"))  # fmt: skip
    job.until(lambda: moment(four_hosts["h3"]))
    strike(four_hosts["h3"])
    began = time.monotonic()
    status, out, err = job.end()
    if status == 0:
        assert out == steps, err + job.story()
        return
    assert (status, out) == (2, "")
    assert err.startswith("bsprun: error: host h3: ") and err.count("\n") == 1, err
