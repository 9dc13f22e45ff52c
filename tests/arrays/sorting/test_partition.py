"""A partition holds at all ranks and is the same for all layouts; sorting by several keys is NumPy's lexsort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpys_answers import as_numpys, dealt, dealt_always
from thinning import examples

import bsp
import bsp.arrays as ba

VECTORS: dict[str, Any] = {
    "different": lambda rng, n: rng.standard_normal(n),
    "three values": lambda rng, n: rng.integers(0, 3, n),
    "equal": lambda rng, n: np.full(n, 2.0, np.float32),
    "some NaN": lambda rng, n: np.where(rng.random(n) < 0.4, np.nan, rng.random(n)),
    "ascending": lambda rng, n: np.arange(n),
    "truths": lambda rng, n: rng.random(n) < 0.5,
    "some NaT": lambda rng, n: np.where(
        rng.random(n) < 0.4, np.timedelta64("NaT"), rng.integers(-9, 9, n).astype("m8[s]")
    ),
    "complex": lambda rng, n: rng.integers(0, 3, n) + 1j * rng.integers(0, 3, n),
}


@examples(40)
@given(st.sampled_from(sorted(VECTORS)), st.sampled_from([1, 2, 7, 300, 6000]), st.integers(0, 10), st.integers(0, 99))
def test_partitions_hold_at_all_ranks_and_are_the_same_for_all_layouts(
    kind: str, size: int, count: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x, ranks = VECTORS[kind](rng, size), rng.integers(-size, size, count)

    def main(proc: bsp.Process, way: str) -> Any:
        given = dealt(proc, x, way)
        return ba.argpartition(given, ranks).compute().tobytes(), ba.partition(given, ranks).compute().tobytes()

    with dealt_always():
        found = {
            each
            for nprocs, way in ((1, "blocks"), (3, "blocks"), (5, "ragged"))
            for each in bsp.run(main, way, nprocs=nprocs)
        }
    ((data, values),) = found
    places = np.frombuffer(data, np.int64)
    np.testing.assert_array_equal(np.frombuffer(values, x.dtype), x[places])
    np.testing.assert_array_equal(np.sort(places), np.arange(size))
    ordered = np.sort(x)
    for rank in ranks % size:
        for part in (slice(None, rank), slice(rank, rank + 1), slice(rank + 1, None)):
            np.testing.assert_array_equal(np.sort(x[places[part]]), ordered[part])


@pytest.mark.jobs
def test_partitions_that_travel_between_elements_are_the_same() -> None:
    def main(proc: bsp.Process) -> tuple[bytes, bytes]:
        x = ba.random.default_rng(1).integers(0, 1000, 300_000)
        ranks = [10, 200_000]
        return ba.argpartition(x, ranks).compute().tobytes(), ba.partition(x, ranks).compute().tobytes()

    assert bsp.run(main, nprocs=3, elements=3) == bsp.run(main, nprocs=3) == bsp.run(main, nprocs=1) * 3


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
