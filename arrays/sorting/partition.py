"""Partition and argpartition, and sorting by several keys: all made of sorts.

A partition's elements on either side of a rank may stand in any order, and NumPy's own order follows from how it
searched.  Ours must not depend on the blocks, so it is the sorted one, which is a partition by every rank at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import unstack
from bsp.arrays.array import Array
from bsp.arrays.gathering import brought
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.selection.selecting import take_along_axis
from bsp.arrays.sorting.sorting import argsort, sort


def _checked_ranks(array: Array, kth: Any, axis: Any, kind: str, order: Any) -> None:
    if order is not None:
        raise ValueError("Cannot specify order when the array has no fields.")
    if kind != "introselect":
        raise ValueError(f"select kind must be 'introselect' (got {kind!r})")
    ranks = brought("partition: kth", kth) if isinstance(kth, Array) else np.asarray(kth)
    if ranks.dtype.kind not in "biu":
        raise TypeError("Partition index must be integer")
    if ranks.ndim > 1:
        raise ValueError("object too deep for desired array")
    length = array.size if axis is None else array.shape[build.normal_axis(axis, array.ndim)]
    for rank in ranks.reshape(-1).tolist() if array.size else ():
        if not -length <= rank < length:
            raise ValueError(f"kth(={rank}) out of bounds ({length})")


@procedure
def partition(x: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Array:
    """The elements along an axis with those of ranks `kth` in their sorted places; None: all elements.

    The others are in order too, whatever the blocks are (see the module).  Cost: as `sort`.
    """
    array = asarray(x)
    _checked_ranks(array, kth, axis, kind, order)
    return sort(array, axis=axis)


@procedure
def argpartition(x: Any, kth: Any, axis: int | None = -1, kind: str = "introselect", order: Any = None) -> Array:
    """The positions that put the elements of ranks `kth` in their sorted places.  Cost: as `argsort`."""
    array = asarray(x)
    _checked_ranks(array, kth, axis, kind, order)
    return argsort(array, axis=axis)


@procedure
def lexsort(keys: Any, axis: int = -1) -> Array:
    """The positions that sort by the last key, equal elements by the one before it, and so on.

    Cost: for each key a stable argsort, and but for the first what brings its elements in the order so far.
    """
    each = list(unstack(asarray(keys))) if isinstance(keys, (Array, np.ndarray)) and keys.ndim else keys
    if not isinstance(each, (list, tuple)) or not len(each):
        raise TypeError("need sequence of keys with len > 0 in lexsort")
    given = [asarray(key) for key in each]
    if any(key.shape != given[0].shape for key in given):
        raise ValueError("all keys need to be the same shape")
    if not given[0].ndim:
        return argsort(given[0][None])[0]
    place = build.normal_axis(axis, given[0].ndim)
    found = argsort(given[0], axis=place)
    for key in given[1:]:
        found = take_along_axis(found, argsort(take_along_axis(key, found, place), axis=place), place)
    return found


FUNCTIONS: dict[str, Callable[..., Any]] = {each.__name__: each for each in (partition, argpartition, lexsort)}
