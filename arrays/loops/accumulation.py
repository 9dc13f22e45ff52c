"""Sums in the dtype in which a loop adds: NumPy's functions add in that of what is added.

A loop that adds products of elements of int8 or bool to an element of float64 rounds, or wraps, each product, but not
the sum.  So array statements choose where they run, when dtypes are known, and the sums are told their dtype.
What a loop makes of Python's integers alone is an integer of Python's, which has no end; so it is here.
A loop without iterations leaves a number of Python's as it is, so its sum is then Python's 0, and its product 1.
"""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np

from bsp.errors import ValueNeeded


def dtype_of_sum(old: Any, *values: Any) -> Any:
    """Return the dtype of an old value to which others have been added, as a loop adds them."""
    return np.result_type(*[getattr(each, "dtype", each) for each in (old, *values)])


def kept(old: Any, new: Any) -> Any:
    """Return the new values of elements that several iterations have changed.

    Raises TypeError if the elements are integers and the values are none, because each iteration would round.
    """
    if not np.can_cast(new.dtype, old.dtype, "same_kind"):
        raise TypeError(
            f"a loop puts {new.dtype} into elements of {old.dtype} and rounds in each iteration, which no array "
            f"statement does; let the array have elements of {new.dtype}"
        )
    return new


def is_contraction(old: Any, *factors: Any) -> bool:
    """Return whether sums of products, added to an old value, are those of factors in the dtype of the sum.

    They are if no product of fewer bits would have wrapped.  Sums of nothing are left to `total`.
    """
    if not hasattr(old, "dtype") and any(0 in getattr(each, "shape", ()) for each in factors):
        return False
    wanted = dtype_of_sum(old, *factors)
    dtypes = [each.dtype for each in factors if getattr(each, "ndim", 0)]
    if wanted.kind in "fc" and all(each.kind in "fc" for each in dtypes):
        return True
    return bool(np.result_type(*dtypes) == wanted) and sum(each != wanted for each in dtypes) <= 1


def contraction(module: Any, old: Any, subscripts: str, *factors: Any) -> Any:
    """Return the einsum of `is_contraction`, by the functions of a module."""
    wanted = dtype_of_sum(old, *factors)
    if np.result_type(*[each.dtype for each in factors]) != wanted:
        factors = tuple(each.astype(wanted) for each in factors)
    return module.einsum(subscripts, *factors)


def _is_of_nothing(old: Any, values: Any, axes: tuple[int, ...]) -> bool:
    """Return whether a loop changes a number of Python's in no iteration."""
    return not hasattr(old, "dtype") and values.ndim == len(axes) and 0 in values.shape


def total(module: Any, old: Any, values: Any, axes: tuple[int, ...]) -> Any:
    """Return the sum over axes of values that a loop adds to an old one, by the functions of a module."""
    if _is_of_nothing(old, values, axes):
        return 0
    return module.sum(values, axis=axes, dtype=dtype_of_sum(old, values))


def product(module: Any, old: Any, values: Any, axes: tuple[int, ...]) -> Any:
    """Return the product over axes of values by which a loop multiplies an old one, as `total`."""
    if _is_of_nothing(old, values, axes):
        return 1
    return module.prod(values, axis=axes, dtype=dtype_of_sum(old, values))


def repeated(old: Any, value: Any, count: int) -> Any:
    """Return the sum of a value that a loop adds to an old one so many times."""
    if not hasattr(old, "dtype") and not getattr(value, "ndim", 0):
        if not count:
            return 0
        if not hasattr(value, "dtype"):
            return value * count
    wanted = dtype_of_sum(old, value)
    value = value.astype(wanted) if hasattr(value, "dtype") else wanted.type(value)
    return value * np.asarray(count).astype(wanted)[()]  # in fewer bits the count wraps, as the sums of the loop do


def double(value: Any) -> Any:
    """Return a number or an array as the functions of `math` take it, in float64; TypeError if it is complex."""
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype == np.float64:
        return value
    if dtype.kind == "c":
        raise TypeError("must be real number, not complex")
    return value.astype(np.float64)


def truth(made: Any) -> Any:
    """Return what `any` or `all` gives as True or False of Python's, with which it computes as with 1 and 0.

    Collective where it is the element of a distributed array: computes it.  In a run without values it stays that.
    """
    with contextlib.suppress(ValueNeeded):
        return bool(made)
    return made


def whole(made: Any, *of: Any) -> Any:
    """Return what is made of some numbers; an integer as Python's, if all of them are Python's integers.

    Collective where it is the element of a distributed array: computes it.
    """
    if all(type(each) is int for each in of) and getattr(made, "ndim", -1) == 0 and made.dtype.kind in "iu":
        return int(made)
    return made
