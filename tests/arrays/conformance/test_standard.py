"""The array API standard 2024.12: every name, every signature, and the values and dtypes of array-api-strict.

Arrays are really dealt here: nothing is small (REPLICATED_SIZE is 0), numbers and empty arrays included.
"""

from __future__ import annotations

import enum
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import bsp
import bsp.arrays as ba
from bsp.arrays import build, fft
from bsp.arrays.array import wrap
from bsp.arrays.errors import GatherRefused, GatherWarning
from bsp.arrays.execution import world as worlds
from bsp.arrays.expressions import layout

# ------------------------------------------------------------------------ names and signatures


def listed(text: str) -> list[str]:
    return text.split()


UNARY = listed(
    "abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite "
    "isinf isnan log log10 log1p log2 logical_not negative positive real reciprocal round sign signbit "
    "sin sinh sqrt square tan tanh trunc "
)
BINARY = listed(
    "add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide "
    "equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or "
    "logical_xor maximum minimum multiply nextafter not_equal pow remainder subtract "
)

SIGNATURES = {
    **dict.fromkeys(UNARY, "x, /"),
    **dict.fromkeys(BINARY, "x1, x2, /"),
    "all": "x, /, *, axis=None, keepdims=False",
    "any": "x, /, *, axis=None, keepdims=False",
    "arange": "start, /, stop=None, step=1, *, dtype=None, device=None",
    "argmax": "x, /, *, axis=None, keepdims=False",
    "argmin": "x, /, *, axis=None, keepdims=False",
    "argsort": "x, /, *, axis=-1, descending=False, stable=True",
    "asarray": "obj, /, *, dtype=None, device=None, copy=None",
    "astype": "x, dtype, /, *, copy=True, device=None",
    "broadcast_arrays": "*arrays",
    "broadcast_to": "x, /, shape",
    "can_cast": "from_, to, /",
    "clip": "x, /, min=None, max=None",
    "concat": "arrays, /, *, axis=0",
    "count_nonzero": "x, /, *, axis=None, keepdims=False",
    "cumulative_prod": "x, /, *, axis=None, dtype=None, include_initial=False",
    "cumulative_sum": "x, /, *, axis=None, dtype=None, include_initial=False",
    "diff": "x, /, *, axis=-1, n=1, prepend=None, append=None",
    "empty": "shape, *, dtype=None, device=None",
    "empty_like": "x, /, *, dtype=None, device=None",
    "expand_dims": "x, /, *, axis=0",
    "eye": "n_rows, n_cols=None, /, *, k=0, dtype=None, device=None",
    "finfo": "type, /",
    "flip": "x, /, *, axis=None",
    "from_dlpack": "x, /, *, device=None, copy=None",
    "full": "shape, fill_value, *, dtype=None, device=None",
    "full_like": "x, /, fill_value, *, dtype=None, device=None",
    "iinfo": "type, /",
    "isdtype": "dtype, kind",
    "linspace": "start, stop, /, num, *, dtype=None, device=None, endpoint=True",
    "matmul": "x1, x2, /",
    "matrix_transpose": "x, /",
    "max": "x, /, *, axis=None, keepdims=False",
    "mean": "x, /, *, axis=None, keepdims=False",
    "meshgrid": "*arrays, indexing='xy'",
    "min": "x, /, *, axis=None, keepdims=False",
    "moveaxis": "x, source, destination, /",
    "nonzero": "x, /",
    "ones": "shape, *, dtype=None, device=None",
    "ones_like": "x, /, *, dtype=None, device=None",
    "permute_dims": "x, /, axes",
    "prod": "x, /, *, axis=None, dtype=None, keepdims=False",
    "repeat": "x, repeats, /, *, axis=None",
    "reshape": "x, /, shape, *, copy=None",
    "result_type": "*arrays_and_dtypes",
    "roll": "x, /, shift, *, axis=None",
    "searchsorted": "x1, x2, /, *, side='left', sorter=None",
    "sort": "x, /, *, axis=-1, descending=False, stable=True",
    "squeeze": "x, /, axis",
    "stack": "arrays, /, *, axis=0",
    "std": "x, /, *, axis=None, correction=0.0, keepdims=False",
    "sum": "x, /, *, axis=None, dtype=None, keepdims=False",
    "take": "x, indices, /, *, axis=None",
    "take_along_axis": "x, indices, /, *, axis=-1",
    "tensordot": "x1, x2, /, *, axes=2",
    "tile": "x, repetitions, /",
    "tril": "x, /, *, k=0",
    "triu": "x, /, *, k=0",
    "unique_all": "x, /",
    "unique_counts": "x, /",
    "unique_inverse": "x, /",
    "unique_values": "x, /",
    "unstack": "x, /, *, axis=0",
    "var": "x, /, *, axis=None, correction=0.0, keepdims=False",
    "vecdot": "x1, x2, /, *, axis=-1",
    "where": "condition, x1, x2, /",
    "zeros": "shape, *, dtype=None, device=None",
    "zeros_like": "x, /, *, dtype=None, device=None",
    "__array_namespace_info__": "",
    "linalg.cholesky": "x, /, *, upper=False",
    "linalg.cross": "x1, x2, /, *, axis=-1",
    "linalg.det": "x, /",
    "linalg.diagonal": "x, /, *, offset=0",
    "linalg.eigh": "x, /",
    "linalg.eigvalsh": "x, /",
    "linalg.inv": "x, /",
    "linalg.matmul": "x1, x2, /",
    "linalg.matrix_norm": "x, /, *, keepdims=False, ord='fro'",
    "linalg.matrix_power": "x, n, /",
    "linalg.matrix_rank": "x, /, *, rtol=None",
    "linalg.matrix_transpose": "x, /",
    "linalg.outer": "x1, x2, /",
    "linalg.pinv": "x, /, *, rtol=None",
    "linalg.qr": "x, /, *, mode='reduced'",
    "linalg.slogdet": "x, /",
    "linalg.solve": "x1, x2, /",
    "linalg.svd": "x, /, *, full_matrices=True",
    "linalg.svdvals": "x, /",
    "linalg.tensordot": "x1, x2, /, *, axes=2",
    "linalg.trace": "x, /, *, offset=0, dtype=None",
    "linalg.vecdot": "x1, x2, /, *, axis=-1",
    "linalg.vector_norm": "x, /, *, axis=None, keepdims=False, ord=2",
    "fft.fft": "x, /, *, n=None, axis=-1, norm='backward'",
    "fft.fftfreq": "n, /, *, d=1.0, dtype=None, device=None",
    "fft.fftn": "x, /, *, s=None, axes=None, norm='backward'",
    "fft.fftshift": "x, /, *, axes=None",
    "fft.hfft": "x, /, *, n=None, axis=-1, norm='backward'",
    "fft.ifft": "x, /, *, n=None, axis=-1, norm='backward'",
    "fft.ifftn": "x, /, *, s=None, axes=None, norm='backward'",
    "fft.ifftshift": "x, /, *, axes=None",
    "fft.ihfft": "x, /, *, n=None, axis=-1, norm='backward'",
    "fft.irfft": "x, /, *, n=None, axis=-1, norm='backward'",
    "fft.irfftn": "x, /, *, s=None, axes=None, norm='backward'",
    "fft.rfft": "x, /, *, n=None, axis=-1, norm='backward'",
    "fft.rfftfreq": "n, /, *, d=1.0, dtype=None, device=None",
    "fft.rfftn": "x, /, *, s=None, axes=None, norm='backward'",
}
_OPERATORS = listed("add and eq floordiv ge gt le lshift lt matmul mod mul ne or pow rshift sub truediv xor ")
_COMPARISONS = ["eq", "ge", "gt", "le", "lt", "ne"]
CONVERSIONS = listed("abs bool complex float index int invert neg pos dlpack_device ")
METHODS = {
    **{f"__{name}__": "self, other, /" for name in _OPERATORS},
    **{f"__r{name}__": "self, other, /" for name in _OPERATORS if name not in _COMPARISONS},
    **{f"__i{name}__": "self, other, /" for name in _OPERATORS if name not in _COMPARISONS},
    **{f"__{name}__": "self, /" for name in CONVERSIONS},
    "__array_namespace__": "self, /, *, api_version=None",
    "__dlpack__": "self, /, *, stream=None, max_version=None, dl_device=None, copy=None",
    "__getitem__": "self, key, /",
    "__setitem__": "self, key, value, /",
    "to_device": "self, device, /, *, stream=None",
}


def found_by(name: str) -> Any:
    """The function of a name."""
    where: Any = ba
    for part in name.split("."):
        where = getattr(where, part)
    return where


def parameters(text: str) -> list[inspect.Parameter]:
    scope: dict[str, Any] = {}
    exec(f"def function({text}): ...", scope)
    return list(inspect.signature(scope["function"]).parameters.values())


def check_signature(function: Callable[..., Any], text: str) -> None:
    """Every call that the standard's signature allows is allowed, and means the same."""
    theirs, ours = parameters(text), list(inspect.signature(function).parameters.values())
    by_name = {each.name: each for each in ours}
    positional = [each for each in ours if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    used = set()
    for k, each in enumerate(theirs):
        if each.kind == each.VAR_POSITIONAL:
            assert any(own.kind == own.VAR_POSITIONAL for own in ours)
            continue
        if each.kind == each.POSITIONAL_ONLY:
            assert k < len(positional), f"no {each.name} at position {k}"
            own = positional[k]
        else:
            assert each.name in by_name, f"no {each.name}"
            own = by_name[each.name]
            assert own.kind in (own.KEYWORD_ONLY, own.POSITIONAL_OR_KEYWORD)
            if each.kind == each.POSITIONAL_OR_KEYWORD:
                assert positional[k] is own, f"{each.name} is not at position {k}"
        used.add(own.name)
        if each.default is not each.empty:
            assert own.default == each.default or (own.default is None and each.name == "correction"), each.name
    for own in ours:
        if own.name not in used and own.kind not in (own.VAR_POSITIONAL, own.VAR_KEYWORD):
            assert own.default is not own.empty, f"{own.name} must be given"


@pytest.mark.parametrize("name", sorted(SIGNATURES))
def test_every_function_of_the_standard_has_its_signature(name: str) -> None:
    check_signature(found_by(name), SIGNATURES[name])


@pytest.mark.parametrize("name", sorted(METHODS))
def test_every_method_of_the_standard_has_its_signature(name: str) -> None:
    check_signature(getattr(ba.Array, name), METHODS[name])


def test_the_table_of_names_is_the_whole_standard() -> None:
    later = {"broadcast_shapes", "isin", "linalg.eig", "linalg.eigvals"}  # of 2025.12
    for prefix, module in (("", strict), ("linalg.", strict.linalg), ("fft.", strict.fft)):
        names = {f"{prefix}{name}" for name in module.__all__ if inspect.isfunction(getattr(module, name))}
        names -= {f"{name}_array_api_strict_flags" for name in ("get", "set", "reset")}
        assert names - later <= set(SIGNATURES)


def test_constants_attributes_and_dtypes_are_there() -> None:
    assert (ba.e, ba.pi, ba.inf, ba.newaxis) == (np.e, np.pi, np.inf, None)
    assert np.isnan(ba.nan)
    assert ba.__array_api_version__ == "2024.12"
    for name in strict.__array_namespace_info__().dtypes():
        assert getattr(ba, name) == np.dtype(name)
    for name in ("T", "device", "dtype", "mT", "ndim", "shape", "size"):
        assert isinstance(inspect.getattr_static(ba.Array, name), property)


# -------------------------------------------------------------------------------- the oracle


def forget() -> None:
    layout.automatic.cache_clear()
    layout.asked.cache_clear()
    worlds._plans.clear()


@pytest.fixture(autouse=True)
def dealt() -> Iterator[None]:
    """Nothing is small, and strict is of 2024.12."""
    patch = pytest.MonkeyPatch()
    patch.setattr(layout, "REPLICATED_SIZE", 0)
    forget()
    with strict.ArrayAPIStrictFlags(api_version="2024.12"), np.errstate(all="ignore"):
        yield
    patch.undo()
    forget()


def given(values: np.ndarray) -> Any:
    """As an array of ours in as many blocks as there are elements, three along an axis at most."""
    return ba.asarray(values, grid=tuple(max(1, min(length, 3)) for length in values.shape))


def theirs(values: Any) -> Any:
    return strict.asarray(values) if isinstance(values, np.ndarray) else values


def plain(found: Any) -> Any:
    """What was found, as NumPy's arrays in nested tuples."""
    if isinstance(found, (tuple, list)):
        return tuple(plain(each) for each in found)
    if isinstance(found, ba.Array):
        assert isinstance(found, ba.Array)
        return found.compute()
    return np.asarray(found) if type(found).__module__.startswith("array_api_strict") else found


def agree(found: Any, expected: Any, where: str, factor: float = 8) -> None:
    """The same shapes, dtypes and values; zeros of the same sign."""
    if isinstance(expected, tuple):
        assert len(found) == len(expected), where
        for each, other in zip(found, expected, strict=True):
            agree(each, other, where, factor)
        return
    if not isinstance(expected, (np.ndarray, np.generic)):
        assert found == expected, where
        return
    assert (found.shape, found.dtype) == (expected.shape, expected.dtype), where
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected, where)
        return
    parts = (
        ((found.real, expected.real), (found.imag, expected.imag))
        if expected.dtype.kind == "c"
        else ((found, expected),)
    )
    for mine, other in parts:
        eps = np.finfo(expected.dtype).eps
        size = np.abs(expected[np.isfinite(expected)]).max(initial=0) if factor > 8 else 0
        relative = factor * eps if factor <= 8 else 0  # elementwise; else of the largest element
        np.testing.assert_allclose(mine, other, relative, 2 * factor * eps * size, err_msg=where)
        if factor <= 8:
            zero = other == 0
            np.testing.assert_array_equal(np.signbit(mine)[zero], np.signbit(other)[zero], where)


Case = tuple[str, Callable[..., Any], tuple[Any, ...]]


def compare(cases: list[Case], nprocs: int, factor: float = 8) -> int:
    """All cases in one run; what the oracle refuses is left out.  How many were compared."""
    expected = []
    for name, call, args in cases:
        try:
            with warnings.catch_warnings(action="ignore"):
                found = plain(call(strict, *[theirs(each) for each in args]))
        except (TypeError, ValueError, np.linalg.LinAlgError):
            continue
        expected.append((name, call, args, found))

    def main(proc: Any) -> Any:
        results = []
        for name, call, args, _ in expected:
            try:
                with np.errstate(all="ignore"):  # each process has its own
                    ours = [given(each) if isinstance(each, np.ndarray) else each for each in args]
                    results.append(plain(call(ba, *ours)))
            except Exception as error:
                error.add_note(f"in {name} of {args}")
                raise
        return results

    everywhere = bsp.run(main, nprocs=nprocs)
    for k, (name, _, args, other) in enumerate(expected):
        agree(everywhere[0][k], other, f"{name} of {args}", factor)
        for results in everywhere[1:]:
            np.testing.assert_equal(results[k], everywhere[0][k], f"{name} of {args}: processes differ")
    return len(expected)


SPECIAL = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, 2.5, -2.5, 3.0, 1e-5, 40.0]
KINDS = (
    np.bool_,
    np.int8,
    np.uint8,
    np.int32,
    np.int64,
    np.uint64,
    np.float32,
    np.float64,
    np.complex64,
    np.complex128,
)
SHAPES = ((), (1,), (0,), (5,), (2, 3), (3, 0))


def values(dtype: Any, shape: Any, seed: int = 0, special: bool = True) -> np.ndarray:
    """Small numbers of a dtype, special ones among them."""
    kind, size = np.dtype(dtype).kind, int(np.prod(shape))
    rng = np.random.default_rng([seed, size])
    if kind == "b":
        found = rng.integers(0, 2, size)
    elif kind == "u":
        found = rng.integers(0, 6, size)
    elif kind == "i":
        found = rng.integers(-5, 6, size)
    else:
        found = rng.choice(SPECIAL, size) if special else rng.normal(size=size).round(2)
        if kind == "c":
            found = found + 1j * rng.normal(size=size).round(2)
    return np.asarray(found).astype(dtype).reshape(shape)


def named(name: str) -> Callable[..., Any]:
    """A function by name, of whichever namespace."""

    def call(xp: Any, *args: Any, **kwargs: Any) -> Any:
        for part in name.split("."):
            xp = getattr(xp, part)
        return xp(*args, **kwargs)

    return call


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_element(name: str, nprocs: int) -> None:
    found_by(name)
    cases: list[Case] = []
    for dtype in KINDS:
        special = (name, np.dtype(dtype).kind) != ("sign", "c")  # an infinite one is NumPy's +-1 here, not inf/inf
        cases += [(name, named(name), (values(dtype, shape, special=special),)) for shape in SHAPES]
        if np.dtype(dtype).kind == "f":
            cases.append((name, named(name), (np.array(SPECIAL, dtype),)))
    assert compare(cases, nprocs) >= len(SHAPES)


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_elements(name: str, nprocs: int) -> None:
    found_by(name)
    cases: list[Case] = []
    pairs = [((5,), (5,)), ((2, 3), (3,)), ((), (2, 3)), ((1,), (0,)), ((), ()), ((3, 1), (1, 2))]
    for first in KINDS:
        for second in KINDS:
            left, right = pairs[len(cases) % len(pairs)]
            cases.append((name, named(name), (values(first, left), values(second, right, 1))))
    for dtype in (np.bool_, np.int64, np.float32):
        cases += [(name, named(name), (values(dtype, left), values(dtype, right, 1))) for left, right in pairs]
    for dtype in (np.float32, np.float64):
        every = np.array(SPECIAL, dtype)
        cases.append((name, named(name), (every[:, None], every[None, :])))
    assert compare(cases, nprocs) >= 5


SCALARS: list[Case] = [
    (f"{dtype.__name__} {name} {number!r}", call, (values(dtype, (5,), special=False),))
    for dtype in (np.int8, np.float32, np.complex64)
    for number in (2, 2.0, 2 + 0j)
    if type(number) is int or np.dtype(dtype).kind in ("c" if type(number) is complex else "fc")
    for name, call in {
        "+": lambda xp, x, n=number: x + n,
        "reflected -": lambda xp, x, n=number: n - x,
        "*": lambda xp, x, n=number: x * n,
        "**": lambda xp, x, n=number: x**n,
        "==": lambda xp, x, n=number: x == n,
    }.items()
]

_AXES: dict[Any, Any] = {
    (): (None,),
    (0,): (None, 0),
    (5,): (None, 0, -1),
    (2, 3): (None, 0, 1, (0, 1)),
    (3, 0): (None, 0, 1),
}


AGGREGATES = listed("all any count_nonzero max mean min prod std sum var argmax argmin ")


def reductions() -> list[Case]:
    cases: list[Case] = []
    for name in AGGREGATES:
        for dtype in KINDS:
            for shape, axes in _AXES.items():
                for axis in axes:
                    if name.startswith("arg") and isinstance(axis, tuple):
                        continue
                    x = values(dtype, shape, special=name in ("all", "any", "count_nonzero"))
                    for keepdims in (False, True):
                        call = lambda xp, x, f=name, a=axis, k=keepdims: getattr(xp, f)(x, axis=a, keepdims=k)  # noqa: E731
                        cases.append((f"{name} axis={axis} keepdims={keepdims}", call, (x,)))
    for name in ("sum", "prod", "cumulative_sum", "cumulative_prod"):
        for dtype in (np.int8, np.float32):
            for to in (np.int64, np.float64, np.float32):
                call = lambda xp, x, f=name, t=to: getattr(xp, f)(x, dtype=getattr(xp, np.dtype(t).name), axis=0)  # noqa: E731
                cases.append((f"{name} dtype={to.__name__}", call, (values(dtype, (5,), special=False),)))
    for name in ("cumulative_sum", "cumulative_prod"):
        for dtype in KINDS[1:]:
            for initial in (False, True):
                for shape in ((5,), (2, 3), (0,), (1,)):
                    call = lambda xp, x, f=name, i=initial: getattr(xp, f)(x, axis=-1, include_initial=i)  # noqa: E731
                    cases.append((f"{name} initial={initial}", call, (values(dtype, shape, special=False),)))
    for correction in (0, 1, 0.5, 9):
        for name in ("var", "std"):
            call = lambda xp, x, f=name, c=correction: getattr(xp, f)(x, correction=c)  # noqa: E731
            cases.append((f"{name} correction={correction}", call, (values(np.float64, (5,), special=False),)))
    for axis in (0, 1):
        for n in (1, 2):
            call = lambda xp, x, a=axis, n=n: xp.diff(x, axis=a, n=n)  # noqa: E731
            cases.append(("diff", call, (values(np.int64, (4, 3)),)))
    cases.append(("diff ends", lambda xp, x, y: xp.diff(x, prepend=y, append=y), (np.arange(5.0) ** 2, np.arange(2.0))))
    return cases


def manipulations() -> list[Case]:
    x, y, line, one = (values(np.int64, shape, k) for k, shape in enumerate([(2, 3), (4, 3), (5,), ()]))
    empty, cube = np.zeros((0, 3)), np.arange(24.0).reshape(2, 3, 4)
    small, narrow = values(np.float32, (2, 3)), values(np.int8, (2, 3), 1)
    found: list[tuple[str, Callable[..., Any], tuple[Any, ...]]] = [
        ("broadcast_arrays", lambda xp, a, b: xp.broadcast_arrays(a, b), (x, np.arange(3))),
        ("broadcast_to", lambda xp, a: xp.broadcast_to(a, (4, 2, 3)), (x,)),
        ("broadcast_to number", lambda xp, a: xp.broadcast_to(a, (2, 3)), (one,)),
        ("concat", lambda xp, a, b: xp.concat([a, b]), (x, y)),
        ("concat axis", lambda xp, a, b: xp.concat([a, b], axis=1), (x, narrow)),
        ("concat flat", lambda xp, a, b: xp.concat((a, b), axis=None), (x, line)),
        ("concat empty", lambda xp, a, b: xp.concat([a, b]), (empty, np.ones((1, 3)))),
        ("expand_dims", lambda xp, a: xp.expand_dims(a, axis=-2), (x,)),
        ("flip", lambda xp, a: xp.flip(a), (x,)),
        ("flip axis", lambda xp, a: xp.flip(a, axis=(0, -1)), (cube,)),
        ("moveaxis", lambda xp, a: xp.moveaxis(a, 0, -1), (cube,)),
        ("moveaxis several", lambda xp, a: xp.moveaxis(a, (0, 2), (1, 0)), (cube,)),
        ("permute_dims", lambda xp, a: xp.permute_dims(a, (2, 0, 1)), (cube,)),
        ("matrix_transpose", lambda xp, a: xp.matrix_transpose(a), (cube,)),
        ("T", lambda xp, a: a.T, (x,)),
        ("mT", lambda xp, a: a.mT, (cube,)),
        ("repeat", lambda xp, a: xp.repeat(a, 3), (x,)),
        ("repeat axis", lambda xp, a: xp.repeat(a, 2, axis=0), (x,)),
        ("repeat none", lambda xp, a: xp.repeat(a, 0, axis=1), (x,)),
        ("reshape", lambda xp, a: xp.reshape(a, (4, -1)), (cube,)),
        ("reshape number", lambda xp, a: xp.reshape(a, (1, 1)), (one,)),
        ("reshape empty", lambda xp, a: xp.reshape(a, (3, 0, 2)), (empty,)),
        ("roll", lambda xp, a: xp.roll(a, 2), (x,)),
        ("roll axis", lambda xp, a: xp.roll(a, (1, -4), axis=(0, 1)), (x,)),
        ("squeeze", lambda xp, a: xp.squeeze(a, axis=(0, 2)), (np.ones((1, 4, 1, 2)),)),
        ("stack", lambda xp, a, b: xp.stack([a, b], axis=-1), (x, narrow)),
        ("tile", lambda xp, a: xp.tile(a, (2, 1, 3)), (x,)),
        ("tile few", lambda xp, a: xp.tile(a, (2,)), (x,)),
        ("unstack", lambda xp, a: xp.unstack(a, axis=1), (cube,)),
        ("tril", lambda xp, a: xp.tril(a, k=-1), (cube,)),
        ("triu", lambda xp, a: xp.triu(a, k=1), (cube,)),
        ("meshgrid", lambda xp, a, b: xp.meshgrid(a, b), (line, np.arange(3))),
        ("meshgrid ij", lambda xp, a, b: xp.meshgrid(a, b, indexing="ij"), (line, np.arange(3))),
        ("where", lambda xp, a, b: xp.where(a > 0, a, b), (x, narrow)),
        ("where number", lambda xp, a: xp.where(a > 0, a, xp.asarray(7, dtype=xp.int8)), (x,)),
        ("clip", lambda xp, a: xp.clip(a, -1, 2), (x,)),
        ("clip below", lambda xp, a: xp.clip(a, min=0.5), (small,)),
        ("clip arrays", lambda xp, a, b: xp.clip(a, b, b + 1), (small, np.zeros((2, 1), np.float32))),
        ("astype", lambda xp, a: xp.astype(a, xp.float32), (x,)),
        ("astype bool", lambda xp, a: xp.astype(a, xp.bool), (small,)),
        ("asarray", lambda xp, a: xp.asarray(a, dtype=xp.float64), (x,)),
        ("arange", lambda xp: xp.arange(2, 9, 3), ()),
        ("arange dtype", lambda xp: xp.arange(5, dtype=xp.float32), ()),
        ("arange back", lambda xp: xp.arange(5.0, 0, -0.75), ()),
        ("linspace", lambda xp: xp.linspace(0, 1, 7), ()),
        ("linspace open", lambda xp: xp.linspace(1, 2, 5, endpoint=False, dtype=xp.float32), ()),
        ("eye", lambda xp: xp.eye(3, 5, k=1), ()),
        ("eye dtype", lambda xp: xp.eye(3, dtype=xp.int8), ()),
        ("zeros", lambda xp: xp.zeros((2, 3), dtype=xp.uint8), ()),
        ("ones", lambda xp: xp.ones(4), ()),
        ("full", lambda xp: xp.full((2, 2), 3), ()),
        ("full bool", lambda xp: xp.full((), True), ()),
        ("full_like", lambda xp, a: xp.full_like(a, 3), (small,)),
        ("full_like named", lambda xp, a: xp.full_like(a, fill_value=3, dtype=xp.int64), (small,)),
        ("ones_like", lambda xp, a: xp.ones_like(a), (x,)),
        ("zeros_like", lambda xp, a: xp.zeros_like(a, dtype=xp.complex64), (x,)),
        ("matmul", lambda xp, a, b: xp.matmul(a, b), (x, y.T.copy())),
        ("@", lambda xp, a, b: a @ b, (cube, np.arange(4.0))),
        ("tensordot", lambda xp, a, b: xp.tensordot(a, b, axes=((1,), (1,))), (x, y)),
        ("tensordot 0", lambda xp, a, b: xp.tensordot(a, b, axes=0), (line, x)),
        ("vecdot", lambda xp, a, b: xp.vecdot(a, b), (x, np.arange(3))),
        ("vecdot complex", lambda xp, a, b: xp.vecdot(a, b, axis=-2),
         (values(np.complex128, (2, 3), special=False), values(np.complex128, (2, 3), 1, special=False))),
        ("getitem", lambda xp, a: (a[1, ...], a[::-1, 1:, ...], a[:, None, ..., 0], a[-1, -1, -1]), (cube,)),
        ("getitem none", lambda xp, a: (a[...], a[None]), (one,)),
        ("getitem empty", lambda xp, a: (a[:0, ...], a[2:1, 0, ...]), (cube,)),
    ]  # fmt: skip
    return found


def searching() -> list[Case]:
    found: list[Case] = []
    for dtype in (np.int64, np.float32, np.uint8):
        for shape in ((7,), (1,), (0,), (4, 3)):
            x = values(dtype, shape, special=False)
            for descending in (False, True):
                for name in ("sort", "argsort"):
                    call = lambda xp, x, f=name, d=descending: getattr(xp, f)(x, descending=d)  # noqa: E731
                    found.append((name, call, (x,)))
            found.append(("sort axis", lambda xp, x: xp.sort(x, axis=0), (x,)))
            found += [
                (name, named(name), (x,)) for name in ("unique_values", "unique_counts", "unique_inverse", "unique_all")
            ]
            found.append(("nonzero", named("nonzero"), (x,)))
            found.append(("mask", lambda xp, x: x[x > 0], (x,)))
    line, table = np.array([1.0, 3.0, 3.0, 8.0]), np.arange(12).reshape(3, 4)
    for side in ("left", "right"):
        call = lambda xp, a, b, s=side: xp.searchsorted(a, b, side=s)  # noqa: E731
        found.append(("searchsorted", call, (line, np.array([0.0, 3.0, 9.0, 1.0]))))
    found += [
        ("take", lambda xp, a, i: xp.take(a, i, axis=1), (table, np.array([3, 0, 0]))),
        ("take line", lambda xp, a, i: xp.take(a, i), (line, np.array([2, 1]))),
        ("take_along_axis", lambda xp, a, i: xp.take_along_axis(a, i, axis=1), (table, np.array([[1], [0], [3]]))),
        ("nonzero", named("nonzero"), (table % 3,)),
    ]
    return found


def linear() -> list[Case]:
    found: list[Case] = []
    for dtype in (np.float32, np.float64, np.complex128):
        a = values(dtype, (3, 3), special=False) + 4 * np.eye(3, dtype=dtype)
        definite = a @ a.conj().T
        stack = np.stack([a, a.T, definite])
        for x in (a, stack, np.zeros((0, 3, 3), dtype)):
            for name in ("det", "inv", "slogdet", "matrix_norm", "matrix_rank", "pinv", "svdvals", "trace", "diagonal"):
                found.append((name, named(f"linalg.{name}"), (x,)))
            for ord in (1, 2, -2, float("inf"), "nuc"):
                call = lambda xp, x, o=ord: xp.linalg.matrix_norm(x, ord=o, keepdims=True)  # noqa: E731
                found.append((f"matrix_norm {ord}", call, (x,)))
            found.append(("matrix_power", lambda xp, x: xp.linalg.matrix_power(x, 3), (x,)))
            found.append(("solve", lambda xp, x: xp.linalg.solve(x, xp.ones((3, 2), dtype=x.dtype)), (x,)))
            found.append(("solve line", lambda xp, x: xp.linalg.solve(x, xp.ones((3,), dtype=x.dtype)), (x,)))
        found.append(("cholesky", named("linalg.cholesky"), (definite,)))
        found.append(("cholesky upper", lambda xp, x: xp.linalg.cholesky(x, upper=True), (definite,)))
        found.append(("eigvalsh", named("linalg.eigvalsh"), (definite,)))
        found.append(("eigh", lambda xp, x: xp.linalg.eigh(x).eigenvalues, (definite,)))
        for full in (False, True):
            call = lambda xp, x, f=full: xp.linalg.svd(x, full_matrices=f).S  # noqa: E731
            found.append(("svd", call, (values(dtype, (4, 2), special=False),)))
        call = lambda xp, x: xp.abs(xp.linalg.qr(x).R)  # noqa: E731
        found.append(("qr", call, (values(dtype, (5, 2), special=False),)))
        line, other = values(dtype, (4, 3), special=False), values(dtype, (3,), 1, special=False)
        found.append(("cross", lambda xp, x, y: xp.linalg.cross(x, xp.broadcast_to(y, (4, 3))), (line, other)))
        found.append(("outer", named("linalg.outer"), (other, line[0])))
        for ord in (0, 1, 2, 3, float("inf"), -float("inf")):
            for axis in (None, 0):
                call = lambda xp, x, o=ord, a=axis: xp.linalg.vector_norm(x, ord=o, axis=a)  # noqa: E731
                found.append((f"vector_norm {ord}", call, (line,)))
    return found


def transforms() -> list[Case]:
    found: list[Case] = []
    for dtype in (np.float32, np.float64, np.complex64, np.complex128):
        x = values(dtype, (4, 6), special=False)
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
            for n in (None, 5, 8):
                for norm in ("backward", "ortho", "forward"):
                    for axis in (0, -1):
                        call = lambda xp, x, f=name, n=n, a=axis, o=norm: getattr(xp.fft, f)(x, n=n, axis=a, norm=o)  # noqa: E731
                        found.append((f"{name} n={n} {norm} axis={axis}", call, (x,)))
            found.append((f"{name} of a line", named(f"fft.{name}"), (x[0].copy(),)))
        for name in ("fftn", "ifftn", "rfftn", "irfftn"):
            found.append((name, named(f"fft.{name}"), (x,)))
            call = lambda xp, x, f=name: getattr(xp.fft, f)(x, s=(3, 5), axes=(1, 0), norm="ortho")  # noqa: E731
            found.append((f"{name} s", call, (x,)))
        for name in ("fftshift", "ifftshift"):
            found.append((name, named(f"fft.{name}"), (x,)))
            found.append((f"{name} axes", lambda xp, x, f=name: getattr(xp.fft, f)(x, axes=1), (x[:, :5].copy(),)))
    for n in (1, 4, 5):
        found.append(("fftfreq", lambda xp, n=n: xp.fft.fftfreq(n, d=0.5), ()))
        found.append(("rfftfreq", lambda xp, n=n: xp.fft.rfftfreq(n, d=0.1), ()))
    return found


@pytest.mark.parametrize("nprocs", [1, 3])
def test_python_numbers_take_the_dtype_of_the_array(nprocs: int) -> None:
    assert compare(SCALARS, nprocs) == len(SCALARS)


@pytest.mark.thorough
@pytest.mark.parametrize("nprocs", [1, 3])
def test_statistical_functions(nprocs: int) -> None:
    assert compare(reductions(), nprocs, 50) > 700


@pytest.mark.parametrize("nprocs", [1, 3])
def test_creation_manipulation_and_products(nprocs: int) -> None:
    cases = manipulations()
    assert compare(cases, nprocs) == len(cases)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_searching_sorting_and_sets(nprocs: int) -> None:
    for name in ("sort", "argsort", "unique_all", "nonzero", "searchsorted", "take", "take_along_axis"):
        found_by(name)
    cases = searching()
    assert compare(cases, nprocs) == len(cases)


@pytest.mark.parametrize("nprocs", [1, 3])
def test_linear_algebra(nprocs: int) -> None:
    assert compare(linear(), nprocs, 300) > 150


@pytest.mark.parametrize("nprocs", [1, 3])
def test_fourier_transforms(nprocs: int) -> None:
    assert compare(transforms(), nprocs, 50) > 200


# ------------------------------------------------------------------- dtypes, conversions, others


def test_promotion_is_the_standards() -> None:
    for first in KINDS:
        for second in KINDS:
            try:
                expected = strict.result_type(*[getattr(strict, np.dtype(each).name) for each in (first, second)])
            except TypeError:
                continue
            assert ba.result_type(first, second) == expected._np_dtype
            assert ba.can_cast(first, second) == np.can_cast(first, second)
        for kind in ("bool", "signed integer", "unsigned integer", "integral", "real floating", "numeric"):
            mine = ba.isdtype(np.dtype(first), kind)
            assert mine == strict.isdtype(getattr(strict, np.dtype(first).name), kind)
    assert ba.iinfo(ba.int8).max == 127


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
def test_limits_of_floating_point_dtypes_are_python_numbers(dtype: Any) -> None:
    """Standard 2024.12, finfo: bits an int, the others floats, dtype that of the component; of a dtype or an array."""
    real = np.empty(0, dtype).real.dtype
    theirs = strict.finfo(getattr(strict, np.dtype(dtype).name))

    def main(proc: Any) -> None:
        for each in (dtype, np.dtype(dtype), given(np.ones(3, dtype)), given(np.ones((), dtype))):
            limits = ba.finfo(each)
            assert type(limits.bits) is int and limits.bits == 8 * real.itemsize
            for name in ("eps", "max", "min", "smallest_normal"):
                value = getattr(limits, name)
                assert type(value) is float
                assert value == float(getattr(np.finfo(real), name)) == getattr(theirs, name)
            assert limits.dtype == real
            assert real.type(1) + real.type(limits.eps) > 1 == real.type(1) + real.type(limits.eps / 2)
        assert ba.finfo(dtype).tiny == np.finfo(dtype).tiny  # NumPy's other names
        with pytest.raises(AttributeError):
            ba.finfo(dtype).nothing  # noqa: B018
        for wrong in (np.int32, np.bool_):
            with pytest.raises(ValueError, match="not inexact"):
                ba.finfo(wrong)

    bsp.run(main, nprocs=2)


def test_one_element_converts_on_every_process_and_more_do_not() -> None:
    def main(proc: Any) -> Any:
        number, whole, truth = given(np.array(2.5)), given(np.array(3)), given(np.array(True))
        found = [
            bool(truth), bool(given(np.array([[0.0]]))), int(number), float(whole), complex(number), float(truth),
            [10, 20, 30, 40][whole], number.item(), given(np.array([7]))[0].item(),
        ]  # fmt: skip
        for function, error in ((bool, ValueError), (int, TypeError), (float, TypeError), (complex, TypeError)):
            for shape in ((2,), (0,)):
                with pytest.raises(error):
                    function(given(np.ones(shape)))
        with pytest.raises(TypeError):
            [1, 2, 3][number]
        with pytest.raises(TypeError):
            range(given(np.array([1])))
        return found

    expected = [True, False, 2, 3.0, 2.5 + 0j, 1.0, 40, 2.5, 7]
    assert bsp.run(main, nprocs=3) == [expected] * 3


def test_the_library_describes_itself() -> None:
    info = ba.__array_namespace_info__()
    other = strict.__array_namespace_info__()
    assert info.capabilities() == {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}
    assert (info.default_device(), info.devices()) == ("cpu", ["cpu"])
    assert {name: dtype.name for name, dtype in info.default_dtypes().items()} == {
        "real floating": "float64", "complex floating": "complex128", "integral": "int64", "indexing": "int64",
    }  # fmt: skip
    for kind in (None, "bool", "signed integer", "integral", "numeric", "complex floating", ("bool", "real floating")):
        assert set(info.dtypes(kind=kind)) == set(other.dtypes(kind=kind))
        assert all(np.dtype(name) == dtype for name, dtype in info.dtypes(kind=kind).items())
    with pytest.raises(ValueError, match="unsupported kind: 'text'"):
        info.dtypes(kind="text")
    with pytest.raises(ValueError, match="device='gpu'"):
        info.default_dtypes(device="gpu")


def test_arrays_come_and_go_by_dlpack(monkeypatch: pytest.MonkeyPatch) -> None:
    a = np.arange(12.0).reshape(3, 4)

    def main(proc: Any) -> Any:
        x = given(a)
        assert x.__dlpack_device__() == (1, 0)
        found = np.from_dlpack(x)
        found[0] = 7  # a copy: x keeps its values
        assert ba.from_dlpack(x) is x
        back = ba.from_dlpack(a)
        with pytest.raises(ValueError, match="copy=False"):
            ba.from_dlpack(a, copy=False)
        with pytest.raises(BufferError, match="copy=False"):
            x.__dlpack__(copy=False)
        return x.compute(), back.compute()

    for x, back in bsp.run(main, nprocs=3):
        np.testing.assert_array_equal(x, a)
        np.testing.assert_array_equal(back, a)
    monkeypatch.setattr(sys.modules["bsp.arrays.array"], "GATHER_LIMIT", 50)  # `ba.array` is the function

    def refused(proc: Any) -> None:
        with pytest.raises(GatherRefused, match="__dlpack__ of shape"):
            given(a).__dlpack__()

    bsp.run(refused, nprocs=2)


KINDS_OF_DLPACK = ["bool", "int8", "uint16", "int32", "int64", "float32", "float64", "complex64", "complex128"]


class Device(enum.Enum):
    """The standard's: a tuple of an Enum and an int."""

    CPU = 1
    CUDA = 2


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (0, 2), (300, 200)])
@pytest.mark.parametrize("dtype", KINDS_OF_DLPACK)
def test_dlpack_takes_what_the_standard_lets_a_consumer_ask_for(dtype: str, shape: tuple[int, ...], p: int) -> None:
    """Standard 2024.12, __dlpack__: copy, dl_device, max_version; BufferError where an export is not possible."""
    data = (np.arange(np.prod(shape, dtype=int)).reshape(shape) % 7).astype(dtype)

    def main(proc: Any) -> None:
        for x in (given(data), given(data)[...].T.T):  # a leaf, and an expression
            for copied in ({}, {"copy": None}, {"copy": True}):
                for version in ({}, {"max_version": None}, *({"max_version": (k, 0)} for k in range(3))):
                    for device in ({}, {"dl_device": None}, {"dl_device": (1, 0)}, {"dl_device": (Device.CPU, 0)}):
                        assert "dltensor" in repr(x.__dlpack__(stream=None, **copied, **version, **device))
            for found in (np.from_dlpack(x), np.from_dlpack(x, copy=True), np.from_dlpack(x, device="cpu")):
                np.testing.assert_array_equal(found, data)
                assert found.dtype == data.dtype
                found[...] = 1  # its own
            for wrong in ({"stream": 1}, {"stream": -1}, {"dl_device": (2, 0)}, {"dl_device": (Device.CUDA, 0)},
                          {"dl_device": (1, 1)}):  # fmt: skip
                with pytest.raises(BufferError, match="arrays live on the CPU"):
                    x.__dlpack__(**wrong)
            np.testing.assert_array_equal(x.compute(), data)

    bsp.run(main, nprocs=p)


@pytest.mark.parametrize("p", [1, 3])
def test_dlpack_lends_the_memory_of_an_array_that_every_process_has_in_one_piece(p: int) -> None:
    data = np.arange(12.0).reshape(3, 4)

    def main(proc: Any) -> None:
        pieces = given(data)
        for dealt in (pieces, pieces + 1):
            with pytest.raises(BufferError, match="copy=False, but a distributed array has to be brought together"):
                dealt.__dlpack__(copy=False)
        one = wrap(build.everywhere(pieces._node))  # an expression: computing it is no copy
        for version in ({}, {"max_version": (0, 8)}, {"max_version": (1, 0)}, {"max_version": (2, 0)}):
            assert "dltensor" in repr(one.__dlpack__(copy=False, **version))
        lent = np.from_dlpack(one, copy=False)
        (block,) = one._node.value.values()
        assert np.shares_memory(lent, block)
        with pytest.raises(ValueError, match="read-only"):
            lent[0] = 1

    bsp.run(main, nprocs=p)


def test_the_namespace_is_that_of_the_array() -> None:
    def main(proc: Any) -> None:
        x = given(np.ones(3))
        assert x.__array_namespace__() is ba
        assert x.__array_namespace__(api_version="2024.12") is ba
        with pytest.raises(ValueError, match=r"follow 2024\.12"):
            x.__array_namespace__(api_version="1999.12")
        assert x.to_device("cpu") is x
        with pytest.raises(ValueError, match="cpu"):
            x.to_device("gpu")

    bsp.run(main, nprocs=2)


def test_one_long_line_is_transformed_with_a_warning_and_a_longer_one_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fft, "LINE", 1000)
    monkeypatch.setattr(fft, "SILENT_BYTES", 8000)
    line = np.arange(600.0)

    def main(proc: Any) -> Any:
        x = given(line)
        with pytest.warns(GatherWarning, match="fft of one line brings 0.0096 MB to each of 3 processes"):
            found = ba.fft.fft(x)
        with pytest.raises(GatherRefused, match="one line of 2000 elements"):
            ba.fft.fft(x, n=2000)
        return found.compute()

    for found in bsp.run(main, nprocs=3):
        np.testing.assert_allclose(found, np.fft.fft(line), rtol=0, atol=1e-11)


def test_transforms_along_an_axis_that_is_not_cut_move_nothing() -> None:
    def main(proc: Any) -> Any:
        x = ba.ones((6, 50), grid=(3, 1))
        cost = ba.fft.fft(x).cost()
        return cost.H

    assert bsp.run(main, nprocs=3) == [0] * 3


@pytest.mark.parametrize("nprocs", [1, 3])
@pytest.mark.parametrize("shape", [(0,), (3, 0)])
def test_real_transforms_of_no_elements_are_zeros(shape: tuple[int, ...], nprocs: int) -> None:
    def main(proc: bsp.Process) -> None:
        for transform in (ba.fft.irfft, ba.fft.hfft):
            np.ones((*shape[:-1], 5))  # freed memory, which NumPy's transforms of nothing are made of
            found = transform(ba.zeros(shape), n=5).compute()
            np.testing.assert_array_equal(found, np.zeros((*shape[:-1], 5)))

    bsp.run(main, nprocs=nprocs)
