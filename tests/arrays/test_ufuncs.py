"""Python's numbers beside arrays have the dtypes that NumPy's ufuncs give them."""

from __future__ import annotations

import numpy as np
import pytest
from numpys_answers import alike


@pytest.mark.parametrize("name", ["divide", "arctan2", "hypot", "float_power", "copysign", "logaddexp", "logical_and"])
@pytest.mark.parametrize("number", [300, -1])
def test_python_integers_need_fit_only_what_the_ufunc_computes_in(name: str, number: int) -> None:
    data = np.arange(1, 8, dtype=np.uint8)
    alike(lambda xp, x: getattr(xp, name)(x, number), data)
    alike(lambda xp, x: getattr(xp, name)(number, x), data)


def test_python_integers_fit_the_dtype_that_is_asked_for() -> None:
    alike(lambda xp, x: xp.add(x, 300, dtype=np.int64), np.arange(7, dtype=np.uint8))


def test_divmod_of_a_number() -> None:
    alike(lambda xp, x: divmod(50, x)[1], np.arange(1, 8))
