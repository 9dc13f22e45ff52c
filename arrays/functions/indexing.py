"""Reading and assigning with an index: integers, slices, new axes, masks, integer arrays.

What an index of integers and slices selects is a view, planned with what uses it.  Masks and integer arrays are
collectives (see `selecting`): how much they select depends on values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from bsp.arrays.functions import build
from bsp.arrays.planning import elementwise as ew
from bsp.arrays.planning.graph import Access, DType, Node
from bsp.arrays.planning.layout import Shape
from bsp.errors import ShapeError
from bsp.payload import is_abstract

if TYPE_CHECKING:
    from bsp.arrays.array import Array


class Basic(NamedTuple):
    """A basic index against a shape."""

    access: tuple[Access, ...]  # one for each axis of the array
    shape: Shape  # of the result, new axes included
    starts: tuple[int, ...]  # the box it covers: along each axis the first position, the step (positive), the count
    steps: tuple[int, ...]
    counts: tuple[int, ...]
    kept: tuple[int, ...]  # axes of the array that stay
    flipped: tuple[int, ...]  # of these, the ones that run backwards
    new: tuple[int, ...]  # axes of the result that are new


def parts_of(key: Any) -> tuple[Any, ...]:
    """An index as a tuple."""
    return key if isinstance(key, tuple) else (key,)


def is_advanced(parts: tuple[Any, ...]) -> bool:
    """Whether masks or integer arrays are in an index."""
    from bsp.arrays.array import Array  # arrays and selecting need what is here

    for each in parts:
        number = isinstance(each, np.ndarray) and each.ndim == 0 and each.dtype.kind in "iu"
        if isinstance(each, (list, np.ndarray, bool, np.bool_, Array)) and not number:
            return True
        if is_abstract(each):
            return True
    return False


def basic(shape: Shape, parts: tuple[Any, ...]) -> Basic:
    """What an index of integers, slices, None and ... selects; NumPy's IndexErrors."""
    used = sum(each is not None and each is not Ellipsis for each in parts)
    if used > len(shape):
        raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {used} were indexed")
    if sum(each is Ellipsis for each in parts) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not any(each is Ellipsis for each in parts):
        parts = (*parts, Ellipsis)
    access: list[Access] = []
    out: list[int] = []
    starts, steps, counts, kept, flipped, new = [], [], [], [], [], []
    axis = 0

    def keep(start: int, step: int, count: int) -> None:
        nonlocal axis
        access.append(Access(len(out), start, step))
        out.append(count)
        kept.append(axis)
        if step < 0:
            flipped.append(axis)
            start, step = start + step * max(count - 1, 0), -step
        starts.append(start)
        steps.append(step)
        counts.append(count)
        axis += 1

    for each in parts:
        if each is None:
            new.append(len(out))
            out.append(1)
        elif each is Ellipsis:
            for _ in range(len(shape) - used):
                keep(0, 1, shape[axis])
        elif isinstance(each, slice):
            start, stop, step = each.indices(shape[axis])
            count = len(range(start, stop, step))
            keep(start if count else 0, step if count > 1 else 1, count)
        else:
            try:
                position = each.__index__()
            except (AttributeError, TypeError):
                raise IndexError(
                    "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean "
                    f"arrays are valid indices, not {each!r:.40}"
                ) from None
            length = shape[axis]
            if not -length <= position < length:
                raise IndexError(f"index {position} is out of bounds for axis {axis} with size {length}")
            position %= length
            access.append(Access(-1, position, 0))
            starts.append(position)
            steps.append(1)
            counts.append(1)
            axis += 1
    return Basic(
        tuple(access), tuple(out), tuple(starts), tuple(steps), tuple(counts), tuple(kept), tuple(flipped), tuple(new)
    )


def get(array: Array, key: Any) -> Array:
    """array[key]"""
    from bsp.arrays.array import wrap

    parts = parts_of(key)
    node = array._node
    if not is_advanced(parts):
        found = basic(node.kind.shape, parts)
        return wrap(build.viewed(node, found.shape, found.access))
    from bsp.arrays.selection import selecting

    return selecting.get(array, parts)


def put(array: Array, key: Any, value: Any) -> None:
    """array[key] = value: the array gets another node."""
    parts = parts_of(key)
    if is_advanced(parts):
        from bsp.arrays.selection import selecting

        selecting.put(array, parts, value)
        return
    node = array._node
    array._node = laid_over(node, basic(node.kind.shape, parts), build.operand(value))


def scalar_of(number: Node, dtype: DType) -> np.ndarray:
    """A Python number as NumPy assigns it to an array of this dtype; its errors for what does not go."""
    place = np.zeros((), dtype)
    if number.kind.weak is int:
        ew.fits(number.value, dtype, "assignment")
    place[()] = number.value
    return place


def assignable(value: Node, dtype: DType) -> Node:
    """A value as an array of this dtype."""
    if value.kind.weak is not None:
        value = build.operand(scalar_of(value, dtype).item())
    return build.strong(build.cast(value, dtype))


def laid_over(node: Node, where: Basic, value: Node) -> Node:
    """`node` with `value`, broadcast, where a basic index points."""
    dtype = node.kind.dtype
    value = assignable(value, dtype)
    own = value.kind.shape
    while len(own) > len(where.shape) and own[0] == 1:
        value = build.squeezed(value, [0])
        own = value.kind.shape
    try:
        value = build.broadcast(value, where.shape)
    except ShapeError:
        raise ShapeError(f"could not broadcast input array from shape {own} into shape {where.shape}") from None
    if where.new:
        value = build.squeezed(value, where.new)
    access, axes = [], []
    for k, axis in enumerate(where.kept):
        axes.append(axis)
        count = where.counts[axis]
        flip = axis in where.flipped
        access.append(Access(axis, count - 1 if flip else 0, -1 if flip else 1) if count else Access(axis))
        assert len(access) == k + 1
    if len(axes) < len(where.counts) or where.flipped:
        value = build.viewed(value, where.counts, access)
    ndim = len(node.kind.shape)
    return build.assembled(node.kind.shape, dtype, [
        (node, (0,) * ndim, (1,) * ndim), (value, where.starts, where.steps)
    ])  # fmt: skip
