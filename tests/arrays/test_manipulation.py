"""Arrays are joined by NumPy's rules of casting."""

from __future__ import annotations

import numpy as np
import pytest
from numpys_answers import random

import bsp
import bsp.arrays as ba


@pytest.mark.parametrize("name", ["concatenate", "vstack", "hstack"])
def test_the_rule_of_casting_is_kept_when_arrays_are_joined(name: str) -> None:
    data = random(5, 3)

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(data, grid=(2, 1))
        with pytest.raises(TypeError, match="according to the rule 'same_kind'"):
            getattr(np, name)([x, x], dtype=np.int64)
        found = getattr(np, name)([x, x], dtype=np.int64, casting="unsafe").compute()
        np.testing.assert_array_equal(found, getattr(np, name)([data, data], dtype=np.int64, casting="unsafe"))

    for p in (1, 3):
        bsp.run(main, nprocs=p)
