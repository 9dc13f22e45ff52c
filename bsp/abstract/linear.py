"""Products and factorisations; the formulas for their flops are in `table`.

The docstring of a rule gives the function of NumPy and what it counts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from bsp.abstract import table
from bsp.abstract.array import into, result, scalar
from bsp.abstract.elementwise import cores, described, operand
from bsp.abstract.probe import DType, broadcast, outcome, shape_text
from bsp.abstract.table import TABLE, complexity, not_counted, product, product_kernel, rule
from bsp.abstract.work import counter

# ---------------------------------------------------------------------------------- products


def _count_product(m: int, k: int, n: int, dtype: DType) -> None:
    """Count a product of an (m, k) by a (k, n) matrix."""
    counter.flops(product_kernel(m, n, dtype, k), product(m, k, n) * complexity(dtype))


@rule("dot")
def dot(a: Any, b: Any, out: Any = None) -> Any:
    """numpy.dot: sums over the last axis of `a` and the second last of `b`; a plain product if one is a scalar."""
    (a_key, a_shape), (b_key, b_shape) = described(a), described(b)
    found = outcome(np.dot, a_key, b_key)
    if not a_shape or not b_shape:
        counter.flops("elementwise", prod(a_shape + b_shape) * complexity(found))
        return into(out, a_shape + b_shape, found)
    place = max(len(b_shape) - 2, 0)
    if a_shape[-1] != b_shape[place]:
        raise ValueError(
            f"shapes {shape_text(a_shape)} and {shape_text(b_shape)} not aligned: {a_shape[-1]} (dim "
            f"{len(a_shape) - 1}) != {b_shape[place]} (dim {place})"
        )
    left, right = a_shape[:-1], b_shape[:place] + b_shape[place + 1 :]
    _count_product(prod(left), a_shape[-1], prod(right), found)
    return into(out, left + right, found)


@rule("vdot")
def vdot(a: Any, b: Any) -> Any:
    """numpy.vdot: the dot product of all elements, as vectors."""
    (a_key, a_shape), (b_key, b_shape) = described(a), described(b)
    if prod(a_shape) != prod(b_shape):
        raise ValueError(f"cannot reshape array of size {prod(b_shape)} into shape ({prod(a_shape)},)")
    found = outcome(np.vdot, a_key, b_key)
    _count_product(1, prod(a_shape), 1, found)
    return scalar(found)


@rule("inner")
def inner(a: Any, b: Any) -> Any:
    """numpy.inner: sums over the last axes of both."""
    (a_key, a_shape), (b_key, b_shape) = described(a), described(b)
    found = outcome(np.inner, a_key, b_key)
    if not a_shape or not b_shape:
        counter.flops("elementwise", prod(a_shape + b_shape) * complexity(found))
        return result(a_shape + b_shape, found)
    if a_shape[-1] != b_shape[-1]:
        raise ValueError(
            f"shapes {shape_text(a_shape)} and {shape_text(b_shape)} not aligned: {a_shape[-1]} (dim "
            f"{len(a_shape) - 1}) != {b_shape[-1]} (dim {len(b_shape) - 1})"
        )
    _count_product(prod(a_shape[:-1]), a_shape[-1], prod(b_shape[:-1]), found)
    return result(a_shape[:-1] + b_shape[:-1], found)


@rule("einsum")
def einsum(
    subscripts: Any,
    *operands: Any,
    out: Any = None,
    dtype: Any = None,
    order: Any = "K",
    casting: Any = "safe",
    optimize: Any = False,
) -> Any:
    """numpy.einsum: as many flops as operands for each combination of the indices; BLAS-3 if optimised."""
    if not isinstance(subscripts, str):
        raise not_counted(np.einsum, " with lists of indices")
    described_all = [described(value) for value in operands]
    ranks = [(key, len(shape)) for key, shape in described_all]
    options = {} if dtype is None else {"dtype": np.dtype(dtype)}
    found = _einsum_dtype(subscripts, tuple(ranks), tuple(options.items()))
    sizes: dict[Any, int] = {}
    inputs, output = _labels(subscripts, tuple(len(shape) for _, shape in described_all))
    for labels, (_, shape) in zip(inputs, described_all, strict=True):
        for label, length in zip(labels, shape, strict=True):
            if sizes.get(label, 1) != length and 1 not in (sizes.get(label, 1), length):
                raise ValueError(
                    f"operands could not be broadcast together: index {label!r} has lengths {sizes[label]} and {length}"
                )
            sizes[label] = max(sizes.get(label, 1), length) if length else 0
    flops = max(len(operands), 1) * prod(sizes.values()) * complexity(found)
    fast = bool(optimize) and len(operands) > 1 and found.char in table.BLAS_KINDS
    counter.flops("blas3" if fast else "elementwise", flops)
    return into(out, tuple(sizes[label] for label in output), found)


@lru_cache(maxsize=1 << 10)
def _einsum_dtype(subscripts: str, ranks: tuple[Any, ...], options: tuple[tuple[str, Any], ...]) -> DType:
    """Return the dtype of the result; NumPy checks the subscripts, on operands of one element."""
    ones = [np.ones((1,) * ndim, key if isinstance(key, np.dtype) else type(key(1))) for key, ndim in ranks]
    return np.asarray(np.einsum(subscripts, *ones, **dict(options))).dtype


@lru_cache(maxsize=1 << 10)
def _labels(subscripts: str, ranks: tuple[int, ...]) -> tuple[list[list[Any]], list[Any]]:
    """Return the index at each axis of each operand, and of the result; those of `...` are negative numbers."""
    given, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = given.split(",")
    covered = 0
    inputs = []
    for term, ndim in zip(terms, ranks, strict=True):
        free = ndim - len(term.replace("...", ""))
        if "..." in term:
            covered = max(covered, free)
        inputs.append(_expanded(term, free))
    if arrow:
        return inputs, _expanded(output, covered)
    letters = given.replace(",", "").replace("...", "")
    once = sorted(letter for letter in set(letters) if letters.count(letter) == 1)
    return inputs, [*range(-covered, 0), *once]


def _expanded(term: str, free: int) -> list[Any]:
    """Return the indices of a term, with `free` negative numbers for its `...`."""
    before, dots, after = term.partition("...")
    return [*before, *(range(-free, 0) if dots else ()), *after]


@rule("convolve")
def convolve(a: Any, v: Any, mode: str = "full") -> Any:
    """numpy.convolve: a product and a sum for each pair of elements."""
    a, v = operand(a), operand(v)
    if a.ndim > 1 or v.ndim > 1:
        raise ValueError("object too deep for desired array")
    if not a.size or not v.size:
        raise ValueError("a cannot be empty")
    longer, shorter = max(a.size, v.size), min(a.size, v.size)
    lengths = {"full": longer + shorter - 1, "same": longer, "valid": longer - shorter + 1}
    if mode not in lengths:
        raise ValueError(f"mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    found = outcome(np.convolve, a.dtype, v.dtype)
    counter.flops("elementwise", product(1, longer, shorter) * complexity(found))
    return result((lengths[mode],), found)


@rule("correlate")
def correlate(a: Any, v: Any, mode: str = "valid") -> Any:
    """numpy.correlate: as convolve, but with mode 'valid' by default."""
    return convolve(a, v, mode)


# ------------------------------------------------ factorisations and transforms: the generalised ufuncs of NumPy's code


class Lapack(NamedTuple):
    """The work of a generalised ufunc of numpy.linalg for matrices of (m, n) and a last operand of k columns."""

    flops: Callable[[int, int, int], float]
    blocked: bool = True  # whether LAPACK factors by blocks of columns, so that some of the flops are BLAS-2


def _qr(mode: str) -> Callable[[int, int, int], float]:
    """Return the flops of making Q from the reflections of a matrix."""
    return lambda m, n, k: table.qr(m, n, mode) - table.qr(m, n, "r")


LAPACK: dict[str, Lapack] = {
    "solve": Lapack(lambda m, n, k: table.lu(m) + table.triangular_solves(m, k)),
    "solve1": Lapack(lambda m, n, k: table.lu(m) + table.triangular_solves(m, 1)),
    "inv": Lapack(lambda m, n, k: table.inverse(m)),
    **dict.fromkeys(("det", "slogdet"), Lapack(lambda m, n, k: table.lu(m) + m)),
    **dict.fromkeys(("cholesky_lo", "cholesky_up"), Lapack(lambda m, n, k: table.cholesky(m))),
    "qr_r_raw": Lapack(lambda m, n, k: table.qr(m, n, "r")),
    "qr_reduced": Lapack(_qr("reduced")),
    "qr_complete": Lapack(_qr("complete")),
    "svd": Lapack(lambda m, n, k: table.svd(m, n, False, False), False),
    "svd_s": Lapack(lambda m, n, k: table.svd(m, n, True, False), False),
    "svd_f": Lapack(lambda m, n, k: table.svd(m, n, True, True), False),
    **dict.fromkeys(("eigh_lo", "eigh_up"), Lapack(lambda m, n, k: table.eigh(m, True), False)),
    **dict.fromkeys(("eigvalsh_lo", "eigvalsh_up"), Lapack(lambda m, n, k: table.eigh(m, False), False)),
    "eig": Lapack(lambda m, n, k: table.eig(m, True), False),
    "eigvals": Lapack(lambda m, n, k: table.eig(m, False), False),
    "lstsq": Lapack(lambda m, n, k: table.least_squares(m, n, k), False),
}


def _routine(ufunc: np.ufunc) -> str:
    """Return the name of a generalised ufunc; older NumPy has two of some, for m < n and for m >= n: svd_m, svd_n."""
    return ufunc.__name__.replace("_m", "").replace("_n", "")


def lapack(ufunc: np.ufunc, inputs: tuple[Any, ...], signature: str) -> Any:
    """Return the results of a generalised ufunc of numpy.linalg; leading dimensions broadcast.

    signature : the dtypes' characters, as in "dd->d".
    """
    shapes = [described(value)[1] for value in inputs]
    taken, given = cores(str(ufunc.signature))
    sizes: dict[str, int] = {}
    for place, (names, shape) in enumerate(zip(taken, shapes, strict=True)):
        for name, length in zip(names, shape[len(shape) - len(names) :], strict=True):
            if sizes.setdefault(name, length) != length:
                raise ValueError(
                    f"{ufunc.__name__}: Input operand {place} has a mismatch in its core dimension, with gufunc "
                    f"signature {ufunc.signature} (size {length} is different from {sizes[name]})"
                )
    stack = broadcast(*[shape[: len(shape) - len(names)] for names, shape in zip(taken, shapes, strict=True)])
    m, n = shapes[0][-2:]
    sizes.setdefault("p", min(m, n))
    taking, _, giving = signature.partition("->")
    types = [np.dtype(char) for char in giving]
    how = LAPACK[_routine(ufunc)]
    flops = how.flops(m, n, shapes[min(1, len(shapes) - 1)][-1]) * prod(stack) * complexity(np.dtype(taking[0]))
    counter.factoring(flops, table.factored(min(m, n)) if how.blocked else 0.0)
    made = [result((*stack, *[sizes[name] for name in names]), kind) for names, kind in zip(given, types, strict=True)]
    return made[0] if len(made) == 1 else tuple(made)


def transform(ufunc: np.ufunc, points_in: Any, out: Any, axes: Any) -> Any:
    """Return the result of a Fourier transform of numpy.fft: 5n log2 n flops for a line of n, half for a real one."""
    (made,), (axis,) = out, axes[-1]
    points, name = made.shape[axis], ufunc.__name__
    if name.startswith("rfft") and points_in.dtype.kind == "c":
        raise TypeError(f"ufunc '{name}' not supported for the input types: a real transform of complex numbers")
    n = 2 * (points - 1) + name.endswith("odd") if name.startswith("rfft") else points
    lines = made.size // max(points, 1)
    counter.flops("elementwise", lines * table.fourier(n) * (0.5 if "rfft" in name else 1))
    return made


def _of_numpys(ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a generalised ufunc that numpy.linalg or numpy.fft calls."""
    if _routine(ufunc) in LAPACK:
        return lapack(ufunc, inputs, kwargs["signature"])
    if "fft" in ufunc.__name__:
        return transform(ufunc, inputs[0], kwargs["out"], kwargs["axes"])
    return None


TABLE["numpys"] = _of_numpys
