"""The probit link: a success is a normal variable below the linear predictor."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.glm.links.link import Expansion, Link, Vector, registered

_ROOT = 0.5 * np.log(2 * np.pi)


def _special() -> Any:
    from scipy import special  # it takes as long to import as many a fit

    return special


@registered
class Probit(Link):
    """mu = Phi(eta), the normal distribution function."""

    name = "probit"

    def mean(self, eta: Vector) -> Vector:
        """Return Phi(eta)."""
        return _special().ndtr(eta)

    def predictor(self, mu: Vector) -> Vector:
        """Return the normal quantile of mu."""
        return _special().ndtri(mu)

    def slope(self, eta: Vector) -> Vector:
        """Return the normal density at eta."""
        return np.exp(-0.5 * eta * eta - _ROOT)

    def bend(self, eta: Vector) -> Vector:
        """Return -eta times the normal density at eta."""
        return -eta * self.slope(eta)

    def complement(self, eta: Vector) -> Vector:
        """Return 1 - mu = Phi(-eta), without cancellation."""
        return _special().ndtr(-eta)

    def success(self, eta: Vector) -> Expansion:
        """Return -log mu and its derivatives, by the inverse Mills ratio."""
        log = _special().log_ndtr(eta)
        ratio = np.exp(-0.5 * eta * eta - _ROOT - log)  # the inverse Mills ratio; about -eta far below 0
        return Expansion(-log, -ratio, ratio * np.maximum(ratio + eta, 0))

    def failure(self, eta: Vector) -> Expansion:
        """Return -log(1 - mu) and its derivatives, by the symmetry of the normal distribution."""
        loss, score, curvature = self.success(-eta)
        return Expansion(loss, -score, curvature)
