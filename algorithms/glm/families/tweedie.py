"""Tweedie's compound Poisson distributions: amounts that are 0 with positive probability, as of insurance claims."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.glm.families.family import Family, Fitted, Terms, Vector, gammaln, registered

_MANY = 1e4  # the variance of the terms of a series, from which on their sum is an integral


@registered
class Tweedie(Family):
    """Sums of a Poisson number of gamma variables: amounts of variance mu^power, some of them 0.

    power : between 1, where Poisson's distribution lies, and 2, where the gamma distribution lies.
    Its log-likelihood is that at the estimated dispersion, by Wright's Bessel function.
    Source: Dunn & Smyth, Statistics and Computing 15 (2005).
    """

    name, links, convex_links = "tweedie", ("log", "identity"), ("log",)
    parameters = ("power",)
    nonnegative, free_dispersion, lowest, means = True, True, 0.0, (0.0, np.inf)

    def __init__(self, power: float = 1.5, link: str | None = None) -> None:
        if not 1 < power < 2:
            raise ValueError(
                f"power={power:g}: between 1 and 2; of 1, 2 and 3 use 'poisson', 'gamma' and 'inverse-gaussian'"
            )
        self.power = float(power)
        super().__init__(link)

    @property
    def title(self) -> str:
        """The first words of a summary's title, with the power."""
        return f"Tweedie (power {self.power:g})"

    def loss(self, mu: Vector, y: Vector) -> Vector:
        """Return y·mu^(1 - p)/(p - 1) + mu^(2 - p)/(2 - p), p being the power."""
        p = self.power
        return y * mu ** (1 - p) / (p - 1) + mu ** (2 - p) / (2 - p)

    def least(self, y: Vector) -> Vector:
        """Return the loss where mu = y: y^(2 - p)/((p - 1)(2 - p))."""
        p = self.power
        return y ** (2 - p) / ((p - 1) * (2 - p))

    def excess_of_mean(self, mu: Vector, y: Vector) -> Vector:
        """Return loss less least, of y > 0 by u = log(mu/y): then neither is large beside the difference."""
        p, some = self.power, np.where(y > 0, y, 1.0)
        u = np.log1p((mu - some) / some)
        beyond = some ** (2 - p) * (np.expm1((1 - p) * u) / (p - 1) + np.expm1((2 - p) * u) / (2 - p))
        return np.where(y > 0, np.maximum(beyond, 0.0), mu ** (2 - p) / (2 - p))

    def variance(self, mu: Vector) -> Vector:
        """Return mu^power."""
        return mu**self.power

    def variance_slope(self, mu: Vector) -> Vector:
        """Return power·mu^(power - 1)."""
        return self.power * mu ** (self.power - 1)

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        """Return which responses are below 0."""
        return y < 0, "an amount, 0 or more"

    def hopeless(self, successes: float, failures: float) -> str:
        """Return a message if all responses are 0."""
        return "" if successes else "all y are 0: their mean has no logarithm; there is nothing to fit"

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> Terms:
        """Return log(y) of the responses above 0; the other two terms are 0."""
        return np.log(np.where(y > 0, y, 1.0)), 0.0, 0.0

    def is_dispersed(self, weighted: bool) -> bool:
        """Return True: the density's series depends on the dispersion in every row."""
        return True

    def dispersed(self, y: Vector, w: Vector | None, dispersion: Any) -> Vector:
        """Return the log of Wright's Bessel function of the responses above 0, and 0 of the others."""
        p = self.power
        alpha = (2 - p) / (1 - p)
        some = y > 0
        scale = dispersion / (np.ones_like(y) if w is None else w)[some]
        log_x = alpha * np.log((p - 1) * scale / y[some]) - np.log((2 - p) * scale)
        found = np.zeros(y.shape)
        found[some] = _log_wright_bessel(-alpha, log_x)
        return found

    def log_likelihood(self, constants: Any, fitted: Fitted, dispersed: Any) -> Any:
        """Return the log-likelihood at the estimated dispersion."""
        return dispersed - constants[0] - fitted.loss / fitted.dispersion


def _log_wright_bessel(a: float, log_x: Vector) -> Vector:
    """Return the log of Wright's function of exp(log_x), which may be beyond the range of numbers."""
    from scipy import special  # it takes as long to import as many a fit

    with np.errstate(over="ignore", under="ignore"):
        x = np.exp(log_x)
    if hasattr(special, "log_wright_bessel"):  # since scipy 1.14
        found: Vector = special.log_wright_bessel(a, 0.0, x)
    else:
        found = np.log(special.wright_bessel(a, 0.0, x))
    wild = ~np.isfinite(found) & np.isfinite(log_x)
    if wild.any():
        found[wild] = _log_series(a, log_x[wild])
    return found


def _log_series(a: float, log_x: Vector) -> Vector:
    """Return the log of the sum of x^k/(k!·Γ(a·k)) over k >= 1, from the terms around the largest.

    By Stirling's formula the largest is near `peak`, and they fall off as a normal density of variance peak/(1 + a),
    whose integral is taken where there are many.
    Source: Dunn & Smyth, Statistics and Computing 15 (2005), section 4.
    """

    def term(k: Vector) -> Vector:
        found: Vector = k * log_x - gammaln(k + 1) - gammaln(a * k)
        return found

    with np.errstate(all="ignore"):
        peak = np.maximum(np.round(np.exp((log_x - a * np.log(a)) / (1 + a))), 1.0)
        variance = peak / (1 + a)
        reach = 10 + int(10 * np.sqrt(np.minimum(variance, _MANY).max()))
        found = np.full(log_x.shape, -np.inf)
        for away in range(-reach, reach + 1):
            k = peak + away
            found = np.logaddexp(found, np.where(k >= 1, term(np.maximum(k, 1.0)), -np.inf))
        return np.where(variance > _MANY, term(peak) + 0.5 * np.log(2 * np.pi * variance), found)
