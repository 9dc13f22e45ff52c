"""The logit link: the linear predictor is the log of the odds."""

from __future__ import annotations

import numpy as np

from bsp.algorithms.glm.links.link import Expansion, Link, Vector, registered


@registered
class Logit(Link):
    """mu = 1 / (1 + exp(-eta))."""

    name = "logit"
    ratio = "odds ratio"

    def mean(self, eta: Vector) -> Vector:
        """Return 1 / (1 + exp(-eta)), without overflow."""
        small = np.exp(-np.abs(eta))  # at most 1: nothing overflows
        return np.where(eta < 0, small, 1.0) / (1 + small)

    def predictor(self, mu: Vector) -> Vector:
        """Return log(mu / (1 - mu))."""
        return np.log(mu / (1 - mu))

    def slope(self, eta: Vector) -> Vector:
        """Return mu(1 - mu)."""
        small = np.exp(-np.abs(eta))
        return small / (1 + small) ** 2

    def bend(self, eta: Vector) -> Vector:
        """Return mu(1 - mu)(1 - 2·mu)."""
        return self.slope(eta) * (1 - 2 * self.mean(eta))

    def complement(self, eta: Vector) -> Vector:
        """Return 1 - mu, which is the mean at -eta."""
        return self.mean(-eta)

    def success(self, eta: Vector) -> Expansion:
        """Return -log mu and its derivatives, without overflow."""
        small = np.exp(-np.abs(eta))
        return Expansion(np.maximum(-eta, 0) + np.log1p(small), -self.mean(-eta), small / (1 + small) ** 2)

    def failure(self, eta: Vector) -> Expansion:
        """Return -log(1 - mu) and its derivatives, without overflow."""
        small = np.exp(-np.abs(eta))
        return Expansion(np.maximum(eta, 0) + np.log1p(small), self.mean(eta), small / (1 + small) ** 2)
