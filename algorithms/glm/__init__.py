"""Generalised linear models: linear, logistic, Poisson, ... regression, with penalties, on p processes.

    from bsp.algorithms import glm
    model = glm.PoissonRegression().fit("visits.csv", y="mdvis")     # every process runs the same line
    print(model.summary())

Without a program: bsprun -p 64 -m bsp.algorithms.glm visits.csv --family poisson --target mdvis --report fit.html
"""

from bsp.algorithms.glm.data.table import Table, read_table
from bsp.algorithms.glm.errors import DataError, NotFittedError
from bsp.algorithms.glm.estimators import (
    GLM,
    GammaRegression,
    LinearRegression,
    LogisticRegression,
    PoissonRegression,
)
from bsp.algorithms.glm.inference.summary import Summary
from bsp.algorithms.glm.multinomial.estimator import MultinomialRegression
from bsp.cost.model import Cost

__all__ = [
    "GLM", "Cost", "DataError", "GammaRegression", "LinearRegression", "LogisticRegression", "MultinomialRegression",
    "NotFittedError", "PoissonRegression", "Summary", "Table", "read_table",
]  # fmt: skip


def __dir__() -> list[str]:
    """Return the public names: what help and completion show."""
    return sorted({*__all__, "families"})
