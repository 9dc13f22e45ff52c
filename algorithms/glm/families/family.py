"""The base class of families: all that depends on the distribution of responses.  No other code asks which one it is.

Methods take arrays of one length and are elementwise, unless they say that they sum.  `eta` is the linear predictor,
`mu` the mean, `y` the response, `w` a row's weight (with trials: times them).  The loss is half the unit deviance
less what does not depend on the mean; `score` and `curvature` are its first two derivatives by eta.

To add a family: a module in this folder with a subclass of `Family` that has the decorator `registered`.  It defines
`name`, `links`, and the methods whose defaults here raise `Undefined`: loss, variance, variance_slope, wrong and
constants (with a free dispersion log_likelihood, too).  All else follows by the chain rule from the link; a family
overrides it where a closed form is faster or loses fewer digits.
Source: McCullagh & Nelder, Generalized Linear Models, 2nd edition, chapter 2.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np

from bsp.algorithms.glm.links import LINKS, Expansion, Link
from bsp.algorithms.glm.links.link import Vector

Terms = tuple[Any, Any, Any]  # each (n,), or a number that all rows have


class Undefined(NotImplementedError):
    """A family lacks something that a fit needs."""


class Fitted(NamedTuple):
    """The fitted quantities that a log-likelihood is computed from, besides the sums that do not depend on them."""

    n_rows: Any  # of positive weight
    sum_weights: Any
    loss: Any  # the weighted losses, summed
    deviance: Any
    dispersion: Any  # estimated, or 1


class Family:
    """A distribution of responses with a link: its loss, variance, null model and likelihood.

    link : the name of one of `links`; None: the first of them.
    """

    name: ClassVar[str]
    also: ClassVar[tuple[str, ...]] = ()  # other names
    links: ClassVar[tuple[str, ...]]  # that a model may have, the default first
    convex_links: ClassVar[tuple[str, ...]] = ()  # of them, those by which the loss is convex in eta whatever y is
    canonical_link: ClassVar[str | None] = None  # by which the curvature does not depend on y
    parameters: ClassVar[tuple[str, ...]] = ()  # what `__init__` takes before the link, kept under these names
    free_dispersion: ClassVar[bool] = False  # whether the dispersion is estimated
    has_likelihood: ClassVar[bool] = True  # not of quasi families, which have a mean and a variance only
    quasi: ClassVar[str | None] = None  # the family of the same mean and variance whose dispersion is estimated
    proportions: ClassVar[bool] = False  # whether y is a share of successes: of trials, or of the second of two labels
    nonnegative: ClassVar[bool] = False  # whether y is a count or an amount
    lowest: ClassVar[float | None] = None  # the response whose loss falls without end as eta falls, if there is one
    highest: ClassVar[float | None] = None  # the same as eta grows
    means: ClassVar[tuple[float, float]] = (-np.inf, np.inf)  # between which every mean lies

    link: Link

    def __init__(self, link: str | None = None) -> None:
        chosen = self.links[0] if link is None else link
        if chosen not in self.links:
            raise ValueError(f"family '{self.name}' has no link {chosen!r}: one of {', '.join(self.links)}")
        self.link = LINKS[chosen]

    def __str__(self) -> str:
        """Return the name that `family_of` takes: with parameters, and with the link if it is not the default one."""
        numbers = [f"{getattr(self, each):g}" for each in self.parameters]
        return ":".join([self.name, *numbers, *([] if self.by_default else [self.link.name])])

    def __repr__(self) -> str:
        given = [repr(getattr(self, each)) for each in self.parameters]
        return f"{type(self).__name__}({', '.join(given + [f'link={self.link.name!r}'] * (not self.by_default))})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and repr(other) == repr(self)

    def __hash__(self) -> int:
        return hash(repr(self))

    @classmethod
    def _undefined(cls, what: str) -> NoReturn:
        name = getattr(cls, "name", cls.__name__)
        raise Undefined(f"family '{name}' does not define {what}: define it in class {cls.__name__}")

    @property
    def title(self) -> str:
        """The first words of a summary's title, before "regression of ..."."""
        return self.name

    @property
    def by_default(self) -> bool:
        """True if the link is the family's default: its closed forms hold."""
        return self.link.name == self.links[0]

    @property
    def linear(self) -> bool:
        """Whether a fit is a least-squares problem in the coefficients."""
        return False

    @property
    def log_linear(self) -> bool:
        """Whether the mean is exp(eta) and the score the mean less y, so that effects of labels can be absorbed."""
        return False

    @property
    def canonical(self) -> bool:
        """True if the curvature does not depend on y, so that it is the Fisher information."""
        return self.link.name == self.canonical_link

    @property
    def solved_by(self) -> str:
        """The matrix that solvers take for the curvature: "hessian"; "information" where the loss is not convex.

        With the information, which is never negative, Newton's method is Fisher's scoring.
        """
        return "hessian" if self.link.name in self.convex_links else "information"

    # ------------------------------------------------------------------------ the model

    def mean(self, eta: Vector) -> Vector:
        """Return mu, by the inverse link."""
        return self.link.mean(eta)

    def predictor(self, mu: Vector) -> Vector:
        """Return eta of a mean, by the link."""
        return self.link.predictor(mu)

    def loss(self, mu: Vector, y: Vector) -> Vector:
        """Return the loss of a mean: its derivative by mu is (mu - y) / variance(mu)."""
        self._undefined("loss(mu, y)")

    def variance(self, mu: Vector) -> Vector:
        """Return the variance of y as a function of its mean, for dispersion 1."""
        self._undefined("variance(mu)")

    def variance_slope(self, mu: Vector) -> Vector:
        """Return the derivative of `variance`."""
        self._undefined("variance_slope(mu)")

    def expansion(self, eta: Vector, y: Vector) -> Expansion:
        """Return loss, score and curvature; the loss is infinite where no mean can be."""
        with np.errstate(all="ignore"):
            mu, slope, bend = self.mean(eta), self.link.slope(eta), self.link.bend(eta)
            variance = self.variance(mu)
            pull = (mu - y) / variance
            curvature = slope * slope * (1 - pull * self.variance_slope(mu)) / variance + pull * bend
            return Expansion(self.possible(mu, self.loss(mu, y)), pull * slope, curvature)

    def possible(self, mu: Vector, loss: Vector) -> Vector:
        """Return the loss where `mu` lies within `means`, elsewhere infinity."""
        low, high = self.means
        return np.where((mu >= low) & (mu <= high), loss, np.inf)

    def information(self, eta: Vector) -> Vector:
        """Return the expected curvature, which Fisher's information is made of."""
        with np.errstate(all="ignore"):
            slope = self.link.slope(eta)
            return slope * slope / self.variance(self.mean(eta))

    def bend(self, eta: Vector, curvature: Vector) -> Vector:
        """Return what solvers take for the curvature, which is `expansion`'s: see `solved_by`."""
        return curvature if self.solved_by == "hessian" else self.information(eta)

    def least(self, y: Vector) -> Vector:
        """Return the loss where mu = y: the unit deviance is twice what a loss is above it."""
        return self.loss(y, y)

    def excess(self, eta: Vector, y: Vector) -> Vector:
        """Return half the unit deviances: each loss less the least one."""
        with np.errstate(all="ignore"):
            mu = self.mean(eta)
            return self.possible(mu, self.excess_of_mean(mu, y))

    def excess_of_mean(self, mu: Vector, y: Vector) -> Vector:
        """Return half the unit deviance of a mean.  Override it where loss and least are large numbers of a size."""
        return self.loss(mu, y) - self.least(y)

    def chi2(self, eta: Vector, y: Vector) -> Vector:
        """Return the squares of Pearson's residuals, for dispersion 1."""
        mu = self.mean(eta)
        with np.errstate(all="ignore"):
            return (y - mu) ** 2 / self.variance(mu)

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

    # -------------------------------------------------------------------- the likelihood

    def constants(self, y: Vector, w: Vector, trials: Vector | None) -> Terms:
        """Return three terms of each row, of positive weight, that do not depend on the coefficients, to be summed."""
        self._undefined("constants(y, w, trials)")

    def is_dispersed(self, weighted: bool) -> bool:
        """Return whether the likelihood needs `dispersed`, which takes a superstep more."""
        return False

    def dispersed(self, y: Vector, w: Vector | None, dispersion: Any) -> Vector:
        """Return a further term of each row, to be summed, that depends on the estimated dispersion."""
        self._undefined("dispersed(y, w, dispersion), as is_dispersed tells of it")

    def log_likelihood(self, constants: Any, fitted: Fitted, dispersed: Any) -> Any:
        """Return the log-likelihood from the sums over all rows; a weight divides its row's dispersion.

        By default that of a family of dispersion 1: the first constant less the loss.  None of one without likelihood.
        """
        if not self.has_likelihood:
            return None
        if self.free_dispersion:
            self._undefined("log_likelihood(constants, fitted, dispersed), as its dispersion is free")
        return constants[0] - fitted.loss


FAMILIES: dict[str, type[Family]] = {}  # by name
_ALSO: dict[str, str] = {}  # names by other names


def registered(cls: type[Family]) -> type[Family]:
    """Decorate a family: models can name it from now on, as GLM(family=cls.name).  Every process registers it.

    Raises Undefined if it lacks something that every fit needs.
    """

    def own(what: str) -> bool:
        return getattr(cls, what, None) is not getattr(Family, what, None)

    needed = ["name", "links", "variance", "wrong", "constants"]
    needed += [] if own("expansion") and own("least") else ["loss"]
    needed += [] if own("expansion") else ["variance_slope"]
    needed += ["log_likelihood"] if cls.free_dispersion and cls.has_likelihood else []
    for what in needed:
        if not own(what):
            cls._undefined(what)
    for link in cls.links:
        if link not in LINKS:
            raise Undefined(f"family '{cls.name}' names the link {link!r}, which is none of {', '.join(LINKS)}")
    FAMILIES[cls.name] = cls
    _ALSO.update(dict.fromkeys(cls.also, cls.name))
    return cls


def family_of(family: str | Family) -> Family:
    """Return the family of this name: "poisson", "tweedie:1.5" with its parameter, "binomial:probit" with a link.

    A family itself is returned as it is.  Raises ValueError if there is none of this name, or it is not made so.
    """
    if isinstance(family, Family):
        return family
    name, *given = family.split(":") if isinstance(family, str) else [""]
    cls = FAMILIES.get(_ALSO.get(name, name))
    if cls is None:
        raise ValueError(f"family={family!r}: one of {', '.join(FAMILIES)}")
    numbers = list(map(_number, given[: len(cls.parameters)]))
    numbers = numbers[: numbers.index(None)] if None in numbers else numbers
    rest = given[len(numbers) :]
    if len(rest) > 1:
        raise ValueError(f"family={family!r}: {spelled(cls)}")
    make: Any = cls  # each takes its own parameters
    try:
        found: Family = make(*numbers, **({"link": rest[0]} if rest else {}))
    except ValueError as wrong:
        raise ValueError(f"family={family!r}: {wrong}") from None
    return found


def known_family(text: str) -> bool:
    """Return whether a text begins with the name of a family."""
    name = text.split(":")[0]
    return _ALSO.get(name, name) in FAMILIES


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def spelled(cls: type[Family]) -> str:
    """Return how a family is named on the command line, with what is optional in brackets."""
    return cls.name + "".join(f"[:{each.upper()}]" for each in cls.parameters) + f"[:{'|'.join(cls.links)}]"


def family_names() -> str:
    """Return how all families are named, for a help text."""
    names = [spelled(cls) + (f" (or {', '.join(cls.also)})" if cls.also else "") for cls in FAMILIES.values()]
    return ", ".join(names)


def xlogy(x: Vector, y: Vector) -> Vector:
    """Return x·log(y), and 0 where x is 0."""
    return x * np.log(np.where(x > 0, y, 1.0))


def beyond_log(x: Vector) -> Vector:
    """Return x - log(1 + x), never below 0: near 0, where the difference has no digits, by its series."""
    found = np.asarray(x - np.log1p(x))
    near = np.abs(x) < 1e-3
    if near.any():
        small = np.asarray(x)[near]
        found[near] = small * small * (1 / 2 - small * (1 / 3 - small * (1 / 4 - small * (1 / 5 - small / 6))))
    return found


def counts_excess(mu: Vector, y: Vector) -> Vector:
    """Return y·log(y/mu) - (y - mu), half the unit deviance of a Poisson count."""
    some = np.where(y > 0, y, 1.0)
    return np.where(y > 0, y * beyond_log((mu - y) / some), mu)


def gammaln(x: Any) -> Any:
    """Return log Γ(x)."""
    from scipy.special import gammaln as found  # it takes as long to import as many a fit

    return found(x)
