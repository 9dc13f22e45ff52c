"""Quasi-likelihood: counts and proportions whose variance is a multiple of the Poisson's or the binomial one.

The estimates are those of the family without "quasi"; the multiple, the dispersion, is estimated by Pearson's chi²
over the degrees of freedom, and standard errors are scaled by its root.  There is no likelihood, and so no AIC.
Source: McCullagh & Nelder, 2nd edition, chapter 9; Wedderburn, Biometrika 61 (1974).
"""

from __future__ import annotations

from bsp.algorithms.glm.families.binomial import Binomial
from bsp.algorithms.glm.families.family import registered
from bsp.algorithms.glm.families.poisson import Poisson


@registered
class QuasiPoisson(Poisson):
    """Counts whose variance is dispersion · mean."""

    name, also = "quasi-poisson", ("quasipoisson",)
    free_dispersion, has_likelihood, quasi = True, False, None

    @property
    def title(self) -> str:
        """The first words of a summary's title."""
        return "Quasi-Poisson"


@registered
class QuasiBinomial(Binomial):
    """Proportions of trials whose variance is dispersion · mu(1 - mu) / trials."""

    name, also = "quasi-binomial", ("quasibinomial",)
    free_dispersion, has_likelihood, quasi = True, False, None

    @property
    def title(self) -> str:
        """The word "Quasi-logistic" with the logit link, else "Quasi-binomial"."""
        return f"Quasi-{super().title.lower()}"
