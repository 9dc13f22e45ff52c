"""Functions of every element: NumPy's ufuncs under their own names and the array API standard's."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from operator import index
from typing import Any, overload

import numpy as np

from bsp.arrays import build
from bsp.arrays.array import Array, wrap
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.expressions.graph import Node
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.views import own, store, view

# names of the standard that are not NumPy's
STANDARD = {
    "acos": "arccos", "acosh": "arccosh", "asin": "arcsin", "asinh": "arcsinh", "atan": "arctan",
    "atan2": "arctan2", "atanh": "arctanh", "bitwise_invert": "invert", "bitwise_left_shift": "left_shift",
    "bitwise_right_shift": "right_shift", "pow": "power", "abs": "absolute",
}  # fmt: skip


def ufunc_names() -> dict[str, np.ufunc]:
    """Every elementwise ufunc of NumPy by name; not those with a signature (matmul, vecdot), nor frompyfunc's."""
    return {
        name: found
        for name, found in sorted(vars(np).items())
        if isinstance(found, np.ufunc) and found.signature is None
    }


def called(ufunc: np.ufunc, *args: Any, out: Any = None, where: Any = True, dtype: Any = None, **others: Any) -> Any:
    """A ufunc applied; one result, or a tuple of several."""
    casting = others.pop("casting", "same_kind")
    if others.pop("order", "K") not in "KCA" or not others.pop("subok", True) or others:
        raise TypeError(f"{ufunc.__name__}: arrays take out, where, dtype and casting, not {sorted(others)}")
    if len(args) != ufunc.nin:
        raise TypeError(f"{ufunc.__name__}() takes {ufunc.nin} positional arguments but {len(args)} were given")
    nodes = [build.operand(arg) for arg in args]
    typed = None if dtype is None else element_type(dtype)
    outs = out if isinstance(out, tuple) else (out,) * ufunc.nout
    found = []
    for k, target in zip(range(ufunc.nout), outs, strict=True):
        node = build.apply(ew.of_ufunc(ufunc, k, typed, casting), *nodes)
        found.append(stored(wrap(node), target, where, ufunc.__name__, casting))
    return found[0] if len(found) == 1 else tuple(found)


def stored(found: Array, out: Any, where: Any = True, name: str = "result", casting: Any = "same_kind") -> Array:
    """What `out=` and `where=` ask for: the result becomes the value of another array, where a mask holds."""
    if out is None:
        if where is not True:
            raise TypeError(f"{name}: where= needs out=, for what it leaves alone has no value")
        return found
    if not isinstance(out, Array):
        raise TypeError(f"{name}: out= takes an array of bsp.arrays, not {type(out).__name__}")
    if not np.can_cast(found.dtype, out.dtype, casting):
        raise TypeError(
            f"Cannot cast {name} output from {found.dtype!r} to {out.dtype!r} with casting rule {casting!r}"
        )
    node = build.broadcast(found._node, out.shape) if found.shape != out.shape else found._node
    if where is not True:
        node = build.apply(ew.WHERE, build.operand(where), node, out._node)
    store(out, build.cast(node, out.dtype))
    return out


_MISSING: Any = object()
_KEYWORDS: dict[str, Any] = {"out": None, "where": True, "dtype": None, "casting": "same_kind"}


def _function(name: str, ufunc: np.ufunc) -> Callable[..., Any]:
    op = ew.of_ufunc(ufunc)
    one, two = ufunc.nin == 1 and ufunc.nout == 1, ufunc.nin == 2 and ufunc.nout == 1

    def function(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            if one and len(args) == 1 and type(args[0]) is Array:
                node = args[0]._node
                return wrap(Node(op, (node,), ew.infer(op, node.kind)))
            if two and len(args) == 2 and type(args[0]) is Array and type(args[1]) is Array:
                a, b = args[0]._node, args[1]._node
                return wrap(Node(op, (a, b), ew.infer(op, a.kind, b.kind)))
        return called(ufunc, *args, **kwargs)

    names = ["x"] if ufunc.nin == 1 else [f"x{k}" for k in range(1, ufunc.nin + 1)]
    function.__signature__ = Signature(  # type: ignore[attr-defined]  # known to inspect alone
        [Parameter(each, Parameter.POSITIONAL_ONLY) for each in names]
        + [Parameter(each, Parameter.KEYWORD_ONLY, default=value) for each, value in _KEYWORDS.items()]
    )
    function.__name__ = function.__qualname__ = name
    function.__doc__ = (
        f"numpy.{ufunc.__name__}, element by element.  Cost: its operations; no words where layouts agree."
    )
    return function


FUNCTIONS: dict[str, Callable[..., Any]] = {name: _function(name, ufunc) for name, ufunc in ufunc_names().items()}
FUNCTIONS |= {name: _function(name, getattr(np, of)) for name, of in STANDARD.items()}


def _rounding(name: str, ufunc: np.ufunc) -> Callable[..., Any]:
    plain = FUNCTIONS[name]

    def function(x: Any, /, **kwargs: Any) -> Any:
        if isinstance(x, Array) and x.dtype.kind in "iub" and not kwargs and x.dtype.kind != "b":
            return wrap(x._node)
        return plain(x, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = plain.__doc__
    return function


for _name in ("ceil", "floor", "trunc"):
    FUNCTIONS[_name] = _rounding(_name, getattr(np, _name))


@overload
def where(condition: Any, /) -> tuple[Array, ...]: ...
@overload
def where(condition: Any, x1: Any, x2: Any, /) -> Array: ...
def where(condition: Any, x1: Any = _MISSING, x2: Any = _MISSING, /) -> Any:
    """x1 where the condition holds, else x2; of a condition alone, the positions where it holds (see `nonzero`)."""
    if x1 is _MISSING:
        from bsp.arrays.selection.masks import nonzero  # it needs what is here

        return nonzero(condition)
    if x2 is _MISSING:
        raise ValueError("either both or neither of x and y should be given")
    nodes = [build.operand(each) for each in (condition, x1, x2)]
    if nodes[0].kind.dtype.kind != "b":
        nodes[0] = build.apply(ew.of_ufunc(np.not_equal), nodes[0], build.operand(0))
    return wrap(build.apply(ew.WHERE, *nodes))


def clip(x: Any, min: Any = None, max: Any = None, out: Any = None, *, a_min: Any = None, a_max: Any = None) -> Array:
    """x, but at least `min` and at most `max`; `a_min` and `a_max` are NumPy's other names for the two."""
    if (a_min is not None or a_max is not None) and (min is not None or max is not None):
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    min, max = (a_min, a_max) if min is None and max is None else (min, max)
    node = build.strong(build.operand(x))
    dtype = node.kind.dtype
    for bound, ufunc in ((min, np.maximum), (max, np.minimum)):
        if bound is not None:
            other = build.operand(bound)
            if other.kind.weak is int and dtype.kind in "iu":  # a bound beyond the dtype bounds nothing
                limits = np.iinfo(dtype)
                other = build.operand(np.clip(other.value, limits.min, limits.max).item())
            node = build.apply(ew.of_ufunc(ufunc), node, other)
    if min is None and max is None:
        node = build.apply(ew.COPY, node)
    return stored(wrap(node), out)


def round(x: Any, decimals: int = 0, out: Any = None) -> Array:
    """Rounded to so many decimals, halves to even."""
    node = build.strong(build.operand(x))
    return stored(wrap(build.apply(ew.round_to(index(decimals)), node)), out)


def real(x: Any) -> Array:
    """The real parts: a view; of real numbers all of it."""
    return _part(x, ew.REAL)


def imag(x: Any) -> Array:
    """The imaginary parts: a view; of real numbers zeros, which are not written to."""
    return _part(x, ew.IMAG)


def _part(x: Any, part: ew.Elementwise) -> Array:
    array = x if isinstance(x, Array) else wrap(build.strong(build.operand(x)))
    if array.dtype.kind == "c":
        return view(array, build.apply(part, array._node))
    if part is ew.REAL:
        return view(array, array._node)
    found = wrap(build.apply(part, build.strong(array._node)))
    own(found).writeable = False
    return found


def angle(x: Any, deg: bool = False) -> Array:
    """The arguments of complex numbers, in radians."""
    found = wrap(build.apply(ew.ANGLE, build.strong(build.operand(x))))
    return found * (180 / np.pi) if deg else found


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Array:
    """As another dtype; a copy, unless copy=False and it has this one."""
    node = build.operand(x)
    found = element_type(dtype, "astype")
    if not copy and isinstance(x, Array) and x.dtype == found:
        return x
    if node.kind.dtype.kind == "c" and found.kind not in "c":
        raise TypeError(f"astype: complex numbers are not cast to {found}; take real(x)")
    return wrap(build.cast(node, found))


def isclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Array:
    """|a - b| <= atol + rtol |b|, and equal infinities."""
    x, y = wrap(build.strong(build.operand(a))), wrap(build.strong(build.operand(b)))
    if y.dtype.kind in "iub":
        y = wrap(build.cast(y._node, np.dtype(np.float64)))
    f = FUNCTIONS
    near = f["less_equal"](f["absolute"](x - y), atol + rtol * f["absolute"](y))
    found: Array = (near & f["isfinite"](y)) | (x == y)
    if not equal_nan:
        return found
    both: Array = f["isnan"](x) & f["isnan"](y)
    return found | both


def nan_to_num(x: Any, copy: bool = True, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    """NaN and infinities as numbers; copy=False: in x itself."""
    if not copy and isinstance(x, Array):
        return stored(nan_to_num(x, True, nan, posinf, neginf), x)
    node = build.strong(build.operand(x))
    if node.kind.dtype.kind not in "fc":
        return wrap(build.apply(ew.COPY, node))
    if node.kind.dtype.kind == "c":
        parts = [nan_to_num(part(wrap(node)), copy, nan, posinf, neginf) for part in (real, imag)]
        return wrap(build.cast((parts[0] + 1j * parts[1])._node, node.kind.dtype))
    array = wrap(node)
    limits = np.finfo(node.kind.dtype)
    high = float(limits.max) if posinf is None else posinf
    low = float(limits.min) if neginf is None else neginf
    found = where(FUNCTIONS["isnan"](array), nan, array)
    found = where(found == np.inf, high, found)
    return where(found == -np.inf, low, found)


def _of_elements(name: str) -> Callable[..., Array]:
    """A function of NumPy's that treats each element by itself, though it is no ufunc."""
    theirs = getattr(np, name)

    def call(x: Any, out: Any) -> None:
        np.copyto(out, theirs(x))

    op = ew.Elementwise(name, call, lambda x: theirs(np.ones(1, x.dtype)).dtype)

    def function(x: Any, out: Any = None) -> Array:
        return stored(wrap(build.apply(op, build.strong(build.operand(x)))), out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"numpy.{name}, element by element.  Lazy."
    return function


FUNCTIONS |= {
    name: _of_elements(name)
    for name in ("sinc", "i0", "fix", "isneginf", "isposinf", "iscomplex", "isreal")
}  # fmt: skip
FUNCTIONS |= {each.__name__: each for each in (where, clip, round, real, imag, angle, astype, isclose, nan_to_num)}
FUNCTIONS["around"] = round
