"""delete, insert, trim_zeros and resize are NumPy's, by few positions, by many, by masks and slices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpys_answers import as_numpys
from thinning import examples

import bsp
import bsp.arrays as ba
from bsp.arrays import editing

RNG = np.random.default_rng(0)
V, A = RNG.integers(0, 99, 17), RNG.integers(0, 99, (7, 5))
SLICES = st.builds(slice, st.none() | st.integers(-9, 9), st.none() | st.integers(-9, 9),
                   st.sampled_from([None, 1, 2, 3, -1, -2]))  # fmt: skip


@pytest.fixture(params=[0, 32])
def few(request: Any, monkeypatch: pytest.MonkeyPatch) -> int:
    """Both ways: pieces put together, and what is made for many positions."""
    monkeypatch.setattr(editing, "FEW", request.param)
    return int(request.param)


@examples(60)
@given(SLICES | st.integers(-8, 8) | st.lists(st.integers(-7, 6), max_size=6), st.sampled_from([None, 0, 1, -1, 2]),
       st.sampled_from([0, 32]), st.integers(1, 4), st.sampled_from(["blocks", "fine", "ragged"]))  # fmt: skip
def test_delete(obj: Any, axis: Any, few: int, nprocs: int, way: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(editing, "FEW", few)
        as_numpys(
            {
                "matrix": lambda v, a: np.delete(a, obj, axis),
                "vector": lambda v, a: np.delete(v, obj),
                "dealt": lambda v, a: np.delete(v, v[:3] % 17),
            },
            [V, A], nprocs=nprocs, ways=(way,),
        )  # fmt: skip


def test_delete_by_masks_and_mistakes(few: int) -> None:
    as_numpys(
        {
            "mask": lambda v, a: np.delete(v, v > 50),
            "mask of rows": lambda v, a: np.delete(a, a[:, 0] > 50, 0),
            "list of booleans": lambda v, a: np.delete(v, [True] * 9 + [False] * 8),
            "mask of another length": lambda v, a: np.delete(v, [True, False]),
            "positions in a matrix": lambda v, a: np.delete(v, np.array([[1, 2], [3, 4]])),
            "floats": lambda v, a: np.delete(v, [1.0, 2.0]),
            "beyond": lambda v, a: np.delete(v, [1, 17]),
            "one beyond": lambda v, a: np.delete(v, 17),
            "everything": lambda v, a: np.delete(v, slice(None)),
            "nothing": lambda v, a: np.delete(v, []),
        },
        [V, A],
    )


@examples(60)
@given(SLICES | st.integers(-8, 8) | st.lists(st.integers(-5, 7), min_size=1, max_size=6),
       st.sampled_from([None, 0, 1]), st.sampled_from(["one", "row", "many", "column"]), st.sampled_from([0, 32]),
       st.integers(1, 4), st.sampled_from(["blocks", "fine", "ragged"]))  # fmt: skip
def test_insert(obj: Any, axis: Any, kind: str, few: int, nprocs: int, way: str) -> None:
    values: Any = {"one": 7.5, "row": [1, 2, 3, 4, 5], "many": np.arange(6), "column": np.arange(7)[:, None]}[kind]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(editing, "FEW", few)
        as_numpys(
            {
                "matrix": lambda v, a: np.insert(a, obj, values, axis),
                "vector": lambda v, a: np.insert(v, obj, values),
            },
            [V, A], nprocs=nprocs, ways=(way,),
        )  # fmt: skip


def test_positions_of_small_dtypes_count_along_long_axes(few: int) -> None:
    as_numpys(
        {
            "delete, unsigned": lambda x: np.delete(x, np.array([1, 7], np.uint8)),
            "delete from the end": lambda x: np.delete(x, np.array([-1, 7], np.int8)),
        },
        [np.arange(300)],
    )

    def main(proc: bsp.Process) -> None:  # NumPy's insert fails for these dtypes
        for kind, position in ((np.int8, -1), (np.uint8, 200)):
            found = ba.insert(ba.arange(300), np.array([position, 7], kind), 5)
            assert np.array_equal(found.compute(), np.insert(np.arange(300), [position, 7], 5))

    bsp.run(main, nprocs=3)


def test_a_position_before_the_first_is_refused_where_numpy_counts_round_again() -> None:
    def main(proc: bsp.Process) -> None:
        with pytest.raises(IndexError, match="index -18 is out of bounds for axis 0 with size 17"):
            np.insert(ba.asarray(V), [0, -18], 1)

    bsp.run(main, nprocs=2)


def test_insert_of_dealt_values_at_dealt_positions_and_mistakes(few: int) -> None:
    as_numpys(
        {
            "values": lambda v, a: np.insert(v, [3, 3, 1], v[:3]),
            "positions": lambda v, a: np.insert(v, v[:3] % 17, 0),
            "rows": lambda v, a: np.insert(a, 2, a[:1] * 2, 0),
            "columns": lambda v, a: np.insert(a, [1, 4], a[:, :2], 1),
            "mask": lambda v, a: np.insert(v, np.arange(17) % 5 == 0, -1),
            "beyond": lambda v, a: np.insert(v, 18, 0),
            "at the end": lambda v, a: np.insert(v, 17, 0),
            "floats": lambda v, a: np.insert(v, [1.0, 2.0], 0),
            "positions in a matrix": lambda v, a: np.insert(v, [[1], [2]], 0),
            "that do not fit": lambda v, a: np.insert(a, [1, 2], [1, 2, 3], 0),
        },
        [V, A],
    )


@examples(40)
@given(st.lists(st.sampled_from([0, 0, 0, 1, 2]), max_size=20), st.sampled_from(["fb", "f", "b", "FB", "x"]),
       st.integers(1, 4))  # fmt: skip
def test_trim_zeros(line: list[int], trim: str, nprocs: int) -> None:
    as_numpys({"line": lambda v: np.trim_zeros(v, trim)}, [np.array(line, int)], nprocs=nprocs)


def test_both_ends_of_the_zeros_are_found_in_one_superstep() -> None:
    def main(proc: bsp.Process) -> tuple[int, Any]:
        line = ba.arange(1000, grid=(4,)).persist()
        before = proc.superstep
        found = ba.trim_zeros(line)
        return proc.superstep - before, found.shape

    assert bsp.run(main, nprocs=4)[0] == (1, (999,))


def test_resize_repeats_or_cuts() -> None:
    as_numpys(
        {
            "longer": lambda v, a: np.resize(v, (5, 8)),
            "shorter": lambda v, a: np.resize(a, 3),
            "one": lambda v, a: np.resize(v[:1], (2, 3)),
            "none": lambda v, a: np.resize(v[:0], (2, 3)),
            "to nothing": lambda v, a: np.resize(a, (0, 3)),
            "negative": lambda v, a: np.resize(a, -1),
        },
        [V, A],
    )


def test_what_is_left_stays_where_it_is() -> None:
    """One superstep, of counts, for many positions; none for few."""

    def main(proc: bsp.Process) -> list[int]:
        x = ba.arange(40_000)
        marks = [proc.superstep]
        for obj in (np.arange(0, 40_000, 4), x % 3 == 0):
            ba.delete(x, obj)
            marks.append(proc.superstep)
        ba.delete(x, [3, 77])
        return np.diff([*marks, proc.superstep]).tolist()

    assert bsp.run(main, nprocs=4)[0][-1] == 0
    ran = bsp.predict(lambda proc: main(proc), nprocs=4, machine=bsp.Machine(p=4))
    assert max(row["h_received"] for row in ran.per_superstep) <= 40


def test_edits_run_abstractly() -> None:
    def main(proc: bsp.Process) -> None:
        x = ba.asarray(np.random.rand(50_000))
        for found in (ba.delete(x, [3, 4]), ba.delete(x, x > 0.5), ba.delete(x, np.arange(100)), ba.insert(x, 3, 1.0),
                      ba.insert(x, np.arange(100), 1.0), ba.trim_zeros(x), ba.resize(x, 60_000)):  # fmt: skip
            found.persist()

    assert bsp.predict(main, nprocs=4, machine=bsp.Machine(p=4), abstract=True).per_superstep
