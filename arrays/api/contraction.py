"""Products summed over indices: matmul, dot, tensordot, einsum, outer, inner, vecdot, kron; and cross products.

All are lazy.  The planner chooses the process grid; a chain of products is bracketed by its shapes (see `matmul`).
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from string import ascii_lowercase, ascii_uppercase
from types import EllipsisType
from typing import Any

import numpy as np

from bsp.arrays import build
from bsp.arrays.api.creation import asarray
from bsp.arrays.api.manipulation import expand_dims, moveaxis, ravel, reshape, stack
from bsp.arrays.api.ufuncs import stored
from bsp.arrays.array import Array, wrap
from bsp.arrays.expressions.graph import Access, Node
from bsp.arrays.expressions.layout import Shape
from bsp.arrays.kernels.aggregates import SUM
from bsp.arrays.typing import ArrayLike, Optimize
from bsp.arrays.views import view
from bsp.errors import ShapeError

__all__ = [
    "cross", "dot", "einsum", "einsum_path", "inner", "kron", "matmul", "matvec", "outer", "tensordot", "vdot",
    "vecdot", "vecmat",
]  # fmt: skip


_LETTERS = ascii_uppercase + ascii_lowercase  # of the indices 0, 1, ... of einsum's lists, in NumPy's order


def _pair(a: Any, b: Any) -> tuple[Node, Node]:
    return build.strong(build.operand(a)), build.strong(build.operand(b))


def matmul(x1: ArrayLike, x2: ArrayLike, /, out: Array | None = None) -> Array:
    """Return matrix products over the last two axes; the others broadcast, and vectors are taken as in NumPy.

    Cost: 2mnk/p flops.  The planner chooses the grid of all p processes that moves the fewest words: rows where one
    factor is small, partial sums where the summed index is long (h = (p-1)/p · 2mn), pm × pn where both matter
    (h = mk/pm + kn/pn), or pm × pn × pk (McColl 1.6.2).  One superstep, two where partial sums are merged.

    A @ B @ v is multiplied from the right, since that takes at most half the operations: a chain of products of one
    dtype that nothing else uses is bracketed again, by its shapes alone.  A part that was
    persisted is computed as it is written.
    """
    return stored(_product(*_pair(x1, x2)), out, name="matmul")


def _product(a: Node, b: Node) -> Array:
    left, right = a.kind.shape, b.kind.shape
    if not left or not right:
        raise ValueError("matmul: Input operand does not have enough dimensions")
    met = right[-2 if len(right) > 1 else 0]
    if left[-1] != met:
        raise ShapeError(f"matmul: shapes {left} and {right} do not match: {left[-1]} columns meet {met} rows")
    if len(left) > 2 or len(right) > 2:
        if len(left) == 1 or len(right) == 1:
            return _with_vector(a, b)
        batch = np.broadcast_shapes(left[:-2], right[:-2])
        a, b = build.broadcast(a, (*batch, *left[-2:])), build.broadcast(b, (*batch, *right[-2:]))
        lead = tuple(range(len(batch)))
        i, j, k = len(lead), len(lead) + 1, len(lead) + 2
        return wrap(build.contracted(a, b, (*lead, i, k), (*lead, k, j), (*lead, i, j)))
    rows = (0,) if len(left) == 2 else ()
    columns = (1,) if len(right) == 2 else ()
    return wrap(build.contracted(a, b, (*rows, 2), (2, *columns), (*rows, *columns)))


def _with_vector(a: Node, b: Node) -> Array:
    left, right = len(a.kind.shape), len(b.kind.shape)
    lead = tuple(range(max(left, right) - 2))
    i, k = len(lead), len(lead) + 1
    if right == 1:
        return wrap(build.contracted(a, b, (*lead, i, k), (k,), (*lead, i)))
    return wrap(build.contracted(a, b, (k,), (*lead, k, i), (*lead, i)))


def tensordot(
    x1: ArrayLike, x2: ArrayLike, /, axes: int | tuple[int | Sequence[int], int | Sequence[int]] = 2
) -> Array:
    """Return sums of products over pairs of axes.  Cost: as `matmul`.

    axes : the number of axes, the last of x1 with the first of x2; or the axes of x1 and those of x2.
    """
    a, b = _pair(x1, x2)
    left, right = len(a.kind.shape), len(b.kind.shape)
    if isinstance(axes, (int, np.integer)):
        if axes < 0 or axes > min(left, right):
            raise ValueError(f"tensordot: axes={axes} of arrays of {left} and {right} dimensions")
        over_a, over_b = list(range(left - axes, left)), list(range(axes))
    else:
        of_a, of_b = ([each] if isinstance(each, (int, np.integer)) else list(each) for each in axes)
        over_a, over_b = of_a, of_b
    over_a = [build.normal_axis(axis, left) for axis in over_a]
    over_b = [build.normal_axis(axis, right) for axis in over_b]
    if len(over_a) != len(over_b) or any(
        a.kind.shape[i] != b.kind.shape[j] for i, j in zip(over_a, over_b, strict=False)
    ):
        raise ShapeError(f"shape-mismatch for sum: {a.kind.shape} over {over_a} and {b.kind.shape} over {over_b}")
    labels_a = list(range(left))
    labels_b = [left + axis for axis in range(right)]
    for i, j in zip(over_a, over_b, strict=True):
        labels_b[j] = labels_a[i]
    out = [labels_a[axis] for axis in range(left) if axis not in over_a]
    out += [labels_b[axis] for axis in range(right) if axis not in over_b]
    return wrap(build.contracted(a, b, tuple(labels_a), tuple(labels_b), tuple(out)))


def dot(a: ArrayLike, b: ArrayLike, out: Array | None = None) -> Array:
    """Return NumPy's dot: a product with a number, or sums over the last axis of a and the last but one of b.

    Cost: as `matmul`.
    """
    x, y = _pair(a, b)
    left, right = len(x.kind.shape), len(y.kind.shape)
    if not left or not right:
        found = wrap(x) * wrap(y)
    elif right == 1:
        found = tensordot(wrap(x), wrap(y), axes=([left - 1], [0]))
    elif left <= 2 and right == 2:
        found = matmul(wrap(x), wrap(y))
    else:
        found = tensordot(wrap(x), wrap(y), axes=([left - 1], [right - 2]))
    return stored(found, out)


def inner(a: ArrayLike, b: ArrayLike) -> Array:
    """Return sums of products over the last axes of both.  Cost: as `matmul`."""
    x, y = _pair(a, b)
    if not x.kind.shape or not y.kind.shape:
        return wrap(x) * wrap(y)
    return tensordot(wrap(x), wrap(y), axes=([-1], [-1]))


def outer(a: ArrayLike, b: ArrayLike, out: Array | None = None) -> Array:
    """Return the products of all pairs of elements of two vectors."""
    x, y = asarray(a), asarray(b)
    x, y = x if x.ndim == 1 else ravel(x), y if y.ndim == 1 else ravel(y)
    return stored(x[:, None] * y[None, :], out)


def vecdot(x1: ArrayLike, x2: ArrayLike, /, *, axis: int = -1) -> Array:
    """Return sums of products along an axis, the first factor conjugated.  Cost: as `matmul`."""
    a, b = asarray(x1), asarray(x2)
    if not a.ndim or not b.ndim:
        raise ValueError("vecdot: arrays of one dimension or more")
    x, y = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    if x.shape[-1] != y.shape[-1]:
        raise ShapeError(f"vecdot along axis {axis}: shapes {a.shape} and {b.shape} do not match")
    if x.dtype.kind == "c":
        x = x.conj()
    lead = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    labels = tuple(range(len(lead) + 1))
    p, q = (build.broadcast(each._node, (*lead, each.shape[-1])) for each in (x, y))
    return wrap(build.contracted(p, q, labels, labels, labels[:-1]))


def vdot(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the sum of products of all elements in C order, the first factor conjugated."""
    x, y = ravel(a), ravel(b)
    if x.shape != y.shape:
        raise ShapeError(f"cannot reshape array of size {x.size} into shape {y.shape}")
    return vecdot(x, y)


def matvec(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return products of matrices and vectors over the last axis of both; the others broadcast.

    Raises ShapeError if a matrix has not as many columns as a vector has elements.
    """
    a, b = asarray(x1), asarray(x2)
    _matched("matvec", a, b, a.shape[-1:], b.shape[-1:])
    return einsum("...ij,...j->...i", a, b)


def vecmat(x1: ArrayLike, x2: ArrayLike, /) -> Array:
    """Return products of conjugated vectors and matrices; the other axes broadcast.

    Raises ShapeError if a matrix has not as many rows as a vector has elements.
    """
    a, b = asarray(x1), asarray(x2)
    _matched("vecmat", a, b, a.shape[-1:], b.shape[-2:-1])
    return einsum("...i,...ij->...j", a.conj() if a.dtype.kind == "c" else a, b)


def _matched(name: str, a: Array, b: Array, first: Shape, second: Shape) -> None:
    """Raise ShapeError if two lengths differ that are summed over; einsum would repeat a length of 1."""
    if first and second and first != second:
        raise ShapeError(f"{name}: shapes {a.shape} and {b.shape} do not match: lengths {first[0]} and {second[0]}")


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """Return the Kronecker product.  Lazy.

    Cost: a multiplication for each element of the result; those that are computed elsewhere than where the result has
    them are exchanged, at most h = size/p in S = 1.
    """
    x, y = asarray(a), asarray(b)
    ndim = max(x.ndim, y.ndim)
    x, y = reshape(x, (1,) * (ndim - x.ndim) + x.shape), reshape(y, (1,) * (ndim - y.ndim) + y.shape)
    wide = expand_dims(x, axis=tuple(range(1, 2 * ndim, 2))) * expand_dims(y, axis=tuple(range(0, 2 * ndim, 2)))
    return reshape(wide, tuple(m * n for m, n in zip(x.shape, y.shape, strict=True)))


def einsum(
    subscripts: str | ArrayLike, *operands: ArrayLike | Sequence[int | EllipsisType], optimize: Optimize = True,
    out: Array | None = None,
) -> Array:  # fmt: skip
    """Return sums of products over named indices: `einsum('ij,jk->ik', a, b)`.

    `einsum(a, [0, 1], b, [1, 2], [0, 2])` names them by numbers, in lists after the operands.

    Several operands are multiplied pair by pair, or all on one process grid; the planner chooses by the machine.  Pairs
    take the fewest flops.  One grid keeps partial products on the processes that compute them (MTTKRP moves faces of
    the tensor's blocks and nothing else).  Cost: for each pair that of `matmul`.
    optimize : accepted for NumPy's signature, without effect: the order is always chosen.
    For one operand without a sum the result is a view, which is read-only if it shows a diagonal.
    """
    if not isinstance(subscripts, str):
        subscripts, operands = _lettered(subscripts, *operands)
    nodes = [build.strong(build.operand(each)) for each in operands]
    inputs, output = _subscripts(subscripts, nodes)
    extents: dict[str, int] = {}
    for labels, node in zip(inputs, nodes, strict=True):
        for label, length in zip(labels, node.kind.shape, strict=True):
            if extents.setdefault(label, length) not in (length, 1) and length != 1:
                raise ShapeError(f"einsum '{subscripts}': index {label!r} has length {extents[label]} and {length}")
            extents[label] = max(extents[label], length) if 0 not in (extents[label], length) else 0
    terms = [_diagonal(subscripts, labels, node) for labels, node in zip(inputs, nodes, strict=True)]
    terms = [_without_ones(labels, node, extents) for labels, node in terms]
    if len(terms) > 1:
        every = dict.fromkeys(label for labels, _ in terms for label in labels)
        number = {label: k for k, label in enumerate(every)}
        kept = tuple(label for label in output if label in every)
        node = build.contracted_all(
            [node for _, node in terms], [tuple(number[label] for label in labels) for labels, _ in terms],
            tuple(number[label] for label in kept),
        )  # fmt: skip
        terms = [(kept, node)]
    ((labels, node),) = terms
    summed = tuple(axis for axis, label in enumerate(labels) if label not in output)
    if summed:
        dtype = node.kind.dtype
        node = build.cast(build.reduced(node, SUM, summed, False), dtype)
        labels = tuple(label for label in labels if label in output)
    present = [label for label in output if label in labels]
    node = build.permuted(node, [labels.index(label) for label in present])
    if len(present) < len(output):  # indices that have length 1 in all operands
        node = build.expanded(node, [k for k, label in enumerate(output) if label not in present])
    if out is None and len(operands) == 1 and not summed and isinstance(operands[0], Array):
        return view(operands[0], node, writeable=len(set(inputs[0])) == len(inputs[0]))
    return stored(wrap(node), out)


def einsum_path(
    subscripts: str, *operands: ArrayLike, optimize: Optimize = "greedy"
) -> tuple[list[Any], str]:  # fmt: skip
    """Return numpy.einsum_path, which needs shapes alone.  Local; `einsum` chooses an order of its own."""
    shaped = [np.broadcast_to(np.zeros((), asarray(each).dtype), asarray(each).shape) for each in operands]
    return np.einsum_path(subscripts, *shaped, optimize=optimize)


def _lettered(*given: Any) -> tuple[str, tuple[Any, ...]]:
    """Return subscripts as text, and the operands, of operands that alternate with lists of indices."""
    if len(given) < 2 or isinstance(given[1], str):
        raise TypeError("einsum: subscripts, as 'ij,jk->ik', or a list of indices after each operand")
    try:
        terms = [
            "".join("..." if k is Ellipsis else _LETTERS[index(k)] for k in each)
            for each in (*given[1::2], *given[len(given) // 2 * 2 :])
        ]
    except IndexError:
        raise ValueError(f"einsum: indices in lists are from 0 to {len(_LETTERS) - 1}") from None
    count = len(given) // 2
    return "->".join([",".join(terms[:count]), *terms[count:]]), given[: 2 * count : 2]


def _subscripts(subscripts: str, nodes: list[Node]) -> tuple[list[tuple[str, ...]], tuple[str, ...]]:
    """Return the labels of each operand and of the result; `...` becomes labels that are numbers."""
    text = subscripts.replace(" ", "")
    sides, arrow, result = text.partition("->")
    terms = sides.split(",")
    if len(terms) != len(nodes):
        raise ValueError(f"einsum '{subscripts}': {len(terms)} terms for {len(nodes)} operands")
    inputs: list[tuple[str, ...]] = []
    most = 0
    for term, node in zip(terms, nodes, strict=True):
        ndim = len(node.kind.shape)
        named = term.replace("...", "")
        if not all(label.isalpha() for label in named):
            raise ValueError(f"einsum '{subscripts}': indices are letters, not {named!r}")
        if ("..." not in term and len(named) != ndim) or len(named) > ndim:
            raise ValueError(f"einsum '{subscripts}': term {term!r} for an operand of {ndim} dimensions")
        spread = ndim - len(named) if "..." in term else 0
        most = max(most, spread)
        before, _, after = term.partition("...")
        inputs.append((*before, *[f"#{k}" for k in range(-spread, 0)], *after) if "..." in term else tuple(term))
    if arrow:
        before, dots, after = result.partition("...")
        output = (*before, *([f"#{k}" for k in range(-most, 0)] if dots else []), *after)
    else:
        every = [label for labels in inputs for label in labels]
        once = sorted(label for label in set(every) if every.count(label) == 1 and not label.startswith("#"))
        output = (*[f"#{k}" for k in range(-most, 0)], *once)
    known = {label for labels in inputs for label in labels}
    for label in output:
        if label not in known or output.count(label) > 1:
            raise ValueError(f"einsum '{subscripts}': output index {label!r} appears in no term, or twice")
    return inputs, tuple(output)


def _diagonal(subscripts: str, labels: tuple[str, ...], node: Node) -> tuple[tuple[str, ...], Node]:
    """Return labels without repetitions, and a view of the diagonals that repeated labels take."""
    unique = tuple(dict.fromkeys(labels))
    if len(unique) == len(labels):
        return labels, node
    extents = dict(zip(labels, node.kind.shape, strict=True))
    for label, length in zip(labels, node.kind.shape, strict=True):
        if length != extents[label]:
            what = f"index {label!r} of one operand has length {length} and {extents[label]}"
            raise ShapeError(f"einsum '{subscripts}': {what}")
    access = [Access(unique.index(label)) for label in labels]
    return unique, build.viewed(node, tuple(extents[label] for label in unique), access)


def _without_ones(labels: tuple[str, ...], node: Node, extents: dict[str, int]) -> tuple[tuple[str, ...], Node]:
    """Return a node without axes of length 1 that broadcast against longer ones of the same index."""
    ones = [axis for axis, label in enumerate(labels) if node.kind.shape[axis] == 1 and extents[label] != 1]
    if not ones:
        return labels, node
    return tuple(label for axis, label in enumerate(labels) if axis not in ones), build.squeezed(node, ones)


def cross(
    a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Array:
    """Return cross products of vectors of three elements; the other axes broadcast.  Lazy.

    axisa, axisb : the axes of the vectors.   axisc : the axis of the products.   axis : sets all three.
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = moveaxis(asarray(a), axisa, -1), moveaxis(asarray(b), axisb, -1)
    if x.shape[-1] != 3 or y.shape[-1] != 3:
        raise ShapeError(f"cross: both arrays have 3 elements along the axis, not {x.shape[-1]} and {y.shape[-1]}")
    (x0, x1, x2), (y0, y1, y2) = ([each[..., k] for k in range(3)] for each in (x, y))
    return moveaxis(stack([x1 * y2 - x2 * y1, x2 * y0 - x0 * y2, x0 * y1 - x1 * y0], axis=-1), -1, axisc)
