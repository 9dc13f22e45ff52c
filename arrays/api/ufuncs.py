"""Functions of every element: NumPy's ufuncs under their own names and the array API standard's.

To add a ufunc, write one line below, `name = _unary("name")` or the like, and its name in `__all__`.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import Signature, signature
from operator import index
from typing import Any, Protocol, cast, overload

import numpy as np

from bsp.arrays import build
from bsp.arrays.array import Array, wrap
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.element_types import element_type
from bsp.arrays.expressions.graph import DType, Node
from bsp.arrays.kernels import elementwise as ew
from bsp.arrays.typing import ArrayLike, Casting, Device, DTypeLike
from bsp.arrays.views import own, store, view
from bsp.errors import ShapeError
from bsp.values.payload import is_abstract

__all__ = [
    "abs", "absolute", "acos", "acosh", "add", "angle", "arccos", "arccosh", "arcsin", "arcsinh", "arctan",
    "arctan2", "arctanh", "around", "asin", "asinh", "astype", "atan", "atan2", "atanh", "bitwise_and",
    "bitwise_count", "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift",
    "bitwise_xor", "cbrt", "ceil", "clip", "conj", "conjugate", "copysign", "cos", "cosh", "deg2rad", "degrees",
    "divide", "divmod", "equal", "exp", "exp2", "expm1", "fabs", "fix", "float_power", "floor", "floor_divide",
    "fmax", "fmin", "fmod", "frexp", "gcd", "greater", "greater_equal", "heaviside", "hypot", "i0", "imag",
    "invert", "isclose", "iscomplex", "isfinite", "isinf", "isnan", "isnat", "isneginf", "isposinf", "isreal",
    "lcm", "ldexp", "left_shift", "less", "less_equal", "log", "log1p", "log2", "log10", "logaddexp", "logaddexp2",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "mod", "modf", "multiply",
    "nan_to_num", "negative", "nextafter", "not_equal", "positive", "pow", "power", "rad2deg", "radians", "real",
    "reciprocal", "remainder", "right_shift", "rint", "round", "sign", "signbit", "sin", "sinc", "sinh", "spacing",
    "sqrt", "square", "subtract", "tan", "tanh", "true_divide", "trunc", "where",
]  # fmt: skip


def called(ufunc: np.ufunc, *args: Any, out: Any = None, where: Any = True, dtype: Any = None, **others: Any) -> Any:
    """Apply a ufunc; return one result, or a tuple of several."""
    casting = others.pop("casting", "same_kind")
    if others.pop("order", "K") not in "KCA" or not others.pop("subok", True) or others:
        raise TypeError(f"{ufunc.__name__}: arrays take out, where, dtype and casting, not {sorted(others)}")
    if out is None and ufunc.nin < len(args) <= ufunc.nargs:  # add(a, b, out), as in NumPy
        args, out = args[: ufunc.nin], (*args[ufunc.nin :], *[None] * (ufunc.nargs - len(args)))
    if len(args) != ufunc.nin:
        takes = f"{ufunc.__name__}() takes from {ufunc.nin} to {ufunc.nargs} positional arguments"
        raise TypeError(f"{takes} but {len(args)} were given")
    nodes = [build.operand(arg) for arg in args]
    if where is not True:  # no warning of what is left alone
        where = wrap(mask_of(where))
        nodes = [_ones_elsewhere(where._node, node) for node in nodes]
    typed = None if dtype is None else element_type(dtype)
    outs = out if isinstance(out, tuple) else (out,) * ufunc.nout
    found = []
    for k, target in zip(range(ufunc.nout), outs, strict=True):
        node = build.apply(ew.of_ufunc(ufunc, k, typed, casting), *nodes)
        found.append(stored(wrap(node), target, where, ufunc.__name__, casting))
    return found[0] if len(found) == 1 else tuple(found)


def _ones_elsewhere(mask: Node, node: Node) -> Node:
    """Return a node with ones where the mask does not hold; a number, or an array of another kind, as it is."""
    if not node.kind.shape or node.kind.dtype.kind not in "iufc":
        return node
    return build.apply(ew.WHERE, mask, node, build.cast(build.operand(1), node.kind.dtype))


def mask_of(where: Any) -> Node:
    """Return the argument `where=` as booleans.

    Raises TypeError for an array of another dtype, as NumPy does; numbers and lists hold where they are not 0.
    """
    node = build.strong(build.operand(where))
    if isinstance(where, (Array, np.ndarray)) and where.ndim and node.kind.dtype.kind != "b":
        raise TypeError(
            f"Cannot cast array data from {node.kind.dtype!r} to dtype('bool') according to the rule 'safe'"
        )
    return build.truth(node)


def stored(found: Array, out: Any, where: Any = True, name: str = "result", casting: Any = "same_kind") -> Array:
    """Carry out `out=` and `where=`: write a result into the array `out` where the mask `where` holds.

    Returns `out`, or the result itself if `out` is None.  Raises TypeError for a mask without `out`, for an `out` that
    is no distributed array, and where `casting` does not allow the cast to the dtype of `out`.
    """
    if out is None:
        if where is not True:
            raise TypeError(f"{name}: where= needs out=, for what it leaves alone has no value")
        return found
    if (isinstance(out, np.ndarray) or is_abstract(out)) and world().as_numpy:  # a script's small array, which is whole
        kept = where if where is True else wrap(mask_of(where)).compute()
        np.copyto(out, found.compute(), casting=casting, where=kept)
        return cast(Array, out)
    if not isinstance(out, Array):
        raise TypeError(f"{name}: out= takes an array of bsp.arrays, not {type(out).__name__}")
    if not np.can_cast(found.dtype, out.dtype, casting):
        raise TypeError(
            f"Cannot cast ufunc {name!r} output from {found.dtype!r} to {out.dtype!r} with casting rule {casting!r}"
        )
    node = build.broadcast(found._node, out.shape) if found.shape != out.shape else found._node
    node = build.cast(node, out.dtype)
    if where is not True:
        node = build.apply(ew.WHERE, mask_of(where), node, out._node)
    store(out, node)
    return out


def into(found: Array, out: Any, name: str = "result", casting: Any = "same_kind") -> Array:
    """Return `stored` of a function that broadcasts no result; raises ShapeError for an `out` of another shape."""
    if isinstance(out, (Array, np.ndarray)) and out.shape != found.shape:
        raise ShapeError(f"{name}: out= has shape {out.shape}, the result {found.shape}")
    return stored(found, out, name=name, casting=casting)


# ------------------------------------------------------------------------------------- ufuncs


_METHODS = ("accumulate", "at", "outer", "reduce", "reduceat")  # NumPy's own: an array among their operands has ours


class Unary(Protocol):
    """A ufunc of one operand, with NumPy's keyword arguments.  Lazy."""

    at: Callable[..., None]

    def __call__(
        self, x: ArrayLike, /, out: Array | None = None, *, where: ArrayLike = True, dtype: DTypeLike | None = None,
        casting: Casting = "same_kind",
    ) -> Array: ...  # fmt: skip


class Binary(Protocol):
    """A ufunc of two operands, with NumPy's keyword arguments and methods.  Lazy."""

    at: Callable[..., None]
    accumulate: Callable[..., Any]
    outer: Callable[..., Any]
    reduce: Callable[..., Any]
    reduceat: Callable[..., Any]

    def __call__(
        self, x1: ArrayLike, x2: ArrayLike, /, out: Array | None = None, *, where: ArrayLike = True,
        dtype: DTypeLike | None = None, casting: Casting = "same_kind",
    ) -> Array: ...  # fmt: skip


class UnaryPair(Protocol):
    """A ufunc of one operand with two results.  Lazy."""

    def __call__(
        self, x: ArrayLike, /, *, out: tuple[Array | None, Array | None] | None = None, where: ArrayLike = True,
        dtype: DTypeLike | None = None, casting: Casting = "same_kind",
    ) -> tuple[Array, Array]: ...  # fmt: skip


class BinaryPair(Protocol):
    """A ufunc of two operands with two results.  Lazy."""

    def __call__(
        self, x1: ArrayLike, x2: ArrayLike, /, *, out: tuple[Array | None, Array | None] | None = None,
        where: ArrayLike = True, dtype: DTypeLike | None = None, casting: Casting = "same_kind",
    ) -> tuple[Array, Array]: ...  # fmt: skip


def _named(function: Any, name: str, kind: type, of: str) -> Any:
    """Set the name, docstring and signature that help shows for a function made here."""
    first, *rest = signature(kind.__call__).parameters.values()
    assert first.name == "self"
    function.__signature__ = Signature(rest, return_annotation=signature(kind.__call__).return_annotation)
    function.__name__ = function.__qualname__ = name
    function.__doc__ = of
    theirs = getattr(np, name)
    for method in _METHODS if isinstance(theirs, np.ufunc) else ():
        setattr(function, method, getattr(theirs, method))
    return function


def _ufunc(name: str, kind: type) -> Any:
    ufunc: np.ufunc = getattr(np, name)
    op = ew.of_ufunc(ufunc)
    one, two = ufunc.nin == 1 and ufunc.nout == 1, ufunc.nin == 2 and ufunc.nout == 1

    def function(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:  # a shortcut for the most frequent calls
            if one and len(args) == 1 and type(args[0]) is Array:
                node = args[0]._node
                return wrap(Node(op, (node,), ew.infer(op, node.kind)))
            if two and len(args) == 2 and type(args[0]) is Array and type(args[1]) is Array:
                a, b = args[0]._node, args[1]._node
                return wrap(Node(op, (a, b), ew.infer(op, a.kind, b.kind)))
        return called(ufunc, *args, **kwargs)

    text = f"numpy.{ufunc.__name__}, element by element.  Cost: its operations; no words where layouts agree."
    return _named(function, name, kind, text)


def _unary(name: str) -> Unary:
    function: Unary = _ufunc(name, Unary)
    return function


def _binary(name: str) -> Binary:
    function: Binary = _ufunc(name, Binary)
    return function


def _unary_pair(name: str) -> UnaryPair:
    function: UnaryPair = _ufunc(name, UnaryPair)
    return function


def _binary_pair(name: str) -> BinaryPair:
    function: BinaryPair = _ufunc(name, BinaryPair)
    return function


def _rounding(name: str) -> Unary:
    """Return a rounding ufunc, which returns integers unchanged, as NumPy's does."""
    plain = _unary(name)

    def function(x: Any, /, *out: Any, **kwargs: Any) -> Any:
        if isinstance(x, Array) and x.dtype.kind in "iu" and not out and not kwargs:
            return wrap(x._node)
        return plain(x, *out, **kwargs)

    found: Unary = _named(function, name, Unary, str(plain.__doc__))
    return found


abs = _unary("abs")
absolute = _unary("absolute")
acos = _unary("acos")
acosh = _unary("acosh")
arccos = _unary("arccos")
arccosh = _unary("arccosh")
arcsin = _unary("arcsin")
arcsinh = _unary("arcsinh")
arctan = _unary("arctan")
arctanh = _unary("arctanh")
asin = _unary("asin")
asinh = _unary("asinh")
atan = _unary("atan")
atanh = _unary("atanh")
bitwise_count = _unary("bitwise_count")
bitwise_invert = _unary("bitwise_invert")
bitwise_not = _unary("bitwise_not")
cbrt = _unary("cbrt")
conj = _unary("conj")
conjugate = _unary("conjugate")
cos = _unary("cos")
cosh = _unary("cosh")
deg2rad = _unary("deg2rad")
degrees = _unary("degrees")
exp = _unary("exp")
exp2 = _unary("exp2")
expm1 = _unary("expm1")
fabs = _unary("fabs")
invert = _unary("invert")
isfinite = _unary("isfinite")
isinf = _unary("isinf")
isnan = _unary("isnan")
isnat = _unary("isnat")
log = _unary("log")
log10 = _unary("log10")
log1p = _unary("log1p")
log2 = _unary("log2")
logical_not = _unary("logical_not")
negative = _unary("negative")
positive = _unary("positive")
rad2deg = _unary("rad2deg")
radians = _unary("radians")
reciprocal = _unary("reciprocal")
rint = _unary("rint")
sign = _unary("sign")
signbit = _unary("signbit")
sin = _unary("sin")
sinh = _unary("sinh")
spacing = _unary("spacing")
sqrt = _unary("sqrt")
square = _unary("square")
tan = _unary("tan")
tanh = _unary("tanh")
ceil = _rounding("ceil")
floor = _rounding("floor")
trunc = _rounding("trunc")

add = _binary("add")
arctan2 = _binary("arctan2")
atan2 = _binary("atan2")
bitwise_and = _binary("bitwise_and")
bitwise_left_shift = _binary("bitwise_left_shift")
bitwise_or = _binary("bitwise_or")
bitwise_right_shift = _binary("bitwise_right_shift")
bitwise_xor = _binary("bitwise_xor")
copysign = _binary("copysign")
divide = _binary("divide")
equal = _binary("equal")
float_power = _binary("float_power")
floor_divide = _binary("floor_divide")
fmax = _binary("fmax")
fmin = _binary("fmin")
fmod = _binary("fmod")
gcd = _binary("gcd")
greater = _binary("greater")
greater_equal = _binary("greater_equal")
heaviside = _binary("heaviside")
hypot = _binary("hypot")
lcm = _binary("lcm")
ldexp = _binary("ldexp")
left_shift = _binary("left_shift")
less = _binary("less")
less_equal = _binary("less_equal")
logaddexp = _binary("logaddexp")
logaddexp2 = _binary("logaddexp2")
logical_and = _binary("logical_and")
logical_or = _binary("logical_or")
logical_xor = _binary("logical_xor")
maximum = _binary("maximum")
minimum = _binary("minimum")
mod = _binary("mod")
multiply = _binary("multiply")
nextafter = _binary("nextafter")
not_equal = _binary("not_equal")
pow = _binary("pow")
power = _binary("power")
remainder = _binary("remainder")
right_shift = _binary("right_shift")
subtract = _binary("subtract")
true_divide = _binary("true_divide")

frexp = _unary_pair("frexp")
modf = _unary_pair("modf")
divmod = _binary_pair("divmod")


# ------------------------------------------------- functions of every element that are no ufuncs


class ElementwiseFunction(Protocol):
    """An elementwise function that is not a ufunc: of a ufunc's arguments it takes `out` alone.  Lazy."""

    def __call__(self, x: ArrayLike, out: Array | None = None) -> Array: ...


def _elementwise(name: str) -> ElementwiseFunction:
    theirs = getattr(np, name)

    def call(x: Any, out: Any) -> None:
        np.copyto(out, theirs(x))

    op = ew.Elementwise(name, call, lambda x: theirs(np.ones(1, x.dtype)).dtype)

    def function(x: Any, out: Any = None) -> Array:
        return stored(wrap(build.apply(op, build.strong(build.operand(x)))), out)

    found: ElementwiseFunction = _named(
        function, name, ElementwiseFunction, f"numpy.{name}, element by element.  Lazy."
    )
    return found


sinc = _elementwise("sinc")
i0 = _elementwise("i0")
fix = _elementwise("fix")
isneginf = _elementwise("isneginf")
isposinf = _elementwise("isposinf")
iscomplex = _elementwise("iscomplex")
isreal = _elementwise("isreal")

_MISSING: Any = object()


@overload
def where(condition: ArrayLike, /) -> tuple[Array, ...]: ...
@overload
def where(condition: ArrayLike, x1: ArrayLike, x2: ArrayLike, /) -> Array: ...
def where(
    condition: ArrayLike, x1: ArrayLike = _MISSING, x2: ArrayLike = _MISSING, /
) -> Array | tuple[Array, ...]:  # fmt: skip
    """Return x1 where the condition holds, else x2; of a condition alone, the positions where it holds.

    The form with three arguments is lazy; that with one is `nonzero`, a collective.
    """
    if x1 is _MISSING:
        from bsp.arrays.selection.masks import nonzero  # here, because that module imports this one

        return nonzero(condition)
    if x2 is _MISSING:
        raise ValueError("either both or neither of x and y should be given")
    nodes = [build.operand(each) for each in (condition, x1, x2)]
    nodes[0] = build.truth(nodes[0])
    return wrap(build.apply(ew.WHERE, *nodes))


def clip(
    x: ArrayLike, min: ArrayLike | None = None, max: ArrayLike | None = None, out: Array | None = None, *,
    a_min: ArrayLike | None = None, a_max: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Return x limited to [min, max].  Lazy.

    min, max : bounds that broadcast to x; None: no bound.  `a_min` and `a_max` are NumPy's other names for the two.
    """
    if (a_min is not None or a_max is not None) and (min is not None or max is not None):
        raise ValueError("Passing `min` or `max` keyword argument when `a_min` and `a_max` are provided is forbidden.")
    min, max = (a_min, a_max) if min is None and max is None else (min, max)
    node = build.strong(build.operand(x))
    low, high = (None if bound is None else _bound(bound, node.kind.dtype) for bound in (min, max))
    if low is not None and high is not None:
        node = build.apply(ew.CLIP, node, low, high)
    elif low is not None:
        node = build.apply(ew.of_ufunc(np.maximum), node, low)
    elif high is not None:
        node = build.apply(ew.of_ufunc(np.minimum), node, high)
    else:
        node = build.apply(ew.COPY, node)
    return stored(wrap(node), out)


def _bound(bound: ArrayLike, dtype: DType) -> Node:
    """Return a bound of `clip` as an operand; a Python number beyond the range of an integer dtype has no effect."""
    other = build.operand(bound)
    if other.kind.weak is int and dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return build.operand(np.clip(other.value, limits.min, limits.max).item())
    return other


def round(x: ArrayLike, decimals: int = 0, out: Array | None = None) -> Array:
    """Round to a number of decimals, halves to even.  Lazy."""
    node = build.strong(build.operand(x))
    return stored(wrap(build.apply(ew.round_to(index(decimals)), node)), out)


around = round


def real(x: ArrayLike) -> Array:
    """Return the real parts as a view; of real numbers, a view of all of them."""
    return _part(x, ew.REAL)


def imag(x: ArrayLike) -> Array:
    """Return the imaginary parts as a view; for real numbers, read-only zeros."""
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


def angle(x: ArrayLike, deg: bool = False) -> Array:
    """Return the arguments of complex numbers, in radians, or in degrees if `deg` is true.  Lazy."""
    found = wrap(build.apply(ew.ANGLE, build.strong(build.operand(x))))
    return found * (180 / np.pi) if deg else found


def astype(x: ArrayLike, dtype: DTypeLike, /, *, copy: bool = True, device: Device = None) -> Array:
    """Return the elements as another dtype.  Lazy.

    copy : False returns x itself if it has this dtype already.
    Raises TypeError for complex numbers that would lose their imaginary parts.
    """
    node = build.operand(x)
    found = element_type(dtype, "astype")
    if not copy and isinstance(x, Array) and x.dtype == found:
        return x
    if node.kind.dtype.kind == "c" and found.kind not in "c":
        raise TypeError(f"astype: complex numbers are not cast to {found}; take real(x)")
    return wrap(build.cast(node, found))


def isclose(
    a: ArrayLike, b: ArrayLike, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Array:  # fmt: skip
    """Return where |a - b| <= atol + rtol |b|; equal infinities are close.  Lazy."""
    x, y = wrap(build.strong(build.operand(a))), wrap(build.strong(build.operand(b)))
    if y.dtype.kind in "iub":
        y = wrap(build.cast(y._node, np.dtype(np.float64)))
    near = less_equal(absolute(x - y), atol + rtol * absolute(y))
    found = (near & isfinite(y)) | (x == y)
    if not equal_nan:
        return found
    return found | (isnan(x) & isnan(y))


def nan_to_num(
    x: ArrayLike, copy: bool = True, nan: ArrayLike = 0.0, posinf: ArrayLike | None = None,
    neginf: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Replace NaN by `nan`, and infinities by `posinf` and `neginf`; None: by the largest and least finite numbers.

    copy : False writes into x itself.
    """
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
    found = array
    if posinf is None or neginf is None:
        low, high = limits.min.item(), limits.max.item()
        found = clip(array, low if neginf is None else None, high if posinf is None else None)
    if posinf is not None:
        found = where(array == np.inf, posinf, found)
    if neginf is not None:
        found = where(array == -np.inf, neginf, found)
    return where(isnan(array), nan, found)


FUNCTIONS: dict[str, Callable[..., Any]] = {name: globals()[name] for name in __all__}
