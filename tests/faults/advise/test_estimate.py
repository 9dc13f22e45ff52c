"""What measured times say about D: Hill with its interval, the gate, and resampling where the gate says no."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bsp.errors import TraceError
from bsp.faults.advise import models
from bsp.faults.advise.estimate import LEVEL, RoundTimes, estimate, goodness, hill, hill_interval, same_elements_late
from bsp.faults.advise.measured import estimate_from


def pareto(seed: int, D: float, shape: tuple[int, ...] | int) -> np.ndarray:
    return (1 - np.random.default_rng(seed).random(shape)) ** (-1 / D)


def made(supersteps: int, p: int, elements: int) -> dict[str, Any]:
    """A trace of `supersteps` in which nothing happened."""
    machine = {"name": "desk", "kind": "measured", "p": elements, "r": 1e9, "g": 1.0, "L": 1.0, "o": 1.0}
    zeros = dict.fromkeys(("w_by", "h_sent", "h_sent_by", "h_received", "h_received_by", "h_mean", "messages"), 0)
    row = {
        "label": None,
        "call": "sync",
        "source": "a.py:1",
        "w": 0,
        "w_mean": 0,
        **zeros,
        "seconds": 0,
        "predicted": 0,
    }
    return {
        "format": "bsp-trace",
        "version": 1,
        "kind": "trace",
        "program": ["a.py"],
        "date": "2025-03-14",
        "processes": p,
        "elements": elements,
        "supersteps": supersteps,
        "words": 0,
        "messages": 0,
        "seconds": 0,
        "predicted_seconds": 0,
        "peak_bytes": 0,
        "machine": machine,
        "per_superstep": [{"superstep": number, **row} for number in range(supersteps)],
        "end": {"source": "a.py:2", "w": 0, "seconds": 0, "predicted": 0},
        "per_process": {"w": [0] * p, "sent": [0] * p, "received": [0] * p},
        "per_element": [],
        "traffic": {"bins": 1, "words": [[0]]},
        "choices": [],
        "costings": {"max_supersteps": 0, "max_async": 0, "volume": 0, "min_async": 0},
        "classical": {"W": 0, "H": 0, "S": 0, "g": 0, "L": 0, "total": 0},
        "balance": [],
    }


def within(hits: int, trials: int, share: float) -> bool:
    """Whether that many hits are within the 99.9 % interval of `share`."""
    interval = stats.binomtest(hits, trials).proportion_ci(confidence_level=0.999)
    return bool(interval.low <= share <= interval.high)


# ------------------------------------------------------------------------------------ Hill


def test_hill_by_hand() -> None:
    assert hill([1.0, math.e, math.e**3], 2) == pytest.approx(2 / 4, rel=1e-14, abs=0)
    assert hill([2.0, 2.0, 2.0], 2) == math.inf


@pytest.mark.parametrize(("D", "k"), [(0.8, 30), (2.0, 200), (6.0, 999)])
def test_the_interval_of_hill_holds_the_exponent_as_often_as_it_says(D: float, k: int) -> None:
    """Exact for any k: 95 % of 2000 samples, within the 99.9 % interval."""
    rng = np.random.default_rng(11)
    hits = 0
    for _ in range(2000):
        low, high = hill_interval(hill(rng.pareto(D, 1000) + 1, k), k)
        hits += low <= D <= high
    assert within(hits, 2000, 0.95)


@pytest.mark.parametrize("k", [100, 1000])
def test_the_gate_refuses_a_power_law_as_often_as_it_says(k: int) -> None:
    rng = np.random.default_rng(12)
    refused = sum(goodness(rng.pareto(3, k + 1) + 1, k) < LEVEL for _ in range(2000))
    assert within(refused, 2000, LEVEL)


def test_p_values_are_those_of_stephens_table() -> None:
    """5 % at A² = 1.321, 1 % at 1.959 (D'Agostino and Stephens 1986, table 4.11): by simulation, within 99.9 %."""
    rng = np.random.default_rng(13)
    values = np.array([goodness(rng.pareto(2, 301) + 1, 300) for _ in range(3000)])
    for level in (0.01, 0.1, 0.3):
        assert within(int((values < level).sum()), 3000, level)


@pytest.mark.parametrize(
    ("name", "times"),
    [
        ("lognormal", np.exp(0.5 * np.random.default_rng(1).standard_normal(20_000))),
        ("uniform", 1 + np.random.default_rng(2).random(20_000)),
        ("two speeds", np.random.default_rng(3).choice([1.0, 1.1, 5.0], 20_000)),
        ("all alike", np.ones(500)),
    ],
)
def test_what_is_no_power_law_is_refused_and_drawn_again_instead(name: str, times: np.ndarray) -> None:
    found = estimate(times)
    assert not found.accepted and found.tail.D is None, name
    assert "no D" in found.text()
    drawn = found.tail.draw(np.random.default_rng(0), (50,))
    assert np.isin(drawn, times).all()


def test_a_power_law_above_a_body_is_found_above_it() -> None:
    """Below 2 uniform, above 2 Pareto with D = 2.5: a tenth of all."""
    rng = np.random.default_rng(4)
    times = np.where(rng.random(40_000) < 0.1, 2 * (rng.pareto(2.5, 40_000) + 1), 1 + rng.random(40_000))
    found = estimate(times)
    assert found.accepted and found.low <= 2.5 <= found.high
    assert found.tail.threshold >= 1.95
    at = np.array([3.0, 10.0, 100.0])
    np.testing.assert_allclose(found.tail.survival(at), 0.1 * (at / 2) ** -2.5, rtol=0.5, atol=0)


def test_few_times_say_nothing() -> None:
    found = estimate(pareto(5, 2, 60))
    assert not found.accepted and "fewer than 100" in found.text()


# ------------------------------------------------------------------------------------ Tail


def tails() -> list[RoundTimes]:
    return [
        RoundTimes(3.0),
        estimate(pareto(6, 3, 3000)).tail,
        RoundTimes(None, times=np.sort(pareto(7, 3, 500))),
        estimate(pareto(8, 3, (3000, 6)).max(axis=1), of=6).tail,
    ]


@pytest.mark.parametrize("which", range(4))
def test_quantile_and_survival_belong_together(which: int) -> None:
    tail = tails()[which]
    for s in (0.9, 0.4, 0.05, 1e-3, 1e-9):
        t = float(tail.quantile(s))
        assert float(tail.survival(t)) <= s * (1 + 1e-9) + 1e-12
        assert float(tail.survival(t * (1 - 1e-9) - 1e-12)) >= s * (1 - 1e-6) - 1e-12


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize(("p", "hc"), [(1, 1), (50, 2)])
def test_the_mean_of_the_maximum_is_that_of_draws(which: int, p: int, hc: int) -> None:
    """Within the 99.9 % interval of 20,000 rounds (a >= 3: the variance is finite)."""
    tail = tails()[which]
    rounds = tail.draw(np.random.default_rng(20 + which), (20_000, p, hc)).min(axis=2).max(axis=1)
    error = 3.29 * rounds.std() / math.sqrt(len(rounds))
    assert abs(rounds.mean() - tail.mean_of_maximum(p, hc)) < error


def test_known_and_fitted_tails_agree_with_the_formulas() -> None:
    assert RoundTimes(4.0).mean_of_maximum(500, 2) == models.expected_maximum(500, 8)
    assert RoundTimes(4.0).limit(8, 2, 1000, 1e-3).value == pytest.approx(
        models.tail_limit(8, 2, 1000, 4, 1e-3), rel=1e-12
    )
    assert RoundTimes(math.inf).mean_of_maximum(9, 1) == 1
    fitted = RoundTimes(3.0, times=np.ones(1))  # from 1 on, all of it
    assert fitted.mean_of_maximum(64, 2) == pytest.approx(models.expected_maximum(64, 6), rel=1e-7, abs=0)
    assert RoundTimes(0.4, times=np.ones(1)).mean_of_maximum(64, 2) == math.inf


def test_a_limit_beyond_what_was_measured_says_so() -> None:
    measured = RoundTimes(None, times=np.sort(pareto(9, 2, 1000)))
    assert measured.limit(8, 2, 1000, 1e-3) == (measured.times[-1], True)
    assert not measured.limit(1, 3, 1, 0.01).beyond
    fitted = estimate(pareto(9, 2, 1000)).tail
    assert fitted.limit(8, 1, 1000, 1e-3).beyond and not fitted.limit(8, 4, 1000, 1e-3).beyond


def test_the_largest_of_many_has_the_exponent_of_each() -> None:
    found = estimate(pareto(10, 3, (20_000, 16)).max(axis=1), of=16)
    assert found.accepted and found.low <= 3 <= found.high
    at = np.array([3.0, 6.0, 20.0])
    np.testing.assert_allclose(found.tail.survival(at), at**-3.0, rtol=0.35, atol=0)


def test_elements_that_stay_slow_are_told_from_rounds_that_are() -> None:
    alike = pareto(14, 3, (200, 8))
    assert same_elements_late(alike) > 0.001
    slow = alike * np.array([1, 1, 1, 1, 1, 1, 1, 1.5])
    assert same_elements_late(slow) < 1e-6
    assert same_elements_late(alike) == pytest.approx(
        stats.kruskal(*(alike / alike.min(axis=1, keepdims=True)).T).pvalue, rel=0.05, abs=0
    )


# ----------------------------------------------------------------------------------- files


def test_times_by_round_give_d_without_the_one_that_set_min_time(tmp_path: Path) -> None:
    """In seconds, MinTime another in each round; given the least, the others are Pareto from it on."""
    scale = np.random.default_rng(15).random((800, 1)) + 0.1
    rows = pareto(16, 2.5, (800, 6)) * scale
    file = tmp_path / "times.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows.tolist()))
    found = estimate_from(str(file))
    assert found.count == 800 * 5 and found.accepted and not found.warnings
    assert found.low <= 2.5 <= found.high


def test_one_number_a_line_is_one_long_round(tmp_path: Path) -> None:
    file = tmp_path / "times.txt"
    file.write_text("\n".join(str(time) for time in 0.3 * pareto(17, 4, 2000)))
    found = estimate_from(str(file))
    assert found.accepted and found.low <= 4 <= found.high


def test_a_slow_element_is_warned_of(tmp_path: Path) -> None:
    rows = pareto(18, 3, (300, 4)) * np.array([1, 1, 1, 2])
    file = tmp_path / "times.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows.tolist()))
    assert "the same elements are slow" in estimate_from(str(file)).warnings[0]


@pytest.mark.parametrize("whole", [True, False])
def test_a_trace_gives_d_from_its_busiest_elements(tmp_path: Path, whole: bool) -> None:
    trace = made(supersteps=4000, p=8, elements=8)
    times = 0.1 * pareto(19, 3, (4000, 8))
    for row, at in zip(trace["per_superstep"], times, strict=True):
        busiest, mean = float(at.max()), float(at.mean())
        row.update(w=busiest, w_mean=mean, compute=busiest, wait=busiest - mean)
        if not whole:
            row.pop("compute"), row.pop("wait")
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(trace))
    found = estimate_from(str(file))
    assert found.accepted and found.tail.of == 8
    assert found.low * 0.85 <= 3 <= found.high * 1.15  # MinTime is not in a trace
    assert "busiest element and the mean only" in found.warnings[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty; give one JSON line a round"),
        ("[1, 2]\n[1, -2]\n", "line 2 is [1, -2]; give a list of times above 0"),
        ("[1, 2]\nfast\n", "line 2 is fast"),
        ("[1, 2]\n[]\n", "line 2 is []"),
        ("[1, true]\n", "line 1 is [1, true]"),
        ("[1, 2]\n[3]\n", "give two elements or more a line"),
        ("[1, NaN]\n", "line 1 is [1, NaN]"),
    ],
)
def test_bad_files_are_named_with_the_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "times.jsonl"
    file.write_text(text)
    with pytest.raises(ValueError, match=r"times\.jsonl: ") as refused:
        estimate_from(str(file))
    assert says in str(refused.value)


def test_bad_traces_are_refused_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    file.write_text('{"format": "other"}')
    with pytest.raises(TraceError, match="no bsp-trace"):
        estimate_from(str(file))
    file.write_text(json.dumps(made(supersteps=5, p=1, elements=1)))
    with pytest.raises(ValueError, match="trace a longer run on more elements"):
        estimate_from(str(file))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: hill([1, 2, 3], 3), "k is 3 of 3 times"),
        (lambda: estimate([1]), "needs two or more"),
        (lambda: estimate([0, 1, 2]), "all above 0 and finite"),
        (lambda: RoundTimes(None), "neither D nor times"),
        (lambda: RoundTimes(-1.0), "a tail exponent is above 0"),
        (lambda: RoundTimes(2.0, of=4), "largest of 4; give the times"),
    ],
)
def test_bad_arguments_are_named(call: object, says: str) -> None:
    with pytest.raises(ValueError) as refused:
        call()  # type: ignore[operator]
    assert says in str(refused.value)
