"""A host that cannot take part is told soon, in one clear line: which host, what is wrong, what to do."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hosts.cluster import Cluster, Host

pytestmark = pytest.mark.thorough

_SECONDS = 15


@pytest.fixture(autouse=True)
def program(hosts: Cluster) -> Path:
    """A program that all hosts see."""
    path = hosts.share / "program.py"
    path.write_text("import bsp\nbsp.process().sync()\n")
    return path


def refused(hosts: Cluster, *words: str) -> str:
    """Return what `bsprun` prints when it does not start."""
    done = hosts["h1"].run(["bsprun", *words, "program.py"], timeout=90)
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert not any(host.processes() for host in hosts.hosts if host.name != "h3")  # where a test breaks things
    return done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--hosts", "h1:2,h1:2"], "host h1 is there twice"),
        (["--hosts", "h2,10.77.0.2"], "is this a host that is given under another name, too?"),
        (["--hosts", "h1:0"], "host h1 has '0' slots"),
        (["--hosts", "h1:-2"], "host h1 has '-2' slots"),
        (["--hosts", "h1:two"], "host h1 has 'two' slots"),
        (["--hosts", ""], "is not a host"),
        (
            ["-n", "5", "-p", "5", "--hosts", "h1:2,h2:2"],
            "-n 5 elements, but h1:2, h2:2 have 4 slots; use -n 4 or less",
        ),
        (["--hosts", "h1", "--hostfile", "x"], "leave one out"),
        (["--hostfile", "nowhere"], "cannot be read"),
        (["--mpi-args", "--host h2:2"], "name the hosts with bsprun's own --hosts"),
        (["--hosts", "h2,nowhere"], "host nowhere: its name cannot be resolved"),
    ],
)
def test_bad_input(hosts: Cluster, words: list[str], said: str) -> None:
    assert said in refused(hosts, *words)


def test_a_probe_of_hosts_asks_all_of_them_before_it_measures_one(hosts: Cluster) -> None:
    environment = hosts.environment() | {"BSP_MACHINES": str(hosts.share / "machines")}
    words = ["bsp", "probe", "--hosts", "h1,nowhere", "--seconds", "600"]
    done = hosts["h1"].run(words, timeout=90, env=environment)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("bsp probe: error: host nowhere: its name cannot be resolved")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("h1 slots=2\nh1 slots=2\n", "host h1 is there twice"),
        ("h1 slots=2\nh2 slts=2\n", "line 2: unknown key 'slts=2'"),
        ("h1 slots=0\n", "line 1: host h1 has '0' slots"),
        ("# nobody\n\n", "names no host"),
    ],
)
def test_bad_hostfile(hosts: Cluster, text: str, said: str) -> None:
    (hosts.share / "hostfile").write_text(text)
    assert said in refused(hosts, "--hostfile", "hostfile")


@pytest.fixture
def changed(hosts: Cluster) -> Iterator[Host]:
    """A host that the test breaks; it is new afterwards."""
    yield hosts["h3"]
    hosts["h3"].crash()
    hosts["h3"].power_on()


def broken(hosts: Cluster, said: str, places: str = "h1,h2,h3:2") -> None:
    began = time.monotonic()
    found = refused(hosts, "-p", "4", "--hosts", places)
    assert said in found, found
    assert "host h3" in found or "to host h3" in found
    assert time.monotonic() - began < 4 * _SECONDS  # 15 s on an idle machine


def test_no_python_there(hosts: Cluster, changed: Host) -> None:
    changed.run(["mount", "-t", "tmpfs", "none", str(Path(sys.executable).parents[1])], check=True)
    broken(hosts, "must be installed at the same place on every host")


def test_a_python_that_may_not_be_run_is_no_matter_of_ssh(hosts: Cluster, changed: Host) -> None:
    python = Path(sys.executable).resolve()
    changed.run(
        ["sh", "-c", f"touch /tmp/closed; chmod 644 /tmp/closed; mount --bind /tmp/closed {python}"], check=True
    )
    broken(hosts, f"{sys.executable} cannot be run there (")


def test_a_login_that_hangs(hosts: Cluster, changed: Host) -> None:
    changed.run(["sh", "-c", "printf '#!/bin/sh\\nsleep 1000\\n' > /tmp/hang; chmod +x /tmp/hang"], check=True)
    changed.run(["sh", "-c", "mount --bind /tmp/hang /bin/bash"], check=True)
    broken(hosts, "did not answer within")


def test_a_login_that_prints_does_no_harm(hosts: Cluster, changed: Host) -> None:
    changed.run(["sh", "-c", "printf '#!/bin/sh\\necho Welcome to this machine\\nexec /bin/sh \"$@\"\\n' > /tmp/hello"])
    changed.run(["sh", "-c", "chmod +x /tmp/hello; mount --bind /tmp/hello /bin/bash"], check=True)
    done = hosts["h1"].run(["bsprun", "-p", "2", "--hosts", "h1,h3", "program.py"])
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_full_dev_shm(hosts: Cluster, changed: Host) -> None:
    changed.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", "/dev/shm"], check=True)
    broken(hosts, "/dev/shm is full")


def test_a_full_tmp(hosts: Cluster, changed: Host) -> None:
    changed.run(["mount", "-o", "remount,size=512k", "/tmp"], check=True)
    broken(hosts, "/tmp is full: ")


def test_a_firewall_between_two_hosts(hosts: Cluster, changed: Host) -> None:
    changed.run(["ip", "route", "add", "blackhole", f"{hosts['h2'].address}/32"], check=True)
    broken(hosts, "cannot connect to host")


def test_a_firewall_that_lets_only_some_ports_through(hosts: Cluster, changed: Host) -> None:
    rule = ["ip", "rule", "add", "pref", "20", "ipproto", "tcp", "sport", "1024-32767", "blackhole"]
    changed.run(rule, check=True)  # MPI takes ports from 1024 on
    broken(hosts, "cannot connect to host")


def test_a_key_that_ssh_does_not_trust(hosts: Cluster) -> None:
    reach = "ssh -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=/dev/null {host}"
    said = refused(hosts, "--reach", reach, "--hosts", "h1,h2")
    assert "host h2: ssh does not trust it (Host key verification failed.): its key is new here" in said


def test_no_sshd(hosts: Cluster, changed: Host) -> None:
    changed.run(["pkill", "sshd"], check=True)
    broken(hosts, "cannot be reached")


def test_a_host_that_is_off(hosts: Cluster, changed: Host) -> None:
    changed.power_off()
    broken(hosts, "cannot be reached")


def test_a_working_folder_that_is_not_there(hosts: Cluster) -> None:
    hosts["h1"].run(["sh", "-c", "mkdir -p /tmp/mine; cp program.py /tmp/mine"], check=True)
    done = hosts["h1"].run(["sh", "-c", "cd /tmp/mine; bsprun -p 2 --hosts h1,h3 program.py"])
    assert done.returncode == 2
    assert "host h3: No such file or directory there: /tmp/mine" in done.stderr


def test_a_program_that_is_not_there(hosts: Cluster) -> None:
    done = hosts["h1"].run(["sh", "-c", "cp program.py /tmp/own.py; bsprun -p 2 --hosts h1,h3 /tmp/own.py"])
    assert done.returncode == 2
    assert "host h3: script '/tmp/own.py' does not exist there" in done.stderr


def test_an_element_that_cannot_start_is_named_with_its_host(hosts: Cluster, changed: Host) -> None:
    import mpi4py

    module = next(Path(mpi4py.__file__).parent.glob("MPI.*.so"))
    changed.run(["sh", "-c", f"touch /tmp/empty; mount --bind /tmp/empty {module}"], check=True)
    done = hosts["h1"].run(["bsprun", "-p", "3", "--hosts", "h1,h2,h3", "program.py"])
    assert done.returncode == 1
    said = "bsprun: error: element 2 (process 2) on host h3 ended with status 1, before its first process ran"
    advice = "; what is missing? Try bsp doctor --hosts h1:1,h2:1,h3:1"
    assert done.stderr.splitlines()[-1] == said + advice
    assert "ImportError" in done.stderr
