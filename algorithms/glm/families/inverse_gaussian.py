"""The inverse Gaussian distribution: positive amounts with a long tail."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.glm.families.family import Family, Fitted, Terms, Vector, registered


@registered
class InverseGaussian(Family):
    """Positive amounts of variance mu³.  Its log-likelihood is that at the estimated dispersion."""

    name, links = "inverse-gaussian", ("log", "identity")
    nonnegative, free_dispersion, means = True, True, (0.0, np.inf)

    @property
    def title(self) -> str:
        """The first words of a summary's title."""
        return "Inverse Gaussian"

    def loss(self, mu: Vector, y: Vector) -> Vector:
        """Return y/(2·mu²) - 1/mu."""
        return (0.5 * y / mu - 1) / mu

    def excess_of_mean(self, mu: Vector, y: Vector) -> Vector:
        """Return (y - mu)²/(2·y·mu²)."""
        return 0.5 * ((y - mu) / mu) ** 2 / y

    def variance(self, mu: Vector) -> Vector:
        """Return mu³."""
        return mu**3

    def variance_slope(self, mu: Vector) -> Vector:
        """Return 3·mu²."""
        return 3 * mu * mu

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        """Return which responses are not above 0."""
        return y <= 0, "an amount above 0"

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> Terms:
        """Return 3·log(y) - log(w); the other two terms are 0."""
        return 3 * np.log(y) - np.log(w), 0.0, 0.0

    def log_likelihood(self, constants: Any, fitted: Fitted, dispersed: Any) -> Any:
        """Return the log-likelihood at the estimated dispersion."""
        scaled = fitted.deviance / fitted.dispersion
        return -0.5 * (scaled + fitted.n_rows * np.log(2 * np.pi * fitted.dispersion) + constants[0])
