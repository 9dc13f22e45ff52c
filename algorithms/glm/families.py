"""Families of responses: each class has all that depends on its distribution; no other file asks which it is.

Each function takes arrays of one length and is elementwise, unless it says that it sums.  `eta` is the linear
predictor, `mu` the mean, `y` the response, `w` a row's weight (with trials: times them).  The loss is half the unit
deviance less what does not depend on eta; `score` and `curvature` are its first two derivatives by eta.  The losses
here are convex in eta, so that their sum has one minimum value.

To add a family: subclass Family, define what raises `Undefined` here, and `register` an instance of it.
Source: McCullagh & Nelder, Generalized Linear Models, 2nd edition, chapter 2.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np

Vector = Any  # (n,) float64, or a number


class Undefined(NotImplementedError):
    """A family lacks something that a fit needs."""


class Expansion(NamedTuple):
    """Of the loss around eta: (n,) each."""

    loss: Vector
    score: Vector
    curvature: Vector


class Fitted(NamedTuple):
    """The fitted quantities that a log-likelihood is computed from, besides the sums that do not depend on them."""

    n_rows: Any  # of positive weight
    sum_weights: Any
    loss: Any  # the weighted losses, summed
    deviance: Any
    dispersion: Any  # estimated, or 1


def _xlogx(x: Vector) -> Vector:
    return x * np.log(np.where(x > 0, x, 1.0))


def gammaln(x: Any) -> Any:
    """log Γ(x)."""
    from scipy.special import gammaln as found  # it takes as long to import as many a fit

    return found(x)


class Family:
    """A distribution of responses with a link: its loss, variance, null model and likelihood."""

    name: str
    link: str
    title = ""  # before "regression of ..."; by default the name
    free_dispersion = False  # whether the dispersion is estimated
    canonical = True  # whether the curvature does not depend on y, so that it is the Fisher information
    proportions = False  # whether y is a share of successes: of trials, or of the second of two labels
    nonnegative = False  # whether y is a count or an amount
    lowest: float | None = None  # the response whose loss falls without end as eta falls, if there is one
    highest: float | None = None  # the same as eta grows

    def _undefined(self, what: str) -> NoReturn:
        name = getattr(self, "name", type(self).__name__)
        raise Undefined(f"family '{name}' does not define {what}: define it in class {type(self).__name__}")

    # ------------------------------------------------------------------------ the model

    def mean(self, eta: Vector) -> Vector:
        """Return mu, by the inverse link."""
        self._undefined("mean(eta)")

    def predictor(self, mu: Vector) -> Vector:
        """Return eta of a mean, by the link."""
        self._undefined("predictor(mu)")

    def expansion(self, eta: Vector, y: Vector) -> Expansion:
        """Return loss, score and curvature."""
        self._undefined("expansion(eta, y)")

    def information(self, eta: Vector) -> Vector:
        """Return the expected curvature, which Fisher's information is made of."""
        self._undefined("information(eta)")

    def least(self, y: Vector) -> Vector:
        """Return the loss where mu = y: the unit deviance is twice what a loss is above it."""
        self._undefined("least(y)")

    def variance(self, mu: Vector) -> Vector:
        """Return the variance of y as a function of its mean, for dispersion 1."""
        self._undefined("variance(mu)")

    # --------------------------------------------------------------------- is it sound?

    def wrong(self, y: Vector) -> tuple[Vector, str]:
        """Return which responses are impossible, and what they must be."""
        self._undefined("wrong(y)")

    def hopeless(self, successes: float, failures: float) -> str:
        """Say why no model can be fitted to responses with these weighted sums of y and of 1 - y; "" if one can."""
        return ""

    # -------------------------------------------------------------------- the null model

    def level(self, total: Any, successes: Any, failures: Any) -> Any:
        """Return eta of the model with an intercept only, from the sums of w, w·y and w·(1 - y)."""
        return self.predictor(successes / total)

    def offset_sum(self, w: Vector, y: Vector, offset: Vector) -> Any:
        """Return the sum over these rows that `level_with_offset` needs; None where there is no closed form."""
        return None

    def level_with_offset(self, total: Any, successes: Any, found: Any) -> Any:
        """Return the intercept of that model with an offset, from `offset_sum` over all rows."""
        self._undefined("level_with_offset(total, successes, found), though it defines offset_sum")

    def rounding(self, level: Any) -> Any:
        """Return the square of the size of what rounding leaves of a residual, in units of EPS."""
        return 1.0

    # -------------------------------------------------------------------- the likelihood

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> tuple[float, float, float]:
        """Return up to three sums over these rows, of positive weight, that do not depend on the coefficients."""
        self._undefined("constants(y, w, trials)")

    def dispersed(self, w: Vector | None, dispersion: Any) -> Any:
        """Return a further sum over these rows that depends on the estimated dispersion; None if there is none."""
        return None

    def log_likelihood(self, constants: Any, fitted: Fitted, dispersed: Any) -> Any:
        """Return the log-likelihood from the sums over all rows; a weight divides its row's dispersion.

        By default that of a family of dispersion 1: the first constant less the loss.
        """
        if self.free_dispersion:
            self._undefined("log_likelihood(constants, fitted, dispersed), as its dispersion is free")
        return constants[0] - fitted.loss


class Gaussian(Family):
    """Linear regression.  Its log-likelihood is the largest over the dispersion too: the profile likelihood."""

    name, link, title, free_dispersion = "gaussian", "identity", "Linear", True

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

    def offset_sum(self, w: Vector, y: Vector, offset: Vector) -> Any:
        return w @ (y - offset)

    def level_with_offset(self, total: Any, successes: Any, found: Any) -> Any:
        return found / total

    def rounding(self, level: Any) -> Any:
        return level**2

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> tuple[float, float, float]:
        return np.log(w).sum(), 0.0, 0.0

    def log_likelihood(self, constants: Any, fitted: Fitted, dispersed: Any) -> Any:
        n = fitted.n_rows
        return 0.5 * (constants[0] - n * (1 + np.log(2 * np.pi * fitted.deviance / n)))


class Binomial(Family):
    """Logistic regression, of proportions too."""

    name, link, title, proportions = "binomial", "logit", "Logistic", True
    lowest, highest = 0.0, 1.0

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

    def hopeless(self, successes: float, failures: float) -> str:
        if successes and failures:
            return ""
        alike = 0 if successes == 0 else 1
        return f"y has one class only: all are {alike}; a binomial model needs successes and failures"

    def level(self, total: Any, successes: Any, failures: Any) -> Any:
        return np.log(successes / failures)

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> tuple[float, float, float]:
        if trials is None and ((y == 0) | (y == 1)).all():
            return 0.0, 0.0, 0.0  # there is one way
        m = np.ones_like(y) if trials is None else trials
        ways = gammaln(m + 1) - gammaln(m * y + 1) - gammaln(m - m * y + 1)  # of the successes among the trials
        return (w / m) @ ways, 0.0, 0.0


class Poisson(Family):
    """Counts."""

    name, link, title, nonnegative, lowest = "poisson", "log", "Poisson", True, 0.0

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

    def hopeless(self, successes: float, failures: float) -> str:
        if successes:
            return ""
        return "all y are 0: the logarithm of their mean is not a number; there is nothing to fit"

    def offset_sum(self, w: Vector, y: Vector, offset: Vector) -> Any:
        return w @ np.exp(offset)

    def level_with_offset(self, total: Any, successes: Any, found: Any) -> Any:
        return self.predictor(successes / found)

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> tuple[float, float, float]:
        return -(w @ gammaln(y + 1)), 0.0, 0.0


class Gamma(Family):
    """Positive amounts whose spread grows with their mean.  Its log-likelihood is that at the estimated dispersion."""

    name, link, title, nonnegative = "gamma", "log", "Gamma", True
    free_dispersion, canonical = True, False

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

    def offset_sum(self, w: Vector, y: Vector, offset: Vector) -> Any:
        return w @ (y * np.exp(-offset))

    def level_with_offset(self, total: Any, successes: Any, found: Any) -> Any:
        return self.predictor(found / total)

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> tuple[float, float, float]:
        return w @ np.log(w), w @ np.log(y), np.log(y).sum()

    def dispersed(self, w: Vector | None, dispersion: Any) -> Any:
        return None if w is None else float(gammaln(w / dispersion).sum())

    def log_likelihood(self, constants: Any, fitted: Fitted, dispersed: Any) -> Any:
        first, second, third = constants
        shapes = fitted.n_rows * gammaln(1 / fitted.dispersion) if dispersed is None else dispersed
        scaled = first + second - fitted.loss - fitted.sum_weights * np.log(fitted.dispersion)
        return scaled / fitted.dispersion - shapes - third


FAMILIES: dict[str, Family] = {}

_NEEDED = ("mean", "predictor", "expansion", "information", "least", "variance", "wrong", "constants")


def register(family: Family) -> None:
    """Let models be of this family, by its name: GLM(family=family.name).  Every process registers it.

    Raises Undefined if it lacks something that every fit needs.
    """
    for what in ("name", "link"):
        if not hasattr(family, what):
            family._undefined(what)
    for what in _NEEDED:
        if getattr(type(family), what) is getattr(Family, what):
            family._undefined(f"{what}()")
    if family.free_dispersion and type(family).log_likelihood is Family.log_likelihood:
        family._undefined("log_likelihood()")
    family.title = family.title or family.name
    FAMILIES[family.name] = family


for _family in (Gaussian(), Binomial(), Poisson(), Gamma()):
    register(_family)
