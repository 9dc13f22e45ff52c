"""Errors of Krylov methods."""

from __future__ import annotations

from typing import Any

import numpy as np

from bsp.arrays import ArrayError


class NoConvergence(ArrayError):
    """An eigenvalue or singular value did not become good within the iterations allowed.

    values : what was found of those asked for, good or not, as a NumPy array.
    """

    def __init__(self, message: str, values: np.ndarray) -> None:
        super().__init__(message)
        self.values = values

    def __reduce__(self) -> Any:
        return NoConvergence, (self.args[0], self.values)
