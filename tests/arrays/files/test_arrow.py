"""Numbers of pyarrow's arrays, against its own to_numpy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from bsp.arrays.files.arrow import numbers_in


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64, np.uint8])
@pytest.mark.parametrize("gone", [(), (0,), (3, 9), tuple(range(20))])
@pytest.mark.parametrize("span", [(0, 20), (3, 9), (9, 1), (5, 0)])
def test_numbers_are_those_of_to_numpy(dtype: Any, gone: tuple[int, ...], span: tuple[int, int]) -> None:
    values = [None if k in gone else k for k in range(20)]
    column = pa.array(values, pa.from_numpy_dtype(dtype)).slice(*span)
    found = numbers_in(column, dtype, 77)
    assert found.dtype == dtype
    assert found.tolist() == [77 if value is None else value for value in column.to_pylist()]


def test_what_is_not_there_is_no_number_of_floats() -> None:
    found = numbers_in(pa.array([1.5, None, float("nan"), -0.0]), float, np.nan)
    np.testing.assert_array_equal(found, [1.5, np.nan, np.nan, -0.0])


def test_numbers_without_gaps_are_not_copied() -> None:
    column = pa.array(np.arange(5.0))
    assert np.shares_memory(numbers_in(column, float, np.nan), column.to_numpy())


def test_no_numbers_at_all() -> None:
    assert numbers_in(pa.array([], pa.float64()), float, 0).shape == (0,)
