"""Clones on several hosts: one that dies, falls silent or is cut off costs no round; nothing is left anywhere."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest
from hosts.cluster import ROOT, Cluster, Host
from hosts.nonstop_job import HALF, RING, Job, plain

from bsp.faults.events.log import read

pytestmark = [pytest.mark.jobs, pytest.mark.usefixtures("nothing_left")]


def cut_for_a_while(host: Host) -> None:
    """Without a word for three seconds, then as before: the wait is the fault."""
    host.cut()
    time.sleep(3)
    host.heal()


@pytest.mark.parametrize(
    "strike",
    [
        Host.crash,
        Host.power_off,
        pytest.param(Host.cut, marks=pytest.mark.thorough),
        pytest.param(cut_for_a_while, marks=pytest.mark.thorough),
    ],
)
def test_a_lost_host_costs_no_round(four_hosts: Cluster, expected: str, strike: Callable[[Host], None]) -> None:
    """Its elements are started anew on hosts with room, where their bundles have no other clone."""
    job = Job(four_hosts, "-n", "4", "--clones", "2", "--hosts", HALF)
    job.round(10)
    (started,) = job.events("started")
    struck = {element for element, host in enumerate(started["hosts"]) if host == "h3"}
    assert struck
    strike(four_hosts["h3"])
    status, out, err = job.end()
    assert (status, out) == (0, expected), err + job.story()
    assert job.events("ended")[0]["rounds_lost"] == 0
    hosts = dict(enumerate(started["hosts"]))
    for bundle in range(4):
        assert hosts[bundle] != hosts[bundle + 4]
    if strike is cut_for_a_while and not job.events("died"):
        return  # healed before anybody was missed
    assert {event["element"] for event in job.events("died")} == struck, job.story()
    anew = {event["element"]: event["host"] for event in job.events("appeared")}
    assert {event["element"] for event in job.events("restored")} == anew.keys()
    hosts |= anew
    for clones in job.events("view")[-1]["hosts"]:
        assert len({hosts[int(element)] for element in clones}) == 2, job.story()


@pytest.mark.thorough
def test_a_host_that_computes_with_another_cpu_is_told(four_hosts: Cluster, expected: str) -> None:
    h3 = four_hosts["h3"]
    h3.run(["sh", "-c", "sed 's/^model name.*/model name : another/' /proc/cpuinfo > /tmp/cpuinfo"], check=True)
    h3.run(["mount", "--bind", "/tmp/cpuinfo", "/proc/cpuinfo"], check=True)
    status, out, err = Job(four_hosts, "-n", "4", "--clones", "2", "--hosts", "h1:2,h2:2,h3:4").end()
    h3.crash()
    h3.power_on()
    assert (status, out) == (0, expected), err
    said = [line for line in err.splitlines() if "last bits" in line]
    assert len(said) == 1 and said[0].startswith("bsprun: note: CPU is "), err
    assert " another on element " in said[0] or "CPU is another on element " in said[0]


@pytest.mark.thorough
def test_two_hosts_at_once_with_three_clones(four_hosts: Cluster, expected: str) -> None:
    job = Job(four_hosts, "-n", "2", "--clones", "3", "--hosts", "h1:3,h2:3,h3:3,h4:3")
    job.round(10)
    for name in ("h3", "h4"):
        four_hosts[name].crash()
    status, out, err = job.end()
    assert (status, out) == (0, expected), err + job.story()
    assert job.events("ended")[0]["rounds_lost"] == 0


@pytest.mark.thorough
def test_a_host_that_comes_back_is_used_again(four_hosts: Cluster) -> None:
    """There is room for its elements on no other host."""
    job = Job(four_hosts, "-n", "3", "--clones", "2", "--hosts", "h1:2,h2:2,h3:2", rounds=("3000", "0.005", "4"))
    job.round(10)
    four_hosts["h3"].crash()
    four_hosts["h3"].heal_or_power_on()
    while not job.events("restored"):
        assert job.process.poll() is None, job.end()[2] + job.story()
        time.sleep(0.1)
    assert {event["host"] for event in job.events("appeared")} == {"h3"}
    job.bsprun.send_signal(signal.SIGINT)
    assert job.end()[0] == 130


@pytest.mark.thorough
def test_a_host_is_drained_under_load(four_hosts: Cluster, expected: str) -> None:
    """With one clone: what it computes moves to the others, and no round is lost."""
    job = Job(four_hosts, "-n", "4", "--clones", "1", "--hosts", "h1:1,h2:1,h3:1,h4:1")
    job.round(10)
    done = four_hosts["h1"].run(["bsp", "drain", job.name, "h3"])
    assert (done.returncode, done.stdout) == (0, "no element is left on h3\n"), done.stderr + job.story()
    status, out, err = job.end()
    assert (status, out) == (0, expected), err + job.story()
    assert job.events("ended")[0]["rounds_lost"] == 0 and len(job.events("left")) == 1 and not job.events("died")


@pytest.mark.thorough
def test_a_host_joins_by_hand(four_hosts: Cluster, expected: str) -> None:
    """From a machine that bsprun does not know; the key comes in its environment."""
    job = Job(four_hosts, "-n", "2", "--clones", "2", "--hosts", "h1:2,h2:2", "--listen", "0")
    job.round(10)
    joiner = job.join(four_hosts["h4"])
    while not job.events("joined"):
        assert job.process.poll() is None and joiner.poll() is None, job.story()
        time.sleep(0.05)
    four_hosts["h2"].crash()
    status, out, err = job.end()
    assert (status, out) == (0, expected), err + job.story()
    assert {event["host"] for event in job.events("appeared")} == {"h4"}
    assert job.events("ended")[0]["rounds_lost"] == 0
    joiner.wait(60)


@pytest.mark.thorough
@pytest.mark.parametrize("strike", [Host.crash, Host.power_off])
def test_bspruns_host_is_lost_and_the_job_goes_on_from_another(
    four_hosts: Cluster, expected: str, strike: Callable[[Host], None]
) -> None:
    """With its elements; they are started anew elsewhere, and the text goes on in the same file."""
    job = Job(four_hosts, "-n", "4", "--clones", "2", "--hosts", HALF, out=four_hosts.share / "out")
    job.round(10)
    name = job.name
    strike(four_hosts["h1"])
    with (four_hosts.share / "out").open("a") as out:
        done = four_hosts["h2"].run(
            ["bsprun", "--attach", name], capture_output=False, stdout=out, stderr=subprocess.PIPE
        )
    assert done.returncode == 0, done.stderr + job.story()
    assert (four_hosts.share / "out").read_text() == expected
    (attached,), (ended,) = job.events("attached"), job.events("ended")
    assert attached["lost"] == 2 and ended["rounds_lost"] == 0
    assert "h1" not in {event["host"] for event in job.events("appeared")[:2]}
    job.process.wait(60)


@pytest.mark.thorough
def test_everything_at_once(four_hosts: Cluster) -> None:
    """The session of docs/how-to/nonstop.md: one host killed, one cut off, one drained, bsprun killed and attached."""
    four, share = four_hosts, four_hosts.share
    h1, rounds = four["h1"], ("300", "0.05", "4")
    whole = plain(h1, RING, rounds[0], "0", rounds[2])
    job = Job(four, "-n", "4", "--clones", "2", "--hosts", "h1:4,h2:4,h3:4,h4:4", rounds=rounds, out=share / "out")
    job.round(20)
    four["h4"].crash()
    job.until(lambda: len(job.events("restored")) >= 2)
    four["h3"].cut()
    job.until(lambda: len(job.events("restored")) >= 4)
    name = job.name
    four["h4"].heal_or_power_on()
    job.until(lambda: bool([host for host in job.hosts() if host["name"] == "h4" and host["ready"]]))
    drained = h1.run(["bsp", "drain", name, "h2"])
    assert drained.returncode == 0, drained.stderr + job.story()
    job.bsprun.kill()
    job.process.wait(60)
    with (share / "out").open("a") as out:
        done = four["h2"].run(["bsprun", "--attach", name], capture_output=False, stdout=out, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr + job.story()
    assert (share / "out").read_text() == whole
    assert job.events("ended")[0]["rounds_lost"] == 0


@pytest.mark.thorough
def test_a_job_whose_bsprun_is_heard_elsewhere_is_not_attached(four_hosts: Cluster, expected: str) -> None:
    job = Job(four_hosts, "-n", "2", "--clones", "2", "--hosts", "h1:2,h2:2", rounds=("200", "0.05", "4"))
    job.round(3)
    name = job.name
    refused = four_hosts["h2"].run(["bsprun", "--attach", name])
    assert refused.returncode == 2 and refused.stderr.count("\n") == 1, refused.stderr
    assert f"job {name} has its bsprun, on h1: host h" in refused.stderr
    assert job.end()[0] == 0


def test_the_only_clone_on_a_lost_host_is_named(four_hosts: Cluster) -> None:
    job = Job(four_hosts, "-n", "2", "--clones", "1", "--hosts", "h1:1,h2:1", rounds=("3000", "0.01", "4"))
    job.round(3)
    four_hosts["h2"].crash()
    status, _, err = job.end()
    assert status == 3
    assert "BundleLost: processes 4-7 (bundle 1), superstep " in err and "was lost with its host h2" in err


@pytest.mark.thorough
def test_a_host_that_cannot_be_reached_is_named_before_anything_runs(four_hosts: Cluster) -> None:
    job = Job(four_hosts, "-n", "2", "--clones", "2", "--hosts", "h1:2,h2:1,h9:1")
    status, out, err = job.end()
    assert (status, out) == (2, "")
    assert err.startswith("bsprun: error: host h9: its name cannot be resolved") and err.count("\n") == 1


def test_clones_in_a_slurm_allocation(allocation: Any) -> None:
    """Its nodes are the hosts; srun starts the keepers."""
    (allocation.share / "program.py").write_text(
        "import os, bsp\nproc = bsp.process()\nprint(proc.pid, *proc.allgather(os.uname().nodename[0]))\n"
    )
    done = allocation["h1"].run(
        ["salloc", "-N3", "--ntasks-per-node=2", "bsprun", "-p", "3", "--clones", "2", "program.py"]
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(f"{pid} h h h\n" for pid in range(3))


@pytest.mark.thorough
def test_a_job_outlives_a_node_that_slurm_sets_down(allocation: Any) -> None:
    """The script of docs/cluster.md: Slurm ends the step on that node, and its element is started anew elsewhere."""
    h1, share = allocation["h1"], allocation.share
    out, errors, log = share / "nonstop.out", share / "nonstop.err", share / "events.jsonl"
    page = (ROOT / "docs" / "cluster.md").read_text()
    (share / "nonstop.sh").write_text(page.partition(":caption: nonstop.sh\n\n")[2].partition("```")[0])
    arguments = ["60", "0.02", "4"]
    (share / "train.py").write_text(
        f"import runpy, sys\nsys.argv[1:] = {arguments}\nsys.path[0] = {os.path.dirname(RING)!r}\n"
        f"runpy.run_path({RING!r}, run_name='__main__')\n"
    )
    job = h1.popen(["sbatch", "--wait", f"--error={errors}", "nonstop.sh"], stdout=subprocess.PIPE)
    while not (out.exists() and "round 10 " in out.read_text()):
        assert job.poll() is None, errors.read_text()
        time.sleep(0.02)
    down = h1.run(["scontrol", "update", "nodename=h3", "state=down", "reason=test"])
    try:
        assert down.returncode == 0, down.stderr
        job.communicate(timeout=120)
        assert job.returncode == 0, errors.read_text()
    finally:
        job.kill()
        h1.run(["scontrol", "update", "nodename=h3", "state=resume"])
    told = read(log)
    assert out.read_text() == plain(h1, RING, arguments[0], "0", arguments[2]), errors.read_text()
    assert "srun: error: Node failure on h3" in errors.read_text()
    died = [event["reason"] for event in told if event["kind"] == "died"]
    assert died == ["was lost with its host h3"], told
    assert "h3" not in {event["host"] for event in told if event["kind"] == "appeared"}
    assert [event["rounds_lost"] for event in told if event["kind"] == "ended"] == [0]
    while allocation.idle() < 3:
        time.sleep(0.1)


@pytest.mark.thorough
def test_the_next_bsprun_of_an_allocation_finds_all_elements(allocation: Any) -> None:
    """SIGKILL of bsprun ends no srun, with which Slurm would end what runs on other nodes; none is left at the end."""
    rounds = ("60", "0.05", "4")
    (allocation.share / "twice.sh").write_text(
        "bsprun -p 8 -n 2 --clones 2 " + " ".join([RING, *rounds]) + " > twice.out &\n"
        "until grep -qs 'round 5 ' twice.out; do sleep 0.05; done\nkill -9 $!\nwait\n"
        "bsprun --attach $(bsp jobs | cut -d' ' -f1) >> twice.out\n"
    )
    done = allocation["h1"].run(["salloc", "--quiet", "-N3", "--ntasks-per-node=2", "bash", "twice.sh"])
    assert done.returncode == 0 and " goes on, with 4 elements\n" in done.stderr, done.stderr
    assert (allocation.share / "twice.out").read_text() == plain(allocation["h1"], RING, rounds[0], "0", rounds[2])
    while allocation.idle() < 3:
        time.sleep(0.1)


@pytest.mark.thorough
@pytest.mark.parametrize("nodes", [1, 3])
def test_a_batch_job_that_slurm_asks_to_end_writes_a_checkpoint(allocation: Any, nodes: int) -> None:
    """SIGTERM to the batch job and its steps; another job goes on from there, and the two halves are the whole."""
    share = allocation.share
    (share / "train.py").write_text(
        "import sys, time, bsp\nproc = bsp.process()\nstate = bsp.State(x=0.0)\n"
        "for k in proc.rounds(int(sys.argv[1]), state):\n    time.sleep(float(sys.argv[2]))\n"
        "    state.x += proc.allreduce(k)\n    if proc.pid == 0:\n        print(k, state.x, flush=True)\n"
    )
    folder, out = f"saved-{nodes}", share / f"out-{nodes}.txt"
    (share / "job.sh").write_text(
        f"#!/bin/bash\n#SBATCH --nodes={nodes} --ntasks-per-node=2 --output={out}\ntrap : TERM\n"
        f"bsprun -p 2 -n 2 --checkpoint {folder} --every 1000 train.py 2000 0.01 &\n"
        "wait $!\nwait $!\necho ended with $?\n"
    )
    number = allocation["h1"].run(["sbatch", "--parsable", str(share / "job.sh")]).stdout.strip()
    until = time.monotonic() + 120
    while not (out.exists() and "\n5 " in out.read_text()):
        assert time.monotonic() < until, out.read_text() if out.exists() else "no output"
        time.sleep(0.05)
    allocation["h1"].run(["scancel", "--full", "--signal=TERM", number])
    while "ended with" not in out.read_text():
        assert time.monotonic() < until, out.read_text()
        time.sleep(0.05)
    said = out.read_text()
    assert "ended with 75" in said, said
    first = [line for line in said.splitlines() if line[0].isdigit()]
    done = allocation["h1"].run(
        ["salloc", "-N", str(nodes), "--ntasks-per-node=2", "bsprun", "--resume", folder, "train.py", "2000", "0.01"]
    )
    assert done.returncode == 0, done.stderr
    totals = [sum(2 * j for j in range(k + 1)) for k in range(2000)]
    assert first + done.stdout.splitlines() == [f"{k} {float(total)}" for k, total in enumerate(totals)]


def test_every_clone_works_in_bspruns_folder(four_hosts: Cluster) -> None:
    (four_hosts.share / "where.py").write_text("import os, bsp\nprint(bsp.process().pid, os.getcwd())\n")
    words = ["bsprun", "-p", "4", "-n", "2", "--clones", "2", "--hosts", "h1,h2,h3,h4", "where.py"]
    done = four_hosts["h1"].run(words)
    said = "".join(f"{pid} {four_hosts.share}\n" for pid in range(4))
    assert (done.returncode, done.stdout) == (0, said), done.stderr
