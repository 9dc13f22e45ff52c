"""The inverse Gaussian distribution: positive amounts with a long tail."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.glm.families.family import Family, Fitted, Sums, Vector, registered


@registered
class InverseGaussian(Family):
    """Positive amounts of variance mu³.  Its log-likelihood is that at the estimated dispersion."""

    name, links = "inverse-gaussian", ("log", "identity")
    nonnegative, free_dispersion, means = True, True, (0.0, np.inf)

    @property
    def title(self) -> str:
        return "Inverse Gaussian"

    def loss(self, mu: Vector, y: Vector) -> Vector:
        return (0.5 * y / mu - 1) / mu

    def variance(self, mu: Vector) -> Vector:
        return mu**3

    def variance_slope(self, mu: Vector) -> Vector:
        return 3 * mu * mu

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        return y <= 0, "an amount above 0"

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> Sums:
        return 3 * np.log(y).sum() - np.log(w).sum(), 0.0, 0.0

    def log_likelihood(self, constants: Any, fitted: Fitted, dispersed: Any) -> Any:
        scaled = fitted.deviance / fitted.dispersion
        return -0.5 * (scaled + fitted.n_rows * np.log(2 * np.pi * fitted.dispersion) + constants[0])
