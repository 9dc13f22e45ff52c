"""The 31 scenarios, each with 20 seeds in `make chaos` (BSP_REPEAT; see scenarios.py).

`make test` plays with one seed those that are marked `often`, one of each way to fail and to heal, and the simulated.

`BSP_MEASURED=file` writes what was measured, a line of JSON a scenario.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
import scenarios
from scenarios import SCENARIOS, SIMULATED, Scenario, Simulated

CHAOS = "BSP_REPEAT" in os.environ
REPEAT = int(os.environ.get("BSP_REPEAT", "1"))
AT_ONCE = 4  # jobs of ten ranks, which mostly wait; more would measure the machine


def seeds(scenario: Scenario) -> range:
    """REPEAT of each of the study's scenarios; the ways in which one is played share them."""
    ways = sum(other.number == scenario.number for other in SCENARIOS)
    return range(-(-REPEAT // ways))


def played(scenario: Scenario, seed: int, folder: Path) -> dict[str, object]:
    """One run; the plain engine's output of its program is there before it begins."""
    if scenario.same:
        scenarios.reference(scenario.program)
    return scenarios.run(scenario, seed, folder)


@pytest.mark.jobs
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scenario", [
    pytest.param(scenario, marks=[] if scenario.often else pytest.mark.rest, id=scenario.key) for scenario in SCENARIOS
])  # fmt: skip
def test_scenario(scenario: Scenario, tmp_path: Path) -> None:
    """What must be seen is seen, with every seed."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        mine = {
            seed: pool.submit(played, scenario, seed, tmp_path / f"{scenario.number}-{seed}")
            for seed in seeds(scenario)
        }
    failed = {seed: error for seed, run in mine.items() if (error := run.exception()) is not None}
    _record(scenario.key, [run.result() for run in mine.values() if run.exception() is None], len(failed))
    if failed:
        pytest.fail("\n\n".join(f"seed {seed}: {error!s}" for seed, error in failed.items()), pytrace=False)


@pytest.fixture(scope="module")
def cores() -> Iterator[ProcessPoolExecutor]:
    """The simulator computes: a seed a core."""
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        yield pool


def simulated(key: str, seed: int) -> list[str]:
    """What went wrong."""
    (scenario,) = (each for each in SIMULATED if each.key == key)
    return scenario.play(seed, CHAOS)


@pytest.mark.thorough
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("scenario", SIMULATED, ids=lambda play: play.key)
def test_simulated_scenario(scenario: Simulated, cores: ProcessPoolExecutor) -> None:
    """The same on the simulator, where a fault can strike at any step."""
    began = time.monotonic()
    for wrong in cores.map(simulated, [scenario.key] * REPEAT, range(REPEAT)):
        if wrong:
            pytest.fail("\n".join(wrong[:10]), pytrace=False)
    _record(scenario.key, [{"seconds": round(time.monotonic() - began, 2)}], 0)


def test_all_thirty_one_are_here() -> None:
    """None of the study's scenarios is left out."""
    assert scenarios.all_numbers() == set(range(1, 32))


def _record(key: str, runs: list[dict[str, object]], failed: int) -> None:
    """Seconds, counts of events, latencies between them."""
    if "BSP_MEASURED" in os.environ:
        with open(os.environ["BSP_MEASURED"], "a") as file:
            file.write(json.dumps({"scenario": key, "failed": failed, "runs": runs}) + "\n")
