"""The test bed itself: hosts are apart from each other, and nothing stays behind, however a test run ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from hosts.cluster import Cluster, Host

_LISTENING = """\
import socket
with socket.create_server(("", 7000)) as server:
    print("listening", flush=True)
    connection, _ = server.accept()
    connection.recv(1)
"""
_ASKING = """\
import socket, sys
with socket.create_connection(("h2", 7000)) as connection:
    print("connected", flush=True)
    connection.settimeout(2.0)
    try:
        print("closed" if not connection.recv(1) else "?")
    except TimeoutError:
        print("silence")
    except ConnectionError:
        print("closed")
"""


_TEST_RUN = """\
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # what is begun in the background ignores it
from hosts.cluster import Cluster
with Cluster(2) as two:
    print(two.share, flush=True)
    time.sleep(1000)
"""


def said(host: Host, *command: str) -> str:
    return host.run(list(command), check=True).stdout.strip()


def test_each_host_has_its_own_of_everything(hosts: Cluster) -> None:
    for host in hosts.hosts:
        assert said(host, "hostname") == host.name
        host.run(["sh", "-c", f"echo {host.name} | tee /tmp/x /dev/shm/x > /run/x"], check=True)
    for host in hosts.hosts:
        assert said(host, "sh", "-c", "cat /tmp/x /dev/shm/x /run/x").split() == [host.name] * 3
        assert len(said(host, "ps", "-e", "-o", "pid=").split()) < 10
        assert said(host, "ssh", "h2", "hostname") == "h2"
    assert len({said(host, "cat", "/proc/sys/kernel/random/boot_id") for host in hosts.hosts}) == 3


@pytest.mark.thorough
@pytest.mark.parametrize(("how", "heard"), [("crash", "closed"), ("power_off", "silence"), ("cut", "silence")])
def test_what_others_hear_of_a_host_that_is_lost(hosts: Cluster, how: str, heard: str) -> None:
    h1, h2 = hosts["h1"], hosts["h2"]
    server = h2.popen([sys.executable, "-c", _LISTENING], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None and server.stdout.readline() == "listening\n"
    client = h1.popen([sys.executable, "-c", _ASKING], stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None and client.stdout.readline() == "connected\n"
    getattr(h2, how)()
    assert client.communicate()[0] == f"{heard}\n"
    for process in h2.processes():
        process.kill()
    server.communicate()
    h2.heal_or_power_on()
    assert said(h1, "ssh", "h2", "hostname") == "h2"


@pytest.mark.thorough
def test_links_are_shaped() -> None:
    with Cluster(1, rate="100mbit") as one:
        assert "rate 100Mbit" in said(one["h1"], "tc", "qdisc", "show", "dev", "eth0")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_is_left_of_a_test_run_that_is_ended(hosts: Cluster, number: int) -> None:
    """Not a process, thus not a namespace; after a Ctrl-C not a file."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    run = subprocess.Popen([sys.executable, "-c", _TEST_RUN], env=environment, **pipes)
    assert run.stdout is not None
    share = run.stdout.readline().decode().strip()
    family = psutil.Process(run.pid).children(recursive=True)
    assert len(family) > 5
    run.send_signal(number)
    run.communicate()
    _, alive = psutil.wait_procs(family, timeout=30)
    assert [process for process in alive if process.status() != psutil.STATUS_ZOMBIE] == []
    assert Path(share).exists() == (number == signal.SIGKILL)
    shutil.rmtree(share, ignore_errors=True)
