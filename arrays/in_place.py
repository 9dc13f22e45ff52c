"""Methods and functions that change an array where it is: sort, fill, partition, copyto, putmask, place, flat.

What they give is computed like any result, and becomes the value of the array (`stored`), in its dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import arange, asarray, full_like
from bsp.arrays.api.manipulation import ravel, reshape
from bsp.arrays.api.ufuncs import stored
from bsp.arrays.array import Array, wrap
from bsp.arrays.editing import cycled
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.graph import Node
from bsp.arrays.indexing import scalar_of
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.procedures.operands import flattened
from bsp.arrays.selection.selecting import put_flat
from bsp.arrays.selection.selecting import take as taken
from bsp.arrays.sorting import partition as parting
from bsp.arrays.sorting import sorting
from bsp.arrays.views import replace


def _changed(name: str, x: Any) -> Array:
    """The array that a function changes; TypeError for what is none of ours."""
    if not isinstance(x, Array):
        raise TypeError(f"{name} changes an array of bsp.arrays, not {type(x).__name__}")
    return x


def _flattened(x: Array) -> Array:
    """All elements in C order; no view."""
    return wrap(flattened(build.strong(x._node)))


def _become(x: Array, found: Array) -> None:
    stored(found, x, casting="unsafe")


def _fill(self: Array, value: Any) -> None:
    """Every element becomes `value`, a number.  No words."""
    number = value
    if isinstance(value, Array):
        if value.ndim:
            raise ValueError("setting an array element with a sequence.")
    else:
        one = np.empty((), self.dtype)
        one.fill(value)  # NumPy's errors for what does not go
        number = one[()]
    _become(self, full_like(self, number))


def _sort(self: Array, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> None:
    """The elements sorted along an axis, in place.  Cost: see `bsp.arrays.sort`."""
    _become(self, sorting.sort(self, axis=axis, kind=kind, order=order, stable=stable))


def _partition(self: Array, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> None:
    """The elements parted at ranks along an axis, in place.  Cost: see `bsp.arrays.partition`."""
    _become(self, parting.partition(self, kth, axis=axis, kind=kind, order=order))


def _put(self: Array, indices: Any, values: Any, mode: str = "raise") -> None:
    """Elements at positions in C order replaced.  Cost: as x[indices] = values."""
    put_flat(self, indices, values, mode)


def _resize(self: Array, *new_shape: Any, refcheck: bool = True) -> None:
    """Another shape: elements in C order are dropped at the end, or followed by zeros."""
    from bsp.arrays.api.creation import checked_shape
    from bsp.arrays.api.manipulation import concat

    shape = checked_shape(new_shape[0] if len(new_shape) == 1 else new_shape) if new_shape else self.shape
    flat, size = _flattened(self), int(np.prod(shape, dtype=np.int64))
    if size > flat.size:
        zeros = build.broadcast(build.cast(build.operand(0), self.dtype), (size - flat.size,))
        flat = concat([flat, wrap(zeros)])
    replace(self, reshape(flat[:size], shape)._node)


def _condition(mask: Any) -> Node:
    """A mask, or numbers that are true where they are not zero."""
    node = build.strong(build.operand(mask))
    return node if node.kind.dtype.kind == "b" else build.apply(ew.of_ufunc(np.not_equal), node, build.operand(0))


def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """`dst` takes the values of `src`, broadcast to it, where a mask holds."""
    target = _changed("copyto", dst)
    node = build.operand(src)
    given = np.result_type(target.dtype, src) if node.kind.weak is not None else node.kind.dtype
    if not np.can_cast(given, target.dtype, casting):
        raise TypeError(f"Cannot cast from {node.kind.dtype!r} to {target.dtype!r} according to the rule '{casting}'")
    if node.kind.weak is not None:
        node = build.from_whole(scalar_of(node, target.dtype))
    if where is not True and build.operand(where).kind.dtype.kind != "b":
        raise TypeError(
            f"Cannot cast array data from {build.operand(where).kind.dtype!r} to dtype('bool') according to the rule "
            "'safe'"
        )
    stored(wrap(build.broadcast(build.strong(node), target.shape)), target, where, "copyto", "unsafe")


def putmask(x: Any, mask: Any, values: Any) -> None:
    """Where a mask holds, the element becomes the one at its place among the values, repeated as often as need be.

    Cost: none of one value, or of as many as x has; else every process has the values (h: their number).
    """
    target = _changed("putmask", x)
    held = wrap(_condition(mask))
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
    """Values for an array: NumPy casts arrays safely or not at all, and what is written in the program as it must."""
    if isinstance(values, (Array, np.ndarray, np.generic)):
        found = asarray(values)
        if not np.can_cast(found.dtype, target.dtype, "safe"):
            raise TypeError(
                f"Cannot cast array data from {found.dtype!r} to {target.dtype!r} according to the rule 'safe'"
            )
        return found.astype(target.dtype)
    return asarray(np.asarray(values, dtype=target.dtype))


def place(x: Any, mask: Any, values: Any) -> None:
    """The elements where a mask holds become the values, in C order, these repeated as often as need be.

    Cost: one superstep for counts, and what brings as many values to their places.
    """
    target = _changed("place", x)
    held = wrap(_condition(mask))
    if held.size != target.size:
        raise ValueError("place: mask and data must be the same size")
    given = ravel(_safely(values, target))
    here = world()
    if here.abstract:
        here.at_most()
    count = held.size if here.abstract else int(held.sum())
    if not count:
        return
    if not given.size:
        raise ValueError("Cannot insert from an empty array!")
    flat = _flattened(target)
    flat[ravel(held)] = cycled(given, count)
    _become(target, reshape(flat, target.shape))


def fill_diagonal(x: Any, values: Any, wrap: bool = False) -> None:
    """The elements whose indices are all equal become the values, repeated as often as need be.

    wrap : of a tall matrix, the diagonal goes on below after a row without.  Cost: none; lazy.
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
    """`x.flat`: the elements in C order, to be read and assigned.  len, ==, indices of one axis, iteration."""

    __slots__ = ("_array",)
    __hash__ = None  # type: ignore[assignment]  # it is compared by value

    def __init__(self, array: Array) -> None:
        self._array = array

    @property
    def base(self) -> Array:
        """The array."""
        return self._array

    def copy(self) -> Array:
        """All elements in C order."""
        return _flattened(self._array)

    def __len__(self) -> int:
        return self._array.size

    def __getitem__(self, key: Any) -> Array:
        return _flattened(self._array)[key].copy()

    def __setitem__(self, key: Any, values: Any) -> None:
        """Values are repeated as often as need be, as NumPy has it."""
        flat = _flattened(self._array)
        chosen = flat[key]
        if not chosen.size:
            return
        given = asarray(values) if not isinstance(values, Array) else values
        if not given.size:
            return
        flat[key] = values if given.size == 1 and not given.ndim else cycled(ravel(given), chosen.size)
        _become(self._array, reshape(flat, self._array.shape))

    def __iter__(self) -> Iterator[Any]:
        """NumPy's scalars.  Collective: brings the whole array to every process; refused above a gigabyte."""
        return iter(self._array._gathered("iteration over flat").reshape(-1))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return ravel(self._array).__array__(dtype, copy)

    def __eq__(self, other: Any) -> Any:
        return ravel(self._array) == other

    def __ne__(self, other: Any) -> Any:
        return ravel(self._array) != other


def _flat(self: Array) -> Flat:
    """The elements in C order, to be read and assigned."""
    return Flat(self)


def _set_flat(self: Array, values: Any) -> None:
    Flat(self)[...] = values


METHODS: dict[str, Callable[..., Any]] = {
    "fill": _fill, "sort": _sort, "partition": _partition, "put": _put, "resize": _resize,
}  # fmt: skip
PROPERTIES: dict[str, property] = {"flat": property(_flat, _set_flat)}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each for each in (copyto, putmask, place, fill_diagonal)
}  # fmt: skip
