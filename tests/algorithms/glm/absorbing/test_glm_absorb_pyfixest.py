"""Fits with absorbed effects, held to figures that pyfixest 0.60.0 found of the same generated data.

`feols` and `fepois` made them with the default `ssc`, `fixef_rm="none"`, and for counts `iwls_tol=1e-12`.  Errors of
"poisson" without `robust` are of `ssc(k_adj=False)`: those of maximum likelihood, which are not scaled.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import bsp
from bsp.algorithms import glm

N = 400
RNG = np.random.default_rng(24)
FIRM, YEAR = RNG.integers(0, 40, N), RNG.integers(0, 6, N)
FIRM[0] = 40  # a firm of one row
X = RNG.normal(size=(N, 2)) + 0.3 * RNG.normal(size=41)[FIRM][:, None]
EFFECT = RNG.normal(size=41)[FIRM] + 0.2 * YEAR
Y = X @ [0.5, -0.25] + EFFECT + RNG.normal(size=N) * (1 + 0.5 * np.abs(X[:, 0]))
COUNT = RNG.poisson(np.exp(0.4 * X @ [0.5, -0.25] + 0.4 * EFFECT)).astype(float)
WEIGHT = RNG.integers(1, 5, N) / 2
TOWN = FIRM % 9  # firms are within towns, years are not
ABSORBED = {"firm": [FIRM], "firm + year": [FIRM, YEAR]}
KINDS: dict[str, tuple[Any, np.ndarray, dict[str, Any]]] = {
    "ols": (glm.LinearRegression, Y, {}),
    "wls": (glm.LinearRegression, Y, {"sample_weight": WEIGHT}),
    "poisson": (glm.PoissonRegression, COUNT, {}),
}
COEFFICIENTS = {
    ("ols", "firm"): (0.4940909218285749, -0.22442388414307884),
    ("wls", "firm"): (0.41632571276292124, -0.24516398447628265),
    ("poisson", "firm"): (0.18435714770972575, -0.03083700724736349),
    ("ols", "firm + year"): (0.4597819545068611, -0.2342072289830418),
    ("wls", "firm + year"): (0.380739075825037, -0.24397446386601454),
    ("poisson", "firm + year"): (0.15316022791054007, -0.042784373979129174),
}
ERRORS = {
    ("ols", "firm", False): (0.07377477955415214, 0.07020112301227113),
    ("ols", "firm", "HC1"): (0.08649336263505412, 0.07301246401558568),
    ("ols", "firm", "cluster"): (0.07467173994890662, 0.05957266042929136),
    ("wls", "firm", False): (0.0758128925896386, 0.07179138249197069),
    ("wls", "firm", "HC1"): (0.09745813561971756, 0.07734464949782743),
    ("wls", "firm", "cluster"): (0.08843443969111009, 0.062270950090603024),
    ("poisson", "firm", False): (0.047592383134390744, 0.04446033360652816),
    ("poisson", "firm", "HC1"): (0.0444695424741605, 0.041416014039274106),
    ("poisson", "firm", "cluster"): (0.042682438404974446, 0.03530734256965667),
    ("ols", "firm + year", False): (0.07166612396217839, 0.06756317701118882),
    ("ols", "firm + year", "HC1"): (0.0843642195907512, 0.06863181744700661),
    ("ols", "firm + year", "cluster"): (0.08494403155517294, 0.05922781173714684),
    ("wls", "firm + year", False): (0.07398009731304374, 0.06964584189986202),
    ("wls", "firm + year", "HC1"): (0.09610533663615942, 0.0721774704453506),
    ("wls", "firm + year", "cluster"): (0.1026646711666363, 0.05974366646859766),
    ("poisson", "firm + year", False): (0.04862971839169456, 0.04492040429676254),
    ("poisson", "firm + year", "HC1"): (0.04452938720197495, 0.04177425026525696),
    ("poisson", "firm + year", "cluster"): (0.03375531993042107, 0.03358084525773693),
}


def fitted(kind: str, effects: str, robust: Any, rows: np.ndarray = X) -> Any:
    model, y, data = KINDS[kind]
    clusters = {"clusters": TOWN} if robust == "cluster" else {}
    return bsp.run(
        lambda proc: model(robust=robust).fit(rows, y, absorb=ABSORBED[effects], **clusters, **data), nprocs=3
    )[0]


@pytest.mark.parametrize(("kind", "effects", "robust"), ERRORS, ids=lambda value: str(value))
def test_coefficients_and_errors_are_those_of_pyfixest(kind: str, effects: str, robust: Any) -> None:
    """Errors to 5e-8: pyfixest takes effects out to a tolerance that leaves about 1e-8 of them, ours to 1e-12."""
    found = fitted(kind, effects, robust)
    assert found.converged_
    assert_allclose(found.coef_, COEFFICIENTS[kind, effects], rtol=1e-10)
    assert_allclose(found.standard_errors_, ERRORS[kind, effects, robust], rtol=5e-8)


def test_a_collinear_column_is_left_out_as_pyfixest_does() -> None:
    """The third column is 2·first - second; pyfixest drops it and keeps the errors of the other two."""
    found = fitted("ols", "firm + year", False, np.column_stack([X, 2 * X[:, 0] - X[:, 1]]))
    kept = found.coef_ != 0
    assert kept.sum() == 2 and any("x2" in note for note in found.solution_.notes)
    assert_allclose(found.coef_[:2], COEFFICIENTS["ols", "firm + year"], rtol=1e-8)
    assert_allclose(found.standard_errors_[:2], ERRORS["ols", "firm + year", False], rtol=1e-8)
