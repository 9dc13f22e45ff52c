"""The identity link: the mean is the linear predictor."""

from __future__ import annotations

import numpy as np

from bsp.algorithms.glm.links.link import Link, Vector, registered


@registered
class Identity(Link):
    """mu = eta."""

    name = "identity"

    def mean(self, eta: Vector) -> Vector:
        """Return eta."""
        return eta

    def predictor(self, mu: Vector) -> Vector:
        """Return mu."""
        return mu

    def slope(self, eta: Vector) -> Vector:
        """Return 1."""
        return np.ones_like(eta)

    def bend(self, eta: Vector) -> Vector:
        """Return 0."""
        return np.zeros_like(eta)
