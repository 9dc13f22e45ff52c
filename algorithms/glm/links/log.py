"""The log link: effects multiply the mean."""

from __future__ import annotations

import numpy as np

from bsp.algorithms.glm.links.link import Link, Vector, registered


@registered
class Log(Link):
    """mu = exp(eta)."""

    name = "log"
    ratio = "ratio of means"

    def mean(self, eta: Vector) -> Vector:
        """Return exp(eta)."""
        return np.exp(eta)

    def predictor(self, mu: Vector) -> Vector:
        """Return log(mu)."""
        return np.log(mu)

    def slope(self, eta: Vector) -> Vector:
        """Return exp(eta)."""
        return np.exp(eta)

    def bend(self, eta: Vector) -> Vector:
        """Return exp(eta)."""
        return np.exp(eta)
