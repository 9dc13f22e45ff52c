"""`bsp probe`: a real measurement, the fit on times that are known, and what it refuses."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import bsp
from bsp.cost.machine_file import RATES, read, to_machine
from bsp.cost.probe import command
from bsp.cost.probe.command import _profile, refused, to_toml
from bsp.cost.probe.fit import fitted
from bsp.cost.probe.program import PATTERNS, POINTS, SIZES, Measured, _inside_round
from bsp.cost.report.tables import probe_text
from bsp.cost.terms import TERMS
from bsp.errors import MachineError

BSP = os.path.join(os.path.dirname(sys.executable), "bsp")


def known(L: float, o: float, g: float, fine: float, new: float, staged: float, fresh: float) -> np.ndarray:
    """What the points would take, without noise."""
    times = []
    for point in POINTS:
        words = point.size / 8 * point.count
        if point.kind == "new":
            times.append(L + new)
        elif point.kind == "fine":
            times.append(L + fine * 2 * point.count)
        else:
            extra = {"sends": staged, "cold": staged + fresh}.get(point.kind, 0.0)
            times.append(L * (point.count > 0 or 0.9) + o * point.count + (g + extra) * words)
    return np.array(times)


TRUE = {"L": 2e-5, "o": 3e-6, "g": 1e-9, "fine": 6e-9, "new": 3e-5, "staged": 2e-10, "fresh": 2e-9}


def test_the_fit_finds_what_the_times_were_made_of_under_noise_that_only_adds() -> None:
    rng = np.random.default_rng(5)
    samples = known(**TRUE) * (1 + rng.exponential(0.1, (60, len(POINTS))))
    fit = fitted(samples.tolist(), POINTS, 1)
    for name, value in (("L", 2e-5), ("o", 3e-6), ("g", 1e-9), ("fine", 6e-9), ("registration", 3.2e-5)):
        low, high = fit.intervals[name]
        assert fit.rates[name] == pytest.approx(value, rel=0.05)
        assert low <= fit.rates[name] <= high * 1.0001
    assert fit.rates["fresh"] == pytest.approx(2e-9, rel=0.2)
    assert [size for size, _ in fit.blocks] == list(SIZES)
    assert dict(fit.blocks)[1 << 20] == pytest.approx(1e-9, rel=0.1)
    assert fit.refused == []


def test_more_rounds_make_intervals_tighter() -> None:
    rng = np.random.default_rng(6)
    samples = (known(**TRUE) * (1 + rng.exponential(0.3, (200, len(POINTS))))).tolist()
    assert fitted(samples, POINTS, 1).loosest[1] < fitted(samples[:10], POINTS, 1).loosest[1]
    assert not fitted(samples[:8], POINTS, 1).tight


def test_a_fit_whose_interval_reaches_zero_is_refused_by_name() -> None:
    rng = np.random.default_rng(7)
    noise = rng.exponential(1e-3, (8, len(POINTS)))
    fit = fitted((known(**TRUE) + noise).tolist(), POINTS, 1)
    assert "o" in fit.refused or "registration" in fit.refused or "L" in fit.refused


def test_a_refusal_says_first_that_the_machine_is_busy_and_then_which_time_is_uncertain() -> None:
    sure = fitted(np.tile(known(**TRUE), (8, 1)).tolist(), POINTS, 1)
    unsure = dataclasses.replace(sure, intervals=sure.intervals | {"fine": (-1e-9, 1e-8)})
    assert refused(Measured({}, sure, sure, 8, True), 30) is None
    told = refused(Measured({}, unsure, sure, 8, False), 30)
    assert told == (
        "the machine is too busy to be measured: try again when less runs on it, or with --seconds 60; no machine file "
        "was written, because after 8 rounds the 95 % interval of the time of a word put one by one inside an element "
        "reaches down to 0"
    )
    alone = refused(Measured({}, unsure, None, 8, False), 30)
    assert alone is not None and alone.endswith("interval of the time of a word put one by one reaches down to 0")


@pytest.mark.jobs
def test_the_time_of_a_boundary_inside_an_element_is_never_less_than_nothing() -> None:
    # "sends" and "cold" do far more work before the boundary than at it; each is followed by one that does little
    heavy = [k for k, point in enumerate(POINTS) if point.kind in ("sends", "cold")]
    light = [k for k in range(len(POINTS)) if k not in heavy]
    order = [*heavy[:1], *light[:1], *heavy[1:], *light[1:]]
    for _ in range(3):
        (times, *others) = bsp.run(_inside_round, order, nprocs=8)
        assert min(times) > 0
        assert others == [times] * 7


@pytest.mark.thorough
@pytest.mark.jobs
@pytest.mark.timeout(180)
def test_a_real_probe_writes_a_file_that_runs_pick(tmp_path: Path) -> None:
    cache, out = tmp_path / "cache", tmp_path / "machine.toml"
    environment = os.environ | {"BSP_MACHINES": str(cache)}
    done = subprocess.run(
        [BSP, "probe", "-n", "2", "--seconds", "3", "-o", out],
        capture_output=True, text=True, timeout=300, env=environment,
    )  # fmt: skip
    if done.returncode == 1:  # too busy to be measured: said in one line, nothing written
        assert done.stderr.splitlines()[-1].startswith("bsp probe: error: the machine is too busy to be measured")
        assert "reaches down to 0" in done.stderr
        assert not out.exists()
        return
    assert done.returncode == 0, done.stderr
    profile = read(out)
    machine = to_machine(profile)
    assert (machine.p, machine.kind, len(machine.levels)) == (2, "measured", 2)
    assert set(machine.rates) == set(RATES)
    assert set(profile["held_out"]) == set(PATTERNS)
    assert [size for size, _ in machine.levels[1].blocks] == list(SIZES)
    assert {"host", "cpu", "mpi", "date", "python", "numpy", "bsp", "tight"} <= set(profile["measured"])
    assert "# flop/s" in out.read_text()
    listed = subprocess.run([BSP, "probe", "--list"], capture_output=True, text=True, timeout=300, env=environment)
    assert machine.name in listed.stdout
    assert "cluster16" in listed.stdout
    script = tmp_path / "s.py"
    script.write_text("import bsp\nproc = bsp.process()\nproc.sync()\nprint(proc.machine.name)\n")
    bsprun = os.path.join(os.path.dirname(BSP), "bsprun")
    ran = subprocess.run(
        [bsprun, "-p", "2", "-n", "2", script], capture_output=True, text=True, timeout=300, env=environment
    )
    assert ran.stdout.split() == [machine.name] * 2, ran.stderr


@pytest.mark.parametrize(
    "words", [["-n", "0"], ["--seconds", "0"], ["--seconds", "nan"], ["-n", "two"], ["-n", "100000"]]
)
def test_wrong_options_get_one_line(words: list[str]) -> None:
    done = subprocess.run([BSP, "probe", *words], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_cache_that_cannot_be_written_is_told_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("BSP_MACHINES", str(tmp_path / "file"))
    monkeypatch.setattr(command, "rates", lambda seconds: pytest.fail("measured"))
    with pytest.raises(MachineError, match=r"cannot be written: .*; set BSP_MACHINES to a folder"):
        command.probe(1, 1.0, None)


def test_a_machine_file_has_every_term_of_each_fit(tmp_path: Path) -> None:
    fit = fitted(np.tile(known(**TRUE), (8, 1)).tolist(), POINTS, 1)
    flops = dict.fromkeys(RATES, 2e9)
    fits = {"inside an element": fit, "between elements": fit}
    profile = _profile(2, flops, flops, fits, "") | {"held_out": dict.fromkeys(PATTERNS, 0.1)}
    (tmp_path / "m.toml").write_text(to_toml(profile))
    machine = to_machine(read(tmp_path / "m.toml"))
    for term in TERMS:
        holders = [machine] * term.of_machine + [*machine.levels] * term.of_levels
        for holder in holders:  # written to six digits
            assert getattr(holder, term.name) == pytest.approx(2e9 * fit.rates[term.name], rel=1e-5)
        assert f"\n{term.name}: " in probe_text(profile) or f"\n{term.name} of each level: " in probe_text(profile)
