"""The gamma distribution: positive amounts."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.glm.families.family import Expansion, Family, Fitted, Terms, Vector, beyond_log, gammaln, registered


@registered
class Gamma(Family):
    """Positive amounts whose spread grows with their mean.  Its log-likelihood is that at the estimated dispersion."""

    name, links, convex_links = "gamma", ("log", "identity"), ("log",)
    nonnegative, free_dispersion, means = True, True, (0.0, np.inf)

    @property
    def title(self) -> str:
        """The first words of a summary's title."""
        return "Gamma"

    def loss(self, mu: Vector, y: Vector) -> Vector:
        """Return y/mu + log(mu)."""
        return y / mu + np.log(mu)

    def expansion(self, eta: Vector, y: Vector) -> Expansion:
        """Return loss, score and curvature: in closed form for the log link, else by the chain rule."""
        if not self.by_default:
            return super().expansion(eta, y)
        ratio = y * np.exp(-eta)
        return Expansion(ratio + eta, 1 - ratio, ratio)

    def information(self, eta: Vector) -> Vector:
        """Return the expected curvature: 1 for the log link."""
        return np.ones_like(eta) if self.by_default else super().information(eta)

    def excess_of_mean(self, mu: Vector, y: Vector) -> Vector:
        """Return (y - mu)/mu - log(y/mu)."""
        return beyond_log((y - mu) / mu)

    def variance(self, mu: Vector) -> Vector:
        """Return mu²."""
        return mu * mu

    def variance_slope(self, mu: Vector) -> Vector:
        """Return 2·mu."""
        return 2 * mu

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        """Return which responses are not above 0."""
        return y <= 0, "an amount above 0"

    def offset_sum(self, w: Vector, y: Vector, offset: Vector) -> Any:
        """Return the sum of w·y·exp(-offset) for the log link; None for others."""
        return w @ (y * np.exp(-offset)) if self.by_default else None

    def level_with_offset(self, total: Any, successes: Any, found: Any) -> Any:
        """Return the intercept: the log of the weighted mean of y·exp(-offset)."""
        return self.predictor(found / total)

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> Terms:
        """Return w·log(w), w·log(y) and log(y)."""
        return w * np.log(w), w * np.log(y), np.log(y)

    def is_dispersed(self, weighted: bool) -> bool:
        """Return True with weights: the shapes then differ from row to row."""
        return weighted

    def dispersed(self, y: Vector, w: Vector | None, dispersion: Any) -> Vector:
        """Return log Γ(w / dispersion)."""
        return gammaln(w / dispersion)

    def log_likelihood(self, constants: Any, fitted: Fitted, dispersed: Any) -> Any:
        """Return the log-likelihood at the estimated dispersion."""
        first, second, third = constants
        shapes = fitted.n_rows * gammaln(1 / fitted.dispersion) if dispersed is None else dispersed
        scaled = first + second - fitted.loss - fitted.sum_weights * np.log(fitted.dispersion)
        return scaled / fitted.dispersion - shapes - third
