"""Regions: an index resolves to the elements that NumPy selects, or its error says by how much it is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bsp.values.region import OutOfRange, Region, resolve

SHAPES = hnp.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=5)


@given(SHAPES.flatmap(lambda shape: st.tuples(st.just(shape), hnp.basic_indices(shape, allow_newaxis=False))))
def test_a_basic_index_resolves_to_the_elements_numpy_selects(case: Any) -> None:
    shape, index = case
    flat = np.arange(np.prod(shape)).reshape(shape)
    region = resolve(index, shape)
    assert region.shape == np.shape(flat[index])
    assert region.positions(shape).tolist() == np.ravel(flat[index]).tolist()
    if region.index is not None:
        assert region.strides is not None
        steps = np.add.reduce([k * stride for k, stride in zip(np.indices(region.shape), region.strides, strict=True)])
        assert (region.start + steps).ravel().tolist() == region.positions(shape).tolist()


@given(SHAPES.flatmap(lambda shape: st.tuples(st.just(shape), hnp.integer_array_indices(shape))))
def test_integer_arrays_resolve_to_the_elements_numpy_selects(case: Any) -> None:
    shape, index = case
    flat = np.arange(np.prod(shape)).reshape(shape)
    region = resolve(index, shape)
    assert region.shape == flat[index].shape
    assert region.positions(shape).tolist() == flat[index].ravel().tolist()


@pytest.mark.parametrize(
    ("at", "shape", "message"),
    [
        (3, (3,), "runs 1 past the end"),
        (-5, (3,), "runs 2 past the start"),
        (slice(1, 5), (3,), "runs 2 past the end"),
        (slice(-4, 2), (3,), "runs 1 past the start"),
        ((0, 4), (3, 4), "runs 1 past the end"),
        ((0, 0, 0), (3, 4), "has 3 indices for 2 dimensions"),
        ([0, 9], (3,), "out of bounds"),
        (np.array([True, False]), (3,), "has a mask of shape"),
        (0, (), "has 1 indices for 0 dimensions"),
    ],
)
def test_an_index_outside_says_by_how_much(at: Any, shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(OutOfRange, match=message):
        resolve(at, shape)


@pytest.mark.parametrize("at", [None, 1.5, "a", [0.5], (..., ...), (None, 1)])
def test_what_is_no_index_is_a_type_error(at: Any) -> None:
    with pytest.raises(TypeError):
        resolve(at, (3, 4))


def test_a_region_that_is_a_range_of_memory_is_known_as_one() -> None:
    assert resolve((1, slice(None)), (3, 4)) == Region((4,), 4, 8)
    assert resolve(slice(1, 3), (3, 4)) == Region((2, 4), 4, 12)
    assert resolve((slice(None), 1), (3, 4)).index is not None
    assert resolve((1, 2), (3, 4)) == Region((), 6, 7)
