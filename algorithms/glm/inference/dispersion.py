"""Whether the responses vary as their family says: a note on standard errors that are too small or too large."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.algorithms.glm.solvers.survey import Survey

FAR = 1.5  # of Pearson's chi² over its degrees of freedom, or their quotient the other way round
SURE = 4.0  # standard deviations of that ratio


def dispersion_note(of: Survey, chi2: Any, df_resid: Any) -> str | None:
    """Return a sentence if a family of dispersion 1 is fitted to responses of another one; None if not.

    The ratio's deviation is that of a family of the null model's mean: a row's squared residual has about the variance
    2 + 1/variance, so that rare counts, whose ratios scatter, give no note.  Of single trials no ratio tells anything,
    nor of responses that are all alike.
    """
    family = of.family
    single = family.proportions and of.least == 0
    if family.free_dispersion or of.model.alpha or df_resid <= 0 or single or of.is_exact:
        return None
    ratio = float(chi2 / df_resid)
    unit = float(family.variance(family.mean(of.constant)))
    trials = float(of.sum_weights / of.n_rows) if family.proportions else 1.0
    scatter = np.sqrt((2 + 1 / max(unit * trials, 1e-300)) / float(df_resid))
    if not (np.isfinite(ratio) and max(ratio, 1 / max(ratio, 1e-300)) > FAR and abs(ratio - 1) > SURE * scatter):
        return None
    how, errors = ("more", "small") if ratio > 1 else ("less", "large")
    said = f"responses vary {how} than a {family} model has it (Pearson chi2 / df is {ratio:.3g}, not 1)"
    if of.model.robust:
        return f"{said}: tests by the deviance do not hold; robust standard errors allow for it"
    root = np.sqrt(ratio if ratio > 1 else 1 / ratio)
    link = "" if family.by_default else f":{family.link.name}"
    scaled = f"family='{family.quasi}{link}' scales them by it, " if family.quasi else ""
    return f"{said}: standard errors are about {root:.2g} times too {errors}; {scaled}robust=True assumes none"
