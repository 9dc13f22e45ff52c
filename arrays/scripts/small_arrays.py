"""Small arrays of scripts for NumPy: NumPy's own, whole on every process, so that loops over them take what they do.

1. Of what a script makes of numbers, lists and small arrays, what every process would hold whole anyway is small: an
   array of up to `LIMIT` elements.  What is larger is dealt.
2. What a distributed array takes part in is distributed.  Written into a small array, it is gathered.
3. No result is made whole that has many more elements than small arrays have: its small arrays are dealt first.
4. Operators of the smallest arrays call nothing of ours.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from itertools import chain
from math import inf, prod
from typing import Any

import numpy as np

import bsp.arrays as ba
from bsp.arrays.array import Array
from bsp.arrays.expressions.element_types import KINDS
from bsp.arrays.expressions.layout import REPLICATED_SIZE
from bsp.source import is_ours
from bsp.values.payload import is_abstract

LIMIT = REPLICATED_SIZE  # elements of a small array at most

# Of two arrays of up to so many elements, what has an element for each pair, as x[:, None] * y[None, :], is made whole
# before it is dealt (8 MB): to ask first would take longer than the operations of smaller ones.
_PAIRED = 1 << 10
_MOST = _PAIRED**2

# functions whose results may have many more elements than the arrays that they are given: as many as integers say, an
# element for each pair, or one for each pair of rows
_GROWING = frozenset({
    "bartlett", "blackman", "block", "broadcast_to", "corrcoef", "cov", "diag", "diag_indices", "diagflat", "einsum",
    "empty", "empty_like", "eye", "fft", "fft2", "fftfreq", "fftn", "full", "full_like", "geomspace", "hamming",
    "hanning", "hfft", "identity", "ifft", "ifft2", "ifftn", "ihfft", "indices", "inner", "irfft", "irfft2", "irfftn",
    "ix_", "kaiser", "kron", "linspace", "logspace", "meshgrid", "ones", "ones_like", "outer", "pad", "repeat",
    "resize", "rfft", "rfft2", "rfftfreq", "rfftn", "tensordot", "tile", "tri", "tril_indices", "triu_indices",
    "unpackbits", "vander", "zeros", "zeros_like",
})  # fmt: skip
_BINNED = frozenset({"histogram", "histogram2d", "histogram_bin_edges", "histogramdd"})
# functions of files, and those that call a function of the script for all elements
_NEVER = frozenset({
    "frombuffer", "fromfile", "from_dlpack", "fromfunction", "genfromtxt", "load", "loadtxt", "save", "savetxt",
    "savez", "savez_compressed",
})  # fmt: skip
_WRITING = frozenset({"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"})

_part = np.ndarray.__getitem__
_BASIC = frozenset({int, slice, type(None), type(Ellipsis), np.int64})  # parts of an index whose result is no larger


class SmallArray(np.ndarray):
    """An array of NumPy's that a script for NumPy has in place of a distributed one."""

    __slots__ = ()

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        """Return the result of a ufunc: a number, a small array, or a distributed one if it is larger."""
        if return_scalar:
            return array[()]
        if array.size <= _PAIRED:
            return array.view(SmallArray) if type(array) is np.ndarray else array
        return settled(array)

    def __getitem__(self, key: Any) -> Any:
        """Return a part; that at the positions of a distributed array, or of many, is distributed."""
        kind = type(key)
        if kind is int or kind is slice:
            return _part(self, key)
        if kind is tuple:
            for each in key:
                if type(each) not in _BASIC:
                    break
            else:
                return _part(self, key)
        elif kind is SmallArray and key.size * self.size <= _PAIRED:
            return _part(self, key)
        if _is_distributed(key) or _is_large(self, key if kind is tuple else (key,)):
            return ba.asarray(self)[key]
        return settled(_part(self, key))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.view(np.ndarray)) if self.ndim == 1 else super().__iter__()

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.view(np.ndarray).__reduce_ex__(protocol)

    @property
    def base(self) -> Any:
        """Return the array that this one is a view of, or None: of NumPy's array that it was made of, there is none."""
        found = super().base
        return found if isinstance(found, SmallArray) else None

    def resize(self, *shape: Any, refcheck: bool = True) -> None:
        """Change the shape, in place: elements in C order are dropped at the end, or followed by zeros."""
        if self.base is not None:
            raise ValueError("cannot resize this array: it does not own its data")
        whole = np.array(self, subok=False)
        whole.resize(*shape, refcheck=False)
        state: Any = whole.__reduce__()[2]
        self.__setstate__(state)

    def tofile(self, *args: Any, **kwargs: Any) -> None:
        """Write the elements to a file, once."""
        ba.asarray(self).tofile(*args, **kwargs)


class SmallArrayOfMany(SmallArray):
    """A small array of more than `_PAIRED` elements: what a ufunc makes of it may be too large to be made whole."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Call a ufunc, or one of its methods: of distributed arrays if the result is no small array."""
        if not kwargs and method == "__call__" and _are_alike(inputs):
            return settled(ufunc(*map(plain, inputs)))
        out = kwargs.get("out", ())
        if any(isinstance(each, Array) for each in (*inputs, *out)):
            return NotImplemented
        if method != "at" and not out and _largest(ufunc, method, inputs) > _MOST:
            inputs = tuple([ba.asarray(each) if isinstance(each, np.ndarray) else each for each in inputs])
            return getattr(ufunc, method)(*inputs, **kwargs)
        if out:
            kwargs["out"] = (*map(plain, out),)
        if "where" in kwargs:
            kwargs["where"] = plain(kwargs["where"])
        found = getattr(ufunc, method)(*map(plain, inputs), **kwargs)
        if len(out) == 1 and out[0] is not None:
            return out[0]
        return settled(found)


def plain(value: Any) -> Any:
    """Return a small array as one of NumPy's class, with the same elements; anything else as it is."""
    return value.view(np.ndarray) if isinstance(value, SmallArray) else value


def _is_large(array: np.ndarray, key: tuple[Any, ...]) -> bool:
    """Return whether array[key] has more elements than are made whole."""
    if prod([len(each) if type(each) is list else each.size for each in key if type(each) in _LISTS]) <= _PAIRED // 16:
        return False  # no more than `_MOST`, of any small array
    shapes, others = [], []
    for each in key:
        if type(each) in _LISTS:
            index = np.asarray(each)
            mask = index.dtype.kind == "b"
            shapes.append((np.count_nonzero(index),) if mask else index.shape)
            others += [0] * (index.ndim if mask else 1)
        else:
            others.append(each)
    try:
        return bool(array.size) and prod(np.broadcast_shapes(*shapes)) * np.size(_part(array, tuple(others))) > _MOST
    except ValueError:  # NumPy raises its error
        return False


def _are_alike(inputs: tuple[Any, ...]) -> bool:
    """Return whether the inputs of a ufunc are numbers and small arrays of one shape: so is then its result."""
    shape = None
    for each in inputs:
        kind = type(each)
        if kind in _SMALL:
            if shape is not None and each.shape != shape:
                return False
            shape = each.shape
        elif kind not in _WITHOUT:
            return False
    return True


def _largest(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...]) -> int:
    """Return how many elements the result of a ufunc may have."""
    shapes = [each.shape for each in inputs if isinstance(each, np.ndarray)]
    if method == "__call__" and ufunc.signature is None:
        return prod(map(max, zip(*[(1,) * (max(map(len, shapes)) - len(each)) + each for each in shapes], strict=True)))
    return prod(map(prod, shapes)) if ufunc.signature is None else _of_product(shapes)


def _of_product(shapes: list[tuple[int, ...]]) -> int:
    """Return how many elements the product of two matrices has, or more than that of two stacks of them."""
    return prod(map(prod, shapes)) // max(1, shapes[0][-1] if shapes[0] else 1) ** 2


def _method(name: str) -> Callable[..., Any]:
    """Return a method of small arrays whose result is distributed if an argument is."""
    theirs = getattr(np.ndarray, name)

    def method(self: SmallArray, *args: Any, **kwargs: Any) -> Any:
        if any(map(_is_distributed, (*args, *kwargs.values()))) or not are_small(name, (self, *args), kwargs):
            return getattr(ba.asarray(self), name)(*args, **kwargs)
        return settled(theirs(self, *args, **kwargs))

    method.__name__, method.__doc__ = name, theirs.__doc__
    return method


for _name in ("choose", "dot", "repeat", "searchsorted", "take"):
    setattr(SmallArray, _name, _method(_name))


def _is_distributed(value: Any) -> bool:
    """Return whether a value is a distributed array with axes, or a tuple with one."""
    kind = type(value)
    if kind is tuple:
        return any(map(_is_distributed, value))
    return kind is Array and value.ndim > 0


def settled(found: Any) -> Any:
    """Return what a function of NumPy's has returned with its arrays as small ones, or dealt."""
    kind = type(found)
    if kind in _WITHOUT:
        return found
    if kind in _SMALL:
        if found.dtype.kind not in KINDS:
            return found
        if found.size > LIMIT:
            return ba.asarray(found.view(np.ndarray))
        right = SmallArray if found.size <= _PAIRED else SmallArrayOfMany
        return found if kind is right else found.view(right)
    if is_abstract(found):
        return ba.asarray(found) if found.size > LIMIT else found
    if isinstance(found, tuple):
        parts = [settled(each) for each in found]
        return tuple(parts) if kind is tuple else kind(*parts)
    return [settled(each) for each in found] if kind is list else found


def deal_abstract_arrays() -> None:
    """Distribute results of ufuncs, and of indices, that are too large for small arrays, in a run without values."""
    from bsp.abstract.table import TABLE  # only runs without values need it

    for name in ("call", "ufunc", "gathered"):
        if getattr(TABLE[name], "__module__", "") != __name__:
            TABLE[name] = (_settling_in_scripts if name == "gathered" else _settling)(TABLE[name])


def _settling(rule: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *args: settled(rule(*args))


def _settling_in_scripts(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule of `x[key]`, where x may also be a block of a distributed array, which this library indexes."""

    def gathered(picked: Any) -> Any:
        found = rule(picked)
        return found if is_ours(sys._getframe(2).f_code.co_filename) else settled(found)

    return gathered


# ------------------------------------------------------------------------------------ functions


def are_whole(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether a function of NumPy's may have its arguments as they are: small arrays, numbers, lists of such."""
    return name not in _NEVER and sum(map(_elements, (*args, *kwargs.values()))) <= LIMIT


def are_numbers(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether the arguments of a function are numbers and the like."""
    return _WITHOUT.issuperset(map(type, args)) and (not kwargs or _WITHOUT.issuperset(map(type, kwargs.values())))


def is_quick(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether `are_small` holds at a glance: of numbers and up to two of the smallest arrays."""
    if name in _RULES:
        return False
    kinds = [*map(type, args), *map(type, kwargs.values())] if kwargs else [*map(type, args)]
    return _QUICK.issuperset(kinds) and (len(kinds) < 3 or kinds.count(SmallArray) < 3)


def are_small(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return whether the arguments of a function of NumPy's are small arrays, and its result cannot be much larger."""
    rule = _RULES.get(name, _of_broadcast)
    if rule is None:
        return False
    given = (*args, *kwargs.values()) if kwargs else args
    sizes = [*map(_elements, given)]
    return sum(sizes) <= LIMIT and rule(given, sizes)


def _of_broadcast(given: tuple[Any, ...], sizes: list[float]) -> bool:
    shapes = {each.shape for each in given if isinstance(each, np.ndarray) and each.size > 1}
    return len(shapes) < 2 or prod(each.size for each in given if isinstance(each, np.ndarray)) <= _MOST


def _of_growing(given: tuple[Any, ...], sizes: list[float]) -> bool:
    return prod(map(_factor, given, sizes)) <= _PAIRED


def _of_bins(given: tuple[Any, ...], sizes: list[float]) -> bool:
    return prod(_integers(given)) <= LIMIT


def _of_counts(given: tuple[Any, ...], sizes: list[float]) -> bool:
    return not any(map(is_abstract, given)) and max(np.max(given[0], initial=0), *_integers(given[1:])) <= LIMIT


def _of_steps(given: tuple[Any, ...], sizes: list[float]) -> bool:
    """Return whether `np.arange` makes few numbers of its arguments."""
    numbers = [each for each in given if isinstance(each, int | float | np.integer | np.floating)]
    start, stop, step = (0, *numbers, 1) if len(numbers) == 1 else (*numbers, 1, 1, 1)[:3]
    return bool(numbers and step and abs((stop - start) / step) <= LIMIT)


# of functions by name, None for those that have no small arrays; of others `_of_broadcast`
_RULES: dict[str, Callable[[tuple[Any, ...], list[float]], bool] | None] = {
    **dict.fromkeys(_GROWING, _of_growing), **dict.fromkeys(_BINNED, _of_bins), **dict.fromkeys(_NEVER),
    "arange": _of_steps, "bincount": _of_counts,
}  # fmt: skip


def _elements(value: Any) -> float:
    """Return how many elements an argument has: 0 of none, infinity of what is no small array."""
    kind = type(value)
    if kind in _WITHOUT:
        return 0
    if is_abstract(value):
        return value.size  # type: ignore[no-any-return]
    if kind in _SMALL:
        return value.size if value.dtype.kind in KINDS else inf
    if kind is list or kind is tuple:
        if len(value) > LIMIT:
            return inf
        if _WITHOUT.issuperset(map(type, value)):
            return len(value)
        found = 0.0
        for each in value:
            found += 1 if type(each) in _WITHOUT else _elements(each) or 1
        return found
    if kind is range:
        return len(value)
    return 0 if callable(value) or isinstance(value, np.generic | np.dtype) else inf


_SMALL = frozenset({np.ndarray, SmallArray, SmallArrayOfMany})
_LISTS = _SMALL | {list}
_WITHOUT = frozenset({type(None), bool, int, float, complex, str, slice, np.bool_, np.int64, np.float64})  # elements
_QUICK = _WITHOUT | {SmallArray}


def _integers(values: Any) -> list[int]:
    """Return the integers among arguments, and in lists and tuples among them; and 1."""
    nested = [_integers(each) for each in values if isinstance(each, list | tuple)]
    return [1, *(int(each) for each in values if isinstance(each, int | np.integer)), *chain.from_iterable(nested)]


def _factor(value: Any, size: float) -> float:
    """Return by how much an argument may multiply the elements of a result: integers may be lengths."""
    if type(value) is int:
        return abs(value) or 1
    if isinstance(value, list | tuple):
        return prod(_factor(each, _elements(each)) for each in value)
    if isinstance(value, int | np.integer):
        return max(1, abs(int(value)))
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu":
        return max(1, size, float(np.sum(np.abs(value), dtype=float)) ** max(1, min(value.size, 8)))
    return max(1, size)


def writes(name: str, args: tuple[Any, ...]) -> bool:
    """Return whether a function of NumPy's writes into its first argument, which is an array of NumPy's."""
    return name in _WRITING and bool(args) and isinstance(args[0], np.ndarray)
