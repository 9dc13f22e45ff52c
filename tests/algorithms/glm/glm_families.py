"""All registered families as the tests of models need them: by name, with data they can have, and as statsmodels'.

Nothing here lists families: one that is registered is in `DEFAULTS` and `EVERY`, and tests over these cover it.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import statsmodels.api as sm

from bsp.algorithms.glm.families import FAMILIES, Family, family_of

DEFAULTS = [str(cls()) for cls in FAMILIES.values()]  # each by its default link and parameters
EVERY = [str(cls(link=link)) for cls in FAMILIES.values() for link in cls.links]

_ABOVE_0 = {cls for cls in FAMILIES.values() if cls().wrong(np.zeros(1))[0].any()}
_THEIRS = {"spread": "alpha", "power": "var_power"}  # statsmodels' names of parameters


def possible(family: str | Family, counts: np.ndarray) -> np.ndarray:
    """Counts made into responses that the family can have."""
    own = family_of(family)
    if own.proportions:
        return (counts > 0).astype(float)
    return counts + 0.5 if type(own) in _ABOVE_0 else counts


def tight(family: str | Family) -> dict[str, Any]:
    """Options of statsmodels' fit: its iterations converge more slowly where the link is not canonical."""
    own = family_of(family)
    canonical = own.canonical
    scale = {} if own.has_likelihood else {"scale": "X2"}
    return {"maxiter": 200, **scale, **({"tol": 1e-15} if canonical else {"tol": 1e-13, "tol_criterion": "params"})}


def theirs_of(family: str | Family) -> Any:
    """statsmodels' family: family and link have the class names that they have there."""
    own = family_of(family)
    link = getattr(sm.families.links, type(own.link).__name__)()
    parameters = {_THEIRS[each]: getattr(own, each) for each in own.parameters}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of links by which some linear predictors are no means
        return getattr(sm.families, type(own).__name__.removeprefix("Quasi"))(link, **parameters)
