"""The Poisson distribution: counts."""

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


@registered
class Poisson(Family):
    """Counts whose variance is their mean."""

    name, links = "poisson", ("log", "identity")
    convex_links, canonical_link = ("log", "identity"), "log"
    nonnegative, lowest, means = True, 0.0, (0.0, np.inf)
    quasi: ClassVar[str | None] = "quasi-poisson"

    @property
    def title(self) -> str:
        """The first words of a summary's title."""
        return "Poisson"

    @property
    def log_linear(self) -> bool:
        """Whether the link is the log."""
        return self.by_default

    def loss(self, mu: Vector, y: Vector) -> Vector:
        """Return mu - y·log(mu)."""
        return mu - xlogy(y, mu)

    def expansion(self, eta: Vector, y: Vector) -> Expansion:
        """Return loss, score and curvature: in closed form for the log link, else by the chain rule."""
        if not self.by_default:
            return super().expansion(eta, y)
        mu = np.exp(eta)
        return Expansion(mu - y * eta, mu - y, mu)

    def information(self, eta: Vector) -> Vector:
        """Return the expected curvature: mu for the log link."""
        return np.exp(eta) if self.by_default else super().information(eta)

    def excess_of_mean(self, mu: Vector, y: Vector) -> Vector:
        """Return y·log(y/mu) - (y - mu)."""
        return counts_excess(mu, y)

    def variance(self, mu: Vector) -> Vector:
        """Return mu."""
        return mu

    def variance_slope(self, mu: Vector) -> Vector:
        """Return 1."""
        return np.ones_like(mu)

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        """Return which responses are below 0."""
        return y < 0, "a count, 0 or more"

    def hopeless(self, successes: float, failures: float) -> str:
        """Return a message if all responses are 0."""
        if successes:
            return ""
        return "all y are 0: the logarithm of their mean is not a number; there is nothing to fit"

    def offset_sum(self, w: Vector, y: Vector, offset: Vector) -> Any:
        """Return the sum of w·exp(offset) for the log link; None for others."""
        return w @ np.exp(offset) if self.by_default else None

    def level_with_offset(self, total: Any, successes: Any, found: Any) -> Any:
        """Return the intercept: the log of the sum of w·y over that of w·exp(offset)."""
        return self.predictor(successes / found)

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> Terms:
        """Return -w·log(y!); the other two terms are 0."""
        return -w * gammaln(y + 1), 0.0, 0.0
