"""Arrays made of other arrays stay where they are."""

from __future__ import annotations

import numpy as np
import pytest
from numpys_answers import random

import bsp
import bsp.arrays as ba


def test_full_of_a_dealt_array_brings_it_nowhere() -> None:
    data = random(400, 300)
    seen = []

    def main(proc: bsp.Process) -> None:
        x = ba.asarray(data)
        before = proc.superstep
        found = ba.full((2, 400, 300), x)
        seen.append((before, proc.superstep))
        np.testing.assert_array_equal(found.compute(), np.full((2, 400, 300), data))
        assert ba.full((400, 300), x, dtype=int).dtype == ba.full((3,), [1, 2, 3]).dtype == int
        assert ba.full((5,), x.max()).compute().tolist() == [data.max()] * 5

    traced = bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4))
    assert sum(row["h_received"] for row in traced.per_superstep[slice(*seen[0])]) <= data.size / 4


@pytest.mark.parametrize("k", [-(10**18), -2, 0, 1, 9, 10**18])
@pytest.mark.parametrize("length", [0, 1, 7])
def test_a_vector_is_every_row_of_a_triangle(k: int, length: int) -> None:
    x = np.arange(1, length + 1)
    np.testing.assert_array_equal(ba.tril(x, k=k).compute(), np.tril(x, k))
    np.testing.assert_array_equal(ba.triu(ba.asarray(x), k=k).compute(), np.triu(x, k))


def test_numbers_that_do_not_fit_are_refused_on_every_process() -> None:
    def main(proc: bsp.Process) -> float:
        with pytest.raises(OverflowError):
            ba.full((5,), 300, dtype="i1", grid=(1,))
        with pytest.raises(OverflowError):
            ba.arange(-3, 2, dtype="u1")
        with pytest.raises(OverflowError):
            ba.insert(ba.arange(5, dtype="u1"), [0, 2], [1, -1])
        assert ba.arange(255, 256, dtype="u1").compute().tolist() == [255]
        assert ba.arange(3, 0, -1, dtype="u1").compute().tolist() == [3, 2, 1]
        return float(ba.ones(4).sum())

    assert bsp.run(main, nprocs=3) == [4.0] * 3
