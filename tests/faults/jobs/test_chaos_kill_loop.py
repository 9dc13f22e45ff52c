"""64 processes train for 1200 rounds while elements and workers are killed and stopped, each when all is whole again.

Only in `make chaos`: 25 hits, or as many as the training lasts on a busy machine, far more than the two standbys.
`make test` has scenario 22.
The output must be the plain engine's, byte for byte, every hit healed, and no round lost.
"""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from pathlib import Path

import pytest
import scenarios
from scenarios import Job

pytestmark = [pytest.mark.jobs, pytest.mark.rest, pytest.mark.timeout(1800)]

SCRIPT = str(Path(__file__).parents[3] / "examples" / "nonstop_training.py")
HITS, LEAST, ROUNDS, COPIES = 25, 8, "1200", "40"
BUDGET = 900.0
WAYS = [(number, worker) for number in (signal.SIGKILL, signal.SIGSTOP) for worker in (False, True)]


def healed(job: Job, known: int, element: int, worker: bool) -> bool:
    """Whether the log says, behind its first `known` events, that all is as before, with as many standbys."""
    told = job.events()[known:]
    kinds = Counter(event["kind"] for event in job.events())
    if kinds["appeared"] < kinds["died"]:
        return False
    if worker:
        back = [e["kind"] for e in told if e["kind"] in ("relaunched", "caught_up") and e["element"] == element]
        return "relaunched" in back and back[-1] == "caught_up"
    heirs = [event["element"] for event in told if event["kind"] == "promoted" and event.get("instead_of") == element]
    return any(event["kind"] == "restored" and event["element"] in heirs for event in told)


def test_training_goes_on_under_a_kill_loop(tmp_path: Path) -> None:
    """Whatever is struck, agents and workers, killed and stopped: the same bytes, and each hit is healed."""
    program = (SCRIPT, ROUNDS, COPIES)
    status, expected, _ = scenarios.reference(program)
    assert status == 0
    seed = int(os.environ.get("BSP_SEED", "0"))
    rng = random.Random(f"kill loop {seed}")
    options = ["-p", "64", "-n", "4", "--clones", "2", "--standby", "2", "--hang-limit", "1.5"]
    job = Job(tmp_path / "job", options, program, {})
    struck: list[tuple[float, str]] = []
    try:
        job.event("started")
        for hit in range(HITS):
            known = len(job.events())
            number, worker = rng.choice(WAYS)
            element = rng.choice(_hosts(job))
            job.strike(element, number, worker)
            struck.append((time.monotonic() - job.began, f"{signal.Signals(number).name} element {element} {worker=}"))
            what = f"the end of {struck[-1][1]} ({hit=})"
            job.until(lambda: healed(job, known, element, worker) or job.events("ended"), what)
            if job.events("ended"):  # what was struck last may not have been noticed any more
                break
        last = not healed(job, known, element, worker)
        assert len(struck) - last >= LEAST, job.story()
        assert job.bsprun.wait(BUDGET) == 0, job.story()
        assert job.out.read_bytes() == expected, job.story()
        seen = Counter(event["kind"] for event in job.events())
        agents = sum("worker=False" in told for _, told in struck[: len(struck) - last])
        workers = len(struck) - last - agents
        for kind, wanted in (("died", agents), ("appeared", agents), ("relaunched", workers)):
            assert wanted <= seen[kind] <= wanted + last, job.story()
        assert not seen["lost"], job.story()
        assert job.events("ended")[0]["rounds_lost"] == 0, job.story()
        job.until(lambda: not job.left(), "the end of all processes", scenarios.GONE)
    finally:
        if "BSP_MEASURED" in os.environ:
            with open(os.environ["BSP_MEASURED"], "a") as file:
                file.write(json.dumps({"scenario": "kill loop", "struck": struck, "events": job.events()}) + "\n")
        job.stop()


def _hosts(job: Job) -> list[int]:
    """The elements that have a bundle now: who began with one, less the dead, and who was promoted."""
    told = job.events()
    last = max(at for at, event in enumerate(told) if event["kind"] == "started")
    dead = {event["element"] for event in told[last:] if event["kind"] == "died"}
    risen = {event["element"] for event in told[last:] if event["kind"] == "promoted" and "instead_of" in event}
    return sorted((set(range(8)) | risen) - dead)
