"""Elementwise operations: NumPy's ufuncs, and functions with the same calling convention.

Result dtypes are NumPy's own: each ufunc resolves them itself, with Python numbers weak (NEP 50).  A program of
such operations is evaluated piece by piece through small buffers (see `programs`), so each operation takes `out`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bsp.abstract.table import FUNCTIONS, WEIGHTS
from bsp.arrays.expressions.graph import DType, Kind, Operation, kind_of
from bsp.errors import ShapeError

Resolve = Callable[..., DType]
Loop = Callable[..., tuple[DType, ...]]


class Elementwise(Operation):
    """An elementwise operation.

    call : `call(*arrays, out=out)` fills `out` from arrays that broadcast to it.
    resolve : `resolve(*kinds)` returns the dtype of the result.
    loop : `loop(*kinds)` returns the dtypes in which a ufunc computes; None for other operations.
    weight : flops for an element of a real dtype, by the table of predictions.
    function : whether it is an exponential, a logarithm or the like, whose flops are a class of their own.
    """

    def __init__(
        self, name: str, call: Callable[..., Any], resolve: Resolve, loop: Loop | None = None, weight: float = 1,
        function: bool = False,
    ) -> None:  # fmt: skip
        self.name = name
        self.called = name.partition(":")[0]  # in errors: without dtype= and casting=
        self.weight = weight
        self.function = function
        self.call = call
        self.resolve = resolve
        self.loop = loop  # returns dtypes of arguments, then of results


def _loop_of(ufunc: np.ufunc, dtype: DType | None, casting: Any) -> Loop:
    """Return the function that resolves the dtypes in which a ufunc computes, for arguments of given kinds."""
    results = (None,) * ufunc.nout
    signature = (*[None] * ufunc.nin, *[dtype] * ufunc.nout)

    def loop(*kinds: Kind) -> tuple[DType, ...]:
        given = tuple(kind.dtype if kind.weak is None or kind.weak is bool else kind.weak for kind in kinds)
        if all(isinstance(each, type) for each in given):
            given = tuple(kind.dtype for kind in kinds)
        used = casting
        if casting != "same_kind":  # resolve_dtypes crashes on Python numbers under "equiv" (NumPy 2.4): a call checks
            samples = [kind.weak(1) if isinstance(each, type) else np.ones(1, each)  # type: ignore[misc]
                       for kind, each in zip(kinds, given, strict=True)]  # fmt: skip
            with np.errstate(all="ignore"):
                ufunc(*samples, dtype=dtype, casting=casting)
            used = "unsafe"
        if dtype is None:
            return ufunc.resolve_dtypes((*given, *results), casting=used)
        return ufunc.resolve_dtypes((*given, *results), signature=signature, casting=used)

    return loop


def _second(ufunc: np.ufunc, output: int, dtype: DType | None, casting: Any) -> Callable[..., Any]:
    """Return a function that computes only one of a ufunc's several results."""

    def call(*args: Any, out: Any) -> None:
        outs: list[Any] = [None] * ufunc.nout
        outs[output] = out
        ufunc(*args, out=tuple(outs), dtype=dtype, casting=casting)

    return call


_of_ufunc: dict[Any, Elementwise] = {}


def of_ufunc(ufunc: np.ufunc, output: int = 0, dtype: DType | None = None, casting: Any = "same_kind") -> Elementwise:
    """Return a ufunc as an interned operation.

    output : the number of the result, for ufuncs with several.
    dtype, casting : as the ufunc's own arguments of these names.
    """
    plain = dtype is None and casting == "same_kind"
    key = ufunc if not output and plain else (ufunc, output, dtype, casting)
    found = _of_ufunc.get(key)
    if found is None:
        name = ufunc.__name__ + (f"[{output}]" if output else "")
        name += "" if plain else f":{'' if dtype is None else dtype.str}{casting}"
        call: Any = ufunc if ufunc.nout == 1 else _second(ufunc, output, dtype, casting)
        if not plain and ufunc.nout == 1:
            call = _typed(ufunc, dtype, casting)
        loop = _loop_of(ufunc, dtype, casting)
        function = ufunc.__name__ in FUNCTIONS
        weight = (FUNCTIONS if function else WEIGHTS).get(ufunc.__name__, 1)
        found = Elementwise(name, call, lambda *kinds: loop(*kinds)[ufunc.nin + output], loop, weight, function)
        _of_ufunc[key] = found
    return found


def _typed(ufunc: np.ufunc, dtype: DType | None, casting: Any) -> Callable[..., Any]:
    def call(*args: Any, out: Any) -> None:
        ufunc(*args, out=out, dtype=dtype, casting=casting)

    return call


# ------------------------------------------------------------------------- operations that are no ufuncs


def _where(condition: Any, x: Any, y: Any, out: Any) -> None:
    """Take x where the condition holds, else y.

    NumPy's masked loops branch for each element, which costs 3 to 15 ns where the condition changes often.  The same
    bits from y ^ ((x ^ y) & mask) take 1 ns, whatever the condition; from x & mask half of that, where y is zero.
    """
    bits = _BITS.get(out.dtype.itemsize)
    if bits is None:
        np.copyto(out, y, casting="unsafe")
        np.copyto(out, x, casting="unsafe", where=condition)
        return
    x, y = (np.asarray(each).astype(out.dtype, copy=False).view(bits) for each in (x, y))
    mask = np.asarray(condition).view(np.int8).astype(bits)
    found = out.view(bits)
    if not x.ndim and not x:
        np.subtract(mask, 1, out=mask)
        np.bitwise_and(y, mask, out=found)
        return
    np.negative(mask, out=mask)
    if not y.ndim and not y:
        np.bitwise_and(x, mask, out=found)
        return
    np.bitwise_xor(x, y, out=found)
    np.bitwise_and(found, mask, out=found)
    np.bitwise_xor(found, y, out=found)


def _promoted(*kinds: Kind) -> DType:
    given = [kind.dtype if kind.weak is None else kind.weak(0) for kind in kinds]
    return np.result_type(*given)


_BITS = {size: np.dtype(f"i{size}") for size in (1, 2, 4, 8)}  # by item size: integers with the bits of an element
WHERE = Elementwise("where", _where, lambda condition, x, y: _promoted(x, y))


def _clip(x: Any, low: Any, high: Any, out: Any) -> None:
    np.clip(x, low, high, out=out)


def _clipped(x: Kind, low: Kind, high: Kind) -> DType:
    return infer(of_ufunc(np.minimum), infer(of_ufunc(np.maximum), x, low), high).dtype


CLIP = Elementwise("clip", _clip, _clipped, weight=2)
COPY = Elementwise("copy", lambda x, out: np.copyto(out, x), lambda x: x.dtype)

_casts: dict[DType, Elementwise] = {}


def _cast(x: Any, out: Any) -> None:
    np.copyto(out, x, casting="unsafe")


def cast_to(dtype: DType) -> Elementwise:
    """Return the operation of `astype`, with NumPy's default casting, "unsafe"."""
    found = _casts.get(dtype)
    if found is None:
        found = _casts[dtype] = Elementwise(f"astype {dtype.str}", _cast, lambda x: dtype)
    return found


def _real_of(x: Kind) -> DType:
    return np.dtype(f"f{x.dtype.itemsize // 2}") if x.dtype.kind == "c" else x.dtype


def _real(x: Any, out: Any) -> None:
    np.copyto(out, np.real(x))


def _imag(x: Any, out: Any) -> None:
    np.copyto(out, np.imag(x))


def _complex(real: Any, imaginary: Any, out: Any) -> None:
    np.copyto(out.real, real)
    np.copyto(out.imag, imaginary)


REAL = Elementwise("real", _real, _real_of)
IMAG = Elementwise("imag", _imag, _real_of)
COMPLEX = Elementwise("complex", _complex, lambda real, imaginary: np.result_type(real.dtype, np.complex64))

_bits: dict[DType, Elementwise] = {}


def bits_as(dtype: DType) -> Elementwise:
    """Return the operation that reads the same bytes as elements of another dtype of the same item size."""
    found = _bits.get(dtype)
    if found is None:

        def call(x: Any, out: Any) -> None:
            np.copyto(out, x.view(dtype))

        found = _bits[dtype] = Elementwise(f"bits as {dtype.str}", call, lambda x: dtype)
    return found


_rounds: dict[int, Elementwise] = {}


def round_to(decimals: int) -> Elementwise:
    """Return the operation of `np.round` to so many decimals."""
    found = _rounds.get(decimals)
    if found is None:

        def call(x: Any, out: Any) -> None:
            # np.round does not broadcast into `out`, nor does it round integers to tens into some
            if x.dtype.kind in "biu" or x.shape != out.shape:
                np.copyto(out, np.round(x, decimals))
            else:
                np.round(x, decimals, out)

        found = _rounds[decimals] = Elementwise(
            f"round {decimals}", call, lambda x: np.round(np.empty(0, x.dtype), decimals).dtype
        )
    return found


def _angle(x: Any, out: Any) -> None:
    np.copyto(out, np.angle(x))


ANGLE = Elementwise("angle", _angle, lambda x: np.angle(np.empty(0, x.dtype)).dtype)


# --------------------------------------------------------------------------------- inference

_inferred: dict[Any, Kind] = {}


def infer(op: Elementwise, *kinds: Kind) -> Kind:
    """Return the kind of an operation's result.

    Raises ShapeError for shapes that do not broadcast, and NumPy's errors for dtypes that the operation does not take.
    """
    key = (op, *kinds)
    found = _inferred.get(key)
    if found is None:
        shape = broadcast_shape(op.called, *kinds)
        found = kind_of(shape, op.resolve(*kinds))
        if len(_inferred) > 1 << 16:
            _inferred.clear()
        _inferred[key] = found
    return found


def broadcast_shape(name: str, *kinds: Kind) -> tuple[int, ...]:
    """Return the shape to which several kinds broadcast; raise ShapeError, naming the operation, if there is none."""
    try:
        return np.broadcast_shapes(*[kind.shape for kind in kinds])
    except ValueError:
        shapes = " ".join(str(kind.shape) for kind in kinds if kind.weak is None)
        raise ShapeError(f"{name}: operands could not be broadcast together with shapes {shapes}") from None


def fits(value: int, dtype: DType, name: str) -> None:
    """Raise OverflowError, as NumPy does, for a Python integer outside the range of an integer dtype."""
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        if not limits.min <= value <= limits.max:
            raise OverflowError(f"{name}: Python integer {value} out of bounds for {dtype}")
