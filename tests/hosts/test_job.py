"""`bsprun --hosts`: text, status, tracebacks and input as on one machine; no process is left on any host."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from hosts.cluster import Cluster, Host

pytestmark = pytest.mark.jobs

RING = """\
import os, sys, bsp
proc = bsp.process()
x = proc.coarray(proc.nprocs)
x.put((proc.pid + 1) % proc.nprocs, [proc.pid], at=slice(0, 1))
proc.sync()
print(proc.pid, "hears", int(x.local[0]))
print("to the error stream", proc.pid, file=sys.stderr)
print(os.uname().nodename, file=open(f"/tmp/ran-{proc.pid}", "w"))
"""
WAITING = """\
import time, bsp
proc = bsp.process()
for k in range(10_000):
    proc.sync()
    if k == 20 and proc.pid == 0:
        print("under way", flush=True)
    time.sleep(0.01)
"""
ALL = "h1:2,h2:2,h3:2"


@pytest.fixture
def script(hosts: Cluster) -> Callable[[str], str]:
    """Write a program where all hosts find it."""

    def write(text: str) -> str:
        path = hosts.share / "program.py"
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture(autouse=True)
def nothing_left(hosts: Cluster) -> Iterator[None]:
    """No test leaves a process on any host, and each host is on when the next begins."""
    yield
    for host in hosts.hosts:
        host.heal_or_power_on()
    assert left(hosts) == []


def left(hosts: Cluster) -> list[str]:
    """The processes of all hosts, after the time that they have to end."""
    until = time.monotonic() + 5
    while (found := [p for host in hosts.hosts for p in host.processes()]) and time.monotonic() < until:
        psutil.wait_procs(found, timeout=0.2)
    return [" ".join(process.cmdline()) for process in found]


def under_way(host: Host, *command: str) -> subprocess.Popen[str]:
    """Start a job, and wait for the line that says that it runs."""
    job = host.popen(["bsprun", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert job.stdout is not None
    assert job.stdout.readline() == "under way\n"
    return job


@pytest.mark.parametrize("places", [ALL, "h2:3,h3:3", "h3:1"])
def test_text_and_status_are_those_of_one_machine(hosts: Cluster, script: Callable[[str], str], places: str) -> None:
    program = script(RING)
    here = hosts["h1"].run(["bsprun", "-p", "6", "-n", "2", program])
    there = hosts["h1"].run(["bsprun", "-p", "6", "--hosts", places, program])
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout) == (0, there.stdout)
    assert sorted(there.stderr.splitlines()) == sorted(here.stderr.splitlines())
    assert there.stdout == "".join(f"{k} hears {(k - 1) % 6}\n" for k in range(6))


@pytest.mark.thorough
def test_consecutive_processes_share_a_host_and_show_tells_which(hosts: Cluster, script: Callable[[str], str]) -> None:
    command = ["bsprun", "-p", "6", "--hosts", ALL]
    shown = hosts["h1"].run([*command, "--show", script(RING)]).stdout.splitlines()
    spans = ["0-1", "2-3", "4-5"]
    assert shown[:3] == [f"host h{k}: elements {span}, processes {span}" for k, span in enumerate(spans, 1)]
    for host in hosts.hosts:
        host.run(["sh", "-c", "rm -f /tmp/ran-*"])
    assert hosts["h1"].run([*command, script(RING)]).returncode == 0
    ran = [host.run(["sh", "-c", "cat /tmp/ran-*"]).stdout.split() for host in hosts.hosts]
    assert ran == [["h1"] * 2, ["h2"] * 2, ["h3"] * 2]


@pytest.mark.thorough
def test_a_shell_of_bspruns_host_need_not_be_on_others(hosts: Cluster, script: Callable[[str], str]) -> None:
    words = ["env", "SHELL=/usr/local/bin/mine", "bsprun", "-p", "2", "--hosts", "h2,h3", script(RING)]
    assert hosts["h1"].run(words).returncode == 0


@pytest.mark.thorough
@pytest.mark.parametrize("options", ["", "-n 3 --clones 1"])
def test_every_process_has_bspruns_variables_and_umask(
    hosts: Cluster, script: Callable[[str], str], options: str
) -> None:
    program = script(
        "import os, bsp\nproc = bsp.process()\nfound = os.umask(0), os.environ['GIVEN']\nos.umask(found[0])\n"
        "found = proc.allgather(found)\nif proc.pid == 0: print(set(found))\n"
    )
    given = "GIVEN='two words; $HOME' bsprun -p 6 --hosts h1:1,h2:1,h3:1"
    done = hosts["h1"].run(["sh", "-c", f"umask 027; {given} {options} {program}"])
    assert (done.stdout, done.returncode) == ("{(23, 'two words; $HOME')}\n", 0), done.stderr


@pytest.mark.thorough
def test_the_name_of_the_temporary_folder_may_have_a_space(hosts: Cluster, script: Callable[[str], str]) -> None:
    hosts["h1"].run(["mkdir", "-p", "/tmp/a b"], check=True)
    words = ["env", "TMPDIR=/tmp/a b", "bsprun", "-p", "2", "--hosts", "h2,h3", script(RING)]
    assert hosts["h1"].run(words).returncode == 0


@pytest.mark.thorough
def test_an_exception_on_another_host_is_told_as_on_one_machine(hosts: Cluster, script: Callable[[str], str]) -> None:
    program = script("import bsp\nproc = bsp.process()\nproc.sync()\nif proc.pid == 5:\n    1 / 0\nproc.sync()\n")
    here = hosts["h1"].run(["bsprun", "-p", "6", "-n", "3", program])
    there = hosts["h1"].run(["bsprun", "-p", "6", "--hosts", ALL, program])
    assert here.returncode == there.returncode == 1
    assert here.stderr == there.stderr
    assert "ZeroDivisionError" in there.stderr


@pytest.mark.thorough
def test_exit_status_of_a_process_elsewhere(hosts: Cluster, script: Callable[[str], str]) -> None:
    program = script("import sys, bsp\nif bsp.process().pid == 2:\n    sys.exit(7)\n")
    assert hosts["h1"].run(["bsprun", "-p", "3", "--hosts", "h2,h3,h1", program]).returncode == 7


@pytest.mark.thorough
def test_input_reaches_element_0_elsewhere(hosts: Cluster, script: Callable[[str], str]) -> None:
    program = script("import sys, bsp\nproc = bsp.process()\nif proc.pid == 0:\n    print(len(sys.stdin.read()))\n")
    for size in (0, 1, 300_000):
        done = hosts["h1"].run(["bsprun", "-p", "2", "--hosts", "h2,h3", program], input="x" * size)
        assert (done.returncode, done.stdout) == (0, f"{size}\n"), done.stderr


@pytest.mark.thorough
def test_more_text_than_pipes_hold(hosts: Cluster, script: Callable[[str], str]) -> None:
    text = "import bsp\nproc = bsp.process()\nprint(('%d ' % proc.pid) * 2_000_000)\nproc.sync()\nprint('end')\n"
    program = script(text)
    done = hosts["h1"].run(["bsprun", "-p", "2", "--hosts", "h2,h3", program])
    assert done.stdout == "0 " * 2_000_000 + "\n" + "1 " * 2_000_000 + "\nend\nend\n"


@pytest.mark.thorough
def test_a_reader_that_leaves_ends_the_job_as_on_one_machine(hosts: Cluster, script: Callable[[str], str]) -> None:
    program = script("import bsp\nproc = bsp.process()\nfor k in range(1_000_000):\n    print(k)\n")
    done = hosts["h1"].run(["bash", "-c", f"bsprun -p 2 --hosts h2,h3 {program} | head -2; exit ${{PIPESTATUS[0]}}"])
    assert done.stdout == "0\n1\n"
    assert done.returncode != 0


@pytest.mark.thorough
@pytest.mark.parametrize("places", ["h1,h2", "h2,h3"])
def test_a_full_disk_for_its_text_ends_the_job_by_name(
    hosts: Cluster, script: Callable[[str], str], places: str
) -> None:
    for text, superstep in (("print(1)\n", 0), (WAITING, r"\d+")):
        shell = f"bsprun -p 2 --hosts {places} {script(text)} > /dev/full"
        done = hosts["h1"].run(["bash", "-c", shell], timeout=60)
        assert done.returncode == 1
        said = rf"bsprun: error: standard output: No space left on device, in superstep {superstep}\n"
        assert re.fullmatch(said, done.stderr), done.stderr


@pytest.mark.thorough
def test_a_trace_comes_back(hosts: Cluster, script: Callable[[str], str]) -> None:
    path = hosts.share / "trace.json"
    command = ["bsprun", "-p", "6", "--hosts", "h2:2,h3:2", "--trace", str(path), script(RING)]
    assert hosts["h1"].run(command).returncode == 0
    assert {element["host"] for element in json.loads(path.read_text())["per_element"]} == {"h2", "h3"}


@pytest.mark.thorough
def test_check_passes_on_several_hosts(hosts: Cluster, script: Callable[[str], str]) -> None:
    done = hosts["h1"].run(["bsprun", "-p", "4", "--hosts", "h2:2,h3:2", "--check", script(RING)])
    assert done.returncode == 0
    assert "another order of turns gives the same bytes" in done.stderr


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_to_bsprun_ends_all(hosts: Cluster, script: Callable[[str], str], number: int) -> None:
    job = under_way(hosts["h1"], "-p", "6", "--hosts", ALL, script(WAITING))
    (bsprun,) = [p for p in psutil.Process(job.pid).children() if "bsprun" in " ".join(p.cmdline())]
    bsprun.send_signal(number)
    _, said = job.communicate(timeout=30)
    assert job.returncode in (128 + number, -number)
    words = {signal.SIGINT: "bsprun: interrupted\n", signal.SIGTERM: "bsprun: ended by SIGTERM\n"}
    assert said == words.get(signal.Signals(number), "")
    assert left(hosts) == []


def test_an_element_that_is_killed_is_named_with_its_host(hosts: Cluster, script: Callable[[str], str]) -> None:
    job = under_way(hosts["h1"], "-p", "6", "--hosts", ALL, script(WAITING))
    victim = next(p for p in hosts["h3"].processes() if "bsp.command.start" in p.cmdline())
    victim.kill()
    _, said = job.communicate(timeout=30)
    assert job.returncode == 137
    assert said.startswith("bsprun: error: element ")
    assert "on host h3 was killed by SIGKILL" in said
    assert len(said.splitlines()) == 1


@pytest.mark.thorough
def test_a_daemon_that_gets_no_turn_is_waited_for(hosts: Cluster, script: Callable[[str], str]) -> None:
    job = under_way(hosts["h1"], "-p", "6", "--hosts", ALL, script(WAITING.replace("10_000", "700")))
    daemon = next(p for p in hosts["h3"].processes() if "bsp.hosts.daemon" in p.cmdline())
    daemon.suspend()
    time.sleep(5)  # longer than a host may be silent
    daemon.resume()
    _, said = job.communicate(timeout=60)
    assert (job.returncode, said) == (0, "")


@pytest.mark.thorough
@pytest.mark.parametrize("how", ["power_off", "crash", "cut"])
@pytest.mark.parametrize("which", ["h1", "h3"])
def test_a_host_that_is_lost_ends_the_job(hosts: Cluster, script: Callable[[str], str], how: str, which: str) -> None:
    job = under_way(hosts["h2"], "-p", "6", "--hosts", ALL, script(WAITING))
    getattr(hosts[which], how)()
    began = time.monotonic()
    _, said = job.communicate(timeout=60)
    print(time.monotonic() - began)
    assert job.returncode == 1
    pids = "0-1" if which == "h1" else "4-5"
    assert said.startswith(f"bsprun: error: host {which} with processes {pids} ")
    assert len(said.splitlines()) == 1


@pytest.mark.thorough
def test_two_hosts_that_lose_each_other_end_the_job(hosts: Cluster, script: Callable[[str], str]) -> None:
    job = under_way(hosts["h1"], "-p", "6", "--hosts", ALL, script(WAITING))
    for one, other in (("h2", "h3"), ("h3", "h2")):
        hosts[one].run(["ip", "route", "add", "blackhole", f"{hosts[other].address}/32"], check=True)
    _, said = job.communicate(timeout=90)
    for one, other in (("h2", "h3"), ("h3", "h2")):
        hosts[one].run(["ip", "route", "del", "blackhole", f"{hosts[other].address}/32"], check=True)
    assert job.returncode == 1
    assert re.match(r"bsprun: error: host h(\d) with processes \d-\d can no longer connect to host h(?!\1)[23] ", said)
    assert len(said.splitlines()) == 1


@pytest.mark.thorough
def test_a_launcher_that_never_starts_elements_is_told(hosts: Cluster, script: Callable[[str], str]) -> None:
    prted = shutil.which("prted", path=str(Path(sys.executable).parent))
    if prted is None:
        pytest.skip("needs Open MPI's launcher beside this interpreter")
    (hosts.share / "waits").write_text("#!/bin/sh\nexec sleep 1000\n")
    (hosts.share / "waits").chmod(0o755)
    hosts["h3"].run(["mount", "--bind", str(hosts.share / "waits"), prted], check=True)
    command = ["bsprun", "-p", "2", "--hosts", "h1,h3", script(RING)]
    job = hosts["h1"].popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert job.stderr is not None
    assert job.stderr.readline() == "bsprun: note: after 15 s, elements have not started on h1, h3\n"
    bsprun = next(p for p in hosts["h1"].processes() if "--hosts" in p.cmdline())
    bsprun.send_signal(signal.SIGINT)
    _, said = job.communicate(timeout=60)
    assert (job.returncode, said) == (130, "bsprun: interrupted\n")
    assert left(hosts) == []
    hosts["h3"].run(["umount", prted], check=True)


@pytest.mark.parametrize("places", [ALL, "h2:2,h3:2"])  # with bsprun's own host, and without
def test_no_folder_is_left_on_any_host(hosts: Cluster, script: Callable[[str], str], places: str) -> None:
    def folders() -> set[tuple[str, str]]:
        listed = {host.name: host.run(["ls", "/tmp"]).stdout.split() for host in hosts.hosts}
        return {(host, name) for host, names in listed.items() for name in names if name.startswith("bsprun-")}

    before = folders()  # a bsprun that was killed leaves its own
    assert hosts["h1"].run(["bsprun", "-p", "4", "--hosts", places, script(RING)]).returncode == 0
    assert folders() == before
