"""The summary of a multinomial fit: a line for each coefficient of each class but the reference."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bsp.algorithms.glm.inference.summary import Coefficient, Summary


@dataclass(frozen=True, repr=False)
class ClassSummary(Summary):
    """The summary of a multinomial fit: see `Summary`.

    others : the names of the classes but the reference, with which they are compared.
    """

    others: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the coefficients: "class: column", class by class, the intercepts first."""
        columns = (*(("intercept",) if self.model.fit_intercept else ()), *self.solution.names)
        return tuple(f"{each}: {column}" for each in self.others for column in columns)

    @property
    def slopes(self) -> list[Coefficient]:
        """The lines of all coefficients but intercepts."""
        every, width = self.coefficients, len(self.names) // len(self.others)
        return [each for j, each in enumerate(every) if j % width or not self.model.fit_intercept]

    @property
    def estimates(self) -> np.ndarray:
        """The coefficients (D,) in the order of their names."""
        first = self.solution.intercept[:, None][:, : int(self.model.fit_intercept)]
        return np.concatenate([first, self.solution.coef], axis=1).ravel()
