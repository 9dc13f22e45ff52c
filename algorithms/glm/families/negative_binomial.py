"""The negative binomial distribution: counts that spread more than a Poisson's."""

from __future__ import annotations

import numpy as np

from bsp.algorithms.glm.families.family import (
    Expansion,
    Family,
    Terms,
    Vector,
    beyond_log,
    counts_excess,
    gammaln,
    registered,
    xlogy,
)


@registered
class NegativeBinomial(Family):
    """Counts of variance mu + spread·mu², the spread being given.

    spread : above 0; statsmodels' alpha, the inverse of R's theta.
    Source: McCullagh & Nelder, 2nd edition, section 11.2; Hilbe, Negative Binomial Regression, 2nd edition (2011).
    """

    name, links, convex_links = "negative-binomial", ("log", "identity"), ("log",)
    parameters = ("spread",)
    nonnegative, lowest, means = True, 0.0, (0.0, np.inf)

    def __init__(self, spread: float = 1.0, link: str | None = None) -> None:
        if not 0 < spread < np.inf:
            raise ValueError(f"spread={spread:g}: a number above 0; of 0 use family 'poisson'")
        self.spread = float(spread)
        super().__init__(link)

    @property
    def title(self) -> str:
        """The first words of a summary's title, with the spread."""
        return f"Negative binomial (spread {self.spread:g})"

    def loss(self, mu: Vector, y: Vector) -> Vector:
        """Return (y + 1/spread)·log(1 + spread·mu) - y·log(mu)."""
        return (y + 1 / self.spread) * np.log1p(self.spread * mu) - xlogy(y, mu)

    def expansion(self, eta: Vector, y: Vector) -> Expansion:
        """Return loss, score and curvature: in closed form for the log link, else by the chain rule."""
        if not self.by_default:
            return super().expansion(eta, y)
        size = 1 / self.spread
        small = np.exp(-np.abs(eta - np.log(size)))  # of spread·mu and its inverse the smaller one
        share = np.where(eta < np.log(size), small, 1.0) / (1 + small)  # spread·mu / (1 + spread·mu)
        grown = np.maximum(eta - np.log(size), 0) + np.log1p(small)  # log(1 + spread·mu)
        total = y + size
        return Expansion(total * grown - y * eta, total * share - y, total * share * (1 - share))

    def excess_of_mean(self, mu: Vector, y: Vector) -> Vector:
        """Return y·log(y/mu) - (y + 1/spread)·log((1 + spread·y)/(1 + spread·mu))."""
        other = beyond_log(self.spread * (mu - y) / (1 + self.spread * y))
        return np.maximum(counts_excess(mu, y) - (y + 1 / self.spread) * other, 0.0)

    def variance(self, mu: Vector) -> Vector:
        """Return mu + spread·mu²."""
        return mu + self.spread * mu * mu

    def variance_slope(self, mu: Vector) -> Vector:
        """Return 1 + 2·spread·mu."""
        return 1 + 2 * self.spread * mu

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        """Return which responses are below 0."""
        return y < 0, "a count, 0 or more"

    def hopeless(self, successes: float, failures: float) -> str:
        """Return a message if all responses are 0."""
        return "" if successes else "all y are 0: their mean has no logarithm; there is nothing to fit"

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> Terms:
        """Return the weighted log coefficients of the distribution; the other two terms are 0."""
        size = 1 / self.spread
        ways = gammaln(y + size) - gammaln(size) - gammaln(y + 1) + y * np.log(self.spread)
        return w * ways, 0.0, 0.0
