"""Indexing: the shape that an index selects from an array of which only shape and dtype are known.

Indices of integers, slices, `...` and None are tried on a probe.  Arrays of integers and masks follow the
rules NumPy documents for advanced indexing.  An abstract mask is taken to select everything it covers,
which is the most it can, and an abstract integer is taken to be in range.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.abstract.probe import DType, Shape, probe, shape_text

_BASIC = frozenset((int, slice, type(None), type(...)))


class SelectedElements(NamedTuple):
    """The elements that an index selects.  `is_element`: a single one, by integers alone."""

    shape: Shape
    dtype: DType
    is_view: bool
    upper_bound: bool
    is_element: bool = False


class _Unsized(NamedTuple):
    """An abstract array in an index; a mask of this shape selects as many elements as it covers, at most."""

    shape: Shape
    is_mask: bool


_INTEGER = _Unsized((), False)


def basic(shape: Shape, dtype: DType, key: Any) -> Any:
    """Return what `key` selects from a probe if it consists of integers, slices, `...` and None; else None."""
    kind = type(key)
    if kind in _BASIC:
        return probe(shape, dtype)[key]
    if kind is tuple:
        for part in key:
            if type(part) not in _BASIC:
                return None
        return probe(shape, dtype)[key]
    return None


def select(shape: Shape, dtype: DType, key: Any) -> SelectedElements:
    """Return the elements that `key` selects; raises IndexError as NumPy does."""
    if isinstance(key, str) or (isinstance(key, list) and key and all(isinstance(name, str) for name in key)):
        fields = probe(shape, dtype)[key]
        return SelectedElements(fields.shape, fields.dtype, True, False)
    parts = [_plain(part) for part in (key if isinstance(key, tuple) else (key,))]
    if not any(isinstance(part, np.ndarray) or (isinstance(part, _Unsized) and part != _INTEGER) for part in parts):
        found = probe(shape, dtype)[tuple(0 if part == _INTEGER else part for part in parts)]
        is_view = isinstance(found, np.ndarray)
        return SelectedElements(found.shape, found.dtype, is_view, False, not is_view)
    return _advanced(shape, dtype, parts)


def stored(shape: Shape, dtype: DType, key: Any, values: Shape) -> int:
    """Return the bytes that `x[key] = values` writes; raises as NumPy does if the values do not broadcast."""
    found = basic(shape, dtype, key)
    region: Shape
    if found is not None:
        region, upper_bound, is_element = found.shape, False, isinstance(found, np.generic)
    else:
        region, _, _, upper_bound, is_element = select(shape, dtype, key)
        if len(values) > 1 and _is_mask_of_all(key, shape):
            raise TypeError(
                "NumPy boolean array indexing assignment requires a 0 or 1-dimensional input, "
                f"input has {len(values)} dimensions"
            )
    if values and is_element:
        raise ValueError("setting an array element with a sequence.")
    if values and values != region and not fits(values, region) and not (upper_bound and len(values) <= len(region)):
        if found is not None:
            raise ValueError(
                f"could not broadcast input array from shape {shape_text(values)} into shape {shape_text(region)}"
            )
        raise ValueError(
            f"shape mismatch: value array of shape {shape_text(values)} could not be broadcast to "
            f"indexing result of shape {shape_text(region)}"
        )
    return prod(region) * dtype.itemsize


def _is_mask_of_all(key: Any, shape: Shape) -> bool:
    """Return whether an index is one mask with as many dimensions as the array."""
    mask = key[0] if isinstance(key, tuple) and len(key) == 1 else key
    return getattr(getattr(mask, "dtype", None), "kind", None) == "b" and len(mask.shape) == len(shape)


def fits(values: Shape, region: Shape) -> bool:
    """Return whether values of this shape can be stored in a region: they broadcast, leading axes of 1 dropped."""
    while len(values) > len(region) and values[0] == 1:
        values = values[1:]
    if len(values) > len(region):
        return False
    tail = region[len(region) - len(values) :]
    return all(mine in (1, theirs) for mine, theirs in zip(values, tail, strict=True))


def _plain(part: Any) -> Any:
    """Return an entry of an index as integer, slice, `...`, None, a real array or an unsized one."""
    if type(part) in _BASIC:
        return part
    if isinstance(part, (bool, np.bool_)):
        return np.asarray(part)
    if isinstance(part, (np.ndarray, np.generic, list, tuple)) and not _holds_abstract(part):
        array = np.asarray(part)
        if array.size == 0 and isinstance(part, (list, tuple)):
            array = array.astype(np.intp)
        if array.dtype.kind == "b":
            return array
        if array.dtype.kind not in "iu":
            raise IndexError("arrays used as indices must be of integer (or boolean) type")
        return array if array.ndim else int(array)
    if isinstance(part, (list, tuple)):
        return _Unsized((len(part), *getattr(part[0], "shape", ())), False)
    kind = getattr(getattr(part, "dtype", None), "kind", None)
    if kind is None:  # NumPy decides whether any other object can be an index
        return part
    if kind == "b":
        return _Unsized(part.shape, True)
    if kind not in "iu":
        raise IndexError("arrays used as indices must be of integer (or boolean) type")
    return _Unsized(part.shape, False)


def _holds_abstract(part: Any) -> bool:
    """Return whether a list holds an abstract array."""
    return isinstance(part, (list, tuple)) and any(
        _holds_abstract(entry) or (hasattr(entry, "dtype") and not isinstance(entry, (np.ndarray, np.generic)))
        for entry in part
    )


def _advanced(shape: Shape, dtype: DType, parts: list[Any]) -> SelectedElements:
    """Return the elements that an index with arrays selects.

    The common shape of the arrays replaces their axes: at the place of the first array if they are neighbours, else
    in front.
    """
    taken = sum(_dimensions(part) for part in parts)
    if taken > len(shape):
        raise IndexError(f"too many indices for array: array is {len(shape)}-dimensional, but {taken} were indexed")
    if sum(part is Ellipsis for part in parts) > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not any(part is Ellipsis for part in parts):
        parts = [*parts, ...]
    kept: list[int | None] = []  # lengths of the result; None at the place of an array
    arrays: list[Shape] = []
    checks: list[tuple[np.ndarray, int, int]] = []
    upper_bound, axis = False, 0
    for part in parts:
        if part is None:
            kept.append(1)
        elif part is Ellipsis:
            free = len(shape) - taken
            kept.extend(shape[axis : axis + free] if free else [-1])  # -1: no length, but it separates neighbours
            axis += free
        elif isinstance(part, slice):
            kept.append(len(range(*part.indices(shape[axis]))))
            axis += 1
        elif isinstance(part, _Unsized) and part.is_mask:
            _check_mask(part.shape, shape, axis)
            arrays.append((prod(part.shape),))
            kept.append(None)
            axis += len(part.shape)
            upper_bound = True
        elif isinstance(part, np.ndarray) and part.dtype.kind == "b":
            _check_mask(part.shape, shape, axis)
            arrays.append((int(np.count_nonzero(part)),))
            kept.append(None)
            axis += part.ndim
        else:
            length = shape[axis]
            if isinstance(part, np.ndarray):
                checks.append((part, axis, length))
            elif not isinstance(part, _Unsized):
                part = np.asarray(part)
                _check_range(part, axis, length)
            arrays.append(part.shape)
            kept.append(None)
            axis += 1
    try:
        common = np.broadcast_shapes(*arrays)
    except ValueError:
        together = " ".join(map(shape_text, arrays))
        raise IndexError(
            f"shape mismatch: indexing arrays could not be broadcast together with shapes {together} "
        ) from None
    if 0 not in common:  # an empty selection reads nothing, so NumPy does not check it
        for check in checks:
            _check_range(*check)
    places = [place for place, length in enumerate(kept) if length is None]
    neighbours = places == list(range(places[0], places[-1] + 1))
    front = places[0] if neighbours else 0
    before = [length for length in kept[:front] if length is not None and length >= 0]
    after = [length for length in kept[front:] if length is not None and length >= 0]
    return SelectedElements((*before, *common, *after), dtype, False, upper_bound)


def _dimensions(part: Any) -> int:
    """Return how many dimensions of the array an entry of the index uses up."""
    if part is None or part is Ellipsis:
        return 0
    if isinstance(part, _Unsized):
        return len(part.shape) if part.is_mask else 1
    if isinstance(part, np.ndarray) and part.dtype.kind == "b":
        return part.ndim
    return 1


def _check_mask(mask: Shape, shape: Shape, axis: int) -> None:
    """Raise IndexError if a mask's shape differs from that of the axes it covers."""
    for k, length in enumerate(mask):
        if length and shape[axis + k] != length:  # a mask of nothing fits anything (NumPy 2.4)
            raise IndexError(
                f"boolean index did not match indexed array along axis {axis + k}; size of axis is "
                f"{shape[axis + k]} but size of corresponding boolean axis is {length}"
            )


def _check_range(index: np.ndarray, axis: int, length: int) -> None:
    """Raise IndexError if a position is outside the axis."""
    if not index.size:
        return
    for worst in (int(index.max()), int(index.min())):
        if not -length <= worst < length:
            raise IndexError(f"index {worst} is out of bounds for axis {axis} with size {length}")
