"""NumPy as the oracle: the same call on real data and on abstract arrays of the same shapes and dtypes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.abstract import AbstractArray


def abstract(value: Any) -> Any:
    """The same arguments with every array abstract."""
    if isinstance(value, np.ndarray):
        return AbstractArray(value.shape, value.dtype)
    if isinstance(value, np.generic):
        return AbstractArray((1,), value.dtype)[0]
    if isinstance(value, (list, tuple)):
        return type(value)([abstract(each) for each in value])
    return value


def outcome(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What a call returns, or the exception it raises."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return function(*args, **kwargs)
        except Exception as wrong:  # noqa: BLE001 - which one it is, is compared
            return wrong


def _kind(wrong: Exception) -> type:
    kinds = (np.linalg.LinAlgError, np.exceptions.AxisError, IndexError, OverflowError, TypeError, ValueError)
    return next((kind for kind in kinds if isinstance(wrong, kind)), type(wrong))


def same(expected: Any, got: Any) -> None:
    """Shape, dtype, array or scalar, and the kind of error."""
    if isinstance(expected, Exception):
        assert isinstance(got, Exception), f"NumPy raises {expected!r}; abstract gives {got!r}"
        assert _kind(expected) is _kind(got), f"NumPy raises {expected!r}, abstract {got!r}"
        return
    if isinstance(got, Exception):
        raise AssertionError(f"NumPy gives {expected!r}") from got
    if isinstance(expected, (tuple, list)):
        assert type(expected) is type(got) and len(expected) == len(got), (expected, got)
        for theirs, ours in zip(expected, got, strict=True):
            same(theirs, ours)
    elif isinstance(got, np.ndarray):  # it came from real arguments alone
        np.testing.assert_array_equal(expected, got, strict=True)
    elif isinstance(expected, (np.ndarray, np.generic)):
        assert isinstance(got, AbstractArray), (expected, got)
        assert (got.shape, got.dtype) == (expected.shape, expected.dtype), (expected, got)
        assert (got.ndim, got.size, got.nbytes) == (expected.ndim, expected.size, expected.nbytes)
        assert got.is_scalar == isinstance(expected, np.generic), (expected, got)
    elif isinstance(expected, (bool, int, float, complex)) and isinstance(got, AbstractArray):
        assert got.is_scalar and got.shape == ()
        assert got.dtype == np.asarray(expected).dtype
    else:
        assert expected == got


def agree(function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """The same call, on both."""
    expected = outcome(function, *args, **kwargs)
    same(expected, outcome(function, *abstract(args), **{name: abstract(value) for name, value in kwargs.items()}))
