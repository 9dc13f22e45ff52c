"""Other shapes and orders of the same elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import prod
from operator import index
from typing import Any

import numpy as np
from numpy.exceptions import AxisError
from numpy.lib.array_utils import normalize_axis_tuple

from bsp.arrays import build
from bsp.arrays.api.creation import Grid, arange, asarray, checked_shape, layout_for
from bsp.arrays.api.ufuncs import stored, where
from bsp.arrays.array import Array, wrap
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.expressions.graph import Access, Node
from bsp.arrays.gathering import is_everywhere
from bsp.arrays.views import keeps_order, link_of, view
from bsp.errors import ShapeError


def _node(x: Any) -> Node:
    return build.strong(asarray(x)._node)


def permute_dims(x: Any, /, axes: Sequence[int] | None = None) -> Array:
    """Axes in another order; None: reversed.  A view: nothing moves."""
    array = asarray(x)
    ndim = array.ndim
    order = tuple(reversed(range(ndim))) if axes is None else tuple(build.normal_axis(axis, ndim) for axis in axes)
    if sorted(order) != list(range(ndim)):
        raise ValueError("axes don't match array" if len(order) != ndim else "repeated axis in transpose")
    return view(array, build.permuted(build.strong(array._node), order))


def transpose(x: Any, axes: Any = None) -> Array:
    """permute_dims."""
    return permute_dims(x, axes)


def matrix_transpose(x: Any, /) -> Array:
    """The last two axes swapped: a view."""
    ndim = asarray(x).ndim
    if ndim < 2:
        raise ValueError(f"matrix_transpose: an array of two dimensions or more, not {ndim}")
    return swapaxes(x, -1, -2)


def swapaxes(x: Any, axis1: int, axis2: int) -> Array:
    """Two axes swapped."""
    ndim = asarray(x).ndim
    order = list(range(ndim))
    a, b = build.normal_axis(axis1, ndim), build.normal_axis(axis2, ndim)
    order[a], order[b] = b, a
    return permute_dims(x, order)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Array:
    """Axes at other places, the rest in their order."""
    ndim = asarray(x).ndim
    old, new = normalize_axis_tuple(source, ndim, "source"), normalize_axis_tuple(destination, ndim, "destination")
    if len(old) != len(new):
        raise ValueError("`source` and `destination` arguments must have the same number of elements")
    order = [axis for axis in range(ndim) if axis not in old]
    for place, axis in sorted(zip(new, old, strict=True)):
        order.insert(place, axis)
    return permute_dims(x, order)


def reshape(x: Any, /, shape: Any, *, order: str = "C", copy: bool | None = None) -> Array:
    """The same elements in C order (or Fortran's, "F") under another shape; one length may be -1.

    copy : None gives a view where NumPy can (of an array in C order always), else a copy; False refuses a copy.
    Cost: nothing where blocks stay ranges of elements; else at most two total exchanges of the whole array.
    """
    array = asarray(x)
    node = build.strong(array._node)
    order = "C" if order is None else order
    if order not in ("C", "A", "F"):
        raise ValueError(f"order must be one of 'C', 'F', or 'A' (got {order!r})")
    wanted = [int(each.__index__()) for each in shape] if hasattr(shape, "__len__") else [int(shape.__index__())]
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
    if order == "F" or (order == "A" and _is_fortran(array)):  # the C order of the transposes
        return permute_dims(reshape(permute_dims(array), tuple(reversed(wanted)), copy=copy))
    found = build.reshaped(node, tuple(wanted))
    if copy or not keeps_order(array, tuple(wanted)):
        if copy is False:
            raise ValueError(f"reshape to {tuple(wanted)}, copy=False: this view of {array.shape} is not in C order")
        return wrap(found)
    return view(array, found)


def _is_fortran(array: Array) -> bool:
    """Whether the elements lie in Fortran's order, and not in C's."""
    return not keeps_order(array) and keeps_order(permute_dims(array))


def ravel(x: Any, order: str = "C") -> Array:
    """All elements in C order: a view of an array in C order, else a copy.

    order : "F", Fortran's; "A", Fortran's if they lie so; "K", as they lie in memory.
    """
    array = asarray(x)
    if order == "K":
        link = link_of(array)
        steps = [0] * array.ndim if link is None else [-abs(step) for step in link.steps()]
        array, order = permute_dims(array, sorted(range(array.ndim), key=lambda axis: steps[axis])), "C"
    elif order == "F" or (order == "A" and _is_fortran(array)):
        array, order = permute_dims(array), "C"
    return reshape(array, (array.size,), order=order, copy=not keeps_order(array))


def expand_dims(x: Any, /, axis: Any = 0) -> Array:
    """New axes of length 1: a view."""
    array = asarray(x)
    given = tuple(axis) if isinstance(axis, (tuple, list)) else (axis,)
    places = normalize_axis_tuple(given, array.ndim + len(given))
    return view(array, build.expanded(array._node, sorted(places)))


def squeeze(x: Any, /, axis: Any = None) -> Array:
    """Without axes of length 1: a view."""
    array = asarray(x)
    shape = array.shape
    ones = tuple(k for k, length in enumerate(shape) if length == 1)
    axes = ones if axis is None else build.reduced_axes(axis, len(shape))
    if any(shape[each] != 1 for each in axes):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return view(array, build.squeezed(array._node, axes))


def broadcast_to(x: Any, /, shape: Any) -> Array:
    """Repeated to a shape: a view, which is not written to."""
    array = asarray(x)
    return view(array, build.broadcast(build.strong(array._node), checked_shape(shape)), writeable=False)


def broadcast_arrays(*arrays: Any) -> list[Array]:
    """All of the shape they broadcast to; what is repeated is not written to."""
    given = [asarray(each) for each in arrays]
    shape = np.broadcast_shapes(*[each.shape for each in given])
    return [each if each.shape == shape else broadcast_to(each, shape) for each in given]


def flip(x: Any, /, *, axis: Any = None) -> Array:
    """Backwards along axes; None: all.  A view."""
    array = asarray(x)
    axes = build.normal_axes(axis, array.ndim)
    return array[tuple(slice(None, None, -1) if k in axes else slice(None) for k in range(array.ndim))]


def roll(x: Any, /, shift: Any, *, axis: Any = None) -> Array:
    """Moved along axes, around the end: a copy."""
    array = wrap(_node(x))
    if axis is None:
        return reshape(roll(ravel(array), shift, axis=0), array.shape)
    shifts, axes = np.broadcast_arrays(shift, axis)
    for by, each in zip(shifts.reshape(-1).tolist(), axes.reshape(-1).tolist(), strict=True):
        k = build.normal_axis(each, array.ndim)
        length = array.shape[k]
        by = int(by) % length if length else 0
        if by:
            index: list[Any] = [slice(None)] * array.ndim
            head, tail = list(index), list(index)
            head[k], tail[k] = slice(length - by, None), slice(None, length - by)
            array = concat([array[tuple(head)], array[tuple(tail)]], axis=k)
    return array


def concat(arrays: Any, /, *, axis: int | None = 0, dtype: Any = None) -> Array:
    """One after the other along an axis; None: all elements of each in C order.

    Cost: one total exchange of what does not lie where the result has it.
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


def concatenate(arrays: Any, axis: int | None = 0, out: Any = None, *, dtype: Any = None, casting: Any = None) -> Array:
    """concat."""
    given = [asarray(each) for each in arrays]
    return stored(concat(given, axis=axis, dtype=_castable(given, dtype, casting)), out)


def _castable(arrays: Sequence[Array], dtype: Any, casting: Any) -> Any:
    """`dtype`, to which all arrays cast by NumPy's rule `casting`; None: 'same_kind'."""
    np.can_cast(bool, bool, casting or "same_kind")  # NumPy's refusal of a rule that is none
    for each in arrays if dtype is not None else ():
        if not np.can_cast(each.dtype, dtype, casting or "same_kind"):
            raise TypeError(
                f"Cannot cast array data from {each.dtype!r} to {np.dtype(dtype)!r} according to the rule "
                f"'{casting or 'same_kind'}'"
            )
    return dtype


def stack(arrays: Any, /, *, axis: int = 0, dtype: Any = None, casting: Any = None) -> Array:
    """Along a new axis."""
    given = [asarray(each) for each in arrays]
    _castable(given, dtype, casting)
    if not given:
        raise ValueError("need at least one array to stack")
    if len({each.shape for each in given}) > 1:
        raise ShapeError(f"stack: all input arrays must have the same shape, not {[each.shape for each in given]}")
    place = build.normal_axis(axis, given[0].ndim + 1)
    return concat([expand_dims(each, axis=place) for each in given], axis=place, dtype=dtype)


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices along an axis: views."""
    array = asarray(x)
    if not array.ndim:
        raise ValueError("unstack: an array of one dimension or more")
    place = build.normal_axis(axis, array.ndim)
    before = (slice(None),) * place
    return tuple(array[(*before, k)] for k in range(array.shape[place]))


def _at_least(ndim: int, x: Any) -> Array:
    """NumPy's places for the new axes: in front, but a matrix becomes (m, n, 1)."""
    array = asarray(x)
    if array.ndim >= ndim:
        return array
    if ndim == 3:
        return reshape(array, {0: (1, 1, 1), 1: (1, *array.shape, 1), 2: (*array.shape, 1)}[array.ndim])
    return array[None] if array.ndim else reshape(array, (1,) * ndim)


def _at_least_all(ndim: int, arrays: tuple[Any, ...]) -> Any:
    found = tuple(_at_least(ndim, each) for each in arrays)
    return found[0] if len(found) == 1 else found


def atleast_1d(*arrays: Any) -> Any:
    """With one axis or more."""
    return _at_least_all(1, arrays)


def atleast_2d(*arrays: Any) -> Any:
    """With two axes or more."""
    return _at_least_all(2, arrays)


def atleast_3d(*arrays: Any) -> Any:
    """With three axes or more."""
    return _at_least_all(3, arrays)


def vstack(arrays: Any, *, dtype: Any = None, casting: Any = None) -> Array:
    """Rows under each other."""
    given = [_at_least(2, each) for each in arrays]
    return concat(given, axis=0, dtype=_castable(given, dtype, casting))


def hstack(arrays: Any, *, dtype: Any = None, casting: Any = None) -> Array:
    """Columns beside each other."""
    given = [_at_least(1, each) for each in arrays]
    return concat(given, axis=0 if given and given[0].ndim == 1 else 1, dtype=_castable(given, dtype, casting))


def dstack(arrays: Any) -> Array:
    """Along the third axis."""
    return concat([_at_least(3, each) for each in arrays], axis=2)


def block(arrays: Any) -> Array:
    """Nested lists of blocks put together: the innermost along the last axis, those around along the axis before."""
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
    """How deep lists are nested, everywhere alike; NumPy's errors."""
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


def append(x: Any, values: Any, axis: int | None = None) -> Array:
    """With more at the end; None: all elements of both in C order."""
    return concat([x, values], axis=axis)


def rollaxis(x: Any, axis: int, start: int = 0) -> Array:
    """An axis moved before the one at `start`."""
    array = asarray(x)
    place = build.normal_axis(axis, array.ndim)
    if not -array.ndim <= start <= array.ndim:
        raise AxisError(start, array.ndim + 1)
    to = start + array.ndim if start < 0 else start
    return moveaxis(array, place, to - 1 if place < to else to)


def diagflat(x: Any, k: int = 0) -> Array:
    """All elements in C order on the k-th diagonal of a matrix of zeros."""
    return diag(ravel(x), k)


def _bit_order(bitorder: str) -> range:
    if bitorder[:1] not in ("b", "l"):
        raise ValueError("'order' must begin with 'l' or 'b'")
    return range(7, -1, -1) if bitorder[0] == "b" else range(8)


def packbits(x: Any, axis: int | None = None, bitorder: str = "big") -> Array:
    """Eight elements along an axis as the bits of a byte, the last filled up with zeros; None: of all in C order."""
    array = asarray(x)
    if array.dtype.kind not in "biu":
        raise TypeError("Expected an input array of integer or boolean data type")
    order = _bit_order(bitorder)
    if axis is None:
        array, axis = ravel(array), 0
    place = build.whole_axis(axis, array.ndim)
    width = [(0, -array.shape[place] % 8 if k == place else 0) for k in range(array.ndim)]
    lines = moveaxis(pad(array != 0, width), place, -1)
    found = None
    for k, shift in enumerate(order):
        bit = wrap(build.cast(lines[..., k::8]._node, np.dtype(np.uint8))) << np.uint8(shift)
        found = bit if found is None else found | bit
    assert found is not None
    return moveaxis(found, -1, place)


def unpackbits(x: Any, axis: int | None = None, count: int | None = None, bitorder: str = "big") -> Array:
    """The bits of bytes, each as an element along an axis; `count` of them, or but for -count."""
    array = asarray(x)
    if array.dtype != np.uint8:
        raise TypeError("Expected an input array of unsigned byte data type")
    order = _bit_order(bitorder)
    if axis is None:
        array, axis = ravel(array), 0
    place = build.normal_axis(axis, array.ndim)
    lines = moveaxis(array, place, -1)
    bits = stack([(lines >> np.uint8(shift)) & np.uint8(1) for shift in order], axis=lines.ndim)
    found = reshape(bits, (*lines.shape[:-1], lines.shape[-1] * 8))
    length = found.shape[-1]
    if count is not None:
        wanted = count if count >= 0 else max(length + count, 0)
        if count < 0 and -count > length:
            raise ValueError(f"-ve count must be smaller than the number of elements along axis, {length}")
        found = found[..., :wanted]
        if wanted > length:
            found = pad(found, [(0, wanted - length if k == found.ndim - 1 else 0) for k in range(found.ndim)])
    return moveaxis(found, -1, place)


def flipud(x: Any) -> Array:
    """Backwards along the first axis."""
    return flip(x, axis=0)


def fliplr(x: Any) -> Array:
    """Backwards along the second axis."""
    array = asarray(x)
    if array.ndim < 2:
        raise ValueError("Input must be >= 2-d.")
    return flip(array, axis=1)


def rot90(x: Any, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Turned k times by a quarter in the plane of two axes.  A view."""
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


def column_stack(arrays: Any) -> Array:
    """Vectors as columns."""
    return concat([each[:, None] if each.ndim == 1 else each for each in map(asarray, arrays)], axis=1)


def split(x: Any, parts: Any, axis: int = 0) -> list[Array]:
    """Equal parts, or cut at positions: views."""
    array = asarray(x)
    if not hasattr(parts, "__len__") or not np.ndim(parts):
        build.normal_axis(axis, array.ndim)
        if array.shape[axis] % parts:
            raise ValueError("array split does not result in an equal division")
    return array_split(array, parts, axis)


def array_split(x: Any, parts: Any, axis: int = 0) -> list[Array]:
    """Parts as even as can be, or cut at positions: views."""
    array = asarray(x)
    place = build.normal_axis(axis, array.ndim)
    length = array.shape[place]
    if not hasattr(parts, "__len__") or not np.ndim(parts):
        parts = int(parts)
        if parts <= 0:
            raise ValueError("number sections must be larger than 0.")
        small, more = divmod(length, parts)
        cuts = np.cumsum([0] + [small + 1] * more + [small] * (parts - more)).tolist()
    else:
        cuts = [0, *[int(cut) for cut in parts], length]
    before = (slice(None),) * place
    return [array[(*before, slice(low, high))] for low, high in pairwise(cuts)]


def vsplit(x: Any, parts: Any) -> list[Array]:
    """split along the first axis."""
    array = asarray(x)
    if array.ndim < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(array, parts, 0)


def hsplit(x: Any, parts: Any) -> list[Array]:
    """split along the second axis; of a vector along its only one."""
    array = asarray(x)
    if not array.ndim:
        raise ValueError("hsplit only works on arrays of 1 or more dimensions")
    return split(array, parts, 1 if array.ndim > 1 else 0)


def dsplit(x: Any, parts: Any) -> list[Array]:
    """split along the third axis."""
    array = asarray(x)
    if array.ndim < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(array, parts, 2)


def tile(x: Any, repetitions: Any, /) -> Array:
    """Repeated as a whole: a copy."""
    array = asarray(x)
    times = list(repetitions) if hasattr(repetitions, "__len__") else [repetitions]
    ndim = max(len(times), array.ndim)
    times = [1] * (ndim - len(times)) + [int(each) for each in times]
    array = reshape(array, (1,) * (ndim - array.ndim) + array.shape)
    both = tuple(length for pair in zip(times, array.shape, strict=True) for length in pair)
    spread = expand_dims(array, axis=tuple(range(0, 2 * ndim, 2)))
    shape = tuple(t * n for t, n in zip(times, array.shape, strict=True))
    return reshape(broadcast_to(spread, both), shape, copy=True)


def repeat(x: Any, repeats: Any, /, *, axis: int | None = None) -> Array:
    """Each element so many times in a row; `repeats` is a number, or one for each position of the axis.

    Cost: nothing of a number; of a dealt array of numbers one superstep for the lengths, and what brings both
    together in slabs.
    """
    array = asarray(x)
    if axis is None:
        array, axis = ravel(array), 0
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


def pad(x: Any, width: Any, mode: str = "constant", *, constant_values: Any = 0) -> Array:
    """With a margin of constants."""
    if mode != "constant":
        raise ValueError(f"pad: mode={mode!r}; only 'constant' is distributed")
    array = asarray(x)
    given = np.asarray(width)
    if given.dtype.kind != "i":
        raise TypeError("`pad_width` must be of integral type.")
    if (given < 0).any():
        raise ValueError("index can't contain negative values")
    widths = np.broadcast_to(given, (array.ndim, 2)).tolist()
    if np.ndim(constant_values):
        raise ValueError("pad: one constant for all sides")
    shape = tuple(length + before + after for length, (before, after) in zip(array.shape, widths, strict=True))
    base = build.broadcast(build.cast(build.operand(constant_values), array.dtype), shape)
    origin, inside, steps = (0,) * array.ndim, tuple(before for before, _ in widths), (1,) * array.ndim
    return wrap(build.assembled(shape, array.dtype, [(base, origin, steps), (array._node, inside, steps)]))


def diagonal(x: Any, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Array:
    """The diagonal of two axes, as the last axis: a view, which is not written to."""
    array = asarray(x)
    if array.ndim < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    a, b = build.normal_axis(axis1, array.ndim), build.normal_axis(axis2, array.ndim)
    if a == b:
        raise ValueError("axis1 and axis2 cannot be the same")
    offset = index(offset)  # of unsigned ones -offset is none
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


def diag(x: Any, k: int = 0) -> Array:
    """The k-th diagonal of a matrix, or a matrix with a vector on it."""
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


def rechunk(x: Any, /, *, grid: Grid = None, process_grid: Grid = None) -> Array:
    """The same array in other blocks: one total exchange.

    Cost: h = what does not lie where it will, at most size/p words out of and into each process; one superstep.
    """
    node = _node(x)
    return wrap(build.relaid(node, layout_for(node.kind.shape, grid, process_grid)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        permute_dims, transpose, matrix_transpose, swapaxes, moveaxis, reshape, ravel, expand_dims, squeeze,
        broadcast_to, broadcast_arrays, flip, roll, concat, concatenate, stack, unstack, vstack, hstack, dstack, block,
        column_stack, append, atleast_1d, atleast_2d, atleast_3d, flipud, fliplr, rot90, vsplit, hsplit, dsplit, split,
        array_split, tile, repeat, pad, diagonal, diag, diagflat, rollaxis, packbits, unpackbits, rechunk,
    )
}  # fmt: skip
