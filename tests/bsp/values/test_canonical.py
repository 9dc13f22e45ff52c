"""Equal values are equal bytes, whatever they have gone through (DESIGN section 7, N11)."""

from __future__ import annotations

import copy
import datetime
import functools
import pickle
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bsp.values.canonical import pickled
from bsp.values.payload import NUMBER_TYPES, array_out, received

NUMBERS = st.one_of(st.integers(), st.floats(), st.booleans(), st.none(), st.complex_numbers())
LEAVES = st.one_of(
    NUMBERS,
    st.text(),
    st.binary(),
    st.floats().map(np.float64),
    st.integers(0, 9).map(np.int32),
    st.sampled_from([np.dtype("f8"), np.dtype([("a", "i4"), ("b", "f8")]), Decimal("1.0"), Decimal("1.00")]),
    st.sampled_from([Fraction(1, 3), datetime.date(2026, 1, 2), datetime.timedelta(1)]),
)


class Named(NamedTuple):
    """A tuple with names for its items."""

    count: int
    items: tuple[Any, ...]


FIXED = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3).flatmap(
        lambda items: st.sampled_from([tuple(items), Named(len(items), tuple(items))])
    ),
    max_leaves=6,
)
VALUES = st.recursive(
    FIXED,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=2), inner, max_size=3), st.sets(st.text())
    ),
    max_leaves=12,
)


def same(a: Any, b: Any) -> bool:
    """Also of nan and -0.0; types too."""
    return pickled(a) == pickled(b)


@given(VALUES)
def test_a_value_that_has_been_moved_has_the_same_bytes(value: Any) -> None:
    moved = pickle.loads(pickled(value))
    assert pickled(moved) == pickled(value)
    assert repr(moved) == repr(value) or isinstance(value, set | dict | list | tuple)  # the order of sets is free


@given(FIXED, st.integers(0, 2))
def test_what_cannot_change_may_be_one_object_or_several(value: Any, which: int) -> None:
    """The moved state beside a constant of the script."""
    other = pickle.loads(pickle.dumps(value))
    together = [[value, value], {"a": value, "b": [value]}, (value, np.zeros(2), value)][which]
    apart = [[value, other], {"a": other, "b": [value]}, (other, np.zeros(2), value)][which]
    assert pickled(together) == pickled(apart)


@given(FIXED, FIXED)
def test_different_values_have_different_bytes(one: Any, two: Any) -> None:
    """1, 1.0, True, 0.0 and -0.0 are told apart, alone and behind each other."""
    if pickle.dumps(copy.deepcopy(one)) != pickle.dumps(copy.deepcopy(two)) and repr(one) != repr(two):
        assert not same([one, one], [one, two])
        back = pickle.loads(pickled([one, two]))
        assert repr(back) == repr([one, two])


@pytest.mark.parametrize("pair", [((1, 2), (1.0, 2)), ((0.0,), (-0.0,)), ((1,), (True,)), (np.float64(1), 1.0)])
def test_equal_numbers_of_other_types_stay_what_they_are(pair: tuple[Any, Any]) -> None:
    one, two = pickle.loads(pickled(pair))
    assert (repr(one), repr(two)) == (repr(pair[0]), repr(pair[1]))


def test_arrays_that_have_been_moved_share_their_dtype_with_new_ones() -> None:
    moved = pickle.loads(pickled(np.arange(3.0)))
    assert pickled([moved, np.zeros(3)]) == pickled([np.arange(3.0), np.zeros(3)])


@pytest.mark.parametrize("char", NUMBER_TYPES)
def test_dtypes_of_numbers_that_have_been_moved_are_numpys_own_objects(char: str) -> None:
    """Arrays of other dtype objects travel in another way: a clone that is given its state would send other bytes."""
    array = np.ones(2, char)
    for kept in (array.dtype, [array], {"x": array[0]}, (array, array.dtype)):
        moved = pickle.loads(pickled(kept))
        assert pickled(moved) == pickled(kept)
    (moved,) = pickle.loads(pickled([array]))
    assert moved.dtype is array.dtype


@pytest.mark.parametrize("char", NUMBER_TYPES)
def test_arrays_with_other_objects_for_the_same_dtype_travel_alike(char: str) -> None:
    array = np.ones(2, char)
    other = np.frombuffer(array.tobytes(), np.dtype(char, copy=True))
    assert other.dtype is not array.dtype
    assert array_out(other) == array_out(array) is not None
    assert received(other).dtype is array.dtype
    marked = array.view(np.dtype(char, metadata={"unit": "m"}))
    assert array_out(marked) is None and received(marked).dtype.metadata == {"unit": "m"}


def test_masked_arrays_that_have_been_moved() -> None:
    """NumPy gives each that it reads from a pickle a value to fill it with, which results of it inherit."""
    pairs = np.zeros(2, [("a", "i4"), ("b", "f8")])
    arrays = [np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1.5], fill_value=7), np.ma.array([]), np.ma.array(pairs)]
    for value in arrays:
        moved = pickle.loads(pickled(value))
        assert pickled(moved) == pickled(value) and repr(moved) == repr(value)
        if value.dtype.names is None:
            assert repr(moved + 0.5) == repr(value + 0.5) and moved.mask.tolist() == value.mask.tolist()


def test_memory_mapped_arrays_that_have_been_moved(tmp_path: Path) -> None:
    """Clones differ if `np.asarray(x)` of the one that was moved is writable, and that of the others is not."""
    np.save(tmp_path / "x.npy", np.arange(12.0).reshape(3, 4))
    for mode in ("r", "c"):
        whole: np.memmap[Any, Any] = np.load(tmp_path / "x.npy", mmap_mode=mode)
        for value in (whole, whole[1:, ::2], whole.T):
            moved = pickle.loads(pickled(value))
            assert pickled(moved) == pickled(value) and type(moved) is np.memmap and (moved == value).all()
            assert np.asarray(moved).flags.writeable == value.flags.writeable == (mode == "c")
            assert (moved.filename, moved.offset, moved.mode) == (value.filename, value.offset, value.mode)


def test_slices_and_ranges_are_recognised_by_value() -> None:
    """Two blocks of a pandas data frame may share one slice, and have two when they have been loaded."""
    for make in (lambda: slice(0, 2, None), lambda: range(1, 9, 2)):
        one, other = make(), make()
        assert pickled([one, one]) == pickled([one, other])
    assert pickled([slice(0, 2)] * 2) != pickled([slice(0, 2), range(2)])


def test_a_look_at_a_partial_function_does_not_change_its_pickle() -> None:
    one, other = functools.partial(max, 3, key=abs), functools.partial(max, 3, key=abs)
    assert vars(other) == {} and pickled(one) == pickled(other)
    moved = pickle.loads(pickled(one))
    assert moved(-5) == -5 and pickled(moved) == pickled(one)
    other.tag = 1  # type: ignore[attr-defined]
    assert pickle.loads(pickled(other)).tag == 1


class Alike:
    """Objects of equal pickles, which have no order in a set."""


def test_objects_that_are_alike_stand_in_a_set_as_they_were_met() -> None:
    for _ in range(10):
        alike = [Alike() for _ in range(5)]
        assert pickled([alike, {*alike}]) == pickled([alike, {*reversed(alike)}])
        assert pickled([alike, {*alike}]) == pickled(pickle.loads(pickled([alike, {*alike}])))


def test_mutable_objects_keep_their_identity() -> None:
    shared: list[int] = []
    assert pickled([shared, shared]) != pickled([[], []])
    back = pickle.loads(pickled([shared, shared]))
    assert back[0] is back[1]


def test_read_only_arrays_of_no_byte_and_of_one() -> None:
    """Python keeps one object of b"" and of each byte, which a pickle of new objects does not expect twice."""

    def frozen(values: Any) -> np.ndarray:
        array = np.array(values)
        array.flags.writeable = False
        return array

    for values in ([], [True], np.zeros((0, 3), np.int32), np.zeros((2, 0), ">f8"), np.zeros(0, ">U3")):
        first, second = pickle.loads(pickled((frozen(values), frozen(values))))
        assert first.dtype == second.dtype == np.array(values).dtype
        assert np.array_equal(first, values)
        assert np.array_equal(second, values)
        assert pickled(frozen(values)) == pickled(np.array(values))
