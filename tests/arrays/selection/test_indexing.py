"""Indices of arrays, ellipses and numbers, and values that a dtype cannot hold, are taken or refused as by NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpys_answers import alike, random, refused


def _assigned(key: Any, value: Any) -> Callable[..., Any]:
    def compute(xp: Any, x: Any) -> Any:
        operator.setitem(x, key, value)
        return x

    return compute


@pytest.mark.parametrize("key", [0, slice(1, 3), [0, 2]], ids=str)
@pytest.mark.parametrize(("dtype", "value"), [("f8", 1j), ("i8", 1j), ("i8", float("nan"))], ids=str)
def test_assignment_refuses_numbers_that_the_dtype_cannot_say(key: Any, dtype: str, value: Any) -> None:
    refused(_assigned(key, value), np.arange(7).astype(dtype))


def test_the_least_and_the_greatest_integer_of_a_dtype_fit() -> None:
    for number in (-128, 127):
        alike(_assigned(0, number), np.zeros(5, np.int8))
        alike(lambda xp, x, number=number: xp.add(x, number), np.zeros(5, np.int8))
    for number in (-129, 128):
        refused(_assigned(0, number), np.zeros(5, np.int8))


def test_axes_go_first_where_an_ellipsis_of_none_is_between() -> None:
    data = random(9, 2, 3)
    alike(lambda xp, x: x[:, [0, 1, 1, 0], ..., [0, 2, 1, 1]], data)
    alike(lambda xp, x: x[:, [0, 1, 1, 0], ..., 2], data)
    alike(lambda xp, x: x[:, x[0, :, 0] > 0, ..., 2], data)
    alike(lambda xp, x: x[:, x[0, :, 0] > 0, ..., :2], data)
    alike(lambda xp, x: x[x > 0, ...], data)


def test_a_zero_dimensional_index_does_not_hide_a_list() -> None:
    alike(lambda xp, x: x[np.array(0), [1, 2]], random(7, 5))
