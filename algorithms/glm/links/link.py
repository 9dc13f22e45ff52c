"""The base of links: monotone functions from the mean to the linear predictor, with the derivatives of its inverse.

To add a link: a module in this folder with a subclass of `Link` that has the decorator `registered`, and its name in
the `links` of each family that takes it.  The decorator raises NotImplementedError for a method that is missing.
Source: McCullagh & Nelder, Generalized Linear Models, 2nd edition, sections 2.2.3 and 4.3.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

Vector = Any  # (n,) float64, or a number


class Expansion(NamedTuple):
    """A loss around eta, with its first two derivatives by eta: (n,) each."""

    loss: Vector
    score: Vector
    curvature: Vector


class Link:
    """A link function.  `eta` is the linear predictor, `mu` the mean; every method is elementwise."""

    name: str
    ratio = ""  # what exp(coefficient) is, of links under which it means something

    def mean(self, eta: Vector) -> Vector:
        """Return mu: the inverse link."""
        raise NotImplementedError

    def predictor(self, mu: Vector) -> Vector:
        """Return eta: the link."""
        raise NotImplementedError

    def slope(self, eta: Vector) -> Vector:
        """Return the first derivative of mu by eta."""
        raise NotImplementedError

    def bend(self, eta: Vector) -> Vector:
        """Return the second derivative of mu by eta."""
        raise NotImplementedError

    # Of links to probabilities.  A link whose mean rounds to 0 or 1 overrides them, so that no digits are lost there.

    def complement(self, eta: Vector) -> Vector:
        """Return 1 - mu."""
        return 1 - self.mean(eta)

    def success(self, eta: Vector) -> Expansion:
        """Return -log mu, the loss of a success, and its derivatives."""
        return _minus_log(self.mean(eta), self.slope(eta), self.bend(eta))

    def failure(self, eta: Vector) -> Expansion:
        """Return -log(1 - mu), the loss of a failure, and its derivatives."""
        return _minus_log(self.complement(eta), -self.slope(eta), -self.bend(eta))


def _minus_log(value: Vector, slope: Vector, bend: Vector) -> Expansion:
    ratio = slope / value
    return Expansion(-np.log(value), -ratio, ratio * ratio - bend / value)


LINKS: dict[str, Link] = {}


def registered(cls: type[Link]) -> type[Link]:
    """Decorate a link: families can name it from now on.  Raises NotImplementedError if it lacks something."""
    for what in ("name", "mean", "predictor", "slope", "bend"):
        if getattr(cls, what, None) is getattr(Link, what, None):
            raise NotImplementedError(f"link {cls.__name__} does not define {what}")
    LINKS[cls.name] = cls()
    return cls
