"""Universal functions: broadcasting, promotion, and one visit to every element.

The path of an arithmetic operation (`call`) is kept short: a run of a thousand processes takes it millions of times.
The docstring of a rule gives the function of NumPy and what it counts.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.abstract.array import AbstractArray, into, owned, result, scalar, viewing
from bsp.abstract.errors import DATA, value_needed
from bsp.abstract.index import fits, select
from bsp.abstract.probe import (
    DType,
    Key,
    Shape,
    axes_of,
    axis_of,
    broadcast,
    key_of_integer,
    outcome,
    probe,
    reduced,
    representative,
    shape_text,
)
from bsp.abstract.table import TABLE, complexity, kernel_of, not_counted, product, product_kernel, rule, weight
from bsp.abstract.work import CACHED, counter

_BOOL = np.dtype(bool)


class Foreign(Exception):
    """An operand with NumPy's protocols of its own: the call is left to it, because it may handle abstract arrays."""


# ------------------------------------------------------------------------------------ operands


def described(value: Any) -> tuple[Key, Shape]:
    """Return an operand's key for promotion and its shape.  Raises Foreign."""
    kind = type(value)
    if kind is AbstractArray:
        return value._key, value._shape
    if kind is float or kind is complex:
        return kind, ()
    if kind is int:
        return key_of_integer(value), ()
    if kind is np.ndarray or isinstance(value, np.generic):
        return value.dtype, value.shape
    if kind is bool:
        return _BOOL, ()
    if isinstance(value, int):  # a subclass of a Python number
        return key_of_integer(value), ()
    if isinstance(value, (float, complex)):
        return float if isinstance(value, float) else complex, ()
    if not isinstance(value, np.ndarray) and getattr(kind, "__array_ufunc__", None) is not None:
        raise Foreign
    array = operand(value)
    return array.dtype, array.shape


def operand(value: Any) -> Any:
    """Return an operand as an array, abstract or real; lists may hold abstract numbers."""
    if type(value) is AbstractArray or isinstance(value, np.ndarray):
        return value
    if isinstance(value, (list, tuple)) and holds_abstract(value):
        return from_sequence(value)
    if hasattr(type(value), "compute"):  # a distributed array, which NumPy would ask for values
        return value.compute()
    return np.asarray(value)


def holds_abstract(values: Any) -> bool:
    """Return whether a list, or a list in it, holds an abstract array."""
    return any(
        type(value) is AbstractArray or (isinstance(value, (list, tuple)) and holds_abstract(value)) for value in values
    )


def from_sequence(values: Any, dtype: Any = None) -> AbstractArray:
    """Return np.array(values) of a list with abstract arrays or numbers in it; count the bytes."""
    shape, types = _sequence(values)
    new = owned(shape, np.dtype(dtype) if dtype is not None else np.result_type(*types))
    counter.moved(2 * new.nbytes)
    return new


def _sequence(values: Any) -> tuple[Shape, set[DType]]:
    """Return the shape of a nested list, and the dtypes in it; raise NumPy's error for a ragged one."""
    shapes, types = set(), set()
    for value in values:
        if isinstance(value, (list, tuple)) and holds_abstract(value):
            shape, inner = _sequence(value)
        else:
            array = operand(value)
            shape, inner = array.shape, {array.dtype}
        shapes.add(shape)
        types |= inner
    if len(shapes) > 1:
        raise ValueError(
            "setting an array element with a sequence. The requested array has an inhomogeneous shape: "
            + ", ".join(map(shape_text, sorted(shapes)))
        )
    return (len(values), *shapes.pop()), types


# ------------------------------------------------------------------------------- ufunc(x, y, ...)


@lru_cache(maxsize=1 << 14)
def promoted(ufunc: np.ufunc, *keys: Key, **options: Any) -> tuple[tuple[DType, ...], float, str]:
    """Return the dtypes of a ufunc's results, its flops an element, and their class."""
    found = outcome(ufunc, *keys, **options)
    types: tuple[DType, ...] = found if isinstance(found, tuple) else (found,)
    computed = [key for key in keys if isinstance(key, np.dtype)]
    return types, max(weight(ufunc, each) for each in (*types, *computed)), kernel_of(ufunc)


def call(ufunc: np.ufunc, inputs: tuple[Any, ...]) -> Any:
    """Return the result of a ufunc called with operands alone."""
    try:
        if ufunc.signature is not None:
            return generalised(ufunc, inputs, {})
        if len(inputs) == 2:
            a, b = inputs
            a_key, a_shape = (a._key, a._shape) if type(a) is AbstractArray else described(a)
            b_key, b_shape = (b._key, b._shape) if type(b) is AbstractArray else described(b)
            types, price, kernel = promoted(ufunc, a_key, b_key)
            if a_shape == b_shape or not b_shape:
                shape = a_shape
            else:
                shape = broadcast(a_shape, b_shape) if a_shape else b_shape
        else:
            operands = [described(value) for value in inputs]
            types, price, kernel = promoted(ufunc, *[key for key, _ in operands])
            shape = operands[0][1] if len(operands) == 1 else broadcast(*[shape for _, shape in operands])
    except Foreign:
        return NotImplemented
    size = prod(shape)
    counter.flops(kernel, price * size)
    if size > CACHED:  # too large for a cache: the operands are read from memory, and the results written to it
        counter.bytes += (len(inputs) + len(types)) * size * types[0].itemsize
    if len(types) == 1:
        return owned(shape, types[0]) if shape else scalar(types[0])
    return tuple(result(shape, dtype) for dtype in types)


def ufunc_method(ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a ufunc called with options, or of one of its methods."""
    try:
        if method == "__call__":
            return _with_options(ufunc, inputs, kwargs)
        if method == "at":
            return _at(ufunc, *inputs)
        if method == "outer":
            return _outer(ufunc, *inputs, **kwargs)
        if method == "reduce":
            return reduce(ufunc, *inputs, **kwargs)
        if method == "accumulate":
            return accumulate(ufunc, *inputs, **kwargs)
        return _reduceat(ufunc, *inputs, **kwargs)
    except Foreign:
        return NotImplemented


TABLE["call"] = call
TABLE["ufunc"] = ufunc_method
TABLE["operand"] = operand


def _with_options(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a ufunc with out=, where=, dtype= or casting=; operands and mask broadcast to `out`."""
    out, where = kwargs.pop("out", None), kwargs.pop("where", True)
    for ignored in ("order", "subok"):
        kwargs.pop(ignored, None)
    out = out if isinstance(out, tuple) or out is None else (out,)
    if out is not None and type(out[0]) is AbstractArray and out[0].is_scalar:
        out = None  # `total += x` of a scalar makes a new one
    if ufunc.signature is not None:
        return generalised(ufunc, inputs, {**kwargs, "out": out})
    if "dtype" in kwargs and kwargs["dtype"] is not None:
        kwargs["dtype"] = np.dtype(kwargs["dtype"])
    operands = [described(value) for value in inputs]
    keys = [key for key, _ in operands]
    targets = [None] * ufunc.nout if out is None else list(out)
    for target in targets:
        if target is not None and type(target) is not AbstractArray:
            raise value_needed("a result in a real NumPy array", result(target.shape, target.dtype), DATA)
    if out is not None:
        into_types = tuple(None if target is None else target._dtype for target in targets)
        types, price, kernel = _promoted_into(ufunc, tuple(keys), into_types, **kwargs)
    else:
        types, price, kernel = promoted(ufunc, *keys, **kwargs)
    shape = broadcast(*[shape for _, shape in operands])
    if where is not True:
        shape = broadcast(shape, described(where)[1])
    for target in targets:
        if target is not None:
            if broadcast(shape, target._shape) != target._shape:
                raise ValueError(
                    f"non-broadcastable output operand with shape {shape_text(target._shape)} doesn't match the "
                    f"broadcast shape {shape_text(shape)}"
                )
            shape = target._shape
    size = prod(shape)
    counter.flops(kernel, price * size)
    if size > CACHED:
        counter.bytes += (len(operands) + len(types)) * size * types[0].itemsize
    results = tuple(
        result(shape, dtype) if target is None else target for target, dtype in zip(targets, types, strict=True)
    )
    return results[0] if len(results) == 1 else results


@lru_cache(maxsize=1 << 12)
def _promoted_into(
    ufunc: np.ufunc, keys: tuple[Key, ...], out: tuple[DType | None, ...], **options: Any
) -> tuple[tuple[DType, ...], float, str]:
    """Return `promoted` for results that go into arrays of given dtypes; raises NumPy's casting errors."""
    targets = tuple(None if dtype is None else np.zeros(1, dtype) for dtype in out)
    with np.errstate(all="ignore"):
        given = ufunc(*map(representative, keys), out=targets, **options)
    types = tuple(part.dtype for part in (given if isinstance(given, tuple) else (given,)))
    computed = [key for key in keys if isinstance(key, np.dtype)]
    return types, max(weight(ufunc, each) for each in (*types, *computed)), kernel_of(ufunc)


def _outer(ufunc: np.ufunc, a: Any, b: Any, **kwargs: Any) -> Any:
    """Return ufunc.outer(a, b)."""
    a, b = operand(a), operand(b)
    wide = probe(a.shape, a.dtype).reshape(a.shape + (1,) * b.ndim).shape
    return _with_options(ufunc, (_reshaped(a, wide), b), kwargs)


def _reshaped(a: Any, shape: Shape) -> Any:
    """Return a view of an operand in another shape."""
    return viewing(a, shape, a.dtype, 0) if type(a) is AbstractArray else a.reshape(shape)


def _at(ufunc: np.ufunc, target: Any, indices: Any, *values: Any) -> None:
    """Count ufunc.at: every index counts, repeated ones too.  Raises Foreign for another library's positions."""
    for each in indices if type(indices) is tuple else (indices,):
        if hasattr(each, "__array_ufunc__") and not isinstance(each, AbstractArray | np.ndarray | np.generic):
            raise Foreign
    if type(target) is not AbstractArray:
        raise value_needed("a result in a real NumPy array", operand(values[0]), DATA)
    region = select(target._shape, target._dtype, indices).shape
    keys: list[Key] = [target._key]
    for value in values:
        key, shape = described(value)
        keys.append(key)
        if broadcast(shape, region) != region:
            raise ValueError(
                f"array is not broadcastable to correct shape: {shape_text(shape)} to {shape_text(region)}"
            )
    _, price, kernel = promoted(ufunc, *keys)
    counter.flops(kernel, price * prod(region))


# ----------------------------------------------------------------------- reduce, accumulate, reduceat


def reduce(
    ufunc: np.ufunc,
    array: Any,
    axis: Any = 0,
    dtype: Any = None,
    out: Any = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    """ufunc.reduce: one operation an element, class blas1."""
    key, shape = described(array)
    left = reduced(shape, axis, bool(keepdims))
    if where is not True:
        broadcast(shape, described(where)[1])
    if initial is None:
        check_empty(ufunc, shape, axis)
    found = outcome(ufunc.reduce, key, dtype=None if dtype is None else np.dtype(dtype))
    counter.flops("blas1", prod(shape) * weight(ufunc, found))
    return into(out, left, found)


def accumulate(ufunc: np.ufunc, array: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    """ufunc.accumulate: one operation an element, class blas1."""
    key, shape = described(array)
    axis_of(axis, max(len(shape), 1))
    if not shape:
        raise TypeError("cannot accumulate on a scalar")
    found = outcome(ufunc.accumulate, key, dtype=None if dtype is None else np.dtype(dtype))
    counter.flops("blas1", prod(shape) * weight(ufunc, found))
    return into(out, shape, found)


def _reduceat(ufunc: np.ufunc, array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: Any = None) -> Any:
    """ufunc.reduceat: one operation an element, class blas1."""
    key, shape = described(array)
    axis = axis_of(axis, max(len(shape), 1))
    if not shape:
        raise TypeError("cannot reduceat on a scalar")
    index = operand(indices)
    if isinstance(index, np.ndarray) and index.size and not 0 <= int(index.min()) <= int(index.max()) < shape[axis]:
        raise IndexError(f"index out-of-bounds in {ufunc.__name__}.reduceat [0, {shape[axis]})")
    found = outcome(ufunc.reduce, key, dtype=None if dtype is None else np.dtype(dtype))
    counter.flops("blas1", prod(shape) * weight(ufunc, found))
    return into(out, (*shape[:axis], *index.shape, *shape[axis + 1 :]), found)


def check_empty(function: Any, shape: Shape, axis: Any) -> None:
    """Raise NumPy's own error for a reduction over nothing that has no identity."""
    if 0 in shape and 0 in (shape[k] for k in axes_of(axis, len(shape))):
        reducing = function.reduce if isinstance(function, np.ufunc) else function
        with np.errstate(all="ignore"):  # lengths above 1 make no difference to the error
            reducing(np.zeros(tuple(min(length, 1) for length in shape)), axis=axis)


# ---------------------------------------------------------------- ufuncs with dimensions of their own


@lru_cache(maxsize=64)
def cores(signature: str) -> tuple[list[list[str]], list[list[str]]]:
    """Return the names of the core dimensions in a signature: for each operand, and for each result."""
    inputs, outputs = (
        [group.split(",") if group else [] for group in side[1:-1].split("),(")]
        for side in signature.replace(" ", "").split("->")
    )
    return inputs, outputs


_PRODUCTS = ("matmul", "vecdot", "matvec", "vecmat")


class _Contraction(NamedTuple):
    """The shape and the flops of a generalised ufunc's call, and the size of one of its products.

    rows, columns, summed : of the matrix product that is repeated over the broadcast leading dimensions.
    """

    shape: Shape
    rows: int
    columns: int
    summed: int
    flops: float


@lru_cache(maxsize=1 << 12)
def _contraction(ufunc: np.ufunc, *shapes: Shape) -> _Contraction:
    """Return what a call with operands of these shapes computes; raises as NumPy does.

    Leading dimensions broadcast; core dimensions of the same name must agree.
    """
    groups, (output,) = cores(str(ufunc.signature))
    sizes: dict[str, int] = {}
    dropped: set[str] = set()
    loops = []
    for number, (shape, names) in enumerate(zip(shapes, groups, strict=True)):
        if len(shape) < len(names):
            dropped |= {name for name in names if name.endswith("?")}
            names = [name for name in names if not name.endswith("?")]
        if len(shape) < len(names):
            raise ValueError(
                f"{ufunc.__name__}: Input operand {number} does not have enough dimensions (has {len(shape)}, "
                f"gufunc core with signature {ufunc.signature} requires {len(names)})"
            )
        cut = len(shape) - len(names)
        for place, (name, length) in enumerate(zip(names, shape[cut:], strict=True)):
            if sizes.setdefault(name, length) != length:
                raise ValueError(
                    f"{ufunc.__name__}: Input operand {number} has a mismatch in its core dimension {place}, with "
                    f"gufunc signature {ufunc.signature} (size {length} is different from {sizes[name]})"
                )
        loops.append(shape[:cut])
    loop = broadcast(*loops)
    inner = tuple(sizes[name] for name in output if name not in dropped)
    rows, columns = (*inner, 1, 1)[:2]
    summed = prod(length for name, length in sizes.items() if name not in output)
    return _Contraction(loop + inner, rows, columns, summed, prod(loop) * product(rows, summed, columns))


def generalised(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """numpy.matmul, vecdot, matvec, vecmat: the flops of the products."""
    if ufunc.__name__ not in _PRODUCTS:
        return TABLE["numpys"](ufunc, inputs, kwargs)
    out, dtype = kwargs.pop("out", None), kwargs.pop("dtype", None)
    kwargs.pop("casting", None)
    axis = kwargs.pop("axis", -1)  # of vecdot
    if axis != -1:
        inputs = tuple(np.moveaxis(operand(value), axis, -1) for value in inputs)
    if kwargs:
        raise not_counted(ufunc, f" with {', '.join(kwargs)}=")
    operands = [described(value) for value in inputs]
    shape, rows, columns, summed, flops = _contraction(ufunc, *[shape for _, shape in operands])
    keys = [(key, 2) if isinstance(key, np.dtype) else key for key, _ in operands]
    found = outcome(ufunc, *keys) if dtype is None else outcome(ufunc, *keys, dtype=np.dtype(dtype))
    counter.flops(product_kernel(rows, columns, found, summed), flops * complexity(found))
    return into(out, shape, found)


# -------------------------------------------------------- functions that visit every element, and are no ufunc


@rule("clip")
def clip(a: Any, a_min: Any = None, a_max: Any = None, out: Any = None, **kwargs: Any) -> Any:
    """numpy.clip: two comparisons an element."""
    low = kwargs.pop("min", a_min)
    high = kwargs.pop("max", a_max)
    bounds = [None if bound is None else described(bound) for bound in (low, high)]
    key, shape = described(a)
    shape = broadcast(shape, *[bound[1] for bound in bounds if bound is not None])
    found = outcome(np.clip, key, *[bound and bound[0] for bound in bounds])
    counter.flops("elementwise", 2 * prod(shape))
    return into(out, shape, found)


@rule("where")
def where(condition: Any, *choices: Any) -> Any:
    """numpy.where: with three arguments bytes read and written; with one, numpy.nonzero."""
    if not choices:
        return TABLE[np.nonzero](condition)
    described_choices = [described(choice) for choice in choices]
    shape = broadcast(described(condition)[1], *[shape for _, shape in described_choices])
    found = outcome(np.where, _BOOL, *[key for key, _ in described_choices])
    new = owned(shape, found)
    counter.moved(2 * new.nbytes + prod(shape))
    return new


@rule("round", "around")
def round_rule(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """numpy.round, numpy.around: an operation an element."""
    key, shape = described(a)
    counter.flops("elementwise", prod(shape))
    return into(out, shape, outcome(np.round, (key, max(len(shape), 1)), decimals))


@rule("copyto")
def copyto(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """numpy.copyto: bytes read and written."""
    if type(dst) is not AbstractArray:
        raise value_needed("a result in a real NumPy array", operand(src), DATA)
    key, shape = described(src)
    if not fits(shape, dst._shape):
        raise ValueError(
            f"could not broadcast input array from shape {shape_text(shape)} into shape {shape_text(dst._shape)}"
        )
    if isinstance(key, np.dtype) and not np.can_cast(key, dst._dtype, casting):
        raise TypeError(f"Cannot cast array data from {key!r} to {dst._dtype!r} according to the rule {casting!r}")
    counter.moved(prod(shape) * dst.itemsize + dst.nbytes)
