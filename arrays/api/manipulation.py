"""Functions that give the same elements another shape or order, join arrays, and split them.

Views follow NumPy's: a function that returns a view in NumPy returns one here.  All are lazy unless they say otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate, pairwise, product
from math import prod
from operator import index
from typing import Any, Literal, overload

import numpy as np
from numpy.exceptions import AxisError
from numpy.lib.array_utils import normalize_axis_tuple

from bsp.arrays import build
from bsp.arrays.api.creation import arange, asarray, checked_shape, layout_for
from bsp.arrays.api.ufuncs import into, where
from bsp.arrays.array import Array, wrap
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.expressions.graph import Access, Node
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.gathering import is_everywhere
from bsp.arrays.typing import ArrayLike, Arrays, Axes, Casting, DTypeLike, Grid, Int, Order, Scalar, ShapeLike
from bsp.arrays.views import keeps_order, link_of, view
from bsp.errors import ShapeError

__all__ = [
    "append", "array_split", "atleast_1d", "atleast_2d", "atleast_3d", "block", "broadcast_arrays", "broadcast_to",
    "column_stack", "concat", "concatenate", "diag", "diagflat", "diagonal", "dsplit", "dstack", "expand_dims", "flip",
    "fliplr", "flipud", "hsplit", "hstack", "matrix_transpose", "moveaxis", "pad", "permute_dims", "ravel",
    "rechunk", "repeat", "reshape", "roll", "rollaxis", "rot90", "split", "squeeze", "stack", "swapaxes", "tile",
    "transpose", "unstack", "vsplit", "vstack",
]  # fmt: skip


_REPEATING = ("edge", "reflect", "symmetric", "wrap")  # modes of `pad`
_MANY_PARTS = 200  # parts up to which a margin is assembled for all axes at once


def _node(x: Any) -> Node:
    return build.strong(asarray(x)._node)


def permute_dims(x: ArrayLike, /, axes: Sequence[int] | None = None) -> Array:
    """Return a view with the axes in another order; None reverses them.  Nothing moves."""
    array = asarray(x)
    ndim = array.ndim
    order = tuple(reversed(range(ndim))) if axes is None else tuple(build.normal_axis(axis, ndim) for axis in axes)
    if sorted(order) != list(range(ndim)):
        raise ValueError("axes don't match array" if len(order) != ndim else "repeated axis in transpose")
    return view(array, build.permuted(build.strong(array._node), order))


def transpose(x: ArrayLike, axes: Sequence[int] | None = None) -> Array:
    """Return a view with the axes in another order; None reverses them.  NumPy's name of `permute_dims`."""
    return permute_dims(x, axes)


def matrix_transpose(x: ArrayLike, /) -> Array:
    """Return a view with the last two axes swapped."""
    ndim = asarray(x).ndim
    if ndim < 2:
        raise ValueError(f"matrix_transpose: an array of two dimensions or more, not {ndim}")
    return swapaxes(x, -1, -2)


def swapaxes(x: ArrayLike, axis1: int, axis2: int) -> Array:
    """Return a view with two axes swapped."""
    ndim = asarray(x).ndim
    order = list(range(ndim))
    a, b = build.normal_axis(axis1, ndim), build.normal_axis(axis2, ndim)
    order[a], order[b] = b, a
    return permute_dims(x, order)


def moveaxis(
    x: ArrayLike, source: int | Sequence[int], destination: int | Sequence[int], /
) -> Array:  # fmt: skip
    """Return a view with some axes moved to other places; the rest keep their order."""
    ndim = asarray(x).ndim
    old, new = normalize_axis_tuple(source, ndim, "source"), normalize_axis_tuple(destination, ndim, "destination")
    if len(old) != len(new):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [axis for axis in range(ndim) if axis not in old]
    for place, axis in sorted(zip(new, old, strict=True)):
        order.insert(place, axis)
    return permute_dims(x, order)


def reshape(x: ArrayLike, /, shape: ShapeLike, order: Order = "C", *, copy: bool | None = None) -> Array:
    """Return the same elements under another shape; one length may be -1, which is computed.

    order : "C" reads and places the elements in C order, "F" in Fortran's, "A" in Fortran's if x is in that order.
    copy : None returns a view where NumPy can (of an array in C order always), else a copy; False refuses a copy.
    Cost: none where blocks stay ranges of elements; else at most two total exchanges of the whole array.
    """
    array = asarray(x)
    node = build.strong(array._node)
    order = "C" if order is None else order
    if order not in ("C", "A", "F"):
        raise ValueError(f"order must be one of 'C', 'F', or 'A' (got {order!r})")
    given: Any = node.kind.shape if shape is None else shape  # as NumPy does
    wanted = [index(each) for each in given] if hasattr(given, "__len__") else [index(given)]
    size = node.kind.size
    unknown = [k for k, length in enumerate(wanted) if length == -1]
    if len(unknown) > 1:
        raise ValueError("can only specify one unknown dimension")
    if any(length < -1 for length in wanted):
        raise ValueError("negative dimensions not allowed")
    if unknown:
        rest = prod(length for length in wanted if length != -1)
        if not rest or size % rest:
            raise ShapeError(f"cannot reshape array of size {size} into shape {tuple(wanted)}")
        wanted[unknown[0]] = size // rest
    if order == "F" or (order == "A" and _is_fortran(array)):  # Fortran's order is the C order of the transposes
        return permute_dims(reshape(permute_dims(array), tuple(reversed(wanted)), copy=copy))
    found = build.reshaped(node, tuple(wanted))
    if copy or not keeps_order(array, tuple(wanted)):
        if copy is False:
            raise ValueError(f"reshape to {tuple(wanted)}, copy=False: this view of {array.shape} is not in C order")
        return wrap(found)
    return view(array, found)


def _is_fortran(array: Array) -> bool:
    """Return True if the elements are in Fortran's order, and not in C's."""
    return not keeps_order(array) and keeps_order(permute_dims(array))


def ravel(x: ArrayLike, order: Order = "C") -> Array:
    """Return all elements as a vector: a view of an array in C order, else a copy.

    order : "C" or "F"; "A": Fortran's if x is in that order; "K": the order in memory.
    """
    array = asarray(x)
    if order == "K":
        link = link_of(array)
        steps = [0] * array.ndim if link is None else [-abs(step) for step in link.steps()]
        array, order = permute_dims(array, sorted(range(array.ndim), key=lambda axis: steps[axis])), "C"
    elif order == "F" or (order == "A" and _is_fortran(array)):
        array, order = permute_dims(array), "C"
    return reshape(array, (array.size,), order=order, copy=not keeps_order(array))


def expand_dims(x: ArrayLike, /, axis: int | Sequence[int] = 0) -> Array:
    """Return a view with new axes of length 1 at places of the result."""
    array = asarray(x)
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    places = normalize_axis_tuple(given, array.ndim + len(given))
    return view(array, build.expanded(array._node, sorted(places)))


def squeeze(x: ArrayLike, /, axis: Axes = None) -> Array:
    """Return a view without axes of length 1: those of `axis`, or all.  Raises ValueError for a longer axis."""
    array = asarray(x)
    shape = array.shape
    ones = tuple(k for k, length in enumerate(shape) if length == 1)
    axes = ones if axis is None else build.reduced_axes(axis, len(shape))
    if any(shape[each] != 1 for each in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return view(array, build.squeezed(array._node, axes))


def broadcast_to(x: ArrayLike, /, shape: ShapeLike) -> Array:
    """Return the elements repeated to a shape, as a read-only view."""
    array = asarray(x)
    return view(array, build.broadcast(build.strong(array._node), checked_shape(shape)), writeable=False)


def broadcast_arrays(*arrays: ArrayLike) -> list[Array]:
    """Return all arrays in the shape they broadcast to; views with repeated elements are read-only."""
    given = [asarray(each) for each in arrays]
    shape = np.broadcast_shapes(*[each.shape for each in given])
    return [each if each.shape == shape else broadcast_to(each, shape) for each in given]


def cut_along(array: Array, axis: int, low: int | None, high: int | None) -> Array:
    """Return a view of a range of positions on an axis."""
    return array[(slice(None),) * axis + (slice(low, high),)]


def laid_along(line: Array, axis: int, ndim: int) -> Array:
    """Return a vector as an array of `ndim` axes that lies along one of them."""
    return line[tuple(slice(None) if k == axis else None for k in range(ndim))]


def flip(x: ArrayLike, /, axis: int | Sequence[int] | None = None) -> Array:
    """Return a view with the order of elements reversed along axes; None: along all."""
    array = asarray(x)
    axes = build.normal_axes(axis, array.ndim)
    return array[tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(array.ndim))]


def roll(
    x: ArrayLike, /, shift: int | Sequence[int], axis: int | Sequence[int] | None = None
) -> Array:  # fmt: skip
    """Return a copy with the elements shifted along axes; those that leave at the end come back at the start.

    axis : None shifts all elements in C order.
    """
    node = _node(x)
    if axis is None:
        array = wrap(node)
        return reshape(roll(ravel(array), shift, axis=0), array.shape)
    turns: list[tuple[Any, Any]] = [(shift, axis)]
    if not (isinstance(shift, int) and isinstance(axis, int)):
        shifts, axes = np.broadcast_arrays(shift, axis)
        turns = list(zip(shifts.reshape(-1).tolist(), axes.reshape(-1).tolist(), strict=True))
    for by, each in turns:
        k = build.normal_axis(each, len(node.kind.shape))
        length = node.kind.shape[k]
        if length and int(by) % length:
            steps = (1,) * len(node.kind.shape)
            parts = [
                (build.viewed(node, shape, access), starts, steps)
                for shape, access, starts in _halves(node.kind.shape, k, int(by) % length)
            ]
            node = build.assembled(node.kind.shape, node.kind.dtype, parts)
    return wrap(node)


@lru_cache(maxsize=1 << 10)
def _halves(shape: Shape, axis: int, by: int) -> list[tuple[Shape, tuple[Access, ...], Shape]]:
    """Return shape, access and new place of the two parts of an array that change places when it is rolled."""

    def part(low: int, length: int, to: int) -> tuple[Shape, tuple[Access, ...], Shape]:
        return (
            (*shape[:axis], length, *shape[axis + 1 :]),
            tuple(Access(k, low if k == axis else 0) for k in range(len(shape))),
            tuple(to if k == axis else 0 for k in range(len(shape))),
        )

    return [part(shape[axis] - by, by, 0), part(0, shape[axis] - by, by)]


def concat(
    arrays: Arrays, /, axis: int | None = 0, *, dtype: DTypeLike | None = None
) -> Array:  # fmt: skip
    """Return arrays joined along an axis; None joins all elements of each in C order.

    Cost: one total exchange of the elements that the result has on another process.
    """
    given = [asarray(each) for each in arrays]
    if not given:
        raise ValueError("need at least one array to concatenate")
    if axis is None:
        given, axis = [ravel(each) for each in given], 0
    ndim = given[0].ndim
    if not ndim:
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    axis = build.whole_axis(axis, ndim)
    for k, each in enumerate(given):
        if each.ndim != ndim or any(
            a != b for place, (a, b) in enumerate(zip(each.shape, given[0].shape, strict=True)) if place != axis
        ):
            raise ShapeError(
                f"concatenate along axis {axis}: array 0 has shape {given[0].shape} and "
                f"array {k} has shape {each.shape}"
            )
    found = np.result_type(*[each.dtype for each in given]) if dtype is None else element_type(dtype)
    length = sum(each.shape[axis] for each in given)
    shape = tuple(length if place == axis else own for place, own in enumerate(given[0].shape))
    parts, start = [], 0
    for each in given:
        starts = tuple(start if place == axis else 0 for place in range(ndim))
        parts.append((each._node, starts, (1,) * ndim))
        start += each.shape[axis]
    return wrap(build.assembled(shape, found, parts))


def concatenate(
    arrays: Arrays, axis: int | None = 0, out: Array | None = None, *, dtype: DTypeLike | None = None,
    casting: Casting | None = None,
) -> Array:  # fmt: skip
    """Return arrays joined along an axis.  NumPy's name of `concat`, with `out` and `casting`."""
    given = [asarray(each) for each in arrays]
    return into(concat(given, axis=axis, dtype=_castable(given, dtype, casting)), out)


def _castable(arrays: Sequence[Array], dtype: Any, casting: Any) -> Any:
    """Return `dtype`; raises TypeError unless all arrays cast to it by NumPy's rule `casting` (None: 'same_kind')."""
    np.can_cast(bool, bool, casting or "same_kind")  # raises NumPy's error for an unknown rule
    for each in arrays if dtype is not None else ():
        if not np.can_cast(each.dtype, dtype, casting or "same_kind"):
            raise TypeError(
                f"Cannot cast array data from {each.dtype!r} to {np.dtype(dtype)!r} according to the rule "
                f"'{casting or 'same_kind'}'"
            )
    return dtype


def stack(
    arrays: Arrays, /, axis: int = 0, out: Array | None = None, *, dtype: DTypeLike | None = None,
    casting: Casting | None = None,
) -> Array:  # fmt: skip
    """Return arrays of one shape joined along a new axis.  Cost: as `concat`."""
    given = [asarray(each) for each in arrays]
    _castable(given, dtype, casting)
    if not given:
        raise ValueError("need at least one array to stack")
    if len({each.shape for each in given}) > 1:
        raise ShapeError(f"stack: all input arrays must have the same shape, not {[each.shape for each in given]}")
    place = build.normal_axis(axis, given[0].ndim + 1)
    return into(concat([expand_dims(each, axis=place) for each in given], axis=place, dtype=dtype), out)


def unstack(x: ArrayLike, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Return the slices along an axis as views."""
    array = asarray(x)
    if not array.ndim:
        raise ValueError("unstack: an array of one dimension or more")
    place = build.normal_axis(axis, array.ndim)
    before = (slice(None),) * place
    return tuple(array[(*before, k)] for k in range(array.shape[place]))


def _at_least(ndim: int, x: Any) -> Array:
    """Return x with at least `ndim` axes; new ones go where NumPy puts them: in front, but (m, n) becomes (m, n, 1)."""
    array = asarray(x)
    if array.ndim >= ndim:
        return array
    if ndim == 3:
        return reshape(array, {0: (1, 1, 1), 1: (1, *array.shape, 1), 2: (*array.shape, 1)}[array.ndim])
    return array[None] if array.ndim else reshape(array, (1,) * ndim)


def _at_least_all(ndim: int, arrays: tuple[Any, ...]) -> Array | tuple[Array, ...]:
    found = tuple(_at_least(ndim, each) for each in arrays)
    return found[0] if len(found) == 1 else found


@overload
def atleast_1d(x: ArrayLike, /) -> Array: ...
@overload
def atleast_1d(x: ArrayLike, y: ArrayLike, /, *arrays: ArrayLike) -> tuple[Array, ...]: ...
def atleast_1d(*arrays: ArrayLike) -> Array | tuple[Array, ...]:
    """Return arrays with at least one axis: one array, or a tuple of several."""
    return _at_least_all(1, arrays)


@overload
def atleast_2d(x: ArrayLike, /) -> Array: ...
@overload
def atleast_2d(x: ArrayLike, y: ArrayLike, /, *arrays: ArrayLike) -> tuple[Array, ...]: ...
def atleast_2d(*arrays: ArrayLike) -> Array | tuple[Array, ...]:
    """Return arrays with at least two axes: one array, or a tuple of several."""
    return _at_least_all(2, arrays)


@overload
def atleast_3d(x: ArrayLike, /) -> Array: ...
@overload
def atleast_3d(x: ArrayLike, y: ArrayLike, /, *arrays: ArrayLike) -> tuple[Array, ...]: ...
def atleast_3d(*arrays: ArrayLike) -> Array | tuple[Array, ...]:
    """Return arrays with at least three axes: one array, or a tuple of several."""
    return _at_least_all(3, arrays)


def vstack(arrays: Arrays, *, dtype: DTypeLike | None = None, casting: Casting | None = None) -> Array:
    """Return arrays joined along the first axis; vectors become rows.  Cost: as `concat`."""
    given = [_at_least(2, each) for each in arrays]
    return concat(given, axis=0, dtype=_castable(given, dtype, casting))


def hstack(arrays: Arrays, *, dtype: DTypeLike | None = None, casting: Casting | None = None) -> Array:
    """Return arrays joined along the second axis; vectors along their only one.  Cost: as `concat`."""
    given = [_at_least(1, each) for each in arrays]
    return concat(given, axis=0 if given and given[0].ndim == 1 else 1, dtype=_castable(given, dtype, casting))


def dstack(arrays: Arrays) -> Array:
    """Return arrays joined along the third axis.  Cost: as `concat`."""
    return concat([_at_least(3, each) for each in arrays], axis=2)


def block(arrays: ArrayLike) -> Array:
    """Return nested lists of blocks as one array: the innermost joined along the last axis, and so outwards.

    Cost: as `concat`, once for each level.
    """
    depth = _depth(arrays, "arrays")
    given = list(_leaves(arrays))
    ndim = max([depth, *[each.ndim for each in given]])

    def joined(part: Any, level: int) -> Array:
        if not isinstance(part, list):
            array = asarray(part)
            return reshape(array, (1,) * (ndim - array.ndim) + array.shape)
        return concat([joined(each, level + 1) for each in part], axis=ndim - depth + level)

    found = joined(arrays, 0)
    return found if isinstance(arrays, list) else wrap(found._node)


def _leaves(arrays: Any) -> Iterator[Array]:
    if isinstance(arrays, list):
        for each in arrays:
            yield from _leaves(each)
    else:
        yield asarray(arrays)


def _depth(arrays: Any, where: str) -> int:
    """Return the depth of nested lists; raises NumPy's errors if it differs between their parts."""
    if isinstance(arrays, tuple):
        raise TypeError(f"{where} is a tuple. Only lists can be used to arrange blocks")
    if not isinstance(arrays, list):
        return 0
    if not arrays:
        raise ValueError(f"List at {where} cannot be empty")
    depths = [_depth(each, f"{where}[{k}]") for k, each in enumerate(arrays)]
    for k, depth in enumerate(depths):
        if depth != depths[0]:
            raise ValueError(
                f"List depths are mismatched. First element was at depth {depths[0] + 1}, but there is an element at "
                f"depth {depth + 1} ({where}[{k}])"
            )
    return depths[0] + 1


def append(x: ArrayLike, values: ArrayLike, axis: int | None = None) -> Array:
    """Return the array with values joined at its end; None joins all elements of both in C order."""
    return concat([x, values], axis=axis)


def rollaxis(x: ArrayLike, axis: int, start: int = 0) -> Array:
    """Return a view with an axis moved before the one at `start`."""
    array = asarray(x)
    place = build.normal_axis(axis, array.ndim)
    if not -array.ndim <= start <= array.ndim:
        raise AxisError(start, array.ndim + 1)
    to = start + array.ndim if start < 0 else start
    return moveaxis(array, place, to - 1 if place < to else to)


def diagflat(x: ArrayLike, k: int = 0) -> Array:
    """Return a matrix of zeros with all elements of x, in C order, on its k-th diagonal."""
    return diag(ravel(x), k)


def flipud(x: ArrayLike) -> Array:
    """Return a view with the first axis reversed."""
    return flip(x, axis=0)


def fliplr(x: ArrayLike) -> Array:
    """Return a view with the second axis reversed."""
    array = asarray(x)
    if array.ndim < 2:
        raise ValueError("Input must be >= 2-d.")
    return flip(array, axis=1)


def rot90(x: ArrayLike, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Return a view turned k times by a quarter, in the plane of two axes."""
    array = asarray(x)
    a, b = (build.normal_axis(axis, array.ndim) for axis in axes)
    if a == b:
        raise ValueError("Axes must be different.")
    turns = k % 4
    if turns == 2:
        return flip(array, axis=(a, b))
    if turns == 1:
        return swapaxes(flip(array, axis=b), a, b)
    return flip(swapaxes(array, a, b), axis=b) if turns else array


def column_stack(arrays: Arrays) -> Array:
    """Return arrays joined along the second axis; vectors become columns, numbers too.  Cost: as `concat`."""
    return concat([each if each.ndim > 1 else reshape(each, (-1, 1)) for each in map(asarray, arrays)], axis=1)


def _cuts(parts: Any) -> int | list[int]:
    """Return a number of parts, or the positions to cut at."""
    return [int(cut) for cut in parts] if hasattr(parts, "__len__") and np.ndim(parts) else int(parts)


def split(x: ArrayLike, parts: Int | Sequence[int], axis: int = 0) -> list[Array]:
    """Return parts of equal length along an axis, or the parts between given positions, as views.

    parts : how many, which must divide the length, or the positions to cut at.
    """
    array, given = asarray(x), _cuts(parts)
    if isinstance(given, int):
        build.normal_axis(axis, array.ndim)
        if array.shape[axis] % given:
            raise ValueError("array split does not result in an equal division")
    return array_split(array, parts, axis)


def array_split(x: ArrayLike, parts: Int | Sequence[int], axis: int = 0) -> list[Array]:
    """Return parts along an axis, as even as can be, or the parts between given positions, as views."""
    array = asarray(x)
    place = build.normal_axis(axis, array.ndim)
    length = array.shape[place]
    given = _cuts(parts)
    if isinstance(given, int):
        if given <= 0:
            raise ValueError("number sections must be larger than 0.")
        small, more = divmod(length, given)
        cuts = np.cumsum([0] + [small + 1] * more + [small] * (given - more)).tolist()
    else:
        cuts = [0, *given, length]
    before = (slice(None),) * place
    return [array[(*before, slice(low, high))] for low, high in pairwise(cuts)]


def vsplit(x: ArrayLike, parts: Int | Sequence[int]) -> list[Array]:
    """Return `split` along the first axis."""
    array = asarray(x)
    if array.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(array, parts, 0)


def hsplit(x: ArrayLike, parts: Int | Sequence[int]) -> list[Array]:
    """Return `split` along the second axis; of a vector, along its only one."""
    array = asarray(x)
    if not array.ndim:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(array, parts, 1 if array.ndim > 1 else 0)


def dsplit(x: ArrayLike, parts: Int | Sequence[int]) -> list[Array]:
    """Return `split` along the third axis."""
    array = asarray(x)
    if array.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(array, parts, 2)


def tile(x: ArrayLike, repetitions: int | Sequence[int], /) -> Array:
    """Return a copy in which the whole array is repeated along each axis."""
    array = asarray(x)
    given: Any = repetitions
    times = list(given) if hasattr(given, "__len__") else [given]
    ndim = max(len(times), array.ndim)
    times = [1] * (ndim - len(times)) + [index(each) for each in times]
    array = reshape(array, (1,) * (ndim - array.ndim) + array.shape)
    both = tuple(length for pair in zip(times, array.shape, strict=True) for length in pair)
    spread = expand_dims(array, axis=tuple(range(0, 2 * ndim, 2)))
    shape = tuple(t * n for t, n in zip(times, array.shape, strict=True))
    return reshape(broadcast_to(spread, both), shape, copy=True)


def repeat(x: ArrayLike, repeats: ArrayLike, /, axis: int | None = None) -> Array:
    """Return each element repeated a number of times in a row.

    repeats : one number, or one for each position of the axis.   axis : None repeats all elements in C order.
    Cost: none for one number; for a dealt array of numbers one superstep for the lengths, and the exchange that brings
    both into slabs.
    """
    array = asarray(x)
    if axis is None:
        array, axis = ravel(array), 0
    array = wrap(build.lined(array._node))
    place = build.whole_axis(axis, array.ndim)
    length = array.shape[place]
    if isinstance(repeats, Array) and repeats.shape == (length,) and not is_everywhere(repeats):
        from bsp.arrays.selection.repeating import repeated  # it needs what is here

        return repeated(array, repeats, place)
    counts = repeats.compute() if isinstance(repeats, Array) else np.asarray(repeats)
    if (counts < 0).any():
        raise ValueError("repeats may not contain negative values.")
    if counts.ndim == 0 or counts.size == 1:
        times = int(counts.reshape(()))
        spread = expand_dims(array, axis=place + 1)
        shape = (*array.shape[: place + 1], times, *array.shape[place + 1 :])
        whole = (*array.shape[:place], length * times, *array.shape[place + 1 :])
        return reshape(broadcast_to(spread, shape), whole, copy=True)
    if counts.shape != (length,):
        raise ValueError(f"operands could not be broadcast together with shape ({length},) {counts.shape}")
    from bsp.arrays.selection.selecting import take  # it needs what is here

    return take(array, np.repeat(np.arange(length), counts), axis=place)


def pad(
    x: ArrayLike, width: int | Sequence[int] | Sequence[Sequence[int]],
    mode: Literal["constant", "edge", "reflect", "symmetric", "wrap"] = "constant", *,
    constant_values: Scalar | Array = 0,
) -> Array:  # fmt: skip
    """Return the array with a margin around it: of one constant, or of its own elements.  Lazy.

    width : the width of the margin: one number, (before, after) for every axis, or such a pair for each axis.
    mode : "edge" repeats the outermost elements; "reflect" mirrors the array at them, "symmetric" at their outer sides;
        "wrap" continues it periodically.
    """
    if mode not in ("constant", *_REPEATING):
        raise ValueError(f"pad: mode={mode!r} is none of 'constant', {', '.join(map(repr, _REPEATING))}")
    array = asarray(x)
    given = np.asarray(width)
    if given.dtype.kind != "i":
        raise TypeError("`pad_width` must be of integral type.")
    if (given < 0).any():
        raise ValueError("index can't contain negative values")
    widths = np.broadcast_to(given, (array.ndim, 2)).tolist()
    if mode in _REPEATING:
        runs = {}
        for axis, (before, after) in enumerate(widths):
            if not array.shape[axis] and (before or after):
                raise ValueError(f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'")
            if before or after:
                runs[axis] = list(_runs(np.pad(np.arange(array.shape[axis]), (before, after), mode)))
        if prod(map(len, runs.values())) <= _MANY_PARTS:
            return _repeating(array, runs)
        for axis in runs:  # each of these copies the array
            array = _repeating(array, {axis: runs[axis]})
        return array
    if np.ndim(constant_values):
        raise ValueError("pad: one constant for all sides")
    shape = tuple(length + before + after for length, (before, after) in zip(array.shape, widths, strict=True))
    base = build.broadcast(build.cast(build.operand(constant_values), array.dtype), shape)
    origin, inside, steps = (0,) * array.ndim, tuple(before for before, _ in widths), (1,) * array.ndim
    return wrap(build.assembled(shape, array.dtype, [(base, origin, steps), (array._node, inside, steps)]))


def _repeating(array: Array, runs: dict[int, list[np.ndarray]]) -> Array:
    """Return the slices of an array at runs of positions along some axes, assembled in the order of the runs."""
    shape = tuple(sum(map(len, runs[k])) if k in runs else length for k, length in enumerate(array.shape))
    parts = []
    for chosen in product(*map(_placed, runs.values())):
        key, starts, lengths = [slice(None)] * array.ndim, [0] * array.ndim, list(array.shape)
        for axis, (start, run) in zip(runs, chosen, strict=True):
            first, last = int(run[0]), int(run[-1])
            key[axis] = slice(first, last + 1) if first <= last else slice(first, last - 1 if last else None, -1)
            starts[axis], lengths[axis] = start, len(run)
        parts.append((build.broadcast(array[tuple(key)]._node, tuple(lengths)), tuple(starts), (1,) * array.ndim))
    return wrap(build.assembled(shape, array.dtype, parts))


def _placed(runs: list[np.ndarray]) -> list[tuple[int, np.ndarray]]:
    """Return runs of positions with where each begins in the result."""
    ends = accumulate(map(len, runs), initial=0)
    return [(start, run) for start, run in zip(ends, runs, strict=False)]


def _runs(positions: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the parts of a vector of positions in which all steps are 0, all are 1, or all are -1."""
    steps = np.diff(positions)
    far = abs(steps) > 1
    start = 0
    for end in np.flatnonzero(far | (np.diff(steps, prepend=steps[:1]) != 0)).tolist():
        if end > start or far[end]:
            yield positions[start : end + 1]
            start = end + 1
    yield positions[start:]


def diagonal(x: ArrayLike, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """Return the diagonal of two axes as the last axis: a read-only view."""
    array = asarray(x)
    if array.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    a, b = build.normal_axis(axis1, array.ndim), build.normal_axis(axis2, array.ndim)
    if a == b:
        raise ValueError("axis1 and axis2 cannot be the same")
    offset = index(offset)  # an unsigned offset has no negative
    down, right = max(-offset, 0), max(offset, 0)
    length = max(0, min(array.shape[a] - down, array.shape[b] - right))
    rest = [k for k in range(array.ndim) if k not in (a, b)]
    last = len(rest)
    access = []
    for k in range(array.ndim):
        if k == a:
            access.append(Access(last, down))
        elif k == b:
            access.append(Access(last, right))
        else:
            access.append(Access(rest.index(k)))
    shape = (*[array.shape[k] for k in rest], length)
    return view(array, build.viewed(array._node, shape, access), writeable=False)


def diag(x: ArrayLike, k: int = 0) -> Array:
    """Return the k-th diagonal of a matrix, or a matrix with a vector on its k-th diagonal."""
    array = asarray(x)
    if array.ndim == 2:
        return diagonal(array, k)
    if array.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    k = index(k)
    n = array.shape[0] + abs(k)
    wide = pad(array, [(max(k, 0), max(-k, 0))])
    rows, columns = arange(n), arange(n)
    return where(columns[None, :] - rows[:, None] == k, wide[None, :], np.zeros((), array.dtype))


def rechunk(x: ArrayLike, /, *, grid: Grid = None, process_grid: Grid = None) -> Array:
    """Return the same array in other blocks.

    Cost: one superstep; h = the words that change their process, at most size/p out of and into each.
    """
    node = _node(x)
    return wrap(build.relaid(node, layout_for(node.kind.shape, grid, process_grid)))
