"""Reading and assigning with an index: integers, slices, new axes, masks, integer arrays.

An index of integers and slices selects a view: it is planned with the operations that use it, and a write through it
is visible in the array (see `views`).  Masks and integer arrays select copies and are collectives (see `selecting`),
because the size of the result depends on values.
"""

from __future__ import annotations

import datetime
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from bsp.arrays import build, writing
from bsp.arrays.execution.world import world
from bsp.arrays.expressions import layout as layouts
from bsp.arrays.expressions.element_types import KINDS
from bsp.arrays.expressions.graph import (
    WEAK,
    Access,
    DType,
    Kind,
    Node,
    Operation,
    ViewOperation,
    interned,
    kind_of,
)
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.views import assign, own, shows, store, view
from bsp.errors import ShapeError
from bsp.source import is_ours
from bsp.values.payload import is_abstract

if TYPE_CHECKING:
    from bsp.arrays.array import Array


_PLAIN = frozenset({int, slice, type(None), type(Ellipsis)})  # of a basic index, without a closer look
_WHOLE = tuple(Access(axis) for axis in range(64))  # NumPy's arrays have at most 64 axes

_TIMES = (str, bytes, datetime.date, datetime.timedelta)  # types that NumPy converts to a date or a duration


class Basic(NamedTuple):
    """A basic index applied to a shape."""

    access: tuple[Access, ...]  # one for each axis of the array
    shape: Shape  # of the result, new axes included


def parts_of(key: Any) -> tuple[tuple[Any, ...], bool]:
    """Return the parts of an index, and whether it is advanced.  An array of no axes is replaced by its integer.

    Collective if there is such an array: computes it.
    """
    parts = key if isinstance(key, tuple) else (key,)
    if _PLAIN.issuperset(map(type, parts)) or not is_advanced(parts):
        return parts, False
    from bsp.arrays.selection.selecting import known_position

    parts = tuple(known_position(each) for each in parts)
    return parts, is_advanced(parts)


def is_advanced(parts: tuple[Any, ...]) -> bool:
    """Return whether an index has masks or integer arrays."""
    from bsp.arrays.array import Array  # imported here: that module imports this one

    for each in parts:
        number = isinstance(each, np.ndarray) and each.ndim == 0 and each.dtype.kind in "iu"
        if isinstance(each, (list, np.ndarray, bool, np.bool_, Array)) and not number:
            return True
        if is_abstract(each):
            return True
    return False


def basic(shape: Shape, parts: tuple[Any, ...]) -> Basic:
    """Apply an index of integers, slices, None and ... to a shape; raises NumPy's IndexErrors."""
    if len(parts) == 1 and type(parts[0]) is int and shape and -shape[0] <= parts[0] < shape[0]:  # a row: loops take it
        return Basic((Access(-1, parts[0] % shape[0], 0), *_WHOLE[: len(shape) - 1]), shape[1:])
    used = sum([each is not None and each is not Ellipsis for each in parts])
    if used > len(shape):
        raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {used} were indexed")
    dots = sum([each is Ellipsis for each in parts])
    if dots > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    access: list[Access] = []
    out: list[int] = []
    for each in parts if dots else (*parts, Ellipsis):
        axis = len(access)
        if each is None:
            out.append(1)
        elif each is Ellipsis:
            for length in shape[axis : axis + len(shape) - used]:
                access.append(_WHOLE[len(out)])
                out.append(length)
        elif isinstance(each, slice):
            start, stop, step = each.indices(shape[axis])
            count = len(range(start, stop, step))
            access.append(Access(len(out), start if count else 0, step if count > 1 else 1))
            out.append(count)
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
            access.append(Access(-1, position % length, 0))
    return Basic(tuple(access), tuple(out))


@lru_cache(maxsize=1 << 12)
def row_of(kind: Kind, position: int) -> tuple[Operation, Kind]:
    """Return the view that shows one position along the first axis of arrays of a kind, and its kind."""
    access, shape = basic(kind.shape, (position,))
    return interned(ViewOperation, access), kind_of(shape, kind.dtype)


def get(array: Array, key: Any) -> Array:
    """Return array[key]: a view, except for single elements, and for masks and integer arrays, which select copies."""
    node = array._node
    if type(key) is int and len(node.kind.shape) > 1:  # a row: loops take it
        op, kind = row_of(node.kind, key)
        return view(array, Node(op, (node,), kind))
    parts, advanced = parts_of(key)
    if advanced:
        from bsp.arrays.selection import selecting

        return selecting.get(array, parts)
    found = basic(node.kind.shape, parts)
    single = not found.shape and not any(each is Ellipsis for each in parts)
    # the frame above that of `Array.__getitem__` is the script's, or of this package, whose functions expect arrays
    if single and world().as_numpy and not is_ours(sys._getframe(2).f_code.co_filename):
        number = _number(array, found.access)
        if number is not None:
            return cast("Array", number)  # type checkers know elements as arrays
    shown = build.viewed(node, found.shape, found.access)
    from bsp.arrays.array import wrap

    if single:
        return wrap(shown)  # a number, as in NumPy
    copied = any(isinstance(each, np.ndarray) for each in parts)  # arrays without axes: to NumPy an advanced index
    result = wrap(shown) if copied else view(array, shown)
    if not found.shape:
        own(result)
    return result


def _number(array: Array, access: tuple[Access, ...]) -> Any:
    """Return an element of a small array as NumPy's number, if every process has it; else None.

    Scripts for NumPy take elements one by one, and each process has its numbers at once.  Computes the array.
    """
    if array._node.kind.size > layouts.REPLICATED_SIZE:
        return None
    if writing.source(array._node) is None:
        array.persist()
    leaf = writing.source(array._node)
    if leaf is None or leaf.layout is None or not leaf.layout.replicated:
        return None
    block = next(iter(leaf.value.values()))
    return block[tuple(each.start for each in writing.below(array._node, access))]


def put(array: Array, key: Any, value: Any) -> None:
    """Carry out array[key] = value, which replaces the nodes of the array and of all that share its elements.

    Values that every process has are written into the blocks of a computed array at once.  Anything else is lazy; many
    assignments of such values to an array that is not computed become one pass over its blocks.
    """
    kind = array._node.kind
    dtype = kind.dtype
    if dtype.kind in "mM" and isinstance(value, _TIMES):
        value = np.asarray(value, dtype)
    elif isinstance(value, (list, tuple)) and _is_of_numbers(value):
        value = np.asarray(value, dtype)  # with NumPy's errors for numbers that do not fit
    parts, advanced = parts_of(key)
    if advanced:
        from bsp.arrays.selection import selecting

        selecting.put(array, parts, value)
        return
    where = basic(kind.shape, parts)
    if type(value) is type(array) and value.shape == where.shape and shows(value, array, where.access):
        return
    values = ready(value, where.shape, dtype)
    computed = writing.source(array._node) is not None
    if values is not None and (computed or values.size <= layouts.REPLICATED_SIZE):
        assign(array, values, where.access, where.shape)
    else:
        store(array, broadcast(build.operand(value), where.shape, dtype), where.access)


def _is_of_numbers(value: Any) -> bool:
    """Return whether a value is a Python number, or a sequence of such values."""
    return type(value) in WEAK or (isinstance(value, (list, tuple)) and all(map(_is_of_numbers, value)))


def ready(value: Any, shape: Shape, dtype: DType) -> Any:
    """Return an assigned value as an array of this dtype that broadcasts to a shape; None if not all processes have it.

    None also stands for a value that cannot be assigned, or not without a warning: `broadcast` and the plan report it.
    """
    if type(value) in WEAK:
        return number_of(value, dtype)
    values = writing.at_hand(value)
    if values is None or values.dtype.kind not in KINDS:
        return None
    while values.ndim > len(shape) and values.shape[0] == 1:
        values = values[0]
    return writing.cast(values, dtype) if build.broadcasts(values.shape, shape) else None


def scalar_of(number: Node, dtype: DType) -> np.ndarray:
    """Return the number of a parameter converted to a dtype; see `number_of`."""
    return number_of(number.value, dtype)


def number_of(value: Any, dtype: DType) -> np.ndarray:
    """Return a Python number converted to a dtype as NumPy assigns it, with NumPy's errors if it does not fit."""
    place = np.zeros((), dtype)
    if type(value) is int:
        ew.fits(value, dtype, "assignment")
    place[()] = value
    return place


def assignable(value: Node, dtype: DType) -> Node:
    """Return a value, cast to a dtype by the rules of assignment."""
    if value.kind.weak is not None:
        number = scalar_of(value, dtype)
        value = build.from_whole(number) if dtype.kind in "mM" else build.operand(number.item())
    return build.strong(build.cast(value, dtype))


def broadcast(value: Node, shape: Shape, dtype: DType) -> Node:
    """Return a value in the shape and dtype of the part of an array that it is assigned to.

    Extra leading axes of length 1 are dropped, others are broadcast.
    """
    value = assignable(value, dtype)
    own = value.kind.shape
    while len(own) > len(shape) and own[0] == 1:
        value = build.squeezed(value, [0])
        own = value.kind.shape
    try:
        return build.broadcast(value, shape)
    except ShapeError:
        raise ShapeError(f"could not broadcast input array from shape {own} into shape {shape}") from None
