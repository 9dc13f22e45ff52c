"""Functions and methods that change an array in place: sort, fill, partition, resize, copyto, putmask, place, flat.

Their results are computed like any others and then stored in the array, in its dtype (`stored`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import arange, asarray, checked_shape, full_like
from bsp.arrays.api.manipulation import concat, ravel, reshape
from bsp.arrays.api.ufuncs import stored
from bsp.arrays.array import Array, wrap
from bsp.arrays.editing import cycled
from bsp.arrays.indexing import scalar_of
from bsp.arrays.selection.masks import flattened_array
from bsp.arrays.selection.selecting import put_flat as put
from bsp.arrays.selection.selecting import take as taken
from bsp.arrays.sorting import partition as parting
from bsp.arrays.sorting import sorting
from bsp.arrays.typing import ArrayLike, Casting, Index
from bsp.arrays.views import replace
from bsp.declared import Costs, declares

__all__ = ["copyto", "fill_diagonal", "place", "put", "putmask"]


def _changed(name: str, x: Any) -> Array:
    """Return the array that a function changes; TypeError for any other object."""
    if not isinstance(x, Array):
        raise TypeError(f"{name} changes an array of bsp.arrays, not {type(x).__name__}")
    return x


def _become(x: Array, found: Array) -> None:
    stored(found, x, casting="unsafe")


def fill(x: Array, value: Any) -> None:
    """Set every element to `value`, a number.  No words."""
    number = value
    if isinstance(value, Array):
        if value.ndim:
            raise ValueError("setting an array element with a sequence.")
    else:
        one = np.empty((), x.dtype)
        one.fill(value)  # raises NumPy's errors for values that it cannot hold
        number = one[()]
    _become(x, full_like(x, number))


def sort(x: Array, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> None:
    """Sort the elements along an axis, in place.  Cost: see `bsp.arrays.sort`."""
    _become(x, sorting.sort(x, axis=axis, kind=kind, order=order, stable=stable))


def partition(x: Array, kth: Any, axis: Any = -1, kind: Any = "introselect", order: Any = None) -> None:
    """Partition the elements along an axis at ranks, in place.  Cost: see `bsp.arrays.partition`."""
    _become(x, parting.partition(x, kth, axis=axis, kind=kind, order=order))


def resize(x: Array, new_shape: Any) -> None:
    """Change the shape, in place: elements in C order are dropped at the end, or followed by zeros."""
    shape = checked_shape(new_shape)
    flat, size = flattened_array(x), int(np.prod(shape, dtype=np.int64))
    if size > flat.size:
        zeros = build.broadcast(build.cast(build.operand(0), x.dtype), (size - flat.size,))
        flat = concat([flat, wrap(zeros)])
    replace(x, reshape(flat[:size], shape)._node)


def copyto(dst: Array, src: ArrayLike, casting: Casting = "same_kind", where: ArrayLike = True) -> None:
    """Copy the values of `src`, broadcast to the shape of `dst`, into `dst` where the mask `where` holds."""
    target = _changed("copyto", dst)
    node = build.operand(src)
    given = np.result_type(target.dtype, node.value) if node.kind.weak is not None else node.kind.dtype
    if not np.can_cast(given, target.dtype, casting):
        raise TypeError(f"Cannot cast from {node.kind.dtype!r} to {target.dtype!r} according to the rule '{casting}'")
    if node.kind.weak is not None:
        node = build.from_whole(scalar_of(node, target.dtype))
    stored(wrap(build.broadcast(build.strong(node), target.shape)), target, where, "copyto", "unsafe")


def putmask(x: Array, mask: ArrayLike, values: ArrayLike) -> None:
    """Replace the elements where a mask holds by the values at the same positions, in C order.

    values : repeated as often as needed.
    Cost: no words for one value, or for as many as x has; else as `resize`.
    """
    target = _changed("putmask", x)
    held = wrap(build.truth(build.strong(build.operand(mask))))
    if held.size != target.size:
        raise ValueError("putmask: mask and data must be the same size")
    given = _safely(values, target)
    if not given.size:
        return
    spread = cycled(given, target.size)
    stored(
        reshape(spread, target.shape) if spread.ndim else spread,
        target, reshape(held, target.shape), "putmask", "unsafe",
    )  # fmt: skip


def _safely(values: Any, target: Array) -> Array:
    """Return values in the dtype of an array.  As in NumPy, arrays must cast safely, all else is cast anyway."""
    if isinstance(values, (Array, np.ndarray)):
        found = asarray(values)
        number = isinstance(values, Array) and not values.ndim
        if not number and not np.can_cast(found.dtype, target.dtype, "safe"):
            raise TypeError(
                f"Cannot cast array data from {found.dtype!r} to {target.dtype!r} according to the rule 'safe'"
            )
        return found.astype(target.dtype)
    return asarray(np.asarray(values, dtype=target.dtype))


def place(x: Array, mask: ArrayLike, values: ArrayLike) -> None:
    """Replace the elements where a mask holds, in C order, by successive values, repeated as often as needed.

    Collective.  Cost: one superstep for counts, and that of assigning as many values by x[mask] = values.
    """
    target = _changed("place", x)
    held = wrap(build.truth(build.strong(build.operand(mask))))
    if held.size != target.size:
        raise ValueError("place: mask and data must be the same size")
    given = ravel(_safely(values, target))
    count = _held_count(held)
    if not count:
        return
    if not given.size:
        raise ValueError("Cannot insert from an empty array!")
    flat = flattened_array(target)
    flat[ravel(held)] = cycled(given, count)
    _become(target, reshape(flat, target.shape))


def _held_count_at_most(costs: Costs, mask: Array) -> int:
    """Declare `_held_count`: at most, the mask holds everywhere."""
    costs.at_most()
    mask.sum().compute()
    return mask.size


@declares(_held_count_at_most)
def _held_count(mask: Array) -> int:
    """Return the number of true elements of a mask.  Collective: one word."""
    return int(mask.sum())


def fill_diagonal(x: Array, values: ArrayLike, wrap: bool = False) -> None:
    """Replace the elements whose indices are all equal by values, repeated as often as needed.  Lazy.

    wrap : continue the diagonal of a tall matrix below, after one row without an element of it.
    """
    target = _changed("fill_diagonal", x)
    shape = target.shape
    if len(shape) < 2:
        raise ValueError("array must be at least 2-d")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise ValueError("All dimensions of input must be of equal length")
    rows = arange(shape[0])
    lines: list[Array] = [
        arange(length)[tuple(slice(None) if k == axis else None for k in range(len(shape)))]
        for axis, length in enumerate(shape)
    ]
    if len(shape) == 2 and wrap:
        period = shape[1] + 1
        held = lines[0] % period == lines[1]
        number = rows - rows // period
    else:
        held = lines[0] == lines[1]
        for line in lines[2:]:
            held = held & (lines[0] == line)
        number = rows
    found = ravel(asarray(
        values if isinstance(values, (Array, np.ndarray)) else np.asarray(values, dtype=target.dtype)
    ))  # fmt: skip
    if not found.size:
        return
    spread = reshape(found, ()) if found.size == 1 else taken(found, number % found.size)
    if found.size > 1:
        spread = spread[(slice(None), *[None] * (len(shape) - 1))]
    stored(spread, target, held, "fill_diagonal", "unsafe")


class Flat:
    """The elements of an array in C order, as a vector that can be read, assigned, compared and iterated: `x.flat`."""

    __slots__ = ("_array",)
    __hash__ = None  # type: ignore[assignment]  # it is compared by value

    def __init__(self, array: Array) -> None:
        self._array = array

    @property
    def base(self) -> Array:
        """The array whose elements these are."""
        return self._array

    def copy(self) -> Array:
        """Return a copy of all elements in C order."""
        return flattened_array(self._array)

    def __len__(self) -> int:
        return self._array.size

    def __getitem__(self, key: Index) -> Array:
        return flattened_array(self._array)[key].copy()

    def __setitem__(self, key: Index, values: ArrayLike) -> None:
        """Assign values, repeated as often as needed, as in NumPy."""
        flat = flattened_array(self._array)
        chosen = flat[key]
        if not chosen.size:
            return
        given = asarray(values) if not isinstance(values, Array) else values
        if not given.size:
            return
        flat[key] = values if given.size == 1 and not given.ndim else cycled(ravel(given), chosen.size)
        _become(self._array, reshape(flat, self._array.shape))

    def __iter__(self) -> Iterator[Any]:
        """Iterate over NumPy's scalars.  Collective: brings the whole array to every process.

        Raises GatherRefused above a gigabyte.
        """
        return iter(self._array._gathered("iteration over flat").reshape(-1))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return ravel(self._array).__array__(dtype, copy)

    def __eq__(self, other: Any) -> Any:
        return ravel(self._array) == other

    def __ne__(self, other: Any) -> Any:
        return ravel(self._array) != other
