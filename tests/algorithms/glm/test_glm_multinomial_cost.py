"""The cost of a multinomial fit: supersteps and words, counted, with values, without, and as `cost` has them."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.algorithms import glm
from bsp.algorithms.glm.multinomial.cost import cost
from bsp.algorithms.glm.multinomial.fitting import solve_classes
from bsp.algorithms.glm.multinomial.softmax import Multinomial
from bsp.algorithms.glm.problem import Model, Rows

ROWS, OTHERS = 40, ("bus", "car", "train")
MODELS = {
    "plain": {},
    "robust": {"robust": True, "fit_intercept": False},
    "ridge": {"alpha": 0.1},
    "lbfgs": {"solver": "lbfgs", "alpha": 0.1},
    "lbfgs robust": {"solver": "lbfgs", "robust": "HC1"},
}


def counted(model: Model, k: int, p: int, abstract: bool, machine: bsp.Machine) -> tuple[list[tuple[str, int]], int]:
    """Calls and h of the supersteps, and the iterations."""
    steps: list[int] = []

    def main(proc: Any) -> None:
        X, y = proc.rng.normal(size=(ROWS, k)), proc.rng.integers(0, 4, ROWS).astype(float)
        steps.append(solve_classes(Rows(X, y), model, 1, OTHERS).n_iter)

    found = bsp.predict(main, nprocs=p, machine=machine, abstract=abstract).per_superstep
    return [(each["call"], max(each["h_sent"], each["h_received"])) for each in found], steps[0]


def summed(words: int, p: int) -> tuple[str, int]:
    return f"allreduce(float64[{words}], op='add')", (p - 1) * words


@pytest.mark.parametrize("p", [1, 2, 5])
@pytest.mark.parametrize("abstract", [False, True])
@pytest.mark.parametrize("parameters", [MODELS["plain"], MODELS["robust"]], ids=["plain", "robust"])
def test_a_newton_point_is_one_superstep_of_gradient_and_half_the_hessian(
    parameters: dict[str, Any], abstract: bool, p: int
) -> None:
    k, model = 2, Model(Multinomial(), **parameters)
    d = 3 * (k + model.fit_intercept)
    half = d * (d + 1) // 2
    supersteps, iterations = counted(model, k, p, abstract, bsp.Machine(p=p))
    assert supersteps == [
        summed(4 + 4 + 2 * k, p),
        *[summed(1 + d + half, p)] * (iterations + 1),
        summed(1 + half * bool(model.robust), p),
    ]
    assert iterations == 6 if abstract else 3 <= iterations <= 9


@pytest.mark.parametrize("machine", [{"g": 0.1, "L": 1e6, "o": 1.0}, {"g": 1e3, "L": 1.0, "o": 0.0}], ids=["L", "g"])
@pytest.mark.parametrize("p", [1, 3, 16])
@pytest.mark.parametrize("parameters", MODELS.values(), ids=MODELS)
def test_words_and_supersteps_are_those_of_cost(parameters: dict[str, Any], p: int, machine: dict[str, float]) -> None:
    where, model = bsp.Machine(p=p, **machine), Model(Multinomial(), **parameters)
    for abstract in (True, False) if model.solver != "lbfgs" else (True,):  # whose line searches look twice
        found, iterations = counted(model, 5, p, abstract, where)
        expected = cost(model, ROWS * p, 5, 4, p, where, iterations)
        assert (len(found), sum(h for _, h in found)) == (expected.S, expected.H)


def test_clustered_errors_are_two_more_supersteps_and_at_most_the_words_of_rows_that_are_alone() -> None:
    def main(proc: bsp.Process) -> None:
        rng = np.random.default_rng(proc.pid)
        rows = Rows(rng.normal(size=(ROWS, 2)), rng.integers(0, 4, ROWS) * 1.0, clusters=rng.integers(0, 50, ROWS))
        solve_classes(rows, Model(Multinomial(), robust="cluster"), 1, OTHERS)

    machine = bsp.Machine(p=4)
    some, every = (bsp.predict(main, nprocs=4, machine=machine, abstract=each).per_superstep for each in (False, True))
    assert [row["call"].partition("(")[0] for row in every[-2:]] == ["clusters", "allreduce"]
    assert some[-1]["call"] == every[-1]["call"] == "allreduce(float64[46], op='add')"
    assert 0 < some[-2]["h_sent"] <= 1.5 * every[-2]["h_sent"]  # labels go with their sums
    clustered, plain = (
        cost(Model(Multinomial(), robust=kind), 160, 2, 4, 4, machine) for kind in ("cluster", False)
    )  # fmt: skip
    assert clustered.S - plain.S == 2


@pytest.mark.parametrize("k", [1, 12, 100])
@pytest.mark.parametrize("parameters", MODELS.values(), ids=MODELS)
def test_memory_is_at_most_what_cost_says(parameters: dict[str, Any], k: int) -> None:
    n, model, rng = 100_000 // k, Model(Multinomial(), **parameters), np.random.default_rng(1)
    rows = Rows(rng.normal(0, k**-0.5, (n, k)), rng.integers(0, 4, n) * 1.0)
    peaks: list[int] = []

    def main(proc: Any) -> None:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        solve_classes(rows, model, 1, OTHERS)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)

    bsp.run(main, nprocs=1)  # imports, caches
    tracemalloc.start()
    try:
        bsp.run(main, nprocs=1)
    finally:
        tracemalloc.stop()
    expected = 8 * cost(model, n, k, 4, 1).M
    assert 0.4 * expected <= peaks[-1] <= expected


@pytest.mark.parametrize("p", [1, 3])
def test_a_model_is_fitted_and_scored_without_values(p: int) -> None:
    def main(proc: Any) -> None:
        rng = ba.random.default_rng(1)
        X, y = rng.normal(size=(300, 3)), rng.integers(0, 3, size=300)
        model = glm.MultinomialRegression(robust=True).fit(X, y)
        assert model.coef_.shape == (3, 3) and model.standard_errors_.shape == (3, 4)
        assert model.predict_proba(X).shape == (300, 3) and model.predict(X).shape == (300,)
        model.score(X, y)
        assert str(model.summary())

    def steps(abstract: bool) -> list[tuple[str, int]]:
        rows = bsp.predict(main, nprocs=p, machine=bsp.Machine(p=p), abstract=abstract).per_superstep
        return [(row["call"], row["h_sent"]) for row in rows if row["call"].startswith("allreduce")]

    priced, ran = steps(True), steps(False)
    assert set(priced) == set(ran) and priced[-1] == ran[-1]
    assert priced[0] == ran[0]


def test_a_models_own_cost_is_that_of_its_parameters() -> None:
    machine = bsp.Machine(p=8)
    own = glm.MultinomialRegression(robust=True).cost(1000, 5, 4, 8, machine, 4)
    assert own == cost(Model(Multinomial(), robust=True), 1000, 5, 4, 8, machine, 4)
    assert own.price(machine) > 0
