"""A family is one class: what it defines is all there is, and what it lacks is an error."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from numpy.testing import assert_allclose

import bsp
from bsp.algorithms import glm
from bsp.algorithms.glm.families import FAMILIES, Expansion, Family, Undefined, Vector, gammaln, register

SOURCES = Path(glm.__file__).parent
SPREAD = 0.6  # of the negative binomial: Var y = mu + SPREAD·mu²


class NegativeBinomial(Family):
    """Counts whose spread is larger than a Poisson's; its spread is known."""

    name, link, canonical, lowest = "negative binomial of this test", "log", False, 0.0

    def mean(self, eta: Vector) -> Vector:
        return np.exp(eta)

    def predictor(self, mu: Vector) -> Vector:
        return np.log(mu)

    def expansion(self, eta: Vector, y: Vector) -> Expansion:
        mu = SPREAD * np.exp(eta)
        rate = (y + 1 / SPREAD) / (1 + mu)
        return Expansion((y + 1 / SPREAD) * np.log1p(mu) - y * eta, rate * mu - y, rate * mu / (1 + mu))

    def information(self, eta: Vector) -> Vector:
        mu = np.exp(eta)
        return mu / (1 + SPREAD * mu)

    def least(self, y: Vector) -> Vector:
        return (y + 1 / SPREAD) * np.log1p(SPREAD * y) - y * np.log(np.where(y > 0, y, 1.0))

    def variance(self, mu: Vector) -> Vector:
        return mu + SPREAD * mu * mu

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        return y < 0, "a count, 0 or more"

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> tuple[float, float, float]:
        ways = gammaln(y + 1 / SPREAD) - gammaln(1 / SPREAD) - gammaln(y + 1) + y * np.log(SPREAD)
        return w @ ways, 0.0, 0.0


@pytest.fixture
def registered() -> Any:
    register(NegativeBinomial())
    yield NegativeBinomial.name
    del FAMILIES[NegativeBinomial.name]


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("offset", [False, True])
def test_a_family_of_ones_own_is_one_class(registered: str, nprocs: int, offset: bool) -> None:
    rng = np.random.default_rng(3)
    n = 400
    X = rng.normal(size=(n, 3))
    away = rng.normal(size=n) * 0.3 if offset else None
    mu = np.exp(0.5 + X @ [0.4, -0.3, 0.0] + (0 if away is None else away))
    y = rng.poisson(mu * rng.gamma(1 / SPREAD, SPREAD, n)).astype(float)
    weights = rng.integers(1, 4, n).astype(float)

    def main(proc: bsp.Process) -> Any:
        model = glm.GLM(family=registered, tol=1e-12)
        model.fit(X, y, weights, away)
        table = model.summary()
        found = table.solution
        numbers = found.deviance, found.null_deviance, found.log_likelihood, found.pearson_chi2, table.aic
        return [model.intercept_, *model.coef_], model.standard_errors_, numbers, str(table)

    own = sm.families.NegativeBinomial(alpha=SPREAD)
    known = sm.GLM(y, sm.add_constant(X), family=own, freq_weights=weights, offset=away).fit(tol=1e-14, maxiter=200)
    for coefficients, errors, numbers, text in bsp.run(main, nprocs=nprocs):
        assert_allclose(coefficients, known.params, rtol=1e-7, atol=1e-9)
        assert_allclose(errors, known.bse, rtol=1e-6, atol=0)
        wanted = known.deviance, known.null_deviance, known.llf, known.pearson_chi2, known.aic
        assert_allclose(numbers, wanted, rtol=1e-7, atol=0)
        assert registered in text


@pytest.mark.parametrize(
    "what", ["mean", "predictor", "expansion", "information", "least", "variance", "wrong", "constants"]
)
def test_what_a_family_lacks_is_named_when_it_is_registered(what: str) -> None:
    lacking = type("Lacking", (NegativeBinomial,), {what: getattr(Family, what), "name": "lacking"})
    with pytest.raises(Undefined, match=rf"family 'lacking' does not define {what}.*: define it in class Lacking"):
        register(lacking())
    assert "lacking" not in FAMILIES


def test_a_family_of_free_dispersion_defines_its_likelihood() -> None:
    free = type("Free", (NegativeBinomial,), {"free_dispersion": True, "name": "free"})
    with pytest.raises(Undefined, match=r"family 'free' does not define log_likelihood"):
        register(free())


def test_no_file_but_families_asks_which_family_it_is() -> None:
    names = "|".join(map(re.escape, FAMILIES))
    asks = re.compile(rf"family(\.name)? *(==|!=|(not )?in [([{{])|isinstance\([^)]*[Ff]amily|\"({names})\" *(==|!=|:)")
    found = {
        f"{path.name}:{number}: {line.strip()}"
        for path in sorted(SOURCES.rglob("*.py"))
        if path.name != "families.py"
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if asks.search(line)
    }
    assert found == set()
