"""Sparse matrices without entries: what products of a pattern would move, for `--predict --abstract`.

A plan needs the number of entries of each process, and how many far columns each process has of each other one.  For
some kinds of patterns these follow from the shape and the number of entries, so a matrix of any size is priced without
being made:

uniform     places at random: a process's rows reach a column unless each of them misses it
mesh        a stencil on the nodes of a mesh, dealt in ranges of nodes: the layers beside a range
bricks      the same mesh dealt in boxes of the least surface (`partition.bricks`): the faces of the boxes
power law   few columns with many entries, at random positions: column k of the most used has a share of k^(-1/(γ-1))

Numbers of far columns are expectations of uniform and power-law patterns; of meshes they are exact, but for the ends of
rows of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import ceil, prod
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from bsp.arrays.errors import ArrayError
from bsp.arrays.execution.world import world
from bsp.arrays.expressions.layout import automatic
from bsp.arrays.procedures import made_of
from bsp.arrays.sparse.array import SparseArray
from bsp.arrays.sparse.creation import columns_like
from bsp.arrays.sparse.pattern import Bounds, Far, FarExchange, Outline, Pattern, even
from bsp.arrays.typing import DTypeLike
from bsp.transport.header import digest

KINDS = ("uniform", "mesh", "bricks", "power law")
_BINS = 4096  # of the columns of a power law, in which all are counted as one

_modelled: WeakValueDictionary[Any, FarExchange] = WeakValueDictionary()


def model(
    shape: tuple[int, int], nnz: int, pattern: str = "uniform", *, mesh: Sequence[int] | None = None,
    exponent: float = 2.1, dtype: DTypeLike = float,
) -> SparseArray:  # fmt: skip
    """Return a sparse array of so many entries that has no places and values, for runs without values.

    pattern : "uniform", "mesh", "bricks" or "power law".
    mesh : the lengths of the mesh's axes; by default equal ones, of 1, 2 or 3 axes for up to 3, 5 or more entries a
        row.  A node has its neighbours along each axis, or, if there are more entries than that, all around it.
    exponent : γ of the power law, above 2: a column has d entries with a probability like d^-γ.
    Products, sums and all that is lazy are planned and priced.  Left out is what happens once: the supersteps that make
    the matrix, and the exchange of indices with its first product.  What needs the entries' places raises ArrayError.
    Raises ArrayError in a run with values.
    """
    here = world()
    if not here.abstract:
        raise ArrayError(
            "model: it has no entries, and is for runs without values only, bsprun --predict --abstract; "
            "sparse.random or sparse.diags make matrices"
        )
    lengths = None if mesh is None else tuple(int(each) for each in mesh)
    key = ((int(shape[0]), int(shape[1])), int(nnz), pattern, lengths, exponent, here.nprocs)
    exchange = _modelled.get(key)
    if exchange is None:
        exchange = _modelled[key] = _exchange(*key)
    return _of_exchange(exchange, np.dtype(dtype))


class ModelPattern(Pattern):
    """A pattern of which only the numbers of rows, entries and far columns are known."""

    def has_places(self) -> None:
        """Raise ArrayError."""
        raise ArrayError("a modelled matrix has no places of entries: it has products with dense arrays, and sums")


def _of_exchange(exchange: FarExchange, dtype: np.dtype[Any]) -> SparseArray:
    here, outline = world(), exchange.outline
    pid, count = here.pid, int(outline.counts[here.pid])
    small = np.dtype(np.int32 if max(outline.shape) < 2**31 else np.int64)
    rows = outline.rows[pid + 1] - outline.rows[pid]
    pattern = ModelPattern(outline, here.empty((rows + 1,), small), here.empty((count,), small), pid)
    sent, received = exchange.traffic()
    pattern._far = Far(exchange, here.empty((int(received[pid]),), small), here.empty((int(sent[pid]),), small), pid)
    layout = outline.lines["entries"]
    at = (pid if here.nprocs > 1 else 0,)
    entries = made_of((outline.entries[-1],), dtype, layout, {at: here.empty((count,), dtype)})
    return SparseArray(pattern, entries._node)


def _exchange(
    shape: tuple[int, int], nnz: int, pattern: str, mesh: tuple[int, ...] | None, exponent: float, nprocs: int
) -> FarExchange:
    """Return the exchange of a modelled pattern, whose outline has the shares of rows and entries."""
    n, m = shape
    if pattern not in KINDS:
        raise ArrayError(f"model(pattern={pattern!r}): {', '.join(KINDS)}")
    if not 0 <= nnz <= n * m:
        raise ArrayError(f"model: {nnz} entries in a matrix of shape {shape}")
    if exponent <= 2:
        raise ArrayError(f"model(exponent={exponent}): above 2, or the columns have no mean")
    if pattern in ("mesh", "bricks"):
        lengths = _lengths(n, nnz, mesh)
        if n != m or prod(lengths) != n:
            raise ArrayError(f"model: a mesh of {'x'.join(map(str, lengths))} nodes and shape {shape} do not fit")
        directions = _stencil(len(lengths), nnz / max(n, 1))
        rows, counts = (_slabs if pattern == "mesh" else _boxes)(lengths, directions, nprocs)
    else:
        rows = even(n, nprocs)
        reached = _reached(n, m, nnz, np.diff(rows), exponent if pattern == "power law" else None)
        shares = np.diff(columns_like(rows, shape)) / max(m, 1)
        counts = np.rint(shares[:, None] * reached).astype(np.int64)  # by owner, then reader
    np.fill_diagonal(counts, 0)
    columns = columns_like(rows, shape)
    entries = tuple(nnz * bound // max(n, 1) for bound in rows)
    name = digest(shape, nnz, pattern, mesh, exponent, nprocs)
    dest, source = np.nonzero(counts.T)
    return FarExchange(Outline(rows, columns, entries, name), source, dest, counts[source, dest])


def _reached(n: int, m: int, nnz: int, rows: np.ndarray, exponent: float | None) -> np.ndarray:
    """Return the expected number of distinct columns in which each process has entries.

    rows : the number of rows of each process.
    exponent : of a power law; None: all columns have as many entries.
    """
    if not n * m:
        return np.zeros(len(rows))
    if exponent is None:
        per, width = np.array([nnz / m]), np.array([float(m)])
    else:
        ends = np.unique(np.concatenate([[0], np.geomspace(1, m, _BINS).astype(np.int64)]))
        width = np.diff(ends).astype(float)
        share = np.diff(ends ** (1 - 1 / (exponent - 1.0)))
        per = np.minimum(nnz * share / share.sum() / width, n)  # entries of a column
    missed = np.power(np.maximum(1 - per / n, 0.0)[:, None], rows)
    return np.asarray((width[:, None] * (1 - missed)).sum(axis=0))


# -------------------------------------------------------------------------------------- meshes


def _lengths(n: int, nnz: int, mesh: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the lengths of a mesh's axes."""
    if mesh is not None:
        return mesh
    per = ceil(nnz / max(n, 1))
    axes = 1 if per <= 3 else 2 if per <= 5 else 3
    side = round(n ** (1 / axes))
    return (side,) * axes


def _stencil(axes: int, per: float) -> list[tuple[int, ...]]:
    """Return the steps from a node to its neighbours: along the axes, or all around."""
    around = [each for each in product((-1, 0, 1), repeat=axes) if any(each)]
    along = [each for each in around if sum(map(abs, each)) == 1]
    return along if per <= len(along) + 1 else around


def _slabs(
    lengths: tuple[int, ...], directions: list[tuple[int, ...]], nprocs: int
) -> tuple[Bounds, np.ndarray]:  # fmt: skip
    """Return the bounds of ranges of a mesh's nodes, and how many nodes of each one (row) each other needs."""
    rows = even(prod(lengths), nprocs)
    strides = [prod(lengths[axis + 1 :]) for axis in range(len(lengths))]
    offsets = sorted({sum(step * stride for step, stride in zip(each, strides, strict=True)) for each in directions})
    counts = np.zeros((nprocs, nprocs), np.int64)
    bounds = np.array(rows)
    for reader in range(nprocs):
        low, high, counted = rows[reader], rows[reader + 1], 0  # nodes below `counted` are
        for each in offsets if low < high else ():
            first, last = max(low + each, counted), min(high + each, rows[-1])
            if first < last:
                counts[:, reader] += np.maximum(np.minimum(bounds[1:], last) - np.maximum(bounds[:-1], first), 0)
                counted = last
    return rows, counts


def _boxes(
    lengths: tuple[int, ...], directions: list[tuple[int, ...]], nprocs: int
) -> tuple[Bounds, np.ndarray]:  # fmt: skip
    """Return the bounds of boxes of a mesh's nodes, and how many nodes of each one (row) each other needs."""
    grid = automatic(lengths, nprocs, False).grid
    extents = [np.diff(even(length, count)) for length, count in zip(lengths, grid, strict=True)]
    at = np.indices(grid).reshape(len(grid), -1)
    sizes = [extent[where] for extent, where in zip(extents, at, strict=True)]
    counts = np.zeros((nprocs, nprocs), np.int64)
    for each in directions:
        owner = at + np.array(each)[:, None]
        there = np.all((owner >= 0) & (owner < np.array(grid)[:, None]), axis=0)
        face = np.prod([np.ones_like(size) if step else size for step, size in zip(each, sizes, strict=True)], axis=0)
        np.add.at(counts, (np.ravel_multi_index(owner[:, there], grid), np.flatnonzero(there)), face[there])
    rows = (0, *(int(each) for each in np.cumsum(np.prod(sizes, axis=0))))
    return rows, counts
