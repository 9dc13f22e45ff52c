"""Sorting by several keys is NumPy's lexsort, whatever the blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpys_answers import as_numpys
from thinning import examples

import bsp
import bsp.arrays as ba


@examples(40)
@given(st.sampled_from([(1,), (13,), (60,), (7, 5), (0,), (4, 0), ()]), st.integers(1, 3), st.integers(1, 5),
       st.sampled_from(["blocks", "fine", "ragged"]), st.booleans())  # fmt: skip
def test_lexsort(shape: tuple[int, ...], count: int, nprocs: int, way: str, floats: bool) -> None:
    rng = np.random.default_rng(count)
    keys: list[Any] = [rng.integers(0, 3, shape) for _ in range(count)]
    if floats:
        keys = [np.where(key == 1, np.nan, key * 0.5) for key in keys]
    calls: dict[str, Any] = {"lexsort": lambda *keys: np.lexsort(keys)}
    if len(shape) > 1:
        calls["along the first axis"] = lambda *keys: np.lexsort(keys, axis=0)
    as_numpys(calls, keys, nprocs=nprocs, ways=(way,))


def test_keys_in_one_array_and_wrong_ones() -> None:
    x = np.random.default_rng(1).integers(0, 3, (3, 50))
    as_numpys(
        {
            "rows of an array": lambda x: np.lexsort(x),
            "of other shapes": lambda x: np.lexsort((x[0], x[1, :3])),
            "no axis": lambda x: np.lexsort((x[0], x[1]), axis=1),
        },
        [x],
    )

    def main(proc: bsp.Process) -> Any:
        try:
            ba.lexsort(())
        except TypeError as error:
            return str(error)
        return None

    assert bsp.run(main, nprocs=2) == ["need sequence of keys with len > 0 in lexsort"] * 2
