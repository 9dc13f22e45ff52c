"""`partition`, `argpartition` and `lexsort`, all implemented by sorting.

The elements of a partition on either side of a rank may have any order, and NumPy's order depends on its algorithm.
Here the order must not depend on the blocks, so the result is sorted, which is a partition by every rank at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import unstack
from bsp.arrays.array import Array, wrap
from bsp.arrays.gathering import brought
from bsp.arrays.procedures.forecast import procedure
from bsp.arrays.selection.selecting import take_along_axis
from bsp.arrays.sorting.sorting import argsort, sort
from bsp.arrays.typing import ArrayLike, Arrays

__all__ = ["argpartition", "lexsort", "partition"]


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
def partition(
    x: ArrayLike, kth: int | Sequence[int], axis: int | None = -1, kind: Literal["introselect"] = "introselect",
    order: None = None,
) -> Array:  # fmt: skip
    """Partition along an axis, or all elements if axis is None: those of ranks `kth` get their sorted places.

    The other elements are sorted too, so that the result does not depend on the blocks.  Cost: as `sort`.
    """
    array = asarray(x)
    _checked_ranks(array, kth, axis, kind, order)
    return sort(array, axis=axis)


@procedure
def argpartition(
    x: ArrayLike, kth: int | Sequence[int], axis: int | None = -1, kind: Literal["introselect"] = "introselect",
    order: None = None,
) -> Array:  # fmt: skip
    """Return the positions that put the elements of ranks `kth` in their sorted places.  Cost: as `argsort`."""
    array = wrap(build.lined(asarray(x)._node))
    _checked_ranks(array, kth, axis, kind, order)
    return argsort(array, axis=axis)


@procedure
def lexsort(keys: Arrays, axis: int = -1) -> Array:
    """Return the positions that sort by the last key, equal elements by the one before it, and so on.

    Cost: a stable argsort for each key, and for each key but the first a `take_along_axis` of the key and one of the
    positions.
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
