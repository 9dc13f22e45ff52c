"""When a host is lost matters to no output: at the start, in each superstep, in a join, in a checkpoint, at the end."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from hosts.cluster import Cluster, Host
from hosts.nonstop_job import HALF, RING, STEPS, Job, plain

pytestmark = [pytest.mark.jobs, pytest.mark.thorough, pytest.mark.usefixtures("nothing_left")]

LAST = 5
PLACES = [*[f"round {k}" for k in range(LAST + 1)], "loop is over", "text is over"]
CLONES = 8  # of 4 elements
TWO = ("-n", "2", "--clones", "2", "--hosts", "h1:2,h2:2")


@pytest.fixture(scope="module")
def steps(four_hosts: Cluster) -> str:
    """What the plain engine prints for six rounds of steps.py."""
    return plain(four_hosts["h1"], STEPS, *rounds())


def rounds(*places: str, busy: str = "0") -> tuple[str, ...]:
    """The arguments of steps.py."""
    return str(LAST + 1), ",".join(places), busy


def stepping(four: Cluster, *options: str, places: Sequence[str] = (), **more: Any) -> Job:
    """A job of steps.py."""
    return Job(four, *options, program=STEPS, rounds=rounds(*places), places=places, **more)


def ends_well(job: Job, steps: str) -> None:
    """The job has the undisturbed run's output, and has lost no round."""
    status, out, err = job.end()
    assert (status, out) == (0, steps), err + job.story()
    assert job.events("ended")[0]["rounds_lost"] == 0


@pytest.mark.parametrize("place", PLACES)
def test_a_host_is_killed_in_each_superstep(four_hosts: Cluster, steps: str, place: str) -> None:
    """With both clones of everybody in that superstep; the survivors go on before anybody has missed the host."""
    job = stepping(four_hosts, "-n", "4", "--clones", "2", "--hosts", HALF, places=[place])
    job.reached(place, CLONES)
    four_hosts["h3"].crash()
    job.let_go(place)
    ends_well(job, steps)


def keeper_runs(host: Host) -> bool:
    """Whether the first process of the job on the host is there."""
    return any("bsp.faults.engine" in word for process in host.processes() for word in _words(process))


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.parametrize("strike", [Host.crash, Host.power_off])
def test_a_host_that_is_lost_while_keepers_start_is_named(four_hosts: Cluster, strike: Callable[[Host], None]) -> None:
    job = stepping(four_hosts, "-n", "4", "--clones", "2", "--hosts", HALF, agents_held_on="h3")
    job.until(lambda: keeper_runs(four_hosts["h3"]))
    strike(four_hosts["h3"])
    status, out, err = job.end()
    assert (status, out) == (2, "")
    assert err.startswith("bsprun: error: host h3: ") and err.count("\n") == 1, err


@pytest.mark.parametrize("strike", [Host.crash, Host.power_off])
def test_a_host_is_lost_while_its_agents_start(
    four_hosts: Cluster, steps: str, strike: Callable[[Host], None]
) -> None:  # fmt: skip
    """The job starts without them."""
    job = stepping(four_hosts, "-n", "4", "--clones", "2", "--hosts", HALF, agents_held_on="h3")
    job.agents_are_held()
    strike(four_hosts["h3"])
    ends_well(job, steps)
    assert "bsprun: warning: the job starts without some of its elements: element " in job.errors.read_text()
    assert "h3" not in {event["host"] for event in job.events("appeared")}


@pytest.mark.parametrize("strike", [Host.crash, Host.power_off])
def test_a_host_is_lost_while_it_joins(four_hosts: Cluster, steps: str, strike: Callable[[Host], None]) -> None:
    """Its agents are being started; what they were to take goes to the lost host when that is back."""
    h2, h4 = four_hosts["h2"], four_hosts["h4"]
    job = stepping(four_hosts, *TWO, "--listen", "0", places=["spare rounds"], agents_held_on="h4")
    job.until(lambda: bool(job.events("started")))
    h2.crash()
    job.until(lambda: len(job.events("died")) == 2)
    joiner = job.join(h4)
    job.agents_are_held()
    strike(h4)
    joiner.wait()
    h2.power_on()
    restored(job, "h2", 2)
    job.let_go("spare rounds")
    ends_well(job, steps)


def restored(job: Job, host: str, count: int) -> None:
    """Wait until so many clones have been restored, on a host if one is named."""

    def there() -> bool:
        homes = {event["element"]: event["host"] for event in job.events("appeared")}
        return sum(host in ("", homes[event["element"]]) for event in job.events("restored")) >= count

    job.until(there)


def test_a_host_is_lost_while_an_element_is_restored_there(four_hosts: Cluster, steps: str) -> None:
    """The newcomer has come to the program's start when its host is lost; it is restored on a third one."""
    places = ["start on h4", "spare rounds"]
    job = stepping(four_hosts, *TWO, "--listen", "0", places=places)
    joiner = job.join(four_hosts["h4"])
    job.until(lambda: len(job.events("appeared")) == 2)
    four_hosts["h2"].crash()
    job.reached("start on h4")
    four_hosts["h4"].crash()
    joiner.wait()
    four_hosts["h2"].power_on()
    restored(job, "h2", 2)
    job.let_go("spare rounds")
    ends_well(job, steps)


def test_a_host_is_lost_while_a_checkpoint_is_written(four_hosts: Cluster) -> None:
    """Parts lie there, the seal does not.  The job goes on and ends at a later one; another job resumes from that."""
    program = (RING, "40", "0.01", "100000")
    whole = plain(four_hosts["h1"], RING, "40", "0", "100000")
    folder = four_hosts.share / "saved"
    job = Job(four_hosts, "-n", "4", "--clones", "2", "--hosts", HALF, "--checkpoint", str(folder), "--every", "2",
              rounds=program[1:])  # fmt: skip
    job.until(lambda: unsealed(folder))
    four_hosts["h3"].crash()
    job.until(lambda: len(job.events("died")) == 2 and bool(job.events("checkpoint")[2:]))
    job.bsprun.send_signal(signal.SIGTERM)
    status, first, err = job.end()
    assert status == 75, err + job.story()
    assert not [event for event in job.events("checkpoint") if "error" in event], job.story()
    four_hosts["h3"].power_on()
    done = four_hosts["h1"].run(["bsprun", "--hosts", HALF, "--clones", "2", "--resume", str(folder), *program])
    assert done.returncode == 0, done.stderr
    assert first and done.stdout and first + done.stdout == whole


def unsealed(folder: Path) -> bool:
    """Whether a checkpoint is being written: it has parts of some elements and no seal."""
    drafts = [each for each in folder.glob("*checkpoint-*") if not (each / "manifest.json").exists()]
    return any(list(draft.glob("part-*")) for draft in drafts)


def test_a_cut_that_heals_before_the_limit_costs_nothing(four_hosts: Cluster, expected: str) -> None:
    """No element dies.  (TCP repeats what was lost 0.2, 0.6 and 1.4 s later, and the limit is 2.5 s.)"""
    h3 = four_hosts["h3"]
    job = Job(four_hosts, "-n", "4", "--clones", "2", "--hosts", HALF, rounds=("60", "0.03", "4"))
    job.round(10)
    began = time.monotonic()
    h3.cut()
    time.sleep(0.5)  # the cut is the fault
    h3.heal()
    lasted = time.monotonic() - began
    status, out, err = job.end()
    assert (status, out) == (0, expected), err + job.story()
    (ended,) = job.events("ended")
    assert ended["rounds_lost"] == 0
    if lasted < 1.0:  # a busy machine may have healed it too late
        assert not job.events("suspected") and not job.events("died") and not job.events("appeared"), job.story()


def test_after_a_longer_cut_the_hosts_agents_join_anew(four_hosts: Cluster, steps: str) -> None:
    """On the host itself, for no other has room; those that were cut off end."""
    h3 = four_hosts["h3"]
    job = stepping(four_hosts, "-n", "3", "--clones", "2", "--hosts", "h1:2,h2:2,h3:2", places=["spare rounds"])
    job.until(lambda: bool(job.events("started")))
    (started,) = job.events("started")
    there = {element for element, host in enumerate(started["hosts"]) if host == "h3"}
    h3.cut()
    job.until(lambda: {event["element"] for event in job.events("died")} == there)
    h3.heal()
    restored(job, "h3", 2)
    job.let_go("spare rounds")
    ends_well(job, steps)
    assert {event["element"] for event in job.events("died")} == there


def test_a_host_that_is_cut_off_does_nothing_outside(four_hosts: Cluster, steps: str) -> None:
    """It computes on, and could write the file; each call of proc.once is made once, on the other side of the cut."""
    h3, effects = four_hosts["h3"], four_hosts.share / "effects"
    place = "round 2"
    job = stepping(four_hosts, "-n", "4", "--clones", "2", "--hosts", HALF, places=[place, "spare rounds"],
                   effects=effects)  # fmt: skip
    job.reached(place, CLONES)
    h3.cut()
    job.let_go(place)
    job.until(lambda: len(job.events("died")) == 2)
    h3.heal()
    restored(job, "", 2)
    job.let_go("spare rounds")
    ends_well(job, steps)
    made = Counter(effects.read_text().splitlines())
    assert made == Counter(f"{k} {pid}" for k in range(LAST + 1) for pid in range(8)), job.story()


def test_a_host_is_drained_while_all_cores_are_busy(four_hosts: Cluster) -> None:
    """No round is lost and no element dies, with two clones and a program that never rests until the host is left."""
    whole = plain(four_hosts["h1"], STEPS, "40", "", "0")
    places = ["spare rounds"]
    job = Job(
        four_hosts, "-n", "4", "--clones", "2", "--hosts", HALF, program=STEPS, rounds=("40", places[0], "0.01"),
        places=places,
    )  # fmt: skip
    job.round(5)
    (started,) = job.events("started")
    there = {element for element, host in enumerate(started["hosts"]) if host == "h3"}
    done = four_hosts["h1"].run(["bsp", "drain", job.name, "h3"])
    assert (done.returncode, done.stdout) == (0, "no element is left on h3\n"), done.stderr + job.story()
    job.let_go("spare rounds")
    ends_well(job, whole)
    assert {event["element"] for event in job.events("left")} == there and not job.events("died")


def test_a_host_is_left_while_its_agents_start(four_hosts: Cluster, steps: str) -> None:
    """They are ended: nothing waits for them, and what they were to take goes to the lost host when that is back."""
    h2, h4 = four_hosts["h2"], four_hosts["h4"]
    job = stepping(four_hosts, *TWO, "--listen", "0", places=["spare rounds"], agents_held_on="h4")
    job.until(lambda: bool(job.events("started")))
    h2.crash()
    job.until(lambda: len(job.events("died")) == 2)
    joiner = job.join(h4)
    job.agents_are_held()
    done = four_hosts["h1"].run(["bsp", "drain", job.name, "h4"])
    assert (done.returncode, done.stdout) == (0, "no element is left on h4\n"), done.stderr + job.story()
    assert joiner.wait(60) == 0
    h2.power_on()
    restored(job, "h2", 2)
    job.let_go("spare rounds")
    ends_well(job, steps)
