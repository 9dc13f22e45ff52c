"""The cost of absorbed effects: supersteps and words, counted, with values, without, and as `cost` has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.algorithms import glm
from bsp.algorithms.glm.absorbing.cost import PROJECTIONS, cost

N, K = 400, 2
RNG = np.random.default_rng(1)
FIRM, YEAR, TOWN = (np.concatenate([np.arange(m), RNG.integers(0, m, N - m)])[RNG.permutation(N)] for m in (60, 7, 9))
X = RNG.normal(size=(N, K))
COUNTS = 1.0 + RNG.poisson(np.exp(0.1 * YEAR + 0.2 * X[:, 0]))
EFFECTS = {"one": [FIRM], "two": [FIRM, YEAR]}
Steps = list[tuple[str, int]]


def counted(model: Any, labels: list[np.ndarray], p: int, abstract: bool, **columns: Any) -> tuple[Steps, int]:
    """Calls and h of the supersteps, and the iterations."""
    steps: list[int] = []
    found = bsp.predict(
        lambda proc: steps.append(model.fit(X, COUNTS, absorb=labels, **columns).n_iter_),
        nprocs=p, machine=bsp.Machine(p=p), abstract=abstract,
    ).per_superstep  # fmt: skip
    # the first superstep is that in which all agree on the data
    return [(each["call"], max(each["h_sent"], each["h_received"])) for each in found][1:], steps[0]


def numbers(labels: list[np.ndarray], p: int) -> list[int]:
    """How many labels the first process has, of each column."""
    return [len(np.unique(each[: -(-N // p)])) for each in labels]


def sums(steps: Steps) -> Steps:
    """Sums, and largest values, with their types and lengths."""
    return [(call.partition(",")[0], h) for call, h in steps if call.startswith("allreduce")]


def words(steps: Steps) -> int:
    return sum(h for _, h in steps)


@pytest.mark.parametrize("p", [1, 2, 5])
@pytest.mark.parametrize("robust", [False, "HC1", "cluster"])
@pytest.mark.parametrize("kind", [glm.LinearRegression, glm.PoissonRegression])
def test_supersteps_and_sums_are_those_of_the_fit(kind: Any, robust: Any, p: int) -> None:
    model = kind(robust=robust)
    columns = {"clusters": TOWN} if robust == "cluster" else {}
    ran, iterations = counted(model, [FIRM], p, False, **columns)
    priced, _ = counted(model, [FIRM], p, True, **columns)
    machine = bsp.Machine(p=p)
    clusters = sum(numbers([TOWN], p)) * bool(columns)
    own = cost(model._model(), N, K, numbers([FIRM], p), p, machine, iterations, clusters=clusters)
    usual = cost(model._model(), N, K, numbers([FIRM], p), p, machine, clusters=clusters)
    assert (len(ran), len(priced)) == (own.S, usual.S)
    assert set(sums(ran)) == set(sums(priced))
    exchanged = [words(steps) - words(sums(steps)) for steps in (ran, priced)]
    if p == 1:
        assert exchanged == [0, 0]
    elif robust != "cluster":  # whose last exchange is that of rows that are clusters of their own
        rounds = own.H - words(sums(ran))  # by price: owners have as many labels each
        assert 0.6 * rounds <= exchanged[0] <= 1.6 * rounds


@pytest.mark.parametrize("effects", EFFECTS)
@pytest.mark.parametrize("kind", [glm.LinearRegression, glm.PoissonRegression])
def test_a_run_without_values_costs_what_cost_says(kind: Any, effects: str) -> None:
    p, labels = 4, EFFECTS[effects]
    priced, _ = counted(kind(), labels, p, True)
    own = cost(kind()._model(), N, K, numbers(labels, p), p, bsp.Machine(p=p))
    assert len(priced) == own.S
    busiest = [max(len(np.unique(each[part])) for part in np.split(np.arange(N), p)) for each in labels]
    most = cost(kind()._model(), N, K, busiest, p, bsp.Machine(p=p))
    assert 0.95 * own.H <= words(priced) <= 1.05 * most.H  # each exchange in whole words


def test_each_projection_of_two_columns_costs_the_same() -> None:
    ran, _ = counted(glm.LinearRegression(), EFFECTS["two"], 3, False)
    model, labels = glm.LinearRegression()._model(), numbers(EFFECTS["two"], 3)
    none, one = (cost(model, N, K, labels, 3, None, 1, projections=each).S for each in (0, 1))
    assert one - none == 8  # three projections there and back, and two sums
    projections, rest = divmod(len(ran) - none, one - none)
    assert rest == 0 and 2 <= projections <= 2 * PROJECTIONS


@pytest.mark.parametrize("kind", [glm.LinearRegression, glm.PoissonRegression])
def test_dealt_arrays_without_values_have_as_many_labels_as_rows(kind: Any) -> None:
    p = 2

    def main(proc: bsp.Process) -> None:
        rng = ba.random.default_rng(1)
        labels = rng.integers(0, 5, size=100)
        model = kind(robust="cluster").fit(
            rng.normal(size=(100, K)), rng.integers(1, 9, size=100).astype(float), absorb=labels, clusters=labels
        )
        assert model.coef_.shape == model.standard_errors_.shape == (K,) and str(model.summary())

    found = bsp.predict(main, nprocs=p, machine=bsp.Machine(p=p), abstract=True)
    own = cost(kind(robust="cluster")._model(), 100, K, [50], p, bsp.Machine(p=p), clusters=50)
    assert own.S <= found.supersteps <= own.S + 3
    assert any("upper bound" in each for each in found.record["notes"])


def test_more_labels_and_columns_are_more_words_and_memory() -> None:
    model = glm.PoissonRegression()._model()
    few, many = (cost(model, 10**6, 10, [count], 64) for count in (100, 10_000))
    assert few.S == many.S and few.H < many.H and few.M < many.M
    assert cost(model, 10**6, 10, [100, 100], 64).S > 4 * few.S
