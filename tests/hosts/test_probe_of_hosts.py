"""`bsp probe --hosts`: a machine of three levels, by which choices and predictions on those hosts are made."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator

import pytest
from hosts.cluster import Cluster, Host

pytestmark = pytest.mark.thorough

_LINK = 1e9 / 8  # bytes/s
_PLACES = "h1:2,h2:2"
_PROGRAM = "import bsp\nproc = bsp.process()\nproc.allreduce(float(proc.pid))\nproc.sync()\n"


@pytest.fixture(scope="module")
def measured() -> Iterator[tuple[Cluster, dict[str, str]]]:
    """Two hosts with a link of 1 Gb/s, measured, and the environment in which the machine file is found."""
    with Cluster(2, rate="1gbit") as two:
        environment = two.environment() | {"BSP_MACHINES": str(two.share / "machines")}
        command = ["bsp", "probe", "--hosts", _PLACES, "--seconds", "20", "-o", "cluster.toml"]
        done = two.hosts[0].run(command, timeout=600, env=environment)
        if "too busy to be measured" in done.stderr:
            pytest.skip("the machine is too busy to be measured")
        assert done.returncode == 0, done.stderr
        yield two, environment


def recorded(host: Host, environment: dict[str, str], *words: str) -> dict[str, object]:
    """The trace of a small program."""
    done = host.run(["bsprun", "-p", "4", *words, "--trace", "trace.json", "program.py"], env=environment)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout or host.run(["cat", "trace.json"]).stdout)
    return found


@pytest.mark.rest
def test_the_machine_file(measured: tuple[Cluster, dict[str, str]]) -> None:
    two, _ = measured
    found = tomllib.loads((two.share / "cluster.toml").read_text())
    between = found["levels"][-1]
    assert [level["name"] for level in found["levels"]] == ["inside an element", "inside a host", "between hosts"]
    assert [level["ports"] for level in found["levels"]] == [1, 1, 2]
    assert found["machine"]["p"] == 4
    assert found["measured"]["hosts"] == _PLACES
    # however loaded the machine is, no word crosses the link faster than the link carries it
    assert between["g"] / found["machine"]["r"] >= 0.9 * 8 / _LINK


@pytest.mark.rest
def test_a_job_on_these_hosts_and_its_prediction_use_it(measured: tuple[Cluster, dict[str, str]]) -> None:
    two, environment = measured
    (two.share / "program.py").write_text(_PROGRAM)
    h1 = two.hosts[0]
    run = recorded(h1, environment, "--hosts", _PLACES)
    predicted = h1.run(["bsprun", "-p", "4", "--hosts", _PLACES, "--predict", "--json", "program.py"], env=environment)
    assert predicted.returncode == 0, predicted.stderr
    for record in (run, json.loads(predicted.stdout)):
        assert record["machine"]["kind"] == "measured"
        assert record["machine"]["name"].startswith("2-hosts-")
    elsewhere = recorded(h1, environment, "--hosts", "h1:1,h2:1")
    assert elsewhere["machine"]["kind"] == "default"
