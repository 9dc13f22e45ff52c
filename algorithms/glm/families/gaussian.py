"""The normal distribution: linear regression."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.glm.families.family import Expansion, Family, Fitted, Terms, Vector, registered


@registered
class Gaussian(Family):
    """Linear regression.  Its log-likelihood is the largest over the dispersion too: the profile likelihood."""

    name, also = "gaussian", ("linear",)
    links, convex_links, canonical_link = ("identity", "log"), ("identity",), "identity"
    free_dispersion = True

    @property
    def title(self) -> str:
        """The word "Linear" with the identity link, else "Gaussian"."""
        return "Linear" if self.by_default else "Gaussian"

    @property
    def linear(self) -> bool:
        """Whether the link is the identity."""
        return self.by_default

    def loss(self, mu: Vector, y: Vector) -> Vector:
        """Return (mu - y)²/2."""
        return 0.5 * (mu - y) ** 2

    def expansion(self, eta: Vector, y: Vector) -> Expansion:
        """Return loss, score and curvature: in closed form for the identity link, else by the chain rule."""
        if not self.by_default:
            return super().expansion(eta, y)
        error = eta - y
        return Expansion(0.5 * error * error, error, np.ones_like(error))

    def variance(self, mu: Vector) -> Vector:
        """Return 1, whatever the mean."""
        return np.ones_like(mu)

    def variance_slope(self, mu: Vector) -> Vector:
        """Return 0."""
        return np.zeros_like(mu)

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        """Return that no response is impossible."""
        return np.zeros(y.shape, bool), ""

    def hopeless(self, successes: float, failures: float) -> str:
        """Return a message if the link is the log and the sum of y is not above 0."""
        if self.by_default or successes > 0:
            return ""
        return "the mean of y is not above 0: it has no logarithm, where a fit by the log link begins"

    def offset_sum(self, w: Vector, y: Vector, offset: Vector) -> Any:
        """Return the sum of w·(y - offset) for the identity link; None for others."""
        return w @ (y - offset) if self.by_default else None

    def level_with_offset(self, total: Any, successes: Any, found: Any) -> Any:
        """Return the intercept: the weighted mean of y - offset."""
        return found / total

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> Terms:
        """Return log(w); the other two terms are 0."""
        return np.log(w), 0.0, 0.0

    def log_likelihood(self, constants: Any, fitted: Fitted, dispersed: Any) -> Any:
        """Return the profile log-likelihood: the largest over the dispersion."""
        n = fitted.n_rows
        return 0.5 * (constants[0] - n * (1 + np.log(2 * np.pi * fitted.deviance / n)))
