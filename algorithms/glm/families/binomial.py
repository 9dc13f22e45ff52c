"""Successes of trials: logistic and probit regression."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from bsp.algorithms.glm.families.family import (
    Expansion,
    Family,
    Terms,
    Vector,
    counts_excess,
    gammaln,
    registered,
    xlogy,
)

_TINY = 1e-300


@registered
class Binomial(Family):
    """Two outcomes, and proportions of trials.  Losses are of the link's log-probabilities, which lose no digits."""

    name, also = "binomial", ("logistic",)
    links = convex_links = ("logit", "probit", "cloglog", "identity")
    canonical_link = "logit"
    proportions, lowest, highest, means = True, 0.0, 1.0, (0.0, 1.0)
    quasi: ClassVar[str | None] = "quasi-binomial"

    @property
    def title(self) -> str:
        """The word "Logistic" with the logit link, else "Binomial"."""
        return "Logistic" if self.by_default else "Binomial"

    def expansion(self, eta: Vector, y: Vector) -> Expansion:
        """Return loss, score and curvature: in closed form for the logit link, else from log-probabilities."""
        if self.by_default:
            small = np.exp(-np.abs(eta))  # at most 1: nothing overflows
            rest = 1 + small
            mu = np.where(eta < 0, small, 1.0) / rest
            return Expansion(np.maximum(eta, 0) - y * eta + np.log1p(small), mu - y, small / (rest * rest))
        with np.errstate(all="ignore"):
            won, lost = self.link.success(eta), self.link.failure(eta)
            loss, score, curvature = (y * a + (1 - y) * b for a, b in zip(won, lost, strict=True))
            return Expansion(self.possible(self.mean(eta), loss), score, curvature)

    def information(self, eta: Vector) -> Vector:
        """Return the expected curvature: mu(1 - mu) for the logit link, else from the link's log-probabilities."""
        if self.by_default:
            small = np.exp(-np.abs(eta))
            return small / (1 + small) ** 2
        with np.errstate(all="ignore"):
            won, lost = self.link.success(eta).curvature, self.link.failure(eta).curvature
            return self.mean(eta) * won + self.link.complement(eta) * lost

    def least(self, y: Vector) -> Vector:
        """Return the loss where mu = y: the entropy of a success of probability y."""
        return -xlogy(y, y) - xlogy(1 - y, 1 - y)

    def excess(self, eta: Vector, y: Vector) -> Vector:
        """Return half the unit deviances: of proportions from mu and 1 - mu, else the losses, which are as exact."""
        if ((y == 0) | (y == 1)).all():
            return self.expansion(eta, y).loss
        mu, rest = self.mean(eta), self.link.complement(eta)
        with np.errstate(all="ignore"):
            return self.possible(mu, counts_excess(mu, y) + counts_excess(rest, 1 - y))

    def variance(self, mu: Vector) -> Vector:
        """Return mu(1 - mu)."""
        return mu * (1 - mu)

    def chi2(self, eta: Vector, y: Vector) -> Vector:
        """Return the squares of Pearson's residuals, accurate also for means near 0 and 1."""
        mu, rest = self.mean(eta), self.link.complement(eta)  # 1 - mu would lose the digits of a small one
        return (y * rest - (1 - y) * mu) ** 2 / np.maximum(mu * rest, _TINY)

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        """Return which responses are not proportions."""
        return (y < 0) | (y > 1), "the proportion of successes, between 0 and 1"

    def hopeless(self, successes: float, failures: float) -> str:
        """Return a message if all responses are successes, or all are failures."""
        if successes and failures:
            return ""
        alike = 0 if successes == 0 else 1
        return f"y has one class only: all are {alike}; a binomial model needs successes and failures"

    def level(self, total: Any, successes: Any, failures: Any) -> Any:
        """Return eta of the model with an intercept only: the link of the overall proportion of successes."""
        return np.log(successes / failures) if self.by_default else self.predictor(successes / total)

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> Terms:
        """Return the weighted log binomial coefficients of the trials; the other two terms are 0."""
        if trials is None and ((y == 0) | (y == 1)).all():
            return 0.0, 0.0, 0.0  # there is one way
        m = np.ones_like(y) if trials is None else trials
        ways = gammaln(m + 1) - gammaln(m * y + 1) - gammaln(m - m * y + 1)  # of the successes among the trials
        return w / m * ways, 0.0, 0.0
