"""The four families: what a linear predictor says of the mean, what a row then costs, and how that curves.

Each function takes arrays of one length and is elementwise.  `eta` is the linear predictor, `mu` the mean, `y` the
response.  The loss is half the unit deviance less what does not depend on eta; `score` and `curvature` are its first
two derivatives by eta.  All four losses are convex in eta, so that their sum has one minimum value.
Source: McCullagh & Nelder, Generalized Linear Models, 2nd edition, chapter 2.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Vector = Any  # (n,) float64, or a number


class Expansion(NamedTuple):
    """Of the loss around eta: (n,) each."""

    loss: Vector
    score: Vector
    curvature: Vector


def _xlogx(x: Vector) -> Vector:
    return x * np.log(np.where(x > 0, x, 1.0))


class Family:
    """One of them."""

    name: str
    link: str
    free_dispersion = False  # whether the dispersion is estimated
    canonical = True  # whether the curvature does not depend on y, so that it is the Fisher information

    def mean(self, eta: Vector) -> Vector:
        """mu, by the inverse link."""
        raise NotImplementedError

    def predictor(self, mu: Vector) -> Vector:
        """eta of a mean, by the link."""
        raise NotImplementedError

    def expansion(self, eta: Vector, y: Vector) -> Expansion:
        """Loss, score and curvature."""
        raise NotImplementedError

    def information(self, eta: Vector) -> Vector:
        """The expected curvature, which Fisher's information is made of."""
        raise NotImplementedError

    def least(self, y: Vector) -> Vector:
        """The loss where mu = y: the unit deviance is twice what a loss is above it."""
        raise NotImplementedError

    def variance(self, mu: Vector) -> Vector:
        """Of y as a function of its mean, for dispersion 1."""
        raise NotImplementedError

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        """Which responses are impossible, and what they must be."""
        raise NotImplementedError


class Gaussian(Family):
    """Linear regression."""

    name, link, free_dispersion = "gaussian", "identity", True

    def mean(self, eta: Vector) -> Vector:
        return eta

    def predictor(self, mu: Vector) -> Vector:
        return mu

    def expansion(self, eta: Vector, y: Vector) -> Expansion:
        error = eta - y
        return Expansion(0.5 * error * error, error, np.ones_like(error))

    def information(self, eta: Vector) -> Vector:
        return np.ones_like(eta)

    def least(self, y: Vector) -> Vector:
        return np.zeros_like(y)

    def variance(self, mu: Vector) -> Vector:
        return np.ones_like(mu)

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        return np.zeros(y.shape, bool), ""


class Binomial(Family):
    """Logistic regression, of proportions too."""

    name, link = "binomial", "logit"

    def mean(self, eta: Vector) -> Vector:
        small = np.exp(-np.abs(eta))
        return np.where(eta < 0, small, 1.0) / (1 + small)

    def predictor(self, mu: Vector) -> Vector:
        return np.log(mu / (1 - mu))

    def expansion(self, eta: Vector, y: Vector) -> Expansion:
        small = np.exp(-np.abs(eta))  # at most 1: nothing overflows
        rest = 1 + small
        mu = np.where(eta < 0, small, 1.0) / rest
        return Expansion(np.maximum(eta, 0) - y * eta + np.log1p(small), mu - y, small / (rest * rest))

    def information(self, eta: Vector) -> Vector:
        small = np.exp(-np.abs(eta))
        return small / (1 + small) ** 2

    def least(self, y: Vector) -> Vector:
        return -_xlogx(y) - _xlogx(1 - y)

    def variance(self, mu: Vector) -> Vector:
        return mu * (1 - mu)

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        return (y < 0) | (y > 1), "the proportion of successes, between 0 and 1"


class Poisson(Family):
    """Counts."""

    name, link = "poisson", "log"

    def mean(self, eta: Vector) -> Vector:
        return np.exp(eta)

    def predictor(self, mu: Vector) -> Vector:
        return np.log(mu)

    def expansion(self, eta: Vector, y: Vector) -> Expansion:
        mu = np.exp(eta)
        return Expansion(mu - y * eta, mu - y, mu)

    def information(self, eta: Vector) -> Vector:
        return np.exp(eta)

    def least(self, y: Vector) -> Vector:
        return y - _xlogx(y)

    def variance(self, mu: Vector) -> Vector:
        return mu

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        return y < 0, "a count, 0 or more"


class Gamma(Family):
    """Positive amounts whose spread grows with their mean."""

    name, link, free_dispersion, canonical = "gamma", "log", True, False

    def mean(self, eta: Vector) -> Vector:
        return np.exp(eta)

    def predictor(self, mu: Vector) -> Vector:
        return np.log(mu)

    def expansion(self, eta: Vector, y: Vector) -> Expansion:
        ratio = y * np.exp(-eta)
        return Expansion(ratio + eta, 1 - ratio, ratio)

    def information(self, eta: Vector) -> Vector:
        return np.ones_like(eta)

    def least(self, y: Vector) -> Vector:
        return 1 + np.log(y)

    def variance(self, mu: Vector) -> Vector:
        return mu * mu

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        return y <= 0, "an amount above 0"


FAMILIES: dict[str, Family] = {family.name: family for family in (Gaussian(), Binomial(), Poisson(), Gamma())}
