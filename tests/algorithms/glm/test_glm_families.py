"""A family is one class, a link another: what they define is all there is, and what they lack is an error.

Tests over `EVERY` cover each registered family with each of its links: a new one is tested by being registered.
"""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from glm_families import DEFAULTS, EVERY, possible, theirs_of, tight
from numpy.testing import assert_allclose

import bsp
from bsp.algorithms import glm
from bsp.algorithms.glm.families import FAMILIES, Family, Tweedie, Undefined, family_of, registered
from bsp.algorithms.glm.families.family import Terms, Vector, gammaln, xlogy
from bsp.algorithms.glm.links import LINKS, Link
from bsp.algorithms.glm.links.link import registered as registered_link

SOURCES = Path(glm.__file__).parent
STEP = 1e-5


class Geometric(Family):
    """Failures before the first success; only what has no default."""

    name, links, convex_links, lowest = "geometric of this test", ("log",), ("log",), 0.0

    def loss(self, mu: Vector, y: Vector) -> Vector:
        return (y + 1) * np.log1p(mu) - xlogy(y, mu)

    def variance(self, mu: Vector) -> Vector:
        return mu + mu * mu

    def variance_slope(self, mu: Vector) -> Vector:
        return 1 + 2 * mu

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        return y < 0, "a count, 0 or more"

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> Terms:
        return w * (gammaln(y + 1) - gammaln(1.0) - gammaln(y + 1)), 0.0, 0.0


@pytest.fixture
def own() -> Any:
    registered(Geometric)
    yield Geometric.name
    del FAMILIES[Geometric.name]


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("offset", [False, True])
def test_a_family_of_ones_own_is_one_class(own: str, nprocs: int, offset: bool) -> None:
    rng = np.random.default_rng(3)
    n = 400
    X = rng.normal(size=(n, 3))
    away = rng.normal(size=n) * 0.3 if offset else None
    mu = np.exp(0.5 + X @ [0.4, -0.3, 0.0] + (0 if away is None else away))
    y = rng.poisson(mu * rng.gamma(1.0, 1.0, n)).astype(float)
    weights = rng.integers(1, 4, n).astype(float)

    def main(proc: bsp.Process) -> Any:
        model = glm.GLM(family=own, tol=1e-12)
        model.fit(X, y, weights, away)
        table = model.summary()
        found = table.solution
        numbers = found.deviance, found.null_deviance, found.log_likelihood, found.pearson_chi2, table.aic
        return [model.intercept_, *model.coef_], model.standard_errors_, numbers, str(table)

    theirs = sm.families.NegativeBinomial(alpha=1.0)
    known = sm.GLM(y, sm.add_constant(X), family=theirs, freq_weights=weights, offset=away).fit(tol=1e-14, maxiter=200)
    for coefficients, errors, numbers, text in bsp.run(main, nprocs=nprocs):
        assert_allclose(coefficients, known.params, rtol=1e-7, atol=1e-9)
        assert_allclose(errors, known.bse, rtol=1e-6, atol=0)
        wanted = known.deviance, known.null_deviance, known.llf, known.pearson_chi2, known.aic
        assert_allclose(numbers, wanted, rtol=1e-7, atol=0)
        assert own in text


@pytest.mark.parametrize("what", ["loss", "variance", "variance_slope", "wrong", "constants"])
def test_what_a_family_lacks_is_named_when_it_is_registered(what: str) -> None:
    lacking = type("Lacking", (Geometric,), {what: getattr(Family, what), "name": "lacking"})
    with pytest.raises(Undefined, match=rf"family 'lacking' does not define {what}.*: define it in class Lacking"):
        registered(lacking)
    assert "lacking" not in FAMILIES


def test_a_family_of_free_dispersion_defines_its_likelihood() -> None:
    free = type("Free", (Geometric,), {"free_dispersion": True, "name": "free"})
    with pytest.raises(Undefined, match=r"family 'free' does not define log_likelihood"):
        registered(free)


def test_a_family_names_links_that_there_are() -> None:
    linked = type("Linked", (Geometric,), {"links": ("lag",), "name": "linked"})
    with pytest.raises(Undefined, match=r"family 'linked' names the link 'lag', which is none of .*log"):
        registered(linked)


def test_what_a_link_lacks_is_named_when_it_is_registered() -> None:
    with pytest.raises(NotImplementedError, match="link Lacking does not define bend"):
        registered_link(type("Lacking", (type(LINKS["log"]),), {"name": "lacking", "bend": Link.bend}))
    assert "lacking" not in LINKS


def test_only_families_ask_which_family_it_is() -> None:
    names = "|".join(map(re.escape, FAMILIES))
    asks = re.compile(
        rf"family(\.name)? *(==|!=|(not )?in [([{{])|isinstance\([^)]*[Ff]amily|link\.name *(==|!=|in\b)|"
        rf"\"({names})\" *(==|!=|:)"
    )
    paths = [path for path in sorted(SOURCES.rglob("*.py")) if path.parent.name != "families"]
    assert len(paths) > 25
    found = {
        f"{path.name}:{number}: {line.strip()}"
        for path in paths
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if asks.search(line)
    }
    assert found == set()


# ----------------------------------------------------------------------------------- names


@pytest.mark.parametrize("name", EVERY)
def test_a_family_is_made_of_its_name_and_travels(name: str) -> None:
    made = family_of(name)
    assert str(made) == name
    assert family_of(made) is made
    for other in (family_of(str(made)), pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert other == made and hash(other) == hash(made)
    others = [each for each in EVERY if each != name]
    assert made not in [family_of(each) for each in others]


def test_a_family_with_parameters_is_given_by_name_or_as_itself() -> None:
    assert repr(Tweedie(1.25, "identity")) == "Tweedie(1.25, link='identity')"
    assert repr(glm.GLM(Tweedie(1.25))) == "GLM(family=Tweedie(1.25))"
    assert family_of("tweedie:1.25:identity") == Tweedie(1.25, "identity") != Tweedie(1.25)
    X, y = np.arange(12.0)[:, None] % 5, np.arange(12.0) % 3
    named, given = (glm.GLM(each).fit(X, y) for each in ("tweedie:1.25", Tweedie(1.25)))
    assert named.coef_.tobytes() == given.coef_.tobytes()
    assert given.summary().to_dict()["family"] == "tweedie:1.25"
    assert str(given.summary()).startswith("Tweedie (power 1.25) regression of y (log link), 12 rows")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tweedie:2", "power=2: between 1 and 2; of 1, 2 and 3 use 'poisson'"),
        ("tweedie:log:1.5", r"tweedie\[:POWER\]\[:log|identity\]"),
        ("negative-binomial:-1", "spread=-1: a number above 0"),
        ("binomial:log", "family 'binomial' has no link 'log': one of logit, probit, cloglog, identity"),
        ("poisson:1.5", "family 'poisson' has no link '1.5'"),
    ],
)
def test_a_name_that_makes_no_family_says_what_would(name: str, says: str) -> None:
    with pytest.raises(ValueError, match=f"family='{name}': .*{says}"):
        glm.GLM(name).fit(np.ones((3, 1)), np.ones(3))


# ----------------------------------------------------------------------------- mathematics


def around(name: str) -> tuple[Family, np.ndarray, np.ndarray]:
    """A family, linear predictors that are possible, and responses."""
    made = family_of(name)
    rng = np.random.default_rng(11)
    low, high = made.means if made.means[0] == 0 else (1.0, 3.0)
    eta = made.predictor(rng.uniform(low + 0.05, min(high, 3.0) - 0.05, 200))
    return made, eta, possible(made, rng.poisson(1.5, 200).astype(float))


@pytest.mark.parametrize("name", EVERY)
def test_score_and_curvature_are_the_derivatives_of_the_loss(name: str) -> None:
    made, eta, y = around(name)
    below, here, above = (made.expansion(eta + step, y) for step in (-STEP, 0.0, STEP))
    size = 1 + np.abs(here.score).max() + np.abs(here.curvature).max()
    assert_allclose((above.loss - below.loss) / (2 * STEP), here.score, rtol=0, atol=1e-6 * size)
    assert_allclose((above.score - below.score) / (2 * STEP), here.curvature, rtol=0, atol=1e-5 * size)
    if made.solved_by == "hessian":
        assert (here.curvature >= 0).all()


@pytest.mark.parametrize("name", EVERY)
def test_the_chain_rule_gives_what_closed_forms_give(name: str) -> None:
    made, eta, y = around(name)
    mu, slope = made.mean(eta), made.link.slope(eta)
    here = made.expansion(eta, y)
    assert_allclose(here.score, (mu - y) / made.variance(mu) * slope, rtol=1e-9, atol=1e-12)
    assert_allclose(made.information(eta), slope**2 / made.variance(mu), rtol=1e-9, atol=0)
    assert_allclose(made.chi2(eta, y), (y - mu) ** 2 / made.variance(mu), rtol=1e-9, atol=1e-12)
    # the curvature is linear in y: its expectation is that of a response equal to the mean
    assert_allclose(made.expansion(eta, mu).curvature, made.information(eta), rtol=1e-8, atol=1e-10)
    if made.canonical:
        assert_allclose(here.curvature, made.information(eta), rtol=1e-12, atol=0)
    unit = 2 * (here.loss - made.least(y))
    assert (unit >= -1e-12).all()
    assert_allclose(unit, theirs_of(made)._resid_dev(y, mu), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", LINKS)
def test_a_link_undoes_its_inverse_and_has_its_derivatives(name: str) -> None:
    link = LINKS[name]
    mu = np.linspace(0.01, 0.99, 99)
    eta = link.predictor(mu)
    assert_allclose(link.mean(eta), mu, rtol=1e-13, atol=0)
    assert_allclose(link.complement(eta), 1 - mu, rtol=1e-12, atol=0)
    assert_allclose(link.slope(eta), (link.mean(eta + STEP) - link.mean(eta - STEP)) / (2 * STEP), rtol=1e-6, atol=0)
    bend = (link.slope(eta + STEP) - link.slope(eta - STEP)) / (2 * STEP)
    assert_allclose(link.bend(eta), bend, rtol=1e-6, atol=1e-8)
    for found, value in ((link.success(eta), mu), (link.failure(eta), 1 - mu)):
        assert_allclose(found.loss, -np.log(value), rtol=1e-10, atol=0)
    for each in (link.success, link.failure):
        first = (each(eta + STEP).loss - each(eta - STEP).loss) / (2 * STEP)
        second = (each(eta + STEP).score - each(eta - STEP).score) / (2 * STEP)
        assert_allclose(each(eta).score, first, rtol=1e-5, atol=1e-7)
        assert_allclose(each(eta).curvature, second, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", ["logit", "probit", "cloglog"])
@pytest.mark.parametrize("far", [-700.0, -50.0, 6.5, 50.0, 300.0])
def test_losses_of_probabilities_that_round_to_0_or_1_keep_their_digits(name: str, far: float) -> None:
    link = LINKS[name]
    with np.errstate(all="ignore"):
        won, lost = link.success(np.array([far])), link.failure(np.array([far]))
    for each in (*won, *lost):
        assert np.isfinite(each).all()
    assert won.loss + lost.loss >= min(abs(far), 5.0) * (1 - 1e-12)  # one of them is certain, the other is far off
    assert (won.curvature >= 0).all() and (lost.curvature >= 0).all()


# ------------------------------------------------------------------------------ statsmodels


@pytest.mark.filterwarnings("ignore:The Identity link function")  # by which some predictors are no means
@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_family_with_every_link_is_statsmodels(name: str, weighted: bool) -> None:
    rng = np.random.default_rng(12)
    n = 500
    X = rng.uniform(size=(n, 3))
    made = family_of(name)
    mean = 0.8 + X @ [0.5, 1.0, 0.2]
    y = possible(made, rng.poisson(mean).astype(float))
    weights = 0.2 + rng.random(n) if weighted else None
    known = sm.GLM(y, sm.add_constant(X), family=theirs_of(made), var_weights=weights).fit(
        start_params=made.predictor(y.mean()) * np.eye(4)[0], **tight(made)
    )
    likelihood = known.llf
    if name == "gaussian:log":  # of the normal distribution ours is the largest over the dispersion, theirs by one link
        likelihood = known.model.loglike(known.params, scale=known.deviance / n)
    for model in bsp.run(lambda proc: glm.GLM(name, tol=1e-12).fit(X, y, weights), nprocs=3):
        found = model.solution_
        assert found.converged and all("Pearson chi2" in note for note in found.notes)
        assert_allclose([model.intercept_, *model.coef_], known.params, rtol=1e-6, atol=1e-9)
        assert_allclose(model.standard_errors_, known.bse, rtol=1e-6, atol=0)
        numbers = found.deviance, found.null_deviance, found.pearson_chi2, found.dispersion
        wanted = known.deviance, known.null_deviance, known.pearson_chi2, known.scale
        assert_allclose(numbers, wanted, rtol=1e-7, atol=0)
        assert (found.log_likelihood is not None) == made.has_likelihood
        if found.log_likelihood is not None:
            assert_allclose(found.log_likelihood, likelihood, rtol=1e-7, atol=0)
        assert_allclose(model.predict(X), known.fittedvalues, rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_prediction_without_values_prices_every_family(name: str) -> None:
    def main(proc: Any) -> None:
        X = proc.rng.normal(size=(40, 3))
        glm.GLM(name).fit(X, proc.rng.uniform(0.5, 0.9, 40))

    found = bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True)
    assert found.supersteps >= (6 if name == "gaussian" else 9)  # least squares take one iteration


@pytest.mark.parametrize("link", family_of("binomial").links)
def test_probabilities_of_success_and_failure_add_up(link: str) -> None:
    X = np.arange(20.0)[:, None] % 7 / 7
    model = glm.GLM(f"binomial:{link}").fit(X, (np.arange(20) % 3 > 0).astype(float))
    found = model.predict_proba(X)
    assert_allclose(found.sum(axis=1), 1.0, rtol=1e-14, atol=0)
    assert_allclose(found[:, 1], model.predict(X), rtol=0, atol=0)


def test_a_start_at_means_that_cannot_be_says_what_to_do() -> None:
    X, y = np.arange(1.0, 13.0)[:, None], np.arange(12.0)
    with pytest.raises(glm.DataError, match=r"poisson:identity model.*means.*from 0 to inf.*intercept"):
        glm.GLM("poisson:identity", fit_intercept=False).fit(X, y)
    with pytest.raises(glm.DataError, match=r"with this offset a poisson:identity model has no intercept"):
        glm.GLM("poisson:identity").fit(X, y, offset=-100.0 * X[:, 0])
