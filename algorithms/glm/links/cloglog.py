"""The complementary log-log link: a success is at least one event of a Poisson process with log rate eta."""

from __future__ import annotations

import numpy as np

from bsp.algorithms.glm.links.link import Expansion, Link, Vector, registered

_LOWEST, _HIGHEST = 1e-300, 700.0  # rates: beyond them the mean is 0 or exp(rate) overflows; -log mu is flat there


@registered
class CLogLog(Link):
    """mu = 1 - exp(-exp(eta))."""

    name = "cloglog"

    def mean(self, eta: Vector) -> Vector:
        """Return 1 - exp(-exp(eta))."""
        return -np.expm1(-np.exp(eta))

    def predictor(self, mu: Vector) -> Vector:
        """Return log(-log(1 - mu))."""
        return np.log(-np.log1p(-mu))

    def slope(self, eta: Vector) -> Vector:
        """Return exp(eta - exp(eta))."""
        return np.exp(eta - np.exp(eta))

    def bend(self, eta: Vector) -> Vector:
        """Return exp(eta - exp(eta))·(1 - exp(eta))."""
        return self.slope(eta) * (1 - np.exp(eta))

    def complement(self, eta: Vector) -> Vector:
        """Return 1 - mu = exp(-exp(eta)), without cancellation."""
        return np.exp(-np.exp(eta))

    def success(self, eta: Vector) -> Expansion:
        """Return -log mu and its derivatives; the rate is clipped to where they are finite."""
        rate = np.clip(np.exp(eta), _LOWEST, _HIGHEST)
        mean = -np.expm1(-rate)
        ratio = rate * np.exp(-rate) / mean
        return Expansion(-np.log(mean), -ratio, ratio * np.maximum(ratio + rate - 1, 0))

    def failure(self, eta: Vector) -> Expansion:
        """Return -log(1 - mu) and its derivatives: all three are exp(eta)."""
        rate = np.exp(eta)
        return Expansion(rate, rate, rate)
