"""What a fit costs: supersteps and words, counted, with values and without."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from glm_families import DEFAULTS, possible

import bsp
import bsp.arrays as ba
from bsp.algorithms import glm
from bsp.algorithms.glm.cost import cost
from bsp.algorithms.glm.families import family_of
from bsp.algorithms.glm.fitting import solve
from bsp.algorithms.glm.problem import Model, Rows
from bsp.cost.prediction import predict as predicting

ROWS = 40


def program(model: Model, k: int, steps: list[int], start: np.ndarray | None = None) -> Callable[[Any], None]:
    """Random data, of which every family fits; it notes the iterations."""

    def main(proc: Any) -> None:
        X = proc.rng.normal(size=(ROWS, k))
        y = proc.rng.integers(0, 2, ROWS).astype(float)
        y = possible(model.family, y)
        steps.append(solve(Rows(X, y), model, start).n_iter)

    return main


def counted(model: Model, k: int, p: int, abstract: bool, start: Any = None) -> tuple[list[tuple[str, int]], int]:
    """Calls and h of the supersteps, and the iterations."""
    steps: list[int] = []
    found = bsp.predict(program(model, k, steps, start), nprocs=p, machine=bsp.Machine(p=p), abstract=abstract)
    return [(each["call"], max(each["h_sent"], each["h_received"])) for each in found.per_superstep], steps[0]


def summed(words: int, p: int) -> tuple[str, int]:
    """A one-phase allreduce, which few words and processes take."""
    return f"allreduce(float64[{words}], op='add')", (p - 1) * words


@pytest.mark.parametrize("p", [1, 2, 5, 8])
@pytest.mark.parametrize("abstract", [False, True])
@pytest.mark.parametrize("family", DEFAULTS)
@pytest.mark.parametrize("intercept", [False, True])
def test_a_newton_point_is_one_superstep_of_gradient_and_half_the_hessian(
    p: int, abstract: bool, family: str, intercept: bool
) -> None:
    k = 4
    d = k + intercept
    half = d * (d + 1) // 2
    supersteps, iterations = counted(Model(family, fit_intercept=intercept, robust=True), k, p, abstract)
    own = family_of(family)
    matrices = 1 if own.canonical else 2
    assert supersteps == [
        summed(7 + 2 * k, p),
        summed(3, p),
        *[summed(1 + d + half, p)] * (iterations + 1),
        summed(5 + matrices * half, p),
        *[summed(1, p)] * own.is_dispersed(False),
    ]
    usual = {"gaussian": [1], "binomial": range(3, 7), "poisson": range(3, 7), "gamma": range(3, 7)}
    assert iterations == (1 if own.linear else 6) if abstract else iterations in usual.get(family, range(1, 101))


def test_a_penalty_or_no_robust_covariance_leaves_the_last_matrices_out() -> None:
    penalised, _ = counted(Model("poisson", alpha=0.1), 3, 4, False)
    plain, _ = counted(Model("poisson"), 3, 4, False)
    assert penalised[-1] == plain[-1] == summed(5, 4)


@pytest.mark.parametrize("abstract", [False, True])
def test_proximal_newton_costs_what_newton_does(abstract: bool) -> None:
    supersteps, iterations = counted(Model("binomial", alpha=0.05, l1_ratio=0.5), 3, 4, abstract)
    assert supersteps[2:-1] == [summed(1 + 4 + 10, 4)] * (iterations + 1)


@pytest.mark.parametrize("abstract", [False, True])
def test_lbfgs_sums_1_plus_d_words_a_point_and_no_hessian(abstract: bool) -> None:
    d = 5
    supersteps, iterations = counted(Model("binomial", solver="lbfgs", alpha=0.1), d - 1, 4, abstract)
    assert supersteps[2] == summed(1 + 2 * d, 4)
    assert set(supersteps[3:-1]) == {summed(1 + d, 4)}
    assert len(supersteps[3:-1]) <= 1.3 * iterations + 2
    assert supersteps[-1] == summed(5, 4)


def test_words_follow_the_size_of_the_problem() -> None:
    p, k = 4, 20
    d = k + 1
    supersteps, iterations = counted(Model("poisson"), k, p, True)
    half = d * (d + 1) // 2
    points = sum(h for call, h in supersteps if call == f"allreduce(float64[{1 + d + half}], op='add')")
    assert points == (iterations + 1) * (p - 1) * (1 + d + half)


def test_auto_takes_lbfgs_where_half_the_hessian_would_be_too_much() -> None:
    def main(proc: Any) -> str:
        X = np.zeros((3, 1100))
        X[np.arange(3), np.arange(3) + 3 * proc.pid] = 1.0
        found = solve(Rows(X, np.arange(3.0)), Model("poisson", alpha=1.0))
        assert found.converged
        return found.solver

    assert bsp.run(main, nprocs=2) == ["lbfgs", "lbfgs"]


# ---------------------------------------------------------------------------------------- cost

MODELS = [
    Model("gaussian"),
    Model("binomial", robust=True),
    Model("poisson", fit_intercept=False, alpha=0.1),
    Model("gamma", robust=True),
    Model("gamma", alpha=0.1, l1_ratio=0.5),
    Model("binomial", solver="lbfgs"),
    Model("gamma", solver="lbfgs", robust=True, fit_intercept=False),
]
DEAR = {
    "supersteps are dear": {"g": 0.1, "L": 1e6, "o": 1.0},
    "words are dear": {"g": 1e3, "L": 1.0, "o": 0.0},
}


@pytest.mark.crossed
@pytest.mark.parametrize("machine", list(DEAR))
@pytest.mark.parametrize("p", [1, 2, 7, 64])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_words_and_supersteps_are_those_of_cost(model: Model, p: int, machine: str) -> None:
    k, steps = 9, list[int]()
    where = bsp.Machine(p=p, **DEAR[machine])
    found = bsp.predict(program(model, k, steps), nprocs=p, machine=where, abstract=True).per_superstep
    expected = cost(model, ROWS * p, k, p, where, steps[0])
    assert len(found) == expected.S
    assert sum(max(row["h_sent"], row["h_received"]) for row in found) == expected.H


@pytest.mark.parametrize("mean", [0.0, 100.0], ids=["", "shifted"])
@pytest.mark.parametrize("k", [1, 12, 300])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_memory_is_at_most_what_cost_says(model: Model, k: int, mean: float) -> None:
    n = 400_000 // k
    rng = np.random.default_rng(1)
    rows = Rows(rng.normal(mean, k**-0.5, (n, k)), possible(model.family, rng.integers(0, 2, n) * 1.0))
    peaks: list[int] = []

    def main(proc: Any) -> None:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        solve(rows, model)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)

    bsp.run(main, nprocs=1)  # imports, caches
    tracemalloc.start()
    try:
        bsp.run(main, nprocs=1)
    finally:
        tracemalloc.stop()
    expected = 8 * cost(model, n, k, 1).M
    assert 0.25 * expected <= peaks[-1] <= expected


def test_a_models_own_cost_is_that_of_its_parameters() -> None:
    machine = bsp.Machine(p=8)
    model = glm.GammaRegression(robust=True)
    assert model.cost(1000, 5, 8, machine, 4) == cost(Model("gamma", robust=True), 1000, 5, 8, machine, 4)
    assert model.cost(1000, 5, 8, machine, 4).price(machine) > 0
    assert model.cost(10**9, 100, 1).M < 0.04 * 10**9 * 100  # X is not copied
    many = {solver: glm.PoissonRegression(solver=solver).cost(1 << 30, 2000, 512) for solver in ("auto", "newton")}
    assert many["auto"].H < many["newton"].H
    assert many["auto"].W < many["newton"].W / 100


@pytest.mark.parametrize("p", [1, 3])
@pytest.mark.parametrize("family", [glm.PoissonRegression, glm.LogisticRegression])
def test_a_score_without_values_takes_the_supersteps_and_words_of_one_with_values(p: int, family: Any) -> None:
    def main(proc: Any) -> None:
        rng = ba.random.default_rng(1)
        X, y = rng.normal(size=(300, 3)), rng.integers(0, 2, size=300).astype(float)
        family().fit(X, y).score(X, y)

    def last(abstract: bool, count: int) -> list[Any]:
        rows = bsp.predict(main, nprocs=p, machine=bsp.Machine(p=p), abstract=abstract).per_superstep
        return [(row["label"] or row["call"], row["h_sent"], row["messages"]) for row in rows[-count:]]

    sums = 2 if family is glm.PoissonRegression else 1  # after an agreement
    assert last(True, 1 + sums) == last(False, 1 + sums)
    assert [call.partition("(")[0] for call, *_ in last(True, 1 + sums)] == ["allgather", *["allreduce"] * sums]


def test_a_sample_does_not_refuse_a_table_for_values_that_others_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of processes that do not run have the only ones in a column, and the only text of its kind in another."""
    lines = [f"{k % 7},{int(200 <= k < 240)},{'south' if 200 <= k < 240 else 'north'},{k % 3}" for k in range(640)]
    table = tmp_path / "table.csv"
    table.write_text("\n".join(["age,rare,region,visits", *lines]) + "\n")
    monkeypatch.setattr(predicting, "WIDE", 8)

    def fit(proc: bsp.Process) -> None:
        glm.PoissonRegression().fit(table, y="visits")

    every, some = (
        bsp.predict(fit, nprocs=64, machine=bsp.Machine(p=64), abstract=True, every_process=each)
        for each in (True, False)
    )
    assert some.supersteps == every.supersteps
    sums = [[row["h_sent"] for row in found if "allreduce" in row["call"]] for found in (some, every)]
    assert len(sums[0]) == len(sums[1])


@pytest.mark.parametrize(
    "model", [Model("gaussian"), Model("gaussian", alpha=0.1), Model("gaussian", alpha=0.1, l1_ratio=0.5)]
)
def test_least_squares_without_values_take_the_one_iteration_of_the_run(model: Model) -> None:
    ran, declared = (counted(model, 4, 3, abstract) for abstract in (False, True))
    assert declared == ran
